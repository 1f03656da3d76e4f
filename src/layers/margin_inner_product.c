/* MarginInnerProduct: scores whose angle to the right class counts several times (Liu, Wen, Yu, Li,
 * Raj and Song, "SphereFace", 2017).
 *
 * Formula: y = |x| cos(t), with t the angle between the sample and the weights of the class. For
 * the class of the label, y = |x| (f(t) + lambda cos(t)) / (1 + lambda). For t from k pi / m to
 * (k + 1) pi / m, f(t) = (-1)^k cos(m t) - 2 k; type says m, which is 1 to 4. In pass i, lambda =
 * max(lambda_min, base * (1 + gamma * i)^-power).
 * Shapes: x (N, ...), labels (N) -> y (N, num_output) and, optionally, lambda (1). Parameter: the
 * weights (num_output, K), with K the number of values from `axis` on. In phase TRAIN a pass
 * divides each row by its length.
 * Fields: margin_inner_product_param.
 * Caffe: as in SphereFace, with its gradients. The gradient of the label's score by x is a sum of
 * x and w whose two factors are divided by the root of the sum of their squares. The weights have
 * the gradient of y = w x.
 * Example, x 4 5, label 4:
 *   layer { name: "fc" type: "MarginInnerProduct" bottom: "x" bottom: "label" top: "y"
 *     margin_inner_product_param { num_output: 10 type: QUADRUPLE base: 1000 gamma: 0.12
 *       weight_filler { type: "xavier" } } } */
#include <math.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct margin_state {
  int64_t samples, inputs, classes;
  cr_tensor *one, *norm;      /* 1; lengths of the weights */
  cr_tensor *unit;            /* the weights over their lengths; in TRAIN, the weights are */
  cr_tensor *square;          /* |x|^2 */
  cr_tensor *changed, *share; /* of the top's gradient; of x in the gradient of x */
  cr_tensor *part;
  cr_buffer slope; /* two numbers of double for each sample: of w and of x */
  cr_layer_op set, normalize, multiply, length, copy, back, weights, spread, add;
} margin_state;

static const Caffe__MarginInnerProductParameter *param_of(const cr_layer *layer) {
  return layer->param->margin_inner_product_param;
}

/* The samples as rows (N, K, 1). */
static crema_status rows_of(const cr_layer *layer, const crema_shape *x, crema_shape *out) {
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, x, param_of(layer)->axis, "axis", &axis));
  *out = cr_layer_fold(x, axis, x->axes);
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  margin_state *s = layer->state;
  const Caffe__MarginInnerProductParameter *param = param_of(layer);
  crema_shape rows;
  (void)top;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "margin_inner_product_param needs a num_output of 1 or more");
  }
  if (!(param->base_ >= 0 && param->gamma >= 0 && param->lambda_min >= 0) || param->iteration < 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "base, gamma, iteration and lambda_min must be 0 or more");
  }
  CR_TRY(rows_of(layer, &bottom[0]->shape, &rows));
  s->inputs = rows.dim[1];
  s->classes = param->num_output;
  const crema_shape weights = cr_shape_2(s->classes, s->inputs);
  CR_TRY(cr_layer_set_params(layer, 1));
  return cr_layer_add_param(layer, 0, &weights, param->weight_filler);
}

static crema_status make_tensors(cr_layer *layer) {
  margin_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_tensor(layer, &s->one, type, 1));
  CR_TRY(cr_layer_tensor(layer, &s->norm, type, s->classes));
  if (layer->phase == CAFFE__PHASE__TEST) {
    CR_TRY(cr_layer_tensor(layer, &s->unit, type, s->classes * s->inputs));
  }
  CR_TRY(cr_layer_tensor(layer, &s->square, type, s->samples));
  CR_TRY(cr_layer_tensor(layer, &s->changed, type, s->samples * s->classes));
  CR_TRY(cr_layer_tensor(layer, &s->share, type, s->samples));
  CR_TRY(cr_layer_tensor(layer, &s->part, type, s->samples * s->inputs));
  return cr_buffer_reserve(&s->slope, (size_t)(2 * s->samples + 1) * sizeof(double));
}

static crema_status make_ops(cr_layer *layer) {
  margin_state *s = layer->state;
  const crema_shape x = cr_shape_2(s->samples, s->inputs), y = cr_shape_2(s->samples, s->classes);
  const crema_shape w = cr_shape_2(s->classes, s->inputs),
                    rows = cr_shape_3(s->classes, s->inputs, 1);
  const crema_shape one = cr_shape(0, NULL), classes = cr_shape_1(s->classes);
  const crema_shape samples = cr_shape_1(s->samples), wide = cr_shape_3(1, s->samples, s->inputs);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SET);
  desc.u.value = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->set, &desc, &one));
  desc = cr_layer_op_desc(CR_OP_NORMALIZE_FWD);
  desc.u.normalize.eps = 1e-30f;
  CR_TRY(CR_LAYER_MAKE(layer, &s->normalize, &desc, &rows, &one, &rows, &classes));
  desc = cr_layer_op_desc(CR_OP_ROW_REDUCE_FWD);
  desc.u.rows.reduction = CR_REDUCE_SUMSQ;
  desc.u.rows.coeff = 1;
  CR_TRY(CR_LAYER_MAKE(layer, &s->length, &desc, &x, &samples));
  desc = cr_layer_op_desc(CR_OP_IP_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->multiply, &desc, &x, &w, NULL, &y, NULL));
  desc.kind = CR_OP_IP_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->back, &desc, &y, &w, &x));
  desc.kind = CR_OP_IP_BWD_WEIGHTS;
  CR_TRY(CR_LAYER_MAKE(layer, &s->weights, &desc, &x, &y, &w, NULL));
  desc = cr_layer_op_desc(CR_OP_COPY);
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, &y, &y));
  desc.kind = CR_OP_AFFINE_FWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->spread, &desc, &wide, &samples, NULL, &wide));
  desc.kind = CR_OP_AXPBY;
  return CR_LAYER_MAKE(layer, &s->add, &desc, &x, &x);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  margin_state *s = layer->state;
  const crema_shape lambda = cr_shape_1(1);
  crema_shape rows;
  CR_TRY(rows_of(layer, &bottom[0]->shape, &rows));
  s->samples = rows.dim[0];
  if (rows.dim[1] != s->inputs || crema_blob_count(bottom[1]) != s->samples) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "needs samples of %lld values and a label for each, found %lld samples "
                         "of %lld and %lld labels",
                         (long long)s->inputs, (long long)s->samples, (long long)rows.dim[1],
                         (long long)crema_blob_count(bottom[1]));
  }
  crema_shape to = bottom[0]->shape;
  int axis = 0;
  CR_TRY(cr_layer_axis(layer, &to, param_of(layer)->axis, "axis", &axis));
  to.axes = axis + 1;
  to.dim[axis] = s->classes;
  CR_TRY(crema_blob_reshape(top[0], &to));
  if (layer->tops > 1) CR_TRY(crema_blob_reshape(top[1], &lambda));
  CR_TRY(make_tensors(layer));
  return make_ops(layer);
}

static double sign(double x) {
  return (x > 0) - (x < 0);
}

/* f(t), and its derivative by c = cos(t). */
static double margin(Caffe__MarginInnerProductParameter__MarginType type, double c, double *slope) {
  const double half = sign(fabs(c) - 0.5), both = sign(c) * sign(2 * c * c - 1);
  switch (type) {
    case CAFFE__MARGIN_INNER_PRODUCT_PARAMETER__MARGIN_TYPE__DOUBLE:
      *slope = 4 * sign(c) * c;
      return 2 * sign(c) * c * c - 1;
    case CAFFE__MARGIN_INNER_PRODUCT_PARAMETER__MARGIN_TYPE__TRIPLE:
      *slope = half * (12 * c * c - 3);
      return half * (4 * c * c - 3) * c + sign(c) * (1 + half) - 2;
    case CAFFE__MARGIN_INNER_PRODUCT_PARAMETER__MARGIN_TYPE__QUADRUPLE:
      *slope = both * (32 * c * c - 16) * c;
      return both * (8 * c * c * (c * c - 1) + 1) + 2 * sign(c) + both - 3;
    default: *slope = 1; return c;
  }
}

static double lambda_of(const cr_layer *layer) {
  const Caffe__MarginInnerProductParameter *p = param_of(layer);
  const double pass = (double)p->iteration + (double)layer->pass + 1;
  const double found = (double)p->base_ * pow(1 + (double)p->gamma * pass, -(double)p->power);
  return fmax(found, (double)p->lambda_min);
}

/* The index in y of a sample's score for its label. */
static crema_status element_of(const cr_layer *layer, const cr_host_values *labels, int64_t i,
                               int64_t *out) {
  const margin_state *s = layer->state;
  const double label = cr_host_get(labels, i);
  if (!(label >= 0 && label < (double)s->classes)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "label %g at position %lld is outside 0..%lld",
                         label, (long long)i, (long long)s->classes - 1);
  }
  *out = i * s->classes + (int64_t)label;
  return CREMA_OK;
}

static crema_status change_labels(cr_layer *layer, crema_blob *const *bottom, crema_blob *top,
                                  double lambda) {
  margin_state *s = layer->state;
  double *slope = (double *)(void *)s->slope.data;
  cr_host_values squares, labels, in;
  cr_host_results out;
  CR_TRY(cr_host_read(s->square, &squares));
  CR_TRY(cr_host_read(bottom[1]->data, &labels));
  CR_TRY(cr_host_update(top->data, &in, &out));
  for (int64_t i = 0; i < s->samples; ++i, slope += 2) {
    int64_t at = 0;
    CR_TRY(element_of(layer, &labels, i, &at));
    const double norm = sqrt(cr_host_get(&squares, i)), y = cr_host_get(&in, at);
    const double c = norm > 0 ? fmax(-1, fmin(1, y / norm)) : 1;
    double of_w = 0;
    const double value = margin(param_of(layer)->type, c, &of_w);
    const double of_x = norm > 0 ? (value - c * of_w) / norm : 0;
    const double length = sqrt(of_w * of_w + of_x * of_x);
    cr_host_put(&out, at, (norm * value + lambda * y) / (1 + lambda));
    slope[0] = ((length > 0 ? of_w / length : 0) + lambda) / (1 + lambda);
    slope[1] = (length > 0 ? of_x / length : 0) / (1 + lambda);
  }
  return CREMA_OK;
}

static bool has_margin(const cr_layer *layer) {
  return param_of(layer)->type != CAFFE__MARGIN_INNER_PRODUCT_PARAMETER__MARGIN_TYPE__SINGLE;
}

static cr_tensor *units_of(const cr_layer *layer) {
  const margin_state *s = layer->state;
  return s->unit != NULL ? s->unit : layer->blob[0]->data;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  margin_state *s = layer->state;
  const double lambda = lambda_of(layer);
  cr_host_results out;
  CR_TRY(CR_LAYER_RUN(&s->set, context, s->one));
  CR_TRY(
      CR_LAYER_RUN(&s->normalize, context, layer->blob[0]->data, s->one, units_of(layer), s->norm));
  CR_TRY(CR_LAYER_RUN(&s->multiply, context, bottom[0]->data, units_of(layer), NULL, top[0]->data,
                      NULL));
  if (layer->tops > 1) {
    CR_TRY(cr_host_write(top[1]->data, &out));
    cr_host_put(&out, 0, lambda);
  }
  if (!has_margin(layer)) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->length, context, bottom[0]->data, s->square));
  return change_labels(layer, bottom, top[0], lambda);
}

/* The gradient of y that multiplies the weights, and the share of x in the gradient of x. */
static crema_status change_gradient(cr_layer *layer, crema_blob *labels_of) {
  margin_state *s = layer->state;
  const double *slope = (const double *)(const void *)s->slope.data;
  cr_host_values labels, in;
  cr_host_results out, share;
  CR_TRY(cr_host_read(labels_of->data, &labels));
  CR_TRY(cr_host_update(s->changed, &in, &out));
  CR_TRY(cr_host_write(s->share, &share));
  for (int64_t i = 0; i < s->samples; ++i, slope += 2) {
    int64_t at = 0;
    CR_TRY(element_of(layer, &labels, i, &at));
    const double diff = cr_host_get(&in, at);
    cr_host_put(&out, at, diff * slope[0]);
    cr_host_put(&share, i, diff * slope[1]);
  }
  return CREMA_OK;
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  const cr_op_scalars both = {.alpha = 1, .beta = 1};
  margin_state *s = layer->state;
  cr_tensor *x = bottom[0]->data, *diff = top[0]->diff;
  if (layer->param_propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->weights, context, x, diff, layer->blob[0]->diff, NULL));
  }
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "labels (bottom 1) have no gradient");
  }
  if (!propagate_down[0]) return CREMA_OK;
  if (!has_margin(layer)) {
    return CR_LAYER_RUN(&s->back, context, diff, units_of(layer), bottom[0]->diff);
  }
  CR_TRY(CR_LAYER_RUN(&s->copy, context, diff, s->changed));
  CR_TRY(change_gradient(layer, bottom[1]));
  CR_TRY(CR_LAYER_RUN(&s->back, context, s->changed, units_of(layer), bottom[0]->diff));
  CR_TRY(CR_LAYER_RUN(&s->spread, context, x, s->share, NULL, s->part));
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->part, bottom[0]->diff}, &both);
}

static void destroy(cr_layer *layer) {
  margin_state *s = layer->state;
  cr_buffer_free(&s->slope);
}

const cr_layer_class cr_layer_margin_inner_product = {
    CR_LAYER_OF_OPS("MarginInnerProduct", sizeof(margin_state), setup, reshape, forward, backward),
    .bottoms = {2, 2},
    .tops = {1, 2},
    .no_gradient_bottoms = 1u << 1,
    .graph.integer_bottoms = 1u << 1,
    .uses_bottom = cr_layer_always,
    .memory.varies = true,
    .destroy = destroy,
};
