/* From the bytes of a record to pixels and a label. */
#ifndef CR_DATA_SAMPLE_H
#define CR_DATA_SAMPLE_H

#include "data/augment/transformer.h"
#include "data/db/datum.h"
#include "data/image/image.h"

/* A record in decoding, one for each thread. Zero-initialise ({0}); the next record reuses its
 * memory. */
typedef struct cr_sample {
  cr_pixels pixels; /* points into the record's bytes, `image` or `floats` */
  int label;
  bool encoded;
  cr_picture picture; /* of an encoded record */
  cr_image image;
  cr_buffer floats;
} cr_sample;

/* Parses a Datum and, if it is encoded, the header of its image: sets the label and the extents of
 * the pixels. The bytes must outlive the pixels. Errors: CREMA_E_CORRUPT, errors of
 * cr_picture_open. */
crema_status cr_sample_open(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) CREMA_MUST_USE;

/* Decodes the opened record once: all pixels (`wanted` NULL), or at least a part
 * (sample->pixels.part). The pixels are valid until the next record is opened. Errors: see
 * cr_picture_decode. */
crema_status cr_sample_decode(cr_sample *sample, const cr_image_part *wanted) CREMA_MUST_USE;

/* Opens and decodes all. */
crema_status cr_sample_load(cr_sample *sample, const uint8_t *bytes, size_t size,
                            cr_image_color color) CREMA_MUST_USE;

/* Frees the memory and zeroes the struct. */
void cr_sample_free(cr_sample *sample);

#endif
