/* Which detections are right, for mean average precision (Everingham et al., "The PASCAL visual
 * object classes (VOC) challenge", 2010): the best first, one is right if its best overlap with an
 * object of its image and class reaches a threshold and no better one has that object. */
#ifndef CR_LAYERS_DETECTION_AVERAGE_PRECISION_H
#define CR_LAYERS_DETECTION_AVERAGE_PRECISION_H

#include <stdbool.h>

#include "core/buffer.h"

typedef enum cr_positive { CR_FALSE_POSITIVE, CR_TRUE_POSITIVE, CR_UNCOUNTED } cr_positive;

/* Zero-initialise. `detection` is the caller's, whose functions know what it is. */
typedef struct cr_precision {
  double threshold;
  double (*overlap)(const void *detection, size_t object);
  /* Whether a detection of that object is neither right nor wrong. NULL: none is. */
  bool (*is_uncounted)(const void *detection, size_t object);
  cr_buffer taken;  /* a byte for each object: a detection has it */
  cr_buffer object; /* size_t: those of the image and class */
} cr_precision;

/* So many objects, which no detection has. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_precision_begin(cr_precision *precision, size_t objects) CREMA_MUST_USE;

/* Begins with an image and class: the objects of both follow. */
void cr_precision_clear(cr_precision *precision);
crema_status cr_precision_add(cr_precision *precision, size_t object) CREMA_MUST_USE;

/* Of the detections of this image and class, the better ones are to be judged first. */
cr_positive cr_precision_classify(cr_precision *precision, const void *detection);

void cr_precision_free(cr_precision *precision);

#endif
