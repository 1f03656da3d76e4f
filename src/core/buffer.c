#include "core/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/utf8_bom.h"

crema_status cr_buffer_reserve(cr_buffer *buffer, size_t capacity) {
  if (capacity == SIZE_MAX) return cr_fail_memory(capacity, "a buffer");
  if (buffer->data != NULL && capacity <= buffer->capacity) return CREMA_OK;
  size_t grown = buffer->capacity < 64 ? 64 : buffer->capacity;
  while (grown < capacity) grown = grown > SIZE_MAX / 4 ? capacity : grown + grown / 2;
  char *data = realloc(buffer->data, grown + 1);
  if (data == NULL) return cr_fail_memory(grown + 1, "a buffer");
  if (buffer->data == NULL) data[0] = '\0';
  buffer->data = data;
  buffer->capacity = grown;
  return CREMA_OK;
}

crema_status cr_buffer_append(cr_buffer *buffer, const void *bytes, size_t size) {
  if (size > SIZE_MAX - 1 - buffer->size) return cr_fail_memory(size, "a buffer");
  CR_TRY(cr_buffer_reserve(buffer, buffer->size + size));
  if (size > 0) memcpy(buffer->data + buffer->size, bytes, size);
  buffer->size += size;
  buffer->data[buffer->size] = '\0';
  return CREMA_OK;
}

crema_status cr_buffer_print(cr_buffer *buffer, const char *fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  int need = vsnprintf(NULL, 0, fmt, args);
  va_end(args);
  crema_status status = CREMA_OK;
  if (need < 0) status = cr_fail(CREMA_E_ARGUMENT, "cannot format \"%s\"", fmt);
  if (status == CREMA_OK) status = cr_buffer_reserve(buffer, buffer->size + (size_t)need);
  if (status == CREMA_OK) {
    vsnprintf(buffer->data + buffer->size, (size_t)need + 1, fmt, again);
    buffer->size += (size_t)need;
  }
  va_end(again);
  return status;
}

crema_status cr_buffer_make_text(cr_buffer *buffer, const char *path) {
  const size_t mark = cr_utf8_bom(buffer->data, buffer->size);
  if (mark > 0) {
    buffer->size -= mark;
    memmove(buffer->data, buffer->data + mark, buffer->size + 1);
  }
  const char *zero = buffer->size == 0 ? NULL : memchr(buffer->data, 0, buffer->size);
  if (zero == NULL) return CREMA_OK;
  size_t line = 1;
  for (const char *at = buffer->data; at < zero; ++at) line += *at == '\n';
  return cr_fail_at(CREMA_E_PARSE, &(cr_where){.file = path, .line = line},
                    "a zero byte: the file is not text");
}

void cr_buffer_clear(cr_buffer *buffer) {
  buffer->size = 0;
  if (buffer->data != NULL) buffer->data[0] = '\0';
}

void cr_buffer_free(cr_buffer *buffer) {
  free(buffer->data);
  *buffer = (cr_buffer){0};
}

char *cr_buffer_take(cr_buffer *buffer) {
  char *data = buffer->data;
  *buffer = (cr_buffer){0};
  return data;
}
