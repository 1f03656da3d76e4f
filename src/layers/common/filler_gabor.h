/* Banks of Gabor filters for a first convolution, as Intel Caffe's filler "gabor" has them. */
#ifndef CR_LAYERS_FILLER_GABOR_H
#define CR_LAYERS_FILLER_GABOR_H

#include <stdbool.h>

#include "crema/blob.h"

/* Whether there is a bank of filters of that shape: 32 x 3 x 5 x 5, 64 x 3 x 7 x 7, 64 x 3 x 3 x 3
 * or 96 x 3 x 11 x 11. */
bool cr_gabor_has(const crema_shape *shape);

/* The value at `index` of the bank of that shape, which there is, in row-major order. */
double cr_gabor_value(const crema_shape *shape, int64_t index);

#endif
