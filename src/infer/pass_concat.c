/* What a Concat along the channels puts side by side is written there, or brought there as soon as
 * it is read: the Concat then has nothing to copy, and one that a further Concat follows has
 * nothing to do at all. net/parts.c does it, for shapes and formats in which it can be done. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* Along axis 1, which has an old name, too. */
static bool is_along_channels(const cr_graph_layer *layer) {
  const Caffe__ConcatParameter *param = layer->built->param->concat_param;
  if (param == NULL) return true;
  return param->has_concat_dim ? param->concat_dim == 1 : param->axis == 1;
}

/* Whether the maker writes its values anew in each pass. */
static bool is_made_anew(const cr_graph *graph, int maker) {
  const cr_graph_layer *layer = &graph->layer[maker];
  if (layer->bottoms == 0 || layer->class->input != NULL || layer->class->persistent != NULL ||
      layer->once) {
    return false;
  }
  return !layer->class->reshapes_always && !cr_graph_has_loss(graph, maker);
}

/* Whether nobody needs the value, or others that lie in the same memory, when `concat` has run. */
static bool is_read_before(const cr_graph *graph, int value, int concat) {
  const cr_graph_value *v = &graph->value[value];
  if (!cr_graph_may_go(graph, value) || v->reader > concat) return false;
  if (v->reader < 0 || v->reader == concat) return true;
  const cr_graph_layer *reader = &graph->layer[v->reader];
  const bool over = (reader->adds_in_place && reader->bottom[reader->bottoms - 1] == value) ||
                    (reader->in_place && reader->bottom[0] == value);
  if (over) return is_read_before(graph, reader->top[0], concat);
  bool before = true;
  for (int j = 0; j < reader->tops && cr_graph_shares(reader); ++j) {
    before = before && is_read_before(graph, reader->top[j], concat);
  }
  return before;
}

static bool can_be_in_place(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (!cr_graph_is(graph, index, &cr_layer_concat) || layer->bottoms < 2) return false;
  if (layer->once) return false;
  if (cr_graph_has_loss(graph, index) || !is_along_channels(layer)) return false;
  for (int j = 0; j < layer->bottoms; ++j) {
    const int root = cr_graph_root(graph, layer->bottom[j]);
    if (!is_made_anew(graph, graph->value[root].maker)) return false;
    if (!is_read_before(graph, root, index)) return false;
  }
  return true;
}

crema_status cr_pass_concat(cr_graph *graph) {
  char name[CR_GRAPH_NAME];
  for (int i = 0; i < graph->layers; ++i) {
    graph->layer[i].concat_in_place = can_be_in_place(graph, i);
    if (!graph->layer[i].concat_in_place) continue;
    CR_TRY(cr_graph_tell(graph, "concat", "bottoms of %s are written into its top",
                         cr_graph_name(graph, i, name)));
  }
  return CREMA_OK;
}
