/* Image files as the Datum of a record, for convert_imageset and convert_annoset. */
#ifndef CREMA_TOOLS_IMAGE_RECORD_H
#define CREMA_TOOLS_IMAGE_RECORD_H

#include "data/db/datum.h"
#include "data/image/image.h"

typedef struct image_record_options {
  bool gray, check_size, exact_resize;
  bool encoded;   /* store image files instead of pixels */
  bool keep_file; /* with `encoded`: whatever its kind and channels, unless another option asks */
  const char *encode_type;             /* "jpg", "png"; "": as the file's name says */
  int64_t resize_width, resize_height; /* 0: none */
  int64_t min_dim, max_dim;            /* 0: none; otherwise bounds of the sides, as in Caffe-SSD */
} image_record_options;

/* Zero-initialise all but the first two members. */
typedef struct image_recorder {
  const image_record_options *options;
  const char *root;
  int height, width; /* of the last image in its file */
  cr_image raw, resized;
  cr_buffer path, file, encoded;
  uint8_t *planes; /* channel-major copy of the pixels */
  size_t plane_capacity;
  size_t first_count; /* values of the first image */
} image_recorder;

/* Rejects sizes that contradict each other. Errors: CREMA_E_ARGUMENT. */
crema_status image_record_check(const image_record_options *options) CREMA_MUST_USE;

/* Reads the file `name` under `root` and fills *datum, which points into the recorder's memory.
 * Decodes the file as a check even if its bytes are kept. *values (may be NULL) becomes the
 * record's image. Errors: as cr_file_read and cr_image_decode; CREMA_E_SHAPE of check_size. */
crema_status image_record_make(image_recorder *r, const char *name, cr_datum *datum,
                               const cr_image **values) CREMA_MUST_USE;

void image_recorder_free(image_recorder *r);

/* Fisher and Yates. `seed` below 0: another order each time. */
void image_record_shuffle(void *entries, size_t count, size_t size, int64_t seed);

#endif
