/* Whether the samples of a batch are independent, so that a session may compute some of them at a
 * time (infer/batch_split.h), and the cost of doing so. */
#include "core/fail.h"
#include "infer/passes.h"

/* Whether each sample of the tops depends only on the same sample of the bottoms. Bottoms and tops
 * are floats, for any type that the layer computes in. */
static bool is_apart(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  const cr_layer_types *types = &l->built->types;
  return !cr_graph_has_loss(graph, layer) && types->forward == CREMA_F32 &&
         types->forward_math == CREMA_F32 && cr_layer_arithmetic(l->built) == CREMA_F32 &&
         cr_graph_reach(l) >= CR_REACHES_SAMPLE;
}

static double bytes_of(const cr_graph *graph, int value) {
  const crema_shape *shape = cr_graph_shape(graph, value);
  const cr_graph_layer *maker = &graph->layer[graph->value[cr_graph_root(graph, value)].maker];
  const crema_dtype type = maker->frozen.retyped ? maker->frozen.tops : CREMA_F32;
  return (double)crema_shape_count(shape, 1, shape->axes) * (double)crema_dtype_size(type);
}

/* Adds the cost of the layer. */
static void add_cost(const cr_graph *graph, int layer, cr_batch_cost *batch) {
  const cr_graph_layer *l = &graph->layer[layer];
  double made = 0, read = 0;
  for (int p = 0; p < l->frozen.params; ++p) {
    batch->weights += (double)crema_blob_count(l->frozen.blob[p]) *
                      (double)crema_dtype_size(cr_tensor_type(l->frozen.blob[p]->data));
  }
  for (int j = 0; j < l->tops; ++j) made += bytes_of(graph, l->top[j]);
  for (int j = 0; j < l->bottoms; ++j) read += bytes_of(graph, l->bottom[j]);
  if (cr_graph_shares(l)) return;
  batch->values += made;
  if (made + read > batch->largest) batch->largest = made + read;
}

/* Whether the first axis of all values is the same. */
static bool have_one_batch(const cr_graph *graph, int layer, int64_t *batch) {
  const cr_graph_layer *l = &graph->layer[layer];
  for (int j = 0; j < l->tops; ++j) {
    const crema_shape *shape = cr_graph_shape(graph, l->top[j]);
    if (shape->axes < 1 || (*batch >= 0 && shape->dim[0] != *batch)) return false;
    *batch = shape->dim[0];
  }
  return true;
}

crema_status cr_pass_batch(cr_graph *graph) {
  cr_batch_cost batch = {.apart = true};
  int64_t items = -1;
  for (int i = 0; i < graph->layers && batch.apart; ++i) {
    if (graph->layer[i].removed) continue;
    batch.apart = is_apart(graph, i) && have_one_batch(graph, i, &items);
    if (batch.apart) add_cost(graph, i, &batch);
  }
  graph->batch = batch;
  if (!batch.apart) return CREMA_OK;
  return cr_graph_tell(graph, "batch",
                       "%.1f MB of weights, %.1f MB of values for each sample, %.1f MB at once: "
                       "samples can be computed apart",
                       batch.weights * 1e-6, batch.values * 1e-6, batch.largest * 1e-6);
}
