/* ArgMax: the positions of the largest values. It has no gradient.
 *
 * Formula: top = positions of the top_k largest values in falling order, of equal values the later
 * first; with out_max_val their values instead (axis given) or as well.
 * Shapes: x (N, ...) -> with axis: as x, that axis having extent top_k; without: (N, 1, top_k) or,
 * with out_max_val, (N, 2, top_k): positions, then values.
 * Fields: argmax_param.
 * Caffe: the same.
 * Example, x 2 10:
 *   layer { name: "best" type: "ArgMax" bottom: "x" top: "y" argmax_param { top_k: 3 axis: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"

typedef struct arg_max_state {
  cr_layer_op find, concat;
  cr_tensor *indices, *values; /* when the op does not write the top itself */
} arg_max_state;

static const Caffe__ArgMaxParameter *parameters(const cr_layer *layer) {
  static const Caffe__ArgMaxParameter defaults = CAFFE__ARG_MAX_PARAMETER__INIT;
  return layer->param->argmax_param ? layer->param->argmax_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  if (parameters(layer)->top_k == 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "top_k is 0, must be 1 or more");
  }
  return CREMA_OK;
}

/* The bottom as (outer, C, inner), and the top's shape. */
static crema_status find_shapes(const cr_layer *layer, const crema_shape *from, crema_shape *x,
                                crema_shape *to) {
  const Caffe__ArgMaxParameter *param = parameters(layer);
  if (param->has_axis) {
    int axis = 0;
    CR_TRY(cr_layer_axis(layer, from, param->axis, "axis", &axis));
    *x = cr_layer_fold(from, axis, axis + 1);
    *to = *from;
    to->dim[axis] = param->top_k;
  } else {
    if (from->axes < 1) return cr_layer_fail(layer, CREMA_E_SHAPE, "the bottom is a scalar");
    *x = cr_layer_fold(from, 1, from->axes);
    to->axes = from->axes < 3 ? 3 : from->axes;
    for (int i = 0; i < to->axes; ++i) to->dim[i] = 1;
    to->dim[0] = from->dim[0];
    to->dim[1] = param->out_max_val ? 2 : 1;
    to->dim[2] = param->top_k;
  }
  if ((int64_t)param->top_k <= x->dim[1]) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE, "top_k is %u, but there are %lld values", param->top_k,
                       (long long)x->dim[1]);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  arg_max_state *s = layer->state;
  const Caffe__ArgMaxParameter *param = parameters(layer);
  crema_shape x, to;
  CR_TRY(find_shapes(layer, &bottom[0]->shape, &x, &to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  const crema_shape ranks = cr_shape_3(x.dim[0], param->top_k, x.dim[2]);
  const crema_shape *values = param->out_max_val ? &ranks : NULL;
  int64_t count = crema_shape_count(&ranks, 0, 3);
  CR_TRY(cr_layer_pass_tensor(layer, &s->indices, cr_layer_arithmetic(layer), count));
  CR_TRY(cr_layer_pass_tensor(layer, &s->values, cr_layer_arithmetic(layer), count));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ARG_MAX);
  CR_TRY(CR_LAYER_MAKE(layer, &s->find, &desc, &x, &ranks, values));
  if (param->has_axis || !param->out_max_val) return CREMA_OK;
  const crema_shape row = cr_shape_2(x.dim[0], param->top_k);
  const crema_shape both = cr_shape_2(x.dim[0], 2 * (int64_t)param->top_k);
  desc = cr_layer_op_desc(CR_OP_CONCAT);
  desc.u.axis = 1;
  return CR_LAYER_MAKE(layer, &s->concat, &desc, &row, &row, &both);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  arg_max_state *s = layer->state;
  const Caffe__ArgMaxParameter *param = parameters(layer);
  cr_tensor *from = bottom[0]->data, *to = top[0]->data;
  if (!param->out_max_val) {
    return CR_LAYER_RUN(&s->find, context, from, to, NULL);
  }
  if (param->has_axis) {
    return CR_LAYER_RUN(&s->find, context, from, s->indices, to);
  }
  CR_TRY(CR_LAYER_RUN(&s->find, context, from, s->indices, s->values));
  return CR_LAYER_RUN(&s->concat, context, s->indices, s->values, to);
}

const cr_layer_class cr_layer_arg_max = {
    .type = "ArgMax",
    .state_size = sizeof(arg_max_state),
    .bottoms = {1, 1},
    .tops = {1, 1},
    .graph.wide_tops = true,
    .graph.integer_tops = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
};
