/* Maps sampled at positions that another blob moves. */
#include <math.h>

#include "layers/common/layer_window.h"
#include "onnx/export/compose.h"

/* ---- FlowWarp, SpatialTransformer -------------------------------------------------- */

/* The rows, or the columns, of all pixels. */
static const char *pixel_places(cr_onnx_graph *g, const int64_t *map, bool rows) {
  const crema_shape shape = {.axes = 1, .dim = {map[2] * map[3]}};
  float *value;
  const char *name = cr_onnx_new_floats(g, rows ? "rows" : "columns", &shape, &value);
  for (int64_t i = 0; value != NULL && i < shape.dim[0]; ++i) {
    value[i] = (float)(rows ? i / map[3] : i % map[3]);
  }
  return name;
}

void cr_onnx_export_flow_warp(cr_onnx_layer *l) {
  const Caffe__FlowWarpParameter *p = l->param->flow_warp_param;
  const int64_t *map = cr_onnx_bottom_shape(l, 0)->dim, flat[] = {0, -1};
  const bool nan_outside =
      p != NULL && p->fill_value == CAFFE__FLOW_WARP_PARAMETER__FILL_PARAMETER__NOT_A_NUMBER;
  cr_onnx_graph *g = l->g;
  const char *place[2];
  for (int i = 0; i < 2; ++i) {
    const char *flow = cr_onnx_reshaped(g, cr_onnx_sliced(g, l->in[1], 1, i, i + 1), flat, 2);
    place[i] = CR_ONNX_VALUE(g, "Add", flow, pixel_places(g, map, i == 1));
  }
  const cr_onnx_sampling of = {.map = l->in[0],
                               .y = place[1],
                               .x = place[0],
                               .channels = map[1],
                               .height = map[2],
                               .width = map[3],
                               .clamped = true,
                               .fill = nan_outside ? NAN : 0};
  cr_onnx_reshape_to(g, l->out[0], cr_onnx_sample(g, &of), cr_onnx_top_shape(l, 0));
}

enum { ENTRIES = 6 };

/* The constants of theta; NULL: bottom 1 has the entry. */
static int read_entries(const Caffe__SpatialTransformerParameter *p, const double *given[ENTRIES]) {
  int found = 0;
  given[0] = p->has_theta_1_1 ? &p->theta_1_1 : NULL;
  given[1] = p->has_theta_1_2 ? &p->theta_1_2 : NULL;
  given[2] = p->has_theta_1_3 ? &p->theta_1_3 : NULL;
  given[3] = p->has_theta_2_1 ? &p->theta_2_1 : NULL;
  given[4] = p->has_theta_2_2 ? &p->theta_2_2 : NULL;
  given[5] = p->has_theta_2_3 ? &p->theta_2_3 : NULL;
  for (int i = 0; i < ENTRIES; ++i) found += given[i] == NULL;
  return found;
}

/* Coordinate `row` of the positions (N, P): theta times a constant matrix, plus constants. */
static const char *affine_places(cr_onnx_layer *l, const char *theta, int row) {
  static const Caffe__SpatialTransformerParameter defaults =
      CAFFE__SPATIAL_TRANSFORMER_PARAMETER__INIT;
  const int64_t *from = cr_onnx_bottom_shape(l, 0)->dim, *to = cr_onnx_top_shape(l, 0)->dim;
  const int64_t positions = to[2] * to[3];
  const double *given[ENTRIES], half = (double)from[2 + row] / 2;
  const int entries = read_entries(l->param->st_param ? l->param->st_param : &defaults, given);
  const crema_shape matrix = {.axes = 2, .dim = {entries, positions}};
  const crema_shape line = {.axes = 1, .dim = {positions}};
  float *factor, *fixed;
  const char *factors = cr_onnx_new_floats(l->g, "factors", &matrix, &factor);
  const char *constants = cr_onnx_new_floats(l->g, "constants", &line, &fixed);
  for (int64_t i = 0; fixed != NULL && i < positions; ++i) {
    const double v[3] = {2.0 * (double)(i / to[3]) / (double)to[2] - 1,
                         2.0 * (double)(i % to[3]) / (double)to[3] - 1, 1};
    double sum = half;
    for (int64_t k = 0, at = 0; k < ENTRIES; ++k) {
      const double share = k / 3 == row ? half * v[k % 3] : 0;
      if (given[k] == NULL) factor[at++ * positions + i] = (float)share;
      else sum += share * *given[k];
    }
    fixed[i] = (float)sum;
  }
  return CR_ONNX_VALUE(l->g, "Add", CR_ONNX_VALUE(l->g, "MatMul", theta, factors), constants);
}

void cr_onnx_export_spatial_transformer(cr_onnx_layer *l) {
  const int64_t *map = cr_onnx_bottom_shape(l, 0)->dim, rows[] = {0, -1};
  cr_onnx_graph *g = l->g;
  const char *theta = cr_onnx_reshaped(g, l->in[1], rows, 2);
  const cr_onnx_sampling of = {.map = l->in[0],
                               .y = affine_places(l, theta, 0),
                               .x = affine_places(l, theta, 1),
                               .channels = map[1],
                               .height = map[2],
                               .width = map[3]};
  cr_onnx_reshape_to(g, l->out[0], cr_onnx_sample(g, &of), cr_onnx_top_shape(l, 0));
}

/* ---- DeformableConvolution --------------------------------------------------------- */

/* Where each element of the window reads a channel without offsets: rows, or columns, of elements,
 * then of positions. */
static const char *window_places(cr_onnx_graph *g, const cr_window *w, const int64_t *to,
                                 int axis) {
  const int64_t size = w->kernel[0] * w->kernel[1], plane = to[2] * to[3];
  const crema_shape shape = {.axes = 2, .dim = {size, plane}};
  float *value;
  const char *name = cr_onnx_new_floats(g, axis == 0 ? "rows" : "columns", &shape, &value);
  for (int64_t i = 0; value != NULL && i < size * plane; ++i) {
    const int64_t p = i % plane, k = i / plane;
    const int64_t at = axis == 0 ? p / to[3] : p % to[3];
    const int64_t element = axis == 0 ? k / w->kernel[1] : k % w->kernel[1];
    value[i] = (float)(at * w->stride[axis] - w->pad[axis] + element * w->dilation[axis]);
  }
  return name;
}

/* The values of the windows (N, C K, H', W'). Each deformable group of channels of a sample is
 * taken for a sample. */
static const char *shifted_windows(cr_onnx_layer *l, const cr_window *w) {
  const int64_t *map = cr_onnx_bottom_shape(l, 0)->dim, *to = cr_onnx_top_shape(l, 0)->dim;
  const int64_t size = w->kernel[0] * w->kernel[1], plane = to[2] * to[3];
  const int64_t groups = cr_onnx_bottom_shape(l, 1)->dim[1] / (2 * size), each = map[1] / groups;
  const int64_t maps[] = {-1, each, map[2], map[3]}, offsets[] = {-1, size, 2, plane};
  const int64_t flat[] = {-1, size * plane}, columns[] = {-1, map[1] * size, to[2], to[3]};
  cr_onnx_graph *g = l->g;
  const char *offset = cr_onnx_reshaped(g, l->in[1], offsets, 4), *place[2];
  for (int i = 0; i < 2; ++i) {
    const char *own = cr_onnx_reshaped(g, cr_onnx_sliced(g, offset, 2, i, i + 1),
                                       (const int64_t[]){-1, size, plane}, 3);
    place[i] = CR_ONNX_VALUE(g, "Add", own, window_places(g, w, to, i));
    place[i] = cr_onnx_reshaped(g, place[i], flat, 2);
  }
  const cr_onnx_sampling of = {.map = cr_onnx_reshaped(g, l->in[0], maps, 4),
                               .y = place[0],
                               .x = place[1],
                               .channels = each,
                               .height = map[2],
                               .width = map[3],
                               .clamped = true};
  return cr_onnx_reshaped(g, cr_onnx_sample(g, &of), columns, 4);
}

/* Composed: DeformConv, of operator set 19, counts pixels beyond the border as 0. */
void cr_onnx_export_deformable_convolution(cr_onnx_layer *l) {
  const Caffe__ConvolutionParameter *p = l->param->deformable_convolution_param;
  const int64_t *weights = l->layer->blob[0]->shape.dim;
  cr_onnx_graph *g = l->g;
  cr_window window;
  g->status = cr_layer_read_window(l->layer, p, 2, &window);
  if (g->status != CREMA_OK) return;
  const crema_shape flat = {.axes = 4,
                            .dim = {weights[0], weights[1] * weights[2] * weights[3], 1, 1}};
  const char *columns = shifted_windows(l, &window);
  const char *matrix = cr_onnx_parameter(g, "weights", l->layer->blob[0], &flat);
  const char *bias =
      l->layer->params > 1 ? cr_onnx_parameter(g, "bias", l->layer->blob[1], NULL) : NULL;
  CR_ONNX_NODE(g, "Conv", l->out[0], columns, matrix, bias);
  cr_onnx_ints(g, "kernel_shape", (const int64_t[]){1, 1}, 2);
  cr_onnx_int(g, "group", p->group);
}
