/* Pixels as an item of a batch. */
#ifndef CR_DATA_LOAD_PIXELS_H
#define CR_DATA_LOAD_PIXELS_H

#include "data/augment/transformer.h"
#include "data/pipeline/pipeline.h"

/* Transforms the pixels of sample number `sample` into the item's part of top 0, and records the
 * time. Errors: of cr_transformer_shape, cr_load_image (with `advice`) and cr_transformer_run. */
crema_status cr_load_pixels(cr_load *load, const cr_transformer *transformer,
                            const cr_pixels *pixels, uint64_t sample,
                            const char *advice) CREMA_MUST_USE;

#endif
