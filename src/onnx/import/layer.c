/* Layers of the net that an import makes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/graph.h"
#include "proto/field.h"

/* A name for a layer that no other layer has: `base`, with a number if it is taken. */
static crema_status name_layer(cr_import *import, const char *base, cr_buffer *out) {
  char *copy = NULL;
  CR_TRY(cr_buffer_print(out, "%s", base));
  for (int number = 2; cr_name_map_get(&import->layer_index, out->data) >= 0;
       number += number < 10 ? 1 : (int)import->net->n_layer) {
    cr_buffer_clear(out);
    CR_TRY(cr_buffer_print(out, "%s/%d", base, number));
  }
  CR_TRY(cr_arena_text(&import->arena, out->data, &copy));
  return cr_name_map_set(&import->layer_index, copy, 1);
}

static crema_status set_text(char **slot, const char *text) {
  *slot = cr_proto_strdup(text);
  return *slot != NULL ? CREMA_OK : cr_fail_memory(strlen(text) + 1, "a name");
}

static crema_status take_name(cr_import *import, const char *base, Caffe__LayerParameter *layer) {
  cr_buffer name = {0};
  crema_status status = name_layer(import, base, &name);
  if (status == CREMA_OK) status = set_text(&layer->name, name.data);
  cr_buffer_free(&name);
  return status;
}

/* Takes the layer over, also after a failure. */
static crema_status append(cr_import *import, Caffe__LayerParameter *layer) {
  crema_status status = cr_message_reserve(&import->net->base, "layer", 1);
  if (status == CREMA_OK) import->net->layer[import->net->n_layer++] = layer;
  else cr_message_free(&layer->base);
  return status;
}

static crema_status parse_layer(const char *text, size_t size, Caffe__LayerParameter **out) {
  ProtobufCMessage *message = NULL;
  CR_TRY(cr_text_parse(&caffe__layer_parameter__descriptor, text, size, "an imported layer",
                       CR_UNKNOWN_ERROR, &message));
  *out = (Caffe__LayerParameter *)message;
  return CREMA_OK;
}

crema_status cr_import_weights(cr_import *import, const crema_shape *shape, float **out) {
  Caffe__LayerParameter *layer = import->net->layer[import->net->n_layer - 1];
  Caffe__BlobProto *blob = NULL;
  CR_TRY(crema_shape_check(shape));
  CR_TRY(cr_message_reserve(&layer->base, "blobs", 1));
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, &blob));
  layer->blobs[layer->n_blobs++] = blob;
  CR_TRY(cr_message_inner(&blob->base, "shape", &blob->shape));
  CR_TRY(cr_message_reserve(&blob->shape->base, "dim", (size_t)shape->axes));
  for (int i = 0; i < shape->axes; ++i) blob->shape->dim[blob->shape->n_dim++] = shape->dim[i];
  const size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  CR_TRY(cr_message_reserve(&blob->base, "data", count));
  blob->n_data = count;
  *out = blob->data;
  return CREMA_OK;
}

crema_status cr_import_weights_of(cr_import *import, const crema_shape *shape,
                                  const float *values) {
  float *to;
  CR_TRY(cr_import_weights(import, shape, &to));
  const size_t count = (size_t)crema_shape_count(shape, 0, shape->axes);
  if (count > 0) memcpy(to, values, count * sizeof *to);
  return CREMA_OK;
}

crema_status cr_import_weights_from(cr_import *import, const crema_shape *shape,
                                    const cr_import_value *value) {
  float *to;
  const size_t size = (size_t)crema_shape_count(shape, 0, shape->axes) * sizeof *to;
  if (value->unread == NULL || !cr_onnx_model_is_in_file(import->model, value->unread)) {
    const void *from = value->unread != NULL ? (const void *)value->unread : value->floats;
    CR_TRY(cr_import_weights(import, shape, &to));
    if (size > 0) memcpy(to, from, size);
    return CREMA_OK;
  }
  CR_TRY(cr_import_weights(import, shape, &to));
  return cr_onnx_model_copy(import->model, value->unread, size, to);
}

/* Puts a constant into the net: a Parameter layer whose top has its name. */
static crema_status add_constant(cr_import_node *node, cr_import_value *value) {
  cr_import *import = node->import;
  cr_buffer text = {0};
  Caffe__LayerParameter *layer = NULL;
  crema_status status = cr_buffer_print(&text, "type: \"Parameter\" parameter_param { shape {");
  for (int i = 0; i < value->shape->axes && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&text, " dim: %lld", (long long)value->shape->dim[i]);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " } }");
  if (status == CREMA_OK) status = parse_layer(text.data, text.size, &layer);
  cr_buffer_free(&text);
  CR_TRY(status);
  CR_TRY(append(import, layer));
  CR_TRY(take_name(import, value->name, layer));
  CR_TRY(cr_message_reserve(&layer->base, "top", 1));
  CR_TRY(set_text(&layer->top[layer->n_top++], value->name));
  value->blob = value->name;
  if (value->floats != NULL) return cr_import_weights_from(import, value->shape, value);
  float *to;
  CR_TRY(cr_import_weights(import, value->shape, &to));
  const int64_t count = cr_import_count(value);
  for (int64_t i = 0; i < count; ++i) to[i] = (float)value->ints[i];
  return CREMA_OK;
}

static crema_status set_ends(Caffe__LayerParameter *layer, cr_import_value *const *bottom,
                             int bottoms, cr_import_value *const *top, int tops) {
  CR_TRY(cr_message_reserve(&layer->base, "bottom", (size_t)bottoms));
  for (int i = 0; i < bottoms; ++i) {
    CR_TRY(set_text(&layer->bottom[layer->n_bottom], bottom[i]->blob));
    layer->n_bottom += 1;
  }
  CR_TRY(cr_message_reserve(&layer->base, "top", (size_t)tops));
  for (int i = 0; i < tops; ++i) {
    top[i]->blob = top[i]->name;
    CR_TRY(set_text(&layer->top[layer->n_top], top[i]->blob));
    layer->n_top += 1;
  }
  return CREMA_OK;
}

crema_status cr_import_wide_layer(cr_import_node *node, cr_import_value *const *bottom, int bottoms,
                                  cr_import_value *const *top, int tops, const char *text) {
  cr_import *import = node->import;
  Caffe__LayerParameter *layer = NULL;
  for (int i = 0; i < bottoms; ++i) {
    if (bottom[i]->blob == NULL) CR_TRY(add_constant(node, bottom[i]));
  }
  CR_TRY(parse_layer(text, strlen(text), &layer));
  CR_TRY(append(import, layer));
  const char *given = node->proto->name;
  const bool named = given != NULL && given[0] != '\0';
  const char *base = named ? given : node->proto->n_output > 0 ? node->proto->output[0] : node->op;
  CR_TRY(take_name(import, base, layer));
  return set_ends(layer, bottom, bottoms, top, tops);
}

static int length_of(cr_import_value *const *list) {
  int length = 0;
  while (list[length] != NULL) ++length;
  return length;
}

static crema_status add_layer(cr_import_node *node, const cr_import_ends *ends, const char *text,
                              va_list args) {
  char fields[1024];
  const int size = vsnprintf(fields, sizeof fields, text, args);
  if (size < 0 || (size_t)size >= sizeof fields) {
    return cr_fail(CREMA_E_INTERNAL, "the text of an imported layer is too long");
  }
  return cr_import_wide_layer(node, ends->bottom, length_of(ends->bottom), ends->top,
                              length_of(ends->top), fields);
}

crema_status cr_import_layer(cr_import_node *node, const cr_import_ends *ends, const char *text,
                             ...) {
  va_list args;
  va_start(args, text);
  crema_status status = add_layer(node, ends, text, args);
  va_end(args);
  return status;
}

crema_status cr_import_simple(cr_import_node *node, const char *text, ...) {
  const cr_import_ends ends = {.bottom = {node->input[0]}, .top = {node->output[0]}};
  va_list args;
  CR_TRY(cr_import_set_shape(node->import, node->output[0], node->input[0]->shape));
  va_start(args, text);
  crema_status status = add_layer(node, &ends, text, args);
  va_end(args);
  return status;
}
