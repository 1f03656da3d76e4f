/* Unpooling: enlarges maps, the reverse of Pooling (Noh et al., "Learning deconvolution network
 * for semantic segmentation", 2015).
 *
 * Formula: each value of x fills its window of y. MAX: y[mask[i][j]] = x[i][j]; without a mask the
 * first position of the window gets it. AVE: each position of the window gets x / size; where
 * windows overlap, y is the sum. TILE: the same without the division. All else is 0.
 * Shapes: x (N, C, H, W), for MAX optionally a mask (as x) -> y (N, C, H', W'). H' = unpool_size
 * or unpool_h, else max((H - 1) stride + kernel, H stride + 1). W' is computed alike.
 * Fields: unpooling_param.
 * Caffe: as in DeconvNet's fork. The mask is the second top of a Pooling layer. AVE and TILE start
 * from 0, where the fork adds to the values of the last pass. The gradient of TILE is the sum over
 * the window, which the fork divides by the window's size.
 * Example, x 1 2 3 3:
 *   layer { name: "unpool" type: "Unpooling" bottom: "x" top: "y"
 *     unpooling_param { unpool: TILE kernel_size: 2 stride: 2 unpool_size: 6 } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_shape.h"

enum {
  UNPOOL_MAX = CAFFE__UNPOOLING_PARAMETER__UNPOOL_METHOD__MAX,
  UNPOOL_TILE = CAFFE__UNPOOLING_PARAMETER__UNPOOL_METHOD__TILE
};

typedef struct unpooling_state {
  cr_window window;
  int64_t given[2]; /* extents of the top; 0: they follow from the window */
  cr_layer_op forward, backward;
  cr_layer_op multiply; /* TILE: by the sizes of the windows, for both passes */
  cr_tensor *mask;      /* MAX without a second bottom */
  cr_tensor *sizes, *scaled;
} unpooling_state;

/* A field for both axes, or its two fields for one each. */
static crema_status read_two(const cr_layer *layer, const char *name, bool has, uint32_t both,
                             const bool has_one[2], const uint32_t one[2], int64_t *out) {
  if (has_one[0] != has_one[1] || (has && has_one[0])) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "%s is one field for both axes, or two fields with _h and _w", name);
  }
  for (int i = 0; i < 2; ++i) out[i] = has_one[i] ? one[i] : both;
  return CREMA_OK;
}

static crema_status check(const cr_layer *layer, const Caffe__UnpoolingParameter *p) {
  const unpooling_state *s = layer->state;
  if (p->pad > 0 || p->pad_h > 0 || p->pad_w > 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "pad is not supported, use 0");
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t kernel = s->window.kernel[i], stride = s->window.stride[i];
    if (kernel < 1 || stride < 1 || kernel > INT16_MAX || stride > INT32_MAX ||
        s->given[i] > INT32_MAX) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "kernel %lld and stride %lld must be 1 or more, at most %d",
                           (long long)kernel, (long long)stride, INT16_MAX);
    }
  }
  if (layer->bottoms > 1 && (int)p->unpool != UNPOOL_MAX) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "only MAX unpooling has a mask (bottom 1)");
  }
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  unpooling_state *s = layer->state;
  const Caffe__UnpoolingParameter *p = layer->param->unpooling_param;
  (void)bottom, (void)top;
  if (p == NULL || (!p->has_kernel_size && !p->has_kernel_h)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "unpooling_param needs a kernel_size");
  }
  CR_TRY(read_two(layer, "kernel_size", p->has_kernel_size, p->kernel_size,
                  (bool[]){p->has_kernel_h, p->has_kernel_w},
                  (uint32_t[]){p->kernel_h, p->kernel_w}, s->window.kernel));
  CR_TRY(read_two(layer, "stride", p->has_stride, p->stride,
                  (bool[]){p->has_stride_h, p->has_stride_w},
                  (uint32_t[]){p->stride_h, p->stride_w}, s->window.stride));
  CR_TRY(read_two(layer, "unpool_size", p->has_unpool_size, p->unpool_size,
                  (bool[]){p->has_unpool_h, p->has_unpool_w},
                  (uint32_t[]){p->unpool_h, p->unpool_w}, s->given));
  s->window.axes = 2;
  s->window.dilation[0] = s->window.dilation[1] = 1;
  return check(layer, p);
}

/* The first position of each window, cut to the map. */
static crema_status fill_mask(cr_layer *layer, const crema_shape *x, const crema_shape *y) {
  unpooling_state *s = layer->state;
  const int64_t count = crema_shape_count(x, 0, 4), rows = x->dim[2], columns = x->dim[3];
  float *value = NULL;
  CR_TRY(cr_layer_tensor(layer, &s->mask, cr_layer_arithmetic(layer), count));
  CR_TRY(cr_tensor_host_write_floats(s->mask, &value));
  for (int64_t i = 0; i < count; ++i) {
    int64_t at[2] = {i / columns % rows * s->window.stride[0], i % columns * s->window.stride[1]};
    for (int a = 0; a < 2; ++a) {
      if (at[a] > y->dim[2 + a] - 1) at[a] = y->dim[2 + a] - 1;
    }
    value[i] = (float)(at[0] * y->dim[3] + at[1]);
  }
  return CREMA_OK;
}

static crema_status make_max(cr_layer *layer, crema_blob *const *bottom, const crema_shape *y) {
  unpooling_state *s = layer->state;
  const crema_shape *x = &bottom[0]->shape;
  if (layer->bottoms > 1)
    CR_TRY(cr_layer_same_shape(layer, "bottom 1 (mask)", x, &bottom[1]->shape));
  else CR_TRY(fill_mask(layer, x, y));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_UNPOOL_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, x, x, y));
  desc.kind = CR_OP_UNPOOL_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, y, x, x);
}

/* TILE is AVE of the values times the sizes of their windows. */
static crema_status make_sizes(cr_layer *layer, const crema_shape *x, const crema_shape *y) {
  unpooling_state *s = layer->state;
  const crema_shape maps = cr_layer_fold(x, 2, 4), cells = cr_shape_1(maps.dim[1]);
  const cr_op_desc desc = cr_layer_op_desc(CR_OP_AFFINE_FWD);
  float *value = NULL;
  CR_TRY(cr_layer_tensor(layer, &s->sizes, cr_layer_arithmetic(layer), cells.dim[0]));
  CR_TRY(
      cr_layer_tensor(layer, &s->scaled, cr_layer_arithmetic(layer), crema_shape_count(x, 0, 4)));
  CR_TRY(cr_tensor_host_write_floats(s->sizes, &value));
  for (int64_t i = 0; i < cells.dim[0]; ++i) {
    const int64_t at[2] = {i / x->dim[3], i % x->dim[3]};
    int64_t size = 1;
    for (int a = 0; a < 2; ++a) {
      const int64_t left = y->dim[2 + a] - at[a] * s->window.stride[a];
      size *= left < 0 ? 0 : left < s->window.kernel[a] ? left : s->window.kernel[a];
    }
    value[i] = (float)size;
  }
  return CR_LAYER_MAKE(layer, &s->multiply, &desc, &maps, &cells, NULL, &maps);
}

/* The gradient of average pooling, and average pooling for the gradient. */
static crema_status make_average(cr_layer *layer, const crema_shape *x, const crema_shape *y) {
  unpooling_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_POOL_BWD);
  desc.u.pool.window = s->window;
  desc.u.pool.method = CR_POOL_AVERAGE;
  desc.u.pool.src[0] = y->dim[2];
  desc.u.pool.src[1] = y->dim[3];
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, x, NULL, y));
  desc.kind = CR_OP_POOL_FWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, y, x, NULL));
  if ((int)layer->param->unpooling_param->unpool != UNPOOL_TILE) return CREMA_OK;
  return make_sizes(layer, x, y);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  unpooling_state *s = layer->state;
  crema_shape to = bottom[0]->shape;
  char text[128];
  if (to.axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(&to, text, sizeof text));
  }
  for (int i = 0; i < 2; ++i) {
    const int64_t kernel = s->window.kernel[i], stride = s->window.stride[i];
    const int64_t more = kernel - stride > 1 ? kernel - stride : 1;
    int64_t *extent = &to.dim[2 + i];
    if (s->given[i] > 0) {
      *extent = s->given[i];
    } else if (*extent > 0) {
      CR_TRY(cr_layer_multiply(layer, stride, extent));
      *extent += more;
    }
  }
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  if ((int)layer->param->unpooling_param->unpool == UNPOOL_MAX) return make_max(layer, bottom, &to);
  return make_average(layer, &bottom[0]->shape, &to);
}

static cr_tensor *mask_of(const cr_layer *layer, crema_blob *const *bottom) {
  const unpooling_state *s = layer->state;
  return layer->bottoms > 1 ? bottom[1]->data : s->mask;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  unpooling_state *s = layer->state;
  cr_tensor *x = bottom[0]->data, *y = top[0]->data, *mask = mask_of(layer, bottom);
  if (mask != NULL) return CR_LAYER_RUN(&s->forward, context, x, mask, y);
  if (s->sizes != NULL) {
    CR_TRY(CR_LAYER_RUN(&s->multiply, context, x, s->sizes, NULL, s->scaled));
    x = s->scaled;
  }
  cr_tensor_set_zero(y);
  return CR_LAYER_RUN(&s->forward, context, x, NULL, y);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  unpooling_state *s = layer->state;
  cr_tensor *dy = top[0]->diff, *dx = bottom[0]->diff, *mask = mask_of(layer, bottom);
  /* The pooling layer that makes the mask learns, so that it is asked for. */
  if (layer->bottoms > 1 && propagate_down[1]) cr_tensor_set_zero(bottom[1]->diff);
  if (!propagate_down[0]) return CREMA_OK;
  if (mask != NULL) return CR_LAYER_RUN(&s->backward, context, dy, mask, dx);
  CR_TRY(CR_LAYER_RUN(&s->backward, context, dy, dx, NULL));
  if (s->sizes == NULL) return CREMA_OK;
  return CR_LAYER_RUN(&s->multiply, context, dx, s->sizes, NULL, dx);
}

const cr_layer_class cr_layer_unpooling = {
    CR_LAYER_OF_OPS("Unpooling", sizeof(unpooling_state), setup, reshape, forward, backward),
    .bottoms = {1, 2},
    .tops = {1, 1},
    .no_gradient_bottoms = 1u << 1,
};
