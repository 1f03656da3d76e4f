/* Fuses element-wise functions and sums of two into the preceding convolution or inner product,
 * which computes them while it writes its result (cr_layer.posts). Also fuses ReLUs into a Scale or
 * Bias. */
#include "core/fail.h"
#include "infer/passes.h"
#include "layers/registry.h"

/* Functions that the libraries' kernels apply fast. */
static bool is_fast(const cr_post *post) {
  switch (post->function) {
    case CR_UNARY_RELU:
    case CR_UNARY_SIGMOID:
    case CR_UNARY_TANH:
    case CR_UNARY_ABS:
    case CR_UNARY_ELU:
    case CR_UNARY_CLIP:
    case CR_UNARY_SWISH:
    case CR_UNARY_GELU:
    case CR_UNARY_GELU_TANH: return true;
    case CR_UNARY_POWER: return post->alpha == 1;
    default: return false;
  }
}

/* The layer as a post operation; false for another layer. A PReLU with one slope for
 * all channels is a ReLU. */
static crema_status read_post(const cr_graph *graph, int layer, cr_post *out, bool *found) {
  const cr_graph_layer *l = &graph->layer[layer];
  const float *slope = NULL;
  *found = false;
  if (!cr_graph_is_simple(graph, layer) || !cr_graph_has_floats(graph, layer)) return CREMA_OK;
  if (cr_graph_is(graph, layer, &cr_layer_prelu) && crema_blob_count(l->frozen.blob[0]) == 1) {
    CR_TRY(cr_tensor_host_read_floats(l->frozen.blob[0]->data, &slope));
    *out = (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_RELU, .alpha = (double)slope[0]};
    *found = true;
  } else if (l->kind->fusion.post != NULL) {
    *found = l->kind->fusion.post(l->built->param, CREMA_F32, out) && is_fast(out);
  }
  return CREMA_OK;
}

static crema_status take_function(cr_graph *graph, int layer, int reader, bool *taken) {
  cr_post post;
  *taken = false;
  /* One function is enough for nets in use. The library oneDNN 2.6 computes some lists of two
   * functions wrong: a ReLU after a ReLU with a slope and a sum gets the slope of the first. */
  const cr_posts *posts = &graph->layer[layer].frozen.posts;
  if (cr_posts_count(posts) > (cr_posts_add(posts) ? 1 : 0)) return CREMA_OK;
  CR_TRY(read_post(graph, reader, &post, taken));
  *taken = *taken && cr_posts_append(&graph->layer[layer].frozen.posts, &post);
  if (!*taken) return CREMA_OK;
  cr_graph_merge_back(graph, layer, reader);
  return cr_graph_tell_merge(graph, "fuse", reader, layer, "");
}

/* A sum of two blobs as they are. */
static bool is_sum(const cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  const Caffe__EltwiseParameter *param = l->built->param->eltwise_param;
  if (!cr_graph_is(graph, layer, &cr_layer_eltwise) || l->bottoms != 2 || l->tops != 1)
    return false;
  if (cr_graph_has_loss(graph, layer) || !cr_graph_has_floats(graph, layer)) return false;
  if (cr_graph_is_tied(graph, layer)) return false;
  if (param == NULL) return true;
  if (param->operation != CAFFE__ELTWISE_PARAMETER__ELTWISE_OP__SUM) return false;
  for (size_t i = 0; i < param->n_coeff; ++i) {
    if (param->coeff[i] != 1.0f) return false;
  }
  return true;
}

/* A walk over the values that are stored in one block of memory. */
typedef struct walk {
  int layer; /* that is to overwrite the memory */
  bool free; /* so far: no layer needs the values when that layer runs */
  bool mark; /* the values do not stay to the end of the pass */
} walk;

static void visit(cr_graph *graph, walk *w, int value) {
  cr_graph_value *v = &graph->value[value];
  if (w->mark) v->last = false;
  if (!cr_graph_may_go(graph, value) || v->reader > w->layer) w->free = false;
  if (v->reader < 0 || v->reader == w->layer) return;
  const cr_graph_layer *reader = &graph->layer[v->reader];
  if (cr_graph_overwrites(reader, value)) {
    visit(graph, w, reader->top[0]);
  } else if (cr_graph_shares(reader)) {
    for (int j = 0; j < reader->tops; ++j) visit(graph, w, reader->top[j]);
  }
}

/* Whether the layer may write its result over the addend: no other layer needs a value in that
 * memory when the layer runs. The layer's own source is stored elsewhere, because its reader is the
 * layer itself. */
static bool overwrite_addend(cr_graph *graph, int layer, int addend) {
  const int root = cr_graph_root(graph, addend), source = graph->layer[layer].bottom[0];
  const cr_graph_layer *maker = &graph->layer[graph->value[root].maker];
  walk w = {.layer = layer, .free = true};
  if (maker->bottoms == 0 || maker->kind->input != NULL || maker->kind->memory.persistent != NULL ||
      maker->frozen.once) {
    return false;
  }
  if (cr_graph_root(graph, source) == root) return false;
  visit(graph, &w, root);
  if (!w.free) return false;
  w.mark = true;
  visit(graph, &w, root);
  return true;
}

static crema_status add_bottom(cr_graph *graph, int layer, int value) {
  cr_graph_layer *l = &graph->layer[layer];
  int *bottom = NULL;
  CR_TRY(cr_graph_allocate(graph, &bottom, (size_t)l->bottoms + 1, sizeof *bottom));
  for (int j = 0; j < l->bottoms; ++j) bottom[j] = l->bottom[j];
  bottom[l->bottoms++] = value;
  l->bottom = bottom;
  graph->value[value].reader = layer;
  return CREMA_OK;
}

/* The other bottom of the sum must exist when the layer runs. */
static crema_status take_sum(cr_graph *graph, int layer, int reader, bool *taken) {
  cr_graph_layer *l = &graph->layer[layer];
  const cr_post add = {.kind = CR_POST_ADD};
  *taken = false;
  if (!is_sum(graph, reader) || cr_posts_add(&l->frozen.posts)) return CREMA_OK;
  const int *bottom = graph->layer[reader].bottom;
  const int addend = bottom[0] == l->top[0] ? bottom[1] : bottom[0];
  if (addend == l->top[0] || graph->value[addend].maker > layer) return CREMA_OK;
  *taken = cr_posts_append(&l->frozen.posts, &add);
  if (!*taken) return CREMA_OK;
  l->sum = reader;
  l->sum_bottom = bottom[0] == l->top[0] ? 1 : 0;
  cr_graph_merge_back(graph, layer, reader);
  CR_TRY(add_bottom(graph, layer, addend));
  l->adds_in_place = overwrite_addend(graph, layer, addend);
  return cr_graph_tell_merge(graph, "fuse", reader, layer,
                             l->adds_in_place ? ", in the memory of the addend" : "");
}

/* Lets a Scale, which may be a merger of other layers, apply a ReLU. Other functions would take the
 * same time as their own layers. */
static crema_status fuse_relu(cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  cr_post post;
  bool found = false;
  if (!l->kind->fusion.fuses_functions || l->removed || l->bottoms != 1 || l->tops != 1 ||
      cr_graph_has_loss(graph, layer) || !cr_graph_has_floats(graph, layer)) {
    return CREMA_OK;
  }
  const int reader = graph->value[l->top[0]].reader;
  if (reader < 0 || !cr_graph_may_go(graph, l->top[0])) return CREMA_OK;
  CR_TRY(read_post(graph, reader, &post, &found));
  if (!found || post.function != CR_UNARY_RELU) return CREMA_OK;
  return take_function(graph, layer, reader, &found);
}

static crema_status fuse_into(cr_graph *graph, int layer) {
  const cr_graph_layer *l = &graph->layer[layer];
  bool taken = l->kind->fusion.fuses_posts && cr_graph_is_simple(graph, layer) &&
               cr_graph_has_floats(graph, layer);
  CR_TRY(fuse_relu(graph, layer));
  while (taken) {
    const int top = l->top[0], reader = graph->value[top].reader;
    if (reader < 0 || !cr_graph_may_go(graph, top)) return CREMA_OK;
    CR_TRY(take_function(graph, layer, reader, &taken));
    if (!taken) CR_TRY(take_sum(graph, layer, reader, &taken));
  }
  return CREMA_OK;
}

crema_status cr_pass_fuse(cr_graph *graph) {
  for (int i = 0; i < graph->layers; ++i) CR_TRY(fuse_into(graph, i));
  return CREMA_OK;
}
