#include "data/image/image.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/file_kind.h"
#include "data/image/image_codec.h"

crema_status cr_image_reserve(cr_image *image, int height, int width, int channels) {
  if (height < 1 || width < 1 || height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE ||
      (int64_t)height * width > CR_IMAGE_MAX_PIXELS) {
    return cr_fail(CREMA_E_RANGE, "an image of %d x %d pixels (at most %d a side and %d in all)",
                   height, width, CR_IMAGE_MAX_SIDE, CR_IMAGE_MAX_PIXELS);
  }
  size_t need = (size_t)height * (size_t)width * (size_t)channels;
  if (need > image->capacity) {
    uint8_t *pixels = malloc(need);
    if (pixels == NULL) return cr_fail_memory(need, "an image");
    free(image->pixels);
    image->pixels = pixels;
    image->capacity = need;
  }
  image->height = height;
  image->width = width;
  image->channels = channels;
  return CREMA_OK;
}

void cr_image_interleave(const uint8_t *planes, cr_image *image) {
  const size_t channels = (size_t)image->channels;
  const size_t plane = (size_t)image->height * (size_t)image->width;
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = 0; i < plane; ++i) image->pixels[i * channels + c] = planes[c * plane + i];
  }
}

void cr_image_make_gray(cr_image *image) {
  const size_t pixels = (size_t)image->height * (size_t)image->width;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t bgr[3] = {image->pixels[3 * i], image->pixels[3 * i + 1],
                            image->pixels[3 * i + 2]};
    cr_image_put(&image->pixels[i], 1, bgr);
  }
  image->channels = 1;
}

void cr_image_swap(cr_image *a, cr_image *b) {
  const cr_image held = *a;
  *a = *b;
  *b = held;
}

void cr_image_free(cr_image *image) {
  free(image->pixels);
  *image = (cr_image){0};
}

typedef crema_status (*decode_fn)(const uint8_t *bytes, size_t size, cr_image_color color,
                                  bool probe, cr_image *out);

/* The first bytes of files. Formats without a decoder are listed for messages. */
static const struct {
  const char *name;
  const char *start;
  size_t size;
  decode_fn decode;
} formats[] = {
    {"JPEG", "\xff\xd8\xff", 3, cr_jpeg_decode},
    {"PNG", "\x89PNG\r\n\x1a\n", 8, cr_png_decode},
    {"GIF", "GIF87a", 6, cr_gif_decode},
    {"GIF", "GIF89a", 6, cr_gif_decode},
    {"BMP", "BM", 2, cr_bmp_decode},
    {"TIFF", "II*\0", 4, cr_tiff_decode},
    {"TIFF", "MM\0*", 4, cr_tiff_decode},
    {"TIFF", "II+\0", 4, cr_tiff_decode},
    {"TIFF", "MM\0+", 4, cr_tiff_decode},
    {"PNM", "P1", 2, cr_pnm_decode},
    {"PNM", "P2", 2, cr_pnm_decode},
    {"PNM", "P3", 2, cr_pnm_decode},
    {"PNM", "P4", 2, cr_pnm_decode},
    {"PNM", "P5", 2, cr_pnm_decode},
    {"PNM", "P6", 2, cr_pnm_decode},
    {"JPEG 2000", "\0\0\0\x0cjP  ", 8, NULL},
    {"JPEG XL", "\0\0\0\x0cJXL ", 8, NULL},
    {"PAM", "P7", 2, NULL},
    {"Photoshop", "8BPS", 4, NULL},
    {"OpenEXR", "\x76\x2f\x31\x01", 4, NULL},
    {"Radiance HDR", "#?RADIANCE", 10, NULL},
};

#define KNOWN_FORMATS "JPEG, PNG, BMP, GIF, PNM, TIFF and WebP"

static crema_status fail_unknown(const uint8_t *bytes, size_t size) {
  const char *kind = cr_file_kind(bytes, size < CR_FILE_KIND_BYTES ? size : CR_FILE_KIND_BYTES);
  if (kind != NULL) return cr_fail(CREMA_E_CORRUPT, "no image: the file looks like %s", kind);
  char start[16] = "";
  for (size_t i = 0; i < size && i < 4; ++i) snprintf(start + 3 * i, 4, " %02x", bytes[i]);
  return cr_fail(CREMA_E_CORRUPT,
                 "no image of a known format (" KNOWN_FORMATS "): it begins with%s", start);
}

static crema_status find_decoder(const uint8_t *bytes, size_t size, decode_fn *out) {
  if (size == 0) return cr_fail(CREMA_E_CORRUPT, "an image of 0 bytes");
  if (size >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0) {
    *out = cr_webp_decode;
    return CREMA_OK;
  }
  for (size_t i = 0; i < sizeof formats / sizeof *formats; ++i) {
    if (size < formats[i].size || memcmp(bytes, formats[i].start, formats[i].size) != 0) continue;
    *out = formats[i].decode;
    if (*out != NULL) return CREMA_OK;
    return cr_fail(CREMA_E_UNSUPPORTED, "%s images cannot be decoded (" KNOWN_FORMATS " can)",
                   formats[i].name);
  }
  return fail_unknown(bytes, size);
}

crema_status cr_image_decode(const uint8_t *bytes, size_t size, cr_image_color color,
                             cr_image *out) {
  decode_fn decode = NULL;
  CR_TRY(find_decoder(bytes, size, &decode));
  return decode(bytes, size, color, false, out);
}

crema_status cr_image_probe(const uint8_t *bytes, size_t size, int *height, int *width,
                            int *channels) {
  decode_fn decode = NULL;
  cr_image image = {0};
  CR_TRY(find_decoder(bytes, size, &decode));
  CR_TRY(decode(bytes, size, CR_IMAGE_NATIVE, true, &image));
  *height = image.height;
  *width = image.width;
  *channels = image.channels;
  return CREMA_OK;
}

crema_status cr_picture_open(cr_picture *picture, const uint8_t *bytes, size_t size,
                             cr_image_color color) {
  decode_fn decode = NULL;
  cr_image extents = {0};
  picture->bytes = bytes;
  picture->size = size;
  picture->color = color;
  CR_TRY(find_decoder(bytes, size, &decode));
  picture->in_part = decode == cr_jpeg_decode && cr_jpeg_open(&picture->jpeg, picture);
  if (picture->in_part) return CREMA_OK;
  CR_TRY(decode(bytes, size, color, true, &extents));
  picture->height = extents.height;
  picture->width = extents.width;
  picture->channels = extents.channels;
  return CREMA_OK;
}

crema_status cr_picture_decode(cr_picture *picture, const cr_image_part *wanted, cr_image *out,
                               cr_image_part *part) {
  const cr_image_part whole = {.height = picture->height, .width = picture->width};
  cr_image_part ignored;
  if (part == NULL) part = &ignored;
  bool in_part = picture->in_part;
  picture->in_part = false;
  if (in_part && cr_jpeg_decode_part(picture->jpeg, wanted == NULL ? &whole : wanted, out, part)) {
    return CREMA_OK;
  }
  *part = whole;
  return cr_image_decode(picture->bytes, picture->size, picture->color, out);
}

void cr_picture_free(cr_picture *picture) {
  cr_jpeg_free(picture->jpeg);
  *picture = (cr_picture){0};
}

crema_status cr_image_encode(const cr_image *image, const char *kind, cr_buffer *out) {
  if (strcasecmp(kind, "jpg") == 0 || strcasecmp(kind, "jpeg") == 0) {
    return cr_jpeg_encode(image, out);
  }
  if (strcasecmp(kind, "png") == 0) return cr_png_encode(image, out);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "cannot encode images as '%s' (known: jpg, png)", kind);
}

/* The two source indices of a target index and the weight of the second, in 1/2048. */
typedef struct resize_tap {
  int first, second;
  int weight;
} resize_tap;

enum { WEIGHT_BITS = 11, WEIGHT_ONE = 1 << WEIGHT_BITS };

static int clamp(int value, int limit) {
  return value < 0 ? 0 : value < limit ? value : limit - 1;
}

/* Outside the borders both indices are the border's; mixing equal rows rounds twice, as in OpenCV.
 */
static void make_taps(int in, int out, resize_tap *tap) {
  double scale = (double)in / out;
  for (int i = 0; i < out; ++i) {
    float position = (float)((i + 0.5) * scale - 0.5);
    int first = (int)floorf(position);
    float part = position - (float)first;
    tap[i].first = clamp(first, in);
    tap[i].second = clamp(first + 1, in);
    tap[i].weight = (int)lrintf(part * WEIGHT_ONE);
  }
}

/* Widens a source row to `width` pixels; values are scaled by 2048. */
static void widen_row(const uint8_t *in, int channels, const resize_tap *tap, int width,
                      int32_t *out) {
  for (int x = 0; x < width; ++x) {
    const uint8_t *a = in + tap[x].first * channels, *b = in + tap[x].second * channels;
    int weight = tap[x].weight;
    for (int c = 0; c < channels; ++c) *out++ = a[c] * (WEIGHT_ONE - weight) + b[c] * weight;
  }
}

/* Mixes two widened rows, with shifts that keep products within 32 bits. */
static void mix_rows(const int32_t *a, const int32_t *b, int weight, size_t count, uint8_t *out) {
  for (size_t i = 0; i < count; ++i) {
    int32_t first = ((WEIGHT_ONE - weight) * (a[i] >> 4)) >> 16;
    int32_t second = (weight * (b[i] >> 4)) >> 16;
    out[i] = (uint8_t)((first + second + 2) >> 2);
  }
}

/* Keeps widened rows: row[0] holds source row held[0], row[1] held[1]. */
static void resize_rows(const cr_image *in, const resize_tap *across, const resize_tap *down,
                        int32_t *row[2], cr_image *out) {
  size_t in_stride = (size_t)in->width * (size_t)in->channels;
  size_t out_stride = (size_t)out->width * (size_t)out->channels;
  int held[2] = {-1, -1};
  for (int y = 0; y < out->height; ++y) {
    int wanted[2] = {down[y].first, down[y].second};
    if (wanted[0] == held[1]) {
      int32_t *swap = row[0];
      row[0] = row[1];
      row[1] = swap;
      held[1] = held[0];
      held[0] = wanted[0];
    }
    for (int k = 0; k < 2; ++k) {
      if (wanted[k] == held[k]) continue;
      widen_row(in->pixels + (size_t)wanted[k] * in_stride, in->channels, across, out->width,
                row[k]);
      held[k] = wanted[k];
    }
    mix_rows(row[0], row[1], down[y].weight, out_stride, out->pixels + (size_t)y * out_stride);
  }
}

crema_status cr_image_resize(const cr_image *in, int height, int width, cr_image *out) {
  if (in == out || in->pixels == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "cannot resize an image into itself or an empty image");
  }
  CR_TRY(cr_image_reserve(out, height, width, in->channels));
  if (height == in->height && width == in->width) {
    memcpy(out->pixels, in->pixels, (size_t)height * (size_t)width * (size_t)in->channels);
    return CREMA_OK;
  }
  size_t taps = (size_t)(width + height) * sizeof(resize_tap);
  size_t stride = (size_t)width * (size_t)in->channels;
  size_t bytes = taps + 2 * stride * sizeof(int32_t);
  char *scratchpad = malloc(bytes);
  if (scratchpad == NULL) return cr_fail_memory(bytes, "resizing an image");
  resize_tap *across = (resize_tap *)scratchpad, *down = across + width;
  int32_t *row[2];
  row[0] = (int32_t *)(down + height);
  row[1] = row[0] + stride;
  make_taps(in->width, width, across);
  make_taps(in->height, height, down);
  resize_rows(in, across, down, row, out);
  free(scratchpad);
  return CREMA_OK;
}
