#include "layers/common/layer_unary.h"

#include <assert.h>
#include <math.h>

#include "core/fail.h"

const cr_layer_pair_table cr_layer_unary_by_value = {
    .forward = {CR_OP_UNARY_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_UNARY_BWD, {CR_X0, CR_Y, CR_DY, CR_DX}},
};

const cr_layer_pair_table cr_layer_unary_by_input = {
    .forward = {CR_OP_UNARY_FWD, {CR_X0, CR_Y}},
    .backward = {CR_OP_UNARY_BWD, {CR_INPUT, CR_Y, CR_DY, CR_DX}},
};

crema_status cr_layer_unary_setup(cr_layer *layer, crema_blob *const *bottom,
                                  crema_blob *const *top) {
  cr_layer_unary *s = layer->state;
  cr_post post;
  (void)bottom, (void)top;
  if (!layer->kind->fusion.post(layer->param, cr_layer_arithmetic(layer), &post)) {
    return cr_layer_fail(layer, CREMA_E_INTERNAL, "has no function");
  }
  assert(cr_unary_by_value(post.function) == (layer->kind->pair == &cr_layer_unary_by_value));
  s->function = post.function;
  s->alpha = post.alpha;
  s->beta = post.beta;
  s->gamma = post.gamma;
  return CREMA_OK;
}

/* In F32, 1 / log is taken of the rounded logarithm, so rounding only at the end would give other
 * bits. */
double cr_layer_unary_log(crema_dtype arithmetic, float base) {
  if (base == -1) return 1;
  if (!(base > 0 && isfinite(base))) return NAN;
  return arithmetic == CREMA_F64 ? log((double)base) : (double)logf(base);
}

crema_status cr_layer_unary_reshape(cr_layer *layer, crema_blob *const *bottom,
                                    crema_blob *const *top) {
  const cr_layer_unary *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNARY_FWD);
  desc.u.unary.function = s->function;
  desc.u.unary.alpha = s->alpha;
  desc.u.unary.beta = s->beta;
  desc.u.unary.gamma = s->gamma;
  if (top[0] != bottom[0]) CR_TRY(crema_blob_reshape(top[0], &bottom[0]->shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

/* ReLU reads its bottom, which in place is its top. */
cr_value_use cr_layer_unary_uses_tops(const cr_layer *layer, bool in_place) {
  const cr_layer_unary *s = layer->state;
  switch (s->function) {
    case CR_UNARY_RELU: return in_place ? CR_VALUES_SIGNS : CR_VALUES_NONE;
    case CR_UNARY_SIGMOID:
    case CR_UNARY_TANH:
    case CR_UNARY_EXP:
    case CR_UNARY_ELU:
    case CR_UNARY_SWISH: return CR_VALUES_LEARNING;
    default: return CR_VALUES_NONE;
  }
}

bool cr_layer_unary_uses_bottom(const cr_layer *layer, int bottom) {
  const cr_layer_unary *s = layer->state;
  (void)bottom;
  switch (s->function) {
    case CR_UNARY_SIGMOID:
    case CR_UNARY_TANH:
    case CR_UNARY_EXP: return false;
    case CR_UNARY_POWER: return s->alpha != 0 && s->alpha != 1 && s->beta != 0;
    default: return true;
  }
}

cr_value_use cr_layer_unary_preserves(const cr_layer *layer) {
  const cr_layer_unary *s = layer->state;
  bool rises = false; /* through 0 */
  switch (s->function) {
    case CR_UNARY_RELU:
      if (s->alpha == 0) return CR_VALUES_LEARNING;
      rises = s->alpha > 0;
      break;
    case CR_UNARY_CLIP: return CR_VALUES_LEARNING;
    case CR_UNARY_POWER: rises = s->alpha == 1 && s->beta > 0 && s->gamma == 0; break;
    case CR_UNARY_ELU: rises = s->alpha > 0 && s->beta > 0; break;
    case CR_UNARY_TANH:
    case CR_UNARY_SWISH:
    case CR_UNARY_GELU:
    case CR_UNARY_GELU_TANH: rises = true; break;
    default: break;
  }
  return rises ? CR_VALUES_SIGNS : CR_VALUES_NONE;
}
