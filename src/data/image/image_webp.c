/* WebP through libwebp. An animation gives its first frame on a black canvas. The frame holds the
 * chunks of a still image, and this file reads the few chunks around it. libwebpdemux is not
 * needed.
 */
#include <string.h>
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

/* The first frame of an animation: its place on the canvas, and its data. */
typedef struct webp_frame {
  int canvas_height, canvas_width;
  cr_image_part part;
  const uint8_t *bytes;
  size_t size;
} webp_frame;

static uint32_t little_endian(const uint8_t *bytes, int count) {
  uint32_t value = 0;
  for (int i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

/* Reads the payload of an ANMF chunk: offsets in units of two pixels, extents less 1, duration and
 * flags, then the chunks of a still image. */
static crema_status read_frame(const uint8_t *bytes, size_t size, webp_frame *out) {
  enum { HEAD = 16 };
  if (size <= HEAD || out->canvas_height == 0) return fail_webp(VP8_STATUS_BITSTREAM_ERROR);
  const uint32_t left = 2 * little_endian(bytes, 3), top = 2 * little_endian(bytes + 3, 3);
  const uint32_t width = little_endian(bytes + 6, 3) + 1;
  const uint32_t height = little_endian(bytes + 9, 3) + 1;
  if (left + width > (uint32_t)out->canvas_width || top + height > (uint32_t)out->canvas_height) {
    return fail_webp(VP8_STATUS_BITSTREAM_ERROR);
  }
  out->part = (cr_image_part){(int)top, (int)left, (int)height, (int)width};
  out->bytes = bytes + HEAD;
  out->size = size - HEAD;
  return CREMA_OK;
}

/* The payload of a VP8X chunk: flags, then the extents of the canvas less 1. */
static crema_status read_canvas(const uint8_t *bytes, size_t size, webp_frame *out) {
  if (size < 10) return fail_webp(VP8_STATUS_BITSTREAM_ERROR);
  const uint32_t width = little_endian(bytes + 4, 3) + 1;
  const uint32_t height = little_endian(bytes + 7, 3) + 1;
  if (width > CR_IMAGE_MAX_SIDE || height > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "WebP: an animation of %u x %u pixels (at most %d a side)",
                   height, width, CR_IMAGE_MAX_SIDE);
  }
  out->canvas_width = (int)width;
  out->canvas_height = (int)height;
  return CREMA_OK;
}

/* Walks over the chunks of the file up to the first frame. */
static crema_status find_frame(const uint8_t *bytes, size_t size, webp_frame *out) {
  enum { FILE_HEAD = 12, CHUNK_HEAD = 8 };
  *out = (webp_frame){0};
  for (size_t at = FILE_HEAD; at < size && size - at > CHUNK_HEAD;) {
    const uint8_t *chunk = bytes + at;
    const size_t room = size - at - CHUNK_HEAD;
    const size_t length = little_endian(chunk + 4, 4);
    if (length > room) break;
    if (memcmp(chunk, "ANMF", 4) == 0) return read_frame(chunk + CHUNK_HEAD, length, out);
    if (memcmp(chunk, "VP8X", 4) == 0) CR_TRY(read_canvas(chunk + CHUNK_HEAD, length, out));
    at += CHUNK_HEAD + length + (length & 1);
  }
  return cr_fail(CREMA_E_CORRUPT, "WebP: the animation ends before its first frame does");
}

/* Decodes to blue, green, red in the part of `out`, which has three channels. */
static crema_status decode_colors(const uint8_t *bytes, size_t size, const cr_image_part *part,
                                  cr_image *out) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return fail_webp(VP8_STATUS_INVALID_PARAM);
  const size_t row = (size_t)out->width * 3;
  const size_t start = (size_t)part->top * row + (size_t)part->left * 3;
  config.output.colorspace = MODE_BGR;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = (WebPRGBABuffer){
      .rgba = out->pixels + start, .stride = (int)row, .size = row * (size_t)out->height - start};
  const VP8StatusCode code = WebPDecode(bytes, size, &config);
  WebPFreeDecBuffer(&config.output);
  return code == VP8_STATUS_OK ? CREMA_OK : fail_webp(code);
}

/* Decodes a file whose first chunk says that it is an animation. */
static crema_status decode_animation(const uint8_t *bytes, size_t size, bool probe, cr_image *out) {
  webp_frame frame;
  WebPBitstreamFeatures features;
  CR_TRY(find_frame(bytes, size, &frame));
  const VP8StatusCode code = WebPGetFeatures(frame.bytes, frame.size, &features);
  if (code != VP8_STATUS_OK) return fail_webp(code);
  if (features.height != frame.part.height || features.width != frame.part.width) {
    return fail_webp(VP8_STATUS_BITSTREAM_ERROR);
  }
  if (probe) return cr_image_set_extents(out, frame.canvas_height, frame.canvas_width, 3);
  CR_TRY(cr_image_reserve(out, frame.canvas_height, frame.canvas_width, 3));
  if (features.height < out->height || features.width < out->width) {
    memset(out->pixels, 0, (size_t)out->height * (size_t)out->width * 3);
  }
  return decode_colors(frame.bytes, frame.size, &frame.part, out);
}

crema_status cr_webp_decode(const uint8_t *bytes, size_t size, cr_image_color color, bool probe,
                            cr_image *out) {
  WebPBitstreamFeatures features;
  const VP8StatusCode code = WebPGetFeatures(bytes, size, &features);
  if (code != VP8_STATUS_OK) return fail_webp(code);
  if (features.has_animation) {
    CR_TRY(decode_animation(bytes, size, probe, out));
    if (probe) out->channels = cr_image_channels(color, false);
    else if (color == CR_IMAGE_GRAY) cr_image_make_gray(out);
    return CREMA_OK;
  }
  if (probe) {
    return cr_image_set_extents(out, features.height, features.width,
                                cr_image_channels(color, false));
  }
  CR_TRY(cr_image_reserve(out, features.height, features.width, 3));
  const cr_image_part whole = {0, 0, features.height, features.width};
  CR_TRY(decode_colors(bytes, size, &whole, out));
  if (color == CR_IMAGE_GRAY) cr_image_make_gray(out);
  return CREMA_OK;
}
