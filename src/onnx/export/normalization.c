/* Layers that subtract means or divide by lengths. */
#include <string.h>

#include "onnx/export/layer.h"

/* The name of a node's result. */
static const char *compute(cr_onnx_graph *g, const char *op, const char *a, const char *b) {
  const char *out = cr_onnx_name(g, op);
  CR_ONNX_NODE(g, op, out, a, b);
  return out;
}

static const char *compute_one(cr_onnx_graph *g, const char *op, const char *a) {
  return compute(g, op, a, NULL);
}

/* A reduction that keeps its axes, from `first` on. */
static const char *reduce_from(cr_onnx_graph *g, const char *op, const char *in, int first,
                               int axes) {
  const char *out = cr_onnx_name(g, op);
  int64_t list[CREMA_MAX_AXES];
  for (int i = first; i < axes; ++i) list[i - first] = i;
  cr_onnx_reduce(g, op, out, in, list, (size_t)(axes - first), true);
  return out;
}

/* ---- LRN ------------------------------------------------------------------------------ */

/* ONNX's alpha is divided by the size, too. Runtimes need four axes. */
static void write_across(cr_onnx_layer *l, const Caffe__LRNParameter *p) {
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  const char *in = l->in[0], *out = l->out[0];
  if (shape->axes != 4) {
    in = cr_onnx_name(l->g, "folded");
    out = cr_onnx_name(l->g, "normal");
    cr_onnx_reshape(l->g, in, l->in[0], (const int64_t[]){0, 0, 1, -1}, 4);
  }
  CR_ONNX_NODE(l->g, "LRN", out, in);
  cr_onnx_int(l->g, "size", p->local_size);
  cr_onnx_float(l->g, "alpha", p->alpha);
  cr_onnx_float(l->g, "beta", p->beta);
  cr_onnx_float(l->g, "bias", p->k);
  if (shape->axes != 4) cr_onnx_reshape_to(l->g, l->out[0], out, shape);
}

/* x / (1 + alpha * average of x^2) ^ beta; the average counts padding. */
static void write_within(cr_onnx_layer *l, const Caffe__LRNParameter *p) {
  const int64_t size = p->local_size, pad = (size - 1) / 2, pads[] = {pad, pad, pad, pad};
  const cr_window window = {.axes = 2, .kernel = {size, size}, .stride = {1, 1}};
  cr_onnx_graph *g = l->g;
  const char *square = compute(g, "Mul", l->in[0], l->in[0]);
  const char *average = compute_one(g, "AveragePool", square);
  cr_onnx_window(g, &window, 2, pads, false);
  cr_onnx_int(g, "count_include_pad", 1);
  const char *scaled = compute(g, "Mul", average, cr_onnx_scalar(g, "alpha", p->alpha));
  const char *sum = compute(g, "Add", scaled, cr_onnx_scalar(g, "one", 1));
  const char *power = compute(g, "Pow", sum, cr_onnx_scalar(g, "beta", p->beta));
  CR_ONNX_NODE(g, "Div", l->out[0], l->in[0], power);
}

void cr_onnx_export_lrn(cr_onnx_layer *l) {
  static const Caffe__LRNParameter defaults = CAFFE__LRNPARAMETER__INIT;
  const Caffe__LRNParameter *p = l->param->lrn_param ? l->param->lrn_param : &defaults;
  if (p->norm_region == CAFFE__LRNPARAMETER__NORM_REGION__WITHIN_CHANNEL) write_within(l, p);
  else write_across(l, p);
}

/* ---- BatchNorm ------------------------------------------------------------------------- */

/* A moving sum over its weight. */
static const char *write_statistic(cr_onnx_layer *l, const char *what, int index) {
  const float *weight = NULL, *sum = NULL;
  float *out;
  if (l->g->status != CREMA_OK) return "";
  l->g->status = crema_blob_cpu_data(l->layer->blob[2], &weight);
  if (l->g->status == CREMA_OK) {
    l->g->status = crema_blob_cpu_data(l->layer->blob[index], &sum);
  }
  if (l->g->status != CREMA_OK) return "";
  const double factor = weight[0] == 0 ? 0 : 1 / (double)weight[0];
  const crema_shape *shape = &l->layer->blob[index]->shape;
  const char *name = cr_onnx_new_floats(l->g, what, shape, &out);
  for (int64_t i = 0; out != NULL && i < shape->dim[0]; ++i) out[i] = (float)(factor * sum[i]);
  return name;
}

/* As many numbers as channels. */
static const char *write_channels(cr_onnx_layer *l, const char *what, int64_t channels,
                                  float number) {
  const crema_shape shape = cr_shape_1(channels);
  float *out;
  const char *name = cr_onnx_new_floats(l->g, what, &shape, &out);
  for (int64_t i = 0; out != NULL && i < channels; ++i) out[i] = number;
  return name;
}

/* With the running statistics. A blob of one axis has one channel. */
static void write_running(cr_onnx_layer *l, float eps) {
  const int64_t channels = crema_blob_count(l->layer->blob[0]);
  const bool flat = cr_onnx_bottom_shape(l, 0)->axes == 1;
  const char *in = l->in[0], *out = l->out[0];
  const char *mean = write_statistic(l, "mean", 0), *variance = write_statistic(l, "variance", 1);
  if (flat) {
    in = cr_onnx_name(l->g, "column");
    out = cr_onnx_name(l->g, "normal");
    cr_onnx_reshape(l->g, in, l->in[0], (const int64_t[]){-1, 1}, 2);
  }
  CR_ONNX_NODE(l->g, "BatchNormalization", out, in, write_channels(l, "scale", channels, 1),
               write_channels(l, "bias", channels, 0), mean, variance);
  cr_onnx_float(l->g, "epsilon", eps);
  if (flat) cr_onnx_reshape(l->g, l->out[0], out, (const int64_t[]){-1}, 1);
  if (l->tops > 1) CR_ONNX_NODE(l->g, "Identity", l->out[1], mean);
  if (l->tops > 2) CR_ONNX_NODE(l->g, "Identity", l->out[2], variance);
}

/* With the statistics of the batch. */
static void write_of_batch(cr_onnx_layer *l, float eps) {
  const int axes = cr_onnx_bottom_shape(l, 0)->axes;
  cr_onnx_graph *g = l->g;
  int64_t list[CREMA_MAX_AXES], all = -1;
  size_t count = 0;
  for (int i = 0; i < axes; ++i) {
    if (i != 1) list[count++] = i;
  }
  const char *mean = cr_onnx_name(g, "mean"), *variance = cr_onnx_name(g, "variance");
  cr_onnx_reduce(g, "ReduceMean", mean, l->in[0], list, count, true);
  const char *distance = compute(g, "Sub", l->in[0], mean);
  const char *square = compute(g, "Mul", distance, distance);
  cr_onnx_reduce(g, "ReduceMean", variance, square, list, count, true);
  const char *sum = compute(g, "Add", variance, cr_onnx_scalar(g, "eps", eps));
  CR_ONNX_NODE(g, "Div", l->out[0], distance, compute_one(g, "Sqrt", sum));
  if (l->tops > 1) cr_onnx_reshape(g, l->out[1], mean, &all, 1);
  if (l->tops > 2) cr_onnx_reshape(g, l->out[2], variance, &all, 1);
}

void cr_onnx_export_batch_norm(cr_onnx_layer *l) {
  static const Caffe__BatchNormParameter defaults = CAFFE__BATCH_NORM_PARAMETER__INIT;
  const Caffe__BatchNormParameter *p =
      l->param->batch_norm_param ? l->param->batch_norm_param : &defaults;
  if (p->has_use_global_stats && !p->use_global_stats) write_of_batch(l, p->eps);
  else write_running(l, p->eps);
}

/* ---- MVN --------------------------------------------------------------------------------- */

void cr_onnx_export_mvn(cr_onnx_layer *l) {
  static const Caffe__MVNParameter defaults = CAFFE__MVNPARAMETER__INIT;
  const Caffe__MVNParameter *p = l->param->mvn_param ? l->param->mvn_param : &defaults;
  const int axes = cr_onnx_bottom_shape(l, 0)->axes, first = p->across_channels ? 1 : 2;
  cr_onnx_graph *g = l->g;
  if (first >= axes) { /* the mean of one value is the value */
    CR_ONNX_NODE(g, "Sub", l->out[0], l->in[0], l->in[0]);
    return;
  }
  const char *mean = reduce_from(g, "ReduceMean", l->in[0], first, axes);
  if (!p->normalize_variance) {
    CR_ONNX_NODE(g, "Sub", l->out[0], l->in[0], mean);
    return;
  }
  const char *distance = compute(g, "Sub", l->in[0], mean);
  const char *square = compute(g, "Mul", distance, distance);
  const char *variance = reduce_from(g, "ReduceMean", square, first, axes);
  const char *deviation = compute_one(g, "Sqrt", variance);
  CR_ONNX_NODE(g, "Div", l->out[0], distance,
               compute(g, "Add", deviation, cr_onnx_scalar(g, "eps", p->eps)));
}

/* ---- GroupNorm ---------------------------------------------------------------------------- */

/* A parameter of GroupNorm, which has shape (1, C, 1, 1), for `axes` axes. */
static const char *write_group_param(cr_onnx_layer *l, const char *what, int index, int axes) {
  crema_shape shape = cr_shape_1(crema_blob_count(l->layer->blob[index]));
  for (int i = 2; i < axes; ++i) shape.dim[shape.axes++] = 1;
  return cr_onnx_parameter(l->g, what, l->layer->blob[index], &shape);
}

/* The groups become channels, each with its values in one axis. */
void cr_onnx_export_group_norm(cr_onnx_layer *l) {
  static const Caffe__GroupNormParameter defaults = CAFFE__GROUP_NORM_PARAMETER__INIT;
  const Caffe__GroupNormParameter *p =
      l->param->group_norm_param ? l->param->group_norm_param : &defaults;
  const int64_t groups = p->has_group ? p->group : p->group_num;
  const crema_shape *shape = cr_onnx_bottom_shape(l, 0);
  cr_onnx_graph *g = l->g;
  const char *rows = cr_onnx_name(g, "groups");
  cr_onnx_reshape(g, rows, l->in[0], (const int64_t[]){0, groups, -1}, 3);
  const char *normal = cr_onnx_name(g, "normal");
  CR_ONNX_NODE(g, "InstanceNormalization", normal, rows, write_channels(l, "one", groups, 1),
               write_channels(l, "zero", groups, 0));
  cr_onnx_float(g, "epsilon", p->eps);
  if (l->layer->params == 0) {
    cr_onnx_reshape_to(g, l->out[0], normal, shape);
    return;
  }
  const char *back = cr_onnx_name(g, "maps");
  cr_onnx_reshape_to(g, back, normal, shape);
  const char *scaled = compute(g, "Mul", back, write_group_param(l, "scale", 0, shape->axes));
  CR_ONNX_NODE(g, "Add", l->out[0], scaled, write_group_param(l, "bias", 1, shape->axes));
}

/* ---- Normalize ----------------------------------------------------------------------------- */

/* Caffe-SSD's form, with a scale. */
static void write_scaled(cr_onnx_layer *l) {
  static const Caffe__NormalizeParameter defaults = CAFFE__NORMALIZE_PARAMETER__INIT;
  const Caffe__NormalizeParameter *p = l->param->norm_param ? l->param->norm_param : &defaults;
  const int axes = cr_onnx_bottom_shape(l, 0)->axes;
  cr_onnx_graph *g = l->g;
  const char *square = compute(g, "Mul", l->in[0], l->in[0]);
  const char *sum = reduce_from(g, "ReduceSum", square, 1, p->across_spatial ? axes : 2);
  const char *length =
      compute_one(g, "Sqrt", compute(g, "Add", sum, cr_onnx_scalar(g, "eps", p->eps)));
  const char *unit = compute(g, "Div", l->in[0], length);
  CR_ONNX_NODE(g, "Mul", l->out[0], unit,
               cr_onnx_span_parameter(g, "scale", l->layer->blob[0], 1, axes));
}

/* NormFace's form: the norm is the second top. */
static void write_unit(cr_onnx_layer *l, bool absolute) {
  cr_onnx_graph *g = l->g;
  const char *norm = l->tops > 1 ? l->out[1] : cr_onnx_name(g, "norm");
  if (absolute) {
    const char *sum = reduce_from(g, "ReduceL1", l->in[0], 1, 2);
    CR_ONNX_NODE(g, "Add", norm, sum, cr_onnx_scalar(g, "eps", 1e-6f));
  } else {
    const char *square = compute(g, "Mul", l->in[0], l->in[0]);
    const char *sum = reduce_from(g, "ReduceSum", square, 1, 2);
    CR_ONNX_NODE(g, "Sqrt", norm, compute(g, "Add", sum, cr_onnx_scalar(g, "eps", 1e-12f)));
  }
  CR_ONNX_NODE(g, "Div", l->out[0], l->in[0], norm);
}

void cr_onnx_export_normalize(cr_onnx_layer *l) {
  const Caffe__VectorNormalizeParameter *p = l->param->normalize_param;
  if (p == NULL && l->tops == 1) write_scaled(l);
  else write_unit(l, p != NULL && strcmp(p->normalize_type, "L1") == 0);
}
