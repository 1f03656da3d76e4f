/* An arena: many small blocks that are freed together. */
#ifndef CR_CORE_ARENA_H
#define CR_CORE_ARENA_H

#include <stddef.h>

#include "crema/status.h"

struct cr_arena_chunk;

/* Zero-initialise ({0}) to start. May be used by one thread at a time. */
typedef struct cr_arena {
  struct cr_arena_chunk *chunk; /* newest first */
  size_t used;                  /* bytes handed out of the newest chunk */
  size_t total;                 /* bytes handed out in all */
} cr_arena;

/* A zero-filled block of `size` bytes (0 is legal), aligned for any type. It lives until
 * cr_arena_free. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_arena_alloc(cr_arena *arena, size_t size, void **out) CREMA_MUST_USE;

/* A copy of `text`, NUL-terminated. */
crema_status cr_arena_text(cr_arena *arena, const char *text, char **out) CREMA_MUST_USE;

/* Frees all blocks and zeroes the struct. */
void cr_arena_free(cr_arena *arena);

#endif
