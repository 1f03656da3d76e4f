#include "data/augment/clip_transform.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/rng.h"
#include "proto/field.h"

enum { RATIOS_MAX = 16 };

static const float usual_ratios[] = {1, 0.875f, 0.75f, 0.66f};

crema_status cr_clip_transform(const Caffe__TransformationParameter *param, int channels,
                               int frames, bool stacked, Caffe__TransformationParameter **out) {
  static const char *const of_clips[] = {"fix_crop",     "more_fix_crop", "multi_scale",
                                         "scale_ratios", "is_flow",       "bgr2rgb"};
  const size_t given = param->n_mean_value, all = (size_t)channels * (size_t)frames;
  CR_TRY(cr_message_copy(&param->base, out));
  ProtobufCMessage *to = &(*out)->base;
  for (size_t i = 0; i < sizeof of_clips / sizeof *of_clips; ++i) cr_message_clear(to, of_clips[i]);
  if (given < 2 || all % given != 0 || (!stacked && given != (size_t)channels)) return CREMA_OK;
  CR_TRY(cr_message_reserve(to, "mean_value", all));
  for (size_t c = 0; c < all; ++c) {
    (*out)->mean_value[c] = param->mean_value[stacked ? c % given : c / (size_t)frames];
  }
  (*out)->n_mean_value = all;
  return CREMA_OK;
}

bool cr_fixed_crop_is_set(const Caffe__TransformationParameter *param) {
  return param->fix_crop || param->multi_scale;
}

static int draw_below(uint32_t word, int count) {
  return (int)(((uint64_t)word * (uint64_t)count) >> 32);
}

/* A side that is `ratio` of the frame's shorter side. One that is almost crop_size becomes it. */
static int side_of(const Caffe__TransformationParameter *param, int shorter, float ratio) {
  const int side = (int)((float)shorter * ratio), wanted = (int)param->crop_size;
  return abs(side - wanted) < 3 ? wanted : side;
}

/* One of the pairs of sides whose ratios are at most max_distort steps apart. */
static crema_status choose_size(const Caffe__TransformationParameter *param, uint32_t word,
                                int shorter, cr_image_part *out) {
  const bool given = param->n_scale_ratios > 0;
  const float *ratio = given ? param->scale_ratios : usual_ratios;
  const size_t ratios = given ? param->n_scale_ratios : sizeof usual_ratios / sizeof *usual_ratios;
  if (ratios > RATIOS_MAX || param->max_distort < 0) {
    return cr_fail(CREMA_E_RANGE,
                   "transform_param: %zu scale_ratios, at most %d are possible; max_distort is %d, "
                   "must be 0 or more",
                   ratios, RATIOS_MAX, param->max_distort);
  }
  cr_image_part pair[RATIOS_MAX * RATIOS_MAX];
  int pairs = 0;
  for (int h = 0; h < (int)ratios; ++h) {
    for (int w = 0; w < (int)ratios; ++w) {
      if (abs(h - w) > param->max_distort) continue;
      pair[pairs++] = (cr_image_part){.height = side_of(param, shorter, ratio[h]),
                                      .width = side_of(param, shorter, ratio[w])};
    }
  }
  *out = pair[draw_below(word, pairs)];
  return CREMA_OK;
}

/* Positions in quarters of the spare rows and columns: the corners and the middle, then the middles
 * of the sides and of the quarters. */
static void choose_place(const Caffe__TransformationParameter *param, const uint32_t *word,
                         int spare_rows, int spare_columns, cr_image_part *out) {
  static const int quarters[][2] = {{0, 0}, {0, 4}, {4, 0}, {4, 4}, {2, 2}, {0, 2}, {4, 2},
                                    {2, 0}, {2, 4}, {1, 1}, {1, 3}, {3, 1}, {3, 3}};
  if (param->fix_crop) {
    const int *at = quarters[draw_below(word[0], param->more_fix_crop ? 13 : 5)];
    out->top = spare_rows / 4 * at[0];
    out->left = spare_columns / 4 * at[1];
  } else {
    out->top = draw_below(word[0], spare_rows + 1);
    out->left = draw_below(word[1], spare_columns + 1);
  }
}

crema_status cr_fixed_crop_choose(const Caffe__TransformationParameter *param, uint64_t key,
                                  uint64_t sample, int height, int width, cr_image_part *out) {
  const int side = (int)param->crop_size;
  uint32_t word[4];
  if (side < 1 || side > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "transform_param: fix_crop and multi_scale need a crop_size of 1 to %d",
                   CR_IMAGE_MAX_SIDE);
  }
  cr_philox(key, 0, sample, word);
  *out = (cr_image_part){.height = side, .width = side};
  if (param->multi_scale) {
    CR_TRY(choose_size(param, word[2], height < width ? height : width, out));
  }
  if (out->height < 1 || out->width < 1 || out->height > height || out->width > width) {
    return cr_fail(CREMA_E_SHAPE, "transform_param: a crop of %d x %d from frames of %d x %d",
                   out->height, out->width, height, width);
  }
  choose_place(param, word, height - out->height, width - out->width, out);
  return CREMA_OK;
}
