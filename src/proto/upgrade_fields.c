/* Tools of the upgrade steps. */
#include <string.h>

#include "core/fail.h"
#include "proto/upgrade.h"

static cr_where where_of(const ProtobufCMessage *message) {
  if (message->descriptor == &caffe__layer_parameter__descriptor) {
    const Caffe__LayerParameter *layer = (const Caffe__LayerParameter *)message;
    return (cr_where){.layer = cr_upgrade_name(layer), .type = layer->type};
  }
  const Caffe__V1LayerParameter *layer = (const Caffe__V1LayerParameter *)message;
  const Caffe__V0LayerParameter *first = layer->layer;
  const char *name = first != NULL && first->name != NULL ? first->name : layer->name;
  return (cr_where){.layer = name != NULL ? name : "", .type = first != NULL ? first->type : NULL};
}

crema_status cr_upgrade_in_layer(cr_upgrade *upgrade, const ProtobufCMessage *layer,
                                 crema_status status) {
  const cr_where where = where_of(layer);
  if (status != CREMA_OK) upgrade->line = cr_layer_line(layer);
  return cr_fail_where(status, &where);
}

crema_status cr_upgrade_twice(const char *one, const char *preferred) {
  return cr_fail(CREMA_E_PARSE, "both \"%s\" and \"%s\" are given; use \"%s\"", one, preferred,
                 preferred);
}

crema_status cr_upgrade_text(char **slot, const char *text, const char *suffix) {
  const size_t length = strlen(text), size = length + strlen(suffix) + 1;
  char *made = cr_proto_alloc(size);
  if (made == NULL) return cr_fail_memory(size, "a layer's text");
  memcpy(made, text, length);
  memcpy(made + length, suffix, size - length);
  *slot = made;
  return CREMA_OK;
}

const char *cr_upgrade_name(const Caffe__LayerParameter *layer) {
  return layer->name != NULL ? layer->name : "";
}

bool cr_upgrade_any(const Caffe__NetParameter *net, bool (*needs)(const Caffe__LayerParameter *)) {
  for (size_t i = 0; i < net->n_layer; ++i) {
    if (needs(net->layer[i])) return true;
  }
  return false;
}

bool cr_upgrade_is_of(const Caffe__LayerParameter *layer, const char *type) {
  return layer->type != NULL && strcmp(layer->type, type) == 0;
}

crema_status cr_upgrade_set_type(Caffe__LayerParameter *layer, const char *type) {
  cr_message_clear(&layer->base, "type");
  return cr_upgrade_text(&layer->type, type, "");
}

crema_status cr_upgrade_set_bottom(Caffe__LayerParameter *layer, const char *blob) {
  cr_message_clear(&layer->base, "bottom");
  cr_message_clear(&layer->base, "propagate_down");
  CR_TRY(cr_message_reserve(&layer->base, "bottom", 1));
  CR_TRY(cr_upgrade_text(&layer->bottom[0], blob, ""));
  layer->n_bottom = 1;
  return CREMA_OK;
}

crema_status cr_upgrade_double(Caffe__NetParameter *net, size_t index) {
  Caffe__LayerParameter *copy = NULL;
  CR_TRY(cr_message_reserve(&net->base, "layer", 1));
  CR_TRY(cr_message_copy(&net->layer[index]->base, &copy));
  Caffe__LayerParameter **layer = net->layer + index + 1;
  memmove(layer + 1, layer, (net->n_layer - index - 1) * sizeof *layer);
  *layer = copy;
  ++net->n_layer;
  return CREMA_OK;
}

/* The product of the four extents of old files; 0 when there are none. */
static int64_t count_of_legacy(const Caffe__BlobProto *blob) {
  const int32_t extent[] = {blob->num, blob->channels, blob->height, blob->width};
  int64_t count = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  for (int i = 0; i < 4; ++i) count *= extent[i] > 0 && count < INT32_MAX ? extent[i] : 0;
  return count;
}

int64_t cr_upgrade_count(const Caffe__BlobProto *blob) {
  int64_t count = 1;
  bool legacy = blob->has_num || blob->has_channels || blob->has_height || blob->has_width;
  if (blob->shape == NULL) return legacy ? count_of_legacy(blob) : 1;
  for (size_t i = 0; i < blob->shape->n_dim; ++i) {
    int64_t extent = blob->shape->dim[i];
    count *= extent > 0 && extent < INT32_MAX && count < INT32_MAX ? extent : 0;
  }
  return count;
}

bool cr_upgrade_has_extents(const Caffe__BlobProto *blob) {
  return blob->shape != NULL || count_of_legacy(blob) > 0;
}

crema_status cr_upgrade_flatten(Caffe__BlobProto *blob) {
  static const char *const legacy_fields[] = {"num", "channels", "height", "width"};
  Caffe__BlobShape *shape = NULL;
  const int64_t count = cr_upgrade_count(blob);
  const bool legacy = blob->shape == NULL && count_of_legacy(blob) > 0;
  if (count == 0 || (!legacy && (blob->shape == NULL || blob->shape->n_dim < 2))) return CREMA_OK;
  CR_TRY(cr_message_inner(&blob->base, "shape", &shape));
  if (legacy) CR_TRY(cr_message_reserve(&shape->base, "dim", 1));
  shape->dim[0] = count;
  shape->n_dim = 1;
  for (int i = 0; i < 4; ++i) cr_message_clear(&blob->base, legacy_fields[i]);
  return CREMA_OK;
}
