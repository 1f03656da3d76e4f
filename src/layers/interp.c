/* Interp: bilinear interpolation to maps of another size with the same corners (Chen et al.,
 * "DeepLab", 2015).
 *
 * Formula: y at row i = x at row i (H - 1) / (H' - 1), between the two nearest rows; columns
 * likewise. The extents of y come from a second bottom; or by zoom_factor or shrink_factor, H' =
 * ((H - 1) / shrink_factor + 1 - 1) zoom_factor + 1; or height and width; or by both factors.
 * Shapes: x (N, C, H, W) and optionally a map with the wanted extents -> y (N, C, H', W').
 * Fields: interp_param.
 * Caffe: as in the forks of DeepLab and PSPNet; pad_beg and pad_end cut off, and must not be above
 * 0.
 * Example, x 1 2 4 4:
 *   layer { name: "interp" type: "Interp" bottom: "x" top: "y" interp_param { zoom_factor: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct interp_state {
  cr_layer_op crop, forward, backward, crop_back;
  bool cuts;
  cr_tensor *part, *diff_part; /* the cropped bottom */
} interp_state;

static crema_status check(const cr_layer *layer, crema_blob *const *bottom) {
  const Caffe__InterpParameter *p = layer->param->interp_param;
  const crema_shape *x = &bottom[0]->shape;
  char text[128];
  if (x->axes != 4 || x->dim[2] < 1 || x->dim[3] < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(x, text, sizeof text));
  }
  if (layer->bottoms > 1 && bottom[1]->shape.axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 1 must be a map of 4 axes, found shape %s",
                         crema_shape_text(&bottom[1]->shape, text, sizeof text));
  }
  if (p == NULL) return CREMA_OK;
  if (p->use_blob_size && layer->bottoms < 2) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "use_blob_size needs a second bottom");
  }
  if (p->pad_beg > 0 || p->pad_end > 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "pad_beg is %d and pad_end is %d; above 0 they are not supported",
                         p->pad_beg, p->pad_end);
  }
  if (p->zoom_factor < 1 || p->shrink_factor < 1 || p->height < 0 || p->width < 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "zoom_factor, shrink_factor, height and width must be 1 or more");
  }
  return CREMA_OK;
}

/* The extent of the top, for one of `left` rows or columns. */
static crema_status extent(const cr_layer *layer, int64_t left, int64_t given, int64_t *out) {
  const Caffe__InterpParameter *p = layer->param->interp_param;
  if (left < 1) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "pad_beg and pad_end leave nothing of the bottom");
  }
  *out = given;
  /* One factor overrides height and width, which override two factors. */
  if (p != NULL && layer->bottoms < 2 &&
      (p->has_zoom_factor != p->has_shrink_factor ||
       (p->has_zoom_factor && !(p->has_height && p->has_width)))) {
    *out = ((left - 1) / p->shrink_factor) * p->zoom_factor + 1;
  }
  if (*out > 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "interp_param needs height and width, zoom_factor or shrink_factor, or the "
                       "layer a second bottom");
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  interp_state *s = layer->state;
  const Caffe__InterpParameter *p = layer->param->interp_param;
  const crema_shape *x = &bottom[0]->shape;
  CR_TRY(check(layer, bottom));
  const int64_t cut = p ? -((int64_t)p->pad_beg + p->pad_end) : 0;
  crema_shape part = *x, to = *x;
  s->cuts = cut > 0;
  for (int i = 2; i < 4; ++i) {
    int64_t given = p == NULL ? 0 : i == 2 ? p->height : p->width;
    if (layer->bottoms > 1) given = bottom[1]->shape.dim[i];
    part.dim[i] -= cut;
    CR_TRY(extent(layer, part.dim[i], given, &to.dim[i]));
  }
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_INTERP_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, &part, &to));
  desc.kind = CR_OP_INTERP_BWD;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward, &desc, &to, &part));
  if (!s->cuts) return CREMA_OK;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_tensor(layer, &s->part, type, crema_shape_count(&part, 0, 4)));
  CR_TRY(cr_layer_tensor(layer, &s->diff_part, type, crema_shape_count(&part, 0, 4)));
  desc = cr_layer_op_desc(CR_OP_CROP_FWD);
  desc.u.offset[2] = desc.u.offset[3] = -p->pad_beg;
  CR_TRY(CR_LAYER_MAKE(layer, &s->crop, &desc, x, &part));
  desc.kind = CR_OP_CROP_BWD;
  return CR_LAYER_MAKE(layer, &s->crop_back, &desc, &part, x);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  interp_state *s = layer->state;
  cr_tensor *x = bottom[0]->data;
  if (s->cuts) {
    CR_TRY(CR_LAYER_RUN(&s->crop, context, x, s->part));
    x = s->part;
  }
  return CR_LAYER_RUN(&s->forward, context, x, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  interp_state *s = layer->state;
  if (layer->bottoms > 1 && propagate_down[1]) cr_tensor_set_zero(bottom[1]->diff);
  if (!propagate_down[0]) return CREMA_OK;
  cr_tensor *to = s->cuts ? s->diff_part : bottom[0]->diff;
  CR_TRY(CR_LAYER_RUN(&s->backward, context, top[0]->diff, to));
  if (!s->cuts) return CREMA_OK;
  return CR_LAYER_RUN(&s->crop_back, context, to, bottom[0]->diff);
}

const cr_layer_class cr_layer_interp = {
    CR_LAYER_OF_OPS("Interp", sizeof(interp_state), cr_layer_noop, reshape, forward, backward),
    .bottoms = {1, 2},
    .tops = {1, 1},
};
