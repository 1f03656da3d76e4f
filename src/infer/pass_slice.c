/* The tops of a Slice along samples or channels alias its bottom, so that the Slice has nothing to
 * copy. Readers whose kernels cannot skip the other values get a dense copy, as the Slice would
 * have made. net/parts.c does it, for shapes and formats that allow it. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* The uses of a value's memory from a layer on. */
typedef struct uses {
  bool free;        /* no caller asks for it by a name, no layer reads it in another pass */
  bool overwritten; /* by that layer or a later one */
} uses;

static void visit(const cr_graph *graph, int value, int from, uses *u) {
  const cr_graph_value *v = &graph->value[value];
  u->free = u->free && cr_graph_may_go(graph, value);
  if (v->reader < 0) return;
  const cr_graph_layer *reader = &graph->layer[v->reader];
  u->free = u->free && !reader->kind->memory.reshapes_always && !reader->frozen.once;
  const bool over = cr_graph_overwrites(reader, value);
  u->overwritten = u->overwritten || (over && v->reader >= from);
  if (over) visit(graph, reader->top[0], from, u);
  for (int j = 0; j < reader->tops && !over && cr_graph_shares(reader); ++j) {
    visit(graph, reader->top[j], from, u);
  }
}

/* No layer after the Slice may write the bottom. A layer that writes a top writes the bottom, which
 * no other layer may read then. */
static bool can_be_in_place(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (!cr_graph_is(graph, index, &cr_layer_slice) || layer->tops < 2) return false;
  if (layer->frozen.once || cr_graph_is_tied(graph, index)) return false;
  if (cr_graph_has_loss(graph, index)) return false;
  if (cr_pass_axis(layer) != 0 && cr_pass_axis(layer) != 1) return false;
  const int root = cr_graph_root(graph, layer->bottom[0]), maker = graph->value[root].maker;
  if (graph->layer[maker].frozen.retyped != layer->frozen.retyped) return false;
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
    graph->layer[i].frozen.parts_in_place = can_be_in_place(graph, i);
    if (!graph->layer[i].frozen.parts_in_place) continue;
    CR_TRY(cr_graph_tell(graph, "slice", "tops of %s are read in its bottom",
                         cr_graph_name(graph, i, name)));
  }
  return CREMA_OK;
}
