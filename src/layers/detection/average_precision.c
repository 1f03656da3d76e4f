#include "layers/detection/average_precision.h"

#include <string.h>

#include "core/fail.h"

crema_status cr_precision_begin(cr_precision *precision, size_t objects) {
  CR_TRY(cr_buffer_reserve(&precision->taken, objects + 1));
  memset(precision->taken.data, 0, objects);
  return CREMA_OK;
}

cr_positive cr_precision_classify(cr_precision *precision, const cr_truths *truths, size_t first,
                                  size_t count, int32_t label, cr_box box) {
  const cr_truth *truth = truths->at;
  size_t best = 0;
  double most = -1;
  for (size_t i = first; i < first + count; ++i) {
    if (truth[i].label != label) continue;
    const double overlap = (double)cr_box_overlap(box, truth[i].box);
    if (overlap > most) best = i, most = overlap;
  }
  if (most < 0 || most < precision->threshold) return CR_FALSE_POSITIVE;
  if (precision->omits_difficult && truth[best].difficult) return CR_UNCOUNTED;
  if (precision->taken.data[best]) return CR_FALSE_POSITIVE;
  precision->taken.data[best] = 1;
  return CR_TRUE_POSITIVE;
}
