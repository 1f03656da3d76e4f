/* True and false positives, for mean average precision (Everingham et al., "The PASCAL visual
 * object classes (VOC) challenge", 2010). A detection is a true positive if its best overlap with
 * an object of its image and class reaches a threshold and no better detection has that object. */
#ifndef CR_LAYERS_DETECTION_AVERAGE_PRECISION_H
#define CR_LAYERS_DETECTION_AVERAGE_PRECISION_H

#include "layers/detection/geometry/boxes.h"

/* CR_UNCOUNTED: neither, because the object is difficult. */
typedef enum cr_positive { CR_FALSE_POSITIVE, CR_TRUE_POSITIVE, CR_UNCOUNTED } cr_positive;

/* Zero-initialise. */
typedef struct cr_precision {
  double threshold;
  bool omits_difficult;
  cr_buffer taken; /* a byte for each object: a detection has it */
} cr_precision;

/* Begins a batch with this number of objects. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_precision_begin(cr_precision *precision, size_t objects) CREMA_MUST_USE;

/* Classifies a detection of class `label`. The objects of its image are `count` of `truths` from
 * `first` on. Call it for the better detections of an image and class first. */
cr_positive cr_precision_classify(cr_precision *precision, const cr_truths *truths, size_t first,
                                  size_t count, int32_t label, cr_box box);

#endif
