/* What the forks of SegNet and ENet have under names of their own. A BN of two parameters, scale
 * and shift, becomes a Scale that keeps its name, so that models and programs find these there, and
 * in mode LEARN a BatchNorm in front of it, named "<name>/norm", whose statistics are those of the
 * batch in TEST as well. DenseImageData becomes an ImageSegData, and a SoftmaxWithLoss with a
 * weight for each class an InfogainLoss. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { BN_PARAMETERS = 2 };

/* Moves a field, where it is given, to that of another name in another message. */
static crema_status move(ProtobufCMessage *from, const char *field, ProtobufCMessage *to,
                         const char *name) {
  const ProtobufCFieldDescriptor *source = cr_upgrade_field(from, field);
  if (cr_field_count(from, source) == 0) return CREMA_OK;
  return cr_field_move(from, source, to, cr_upgrade_field(to, name));
}

/* ---- BN ---- */

/* In models, whose fields have other numbers, the parameters tell. PSPNet's BN has four. */
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

/* The layer as a Scale. Models name the fillers as PSPNet does. */
static crema_status make_scale(Caffe__LayerParameter *layer) {
  ProtobufCMessage *scale;
  CR_TRY(cr_upgrade_set_type(layer, "Scale"));
  CR_TRY(cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "scale_param"), &scale));
  ((Caffe__ScaleParameter *)scale)->has_bias_term = 1;
  ((Caffe__ScaleParameter *)scale)->bias_term = 1;
  for (size_t i = 0; i < layer->n_blobs; ++i) CR_TRY(cr_upgrade_flatten(layer->blobs[i]));
  if (layer->bn_param == NULL) return CREMA_OK;
  ProtobufCMessage *bn = &layer->bn_param->base;
  const bool ours = layer->bn_param->scale_filler != NULL || layer->bn_param->shift_filler != NULL;
  CR_TRY(move(bn, ours ? "scale_filler" : "slope_filler", scale, "filler"));
  CR_TRY(move(bn, ours ? "shift_filler" : "bias_filler", scale, "bias_filler"));
  cr_upgrade_clear(&layer->base, "bn_param");
  return CREMA_OK;
}

static crema_status set_blob(Caffe__LayerParameter *layer, const char *field, char ***names,
                             size_t *count, const char *name) {
  cr_upgrade_clear(&layer->base, field);
  CR_TRY(cr_field_reserve(&layer->base, cr_upgrade_field(&layer->base, field), 1));
  CR_TRY(cr_upgrade_text(&(*names)[0], name, ""));
  *count = 1;
  return CREMA_OK;
}

/* Makes of `norm`, a copy of the layer `scale`, the BatchNorm in front of it, which has the tops
 * for statistics. */
static crema_status make_norm(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale) {
  static const char *const of_scale[] = {"name", "param", "blobs", "bn_param", "loss_weight"};
  ProtobufCMessage *message;
  for (size_t i = 0; i < sizeof of_scale / sizeof of_scale[0]; ++i) {
    cr_upgrade_clear(&norm->base, of_scale[i]);
  }
  CR_TRY(cr_upgrade_set_type(norm, "BatchNorm"));
  CR_TRY(cr_upgrade_text(&norm->name, scale->name != NULL ? scale->name : "", "/norm"));
  CR_TRY(
      cr_field_message(&norm->base, cr_upgrade_field(&norm->base, "batch_norm_param"), &message));
  Caffe__BatchNormParameter *param = (Caffe__BatchNormParameter *)message;
  param->has_use_global_stats = param->has_eps = 1;
  param->use_global_stats = 0;
  param->eps = 1e-9F;
  cr_upgrade_clear(&scale->base, "bottom");
  cr_upgrade_clear(&scale->base, "propagate_down");
  if (norm->n_top == 0) return CREMA_OK;
  CR_TRY(set_blob(scale, "bottom", &scale->bottom, &scale->n_bottom, norm->top[0]));
  return set_blob(scale, "top", &scale->top, &scale->n_top, norm->top[0]);
}

/* ---- DenseImageData ---- */

static bool is_dense(const Caffe__LayerParameter *layer) {
  return cr_upgrade_is_of(layer, "DenseImageData");
}

/* The part that is cut out, and whether it is mirrored, are transform_param's. */
static crema_status move_transform(Caffe__LayerParameter *layer,
                                   Caffe__DenseImageDataParameter *dense) {
  ProtobufCMessage *message;
  if (!dense->has_mirror && !dense->has_crop_width && !dense->has_crop_height) return CREMA_OK;
  if ((dense->crop_width > 0) != (dense->crop_height > 0)) {
    return cr_fail(CREMA_E_PARSE, "crop_height and crop_width belong together");
  }
  CR_TRY(
      cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "transform_param"), &message));
  Caffe__TransformationParameter *transform = (Caffe__TransformationParameter *)message;
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
  ProtobufCMessage *image;
  CR_TRY(cr_upgrade_set_type(layer, "ImageSegData"));
  if (dense == NULL) return CREMA_OK;
  if (dense->label_divide_factor != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "label_divide_factor is not supported");
  }
  CR_TRY(move_transform(layer, dense));
  CR_TRY(
      cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "image_data_param"), &image));
  for (size_t i = 0; i < sizeof same / sizeof same[0]; ++i) {
    CR_TRY(move(&dense->base, same[i], image, same[i]));
  }
  cr_upgrade_clear(&layer->base, "dense_image_data_param");
  return CREMA_OK;
}

/* ---- SoftmaxWithLoss ---- */

static bool has_weights(const Caffe__LayerParameter *layer) {
  const Caffe__LossParameter *loss = layer->loss_param;
  return cr_upgrade_is_of(layer, "SoftmaxWithLoss") && loss != NULL &&
         (loss->has_weight_by_label_freqs || loss->n_class_weighting > 0);
}

/* Weights count only where they are asked for. */
static crema_status make_infogain(Caffe__LayerParameter *layer) {
  ProtobufCMessage *infogain, *loss = &layer->loss_param->base;
  const bool weighted = layer->loss_param->weight_by_label_freqs;
  cr_upgrade_clear(loss, "weight_by_label_freqs");
  if (!weighted) {
    cr_upgrade_clear(loss, "class_weighting");
    return CREMA_OK;
  }
  if (layer->loss_param->n_class_weighting == 0) {
    return cr_fail(CREMA_E_ARGUMENT, "weight_by_label_freqs needs class_weighting");
  }
  CR_TRY(cr_upgrade_set_type(layer, "InfogainLoss"));
  if (layer->softmax_param == NULL) return CREMA_OK;
  CR_TRY(cr_field_message(&layer->base, cr_upgrade_field(&layer->base, "infogain_loss_param"),
                          &infogain));
  CR_TRY(move(&layer->softmax_param->base, "axis", infogain, "axis"));
  cr_upgrade_clear(&layer->base, "softmax_param");
  return CREMA_OK;
}

/* ---- nets ---- */

static size_t count_norms(const Caffe__NetParameter *net) {
  size_t count = 0;
  for (size_t i = 0; i < net->n_layer; ++i) count += is_bn(net->layer[i]) && learns(net->layer[i]);
  return count;
}

bool cr_upgrade_segnet_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    const Caffe__LayerParameter *layer = net->layer[i];
    if (is_bn(layer) || is_dense(layer) || has_weights(layer)) return true;
  }
  return false;
}

/* Puts a copy of layer `index` in front of it. */
static crema_status double_layer(Caffe__NetParameter *net, size_t index) {
  ProtobufCMessage *copy;
  CR_TRY(cr_message_copy(&net->layer[index]->base, &copy));
  memmove(net->layer + index + 1, net->layer + index, (net->n_layer - index) * sizeof *net->layer);
  net->layer[index] = (Caffe__LayerParameter *)copy;
  ++net->n_layer;
  return CREMA_OK;
}

static crema_status upgrade_layer(Caffe__NetParameter *net, size_t index) {
  Caffe__LayerParameter *layer = net->layer[index];
  if (is_dense(layer)) return make_seg_data(layer);
  if (has_weights(layer)) return make_infogain(layer);
  if (!is_bn(layer)) return CREMA_OK;
  CR_TRY(check_bn(layer));
  if (learns(layer)) {
    CR_TRY(double_layer(net, index));
    CR_TRY(make_norm(net->layer[index], layer));
  }
  return make_scale(layer);
}

crema_status cr_upgrade_segnet(Caffe__NetParameter *net) {
  CR_TRY(cr_field_reserve(&net->base, cr_upgrade_field(&net->base, "layer"), count_norms(net)));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    const char *name = net->layer[i]->name;
    crema_status status = upgrade_layer(net, i);
    if (status != CREMA_OK) {
      return cr_fail_in(status, "layer \"%.200s\"", name != NULL ? name : "");
    }
  }
  return CREMA_OK;
}
