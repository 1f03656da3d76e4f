/* Resizing by weighted sums, and the policies of resize_param. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment.h"
#include "data/augment/augment_private.h"

#define MODE(name) CAFFE__RESIZE_PARAMETER__INTERP_MODE__##name
#define PAD(name) CAFFE__RESIZE_PARAMETER__PAD_MODE__##name
#define POLICY(name) CAFFE__RESIZE_PARAMETER__RESIZE_MODE__##name

/* Along one side: target pixel i is the sum over k of weight[i * taps + k] times source pixel
 * first[i] + k, where indices outside mean the border pixel. */
typedef struct taps {
  int count, per; /* target pixels, taps for each */
  int *first;
  float *weight;
} taps;

static int clamp(int value, int limit) {
  return value < 0 ? 0 : value < limit ? value : limit - 1;
}

void cr_cubic_weights(float x, float w[4]) {
  const float a = -0.75F;
  float far = x + 1, near = 1 - x;
  w[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  w[1] = ((a + 2) * x - (a + 3)) * x * x + 1;
  w[2] = ((a + 2) * near - (a + 3)) * near * near + 1;
  w[3] = 1 - w[0] - w[1] - w[2];
}

/* sinc(t) sinc(t / 4) for the eight neighbours, scaled to a sum of 1. */
static void lanczos_weights(float x, float w[8]) {
  const double pi = 3.14159265358979323846;
  double value[8], sum = 0;
  for (int k = 0; k < 8; ++k) {
    double t = pi * ((double)x + 3 - k);
    value[k] = fabs(t) < 1e-9 ? 1 : 4 * sin(t) * sin(t / 4) / (t * t);
    sum += value[k];
  }
  for (int k = 0; k < 8; ++k) w[k] = (float)(value[k] / sum);
}

/* Target pixel i covers the source from i * scale to (i + 1) * scale, without slivers below 1e-3 of
 * a pixel at the ends. */
static void cover_weights(int i, double scale, int in, int per, int *first, float *w) {
  double start = i * scale, end = start + scale < in ? start + scale : in;
  int whole = (int)ceil(start), last = (int)floor(end);
  int from = whole - start > 1e-3 ? whole - 1 : whole;
  memset(w, 0, (size_t)per * sizeof *w);
  *first = from;
  double size = end - start;
  for (int k = 0; k < per; ++k) {
    double a = from + k > start ? from + k : start;
    double b = from + k + 1 < end ? from + k + 1 : end;
    if (b - a > 0 && (from + k < last || b - a > 1e-3)) w[k] = (float)((b - a) / size);
  }
}

/* Weights for target pixel i. `cover`: AREA with both sides shrinking. As in OpenCV the scale is
 * the reciprocal of the enlargement, whose products may be just below an integer. */
static void make_tap(Caffe__ResizeParameter__InterpMode mode, bool cover, int i, int in,
                     double enlargement, taps *t) {
  const double scale = 1 / enlargement;
  float *w = t->weight + (size_t)i * (size_t)t->per;
  float position = (float)((i + 0.5) * scale - 0.5);
  int first = (int)floorf(position);
  float part = position - (float)first;
  if (mode == MODE(NEAREST)) {
    t->first[i] = clamp((int)floor(i * scale), in);
    w[0] = 1;
  } else if (cover) {
    cover_weights(i, scale, in, t->per, &t->first[i], w);
  } else if (mode == MODE(AREA)) {
    /* A target pixel from source pixel `first` to the next takes its share of both. */
    t->first[i] = first = (int)floor(i * scale);
    part = (float)((i + 1) - (first + 1) * enlargement);
    w[1] = part <= 0 ? 0 : part - floorf(part);
    w[0] = 1 - w[1];
  } else if (mode == MODE(CUBIC)) {
    t->first[i] = first - 1;
    cr_cubic_weights(part, w);
  } else {
    t->first[i] = first - 3;
    lanczos_weights(part, w);
  }
}

static crema_status make_taps(Caffe__ResizeParameter__InterpMode mode, bool cover, int in, int out,
                              double enlargement, taps *t) {
  t->count = out;
  t->per = mode == MODE(AREA) ? 2 : mode == MODE(CUBIC) ? 4 : 8;
  if (mode == MODE(NEAREST)) t->per = 1;
  else if (cover) t->per = (in + out - 1) / out + 1;
  size_t weights = (size_t)out * (size_t)t->per;
  size_t bytes = weights * sizeof *t->weight + (size_t)out * sizeof *t->first;
  t->weight = malloc(bytes);
  if (t->weight == NULL) return cr_fail_memory(bytes, "resizing an image");
  t->first = (int *)(t->weight + weights);
  for (int i = 0; i < out; ++i) make_tap(mode, cover, i, in, enlargement, t);
  return CREMA_OK;
}

/* One row of the target before narrowing: in->width * channels sums over rows of the source. */
static void sum_rows(const cr_image *in, const taps *down, int y, float *row) {
  size_t stride = (size_t)in->width * (size_t)in->channels;
  memset(row, 0, stride * sizeof *row);
  for (int k = 0; k < down->per; ++k) {
    float w = down->weight[(size_t)y * (size_t)down->per + (size_t)k];
    if (w == 0) continue;
    const uint8_t *from = in->pixels + (size_t)clamp(down->first[y] + k, in->height) * stride;
    for (size_t i = 0; i < stride; ++i) row[i] += w * (float)from[i];
  }
}

static void sum_columns(const cr_image *in, const taps *across, const float *row, uint8_t *out) {
  int channels = in->channels;
  for (int x = 0; x < across->count; ++x) {
    const float *w = across->weight + (size_t)x * (size_t)across->per;
    for (int c = 0; c < channels; ++c) {
      float sum = 0;
      for (int k = 0; k < across->per; ++k) {
        sum += w[k] * row[clamp(across->first[x] + k, in->width) * channels + c];
      }
      *out++ = cr_saturate(sum);
    }
  }
}

/* AREA at exactly half the size: means of four bytes, with ties rounded up, as OpenCV does only in
 * this case. */
static void halve(const cr_image *in, cr_image *out) {
  int channels = in->channels;
  size_t stride = (size_t)in->width * (size_t)channels;
  uint8_t *to = out->pixels;
  for (int y = 0; y < out->height; ++y) {
    const uint8_t *a = in->pixels + 2 * (size_t)y * stride, *b = a + stride;
    for (int x = 0; x < out->width; ++x, a += 2 * channels, b += 2 * channels) {
      for (int c = 0; c < channels; ++c) {
        *to++ = (uint8_t)((a[c] + a[c + channels] + b[c] + b[c + channels] + 2) >> 2);
      }
    }
  }
}

/* Sums for an enlargement of height and width; `out` has its extents. */
static crema_status sum_pixels(const cr_image *in, Caffe__ResizeParameter__InterpMode mode,
                               bool cover, const double enlargement[2], cr_image *out) {
  taps down = {0}, across = {0};
  float *row = NULL;
  size_t stride = (size_t)in->width * (size_t)in->channels;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(make_taps(mode, cover, in->height, out->height, enlargement[0], &down), out);
  CR_TRY_GOTO(make_taps(mode, cover, in->width, out->width, enlargement[1], &across), out);
  CR_TRY_GOTO(CR_NEW(row, stride, "resizing an image"), out);
  for (int y = 0; y < out->height; ++y) {
    sum_rows(in, &down, y, row);
    sum_columns(in, &across, row,
                out->pixels + (size_t)y * (size_t)out->width * (size_t)in->channels);
  }
out:
  free(row);
  free(across.weight);
  free(down.weight);
  return status;
}

static crema_status check_source(const cr_image *in, const cr_image *out) {
  if (in != out && in->pixels != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "cannot resize an image into itself or an empty image");
}

crema_status cr_image_resize_with(const cr_image *in, int height, int width,
                                  Caffe__ResizeParameter__InterpMode mode, cr_image *out) {
  CR_TRY(check_source(in, out));
  bool same = height == in->height && width == in->width;
  if (mode == MODE(LINEAR) || same) return cr_image_resize(in, height, width, out);
  CR_TRY(cr_image_reserve(out, height, width, in->channels));
  bool cover = mode == MODE(AREA) && height <= in->height && width <= in->width;
  if (cover && 2 * height == in->height && 2 * width == in->width) {
    halve(in, out);
    return CREMA_OK;
  }
  const double enlargement[2] = {(double)height / in->height, (double)width / in->width};
  return sum_pixels(in, mode, cover, enlargement, out);
}

crema_status cr_image_scale_cubic(const cr_image *in, double factor, cr_image *out) {
  CR_TRY(check_source(in, out));
  const double height = rint(in->height * factor), width = rint(in->width * factor);
  if (!(height >= 1 && width >= 1 && height <= CR_IMAGE_MAX_SIDE && width <= CR_IMAGE_MAX_SIDE)) {
    return cr_fail(CREMA_E_RANGE, "scaling %d x %d pixels by %g gives %g x %g pixels", in->height,
                   in->width, factor, height, width);
  }
  CR_TRY(cr_image_reserve(out, (int)height, (int)width, in->channels));
  return sum_pixels(in, MODE(CUBIC), false, (const double[2]){factor, factor}, out);
}

crema_status cr_resize_check(const Caffe__ResizeParameter *param) {
  if (param->height == 0 || param->width == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "resize_param: height: %u and width: %u (both are needed)",
                   param->height, param->width);
  }
  if (param->height > CR_IMAGE_MAX_SIDE || param->width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "resize_param: %u x %u pixels (at most %d a side)", param->height,
                   param->width, CR_IMAGE_MAX_SIDE);
  }
  if (param->height_scale != 0 || param->width_scale != 0) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "resize_param: height_scale and width_scale are not supported");
  }
  return CREMA_OK;
}

/* The extents before padding. */
static void inner_extent(const Caffe__ResizeParameter *param, const int in[2], int out[2]) {
  out[0] = (int)param->height;
  out[1] = (int)param->width;
  if (param->resize_mode == POLICY(WARP)) return;
  float aspect = (float)in[1] / (float)in[0], wanted = (float)out[1] / (float)out[0];
  bool width_rules =
      param->resize_mode == POLICY(FIT_SMALL_SIZE) ? aspect < wanted : aspect > wanted;
  if (width_rules) out[0] = (int)fminf(floorf((float)out[1] / aspect), 0x1p30F);
  else out[1] = (int)fminf(floorf(aspect * (float)out[0]), 0x1p30F);
  /* The short side of a very long strip keeps one pixel. */
  if (out[0] < 1) out[0] = 1;
  if (out[1] < 1) out[1] = 1;
}

void cr_resize_extent(const Caffe__ResizeParameter *param, const int in[2], int out[2]) {
  inner_extent(param, in, out);
  if (param->resize_mode == POLICY(FIT_LARGE_SIZE_AND_PAD)) {
    out[0] = (int)param->height;
    out[1] = (int)param->width;
  }
}

/* Puts `in` into the middle of `out`, whose extents are set. */
static void pad_image(const Caffe__ResizeParameter *param, const cr_image *in, cr_image *out) {
  int top = (out->height - in->height) / 2, left = (out->width - in->width) / 2;
  size_t channels = (size_t)in->channels;
  bool constant = param->pad_mode == PAD(CONSTANT), mirror = param->pad_mode == PAD(MIRRORED);
  uint8_t *to = out->pixels;
  for (int y = 0; y < out->height; ++y) {
    bool row_inside = y >= top && y < top + in->height;
    int from_y = mirror ? cr_mirrored_index(y - top, in->height) : clamp(y - top, in->height);
    for (int x = 0; x < out->width; ++x, to += channels) {
      if (constant && !(row_inside && x >= left && x < left + in->width)) {
        const size_t given = param->n_pad_value;
        for (size_t c = 0; c < channels; ++c) {
          to[c] = given == 0 ? 0 : cr_saturate(param->pad_value[given > 1 ? c : 0]);
        }
        continue;
      }
      int from_x = mirror ? cr_mirrored_index(x - left, in->width) : clamp(x - left, in->width);
      size_t position = (size_t)from_y * (size_t)in->width + (size_t)from_x;
      memcpy(to, in->pixels + position * channels, channels);
    }
  }
}

crema_status cr_resize(const Caffe__ResizeParameter *param, cr_random *random, const cr_image *in,
                       cr_image *out) {
  if (param->n_pad_value > 1 && param->n_pad_value != (size_t)in->channels) {
    return cr_fail(CREMA_E_SHAPE, "resize_param: %zu values of pad_value for %d channels",
                   param->n_pad_value, in->channels);
  }
  Caffe__ResizeParameter__InterpMode mode = MODE(LINEAR);
  if (param->n_interp_mode > 0) {
    mode = param->interp_mode[cr_random_below(random, (int)param->n_interp_mode)];
  }
  int extent[2];
  inner_extent(param, (const int[2]){in->height, in->width}, extent);
  CR_TRY(cr_image_resize_with(in, extent[0], extent[1], mode, out));
  if (param->resize_mode != POLICY(FIT_LARGE_SIZE_AND_PAD)) return CREMA_OK;
  cr_image padded = {0};
  CR_TRY(cr_image_reserve(&padded, (int)param->height, (int)param->width, in->channels));
  pad_image(param, out, &padded);
  cr_image_swap(&padded, out);
  cr_image_free(&padded);
  return CREMA_OK;
}
