/* A convolution with windows of one element and a stride reads only one of several positions. The
 * preceding convolution adopts the stride, through element-wise layers and sums, and computes no
 * other positions. The other bottoms of such a sum, such as a shortcut, are copied position by
 * position (Pooling with windows of one element).
 *
 * Extents stay right for inputs of any size: with rounding down, floor(floor(x / a) / b) is
 * floor(x / (a b)). */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/layer_conv.h"
#include "layers/registry.h"
#include "proto/field.h"

enum { AXES = 2 };

typedef struct steps {
  int64_t by[AXES]; /* 0: not known to be read in steps */
} steps;

typedef struct strider {
  cr_graph *graph;
  steps *read; /* of each value: how it is read */
  steps *stride; /* of each layer: the stride of a convolution, times the stride that it adopts */
  bool *saves; /* of each value: computing less of it saves products */
} strider;

static bool is_set(steps s) {
  return s.by[0] > 0;
}

/* Whose stride may be changed. */
static bool is_conv(const cr_graph *graph, int layer) {
  if (!cr_graph_is(graph, layer, &cr_layer_convolution)) return false;
  if (!cr_graph_is_simple(graph, layer) || !cr_graph_has_floats(graph, layer)) return false;
  const cr_layer_conv *conv = graph->layer[layer].built->state;
  return conv->axis == 1 && conv->window.axes == AXES;
}

/* Whether each position of the tops depends only on the same position of the bottoms. */
static bool is_positional(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  if (l->removed || l->rewritten || l->bottoms < 1 || cr_graph_has_loss(graph, layer)) return false;
  if (cr_graph_is_tied(graph, layer) || !cr_graph_has_floats(graph, layer)) return false;
  return l->tops >= 1 && cr_graph_reach(l) >= CR_REACHES_POSITION;
}

/* How the layer's tops are read, if all are read alike. */
static steps read_of_tops(const strider *s, int layer) {
  const cr_graph_layer *l = &s->graph->layer[layer];
  const steps first = s->read[l->top[0]];
  for (int j = 0; j < l->tops; ++j) {
    if (!cr_graph_may_go(s->graph, l->top[j]) || s->graph->value[l->top[j]].overwritten ||
        memcmp(&s->read[l->top[j]], &first, sizeof first) != 0) {
      return (steps){{0}};
    }
  }
  return first;
}

static void look_at(strider *s, int layer) {
  const cr_graph_layer *l = &s->graph->layer[layer];
  if (is_conv(s->graph, layer)) {
    const cr_layer_conv *conv = l->built->state;
    const steps more = read_of_tops(s, layer);
    steps *own = &s->stride[layer];
    for (int a = 0; a < AXES; ++a) {
      own->by[a] = conv->window.stride[a] * (is_set(more) ? more.by[a] : 1);
    }
    const bool strided = own->by[0] > 1 || own->by[1] > 1;
    if (strided && cr_pass_is_pointwise(l)) s->read[l->bottom[0]] = *own;
  } else if (is_positional(s->graph, layer)) {
    const steps read = read_of_tops(s, layer);
    for (int j = 0; j < l->bottoms; ++j) s->read[l->bottom[j]] = read;
  }
}

/* Whether one of the convolutions before the value adopts the stride. */
static void find_savings(strider *s, int layer) {
  const cr_graph_layer *l = &s->graph->layer[layer];
  bool saves = is_conv(s->graph, layer);
  if (is_positional(s->graph, layer)) {
    for (int j = 0; j < l->bottoms; ++j) saves = saves || s->saves[l->bottom[j]];
  }
  saves = saves && l->tops > 0 && is_set(read_of_tops(s, layer));
  for (int j = 0; j < l->tops; ++j) s->saves[l->top[j]] = saves;
}

/* Keeps values complete if removing positions saves nothing. The other bottoms of a sum must
 * follow. */
static void settle(strider *s, int layer) {
  const cr_graph_layer *l = &s->graph->layer[layer];
  const bool keeps_place = is_positional(s->graph, layer);
  for (int j = 0; j < l->bottoms; ++j) {
    steps *read = &s->read[l->bottom[j]];
    const bool follows = keeps_place && is_set(read_of_tops(s, layer));
    const bool starts = is_conv(s->graph, layer) && s->saves[l->bottom[j]];
    if (!follows && !starts) *read = (steps){{0}};
  }
}

static crema_status change_conv(strider *s, int layer) {
  cr_graph *graph = s->graph;
  cr_graph_layer *l = &graph->layer[layer];
  Caffe__ConvolutionParameter *param = l->param->convolution_param;
  const cr_layer_conv *conv = l->built->state;
  const steps more = read_of_tops(s, layer);
  const steps want = is_set(s->read[l->bottom[0]]) ? (steps){{1, 1}} : s->stride[layer];
  char name[CR_GRAPH_NAME];
  if (want.by[0] == conv->window.stride[0] && want.by[1] == conv->window.stride[1]) return CREMA_OK;
  free(param->stride);
  param->stride = NULL;
  param->n_stride = 0;
  param->has_stride_h = param->has_stride_w = 1;
  param->stride_h = (uint32_t)want.by[0];
  param->stride_w = (uint32_t)want.by[1];
  if (!is_set(more)) return CREMA_OK;
  return cr_graph_tell(graph, "stride",
                       "%s computes one of %lld positions, which are all that is read",
                       cr_graph_name(graph, layer, name), (long long)(more.by[0] * more.by[1]));
}

static crema_status set_pooling(Caffe__LayerParameter *layer, steps by) {
  Caffe__PoolingParameter *param = NULL;
  CR_TRY(cr_message_inner(&layer->base, "pooling_param", &param));
  param->has_kernel_size = param->has_stride_h = param->has_stride_w = param->has_round_mode = 1;
  param->kernel_size = 1;
  param->stride_h = (uint32_t)by.by[0];
  param->stride_w = (uint32_t)by.by[1];
  param->round_mode = CAFFE__POOLING_PARAMETER__ROUND_MODE__FLOOR;
  return CREMA_OK;
}

/* Copies the positions that the reader reads. */
static crema_status insert_copy(cr_graph *graph, int value, steps by) {
  char name[2][CR_GRAPH_NAME];
  int layer = 0;
  CR_TRY(cr_graph_insert(graph, value, &cr_layer_pooling, "select", &layer));
  CR_TRY(set_pooling(graph->layer[layer].param, by));
  graph->layer[layer].selects = true;
  return cr_graph_tell(
      graph, "stride", "one of %lld positions of the top of %s is copied for %s",
      (long long)(by.by[0] * by.by[1]), cr_graph_name(graph, graph->value[value].maker, name[0]),
      cr_graph_name(graph, graph->value[graph->layer[layer].top[0]].reader, name[1]));
}

static crema_status change(strider *s) {
  cr_graph *graph = s->graph;
  const int values = graph->values;
  for (int i = 0; i < graph->layers; ++i) {
    if (!graph->layer[i].removed && is_conv(graph, i)) CR_TRY(change_conv(s, i));
  }
  for (int v = 0; v < values; ++v) {
    const int maker = graph->value[v].maker;
    if (!is_set(s->read[v])) continue;
    const bool able = is_conv(graph, maker) || is_positional(graph, maker);
    const bool fewer = able && graph->layer[maker].tops > 0 && is_set(read_of_tops(s, maker));
    if (fewer) graph->value[v].last = false;
    else CR_TRY(insert_copy(graph, v, s->read[v]));
  }
  return CREMA_OK;
}

crema_status cr_pass_stride(cr_graph *graph) {
  strider s = {.graph = graph};
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(s.read, graph->values + 1, "a compiled net"), out);
  CR_TRY_GOTO(CR_NEW(s.saves, graph->values + 1, "a compiled net"), out);
  CR_TRY_GOTO(CR_NEW(s.stride, graph->layers + 1, "a compiled net"), out);
  for (int i = graph->layers - 1; i >= 0; --i) {
    if (!graph->layer[i].removed) look_at(&s, i);
  }
  for (int i = 0; i < graph->layers; ++i) {
    if (!graph->layer[i].removed) find_savings(&s, i);
  }
  for (int i = graph->layers - 1; i >= 0; --i) {
    if (!graph->layer[i].removed) settle(&s, i);
  }
  status = change(&s);
out:
  free(s.stride);
  free(s.saves);
  free(s.read);
  return status;
}
