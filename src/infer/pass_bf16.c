/* Convolutions, inner products and the values between them in BFLOAT16: half the memory, and about
 * 2x the speed if the processor multiplies such numbers. Inputs, outputs, kept blobs and sums
 * (losses, softmax, statistics) stay in FLOAT. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/backend.h"
#include "infer/passes.h"
#include "infer/quantized_weights.h"

/* Whether the value, or one that shares its memory, must be in FLOAT. */
static bool is_wide(const cr_graph *graph, int value) {
  if (!cr_graph_may_go(graph, value)) return true;
  const int reader = graph->value[value].reader;
  if (reader < 0) return true;
  const cr_graph_layer *layer = &graph->layer[reader];
  if (!cr_graph_shares(layer)) return false;
  for (int j = 0; j < layer->tops; ++j) {
    if (is_wide(graph, layer->top[j])) return true;
  }
  return false;
}

static bool has_loss_or_types(const cr_graph *graph, int layer) {
  return cr_graph_has_loss(graph, layer) || !cr_graph_has_floats(graph, layer);
}

/* `type`: of each value so far. */
static crema_status retype(cr_graph *graph, int layer, crema_dtype *type) {
  cr_graph_layer *l = &graph->layer[layer];
  bool tops = l->tops > 0 && !l->frozen.once && !has_loss_or_types(graph, layer) &&
              l->kind->int8.takes_bf16;
  for (int j = 0; j < l->tops; ++j) tops = tops && !is_wide(graph, l->top[j]);
  for (int j = 0; j < l->tops; ++j) {
    type[l->top[j]] = tops ? CREMA_BF16 : CREMA_F32;
    if (cr_graph_shares(l) && l->bottoms > 0) type[l->top[j]] = type[l->bottom[0]];
  }
  l->frozen.retyped = tops;
  l->frozen.tops = CREMA_BF16;
  /* One block of memory has values of one type. */
  if (l->in_place && type[l->bottom[0]] != type[l->top[0]]) l->in_place = false;
  if (l->adds_in_place && type[l->bottom[l->bottoms - 1]] != type[l->top[0]]) {
    l->adds_in_place = false;
  }
  if (l->kind->fusion.product == CR_PRODUCT_NONE || has_loss_or_types(graph, layer))
    return CREMA_OK;
  if (!tops && type[l->bottom[0]] != CREMA_BF16) return CREMA_OK;
  CR_TRY(cr_graph_quantize_weights(graph, layer, &l->frozen.blob[0]->shape,
                                   &(cr_quantization){.type = CREMA_BF16}));
  return cr_graph_tell_layer(graph, "bf16", layer, "");
}

crema_status cr_pass_bf16(cr_graph *graph) {
  crema_dtype *type = NULL;
  crema_status status = CREMA_OK;
  if (graph->precision != CREMA_PRECISION_BF16) return CREMA_OK;
  const cr_backend *backend = cr_cpu_device()->backend;
  if (backend->is_fast == NULL || !backend->is_fast(CREMA_BF16)) {
    return cr_graph_tell(graph, "bf16",
                         "the processor has no instructions for bfloat16: the net stays in FLOAT");
  }
  CR_TRY(CR_NEW(type, graph->values + 1, "a compiled net"));
  for (int i = 0; i < graph->values; ++i) type[i] = CREMA_F32;
  for (int i = 0; i < graph->layers && status == CREMA_OK; ++i) {
    if (!graph->layer[i].removed) status = retype(graph, i, type);
  }
  free(type);
  return status;
}
