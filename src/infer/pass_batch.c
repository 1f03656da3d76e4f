/* Whether the samples of a batch have nothing to do with each other, so that a session may compute
 * some of them at a time (infer/pieces.h), and what that costs and saves. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/layer_conv.h"
#include "layers/registry.h"

static bool has_classes(const cr_graph_layer *l, const cr_layer_class *const *class, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (l->class == class[i]) return true;
  }
  return false;
}

/* The axis along which the layer works; 1: the parameters do not say. */
static int axis_of(const cr_graph_layer *l) {
  const Caffe__LayerParameter *p = l->param;
  if (p->convolution_param != NULL) return p->convolution_param->axis;
  if (p->inner_product_param != NULL) return p->inner_product_param->axis;
  if (p->softmax_param != NULL) return p->softmax_param->axis;
  if (p->scale_param != NULL) return p->scale_param->axis;
  if (p->bias_param != NULL) return p->bias_param->axis;
  if (p->flatten_param != NULL) return p->flatten_param->axis;
  if (p->concat_param != NULL) {
    return p->concat_param->has_concat_dim ? (int)p->concat_param->concat_dim
                                           : p->concat_param->axis;
  }
  if (p->slice_param != NULL) {
    return p->slice_param->has_slice_dim ? (int)p->slice_param->slice_dim : p->slice_param->axis;
  }
  return 1;
}

static bool has_running_statistics(const cr_graph_layer *l) {
  const Caffe__BatchNormParameter *p = l->param->batch_norm_param;
  return p == NULL || !p->has_use_global_stats || p->use_global_stats;
}

/* Whether each sample of the tops depends on the same sample of the bottoms alone. */
static bool is_apart(const cr_graph *graph, int layer) {
  static const cr_layer_class *const plain[] = {
      &cr_layer_input, &cr_layer_pooling, &cr_layer_lrn,   &cr_layer_split,
      &cr_layer_prelu, &cr_layer_eltwise, &cr_layer_relu6, &cr_layer_shuffle_channel};
  static const cr_layer_class *const along[] = {&cr_layer_inner_product, &cr_layer_softmax,
                                                &cr_layer_flatten, &cr_layer_concat,
                                                &cr_layer_slice};
  const cr_graph_layer *l = &graph->layer[layer];
  if (cr_graph_has_loss(graph, layer) || !cr_graph_has_floats(graph, layer)) return false;
  if (has_classes(l, plain, sizeof plain / sizeof plain[0])) return true;
  if (l->class == &cr_layer_batch_norm) return has_running_statistics(l);
  if (l->class == &cr_layer_scale || l->class == &cr_layer_bias) {
    return l->bottoms == 1 && axis_of(l) >= 1;
  }
  if (l->class->reshape == cr_layer_conv_reshape ||
      has_classes(l, along, sizeof along / sizeof along[0])) {
    return axis_of(l) >= 1;
  }
  return l->class->post != NULL && l->bottoms == 1 && l->tops == 1;
}

static double bytes_of(const cr_graph *graph, int value) {
  const crema_shape *shape = cr_graph_shape(graph, value);
  return (double)crema_shape_count(shape, 1, shape->axes) * sizeof(float);
}

/* Adds what the layer costs. */
static void add_cost(const cr_graph *graph, int layer, cr_apart *batch) {
  const cr_graph_layer *l = &graph->layer[layer];
  double made = 0, read = 0;
  for (int p = 0; p < l->params; ++p) {
    batch->weights += (double)crema_blob_count(l->blob[p]) *
                      (double)crema_dtype_size(cr_tensor_type(l->blob[p]->data));
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
  cr_apart batch = {.apart = true};
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
