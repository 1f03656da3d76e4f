#include "layers/detection/judge.h"

#include <string.h>

#include "core/fail.h"

crema_status cr_judge_begin(cr_judge *judge, size_t objects) {
  CR_TRY(cr_buffer_reserve(&judge->taken, objects + 1));
  memset(judge->taken.data, 0, objects);
  return CREMA_OK;
}

void cr_judge_clear(cr_judge *judge) {
  cr_buffer_clear(&judge->object);
}

crema_status cr_judge_add(cr_judge *judge, size_t object) {
  return cr_buffer_append(&judge->object, &object, sizeof object);
}

cr_verdict cr_judge_one(cr_judge *judge, const void *detection) {
  const size_t *object = (const size_t *)(const void *)judge->object.data;
  const size_t count = judge->object.size / sizeof *object;
  size_t best = 0;
  double most = -1;
  for (size_t i = 0; i < count; ++i) {
    const double overlap = judge->overlap(detection, object[i]);
    if (overlap > most) best = object[i], most = overlap;
  }
  if (!(most >= 0) || most < judge->threshold) return CR_WRONG;
  if (judge->is_uncounted != NULL && judge->is_uncounted(detection, best)) return CR_UNCOUNTED;
  if (judge->taken.data[best]) return CR_WRONG;
  judge->taken.data[best] = 1;
  return CR_RIGHT;
}

void cr_judge_free(cr_judge *judge) {
  cr_buffer_free(&judge->object);
  cr_buffer_free(&judge->taken);
}
