/* Images as network inputs. */
#ifndef CREMA_IMAGE_H
#define CREMA_IMAGE_H

#include <stdbool.h>

#include "crema/blob.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an image becomes values. Start from crema_image_options_init. */
typedef struct crema_image_options {
  /* Size before the crop; 0: see crema_image_load. */
  int resize_height, resize_width;
  const float *mean;     /* subtracted: one value, or one per channel (blue, green, red) */
  int mean_count;        /* 0: nothing is subtracted */
  const char *mean_file; /* or a mean image (BlobProto) of the size before the crop; else NULL */
  float scale;           /* factor after subtracting */
  /* Decode the whole picture before it is resized. Else a JPEG of at least twice the size is
   * decoded to a half, a quarter or an eighth of its own, which takes less time and averages. */
  bool exact_resize;
} crema_image_options;

/* No resizing, no mean, scale 1, exact_resize false. */
CREMA_API void crema_image_options_init(crema_image_options *options);

/* Reads a JPEG or PNG file into item `item` of `blob`, which has the shape (items, channels,
 * height, width) with 1 (gray) or 3 (blue, green, red) channels. The picture is resized (bilinear)
 * to resize_height x resize_width, then its centre of height x width is taken; without a resize
 * size it is resized to height x width straight away. Then mean and scale apply. `options` may be
 * NULL. Errors name the path: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED (another
 * format), CREMA_E_SHAPE (the blob or the mean does not fit), CREMA_E_RANGE (no such item). */
CREMA_API crema_status crema_image_load(const char *path, const crema_image_options *options,
                                        crema_blob *blob, int64_t item) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
