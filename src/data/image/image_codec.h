/* The image formats that image.c chooses from, one file each. */
#ifndef CR_DATA_IMAGE_CODEC_H
#define CR_DATA_IMAGE_CODEC_H

#include <stdbool.h>

#include "data/image/image.h"

/* The channels of a decoded file. */
static inline int cr_image_channels(cr_image_color color, bool is_gray_file) {
  if (color == CR_IMAGE_NATIVE) return is_gray_file ? 1 : 3;
  return color == CR_IMAGE_GRAY ? 1 : 3;
}

/* The luma of a pixel as OpenCV computes it, with weights in 1/16384. */
static inline uint8_t cr_image_luma(const int bgr[3]) {
  return (uint8_t)((bgr[0] * 1868 + bgr[1] * 9617 + bgr[2] * 4899 + 8192) >> 14);
}

/* Writes a pixel of blue, green, red to an image of 1 or 3 channels. */
static inline void cr_image_put(uint8_t *out, int channels, const uint8_t bgr[3]) {
  if (channels == 3) {
    for (int c = 0; c < 3; ++c) out[c] = bgr[c];
  } else {
    const int values[3] = {bgr[0], bgr[1], bgr[2]};
    *out = cr_image_luma(values);
  }
}

/* Makes one channel of three. */
void cr_image_make_gray(cr_image *image);

/* Sets the extents of an image that is only probed. */
static inline crema_status cr_image_set_extents(cr_image *image, int height, int width,
                                                int channels) {
  image->height = height;
  image->width = width;
  image->channels = channels;
  return CREMA_OK;
}

/* As cr_image_decode, for bytes that begin like the format. With `probe` sets only the extents of
 * *out. */
crema_status cr_jpeg_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) CREMA_MUST_USE;
/* Fails with CREMA_E_CORRUPT if a JPEG of `size` bytes cannot hold that many pixels. */
crema_status cr_jpeg_check_density(int height, int width, size_t size) CREMA_MUST_USE;

/* A decoder for parts of JPEGs, with the same pixels as cr_jpeg_decode. Opening creates it if *jpeg
 * is NULL and sets the image's extents. Returns false if the file is unsuitable or damaged;
 * cr_jpeg_decode reports the damage. */
typedef struct cr_jpeg cr_jpeg;
bool cr_jpeg_open(cr_jpeg **jpeg, cr_picture *picture);
bool cr_jpeg_decode_part(cr_jpeg *jpeg, const cr_image_part *wanted, cr_image *out,
                         cr_image_part *part);
/* Accepts NULL. */
void cr_jpeg_free(cr_jpeg *jpeg);

crema_status cr_png_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) CREMA_MUST_USE;

crema_status cr_bmp_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) CREMA_MUST_USE;
crema_status cr_gif_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) CREMA_MUST_USE;
crema_status cr_pnm_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) CREMA_MUST_USE;
crema_status cr_tiff_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) CREMA_MUST_USE;
crema_status cr_webp_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) CREMA_MUST_USE;

/* As cr_image_encode. */
crema_status cr_jpeg_encode(const cr_image *image, cr_buffer *out) CREMA_MUST_USE;
/* With a quality from 1 to 100; 1 or 3 channels. */
crema_status cr_jpeg_encode_as(const cr_image *image, int quality, cr_buffer *out) CREMA_MUST_USE;
crema_status cr_png_encode(const cr_image *image, cr_buffer *out) CREMA_MUST_USE;

#endif
