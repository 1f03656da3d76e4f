#include "layers/detection/average_precision.h"

#include <string.h>

#include "core/fail.h"

crema_status cr_precision_begin(cr_precision *precision, size_t objects) {
  CR_TRY(cr_buffer_reserve(&precision->taken, objects + 1));
  memset(precision->taken.data, 0, objects);
  return CREMA_OK;
}

void cr_precision_clear(cr_precision *precision) {
  cr_buffer_clear(&precision->object);
}

crema_status cr_precision_add(cr_precision *precision, size_t object) {
  return cr_buffer_append(&precision->object, &object, sizeof object);
}

cr_positive cr_precision_classify(cr_precision *precision, const void *detection) {
  const size_t *object = (const size_t *)(const void *)precision->object.data;
  const size_t count = precision->object.size / sizeof *object;
  size_t best = 0;
  double most = -1;
  for (size_t i = 0; i < count; ++i) {
    const double overlap = precision->overlap(detection, object[i]);
    if (overlap > most) best = object[i], most = overlap;
  }
  if (!(most >= 0) || most < precision->threshold) return CR_FALSE_POSITIVE;
  if (precision->is_uncounted != NULL && precision->is_uncounted(detection, best))
    return CR_UNCOUNTED;
  if (precision->taken.data[best]) return CR_FALSE_POSITIVE;
  precision->taken.data[best] = 1;
  return CR_TRUE_POSITIVE;
}

void cr_precision_free(cr_precision *precision) {
  cr_buffer_free(&precision->object);
  cr_buffer_free(&precision->taken);
}
