#include "infer/affine.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_affine.h"
#include "layers/common/layer_unary.h"
#include "layers/registry.h"

/* Products with weights stay far from the limits of float32. */
static const double usual = 1e12;

crema_status cr_affine_identity(int axis, int64_t channels, cr_affine *out) {
  const size_t count = (size_t)channels;
  *out = (cr_affine){.axis = axis, .channels = channels};
  CR_TRY(CR_NEW(out->scale, 2 * count + 1, "the numbers of channels"));
  out->shift = out->scale + count;
  for (size_t c = 0; c < count; ++c) out->scale[c] = 1;
  return CREMA_OK;
}

void cr_affine_free(cr_affine *affine) {
  free(affine->scale);
  *affine = (cr_affine){0};
}

bool cr_affine_fits(const cr_affine *part, const cr_affine *whole) {
  return part->axis < 0 || (part->axis == whole->axis && part->channels == whole->channels);
}

static int64_t channel_of(const cr_affine *part, int64_t channel) {
  return part->axis < 0 ? 0 : channel;
}

static void note_shifts(cr_affine *affine) {
  affine->shifts = false;
  for (int64_t c = 0; c < affine->channels; ++c) {
    affine->shifts = affine->shifts || affine->shift[c] != 0;
  }
}

void cr_affine_append(cr_affine *whole, const cr_affine *next) {
  for (int64_t c = 0; c < whole->channels; ++c) {
    const int64_t n = channel_of(next, c);
    whole->shift[c] = next->scale[n] * whole->shift[c] + next->shift[n];
    whole->scale[c] *= next->scale[n];
  }
  note_shifts(whole);
}

void cr_affine_prepend(cr_affine *whole, const cr_affine *previous) {
  for (int64_t c = 0; c < whole->channels; ++c) {
    const int64_t p = channel_of(previous, c);
    whole->shift[c] += whole->scale[c] * previous->shift[p];
    whole->scale[c] *= previous->scale[p];
  }
  note_shifts(whole);
}

static crema_status read_norm(const cr_graph_layer *layer, const crema_shape *shape, cr_affine *out,
                              bool *found) {
  static const Caffe__BatchNormParameter defaults = CAFFE__BATCH_NORM_PARAMETER__INIT;
  const Caffe__BatchNormParameter *param =
      layer->built->param->batch_norm_param ? layer->built->param->batch_norm_param : &defaults;
  const bool global = param->has_use_global_stats ? param->use_global_stats
                                                  : layer->built->phase == CAFFE__PHASE__TEST;
  const float *mean = NULL, *variance = NULL, *weight = NULL;
  *found = global;
  if (!global) return CREMA_OK;
  const bool one = shape->axes < 2;
  CR_TRY(cr_affine_identity(one ? -1 : 1, one ? 1 : shape->dim[1], out));
  CR_TRY(cr_tensor_host_read_floats(layer->frozen.blob[0]->data, &mean));
  CR_TRY(cr_tensor_host_read_floats(layer->frozen.blob[1]->data, &variance));
  CR_TRY(cr_tensor_host_read_floats(layer->frozen.blob[2]->data, &weight));
  const double factor = weight[0] == 0.0f ? 0 : 1 / (double)weight[0];
  for (int64_t c = 0; c < out->channels; ++c) {
    out->scale[c] = 1 / sqrt((double)variance[c] * factor + (double)param->eps);
    out->shift[c] = -(double)mean[c] * factor * out->scale[c];
  }
  return CREMA_OK;
}

/* Scale and Bias with parameters of one axis, or scalars. */
static crema_status read_affine(const cr_graph_layer *layer, const crema_shape *shape,
                                cr_affine *out, bool *found) {
  const cr_layer_affine *state = layer->built->state;
  const crema_shape *span = &layer->frozen.blob[0]->shape;
  const float *scale = NULL, *shift = NULL;
  *found = span->axes <= 1;
  if (!*found) return CREMA_OK;
  const int axis = state->axis < 0 ? state->axis + shape->axes : state->axis;
  CR_TRY(cr_affine_identity(span->axes == 0 ? -1 : axis, span->axes == 0 ? 1 : span->dim[0], out));
  if (state->scale) CR_TRY(cr_tensor_host_read_floats(layer->frozen.blob[0]->data, &scale));
  if (state->bias) {
    CR_TRY(cr_tensor_host_read_floats(layer->frozen.blob[layer->frozen.params - 1]->data, &shift));
  }
  for (int64_t c = 0; c < out->channels; ++c) {
    if (scale != NULL) out->scale[c] = (double)scale[c];
    if (shift != NULL) out->shift[c] = (double)shift[c];
  }
  return CREMA_OK;
}

static crema_status read_power(const cr_graph_layer *layer, cr_affine *out, bool *found) {
  const cr_layer_unary *state = layer->built->state;
  *found = state->alpha == 1;
  if (!*found) return CREMA_OK;
  CR_TRY(cr_affine_identity(-1, 1, out));
  out->scale[0] = state->beta;
  out->shift[0] = state->gamma;
  return CREMA_OK;
}

crema_status cr_affine_read(const cr_graph *graph, int layer, cr_affine *out, bool *found) {
  const cr_graph_layer *l = &graph->layer[layer];
  *out = (cr_affine){0};
  *found = false;
  if (!cr_graph_is_simple(graph, layer) || !cr_graph_has_floats(graph, layer)) return CREMA_OK;
  const crema_shape *shape = cr_graph_shape(graph, l->bottom[0]);
  if (cr_graph_is(graph, layer, &cr_layer_batch_norm)) {
    CR_TRY(read_norm(l, shape, out, found));
  } else if (cr_graph_is(graph, layer, &cr_layer_scale) ||
             cr_graph_is(graph, layer, &cr_layer_bias)) {
    CR_TRY(read_affine(l, shape, out, found));
  } else if (cr_graph_is(graph, layer, &cr_layer_power)) {
    CR_TRY(read_power(l, out, found));
  }
  if (!*found) return CREMA_OK;
  note_shifts(out);
  for (int64_t c = 0; c < out->channels; ++c) {
    *found = *found && fabs(out->scale[c]) < usual && fabs(out->shift[c]) < usual;
  }
  return CREMA_OK;
}
