/* From the bytes of a record to pixels and a label. */
#ifndef CR_DATA_SAMPLE_H
#define CR_DATA_SAMPLE_H

#include "data/db/datum.h"
#include "data/image/image.h"
#include "data/augment/transformer.h"

/* A record in the making; each decoding thread has its own. Zero-initialise ({0}); the memory
 * inside is used again by the next record. */
typedef struct cr_sample {
  cr_pixels pixels; /* points into the record's bytes, `image` or `floats` */
  int label;
  cr_image image;
  float *floats;
  size_t float_capacity;
} cr_sample;

/* Parses a Datum and decodes it when it is encoded (to `color`). The pixels live as long as the
 * bytes and until the next call. Errors: CREMA_E_CORRUPT and those of cr_image_decode. */
crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) CREMA_MUST_USE;

/* As cr_sample_load for sample number `index`, but may leave out pixels that `transformer` will not
 * look at (sample->pixels.part). */
crema_status cr_sample_load_for(cr_sample *sample, const uint8_t *bytes, size_t size,
                                cr_image_color color, const cr_transformer *transformer,
                                uint64_t index) CREMA_MUST_USE;

/* Only the extents (channels, height, width) of a record, without decoding its pixels. */
crema_status cr_sample_probe(const uint8_t *bytes, size_t size, cr_image_color color,
                             int out[3]) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_sample_free(cr_sample *sample);

#endif
