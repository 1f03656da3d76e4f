#include "data/image/image_scaled.h"

#include <turbojpeg.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

static void choose_size(const void *user, int height, int width, int *out_height, int *out_width) {
  const cr_image_size *size = user;
  (void)height, (void)width;
  *out_height = size->height;
  *out_width = size->width;
}

cr_image_sizer cr_image_sizer_of(const cr_image_size *size) {
  return (cr_image_sizer){choose_size, size, size->exact};
}

/* Chooses the smallest of 1/8, 1/4 and 1/2 whose result is large enough; other scales are no faster
 * than decoding the whole image. False: none is large enough. */
static bool choose_scale(const int in[2], const int wanted[2], int out[2]) {
  for (int denominator = 8; denominator > 1; denominator /= 2) {
    const tjscalingfactor factor = {1, denominator};
    if (in[0] / denominator < wanted[0] || in[1] / denominator < wanted[1]) continue;
    out[0] = TJSCALED(in[0], factor);
    out[1] = TJSCALED(in[1], factor);
    return true;
  }
  return false;
}

/* Returns false if the full file must be decoded, which also reports damage. */
static bool decode_with(tjhandle jpeg, const uint8_t *bytes, size_t size, cr_image_color color,
                        const cr_image_sizer *sizer, int wanted[2], cr_image *out) {
  int in[2] = {0, 0}, scaled[2], subsampling = 0, space = 0;
  if (tjDecompressHeader3(jpeg, bytes, size, &in[1], &in[0], &subsampling, &space) != 0) {
    return false;
  }
  if (space != TJCS_YCbCr && space != TJCS_GRAY) return false;
  /* Implausibly many pixels. */
  if ((int64_t)in[0] * in[1] > CR_IMAGE_MAX_PIXELS) return false;
  if (cr_jpeg_check_density(in[0], in[1], size) != CREMA_OK) return false;
  sizer->choose(sizer->user, in[0], in[1], &wanted[0], &wanted[1]);
  if (wanted[0] < 1 || wanted[1] < 1 || !choose_scale(in, wanted, scaled)) return false;
  int channels = cr_image_channels(color, space == TJCS_GRAY);
  if (cr_image_reserve(out, scaled[0], scaled[1], channels) != CREMA_OK) return false;
  return tjDecompress2(jpeg, bytes, size, out->pixels, scaled[1], 0, scaled[0],
                       channels == 1 ? TJPF_GRAY : TJPF_BGR, TJFLAG_LIMITSCANS) == 0;
}

static bool decode_scaled(const uint8_t *bytes, size_t size, cr_image_color color,
                          const cr_image_sizer *sizer, int wanted[2], cr_image *out) {
  if (sizer->exact || size < 3 || bytes[0] != 0xff || bytes[1] != 0xd8 || bytes[2] != 0xff)
    return false;
  tjhandle jpeg = tjInitDecompress();
  bool done = jpeg != NULL && decode_with(jpeg, bytes, size, color, sizer, wanted, out);
  if (jpeg != NULL) tjDestroy(jpeg);
  return done;
}

crema_status cr_image_decode_to(const uint8_t *bytes, size_t size, cr_image_color color,
                                const cr_image_sizer *sizer, cr_image *raw, cr_image *resized,
                                cr_image **out) {
  int wanted[2] = {0, 0};
  if (!decode_scaled(bytes, size, color, sizer, wanted, raw)) {
    CR_TRY(cr_image_decode(bytes, size, color, raw));
    sizer->choose(sizer->user, raw->height, raw->width, &wanted[0], &wanted[1]);
  }
  *out = raw;
  if (raw->height == wanted[0] && raw->width == wanted[1]) return CREMA_OK;
  *out = resized;
  return cr_image_resize(raw, wanted[0], wanted[1], resized);
}
