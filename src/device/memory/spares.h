/* Host memory that was given up during a pass and is handed out again, because the system clears
 * the pages of new memory, which takes longer than many an op on them.
 *
 * A context keeps such blocks from cr_spares_begin to cr_spares_end; in between, what is kept is at
 * most twice the largest block that was given up, which is what a layer's bottom and top need. One
 * thread at a time uses a context. */
#ifndef CR_DEVICE_MEMORY_SPARES_H
#define CR_DEVICE_MEMORY_SPARES_H

#include "device/memory/block.h"

/* Begins and ends may be nested; the outermost end releases all that is kept. Where there is no
 * memory for the list, nothing is kept. */
void cr_spares_begin(crema_context *context);
void cr_spares_end(crema_context *context);

/* Takes over a block of host memory, to keep or to release it. */
void cr_spares_give(crema_context *context, cr_block *block);

/* A block of at least `bytes` bytes, content undefined, which may be up to four times as large.
 * False when there is none. */
bool cr_spares_take(crema_context *context, size_t bytes, cr_block *out);

/* Bytes that are kept now. */
size_t cr_spares_bytes(const crema_context *context);

#endif
