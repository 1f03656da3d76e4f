/* Layers that depend only on parameters and constants are computed once, here, and become Parameter
 * layers. Layers that also depend on shapes (PriorBox and the readers of its boxes) run when shapes
 * have changed. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/input_class.h"
#include "layers/registry.h"
#include "net/weights/weights.h"
#include "proto/field.h"

/* Sources whose tops are the same in each pass, as the caller does not change them either. */
static bool is_constant_source(const cr_graph_layer *layer) {
  const cr_input_class *input = layer->kind->input;
  if (layer->bottoms > 0 || layer->kind->memory.persistent == NULL) return false;
  if (input != NULL && (input->net_input || input->set_samples != NULL)) return false;
  for (int j = 0; j < layer->built->tops; ++j) {
    if (!layer->kind->memory.persistent(layer->built, j)) return false;
  }
  return true;
}

/* Whether the layer's tops follow only from its bottoms' values. BatchNorm and custom layers may
 * count passes; a layer in place may overwrite values that no layer makes anew. */
static bool is_function(const cr_graph_layer *layer) {
  return layer->bottoms > 0 && layer->tops > 0 && layer->tops == layer->built->tops &&
         !layer->in_place && !layer->kind->memory.keeps_state && layer->kind->input == NULL &&
         !layer->kind->graph.statistics && !layer->kind->graph.ignores_values;
}

static bool depends_on_constants(const cr_graph *graph, int index, const bool *constant) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (layer->removed || !cr_graph_has_floats(graph, index)) return false;
  if (cr_graph_has_loss(graph, index) || cr_graph_is_tied(graph, index)) return false;
  if (layer->bottoms == 0) return is_constant_source(layer);
  if (!is_function(layer)) return false;
  for (int j = 0; j < layer->bottoms; ++j) {
    if (!constant[graph->value[layer->bottom[j]].maker]) return false;
  }
  return true;
}

/* A Parameter layer of the same name with the values that the net's blob has now. */
static crema_status make_parameter(cr_graph *graph, int index) {
  cr_graph_layer *layer = &graph->layer[index];
  const crema_shape *shape = cr_graph_shape(graph, layer->top[0]);
  crema_blob *values = graph->net->layer[index].top[0];
  const float *from = NULL;
  float *to = NULL;
  CR_TRY(cr_graph_rewrite(graph, index, &cr_layer_parameter));
  Caffe__ParameterParameter *param = NULL;
  CR_TRY(cr_message_inner(&layer->param->base, "parameter_param", &param));
  CR_TRY(cr_shape_to_proto(shape, &param->shape));
  for (int j = 0; j < layer->bottoms; ++j) graph->value[layer->bottom[j]].reader = -1;
  layer->bottoms = 0;
  while (layer->frozen.params > 1) crema_blob_destroy(layer->frozen.blob[--layer->frozen.params]);
  CR_TRY(cr_graph_new_param(graph, index, 0, shape, &to));
  CR_TRY(cr_tensor_host_read_floats(values->data, &from));
  memcpy(to, from, (size_t)crema_blob_count(values) * sizeof *to);
  cr_graph_protect(graph, layer->top[0]);
  return CREMA_OK;
}

static bool depends_on_shapes(const cr_graph *graph, int index, const bool *constant) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (layer->removed || constant[index] || !cr_graph_has_floats(graph, index)) return false;
  if (cr_graph_has_loss(graph, index) || cr_graph_is_tied(graph, index)) return false;
  for (int j = 0; j < layer->tops; ++j) {
    if (!cr_graph_may_go(graph, layer->top[j])) return false;
  }
  if (layer->kind->graph.ignores_values && layer->tops > 0 && layer->tops == layer->built->tops) {
    return true;
  }
  if (!is_function(layer) || layer->kind->memory.reshapes_always) return false;
  for (int j = 0; j < layer->bottoms; ++j) {
    const int maker = graph->value[layer->bottom[j]].maker;
    if (!constant[maker] && !graph->layer[maker].frozen.once) return false;
  }
  return true;
}

static crema_status freeze(cr_graph *graph, int index, const bool *constant) {
  cr_graph_layer *layer = &graph->layer[index];
  layer->frozen.once = depends_on_shapes(graph, index, constant);
  if (!layer->frozen.once) return CREMA_OK;
  for (int j = 0; j < layer->tops; ++j) cr_graph_protect(graph, layer->top[j]);
  return cr_graph_tell_layer(graph, "constants", index, " is computed when shapes change");
}

crema_status cr_pass_constants(cr_graph *graph) {
  crema_status status = CREMA_OK;
  bool *constant = NULL;
  CR_TRY(CR_NEW(constant, graph->layers + 1, "a compiled net"));
  for (int i = 0; i < graph->layers; ++i) constant[i] = depends_on_constants(graph, i, constant);
  for (int i = 0; i < graph->layers; ++i) {
    if (constant[i]) CR_TRY_GOTO(cr_net_forward_range(graph->net, i, i, NULL), out);
    /* A layer whose top a layer that is no constant reads, or a caller, becomes a Parameter. */
    const cr_graph_layer *layer = &graph->layer[i];
    if (!constant[i] || layer->bottoms == 0 || layer->tops != 1) continue;
    const cr_graph_value *top = &graph->value[layer->top[0]];
    if (!top->wanted && (top->reader < 0 || constant[top->reader])) continue;
    CR_TRY_GOTO(cr_graph_tell_layer(graph, "constants", i, " is computed"), out);
    CR_TRY_GOTO(make_parameter(graph, i), out);
  }
  for (int i = 0; i < graph->layers; ++i) CR_TRY_GOTO(freeze(graph, i, constant), out);
out:
  free(constant);
  return status;
}
