#include "core/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { CHUNK_BYTES = 16384, ALIGNMENT = 16 };

/* The blocks follow the header; its size keeps them aligned. */
typedef struct cr_arena_chunk {
  struct cr_arena_chunk *next;
  size_t capacity;
} chunk;
_Static_assert(sizeof(chunk) % ALIGNMENT == 0, "blocks behind the header are aligned");

static crema_status add_chunk(cr_arena *arena, size_t bytes) {
  size_t capacity = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
  chunk *fresh = calloc(1, sizeof *fresh + capacity);
  if (fresh == NULL) return cr_fail_memory(sizeof *fresh + capacity, "an arena");
  fresh->capacity = capacity;
  fresh->next = arena->chunk;
  arena->chunk = fresh;
  arena->used = 0;
  return CREMA_OK;
}

crema_status cr_arena_alloc(cr_arena *arena, size_t size, void **out) {
  if (size > SIZE_MAX / 2) return cr_fail_memory(size, "an arena");
  size_t bytes = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (bytes == 0) bytes = ALIGNMENT;
  if (arena->chunk == NULL || bytes > arena->chunk->capacity - arena->used) {
    CR_TRY(add_chunk(arena, bytes));
  }
  *out = (char *)(arena->chunk + 1) + arena->used;
  arena->used += bytes;
  arena->total += bytes;
  return CREMA_OK;
}

crema_status cr_arena_text(cr_arena *arena, const char *text, char **out) {
  size_t size = strlen(text) + 1;
  void *copy = NULL;
  CR_TRY(cr_arena_alloc(arena, size, &copy));
  memcpy(copy, text, size);
  *out = copy;
  return CREMA_OK;
}

void cr_arena_free(cr_arena *arena) {
  for (chunk *c = arena->chunk; c != NULL;) {
    chunk *next = c->next;
    free(c);
    c = next;
  }
  *arena = (cr_arena){0};
}
