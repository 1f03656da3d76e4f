#include "layers/common/layer_recurrent.h"

#include <stdio.h>

#include "core/fail.h"
#include "core/log.h"

static crema_status check_counts(const cr_layer *layer) {
  const cr_layer_recurrent *s = layer->state;
  const int least = s->exposed ? 2 + s->states : 2, tops = s->exposed ? 1 + s->states : 1;
  if (layer->bottoms < least || layer->bottoms > least + 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s needs %d or %d bottoms, found %d",
                         s->exposed ? "with expose_hidden it" : "it", least, least + 1,
                         layer->bottoms);
  }
  if (layer->tops == tops) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s needs %d tops, found %d",
                       s->exposed ? "with expose_hidden it" : "it", tops, layer->tops);
}

/* x (T, N, ...), cont (T, N), the static input (N, ...). */
static crema_status check_axes(const cr_layer *layer, crema_blob *const *bottom) {
  const cr_layer_recurrent *s = layer->state;
  const crema_shape *x = &bottom[0]->shape, *cont = &bottom[1]->shape;
  char a[128], b[128];
  if (x->axes < 3) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 0 must have steps, sequences and values, found shape %s",
                         crema_shape_text(x, a, sizeof a));
  }
  if (cont->axes != 2 || cont->dim[0] != x->dim[0] || cont->dim[1] != x->dim[1]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 1 (cont) must have the first two extents of bottom 0's shape %s, "
                         "found %s",
                         crema_shape_text(x, a, sizeof a), crema_shape_text(cont, b, sizeof b));
  }
  if (!s->has_static) return CREMA_OK;
  const crema_shape *fixed = &bottom[2]->shape;
  if (fixed->axes >= 2 && fixed->dim[0] == x->dim[1]) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "bottom 2 (static) must have %lld sequences of values, found shape %s",
                       (long long)x->dim[1], crema_shape_text(fixed, a, sizeof a));
}

static int64_t values_of(const crema_blob *blob, int axis) {
  return crema_shape_count(&blob->shape, axis, blob->shape.axes);
}

crema_status cr_layer_recurrent_setup(cr_layer *layer, crema_blob *const *bottom, int states,
                                      int64_t gates_per_unit, int own) {
  cr_layer_recurrent *s = layer->state;
  const Caffe__RecurrentParameter *param = layer->param->recurrent_param;
  if (param == NULL || param->num_output == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "recurrent_param needs a num_output of 1 or more");
  }
  if (param->debug_info) {
    cr_log_warning(
        "layer %s: debug_info of recurrent_param has nothing to print: there is no "
        "unrolled net",
        layer->name);
  }
  s->states = states;
  s->exposed = param->expose_hidden;
  CR_TRY(check_counts(layer));
  s->has_static = layer->bottoms == (s->exposed ? 3 + states : 3);
  CR_TRY(check_axes(layer, bottom));
  s->units = param->num_output;
  s->gates = gates_per_unit * s->units;
  s->inputs = values_of(bottom[0], 2);
  s->statics = s->has_static ? values_of(bottom[2], 1) : 0;
  if (s->inputs == 0 || (s->has_static && s->statics == 0)) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "an input has no values");
  }
  s->first_own = s->has_static ? 3 : 2;
  const crema_shape weights = cr_shape_2(s->gates, s->inputs), bias = cr_shape_1(s->gates);
  const crema_shape statics = cr_shape_2(s->gates, s->statics);
  CR_TRY(cr_layer_set_params(layer, s->first_own + own));
  CR_TRY(cr_layer_add_param(layer, 0, &weights, param->weight_filler));
  CR_TRY(cr_layer_add_param(layer, 1, &bias, param->bias_filler));
  return s->has_static ? cr_layer_add_param(layer, 2, &statics, param->weight_filler) : CREMA_OK;
}

int cr_layer_recurrent_bottom(const cr_layer_recurrent *s, int state) {
  return (s->has_static ? 3 : 2) + state;
}

static crema_status check_values(const cr_layer *layer, crema_blob *const *bottom) {
  const cr_layer_recurrent *s = layer->state;
  const crema_shape first = cr_shape_3(1, bottom[0]->shape.dim[1], s->units);
  CR_TRY(check_axes(layer, bottom));
  if (values_of(bottom[0], 2) != s->inputs ||
      (s->has_static && values_of(bottom[2], 1) != s->statics)) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the weights are for %lld values and %lld static ones, found others",
                         (long long)s->inputs, (long long)s->statics);
  }
  for (int i = 0; i < s->states && s->exposed; ++i) {
    char what[32];
    const int at = cr_layer_recurrent_bottom(s, i);
    snprintf(what, sizeof what, "bottom %d", at);
    CR_TRY(cr_layer_same_shape(layer, what, &first, &bottom[at]->shape));
  }
  return CREMA_OK;
}

static crema_status make_tensors(cr_layer *layer) {
  cr_layer_recurrent *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const int64_t rows = s->steps * s->batch, cells = s->batch * s->units;
  CR_TRY(cr_layer_tensor(layer, &s->sums, type, rows * s->gates));
  CR_TRY(cr_layer_tensor(layer, &s->diff_sums, type, rows * s->gates));
  if (s->has_static) {
    CR_TRY(cr_layer_tensor(layer, &s->statics_sum, type, s->batch * s->gates));
    CR_TRY(cr_layer_tensor(layer, &s->diff_statics, type, s->batch * s->gates));
  }
  for (int i = 0; i < s->states; ++i) {
    const bool changes = s->after[i] == NULL || cr_tensor_count(s->after[i]) != cells;
    CR_TRY(cr_layer_tensor(layer, &s->state[i], type, rows * s->units));
    CR_TRY(cr_layer_tensor(layer, &s->before[i], type, cells));
    CR_TRY(cr_layer_tensor(layer, &s->after[i], type, cells));
    if (!changes) continue;
    cr_tensor_set_zero(s->before[i]);
    cr_tensor_set_zero(s->after[i]);
  }
  return CREMA_OK;
}

/* The ops of x, and of the static input. */
static crema_status make_inputs(cr_layer *layer, crema_blob *const *bottom) {
  cr_layer_recurrent *s = layer->state;
  const crema_shape x = cr_shape_2(s->steps * s->batch, s->inputs);
  const crema_shape y = cr_shape_2(s->steps * s->batch, s->gates);
  const crema_shape *w = &layer->blob[0]->shape, *bias = &layer->blob[1]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IP_FWD);
  (void)bottom;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &x, w, bias, &y));
  desc.kind = CR_OP_IP_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, &y, w, &x));
  desc.kind = CR_OP_IP_BWD_WEIGHTS;
  CR_TRY(cr_layer_weights_make(layer, &s->backward_weights, &desc, &x, &y, w, bias));
  if (!s->has_static) return CREMA_OK;
  const crema_shape xs = cr_shape_2(s->batch, s->statics), ys = cr_shape_2(s->batch, s->gates);
  const crema_shape *ws = &layer->blob[2]->shape;
  const crema_shape all = cr_shape_3(s->steps, s->batch * s->gates, 1);
  const crema_shape one = cr_shape_1(s->batch * s->gates);
  CR_TRY(CR_LAYER_MAKE(layer, &s->static_weights, &desc, &xs, &ys, ws, NULL));
  desc.kind = CR_OP_IP_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->static_data, &desc, &ys, ws, &xs));
  desc.kind = CR_OP_IP_FWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->static_forward, &desc, &xs, ws, NULL, &ys));
  desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->static_add, &desc, &all, NULL, &one, &all));
  desc = cr_layer_op_desc(CR_OP_AFFINE_BWD_BIAS);
  return CR_LAYER_MAKE(layer, &s->static_sum, &desc, &all, &one);
}

crema_status cr_layer_recurrent_reshape(cr_layer *layer, crema_blob *const *bottom,
                                        crema_blob *const *top) {
  cr_layer_recurrent *s = layer->state;
  CR_TRY(check_values(layer, bottom));
  s->steps = bottom[0]->shape.dim[0];
  s->batch = bottom[0]->shape.dim[1];
  const crema_shape all = cr_shape_3(s->steps, s->batch, s->units);
  const crema_shape one = cr_shape_3(1, s->batch, s->units);
  CR_TRY(crema_blob_reshape(top[0], &all));
  for (int i = 1; i < layer->tops; ++i) CR_TRY(crema_blob_reshape(top[i], &one));
  CR_TRY(make_tensors(layer));
  CR_TRY(make_inputs(layer, bottom));
  if (s->steps == 0) return CREMA_OK;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_CROP_FWD);
  desc.u.offset[0] = s->steps - 1;
  return CR_LAYER_MAKE(layer, &s->last, &desc, &all, &one);
}

cr_tensor *cr_layer_recurrent_first(const cr_layer *layer, crema_blob *const *bottom, int state) {
  const cr_layer_recurrent *s = layer->state;
  return s->exposed ? bottom[cr_layer_recurrent_bottom(s, state)]->data : s->before[state];
}

crema_status cr_layer_recurrent_begin(cr_layer *layer, crema_context *context,
                                      crema_blob *const *bottom) {
  cr_layer_recurrent *s = layer->state;
  /* Recomputed values start from the same states. */
  const bool goes_on = s->steps > 0 && !layer->replays;
  for (int i = 0; i < s->states && goes_on; ++i) {
    cr_tensor *held = s->before[i];
    s->before[i] = s->after[i];
    s->after[i] = held;
  }
  CR_TRY(CR_LAYER_RUN(&s->forward, context, bottom[0]->data, layer->blob[0]->data,
                      layer->blob[1]->data, s->sums));
  if (!s->has_static) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->static_forward, context, bottom[2]->data, layer->blob[2]->data, NULL,
                      s->statics_sum));
  return CR_LAYER_RUN(&s->static_add, context, s->sums, NULL, s->statics_sum, s->sums);
}

crema_status cr_layer_recurrent_end(cr_layer *layer, crema_context *context,
                                    crema_blob *const *top) {
  cr_layer_recurrent *s = layer->state;
  for (int i = 0; i < s->states; ++i) {
    cr_tensor *to = s->exposed ? top[1 + i]->data : s->after[i];
    if (s->steps == 0) {
      if (s->exposed) cr_tensor_set_zero(to);
      continue;
    }
    CR_TRY(CR_LAYER_RUN(&s->last, context, s->state[i], to));
  }
  return CREMA_OK;
}

/* The static input takes part in every step. */
static crema_status static_back(cr_layer *layer, crema_context *context, const bool *propagate_down,
                                crema_blob *const *bottom) {
  cr_layer_recurrent *s = layer->state;
  if (!layer->param_propagate_down[2] && !propagate_down[2]) return CREMA_OK;
  cr_tensor_set_zero(s->diff_statics);
  CR_TRY(CR_LAYER_RUN(&s->static_sum, context, s->diff_sums, s->diff_statics));
  if (layer->param_propagate_down[2]) {
    CR_TRY(CR_LAYER_RUN(&s->static_weights, context, bottom[2]->data, s->diff_statics,
                        layer->blob[2]->diff, NULL));
  }
  if (!propagate_down[2]) return CREMA_OK;
  return CR_LAYER_RUN(&s->static_data, context, s->diff_statics, layer->blob[2]->data,
                      bottom[2]->diff);
}

crema_status cr_layer_recurrent_back(cr_layer *layer, crema_context *context,
                                     const bool *propagate_down, crema_blob *const *bottom) {
  cr_layer_recurrent *s = layer->state;
  CR_TRY(cr_layer_weights_run(&s->backward_weights, layer, context, bottom[0]->data, s->diff_sums));
  if (propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->backward_data, context, s->diff_sums, layer->blob[0]->data,
                        bottom[0]->diff));
  }
  return s->has_static ? static_back(layer, context, propagate_down, bottom) : CREMA_OK;
}

/* The state before the first step takes part in gradients of weights. */
bool cr_layer_recurrent_uses_bottom(const cr_layer *layer, int bottom) {
  const cr_layer_recurrent *s = layer->state;
  if (bottom == 0) return layer->param_propagate_down[0];
  if (bottom == 2 && s->has_static) return layer->param_propagate_down[2];
  return true;
}
