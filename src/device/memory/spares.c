#include "device/memory/spares.h"

#include <stdlib.h>
#include <string.h>

#include "core/log.h"

enum {
  MAX_BLOCKS = 16,
  MAX_EXCESS = 4 /* times as large as what is wanted */
};

/* The allocator hands out smaller blocks again by itself. */
#define SPARES_FROM ((size_t)32 << 10)

struct cr_spares {
  int users; /* begins without their ends */
  int blocks;
  size_t bytes;               /* of the blocks */
  size_t largest;             /* block that was given */
  cr_block block[MAX_BLOCKS]; /* oldest first */
};

static void release(cr_block *block) {
  if (cr_block_free(block) != CREMA_OK) cr_log_error("%s", crema_error_text());
}

static cr_block remove_block(cr_spares *spares, int i) {
  cr_block block = spares->block[i];
  --spares->blocks;
  spares->bytes -= block.bytes;
  memmove(&spares->block[i], &spares->block[i + 1],
          (size_t)(spares->blocks - i) * sizeof spares->block[0]);
  return block;
}

static void release_oldest(cr_spares *spares) {
  cr_block block = remove_block(spares, 0);
  release(&block);
}

void cr_spares_begin(crema_context *context) {
  if (context->spares == NULL) context->spares = calloc(1, sizeof *context->spares);
  if (context->spares != NULL) ++context->spares->users;
}

void cr_spares_end(crema_context *context) {
  cr_spares *spares = context->spares;
  if (spares == NULL || --spares->users > 0) return;
  while (spares->blocks > 0) release_oldest(spares);
  free(spares);
  context->spares = NULL;
}

void cr_spares_give(crema_context *context, cr_block *block) {
  cr_spares *spares = context->spares;
  if (spares == NULL || block->bytes < SPARES_FROM) {
    release(block);
    return;
  }
  if (block->bytes > spares->largest) spares->largest = block->bytes;
  while (spares->blocks == MAX_BLOCKS ||
         (spares->blocks > 0 && cr_spares_bytes(context) + block->bytes > 2 * spares->largest)) {
    release_oldest(spares);
  }
  spares->block[spares->blocks++] = *block;
  spares->bytes += block->bytes;
  *block = (cr_block){0};
}

bool cr_spares_take(crema_context *context, size_t bytes, cr_block *out) {
  cr_spares *spares = context->spares;
  int best = -1;
  for (int i = 0; spares != NULL && i < spares->blocks; ++i) {
    size_t found = spares->block[i].bytes;
    if (found < bytes || found / MAX_EXCESS > bytes) continue;
    if (best < 0 || found < spares->block[best].bytes) best = i;
  }
  if (best < 0) return false;
  *out = remove_block(spares, best);
  return true;
}

size_t cr_spares_bytes(const crema_context *context) {
  return context->spares == NULL ? 0 : context->spares->bytes;
}
