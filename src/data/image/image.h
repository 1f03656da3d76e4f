/* Images in memory: decoding and encoding JPEG and PNG, resizing. */
#ifndef CR_DATA_IMAGE_H
#define CR_DATA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buffer.h"
#include "crema/status.h"

/* Pixels of 8 bits, row by row without gaps, interleaved: 1 channel (gray) or 3 in the order
 * blue, green, red. Zero-initialise ({0}); the memory is kept and grown by later calls. */
typedef struct cr_image {
  int height, width, channels;
  uint8_t *pixels; /* height * width * channels */
  size_t capacity; /* bytes at pixels */
} cr_image;

/* A rectangle of a picture. */
typedef struct cr_image_part {
  int top, left, height, width;
} cr_image_part;

/* What to decode to. */
typedef enum cr_image_color {
  CR_IMAGE_NATIVE, /* 1 channel for gray files, else 3 */
  CR_IMAGE_COLOR,
  /* Luma 0.299 R + 0.587 G + 0.114 B; of a PNG that states its gamma, in linear light, as libpng
   * (and OpenCV with it) computes it. */
  CR_IMAGE_GRAY
} cr_image_color;

/* Neither side may exceed this, nor the area the next. */
enum { CR_IMAGE_MAX_SIDE = 65500, CR_IMAGE_MAX_PIXELS = 1 << 27 };

/* Decodes a JPEG or PNG file of `size` bytes. Samples of 16 bits are cut to 8, palettes are
 * looked up, alpha is dropped, CMYK JPEGs are converted. A file that claims far more pixels than
 * its bytes can hold is refused before memory is taken.
 * Errors: CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED (another format, named where known),
 * CREMA_E_RANGE (too large), CREMA_E_NO_MEMORY. The image's content is undefined then. */
crema_status cr_image_decode(const uint8_t *bytes, size_t size, cr_image_color color,
                             cr_image *out) CREMA_MUST_USE;

/* A file that was opened: its header has been read, its pixels have not. Zero-initialise ({0}); the
 * decoder inside is used for one file after the other. */
typedef struct cr_picture {
  int height, width, channels; /* of the whole picture, as it will be decoded */
  cr_image_color color;
  const uint8_t *bytes; /* of the file */
  size_t size;
  struct cr_jpeg *jpeg; /* NULL before the first JPEG */
  bool in_part;         /* whether `jpeg` has read the header and can leave pixels out */
} cr_picture;

/* Reads the header of a JPEG or PNG file of `size` bytes, which must live until it is decoded.
 * Errors: as cr_image_decode. */
crema_status cr_picture_open(cr_picture *picture, const uint8_t *bytes, size_t size,
                             cr_image_color color) CREMA_MUST_USE;

/* Decodes the opened file, once: all of it (`wanted` NULL), or at least the wanted part. *part (may
 * be NULL) tells which part of the picture `out` holds; the wanted pixels equal those of the whole
 * picture, colours at the edge of what else there is may not. A file that ends early fails wherever
 * the part is; other damage is found only in what is decoded. Errors: as cr_image_decode. */
crema_status cr_picture_decode(cr_picture *picture, const cr_image_part *wanted, cr_image *out,
                               cr_image_part *part) CREMA_MUST_USE;

/* Frees the decoder and zeroes the struct. */
void cr_picture_free(cr_picture *picture);

/* Size and native channels (1 or 3) without decoding the pixels. Errors: as cr_image_decode. */
crema_status cr_image_probe(const uint8_t *bytes, size_t size, int *height, int *width,
                            int *channels) CREMA_MUST_USE;

/* Appends the image as a file of the kind "jpg", "jpeg" (quality 95, chroma halved both ways) or
 * "png" (any case). Errors: CREMA_E_UNKNOWN_NAME. */
crema_status cr_image_encode(const cr_image *image, const char *kind,
                             cr_buffer *out) CREMA_MUST_USE;

/* Scales `in` to height x width into `out`, another image. Bilinear between the four nearest
 * pixels, pixel centres at (i + 0.5), borders repeated, weights of 11 bits: what OpenCV calls
 * INTER_LINEAR. Nothing is averaged when shrinking. Errors: CREMA_E_ARGUMENT, CREMA_E_RANGE. */
crema_status cr_image_resize(const cr_image *in, int height, int width,
                             cr_image *out) CREMA_MUST_USE;

/* Makes room for an image of these extents. Errors: CREMA_E_RANGE, CREMA_E_NO_MEMORY. */
crema_status cr_image_reserve(cr_image *image, int height, int width, int channels) CREMA_MUST_USE;

/* Exchanges the two images. */
void cr_image_swap(cr_image *a, cr_image *b);

/* Frees the pixels and zeroes the struct. */
void cr_image_free(cr_image *image);

#endif
