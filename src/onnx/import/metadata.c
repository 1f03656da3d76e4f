#include "onnx/import/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "onnx/format/group.h"
#include "proto/field.h"

/* A layer in the metadata, and its nodes. */
typedef struct described_layer {
  const char *name;  /* of the layer */
  const char *lines; /* the shapes and parameters, up to the line "layer" */
  size_t first, count;
  bool valid;
  Caffe__LayerParameter *layer;
} described_layer;

struct cr_import_groups {
  described_layer *group;
  int groups;
  int *owner;           /* of each node: its group; -1: none */
  cr_name_map makers;   /* the first outputs of nodes, with their places */
  cr_name_map constant; /* initializers, with their places */
  cr_name_map claimed;  /* constants of groups that are no parameters, with their groups */
  cr_name_map inner;    /* values between the nodes of a group, with their groups */
};

/* ---- lines ----------------------------------------------------------------------- */

/* The text after "<word> " if the line begins with it; else NULL. */
static const char *after(const char *line, const char *word) {
  const size_t length = strlen(word);
  return strncmp(line, word, length) == 0 && line[length] == ' ' ? line + length + 1 : NULL;
}

static const char *next_line(const char *line) {
  const char *end = strchr(line, '\n');
  return end == NULL ? line + strlen(line) : end + 1;
}

/* Copies the rest of a line. */
static crema_status copy_line(cr_import *import, const char *from, char **out) {
  cr_buffer text = {0};
  crema_status status = cr_buffer_print(&text, "%.*s", (int)strcspn(from, "\n"), from);
  if (status == CREMA_OK) status = cr_arena_text(&import->arena, text.data, out);
  cr_buffer_free(&text);
  return status;
}

/* Reads a shape; -1 stands for a symbolic batch, -2 for a size that depends on the data. Returns
 * the text after it. */
static const char *read_shape(const char *at, crema_shape *out) {
  *out = (crema_shape){0};
  while (out->axes < CREMA_MAX_AXES) {
    char *end = (char *)(uintptr_t)at + 1;
    const bool symbol = (*at == 'N' || *at == '?') && strchr(" \n", at[1]) != NULL;
    if (!symbol && (*at < '0' || *at > '9')) break;
    const int64_t size = symbol ? (*at == 'N' ? -1 : -2) : strtoll(at, &end, 10);
    if (*end != ' ' && *end != '\n') break;
    out->dim[out->axes++] = size;
    at = end;
    if (*at == ' ') ++at;
  }
  return at;
}

/* ---- reading entries --------------------------------------------------------------- */

static bool is_parameter(const described_layer *of, const char *name) {
  for (const char *line = of->lines; strncmp(line, "layer\n", 6) != 0 && *line != '\0';
       line = next_line(line)) {
    const char *at = after(line, "parameter");
    crema_shape shape;
    if (at == NULL) continue;
    at = read_shape(at, &shape);
    if (strncmp(at, name, strlen(name)) == 0 && at[strlen(name)] == '\n') return true;
  }
  return false;
}

/* The constants of the group's nodes, which are then in memory. A constant of two groups makes the
 * second one invalid. */
static crema_status claim_constants(cr_import *import, described_layer *of, int number,
                                    cr_name_map *out) {
  struct cr_import_groups *all = import->groups;
  const Onnx__GraphProto *graph = import->model->proto->graph;
  Onnx__NodeProto *const *node = graph->node;
  for (size_t i = of->first; i < of->first + of->count && of->valid; ++i) {
    for (size_t k = 0; k < node[i]->n_input && of->valid; ++k) {
      const char *name = node[i]->input[k];
      const int at = cr_name_map_get(&all->constant, name);
      if (at < 0 || cr_name_map_get(out, name) >= 0 || is_parameter(of, name)) continue;
      of->valid = cr_name_map_get(&all->claimed, name) < 0;
      CR_TRY(cr_name_map_set(&all->claimed, name, number));
      CR_TRY(cr_name_map_set(out, name, at));
      const ProtobufCBinaryData *values = &graph->initializer[at]->raw_data;
      if (values->len > 0) CR_TRY(cr_onnx_model_load(import->model, values->data, values->len));
    }
  }
  return CREMA_OK;
}

static crema_status check_hash(cr_import *import, described_layer *of, int number,
                               const char *hash) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  char found[CR_ONNX_HASH_TEXT];
  cr_name_map constants = {0};
  crema_status status = claim_constants(import, of, number, &constants);
  if (status == CREMA_OK && of->valid) {
    status = cr_onnx_hash_nodes(graph->node + of->first, of->count, &constants, graph->initializer,
                                found);
    of->valid = status == CREMA_OK && strncmp(found, hash, CR_ONNX_HASH_TEXT - 1) == 0;
  }
  cr_name_map_free(&constants);
  return status;
}

/* The nodes of the entry, if they are free. */
static crema_status find_nodes(cr_import *import, described_layer *of, int number,
                               const char *line) {
  struct cr_import_groups *all = import->groups;
  char *end = NULL, *name;
  const size_t nodes = import->model->proto->graph->n_node;
  const unsigned long long count = strtoull(line, &end, 10);
  of->valid = false;
  if (*end != ' ' || strlen(end) < CR_ONNX_HASH_TEXT + 1 || end[CR_ONNX_HASH_TEXT] != ' ') {
    return CREMA_OK;
  }
  CR_TRY(copy_line(import, end + CR_ONNX_HASH_TEXT + 1, &name));
  const int first = cr_name_map_get(&all->makers, name);
  if (first < 0 || count < 1 || count > nodes - (size_t)first) return CREMA_OK;
  of->first = (size_t)first;
  of->count = (size_t)count;
  for (size_t i = of->first; i < of->first + of->count; ++i) {
    if (all->owner[i] >= 0) return CREMA_OK;
  }
  of->valid = true;
  return check_hash(import, of, number, end + 1);
}

/* The layer in text format. Only layers that need no files are accepted. */
static crema_status read_layer(described_layer *of) {
  ProtobufCMessage *message = NULL;
  const char *text = of->lines;
  while (*text != '\0' && strncmp(text, "layer\n", 6) != 0) text = next_line(text);
  text = next_line(text);
  crema_status status = cr_text_parse(&caffe__layer_parameter__descriptor, text, strlen(text),
                                      "metadata", CR_UNKNOWN_ERROR, &message);
  if (status != CREMA_OK) {
    of->valid = false;
    return status == CREMA_E_NO_MEMORY ? status : CREMA_OK;
  }
  of->layer = (Caffe__LayerParameter *)message;
  of->valid = of->layer->type != NULL && cr_onnx_is_restored(of->layer->type);
  if (of->layer->detection_output_param != NULL) {
    cr_message_clear(&of->layer->detection_output_param->base, "save_output_param");
  }
  return CREMA_OK;
}

/* Marks the nodes of a group, and the values that only they use. */
static crema_status own_nodes(cr_import *import, const described_layer *of, int number) {
  struct cr_import_groups *all = import->groups;
  Onnx__NodeProto *const *node = import->model->proto->graph->node;
  for (size_t i = of->first; i < of->first + of->count; ++i) {
    all->owner[i] = number;
    for (size_t k = 0; k < node[i]->n_output; ++k) {
      bool top = false;
      for (size_t t = 0; t < of->layer->n_top; ++t) {
        top = top || strcmp(of->layer->top[t], node[i]->output[k]) == 0;
      }
      if (!top) CR_TRY(cr_name_map_set(&all->inner, node[i]->output[k], number));
    }
  }
  return CREMA_OK;
}

static crema_status read_entry(cr_import *import, const Onnx__StringStringEntryProto *entry) {
  struct cr_import_groups *all = import->groups;
  const int number = all->groups;
  described_layer *of = &all->group[number];
  const char *line = after(entry->value, "nodes");
  *of = (described_layer){.name = entry->key + strlen(CR_ONNX_GROUP_KEY),
                          .lines = next_line(entry->value)};
  all->groups += 1;
  if (line != NULL) CR_TRY(find_nodes(import, of, number, line));
  if (of->valid) CR_TRY(read_layer(of));
  if (of->valid) return own_nodes(import, of, number);
  cr_log_warning("%s: the metadata about layer '%s' do not fit its nodes and are ignored",
                 import->model->path, of->name);
  return CREMA_OK;
}

/* ---- all groups ---------------------------------------------------------------------- */

static bool describes_layer(const Onnx__StringStringEntryProto *entry) {
  return entry->key != NULL && entry->value != NULL &&
         strncmp(entry->key, CR_ONNX_GROUP_KEY, strlen(CR_ONNX_GROUP_KEY)) == 0;
}

static crema_status index_graph(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  struct cr_import_groups *all = import->groups;
  for (size_t i = 0; i < graph->n_node; ++i) {
    all->owner[i] = -1;
    if (graph->node[i]->n_output == 0) continue;
    CR_TRY(cr_name_map_set(&all->makers, graph->node[i]->output[0], (int)i));
  }
  for (size_t i = 0; i < graph->n_initializer; ++i) {
    const char *name = graph->initializer[i]->name;
    if (name != NULL) CR_TRY(cr_name_map_set(&all->constant, name, (int)i));
  }
  return CREMA_OK;
}

/* A group is not valid if a node or an output of the graph uses one of its inner values. */
static void check_uses(cr_import *import) {
  const Onnx__GraphProto *graph = import->model->proto->graph;
  struct cr_import_groups *all = import->groups;
  for (size_t i = 0; i < graph->n_node; ++i) {
    for (size_t k = 0; k < graph->node[i]->n_input; ++k) {
      const int maker = cr_name_map_get(&all->inner, graph->node[i]->input[k]);
      if (maker >= 0 && maker != all->owner[i]) all->group[maker].valid = false;
    }
  }
  for (size_t i = 0; i < graph->n_output; ++i) {
    const char *name = graph->output[i]->name;
    const int maker = name == NULL ? -1 : cr_name_map_get(&all->inner, name);
    if (maker >= 0) all->group[maker].valid = false;
  }
}

crema_status cr_import_read_groups(cr_import *import) {
  const Onnx__ModelProto *model = import->model->proto;
  void *memory;
  size_t count = 0;
  for (size_t i = 0; i < model->n_metadata_props; ++i) {
    count += describes_layer(model->metadata_props[i]);
  }
  if (count == 0) return CREMA_OK;
  CR_TRY(cr_arena_alloc(&import->arena, sizeof *import->groups, &memory));
  import->groups = memory;
  CR_TRY(cr_arena_alloc(&import->arena, count * sizeof(described_layer), &memory));
  import->groups->group = memory;
  CR_TRY(cr_arena_alloc(&import->arena, (model->graph->n_node + 1) * sizeof(int), &memory));
  import->groups->owner = memory;
  CR_TRY(index_graph(import));
  for (size_t i = 0; i < model->n_metadata_props; ++i) {
    if (!describes_layer(model->metadata_props[i])) continue;
    CR_TRY(read_entry(import, model->metadata_props[i]));
  }
  check_uses(import);
  return CREMA_OK;
}

void cr_import_free_groups(cr_import *import) {
  struct cr_import_groups *all = import->groups;
  if (all == NULL) return;
  for (int i = 0; i < all->groups; ++i) {
    if (all->group[i].layer != NULL) cr_message_free(&all->group[i].layer->base);
  }
  cr_name_map_free(&all->makers);
  cr_name_map_free(&all->constant);
  cr_name_map_free(&all->claimed);
  cr_name_map_free(&all->inner);
}

/* ---- layers ----------------------------------------------------------------------------- */

/* The ends and parameters of a layer that is being added. */
typedef struct ends {
  cr_import_value **bottom, **top, **parameter;
  crema_shape *parameter_shape;
  size_t inputs, outputs, parameters; /* lines that were read */
  int64_t batch;                      /* the symbolic batch; -1: unknown */
  bool known;                         /* the shapes of all bottoms are known */
} ends;

/* Whether the shape of a bottom is the one with which the layer was written. */
static bool fits(const crema_shape *found, const crema_shape *written, int64_t *batch) {
  if (found->axes != written->axes) return false;
  for (int i = 0; i < found->axes; ++i) {
    if (written->dim[i] == -1 && *batch < 0) *batch = found->dim[i];
    const int64_t wanted = written->dim[i] == -1 ? *batch : written->dim[i];
    if (wanted != -2 && wanted != found->dim[i]) return false;
  }
  return true;
}

static crema_status read_parameter(cr_import *import, ends *e, const char *name,
                                   const crema_shape *shape, bool *ok) {
  char *copy;
  CR_TRY(copy_line(import, name, &copy));
  cr_import_value *value = cr_import_find_value(import, copy);
  *ok = value != NULL && value->floats != NULL && crema_shape_check(shape) == CREMA_OK &&
        crema_shape_count(shape, 0, shape->axes) == cr_import_count(value);
  e->parameter[e->parameters] = value;
  e->parameter_shape[e->parameters++] = *shape;
  return CREMA_OK;
}

/* Compares a line with a bottom, gives a top its shape, or finds a parameter. */
static crema_status read_line(cr_import *import, const described_layer *of, ends *e,
                              const char *line, bool *ok) {
  const char *input = after(line, "input"), *output = after(line, "output");
  const char *parameter = after(line, "parameter");
  crema_shape shape;
  if (parameter != NULL) {
    const char *name = read_shape(parameter, &shape);
    return read_parameter(import, e, name, &shape, ok);
  }
  if (input != NULL && e->inputs < of->layer->n_bottom) {
    read_shape(input, &shape);
    const crema_shape *found = e->bottom[e->inputs++]->shape;
    *ok = found == NULL || fits(found, &shape, &e->batch);
  } else if (output != NULL && e->outputs < of->layer->n_top) {
    read_shape(output, &shape);
    for (int i = 0; i < shape.axes; ++i) {
      if (shape.dim[i] < 0) shape.dim[i] = shape.dim[i] == -1 && e->batch > 0 ? e->batch : 1;
    }
    cr_import_value *top = e->top[e->outputs++];
    *ok = crema_shape_check(&shape) == CREMA_OK;
    if (*ok && e->known) return cr_import_set_shape(import, top, &shape);
  } else {
    *ok = false;
  }
  return CREMA_OK;
}

/* The number of lines with parameters is at most the number of all lines. */
static crema_status make_ends(cr_import *import, const described_layer *of, ends *e) {
  size_t lines = 1;
  void *memory;
  for (const char *line = of->lines; *line != '\0' && strncmp(line, "layer\n", 6) != 0;
       line = next_line(line)) {
    ++lines;
  }
  *e = (ends){.batch = -1, .known = true};
  CR_TRY(cr_arena_alloc(
      &import->arena, (lines + of->layer->n_bottom + of->layer->n_top) * sizeof(void *), &memory));
  e->parameter = memory;
  e->bottom = e->parameter + lines;
  e->top = e->bottom + of->layer->n_bottom;
  CR_TRY(cr_arena_alloc(&import->arena, lines * sizeof *e->parameter_shape, &memory));
  e->parameter_shape = memory;
  return CREMA_OK;
}

/* Whether the values that the layer reads exist, and the values that it makes do not. */
static bool find_ends(const cr_import *import, const described_layer *of, ends *e) {
  for (size_t i = 0; i < of->layer->n_bottom; ++i) {
    e->bottom[i] = cr_import_find_value(import, of->layer->bottom[i]);
    if (e->bottom[i] == NULL) return false;
    e->known = e->known && e->bottom[i]->shape != NULL;
  }
  for (size_t i = 0; i < of->layer->n_top; ++i) {
    if (cr_import_find_value(import, of->layer->top[i]) != NULL) return false;
  }
  return true;
}

static crema_status add_layer(cr_import *import, const described_layer *of, const ends *e) {
  Onnx__NodeProto node = ONNX__NODE_PROTO__INIT;
  node.name = (char *)(uintptr_t)of->name;
  cr_import_node maker = {.import = import, .proto = &node, .op = of->layer->type};
  const int bottoms = (int)of->layer->n_bottom, tops = (int)of->layer->n_top;
  cr_buffer text = {0};
  Caffe__LayerParameter fields = *of->layer;
  fields.name = NULL;
  fields.n_bottom = fields.n_top = fields.n_blobs = 0;
  crema_status status = cr_text_print(&fields.base, &text);
  if (status == CREMA_OK) {
    status = cr_import_wide_layer(&maker, e->bottom, bottoms, e->top, tops, text.data);
  }
  cr_buffer_free(&text);
  for (size_t i = 0; i < e->parameters && status == CREMA_OK; ++i) {
    status = cr_import_weights_from(import, &e->parameter_shape[i], e->parameter[i]);
  }
  CR_TRY(status);
  return cr_buffer_print(&import->restored, "%s%s", import->restored.size > 0 ? ", " : "",
                         of->name);
}

/* Adds the layer if its bottoms are as they were when it was written. */
static crema_status take(cr_import *import, const described_layer *of, bool *ok) {
  ends e;
  CR_TRY(make_ends(import, of, &e));
  *ok = find_ends(import, of, &e);
  for (size_t i = 0; i < of->layer->n_top && *ok; ++i) {
    void *value;
    CR_TRY(cr_arena_alloc(&import->arena, sizeof(cr_import_value), &value));
    e.top[i] = value;
  }
  for (const char *line = of->lines; *ok && strncmp(line, "layer\n", 6) != 0;
       line = next_line(line)) {
    CR_TRY(read_line(import, of, &e, line, ok));
  }
  *ok = *ok && e.inputs == of->layer->n_bottom && e.outputs == of->layer->n_top;
  for (size_t i = 0; i < of->layer->n_top && *ok; ++i) {
    const crema_shape *shape = e.top[i]->shape;
    char *name;
    CR_TRY(cr_arena_text(&import->arena, of->layer->top[i], &name));
    CR_TRY(cr_import_add_value(import, name, &e.top[i]));
    e.top[i]->shape = shape;
    e.top[i]->type = CR_ONNX_FLOAT;
  }
  return *ok && e.known ? add_layer(import, of, &e) : CREMA_OK;
}

crema_status cr_import_take_group(cr_import *import, size_t index, size_t *taken) {
  struct cr_import_groups *all = import->groups;
  const int number = all == NULL ? -1 : all->owner[index];
  bool ok = false;
  *taken = 0;
  if (number < 0 || !all->group[number].valid || all->group[number].first != index) {
    return CREMA_OK;
  }
  const described_layer *of = &all->group[number];
  bool live = false; /* an output of the graph depends on it */
  for (size_t i = index; i < index + of->count; ++i) live = live || import->node[i] != NULL;
  if (!live) return CREMA_OK;
  CR_TRY(take(import, of, &ok));
  if (ok) *taken = all->group[number].count;
  return CREMA_OK;
}
