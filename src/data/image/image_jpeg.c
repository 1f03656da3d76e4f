/* JPEG through libjpeg-turbo's own interface. */
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

/* Extra bytes between two markers are harmless; other warnings mean that pixels were guessed. */
static bool is_harmless(tjhandle jpeg) {
  return tjGetErrorCode(jpeg) == TJERR_WARNING &&
         strstr(tjGetErrorStr2(jpeg), "extraneous bytes") != NULL;
}

static crema_status fail_jpeg(tjhandle jpeg) {
  return cr_fail(CREMA_E_CORRUPT, "JPEG: %s", tjGetErrorStr2(jpeg));
}

/* An 8x8 block takes at least one bit in one scan, so a byte holds at most 512 pixels. */
crema_status cr_jpeg_check_density(int height, int width, size_t size) {
  if ((uint64_t)height * (uint64_t)width / 512 <= size + 128) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "JPEG: %d x %d pixels in %zu bytes", height, width, size);
}

/* Inks are inverted (255: none), as Adobe's programs store them: a channel is the product of its
 * ink and black, rounded as in OpenCV. */
static crema_status decode_cmyk(tjhandle jpeg, const uint8_t *bytes, size_t size, cr_image *image) {
  size_t count = (size_t)image->height * (size_t)image->width;
  uint8_t *cmyk = malloc(count * 4), *out = image->pixels;
  if (cmyk == NULL) return cr_fail_memory(count * 4, "a CMYK image");
  int rc = tjDecompress2(jpeg, bytes, size, cmyk, image->width, 0, image->height, TJPF_CMYK,
                         TJFLAG_LIMITSCANS);
  crema_status status = rc != 0 && !is_harmless(jpeg) ? fail_jpeg(jpeg) : CREMA_OK;
  for (const uint8_t *ink = cmyk; status == CREMA_OK && ink < cmyk + 4 * count; ink += 4) {
    int bgr[3];
    for (int c = 0; c < 3; ++c) bgr[c] = ink[3] - (((255 - ink[2 - c]) * ink[3]) >> 8);
    if (image->channels == 1) {
      *out++ = cr_image_luma(bgr);
    } else {
      for (int c = 0; c < 3; ++c) *out++ = (uint8_t)bgr[c];
    }
  }
  free(cmyk);
  return status;
}

static crema_status decode(tjhandle jpeg, const uint8_t *bytes, size_t size, cr_image_color color,
                           bool probe, cr_image *out) {
  int width = 0, height = 0, subsampling = 0, space = 0;
  int rc = tjDecompressHeader3(jpeg, bytes, size, &width, &height, &subsampling, &space);
  if (rc != 0 && !is_harmless(jpeg)) return fail_jpeg(jpeg);
  /* A file that ends before its frame header is like a file with only tables. */
  if (width < 1 || height < 1) return cr_fail(CREMA_E_CORRUPT, "JPEG: the file has no image");
  int channels = cr_image_channels(color, space == TJCS_GRAY);
  CR_TRY(cr_jpeg_check_density(height, width, size));
  if (probe) return cr_image_set_extents(out, height, width, channels);
  CR_TRY(cr_image_reserve(out, height, width, channels));
  if (space == TJCS_CMYK || space == TJCS_YCCK) return decode_cmyk(jpeg, bytes, size, out);
  rc = tjDecompress2(jpeg, bytes, size, out->pixels, width, 0, height,
                     channels == 1 ? TJPF_GRAY : TJPF_BGR, TJFLAG_LIMITSCANS);
  return rc == 0 || is_harmless(jpeg) ? CREMA_OK : fail_jpeg(jpeg);
}

crema_status cr_jpeg_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) {
  tjhandle jpeg = tjInitDecompress();
  if (jpeg == NULL) return cr_fail(CREMA_E_NO_MEMORY, "JPEG: cannot start the decoder");
  crema_status status = decode(jpeg, bytes, size, color, probe, out);
  tjDestroy(jpeg);
  return status;
}

crema_status cr_jpeg_encode(const cr_image *image, cr_buffer *out) {
  return cr_jpeg_encode_as(image, 95, out);
}

crema_status cr_jpeg_encode_as(const cr_image *image, int quality, cr_buffer *out) {
  tjhandle jpeg = tjInitCompress();
  if (jpeg == NULL) return cr_fail(CREMA_E_NO_MEMORY, "JPEG: cannot start the encoder");
  unsigned char *bytes = NULL;
  unsigned long size = 0;
  bool gray = image->channels == 1;
  crema_status status = CREMA_OK;
  if (tjCompress2(jpeg, image->pixels, image->width, 0, image->height, gray ? TJPF_GRAY : TJPF_BGR,
                  &bytes, &size, gray ? TJSAMP_GRAY : TJSAMP_420, quality,
                  TJFLAG_ACCURATEDCT) != 0) {
    status = cr_fail(CREMA_E_INTERNAL, "JPEG: %s", tjGetErrorStr2(jpeg));
  } else {
    status = cr_buffer_append(out, bytes, size);
  }
  tjFree(bytes);
  tjDestroy(jpeg);
  return status;
}
