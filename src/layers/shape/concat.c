/* Concat: puts blobs side by side.
 *
 * Formula: top = the bottoms one after the other along axis.
 * Shapes: bottoms of one shape but for the extent of axis -> y, whose extent of axis is the sum of
 * theirs.
 * Fields: concat_param.
 * Caffe: the same.
 * Example, a 2 3 4 4, b 2 5 4 4:
 *   layer { name: "both" type: "Concat" bottom: "a" bottom: "b" top: "y"
 *     concat_param { axis: 1 } } */
#include "core/fail.h"
#include "layers/common/layer_args.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct concat_state {
  cr_layer_op forward, backward;
  cr_layer_args args;
  cr_tensor **unwanted; /* one per bottom: takes the gradient of a bottom that must not get it */
} concat_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  concat_state *s = layer->state;
  const Caffe__ConcatParameter *param = layer->param->concat_param;
  void *memory = NULL;
  (void)bottom, (void)top;
  if (param && param->per_fla_fuse) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "per_fla_fuse is not supported, use Permute and Flatten layers");
  }
  if (param && param->has_axis && param->has_concat_dim) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "either axis or concat_dim can be given, not both");
  }
  CR_TRY(cr_layer_memory(layer, (size_t)layer->bottoms * sizeof *s->unwanted, &memory));
  s->unwanted = memory;
  return cr_layer_args_make(layer, &s->args, layer->bottoms + 1);
}

/* concat_dim is the legacy name of axis and counts from the front only. */
static crema_status find_axis(const cr_layer *layer, const crema_shape *shape, int *out) {
  const Caffe__ConcatParameter *param = layer->param->concat_param;
  if (param && param->has_concat_dim) {
    if (param->concat_dim >= (unsigned)shape->axes) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "concat_dim %u is out of range for a blob of %d axes", param->concat_dim,
                           shape->axes);
    }
    *out = (int)param->concat_dim;
    return CREMA_OK;
  }
  return cr_layer_axis(layer, shape, param ? param->axis : 1, "axis", out);
}

/* The shape of all bottoms together, which must agree on all other axes. */
static crema_status whole_shape(const cr_layer *layer, crema_blob *const *bottom, int axis,
                                crema_shape *out) {
  char a[128], b[128];
  *out = bottom[0]->shape;
  for (int i = 1; i < layer->bottoms; ++i) {
    const crema_shape *shape = &bottom[i]->shape;
    bool same = shape->axes == out->axes;
    for (int k = 0; same && k < out->axes; ++k) {
      if (k != axis && shape->dim[k] != out->dim[k]) same = false;
    }
    if (!same) {
      return cr_layer_fail(layer, CREMA_E_SHAPE,
                           "bottom %d has shape %s, which must agree with bottom 0's %s on all "
                           "axes but %d",
                           i, crema_shape_text(shape, a, sizeof a),
                           crema_shape_text(&bottom[0]->shape, b, sizeof b), axis);
    }
    out->dim[axis] += shape->dim[axis];
    CR_TRY(cr_layer_in(layer, cr_fail_in(crema_shape_check(out), "the top")));
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  concat_state *s = layer->state;
  crema_shape to;
  int n = layer->bottoms;
  int axis = 0;
  CR_TRY(find_axis(layer, &bottom[0]->shape, &axis));
  CR_TRY(whole_shape(layer, bottom, axis, &to));
  if (n == 1) return cr_layer_view(bottom[0], &to, top[0]);
  CR_TRY(crema_blob_reshape(top[0], &to));
  for (int i = 0; i < n; ++i) {
    s->args.shape[i] = &bottom[i]->shape;
    CR_TRY(cr_layer_pass_tensor(layer, &s->unwanted[i], layer->types.backward,
                                crema_blob_count(bottom[i])));
  }
  return cr_layer_args_make_join(layer, &s->args, n, axis, &to, &s->forward, &s->backward);
}

/* Makes the bottoms' values parts of the top's. *done is false if they cannot be stored side by
 * side. */
static crema_status forward_in_place(const cr_layer *layer, crema_context *context,
                                     crema_blob *const *bottom, crema_blob *const *top,
                                     bool *done) {
  /* The first bottom that is not in plain order decides the order of all. */
  cr_format format = cr_tensor_head(bottom[0]->data);
  crema_devptr data = {0};
  for (int i = 1; i < layer->bottoms && format.layout == NULL; ++i) {
    format = cr_tensor_head(bottom[i]->data);
  }
  cr_tensor_alias_order(bottom[0]->data, context->device, format);
  *done = true;
  for (int i = 0; i < layer->bottoms; ++i) {
    *done = *done && cr_tensor_alias_format(bottom[i]->data, &format);
  }
  *done = *done && cr_tensor_whole_format(top[0]->data, &format);
  for (int i = 0; i < layer->bottoms && *done; ++i) {
    CR_TRY(cr_tensor_alias_move(bottom[i]->data, context));
  }
  return *done ? cr_tensor_write(top[0]->data, context, format, &data) : CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  concat_state *s = layer->state;
  bool done = layer->bottoms == 1;
  if (layer->parts_in_place && !done) {
    CR_TRY(cr_layer_in(layer, forward_in_place(layer, context, bottom, top, &done)));
  }
  if (done) return CREMA_OK;
  for (int i = 0; i < layer->bottoms; ++i) s->args.tensor[i] = bottom[i]->data;
  s->args.tensor[layer->bottoms] = top[0]->data;
  return cr_layer_op_run(&s->forward, context, s->args.tensor, NULL);
}

/* One op is cheaper than one per bottom. The diff of a bottom that takes no gradient stays as it
 * is: a Split above adds it to the diffs of the bottom's other readers. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  concat_state *s = layer->state;
  bool any = false;
  for (int i = 0; i < layer->bottoms; ++i) any = any || propagate_down[i];
  if (!any || layer->bottoms == 1) return CREMA_OK;
  s->args.tensor[0] = top[0]->diff;
  for (int i = 0; i < layer->bottoms; ++i) {
    s->args.tensor[i + 1] = propagate_down[i] ? bottom[i]->diff : s->unwanted[i];
  }
  return cr_layer_op_run(&s->backward, context, s->args.tensor, NULL);
}

static cr_layer_reach reach(const Caffe__LayerParameter *param, int bottoms) {
  const Caffe__ConcatParameter *p = param->concat_param;
  (void)bottoms;
  return cr_layer_reach_from(p == NULL ? 1 : p->has_concat_dim ? (int)p->concat_dim : p->axis);
}

const cr_layer_class cr_layer_concat = {
    CR_LAYER_OF_OPS("Concat", sizeof(concat_state), setup, reshape, forward, backward),
    .bottoms = {1, CR_ANY},
    .tops = {1, 1},
    .memory.shares = CR_SHARES_IF_ONE,
    .int8.takes_bf16 = true,
    .int8.keeps_positive = true,
    .int8.carries_integers = cr_layer_carries,
    .memory.runs_ops = true,
    .fusion.reach = reach,
};
