/* Slice: cuts a blob into parts.
 *
 * Formula: top i = the part of x from slice_point[i - 1] to slice_point[i] along axis; without
 * slice_point all parts are equal.
 * Shapes: x (any) -> tops that have x's extents but for axis.
 * Fields: slice_param.
 * Caffe: the same.
 * Example, x 2 6:
 *   layer { name: "parts" type: "Slice" bottom: "x" top: "a" top: "b"
 *     slice_param { axis: 1 slice_point: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_args.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct slice_state {
  cr_layer_op forward, backward;
  cr_layer_args args;
} slice_state;

static const Caffe__SliceParameter *parameters(const cr_layer *layer) {
  static const Caffe__SliceParameter defaults = CAFFE__SLICE_PARAMETER__INIT;
  return layer->param->slice_param ? layer->param->slice_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  slice_state *s = layer->state;
  const Caffe__SliceParameter *param = parameters(layer);
  (void)bottom, (void)top;
  if (param->has_axis && param->has_slice_dim) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "either axis or slice_dim can be given, not both");
  }
  if (param->n_slice_point != 0 && param->n_slice_point + 1 != (size_t)layer->tops) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%d tops need %d slice_points; found %zu",
                         layer->tops, layer->tops - 1, param->n_slice_point);
  }
  return cr_layer_args_make(layer, &s->args, layer->tops + 1);
}

static crema_status find_axis(const cr_layer *layer, const crema_shape *shape, int *out) {
  const Caffe__SliceParameter *param = parameters(layer);
  if (!param->has_slice_dim) return cr_layer_axis(layer, shape, param->axis, "axis", out);
  if (param->slice_dim >= (unsigned)shape->axes) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "slice_dim %u is out of range for a blob of %d axes",
                         param->slice_dim, shape->axes);
  }
  *out = (int)param->slice_dim;
  return CREMA_OK;
}

/* Extents of the tops along the axis, which has `extent` in all. */
static crema_status part_extent(const cr_layer *layer, int64_t extent, int top, int64_t *out) {
  const Caffe__SliceParameter *param = parameters(layer);
  if (param->n_slice_point == 0) {
    if (extent % layer->tops != 0 || extent < layer->tops) {
      return cr_layer_fail(layer, CREMA_E_SHAPE,
                           "an extent of %lld cannot be cut into %d equal parts", (long long)extent,
                           layer->tops);
    }
    *out = extent / layer->tops;
    return CREMA_OK;
  }
  int64_t begin = top == 0 ? 0 : param->slice_point[top - 1];
  int64_t end = top == layer->tops - 1 ? extent : param->slice_point[top];
  if (end <= begin) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "slice_points must rise and lie inside the extent of %lld; top %d would "
                         "reach from %lld to %lld",
                         (long long)extent, top, (long long)begin, (long long)end);
  }
  *out = end - begin;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  slice_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  int n = layer->tops, axis = 0;
  CR_TRY(find_axis(layer, from, &axis));
  for (int i = 0; i < n; ++i) {
    crema_shape to = *from;
    CR_TRY(part_extent(layer, from->dim[axis], i, &to.dim[axis]));
    CR_TRY(crema_blob_reshape(top[i], &to));
  }
  if (n == 1) return cr_layer_view(bottom[0], from, top[0]);
  for (int i = 0; i < n; ++i) s->args.shape[i] = &top[i]->shape;
  return cr_layer_args_make_join(layer, &s->args, n, axis, from, &s->backward, &s->forward);
}

/* Makes the tops' values parts of the bottom's. *done is false if they cannot be read from there.
 */
static crema_status forward_in_place(const cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top,
                                     bool *done) {
  cr_format format;
  crema_devptr data = {0};
  cr_tensor_alias_order(top[0]->data, context->device, cr_tensor_head(bottom[0]->data));
  *done = true;
  for (int i = 0; i < layer->tops; ++i) {
    *done = *done && cr_tensor_alias_can_read(top[i]->data, bottom[0]->data);
  }
  for (int i = 0; i < layer->tops && *done; ++i) {
    *done = cr_tensor_alias_format(top[i]->data, &format);
    CR_TRY(cr_tensor_write(top[i]->data, context, format, &data));
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  slice_state *s = layer->state;
  bool done = layer->tops == 1;
  if (layer->parts_in_place && !done) {
    CR_TRY(cr_layer_in(layer, forward_in_place(layer, context, bottom, top, &done)));
  }
  if (done) return CREMA_OK;
  s->args.tensor[0] = bottom[0]->data;
  for (int i = 0; i < layer->tops; ++i) s->args.tensor[i + 1] = top[i]->data;
  return cr_layer_op_run(&s->forward, context, s->args.tensor, NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  slice_state *s = layer->state;
  if (!propagate_down[0] || layer->tops == 1) return CREMA_OK;
  for (int i = 0; i < layer->tops; ++i) s->args.tensor[i] = top[i]->diff;
  s->args.tensor[layer->tops] = bottom[0]->diff;
  return cr_layer_op_run(&s->backward, context, s->args.tensor, NULL);
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  const Caffe__SliceParameter *p = param->slice_param;
  (void)bottoms;
  return cr_layer_reach_from(p == NULL ? 1 : p->has_slice_dim ? (int)p->slice_dim : p->axis);
}

const cr_layer_class cr_layer_slice = {
    CR_LAYER_OF_OPS("Slice", sizeof(slice_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, CR_ANY},
    .memory.shares = CR_SHARES_IF_ONE,
    .int8.takes_bf16 = true,
    .int8.keeps_positive = true,
    .int8.carries_integers = cr_layer_carries,
    .memory.runs_ops = true,
    .fusion.reach = reach,
};
