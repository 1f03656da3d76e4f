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
  for (size_t i = 0; i < order->count; ++i) order->place[i] = (uint32_t)i;
  for (size_t i = order->count; i > 1; --i) {
    size_t k = cr_mt19937_below(&rng, (uint32_t)i);
    uint32_t swap = order->place[k];
    order->place[k] = order->place[i - 1];
    order->place[i - 1] = swap;
  }
}

crema_status cr_order_at(cr_order *order, uint64_t index, size_t *out) {
  if (order->count < 1 || order->count > UINT32_MAX) {
    return cr_fail(CREMA_E_RANGE, "%zu things cannot be put in order", order->count);
  }
  size_t at = (size_t)(index % order->count);
  *out = at;
  if (!order->shuffle) return CREMA_OK;
  uint64_t epoch = index / order->count;
  if (order->place == NULL) {
    order->place = malloc(order->count * sizeof *order->place);
    if (order->place == NULL) {
      return cr_fail_memory(order->count * sizeof *order->place, "a permutation");
    }
  }
  if (!order->drawn || order->epoch != epoch) {
    order->epoch = epoch;
    order->drawn = true;
    permute(order);
  }
  *out = order->place[at];
  return CREMA_OK;
}

void cr_order_free(cr_order *order) {
  free(order->place);
  order->place = NULL;
  order->drawn = false;
}
