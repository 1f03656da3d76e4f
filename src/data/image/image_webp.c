/* WebP through libwebp. */
#include <webp/decode.h>

#include "core/fail.h"
#include "data/image/image_codec.h"

static crema_status fail_webp(VP8StatusCode code) {
  static const char *const texts[] = {"",
                                      "out of memory",
                                      "a wrong parameter",
                                      "the file is damaged",
                                      "an unknown feature",
                                      "suspended",
                                      "aborted",
                                      "the file is truncated"};
  const size_t known = sizeof texts / sizeof *texts;
  if (code == VP8_STATUS_OUT_OF_MEMORY) return cr_fail(CREMA_E_NO_MEMORY, "WebP: %s", texts[code]);
  return cr_fail(code == VP8_STATUS_UNSUPPORTED_FEATURE ? CREMA_E_UNSUPPORTED : CREMA_E_CORRUPT,
                 "WebP: %s", (size_t)code < known ? texts[code] : "the file is damaged");
}

/* Decodes to blue, green, red in `out`, which has three channels. */
static crema_status decode_colors(const uint8_t *bytes, size_t size, cr_image *out) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return fail_webp(VP8_STATUS_INVALID_PARAM);
  const size_t row = (size_t)out->width * 3;
  config.output.colorspace = MODE_BGR;
  config.output.is_external_memory = 1;
  config.output.u.RGBA =
      (WebPRGBABuffer){.rgba = out->pixels, .stride = (int)row, .size = row * (size_t)out->height};
  const VP8StatusCode code = WebPDecode(bytes, size, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? CREMA_OK : fail_webp(code);
}

crema_status cr_webp_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(bytes, size, &features);
  if (code != VP8_STATUS_OK) return fail_webp(code);
  if (features.has_animation) return cr_fail(CREMA_E_UNSUPPORTED, "WebP: an animation");
  if (probe) {
    return cr_image_set_extents(out, features.height, features.width,
                                cr_image_channels(color, false));
  }
  CR_TRY(cr_image_reserve(out, features.height, features.width, 3));
  CR_TRY(decode_colors(bytes, size, out));
  if (color == CR_IMAGE_GRAY) cr_image_make_gray(out);
  return CREMA_OK;
}
