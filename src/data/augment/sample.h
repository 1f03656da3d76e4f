/* From the bytes of a record to pixels and a label. */
#ifndef CR_DATA_SAMPLE_H
#define CR_DATA_SAMPLE_H

#include "data/augment/transformer.h"
#include "data/db/datum.h"
#include "data/image/image.h"

/* A record in the making; each decoding thread has its own. Zero-initialise ({0}); the memory
 * inside is used again by the next record. */
typedef struct cr_sample {
  cr_pixels pixels; /* points into the record's bytes, `image` or `floats` */
  int label;
  bool encoded;
  cr_picture picture; /* where it is encoded */
  cr_image image;
  float *floats;
  size_t float_capacity;
} cr_sample;

/* Parses a Datum, and the header of the picture where it is encoded: label and extents of the
 * pixels are known then. The bytes stay until the pixels are not needed any more. Errors:
 * CREMA_E_CORRUPT and those of cr_picture_open. */
crema_status cr_sample_open(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) CREMA_MUST_USE;

/* Decodes what was opened, once: all pixels (`wanted` NULL), or at least those of a part
 * (sample->pixels.part). The pixels live until the next record is opened. Errors: those of
 * cr_picture_decode. */
crema_status cr_sample_decode(cr_sample *sample, const cr_image_part *wanted) CREMA_MUST_USE;

/* Opens and decodes all. */
crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_sample_free(cr_sample *sample);

#endif
