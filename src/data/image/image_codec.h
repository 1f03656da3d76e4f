/* The image formats that image.c chooses from; a file each. */
#ifndef CR_DATA_IMAGE_CODEC_H
#define CR_DATA_IMAGE_CODEC_H

#include <stdbool.h>

#include "data/image/image.h"

/* As cr_image_decode, for bytes that begin like the format. With `probe`, only the extents of
 * *out are set, channels to what NATIVE would give. */
crema_status cr_jpeg_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) CREMA_MUST_USE;
/* Decodes a part (cr_image_decode_part) if the file is of a kind where that pays and gives the
 * pixels of the whole picture. False: it is not, or something is wrong with it; then the whole
 * picture is to be decoded, which tells what. */
bool cr_jpeg_decode_part(const uint8_t *bytes, size_t size, cr_image_color color,
                         const cr_image_chooser *chooser, cr_image *out, cr_image_part *whole,
                         cr_image_part *part);
crema_status cr_png_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                           cr_image *out) CREMA_MUST_USE;

/* As cr_image_encode. */
crema_status cr_jpeg_encode(const cr_image *image, cr_buffer *out) CREMA_MUST_USE;
/* With a quality from 1 to 100; 1 or 3 channels. */
crema_status cr_jpeg_encode_as(const cr_image *image, int quality, cr_buffer *out) CREMA_MUST_USE;
crema_status cr_png_encode(const cr_image *image, cr_buffer *out) CREMA_MUST_USE;

#endif
