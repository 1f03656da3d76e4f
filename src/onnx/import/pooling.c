/* Poolings.
 *
 * ONNX has padding on each side, counts it or not, and rounds down or up. A Pooling layer has the
 * same padding on both sides and three kinds of averages and ends (layers/pooling.c). A pooling
 * that none of its forms computes exactly is rejected or, for averages, is a convolution. */
#include <float.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/window.h"

typedef enum pool_kind { POOL_MAX, POOL_AVERAGE_INSIDE, POOL_AVERAGE } pool_kind;

typedef struct pooling {
  cr_import_window window;
  int64_t positions[CR_IMPORT_SPACE];
  int64_t counted[2][CR_IMPORT_SPACE]; /* the padding on each side that counts in an average */
} pooling;

/* ---- the positions of a Pooling layer ------------------------------------------ */

/* As the layer computes them. */
static int64_t layer_positions(const pooling *p, int axis, int64_t pad, bool padded, bool ceil) {
  const cr_import_window *w = &p->window;
  const int64_t room = w->size[axis] + 2 * pad - w->kernel[axis];
  if (room < 0) return 0;
  int64_t positions = (room + (ceil ? w->stride[axis] - 1 : 0)) / w->stride[axis] + 1;
  if (padded && (positions - 1) * w->stride[axis] >= w->size[axis] + pad) --positions;
  return positions;
}

/* The number of values of window `i` along an axis that an average counts. They lie between
 * `before` values before the input and `after` values after it. */
static int64_t divisor(const pooling *p, int axis, int64_t i, int64_t before, int64_t after) {
  const cr_import_window *w = &p->window;
  int64_t count = 0;
  const int64_t start = i * w->stride[axis] - w->begin[axis];
  const int64_t step = w->dilation[axis], last = start + (w->kernel[axis] - 1) * step;
  int64_t low = start, high = w->size[axis] + after - 1;
  if (low < -before) low += (-before - low + step - 1) / step * step;
  if (high > last) high = last;
  if (high >= low) count = (high - low) / step + 1;
  return count;
}

/* Whether the layer divides by the same numbers: all values up to the end of its padding. */
static bool same_divisors(const pooling *p, const cr_import_fit *fit) {
  for (int a = 0; a < p->window.axes; ++a) {
    for (int64_t i = 0; i < p->positions[a]; ++i) {
      if (divisor(p, a, i, p->counted[0][a], p->counted[1][a]) !=
          divisor(p, a, i, fit->pad[a], fit->pad[a])) {
        return false;
      }
    }
  }
  return true;
}

/* Whether a layer with this padding makes all positions. Further positions are cut. */
static bool complete_fit(const pooling *p, pool_kind kind, bool ceil, cr_import_fit *fit) {
  const cr_import_window *w = &p->window;
  bool padded = false;
  fit->cuts = false;
  for (int i = 0; i < w->axes; ++i) padded = padded || fit->pad[i] > 0;
  for (int i = 0; i < w->axes; ++i) {
    if (w->dilation[i] != 1 || fit->pad[i] >= w->kernel[i]) return false;
    fit->made[i] = layer_positions(p, i, fit->pad[i], padded, ceil);
    if (fit->made[i] < fit->skip[i] + p->positions[i]) return false;
    if (fit->made[i] != p->positions[i]) fit->cuts = true;
    if (kind == POOL_AVERAGE_INSIDE && (p->counted[0][i] > 0 || p->counted[1][i] > 0)) return false;
  }
  return kind != POOL_AVERAGE || same_divisors(p, fit);
}

/* The paddings for the least number of positions that are cut. */
static bool find_fit(const pooling *p, pool_kind kind, bool *ceil, cr_import_fit *fit) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    *ceil = attempt % 2 == 1;
    cr_import_fit_window(&p->window, p->positions, fit);
    for (int i = 0; i < p->window.axes && *ceil; ++i) {
      fit->pad[i] = p->window.begin[i];
      fit->skip[i] = 0;
    }
    if (complete_fit(p, kind, *ceil, fit) && (attempt >= 2 || !fit->cuts)) return true;
  }
  return false;
}

static crema_status add_pooling(cr_import_node *node, const pooling *p, pool_kind kind, bool ceil,
                                const cr_import_fit *fit) {
  const cr_import_window *w = &p->window;
  cr_import_value *made;
  cr_buffer text = {0};
  CR_TRY(cr_import_fit_value(node, fit, &made));
  crema_status status =
      cr_buffer_print(&text, "type: \"Pooling\" pooling_param { pool: %s%s%s",
                      kind == POOL_MAX ? "MAX" : "AVE", ceil ? "" : " round_mode: FLOOR",
                      kind == POOL_AVERAGE_INSIDE ? " avg_include_pad: false" : "");
  const bool flat = w->axes == 2;
  if (status == CREMA_OK && flat) {
    status = cr_buffer_print(
        &text,
        " kernel_h: %lld kernel_w: %lld stride_h: %lld stride_w: %lld pad_h: %lld pad_w: %lld",
        (long long)w->kernel[0], (long long)w->kernel[1], (long long)w->stride[0],
        (long long)w->stride[1], (long long)fit->pad[0], (long long)fit->pad[1]);
  }
  if (status == CREMA_OK && !flat) {
    status = cr_import_print_extents(&text, "kernel_size_3d", w->kernel, w->axes);
  }
  if (status == CREMA_OK && !flat) {
    status = cr_import_print_extents(&text, "stride_3d", w->stride, w->axes);
  }
  if (status == CREMA_OK && !flat) {
    status = cr_import_print_extents(&text, "pad_3d", fit->pad, w->axes);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " }");
  if (status == CREMA_OK) status = cr_import_wide_layer(node, node->input, 1, &made, 1, text.data);
  cr_buffer_free(&text);
  CR_TRY(status);
  return cr_import_cut_fit(node, fit, made);
}

/* ---- averages as convolutions ---------------------------------------------------- */

/* Sums of each channel, by a depthwise convolution. */
static crema_status add_sums(cr_import_node *node, const pooling *p, cr_import_value **out) {
  const int64_t channels = node->input[0]->shape->dim[1];
  const crema_shape *shape = node->output[0]->shape;
  const int axes = p->window.axes;
  cr_import_value *made;
  cr_import_fit fit;
  float *weights;
  cr_buffer text = {0};
  cr_import_fit_window(&p->window, p->positions, &fit);
  crema_shape uncut = *shape, kernel = {.axes = axes + 2, .dim = {channels, 1}};
  int64_t offset[CREMA_MAX_AXES] = {0};
  for (int i = 0; i < axes; ++i) {
    uncut.dim[i + 2] = fit.made[i];
    kernel.dim[i + 2] = p->window.kernel[i];
    offset[i + 2] = fit.skip[i];
  }
  CR_TRY(cr_import_between(node, "sums", &uncut, &made));
  crema_status status = cr_buffer_print(
      &text,
      "type: \"Convolution\" convolution_param { num_output: %lld group: %lld bias_term: "
      "false",
      (long long)channels, (long long)channels);
  const struct {
    const char *name;
    const int64_t *values;
  } lists[] = {{"kernel_size", p->window.kernel},
               {"stride", p->window.stride},
               {"dilation", p->window.dilation},
               {"pad", fit.pad}};
  for (size_t i = 0; i < 4 && status == CREMA_OK; ++i) {
    status = cr_import_print_extents(&text, lists[i].name, lists[i].values, axes);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " }");
  if (status == CREMA_OK) status = cr_import_wide_layer(node, node->input, 1, &made, 1, text.data);
  cr_buffer_free(&text);
  CR_TRY(status);
  CR_TRY(cr_import_weights(node->import, &kernel, &weights));
  const int64_t count = crema_shape_count(&kernel, 0, kernel.axes);
  for (int64_t i = 0; i < count; ++i) weights[i] = 1;
  *out = made;
  if (!fit.cuts) return CREMA_OK;
  CR_TRY(cr_import_between(node, "cut_sums", shape, out));
  return cr_import_cut(node, made, offset, *out);
}

/* A Scale layer has the reciprocal of the divisor of each position. */
static crema_status add_average(cr_import_node *node, const pooling *p) {
  const int axes = p->window.axes;
  cr_import_value *sums;
  float *scale;
  CR_TRY(add_sums(node, p, &sums));
  const cr_import_ends ends = {.bottom = {sums}, .top = {node->output[0]}};
  CR_TRY(
      cr_import_layer(node, &ends, "type: \"Scale\" scale_param { axis: 2 num_axes: %d }", axes));
  crema_shape shape = {.axes = axes};
  memcpy(shape.dim, p->positions, (size_t)axes * sizeof *shape.dim);
  CR_TRY(cr_import_weights(node->import, &shape, &scale));
  const int64_t count = crema_shape_count(&shape, 0, axes);
  for (int64_t i = 0; i < count; ++i) {
    int64_t left = i, values = 1;
    for (int a = axes - 1; a >= 0; --a) {
      values *= divisor(p, a, left % shape.dim[a], p->counted[0][a], p->counted[1][a]);
      left /= shape.dim[a];
    }
    scale[i] = (float)(1.0 / (double)(values > 0 ? values : 1));
  }
  return CREMA_OK;
}

/* ---- maxima of columns ----------------------------------------------------------- */

/* The input with values below all others around it, so far as windows reach. */
static crema_status surround_input(cr_import_node *node, const pooling *p, cr_import_value **out) {
  const cr_import_window *w = &p->window;
  int64_t begin[CREMA_MAX_AXES] = {0};
  crema_shape shape = *node->input[0]->shape;
  bool adds = false;
  for (int i = 0; i < w->axes; ++i) {
    const int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    const int64_t needed = (p->positions[i] - 1) * w->stride[i] + reach;
    const int64_t given = w->size[i] + w->begin[i];
    begin[i + 2] = w->begin[i];
    shape.dim[i + 2] = needed > given ? needed : given;
    adds = adds || shape.dim[i + 2] != w->size[i];
  }
  *out = node->input[0];
  if (!adds) return CREMA_OK;
  CR_TRY(cr_import_between(node, "surrounded", &shape, out));
  return cr_import_surround(node, node->input[0], begin, -FLT_MAX, *out);
}

/* The values of each window become a column, by Im2col, whose maximum a Pooling layer finds. */
static crema_status add_maxima(cr_import_node *node, const pooling *p) {
  const cr_import_window *w = &p->window;
  const int64_t batch = node->input[0]->shape->dim[0], channels = node->input[0]->shape->dim[1];
  cr_import_value *from, *columns, *split, *maxima, *to = node->output[0];
  crema_shape shape = *to->shape;
  int64_t elements = 1, positions = 1;
  for (int i = 0; i < w->axes; ++i) {
    elements *= w->kernel[i];
    positions *= p->positions[i];
  }
  CR_TRY(surround_input(node, p, &from));
  shape.dim[1] = channels * elements;
  CR_TRY(cr_import_between(node, "columns", &shape, &columns));
  shape = (crema_shape){.axes = 4, .dim = {batch, channels, elements, positions}};
  CR_TRY(cr_import_between(node, "split", &shape, &split));
  shape.dim[2] = 1;
  CR_TRY(cr_import_between(node, "maxima", &shape, &maxima));
  cr_buffer text = {0};
  crema_status status = cr_buffer_print(&text, "type: \"Im2col\" convolution_param {");
  if (status == CREMA_OK) {
    status = cr_import_print_extents(&text, "kernel_size", w->kernel, w->axes);
  }
  if (status == CREMA_OK) status = cr_import_print_extents(&text, "stride", w->stride, w->axes);
  if (status == CREMA_OK) {
    status = cr_import_print_extents(&text, "dilation", w->dilation, w->axes);
  }
  if (status == CREMA_OK) status = cr_buffer_print(&text, " }");
  if (status == CREMA_OK) status = cr_import_wide_layer(node, &from, 1, &columns, 1, text.data);
  cr_buffer_free(&text);
  CR_TRY(status);
  CR_TRY(cr_import_view(node, columns, split->shape, &split));
  const cr_import_ends ends = {.bottom = {split}, .top = {maxima}};
  CR_TRY(cr_import_layer(node, &ends,
                         "type: \"Pooling\" pooling_param { pool: MAX kernel_h: %lld kernel_w: 1 }",
                         (long long)elements));
  return cr_import_view(node, maxima, to->shape, &to);
}

/* ---- operators --------------------------------------------------------------------- */

static crema_status read_pooling(cr_import_node *node, pooling *p) {
  const bool ceil = cr_import_int(node, "ceil_mode", 0) != 0;
  const bool counts = cr_import_int(node, "count_include_pad", 0) != 0;
  CR_TRY(cr_import_read_window(node, NULL, &p->window));
  const cr_import_window *w = &p->window;
  crema_shape shape = *node->input[0]->shape;
  for (int i = 0; i < w->axes; ++i) {
    const int64_t reach = w->dilation[i] * (w->kernel[i] - 1) + 1;
    p->positions[i] = cr_import_positions(w, i, ceil);
    if (p->positions[i] < 1) return cr_import_reject(node, "the kernel exceeds the input");
    const int64_t start = (p->positions[i] - 1) * w->stride[i];
    if (ceil && start >= w->size[i] + w->begin[i] + w->after[i]) {
      /* A window that would start in the end padding does not count. */
      --p->positions[i];
    }
    if (ceil && counts && start + reach > w->size[i] + w->begin[i] + w->end[i]) {
      return cr_import_reject(node, "runtimes disagree on ceil_mode with count_include_pad");
    }
    shape.dim[i + 2] = p->positions[i];
    p->counted[0][i] = counts ? w->begin[i] : w->before[i];
    p->counted[1][i] = counts ? w->end[i] : w->after[i];
  }
  return cr_import_set_shape(node->import, node->output[0], &shape);
}

crema_status cr_import_max_pool(cr_import_node *node) {
  pooling p;
  cr_import_fit fit;
  bool ceil;
  if (node->outputs > 1 && node->output[1] != NULL) {
    return cr_import_reject(node, "the output Indices");
  }
  CR_TRY(read_pooling(node, &p));
  if (find_fit(&p, POOL_MAX, &ceil, &fit)) return add_pooling(node, &p, POOL_MAX, ceil, &fit);
  return add_maxima(node, &p);
}

crema_status cr_import_average_pool(cr_import_node *node) {
  pooling p;
  cr_import_fit fit;
  bool ceil;
  CR_TRY(read_pooling(node, &p));
  for (int kind = POOL_AVERAGE_INSIDE; kind <= POOL_AVERAGE; ++kind) {
    if (find_fit(&p, (pool_kind)kind, &ceil, &fit)) {
      return add_pooling(node, &p, (pool_kind)kind, ceil, &fit);
    }
  }
  return add_average(node, &p);
}

static crema_status add_global(cr_import_node *node, const char *method) {
  crema_shape shape = *node->input[0]->shape;
  if (shape.axes < 3 || shape.axes > 2 + CR_IMPORT_SPACE) {
    return cr_import_reject(node, "an input of %d axes", shape.axes);
  }
  for (int i = 2; i < shape.axes; ++i) shape.dim[i] = 1;
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &shape));
  const cr_import_ends ends = {.bottom = {node->input[0]}, .top = {node->output[0]}};
  return cr_import_layer(
      node, &ends, "type: \"Pooling\" pooling_param { pool: %s global_pooling: true }", method);
}

crema_status cr_import_global_average_pool(cr_import_node *node) {
  return add_global(node, "AVE");
}

crema_status cr_import_global_max_pool(cr_import_node *node) {
  return add_global(node, "MAX");
}
