/* Eltwise: sum, product or maximum of blobs of one shape.
 *
 * Formula: SUM: y = sum of coeff[i] * bottom i. PROD: y = product of the bottoms. MAX: y = the
 * largest.
 * Shapes: two bottoms or more of one shape -> y (as they), for SUM and MAX also in place, over the
 * first.
 * Fields: eltwise_param.
 * Caffe: the same; the gradient of a factor is always the product of all other factors
 * (stable_prod_grad). Bottoms of a sum without coefficients share the gradient of y, and y the
 * memory of a bottom whose values are dead (eltwise_mem_sharing of the net).
 * Example, a 2 3, b 2 3:
 *   layer { name: "difference" type: "Eltwise" bottom: "a" bottom: "b" top: "y"
 *     eltwise_param { operation: SUM coeff: 1 coeff: -1 } } */
#include <stdio.h>
#include <stdlib.h>

#include "core/fail.h"
#include "layers/common/layer_args.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct eltwise_state {
  int operation;
  float *coeff; /* for sums: one per bottom, and 1 for the top */
  cr_layer_op forward;
  cr_layer_op *backward; /* one per bottom */
  cr_layer_args args;
  cr_tensor *winner; /* maximum: the source of each value */
} eltwise_state;

enum {
  OP_PROD = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__PROD,
  OP_SUM = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM,
  OP_MAX = CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__MAX
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__EltwiseParameter defaults = CAFFE__ELTWISE_PARAMETER__INIT;
  eltwise_state *s = layer->state;
  const Caffe__EltwiseParameter *param =
      layer->param->eltwise_param ? layer->param->eltwise_param : &defaults;
  size_t n = (size_t)layer->bottoms;
  void *coeff = NULL, *backward = NULL;
  (void)bottom, (void)top;
  s->operation = (int)param->operation;
  if (param->n_coeff != 0 && param->n_coeff != n) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "coeff must be given once per bottom (%zu) or not at all; found %zu", n,
                         param->n_coeff);
  }
  if (param->n_coeff != 0 && s->operation != OP_SUM) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "coeff goes with operation SUM only");
  }
  CR_TRY(cr_layer_memory(layer, (n + 1) * sizeof *s->coeff, &coeff));
  CR_TRY(cr_layer_memory(layer, n * sizeof *s->backward, &backward));
  s->coeff = coeff;
  s->backward = backward;
  for (size_t i = 0; i < n; ++i) s->coeff[i] = param->n_coeff ? param->coeff[i] : 1;
  s->coeff[n] = 1;
  /* The longest list: all sources, the top's diff or data, and the result or mask. */
  return cr_layer_args_make(layer, &s->args, layer->bottoms + 2);
}

/* dst = sum of scale[i] * source i. */
static crema_status make_sum(cr_layer *layer, cr_layer_op *slot, const float *scale, int sources) {
  eltwise_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SUM);
  desc.u.sum.rectify = slot == &s->forward && layer->rectifier != NULL;
  return cr_layer_op_make_scaled(layer, slot, &desc, sources + 1, s->args.shape, scale);
}

static crema_status make_prod(cr_layer *layer, int n) {
  eltwise_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_PROD);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, n + 1, s->args.shape));
  desc.kind = CR_OP_PROD_BWD;
  for (int i = 0; i < n; ++i) {
    desc.u.index = i;
    CR_TRY(cr_layer_op_make(layer, &s->backward[i], &desc, n + 2, s->args.shape));
  }
  return CREMA_OK;
}

static crema_status make_max(cr_layer *layer, int n, int64_t count) {
  eltwise_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_MAX);
  CR_TRY(cr_layer_op_make(layer, &s->forward, &desc, n + 2, s->args.shape));
  CR_TRY(cr_layer_pass_tensor(layer, &s->winner, CREMA_I32, count));
  desc.kind = CR_OP_MAX_BWD;
  for (int i = 0; i < n; ++i) {
    desc.u.index = i;
    CR_TRY(cr_layer_op_make(layer, &s->backward[i], &desc, 3, s->args.shape));
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  eltwise_state *s = layer->state;
  const crema_shape *shape = &bottom[0]->shape;
  int n = layer->bottoms;
  for (int i = 1; i < n; ++i) {
    char what[32];
    snprintf(what, sizeof what, "bottom %d", i);
    CR_TRY(cr_layer_same_shape(layer, what, shape, &bottom[i]->shape));
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  for (int i = 0; i < s->args.count; ++i) s->args.shape[i] = shape;
  if (s->operation == OP_PROD) return make_prod(layer, n);
  if (s->operation == OP_MAX) return make_max(layer, n, crema_blob_count(bottom[0]));
  CR_TRY(make_sum(layer, &s->forward, s->coeff, n));
  for (int i = 0; i < n; ++i) {
    CR_TRY(make_sum(layer, &s->backward[i], (const float[]){s->coeff[i], 1}, 1));
  }
  return CREMA_OK;
}

/* Moves the dead values of a bottom to the top, so that the sum is made in place. It is the first
 * of the sources, as the ops require. The first two sources may be swapped if the bits stay the
 * same. The sum has the memory format of the first source, and later layers compute in it. If
 * memory cannot be moved, nothing changes. */
static void use_spare(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                      cr_tensor **source) {
  const int spare = layer->reusable_bottom;
  if (spare < 0 || layer->replays) return;
  if (!cr_format_equal(cr_tensor_head(source[0]), cr_tensor_head(source[spare]))) return;
  if (!cr_tensor_take(top[0]->data, bottom[spare]->data)) return;
  source[spare] = source[0];
  source[0] = top[0]->data;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  eltwise_state *s = layer->state;
  int n = layer->bottoms;
  for (int i = 0; i < n; ++i) s->args.tensor[i] = bottom[i]->data;
  s->args.tensor[n] = top[0]->data;
  s->args.tensor[n + 1] = s->winner;
  use_spare(layer, bottom, top, s->args.tensor);
  return cr_layer_op_run(&s->forward, context, s->args.tensor, NULL);
}

static crema_status backward_one(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                 crema_blob *const *bottom, int i) {
  eltwise_state *s = layer->state;
  int n = layer->bottoms;
  cr_tensor *from = top[0]->diff, *to = bottom[i]->diff;
  if (s->operation == OP_SUM) {
    if (s->coeff[i] == 1 && cr_tensor_shares_with(from, to)) return CREMA_OK;
    return CR_LAYER_RUN(&s->backward[i], context, from, to);
  }
  if (s->operation == OP_MAX) {
    return CR_LAYER_RUN(&s->backward[i], context, from, s->winner, to);
  }
  for (int k = 0; k < n; ++k) {
    if (cr_layer_in_place(bottom[k], top[0])) {
      return cr_layer_fail(layer, CREMA_E_STATE,
                           "no gradient of an in-place product: bottom %d was overwritten", k);
    }
    s->args.tensor[k] = bottom[k]->data;
  }
  s->args.tensor[n] = from;
  s->args.tensor[n + 1] = to;
  return cr_layer_op_run(&s->backward[i], context, s->args.tensor, NULL);
}

/* A bottom that is the top comes last, because all other bottoms read its diff. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  int n = layer->bottoms;
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < n; ++i) {
      const bool same = bottom[i]->diff == top[0]->diff;
      const bool omitted = i < CR_OMITTED_DIFFS && (layer->omitted_diffs >> i & 1u) != 0;
      if (!propagate_down[i] || omitted || same != (pass == 1)) continue;
      CR_TRY(backward_one(layer, context, top, bottom, i));
    }
  }
  return CREMA_OK;
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  const eltwise_state *s = layer->state;
  (void)bottom;
  return s->operation == OP_PROD;
}

static bool adds_bottom(const cr_layer *layer, int bottom) {
  const eltwise_state *s = layer->state;
  return s->operation == OP_SUM && s->coeff[bottom] == 1;
}

static bool rectifies(const cr_layer *layer) {
  const eltwise_state *s = layer->state;
  return s->operation == OP_SUM;
}

const cr_layer_class cr_layer_eltwise = {
    CR_LAYER_OF_OPS("Eltwise", sizeof(eltwise_state), setup, reshape, forward, backward),
    .bottoms = {2, CR_ANY},
    .tops = {1, 1},
    .in_place = true,
    .int8.takes_bf16 = true,
    .memory.runs_ops = true,
    .uses_bottom = uses_bottom,
    .memory.adds_bottom = adds_bottom,
    .fusion.rectifies = rectifies,
    .fusion.reach = cr_layer_reaches_position,
};
