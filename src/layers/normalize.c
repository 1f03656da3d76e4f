/* Normalize: vectors to length 1, times a learned scale (Liu et al., "ParseNet", 2015) or without
 * one (Wang et al., "NormFace", 2017).
 *
 * Formula: y = scale * x / sqrt(sum of x^2 + eps). The sum is over the channels of each position
 * or, with across_spatial, over the sample. With normalize_param or two tops, y = x / norm without
 * a scale. The norm, over the channels, is sqrt(sum of x^2 + 1e-12) or, if normalize_type is L1,
 * 1e-6 + sum of |x|.
 * Shapes: x (N, C, ...) -> y (as x) and, optionally, norm (N, 1, ...). Parameter: scale, one per
 * channel (C) or, with channel_shared, one for all (a scalar); filled with 1 unless scale_filler
 * says otherwise. Without a scale there is no parameter.
 * Fields: norm_param, normalize_param.
 * Caffe: norm_param is as in Caffe-SSD, whose gradient of the bottom does not fit this formula if
 * the scales of channels differ. With normalize_param, it is as in NormFace's GPU code. NormFace's
 * CPU code adds 1e-6 instead of 1e-12, and ignores fix_gradient. NormFace's nets without
 * normalize_param need normalize_param { }.
 * Example, x 2 3 4 4:
 *   layer { name: "norm" type: "Normalize" bottom: "x" top: "y"
 *     norm_param { across_spatial: false channel_shared: false
 *       scale_filler { type: "constant" value: 20 } } } */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct normalize_state {
  bool across, shared;
  float eps;
  cr_layer_op forward, backward, backward_scale, backward_data; /* of both, of one */
  cr_tensor *norm;                                              /* the divisor of x */
  bool plain;         /* without a scale; the members below are only for this */
  bool absolute;      /* lengths are sums of absolute values */
  bool of_norm;       /* the norm's gradient counts */
  bool fixed;         /* the gradient is not divided by the norm */
  int64_t n, c, each; /* samples, channels, positions of a sample */
} normalize_state;

/* ---- without a scale ----------------------------------------------------- */

static crema_status setup_plain(cr_layer *layer) {
  static const Caffe__VectorNormalizeParameter defaults = CAFFE__VECTOR_NORMALIZE_PARAMETER__INIT;
  normalize_state *s = layer->state;
  const Caffe__VectorNormalizeParameter *p =
      layer->param->normalize_param ? layer->param->normalize_param : &defaults;
  if (layer->param->norm_param != NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "norm_param has a scale, normalize_param and two tops have none");
  }
  s->absolute = strcmp(p->normalize_type, "L1") == 0;
  if (!s->absolute && strcmp(p->normalize_type, "L2") != 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "normalize_type is '%s', must be L1 or L2",
                         p->normalize_type);
  }
  s->fixed = p->fix_gradient;
  s->of_norm = p->bp_norm && layer->tops == 2;
  return CREMA_OK;
}

static crema_status reshape_plain(cr_layer *layer, crema_blob *const *bottom,
                                  crema_blob *const *top) {
  normalize_state *s = layer->state;
  crema_shape shape = bottom[0]->shape;
  CR_TRY(cr_layer_need_channels(layer, &shape));
  s->n = shape.dim[0];
  s->c = shape.dim[1];
  s->each = crema_shape_count(&shape, 2, shape.axes);
  CR_TRY(crema_blob_reshape(top[0], &shape));
  if (layer->tops == 1) return CREMA_OK;
  shape.dim[1] = 1;
  return crema_blob_reshape(top[1], &shape);
}

/* What threads read and write. */
typedef struct plain_pass {
  const normalize_state *s;
  cr_host_values x, diff, diff_norm;
  cr_host_results y, norm, diff_x;
} plain_pass;

/* The norm of the vector that begins at `first`. */
static double norm_of(const plain_pass *pass, int64_t first) {
  const normalize_state *s = pass->s;
  double sum = s->absolute ? 1e-6 : 1e-12;
  for (int64_t c = 0; c < s->c; ++c) {
    const double x = cr_host_get(&pass->x, first + c * s->each);
    sum += s->absolute ? fabs(x) : x * x;
  }
  return s->absolute ? sum : sqrt(sum);
}

static crema_status divide_sample(void *state, int worker, int64_t n) {
  const plain_pass *pass = state;
  const normalize_state *s = pass->s;
  (void)worker;
  for (int64_t p = 0; p < s->each; ++p) {
    const int64_t first = n * s->c * s->each + p;
    const double norm = norm_of(pass, first);
    for (int64_t at = first; at < first + s->c * s->each; at += s->each) {
      cr_host_put(&pass->y, at, cr_host_get(&pass->x, at) / norm);
    }
    if (pass->norm.wide || pass->norm.narrow) cr_host_put(&pass->norm, n * s->each + p, norm);
  }
  return CREMA_OK;
}

/* The derivative of the norm by x. */
static double slope(const normalize_state *s, double x, double norm) {
  return s->absolute ? (double)((x > 0) - (x < 0)) : x / norm;
}

static crema_status fill_diff_sample(void *state, int worker, int64_t n) {
  const plain_pass *pass = state;
  const normalize_state *s = pass->s;
  (void)worker;
  for (int64_t p = 0; p < s->each; ++p) {
    const int64_t first = n * s->c * s->each + p, end = first + s->c * s->each;
    const double norm = norm_of(pass, first), divisor = s->fixed ? 1 : norm;
    const double of_norm = s->of_norm ? cr_host_get(&pass->diff_norm, n * s->each + p) : 0;
    double dot = 0;
    for (int64_t at = first; at < end; at += s->each) {
      dot += cr_host_get(&pass->x, at) / norm * cr_host_get(&pass->diff, at);
    }
    for (int64_t at = first; at < end; at += s->each) {
      const double by = slope(s, cr_host_get(&pass->x, at), norm);
      cr_host_put(&pass->diff_x, at,
                  (cr_host_get(&pass->diff, at) - by * dot) / divisor + by * of_norm);
    }
  }
  return CREMA_OK;
}

static crema_status spread_plain(const normalize_state *s, const crema_context *context,
                                 cr_host_work *work, plain_pass *pass) {
  /* A value takes as long as about 10 multiply-adds. */
  const double cost = 10.0 * (double)(s->n * s->c * s->each);
  return cr_host_spread(cr_host_workers(context, cost), s->n, work, pass);
}

static crema_status forward_plain(cr_layer *layer, crema_context *context,
                                  crema_blob *const *bottom, crema_blob *const *top) {
  plain_pass pass = {.s = layer->state};
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_write(top[0]->data, &pass.y));
  if (layer->tops == 2) CR_TRY(cr_host_write(top[1]->data, &pass.norm));
  return spread_plain(pass.s, context, divide_sample, &pass);
}

static crema_status backward_plain(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                   const bool *propagate_down, crema_blob *const *bottom) {
  plain_pass pass = {.s = layer->state};
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_read(top[0]->diff, &pass.diff));
  if (pass.s->of_norm) CR_TRY(cr_host_read(top[1]->diff, &pass.diff_norm));
  CR_TRY(cr_host_write(bottom[0]->diff, &pass.diff_x));
  return spread_plain(pass.s, context, fill_diff_sample, &pass);
}

/* ---- with a scale -------------------------------------------------------- */

static const Caffe__NormalizeParameter *param_of(const cr_layer *layer) {
  static const Caffe__NormalizeParameter defaults = CAFFE__NORMALIZE_PARAMETER__INIT;
  return layer->param->norm_param ? layer->param->norm_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__FillerParameter one = CR_CONSTANT_FILLER(1);
  normalize_state *s = layer->state;
  const Caffe__NormalizeParameter *param = param_of(layer);
  (void)top;
  CR_TRY(cr_layer_need_channels(layer, &bottom[0]->shape));
  s->plain = layer->param->normalize_param != NULL || layer->tops == 2;
  if (s->plain) return setup_plain(layer);
  if (!(param->eps >= 0 && param->eps < 1e30f)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "eps is %g, must be 0 or more", (double)param->eps);
  }
  s->across = param->across_spatial;
  s->shared = param->channel_shared;
  s->eps = param->eps;
  const crema_shape scale = s->shared ? cr_shape(0, NULL) : cr_shape_1(bottom[0]->shape.dim[1]);
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &scale, param->scale_filler ? param->scale_filler : &one);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  normalize_state *s = layer->state;
  if (s->plain) return reshape_plain(layer, bottom, top);
  const crema_shape *shape = &bottom[0]->shape, *scale = &layer->blob[0]->shape;
  CR_TRY(cr_layer_need_channels(layer, shape));
  const crema_shape x = cr_layer_fold(shape, 1, 2);
  const crema_shape norm = cr_shape_1(s->across ? x.dim[0] : x.dim[0] * x.dim[2]);
  const int64_t scales = crema_blob_count(layer->blob[0]);
  if (!s->shared && x.dim[1] != scales) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "there are scales for %lld channels, found %lld",
                         (long long)scales, (long long)x.dim[1]);
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  CR_TRY(cr_layer_tensor(layer, &s->norm, cr_layer_arithmetic(layer), norm.dim[0]));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_NORMALIZE_FWD);
  desc.u.normalize.across = s->across;
  desc.u.normalize.eps = s->eps;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &x, scale, &x, &norm));
  desc.kind = CR_OP_NORMALIZE_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, &x, scale, &norm, &x, &x, scale));
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, &x, scale, &norm, &x, &x, NULL));
  return CR_LAYER_MAKE(layer, &s->backward_scale, &desc, &x, scale, &norm, &x, NULL, scale);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  normalize_state *s = layer->state;
  if (s->plain) return forward_plain(layer, context, bottom, top);
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, layer->blob[0]->data, top[0]->data,
                      s->norm);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  normalize_state *s = layer->state;
  if (s->plain) return backward_plain(layer, context, top, propagate_down, bottom);
  const bool data = propagate_down[0], scale = layer->param_propagate_down[0];
  cr_layer_op *op = data && scale ? &s->backward : data ? &s->backward_data : &s->backward_scale;
  if (!data && !scale) return CREMA_OK;
  return CR_LAYER_RUN(op, context, bottom[0]->data, layer->blob[0]->data, s->norm, top[0]->diff,
                      data ? bottom[0]->diff : NULL, scale ? layer->blob[0]->diff : NULL);
}

const cr_layer_class cr_layer_normalize = {
    CR_LAYER_OF_OPS("Normalize", sizeof(normalize_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 2},
    .uses_bottom = cr_layer_always,
};
