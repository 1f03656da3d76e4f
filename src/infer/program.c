#include "infer/program.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "layers/registry.h"
#include "proto/field.h"

/* A name that no blob of the net has, in the graph's arena. */
static crema_status fresh_name(cr_graph *graph, int value, char **out) {
  const char *base = graph->value[value].name;
  cr_buffer text = {0};
  crema_status status = CREMA_OK;
  for (int number = value;; number += graph->values) {
    cr_buffer_clear(&text);
    CR_TRY_GOTO(cr_buffer_print(&text, "%s/%d", base, number), out);
    if (cr_name_map_get(&graph->net->blob_index, text.data) < 0) break;
  }
  status = cr_arena_text(&graph->arena, text.data, out);
out:
  cr_buffer_free(&text);
  return status;
}

/* From the last layer to the first, so that a top in place has its name before its bottom. */
static crema_status name_values(cr_graph *graph, char **name) {
  for (int i = graph->layers - 1; i >= 0; --i) {
    const cr_graph_layer *layer = &graph->layer[i];
    for (int j = 0; j < layer->tops && !layer->removed; ++j) {
      const int top = layer->top[j];
      const cr_graph_value *value = &graph->value[top];
      const cr_graph_layer *reader =
          value->last || value->reader < 0 ? NULL : &graph->layer[value->reader];
      if (reader != NULL && cr_graph_overwrites(reader, top)) {
        name[top] = name[reader->top[0]];
      } else if (value->last || value->input) {
        CR_TRY(cr_arena_text(&graph->arena, value->name, &name[top]));
      } else {
        CR_TRY(fresh_name(graph, top, &name[top]));
      }
    }
  }
  return CREMA_OK;
}

static crema_status set_names(char *const *name, const int *value, int count, char ***out,
                              size_t *filled) {
  const size_t bytes = (size_t)count * sizeof **out;
  if (count == 0) return CREMA_OK;
  *out = cr_proto_alloc(bytes);
  if (*out == NULL) return cr_fail_memory(bytes, "a compiled net");
  for (int j = 0; j < count; ++j) {
    (*out)[j] = cr_proto_strdup(name[value[j]]);
    if ((*out)[j] == NULL) return cr_fail_memory(bytes, "a compiled net");
    *filled += 1;
  }
  return CREMA_OK;
}

/* Moves the graph's layer to the program. */
static crema_status add_layer(cr_program *program, cr_graph_layer *layer, char *const *name) {
  Caffe__LayerParameter *param = layer->param;
  const size_t index = program->param->n_layer++;
  program->param->layer[index] = param;
  layer->param = NULL;
  for (int p = 0; p < layer->frozen.params; ++p) {
    cr_tensor_set_constant(layer->frozen.blob[p]->data);
  }
  program->frozen[index] = layer->frozen;
  layer->frozen = (cr_net_frozen_layer){0};
  CR_TRY(set_names(name, layer->bottom, layer->bottoms, &param->bottom, &param->n_bottom));
  return set_names(name, layer->top, layer->tops, &param->top, &param->n_top);
}

static crema_status add_layers(cr_program *program, cr_graph *graph, char *const *name) {
  for (int i = 0; i < graph->layers; ++i) {
    cr_graph_layer *layer = &graph->layer[i];
    if (layer->removed) continue;
    CR_TRY(add_layer(program, layer, name));
    for (int j = 0; j < layer->tops; ++j) {
      const cr_graph_value *top = &graph->value[layer->top[j]];
      if (top->reader >= 0 || top->output) continue;
      Caffe__LayerParameter *silence = NULL;
      CR_TRY(cr_graph_new_message(name[layer->top[j]], &cr_layer_silence, &silence));
      program->param->layer[program->param->n_layer++] = silence;
      CR_TRY(set_names(name, &layer->top[j], 1, &silence->bottom, &silence->n_bottom));
    }
  }
  return CREMA_OK;
}

/* The net's own fields, without layers and without the fields that only training or building needs.
 */
static crema_status copy_net(const cr_graph *graph, Caffe__NetParameter **out) {
  const Caffe__NetParameter *from = graph->net->param;
  const size_t most = (size_t)(graph->layers + graph->values) + 1;
  Caffe__NetParameter without = *from;
  Caffe__NetParameter *param = NULL;
  without.n_layer = 0;
  without.state = NULL;
  without.force_backward = 0;
  CR_TRY(cr_message_copy(&without.base, &param));
  crema_status status = cr_message_reserve(&param->base, "layer", most);
  if (status == CREMA_OK) *out = param;
  else cr_message_free(&param->base);
  return status;
}

crema_status cr_program_make(cr_graph *graph, cr_program **out) {
  cr_program *program = NULL;
  char **name = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(program, 1, "a compiled net"));
  program->references = 1;
  program->batch = graph->batch;
  program->layers = (size_t)(graph->layers + graph->values) + 1;
  CR_TRY_GOTO(CR_NEW(program->frozen, program->layers, "a compiled net"), out);
  CR_TRY_GOTO(CR_NEW(name, graph->values + 1, "a compiled net"), out);
  CR_TRY_GOTO(copy_net(graph, &program->param), out);
  CR_TRY_GOTO(name_values(graph, name), out);
  CR_TRY_GOTO(add_layers(program, graph, name), out);
out:
  free((void *)name);
  if (status == CREMA_OK) *out = program;
  else cr_program_destroy(program);
  return status;
}

void cr_program_destroy(cr_program *program) {
  if (program == NULL) return;
  for (size_t i = 0; program->frozen != NULL && i < program->layers; ++i) {
    cr_net_frozen_layer *layer = &program->frozen[i];
    for (int p = 0; p < layer->params; ++p) crema_blob_destroy(layer->blob[p]);
    free((void *)layer->blob);
    free((void *)layer->int8);
  }
  free(program->frozen);
  if (program->param != NULL) cr_message_free(&program->param->base);
  free(program);
}

crema_status cr_program_build(const cr_program *program, const crema_net_options *options,
                              const char *path, crema_context *context, crema_net **out) {
  Caffe__NetParameter *param = NULL;
  CR_TRY(cr_message_copy(&program->param->base, &param));
  const cr_net_build_options build = {.context = context, .path = path, .frozen = program->frozen};
  return cr_net_create(param, options, &build, out);
}

/* Other values have names that the net's blobs do not have. */
bool cr_program_has(const cr_program *program, const char *blob) {
  for (size_t i = 0; i < program->param->n_layer; ++i) {
    const Caffe__LayerParameter *layer = program->param->layer[i];
    for (size_t j = 0; j < layer->n_top; ++j) {
      if (strcmp(layer->top[j], blob) == 0) return true;
    }
  }
  return false;
}
