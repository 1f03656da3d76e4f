/* Images in memory: decode several formats, encode JPEG and PNG, resize. */
#ifndef CR_DATA_IMAGE_H
#define CR_DATA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "crema/status.h"

/* 8-bit pixels, row by row without gaps, interleaved: 1 channel (gray) or blue, green, red.
 * Zero-initialise ({0}); later calls reuse and grow the memory. */
typedef struct cr_image {
  int height, width, channels;
  uint8_t *pixels; /* height * width * channels */
  size_t capacity; /* bytes at pixels */
} cr_image;

/* A rectangle of an image. */
typedef struct cr_image_part {
  int top, left, height, width;
} cr_image_part;

/* The channels of a decoded image. */
typedef enum cr_image_color {
  CR_IMAGE_NATIVE, /* 1 channel for gray files, else 3 */
  CR_IMAGE_COLOR,
  /* Luma 0.299 R + 0.587 G + 0.114 B; in linear light for a PNG with a gamma, as libpng and OpenCV
   * compute it. */
  CR_IMAGE_GRAY
} cr_image_color;

/* The largest side and area. */
enum { CR_IMAGE_MAX_SIDE = 65500, CR_IMAGE_MAX_PIXELS = 1 << 27 };

/* Decodes a file of `size` bytes: JPEG, PNG, BMP, GIF (the first frame), PNM, TIFF (the first
 * image) or WebP (the first frame of an animation). Samples of 16 bits become 8 bits. Palettes and
 * CMYK become colours; alpha is dropped. Rejects a file that claims far more pixels than its bytes
 * can hold before it allocates memory. Errors, after which the image's content is undefined:
 * CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED (another format), CREMA_E_RANGE (too large),
 * CREMA_E_NO_MEMORY. */
crema_status cr_image_decode(const uint8_t *bytes, size_t size, cr_image_color color,
                             cr_image *out) CREMA_MUST_USE;

/* An image file whose header was read. Zero-initialise ({0}); its decoder serves one file after
 * another. */
typedef struct cr_picture {
  int height, width, channels; /* of the whole image after decoding */
  cr_image_color color;
  const uint8_t *bytes; /* of the file */
  size_t size;
  struct cr_jpeg *jpeg; /* NULL before the first JPEG */
  bool in_part;         /* `jpeg` has read the header and can omit pixels */
} cr_picture;

/* Reads the header of an image file of `size` bytes, which must live until it is decoded.
 * Errors: as cr_image_decode. */
crema_status cr_picture_open(cr_picture *picture, const uint8_t *bytes, size_t size,
                             cr_image_color color) CREMA_MUST_USE;

/* Decodes the opened file once: all of it (`wanted` NULL), or at least the wanted part. *part (may
 * be NULL) is the part that `out` holds. Wanted pixels equal pixels of the whole image; other
 * pixels at the edge of the part may differ. A truncated file fails for any part; other damage
 * fails only in the decoded part. Errors: as cr_image_decode. */
crema_status cr_picture_decode(cr_picture *picture, const cr_image_part *wanted, cr_image *out,
                               cr_image_part *part) CREMA_MUST_USE;

/* Frees the decoder and zeroes the struct. */
void cr_picture_free(cr_picture *picture);

/* Size and native channels (1 or 3) without decoding the pixels. Errors: as cr_image_decode. */
crema_status cr_image_probe(const uint8_t *bytes, size_t size, int *height, int *width,
                            int *channels) CREMA_MUST_USE;

/* Appends the image as a file of kind "jpg", "jpeg" (quality 95, 4:2:0) or "png" (in any case).
 * Errors: CREMA_E_UNKNOWN_NAME. */
crema_status cr_image_encode(const cr_image *image, const char *kind,
                             cr_buffer *out) CREMA_MUST_USE;

/* Scales `in` to height x width into `out`, another image, as OpenCV's INTER_LINEAR: bilinear
 * between the four nearest pixels, pixel centres at i + 0.5, borders repeated, 11-bit weights, no
 * averaging. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_image_resize(const cr_image *in, int height, int width,
                             cr_image *out) CREMA_MUST_USE;

/* Makes room for an image of these extents. Errors: CREMA_E_RANGE, CREMA_E_NO_MEMORY. */
crema_status cr_image_reserve(cr_image *image, int height, int width, int channels) CREMA_MUST_USE;

/* Fills the image, whose extents are set, from planes of the channels. */
void cr_image_interleave(const uint8_t *planes, cr_image *image);

/* Exchanges the two images. */
void cr_image_swap(cr_image *a, cr_image *b);

/* Frees the pixels and zeroes the struct. */
void cr_image_free(cr_image *image);

#endif
