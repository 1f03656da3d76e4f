/* Which detections are right, for mean average precision (Everingham et al., "The PASCAL visual
 * object classes (VOC) challenge", 2010): the best first, one is right if its best overlap with an
 * object of its image and class reaches a threshold and no better one has that object. */
#ifndef CR_LAYERS_DETECTION_JUDGE_H
#define CR_LAYERS_DETECTION_JUDGE_H

#include <stdbool.h>

#include "core/buffer.h"

typedef enum cr_verdict { CR_WRONG, CR_RIGHT, CR_UNCOUNTED } cr_verdict;

/* Zero-initialise. `detection` is the caller's, whose functions know what it is. */
typedef struct cr_judge {
  double threshold;
  double (*overlap)(const void *detection, size_t object);
  /* Whether a detection of that object is neither right nor wrong. NULL: none is. */
  bool (*is_uncounted)(const void *detection, size_t object);
  cr_buffer taken;  /* a byte for each object: a detection has it */
  cr_buffer object; /* size_t: those of the image and class */
} cr_judge;

/* So many objects, which no detection has. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_judge_begin(cr_judge *judge, size_t objects) CREMA_MUST_USE;

/* Begins with an image and class: the objects of both follow. */
void cr_judge_clear(cr_judge *judge);
crema_status cr_judge_add(cr_judge *judge, size_t object) CREMA_MUST_USE;

/* Of the detections of this image and class, the better ones are to be judged first. */
cr_verdict cr_judge_one(cr_judge *judge, const void *detection);

void cr_judge_free(cr_judge *judge);

#endif
