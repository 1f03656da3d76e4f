#include "data/pipeline/order.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/rng.h"

/* Fisher and Yates. */
static void permute(cr_order *order) {
  cr_mt19937 rng;
  uint32_t draw[4];
  cr_philox(order->key, 0, order->epoch, draw);
  cr_mt19937_seed(&rng, draw[0]);
  for (size_t i = 0; i < order->count; ++i) order->permutation[i] = (uint32_t)i;
  for (size_t i = order->count; i > 1; --i) {
    size_t k = cr_mt19937_below(&rng, (uint32_t)i);
    uint32_t swap = order->permutation[k];
    order->permutation[k] = order->permutation[i - 1];
    order->permutation[i - 1] = swap;
  }
}

crema_status cr_order_at(cr_order *order, uint64_t index, size_t *out) {
  if (order->count < 1 || order->count > UINT32_MAX) {
    return cr_fail(CREMA_E_RANGE, "%zu items cannot be put in order", order->count);
  }
  size_t at = (size_t)(index % order->count);
  *out = at;
  if (!order->shuffle) return CREMA_OK;
  uint64_t epoch = index / order->count;
  if (order->permutation == NULL) CR_TRY(CR_NEW(order->permutation, order->count, "a permutation"));
  if (!order->drawn || order->epoch != epoch) {
    order->epoch = epoch;
    order->drawn = true;
    permute(order);
  }
  *out = order->permutation[at];
  return CREMA_OK;
}

void cr_order_free(cr_order *order) {
  free(order->permutation);
  order->permutation = NULL;
  order->drawn = false;
}
