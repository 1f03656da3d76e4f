/* The second layer format: types are numbers, and lists hold names, learning rates and decays of
 * parameters. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "proto/upgrade.h"

/* Today's names of the types, by number. */
#define LAYER_TYPE(name) [CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__##name]
static const char *const type_names[] = {
    LAYER_TYPE(NONE) = "",
    LAYER_TYPE(ABSVAL) = "AbsVal",
    LAYER_TYPE(ACCURACY) = "Accuracy",
    LAYER_TYPE(ARGMAX) = "ArgMax",
    LAYER_TYPE(BN) = "BN",
    LAYER_TYPE(BNLL) = "BNLL",
    LAYER_TYPE(CONCAT) = "Concat",
    LAYER_TYPE(CONTRASTIVE_LOSS) = "ContrastiveLoss",
    LAYER_TYPE(CONVOLUTION) = "Convolution",
    LAYER_TYPE(CONVOLUTION3D) = "Convolution3D",
    LAYER_TYPE(CROP) = "Crop",
    LAYER_TYPE(DATA) = "Data",
    LAYER_TYPE(DECONVOLUTION) = "Deconvolution",
    LAYER_TYPE(DECONVOLUTION3D) = "Deconvolution3D",
    LAYER_TYPE(DENSE_CRF) = "DenseCRF",
    LAYER_TYPE(DROPOUT) = "Dropout",
    LAYER_TYPE(DUMMY_DATA) = "DummyData",
    LAYER_TYPE(ELTWISE) = "Eltwise",
    LAYER_TYPE(EUCLIDEAN_LOSS) = "EuclideanLoss",
    LAYER_TYPE(EXP) = "Exp",
    LAYER_TYPE(FLATTEN) = "Flatten",
    LAYER_TYPE(HDF5_DATA) = "HDF5Data",
    LAYER_TYPE(HDF5_OUTPUT) = "HDF5Output",
    LAYER_TYPE(HINGE_LOSS) = "HingeLoss",
    LAYER_TYPE(IM2COL) = "Im2col",
    LAYER_TYPE(IMAGE_DATA) = "ImageData",
    LAYER_TYPE(IMAGE_SEG_DATA) = "ImageSegData",
    LAYER_TYPE(INFOGAIN_LOSS) = "InfogainLoss",
    LAYER_TYPE(INNER_PRODUCT) = "InnerProduct",
    LAYER_TYPE(INTERP) = "Interp",
    LAYER_TYPE(LOCAL) = "Local",
    LAYER_TYPE(LRN) = "LRN",
    LAYER_TYPE(MAT_READ) = "MatRead",
    LAYER_TYPE(MAT_WRITE) = "MatWrite",
    LAYER_TYPE(MEMORY_DATA) = "MemoryData",
    LAYER_TYPE(MULTINOMIAL_LOGISTIC_LOSS) = "MultinomialLogisticLoss",
    LAYER_TYPE(MVN) = "MVN",
    LAYER_TYPE(PADDING) = "Interp",
    LAYER_TYPE(POOLING) = "Pooling",
    LAYER_TYPE(POOLING3D) = "Pooling3D",
    LAYER_TYPE(POWER) = "Power",
    LAYER_TYPE(RELU) = "ReLU",
    LAYER_TYPE(SEG_ACCURACY) = "SegAccuracy",
    LAYER_TYPE(SIGMOID) = "Sigmoid",
    LAYER_TYPE(SIGMOID_CROSS_ENTROPY_LOSS) = "SigmoidCrossEntropyLoss",
    LAYER_TYPE(SILENCE) = "Silence",
    LAYER_TYPE(SLICE) = "Slice",
    LAYER_TYPE(SOFTMAX) = "Softmax",
    LAYER_TYPE(SOFTMAX_LOSS) = "SoftmaxWithLoss",
    LAYER_TYPE(SPLIT) = "Split",
    LAYER_TYPE(TANH) = "TanH",
    LAYER_TYPE(THRESHOLD) = "Threshold",
    LAYER_TYPE(VIDEO_DATA) = "VideoData",
    LAYER_TYPE(UNPOOLING) = "Unpooling",
    LAYER_TYPE(WINDOW_DATA) = "WindowData",
};

enum { TYPE_COUNT = sizeof type_names / sizeof type_names[0] };

bool cr_upgrade_v1_needed(const Caffe__NetParameter *net) {
  return net->n_layers > 0;
}

/* Fields of V1LayerParameter that have no field of the same name and meaning today. */
static bool is_special(const char *name) {
  static const char *const special[] = {
      "layer",     "type",         "param",         "blob_share_mode",
      "blobs_lr",  "weight_decay", "padding_param", "softmaxloss_param",
      "strict_dim"};
  for (size_t i = 0; i < sizeof special / sizeof special[0]; ++i) {
    if (strcmp(special[i], name) == 0) return true;
  }
  return false;
}

static crema_status move_same_fields(Caffe__V1LayerParameter *old, Caffe__LayerParameter *layer) {
  const ProtobufCMessageDescriptor *type = old->base.descriptor;
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    if (is_special(field->name) || cr_field_count(&old->base, field) == 0) continue;
    const ProtobufCFieldDescriptor *target = cr_message_field(&layer->base, field->name);
    if (target == NULL) {
      return cr_fail(CREMA_E_INTERNAL, "LayerParameter has no field %s", field->name);
    }
    CR_TRY(cr_field_move(&old->base, field, &layer->base, target));
  }
  return CREMA_OK;
}

static crema_status make_params(Caffe__LayerParameter *layer, size_t count) {
  CR_TRY(cr_message_reserve(&layer->base, "param", count));
  while (layer->n_param < count) {
    ProtobufCMessage *param;
    CR_TRY(cr_message_new(&caffe__param_spec__descriptor, &param));
    layer->param[layer->n_param++] = (Caffe__ParamSpec *)param;
  }
  return CREMA_OK;
}

static size_t larger(size_t a, size_t b) {
  return a > b ? a : b;
}

/* The four lists of the old layer become one list of ParamSpec. */
static crema_status collect_params(Caffe__V1LayerParameter *old, Caffe__LayerParameter *layer) {
  CR_TRY(make_params(layer, larger(larger(old->n_param, old->n_blob_share_mode),
                                   larger(old->n_blobs_lr, old->n_weight_decay))));
  for (size_t i = 0; i < old->n_param; ++i) {
    layer->param[i]->name = old->param[i];
    old->param[i] = NULL;
  }
  for (size_t i = 0; i < old->n_blob_share_mode; ++i) {
    bool strict = old->blob_share_mode[i] == CAFFE__V1_LAYER_PARAMETER__DIM_CHECK_MODE__STRICT;
    layer->param[i]->has_share_mode = 1;
    layer->param[i]->share_mode = strict ? CAFFE__PARAM_SPEC__DIM_CHECK_MODE__STRICT
                                         : CAFFE__PARAM_SPEC__DIM_CHECK_MODE__PERMISSIVE;
  }
  for (size_t i = 0; i < old->n_blobs_lr; ++i) {
    layer->param[i]->has_lr_mult = 1;
    layer->param[i]->lr_mult = old->blobs_lr[i];
  }
  for (size_t i = 0; i < old->n_weight_decay; ++i) {
    layer->param[i]->has_decay_mult = 1;
    layer->param[i]->decay_mult = old->weight_decay[i];
  }
  return CREMA_OK;
}

/* PADDING crops or pads, as an Interp with zoom factor 1 does. */
static crema_status move_padding(const Caffe__V1LayerParameter *old, Caffe__LayerParameter *layer) {
  const Caffe__PaddingParameter *padding = old->padding_param;
  Caffe__InterpParameter *interp = NULL;
  if (!old->has_type || old->type != CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__PADDING) {
    return CREMA_OK;
  }
  CR_TRY(cr_message_inner(&layer->base, "interp_param", &interp));
  interp->has_zoom_factor = 1;
  interp->zoom_factor = 1;
  if (padding == NULL) return CREMA_OK;
  interp->has_pad_beg = interp->has_pad_end = 1;
  interp->pad_beg = padding->pad_beg;
  interp->pad_end = padding->pad_end;
  return CREMA_OK;
}

static crema_status move_ignored_label(const Caffe__V1LayerParameter *old,
                                       Caffe__LayerParameter *layer) {
  const Caffe__SoftmaxLossParameter *given = old->softmaxloss_param;
  Caffe__LossParameter *loss = NULL;
  if (given == NULL) return CREMA_OK;
  if (given->weight_source != NULL && given->weight_source[0] != '\0') {
    return cr_fail(CREMA_E_UNSUPPORTED, "weight_source of softmaxloss_param is not supported");
  }
  if (given->n_ignore_label > 1) {
    return cr_fail(CREMA_E_UNSUPPORTED, "%zu labels are ignored; one at most is supported",
                   given->n_ignore_label);
  }
  if (given->n_ignore_label == 0) return CREMA_OK;
  CR_TRY(cr_message_inner(&layer->base, "loss_param", &loss));
  loss->has_ignore_label = 1;
  loss->ignore_label = given->ignore_label[0];
  return CREMA_OK;
}

/* In DeconvNet's models, BN has the number of DeepLab's MatWrite, which has no parameters. */
static const char *type_name_of(const Caffe__V1LayerParameter *old,
                                const Caffe__LayerParameter *layer) {
  if ((size_t)old->type >= TYPE_COUNT) return NULL;
  return old->type == CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__MAT_WRITE && layer->n_blobs > 0
             ? "BN"
             : type_names[old->type];
}

static crema_status upgrade_layer(Caffe__V1LayerParameter *old, Caffe__LayerParameter *layer,
                                  bool *fine) {
  CR_TRY(move_same_fields(old, layer));
  if (old->has_type) {
    const char *name = type_name_of(old, layer);
    if (name == NULL) {
      return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown layer type %d", (int)old->type);
    }
    CR_TRY(cr_upgrade_text(&layer->type, name, ""));
  }
  CR_TRY(collect_params(old, layer));
  CR_TRY(move_padding(old, layer));
  CR_TRY(move_ignored_label(old, layer));
  if (old->layer != NULL) {
    *fine = false;
    cr_log_error("layer \"%.200s\": a layer of the first format inside is dropped",
                 cr_upgrade_name(layer));
  }
  return CREMA_OK;
}

crema_status cr_upgrade_v1(cr_upgrade *upgrade) {
  Caffe__NetParameter *net = upgrade->net;
  if (net->n_layer > 0) {
    return cr_fail(CREMA_E_PARSE,
                   "the net has both \"layer\" and \"layers\"; use \"layer\" for all of them");
  }
  CR_TRY(cr_message_reserve(&net->base, "layer", net->n_layers));
  for (size_t i = 0; i < net->n_layers; ++i) {
    Caffe__LayerParameter *layer = NULL;
    const size_t line = cr_layer_line(&net->layers[i]->base);
    CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &layer));
    net->layer[net->n_layer++] = layer;
    if (line > 0) CR_TRY(cr_layer_set_line(&layer->base, line));
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base,
                               upgrade_layer(net->layers[i], layer, &upgrade->fine)));
  }
  cr_message_clear(&net->base, "layers");
  return CREMA_OK;
}

static const struct {
  Caffe__V1LayerParameter__LayerType type;
  const char *param;
} data_layers[] = {
    {CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__DATA, "data_param"},
    {CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__IMAGE_DATA, "image_data_param"},
    {CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__WINDOW_DATA, "window_data_param"},
    {CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__VIDEO_DATA, "image_data_param"},
};

static const char *const transform_fields[] = {"scale", "mean_file", "crop_size", "mirror"};

enum {
  DATA_LAYER_COUNT = sizeof data_layers / sizeof data_layers[0],
  TRANSFORM_FIELD_COUNT = sizeof transform_fields / sizeof transform_fields[0]
};

/* The field of a data layer that holds its parameters; NULL for any other layer. */
static const ProtobufCFieldDescriptor *data_param_of(const Caffe__V1LayerParameter *layer) {
  for (size_t i = 0; layer->has_type && i < DATA_LAYER_COUNT; ++i) {
    if (layer->type != data_layers[i].type) continue;
    return cr_message_field(&layer->base, data_layers[i].param);
  }
  return NULL;
}

bool cr_upgrade_transform_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layers; ++i) {
    const ProtobufCFieldDescriptor *field = data_param_of(net->layers[i]);
    if (field == NULL) continue;
    const ProtobufCMessage *param =
        *(ProtobufCMessage **)cr_field_slot(&net->layers[i]->base, field);
    for (int j = 0; param != NULL && j < TRANSFORM_FIELD_COUNT; ++j) {
      if (cr_field_count(param, cr_message_field(param, transform_fields[j])) > 0) return true;
    }
  }
  return false;
}

crema_status cr_upgrade_transform(cr_upgrade *upgrade) {
  for (size_t i = 0; i < upgrade->net->n_layers; ++i) {
    Caffe__V1LayerParameter *layer = upgrade->net->layers[i];
    const ProtobufCFieldDescriptor *field = data_param_of(layer);
    ProtobufCMessage *param = NULL, *transform = NULL;
    if (field == NULL) continue;
    CR_TRY(cr_field_message(&layer->base, field, &param));
    CR_TRY(cr_message_inner(&layer->base, "transform_param", &transform));
    for (int j = 0; j < TRANSFORM_FIELD_COUNT; ++j) {
      CR_TRY(cr_message_move(param, transform_fields[j], transform, transform_fields[j]));
    }
  }
  return CREMA_OK;
}
