/* Upsample: enlarges maps, by repeating values or by placing them at the positions of max pooling
 * (Badrinarayanan et al., "SegNet", 2017).
 *
 * Formula: with one bottom, y[i][j] = x[i / scale_h][j / scale_w]. With two bottoms, y[mask[i][j]]
 * = x[i][j], and y is 0 elsewhere. The mask is the second top of a Pooling layer. If the mask has
 * one index several times, y has the last of these values. In the gradient each of them gets the
 * value at that index.
 * Shapes: x (N, C, H, W), optionally a mask (as x) -> y (N, C, H', W'). With one bottom, H' = H
 * scale_h. With two bottoms, H' = upsample_h or H scale_h - pad_out_h. W' is computed alike.
 * Fields: upsample_param.
 * Caffe: as in the forks of SegNet (two bottoms) and of YOLOv3 (one).
 * Example, x 1 2 3 3:
 *   layer { name: "up" type: "Upsample" bottom: "x" top: "y" upsample_param { scale: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

typedef struct upsample_state {
  cr_layer_op forward, backward;     /* of rows, or with a mask */
  cr_layer_op columns, columns_back; /* without a mask */
  cr_tensor *wide, *diff_wide;       /* x with its columns repeated */
} upsample_state;

/* Copies each of `outer` runs of `inner` values `tiles` times. */
static crema_status make_tile(cr_layer *layer, cr_layer_op *there, cr_layer_op *back, int64_t outer,
                              int64_t tiles, int64_t inner) {
  const crema_shape x = cr_shape_2(outer, inner), y = cr_shape_3(outer, tiles, inner);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_TILE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, there, &desc, &x, &y));
  desc.kind = CR_OP_TILE_BWD;
  return CR_LAYER_MAKE(layer, back, &desc, &y, &x);
}

static crema_status make_repeat(cr_layer *layer, crema_blob *const *bottom,
                                const int64_t factor[2]) {
  upsample_state *s = layer->state;
  const crema_shape *x = &bottom[0]->shape;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const int64_t rows = crema_shape_count(x, 0, 3), width = x->dim[3];
  CR_TRY(cr_layer_tensor(layer, &s->wide, type, rows * width * factor[1]));
  CR_TRY(cr_layer_tensor(layer, &s->diff_wide, type, rows * width * factor[1]));
  CR_TRY(make_tile(layer, &s->columns, &s->columns_back, rows * width, factor[1], 1));
  return make_tile(layer, &s->forward, &s->backward, rows, factor[0], width * factor[1]);
}

static crema_status make_unpool(cr_layer *layer, crema_blob *const *bottom, const crema_shape *to) {
  upsample_state *s = layer->state;
  const crema_shape *x = &bottom[0]->shape;
  CR_TRY(cr_layer_same_shape(layer, "bottom 1 (mask)", x, &bottom[1]->shape));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNPOOL_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, x, x, to));
  desc.kind = CR_OP_UNPOOL_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, to, x, x);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__UpsampleParameter defaults = CAFFE__UPSAMPLE_PARAMETER__INIT;
  const Caffe__UpsampleParameter *p =
      layer->param->upsample_param ? layer->param->upsample_param : &defaults;
  const bool masked = layer->bottoms > 1;
  const int64_t factor[2] = {p->has_scale_h ? p->scale_h : p->scale,
                             p->has_scale_w ? p->scale_w : p->scale};
  const int64_t less[2] = {p->pad_out_h, p->pad_out_w};
  const int64_t given[2] = {p->upsample_h, p->upsample_w};
  crema_shape to = bottom[0]->shape;
  char text[128];
  if (to.axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(&to, text, sizeof text));
  }
  for (int i = 0; i < 2; ++i) {
    if (!masked && (less[i] || given[i])) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                           "pad_out and upsample_h or _w belong to a layer with a mask");
    }
    if (factor[i] < 1) return cr_layer_fail(layer, CREMA_E_RANGE, "scale is 0, must be 1 or more");
    CR_TRY(cr_layer_multiply(layer, factor[i], &to.dim[2 + i]));
    to.dim[2 + i] = given[i] > 0 ? given[i] : to.dim[2 + i] - (to.dim[2 + i] > 0 ? less[i] : 0);
  }
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  return masked ? make_unpool(layer, bottom, &to) : make_repeat(layer, bottom, factor);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  upsample_state *s = layer->state;
  if (layer->bottoms > 1) {
    return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data, top[0]->data);
  }
  CR_TRY(CR_LAYER_RUN(&s->columns, context, bottom[0]->data, s->wide));
  return CR_LAYER_RUN(&s->forward, context, s->wide, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  upsample_state *s = layer->state;
  if (layer->bottoms > 1) {
    /* The pooling layer that makes the mask learns, so that it is asked for. */
    if (propagate_down[1]) cr_tensor_set_zero(bottom[1]->diff);
    if (!propagate_down[0]) return CREMA_OK;
    return CR_LAYER_RUN(&s->backward, context, top[0]->diff, bottom[1]->data, bottom[0]->diff);
  }
  if (!propagate_down[0]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->backward, context, top[0]->diff, s->diff_wide));
  return CR_LAYER_RUN(&s->columns_back, context, s->diff_wide, bottom[0]->diff);
}

const cr_layer_class cr_layer_upsample = {
    CR_LAYER_OF_OPS("Upsample", sizeof(upsample_state), cr_layer_noop, reshape, forward, backward),
    .bottoms = {1, 2},
    .tops = {1, 1},
    .no_gradient_bottoms = 1u << 1,
};
