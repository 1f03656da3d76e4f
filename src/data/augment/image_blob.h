/* An image as values of a blob, for crema_image_load and the preprocessing of deploy files. */
#ifndef CR_DATA_IMAGE_BLOB_H
#define CR_DATA_IMAGE_BLOB_H

#include "crema/preprocessing.h"
#include "data/augment/mean.h"

/* An image: the file `path`, or `size` bytes of a file in memory, or pixels. */
typedef struct cr_image_source {
  const char *path; /* NULL: `bytes` or `pixels` */
  const void *bytes;
  size_t size;
  const crema_pixels *pixels; /* NULL: `path` or `bytes` */
} cr_image_source;

/* Rejects options that contradict each other. Errors: CREMA_E_ARGUMENT. */
crema_status cr_image_options_check(const crema_image_options *options) CREMA_MUST_USE;

/* Puts the image into item `item` of `blob`. `mean` is the content of options->mean_file; NULL if
 * there is no such file. Errors: as crema_image_load. */
crema_status cr_image_to_blob(const cr_image_source *source, const crema_image_options *options,
                              const cr_mean *mean, crema_blob *blob, int64_t item) CREMA_MUST_USE;

#endif
