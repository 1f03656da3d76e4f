/* JPEG through libjpeg-turbo's own interface. */
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

/* Warnings are about streams that can still be decoded. Extra bytes between two markers do no harm;
 * all others mean that a part of the picture was made up. */
static bool is_harmless(tjhandle jpeg) {
  return tjGetErrorCode(jpeg) == TJERR_WARNING &&
         strstr(tjGetErrorStr2(jpeg), "extraneous bytes") != NULL;
}

static crema_status fail_jpeg(tjhandle jpeg) {
  return cr_fail(CREMA_E_CORRUPT, "JPEG: %s", tjGetErrorStr2(jpeg));
}

/* An entropy-coded block of 8 x 8 samples takes at least one bit in one scan, so a byte stands for
 * at most 512 pixels. */
crema_status cr_jpeg_check_density(int height, int width, size_t size) {
  if ((uint64_t)height * (uint64_t)width / 512 <= size + 128) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "JPEG: %d x %d pixels in %zu bytes", height, width, size);
}

/* Inks are stored inverted (255: none), as Adobe's programs write them: a channel is the
 * product of its ink and black, rounded as OpenCV does it. cmyk: count x 4, out: count x 3 (BGR).
 */
static void cmyk_to_bgr(const uint8_t *cmyk, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; ++i, cmyk += 4, out += 3) {
    const int black = cmyk[3];
    for (int c = 0; c < 3; ++c) out[c] = (uint8_t)(black - (((255 - cmyk[2 - c]) * black) >> 8));
  }
}

static void bgr_to_gray(const uint8_t *bgr, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; ++i, bgr += 3) {
    /* Weights in 1/16384. */
    out[i] = (uint8_t)((bgr[0] * 1868 + bgr[1] * 9617 + bgr[2] * 4899 + 8192) >> 14);
  }
}

static crema_status decode_cmyk(tjhandle jpeg, const uint8_t *bytes, size_t size, cr_image *image) {
  size_t count = (size_t)image->height * (size_t)image->width;
  crema_status status = CREMA_OK;
  uint8_t *cmyk = malloc(count * 4);
  uint8_t *bgr = malloc(count * 3);
  if (cmyk == NULL || bgr == NULL) {
    status = cr_fail_memory(count * 7, "a CMYK image");
    goto out;
  }
  int rc = tjDecompress2(jpeg, bytes, size, cmyk, image->width, 0, image->height, TJPF_CMYK,
                         TJFLAG_LIMITSCANS);
  if (rc != 0 && !is_harmless(jpeg)) {
    status = fail_jpeg(jpeg);
    goto out;
  }
  cmyk_to_bgr(cmyk, count, bgr);
  if (image->channels == 3) memcpy(image->pixels, bgr, count * 3);
  else bgr_to_gray(bgr, count, image->pixels);
out:
  free(bgr);
  free(cmyk);
  return status;
}

static crema_status decode(tjhandle jpeg, const uint8_t *bytes, size_t size, cr_image_color color,
                           bool probe, cr_image *out) {
  int width = 0, height = 0, subsampling = 0, space = 0;
  int rc = tjDecompressHeader3(jpeg, bytes, size, &width, &height, &subsampling, &space);
  if (rc != 0 && !is_harmless(jpeg)) return fail_jpeg(jpeg);
  /* A file that ends before its frame header counts as one that holds tables only. */
  if (width < 1 || height < 1) return cr_fail(CREMA_E_CORRUPT, "JPEG: it holds no picture");
  int channels = space == TJCS_GRAY ? 1 : 3;
  if (color != CR_IMAGE_NATIVE) channels = color == CR_IMAGE_GRAY ? 1 : 3;
  CR_TRY(cr_jpeg_check_density(height, width, size));
  if (probe) {
    out->height = height;
    out->width = width;
    out->channels = channels;
    return CREMA_OK;
  }
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
