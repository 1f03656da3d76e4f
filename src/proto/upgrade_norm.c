/* BatchNorm of the NVIDIA dialect, which can scale and shift by itself, to a BatchNorm and a Scale
 * layer behind it. Its parameters 0 to 2 are the statistics, 3 the scale and 4 the shift. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

enum { STATISTICS = 3 };

/* As in that dialect, a filler means scale_bias. */
static bool scales(const Caffe__LayerParameter *layer) {
  const Caffe__BatchNormParameter *norm = layer->batch_norm_param;
  if (norm == NULL || layer->type == NULL || strcmp(layer->type, "BatchNorm") != 0) return false;
  return layer->n_top == 1 && (norm->scale_bias || norm->scale_filler || norm->bias_filler);
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

crema_status cr_upgrade_norm(Caffe__NetParameter *net) {
  size_t extra = count_scaling(net);
  CR_TRY(cr_field_reserve(&net->base, field_of(&net->base, "layer"), extra));
  /* Back to front, so that the layers that are added are not visited. */
  for (size_t i = net->n_layer; i-- > 0;) {
    ProtobufCMessage *scale;
    if (!scales(net->layer[i])) continue;
    CR_TRY(cr_message_copy(&net->layer[i]->base, &scale));
    memmove(net->layer + i + 2, net->layer + i + 1, (net->n_layer - i - 1) * sizeof *net->layer);
    net->layer[i + 1] = (Caffe__LayerParameter *)scale;
    ++net->n_layer;
    CR_TRY(divide(net->layer[i], net->layer[i + 1]));
  }
  return CREMA_OK;
}
