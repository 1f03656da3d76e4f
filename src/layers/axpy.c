/* Axpy: a blob with each channel scaled, plus another (Hu et al., "Squeeze-and-excitation
 * networks", 2018).
 *
 * Formula: z[n][c] = a[n][c] * x[n][c] + y[n][c].
 * Shapes: a (N, C) or (N, C, 1, 1), x (N, C, ...), y (as x) -> z (as x).
 * Fields: none.
 * Caffe: as in SENet's fork and Intel Caffe.
 * Example, a 2 3, x 2 3 4 4, y 2 3 4 4:
 *   layer { name: "axpy" type: "Axpy" bottom: "a" bottom: "x" bottom: "y" top: "z" } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct axpy_state {
  cr_layer_op scale, add, scale_back, sum_back, copy;
} axpy_state;

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  axpy_state *s = layer->state;
  const crema_shape *a = &bottom[0]->shape, *x = &bottom[1]->shape;
  char text[2][128];
  if (x->axes < 2 || a->axes < 2 || a->dim[0] != x->dim[0] || a->dim[1] != x->dim[1] ||
      crema_shape_count(a, 2, a->axes) != 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 0 must have a number for each channel of bottom 1's shape %s, "
                         "found %s",
                         crema_shape_text(x, text[0], sizeof text[0]),
                         crema_shape_text(a, text[1], sizeof text[1]));
  }
  CR_TRY(cr_layer_same_shape(layer, "bottom 2", x, &bottom[2]->shape));
  CR_TRY(crema_blob_reshape(top[0], x));
  const crema_shape c = cr_shape_1(crema_blob_count(bottom[0]));
  const crema_shape view = cr_shape_3(1, c.dim[0], crema_shape_count(x, 2, x->axes));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->scale, &desc, &view, &c, NULL, &view));
  desc.kind = CR_OP_AFFINE_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->scale_back, &desc, &view, &c, &view));
  desc.kind = CR_OP_AFFINE_BWD_SCALE;
  CR_TRY(CR_LAYER_MAKE(layer, &s->sum_back, &desc, &view, &view, &c));
  desc.kind = CR_OP_COPY;
  CR_TRY(CR_LAYER_MAKE(layer, &s->copy, &desc, x, x));
  desc.kind = CR_OP_AXPBY;
  return CR_LAYER_MAKE(layer, &s->add, &desc, x, x);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  axpy_state *s = layer->state;
  const cr_op_scalars add = {.alpha = 1, .beta = 1};
  CR_TRY(CR_LAYER_RUN(&s->scale, context, bottom[1]->data, bottom[0]->data, NULL, top[0]->data));
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){bottom[2]->data, top[0]->data}, &add);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  axpy_state *s = layer->state;
  cr_tensor *diff = top[0]->diff;
  if (propagate_down[0]) {
    cr_tensor_set_zero(bottom[0]->diff);
    CR_TRY(CR_LAYER_RUN(&s->sum_back, context, bottom[1]->data, diff, bottom[0]->diff));
  }
  if (propagate_down[1]) {
    CR_TRY(CR_LAYER_RUN(&s->scale_back, context, diff, bottom[0]->data, bottom[1]->diff));
  }
  if (!propagate_down[2]) return CREMA_OK;
  return CR_LAYER_RUN(&s->copy, context, diff, bottom[2]->diff);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom < 2;
}

const cr_layer_class cr_layer_axpy = {
    CR_LAYER_OF_OPS("Axpy", sizeof(axpy_state), cr_layer_noop, reshape, forward, backward),
    .bottoms = {3, 3},
    .tops = {1, 1},
    .uses_bottom = uses_bottom,
};
