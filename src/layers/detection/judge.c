#include "layers/detection/judge.h"

#include "core/fail.h"

crema_status cr_judge_begin(cr_judge *judge, size_t objects) {
  cr_buffer_clear(&judge->taken);
  for (size_t i = 0; i < objects; ++i) CR_TRY(cr_buffer_append(&judge->taken, "", 1));
  return CREMA_OK;
}

cr_verdict cr_judge_one(cr_judge *judge, const void *detection) {
  const size_t objects = judge->taken.size;
  size_t best = objects;
  double most = -1;
  for (size_t i = 0; i < objects; ++i) {
    const double overlap = judge->overlap(detection, i);
    if (overlap > most) best = i, most = overlap;
  }
  if (best == objects || most < judge->threshold) return CR_WRONG;
  if (judge->is_uncounted != NULL && judge->is_uncounted(detection, best)) return CR_UNCOUNTED;
  if (judge->taken.data[best]) return CR_WRONG;
  judge->taken.data[best] = 1;
  return CR_RIGHT;
}

void cr_judge_free(cr_judge *judge) {
  cr_buffer_free(&judge->taken);
}
