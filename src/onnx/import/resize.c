/* Resize and Upsample.
 *
 * Along each axis the output is a product of the input with a constant matrix: row i has the
 * weights of the input's values in value i. Layers for common matrices compute them without a
 * product: Upsample repeats values, Pooling with a kernel of 1 takes every n-th, Interp
 * interpolates between aligned corners. For all others the matrix is the weights of a layer. */
#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "onnx/import/window.h"

typedef enum resize_mode { RESIZE_NEAREST, RESIZE_LINEAR, RESIZE_CUBIC } resize_mode;
typedef enum resize_place {
  PLACE_HALF_PIXEL,
  PLACE_HALF_PIXEL_SYMMETRIC,
  PLACE_PYTORCH_HALF_PIXEL,
  PLACE_ALIGN_CORNERS,
  PLACE_ASYMMETRIC,
  PLACE_HALF_PIXEL_FOR_NN
} resize_place;
typedef enum resize_rounding {
  ROUND_PREFER_FLOOR,
  ROUND_PREFER_CEIL,
  ROUND_FLOOR,
  ROUND_CEIL
} resize_rounding;

typedef struct resizing {
  resize_mode mode;
  resize_place place;
  resize_rounding rounding;
  float cubic;          /* the coefficient a */
  bool exclude_outside; /* cubic: values outside the input have no weight */
  float scale[CREMA_MAX_AXES];
  crema_shape shape; /* of the output */
} resizing;

/* The matrix of an axis: row i has the weights of the input's values in value i of the output. */
typedef struct resize_axis {
  int64_t from, to;
  float *matrix; /* (to, from) */
} resize_axis;

/* ---- attributes --------------------------------------------------------------- */

static crema_status read_choice(cr_import_node *node, const char *name, const char *const *names,
                                int count, int *choice) {
  const Onnx__AttributeProto *given = cr_import_attribute(node, name);
  if (given == NULL) return CREMA_OK;
  for (int i = 0; i < count; ++i) {
    if (cr_import_is_text(node, name, names[i], false)) {
      *choice = i;
      return CREMA_OK;
    }
  }
  return cr_import_reject(node, "%s %.*s", name, (int)(given->s.len > 40 ? 40 : given->s.len),
                          given->s.data == NULL ? "" : (const char *)given->s.data);
}

static crema_status read_modes(cr_import_node *node, resizing *r) {
  static const char *const modes[] = {"nearest", "linear", "cubic"};
  static const char *const places[] = {"half_pixel",         "half_pixel_symmetric",
                                       "pytorch_half_pixel", "align_corners",
                                       "asymmetric",         "tf_half_pixel_for_nn"};
  static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor",
                                          "ceil"};
  const bool simple = node->import->opset < 11 || strcmp(node->op, "Upsample") == 0;
  int mode = 0, place = simple ? PLACE_ASYMMETRIC : PLACE_HALF_PIXEL;
  int rounding = simple ? ROUND_FLOOR : ROUND_PREFER_FLOOR;
  CR_TRY(read_choice(node, "mode", modes, 3, &mode));
  CR_TRY(read_choice(node, "coordinate_transformation_mode", places, 6, &place));
  CR_TRY(read_choice(node, "nearest_mode", roundings, 4, &rounding));
  if (cr_import_int(node, "antialias", 0) != 0) return cr_import_reject(node, "antialias");
  if (!cr_import_is_text(node, "keep_aspect_ratio_policy", "stretch", true)) {
    return cr_import_reject(node, "keep_aspect_ratio_policy other than stretch");
  }
  r->mode = (resize_mode)mode;
  r->place = (resize_place)place;
  r->rounding = (resize_rounding)rounding;
  if (r->place == PLACE_HALF_PIXEL_FOR_NN &&
      (r->mode != RESIZE_NEAREST || r->rounding == ROUND_PREFER_CEIL ||
       r->rounding == ROUND_CEIL)) {
    return cr_import_reject(node, "tf_half_pixel_for_nn with this mode or rounding");
  }
  r->cubic = cr_import_float(node, "cubic_coeff_a", -0.75F);
  r->exclude_outside = cr_import_int(node, "exclude_outside", 0) != 0;
  return CREMA_OK;
}

/* The scales: an attribute, or input 1 or 2. NULL: not given. */
static crema_status read_scales(cr_import_node *node, const float **out, size_t *count) {
  const Onnx__AttributeProto *attribute = cr_import_attribute(node, "scales");
  const bool early = node->import->opset < 11 || strcmp(node->op, "Upsample") == 0;
  const cr_import_value *input = cr_import_input(node, early ? 1 : 2);
  *out = NULL;
  *count = 0;
  if (attribute != NULL && attribute->n_floats > 0) {
    *out = attribute->floats;
    *count = attribute->n_floats;
    return CREMA_OK;
  }
  if (input == NULL || (input->shape->axes == 1 && input->shape->dim[0] == 0)) return CREMA_OK;
  if (input->floats == NULL) return cr_import_reject(node, "scales must be constant");
  *out = input->floats;
  *count = (size_t)cr_import_count(input);
  return CREMA_OK;
}

/* The axes that scales and sizes belong to. */
static crema_status read_axes(cr_import_node *node, size_t count, int *axes) {
  const int all = node->input[0]->shape->axes;
  size_t listed;
  const int64_t *list = cr_import_ints(node, "axes", &listed);
  if (count != (list == NULL ? (size_t)all : listed) || count > (size_t)all) {
    return cr_import_reject(node, "scales or sizes do not fit the axes");
  }
  for (size_t i = 0; i < count; ++i) {
    axes[i] = (int)i;
    if (list != NULL) CR_TRY(cr_import_axis(node, list[i], all, &axes[i]));
  }
  return CREMA_OK;
}

static crema_status read_extents(cr_import_node *node, resizing *r) {
  const cr_import_value *sizes = cr_import_input(node, 3);
  const crema_shape *x = node->input[0]->shape;
  const float *scales;
  size_t count;
  int axes[CREMA_MAX_AXES];
  r->shape = *x;
  for (int i = 0; i < x->axes; ++i) r->scale[i] = 1;
  CR_TRY(read_scales(node, &scales, &count));
  if (scales == NULL && sizes != NULL && sizes->ints == NULL) {
    return cr_import_reject(node, "sizes must be constant");
  }
  if (scales == NULL && sizes == NULL) return cr_import_reject(node, "there are no sizes");
  if (scales == NULL) count = (size_t)cr_import_count(sizes);
  CR_TRY(read_axes(node, count, axes));
  for (size_t i = 0; i < count; ++i) {
    const int a = axes[i];
    const double extent =
        scales != NULL ? floor((double)((float)x->dim[a] * scales[i])) : (double)sizes->ints[i];
    if (!(extent >= 1 && extent <= INT32_MAX) || x->dim[a] < 1) {
      return cr_import_reject(node, "an extent of %g", extent);
    }
    if (r->place == PLACE_ALIGN_CORNERS && scales != NULL &&
        extent != (double)x->dim[a] * (double)scales[i]) {
      return cr_import_reject(node, "runtimes disagree on align_corners at this scale");
    }
    r->shape.dim[a] = (int64_t)extent;
    r->scale[a] = scales != NULL ? scales[i] : (float)extent / (float)x->dim[a];
  }
  return CREMA_OK;
}

/* ---- the matrix of an axis ------------------------------------------------------ */

/* The place of an output value among the input's, in the arithmetic of ONNX Runtime. */
static float place_of(const resizing *r, int axis, int64_t from, int64_t at) {
  const float scale = r->scale[axis], to = (float)r->shape.dim[axis], i = (float)at;
  switch (r->place) {
    case PLACE_HALF_PIXEL: return (i + 0.5F) / scale - 0.5F;
    case PLACE_HALF_PIXEL_SYMMETRIC: {
      const float adjustment = to / (scale * (float)from), centre = (float)from / 2;
      return centre * (1 - adjustment) + (i + 0.5F) / scale - 0.5F;
    }
    case PLACE_PYTORCH_HALF_PIXEL: return to > 1 ? (i + 0.5F) / scale - 0.5F : 0;
    case PLACE_ALIGN_CORNERS: return to > 1 ? i * (float)(from - 1) / (to - 1) : 0;
    case PLACE_HALF_PIXEL_FOR_NN: return (i + 0.5F) / scale;
    default: return i / scale;
  }
}

static int64_t nearest(const resizing *r, float place) {
  switch (r->rounding) {
    case ROUND_PREFER_FLOOR:
      return (int64_t)(place == (float)(int64_t)place + 0.5F ? floorf(place) : roundf(place));
    case ROUND_PREFER_CEIL: return (int64_t)roundf(place);
    case ROUND_FLOOR: return (int64_t)floorf(place);
    default: return (int64_t)ceilf(place);
  }
}

static int64_t inside(int64_t at, int64_t size) {
  return at < 0 ? 0 : at >= size ? size - 1 : at;
}

static void add_linear(float place, int64_t from, float *row) {
  const float last = (float)(from - 1);
  const float at = place < 0 ? 0 : place > last ? last : place;
  const int64_t low = inside((int64_t)at, from), high = inside(low + 1, from);
  const float part = at - (float)low;
  row[low] += 1 - part;
  row[high] += part;
}

static void add_cubic(const resizing *r, float place, int64_t from, float *row) {
  const float a = r->cubic, s = place - floorf(place);
  const int64_t low = (int64_t)floorf(place);
  float weight[4], sum = 0;
  weight[0] = ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a;
  weight[1] = ((a + 2) * s - (a + 3)) * s * s + 1;
  weight[2] = ((a + 2) * (1 - s) - (a + 3)) * (1 - s) * (1 - s) + 1;
  weight[3] = ((a * (2 - s) - 5 * a) * (2 - s) + 8 * a) * (2 - s) - 4 * a;
  for (int k = 0; k < 4; ++k) {
    const int64_t at = low - 1 + k;
    if (r->exclude_outside && (at < 0 || at >= from)) weight[k] = 0;
    sum += weight[k];
  }
  for (int k = 0; k < 4; ++k) {
    row[inside(low - 1 + k, from)] += r->exclude_outside ? weight[k] / sum : weight[k];
  }
}

/* Runtimes differ in the nearest value: for half_pixel_symmetric by their rounding of places, and
 * before operator set 11, when the map shrinks, by the direction. */
static bool is_ambiguous(const cr_import_node *node, const resizing *r, int axis, float place) {
  const float slack = 1e-4F;
  if (r->mode != RESIZE_NEAREST) return false;
  if (r->place == PLACE_HALF_PIXEL_SYMMETRIC) {
    return nearest(r, place - slack) != nearest(r, place + slack);
  }
  return node->import->opset < 11 && r->scale[axis] < 1 && floorf(place) != ceilf(place);
}

static crema_status make_matrix(cr_import_node *node, const resizing *r, int axis,
                                resize_axis *out) {
  void *matrix;
  out->from = node->input[0]->shape->dim[axis];
  out->to = r->shape.dim[axis];
  if (out->from > (INT64_C(1) << 26) / out->to) {
    return cr_import_reject(node, "axis %d is too long", axis);
  }
  CR_TRY(
      cr_arena_alloc(&node->import->arena, (size_t)(out->from * out->to) * sizeof(float), &matrix));
  out->matrix = matrix;
  for (int64_t i = 0; i < out->to; ++i) {
    float *row = out->matrix + i * out->from;
    const float place = place_of(r, axis, out->from, i);
    if (is_ambiguous(node, r, axis, place)) {
      return cr_import_reject(node, "runtimes disagree on the nearest values at this scale");
    }
    if (r->mode == RESIZE_NEAREST) row[inside(nearest(r, place), out->from)] = 1;
    else if (r->mode == RESIZE_LINEAR) add_linear(place, out->from, row);
    else add_cubic(r, place, out->from, row);
  }
  return CREMA_OK;
}

/* Whether value i of the output is value i * step / repeat of the input. */
static bool is_step(const resize_axis *axis, int64_t step, int64_t repeat) {
  for (int64_t i = 0; i < axis->to; ++i) {
    const int64_t at = i / repeat * step;
    if (at >= axis->from || axis->matrix[i * axis->from + at] != 1) return false;
  }
  return true;
}

/* ---- layers ----------------------------------------------------------------------- */

/* A layer for both axes of a map, if there is one that needs no product. */
static crema_status add_map_layer(cr_import_node *node, const resizing *r, const resize_axis *rows,
                                  const resize_axis *columns, bool *done) {
  const int64_t down[2] = {(rows->from + rows->to - 1) / rows->to,
                           (columns->from + columns->to - 1) / columns->to};
  const int64_t up[2] = {rows->to / rows->from, columns->to / columns->from};
  const cr_import_ends ends = {.bottom = {node->input[0]}, .top = {node->output[0]}};
  *done = true;
  if (rows->to == up[0] * rows->from && columns->to == up[1] * columns->from &&
      is_step(rows, 1, up[0]) && is_step(columns, 1, up[1])) {
    return cr_import_layer(node, &ends,
                           "type: \"Upsample\" upsample_param { scale_h: %lld scale_w: %lld }",
                           (long long)up[0], (long long)up[1]);
  }
  if ((rows->from - 1) / down[0] + 1 == rows->to &&
      (columns->from - 1) / down[1] + 1 == columns->to && is_step(rows, down[0], 1) &&
      is_step(columns, down[1], 1)) {
    return cr_import_layer(node, &ends,
                           "type: \"Pooling\" pooling_param { pool: MAX kernel_size: 1 "
                           "stride_h: %lld stride_w: %lld round_mode: FLOOR }",
                           (long long)down[0], (long long)down[1]);
  }
  if (r->mode == RESIZE_LINEAR && r->place == PLACE_ALIGN_CORNERS) {
    return cr_import_layer(node, &ends,
                           "type: \"Interp\" interp_param { height: %lld width: %lld }",
                           (long long)rows->to, (long long)columns->to);
  }
  *done = false;
  return CREMA_OK;
}

/* A convolution whose channels are the axis, or an inner product for the last axis. */
static crema_status add_matrix_layer(cr_import_node *node, const resize_axis *axis, int place,
                                     cr_import_value *from, cr_import_value *to) {
  const cr_import_ends ends = {.bottom = {from}, .top = {to}};
  const int rest = from->shape->axes - place - 1;
  const bool last = rest == 0;
  CR_TRY(cr_import_layer(
      node, &ends,
      last ? "type: \"InnerProduct\" inner_product_param { num_output: %lld axis: %d "
             "bias_term: false }"
           : "type: \"Convolution\" convolution_param { num_output: %lld axis: %d kernel_size: 1 "
             "bias_term: false }",
      (long long)axis->to, place));
  crema_shape shape = {.axes = 2 + rest, .dim = {axis->to, axis->from}};
  for (int i = 0; i < rest; ++i) shape.dim[2 + i] = 1;
  return cr_import_weights_of(node->import, &shape, axis->matrix);
}

static crema_status add_axis_layers(cr_import_node *node, const resizing *r,
                                    const resize_axis *axis, const int *places, int count) {
  cr_import_value *from = node->input[0], *to;
  crema_shape shape = *from->shape;
  for (int i = 0; i < count; ++i) {
    shape.dim[places[i]] = r->shape.dim[places[i]];
    to = node->output[0];
    if (i < count - 1) CR_TRY(cr_import_between(node, "resized", &shape, &to));
    if (from->shape->axes - places[i] - 1 > CR_IMPORT_SPACE) {
      return cr_import_reject(node, "axis %d of %d", places[i], from->shape->axes);
    }
    CR_TRY(add_matrix_layer(node, &axis[i], places[i], from, to));
    from = to;
  }
  return CREMA_OK;
}

crema_status cr_import_resize(cr_import_node *node) {
  resizing r = {.mode = RESIZE_NEAREST};
  resize_axis axis[CREMA_MAX_AXES];
  int places[CREMA_MAX_AXES], count = 0;
  bool done = false;
  CR_TRY(read_modes(node, &r));
  CR_TRY(read_extents(node, &r));
  CR_TRY(cr_import_set_shape(node->import, node->output[0], &r.shape));
  for (int i = 0; i < r.shape.axes; ++i) {
    CR_TRY(make_matrix(node, &r, i, &axis[count]));
    if (axis[count].from == axis[count].to && is_step(&axis[count], 1, 1)) continue;
    if (i == 0) return cr_import_reject(node, "the batch is resized");
    places[count++] = i;
  }
  if (count == 0) {
    cr_import_alias(node->output[0], node->input[0]);
    return CREMA_OK;
  }
  const bool map = r.shape.axes == 4 && places[0] >= 2;
  if (map) {
    resize_axis both[2];
    for (int i = 0; i < 2; ++i) CR_TRY(make_matrix(node, &r, 2 + i, &both[i]));
    CR_TRY(add_map_layer(node, &r, &both[0], &both[1], &done));
  }
  return done ? CREMA_OK : add_axis_layers(node, &r, axis, places, count);
}
