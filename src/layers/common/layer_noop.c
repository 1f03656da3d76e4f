#include "layers/common/layer_noop.h"

crema_status cr_layer_noop(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  (void)layer, (void)bottom, (void)top;
  return CREMA_OK;
}

crema_status cr_layer_noop_forward(cr_layer *layer, crema_context *context,
                                   crema_blob *const *bottom, crema_blob *const *top) {
  (void)layer, (void)context, (void)bottom, (void)top;
  return CREMA_OK;
}

crema_status cr_layer_noop_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                    const bool *propagate_down, crema_blob *const *bottom) {
  (void)layer, (void)context, (void)top, (void)propagate_down, (void)bottom;
  return CREMA_OK;
}

bool cr_layer_always(const cr_layer *layer, int blob) {
  (void)layer, (void)blob;
  return true;
}

bool cr_layer_passes_in_test(const Caffe__LayerParameter *param) {
  (void)param;
  return true;
}

bool cr_layer_carries(const cr_layer *layer, const crema_shape *top) {
  (void)layer, (void)top;
  return true;
}

cr_layer_reach cr_layer_reaches_sample(const Caffe__LayerParameter *param, int bottoms) {
  (void)param, (void)bottoms;
  return CR_REACHES_SAMPLE;
}

cr_layer_reach cr_layer_reaches_position(const Caffe__LayerParameter *param, int bottoms) {
  (void)param, (void)bottoms;
  return CR_REACHES_POSITION;
}

cr_layer_reach cr_layer_reach_from(int axis) {
  return axis >= 1 ? CR_REACHES_SAMPLE : CR_REACHES_ANY;
}
