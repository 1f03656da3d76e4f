/* Layers of the forks of SegNet and ENet. A BN of two parameters, scale and shift, becomes a Scale
 * that keeps its name, so that models and programs find the parameters there. In mode LEARN it is
 * preceded by a BatchNorm "<name>/norm", which uses the batch's statistics in TEST as well.
 * DenseImageData and HED's ImageLabelmapData become an ImageSegData, and a SoftmaxWithLoss with a
 * weight for each class an InfogainLoss. */
#include <stdlib.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { BN_PARAMETERS = 2 };

/* In models, whose fields have other numbers, the number of parameters decides. PSPNet's BN has
 * four.
 */
static bool is_bn(const Caffe__LayerParameter *layer) {
  const Caffe__BNParameter *bn = layer->bn_param;
  if (!cr_upgrade_is_of(layer, "BN")) return false;
  if (layer->n_blobs > 0) return layer->n_blobs == BN_PARAMETERS;
  return bn != NULL && (bn->has_bn_mode || bn->scale_filler != NULL || bn->shift_filler != NULL);
}

static bool learns(const Caffe__LayerParameter *layer) {
  return layer->bn_param == NULL || layer->bn_param->bn_mode == CAFFE__BNPARAMETER__BNMODE__LEARN;
}

static crema_status check_bn(const Caffe__LayerParameter *layer) {
  const Caffe__BNParameter *bn = layer->bn_param;
  if (layer->n_top > 1 && !learns(layer)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a BN in mode INFERENCE has no statistics for %zu tops",
                   layer->n_top);
  }
  if (bn == NULL || (!bn->has_momentum && !bn->has_eps && !bn->has_frozen)) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE,
                 "BN with bn_mode, scale_filler or shift_filler (SegNet) has no momentum, eps and "
                 "frozen (PSPNet)");
}

/* Turns the layer into a Scale. Models name the fillers as PSPNet does. */
static crema_status make_scale(Caffe__LayerParameter *layer) {
  Caffe__ScaleParameter *scale = NULL;
  CR_TRY(cr_upgrade_set_type(layer, "Scale"));
  CR_TRY(cr_message_inner(&layer->base, "scale_param", &scale));
  scale->has_bias_term = 1;
  scale->bias_term = 1;
  for (size_t i = 0; i < layer->n_blobs; ++i) CR_TRY(cr_upgrade_flatten(layer->blobs[i]));
  if (layer->bn_param == NULL) return CREMA_OK;
  ProtobufCMessage *bn = &layer->bn_param->base;
  const bool ours = layer->bn_param->scale_filler != NULL || layer->bn_param->shift_filler != NULL;
  CR_TRY(cr_message_move(bn, ours ? "scale_filler" : "slope_filler", &scale->base, "filler"));
  CR_TRY(cr_message_move(bn, ours ? "shift_filler" : "bias_filler", &scale->base, "bias_filler"));
  cr_message_clear(&layer->base, "bn_param");
  return CREMA_OK;
}

/* Turns `norm`, a copy of the layer `scale`, into the BatchNorm in front of it, which has the tops
 * for statistics. */
static crema_status make_norm(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale) {
  static const char *const of_scale[] = {"name", "param", "blobs", "bn_param", "loss_weight"};
  Caffe__BatchNormParameter *param = NULL;
  for (int i = 0; i < 5; ++i) cr_message_clear(&norm->base, of_scale[i]);
  CR_TRY(cr_upgrade_set_type(norm, "BatchNorm"));
  CR_TRY(cr_upgrade_text(&norm->name, cr_upgrade_name(scale), "/norm"));
  CR_TRY(cr_message_inner(&norm->base, "batch_norm_param", &param));
  param->has_use_global_stats = param->has_eps = 1;
  param->use_global_stats = 0;
  param->eps = 1e-9F;
  if (norm->n_top > 0) {
    while (scale->n_top > 1) free(scale->top[--scale->n_top]);
    return cr_upgrade_set_bottom(scale, norm->top[0]);
  }
  cr_message_clear(&scale->base, "bottom");
  cr_message_clear(&scale->base, "propagate_down");
  return CREMA_OK;
}

static bool is_dense(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "DenseImageData");
}

/* The crop and the mirroring go to transform_param. */
static crema_status move_transform(Caffe__LayerParameter *layer,
                                   Caffe__DenseImageDataParameter *dense) {
  Caffe__TransformationParameter *transform = NULL;
  if (!dense->has_mirror && !dense->has_crop_width && !dense->has_crop_height) return CREMA_OK;
  if ((dense->crop_width > 0) != (dense->crop_height > 0)) {
    return cr_fail(CREMA_E_PARSE, "crop_height and crop_width belong together");
  }
  CR_TRY(cr_message_inner(&layer->base, "transform_param", &transform));
  if (dense->mirror) transform->has_mirror = transform->mirror = 1;
  if (dense->crop_width == 0) return CREMA_OK;
  if (transform->has_crop_size || transform->has_crop_h || transform->has_crop_w) {
    return cr_fail(CREMA_E_PARSE, "both dense_image_data_param and transform_param cut a part out");
  }
  transform->has_crop_h = transform->has_crop_w = 1;
  transform->crop_h = dense->crop_height;
  transform->crop_w = dense->crop_width;
  return CREMA_OK;
}

static crema_status make_seg_data(Caffe__LayerParameter *layer) {
  static const char *const same[] = {"source",     "batch_size", "rand_skip", "shuffle",
                                     "new_height", "new_width",  "is_color",  "root_folder"};
  Caffe__DenseImageDataParameter *dense = layer->dense_image_data_param;
  Caffe__ImageDataParameter *image = NULL;
  if (dense == NULL) return cr_upgrade_set_type(layer, "ImageSegData");
  if (dense->label_divide_factor != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "label_divide_factor is not supported");
  }
  CR_TRY(move_transform(layer, dense));
  CR_TRY(cr_upgrade_set_type(layer, "ImageSegData"));
  CR_TRY(cr_message_inner(&layer->base, "image_data_param", &image));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; ++i) {
    CR_TRY(cr_message_move(&dense->base, same[i], &image->base, same[i]));
  }
  cr_message_clear(&layer->base, "dense_image_data_param");
  return CREMA_OK;
}

static bool is_labelmap(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "ImageLabelmapData");
}

/* HED's layer of edges: gray maps from 0 to 255 become labels 0 and 1. */
static crema_status make_edge_data(Caffe__LayerParameter *layer) {
  Caffe__ImageDataParameter *image = NULL;
  CR_TRY(cr_upgrade_set_type(layer, "ImageSegData"));
  CR_TRY(cr_message_inner(&layer->base, "image_data_param", &image));
  if (!image->has_label_scale) {
    image->has_label_scale = 1;
    image->label_scale = 1.0F / 255;
  }
  if (image->has_round_labels) return CREMA_OK;
  image->has_round_labels = image->round_labels = 1;
  return CREMA_OK;
}

static bool has_weights(const Caffe__LayerParameter *layer) {
  const Caffe__LossParameter *loss = layer->loss_param;
  return cr_upgrade_is_of(layer, "SoftmaxWithLoss") && loss != NULL &&
         (loss->has_weight_by_label_freqs || loss->n_class_weighting > 0);
}

/* Weights count only if the layer requests them. */
static crema_status make_infogain(Caffe__LayerParameter *layer) {
  Caffe__InfogainLossParameter *infogain = NULL;
  ProtobufCMessage *loss = &layer->loss_param->base;
  const bool weighted = layer->loss_param->weight_by_label_freqs;
  cr_message_clear(loss, "weight_by_label_freqs");
  if (!weighted) {
    cr_message_clear(loss, "class_weighting");
    return CREMA_OK;
  }
  if (layer->loss_param->n_class_weighting == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "weight_by_label_freqs needs class_weighting");
  }
  CR_TRY(cr_upgrade_set_type(layer, "InfogainLoss"));
  if (layer->softmax_param == NULL) return CREMA_OK;
  CR_TRY(cr_message_inner(&layer->base, "infogain_loss_param", &infogain));
  CR_TRY(cr_message_move(&layer->softmax_param->base, "axis", &infogain->base, "axis"));
  cr_message_clear(&layer->base, "softmax_param");
  return CREMA_OK;
}

bool cr_upgrade_segnet_needed(const Caffe__LayerParameter *layer) {
  return is_bn(layer) || is_dense(layer) || is_labelmap(layer) || has_weights(layer);
}

static crema_status upgrade_layer(Caffe__NetParameter *net, size_t index) {
  Caffe__LayerParameter *layer = net->layer[index];
  if (is_dense(layer)) return make_seg_data(layer);
  if (is_labelmap(layer)) return make_edge_data(layer);
  if (has_weights(layer)) return make_infogain(layer);
  if (!is_bn(layer)) return CREMA_OK;
  CR_TRY(check_bn(layer));
  if (learns(layer)) {
    CR_TRY(cr_upgrade_double(net, index));
    net->layer[index] = net->layer[index + 1];
    net->layer[index + 1] = layer;
    CR_TRY(make_norm(net->layer[index], layer));
  }
  return make_scale(layer);
}

crema_status cr_upgrade_segnet(cr_upgrade *upgrade) {
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = upgrade->net->n_layer; i-- > 0;) {
    const Caffe__LayerParameter *layer = upgrade->net->layer[i];
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, upgrade_layer(upgrade->net, i)));
  }
  return CREMA_OK;
}
