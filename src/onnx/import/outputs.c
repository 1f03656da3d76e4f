/* The ends of the net: outputs with the names of the graph, and blobs that nothing reads. */
#include "onnx/import/outputs.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "proto/field.h"

/* A node that stands for an output. */
static void make_maker(cr_import *import, Onnx__NodeProto *proto, char **name,
                       cr_import_node *out) {
  static const Onnx__NodeProto nothing = ONNX__NODE_PROTO__INIT;
  *proto = nothing;
  proto->n_output = 1;
  proto->output = name;
  *out = (cr_import_node){.import = import, .proto = proto, .op = "Identity"};
}

/* The name by which layers read a blob is replaced. */
static crema_status rename_blob(cr_import *import, const char *name, const char *to) {
  for (size_t i = 0; i < import->net->n_layer; ++i) {
    Caffe__LayerParameter *layer = import->net->layer[i];
    for (size_t k = 0; k < layer->n_bottom + layer->n_top; ++k) {
      const bool bottom = k < layer->n_bottom;
      char **slot = bottom ? &layer->bottom[k] : &layer->top[k - layer->n_bottom];
      if (strcmp(*slot, name) != 0) continue;
      char *copy = cr_proto_strdup(to);
      if (copy == NULL) return cr_fail_memory(strlen(to) + 1, "a name");
      free(*slot);
      *slot = copy;
    }
  }
  return CREMA_OK;
}

/* A blob that layers read is no output of a net: they get another name for it. An input keeps its
 * name. */
static crema_status keep_output(cr_import *import, cr_import_value *value, const cr_name_map *read,
                                const cr_name_map *inputs) {
  Onnx__NodeProto proto;
  cr_import_node maker;
  char *name = (char *)(uintptr_t)value->name;
  cr_import_value *inner = NULL;
  if (cr_name_map_get(read, value->name) < 0 || cr_name_map_get(inputs, value->name) >= 0) {
    return CREMA_OK;
  }
  make_maker(import, &proto, &name, &maker);
  CR_TRY(cr_import_between(&maker, "inner", value->shape, &inner));
  CR_TRY(rename_blob(import, value->name, inner->name));
  inner->blob = inner->name;
  return cr_import_wide_layer(&maker, &inner, 1, &value, 1, "type: \"Split\"");
}

/* Makes a blob with the output's name if another blob has its values. */
static crema_status make_output(cr_import *import, const char *name) {
  cr_import_value *value = cr_import_find_value(import, name);
  Onnx__NodeProto proto;
  cr_import_node maker;
  char *output = (char *)(uintptr_t)name;
  if (value == NULL) {
    return cr_fail(CREMA_E_CORRUPT, "%s: no node makes the output '%s'", import->model->path, name);
  }
  if (value->blob != NULL && strcmp(value->blob, name) == 0) return CREMA_OK;
  cr_import_value from = *value;
  cr_import_value *bottom = &from;
  make_maker(import, &proto, &output, &maker);
  if (from.blob == NULL) { /* a constant: its Parameter layer gets another name */
    CR_TRY(cr_import_between(&maker, "constant", value->shape, &bottom));
    bottom->floats = value->floats;
    bottom->unread = value->unread;
    bottom->ints = value->ints;
  }
  return cr_import_wide_layer(&maker, &bottom, 1, &value, 1, "type: \"Split\"");
}

/* Names of the blobs that layers read, and of the inputs. */
static crema_status list_blobs(const cr_import *import, cr_name_map *read, cr_name_map *inputs) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  for (size_t i = 0; i < import->net->n_layer; ++i) {
    const Caffe__LayerParameter *layer = import->net->layer[i];
    for (size_t k = 0; k < layer->n_bottom; ++k) {
      const cr_import_value *value = cr_import_find_value(import, layer->bottom[k]);
      /* Names of layers may change; names of values stay. */
      if (value != NULL) CR_TRY(cr_name_map_set(read, value->name, 1));
    }
  }
  for (size_t i = 0; i < graph->n_input; ++i) {
    CR_TRY(cr_name_map_set(inputs, graph->input[i]->name, 1));
  }
  return CREMA_OK;
}

static const char *output_name(const cr_import *import, size_t i) {
  const char *name = import->model->proto->graph->output[i]->name;
  return name == NULL ? "" : name;
}

/* Outputs that are other names of blobs come first, because their layers read these blobs. */
static crema_status make_all(cr_import *import, cr_name_map *read, cr_name_map *inputs) {
  const size_t count = import->model->proto->graph->n_output;
  for (size_t i = 0; i < count; ++i) CR_TRY(make_output(import, output_name(import, i)));
  CR_TRY(list_blobs(import, read, inputs));
  for (size_t i = 0; i < count; ++i) {
    cr_import_value *value = cr_import_find_value(import, output_name(import, i));
    CR_TRY(keep_output(import, value, read, inputs));
  }
  return CREMA_OK;
}

/* ---- blobs that nothing reads --------------------------------------------------------- */

static crema_status silence_all(cr_import *import, cr_name_map *read) {
  static const Onnx__NodeProto nothing = ONNX__NODE_PROTO__INIT;
  cr_import_node maker = {.import = import, .proto = &nothing, .op = "Silence"};
  const Onnx__GraphProto *graph = import->model->proto->graph;
  const size_t layers = import->net->n_layer;
  for (size_t i = 0; i < graph->n_output; ++i) {
    CR_TRY(cr_name_map_set(read, output_name(import, i), 1));
  }
  for (size_t i = 0; i < layers; ++i) {
    const Caffe__LayerParameter *layer = import->net->layer[i];
    for (size_t k = 0; k < layer->n_bottom; ++k) {
      CR_TRY(cr_name_map_set(read, layer->bottom[k], 1));
    }
  }
  for (size_t i = 0; i < layers; ++i) {
    for (size_t k = 0; k < import->net->layer[i]->n_top; ++k) {
      const char *top = import->net->layer[i]->top[k];
      cr_import_value value = {.name = top, .blob = top};
      cr_import_value *bottom = &value;
      if (cr_name_map_get(read, top) >= 0) continue;
      CR_TRY(cr_import_wide_layer(&maker, &bottom, 1, NULL, 0, "type: \"Silence\""));
    }
  }
  return CREMA_OK;
}

crema_status cr_import_make_outputs(cr_import *import) {
  cr_name_map read = {0}, inputs = {0}, end = {0};
  crema_status status = make_all(import, &read, &inputs);
  if (status == CREMA_OK) status = silence_all(import, &end);
  cr_name_map_free(&end);
  cr_name_map_free(&inputs);
  cr_name_map_free(&read);
  return status;
}
