/* Activations that other engines write into a layer. Intel Caffe has `relu` and `negative_slope` in
 * Convolution, InnerProduct and BatchNorm layers; they become a ReLU layer after it. Its
 * bn_stats_batch_size of a net goes to the net's BatchNorm layers. scale_train of Dropout
 * (py-faster-rcnn) becomes a Power layer after it. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

/* Whether a layer rectifies its top, and the slope below 0. */
static bool rectifies(const Caffe__LayerParameter *layer, float *slope) {
  const Caffe__ConvolutionParameter *conv = layer->convolution_param;
  const Caffe__InnerProductParameter *ip = layer->inner_product_param;
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  *slope = conv != NULL ? conv->negative_slope : ip != NULL ? ip->negative_slope : 0;
  return (conv != NULL && conv->relu) || (ip != NULL && ip->relu) || (norm != NULL && norm->relu);
}

/* Whether a layer drops values without scaling the rest, so that TEST must multiply. */
static bool drops_only(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "Dropout") && layer->dropout_param != NULL &&
         layer->dropout_param->has_scale_train;
}

static bool divides(const Caffe__LayerParameter *layer) {
  float slope = 0;
  return rectifies(layer, &slope) || drops_only(layer);
}

bool cr_upgrade_fused_needed(const Caffe__NetParameter *net) {
  return net->has_bn_stats_batch_size || cr_upgrade_any(net, divides);
}

static void clear_fused(Caffe__LayerParameter *layer) {
  if (layer->convolution_param != NULL) {
    cr_message_clear(&layer->convolution_param->base, "relu");
    cr_message_clear(&layer->convolution_param->base, "negative_slope");
  }
  if (layer->inner_product_param != NULL) {
    cr_message_clear(&layer->inner_product_param->base, "relu");
    cr_message_clear(&layer->inner_product_param->base, "negative_slope");
  }
  if (layer->batch_norm_param != NULL) cr_message_clear(&layer->batch_norm_param->base, "relu");
}

/* Turns `next`, a copy of `layer` that keeps its rules, into a layer of type `type` without
 * parameters that works in place on the top of `layer`. */
static crema_status follow(Caffe__LayerParameter *layer, Caffe__LayerParameter *next,
                           const char *suffix, const char *type) {
  static const char *const own[] = {"name",
                                    "type",
                                    "param",
                                    "blobs",
                                    "convolution_param",
                                    "inner_product_param",
                                    "batch_norm_param",
                                    "dropout_param"};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) cr_message_clear(&next->base, own[i]);
  cr_message_clear(&layer->base, "loss_weight");
  CR_TRY(cr_upgrade_text(&next->name, cr_upgrade_name(layer), suffix));
  CR_TRY(cr_upgrade_text(&next->type, type, ""));
  return cr_upgrade_set_bottom(next, next->top[0]);
}

/* Dropout divides the kept values by 1 - ratio, which the Power layer undoes; in TEST it multiplies
 * them by 1 - ratio. */
static crema_status add_power(Caffe__LayerParameter *layer, Caffe__LayerParameter *power) {
  Caffe__PowerParameter *param = NULL;
  const float ratio = layer->dropout_param->dropout_ratio;
  cr_message_clear(&layer->dropout_param->base, "scale_train");
  CR_TRY(follow(layer, power, "/scale", "Power"));
  CR_TRY(cr_message_inner(&power->base, "power_param", &param));
  param->has_scale = 1;
  param->scale = 1 - ratio;
  return CREMA_OK;
}

static crema_status add_relu(Caffe__LayerParameter *layer, Caffe__LayerParameter *relu) {
  Caffe__ReLUParameter *param = NULL;
  float slope = 0;
  (void)rectifies(layer, &slope);
  clear_fused(layer);
  CR_TRY(follow(layer, relu, "/relu", "ReLU"));
  CR_TRY(cr_message_inner(&relu->base, "relu_param", &param));
  param->has_negative_slope = slope != 0;
  param->negative_slope = slope;
  return CREMA_OK;
}

static crema_status give_batch_size(Caffe__NetParameter *net) {
  if (!net->has_bn_stats_batch_size) return CREMA_OK;
  for (size_t i = 0; i < net->n_layer; ++i) {
    Caffe__BatchNormParameter *norm = NULL;
    if (!cr_upgrade_is_of(net->layer[i], "BatchNorm")) continue;
    CR_TRY(cr_message_inner(&net->layer[i]->base, "batch_norm_param", &norm));
    norm->has_stats_batch_size = 1;
    norm->stats_batch_size = net->bn_stats_batch_size;
  }
  cr_message_clear(&net->base, "bn_stats_batch_size");
  return CREMA_OK;
}

crema_status cr_upgrade_fused(cr_upgrade *upgrade) {
  Caffe__NetParameter *net = upgrade->net;
  CR_TRY(give_batch_size(net));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    const bool drops = drops_only(net->layer[i]);
    if (!divides(net->layer[i])) continue;
    if (drops && net->layer[i]->dropout_param->scale_train) {
      cr_message_clear(&net->layer[i]->dropout_param->base, "scale_train");
      continue;
    }
    if (net->layer[i]->n_top != 1) {
      return cr_upgrade_in_layer(upgrade, &net->layer[i]->base,
                                 cr_fail(CREMA_E_UNSUPPORTED, "%s needs one top, found %zu",
                                         drops ? "scale_train" : "relu", net->layer[i]->n_top));
    }
    CR_TRY(cr_upgrade_double(net, i));
    CR_TRY(drops ? add_power(net->layer[i], net->layer[i + 1])
                 : add_relu(net->layer[i], net->layer[i + 1]));
  }
  return CREMA_OK;
}
