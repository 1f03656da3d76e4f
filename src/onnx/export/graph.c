/* Names, nodes, attributes, constants, and the file. */
#include "onnx/export/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "memory/tensor.h"

void cr_onnx_graph_begin(cr_onnx_graph *g, int opset) {
  *g = (cr_onnx_graph){.opset = opset, .layer = "net"};
  onnx__model_proto__init(&g->model);
  onnx__graph_proto__init(&g->graph);
}

void cr_onnx_graph_free(cr_onnx_graph *g) {
  cr_name_map_free(&g->names);
  cr_arena_free(&g->arena);
}

void *cr_onnx_memory(cr_onnx_graph *g, size_t size) {
  void *memory = NULL;
  if (g->status != CREMA_OK) return NULL;
  g->status = cr_arena_alloc(&g->arena, size, &memory);
  return g->status == CREMA_OK ? memory : NULL;
}

static char *copy_text(cr_onnx_graph *g, const char *text) {
  char *copy = NULL;
  if (g->status == CREMA_OK) g->status = cr_arena_text(&g->arena, text, &copy);
  return copy;
}

/* Room for one more pointer in a list of the message. */
static bool grow(cr_onnx_graph *g, void *list, size_t count, size_t *room) {
  void **old = *(void ***)list;
  if (count < *room) return g->status == CREMA_OK;
  const size_t larger = *room == 0 ? 16 : 2 * *room;
  void **grown = cr_onnx_memory(g, larger * sizeof *grown);
  if (grown == NULL) return false;
  if (count > 0) memcpy(grown, old, count * sizeof *grown);
  *(void ***)list = grown;
  *room = larger;
  return true;
}

/* ---- names ------------------------------------------------------------------ */

void cr_onnx_take_name(cr_onnx_graph *g, const char *name) {
  char *copy = copy_text(g, name);
  if (copy != NULL) g->status = cr_name_map_set(&g->names, copy, 1);
}

const char *cr_onnx_name(cr_onnx_graph *g, const char *what) {
  cr_buffer text = {0};
  char *copy = NULL;
  if (g->status != CREMA_OK) return "";
  g->status = cr_buffer_print(&text, "%s/%s", g->layer, what);
  const int last = g->status == CREMA_OK ? cr_name_map_get(&g->names, text.data) : -1;
  int number = last < 0 ? 1 : last;
  const char *base = last < 0 ? NULL : copy_text(g, text.data);
  while (g->status == CREMA_OK && cr_name_map_get(&g->names, text.data) >= 0) {
    cr_buffer_clear(&text);
    g->status = cr_buffer_print(&text, "%s/%s%d", g->layer, what, ++number);
  }
  if (base != NULL && g->status == CREMA_OK) {
    g->status = cr_name_map_set(&g->names, base, number);
  }
  if (g->status == CREMA_OK) copy = copy_text(g, text.data);
  if (copy != NULL) g->status = cr_name_map_set(&g->names, copy, 1);
  cr_buffer_free(&text);
  return copy == NULL ? "" : copy;
}

/* ---- nodes ------------------------------------------------------------------ */

static Onnx__NodeProto *newest(cr_onnx_graph *g) {
  return g->status == CREMA_OK ? g->graph.node[g->graph.n_node - 1] : NULL;
}

static char **copy_list(cr_onnx_graph *g, const char *const *list, size_t count) {
  char **copy = cr_onnx_memory(g, (count > 0 ? count : 1) * sizeof *copy);
  for (size_t i = 0; copy != NULL && i < count; ++i) copy[i] = copy_text(g, list[i]);
  return copy;
}

void cr_onnx_node(cr_onnx_graph *g, const char *op, const char *output, const char *const *inputs) {
  size_t count = 0;
  while (inputs[count] != NULL) ++count;
  Onnx__NodeProto *node = cr_onnx_memory(g, sizeof *node);
  if (node == NULL || !grow(g, &g->graph.node, g->graph.n_node, &g->node_room)) return;
  onnx__node_proto__init(node);
  node->op_type = copy_text(g, op);
  node->name = copy_text(g, output);
  node->n_input = count;
  node->input = copy_list(g, inputs, count);
  node->n_output = 1;
  node->output = copy_list(g, &output, 1);
  g->graph.node[g->graph.n_node++] = node;
}

void cr_onnx_output(cr_onnx_graph *g, const char *output) {
  Onnx__NodeProto *node = newest(g);
  if (node == NULL) return;
  char **list = cr_onnx_memory(g, (node->n_output + 1) * sizeof *list);
  if (list == NULL) return;
  memcpy(list, node->output, node->n_output * sizeof *list);
  list[node->n_output] = copy_text(g, output);
  node->output = list;
  node->n_output += 1;
}

/* A new attribute of the newest node; NULL after a failure. */
static Onnx__AttributeProto *add_attribute(cr_onnx_graph *g, const char *name,
                                           cr_onnx_attribute_type type) {
  Onnx__NodeProto *node = newest(g);
  Onnx__AttributeProto *attribute = cr_onnx_memory(g, sizeof *attribute);
  if (attribute == NULL) return NULL;
  Onnx__AttributeProto **list = cr_onnx_memory(g, (node->n_attribute + 1) * sizeof *list);
  if (list == NULL) return NULL;
  onnx__attribute_proto__init(attribute);
  attribute->name = copy_text(g, name);
  attribute->has_type = 1;
  attribute->type = (int32_t)type;
  if (node->n_attribute > 0) memcpy(list, node->attribute, node->n_attribute * sizeof *list);
  list[node->n_attribute++] = attribute;
  node->attribute = list;
  return attribute;
}

void cr_onnx_int(cr_onnx_graph *g, const char *name, int64_t value) {
  Onnx__AttributeProto *attribute = add_attribute(g, name, CR_ONNX_ATTRIBUTE_INT);
  if (attribute == NULL) return;
  attribute->has_i = 1;
  attribute->i = value;
}

void cr_onnx_ints(cr_onnx_graph *g, const char *name, const int64_t *values, size_t count) {
  Onnx__AttributeProto *attribute = add_attribute(g, name, CR_ONNX_ATTRIBUTE_INTS);
  int64_t *copy = cr_onnx_memory(g, (count > 0 ? count : 1) * sizeof *copy);
  if (attribute == NULL || copy == NULL) return;
  if (count > 0) memcpy(copy, values, count * sizeof *copy);
  attribute->n_ints = count;
  attribute->ints = copy;
}

void cr_onnx_float(cr_onnx_graph *g, const char *name, float value) {
  Onnx__AttributeProto *attribute = add_attribute(g, name, CR_ONNX_ATTRIBUTE_FLOAT);
  if (attribute == NULL) return;
  attribute->has_f = 1;
  attribute->f = value;
}

void cr_onnx_text(cr_onnx_graph *g, const char *name, const char *value) {
  Onnx__AttributeProto *attribute = add_attribute(g, name, CR_ONNX_ATTRIBUTE_STRING);
  char *copy = copy_text(g, value);
  if (attribute == NULL || copy == NULL) return;
  attribute->has_s = 1;
  attribute->s = (ProtobufCBinaryData){strlen(copy), (uint8_t *)copy};
}

/* ---- constants --------------------------------------------------------------- */

/* An initializer whose bytes the caller owns, or which are in the graph's memory. */
static const char *add_initializer(cr_onnx_graph *g, const char *what, cr_onnx_type type,
                                   const crema_shape *shape, const void *bytes, size_t size) {
  const char *name = cr_onnx_name(g, what);
  Onnx__TensorProto *tensor = cr_onnx_memory(g, sizeof *tensor);
  int64_t *dims = cr_onnx_memory(g, ((size_t)shape->axes + 1) * sizeof *dims);
  if (dims == NULL ||
      !grow(g, &g->graph.initializer, g->graph.n_initializer, &g->initializer_room)) {
    return "";
  }
  onnx__tensor_proto__init(tensor);
  memcpy(dims, shape->dim, (size_t)shape->axes * sizeof *dims);
  tensor->name = copy_text(g, name);
  tensor->n_dims = (size_t)shape->axes;
  tensor->dims = dims;
  tensor->has_data_type = 1;
  tensor->data_type = (int32_t)type;
  tensor->has_raw_data = 1;
  tensor->raw_data = (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
  g->graph.initializer[g->graph.n_initializer++] = tensor;
  return name;
}

static size_t count_of(const crema_shape *shape) {
  return (size_t)crema_shape_count(shape, 0, shape->axes);
}

const char *cr_onnx_new_floats(cr_onnx_graph *g, const char *what, const crema_shape *shape,
                               float **out) {
  const size_t size = count_of(shape) * sizeof(float);
  *out = cr_onnx_memory(g, size > 0 ? size : 1);
  if (*out == NULL) return "";
  return add_initializer(g, what, CR_ONNX_FLOAT, shape, *out, size);
}

const char *cr_onnx_floats(cr_onnx_graph *g, const char *what, const crema_shape *shape,
                           const float *values) {
  float *copy;
  const char *name = cr_onnx_new_floats(g, what, shape, &copy);
  if (copy != NULL && count_of(shape) > 0) memcpy(copy, values, count_of(shape) * sizeof *copy);
  return name;
}

const char *cr_onnx_scalar(cr_onnx_graph *g, const char *what, float value) {
  const crema_shape shape = {0};
  return cr_onnx_floats(g, what, &shape, &value);
}

const char *cr_onnx_double(cr_onnx_graph *g, const char *what, double value) {
  const crema_shape shape = {0};
  double *copy = cr_onnx_memory(g, sizeof *copy);
  if (copy == NULL) return "";
  *copy = value;
  return add_initializer(g, what, CR_ONNX_DOUBLE, &shape, copy, sizeof *copy);
}

const char *cr_onnx_integers(cr_onnx_graph *g, const char *what, const int64_t *values,
                             size_t count) {
  const crema_shape shape = {.axes = 1, .dim = {(int64_t)count}};
  int64_t *copy = cr_onnx_memory(g, (count > 0 ? count : 1) * sizeof *copy);
  if (copy == NULL) return "";
  if (count > 0) memcpy(copy, values, count * sizeof *copy);
  return add_initializer(g, what, CR_ONNX_INT64, &shape, copy, count * sizeof *copy);
}

const char *cr_onnx_parameter(cr_onnx_graph *g, const char *what, crema_blob *blob,
                              const crema_shape *shape) {
  const float *values = NULL;
  if (g->status != CREMA_OK) return "";
  if (shape == NULL) shape = &blob->shape;
  g->status = cr_tensor_host_read_floats(blob->data, &values);
  if (g->status != CREMA_OK) return "";
  return add_initializer(g, what, CR_ONNX_FLOAT, shape, values, count_of(shape) * sizeof *values);
}

/* ---- the model ----------------------------------------------------------------- */

/* `open`: the axis with a symbolic size; -1: none. */
static Onnx__TensorShapeProto *make_shape(cr_onnx_graph *g, const crema_shape *shape, int open,
                                          const char *symbol) {
  Onnx__TensorShapeProto *out = cr_onnx_memory(g, sizeof *out);
  void *list = cr_onnx_memory(g, ((size_t)shape->axes + 1) * sizeof(void *));
  if (list == NULL) return NULL;
  onnx__tensor_shape_proto__init(out);
  out->dim = list;
  for (int i = 0; i < shape->axes; ++i) {
    Onnx__TensorShapeProto__Dimension *dim = cr_onnx_memory(g, sizeof *dim);
    if (dim == NULL) return NULL;
    onnx__tensor_shape_proto__dimension__init(dim);
    dim->has_dim_value = i != open;
    dim->dim_value = shape->dim[i];
    if (i == open) dim->dim_param = copy_text(g, symbol);
    out->dim[out->n_dim++] = dim;
  }
  return out;
}

static Onnx__ValueInfoProto *make_info(cr_onnx_graph *g, const char *name, const crema_shape *shape,
                                       int open, const char *symbol) {
  Onnx__ValueInfoProto *info = cr_onnx_memory(g, sizeof *info);
  Onnx__TypeProto *type = cr_onnx_memory(g, sizeof *type);
  Onnx__TypeProto__Tensor *tensor = cr_onnx_memory(g, sizeof *tensor);
  if (tensor == NULL) return NULL;
  onnx__value_info_proto__init(info);
  onnx__type_proto__init(type);
  onnx__type_proto__tensor__init(tensor);
  info->name = copy_text(g, name);
  info->type = type;
  type->tensor_type = tensor;
  tensor->has_elem_type = 1;
  tensor->elem_type = CR_ONNX_FLOAT;
  tensor->shape = make_shape(g, shape, open, symbol);
  return info;
}

static void list_output(cr_onnx_graph *g, Onnx__ValueInfoProto *info) {
  if (info == NULL || !grow(g, &g->graph.output, g->graph.n_output, &g->output_room)) return;
  g->graph.output[g->graph.n_output++] = info;
}

void cr_onnx_graph_input(cr_onnx_graph *g, const char *name, const crema_shape *shape) {
  Onnx__ValueInfoProto *info = make_info(g, name, shape, g->any_batch ? 0 : -1, "batch");
  if (info == NULL || !grow(g, &g->graph.input, g->graph.n_input, &g->input_room)) return;
  g->graph.input[g->graph.n_input++] = info;
}

void cr_onnx_graph_output(cr_onnx_graph *g, const char *name, const crema_shape *shape) {
  list_output(g, make_info(g, name, shape, g->any_batch ? 0 : -1, "batch"));
}

void cr_onnx_graph_open_output(cr_onnx_graph *g, const char *name, const crema_shape *shape,
                               int axis) {
  cr_buffer symbol = {0};
  if (g->status != CREMA_OK) return;
  g->status = cr_buffer_print(&symbol, "rows of %s", name);
  if (g->status == CREMA_OK) list_output(g, make_info(g, name, shape, axis, symbol.data));
  cr_buffer_free(&symbol);
}

void cr_onnx_metadata(cr_onnx_graph *g, const char *key, const char *value) {
  Onnx__StringStringEntryProto *entry = cr_onnx_memory(g, sizeof *entry);
  Onnx__ModelProto *model = &g->model;
  if (entry == NULL) return;
  onnx__string_string_entry_proto__init(entry);
  entry->key = copy_text(g, key);
  entry->value = copy_text(g, value);
  if (!grow(g, &model->metadata_props, model->n_metadata_props, &g->metadata_room)) return;
  model->metadata_props[model->n_metadata_props++] = entry;
}

/* The version of the format in which an operator set appeared. */
static int64_t format_of(int opset) {
  if (opset >= 21) return 10;
  if (opset >= 19) return 9;
  if (opset >= 15) return 8;
  return opset >= 12 ? 7 : 6;
}

crema_status cr_onnx_graph_write(cr_onnx_graph *g, const char *name, const char *path) {
  Onnx__OperatorSetIdProto opset = ONNX__OPERATOR_SET_ID_PROTO__INIT;
  Onnx__OperatorSetIdProto *opsets = &opset;
  opset.domain = (char *)"";
  opset.has_version = 1;
  opset.version = g->opset;
  g->graph.name = copy_text(g, name[0] == '\0' ? "net" : name);
  g->model.producer_name = copy_text(g, "crema");
  g->model.producer_version = copy_text(g, crema_version());
  CR_TRY(g->status);
  g->model.has_ir_version = 1;
  g->model.ir_version = format_of(g->opset);
  g->model.n_opset_import = 1;
  g->model.opset_import = &opsets;
  g->model.graph = &g->graph;
  return cr_message_write_binary(&g->model.base, path);
}
