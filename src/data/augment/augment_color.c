/* Colour spaces, and the random changes of colour of distort_param. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "core/rng.h"
#include "data/augment/augment_private.h"

cr_random cr_random_begin(uint64_t key, uint64_t sample, cr_stage stage) {
  return (cr_random){.key = key, .sample = sample, .counter = (uint64_t)stage << 32, .used = 4};
}

uint32_t cr_random_next(cr_random *random) {
  if (random->used == 4) {
    cr_philox(random->key, random->counter++, random->sample, random->word);
    random->used = 0;
  }
  return random->word[random->used++];
}

float cr_random_uniform(cr_random *random, float lower, float upper) {
  return lower + (upper - lower) * ((float)(cr_random_next(random) >> 8) * 0x1p-24f);
}

int cr_random_below(cr_random *random, int count) {
  return (int)(((uint64_t)cr_random_next(random) * (uint64_t)count) >> 32);
}

uint8_t cr_saturate(float value) {
  return value <= 0 ? 0 : value >= 255 ? 255 : (uint8_t)lrintf(value);
}

static uint8_t cut(int value) {
  return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* A quotient is a product with a rounded reciprocal of 12 fractional bits. */
enum { HSV_BITS = 12, HSV_HALF = 1 << (HSV_BITS - 1), HUES = 180 };

static int hsv_divide(int number, int full, int divisor) {
  if (divisor == 0) return 0;
  int reciprocal = (int)lrint((double)(full << HSV_BITS) / divisor);
  return (number * reciprocal + HSV_HALF) >> HSV_BITS;
}

void cr_bgr_to_hsv(uint8_t *pixels, size_t count) {
  for (uint8_t *p = pixels; p < pixels + 3 * count; p += 3) {
    int b = p[0], g = p[1], r = p[2];
    int high = b > g ? b : g, low = b < g ? b : g;
    if (r > high) high = r;
    if (r < low) low = r;
    int spread = high - low;
    int turn = high == r ? g - b : high == g ? b - r + 2 * spread : r - g + 4 * spread;
    /* 30 = 180 / 6 hues for each sixth of the circle. */
    int hue = hsv_divide(turn, HUES / 6, spread);
    p[0] = (uint8_t)(hue < 0 ? hue + HUES : hue);
    p[1] = cut(hsv_divide(spread, 255, high));
    p[2] = (uint8_t)high;
  }
}

void cr_hsv_to_bgr(uint8_t *pixels, size_t count) {
  /* Blue, green and red in each sixth of the circle: an index into v, v (1 - s), v (1 - s f),
   * v (1 - s (1 - f)), with f the position within the sixth. */
  static const uint8_t choice[6][3] = {{1, 3, 0}, {1, 0, 2}, {3, 0, 1},
                                       {0, 2, 1}, {0, 1, 3}, {2, 1, 0}};
  for (uint8_t *p = pixels; p < pixels + 3 * count; p += 3) {
    float position = (float)p[0] * (6.0F / HUES);
    float s = (float)p[1] * (1 / 255.0F), v = (float)p[2] * (1 / 255.0F);
    int sixth = (int)position;
    float f = position - (float)sixth;
    const float value[4] = {v, v * (1 - s), v * (1 - s * f), v * (1 - s * (1 - f))};
    for (int c = 0; c < 3; ++c) p[c] = cr_saturate(value[choice[sixth % 6][c]] * 255);
  }
}

enum { YCC_BITS = 14, YCC_HALF = 1 << (YCC_BITS - 1) };

static int ycc_round(int value) {
  return (value + YCC_HALF) >> YCC_BITS;
}

/* Y = 0.299 R + 0.587 G + 0.114 B, Cr = 0.713 (R - Y) + 128, Cb = 0.564 (B - Y) + 128. */
void cr_bgr_to_ycrcb(uint8_t *pixels, size_t count) {
  for (uint8_t *p = pixels; p < pixels + 3 * count; p += 3) {
    int y = ycc_round(1868 * p[0] + 9617 * p[1] + 4899 * p[2]);
    int cr = ycc_round((p[2] - y) * 11682) + 128;
    int cb = ycc_round((p[0] - y) * 9241) + 128;
    p[0] = cut(y);
    p[1] = cut(cr);
    p[2] = cut(cb);
  }
}

/* R = Y + 1.403 Cr', G = Y - 0.714 Cr' - 0.344 Cb', B = Y + 1.773 Cb', with Cr' = Cr - 128. */
void cr_ycrcb_to_bgr(uint8_t *pixels, size_t count) {
  for (uint8_t *p = pixels; p < pixels + 3 * count; p += 3) {
    int y = p[0], cr = p[1] - 128, cb = p[2] - 128;
    p[0] = cut(y + ycc_round(29049 * cb));
    p[1] = cut(y + ycc_round(-11698 * cr - 5636 * cb));
    p[2] = cut(y + ycc_round(22987 * cr));
  }
}

static crema_status check_range(const char *name, float lower, float upper) {
  if (lower >= 0 && upper >= lower) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "distort_param: %s_lower: %g and %s_upper: %g", name,
                 (double)lower, name, (double)upper);
}

crema_status cr_distort_check(const Caffe__DistortionParameter *param) {
  if (!(param->brightness_delta >= 0)) {
    return cr_fail(CREMA_E_ARGUMENT, "distort_param: brightness_delta: %g",
                   (double)param->brightness_delta);
  }
  if (!(param->hue_delta >= 0)) {
    return cr_fail(CREMA_E_ARGUMENT, "distort_param: hue_delta: %g", (double)param->hue_delta);
  }
  if (param->contrast_prob > 0) {
    CR_TRY(check_range("contrast", param->contrast_lower, param->contrast_upper));
  }
  if (param->saturation_prob > 0) {
    CR_TRY(check_range("saturation", param->saturation_lower, param->saturation_upper));
  }
  return CREMA_OK;
}

/* value * factor + shift in every `stride`-th byte. */
static void scale_bytes(uint8_t *bytes, size_t count, size_t stride, float factor, float shift) {
  uint8_t table[256];
  for (int i = 0; i < 256; ++i) table[i] = cr_saturate((float)i * factor + shift);
  for (size_t i = 0; i < count; ++i) bytes[i * stride] = table[bytes[i * stride]];
}

static bool happens(float probability, cr_random *random) {
  return cr_random_uniform(random, 0, 1) < probability;
}

static void change_contrast(const Caffe__DistortionParameter *param, cr_random *random,
                            cr_image *image) {
  if (!happens(param->contrast_prob, random)) return;
  float factor = cr_random_uniform(random, param->contrast_lower, param->contrast_upper);
  if (fabsf(factor - 1) <= 1e-3F) return;
  scale_bytes(image->pixels, cr_pixel_count(image) * (size_t)image->channels, 1, factor, 0);
}

/* Scales and shifts hue (channel 0) or saturation (1). */
static void change_hsv(cr_image *image, int channel, float factor, float shift) {
  const size_t count = cr_pixel_count(image);
  cr_bgr_to_hsv(image->pixels, count);
  scale_bytes(image->pixels + channel, count, 3, factor, shift);
  cr_hsv_to_bgr(image->pixels, count);
}

/* Permutes the channels, uniformly. */
static void change_order(cr_random *random, cr_image *image) {
  int order[3] = {0, 1, 2};
  for (int i = 2; i > 0; --i) {
    int other = cr_random_below(random, i + 1), keep = order[i];
    order[i] = order[other];
    order[other] = keep;
  }
  uint8_t *end = image->pixels + 3 * cr_pixel_count(image);
  for (uint8_t *p = image->pixels; p < end; p += 3) {
    const uint8_t old[3] = {p[0], p[1], p[2]};
    for (int c = 0; c < 3; ++c) p[c] = old[order[c]];
  }
}

crema_status cr_distort(const Caffe__DistortionParameter *param, cr_random *random,
                        cr_image *image) {
  bool colored = param->hue_prob > 0 || param->saturation_prob > 0 || param->random_order_prob > 0;
  if (colored && image->channels != 3) {
    return cr_fail(CREMA_E_SHAPE,
                   "distort_param: hue, saturation and order of an image of %d channels (3 are "
                   "needed; force_color gives them)",
                   image->channels);
  }
  /* Contrast is applied before or after saturation and hue. */
  bool contrast_first = cr_random_uniform(random, 0, 1) > 0.5F;
  if (happens(param->brightness_prob, random)) {
    float shift = cr_random_uniform(random, -param->brightness_delta, param->brightness_delta);
    scale_bytes(image->pixels, cr_pixel_count(image) * (size_t)image->channels, 1, 1, shift);
  }
  if (contrast_first) change_contrast(param, random, image);
  if (happens(param->saturation_prob, random)) {
    float factor = cr_random_uniform(random, param->saturation_lower, param->saturation_upper);
    change_hsv(image, 1, factor, 0);
  }
  if (happens(param->hue_prob, random)) {
    /* As in Caffe-SSD, the shifted hue is clipped to 0..255, not taken around the circle. */
    float shift = cr_random_uniform(random, -param->hue_delta, param->hue_delta);
    if (shift != 0) change_hsv(image, 0, 1, shift);
  }
  if (!contrast_first) change_contrast(param, random, image);
  if (happens(param->random_order_prob, random)) change_order(random, image);
  return CREMA_OK;
}
