/* Images as network inputs. */
#ifndef CREMA_IMAGE_H
#define CREMA_IMAGE_H

#include <stdbool.h>

#include "crema/blob.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How pixels become values. Initialise with crema_image_options_init. */
typedef struct crema_image_options {
  /* Size in pixels to resize to before the crop. 0: resize to the blob's size, without a crop. */
  int resize_height, resize_width;
  /* True: keep the image's aspect ratio; the resized image just covers the size. */
  bool keep_aspect;
  const float *mean; /* subtracted: one value, or one per channel (blue, green, red) */
  int mean_count;    /* the number of values in `mean`; 0: subtract nothing */
  /* Or a mean image (BlobProto); else NULL. It is subtracted pixel by pixel if it has the size
   * before the crop, otherwise (and with keep_aspect) its mean colour is subtracted. */
  const char *mean_file;
  float scale; /* factor, applied after the subtraction */
  /* True: decode the image at full size and then resize it. False: decode a JPEG that is at least
   * twice as large as needed at 1/2, 1/4 or 1/8 of its size, which is faster and averages pixels.
   */
  bool exact_resize;
  /* True: three channels are red, green, blue, also in `mean`. False: blue, green, red. */
  bool rgb;
} crema_image_options;

/* Sets the defaults: no resize size, no mean, scale 1, all else false. */
CREMA_API void crema_image_options_init(crema_image_options *options);

/* Reads the size of the image file `path` from its header: *height and *width in pixels. The
 * formats are JPEG, PNG, BMP, GIF (its first frame), PNM, TIFF (its first image) and WebP (the
 * first frame of an animation). Errors,
 * which name the path: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED for another format,
 * CREMA_E_RANGE for an image that is too large. */
CREMA_API crema_status crema_image_size(const char *path, int *height, int *width) CREMA_MUST_USE;

/* Reads the image file `path`, of a format as above, into item `item` of `blob`. The blob has the
 * shape (items, channels, height, width), with 1 channel (grey) or 3 channels.
 *
 * With a resize size in `options`, the image is resized (bilinear) to resize_height x resize_width,
 * and its centre of height x width is cropped. Otherwise it is resized directly to height x width.
 * The mean is then subtracted and the result multiplied by scale. `options` may be NULL.
 *
 * Errors, which name the path:
 *
 * - CREMA_E_NOT_FOUND: there is no such file.
 * - CREMA_E_CORRUPT: the file is damaged.
 * - CREMA_E_UNSUPPORTED: the file has another format.
 * - CREMA_E_SHAPE: the shape of the blob or the number of channels of the mean is wrong.
 * - CREMA_E_RANGE: the blob has no such item. */
CREMA_API crema_status crema_image_load(const char *path, const crema_image_options *options,
                                        crema_blob *blob, int64_t item) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
