/* What operators ask of their node: attributes and values; and how they reject it. */
#include "onnx/import/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

cr_import_value *cr_import_find_value(const cr_import *import, const char *name) {
  const int at = cr_name_map_get(&import->index, name);
  return at < 0 ? NULL : import->value[at];
}

crema_status cr_import_add_value(cr_import *import, const char *name, cr_import_value **out) {
  void *value;
  if (import->values == import->capacity) {
    const int capacity = import->capacity == 0 ? 64 : 2 * import->capacity;
    void *grown = realloc(import->value, (size_t)capacity * sizeof *import->value);
    if (grown == NULL) return cr_fail_memory((size_t)capacity * sizeof(void *), "values");
    import->value = grown;
    import->capacity = capacity;
  }
  CR_TRY(cr_arena_alloc(&import->arena, sizeof(cr_import_value), &value));
  CR_TRY(cr_name_map_set(&import->index, name, import->values));
  import->value[import->values++] = *out = value;
  (*out)->name = name;
  return CREMA_OK;
}

/* The place of a node for messages: its name, or its first output. */
static const char *place(const Onnx__NodeProto *node) {
  if (node->name != NULL && node->name[0] != '\0') return node->name;
  return node->n_output > 0 ? node->output[0] : "";
}

crema_status cr_import_reject(cr_import_node *node, const char *reason, ...) {
  cr_import *import = node->import;
  char text[512];
  va_list args;
  va_start(args, reason);
  (void)vsnprintf(text, sizeof text, reason, args);
  va_end(args);
  CR_TRY(cr_buffer_print(&import->rejected, "\n  node '%.200s' (%.80s): %s", place(node->proto),
                         node->op, text));
  ++import->rejections;
  return cr_fail(CREMA_E_UNSUPPORTED, "%s", text);
}

const Onnx__AttributeProto *cr_import_attribute(const cr_import_node *node, const char *name) {
  for (size_t i = 0; i < node->proto->n_attribute; ++i) {
    const Onnx__AttributeProto *attribute = node->proto->attribute[i];
    if (attribute->name != NULL && strcmp(attribute->name, name) == 0) return attribute;
  }
  return NULL;
}

int64_t cr_import_int(const cr_import_node *node, const char *name, int64_t fallback) {
  const Onnx__AttributeProto *attribute = cr_import_attribute(node, name);
  return attribute == NULL ? fallback : attribute->i;
}

float cr_import_float(const cr_import_node *node, const char *name, float fallback) {
  const Onnx__AttributeProto *attribute = cr_import_attribute(node, name);
  return attribute == NULL ? fallback : attribute->f;
}

const int64_t *cr_import_ints(const cr_import_node *node, const char *name, size_t *count) {
  const Onnx__AttributeProto *attribute = cr_import_attribute(node, name);
  *count = attribute == NULL ? 0 : attribute->n_ints;
  return *count == 0 ? NULL : attribute->ints;
}

bool cr_import_is_text(const cr_import_node *node, const char *name, const char *value,
                       bool fallback) {
  const Onnx__AttributeProto *attribute = cr_import_attribute(node, name);
  if (attribute == NULL) return fallback;
  const size_t size = strlen(value);
  return attribute->s.len == size && memcmp(attribute->s.data, value, size) == 0;
}

static crema_status index_readers(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  size_t count = 1;
  int at = 0;
  void *readers;
  for (size_t i = 0; i < graph->n_node; ++i) {
    if (import->node[i] != NULL) count += import->node[i]->n_input;
  }
  CR_TRY(cr_arena_alloc(&import->arena, count * sizeof *import->reader, &readers));
  import->reader = readers;
  for (size_t i = 0; i < graph->n_node; ++i) {
    for (size_t j = 0; import->node[i] != NULL && j < import->node[i]->n_input; ++j) {
      const char *name = import->node[i]->input[j];
      import->reader[at] = (cr_import_reader){(int)i, cr_name_map_get(&import->reader_index, name)};
      CR_TRY(cr_name_map_set(&import->reader_index, name, at++));
    }
  }
  return CREMA_OK;
}

crema_status cr_import_is_read_by(cr_import_node *node, const char *op, bool *out) {
  cr_import *import = node->import;
  const char *name = node->output[0]->name;
  if (import->reader == NULL) CR_TRY(index_readers(import));
  int at = cr_name_map_get(&import->reader_index, name);
  const Onnx__GraphProto *graph = import->model->proto->graph;
  *out = at >= 0;
  for (size_t i = 0; i < graph->n_output && *out; ++i) { /* the program reads outputs */
    *out = graph->output[i]->name == NULL || strcmp(graph->output[i]->name, name) != 0;
  }
  for (; at >= 0 && *out; at = import->reader[at].next) {
    const Onnx__NodeProto *reader = import->node[import->reader[at].node];
    *out = reader->op_type != NULL && strcmp(reader->op_type, op) == 0 &&
           strcmp(reader->input[0], name) == 0;
    for (size_t i = 1; i < reader->n_input && *out; ++i) {
      *out = strcmp(reader->input[i], name) != 0;
    }
  }
  return CREMA_OK;
}

cr_import_value *cr_import_input(const cr_import_node *node, int index) {
  return index < node->inputs ? node->input[index] : NULL;
}

bool cr_import_is_constant(const cr_import_value *value) {
  return value->floats != NULL || value->ints != NULL;
}

int64_t cr_import_count(const cr_import_value *value) {
  return crema_shape_count(value->shape, 0, value->shape->axes);
}

crema_status cr_import_axis(cr_import_node *node, int64_t axis, int axes, int *out) {
  const int64_t place_of = axis < 0 ? axis + axes : axis;
  if (place_of < 0 || place_of >= axes) {
    return cr_import_reject(node, "axis %lld of a tensor with %d axes", (long long)axis, axes);
  }
  *out = (int)place_of;
  return CREMA_OK;
}

crema_status cr_import_int_list(cr_import_node *node, const char *name, int index,
                                const int64_t **out, size_t *count) {
  const cr_import_value *input = cr_import_input(node, index);
  *out = cr_import_ints(node, name, count);
  if (*out != NULL || input == NULL) return CREMA_OK;
  if (input->ints == NULL) return cr_import_reject(node, "%s must be constant", name);
  *out = input->ints;
  *count = (size_t)cr_import_count(input);
  return CREMA_OK;
}

crema_status cr_import_set_shape(cr_import *import, cr_import_value *value,
                                 const crema_shape *shape) {
  void *copy;
  CR_TRY(crema_shape_check(shape));
  CR_TRY(cr_arena_alloc(&import->arena, sizeof *shape, &copy));
  memcpy(copy, shape, sizeof *shape);
  value->shape = copy;
  return CREMA_OK;
}

static crema_status allocate_numbers(cr_import *import, cr_import_value *value,
                                     const crema_shape *shape, size_t width, void **out) {
  CR_TRY(cr_import_set_shape(import, value, shape));
  const size_t count = (size_t)cr_import_count(value);
  return cr_arena_alloc(&import->arena, (count > 0 ? count : 1) * width, out);
}

crema_status cr_import_make_floats(cr_import *import, cr_import_value *value,
                                   const crema_shape *shape, float **out) {
  void *numbers;
  CR_TRY(allocate_numbers(import, value, shape, sizeof **out, &numbers));
  value->type = CR_ONNX_FLOAT;
  value->floats = *out = numbers;
  return CREMA_OK;
}

crema_status cr_import_make_ints(cr_import *import, cr_import_value *value,
                                 const crema_shape *shape, int64_t **out) {
  void *numbers;
  CR_TRY(allocate_numbers(import, value, shape, sizeof **out, &numbers));
  value->type = CR_ONNX_INT64;
  value->ints = *out = numbers;
  return CREMA_OK;
}

void cr_import_alias(cr_import_value *to, const cr_import_value *from) {
  to->shape = from->shape;
  to->type = from->type;
  to->floats = from->floats;
  to->ints = from->ints;
  to->blob = from->blob;
  to->zeros = from->zeros;
}

crema_status cr_import_between(cr_import_node *node, const char *what, const crema_shape *shape,
                               cr_import_value **out) {
  cr_import *import = node->import;
  cr_buffer name = {0};
  char *copy = NULL;
  crema_status status = cr_buffer_print(&name, "%s/%s", place(node->proto), what);
  for (int number = 2; status == CREMA_OK && cr_import_find_value(import, name.data) != NULL;
       number += number < 10 ? 1 : import->values) {
    cr_buffer_clear(&name);
    status = cr_buffer_print(&name, "%s/%s%d", place(node->proto), what, number);
  }
  if (status == CREMA_OK) status = cr_arena_text(&import->arena, name.data, &copy);
  cr_buffer_free(&name);
  CR_TRY(status);
  CR_TRY(cr_import_add_value(import, copy, out));
  (*out)->type = CR_ONNX_FLOAT;
  return cr_import_set_shape(import, *out, shape);
}
