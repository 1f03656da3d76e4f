#include "infer/quantized_weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/convert.h"

typedef struct rounded {
  cr_tensor_source base;
  cr_quantization how; /* its scales are the source's own */
  cr_tensor *from;
} rounded;

static void round_rows(const cr_quantization *how, const float *from, int8_t *to) {
  for (int64_t r = 0; r < how->rows; ++r) {
    for (int64_t i = 0; i < how->length; ++i) {
      const float x = rintf(from[r * how->next + i * how->step] / how->scale[r]);
      *to++ = (int8_t)fminf(fmaxf(x, -127), 127);
    }
  }
}

static crema_status read_rounded(cr_tensor_source *source, uint64_t at, void *out, size_t size) {
  const rounded *self = (rounded *)source;
  const int64_t count = cr_tensor_count(self->from);
  float *values = NULL;
  if (at != 0 || size != (size_t)count * crema_dtype_size(self->how.type)) {
    return cr_fail(CREMA_E_INTERNAL, "rounded weights are read whole");
  }
  CR_TRY(CR_NEW(values, count + 1, "weights"));
  crema_status status = cr_tensor_copy_out(self->from, values);
  if (status == CREMA_OK && self->how.type == CREMA_I8) round_rows(&self->how, values, out);
  else if (status == CREMA_OK) {
    status = cr_convert_plain(count, self->how.type, out, CREMA_F32, values);
  }
  free(values);
  return status;
}

static void destroy_rounded(cr_tensor_source *source) {
  rounded *self = (rounded *)source;
  free((void *)self->how.scale);
  cr_tensor_destroy(self->from);
  free(self);
}

static crema_status copy_scales(const cr_quantization *how, cr_quantization *out) {
  float *scale = NULL;
  *out = *how;
  out->scale = NULL;
  if (how->scale == NULL) return CREMA_OK;
  CR_TRY(CR_NEW(scale, how->rows + 1, "the scales of weights"));
  memcpy(scale, how->scale, (size_t)how->rows * sizeof *scale);
  out->scale = scale;
  return CREMA_OK;
}

/* The source has its own spare memory: it reads from tensors whose sources use graph->spare. */
static crema_status make_source(cr_graph *graph, cr_tensor *from, const cr_quantization *how,
                                cr_tensor_source **out) {
  rounded *self = NULL;
  crema_status status = CREMA_OK;
  if (graph->rounding == NULL) CR_TRY(cr_tensor_scratch_create(&graph->rounding));
  CR_TRY(CR_NEW(self, 1, "rounded weights"));
  CR_TRY_GOTO(copy_scales(how, &self->how), fail);
  CR_TRY_GOTO(cr_tensor_create(CREMA_F32, cr_tensor_count(from), &self->from), fail);
  CR_TRY_GOTO(cr_tensor_share(self->from, from), fail);
  cr_tensor_source_init(&self->base, read_rounded, destroy_rounded,
                        cr_tensor_scratch_retain(graph->rounding));
  *out = &self->base;
  return CREMA_OK;
fail:
  destroy_rounded(&self->base);
  return status;
}

crema_status cr_graph_quantize_weights(cr_graph *graph, int layer, const crema_shape *shape,
                                       const cr_quantization *how) {
  cr_tensor_source *source = NULL;
  crema_status status = make_source(graph, graph->layer[layer].frozen.blob[0]->data, how, &source);
  return cr_graph_set_weights(graph, layer, shape, how->type, status, source);
}
