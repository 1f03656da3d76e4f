/* Removes layers that pass their bottom on unchanged in phase TEST. */
#include "core/fail.h"
#include "infer/passes.h"

crema_status cr_pass_train(cr_graph *graph) {
  for (int i = 0; i < graph->layers; ++i) {
    const cr_graph_layer *layer = &graph->layer[i];
    if (layer->kind->fusion.noop_in_test == NULL || !cr_graph_is_simple(graph, i)) continue;
    if (!layer->kind->fusion.noop_in_test(layer->built->param)) continue;
    if (!cr_graph_pass_by(graph, i)) continue;
    CR_TRY(cr_graph_tell_layer(graph, "train", i, " is left out"));
  }
  return CREMA_OK;
}
