#include "infer/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "layers/common/input_class.h"
#include "net/checks/checks.h"
#include "proto/field.h"

crema_status cr_graph_allocate(cr_graph *graph, void *out, size_t count, size_t width) {
  void *memory = NULL;
  CR_TRY(cr_fail_in(cr_arena_alloc(&graph->arena, count * width, &memory), "a compiled net"));
  memcpy(out, &memory, sizeof memory);
  return CREMA_OK;
}

/* Clears the fields that the graph has itself. */
static void strip(Caffe__LayerParameter *param) {
  static const char *const fields[] = {"bottom",  "top",   "include",
                                       "exclude", "param", "propagate_down"};
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    cr_message_clear(&param->base, fields[i]);
  }
}

static crema_status share_param(const crema_blob *from, crema_blob **out) {
  crema_blob *blob = NULL;
  CR_TRY(cr_blob_create_typed(&from->shape, cr_tensor_type(from->data), cr_tensor_type(from->diff),
                              &blob));
  crema_status status = cr_tensor_share(blob->data, from->data);
  if (status != CREMA_OK) {
    crema_blob_destroy(blob);
    return status;
  }
  *out = blob;
  return CREMA_OK;
}

static crema_status take_params(cr_graph_layer *layer) {
  const cr_layer *built = layer->built;
  if (built->params == 0) return CREMA_OK;
  CR_TRY(CR_NEW(layer->frozen.blob, built->params, "the parameters of a compiled net"));
  layer->frozen.params = built->params;
  for (int p = 0; p < built->params; ++p)
    CR_TRY(share_param(built->blob[p], &layer->frozen.blob[p]));
  return CREMA_OK;
}

/* `current`: of each of the net's blobs, the value that it holds. */
static crema_status take_layer(cr_graph *graph, int index, int *current) {
  const cr_net_layer *from = &graph->net->layer[index];
  cr_graph_layer *layer = &graph->layer[index];
  const Caffe__LayerParameter *param = graph->net->param->layer[index];
  layer->built = from->layer;
  layer->kind = from->layer->kind;
  CR_TRY(cr_message_copy(&param->base, &layer->param));
  strip(layer->param);
  layer->bottoms = (int)param->n_bottom;
  layer->tops = (int)param->n_top;
  CR_TRY(cr_graph_allocate(graph, &layer->bottom, param->n_bottom, sizeof *layer->bottom));
  CR_TRY(cr_graph_allocate(graph, &layer->top, param->n_top, sizeof *layer->top));
  for (int j = 0; j < layer->bottoms; ++j) {
    layer->bottom[j] = current[from->bottom_id[j]];
    graph->value[layer->bottom[j]].reader = index;
  }
  layer->in_place = layer->bottoms > 0 && layer->tops > 0 && from->top_id[0] == from->bottom_id[0];
  const bool input = layer->kind->input != NULL && layer->kind->input->net_input;
  for (int j = 0; j < layer->tops; ++j) {
    const int id = from->top_id[j];
    if (current[id] >= 0) graph->value[current[id]].last = false;
    graph->value[graph->values] = (cr_graph_value){.name = graph->net->blob_name[id],
                                                   .last = true,
                                                   .input = input,
                                                   .maker = index,
                                                   .reader = -1};
    layer->top[j] = current[id] = graph->values++;
  }
  return take_params(layer);
}

/* Outputs, blobs to keep, and values that in-place layers wrote to inputs. */
static crema_status mark_wanted(cr_graph *graph, const char *const *keep, size_t keeps,
                                const int *current) {
  const crema_net *net = graph->net;
  for (int i = 0; i < net->inputs; ++i) graph->value[current[net->input[i]]].wanted = true;
  for (int i = 0; i < net->outputs; ++i) {
    cr_graph_value *output = &graph->value[current[net->output[i]]];
    output->wanted = output->output = true;
  }
  for (size_t i = 0; i < keeps; ++i) {
    crema_blob *blob = NULL;
    CR_TRY(crema_net_blob(graph->net, keep[i], &blob));
    graph->value[current[cr_name_map_get(&net->blob_index, keep[i])]].wanted = true;
  }
  return CREMA_OK;
}

static crema_status mark_overwritten(cr_graph *graph) {
  const crema_net *net = graph->net;
  bool *found = NULL;
  CR_TRY(CR_NEW(found, net->blobs + 1, "a compiled net"));
  crema_status status = cr_net_find_overwritten(net, found);
  for (int v = 0; v < graph->values && status == CREMA_OK; ++v) {
    graph->value[v].overwritten = found[cr_name_map_get(&net->blob_index, graph->value[v].name)];
  }
  free(found);
  return status;
}

crema_status cr_graph_make(cr_graph *graph, crema_net *net, const char *const *keep, size_t keeps,
                           cr_buffer *text) {
  size_t values = 1;
  int *current = NULL;
  crema_status status = CREMA_OK;
  graph->net = net;
  graph->text = text;
  for (int i = 0; i < net->layers; ++i) values += net->param->layer[i]->n_top;
  CR_TRY_GOTO(CR_NEW(current, net->blobs + 1, "a compiled net"), out);
  for (int i = 0; i < net->blobs; ++i) current[i] = -1;
  CR_TRY_GOTO(cr_graph_allocate(graph, &graph->value, values, sizeof *graph->value), out);
  CR_TRY_GOTO(cr_graph_allocate(graph, &graph->layer, (size_t)net->layers, sizeof *graph->layer),
              out);
  graph->layers = net->layers;
  for (int i = 0; i < net->layers; ++i) CR_TRY_GOTO(take_layer(graph, i, current), out);
  CR_TRY_GOTO(mark_wanted(graph, keep, keeps, current), out);
  status = mark_overwritten(graph);
out:
  free(current);
  return status;
}

void cr_graph_free(cr_graph *graph) {
  for (int i = 0; graph->layer != NULL && i < graph->layers; ++i) {
    cr_graph_layer *layer = &graph->layer[i];
    for (int p = 0; p < layer->frozen.params; ++p) crema_blob_destroy(layer->frozen.blob[p]);
    free((void *)layer->frozen.blob);
    free((void *)layer->frozen.int8);
    if (layer->param != NULL) cr_message_free(&layer->param->base);
  }
  cr_tensor_scratch_release(graph->once);
  cr_tensor_scratch_release(graph->rounding);
  cr_tensor_scratch_release(graph->spare);
  cr_arena_free(&graph->arena);
}

bool cr_graph_is(const cr_graph *graph, int layer, const cr_layer_class *kind) {
  return !graph->layer[layer].removed && graph->layer[layer].kind == kind;
}

const crema_shape *cr_graph_shape(const cr_graph *graph, int value) {
  const crema_net *net = graph->net;
  return &net->blob[cr_name_map_get(&net->blob_index, graph->value[value].name)]->shape;
}

cr_layer_reach cr_graph_reach(const cr_graph_layer *layer) {
  const cr_layer_class *kind = layer->kind;
  return kind->fusion.reach == NULL ? CR_REACHES_ANY
                                    : kind->fusion.reach(layer->param, layer->bottoms);
}

bool cr_graph_overwrites(const cr_graph_layer *reader, int value) {
  return (reader->adds_in_place && reader->bottom[reader->bottoms - 1] == value) ||
         (reader->in_place && reader->bottom[0] == value);
}

bool cr_graph_shares(const cr_graph_layer *layer) {
  if (layer->frozen.parts_in_place && layer->bottoms == 1) return true;
  if (layer->kind->memory.shares == CR_SHARES_IF_ONE)
    return layer->bottoms == 1 && layer->tops == 1;
  return layer->kind->memory.shares != CR_SHARES_NOTHING;
}

bool cr_graph_has_floats(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  const cr_layer_types *t = &l->built->types;
  if (t->forward != CREMA_F32 || t->forward_math != CREMA_F32) return false;
  if (cr_layer_arithmetic(l->built) != CREMA_F32) return false;
  for (int p = 0; p < l->frozen.params; ++p) {
    if (cr_tensor_type(l->frozen.blob[p]->data) != CREMA_F32) return false;
  }
  return true;
}

bool cr_graph_has_loss(const cr_graph *graph, int layer) {
  const cr_layer *built = graph->layer[layer].built;
  for (int j = 0; j < built->tops; ++j) {
    if (built->loss_weight[j] != 0.0f) return true;
  }
  return false;
}

bool cr_graph_is_simple(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  if (l->removed || l->rewritten || l->bottoms != 1 || l->tops != 1) return false;
  return l->built->tops == 1 && !cr_graph_has_loss(graph, layer) && !cr_graph_is_tied(graph, layer);
}

bool cr_graph_is_tied(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  for (int j = 0; j < l->bottoms; ++j) {
    if (graph->value[l->bottom[j]].overwritten) return true;
  }
  for (int j = 0; j < l->tops; ++j) {
    if (graph->value[l->top[j]].overwritten) return true;
  }
  return false;
}

bool cr_graph_may_go(const cr_graph *graph, int value) {
  return !graph->value[value].wanted && !graph->value[value].input;
}

int cr_graph_root(const cr_graph *graph, int value) {
  const cr_graph_layer *maker = &graph->layer[graph->value[value].maker];
  if (value == maker->top[0]) {
    if (maker->adds_in_place) return cr_graph_root(graph, maker->bottom[maker->bottoms - 1]);
    if (maker->in_place) return cr_graph_root(graph, maker->bottom[0]);
  }
  return cr_graph_shares(maker) && maker->bottoms > 0 ? cr_graph_root(graph, maker->bottom[0])
                                                      : value;
}

void cr_graph_protect(cr_graph *graph, int value) {
  const int reader = graph->value[value].reader;
  if (reader < 0) return;
  cr_graph_layer *layer = &graph->layer[reader];
  if (layer->in_place && layer->bottom[0] == value) {
    layer->in_place = false;
  } else if (cr_graph_shares(layer)) {
    for (int j = 0; j < layer->tops; ++j) cr_graph_protect(graph, layer->top[j]);
  }
}

static void make_read(cr_graph *graph, int reader, int from, int to) {
  graph->value[to].reader = reader;
  if (reader < 0) return;
  cr_graph_layer *layer = &graph->layer[reader];
  for (int j = 0; j < layer->bottoms; ++j) {
    if (layer->bottom[j] == from) layer->bottom[j] = to;
  }
}

bool cr_graph_pass_by(cr_graph *graph, int layer) {
  cr_graph_layer *l = &graph->layer[layer];
  const int from = l->bottom[0], to = l->top[0];
  cr_graph_value *bottom = &graph->value[from];
  const cr_graph_value *top = &graph->value[to];
  const bool same_name = bottom->name == top->name;
  if (!same_name && !cr_graph_may_go(graph, from) && top->wanted) return false;
  if (!l->in_place) cr_graph_protect(graph, to);
  if (same_name) {
    bottom->last = top->last;
    bottom->wanted = bottom->wanted || top->wanted;
    bottom->output = top->output;
  } else if (cr_graph_may_go(graph, from)) {
    bottom->name = top->name;
    bottom->last = top->last;
    bottom->wanted = top->wanted;
    bottom->output = top->output;
  }
  make_read(graph, top->reader, to, from);
  l->removed = true;
  return true;
}

void cr_graph_merge_back(cr_graph *graph, int first, int second) {
  const int value = graph->layer[second].top[0];
  graph->layer[first].top[0] = value;
  graph->layer[first].frozen.once =
      graph->layer[first].frozen.once && graph->layer[second].frozen.once;
  graph->value[value].maker = first;
  graph->layer[second].removed = true;
}

void cr_graph_merge_on(cr_graph *graph, int first, int second) {
  const int value = graph->layer[first].bottom[0];
  graph->layer[second].bottom[0] = value;
  graph->layer[second].moved = true;
  graph->value[value].reader = second;
  graph->layer[first].removed = true;
}

crema_status cr_graph_new_message(const char *name, const cr_layer_class *kind,
                                  Caffe__LayerParameter **out) {
  Caffe__LayerParameter *param = NULL;
  CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &param));
  param->name = cr_proto_strdup(name);
  param->type = cr_proto_strdup(kind->type);
  if (param->name == NULL || param->type == NULL) {
    cr_message_free(&param->base);
    return cr_fail_memory(sizeof *param, "a layer's message");
  }
  *out = param;
  return CREMA_OK;
}

void cr_graph_set_bias_term(cr_graph_layer *layer) {
  Caffe__ConvolutionParameter *conv = layer->param->convolution_param;
  Caffe__InnerProductParameter *product = layer->param->inner_product_param;
  if (conv != NULL) conv->has_bias_term = conv->bias_term = 1;
  if (product != NULL) product->has_bias_term = product->bias_term = 1;
}

static void set_floats(Caffe__LayerParameter *param) {
  param->has_forward_type = param->has_backward_type = 1;
  param->has_forward_math = param->has_backward_math = 1;
  param->forward_type = param->backward_type = CAFFE__TYPE__FLOAT;
  param->forward_math = param->backward_math = CAFFE__TYPE__FLOAT;
}

/* Makes room for a layer in front of number `at`, and for one more value. */
static crema_status make_room(cr_graph *graph, int at) {
  cr_graph_layer *layer = NULL;
  cr_graph_value *value = NULL;
  const size_t layers = (size_t)graph->layers, values = (size_t)graph->values;
  CR_TRY(cr_graph_allocate(graph, &layer, layers + 1, sizeof *layer));
  CR_TRY(cr_graph_allocate(graph, &value, values + 1, sizeof *value));
  memcpy(layer, graph->layer, (size_t)at * sizeof *layer);
  memcpy(layer + at + 1, graph->layer + at, (layers - (size_t)at) * sizeof *layer);
  memcpy(value, graph->value, values * sizeof *value);
  for (size_t i = 0; i <= layers; ++i) layer[i].sum += layer[i].sum >= at;
  for (size_t v = 0; v < values; ++v) {
    value[v].maker += value[v].maker >= at;
    value[v].reader += value[v].reader >= at;
  }
  graph->layer = layer;
  graph->value = value;
  graph->layers += 1;
  graph->values += 1;
  return CREMA_OK;
}

static crema_status fill_inserted(cr_graph *graph, int index, int value, const char *name) {
  const int fresh = graph->values - 1, reader = graph->value[value].reader;
  cr_graph_layer *l = &graph->layer[index];
  *l = (cr_graph_layer){.kind = l->kind, .built = graph->layer[reader].built, .rewritten = true};
  CR_TRY(cr_graph_allocate(graph, &l->bottom, 1, sizeof *l->bottom));
  CR_TRY(cr_graph_allocate(graph, &l->top, 1, sizeof *l->top));
  CR_TRY(cr_graph_new_message(name, l->kind, &l->param));
  set_floats(l->param);
  graph->value[fresh] = (cr_graph_value){.name = graph->value[value].name, .maker = index};
  make_read(graph, reader, value, fresh);
  graph->value[value].reader = index;
  l->bottoms = l->tops = 1;
  l->bottom[0] = value;
  l->top[0] = fresh;
  return CREMA_OK;
}

crema_status cr_graph_insert(cr_graph *graph, int value, const cr_layer_class *kind,
                             const char *what, int *out) {
  const int at = graph->value[value].maker + 1;
  cr_buffer name = {0};
  crema_status status = CREMA_OK;
  const cr_layer *reader = graph->layer[graph->value[value].reader].built;
  CR_TRY_GOTO(cr_buffer_print(&name, "%s/%s", reader->name, what), out);
  CR_TRY_GOTO(make_room(graph, at), out);
  graph->layer[at] = (cr_graph_layer){.kind = kind};
  CR_TRY_GOTO(fill_inserted(graph, at, value, name.data), out);
  *out = at;
out:
  cr_buffer_free(&name);
  return status;
}

crema_status cr_graph_rewrite(cr_graph *graph, int layer, const cr_layer_class *kind) {
  cr_graph_layer *l = &graph->layer[layer];
  Caffe__LayerParameter *param = NULL;
  CR_TRY(cr_graph_new_message(l->built->name, kind, &param));
  cr_message_free(&l->param->base);
  l->param = param;
  l->rewritten = true;
  set_floats(param);
  l->kind = kind;
  return CREMA_OK;
}

crema_status cr_graph_new_param(cr_graph *graph, int layer, int index, const crema_shape *shape,
                                float **out) {
  cr_graph_layer *l = &graph->layer[layer];
  crema_blob *blob = NULL;
  if (index >= l->frozen.params) {
    size_t count = (size_t)index + 1;
    crema_blob **grown = realloc((void *)l->frozen.blob, count * sizeof *grown);
    if (grown == NULL) return cr_fail_memory(count * sizeof *grown, "parameters");
    l->frozen.blob = grown;
    while (l->frozen.params <= index) l->frozen.blob[l->frozen.params++] = NULL;
  }
  CR_TRY(crema_blob_create(shape, &blob));
  crema_blob_destroy(l->frozen.blob[index]);
  l->frozen.blob[index] = blob;
  return cr_tensor_host_write_floats(blob->data, out);
}

crema_status cr_graph_set_weights(cr_graph *graph, int layer, const crema_shape *shape,
                                  crema_dtype type, crema_status status, cr_tensor_source *source) {
  crema_blob **blob = &graph->layer[layer].frozen.blob[0], *fresh = NULL;
  if (status != CREMA_OK) return status;
  CR_TRY_GOTO(cr_blob_create_typed(shape, type, CREMA_F32, &fresh), out);
  if (graph->once == NULL) CR_TRY_GOTO(cr_tensor_scratch_create(&graph->once), out);
  cr_tensor_source_set_per_use(source, graph->once);
  status = cr_tensor_take_from(fresh->data, source, 0);
out:
  cr_tensor_source_release(source);
  crema_blob_destroy(status == CREMA_OK ? *blob : fresh);
  if (status == CREMA_OK) *blob = fresh;
  return status;
}

crema_status cr_graph_tell(cr_graph *graph, const char *pass, const char *fmt, ...) {
  char text[640];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  return cr_buffer_print(graph->text, "%s: %s\n", pass, text);
}

const char *cr_graph_name(const cr_graph *graph, int layer, char text[CR_GRAPH_NAME]) {
  const cr_graph_layer *l = &graph->layer[layer];
  snprintf(text, CR_GRAPH_NAME, "%s '%.100s'", l->kind->type, l->built->name);
  return text;
}

crema_status cr_graph_tell_layer(cr_graph *graph, const char *pass, int layer, const char *what) {
  char name[CR_GRAPH_NAME];
  return cr_graph_tell(graph, pass, "%s%s", cr_graph_name(graph, layer, name), what);
}

crema_status cr_graph_tell_merge(cr_graph *graph, const char *pass, int layer, int into,
                                 const char *what) {
  char name[2][CR_GRAPH_NAME];
  return cr_graph_tell(graph, pass, "%s into %s%s", cr_graph_name(graph, layer, name[0]),
                       cr_graph_name(graph, into, name[1]), what);
}
