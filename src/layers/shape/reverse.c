/* Reverse: the values of an axis, or of each sequence of a batch, in reverse order.
 *
 * Formula: with one bottom, y[i] = x[n - 1 - i] along each axis that is given; n is its extent.
 * With two bottoms, the second is reversed and the first marks sequences. A sequence of m steps in
 * a column has the mark -m in its first step and 1 in all other steps. Its step i of y is its step
 * m - 1 - i of x. The mark 0 at the end of a sequence ends the column; from there on y is 0.
 * Shapes: x (any) -> y (as x), or marks (T, N), x (T, N, ...) -> y (as x). The marks have no
 * gradient.
 * Fields: reverse_param.
 * Caffe: as in the forks for CRNN (one axis), of Synopsys (any number of axes) and of TextSpotter
 * (marks). Where a column has ended, the last does not write y.
 * Example, x 3 2 4:
 *   layer { name: "back" type: "Reverse" bottom: "x" top: "y" reverse_param { axis: 0 } } */
#include <inttypes.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_pair.h"

static const cr_layer_pair_table pair = {
    .forward = {CR_OP_FLIP, {CR_X0, CR_Y}},
    .backward = {CR_OP_FLIP, {CR_DY, CR_DX}},
};

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)bottom, (void)top;
  if (layer->bottoms == 1 || layer->param->reverse_param == NULL) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "with marks of sequences (two bottoms) reverse_param has no meaning");
}

static crema_status reshape_marked(cr_layer *layer, crema_blob *const *bottom,
                                   crema_blob *const *top) {
  const crema_shape *marks = &bottom[0]->shape, *x = &bottom[1]->shape;
  char a[128], b[128];
  if (marks->axes < 2 || crema_shape_count(marks, 2, marks->axes) != 1 || x->axes < 2 ||
      x->dim[0] != marks->dim[0] || x->dim[1] != marks->dim[1]) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 0 must have a mark for each step and column of bottom 1, found "
                         "shapes %s and %s",
                         crema_shape_text(marks, a, sizeof a), crema_shape_text(x, b, sizeof b));
  }
  return crema_blob_reshape(top[0], x);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ReverseParameter *param = layer->param->reverse_param;
  const crema_shape *shape = &bottom[0]->shape;
  const size_t given = param ? param->n_axis : 0;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_FLIP);
  if (layer->bottoms > 1) return reshape_marked(layer, bottom, top);
  for (size_t i = 0; i < (given > 0 ? given : 1); ++i) {
    int axis = 0;
    CR_TRY(cr_layer_axis(layer, shape, given > 0 ? param->axis[i] : 0, "axis", &axis));
    if (desc.u.flipped >> axis & 1u) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "axis %d is given twice", axis);
    }
    desc.u.flipped |= 1u << axis;
  }
  CR_TRY(crema_blob_reshape(top[0], shape));
  return cr_layer_pair_make(layer, bottom, top, &desc, &(cr_pair_shapes){0});
}

/* The steps of the sequence that begins at step `first` of a column. */
static crema_status sequence_length(const cr_layer *layer, const cr_host_values *marks,
                                    const crema_shape *shape, int64_t column, int64_t first,
                                    int64_t *out) {
  int64_t end = first + 1;
  while (end < shape->dim[0] && cr_host_get(marks, end * shape->dim[1] + column) == 1) ++end;
  const double mark = cr_host_get(marks, first * shape->dim[1] + column);
  *out = end - first;
  if (mark == -(double)*out) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "the mark in step %" PRId64 " of column %" PRId64 " is %g, must be -%" PRId64
                       ": the sequence has that many steps",
                       first, column, mark, *out);
}

/* Reverses the sequences of the columns; the values of one step and column stay together. */
static crema_status reverse_marked(const cr_layer *layer, crema_blob *marks_blob, cr_tensor *from,
                                   cr_tensor *to) {
  const crema_shape *shape = &marks_blob->shape;
  const int64_t steps = shape->dim[0], columns = shape->dim[1];
  const int64_t inner = steps * columns > 0 ? cr_tensor_count(from) / (steps * columns) : 0;
  cr_host_values marks, x;
  cr_host_results y;
  int64_t length = 0;
  CR_TRY(cr_host_read(marks_blob->data, &marks));
  CR_TRY(cr_host_read(from, &x));
  CR_TRY(cr_host_write(to, &y));
  for (int64_t i = 0; i < steps * columns * inner; ++i) cr_host_put(&y, i, 0);
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t t = 0; t < steps && cr_host_get(&marks, t * columns + c) != 0; t += length) {
      CR_TRY(sequence_length(layer, &marks, shape, c, t, &length));
      for (int64_t i = 0; i < length * inner; ++i) {
        const int64_t source = (t + length - 1 - i / inner) * columns + c;
        const int64_t target = (t + i / inner) * columns + c;
        cr_host_put(&y, target * inner + i % inner, cr_host_get(&x, source * inner + i % inner));
      }
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  if (layer->bottoms > 1) return reverse_marked(layer, bottom[0], bottom[1]->data, top[0]->data);
  return cr_layer_pair_forward(layer, context, bottom, top);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  if (layer->bottoms == 1) {
    return cr_layer_pair_backward(layer, context, top, propagate_down, bottom);
  }
  if (propagate_down[0]) cr_tensor_set_zero(bottom[0]->diff);
  if (!propagate_down[1]) return CREMA_OK;
  return reverse_marked(layer, bottom[0], top[0]->diff, bottom[1]->diff);
}

/* Backward reads the marks. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  return layer->bottoms > 1 && bottom == 0;
}

const cr_layer_class cr_layer_reverse = {
    CR_LAYER_OF_OPS("Reverse", sizeof(cr_layer_pair), setup, reshape, forward, backward),
    .pair = &pair,
    .bottoms = {1, 2},
    .tops = {1, 1},
    .uses_bottom = uses_bottom,
};
