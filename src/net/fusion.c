/* Fusion: element-wise layers that the op before them can apply while it writes its result. */
#include <string.h>

#include "core/fail.h"
#include "net/build.h"

/* Of the element-wise functions only ReLU has a gradient that its value, too, gives exactly. */
static bool is_in_place_relu(const Caffe__LayerParameter *param, const cr_layer_class *class) {
  cr_post post;
  return class->post != NULL && param->n_bottom == 1 && param->n_top == 1 &&
         strcmp(param->bottom[0], param->top[0]) == 0 && class->post(param, CREMA_F32, &post) &&
         post.function == CR_UNARY_RELU;
}

crema_status cr_net_undo_fusion(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    cr_net_layer *layer = &net->layer[i];
    cr_layer *self = layer->layer;
    layer->fused = false;
    if (cr_posts_count(&self->posts) == 0) continue;
    memset(&self->posts, 0, sizeof self->posts);
    CR_TRY(self->class->reshape(self, layer->bottom, layer->top));
  }
  net->fusions = 0;
  return CREMA_OK;
}

crema_status cr_net_plan_fusion(cr_net_build *build) {
  const crema_net *net = build->net;
  if (net->debug_info) return CREMA_OK; /* it reports each layer's own values */
  /* Blobs to the layers that made them last. Splits have been inserted, so each blob has one
   * reader, and no other layer has read what a ReLU in place reads. */
  cr_name_map maker = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    const Caffe__LayerParameter *param = net->param->layer[i];
    if (is_in_place_relu(param, build->class[i])) {
      int before = cr_name_map_get(&maker, param->bottom[0]);
      if (before >= 0 && build->class[before] -> fuses_posts &&
                                                     net -> param -> layer[before] -> n_top == 1) {
        build->fused_into[before] = i;
        build->fused_into[i] = before;
      }
    }
    for (size_t j = 0; j < param->n_top && status == CREMA_OK; ++j) {
      status = cr_name_map_set(&maker, param->top[j], i);
    }
  }
  cr_name_map_free(&maker);
  return status;
}
