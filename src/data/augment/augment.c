#include "data/augment/augment.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "data/augment/augment_private.h"

struct cr_augment {
  Caffe__TransformationParameter *param; /* a copy */
};

static crema_status refuse(const char *field) {
  return cr_fail(CREMA_E_UNSUPPORTED, "transform_param: %s is not supported", field);
}

static crema_status check_unknown(const Caffe__TransformationParameter *param) {
  if (param->rand_resize_ratio_lower != 0 || param->rand_resize_ratio_upper != 0) {
    return refuse("rand_resize_ratio_lower and _upper");
  }
  if (param->vertical_stretch_lower != 1 || param->vertical_stretch_upper != 1 ||
      param->horizontal_stretch_lower != 1 || param->horizontal_stretch_upper != 1) {
    return refuse("vertical_stretch and horizontal_stretch");
  }
  if (param->flow) return refuse("flow");
  if (param->pad != 0) return refuse("pad (give it to the first convolution)");
  if (param->n_scale_factors > 0) return refuse("scale_factors outside of ImageSegData layers");
  if (param->random_aspect_ratio_param != NULL) return refuse("random_aspect_ratio_param");
  return CREMA_OK;
}

static crema_status check_rand_resize(const Caffe__TransformationParameter *param) {
  uint32_t lower = param->img_rand_resize_lower, upper = param->img_rand_resize_upper;
  if ((lower == 0) != (upper == 0) || lower > upper) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: img_rand_resize_lower: %u and img_rand_resize_upper: %u",
                   lower, upper);
  }
  if (upper > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "transform_param: img_rand_resize_upper: %u (at most %d)", upper,
                   CR_IMAGE_MAX_SIDE);
  }
  return CREMA_OK;
}

/* Intel Caffe's form of the random resize. */
static crema_status check_random_resize(const Caffe__TransformationParameter *param) {
  const Caffe__RandomResizeParameter *p = param->random_resize_param;
  if (p == NULL) return CREMA_OK;
  if (param->img_rand_resize_upper != 0) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: random_resize_param and img_rand_resize_upper exclude each "
                   "other");
  }
  if (p->min_size > CR_IMAGE_MAX_SIDE || p->max_size > CR_IMAGE_MAX_SIDE ||
      (p->max_size > 0 && p->min_size > p->max_size)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "random_resize_param: min_size: %u and max_size: %u (at most %d)", p->min_size,
                   p->max_size, CR_IMAGE_MAX_SIDE);
  }
  return CREMA_OK;
}

static crema_status check_expand(const Caffe__TransformationParameter *param) {
  float ratio = param->expand_param->max_expand_ratio;
  if (!(ratio >= 1 && ratio <= CR_IMAGE_MAX_SIDE)) {
    return cr_fail(CREMA_E_RANGE, "expand_param: max_expand_ratio: %g (at least 1)", (double)ratio);
  }
  if (param->mean_file != NULL && param->mean_file[0] != '\0') {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "expand_param: a canvas of the values of mean_file is not supported "
                   "(mean_value is)");
  }
  return CREMA_OK;
}

static crema_status check(const Caffe__TransformationParameter *param) {
  CR_TRY(check_unknown(param));
  CR_TRY(check_rand_resize(param));
  CR_TRY(check_random_resize(param));
  if (param->resize_param != NULL) CR_TRY(cr_resize_check(param->resize_param));
  if (param->noise_param != NULL) CR_TRY(cr_noise_check(param->noise_param));
  if (param->distort_param != NULL) CR_TRY(cr_distort_check(param->distort_param));
  if (param->expand_param != NULL) CR_TRY(check_expand(param));
  return CREMA_OK;
}

crema_status cr_augment_create(const Caffe__TransformationParameter *param, cr_augment **out) {
  *out = NULL;
  if (param == NULL) return CREMA_OK;
  CR_TRY(check(param));
  if (param->resize_param == NULL && param->noise_param == NULL && param->distort_param == NULL &&
      param->expand_param == NULL && param->img_rand_resize_upper == 0 &&
      param->random_resize_param == NULL) {
    return CREMA_OK;
  }
  cr_augment *augment = calloc(1, sizeof *augment);
  if (augment == NULL) return cr_fail_memory(sizeof *augment, "an augmentation");
  ProtobufCMessage *copy = NULL;
  crema_status status = cr_message_copy(&param->base, &copy);
  if (status != CREMA_OK) {
    free(augment);
    return status;
  }
  augment->param = (Caffe__TransformationParameter *)copy;
  *out = augment;
  return CREMA_OK;
}

void cr_augment_destroy(cr_augment *augment) {
  if (augment == NULL) return;
  cr_message_free(&augment->param->base);
  free(augment);
}

/* The extents of an expanded canvas, and the image's place in it. */
typedef struct canvas {
  bool used;
  int height, width, top, left;
} canvas;

static canvas draw_canvas(const cr_augment *augment, uint64_t key, uint64_t sample, int height,
                          int width) {
  const Caffe__ExpansionParameter *expand = augment->param->expand_param;
  if (expand == NULL) return (canvas){0};
  cr_random random = cr_random_begin(key, sample, CR_STAGE_EXPAND);
  if (!(cr_random_uniform(&random, 0, 1) < expand->prob)) return (canvas){0};
  if (expand->max_expand_ratio - 1 < 1e-2F) return (canvas){0};
  float ratio = cr_random_uniform(&random, 1, expand->max_expand_ratio);
  canvas c = {.used = true};
  c.height = (int)fminf((float)height * ratio, 0x1p30F);
  c.width = (int)fminf((float)width * ratio, 0x1p30F);
  c.top = (int)floorf(cr_random_uniform(&random, 0, (float)(c.height - height)));
  c.left = (int)floorf(cr_random_uniform(&random, 0, (float)(c.width - width)));
  return c;
}

/* The range of lengths for the shorter side of an image. */
static void lengths_of(const Caffe__TransformationParameter *param, const int in[2], int *lower,
                       int *upper) {
  const Caffe__RandomResizeParameter *p = param->random_resize_param;
  const int shorter = in[0] < in[1] ? in[0] : in[1], longer = in[0] < in[1] ? in[1] : in[0];
  *lower = p == NULL         ? (int)param->img_rand_resize_lower
           : p->min_size > 0 ? (int)p->min_size
                             : shorter;
  *upper = p == NULL         ? (int)param->img_rand_resize_upper
           : p->max_size > 0 ? (int)p->max_size
                             : longer;
  if (*upper < *lower) *upper = *lower;
}

/* The extents of a random resize; false: no change. The shorter side gets a uniform random length
 * from lower to upper; in the NVIDIA dialect images only shrink without allow_upscale. */
static bool draw_rand_resize(const cr_augment *augment, uint64_t key, uint64_t sample,
                             const int in[2], int out[2]) {
  const Caffe__TransformationParameter *param = augment->param;
  const bool grows = param->random_resize_param != NULL || param->allow_upscale;
  int lower = 0, upper = 0;
  if (param->img_rand_resize_upper == 0 && param->random_resize_param == NULL) return false;
  lengths_of(param, in, &lower, &upper);
  cr_random random = cr_random_begin(key, sample, CR_STAGE_RAND_RESIZE);
  int length = lower + cr_random_below(&random, upper - lower + 1);
  int shorter = in[0] < in[1] ? 0 : 1;
  if (length == in[shorter] || (length > in[shorter] && !grows)) return false;
  out[shorter] = length;
  out[1 - shorter] = (int)((int64_t)length * in[1 - shorter] / in[shorter]);
  return true;
}

static bool draw_resize(const cr_augment *augment, cr_random *random) {
  const Caffe__ResizeParameter *resize = augment->param->resize_param;
  return resize != NULL && cr_random_uniform(random, 0, 1) < resize->prob;
}

bool cr_augment_resizes(const cr_augment *augment, uint64_t key, uint64_t sample, const int in[2],
                        int before[2]) {
  memcpy(before, in, 2 * sizeof *before);
  if (augment == NULL) return false;
  (void)draw_rand_resize(augment, key, sample, in, before);
  cr_random random = cr_random_begin(key, sample, CR_STAGE_RESIZE);
  return draw_resize(augment, &random);
}

crema_status cr_augment_extent(const cr_augment *augment, uint64_t key, uint64_t sample,
                               const int in[2], int out[2]) {
  int now[2] = {in[0], in[1]};
  if (augment != NULL) {
    canvas c = draw_canvas(augment, key, sample, now[0], now[1]);
    if (c.used) {
      now[0] = c.height;
      now[1] = c.width;
    }
    int next[2];
    if (draw_rand_resize(augment, key, sample, now, next)) memcpy(now, next, sizeof now);
    cr_random random = cr_random_begin(key, sample, CR_STAGE_RESIZE);
    if (draw_resize(augment, &random)) {
      cr_resize_extent(augment->param->resize_param, now, next);
      memcpy(now, next, sizeof now);
    }
  }
  memcpy(out, now, sizeof now);
  return CREMA_OK;
}

/* The canvas has the colour of the mean values, which the transformer turns to 0, or is black. */
static crema_status expand_image(const cr_augment *augment, const canvas *c, cr_image *image,
                                 cr_image *scratchpad) {
  size_t means = augment->param->n_mean_value, channels = (size_t)image->channels;
  if (means > 1 && means != channels) {
    return cr_fail(CREMA_E_SHAPE, "expand_param: %zu mean values for %zu channels", means,
                   channels);
  }
  CR_TRY(cr_image_reserve(scratchpad, c->height, c->width, image->channels));
  size_t pixels = (size_t)c->height * (size_t)c->width;
  for (size_t k = 0; k < channels; ++k) {
    float mean = means == 0 ? 0 : augment->param->mean_value[means > 1 ? k : 0];
    uint8_t fill = cr_saturate(mean);
    for (size_t i = 0; i < pixels; ++i) scratchpad->pixels[i * channels + k] = fill;
  }
  size_t row = (size_t)image->width * channels;
  for (int y = 0; y < image->height; ++y) {
    size_t first = (size_t)(c->top + y) * (size_t)c->width + (size_t)c->left;
    memcpy(scratchpad->pixels + first * channels, image->pixels + (size_t)y * row, row);
  }
  cr_image_swap(scratchpad, image);
  return CREMA_OK;
}

crema_status cr_augment_canvas(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout, float expanded[4]) {
  if (expanded != NULL) memcpy(expanded, (const float[4]){0, 0, 1, 1}, 4 * sizeof *expanded);
  if (augment == NULL) return CREMA_OK;
  if (augment->param->distort_param != NULL) {
    cr_random random = cr_random_begin(key, sample, CR_STAGE_DISTORT);
    CR_TRY(cr_distort(augment->param->distort_param, &random, inout));
  }
  canvas c = draw_canvas(augment, key, sample, inout->height, inout->width);
  if (!c.used) return CREMA_OK;
  float height = (float)inout->height, width = (float)inout->width;
  cr_image scratchpad = {0};
  crema_status status = expand_image(augment, &c, inout, &scratchpad);
  cr_image_free(&scratchpad);
  if (status != CREMA_OK || expanded == NULL) return status;
  expanded[0] = (float)-c.left / width;
  expanded[1] = (float)-c.top / height;
  expanded[2] = (float)(c.width - c.left) / width;
  expanded[3] = (float)(c.height - c.top) / height;
  return CREMA_OK;
}

static Caffe__ResizeParameter__InterpMode interp_of(
    Caffe__TransformationParameter__InterpolationAlgo algo) {
  switch (algo) {
    case CAFFE__TRANSFORMATION_PARAMETER__INTERPOLATION_ALGO__INTER_NEAREST:
      return CAFFE__RESIZE_PARAMETER__INTERP_MODE__NEAREST;
    case CAFFE__TRANSFORMATION_PARAMETER__INTERPOLATION_ALGO__INTER_CUBIC:
      return CAFFE__RESIZE_PARAMETER__INTERP_MODE__CUBIC;
    case CAFFE__TRANSFORMATION_PARAMETER__INTERPOLATION_ALGO__INTER_AREA:
      return CAFFE__RESIZE_PARAMETER__INTERP_MODE__AREA;
    default: return CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR;
  }
}

/* The interpolation of a random resize. */
static Caffe__ResizeParameter__InterpMode rand_resize_mode(
    const Caffe__TransformationParameter *param, uint64_t key, uint64_t sample, bool grows) {
  const Caffe__RandomResizeParameter *p = param->random_resize_param;
  const Caffe__ResizeParameter *resize = p != NULL ? p->resize_param : NULL;
  if (p == NULL) {
    return interp_of(grows ? param->interpolation_algo_up : param->interpolation_algo_down);
  }
  if (resize == NULL || resize->n_interp_mode == 0) {
    return CAFFE__RESIZE_PARAMETER__INTERP_MODE__LINEAR;
  }
  cr_random random = cr_random_begin(key, sample, CR_STAGE_RAND_RESIZE);
  (void)cr_random_next(&random); /* the length */
  return resize->interp_mode[cr_random_below(&random, (int)resize->n_interp_mode)];
}

static crema_status finish(const cr_augment *augment, uint64_t key, uint64_t sample,
                           cr_image *inout, cr_image *scratchpad) {
  const Caffe__TransformationParameter *param = augment->param;
  const int in[2] = {inout->height, inout->width};
  int extent[2];
  if (draw_rand_resize(augment, key, sample, in, extent)) {
    bool grows = extent[0] > in[0] || extent[1] > in[1];
    CR_TRY(cr_image_resize_with(inout, extent[0], extent[1],
                                rand_resize_mode(param, key, sample, grows), scratchpad));
    cr_image_swap(scratchpad, inout);
  }
  cr_random random = cr_random_begin(key, sample, CR_STAGE_RESIZE);
  if (draw_resize(augment, &random)) {
    CR_TRY(cr_resize(param->resize_param, &random, inout, scratchpad));
    cr_image_swap(scratchpad, inout);
  }
  if (param->noise_param == NULL) return CREMA_OK;
  random = cr_random_begin(key, sample, CR_STAGE_NOISE);
  return cr_noise(param->noise_param, &random, inout, scratchpad);
}

crema_status cr_augment_finish(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_image *inout) {
  if (augment == NULL) return CREMA_OK;
  cr_image scratchpad = {0};
  crema_status status = finish(augment, key, sample, inout, &scratchpad);
  cr_image_free(&scratchpad);
  return status;
}

crema_status cr_augment_image(const cr_augment *augment, uint64_t key, uint64_t sample,
                              cr_image *inout) {
  CR_TRY(cr_augment_canvas(augment, key, sample, inout, NULL));
  return cr_augment_finish(augment, key, sample, inout);
}

crema_status cr_augment_pixels(const cr_augment *augment, uint64_t key, uint64_t sample,
                               cr_pixels *pixels, cr_image *store) {
  if (augment == NULL) return CREMA_OK;
  if (pixels->type != CREMA_U8) {
    return cr_fail(CREMA_E_TYPE,
                   "transform_param: resize, noise, distort and expand work on bytes, not on %s",
                   crema_dtype_name(pixels->type));
  }
  if (pixels->values != store->pixels) {
    size_t bytes = (size_t)pixels->height * (size_t)pixels->width * (size_t)pixels->channels;
    CR_TRY(cr_image_reserve(store, pixels->height, pixels->width, pixels->channels));
    if (pixels->interleaved) memcpy(store->pixels, pixels->values, bytes);
    else cr_image_interleave(pixels->values, store);
  }
  CR_TRY(cr_augment_image(augment, key, sample, store));
  *pixels = cr_image_pixels(store);
  return CREMA_OK;
}
