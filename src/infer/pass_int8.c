/* Convolutions and inner products in int8, with the scales of a table.
 *
 * A layer multiplies integers if the table has a scale for its bottom. Its weights become I8 with a
 * scale per output channel; its bottom becomes U8 if it cannot be below 0, else I8. Values between
 * such layers are integers of one scale, also through max pooling, Concat and Split. All other
 * values stay in FLOAT, and a layer rounds its bottom itself. A Scale or an LRN of floats before
 * such a layer does that in its place. A Scale whose bottom has a scale in the table also reads
 * int8. An average of a whole plane converts int8 to floats. A layer that adds a blob has both, or
 * neither, in integers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/backend.h"
#include "infer/passes.h"
#include "infer/quantized_weights.h"

/* Values that are held in one way; kept for the first of them. */
typedef struct group {
  int parent;      /* another value of the group, or itself */
  bool integers;   /* not excluded so far */
  bool signs;      /* some may be below 0 */
  float threshold; /* the largest magnitude that has its own integer; 0: unknown */
} group;

typedef struct quantizer {
  cr_graph *graph;
  bool *product; /* of each layer: it should multiply integers */
  group *group;  /* of each value */
} quantizer;

static int root_of(const quantizer *q, int value) {
  while (q->group[value].parent != value) value = q->group[value].parent;
  return value;
}

static int own_bottoms(const cr_graph_layer *l) {
  return l->bottoms - (cr_posts_add(&l->frozen.posts) ? 1 : 0);
}

/* What Intel Caffe's calibration has written into a net. NULL: no information about int8. */
static const Caffe__QuantizationParameter *calibrated(const cr_graph_layer *l) {
  const Caffe__QuantizationParameter *p = l->built->param->quantization_param;
  return p != NULL && p->bw_layer_in == 8 ? p : NULL;
}

/* The largest magnitude of a layer's bottom by the table or else by the net; 0: none of them says.
 * Intel Caffe uses integers up to 255 if no value is negative. */
static float threshold_of(const quantizer *q, int layer, int bottom) {
  const cr_scales_line *line =
      cr_scales_find(q->graph->scales, q->graph->layer[layer].built->name, "");
  const Caffe__QuantizationParameter *p = calibrated(&q->graph->layer[layer]);
  if (line == NULL && p != NULL && (size_t)bottom < p->n_scale_in && p->scale_in[bottom] > 0) {
    return (p->is_negative_input ? 127 : 255) / p->scale_in[bottom];
  }
  if (line == NULL || (size_t)bottom >= line->count || !(line->value[bottom] > 0)) return 0;
  return 127 / line->value[bottom];
}

/* Whether it can round its top. */
static bool is_rounder(const quantizer *q, int layer) {
  const cr_graph_layer *l = &q->graph->layer[layer];
  if (!l->kind->int8.rounds_tops || l->removed || l->frozen.once) return false;
  if (l->bottoms != 1 || l->tops != 1) return false;
  if (cr_graph_has_loss(q->graph, layer) || !cr_graph_has_floats(q->graph, layer)) return false;
  return l->kind->int8.rescale == NULL || l->kind->int8.rescale(l->param, 1);
}

/* Whether it can make floats of integers. */
static bool is_averager(const quantizer *q, int layer) {
  const cr_graph_layer *l = &q->graph->layer[layer];
  if (l->kind->int8.averages_integers == NULL || l->removed || l->rewritten || l->moved ||
      l->frozen.once) {
    return false;
  }
  if (l->bottoms != 1 || l->tops != 1 || !(threshold_of(q, layer, 0) > 0)) return false;
  if (cr_graph_has_loss(q->graph, layer) || !cr_graph_has_floats(q->graph, layer)) return false;
  return l->kind->int8.averages_integers(l->built, cr_graph_shape(q->graph, l->top[0]));
}

/* Whether it works on integers of any scale as on floats. */
static bool is_carrier(const quantizer *q, int layer) {
  const cr_graph_layer *l = &q->graph->layer[layer];
  if (l->selects) return true;
  if (l->removed || l->rewritten || !cr_graph_has_floats(q->graph, layer)) return false;
  if (cr_graph_has_loss(q->graph, layer)) return false;
  return l->kind->int8.carries_integers != NULL &&
         l->kind->int8.carries_integers(l->built, cr_graph_shape(q->graph, l->top[0]));
}

/* Whether f(s x) = s f(x), so that the function can be applied in units of the top's scale, which
 * its parameters include. */
static bool scales_along(const cr_posts *posts) {
  for (int i = 0; i < cr_posts_count(posts); ++i) {
    const cr_post *post = &posts->post[i];
    if (post->kind == CR_POST_ADD) continue;
    if (post->function != CR_UNARY_RELU && post->function != CR_UNARY_CLIP &&
        post->function != CR_UNARY_ABS) {
      return false;
    }
  }
  return true;
}

static bool is_rectified(const cr_post *post) {
  if (post->kind != CR_POST_UNARY) return false;
  switch (post->function) {
    case CR_UNARY_RELU: return post->alpha == 0;
    case CR_UNARY_CLIP: return post->alpha >= 0;
    case CR_UNARY_SIGMOID:
    case CR_UNARY_ABS: return true;
    default: return false;
  }
}

/* Whether a value cannot be below 0. */
static bool is_positive(const quantizer *q, int value) {
  const cr_graph_layer *maker = &q->graph->layer[q->graph->value[value].maker];
  const int posts = cr_posts_count(&maker->frozen.posts);
  cr_post post;
  if (posts > 0) return is_rectified(&maker->frozen.posts.post[posts - 1]);
  if (maker->kind->fusion.post != NULL && !maker->rewritten &&
      maker->kind->fusion.post(maker->built->param, CREMA_F32, &post)) {
    return is_rectified(&post);
  }
  if (!maker->kind->int8.keeps_positive) return false;
  for (int j = 0; j < maker->bottoms; ++j) {
    if (!is_positive(q, maker->bottom[j])) return false;
  }
  return true;
}

static void unite(quantizer *q, int a, int b) {
  q->group[root_of(q, b)].parent = root_of(q, a);
}

/* Demands of the maker and the reader of a value on its group. */
static void constrain(quantizer *q, int value) {
  const cr_graph_value *v = &q->graph->value[value];
  group *g = &q->group[root_of(q, value)];
  const cr_graph_layer *maker = &q->graph->layer[v->maker];
  const bool made = q->product[v->maker] || is_rounder(q, v->maker);
  if (maker->removed) return;
  if (!cr_graph_may_go(q->graph, value) || v->reader < 0) g->integers = false;
  if (made ? !scales_along(&maker->frozen.posts) : !is_carrier(q, v->maker)) g->integers = false;
  if (made && !is_positive(q, value)) g->signs = true;
  if (v->reader < 0) return;
  const cr_graph_layer *reader = &q->graph->layer[v->reader];
  if (q->product[v->reader]) {
    const bool addend = reader->bottom[0] != value;
    const float threshold =
        addend ? threshold_of(q, reader->sum, reader->sum_bottom) : threshold_of(q, v->reader, 0);
    if (threshold == 0) g->integers = false;
    g->threshold = fmaxf(g->threshold, threshold);
  } else if ((reader->kind->int8.scales_integers && !reader->moved && is_rounder(q, v->reader) &&
              threshold_of(q, v->reader, 0) > 0) ||
             is_averager(q, v->reader)) {
    g->threshold = fmaxf(g->threshold, threshold_of(q, v->reader, 0));
  } else if (!is_carrier(q, v->reader)) {
    g->integers = false;
  }
}

/* Until all sums are of one kind. */
static void settle_sums(quantizer *q) {
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < q->graph->layers; ++i) {
      const cr_graph_layer *l = &q->graph->layer[i];
      if (!q->product[i] || own_bottoms(l) == l->bottoms) continue;
      group *top = &q->group[root_of(q, l->top[0])];
      group *addend = &q->group[root_of(q, l->bottom[l->bottoms - 1])];
      if (top->integers == addend->integers) continue;
      top->integers = addend->integers = false;
      changed = true;
    }
  }
}

static void choose_values(quantizer *q) {
  const cr_graph *graph = q->graph;
  for (int v = 0; v < graph->values; ++v) q->group[v] = (group){.parent = v, .integers = true};
  for (int i = 0; i < graph->layers; ++i) {
    const cr_graph_layer *l = &graph->layer[i];
    if (!is_carrier(q, i)) continue;
    for (int j = 1; j < l->bottoms; ++j) unite(q, l->bottom[0], l->bottom[j]);
    for (int j = 0; j < l->tops; ++j) unite(q, l->bottom[0], l->top[j]);
  }
  for (int v = 0; v < graph->values; ++v) constrain(q, v);
  for (int v = 0; v < graph->values; ++v) {
    if (!(q->group[v].threshold > 0)) q->group[v].integers = false;
  }
  settle_sums(q);
}

static crema_dtype type_of(bool signs) {
  return signs ? CREMA_I8 : CREMA_U8;
}

static float scale_of(bool signs, float threshold) {
  return threshold / (signs ? 127.0f : 255.0f);
}

/* The rows of the weights, one per output channel. */
static cr_quantization rows_of(const cr_graph_layer *l) {
  const crema_shape *shape = &l->frozen.blob[0]->shape;
  const int64_t all = crema_shape_count(shape, 0, shape->axes);
  const bool turned =
      l->kind->fusion.product == CR_PRODUCT_INNER && l->param->inner_product_param->transpose;
  const int64_t count = turned ? shape->dim[1] : shape->dim[0];
  return (cr_quantization){.type = CREMA_I8,
                           .rows = count,
                           .length = all / count,
                           .step = turned ? count : 1,
                           .next = turned ? 1 : all / count};
}

/* The scales of the table or else of the net, if one has them and the weights are still those that
 * they were made for. */
static const float *table_scales(const quantizer *q, const cr_graph_layer *l,
                                 const cr_quantization *w) {
  const cr_scales_line *line = cr_scales_find(q->graph->scales, l->built->name, "_param_0");
  const Caffe__QuantizationParameter *p = line == NULL ? calibrated(l) : NULL;
  const size_t count = line != NULL ? line->count : p != NULL ? p->n_scale_params : 0;
  const float *value = line != NULL ? line->value : p != NULL ? p->scale_params : NULL;
  if (!cr_tensor_shares_with(l->frozen.blob[0]->data, l->built->blob[0]->data)) return NULL;
  if (value == NULL || count != (size_t)w->rows) return NULL;
  for (int64_t r = 0; r < w->rows; ++r) {
    if (!(value[r] > 0)) return NULL;
  }
  return value;
}

/* The largest weight of each row becomes 127. */
static crema_status measure_rows(const cr_graph_layer *l, const cr_quantization *w, float *scale) {
  float *values = NULL;
  CR_TRY(CR_NEW(values, w->rows * w->length + 1, "weights"));
  crema_status status = cr_tensor_copy_out(l->frozen.blob[0]->data, values);
  for (int64_t r = 0; r < w->rows && status == CREMA_OK; ++r) {
    float largest = 0;
    for (int64_t i = 0; i < w->length; ++i) {
      largest = fmaxf(largest, fabsf(values[r * w->next + i * w->step]));
    }
    scale[r] = largest > 0 ? largest / 127 : 1;
  }
  free(values);
  return status;
}

/* Weights as I8, row by row. Fills scale[r], the value of the integer 1 in row r. */
static crema_status round_weights(const quantizer *q, int layer, cr_quantization *w, float *scale) {
  cr_graph_layer *l = &q->graph->layer[layer];
  const bool product = l->kind->fusion.product == CR_PRODUCT_INNER;
  const crema_shape shape = product ? cr_shape_2(w->rows, w->length) : l->frozen.blob[0]->shape;
  const float *told = table_scales(q, l, w);
  if (told == NULL) CR_TRY(measure_rows(l, w, scale));
  for (int64_t r = 0; r < w->rows && told != NULL; ++r) scale[r] = 1 / told[r];
  w->scale = scale;
  CR_TRY(cr_graph_quantize_weights(q->graph, layer, &shape, w));
  if (product) l->param->inner_product_param->transpose = 0;
  return CREMA_OK;
}

/* The bias in units of the sums; zeros without a bias. */
static crema_status scale_bias(quantizer *q, int layer, const float *unit, int64_t count) {
  cr_graph_layer *l = &q->graph->layer[layer];
  const crema_shape shape = cr_shape_1(count);
  const float *from = NULL;
  float *copy = NULL, *to = NULL;
  CR_TRY(CR_NEW(copy, count + 1, "a bias"));
  crema_status status = CREMA_OK;
  if (l->frozen.params > 1) {
    CR_TRY_GOTO(cr_tensor_host_read_floats(l->frozen.blob[1]->data, &from), out);
    memcpy(copy, from, (size_t)count * sizeof *copy);
  }
  CR_TRY_GOTO(cr_graph_new_param(q->graph, layer, 1, &shape, &to), out);
  for (int64_t c = 0; c < count; ++c) to[c] = copy[c] / unit[c];
  cr_graph_set_bias_term(l);
out:
  free(copy);
  return status;
}

/* Functions take their parameters in units of the top. */
static void scale_posts(cr_posts *posts, float scale) {
  for (int i = 0; i < cr_posts_count(posts); ++i) {
    cr_post *post = &posts->post[i];
    if (post->kind != CR_POST_UNARY || post->function != CR_UNARY_CLIP) continue;
    post->alpha /= (double)scale;
    post->beta /= (double)scale;
  }
}

static crema_status tell(cr_graph *graph, int layer, crema_dtype from) {
  const cr_graph_layer *l = &graph->layer[layer];
  char name[CR_GRAPH_NAME];
  return cr_graph_tell(graph, "int8", "%s from %s to %s", cr_graph_name(graph, layer, name),
                       crema_dtype_name(from),
                       crema_dtype_name(l->frozen.retyped ? l->frozen.tops : CREMA_F32));
}

static crema_status convert_product(quantizer *q, int layer) {
  cr_graph_layer *l = &q->graph->layer[layer];
  cr_quantization w = rows_of(l);
  const group *bottom = &q->group[root_of(q, l->bottom[0])];
  const group *top = &q->group[root_of(q, l->top[0])];
  const bool signs = bottom->integers ? bottom->signs : !is_positive(q, l->bottom[0]);
  const float from =
      scale_of(signs, bottom->integers ? bottom->threshold : threshold_of(q, layer, 0));
  const float to = top->integers ? scale_of(top->signs, top->threshold) : 1;
  cr_layer_int8 *how = calloc(1, sizeof *how + (size_t)w.rows * sizeof *how->number);
  if (how == NULL) return cr_fail_memory(sizeof *how, "a compiled layer");
  l->frozen.int8 = how;
  how->from = type_of(signs);
  how->from_scale = from;
  how->addend_scale = 1;
  how->numbers = (int)w.rows;
  if (own_bottoms(l) < l->bottoms && top->integers) {
    const group *addend = &q->group[root_of(q, l->bottom[l->bottoms - 1])];
    how->addend_scale = scale_of(addend->signs, addend->threshold) / to;
    if (addend->signs != top->signs) l->adds_in_place = false;
  }
  CR_TRY(round_weights(q, layer, &w, how->number));
  for (int64_t r = 0; r < w.rows; ++r) how->number[r] *= from;
  CR_TRY(scale_bias(q, layer, how->number, w.rows));
  for (int64_t r = 0; r < w.rows; ++r) how->number[r] /= to;
  scale_posts(&l->frozen.posts, to);
  return tell(q->graph, layer, how->from);
}

/* Parameter k times the factor. */
static crema_status multiply_param(quantizer *q, int layer, int k, float factor) {
  const cr_graph_layer *l = &q->graph->layer[layer];
  const crema_shape shape = l->frozen.blob[k]->shape;
  const int64_t count = crema_blob_count(l->frozen.blob[k]);
  float *to = NULL, *copy = NULL;
  CR_TRY(CR_NEW(copy, count + 1, "a scale"));
  crema_status status = cr_tensor_copy_out(l->frozen.blob[k]->data, copy);
  if (status == CREMA_OK) status = cr_graph_new_param(q->graph, layer, k, &shape, &to);
  for (int64_t c = 0; c < count && status == CREMA_OK; ++c) to[c] = copy[c] * factor;
  free(copy);
  return status;
}

/* Converts the layer's numbers to units of the top, and its scale to units of the bottom's
 * integers. The top does not alias the bottom. */
static crema_status convert_rounder(quantizer *q, int layer) {
  cr_graph_layer *l = &q->graph->layer[layer];
  const group *top = &q->group[root_of(q, l->top[0])];
  const group *bottom = &q->group[root_of(q, l->bottom[0])];
  const float unit = top->integers ? scale_of(top->signs, top->threshold) : 1;
  const float from = bottom->integers ? scale_of(bottom->signs, bottom->threshold) : 1;
  char name[CR_GRAPH_NAME];
  if (l->kind->int8.rescale != NULL) (void)l->kind->int8.rescale(l->param, 1 / unit);
  for (int k = 0; k < l->frozen.params; ++k) {
    CR_TRY(multiply_param(q, layer, k, (k == 0 ? from : 1) / unit));
  }
  scale_posts(&l->frozen.posts, unit);
  l->in_place = false;
  if (bottom->integers) return tell(q->graph, layer, type_of(bottom->signs));
  return cr_graph_tell(q->graph, "int8", "%s to %s", cr_graph_name(q->graph, layer, name),
                       crema_dtype_name(l->frozen.tops));
}

static crema_status convert_averager(quantizer *q, int layer) {
  cr_graph_layer *l = &q->graph->layer[layer];
  const group *bottom = &q->group[root_of(q, l->bottom[0])];
  if (!bottom->integers) return CREMA_OK;
  cr_layer_int8 *how = calloc(1, sizeof *how);
  if (how == NULL) return cr_fail_memory(sizeof *how, "a compiled layer");
  l->frozen.int8 = how;
  how->from = type_of(bottom->signs);
  how->from_scale = scale_of(bottom->signs, bottom->threshold);
  return tell(q->graph, layer, how->from);
}

static crema_status convert(quantizer *q, int layer) {
  cr_graph_layer *l = &q->graph->layer[layer];
  if (is_averager(q, layer)) return convert_averager(q, layer);
  const bool carrier = is_carrier(q, layer), rounder = is_rounder(q, layer);
  if (!carrier && !rounder && !q->product[layer]) return CREMA_OK;
  const group *top = &q->group[root_of(q, l->top[0])];
  const group *bottom = l->bottoms > 0 ? &q->group[root_of(q, l->bottom[0])] : NULL;
  if (rounder && !top->integers && !bottom->integers) return CREMA_OK;
  l->frozen.retyped = top->integers;
  l->frozen.tops = type_of(top->signs);
  if (rounder) return convert_rounder(q, layer);
  return carrier ? CREMA_OK : convert_product(q, layer);
}

static crema_status quantize(quantizer *q) {
  int products = 0;
  for (int i = 0; i < q->graph->layers; ++i) {
    const cr_graph_layer *l = &q->graph->layer[i];
    q->product[i] = l->kind->int8.takes_int8 && !l->removed && !l->rewritten && !l->moved &&
                    l->tops == 1 && own_bottoms(l) == 1 && !cr_graph_has_loss(q->graph, i) &&
                    cr_graph_has_floats(q->graph, i) && threshold_of(q, i, 0) > 0;
    products += q->product[i];
  }
  if (products == 0) {
    return cr_graph_tell(
        q->graph, "int8",
        "neither the table nor the net has a scale for any layer that could use it");
  }
  choose_values(q);
  /* From last to first, so that the makers of a layer are still unchanged. */
  for (int i = q->graph->layers - 1; i >= 0; --i) {
    if (!q->graph->layer[i].removed) CR_TRY(convert(q, i));
  }
  return CREMA_OK;
}

crema_status cr_pass_int8(cr_graph *graph) {
  quantizer q = {.graph = graph};
  crema_status status = CREMA_OK;
  if (graph->precision != CREMA_PRECISION_INT8) return CREMA_OK;
  bool scales = graph->scales->count > 0;
  for (int i = 0; i < graph->layers && !scales; ++i) {
    scales = graph->layer[i].built != NULL && calibrated(&graph->layer[i]) != NULL;
  }
  if (!scales) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "int8 needs calibration scales: make a table with `crema calibrate` and give it "
                   "with -table (the net has no quantization_param either)");
  }
  const cr_backend *backend = cr_cpu_device()->backend;
  if (backend->is_fast == NULL || !backend->is_fast(CREMA_I8)) {
    return cr_graph_tell(graph, "int8",
                         "the processor has no instructions for sums of 8-bit products: the net "
                         "stays in FLOAT");
  }
  CR_TRY_GOTO(CR_NEW(q.product, graph->layers + 1, "a compiled net"), out);
  CR_TRY_GOTO(CR_NEW(q.group, graph->values + 1, "a compiled net"), out);
  status = quantize(&q);
out:
  free(q.group);
  free(q.product);
  return status;
}
