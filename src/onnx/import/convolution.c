/* Convolutions. */
#include "core/fail.h"
#include "onnx/import/window.h"

/* The fields of a Convolution layer. */
static crema_status print_fields(cr_buffer *text, const cr_import_window *window, int64_t outputs,
                                 int64_t groups, bool bias) {
  CR_TRY(cr_buffer_print(text, "type: \"Convolution\" convolution_param { num_output: %lld",
                         (long long)outputs));
  if (!bias) CR_TRY(cr_buffer_print(text, " bias_term: false"));
  if (groups != 1) CR_TRY(cr_buffer_print(text, " group: %lld", (long long)groups));
  CR_TRY(cr_import_print_extents(text, "kernel_size", window->kernel, window->axes));
  CR_TRY(cr_import_print_extents(text, "pad", window->begin, window->axes));
  CR_TRY(cr_import_print_extents(text, "stride", window->stride, window->axes));
  CR_TRY(cr_import_print_extents(text, "dilation", window->dilation, window->axes));
  return cr_buffer_print(text, " }");
}

crema_status cr_import_conv(cr_import_node *node) {
  cr_import_value *x = node->input[0], *weights = cr_import_input(node, 1);
  cr_import_value *bias = cr_import_input(node, 2);
  const int64_t groups = cr_import_int(node, "group", 1);
  cr_import_window window;
  cr_buffer text = {0};
  if (weights == NULL || weights->floats == NULL || (bias != NULL && bias->floats == NULL)) {
    return cr_import_reject(node, "weights and bias must be constant");
  }
  if (weights->shape->axes != x->shape->axes) {
    return cr_import_reject(node, "weights of %d axes for an input of %d", weights->shape->axes,
                            x->shape->axes);
  }
  CR_TRY(cr_import_read_window(node, weights->shape->dim + 2, &window));
  if (!cr_import_is_symmetric(&window)) return cr_import_reject(node, "asymmetric padding");
  crema_shape shape = *x->shape;
  shape.dim[1] = weights->shape->dim[0];
  for (int i = 0; i < window.axes; ++i) {
    shape.dim[i + 2] = cr_import_positions(&window, i, x->shape->dim[i + 2], false);
  }
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &shape));
  crema_status status = print_fields(&text, &window, shape.dim[1], groups, bias != NULL);
  if (status == CREMA_OK) {
    status = cr_import_wide_layer(node, &x, 1, node->output, 1, text.data);
  }
  cr_buffer_free(&text);
  CR_TRY(status);
  CR_TRY(cr_import_weights_of(node->import, weights->shape, weights->floats));
  if (bias == NULL) return CREMA_OK;
  return cr_import_weights_of(node->import, bias->shape, bias->floats);
}
