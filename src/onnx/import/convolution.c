/* Convolutions and their transposes. */
#include <string.h>

#include "core/fail.h"
#include "onnx/import/window.h"

/* The fields of a layer of convolution_param. */
typedef struct conv_fields {
  const char *type;
  int64_t outputs, groups;
  const int64_t *pad; /* for each spatial axis */
  bool bias;
} conv_fields;

static crema_status print_fields(cr_buffer *text, const cr_import_window *window,
                                 const conv_fields *fields) {
  CR_TRY(cr_buffer_print(text, "type: \"%s\" convolution_param { num_output: %lld", fields->type,
                         (long long)fields->outputs));
  if (!fields->bias) CR_TRY(cr_buffer_print(text, " bias_term: false"));
  if (fields->groups != 1) {
    CR_TRY(cr_buffer_print(text, " group: %lld", (long long)fields->groups));
  }
  CR_TRY(cr_import_print_extents(text, "kernel_size", window->kernel, window->axes));
  CR_TRY(cr_import_print_extents(text, "pad", fields->pad, window->axes));
  CR_TRY(cr_import_print_extents(text, "stride", window->stride, window->axes));
  CR_TRY(cr_import_print_extents(text, "dilation", window->dilation, window->axes));
  return cr_buffer_print(text, " }");
}

/* Copies the weights, with zeros at the ends of a kernel that is larger than theirs. */
static crema_status add_weights(cr_import_node *node, const int64_t *kernel) {
  cr_import_value *weights = node->input[1];
  crema_shape shape = *weights->shape;
  const int axes = shape.axes;
  for (int i = 2; i < axes; ++i) shape.dim[i] = kernel[i - 2];
  if (crema_shape_equal(&shape, weights->shape)) {
    return cr_import_weights_from(node->import, &shape, weights);
  }
  float *to;
  CR_TRY(cr_import_load(node->import, weights));
  CR_TRY(cr_import_weights(node->import, &shape, &to));
  memset(to, 0, (size_t)crema_shape_count(&shape, 0, axes) * sizeof *to);
  const int64_t row = weights->shape->dim[axes - 1], rows = cr_import_count(weights) / row;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t left = i, at = 0, each = shape.dim[axes - 1];
    for (int a = axes - 2; a >= 0; --a) {
      at += left % weights->shape->dim[a] * each;
      left /= weights->shape->dim[a];
      each *= shape.dim[a];
    }
    memcpy(to + at, weights->floats + i * row, (size_t)row * sizeof *to);
  }
  return CREMA_OK;
}

/* Adds the layer that makes `out` of input 0, with the weights and the bias of inputs 1 and 2. */
static crema_status add_layer(cr_import_node *node, const cr_import_window *window,
                              const conv_fields *fields, cr_import_value *out) {
  cr_buffer text = {0};
  cr_import_value *bias = cr_import_input(node, 2);
  crema_status status = print_fields(&text, window, fields);
  if (status == CREMA_OK) {
    status = cr_import_wide_layer(node, node->input, 1, &out, 1, text.data);
  }
  cr_buffer_free(&text);
  CR_TRY(status);
  CR_TRY(add_weights(node, window->kernel));
  if (bias == NULL) return CREMA_OK;
  return cr_import_weights_from(node->import, bias->shape, bias);
}

/* Input 1 has weights for the channels of input 0, input 2 a number for each of `outputs`. */
static crema_status check_weights(cr_import_node *node, int64_t groups) {
  cr_import_value *x = node->input[0], *weights = cr_import_input(node, 1);
  cr_import_value *bias = cr_import_input(node, 2);
  if (weights == NULL || weights->floats == NULL || (bias != NULL && bias->floats == NULL)) {
    return cr_import_reject(node, "weights and bias must be constant");
  }
  if (x->shape->axes < 3 || weights->shape->axes != x->shape->axes) {
    return cr_import_reject(node, "weights of %d axes for an input of %d", weights->shape->axes,
                            x->shape->axes);
  }
  if (groups < 1 || groups > x->shape->dim[1] || x->shape->dim[1] % groups != 0) {
    return cr_import_reject(node, "%lld groups for %lld channels", (long long)groups,
                            (long long)x->shape->dim[1]);
  }
  return CREMA_OK;
}

static crema_status check_fit(cr_import_node *node, int64_t inputs, int64_t expected,
                              int64_t outputs) {
  const cr_import_value *bias = cr_import_input(node, 2);
  if (inputs != expected) {
    return cr_import_reject(node, "weights for %lld channels instead of %lld", (long long)inputs,
                            (long long)expected);
  }
  if (bias != NULL && cr_import_count(bias) != outputs) {
    return cr_import_reject(node, "a bias of %lld numbers for %lld channels",
                            (long long)cr_import_count(bias), (long long)outputs);
  }
  return CREMA_OK;
}

/* A layer has the same padding on both sides, so others need a larger one and a cut. */
crema_status cr_import_conv(cr_import_node *node) {
  const int64_t groups = cr_import_int(node, "group", 1);
  cr_import_window window;
  cr_import_fit fit;
  cr_import_value *made;
  CR_TRY(check_weights(node, groups));
  const crema_shape *weights = node->input[1]->shape;
  CR_TRY(check_fit(node, weights->dim[1], node->input[0]->shape->dim[1] / groups, weights->dim[0]));
  CR_TRY(cr_import_read_window(node, weights->dim + 2, &window));
  crema_shape shape = *node->input[0]->shape;
  shape.dim[1] = weights->dim[0];
  for (int i = 0; i < window.axes; ++i) {
    shape.dim[i + 2] = cr_import_positions(&window, i, false);
    if (shape.dim[i + 2] < 1) return cr_import_reject(node, "the kernel exceeds the input");
  }
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &shape));
  cr_import_fit_window(&window, shape.dim + 2, &fit);
  CR_TRY(cr_import_fit_value(node, &fit, &made));
  const conv_fields fields = {"Convolution", shape.dim[1], groups, fit.pad,
                              cr_import_input(node, 2) != NULL};
  CR_TRY(add_layer(node, &window, &fields, made));
  return cr_import_cut_fit(node, &fit, made);
}

/* ---- transposes --------------------------------------------------------------- */

/* The extents without padding, the extents of the output, and the padding between them. */
static crema_status read_output(cr_import_node *node, cr_import_window *window, int64_t *full,
                                int64_t *wanted) {
  size_t extra, given;
  const int64_t *more = cr_import_ints(node, "output_padding", &extra);
  const int64_t *shape = cr_import_ints(node, "output_shape", &given);
  const bool upper = cr_import_is_text(node, "auto_pad", "SAME_UPPER", false);
  const bool same = upper || cr_import_is_text(node, "auto_pad", "SAME_LOWER", false);
  if ((more != NULL && extra != (size_t)window->axes) ||
      (shape != NULL && given < (size_t)window->axes)) {
    return cr_import_reject(node, "output_padding and output_shape have the wrong length");
  }
  if (shape != NULL) shape += given - (size_t)window->axes;
  for (int i = 0; i < window->axes; ++i) {
    const int64_t size = node->input[0]->shape->dim[i + 2], stride = window->stride[i];
    full[i] = stride * (size - 1) + window->dilation[i] * (window->kernel[i] - 1) + 1;
    const int64_t all = full[i] + (more == NULL ? 0 : more[i]);
    wanted[i] = shape != NULL ? shape[i]
                : same        ? size * stride
                              : all - window->begin[i] - window->end[i];
    if (same && shape == NULL && wanted[i] > all) {
      return cr_import_reject(node, "auto_pad with a kernel that is smaller than the stride");
    }
    if (wanted[i] < 1) return cr_import_reject(node, "the output has no positions");
    if (shape == NULL && !same) continue;
    const int64_t pads = all > wanted[i] ? all - wanted[i] : 0;
    window->begin[i] = upper ? pads / 2 : pads - pads / 2;
  }
  return CREMA_OK;
}

/* Adds the layer, and cuts the parts that its padding leaves. */
static crema_status add_transpose(cr_import_node *node, const cr_import_window *window,
                                  const conv_fields *fields, const int64_t *full) {
  crema_shape made = *node->output[0]->shape;
  int64_t cut[CREMA_MAX_AXES] = {0};
  cr_import_value *value = node->output[0];
  bool cuts = false;
  for (int i = 0; i < window->axes; ++i) {
    const int64_t wanted = made.dim[i + 2];
    made.dim[i + 2] = full[i] - 2 * fields->pad[i];
    cut[i + 2] = window->begin[i] - fields->pad[i];
    cuts = cuts || made.dim[i + 2] != wanted;
  }
  if (cuts) CR_TRY(cr_import_between(node, "uncut", &made, &value));
  CR_TRY(add_layer(node, window, fields, value));
  return cuts ? cr_import_cut(node, value, cut, node->output[0]) : CREMA_OK;
}

/* Lets the kernel reach the end of the output, with zeros at the end of its weights. */
static void grow_kernel(cr_import_window *window, int64_t *full, const int64_t *wanted) {
  for (int i = 0; i < window->axes; ++i) {
    const int64_t lack = window->begin[i] + wanted[i] - full[i], dilation = window->dilation[i];
    const int64_t more = lack > 0 ? (lack + dilation - 1) / dilation : 0;
    window->kernel[i] += more;
    full[i] += more * dilation;
  }
}

crema_status cr_import_conv_transpose(cr_import_node *node) {
  const int64_t groups = cr_import_int(node, "group", 1);
  int64_t full[CR_IMPORT_SPACE], wanted[CR_IMPORT_SPACE], pad[CR_IMPORT_SPACE];
  cr_import_window window;
  CR_TRY(check_weights(node, groups));
  const crema_shape *weights = node->input[1]->shape;
  const int64_t outputs = weights->dim[1] * groups;
  CR_TRY(check_fit(node, weights->dim[0], node->input[0]->shape->dim[1], outputs));
  CR_TRY(cr_import_read_window(node, weights->dim + 2, &window));
  CR_TRY(read_output(node, &window, full, wanted));
  grow_kernel(&window, full, wanted);
  crema_shape shape = *node->input[0]->shape;
  shape.dim[1] = outputs;
  for (int i = 0; i < window.axes; ++i) {
    shape.dim[i + 2] = wanted[i];
    const int64_t end = full[i] - window.begin[i] - wanted[i];
    pad[i] = end < window.begin[i] ? end : window.begin[i];
  }
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &shape));
  const conv_fields fields = {"Deconvolution", outputs, groups, pad,
                              cr_import_input(node, 2) != NULL};
  return add_transpose(node, &window, &fields, full);
}
