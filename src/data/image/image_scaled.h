/* Decoding a picture to a given size. */
#ifndef CR_DATA_IMAGE_SCALED_H
#define CR_DATA_IMAGE_SCALED_H

#include "data/image/image.h"

/* Tells the size that a picture of height x width pixels is to be brought to. */
typedef struct cr_image_sizer {
  void (*choose)(const void *user, int height, int width, int *out_height, int *out_width);
  const void *user;
  bool exact; /* large JPEGs are decoded whole, too */
} cr_image_sizer;

/* A sizer for pictures that all get one size. */
typedef struct cr_image_size {
  int height, width;
  bool exact; /* of the sizer */
} cr_image_size;
cr_image_sizer cr_image_sizer_of(const cr_image_size *size);

/* Decodes a JPEG or PNG file to the size that `sizer` wants. *out is either `raw`, if nothing had
 * to be resized, or `resized`; both are scratchpads whose memory is kept for later calls.
 *
 * A JPEG of at least twice the wanted size in both directions is decoded to 1/2, 1/4 or 1/8 of its
 * size, the smallest that is not below the wanted one, which the decoder does in less time; that is
 * then resized as cr_image_resize does. All its pixels then contribute, while resizing the whole
 * picture uses at most four for each pixel of the result. Any other file, and every file where the
 * sizer is exact, is decoded whole and resized: exactly what cr_image_decode and cr_image_resize
 * give. Errors: theirs. */
crema_status cr_image_decode_to(const uint8_t *bytes, size_t size, cr_image_color color,
                                const cr_image_sizer *sizer, cr_image *raw, cr_image *resized,
                                cr_image **out) CREMA_MUST_USE;

#endif
