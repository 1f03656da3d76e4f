/* PriorBox: default boxes for each position of a feature map (Liu et al., "SSD", 2016).
 *
 * Formula: each cell has boxes around its centre ((x + offset) step_w, (y + offset) step_h). Each
 * min_size gives a square and, with max_size, a square of side sqrt(min_size max_size). Each aspect
 * ratio r gives a box of width min_size sqrt(r) and height min_size / sqrt(r). Coordinates are
 * fractions of the image. Sizes are truncated to whole numbers. With denser_prior_boxes each box is
 * followed by the same box around ((x + offset) step_w, (y + 1) step_h).
 * Shapes: the map (N, C, H, W), the image (N, C, height, width) -> y (1, 2, 4 boxes): the boxes and
 * their variances.
 * Fields: prior_box_param.
 * Caffe: as in Caffe-SSD; denser_prior_boxes as in TextBoxes++.
 * Example, map 1 8 3 3, image 1 3 30 30:
 *   layer { name: "priors" type: "PriorBox" bottom: "map" bottom: "image" top: "y"
 *     prior_box_param { min_size: 10 max_size: 20 aspect_ratio: 2 variance: 0.1 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

enum { MOST_RATIOS = 256 };

typedef struct prior_state {
  int ratios;
  double ratio[MOST_RATIOS]; /* all of them, 1 first */
  int64_t per_cell;
  double image[2], step[2]; /* width, height */
  int64_t map[2];
  cr_tensor *boxes; /* the top's values, which other layers may overwrite in the top */
  bool stale;       /* they are not computed yet */
} prior_state;

static crema_status add_ratio(const cr_layer *layer, prior_state *s, double ratio, bool flip) {
  for (int i = 0; i < s->ratios; ++i) {
    if (fabs(s->ratio[i] - ratio) < 1e-6) return CREMA_OK;
  }
  if (!(ratio > 0 && ratio < 1e6) || s->ratios + 2 > MOST_RATIOS) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "aspect_ratio is %g, must be above 0, and %d are the most", ratio,
                         MOST_RATIOS / 2);
  }
  s->ratio[s->ratios++] = ratio;
  if (flip) s->ratio[s->ratios++] = 1 / ratio;
  return CREMA_OK;
}

static crema_status check_sizes(const cr_layer *layer, const Caffe__PriorBoxParameter *p) {
  if (p->n_min_size == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "prior_box_param needs a min_size");
  }
  if (p->n_max_size != 0 && p->n_max_size != p->n_min_size) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "max_size must be given once per min_size (%zu) or not at all; found %zu",
                         p->n_min_size, p->n_max_size);
  }
  for (size_t i = 0; i < p->n_min_size; ++i) {
    if (!(p->min_size[i] > 0 && p->min_size[i] < 1e9f) ||
        (p->n_max_size > 0 && !(p->max_size[i] > p->min_size[i] && p->max_size[i] < 1e9f))) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "min_size %zu must be above 0, and max_size above it", i);
    }
  }
  if (p->n_variance != 0 && p->n_variance != 1 && p->n_variance != 4) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "variance must be given once or 4 times");
  }
  for (size_t i = 0; i < p->n_variance; ++i) {
    if (p->variance[i] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "variance is %g, must be above 0",
                         (double)p->variance[i]);
  }
  return CREMA_OK;
}

static crema_status check_image(const cr_layer *layer, const Caffe__PriorBoxParameter *p) {
  if (p->has_img_size && (p->has_img_h || p->has_img_w)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "give img_size or img_h and img_w, not both");
  }
  if (p->has_img_h != p->has_img_w || (p->has_img_h && (p->img_h == 0 || p->img_w == 0)) ||
      (p->has_img_size && p->img_size == 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "img_h and img_w must both be 1 or more");
  }
  if (p->has_step && (p->has_step_h || p->has_step_w)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "give step or step_h and step_w, not both");
  }
  if (p->has_step_h != p->has_step_w || (p->has_step && !(p->step > 0)) ||
      (p->has_step_h && !(p->step_h > 0 && p->step_w > 0))) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "step, or step_h and step_w, must be above 0");
  }
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  prior_state *s = layer->state;
  const Caffe__PriorBoxParameter *p = layer->param->prior_box_param;
  (void)bottom, (void)top;
  if (p == NULL) return cr_layer_fail(layer, CREMA_E_ARGUMENT, "prior_box_param needs a min_size");
  CR_TRY(check_sizes(layer, p));
  CR_TRY(check_image(layer, p));
  s->ratio[s->ratios++] = 1;
  for (size_t i = 0; i < p->n_aspect_ratio; ++i) {
    CR_TRY(add_ratio(layer, s, (double)p->aspect_ratio[i], p->flip));
  }
  s->per_cell = s->ratios * (int64_t)p->n_min_size + (int64_t)p->n_max_size;
  if (p->denser_prior_boxes) s->per_cell *= 2;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  prior_state *s = layer->state;
  const Caffe__PriorBoxParameter *p = layer->param->prior_box_param;
  const crema_shape *map = &bottom[0]->shape, *image = &bottom[1]->shape;
  if (map->axes != 4 || image->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "both bottoms must have 4 axes, found %d and %d",
                         map->axes, image->axes);
  }
  const uint32_t given[2] = {p->has_img_size ? p->img_size : p->img_w,
                             p->has_img_size ? p->img_size : p->img_h};
  const float step[2] = {p->has_step ? p->step : p->step_w, p->has_step ? p->step : p->step_h};
  for (int i = 0; i < 2; ++i) {
    s->map[i] = map->dim[3 - i];
    s->image[i] = given[i] > 0 ? (double)given[i] : (double)image->dim[3 - i];
    s->step[i] = step[i] > 0 ? (double)step[i] : s->image[i] / (double)s->map[i];
    if (s->image[i] < 1) return cr_layer_fail(layer, CREMA_E_SHAPE, "the image has no pixels");
  }
  crema_shape to = cr_shape_3(1, 2, 4 * s->per_cell);
  if (s->map[0] * s->map[1] > INT32_MAX / to.dim[2]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "there would be too many boxes");
  }
  to.dim[2] *= s->map[0] * s->map[1];
  s->stale = true;
  CR_TRY(crema_blob_reshape(top[0], &to));
  return cr_layer_tensor(layer, &s->boxes, cr_tensor_type(top[0]->data), crema_blob_count(top[0]));
}

/* The position of the next box. */
typedef struct writer {
  const prior_state *state;
  cr_host_results to;
  double offset;
  bool clip, denser;
  int64_t cell, at;
} writer;

/* A box of this size in pixels, with its centre at these shares of the cell. */
static void put_box_at(writer *w, double width, double height, double right, double down) {
  const prior_state *s = w->state;
  for (int k = 0; k < 4; ++k) {
    const int64_t cell = k % 2 == 0 ? w->cell % s->map[0] : w->cell / s->map[0];
    const double half = (k % 2 == 0 ? width : height) / 2;
    const double centre = ((double)cell + (k % 2 == 0 ? right : down)) * s->step[k % 2];
    const double value = (k < 2 ? centre - half : centre + half) / s->image[k % 2];
    cr_host_put(&w->to, w->at++, w->clip ? fmin(fmax(value, 0), 1) : value);
  }
}

static void put_box(writer *w, double width, double height) {
  put_box_at(w, width, height, w->offset, w->offset);
  if (w->denser) put_box_at(w, width, height, w->offset, 1);
}

static void put_cell(writer *w, const Caffe__PriorBoxParameter *p) {
  for (size_t i = 0; i < p->n_min_size; ++i) {
    const double least = floor((double)p->min_size[i]);
    put_box(w, least, least);
    if (p->n_max_size > 0) {
      const double side = sqrt(least * floor((double)p->max_size[i]));
      put_box(w, side, side);
    }
    for (int r = 1; r < w->state->ratios; ++r) {
      const double root = sqrt(w->state->ratio[r]);
      put_box(w, least * root, least / root);
    }
  }
}

static crema_status compute(prior_state *s, const Caffe__PriorBoxParameter *p) {
  writer w = {
      .state = s, .offset = (double)p->offset, .clip = p->clip, .denser = p->denser_prior_boxes};
  CR_TRY(cr_host_write(s->boxes, &w.to));
  for (w.cell = 0; w.cell < s->map[0] * s->map[1]; ++w.cell) put_cell(&w, p);
  const int64_t half = w.at;
  for (; w.at < 2 * half; ++w.at) {
    const size_t k = p->n_variance == 4 ? (size_t)(w.at % 4) : 0;
    cr_host_put(&w.to, w.at, p->n_variance > 0 ? (double)p->variance[k] : 0.1);
  }
  s->stale = false;
  return CREMA_OK;
}

/* The copy stays on the net's device. */
static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  prior_state *s = layer->state;
  (void)bottom;
  if (s->stale) CR_TRY(compute(s, layer->param->prior_box_param));
  return cr_tensor_copy(top[0]->data, s->boxes, context);
}

const cr_layer_class cr_layer_prior_box = {
    .type = "PriorBox",
    .state_size = sizeof(prior_state),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .graph.ignores_values = true,
    .graph.wide_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
};
