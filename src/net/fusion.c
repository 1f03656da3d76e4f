/* Fusion: an op can do the work of the layer after it while it writes its result. The layer is a
 * ReLU, or a Scale after a BatchNorm. On a device with its own memory, a BatchNorm does a Scale and
 * the ReLU after it. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "net/graph.h"

/* Whether the backward pass computes the gradient of the first bottom. */
static bool learns(const cr_net_layer *layer) {
  return layer->need_backward && layer->propagate_down[0];
}

/* One op computes the gradients of the Scale's parameters and of the BatchNorm's bottom, so the net
 * must need all of them. */
static bool gives_all_gradients(const cr_net_layer *norm, const cr_net_layer *scale) {
  const cr_layer *self = scale->layer;
  for (int i = 0; i < self->params; ++i) {
    if (!self->param_propagate_down[i]) return false;
  }
  return norm->need_backward && norm->propagate_down[0] && scale->need_backward &&
         scale->propagate_down[0];
}

/* Whether one kernel can do the work of both layers: in FLOAT, and on a device with its own memory
 * also in 16 bits. The host's library needs a Scale's parameters in FLOAT. */
static bool has_types_to_fuse(const crema_net *net, const cr_layer *layer) {
  const cr_layer_types *t = &layer->types;
  const bool apart = !net->context->device->backend->host_memory;
  return cr_layer_arithmetic(layer) == CREMA_F32 &&
         (apart || (t->forward == CREMA_F32 && t->backward == CREMA_F32));
}

/* Lets `maker` do the forward work of `layer`. */
static crema_status absorb_forward(crema_net *net, const cr_net_layer *maker, cr_net_layer *layer) {
  layer->fused = true;
  net->fusions += 1;
  return maker->layer->kind->reshape(maker->layer, maker->bottom, maker->top);
}

/* Lets `norm` do the work of `layer`, backward, too: its backward pass moves from the position of
 * `from` to the position of `layer`. */
static crema_status absorb(crema_net *net, cr_net_layer *norm, cr_net_layer *from,
                           cr_net_layer *layer) {
  from->backed = true;
  layer->backs = norm;
  return absorb_forward(net, norm, layer);
}

/* Lets `norm`, a BatchNorm, do the work of the Scale `scale`, which follows it in place, if it can.
 * The blob holds the same values after a pass. */
static crema_status fuse_scale(crema_net *net, cr_net_layer *norm, cr_net_layer *scale) {
  cr_layer *self = norm->layer;
  const cr_layer *other = scale->layer;
  const bool in_place = norm->bottom[0] == norm->top[0];
  if (net->debug_info || !in_place || !self->kind->fusion.fuses_scale ||
      other->kind->fusion.scales_channels == NULL || !other->kind->fusion.scales_channels(other) ||
      !crema_shape_equal(&other->blob[0]->shape, &self->blob[0]->shape) ||
      !gives_all_gradients(norm, scale) || !has_types_to_fuse(net, self) ||
      !has_types_to_fuse(net, other)) {
    return CREMA_OK;
  }
  self->scaled_by = other;
  return absorb(net, norm, norm, scale);
}

/* Lets the layer that made the bottom of `relu`, a ReLU in place, do its work if it can: a sum
 * forward, a BatchNorm forward and backward. `before` is that layer, or the Scale that it does. A
 * BatchNorm reads the signs of the results backward, as the ReLU would. The kernels of the host do
 * not rectify. */
static crema_status fuse_relu(crema_net *net, cr_net_layer *before, cr_net_layer *relu) {
  cr_net_layer *maker = before->backs != NULL ? before->backs : before;
  cr_layer *self = maker->layer;
  const cr_layer_fusion_part *of_relu = &relu->layer->kind->fusion;
  const bool backward = self->kind->fusion.fuses_scale;
  cr_post post;
  if (of_relu->post == NULL || !of_relu->post(relu->layer->param, CREMA_F32, &post) ||
      post.kind != CR_POST_UNARY || post.function != CR_UNARY_RELU || post.alpha != 0) {
    return CREMA_OK;
  }
  if (net->debug_info || net->context->device->backend->host_memory || self->rectifier != NULL ||
      self->kind->fusion.rectifies == NULL || !self->kind->fusion.rectifies(self) ||
      relu->bottom[0] != maker->top[0] || relu->top[0] != relu->bottom[0] ||
      !has_types_to_fuse(net, self) || !has_types_to_fuse(net, relu->layer)) {
    return CREMA_OK;
  }
  if (backward && (maker->bottom[0] != maker->top[0] || !learns(maker) || !learns(relu))) {
    return CREMA_OK;
  }
  self->rectifier = relu->layer;
  return backward ? absorb(net, maker, before, relu) : absorb_forward(net, maker, relu);
}

/* Lets `layer` compute its input again through `before`, the last layer to have made that blob, if
 * `layer` is in place; and lets `before` do the work of a Scale. */
static crema_status set_maker(crema_net *net, cr_net_layer *before, cr_net_layer *layer) {
  const cr_layer *made = before->layer;
  cr_layer_maker *maker = NULL;
  if (!layer->layer->kind->memory.makes_input_again || !layer->need_backward ||
      layer->top[0] != layer->bottom[0] || made->kind->memory.can_make_again == NULL ||
      before->top[0] != layer->bottom[0] || !made->kind->memory.can_make_again(made)) {
    return CREMA_OK;
  }
  CR_TRY(CR_NET_NEW(net, maker, 1));
  *maker = (cr_layer_maker){before->layer, before->bottom, before->top};
  layer->layer->maker = maker;
  return fuse_scale(net, before, layer);
}

crema_status cr_net_find_makers(crema_net *net) {
  int *last = NULL; /* one per blob: the last layer that has it, or -1 */
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(last, net->blobs + 1, "the net's graph"));
  for (int i = 0; i < net->blobs; ++i) last[i] = -1;
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    cr_net_layer *layer = &net->layer[i];
    const int bottoms = layer->layer->bottoms, tops = layer->layer->tops;
    const int from = bottoms > 0 && tops > 0 ? last[layer->bottom_id[0]] : -1;
    if (from >= 0) status = set_maker(net, &net->layer[from], layer);
    if (from >= 0 && status == CREMA_OK) status = fuse_relu(net, &net->layer[from], layer);
    for (int j = 0; j < bottoms; ++j) last[layer->bottom_id[j]] = i;
    for (int j = 0; j < tops; ++j) last[layer->top_id[j]] = i;
  }
  free(last);
  return status;
}

void cr_net_fuse_bias(const crema_net *net, int index, int relu) {
  cr_layer *conv = net->layer[index].layer, *self = net->layer[relu].layer;
  const bool apart = !net->context->device->backend->host_memory;
  if (!apart || conv->kind->fusion.product != CR_PRODUCT_CONV || conv->bottoms != 1 ||
      conv->params < 2 || cr_layer_arithmetic(conv) != CREMA_F32 ||
      cr_layer_arithmetic(self) != CREMA_F32) {
    return;
  }
  self->bias_of = conv;
  conv->rectifier = self;
}

crema_status cr_net_undo_fusion(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    cr_net_layer *layer = &net->layer[i];
    cr_layer *self = layer->layer;
    const bool whole =
        cr_posts_count(&self->posts) == 0 && self->scaled_by == NULL && self->rectifier == NULL;
    layer->fused = layer->backed = false;
    layer->backs = NULL;
    self->bias_of = self->rectifier = self->scaled_by = NULL;
    self->diff_source = NULL;
    self->omitted_diffs = 0;
    if (whole) continue;
    memset(&self->posts, 0, sizeof self->posts);
    CR_TRY(self->kind->reshape(self, layer->bottom, layer->top));
  }
  net->fusions = 0;
  return CREMA_OK;
}

crema_status cr_net_plan_fusion(cr_net_build *build) {
  const crema_net *net = build->net;
  if (net->debug_info) return CREMA_OK; /* it reports each layer's own values */
  /* Blobs to the layers that made them last. After splits each blob has one reader, so no other
   * layer reads the bottom of a ReLU in place. */
  cr_name_map maker = {0};
  crema_status status = CREMA_OK;
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    const Caffe__LayerParameter *param = net->param->layer[i];
    /* Only the gradient of ReLU follows exactly from its result. */
    const bool in_place =
        param->n_bottom == 1 && param->n_top == 1 && strcmp(param->bottom[0], param->top[0]) == 0;
    cr_post post;
    if (in_place && build->kind[i]->fusion.post != NULL &&
        build->kind[i]->fusion.post(param, CREMA_F32, &post) && post.function == CR_UNARY_RELU) {
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
