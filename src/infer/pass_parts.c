/* A pointwise convolution of a Concat of two is the sum of two convolutions, each with its part of
 * the weights. If the Concat copies much more than a sum costs, it is removed. Pooling treats each
 * channel separately, so it moves before the Concat. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "infer/passes.h"
#include "layers/common/layer_conv.h"
#include "layers/registry.h"

enum {
  PARTS = 2,
  /* A sum reads and writes the result one more time, and a call costs the time of copying 100 KB.
   */
  FEWER_OUTPUTS = 4, /* than channels */
  LEAST = 1 << 17    /* values of a sample */
};

/* The bottoms must outlive the Concat: no other value is stored in their memory, and they have one
 * reader. */
static bool is_large_pair(const cr_graph *graph, int index) {
  const cr_graph_layer *l = &graph->layer[index];
  if (!cr_graph_is(graph, index, &cr_layer_concat) || l->bottoms != PARTS || l->tops != 1 ||
      l->frozen.once)
    return false;
  if (cr_graph_has_loss(graph, index) || !cr_graph_has_floats(graph, index)) return false;
  if (cr_pass_axis(l) != 1 || cr_graph_is_tied(graph, index)) return false;
  if (!cr_graph_may_go(graph, l->top[0]) || graph->value[l->top[0]].reader < 0) return false;
  for (int j = 0; j < PARTS; ++j) {
    const int value = l->bottom[j];
    if (cr_graph_root(graph, value) != value) return false;
    if (!cr_pass_makes_anew(graph, graph->value[value].maker)) return false;
  }
  const crema_shape *shape = cr_graph_shape(graph, l->top[0]);
  return shape->axes == 4 && crema_shape_count(shape, 1, shape->axes) >= LEAST;
}

static bool is_pointwise(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  if (!cr_graph_is(graph, layer, &cr_layer_convolution) || !cr_graph_is_simple(graph, layer) ||
      !cr_graph_has_floats(graph, layer) || cr_posts_add(&l->frozen.posts)) {
    return false;
  }
  const cr_layer_conv *conv = l->built->state;
  return cr_pass_is_pointwise(l) && conv->axis == 1 && conv->group == 1 &&
         conv->outputs * FEWER_OUTPUTS <= conv->channels;
}

/* Pooling that leaves at most half of the positions. */
static bool is_shrinking(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  const Caffe__PoolingParameter *param = l->param->pooling_param;
  if (!cr_graph_is(graph, layer, &cr_layer_pooling) || !cr_graph_is_simple(graph, layer) ||
      !cr_graph_has_floats(graph, layer) ||
      param->pool == CAFFE__POOLING_PARAMETER__POOL_METHOD__STOCHASTIC) {
    return false;
  }
  const crema_shape *from = cr_graph_shape(graph, l->bottom[0]);
  const crema_shape *to = cr_graph_shape(graph, l->top[0]);
  return 2 * crema_shape_count(to, 1, to->axes) <= crema_shape_count(from, 1, from->axes);
}

/* A layer, named after the Concat and `what`, that does for bottom `part` of the Concat the work of
 * `like` for the whole. The numbers of both may grow by one. */
static crema_status insert_part(cr_graph *graph, int *concat, int *like, int part, const char *what,
                                int *out) {
  const int value = graph->layer[*concat].bottom[part];
  const cr_layer_class *kind = graph->layer[*like].kind;
  Caffe__LayerParameter *param = NULL;
  CR_TRY(cr_graph_insert(graph, value, kind, what, out));
  *concat += *concat >= *out;
  *like += *like >= *out;
  cr_graph_layer *made = &graph->layer[*out];
  const cr_graph_layer *whole = &graph->layer[*like];
  CR_TRY(cr_message_copy(&whole->param->base, &param));
  char *name = param->name;
  param->name = made->param->name;
  made->param->name = name;
  cr_message_free(&made->param->base);
  made->param = param;
  made->built = whole->built;
  return CREMA_OK;
}

/* The weights of `count` input channels from `first` on. */
static crema_status take_weights(cr_graph *graph, int layer, int64_t all, int64_t first,
                                 int64_t count, const float *from) {
  const cr_layer_conv *conv = graph->layer[layer].built->state;
  const crema_shape shape = cr_shape_4(conv->outputs, count, 1, 1);
  float *to = NULL;
  CR_TRY(cr_graph_new_param(graph, layer, 0, &shape, &to));
  for (int64_t o = 0; o < conv->outputs; ++o) {
    memcpy(to + o * count, from + o * all + first, (size_t)count * sizeof *to);
  }
  return CREMA_OK;
}

static crema_status divide_weights(cr_graph *graph, int first, int second, int64_t part) {
  const cr_layer_conv *conv = graph->layer[second].built->state;
  const int64_t all = conv->channels, count = conv->outputs * all;
  const float *from = NULL;
  float *whole = NULL;
  CR_TRY(cr_tensor_host_read_floats(graph->layer[second].frozen.blob[0]->data, &from));
  CR_TRY(CR_NEW(whole, count, "weights"));
  memcpy(whole, from, (size_t)count * sizeof *whole);
  crema_status status = take_weights(graph, first, all, 0, part, whole);
  if (status == CREMA_OK) status = take_weights(graph, second, all, part, all - part, whole);
  free(whole);
  return status;
}

/* The convolution reads the second part, and adds the result of another convolution of the first
 * part. */
static crema_status add_products(cr_graph *graph, int concat, int conv) {
  char name[2][CR_GRAPH_NAME];
  const int second = graph->layer[concat].bottom[1];
  const int64_t part = cr_graph_shape(graph, graph->layer[concat].bottom[0])->dim[1];
  int first = 0;
  CR_TRY(insert_part(graph, &concat, &conv, 0, "product", &first));
  cr_graph_layer *made = &graph->layer[first], *l = &graph->layer[conv];
  made->param->convolution_param->has_bias_term = 1;
  made->param->convolution_param->bias_term = 0;
  CR_TRY(divide_weights(graph, first, conv, part));
  const int sum = made->top[0];
  graph->value[sum].name = graph->value[l->top[0]].name; /* which has its shape */
  CR_TRY(cr_graph_allocate(graph, &l->bottom, PARTS, sizeof *l->bottom));
  l->bottoms = PARTS;
  l->bottom[0] = second;
  l->bottom[1] = sum;
  l->moved = l->rewritten = l->adds_in_place = true;
  /* The sum comes before the other post operations. */
  const cr_posts others = l->frozen.posts;
  l->frozen.posts = (cr_posts){0};
  (void)cr_posts_append(&l->frozen.posts, &(cr_post){.kind = CR_POST_ADD});
  for (int i = 0; i < cr_posts_count(&others); ++i) {
    (void)cr_posts_append(&l->frozen.posts, &others.post[i]);
  }
  graph->value[second].reader = graph->value[sum].reader = conv;
  graph->layer[concat].removed = true;
  return cr_graph_tell(graph, "parts", "%s adds up its results for the bottoms of %s",
                       cr_graph_name(graph, conv, name[0]), cr_graph_name(graph, concat, name[1]));
}

static crema_status pool_parts(cr_graph *graph, int concat, int pool) {
  char name[2][CR_GRAPH_NAME];
  int made = 0;
  for (int j = 0; j < PARTS; ++j) {
    CR_TRY(insert_part(graph, &concat, &pool, j, j == 0 ? "first" : "second", &made));
  }
  cr_graph_merge_back(graph, concat, pool);
  return cr_graph_tell(graph, "parts", "%s pools the bottoms of %s",
                       cr_graph_name(graph, pool, name[0]), cr_graph_name(graph, concat, name[1]));
}

crema_status cr_pass_parts(cr_graph *graph) {
  if (graph->precision != CREMA_PRECISION_F32) return CREMA_OK;
  for (int i = 0; i < graph->layers; ++i) {
    if (!is_large_pair(graph, i)) continue;
    const int reader = graph->value[graph->layer[i].top[0]].reader;
    if (is_pointwise(graph, reader)) CR_TRY(add_products(graph, i, reader));
    else if (is_shrinking(graph, reader)) CR_TRY(pool_parts(graph, i, reader));
  }
  return CREMA_OK;
}
