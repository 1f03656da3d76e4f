/* BatchNorm: each channel to mean 0 and variance 1 (Ioffe and Szegedy, "Batch normalization",
 * 2015).
 *
 * Formula: y = (x - mean) / sqrt(variance + eps) for each channel (axis 1; a blob of one axis is
 * one channel). Mean and variance are the batch's or, with use_global_stats, the running ones.
 * Shapes: x (N, C, ...) -> y (as x), also in place, and optionally mean and variance (C), without a
 * gradient. Parameters: 0 sum of means (C), 1 sum of variances (C), 2 the weight of both sums (1).
 * Fields: batch_norm_param.
 * Caffe: the same, except for the tops of statistics, which SegNet's BN has. Of the NVIDIA dialect,
 * a layer with scale_bias becomes a BatchNorm and a Scale. initial_variance is crema's; a frozen BN
 * of PSPNet has 1.
 * Example, x 4 3 5 5:
 *   layer { name: "norm" type: "BatchNorm" bottom: "x" top: "y" batch_norm_param { eps: 0.001 } }
 *
 * A batch multiplies all three parameters by moving_average_fraction and adds its mean, its
 * variance times m / (m - 1), m being the values of a channel, and 1. They are no parameters for
 * the solver: src/net gives them lr_mult 0. */
#include "core/fail.h"
#include "layers/common/layer_keep.h"

typedef struct bn_state {
  bool global;
  float eps, fraction;
  int64_t channels;
  cr_layer_op train, again, fixed, backward; /* again: without the moving sums */
  cr_layer_keep keep;
  cr_layer_op divide;        /* moving sums by their weight */
  cr_layer_op publish_stats; /* copies the statistics to tops 1 and 2 */
  cr_tensor *mean, *variance;
} bn_state;

static int64_t channels_of(const crema_shape *shape) {
  return shape->axes < 2 ? 1 : shape->dim[1];
}

/* The running statistics. A variance at the start counts like a batch of weight 1. */
static crema_status add_statistics_params(cr_layer *layer, const Caffe__BatchNormParameter *param) {
  const bn_state *s = layer->state;
  const crema_shape sums = cr_shape_1(s->channels), one = cr_shape_1(1);
  const Caffe__FillerParameter variance = CR_CONSTANT_FILLER(param->initial_variance);
  const Caffe__FillerParameter weight = CR_CONSTANT_FILLER(param->initial_variance > 0 ? 1 : 0);
  CR_TRY(cr_layer_set_params(layer, 3));
  CR_TRY(cr_layer_add_param(layer, 0, &sums, NULL));
  CR_TRY(cr_layer_add_param(layer, 1, &sums, &variance));
  CR_TRY(cr_layer_add_param(layer, 2, &one, &weight));
  for (int i = 0; i < 3; ++i) layer->param_propagate_down[i] = false;
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__BatchNormParameter defaults = CAFFE__BATCH_NORM_PARAMETER__INIT;
  bn_state *s = layer->state;
  const Caffe__BatchNormParameter *param =
      layer->param->batch_norm_param ? layer->param->batch_norm_param : &defaults;
  (void)top;
  if (param->scale_bias) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "scale_bias is not supported, use a Scale layer with bias_term");
  }
  if (param->update_global_stats) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "update_global_stats is not supported");
  }
  if (bottom[0]->shape.axes < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom must have axes, found a scalar");
  }
  s->global =
      param->has_use_global_stats ? param->use_global_stats : layer->phase == CAFFE__PHASE__TEST;
  if (!s->global && param->stats_batch_size > 0 &&
      (int64_t)param->stats_batch_size != bottom[0]->shape.dim[0]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "stats_batch_size is %u: statistics of parts of a batch (of %lld samples) "
                         "are not supported",
                         param->stats_batch_size, (long long)bottom[0]->shape.dim[0]);
  }
  s->eps = param->eps;
  s->fraction = param->moving_average_fraction;
  s->channels = channels_of(&bottom[0]->shape);
  CR_TRY(add_statistics_params(layer, param));
  CR_TRY(cr_layer_tensor(layer, &s->mean, cr_layer_arithmetic(layer), s->channels));
  return cr_layer_tensor(layer, &s->variance, cr_layer_arithmetic(layer), s->channels);
}

/* The shapes of the parameters of the Scale whose work this layer does, NULL: it has none. */
typedef struct scale_shapes {
  const crema_shape *scale, *shift;
} scale_shapes;

/* The forward ops with the statistics of the batch. */
static crema_status make_train_ops(cr_layer *layer, const crema_shape *shape, scale_shapes of) {
  bn_state *s = layer->state;
  const crema_shape channels = cr_shape_1(s->channels), one = cr_shape_1(1);
  const crema_shape *arg[] = {shape,    shape,     &channels, &channels, of.scale,
                              of.shift, &channels, &channels, &one};
  cr_op_desc desc = cr_layer_op_desc(CR_OP_BN_FWD_TRAIN);
  desc.u.bn.eps = s->eps;
  desc.u.bn.rectify = layer->rectifier != NULL;
  CR_TRY(cr_layer_op_make(layer, &s->again, &desc, of.scale == NULL ? 4 : 6, arg));
  desc.u.bn.fraction = s->fraction;
  return cr_layer_op_make(layer, &s->train, &desc, 9, arg);
}

static crema_status make_backward(cr_layer *layer, const crema_shape *shape, scale_shapes of) {
  bn_state *s = layer->state;
  const crema_shape channels = cr_shape_1(s->channels);
  const crema_shape *arg[] = {shape,    shape,    &channels, &channels, shape,
                              of.scale, of.scale, of.shift,  shape};
  cr_op_desc desc = cr_layer_op_desc(CR_OP_BN_BWD);
  desc.u.bn.eps = s->eps;
  desc.u.bn.global = s->global;
  desc.u.bn.rectify = layer->rectifier != NULL;
  const int args = desc.u.bn.rectify ? 9 : of.scale == NULL ? 5 : 8;
  return cr_layer_op_make(layer, &s->backward, &desc, args, arg);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *shape) {
  bn_state *s = layer->state;
  const crema_shape channels = cr_shape_1(s->channels);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_BN_FWD_GLOBAL);
  const crema_shape *scale = layer->scaled_by == NULL ? NULL : &channels;
  const crema_shape *shift = scale != NULL && layer->scaled_by->params > 1 ? &channels : NULL;
  const scale_shapes of = {scale, shift};
  if (!s->global) CR_TRY(make_train_ops(layer, shape, of));
  desc.u.bn.eps = s->eps;
  desc.u.bn.global = true;
  CR_TRY(CR_LAYER_MAKE(layer, &s->fixed, &desc, shape, shape, &channels, &channels));
  CR_TRY(make_backward(layer, shape, of));
  if (layer->tops > 1) {
    desc = cr_layer_op_desc(CR_OP_COPY);
    CR_TRY(CR_LAYER_MAKE(layer, &s->publish_stats, &desc, &channels, &channels));
  }
  desc = cr_layer_op_desc(CR_OP_AXPBY);
  return CR_LAYER_MAKE(layer, &s->divide, &desc, &channels, &channels);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  bn_state *s = layer->state;
  crema_shape shape = bottom[0]->shape;
  char text[128];
  if (shape.axes < 1 || channels_of(&shape) != s->channels) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the statistics have %lld channels, found shape %s",
                         (long long)s->channels, crema_shape_text(&shape, text, sizeof text));
  }
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], &shape));
  const crema_shape channels = cr_shape_1(s->channels);
  for (int t = 1; t < layer->tops; ++t) CR_TRY(crema_blob_reshape(top[t], &channels));
  if (shape.axes == 1) shape = cr_shape_2(shape.dim[0], 1);
  CR_TRY(cr_layer_keep_make(layer, &s->keep, bottom[0]));
  return make_ops(layer, &shape);
}

/* Data or gradient of parameter `i` of the Scale whose work this layer does, NULL: there is none.
 */
static cr_tensor *scale_of(const cr_layer *layer, int i, bool gradient) {
  const cr_layer *scale = layer->scaled_by;
  if (scale == NULL || i >= scale->params) return NULL;
  return gradient ? scale->blob[i]->diff : scale->blob[i]->data;
}

/* mean and variance from the running sums: the sums over their weight, 0 while that is 0. */
static crema_status global_statistics(cr_layer *layer, crema_context *context) {
  bn_state *s = layer->state;
  double weight = 0;
  CR_TRY(cr_tensor_host_value(layer->blob[2]->data, &weight));
  cr_op_scalars scalars = {.alpha = weight == 0 ? 0 : 1 / weight, .beta = 0};
  CR_TRY(cr_layer_op_run(&s->divide, context, (cr_tensor *[]){layer->blob[0]->data, s->mean},
                         &scalars));
  return cr_layer_op_run(&s->divide, context, (cr_tensor *[]){layer->blob[1]->data, s->variance},
                         &scalars);
}

static crema_status normalize(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                              crema_blob *const *top) {
  bn_state *s = layer->state;
  cr_tensor *input = bottom[0]->data;
  if (s->global) {
    CR_TRY(global_statistics(layer, context));
    return CR_LAYER_RUN(&s->fixed, context, input, top[0]->data, s->mean, s->variance);
  }
  CR_TRY(cr_layer_keep_forward(layer, &s->keep, context, bottom[0], top[0], &input));
  cr_tensor *const argument[] = {input,
                                 top[0]->data,
                                 s->mean,
                                 s->variance,
                                 scale_of(layer, 0, false),
                                 scale_of(layer, 1, false),
                                 layer->blob[0]->data,
                                 layer->blob[1]->data,
                                 layer->blob[2]->data};
  return cr_layer_op_run(layer->replays ? &s->again : &s->train, context, argument, NULL);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  bn_state *s = layer->state;
  cr_tensor *const statistics[] = {s->mean, s->variance};
  CR_TRY(normalize(layer, context, bottom, top));
  for (int t = 1; t < layer->tops; ++t) {
    CR_TRY(CR_LAYER_RUN(&s->publish_stats, context, statistics[t - 1], top[t]->data));
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  bn_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  cr_tensor *dy = layer->diff_source != NULL ? layer->diff_source : top[0]->diff;
  /* With constant statistics the input's values do not matter, and may not be there. */
  cr_tensor *input = s->global ? dy : cr_layer_keep_input(&s->keep, bottom[0], top[0]);
  return CR_LAYER_RUN(&s->backward, context, input, dy, s->mean, s->variance, bottom[0]->diff,
                      scale_of(layer, 0, false), scale_of(layer, 0, true), scale_of(layer, 1, true),
                      top[0]->data);
}

/* From the input, which is kept, and the statistics of the batch. */
static crema_status make_again(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                               crema_blob *const *top, cr_tensor *out) {
  bn_state *s = layer->state;
  cr_tensor *input = cr_layer_keep_input(&s->keep, bottom[0], top[0]);
  return CR_LAYER_RUN(&s->fixed, context, input, out, s->mean, s->variance);
}

static bool can_make_again(const cr_layer *layer) {
  const bn_state *s = layer->state;
  return !s->global && layer->needs_backward;
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  const bn_state *s = layer->state;
  (void)bottom;
  return !s->global;
}

/* Statistics of the batch in both phases. */
static bool reads_params(const Caffe__LayerParameter *param) {
  const Caffe__BatchNormParameter *p = param->batch_norm_param;
  return p == NULL || !p->has_use_global_stats || p->use_global_stats;
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  (void)bottoms;
  /* In phase TEST, statistics are the running ones unless the fields say otherwise. Tops with them
   * belong to no sample. */
  return reads_params(param) && param->n_top < 2 ? CR_REACHES_SAMPLE : CR_REACHES_ANY;
}

const cr_layer_class cr_layer_batch_norm = {
    CR_LAYER_OF_OPS("BatchNorm", sizeof(bn_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 3},
    .in_place = true,
    .graph.statistics = true,
    .int8.scales_integers = true,
    .fusion.fuses_scale = true,
    .fusion.rectifies = can_make_again, /* with statistics of the batch, backward, too */
    .uses_bottom = uses_bottom,
    .fusion.reach = reach,
    .graph.reads_params = reads_params,
    .memory.reads_diff_source = true,
    .memory.make_again = make_again,
    .memory.can_make_again = can_make_again,
};
