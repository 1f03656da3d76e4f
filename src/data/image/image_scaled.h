/* Decodes an image to a given size. */
#ifndef CR_DATA_IMAGE_SCALED_H
#define CR_DATA_IMAGE_SCALED_H

#include "data/image/image.h"

/* Chooses the size for an image of height x width pixels. */
typedef struct cr_image_sizer {
  void (*choose)(const void *user, int height, int width, int *out_height, int *out_width);
  const void *user;
  bool exact; /* decode large JPEGs at full size too */
} cr_image_sizer;

/* A sizer with one size for all images. */
typedef struct cr_image_size {
  int height, width;
  bool exact; /* of the sizer */
} cr_image_size;
cr_image_sizer cr_image_sizer_of(const cr_image_size *size);

/* Decodes a file to the sizer's size. *out is `raw`, if it needs no resizing, or
 * `resized`; both are scratchpads whose memory later calls reuse.
 *
 * A JPEG of at least twice the wanted size in both directions is decoded to 1/2, 1/4 or 1/8 of its
 * size, the smallest that is large enough, then resized. This takes less time, and all pixels
 * contribute, while resizing the whole image uses at most four for each pixel of the result. All
 * other files, and all files with an exact sizer, get the result of cr_image_decode and
 * cr_image_resize. Errors: as these. */
crema_status cr_image_decode_to(const uint8_t *bytes, size_t size, cr_image_color color,
                                const cr_image_sizer *sizer, cr_image *raw, cr_image *resized,
                                cr_image **out) CREMA_MUST_USE;

#endif
