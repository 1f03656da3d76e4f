/* BatchNorm of the NVIDIA dialect, which can scale and shift by itself, to a BatchNorm and a Scale
 * layer behind it. Its parameters 0 to 2 are the statistics (mean, variance, one value without a
 * meaning), 3 the scale and 4 the shift. Models of its early versions, as of DIGITS, have them in
 * another order: scale, shift, mean, variance, one value. Models of BVLC have three: sums of means
 * and of variances and what to divide them by, which the BatchNorm layer does. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { STATISTICS = 3, PARAMETERS = 5 };

/* The product of the four extents of old files; 0 when there are none. */
static int64_t count_of_legacy(const Caffe__BlobProto *blob) {
  const int32_t extent[] = {blob->num, blob->channels, blob->height, blob->width};
  int64_t count = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  for (int i = 0; i < 4; ++i) count *= extent[i] > 0 && count < INT32_MAX ? extent[i] : 0;
  return count;
}

/* The number of elements; 0 when the extents make no sense. */
static int64_t count_of(const Caffe__BlobProto *blob) {
  int64_t count = 1;
  bool legacy = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  if (blob->shape == NULL) return legacy ? count_of_legacy(blob) : 1;
  for (size_t i = 0; i < blob->shape->n_dim; ++i) {
    int64_t extent = blob->shape->dim[i];
    count *= extent > 0 && extent < INT32_MAX && count < INT32_MAX ? extent : 0;
  }
  return count;
}

static bool has_extents(const Caffe__BlobProto *blob) {
  return blob->shape != NULL || count_of_legacy(blob) > 0;
}

/* Whether the values of a layer that scales are given, in one of the two orders. */
static bool has_scaling_blobs(const Caffe__LayerParameter *layer) {
  int64_t count[PARAMETERS];
  if (layer->n_blobs != PARAMETERS) return false;
  for (int i = 0; i < PARAMETERS; ++i) {
    if (!has_extents(layer->blobs[i])) return false;
    count[i] = count_of(layer->blobs[i]);
  }
  bool one = count[2] == 1 ? count[4] == count[0] : count[2] == count[0] && count[4] == 1;
  return one && count[0] == count[1] && count[0] == count[3];
}

/* As in that dialect, a filler means scale_bias; so do the parameters that it needs. */
static bool scales(const Caffe__LayerParameter *layer) {
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  if (layer->type == NULL || strcmp(layer->type, "BatchNorm") != 0) return false;
  if (layer->n_top != 1) return false;
  return has_scaling_blobs(layer) ||
         (norm != NULL && (norm->scale_bias || norm->scale_filler || norm->bias_filler));
}

static size_t count_scaling(const Caffe__NetParameter *net) {
  size_t count = 0;
  for (size_t i = 0; i < net->n_layer; ++i) count += scales(net->layer[i]);
  return count;
}

bool cr_upgrade_norm_needed(const Caffe__NetParameter *net) {
  return count_scaling(net) > 0;
}

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name) {
  return protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
}

static void clear(ProtobufCMessage *message, const char *field) {
  cr_field_clear(message, field_of(message, field));
}

static crema_status set_text(char **slot, const char *text, const char *suffix) {
  size_t size = strlen(text) + strlen(suffix) + 1;
  char *made = cr_proto_alloc(size);
  if (made == NULL) return cr_fail_memory(size, "a Scale layer");
  memcpy(made, text, strlen(text));
  memcpy(made + strlen(text), suffix, strlen(suffix) + 1);
  *slot = made;
  return CREMA_OK;
}

/* Drops messages `from` to `to` - 1 of a repeated field. */
static void drop(ProtobufCMessage ***array, size_t *count, size_t from, size_t to) {
  if (to > *count) to = *count;
  if (from >= to) return;
  for (size_t i = from; i < to; ++i) cr_message_free((*array)[i]);
  memmove(*array + from, *array + to, (*count - to) * sizeof **array);
  *count -= to - from;
}

/* Keeps only the layer's parameters, shared or stored, with indices in [from, to). */
static void keep_parameters(Caffe__LayerParameter *layer, size_t from, size_t to) {
  static const char *const fields[] = {"param", "blobs"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    const ProtobufCFieldDescriptor *field = field_of(&layer->base, fields[i]);
    ProtobufCMessage ***array = cr_field_slot(&layer->base, field);
    size_t *count = cr_field_length(&layer->base, field);
    drop(array, count, to, *count);
    drop(array, count, 0, from);
    if (*count == 0) cr_field_clear(&layer->base, field);
  }
}

/* That dialect learns scale and shift at the full rate and the statistics not at all, whatever
 * the multipliers say. */
static void set_multipliers(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale) {
  for (size_t i = 0; i < norm->n_param; ++i) {
    norm->param[i]->has_lr_mult = norm->param[i]->has_decay_mult = 1;
    norm->param[i]->lr_mult = norm->param[i]->decay_mult = 0.0F;
  }
  for (size_t i = 0; i < scale->n_param; ++i) {
    clear(&scale->param[i]->base, "lr_mult");
    clear(&scale->param[i]->base, "decay_mult");
  }
}

static crema_status move_fillers(Caffe__BatchNormParameter *norm, Caffe__LayerParameter *layer) {
  ProtobufCMessage *param;
  CR_TRY(cr_field_message(&layer->base, field_of(&layer->base, "scale_param"), &param));
  Caffe__ScaleParameter *scale = (Caffe__ScaleParameter *)param;
  scale->has_bias_term = 1;
  scale->bias_term = 1;
  if (norm == NULL) return CREMA_OK;
  if (norm->scale_filler != NULL) {
    CR_TRY(cr_field_move(&norm->base, field_of(&norm->base, "scale_filler"), param,
                         field_of(param, "filler")));
  }
  if (norm->bias_filler != NULL) {
    CR_TRY(cr_field_move(&norm->base, field_of(&norm->base, "bias_filler"), param,
                         field_of(param, "bias_filler")));
  }
  clear(&norm->base, "scale_bias");
  return CREMA_OK;
}

/* `scale` is a copy of `norm`, and keeps its rules. It works in place on the top of `norm`. */
static crema_status divide(Caffe__LayerParameter *norm, Caffe__LayerParameter *scale) {
  clear(&scale->base, "name");
  clear(&scale->base, "type");
  clear(&scale->base, "bottom");
  clear(&scale->base, "propagate_down");
  clear(&scale->base, "batch_norm_param");
  clear(&norm->base, "loss_weight");
  CR_TRY(set_text(&scale->name, norm->name != NULL ? norm->name : "", CR_UPGRADED_SCALE));
  CR_TRY(set_text(&scale->type, "Scale", ""));
  CR_TRY(cr_field_reserve(&scale->base, field_of(&scale->base, "bottom"), 1));
  CR_TRY(set_text(&scale->bottom[0], scale->top[0], ""));
  scale->n_bottom = 1;
  keep_parameters(norm, 0, STATISTICS);
  keep_parameters(scale, STATISTICS, SIZE_MAX);
  set_multipliers(norm, scale);
  return move_fillers(norm->batch_norm_param, scale);
}

/* A blob of one value, 1. */
static crema_status one_blob(Caffe__BlobProto **out) {
  ProtobufCMessage *shape = NULL, *blob = NULL;
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, &blob));
  Caffe__BlobProto *made = (Caffe__BlobProto *)blob;
  crema_status status = cr_field_message(blob, field_of(blob, "shape"), &shape);
  if (status == CREMA_OK) status = cr_field_reserve(blob, field_of(blob, "data"), 1);
  if (status == CREMA_OK) status = cr_field_reserve(shape, field_of(shape, "dim"), 1);
  if (status != CREMA_OK) {
    cr_message_free(blob);
    return status;
  }
  made->shape->dim[0] = 1;
  made->shape->n_dim = 1;
  made->data[0] = 1.0F;
  made->n_data = 1;
  *out = made;
  return CREMA_OK;
}

/* Early models have extents of 1 around the channels, in either field. */
static crema_status flatten(Caffe__BlobProto *blob) {
  ProtobufCMessage *shape = NULL;
  int64_t count = count_of(blob);
  bool legacy = blob->shape == NULL && count_of_legacy(blob) > 0;
  if (count == 0 || (!legacy && (blob->shape == NULL || blob->shape->n_dim < 2))) return CREMA_OK;
  CR_TRY(cr_field_message(&blob->base, field_of(&blob->base, "shape"), &shape));
  if (legacy) CR_TRY(cr_field_reserve(shape, field_of(shape, "dim"), 1));
  blob->shape->dim[0] = count;
  blob->shape->n_dim = 1;
  clear(&blob->base, "num");
  clear(&blob->base, "channels");
  clear(&blob->base, "height");
  clear(&blob->base, "width");
  return CREMA_OK;
}

/* Brings five parameters into today's order. That dialect's mean and variance are no sums, so that
 * they are divided by 1. With a single channel all have one value, and the order is today's. */
static crema_status order_parameters(Caffe__LayerParameter *norm) {
  Caffe__BlobProto **blob = norm->blobs, *one = NULL;
  if (norm->n_blobs != PARAMETERS) return CREMA_OK;
  for (int i = 0; i < PARAMETERS; ++i) CR_TRY(flatten(blob[i]));
  CR_TRY(one_blob(&one));
  if (count_of(blob[4]) == 1 && count_of(blob[2]) != 1) {
    Caffe__BlobProto *old[PARAMETERS];
    memcpy(old, blob, sizeof old);
    blob[0] = old[2];
    blob[1] = old[3];
    blob[2] = old[4];
    blob[3] = old[0];
    blob[4] = old[1];
  }
  cr_message_free(&blob[2]->base);
  blob[2] = one;
  return CREMA_OK;
}

crema_status cr_upgrade_norm(Caffe__NetParameter *net) {
  size_t extra = count_scaling(net);
  CR_TRY(cr_field_reserve(&net->base, field_of(&net->base, "layer"), extra));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    ProtobufCMessage *scale;
    if (!scales(net->layer[i])) continue;
    CR_TRY(order_parameters(net->layer[i]));
    CR_TRY(cr_message_copy(&net->layer[i]->base, &scale));
    memmove(net->layer + i + 2, net->layer + i + 1, (net->n_layer - i - 1) * sizeof *net->layer);
    net->layer[i + 1] = (Caffe__LayerParameter *)scale;
    ++net->n_layer;
    CR_TRY(divide(net->layer[i], net->layer[i + 1]));
  }
  return CREMA_OK;
}
