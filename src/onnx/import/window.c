#include "onnx/import/window.h"

#include "core/fail.h"

static crema_status read_list(cr_import_node *node, const char *name, int count, int64_t fallback,
                              int64_t *out) {
  size_t given;
  const int64_t *list = cr_import_ints(node, name, &given);
  for (int i = 0; i < count; ++i) out[i] = fallback;
  if (list == NULL) return CREMA_OK;
  if (given != (size_t)count) {
    return cr_import_reject(node, "%s has %zu numbers instead of %d", name, given, count);
  }
  for (int i = 0; i < count; ++i) {
    if (list[i] < 0 || list[i] > INT32_MAX) {
      return cr_import_reject(node, "%s %lld is not supported", name, (long long)list[i]);
    }
    out[i] = list[i];
  }
  return CREMA_OK;
}

/* The padding of SAME_UPPER and SAME_LOWER: as many positions as input / stride, rounded up. */
static void pad_same(cr_import_window *window, const crema_shape *shape, bool lower) {
  for (int i = 0; i < window->axes; ++i) {
    const int64_t size = shape->dim[i + 2], stride = window->stride[i];
    const int64_t positions = (size + stride - 1) / stride;
    const int64_t reach = window->dilation[i] * (window->kernel[i] - 1) + 1;
    int64_t all = (positions - 1) * stride + reach - size;
    if (all < 0) all = 0;
    window->begin[i] = lower ? all - all / 2 : all / 2;
    window->end[i] = all - window->begin[i];
  }
}

static crema_status check_window(cr_import_node *node, const cr_import_window *window) {
  for (int i = 0; i < window->axes; ++i) {
    if (window->kernel[i] < 1 || window->stride[i] < 1 || window->dilation[i] < 1) {
      return cr_import_reject(node, "kernel, stride and dilation must be at least 1");
    }
  }
  return CREMA_OK;
}

/* The zeros that belong to the input are padding of its blob. */
static void add_zeros(const cr_import_value *x, cr_import_window *window) {
  for (int i = 0; i < window->axes; ++i) {
    window->size[i] = x->shape->dim[i + 2];
    if (x->zeros == NULL) continue;
    window->before[i] = x->zeros[i + 2];
    window->after[i] = x->zeros[x->shape->axes + i + 2];
    window->begin[i] += window->before[i];
    window->end[i] += window->after[i];
    window->size[i] -= window->before[i] + window->after[i];
  }
}

crema_status cr_import_read_window(cr_import_node *node, const int64_t *kernel,
                                   cr_import_window *out) {
  const crema_shape *shape = node->input[0]->shape;
  int64_t pads[2 * CR_IMPORT_SPACE];
  *out = (cr_import_window){.axes = shape->axes - 2};
  if (out->axes < 1 || out->axes > CR_IMPORT_SPACE) {
    return cr_import_reject(node, "an input of %d axes", shape->axes);
  }
  CR_TRY(read_list(node, "kernel_shape", out->axes, 0, out->kernel));
  for (int i = 0; kernel != NULL && i < out->axes; ++i) out->kernel[i] = kernel[i];
  CR_TRY(read_list(node, "strides", out->axes, 1, out->stride));
  CR_TRY(read_list(node, "dilations", out->axes, 1, out->dilation));
  CR_TRY(read_list(node, "pads", 2 * out->axes, 0, pads));
  CR_TRY(check_window(node, out));
  for (int i = 0; i < out->axes; ++i) {
    out->begin[i] = pads[i];
    out->end[i] = pads[i + out->axes];
  }
  const bool upper = cr_import_is_text(node, "auto_pad", "SAME_UPPER", false);
  const bool lower = cr_import_is_text(node, "auto_pad", "SAME_LOWER", false);
  if (upper || lower) pad_same(out, shape, lower);
  if (cr_import_is_text(node, "auto_pad", "VALID", false)) {
    for (int i = 0; i < out->axes; ++i) out->begin[i] = out->end[i] = 0;
  }
  add_zeros(node->input[0], out);
  return CREMA_OK;
}

int64_t cr_import_positions(const cr_import_window *window, int axis, bool ceil) {
  const int64_t reach = window->dilation[axis] * (window->kernel[axis] - 1) + 1;
  const int64_t room = window->size[axis] + window->begin[axis] + window->end[axis] - reach;
  if (room < 0) return 0;
  return (room + (ceil ? window->stride[axis] - 1 : 0)) / window->stride[axis] + 1;
}

crema_status cr_import_print_extents(cr_buffer *text, const char *name, const int64_t *values,
                                     int axes) {
  for (int i = 0; i < axes; ++i) {
    CR_TRY(cr_buffer_print(text, " %s: %lld", name, (long long)values[i]));
  }
  return CREMA_OK;
}

void cr_import_fit_window(const cr_import_window *window, const int64_t *positions,
                          cr_import_fit *out) {
  *out = (cr_import_fit){0};
  for (int i = 0; i < window->axes; ++i) {
    const int64_t stride = window->stride[i];
    const int64_t reach = window->dilation[i] * (window->kernel[i] - 1) + 1;
    /* With a padding of begin + skip * stride the last position must still be inside. */
    const int64_t lack =
        (positions[i] - 1) * stride + reach - window->size[i] - 2 * window->begin[i];
    out->skip[i] = lack > 0 ? (lack + stride - 1) / stride : 0;
    out->pad[i] = window->begin[i] + out->skip[i] * stride;
    out->made[i] = (window->size[i] + 2 * out->pad[i] - reach) / stride + 1;
    if (out->made[i] != positions[i]) out->cuts = true;
  }
}

crema_status cr_import_fit_value(cr_import_node *node, const cr_import_fit *fit,
                                 cr_import_value **out) {
  crema_shape shape = *node->output[0]->shape;
  *out = node->output[0];
  if (!fit->cuts) return CREMA_OK;
  for (int i = 2; i < shape.axes; ++i) shape.dim[i] = fit->made[i - 2];
  return cr_import_between(node, "uncut", &shape, out);
}

crema_status cr_import_cut_fit(cr_import_node *node, const cr_import_fit *fit,
                               cr_import_value *made) {
  int64_t offset[CREMA_MAX_AXES] = {0};
  if (!fit->cuts) return CREMA_OK;
  for (int i = 2; i < made->shape->axes; ++i) offset[i] = fit->skip[i - 2];
  return cr_import_cut(node, made, offset, node->output[0]);
}
