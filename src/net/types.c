/* The element types of a net's layers and blobs. */
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "layers/common/input_class.h"
#include "layers/common/layer_op.h"
#include "net/graph.h"

/* A field that the file may leave to a default. */
typedef struct type_field {
  const char *name;
  bool given;
  Caffe__Type type;
} type_field;

crema_status cr_net_dtype(const char *field, Caffe__Type type, crema_dtype *out) {
  switch (type) {
    case CAFFE__TYPE__DOUBLE: *out = CREMA_F64; return CREMA_OK;
    case CAFFE__TYPE__FLOAT: *out = CREMA_F32; return CREMA_OK;
    case CAFFE__TYPE__FLOAT16: *out = CREMA_F16; return CREMA_OK;
    case CAFFE__TYPE__BFLOAT16: *out = CREMA_BF16; return CREMA_OK;
    default: break;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "%s must be DOUBLE, FLOAT, FLOAT16 or BFLOAT16", field);
}

/* The first field that is given, or else the last. */
static crema_status first_given(const type_field *field, int fields, crema_dtype *out) {
  int i = 0;
  while (i < fields - 1 && !field[i].given) ++i;
  return cr_net_dtype(field[i].name, field[i].type, out);
}

#define GIVEN(message, field) \
  { #field, (message)->has_##field != 0, (message)->field }

crema_status cr_net_check_bottom_types(const cr_net_build *build, int index) {
  const cr_net_layer *layer = &build->net->layer[index];
  const Caffe__LayerParameter *param = build->net->param->layer[index];
  int bottoms = layer->layer->bottoms;
  if (build->options->frozen != NULL)
    return CREMA_OK; /* passes give integers to those that take them */
  for (int j = 0; j < bottoms; ++j) {
    crema_dtype type = cr_tensor_type(layer->bottom[j]->data);
    unsigned mark = j < 31 ? 1u << j : 0;
    if (j == bottoms - 1) mark |= CR_LAST_BOTTOM;
    if (cr_dtype_is_floating(type) || (build->kind[index]->graph.integer_bottoms & mark) != 0)
      continue;
    return cr_net_fail_blob(param, param->bottom[j], CREMA_E_UNSUPPORTED,
                            "bottom %d '%.200s' holds integers (%s), which this layer cannot "
                            "compute with",
                            j, param->bottom[j], crema_dtype_name(type));
  }
  return CREMA_OK;
}

crema_status cr_net_layer_types(const Caffe__NetParameter *net, const Caffe__LayerParameter *layer,
                                const cr_layer_class *kind, cr_layer_types *out) {
  const type_field forward_math[] = {GIVEN(layer, forward_math), GIVEN(layer, forward_type),
                                     GIVEN(net, default_forward_math),
                                     GIVEN(net, default_forward_type)};
  const type_field backward_math[] = {GIVEN(layer, backward_math), GIVEN(layer, backward_type),
                                      GIVEN(net, default_backward_math),
                                      GIVEN(net, default_backward_type)};
  const type_field forward[] = {GIVEN(layer, forward_type), GIVEN(net, default_forward_type)};
  const type_field backward[] = {GIVEN(layer, backward_type), GIVEN(net, default_backward_type)};
  /* A layer of integers computes as a layer without a type. The numbers of Caffe__Type are the
   * numbers of crema_dtype. */
  const crema_dtype own = (crema_dtype)layer->forward_type;
  bool integers =
      layer->has_forward_type && crema_dtype_size(own) > 0 && !cr_dtype_is_floating(own);
  if (integers && !kind->graph.integer_tops) {
    return cr_net_fail_layer(layer, CREMA_E_UNSUPPORTED,
                             "forward_type is an integer (%s), which tops of Input, DummyData, "
                             "HDF5Data and ArgMax can hold, but not tops of this layer",
                             crema_dtype_name(own));
  }
  if (integers && !layer->has_forward_math) {
    CR_TRY(first_given(forward_math + 2, 2, &out->forward_math));
  } else {
    CR_TRY(first_given(forward_math, 4, &out->forward_math));
  }
  CR_TRY(first_given(backward_math, 4, &out->backward_math));
  if (integers) out->forward = own;
  else CR_TRY(first_given(forward, 2, &out->forward));
  CR_TRY(first_given(backward, 2, &out->backward));
  /* Layers that read data have no gradients to store. */
  if (!layer->has_backward_type && layer->transform_param != NULL) out->backward = CREMA_F32;
  return CREMA_OK;
}

static cr_layer_sharing sharing_of(const cr_net_build *build, size_t index) {
  const Caffe__LayerParameter *layer = build->net->param->layer[index];
  cr_layer_sharing shares = build->kind[index]->memory.shares;
  if (shares != CR_SHARES_IF_ONE) return shares;
  return layer->n_bottom == 1 && layer->n_top == 1 ? CR_SHARES_BLOB : CR_SHARES_NOTHING;
}

/* Whether a layer after `index` reads the blob, or a blob that shares it, as labels. */
static bool is_label(const cr_net_build *build, int index, const char *blob) {
  const Caffe__NetParameter *param = build->net->param;
  for (size_t i = (size_t)index + 1; i < param->n_layer; ++i) {
    const Caffe__LayerParameter *layer = param->layer[i];
    for (size_t j = 0; j < layer->n_bottom; ++j) {
      if (strcmp(layer->bottom[j], blob) != 0) continue;
      if (j < 32 && (build->kind[i]->no_gradient_bottoms >> j & 1u) != 0) return true;
      if (sharing_of(build, i) == CR_SHARES_NOTHING) continue;
      for (size_t k = 0; k < layer->n_top; ++k) {
        if (is_label(build, (int)i, layer->top[k])) return true;
      }
    }
  }
  return false;
}

void cr_net_top_types(const cr_net_build *build, int index, int top, crema_dtype *data,
                      crema_dtype *diff) {
  const cr_layer *layer = build->net->layer[index].layer;
  const cr_layer_class *kind = layer->kind;
  bool wide = kind->loss || kind->graph.wide_tops;
  /* The first top of a source has images, unless a layer reads it as labels. Further tops are
   * labels. */
  if (kind->input != NULL || layer->bottoms == 0) {
    wide = wide || top > 0 || is_label(build, index, layer->param->top[top]);
  }
  bool integers = !cr_dtype_is_floating(layer->types.forward);
  *data = wide && !integers ? cr_layer_arithmetic(layer) : layer->types.forward;
  *diff = wide ? cr_layer_arithmetic(layer) : layer->types.backward;
  /* Shared values have one type. */
  cr_layer_sharing shares = sharing_of(build, (size_t)index);
  const crema_blob *bottom = layer->bottoms > 0 ? build->net->layer[index].bottom[0] : NULL;
  if (shares == CR_SHARES_NOTHING) return;
  *data = bottom != NULL ? cr_tensor_type(bottom->data) : layer->types.forward;
  *diff = shares == CR_SHARES_BLOB ? cr_tensor_type(bottom->diff) : layer->types.backward;
}

/* Adds the conversions of `tensor` to *sum, unless one of `count` blobs' data or diffs, which are
 * counted already, has the same values. */
static void count_tensor(const cr_tensor *tensor, crema_blob *const *seen, int count,
                         uint64_t *sum) {
  for (int i = 0; i < count; ++i) {
    if (cr_tensor_shares_with(seen[i]->data, tensor)) return;
    if (cr_tensor_shares_with(seen[i]->diff, tensor)) return;
  }
  *sum += cr_tensor_conversions(tensor);
}

uint64_t crema_net_conversions(const crema_net *net) {
  uint64_t sum = 0;
  if (net == NULL) return 0;
  for (int i = 0; i < net->blobs; ++i) {
    count_tensor(net->blob[i]->data, net->blob, i, &sum);
    count_tensor(net->blob[i]->diff, net->blob, i, &sum);
  }
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *param = &net->net_param[i];
    const crema_blob *blob = net->layer[param->layer].layer->blob[param->index];
    /* Shared values are the owner's; a sharer's gradients may be its own. */
    if (param->owner < 0) {
      sum += cr_tensor_conversions(blob->data) + cr_tensor_conversions(blob->diff);
    } else if (!cr_tensor_shares_with(blob->diff, net->learnable[param->learnable]->diff)) {
      sum += cr_tensor_conversions(blob->diff);
    }
  }
  return sum;
}
