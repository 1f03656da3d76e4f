/* Layers that multiply and add per channel, folded into the weights of the layer before or after
 * them.
 *
 * Before them: y = f (W x + b) + s = (f W) x + (f b + s), always exact.
 * After them: y = W (f x + s) + b = (W f) x + (b + W s), exact unless positions outside of x, which
 * are 0 and not s, take part. A convolution with padding, or a transposed one, only takes them if s
 * is 0. All is computed in double, several such layers at once, and rounded once. */
#include <stdlib.h>

#include "core/fail.h"
#include "infer/affine.h"
#include "infer/passes.h"
#include "layers/common/layer_conv.h"
#include "layers/registry.h"
#include "memory/tensor_source.h"
#include "proto/field.h"

/* The weights of a layer as a matrix whose rows, or parts of them, belong to a channel of the top,
 * and whose columns belong to channels of the bottom. */
typedef struct weighted_layer {
  int layer;
  bool padded;             /* positions outside of the bottom take part */
  cr_affine before, after; /* the layers to fold in */
  int64_t outputs, inputs; /* channels of top and bottom */
  int64_t group;
  bool transposed; /* the channels of the bottom come first */
  int64_t inner;   /* weights for each pair of channels */
  bool bias;
} weighted_layer;

static crema_status read_conv(const cr_graph *graph, weighted_layer *w) {
  const cr_graph_layer *layer = &graph->layer[w->layer];
  const cr_layer_conv *conv = layer->built->state;
  w->padded = conv->transposed;
  w->outputs = conv->outputs;
  w->inputs = conv->channels;
  w->group = conv->group;
  w->transposed = conv->transposed;
  w->inner = 1;
  for (int i = 0; i < conv->window.axes; ++i) {
    w->padded = w->padded || conv->window.pad[i] != 0;
    w->inner *= conv->window.kernel[i];
  }
  CR_TRY(cr_affine_identity(conv->axis, w->inputs, &w->before));
  return cr_affine_identity(conv->axis, w->outputs, &w->after);
}

/* The values from the axis on are one vector. The extents after the first may change, provided that
 * their product does not. */
static crema_status read_product(const cr_graph *graph, weighted_layer *w) {
  const cr_graph_layer *layer = &graph->layer[w->layer];
  const Caffe__InnerProductParameter *param = layer->built->param->inner_product_param;
  const crema_shape *from = cr_graph_shape(graph, layer->bottom[0]);
  const int axis = param->axis < 0 ? param->axis + from->axes : param->axis;
  w->outputs = param->num_output;
  w->inputs = from->dim[axis];
  w->group = 1;
  w->transposed = param->transpose;
  w->inner = crema_shape_count(from, axis + 1, from->axes);
  CR_TRY(cr_affine_identity(axis, w->inputs, &w->before));
  return cr_affine_identity(axis, w->outputs, &w->after);
}

static crema_status read_weighted(const cr_graph *graph, int layer, weighted_layer *w,
                                  bool *found) {
  const cr_layer_product product = graph->layer[layer].kind->fusion.product;
  *w = (weighted_layer){.layer = layer, .bias = graph->layer[layer].frozen.params > 1};
  *found = product != CR_PRODUCT_NONE && cr_graph_is_simple(graph, layer) &&
           cr_graph_has_floats(graph, layer);
  if (!*found) return CREMA_OK;
  return product == CR_PRODUCT_INNER ? read_product(graph, w) : read_conv(graph, w);
}

/* Folds the layers that follow `first`, one by one, while they fit. */
static crema_status take_following(cr_graph *graph, int first, cr_affine *into, int *taken) {
  for (;;) {
    const int top = graph->layer[first].top[0], reader = graph->value[top].reader;
    cr_affine next = {0};
    bool fits = false;
    if (reader < 0 || !cr_graph_may_go(graph, top)) return CREMA_OK;
    crema_status status = cr_affine_read(graph, reader, &next, &fits);
    fits = fits && cr_affine_fits(&next, into);
    if (status == CREMA_OK && fits) cr_affine_append(into, &next);
    cr_affine_free(&next);
    if (status != CREMA_OK || !fits) return status;
    cr_graph_merge_back(graph, first, reader);
    CR_TRY(cr_graph_tell_merge(graph, "fold", reader, first, ""));
    *taken += 1;
  }
}

/* The same for layers that precede it. */
static crema_status take_preceding(cr_graph *graph, weighted_layer *w, int *taken) {
  for (;;) {
    const int bottom = graph->layer[w->layer].bottom[0], maker = graph->value[bottom].maker;
    cr_affine previous = {0};
    bool fits = false;
    if (!cr_graph_may_go(graph, bottom)) return CREMA_OK;
    crema_status status = cr_affine_read(graph, maker, &previous, &fits);
    fits = fits && cr_affine_fits(&previous, &w->before) && !(w->padded && previous.shifts);
    if (status == CREMA_OK && fits) cr_affine_prepend(&w->before, &previous);
    cr_affine_free(&previous);
    if (status != CREMA_OK || !fits) return status;
    cr_graph_merge_on(graph, maker, w->layer);
    CR_TRY(cr_graph_tell_merge(graph, "fold", maker, w->layer, ""));
    *taken += 1;
  }
}

/* The channels of the weights' block number `block`; there are `inner` weights in it. Weights are
 * (outputs, inputs / group) or, transposed, (inputs, outputs / group). */
static void channels_of(const weighted_layer *w, int64_t block, int64_t *output, int64_t *input) {
  const int64_t outputs = w->outputs / w->group, inputs = w->inputs / w->group;
  if (w->transposed) {
    *input = block / outputs;
    *output = *input / inputs * outputs + block % outputs;
  } else {
    *output = block / inputs;
    *input = *output / outputs * inputs + block % inputs;
  }
}

/* The weights of an inner product with transpose are (inputs * inner, outputs). */
static bool is_interleaved(const cr_graph *graph, const weighted_layer *w) {
  return w->transposed && graph->layer[w->layer].kind->fusion.product == CR_PRODUCT_INNER;
}

/* Weights with factors per channel. They are multiplied at their first use, in the memory that they
 * are read to. */
typedef struct scaled {
  cr_tensor_source base;
  weighted_layer w; /* its two scales are the scaled's own */
  bool interleaved;
  cr_tensor *from;
} scaled;

/* Block by block, as channels_of counts them, without its divisions. Blocks with one factor, often
 * all of an output, are a run. */
static void multiply_rows(const weighted_layer *w, float *values) {
  const int64_t columns = w->inputs / w->group, rows = w->outputs / w->group;
  for (int64_t output = 0; output < w->outputs; ++output) {
    const double *before = w->before.scale + output / rows * columns;
    for (int64_t from = 0, to = 1; from < columns; from = to++) {
      while (to < columns && before[to] == before[from]) ++to;
      const int64_t count = (to - from) * w->inner;
      const double factor = w->after.scale[output] * before[from];
#pragma omp simd
      for (int64_t k = 0; k < count; ++k) values[k] = (float)((double)values[k] * factor);
      values += count;
    }
  }
}

static void multiply(const weighted_layer *w, bool interleaved, float *values) {
  const int64_t blocks = w->outputs * w->inputs / w->group, step = interleaved ? w->outputs : 1;
  if (!w->transposed) {
    multiply_rows(w, values);
    return;
  }
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t output = 0, input = 0;
    channels_of(w, block, &output, &input);
    const double factor = w->after.scale[output] * w->before.scale[input];
    float *at = values + (interleaved ? input * w->inner * w->outputs + output : block * w->inner);
    for (int64_t k = 0; k < w->inner; ++k, at += step) *at = (float)((double)*at * factor);
  }
}

static crema_status read_scaled(cr_tensor_source *source, uint64_t at, void *out, size_t size) {
  const scaled *self = (scaled *)source;
  if (at != 0 || size != (size_t)cr_tensor_count(self->from) * sizeof(float)) {
    return cr_fail(CREMA_E_INTERNAL, "folded weights are read whole");
  }
  CR_TRY(cr_tensor_copy_out(self->from, out));
  multiply(&self->w, self->interleaved, out);
  return CREMA_OK;
}

static void destroy_scaled(cr_tensor_source *source) {
  scaled *self = (scaled *)source;
  cr_affine_free(&self->w.after);
  cr_affine_free(&self->w.before);
  cr_tensor_destroy(self->from);
  free(self);
}

/* The scales go over to the new source. */
static crema_status make_scaled(cr_graph *graph, weighted_layer *w, cr_tensor *from,
                                cr_tensor_source **out) {
  scaled *self = NULL;
  cr_tensor *own = NULL;
  if (graph->spare == NULL) CR_TRY(cr_tensor_scratch_create(&graph->spare));
  CR_TRY(cr_tensor_create(CREMA_F32, cr_tensor_count(from), &own));
  crema_status status = cr_tensor_share(own, from);
  if (status == CREMA_OK) status = CR_NEW(self, 1, "folded weights");
  if (status != CREMA_OK) {
    cr_tensor_destroy(own);
    return status;
  }
  cr_tensor_source_init(&self->base, read_scaled, destroy_scaled,
                        cr_tensor_scratch_retain(graph->spare));
  self->w = *w;
  self->from = own;
  self->interleaved = is_interleaved(graph, w);
  w->before = w->after = (cr_affine){0};
  *out = &self->base;
  return CREMA_OK;
}

/* Adds W s, for shifts s of the layer's bottom. */
static crema_status add_shifts(const cr_graph *graph, const weighted_layer *w, double *bias) {
  const bool interleaved = is_interleaved(graph, w);
  const int64_t blocks = w->outputs * w->inputs / w->group;
  const float *values = NULL;
  if (!w->before.shifts) return CREMA_OK;
  CR_TRY(cr_tensor_host_read_floats(graph->layer[w->layer].frozen.blob[0]->data, &values));
  for (int64_t block = 0; block < blocks; ++block) {
    int64_t output = 0, input = 0;
    double sum = 0;
    channels_of(w, block, &output, &input);
    for (int64_t k = 0; k < w->inner; ++k) {
      sum += (double)
          values[interleaved ? (input * w->inner + k) * w->outputs + output : block * w->inner + k];
    }
    bias[output] += sum * w->before.shift[input];
  }
  return CREMA_OK;
}

static crema_status set_weights(cr_graph *graph, weighted_layer *w) {
  const crema_blob *blob = graph->layer[w->layer].frozen.blob[0];
  const crema_shape shape = blob->shape;
  cr_tensor_source *source = NULL;
  crema_status status = make_scaled(graph, w, blob->data, &source);
  return cr_graph_set_weights(graph, w->layer, &shape, CREMA_F32, status, source);
}

static crema_status apply(cr_graph *graph, weighted_layer *w) {
  cr_graph_layer *layer = &graph->layer[w->layer];
  const size_t outputs = (size_t)w->outputs;
  double *bias = NULL;
  const float *old = NULL;
  float *to = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(bias, outputs + 1, "the numbers of channels"));
  CR_TRY_GOTO(add_shifts(graph, w, bias), out);
  if (!w->bias && !w->before.shifts && !w->after.shifts) {
    status = set_weights(graph, w);
    goto out;
  }
  if (w->bias) CR_TRY_GOTO(cr_tensor_host_read_floats(layer->frozen.blob[1]->data, &old), out);
  for (size_t o = 0; o < outputs; ++o) {
    bias[o] += old == NULL ? 0 : (double)old[o];
    bias[o] = w->after.scale[o] * bias[o] + w->after.shift[o];
  }
  const crema_shape shape = cr_shape_1(w->outputs);
  CR_TRY_GOTO(cr_graph_new_param(graph, w->layer, 1, &shape, &to), out);
  for (size_t o = 0; o < outputs; ++o) to[o] = (float)bias[o];
  cr_graph_set_bias_term(layer);
  status = set_weights(graph, w);
out:
  free(bias);
  return status;
}

static crema_status fold_into(cr_graph *graph, int layer) {
  weighted_layer w = {0};
  bool found = false;
  int taken = 0;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(read_weighted(graph, layer, &w, &found), out);
  if (!found) goto out;
  CR_TRY_GOTO(take_following(graph, layer, &w.after, &taken), out);
  CR_TRY_GOTO(take_preceding(graph, &w, &taken), out);
  if (taken > 0) status = apply(graph, &w);
out:
  cr_affine_free(&w.after);
  cr_affine_free(&w.before);
  return status;
}

static crema_status become_scale(cr_graph *graph, int layer, const cr_affine *affine) {
  cr_graph_layer *l = &graph->layer[layer];
  Caffe__ScaleParameter *param = NULL;
  float *scale = NULL, *shift = NULL;
  CR_TRY(cr_graph_rewrite(graph, layer, &cr_layer_scale));
  CR_TRY(cr_message_inner(&l->param->base, "scale_param", &param));
  param->has_axis = param->has_num_axes = param->has_bias_term = 1;
  param->axis = affine->axis < 0 ? 0 : affine->axis;
  param->num_axes = affine->axis < 0 ? 0 : 1;
  param->bias_term = 1;
  crema_shape shape = affine->axis < 0 ? (crema_shape){0} : cr_shape_1(affine->channels);
  while (l->frozen.params > 2) crema_blob_destroy(l->frozen.blob[--l->frozen.params]);
  CR_TRY(cr_graph_new_param(graph, layer, 0, &shape, &scale));
  CR_TRY(cr_graph_new_param(graph, layer, 1, &shape, &shift));
  for (int64_t c = 0; c < affine->channels; ++c) {
    scale[c] = (float)affine->scale[c];
    shift[c] = (float)affine->shift[c];
  }
  return CREMA_OK;
}

static crema_status merge_from(cr_graph *graph, int layer) {
  cr_affine affine = {0};
  bool found = false;
  int taken = 0;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_affine_read(graph, layer, &affine, &found), out);
  if (!found) goto out;
  CR_TRY_GOTO(take_following(graph, layer, &affine, &taken), out);
  if (taken > 0) status = become_scale(graph, layer, &affine);
out:
  cr_affine_free(&affine);
  return status;
}

crema_status cr_pass_fold(cr_graph *graph) {
  for (int i = 0; i < graph->layers; ++i) CR_TRY(fold_into(graph, i));
  for (int i = 0; i < graph->layers; ++i) CR_TRY(merge_from(graph, i));
  return CREMA_OK;
}
