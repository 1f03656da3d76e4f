/* Fusion: layers whose work the op before them can do while it writes its result: a ReLU, or a
 * Scale behind a BatchNorm. */
#include <string.h>

#include "core/fail.h"
#include "net/graph.h"

/* Of the element-wise functions only ReLU has a gradient that its value, too, gives exactly. */
static bool is_in_place_relu(const Caffe__LayerParameter *param, const cr_layer_class *kind) {
  cr_post post;
  return kind->fusion.post != NULL && param->n_bottom == 1 && param->n_top == 1 &&
         strcmp(param->bottom[0], param->top[0]) == 0 &&
         kind->fusion.post(param, CREMA_F32, &post) && post.function == CR_UNARY_RELU;
}

/* Gradients of the Scale's parameters and of the BatchNorm's bottom come from one op, so that all
 * are wanted or none. */
static bool gives_all_gradients(const cr_net_layer *norm, const cr_net_layer *scale) {
  const cr_layer *self = scale->layer;
  for (int i = 0; i < self->params; ++i) {
    if (!self->param_propagate_down[i]) return false;
  }
  return norm->need_backward && norm->propagate_down[0] && scale->need_backward &&
         scale->propagate_down[0];
}

static bool computes_in_floats(const cr_layer *layer) {
  const cr_layer_types *t = &layer->types;
  return t->forward == CREMA_F32 && t->backward == CREMA_F32 && t->forward_math == CREMA_F32 &&
         t->backward_math == CREMA_F32;
}

crema_status cr_net_fuse_scale(crema_net *net, cr_net_layer *norm, cr_net_layer *scale) {
  cr_layer *self = norm->layer;
  const cr_layer *other = scale->layer;
  const bool in_place = norm->bottom[0] == norm->top[0];
  if (net->debug_info || !in_place || !self->kind->fusion.fuses_scale ||
      other->kind->fusion.scales_channels == NULL || !other->kind->fusion.scales_channels(other) ||
      !crema_shape_equal(&other->blob[0]->shape, &self->blob[0]->shape) ||
      !gives_all_gradients(norm, scale) || !computes_in_floats(self) ||
      !computes_in_floats(other)) {
    return CREMA_OK;
  }
  self->scaled_by = other;
  scale->scaled = norm;
  scale->fused = true;
  net->fusions += 1;
  return self->kind->reshape(self, norm->bottom, norm->top);
}

crema_status cr_net_undo_fusion(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    cr_net_layer *layer = &net->layer[i];
    cr_layer *self = layer->layer;
    layer->fused = false;
    layer->scaled = NULL;
    if (cr_posts_count(&self->posts) == 0 && self->scaled_by == NULL) continue;
    self->scaled_by = NULL;
    memset(&self->posts, 0, sizeof self->posts);
    CR_TRY(self->kind->reshape(self, layer->bottom, layer->top));
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
    if (is_in_place_relu(param, build->kind[i])) {
      int before = cr_name_map_get(&maker, param->bottom[0]);
      if (before >= 0 && build->kind[before]->fusion.fuses_posts &&
          net->param->layer[before]->n_top == 1) {
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
