/* What Intel Caffe writes into a layer for its own engine. ReLU in place of a layer of its own:
 * `relu` and `negative_slope` of Convolution, InnerProduct and BatchNorm layers, which become a
 * ReLU layer behind it. And bn_stats_batch_size of a net, which is given to its BatchNorm layers.
 * Likewise scale_train of Dropout (py-faster-rcnn), which becomes a Power layer behind it. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

/* Whether a layer rectifies what it makes, and the slope below 0. */
static bool rectifies(const Caffe__LayerParameter *layer, float *slope) {
  const Caffe__ConvolutionParameter *conv = layer->convolution_param;
  const Caffe__InnerProductParameter *ip = layer->inner_product_param;
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  *slope = conv != NULL ? conv->negative_slope : ip != NULL ? ip->negative_slope : 0;
  return (conv != NULL && conv->relu) || (ip != NULL && ip->relu) || (norm != NULL && norm->relu);
}

/* Whether a layer drops values and leaves the others as they are, so that TEST has to multiply. */
static bool drops_only(const Caffe__LayerParameter *layer) {
  return layer->type != NULL && strcmp(layer->type, "Dropout") == 0 &&
         layer->dropout_param != NULL && layer->dropout_param->has_scale_train;
}

static bool divides(const Caffe__LayerParameter *layer) {
  float slope = 0;
  return rectifies(layer, &slope) || drops_only(layer);
}

static size_t count_fused(const Caffe__NetParameter *net) {
  size_t count = 0;
  for (size_t i = 0; i < net->n_layer; ++i) count += divides(net->layer[i]);
  return count;
}

bool cr_upgrade_fused_needed(const Caffe__NetParameter *net) {
  return net->has_bn_stats_batch_size || count_fused(net) > 0;
}

static void clear_fused(Caffe__LayerParameter *layer) {
  if (layer->convolution_param != NULL) {
    cr_upgrade_clear(&layer->convolution_param->base, "relu");
    cr_upgrade_clear(&layer->convolution_param->base, "negative_slope");
  }
  if (layer->inner_product_param != NULL) {
    cr_upgrade_clear(&layer->inner_product_param->base, "relu");
    cr_upgrade_clear(&layer->inner_product_param->base, "negative_slope");
  }
  if (layer->batch_norm_param != NULL) cr_upgrade_clear(&layer->batch_norm_param->base, "relu");
}

/* Makes of `behind`, a copy of `layer` that keeps its rules, one of type `type` without parameters
 * that works in place on the top of `layer`. */
static crema_status follow(Caffe__LayerParameter *layer, Caffe__LayerParameter *behind,
                           const char *suffix, const char *type) {
  static const char *const own[] = {"name",
                                    "type",
                                    "bottom",
                                    "propagate_down",
                                    "param",
                                    "blobs",
                                    "convolution_param",
                                    "inner_product_param",
                                    "batch_norm_param",
                                    "dropout_param"};
  for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) cr_upgrade_clear(&behind->base, own[i]);
  cr_upgrade_clear(&layer->base, "loss_weight");
  CR_TRY(cr_upgrade_text(&behind->name, layer->name != NULL ? layer->name : "", suffix));
  CR_TRY(cr_upgrade_text(&behind->type, type, ""));
  CR_TRY(cr_field_reserve(&behind->base, cr_upgrade_field(&behind->base, "bottom"), 1));
  CR_TRY(cr_upgrade_text(&behind->bottom[0], behind->top[0], ""));
  behind->n_bottom = 1;
  return CREMA_OK;
}

/* Dropout divides what is left by 1 - ratio, which this undoes; in TEST, it multiplies by it. */
static crema_status add_power(Caffe__LayerParameter *layer, Caffe__LayerParameter *power) {
  ProtobufCMessage *param;
  const float ratio = layer->dropout_param->dropout_ratio;
  cr_upgrade_clear(&layer->dropout_param->base, "scale_train");
  CR_TRY(follow(layer, power, "/scale", "Power"));
  CR_TRY(cr_field_message(&power->base, cr_upgrade_field(&power->base, "power_param"), &param));
  ((Caffe__PowerParameter *)param)->has_scale = 1;
  ((Caffe__PowerParameter *)param)->scale = 1 - ratio;
  return CREMA_OK;
}

static crema_status add_relu(Caffe__LayerParameter *layer, Caffe__LayerParameter *relu) {
  ProtobufCMessage *param;
  float slope = 0;
  (void)rectifies(layer, &slope);
  clear_fused(layer);
  CR_TRY(follow(layer, relu, "/relu", "ReLU"));
  CR_TRY(cr_field_message(&relu->base, cr_upgrade_field(&relu->base, "relu_param"), &param));
  if (slope != 0) {
    ((Caffe__ReLUParameter *)param)->has_negative_slope = 1;
    ((Caffe__ReLUParameter *)param)->negative_slope = slope;
  }
  return CREMA_OK;
}

static crema_status give_batch_size(Caffe__NetParameter *net) {
  if (!net->has_bn_stats_batch_size) return CREMA_OK;
  for (size_t i = 0; i < net->n_layer; ++i) {
    Caffe__LayerParameter *layer = net->layer[i];
    ProtobufCMessage *param;
    if (layer->type == NULL || strcmp(layer->type, "BatchNorm") != 0) continue;
    CR_TRY(
        cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "batch_norm_param"), &param));
    Caffe__BatchNormParameter *norm = (Caffe__BatchNormParameter *)param;
    norm->has_stats_batch_size = 1;
    norm->stats_batch_size = net->bn_stats_batch_size;
  }
  cr_upgrade_clear(&net->base, "bn_stats_batch_size");
  return CREMA_OK;
}

crema_status cr_upgrade_fused(Caffe__NetParameter *net) {
  CR_TRY(give_batch_size(net));
  CR_TRY(cr_field_reserve(&net->base, cr_upgrade_field(&net->base, "layer"), count_fused(net)));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    ProtobufCMessage *behind;
    const bool drops = drops_only(net->layer[i]);
    if (!divides(net->layer[i])) continue;
    if (drops && net->layer[i]->dropout_param->scale_train) {
      cr_upgrade_clear(&net->layer[i]->dropout_param->base, "scale_train");
      continue;
    }
    if (net->layer[i]->n_top != 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "layer \"%.200s\": %s needs one top, found %zu",
                     net->layer[i]->name != NULL ? net->layer[i]->name : "",
                     drops ? "scale_train" : "relu", net->layer[i]->n_top);
    }
    CR_TRY(cr_message_copy(&net->layer[i]->base, &behind));
    memmove(net->layer + i + 2, net->layer + i + 1, (net->n_layer - i - 1) * sizeof *net->layer);
    net->layer[i + 1] = (Caffe__LayerParameter *)behind;
    ++net->n_layer;
    CR_TRY(drops ? add_power(net->layer[i], net->layer[i + 1])
                 : add_relu(net->layer[i], net->layer[i + 1]));
  }
  return CREMA_OK;
}
