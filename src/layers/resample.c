/* Resample: maps of another size (Ilg et al., "FlowNet 2.0", 2017).
 *
 * Formula: y at (i, j) = interpolation of x at (i H / H' + W / (2 W') - 1/2, j W / W' + H / (2 H')
 * - 1/2), by the nearest value, linearly or with cubic splines. With antialias, a map that shrinks
 * is smoothed: the filter is as much wider as the map becomes smaller.
 * Shapes: x (N, C, H, W) and perhaps a map with the extents wanted -> y (N, C, H', W'), without a
 * gradient.
 * Fields: resample_param.
 * Caffe: as in FlowNet 2.0, also in the shifts, where it takes the ratio of the other axis, and in
 * that both reject AREA. Nearest positions outside the map are cut to it.
 * Example, x 1 2 4 4:
 *   layer { name: "resize" type: "Resample" bottom: "x" top: "y"
 *     resample_param { height: 6 width: 3 type: LINEAR } } */
#include "core/fail.h"
#include "layers/common/layer_op.h"

typedef struct resample_state {
  cr_resampling method;
  bool antialias;
  int64_t given[2]; /* extents of the top, without a second bottom */
  cr_layer_op forward;
} resample_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__ResampleParameter defaults = CAFFE__RESAMPLE_PARAMETER__INIT;
  resample_state *s = layer->state;
  const Caffe__ResampleParameter *p =
      layer->param->resample_param ? layer->param->resample_param : &defaults;
  (void)bottom, (void)top;
  switch (p->type) {
    case CAFFE__RESAMPLE_PARAMETER__RESAMPLE_TYPE__NEAREST: s->method = CR_RESAMPLE_NEAREST; break;
    case CAFFE__RESAMPLE_PARAMETER__RESAMPLE_TYPE__LINEAR: s->method = CR_RESAMPLE_LINEAR; break;
    case CAFFE__RESAMPLE_PARAMETER__RESAMPLE_TYPE__CUBIC: s->method = CR_RESAMPLE_CUBIC; break;
    default:
      return cr_layer_fail(
          layer, CREMA_E_UNSUPPORTED,
          "type AREA is not supported, as in FlowNet 2.0; use LINEAR with antialias");
  }
  s->antialias = p->antialias;
  s->given[0] = p->height;
  s->given[1] = p->width;
  if (layer->bottoms > 1 || (p->height > 0 && p->width > 0)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                       "resample_param needs height and width of 1 or more, or the layer a second "
                       "bottom");
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  resample_state *s = layer->state;
  crema_shape to = bottom[0]->shape;
  cr_op_desc desc = cr_layer_op_desc(CR_OP_RESAMPLE);
  char text[128];
  for (int i = 0; i < layer->bottoms; ++i) {
    const crema_shape *shape = &bottom[i]->shape;
    if (shape->axes == 4 && shape->dim[2] > 0 && shape->dim[3] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom %d must be a map of 4 axes, found shape %s",
                         i, crema_shape_text(shape, text, sizeof text));
  }
  for (int i = 0; i < 2; ++i) {
    to.dim[2 + i] = layer->bottoms > 1 ? bottom[1]->shape.dim[2 + i] : s->given[i];
  }
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  desc.u.resample.method = s->method;
  desc.u.resample.antialias = s->antialias;
  return CR_LAYER_MAKE(layer, &s->forward, &desc, &bottom[0]->shape, &to);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  resample_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, top[0]->data);
}

const cr_layer_class cr_layer_resample = {
    .type = "Resample",
    .state_size = sizeof(resample_state),
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .bottoms = {1, 2},
    .tops = {1, 1},
};
