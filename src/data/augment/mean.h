/* Mean images, as compute_image_mean writes them for mean_file. */
#ifndef CR_DATA_MEAN_H
#define CR_DATA_MEAN_H

#include <stddef.h>

#include "crema/status.h"

/* One value per channel and pixel, channel-major. */
typedef struct cr_mean {
  int channels, height, width;
  float *values; /* channels * height * width */
} cr_mean;

/* Reads a BlobProto file with extents (channels, height, width), with or without a leading 1,
 * or (1, channels, frames, height, width), whose channels and frames become channels. Free with
 * cr_mean_free. Errors name the path: CREMA_E_SHAPE, CREMA_E_CORRUPT, CREMA_E_NOT_FOUND. */
crema_status cr_mean_read(const char *path, cr_mean *out) CREMA_MUST_USE;

/* Writes a mean image with four extents (1, channels, height, width), as every Caffe reads it. */
crema_status cr_mean_write(const char *path, const cr_mean *mean) CREMA_MUST_USE;

/* Frees the values and zeroes the struct. */
void cr_mean_free(cr_mean *mean);

#endif
