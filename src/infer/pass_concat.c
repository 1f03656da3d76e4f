/* What a Concat along samples or channels puts side by side is written there, or brought there as
 * soon as it is read: the Concat then has nothing to copy, and one that a further Concat follows
 * has nothing to do at all. net/parts.c does it, for shapes and formats in which it can be done. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* Along samples or channels; the axis has an old name, too. */
static bool has_parts(const cr_graph_layer *layer) {
  const Caffe__ConcatParameter *param = layer->built->param->concat_param;
  if (param == NULL) return true;
  const int64_t axis = param->has_concat_dim ? (int64_t)param->concat_dim : param->axis;
  return axis == 0 || axis == 1;
}

/* Whether the value lies in a Slice's bottom. */
static bool is_sliced(const cr_graph *graph, int value) {
  const cr_graph_layer *maker = &graph->layer[graph->value[value].maker];
  if (cr_graph_is(graph, graph->value[value].maker, &cr_layer_slice)) {
    return maker->parts_in_place || (maker->tops == 1 && is_sliced(graph, maker->bottom[0]));
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
  if (layer->once) return false;
  if (cr_graph_has_loss(graph, index) || !has_parts(layer)) return false;
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
    graph->layer[i].parts_in_place = true;
    CR_TRY(cr_graph_tell(graph, "concat", "bottoms of %s are written into its top",
                         cr_graph_name(graph, i, name)));
  }
  return CREMA_OK;
}
