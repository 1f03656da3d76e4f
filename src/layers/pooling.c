/* Pooling: one value of each window over one to three spatial axes.
 *
 * Formula: MAX: the largest. AVE: the sum over the size of the window, which counts padding and is
 * cut at the end of the padded input. With avg_include_pad: false, the mean of the input's values
 * in it. STOCHASTIC (Zeiler and Fergus, "Stochastic pooling", 2013): in TRAIN a value drawn with
 * probability in proportion to it, in TEST the mean with those weights.
 * Shapes: x (N, C, H, W) -> y (N, C, H', W') and, for MAX, optionally the positions of the maxima;
 * likewise (N, C, L) and (N, C, D, H, W).
 * H' = ceil((H + 2 pad - K) / stride) + 1 (round_mode FLOOR: floor). It is one less if any axis has
 * padding and the last window would start after the input.
 * As in Convolution, kernel_size, stride and pad are given once or once per spatial axis.
 * Fields: pooling_param.
 * Caffe: needs two spatial axes. ceil_mode of forks is read as round_mode. Stochastic pooling also
 * works on the CPU. The field torch_pooling means round_mode FLOOR; NVIDIA's layer never reads it.
 * The fields avg_include_pad, kernel_size_3d, stride_3d and pad_3d are Intel Caffe's. Its axis is
 * refused unless it is 1. C3D's Pooling3D and video-caffe's NdPooling become this layer.
 * Example, x 2 3 4 9 9:
 *   layer { name: "pool" type: "Pooling" bottom: "x" top: "y"
 *     pooling_param { pool: MAX kernel_size: [1, 3, 3] stride: [1, 2, 2] } } */
#include "core/fail.h"
#include "layers/common/layer_int8.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_window.h"

typedef struct pooling_state {
  int method; /* CAFFE__POOLING_PARAMETER__POOL_METHOD__... */
  bool global, floor, inside;
  cr_window window;
  cr_layer_op forward, forward_only, backward, mask;
  cr_tensor *aux; /* the index in its window of each value */
} pooling_state;

enum {
  POOL_MAX = CAFFE__POOLING_PARAMETER__POOL_METHOD__MAX,
  POOL_AVE = CAFFE__POOLING_PARAMETER__POOL_METHOD__AVE,
  POOL_STOCHASTIC = CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC
};

static crema_status check_window(const cr_layer *layer, const pooling_state *s) {
  for (int i = 0; i < s->window.axes; ++i) {
    int64_t kernel = s->window.kernel[i], pad = s->window.pad[i];
    if (s->global && (pad != 0 || s->window.stride[i] != 1)) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                           "global_pooling goes with pad 0 and stride 1 only");
    }
    if (!s->global && pad >= kernel) {
      return cr_layer_fail(layer, CREMA_E_RANGE,
                           "the pad of spatial axis %d, %lld, must be less than the kernel, %lld",
                           i, (long long)pad, (long long)kernel);
    }
    if (pad != 0 && s->method == POOL_STOCHASTIC) {
      return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                           "stochastic pooling has no padding, only MAX and AVE have");
    }
  }
  return CREMA_OK;
}

static crema_status check_axes(const cr_layer *layer, const crema_shape *from) {
  char text[128];
  if (from->axes >= 3 && from->axes <= 5) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "the bottom must have 3 to 5 axes (num, channels and the spatial axes), "
                       "found %s",
                       crema_shape_text(from, text, sizeof text));
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  pooling_state *s = layer->state;
  const Caffe__PoolingParameter *param = layer->param->pooling_param;
  (void)top;
  if (param == NULL) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "pooling_param with a kernel is required");
  }
  if (param->axis != 1) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "axis is %d, only 1 is supported",
                         param->axis);
  }
  if (param->has_temporal_stride || param->has_temporal_pad) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "temporal_stride and temporal_pad need a kernel_depth");
  }
  s->method = (int)param->pool;
  s->inside = !param->avg_include_pad;
  s->global = param->global_pooling;
  s->floor =
      param->torch_pooling || param->round_mode == CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
  if (s->global && (param->has_kernel_size || param->n_kernel_size_3d > 0 || param->has_kernel_h ||
                    param->has_kernel_w)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "global_pooling takes the bottom's extents as kernel, none can be given");
  }
  if (layer->tops > 1 && s->method != POOL_MAX) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "only MAX pooling has a second top");
  }
  CR_TRY(check_axes(layer, &bottom[0]->shape));
  CR_TRY(cr_layer_read_pool_window(layer, param, bottom[0]->shape.axes - 2, &s->window));
  return check_window(layer, s);
}

/* The kernel has at most INT32_MAX elements, as positions in it are kept in 32 bits. */
static crema_status check_elements(const cr_layer *layer, const cr_window *window) {
  crema_shape kernel = cr_shape(window->axes, window->kernel);
  int64_t elements = 1;
  char text[128];
  for (int i = 0; i < window->axes; ++i) {
    if (window->kernel[i] > 0 && elements > INT32_MAX / window->kernel[i]) {
      return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "a kernel of %s has too many elements",
                           crema_shape_text(&kernel, text, sizeof text));
    }
    elements *= window->kernel[i];
  }
  return CREMA_OK;
}

static crema_status top_shape(const cr_layer *layer, const crema_shape *from, crema_shape *to) {
  const pooling_state *s = layer->state;
  const cr_window *w = &s->window;
  bool padded = false;
  CR_TRY(check_elements(layer, w));
  for (int i = 0; i < w->axes; ++i) padded = padded || w->pad[i] > 0;
  *to = *from;
  for (int i = 0; i < w->axes; ++i) {
    const int64_t size = from->dim[2 + i];
    const int64_t positions =
        cr_layer_pool_extent(size, w->kernel[i], w->stride[i], w->pad[i], padded, s->floor);
    if (positions < 1 || size < 1) return cr_layer_fail_kernel(layer, w, i, size);
    to->dim[2 + i] = positions;
  }
  return crema_shape_check(to);
}

static cr_op_desc pool_desc(const pooling_state *s, cr_op_kind kind, const crema_shape *src) {
  cr_op_desc desc = cr_layer_op_desc(kind);
  desc.u.pool.window = s->window;
  desc.u.pool.method = s->method != POOL_AVE ? CR_POOL_MAX
                       : s->inside           ? CR_POOL_AVERAGE_INPUT
                                             : CR_POOL_AVERAGE;
  for (int i = 0; i < s->window.axes; ++i) desc.u.pool.src[i] = src->dim[2 + i];
  return desc;
}

static crema_status make_stochastic(cr_layer *layer, const crema_shape *src,
                                    const crema_shape *dst) {
  pooling_state *s = layer->state;
  if (layer->phase == CAFFE__PHASE__TEST) {
    cr_op_desc desc = pool_desc(s, CR_OP_STOCHASTIC_POOL_TEST, src);
    return CR_LAYER_MAKE(layer, &s->forward, &desc, src, dst);
  }
  cr_op_desc desc = pool_desc(s, CR_OP_STOCHASTIC_POOL_FWD, src);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, src, dst, dst));
  desc.kind = CR_OP_STOCHASTIC_POOL_BWD;
  return CR_LAYER_MAKE(layer, &s->backward, &desc, dst, dst, src);
}

static crema_status make_ops(cr_layer *layer, const crema_shape *src, const crema_shape *dst) {
  pooling_state *s = layer->state;
  if (s->method == POOL_STOCHASTIC) return make_stochastic(layer, src, dst);
  bool max = s->method == POOL_MAX;
  const crema_shape *aux = max ? dst : NULL;
  cr_op_desc desc = pool_desc(s, CR_OP_POOL_FWD, src);
  if (layer->int8 != NULL) {
    desc.kind = CR_OP_AVERAGE_INT8;
    return cr_layer_op_make_scaled(layer, &s->forward_only, &desc, 2,
                                   (const crema_shape *[]){src, dst},
                                   (const float[]){layer->int8->from_scale, 1});
  }
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward_only, &desc, src, dst, NULL));
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, src, dst, aux));
  desc.kind = CR_OP_POOL_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, dst, aux, src));
  if (layer->tops < 2) return CREMA_OK;
  desc.kind = CR_OP_POOL_MASK;
  return CR_LAYER_MAKE(layer, &s->mask, &desc, dst, dst);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  pooling_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  crema_shape to;
  CR_TRY(check_axes(layer, from));
  if (from->axes != s->window.axes + 2) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "the window needs a bottom of %d axes, found %d",
                         s->window.axes + 2, from->axes);
  }
  for (int i = 0; s->global && i < s->window.axes; ++i) s->window.kernel[i] = from->dim[2 + i];
  CR_TRY(top_shape(layer, from, &to));
  for (int i = 0; i < layer->tops; ++i) CR_TRY(crema_blob_reshape(top[i], &to));
  if (s->method != POOL_AVE) {
    CR_TRY(cr_layer_pass_tensor(layer, &s->aux, CREMA_I32, crema_blob_count(top[0])));
  }
  return make_ops(layer, from, &to);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  pooling_state *s = layer->state;
  cr_tensor *args[] = {bottom[0]->data, top[0]->data, s->aux};
  if (s->method == POOL_STOCHASTIC) {
    cr_op_scalars scalars = {.seed = layer->key, .counter = layer->pass};
    return cr_layer_op_run(&s->forward, context, args, &scalars);
  }
  if (layer->int8 != NULL || (!layer->needs_backward && layer->tops < 2)) {
    args[2] = NULL;
    return cr_layer_op_run(&s->forward_only, context, args, NULL);
  }
  CR_TRY(cr_layer_op_run(&s->forward, context, args, NULL));
  if (layer->tops < 2) return CREMA_OK;
  return CR_LAYER_RUN(&s->mask, context, s->aux, top[1]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  pooling_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  if (s->method == POOL_STOCHASTIC && layer->phase == CAFFE__PHASE__TEST) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "stochastic pooling has a gradient in phase TRAIN only");
  }
  cr_tensor_set_zero(bottom[0]->diff);
  return CR_LAYER_RUN(&s->backward, context, top[0]->diff, s->aux, bottom[0]->diff);
}

/* The average of a full plane has finer steps than its values. */
static bool averages_integers(const cr_layer *layer, const crema_shape *top) {
  const pooling_state *s = layer->state;
  return s->method == POOL_AVE && crema_shape_count(top, 2, top->axes) <= 1;
}

static bool carries_integers(const cr_layer *layer, const crema_shape *top) {
  const pooling_state *s = layer->state;
  if (layer->tops > 1) return false;
  return s->method == POOL_MAX ||
         (s->method == POOL_AVE && crema_shape_count(top, 2, top->axes) > 1);
}

static const cr_window *window(const cr_layer *layer) {
  const pooling_state *s = layer->state;
  return s->global || s->window.axes != 2 ? NULL : &s->window;
}

const cr_layer_class cr_layer_pooling = {
    CR_LAYER_OF_OPS("Pooling", sizeof(pooling_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 2},
    .int8.takes_bf16 = true,
    .int8.keeps_positive = true,
    .memory.runs_ops = true,
    .fusion.reach = cr_layer_reaches_sample,
    .graph.window = window,
    .int8.carries_integers = carries_integers,
    .int8.averages_integers = averages_integers,
};
