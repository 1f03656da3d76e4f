#include "infer/passes.h"

#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "layers/common/layer_conv.h"

const cr_pass cr_passes[] = {
    {"train", "omits layers that only training needs (Dropout)", cr_pass_train},
    {"constants", "computes beforehand what depends on no input", cr_pass_constants},
    {"dead", "omits layers that no output and no kept blob needs", cr_pass_dead},
    {"fold",
     "multiplies BatchNorm, Scale, Bias and linear Power layers into the weights of the "
     "convolution or inner product before or after them, or into one Scale layer",
     cr_pass_fold},
    {"stride", "lets convolutions compute only those positions that convolutions behind them read",
     cr_pass_stride},
    {"fuse",
     "computes activations and sums of two in the convolution or inner product before them, and a "
     "ReLU in the Scale or Bias before it",
     cr_pass_fuse},
    {"bf16",
     "with -precision bf16: convolutions, inner products and the values between them in BFLOAT16",
     cr_pass_bf16},
    {"int8",
     "with -precision int8: convolutions and inner products that the table names, and the values "
     "between them, in int8",
     cr_pass_int8},
    {"winograd",
     "saves products in convolutions with 3x3 windows by Winograd's method, if values are FLOAT",
     cr_pass_winograd},
    {"parts",
     "adds up what pointwise convolutions make of the bottoms of a large Concat of two, and pools "
     "these before it",
     cr_pass_parts},
    {"slice", "lets the readers of a Slice's tops read its bottom, if possible", cr_pass_slice},
    {"concat", "writes the bottoms of a Concat into its top, if possible", cr_pass_concat},
    {"batch",
     "computes a few samples of a batch at a time, where they have nothing to do with each other",
     cr_pass_batch},
};
const size_t cr_pass_count = sizeof cr_passes / sizeof cr_passes[0];

int64_t cr_pass_axis(const cr_graph_layer *layer) {
  const Caffe__ConcatParameter *concat = layer->built->param->concat_param;
  const Caffe__SliceParameter *slice = layer->built->param->slice_param;
  if (concat != NULL) return concat->has_concat_dim ? (int64_t)concat->concat_dim : concat->axis;
  if (slice != NULL) return slice->has_slice_dim ? (int64_t)slice->slice_dim : slice->axis;
  return 1;
}

bool cr_pass_is_pointwise(const cr_graph_layer *layer) {
  const cr_layer_conv *conv = layer->built->state;
  for (int a = 0; a < conv->window.axes; ++a) {
    if (conv->window.kernel[a] != 1 || conv->window.pad[a] != 0) return false;
  }
  return true;
}

bool cr_pass_makes_anew(const cr_graph *graph, int index) {
  const cr_graph_layer *layer = &graph->layer[index];
  if (layer->bottoms == 0 || layer->kind->input != NULL || layer->kind->memory.persistent != NULL ||
      layer->frozen.once) {
    return false;
  }
  return !layer->kind->memory.reshapes_always && !cr_graph_has_loss(graph, index);
}

bool cr_pass_reads_before(const cr_graph *graph, int value, int index) {
  const cr_graph_value *v = &graph->value[value];
  if (!cr_graph_may_go(graph, value) || v->reader > index) return false;
  if (v->reader < 0 || v->reader == index) return true;
  const cr_graph_layer *reader = &graph->layer[v->reader];
  if (cr_graph_overwrites(reader, value)) return cr_pass_reads_before(graph, reader->top[0], index);
  bool before = true;
  for (int j = 0; j < reader->tops && cr_graph_shares(reader); ++j) {
    before = before && cr_pass_reads_before(graph, reader->top[j], index);
  }
  return before;
}

static crema_status check_name(const char *name) {
  const char *known[sizeof cr_passes / sizeof cr_passes[0]];
  cr_buffer all = {0};
  for (size_t i = 0; i < cr_pass_count; ++i) {
    known[i] = cr_passes[i].name;
    if (strcmp(name, known[i]) == 0) return CREMA_OK;
  }
  crema_status status = CREMA_OK;
  for (size_t i = 0; i < cr_pass_count && status == CREMA_OK; ++i) {
    status = cr_buffer_print(&all, "%s%s", i ? ", " : "", known[i]);
  }
  const char *nearest = cr_did_you_mean(name, known, cr_pass_count);
  if (status == CREMA_OK) {
    status = cr_fail(CREMA_E_UNKNOWN_NAME, "there is no pass '%.100s'%s%s%s; the passes are %s",
                     name, nearest ? " (did you mean '" : "", nearest ? nearest : "",
                     nearest ? "'?)" : "", all.data);
  }
  cr_buffer_free(&all);
  return status;
}

/* A failure that the caller can correct does not name the pass. */
static crema_status run(const cr_pass *pass, cr_graph *graph) {
  crema_status status = pass->run(graph);
  return status == CREMA_E_ARGUMENT ? status : cr_fail_in(status, "pass %s", pass->name);
}

crema_status cr_passes_run(cr_graph *graph, const char *const *without, size_t count) {
  for (size_t i = 0; i < count; ++i) CR_TRY(check_name(without[i]));
  for (size_t i = 0; i < cr_pass_count; ++i) {
    const cr_pass *pass = &cr_passes[i];
    bool off = false;
    for (size_t k = 0; k < count; ++k) off = off || strcmp(pass->name, without[k]) == 0;
    if (off) CR_TRY(cr_graph_tell(graph, pass->name, "switched off"));
    else CR_TRY(run(pass, graph));
  }
  return CREMA_OK;
}
