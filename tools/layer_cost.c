#include "layer_cost.h"

#include <string.h>

const char cli_cost_help[] =
    "FLOPs count a forward pass: two for each multiply-add of a convolution, an inner product or\n"
    "a recurrent layer and one for each addition of a bias; other arithmetic counts one for each\n"
    "value and function, pooling one for each value of a window. Losses, outputs of detectors and\n"
    "layers that only move values count none.\n";

static int64_t count_of(const crema_blob *blob) {
  return crema_blob_count(blob);
}

static bool is_one_of(const char *type, const char *const *list) {
  for (; *list != NULL; ++list) {
    if (strcmp(type, *list) == 0) return true;
  }
  return false;
}

/* ---- layers with weights ------------------------------------------------- */

/* Each value of the top (of a deconvolution: of the bottom) meets the weights of its channel. */
static int64_t of_convolution(const cr_net_layer *at, const crema_blob *blob) {
  const crema_blob *weights = at->layer->blob[0];
  const int64_t channels = crema_blob_shape(weights)->dim[0];
  return channels > 0 ? count_of(blob) * (count_of(weights) / channels) : 0;
}

static int64_t of_inner_product(const cr_net_layer *at) {
  const Caffe__InnerProductParameter *param = at->layer->param->inner_product_param;
  const int64_t outputs = param == NULL ? 0 : (int64_t)param->num_output;
  return outputs > 0 ? count_of(at->top[0]) / outputs * count_of(at->layer->blob[0]) : 0;
}

/* Every matrix is used at every step, except if its input is the same at all steps. */
static int64_t of_recurrent(const cr_net_layer *at) {
  const crema_shape *shape = crema_blob_shape(at->bottom[0]);
  const cr_layer *layer = at->layer;
  const Caffe__RecurrentParameter *param = layer->param->recurrent_param;
  const bool exposed = param != NULL && param->expose_hidden;
  const int states = strcmp(layer->kind->type, "LSTM") == 0 ? 2 : 1;
  const bool has_static = layer->bottoms == 3 + (exposed ? states : 0);
  int64_t sum = 0;
  for (int p = 0; p < layer->params; ++p) {
    if (crema_blob_shape(layer->blob[p])->axes < 2) continue;
    sum += count_of(layer->blob[p]) * (has_static && p == 2 ? 1 : shape->dim[0]);
  }
  return sum * shape->dim[1];
}

/* Each weight is used once a sample, or once for each value of its region. */
static int64_t of_local(const cr_net_layer *at) {
  const crema_shape *top = crema_blob_shape(at->top[0]);
  const crema_blob *weights = at->layer->blob[0];
  const int64_t uses = at->layer->param->local_conv_param == NULL
                           ? 1
                           : top->dim[2] * top->dim[3] / crema_blob_shape(weights)->dim[0];
  return top->dim[0] * count_of(weights) * uses;
}

static int64_t multiply_adds(const cr_net_layer *at) {
  static const char *const convolutions[] = {"Convolution", "ConvolutionDepthwise",
                                             "DepthwiseConvolution", NULL};
  static const char *const locals[] = {"Local", "LocalConvolution", NULL};
  static const char *const recurrent[] = {"LSTM", "RNN", NULL};
  const char *type = at->layer->kind->type;
  int64_t sum = 0;
  if (at->layer->params == 0) return 0;
  if (is_one_of(type, convolutions)) {
    for (int t = 0; t < at->layer->tops; ++t) sum += of_convolution(at, at->top[t]);
  } else if (strcmp(type, "Deconvolution") == 0) {
    for (int b = 0; b < at->layer->bottoms; ++b) sum += of_convolution(at, at->bottom[b]);
  } else if (strcmp(type, "InnerProduct") == 0) {
    sum = of_inner_product(at);
  } else if (is_one_of(type, locals)) {
    sum = of_local(at);
  } else if (is_one_of(type, recurrent)) {
    sum = of_recurrent(at);
  }
  return sum;
}

/* One addition for each value of the top. */
static int64_t bias_additions(const cr_net_layer *at) {
  static const char *const types[] = {"Convolution",          "ConvolutionDepthwise",
                                      "DepthwiseConvolution", "Deconvolution",
                                      "InnerProduct",         NULL};
  int64_t sum = 0;
  if (at->layer->params < 2 || !is_one_of(at->layer->kind->type, types)) return 0;
  for (int t = 0; t < at->layer->tops; ++t) sum += count_of(at->top[t]);
  return sum;
}

/* ---- other layers -------------------------------------------------------- */

static int64_t window_of(const cr_net_layer *at) {
  const Caffe__PoolingParameter *p = at->layer->param->pooling_param;
  const crema_shape *shape = crema_blob_shape(at->bottom[0]);
  if (p == NULL || p->global_pooling) {
    return shape->axes < 2 ? 1 : crema_shape_count(shape, 2, shape->axes);
  }
  const int64_t height = p->has_kernel_h ? p->kernel_h : p->kernel_size;
  const int64_t width = p->has_kernel_w ? p->kernel_w : p->kernel_size;
  return height * width;
}

/* Operations for each value of the top. */
static int64_t operations(const cr_net_layer *at) {
  static const struct {
    const char *type;
    int64_t operations;
  } table[] = {
      {"AbsVal", 1}, {"BNLL", 2},      {"BatchNorm", 2}, {"Bias", 1},     {"Clip", 2},
      {"ELU", 2},    {"Exp", 1},       {"GELU", 8},      {"LSTMUnit", 5}, {"Log", 1},
      {"MVN", 4},    {"Normalize", 3}, {"PReLU", 2},     {"Power", 2},    {"ReLU", 1},
      {"ReLU6", 2},  {"SeLu", 3},      {"Scale", 1},     {"Sigmoid", 3},  {"Softmax", 3},
      {"Swish", 4},  {"TanH", 1},      {"Axpy", 2},      {"Interp", 6},   {"Threshold", 1}};
  const cr_layer *layer = at->layer;
  const char *type = layer->kind->type;
  if (strcmp(type, "Pooling") == 0) return window_of(at);
  if (strcmp(type, "Eltwise") == 0) return layer->bottoms - 1;
  if (strcmp(type, "LRN") == 0) {
    const Caffe__LRNParameter *p = layer->param->lrn_param;
    return 3 + (p == NULL ? 5 : (int64_t)p->local_size);
  }
  if (strcmp(type, "Scale") == 0 && layer->param->scale_param != NULL &&
      layer->param->scale_param->bias_term) {
    return 2;
  }
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(type, table[i].type) == 0) return table[i].operations;
  }
  return 0;
}

/* ---- memory -------------------------------------------------------------- */

/* Whether top `t` shares its values with a bottom or a parameter. */
static bool is_shared(const cr_net_layer *at, int t) {
  const cr_layer *layer = at->layer;
  for (int b = 0; b < layer->bottoms; ++b) {
    if (cr_tensor_shares_with(at->bottom[b]->data, at->top[t]->data)) return true;
  }
  for (int p = 0; p < layer->params; ++p) {
    if (cr_tensor_shares_with(layer->blob[p]->data, at->top[t]->data)) return true;
  }
  return false;
}

static int64_t bytes_of(const crema_blob *blob) {
  return count_of(blob) * (int64_t)crema_dtype_size(crema_blob_data_type(blob));
}

cli_cost cli_layer_cost(const crema_net *net, int layer) {
  const cr_net_layer *at = &net->layer[layer];
  cli_cost cost = {0};
  for (int p = 0; p < at->layer->params; ++p) {
    const crema_blob *blob = at->layer->blob[p];
    if (net->net_param[at->first_param + p].owner >= 0) continue;
    *(at->layer->kind->graph.statistics ? &cost.statistics : &cost.learned) += count_of(blob);
    cost.parameter_bytes += bytes_of(blob);
  }
  cost.multiply_adds = multiply_adds(at);
  cost.flops = 2 * cost.multiply_adds + bias_additions(at);
  if (at->layer->tops > 0) cost.flops += operations(at) * count_of(at->top[0]);
  for (int t = 0; t < at->layer->tops; ++t) {
    if (!is_shared(at, t)) cost.value_bytes += bytes_of(at->top[t]);
  }
  return cost;
}

void cli_cost_add(cli_cost *sum, const cli_cost *cost) {
  sum->learned += cost->learned;
  sum->statistics += cost->statistics;
  sum->multiply_adds += cost->multiply_adds;
  sum->flops += cost->flops;
  sum->value_bytes += cost->value_bytes;
  sum->parameter_bytes += cost->parameter_bytes;
}
