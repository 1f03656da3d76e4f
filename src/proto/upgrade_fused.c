/* What Intel Caffe writes into a layer for its own engine. ReLU in place of a layer of its own:
 * `relu` and `negative_slope` of Convolution, InnerProduct and BatchNorm layers, which become a
 * ReLU layer behind it. And bn_stats_batch_size of a net, which is given to its BatchNorm layers.
 */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name) {
  return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

static void clear(ProtobufCMessage *message, const char *field) {
  cr_field_clear(message, field_of(message, field));
}

static crema_status set_text(char **slot, const char *text, const char *suffix) {
  size_t size = strlen(text) + strlen(suffix) + 1;
  char *made = cr_proto_alloc(size);
  if (made == NULL) return cr_fail_memory(size, "a ReLU layer");
  memcpy(made, text, strlen(text));
  memcpy(made + strlen(text), suffix, strlen(suffix) + 1);
  *slot = made;
  return CREMA_OK;
}

/* Whether a layer rectifies what it makes, and the slope below 0. */
static bool rectifies(const Caffe__LayerParameter *layer, float *slope) {
  const Caffe__ConvolutionParameter *conv = layer->convolution_param;
  const Caffe__InnerProductParameter *ip = layer->inner_product_param;
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  *slope = conv != NULL ? conv->negative_slope : ip != NULL ? ip->negative_slope : 0;
  return (conv != NULL && conv->relu) || (ip != NULL && ip->relu) || (norm != NULL && norm->relu);
}

static size_t count_fused(const Caffe__NetParameter *net) {
  size_t count = 0;
  float slope = 0;
  for (size_t i = 0; i < net->n_layer; ++i) count += rectifies(net->layer[i], &slope);
  return count;
}

bool cr_upgrade_fused_needed(const Caffe__NetParameter *net) {
  return net->has_bn_stats_batch_size || count_fused(net) > 0;
}

static void clear_fused(Caffe__LayerParameter *layer) {
  if (layer->convolution_param != NULL) {
    clear(&layer->convolution_param->base, "relu");
    clear(&layer->convolution_param->base, "negative_slope");
  }
  if (layer->inner_product_param != NULL) {
    clear(&layer->inner_product_param->base, "relu");
    clear(&layer->inner_product_param->base, "negative_slope");
  }
  if (layer->batch_norm_param != NULL) clear(&layer->batch_norm_param->base, "relu");
}

/* `relu` is a copy of `layer`, and keeps its rules. It works in place on the top of `layer`. */
static crema_status divide(Caffe__LayerParameter *layer, Caffe__LayerParameter *relu, float slope) {
  static const char *const own[] = {"name",
                                    "type",
                                    "bottom",
                                    "propagate_down",
                                    "param",
                                    "blobs",
                                    "convolution_param",
                                    "inner_product_param",
                                    "batch_norm_param"};
  ProtobufCMessage *param;
  for (size_t i = 0; i < sizeof own / sizeof own[0]; ++i) clear(&relu->base, own[i]);
  clear(&layer->base, "loss_weight");
  clear_fused(layer);
  CR_TRY(set_text(&relu->name, layer->name != NULL ? layer->name : "", "/relu"));
  CR_TRY(set_text(&relu->type, "ReLU", ""));
  CR_TRY(cr_field_reserve(&relu->base, field_of(&relu->base, "bottom"), 1));
  CR_TRY(set_text(&relu->bottom[0], relu->top[0], ""));
  relu->n_bottom = 1;
  CR_TRY(cr_field_message(&relu->base, field_of(&relu->base, "relu_param"), &param));
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
    CR_TRY(cr_field_message(&layer->base, field_of(&layer->base, "batch_norm_param"), &param));
    Caffe__BatchNormParameter *norm = (Caffe__BatchNormParameter *)param;
    norm->has_stats_batch_size = 1;
    norm->stats_batch_size = net->bn_stats_batch_size;
  }
  clear(&net->base, "bn_stats_batch_size");
  return CREMA_OK;
}

crema_status cr_upgrade_fused(Caffe__NetParameter *net) {
  CR_TRY(give_batch_size(net));
  CR_TRY(cr_field_reserve(&net->base, field_of(&net->base, "layer"), count_fused(net)));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    ProtobufCMessage *relu;
    float slope = 0;
    if (!rectifies(net->layer[i], &slope)) continue;
    if (net->layer[i]->n_top != 1) {
      return cr_fail(CREMA_E_UNSUPPORTED, "layer \"%.200s\": relu needs one top, found %zu",
                     net->layer[i]->name != NULL ? net->layer[i]->name : "", net->layer[i]->n_top);
    }
    CR_TRY(cr_message_copy(&net->layer[i]->base, &relu));
    memmove(net->layer + i + 2, net->layer + i + 1, (net->n_layer - i - 1) * sizeof *net->layer);
    net->layer[i + 1] = (Caffe__LayerParameter *)relu;
    ++net->n_layer;
    CR_TRY(divide(net->layer[i], net->layer[i + 1], slope));
  }
  return CREMA_OK;
}
