/* Removes layers on which no output, no kept blob and no file depends. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/input_class.h"
#include "layers/registry.h"

/* A layer without tops is needed for its effect, unless it ignores its bottoms. In that case it
 * only hides them, and cr_program_make does this anyway. */
static bool is_needed(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (layer->kind->input != NULL && layer->kind->input->net_input) return true;
  if (layer->in_place && cr_graph_is_tied(graph, index)) return true;
  if (layer->built->tops == 0) return !layer->kind->graph.ignores_values;
  if (layer->tops < layer->built->tops) return true; /* a loss may have a top without a name */
  for (int j = 0; j < layer->tops; ++j) {
    const cr_graph_value *top = &graph->value[layer->top[j]];
    if (top->wanted || top->reader >= 0) return true;
  }
  return false;
}

/* A Split with one top left is an alias. */
static void drop_split(cr_graph *graph, int index) {
  cr_graph_layer *layer = &graph->layer[index];
  int used = 0, first = 0;
  for (int j = layer->tops - 1; j >= 0; --j) {
    const cr_graph_value *top = &graph->value[layer->top[j]];
    if (!top->wanted && top->reader < 0) continue;
    first = j;
    ++used;
  }
  if (used != 1 || cr_graph_has_loss(graph, index)) return;
  const int unused = layer->top[0];
  layer->top[0] = layer->top[first];
  layer->top[first] = unused;
  (void)cr_graph_pass_by(graph, index);
}

crema_status cr_pass_dead(cr_graph *graph) {
  for (int i = graph->layers - 1; i >= 0; --i) {
    cr_graph_layer *layer = &graph->layer[i];
    if (layer->removed || is_needed(graph, i)) continue;
    layer->removed = true;
    for (int j = 0; j < layer->bottoms; ++j) graph->value[layer->bottom[j]].reader = -1;
    CR_TRY(cr_graph_tell_layer(graph, "dead", i, " is left out"));
  }
  for (int i = 0; i < graph->layers; ++i) {
    if (cr_graph_is(graph, i, &cr_layer_split)) drop_split(graph, i);
  }
  return CREMA_OK;
}
