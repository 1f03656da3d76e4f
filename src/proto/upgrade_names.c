/* Fields and layers that a fork names differently: hole of DeepLab's convolutions, crop_height and
 * crop_width, has_label, SeLuDropout's selu_dropout_param. R-FCN's losses have one more top, for
 * each item's share, but the usual type. Losses with a bottom of weights have the usual type, too.
 * CPMData has cpmdata_param (Convolutional Pose Machines) or cpm_transform_param (OpenPose). */

#include "core/fail.h"
#include "proto/upgrade.h"

static bool has_hole(const Caffe__ConvolutionParameter *conv) {
  return conv != NULL && (conv->has_hole || conv->has_hole_h || conv->has_hole_w);
}

static bool has_crop(const Caffe__TransformationParameter *transform) {
  return transform != NULL && (transform->has_crop_height || transform->has_crop_width);
}

/* The type of a loss that gives each item's share as well, or that has weights as third bottom;
 * its type here where a fork has another name. NULL: the layer keeps its type. */
static const char *type_of_loss(const Caffe__LayerParameter *layer) {
  static const char *const names[][2] = {{"SoftmaxFocalLoss", "FocalLoss"},
                                         {"focalSoftmaxWithLoss", "FocalLoss"},
                                         {"CtcLoss", "CTCLoss"},
                                         {"WarpCTCLoss", "CTCLoss"},
                                         {"CTCDecoder", "CTCGreedyDecoder"},
                                         {"CTCBeamSearchDecoder", "CTCGreedyDecoder"}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    if (cr_upgrade_is_of(layer, names[i][0])) return names[i][1];
  }
  if ((layer->n_bottom == 3 || layer->weighted_softmax_param != NULL) &&
      cr_upgrade_is_of(layer, "SoftmaxWithLoss")) {
    return "WeightedSoftmaxWithLoss";
  }
  if (layer->n_top == 3 && cr_upgrade_is_of(layer, "SoftmaxWithLoss")) return "SoftmaxWithLossOHEM";
  if (layer->n_top == 2 && cr_upgrade_is_of(layer, "SmoothL1Loss")) return "SmoothL1LossOHEM";
  return NULL;
}

bool cr_upgrade_names_needed(const Caffe__LayerParameter *layer) {
  const Caffe__ImageDataParameter *image = layer->image_data_param;
  return has_hole(layer->convolution_param) || has_crop(layer->transform_param) ||
         (image != NULL && image->has_has_label) || layer->selu_dropout_param != NULL ||
         layer->cpmdata_param != NULL || layer->cpm_transform_param != NULL ||
         type_of_loss(layer) != NULL;
}

static crema_status rename_hole(Caffe__ConvolutionParameter *conv) {
  if (!has_hole(conv)) return CREMA_OK;
  const uint32_t rows = conv->has_hole_h ? conv->hole_h : conv->hole;
  const uint32_t columns = conv->has_hole_w ? conv->hole_w : conv->hole;
  if (conv->n_dilation > 0) return cr_upgrade_twice("hole", "dilation");
  CR_TRY(cr_message_reserve(&conv->base, "dilation", 2));
  conv->dilation[conv->n_dilation++] = rows;
  if (columns != rows) conv->dilation[conv->n_dilation++] = columns;
  cr_message_clear(&conv->base, "hole");
  cr_message_clear(&conv->base, "hole_h");
  cr_message_clear(&conv->base, "hole_w");
  return CREMA_OK;
}

static crema_status rename_crop(Caffe__TransformationParameter *transform) {
  if (!has_crop(transform)) return CREMA_OK;
  if (transform->has_crop_h || transform->has_crop_w)
    return cr_upgrade_twice("crop_height", "crop_h");
  if (!transform->has_crop_height || !transform->has_crop_width || transform->has_crop_size) {
    return cr_fail(CREMA_E_PARSE, "crop_height and crop_width belong together, without crop_size");
  }
  transform->has_crop_h = transform->has_crop_w = 1;
  transform->crop_h = transform->crop_height;
  transform->crop_w = transform->crop_width;
  cr_message_clear(&transform->base, "crop_height");
  cr_message_clear(&transform->base, "crop_width");
  return CREMA_OK;
}

static crema_status rename_label(Caffe__ImageDataParameter *image) {
  if (image == NULL || !image->has_has_label) return CREMA_OK;
  if (!image->has_label) {
    if (image->has_label_type) return cr_upgrade_twice("has_label", "label_type");
    image->has_label_type = 1;
    image->label_type = CAFFE__IMAGE_DATA_PARAMETER__LABEL_TYPE__NONE;
  }
  cr_message_clear(&image->base, "has_label");
  return CREMA_OK;
}

static crema_status rename_message(Caffe__LayerParameter *layer, const char *old, bool has_old,
                                   const char *preferred, bool has_preferred) {
  if (has_old && has_preferred) return cr_upgrade_twice(old, preferred);
  return cr_message_move(&layer->base, old, &layer->base, preferred);
}

/* CTCDecoder has ctc_param, CTCBeamSearchDecoder keeps up to 1000 prefixes. */
static crema_status rename_decoder(Caffe__LayerParameter *layer) {
  ProtobufCMessage *inner = NULL;
  if (cr_upgrade_is_of(layer, "CTCDecoder")) {
    return cr_message_inner(&layer->base, "ctc_param", &inner);
  }
  if (!cr_upgrade_is_of(layer, "CTCBeamSearchDecoder")) return CREMA_OK;
  CR_TRY(cr_message_inner(&layer->base, "ctc_decoder_param", &inner));
  Caffe__CTCDecoderParameter *param = (Caffe__CTCDecoderParameter *)inner;
  if (param->has_beam_width) return CREMA_OK;
  param->has_beam_width = 1;
  param->beam_width = 1000;
  return CREMA_OK;
}

static crema_status rename_all(Caffe__LayerParameter *layer) {
  const char *type = type_of_loss(layer);
  CR_TRY(rename_hole(layer->convolution_param));
  CR_TRY(rename_crop(layer->transform_param));
  CR_TRY(rename_label(layer->image_data_param));
  CR_TRY(rename_message(layer, "selu_dropout_param", layer->selu_dropout_param != NULL,
                        "dropout_param", layer->dropout_param != NULL));
  CR_TRY(rename_message(layer, "cpmdata_param", layer->cpmdata_param != NULL, "data_param",
                        layer->data_param != NULL));
  CR_TRY(rename_message(layer, "cpm_transform_param", layer->cpm_transform_param != NULL,
                        "transform_param", layer->transform_param != NULL));
  CR_TRY(rename_decoder(layer));
  return type == NULL ? CREMA_OK : cr_upgrade_set_type(layer, type);
}

crema_status cr_upgrade_names(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layer; ++i) {
    Caffe__LayerParameter *layer = upgrade->net->layer[i];
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, rename_all(layer)));
  }
  return CREMA_OK;
}
