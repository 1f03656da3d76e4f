#include "layers/detection/judge.h"

#include <string.h>

#include "core/fail.h"

crema_status cr_judge_begin(cr_judge *judge, size_t objects) {
  CR_TRY(cr_buffer_reserve(&judge->taken, objects + 1));
  memset(judge->taken.data, 0, objects);
  return CREMA_OK;
}

cr_verdict cr_judge_one(cr_judge *judge, const void *detection, size_t first, size_t count) {
  const size_t end = first + count;
  size_t best = end;
  double most = -1;
  for (size_t i = first; i < end; ++i) {
    const double overlap = judge->overlap(detection, i);
    if (overlap > most) best = i, most = overlap;
  }
  if (best == end || most < judge->threshold) return CR_WRONG;
  if (judge->is_uncounted != NULL && judge->is_uncounted(detection, best)) return CR_UNCOUNTED;
  if (judge->taken.data[best]) return CR_WRONG;
  judge->taken.data[best] = 1;
  return CR_RIGHT;
}

void cr_judge_free(cr_judge *judge) {
  cr_buffer_free(&judge->taken);
}
