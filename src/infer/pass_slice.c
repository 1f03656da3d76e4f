/* What a Slice along samples or channels cuts out of its bottom is read there: the Slice has
 * nothing to copy. Readers whose kernels cannot read it between the other values get a copy without
 * those, which is what the Slice would have made. net/parts.c does it, for shapes and formats in
 * which it can be done. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* The axis has an old name, too. */
static bool has_parts(const cr_graph_layer *layer) {
  const Caffe__SliceParameter *param = layer->built->param->slice_param;
  if (param == NULL) return true;
  const int64_t axis = param->has_slice_dim ? (int64_t)param->slice_dim : param->axis;
  return axis == 0 || axis == 1;
}

/* What is done with the memory of a value from a layer on. */
typedef struct uses {
  bool free;        /* nobody asks for it by a name, or reads it in another pass */
  bool overwritten; /* by that layer or a later one */
} uses;

static void visit(const cr_graph *graph, int value, int from, uses *u) {
  const cr_graph_value *v = &graph->value[value];
  u->free = u->free && cr_graph_may_go(graph, value);
  if (v->reader < 0) return;
  const cr_graph_layer *reader = &graph->layer[v->reader];
  u->free = u->free && !reader->kind->memory.reshapes_always && !reader->once;
  const bool over = (reader->adds_in_place && reader->bottom[reader->bottoms - 1] == value) ||
                    (reader->in_place && reader->bottom[0] == value);
  u->overwritten = u->overwritten || (over && v->reader >= from);
  if (over) visit(graph, reader->top[0], from, u);
  for (int j = 0; j < reader->tops && !over && cr_graph_shares(reader); ++j) {
    visit(graph, reader->top[j], from, u);
  }
}

/* Nobody may write the bottom behind the Slice. Who writes a top writes the bottom, which nobody
 * may read then. */
static bool can_be_in_place(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (!cr_graph_is(graph, index, &cr_layer_slice) || layer->tops < 2) return false;
  if (layer->once || cr_graph_is_tied(graph, index)) return false;
  if (cr_graph_has_loss(graph, index) || !has_parts(layer)) return false;
  const int root = cr_graph_root(graph, layer->bottom[0]), maker = graph->value[root].maker;
  if (graph->layer[maker].retyped != layer->retyped) return false;
  uses of_tops = {.free = true}, of_bottom = {.free = true};
  for (int j = 0; j < layer->tops; ++j) visit(graph, layer->top[j], index, &of_tops);
  visit(graph, root, index, &of_bottom);
  if (!of_tops.free || of_bottom.overwritten) return false;
  return !of_tops.overwritten ||
         (cr_pass_makes_anew(graph, maker) && cr_pass_reads_before(graph, root, index));
}

crema_status cr_pass_slice(cr_graph *graph) {
  char name[CR_GRAPH_NAME];
  for (int i = 0; i < graph->layers; ++i) {
    graph->layer[i].parts_in_place = can_be_in_place(graph, i);
    if (!graph->layer[i].parts_in_place) continue;
    CR_TRY(cr_graph_tell(graph, "slice", "tops of %s are read in its bottom",
                         cr_graph_name(graph, i, name)));
  }
  return CREMA_OK;
}
