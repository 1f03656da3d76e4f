/* The first layer format: one flat V0LayerParameter for all types, type names in lower case, and
 * layers that pad. */
#include <stdlib.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/log.h"
#include "proto/upgrade.h"

#define LAYER_TYPE(name) CAFFE__V1_LAYER_PARAMETER__LAYER_TYPE__##name

static const struct {
  const char *name;
  Caffe__V1LayerParameter__LayerType type;
} types[] = {
    {"accuracy", LAYER_TYPE(ACCURACY)},
    {"bnll", LAYER_TYPE(BNLL)},
    {"concat", LAYER_TYPE(CONCAT)},
    {"conv", LAYER_TYPE(CONVOLUTION)},
    {"data", LAYER_TYPE(DATA)},
    {"dropout", LAYER_TYPE(DROPOUT)},
    {"euclidean_loss", LAYER_TYPE(EUCLIDEAN_LOSS)},
    {"flatten", LAYER_TYPE(FLATTEN)},
    {"hdf5_data", LAYER_TYPE(HDF5_DATA)},
    {"hdf5_output", LAYER_TYPE(HDF5_OUTPUT)},
    {"im2col", LAYER_TYPE(IM2COL)},
    {"images", LAYER_TYPE(IMAGE_DATA)},
    {"infogain_loss", LAYER_TYPE(INFOGAIN_LOSS)},
    {"innerproduct", LAYER_TYPE(INNER_PRODUCT)},
    {"lrn", LAYER_TYPE(LRN)},
    {"multinomial_logistic_loss", LAYER_TYPE(MULTINOMIAL_LOGISTIC_LOSS)},
    {"pool", LAYER_TYPE(POOLING)},
    {"relu", LAYER_TYPE(RELU)},
    {"sigmoid", LAYER_TYPE(SIGMOID)},
    {"softmax", LAYER_TYPE(SOFTMAX)},
    {"softmax_loss", LAYER_TYPE(SOFTMAX_LOSS)},
    {"split", LAYER_TYPE(SPLIT)},
    {"tanh", LAYER_TYPE(TANH)},
    {"window_data", LAYER_TYPE(WINDOW_DATA)},
};

enum { TYPE_COUNT = sizeof types / sizeof types[0] };

/* A field of V0LayerParameter goes to `target` of the message `param` (NULL: the layer itself), in
 * layers of type `type` (NULL: of any type). */
static const struct {
  const char *field;
  const char *type;
  const char *param;
  const char *target;
} routes[] = {
    {"name", NULL, NULL, "name"},
    {"blobs", NULL, NULL, "blobs"},
    {"blobs_lr", NULL, NULL, "blobs_lr"},
    {"weight_decay", NULL, NULL, "weight_decay"},
    {"num_output", "conv", "convolution_param", "num_output"},
    {"num_output", "innerproduct", "inner_product_param", "num_output"},
    {"biasterm", "conv", "convolution_param", "bias_term"},
    {"biasterm", "innerproduct", "inner_product_param", "bias_term"},
    {"weight_filler", "conv", "convolution_param", "weight_filler"},
    {"weight_filler", "innerproduct", "inner_product_param", "weight_filler"},
    {"bias_filler", "conv", "convolution_param", "bias_filler"},
    {"bias_filler", "innerproduct", "inner_product_param", "bias_filler"},
    {"pad", "conv", "convolution_param", "pad"},
    {"pad", "pool", "pooling_param", "pad"},
    {"kernelsize", "conv", "convolution_param", "kernel_size"},
    {"kernelsize", "pool", "pooling_param", "kernel_size"},
    {"group", "conv", "convolution_param", "group"},
    {"stride", "conv", "convolution_param", "stride"},
    {"stride", "pool", "pooling_param", "stride"},
    {"pool", "pool", "pooling_param", "pool"},
    {"dropout_ratio", "dropout", "dropout_param", "dropout_ratio"},
    {"local_size", "lrn", "lrn_param", "local_size"},
    {"alpha", "lrn", "lrn_param", "alpha"},
    {"beta", "lrn", "lrn_param", "beta"},
    {"k", "lrn", "lrn_param", "k"},
    {"source", "data", "data_param", "source"},
    {"source", "hdf5_data", "hdf5_data_param", "source"},
    {"source", "images", "image_data_param", "source"},
    {"source", "window_data", "window_data_param", "source"},
    {"source", "infogain_loss", "infogain_loss_param", "source"},
    {"scale", NULL, "transform_param", "scale"},
    {"meanfile", NULL, "transform_param", "mean_file"},
    {"cropsize", NULL, "transform_param", "crop_size"},
    {"mirror", NULL, "transform_param", "mirror"},
    {"batchsize", "data", "data_param", "batch_size"},
    {"batchsize", "hdf5_data", "hdf5_data_param", "batch_size"},
    {"batchsize", "images", "image_data_param", "batch_size"},
    {"batchsize", "window_data", "window_data_param", "batch_size"},
    {"rand_skip", "data", "data_param", "rand_skip"},
    {"rand_skip", "images", "image_data_param", "rand_skip"},
    {"shuffle_images", "images", "image_data_param", "shuffle"},
    {"new_height", "images", "image_data_param", "new_height"},
    {"new_width", "images", "image_data_param", "new_width"},
    {"concat_dim", "concat", "concat_param", "concat_dim"},
    {"det_fg_threshold", "window_data", "window_data_param", "fg_threshold"},
    {"det_bg_threshold", "window_data", "window_data_param", "bg_threshold"},
    {"det_fg_fraction", "window_data", "window_data_param", "fg_fraction"},
    {"det_context_pad", "window_data", "window_data_param", "context_pad"},
    {"det_crop_mode", "window_data", "window_data_param", "crop_mode"},
    {"hdf5_output_param", "hdf5_output", NULL, "hdf5_output_param"},
};

enum { ROUTE_COUNT = sizeof routes / sizeof routes[0] };

bool cr_upgrade_v0_needed(const Caffe__NetParameter *net) {
  for (size_t i = 0; i < net->n_layers; ++i) {
    if (net->layers[i]->layer != NULL) return true;
  }
  return false;
}

static bool has_type(const Caffe__V1LayerParameter *layer, const char *type) {
  return layer->layer != NULL && layer->layer->type != NULL &&
         strcmp(layer->layer->type, type) == 0;
}

static const char *name_of(const Caffe__V1LayerParameter *layer) {
  if (layer->layer != NULL && layer->layer->name != NULL) return layer->layer->name;
  return layer->name != NULL ? layer->name : "";
}

/* The last layer before number `before` that has `blob` as a top; NULL for none. */
static Caffe__V1LayerParameter *find_maker(const Caffe__NetParameter *net, size_t before,
                                           const char *blob) {
  for (size_t i = before; i-- > 0;) {
    for (size_t j = 0; j < net->layers[i]->n_top; ++j) {
      if (strcmp(net->layers[i]->top[j], blob) == 0) return net->layers[i];
    }
  }
  return NULL;
}

/* Makes `layer` read the padding layer's bottom and do the padding. */
static crema_status absorb_padding(Caffe__V1LayerParameter *layer,
                                   const Caffe__V1LayerParameter *padding) {
  if (!has_type(layer, "conv") && !has_type(layer, "pool")) {
    return cr_fail(CREMA_E_UNSUPPORTED, "padding (layer \"%.200s\") can only precede conv and pool",
                   name_of(padding));
  }
  if (layer->n_bottom != 1 || padding->n_bottom != 1 || padding->n_top != 1) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "padding (layer \"%.200s\") needs one bottom and one top, as does the layer "
                   "after it",
                   name_of(padding));
  }
  char *bottom = cr_proto_strdup(padding->bottom[0]);
  if (bottom == NULL) return cr_fail_memory(strlen(padding->bottom[0]) + 1, "a blob name");
  free(layer->bottom[0]);
  layer->bottom[0] = bottom;
  layer->layer->has_pad = 1;
  layer->layer->pad = padding->layer->pad;
  return CREMA_OK;
}

static crema_status remove_padding(cr_upgrade *upgrade) {
  Caffe__NetParameter *net = upgrade->net;
  /* Last layer first, so that each bottom still names the blob that the text named. */
  for (size_t i = net->n_layers; i-- > 0;) {
    Caffe__V1LayerParameter *layer = net->layers[i];
    for (size_t j = 0; j < layer->n_bottom; ++j) {
      Caffe__V1LayerParameter *maker = find_maker(net, i, layer->bottom[j]);
      if (maker == NULL || !has_type(maker, "padding")) continue;
      CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, absorb_padding(layer, maker)));
    }
  }
  size_t kept = 0;
  for (size_t i = 0; i < net->n_layers; ++i) {
    if (has_type(net->layers[i], "padding")) cr_message_free(&net->layers[i]->base);
    else net->layers[kept++] = net->layers[i];
  }
  net->n_layers = kept;
  return CREMA_OK;
}

static crema_status find_type(const char *name, Caffe__V1LayerParameter__LayerType *out) {
  const char *names[TYPE_COUNT];
  for (size_t i = 0; i < TYPE_COUNT; ++i) {
    names[i] = types[i].name;
    if (strcmp(names[i], name) == 0) {
      *out = types[i].type;
      return CREMA_OK;
    }
  }
  const char *nearest = cr_did_you_mean(name, names, TYPE_COUNT);
  if (nearest == NULL) return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown layer type \"%.200s\"", name);
  return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown layer type \"%.200s\"; did you mean \"%s\"?", name,
                 nearest);
}

/* Moves one given field of the old layer to the corresponding field of the new one. */
static crema_status move_field(Caffe__V0LayerParameter *old, const ProtobufCFieldDescriptor *field,
                               Caffe__V1LayerParameter *layer, bool *moved) {
  const char *type = old->type != NULL ? old->type : "";
  *moved = false;
  for (size_t i = 0; i < ROUTE_COUNT; ++i) {
    if (strcmp(routes[i].field, field->name) != 0) continue;
    if (routes[i].type != NULL && strcmp(routes[i].type, type) != 0) continue;
    ProtobufCMessage *target = &layer->base;
    if (routes[i].param != NULL) CR_TRY(cr_message_inner(target, routes[i].param, &target));
    *moved = true;
    return cr_message_move(&old->base, field->name, target, routes[i].target);
  }
  return CREMA_OK;
}

static crema_status upgrade_layer(Caffe__V1LayerParameter *layer, bool *fine) {
  Caffe__V0LayerParameter *old = layer->layer;
  const ProtobufCMessageDescriptor *type = old->base.descriptor;
  if (old->type != NULL) {
    CR_TRY(find_type(old->type, &layer->type));
    layer->has_type = 1;
  }
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    bool moved;
    if (cr_field_count(&old->base, field) == 0 || strcmp(field->name, "type") == 0) continue;
    CR_TRY(move_field(old, field, layer, &moved));
    if (moved) continue;
    *fine = false;
    cr_log_error("layer \"%.200s\": a layer of type \"%s\" has no field \"%s\"; it is dropped",
                 layer->name != NULL ? layer->name : "", old->type != NULL ? old->type : "",
                 field->name);
  }
  layer->layer = NULL;
  cr_message_free(&old->base);
  return CREMA_OK;
}

crema_status cr_upgrade_v0(cr_upgrade *upgrade) {
  const Caffe__NetParameter *net = upgrade->net;
  CR_TRY(remove_padding(upgrade));
  for (size_t i = 0; i < net->n_layers; ++i) {
    Caffe__V1LayerParameter *layer = net->layers[i];
    if (layer->layer == NULL) continue;
    CR_TRY(cr_upgrade_in_layer(upgrade, &layer->base, upgrade_layer(layer, &upgrade->fine)));
  }
  return CREMA_OK;
}
