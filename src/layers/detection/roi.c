#include "layers/detection/roi.h"

#include "core/fail.h"

crema_status cr_roi_make(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                         cr_op_kind forward, cr_op_kind backward, const cr_roi_parts *parts,
                         bool uses_map) {
  cr_roi_state *s = layer->state;
  const crema_shape *map = &bottom[0]->shape, *rois = &bottom[1]->shape;
  char text[128];
  if (map->axes != 4) {
    return cr_layer_fail(layer, CREMA_E_SHAPE, "bottom 0 must be a map of 4 axes, found shape %s",
                         crema_shape_text(map, text, sizeof text));
  }
  if (rois->axes < 2 || crema_shape_count(rois, 1, rois->axes) != 5) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 1 must have regions of 5 numbers, found shape %s",
                         crema_shape_text(rois, text, sizeof text));
  }
  const crema_shape regions = cr_shape_2(rois->dim[0], 5);
  const crema_shape to =
      cr_shape(4, (const int64_t[]){rois->dim[0], parts->channels, parts->rows, parts->columns});
  CR_TRY(crema_shape_check(&to));
  CR_TRY(crema_blob_reshape(top[0], &to));
  s->uses_map = uses_map;
  cr_op_desc desc = cr_layer_op_desc(forward);
  desc.u.roi.scale = parts->scale;
  desc.u.roi.ratio = parts->ratio;
  desc.u.roi.pad = parts->pad;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, map, &regions, &to));
  desc.kind = backward;
  return cr_layer_op_make(layer, &s->backward, &desc, uses_map ? 4 : 3,
                          (const crema_shape *[]){&to, &regions, map, map});
}

crema_status cr_roi_forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  cr_roi_state *s = layer->state;
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, bottom[1]->data, top[0]->data);
}

crema_status cr_roi_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  cr_roi_state *s = layer->state;
  cr_tensor *diff = bottom[0]->diff;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "regions (bottom 1) have no gradient");
  }
  if (!propagate_down[0]) return CREMA_OK;
  return CR_LAYER_RUN(&s->backward, context, top[0]->diff, bottom[1]->data,
                      s->uses_map ? bottom[0]->data : diff, diff);
}
