/* The bottoms of a Concat along samples or channels are written into its top, or copied there at
 * their first read, so that the Concat has nothing to copy. A Concat followed by another Concat
 * copies nothing. net/parts.c implements this, for shapes and formats that allow it. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* Whether the value is stored in a Slice's bottom. */
static bool is_sliced(const cr_graph *graph, int value) {
  const cr_graph_layer *maker = &graph->layer[graph->value[value].maker];
  if (cr_graph_is(graph, graph->value[value].maker, &cr_layer_slice)) {
    return maker->frozen.parts_in_place || (maker->tops == 1 && is_sliced(graph, maker->bottom[0]));
  }
  const bool first = value == maker->top[0];
  const bool adds = first && maker->adds_in_place;
  if (adds) return is_sliced(graph, maker->bottom[maker->bottoms - 1]);
  if (!(first && maker->in_place) && !cr_graph_shares(maker)) return false;
  return maker->bottoms > 0 && is_sliced(graph, maker->bottom[0]);
}

static bool can_be_in_place(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (!cr_graph_is(graph, index, &cr_layer_concat) || layer->bottoms < 2) return false;
  if (layer->frozen.once || cr_graph_has_loss(graph, index)) return false;
  if (cr_pass_axis(layer) != 0 && cr_pass_axis(layer) != 1) return false;
  for (int j = 0; j < layer->bottoms; ++j) {
    const int root = cr_graph_root(graph, layer->bottom[j]);
    if (!cr_pass_makes_anew(graph, graph->value[root].maker)) return false;
    if (!cr_pass_reads_before(graph, root, index) || is_sliced(graph, layer->bottom[j]))
      return false;
  }
  return true;
}

crema_status cr_pass_concat(cr_graph *graph) {
  char name[CR_GRAPH_NAME];
  for (int i = 0; i < graph->layers; ++i) {
    if (!can_be_in_place(graph, i)) continue;
    graph->layer[i].frozen.parts_in_place = true;
    CR_TRY(cr_graph_tell(graph, "concat", "bottoms of %s are written into its top",
                         cr_graph_name(graph, i, name)));
  }
  return CREMA_OK;
}
