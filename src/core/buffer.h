/* A growing byte buffer; with the text helpers also a string builder. */
#ifndef CR_CORE_BUFFER_H
#define CR_CORE_BUFFER_H

#include <stddef.h>

#include "crema/status.h"

/* `data` is always followed by a NUL that `size` does not count, once anything
 * was appended. Zero-initialise ({0}) to start. */
typedef struct cr_buffer {
  char *data;
  size_t size;
  size_t capacity;
} cr_buffer;

crema_status cr_buffer_reserve(cr_buffer *buffer, size_t capacity) CREMA_MUST_USE;
crema_status cr_buffer_append(cr_buffer *buffer, const void *bytes, size_t size) CREMA_MUST_USE;
crema_status cr_buffer_print(cr_buffer *buffer, const char *fmt, ...) CREMA_MUST_USE
    CREMA_PRINTF(2, 3);

/* Makes text of the content of `path`: drops a UTF-8 BOM. Errors: CREMA_E_PARSE, which names the
 * line, for a zero byte, at which every string function would stop. */
crema_status cr_buffer_make_text(cr_buffer *buffer, const char *path) CREMA_MUST_USE;

/* Empties the buffer but keeps its memory. */
void cr_buffer_clear(cr_buffer *buffer);

/* Frees the memory and zeroes the struct. */
void cr_buffer_free(cr_buffer *buffer);

/* Returns the bytes, NUL-terminated, which the caller frees, and zeroes the struct. NULL if nothing
 * was appended. */
char *cr_buffer_take(cr_buffer *buffer);

#endif
