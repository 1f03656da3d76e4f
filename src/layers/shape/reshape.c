/* Reshape: the same values in another shape.
 *
 * Formula: y = x; no value moves.
 * Shapes: x (any) -> y. The extents of `shape` replace num_axes axes of x (-1: all), starting at
 * axis. An extent of 0 copies the extent of x. An extent of -1, allowed once, is computed from the
 * count. The top shares data and diff with x.
 * Fields: reshape_param.
 * Caffe: the same.
 * Example, x 2 3 4 4:
 *   layer { name: "rows" type: "Reshape" bottom: "x" top: "y"
 *     reshape_param { shape { dim: 0 dim: -1 } } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

/* The range of axes of the bottom that the new extents replace. */
typedef struct replaced {
  int start, end;
} replaced;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ReshapeParameter *param = layer->param->reshape_param;
  (void)bottom, (void)top;
  if (param != NULL && param->pixelshuffler != 1) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "pixelshuffler is not supported");
  }
  if (param == NULL || param->shape == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "reshape_param with a shape is required");
  }
  int inferred = 0;
  for (size_t i = 0; i < param->shape->n_dim; ++i) {
    int64_t dim = param->shape->dim[i];
    if (dim < -1) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "dim %zu of shape is %lld, must be -1 or more", i,
                           (long long)dim);
    }
    inferred += dim == -1;
  }
  if (inferred > 1) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "shape has %d dims of -1, at most one is possible", inferred);
  }
  return CREMA_OK;
}

static crema_status find_replaced(const cr_layer *layer, const crema_shape *from, replaced *out) {
  const Caffe__ReshapeParameter *param = layer->param->reshape_param;
  /* The number of axes plus one, because -1 means the end. In 64 bits, as the fields can hold
   * anything. */
  int64_t start = param->axis >= 0 ? param->axis : (int64_t)from->axes + param->axis + 1;
  if (start < 0 || start > from->axes) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "axis %d is out of range for a blob of %d axes",
                         param->axis, from->axes);
  }
  if (param->num_axes < -1) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "num_axes is %d, must be -1 (all) or more",
                         param->num_axes);
  }
  int64_t end = param->num_axes == -1 ? from->axes : start + param->num_axes;
  if (end > from->axes) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "num_axes %d from axis %d on is more than the %d axes of the bottom",
                         param->num_axes, (int)start, from->axes);
  }
  out->start = (int)start;
  out->end = (int)end;
  return CREMA_OK;
}

/* The top's shape with extent 1 for -1. *inferred: the axis of -1, or -1 if there is none. */
static crema_status new_shape(const cr_layer *layer, const crema_shape *from, replaced range,
                              crema_shape *to, int *inferred) {
  const Caffe__BlobShape *shape = layer->param->reshape_param->shape;
  size_t axes = (size_t)(from->axes - (range.end - range.start)) + shape->n_dim;
  if (axes > CREMA_MAX_AXES) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the top would have %zu axes, at most %d are possible", axes,
                         CREMA_MAX_AXES);
  }
  *to = cr_shape(range.start, from->dim);
  *inferred = -1;
  for (size_t i = 0; i < shape->n_dim; ++i) {
    int64_t dim = shape->dim[i];
    if (dim == 0) {
      size_t source = (size_t)range.start + i;
      if (source >= (size_t)from->axes) {
        return cr_layer_fail(layer, CREMA_E_SHAPE,
                             "dim %zu of shape is 0, but the bottom has no axis %zu to copy", i,
                             source);
      }
      dim = from->dim[source];
    } else if (dim == -1) {
      *inferred = to->axes;
      dim = 1;
    }
    to->dim[to->axes++] = dim;
  }
  for (int i = range.end; i < from->axes; ++i) to->dim[to->axes++] = from->dim[i];
  return crema_shape_check(to);
}

/* The count of `shape` without its axes 0 to axes - 1 that `skip` marks. */
static int64_t count_without(const crema_shape *shape, const bool *skip) {
  int64_t count = 1;
  for (int i = 0; i < shape->axes; ++i) count *= skip[i] ? 1 : shape->dim[i];
  return count;
}

/* Fills in the extent of axis `inferred` of `to`. Extents that `to` copies from the same axis are
 * omitted on both sides, so that the rest can be found even for an empty batch. */
static crema_status infer(const cr_layer *layer, const crema_shape *from, replaced range,
                          int inferred, crema_shape *to) {
  const Caffe__BlobShape *shape = layer->param->reshape_param->shape;
  bool skip_from[CREMA_MAX_AXES] = {false}, skip_to[CREMA_MAX_AXES] = {false};
  char text[128];
  const int shift = to->axes - from->axes;
  for (int i = 0; i < from->axes; ++i) {
    bool kept = i < range.start || i >= range.end;
    bool copied =
        !kept && (size_t)(i - range.start) < shape->n_dim && shape->dim[i - range.start] == 0;
    if (!kept && !copied) continue;
    skip_from[i] = true;
    skip_to[i < range.end ? i : i + shift] = true;
  }
  int64_t have = count_without(from, skip_from), given = count_without(to, skip_to);
  if (given == 0 || have % given != 0) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom's count, %s, cannot be divided by the given extents' %lld",
                         crema_shape_text(from, text, sizeof text),
                         (long long)crema_shape_count(to, 0, to->axes));
  }
  to->dim[inferred] = have / given;
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *from = &bottom[0]->shape;
  crema_shape to;
  replaced range = {0, 0};
  int inferred = -1;
  char a[128], b[128];
  CR_TRY(find_replaced(layer, from, &range));
  CR_TRY(new_shape(layer, from, range, &to, &inferred));
  int64_t have = crema_shape_count(from, 0, from->axes);
  int64_t given = crema_shape_count(&to, 0, to.axes);
  if (inferred >= 0) {
    CR_TRY(infer(layer, from, range, inferred, &to));
  } else if (have != given) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom's shape %s and the top's %s differ in count",
                         crema_shape_text(from, a, sizeof a), crema_shape_text(&to, b, sizeof b));
  }
  return cr_layer_view(bottom[0], &to, top[0]);
}

const cr_layer_class cr_layer_reshape = {
    .type = "Reshape",
    .bottoms = {1, 1},
    .tops = {1, 1},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .memory.shares = CR_SHARES_BLOB,
    .setup = setup,
    .reshape = reshape,
    .forward = cr_layer_noop_forward,
    .backward = cr_layer_noop_backward,
};
