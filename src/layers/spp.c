/* SPP: spatial pyramid pooling (He et al., "Spatial pyramid pooling in deep convolutional
 * networks", 2014).
 *
 * Formula: level i of pyramid_height pools x into 2^i * 2^i bins; the levels are put side by side.
 * Shapes: x (N, C, H, W) -> y (N, all bins); with one level (N, C, 1, 1).
 * Fields: spp_param.
 * Caffe: the same; pool can be MAX or AVE. If several values are the largest, another value may get
 * the gradient if H and W are multiples of 2^(pyramid_height - 1).
 * Example, x 2 3 9 9:
 *   layer { name: "pyramid" type: "SPP" bottom: "x" top: "y" spp_param { pyramid_height: 3 } } */
#include "core/fail.h"
#include "layers/common/layer_args.h"
#include "layers/common/layer_op.h"
#include "layers/common/layer_window.h"

typedef struct spp_level {
  cr_layer_op forward, backward;
  cr_tensor *data, *diff, *aux;
  crema_shape shape, flat; /* (N, C, bins, bins), and folded from axis 1 on */
} spp_level;

typedef struct spp_state {
  int levels;
  bool max;
  bool nested; /* each bin consists of four bins of the next level and is pooled from them */
  spp_level *level;
  cr_tensor *sum; /* the sum of the levels' gradients, if not in the bottom's diff; or NULL */
  cr_layer_op concat, slice;
  cr_layer_args args;
} spp_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  spp_state *s = layer->state;
  const Caffe__SPPParameter *param = layer->param->spp_param;
  void *memory = NULL;
  (void)bottom, (void)top;
  if (param == NULL || param->pyramid_height < 1 || param->pyramid_height > 30) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "spp_param needs a pyramid_height of 1 to 30");
  }
  if (param->pool == CAFFE__SPPPARAMETER__POOL_METHOD__STOCHASTIC) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "pool can be MAX or AVE");
  }
  s->max = param->pool == CAFFE__SPPPARAMETER__POOL_METHOD__MAX;
  CR_TRY(cr_layer_memory(layer, param->pyramid_height * sizeof *s->level, &memory));
  s->level = memory;
  s->levels = (int)param->pyramid_height;
  return cr_layer_args_make(layer, &s->args, s->levels + 1);
}

/* The window that cuts both axes of `from` into `bins`, with the remainder as padding, half of it
 * on each side. */
static crema_status level_window(const cr_layer *layer, const crema_shape *from, int64_t bins,
                                 cr_window *out, crema_shape *to) {
  char text[128];
  *to = *from;
  out->axes = 2;
  for (int a = 0; a < 2; ++a) {
    int64_t size = from->dim[2 + a], kernel = (size + bins - 1) / bins;
    int64_t pad = (kernel * bins - size + 1) / 2;
    out->kernel[a] = out->stride[a] = kernel;
    out->pad[a] = pad;
    out->dilation[a] = 1;
    if (size < 1 || pad >= kernel) {
      return cr_layer_fail(layer, CREMA_E_SHAPE, "%lld bins are too many for shape %s",
                           (long long)bins, crema_shape_text(from, text, sizeof text));
    }
    to->dim[2 + a] = cr_layer_pool_extent(size, kernel, kernel, pad, pad > 0, false);
  }
  return CREMA_OK;
}

static crema_status make_level(cr_layer *layer, spp_level *level, const crema_shape *from,
                               int64_t bins) {
  const spp_state *s = layer->state;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_POOL_FWD);
  desc.u.pool.method = s->max ? CR_POOL_MAX : CR_POOL_AVERAGE;
  CR_TRY(level_window(layer, from, bins, &desc.u.pool.window, &level->shape));
  desc.u.pool.src[0] = from->dim[2];
  desc.u.pool.src[1] = from->dim[3];
  const crema_shape *to = &level->shape, *aux = s->max ? to : NULL;
  level->flat = cr_shape_2(to->dim[0], crema_shape_count(to, 1, 4));
  int64_t count = crema_shape_count(to, 0, 4);
  CR_TRY(cr_layer_pass_tensor(layer, &level->data, layer->types.forward, count));
  CR_TRY(cr_layer_pass_tensor(layer, &level->diff, layer->types.backward, count));
  if (s->max) CR_TRY(cr_layer_pass_tensor(layer, &level->aux, CREMA_I32, count));
  CR_TRY(CR_LAYER_MAKE(layer, &level->forward, &desc, from, to, aux));
  desc.kind = CR_OP_POOL_BWD;
  return CR_LAYER_MAKE(layer, &level->backward, &desc, to, aux, from);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  spp_state *s = layer->state;
  const crema_shape *from = &bottom[0]->shape;
  char text[128];
  if (from->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "the bottom must have 4 axes (num, channels, height, width), found %s",
                         crema_shape_text(from, text, sizeof text));
  }
  const int64_t most = (int64_t)1 << (s->levels - 1); /* bins of a row */
  crema_shape whole = cr_shape_2(from->dim[0], 0);
  s->nested = from->dim[2] % most == 0 && from->dim[3] % most == 0;
  for (int i = s->levels - 1; i >= 0; --i) {
    const bool of_next = s->nested && i + 1 < s->levels;
    CR_TRY(
        make_level(layer, &s->level[i], of_next ? &s->level[i + 1].shape : from, (int64_t)1 << i));
    whole.dim[1] += s->level[i].flat.dim[1];
  }
  /* Some levels add floats and others 16-bit values, which would convert back and forth for each
   * level. */
  if (!s->nested && s->levels > 1 && crema_dtype_size(layer->types.backward) == 2) {
    const int64_t count = crema_shape_count(from, 0, 4);
    CR_TRY(cr_layer_pass_tensor(layer, &s->sum, CREMA_F32, count));
  }
  CR_TRY(crema_blob_reshape(top[0], s->levels == 1 ? &s->level[0].shape : &whole));
  for (int i = 0; i < s->levels; ++i) s->args.shape[i] = &s->level[i].flat;
  return cr_layer_args_make_join(layer, &s->args, s->levels, 1, &whole, &s->concat, &s->slice);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  spp_state *s = layer->state;
  for (int i = s->levels - 1; i >= 0; --i) {
    spp_level *level = &s->level[i];
    cr_tensor *from = s->nested && i + 1 < s->levels ? level[1].data : bottom[0]->data;
    CR_TRY(CR_LAYER_RUN(&level->forward, context, from, level->data, level->aux));
    s->args.tensor[i] = level->data;
  }
  s->args.tensor[s->levels] = top[0]->data;
  return cr_layer_op_run(&s->concat, context, s->args.tensor, NULL);
}

/* The levels' gradients of the bottom, or of the next level, add up. */
static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  spp_state *s = layer->state;
  if (!propagate_down[0]) return CREMA_OK;
  const bool apart = s->sum != NULL && !s->nested;
  cr_tensor *sum = apart ? s->sum : bottom[0]->diff;
  s->args.tensor[0] = top[0]->diff;
  for (int i = 0; i < s->levels; ++i) s->args.tensor[i + 1] = s->level[i].diff;
  CR_TRY(cr_layer_op_run(&s->slice, context, s->args.tensor, NULL));
  cr_tensor_set_zero(sum);
  for (int i = 0; i < s->levels; ++i) {
    spp_level *level = &s->level[i];
    cr_tensor *to = s->nested && i + 1 < s->levels ? level[1].diff : sum;
    CR_TRY(CR_LAYER_RUN(&level->backward, context, level->diff, level->aux, to));
  }
  return apart ? cr_tensor_copy(bottom[0]->diff, sum, context) : CREMA_OK;
}

const cr_layer_class cr_layer_spp = {
    CR_LAYER_OF_OPS("SPP", sizeof(spp_state), setup, reshape, forward, backward),
    .bottoms = {1, 1},
    .tops = {1, 1},
};
