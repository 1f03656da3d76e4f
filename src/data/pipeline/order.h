/* The order of a fixed number of items in each epoch. */
#ifndef CR_DATA_ORDER_H
#define CR_DATA_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "crema/status.h"

/* Zero-initialise, then set key, count and shuffle. */
typedef struct cr_order {
  uint64_t key; /* of the random stream */
  size_t count; /* 1 to 2^32 - 1 */
  bool shuffle; /* each epoch has its own permutation; else items are in order */
  bool drawn;   /* `permutation` belongs to `epoch` */
  uint64_t epoch;
  uint32_t *permutation; /* NULL until its first use */
} cr_order;

/* Item number index % count of epoch index / count, a function of key, count and index. Errors:
 * CREMA_E_NO_MEMORY, CREMA_E_RANGE. */
crema_status cr_order_at(cr_order *order, uint64_t index, size_t *out) CREMA_MUST_USE;

/* Frees the permutation; key, count and shuffle stay. */
void cr_order_free(cr_order *order);

#endif
