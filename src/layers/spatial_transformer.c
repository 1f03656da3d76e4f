/* SpatialTransformer: samples a map at the positions of an affine map (Jaderberg et al., "Spatial
 * transformer networks", 2015).
 *
 * Formula: y at (i, j) = bilinear sample of x at (H (r + 1) / 2, W (c + 1) / 2), with (r, c) =
 * theta (2 i / H' - 1, 2 j / W' - 1, 1). Values outside x count as 0.
 * Shapes: x (N, C, H, W), theta (N, 6), two rows of three -> y (N, C, H', W'). H' = output_H or H,
 * W' = output_W or W. Theta lacks the entries that theta_1_1 to theta_2_3 give.
 * Fields: st_param.
 * Caffe: as in Kaichun Mo's fork, whose first row of theta gives the vertical position. Between
 * pixels the gradient is the fork's. On a pixel it is the slope to the next pixel; the fork counts
 * the pixel itself.
 * Example, x 2 3 4 4, theta 2 6:
 *   layer { name: "st" type: "SpatialTransformer" bottom: "x" bottom: "theta" top: "y"
 *     st_param { output_H: 3 output_W: 5 } } */
#include <string.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_op.h"

enum { ENTRIES = 6 };

typedef struct transformer_state {
  int free_entries;      /* of theta, in bottom 1 */
  int64_t height, width; /* of the top; 0: as bottom 0 */
  cr_layer_op place;     /* (N, free entries) to positions (N, 2, H', W') */
  cr_layer_op place_back;
  cr_layer_op forward, backward_data, backward_grid;
  cr_tensor *basis;    /* (2 P, free entries): what each entry adds to each coordinate */
  cr_tensor *constant; /* (2 P): what given entries and the scale to pixels add */
  cr_tensor *grid, *diff_grid;
} transformer_state;

/* The constants of theta; NULL: bottom 1 has the entry. */
static void given_entries(const Caffe__SpatialTransformerParameter *p,
                          const double *given[ENTRIES]) {
  given[0] = p->has_theta_1_1 ? &p->theta_1_1 : NULL;
  given[1] = p->has_theta_1_2 ? &p->theta_1_2 : NULL;
  given[2] = p->has_theta_1_3 ? &p->theta_1_3 : NULL;
  given[3] = p->has_theta_2_1 ? &p->theta_2_1 : NULL;
  given[4] = p->has_theta_2_2 ? &p->theta_2_2 : NULL;
  given[5] = p->has_theta_2_3 ? &p->theta_2_3 : NULL;
}

static const Caffe__SpatialTransformerParameter *param_of(const cr_layer *layer) {
  static const Caffe__SpatialTransformerParameter defaults =
      CAFFE__SPATIAL_TRANSFORMER_PARAMETER__INIT;
  return layer->param->st_param ? layer->param->st_param : &defaults;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  transformer_state *s = layer->state;
  const Caffe__SpatialTransformerParameter *p = param_of(layer);
  const double *given[ENTRIES];
  (void)bottom, (void)top;
  if (strcmp(p->transform_type, "affine") != 0 || strcmp(p->sampler_type, "bilinear") != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "transform_type '%s' and sampler_type '%s' must be 'affine' and "
                         "'bilinear'",
                         p->transform_type, p->sampler_type);
  }
  if ((p->has_output_h && p->output_h < 1) || (p->has_output_w && p->output_w < 1)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "output_H is %d and output_W is %d, must be 1 or more", p->output_h,
                         p->output_w);
  }
  given_entries(p, given);
  for (int i = 0; i < ENTRIES; ++i) s->free_entries += given[i] == NULL;
  if (s->free_entries == 0) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "all entries of theta are given, bottom 1 has none");
  }
  s->height = p->has_output_h ? p->output_h : 0;
  s->width = p->has_output_w ? p->output_w : 0;
  return CREMA_OK;
}

static crema_status check_shapes(const cr_layer *layer, crema_blob *const *bottom) {
  const transformer_state *s = layer->state;
  const crema_shape *x = &bottom[0]->shape, *theta = &bottom[1]->shape;
  char text[2][128];
  if (x->axes == 4 && theta->axes > 0 && theta->dim[0] == x->dim[0] &&
      crema_shape_count(theta, 1, theta->axes) == s->free_entries) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "the bottoms must have shapes N C H W and N %d, found %s and %s",
                       s->free_entries, crema_shape_text(x, text[0], sizeof text[0]),
                       crema_shape_text(theta, text[1], sizeof text[1]));
}

/* In pixels, coordinate r of position p is the extent / 2 times (sum over k of theta[r][k] v[k] +
 * 1), with v the position's own coordinates and 1. */
static crema_status fill_basis(cr_layer *layer, const crema_shape *x, const crema_shape *y) {
  transformer_state *s = layer->state;
  const int64_t positions = y->dim[2] * y->dim[3], entries = s->free_entries;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const double *given[ENTRIES];
  cr_host_results basis, constant;
  CR_TRY(cr_layer_tensor(layer, &s->basis, type, 2 * positions * entries));
  CR_TRY(cr_layer_tensor(layer, &s->constant, type, 2 * positions));
  CR_TRY(cr_host_write(s->basis, &basis));
  CR_TRY(cr_host_write(s->constant, &constant));
  given_entries(param_of(layer), given);
  for (int64_t i = 0; i < 2 * positions; ++i) {
    const int64_t row = i / positions, p = i % positions;
    const double half = (double)x->dim[2 + row] / 2;
    const double v[3] = {2.0 * (double)(p / y->dim[3]) / (double)y->dim[2] - 1,
                         2.0 * (double)(p % y->dim[3]) / (double)y->dim[3] - 1, 1};
    double fixed = half;
    for (int64_t k = 0, at = i * entries; k < ENTRIES; ++k) {
      const double factor = k / 3 == row ? half * v[k % 3] : 0;
      if (given[k] == NULL) cr_host_put(&basis, at++, factor);
      else fixed += factor * *given[k];
    }
    cr_host_put(&constant, i, fixed);
  }
  return CREMA_OK;
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  transformer_state *s = layer->state;
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(check_shapes(layer, bottom));
  const crema_shape *x = &bottom[0]->shape;
  const crema_shape y = cr_shape_4(x->dim[0], x->dim[1], s->height > 0 ? s->height : x->dim[2],
                                   s->width > 0 ? s->width : x->dim[3]);
  const crema_shape grid = cr_shape_4(x->dim[0], 2, y.dim[2], y.dim[3]);
  CR_TRY(crema_shape_check(&y));
  CR_TRY(crema_shape_check(&grid));
  CR_TRY(crema_blob_reshape(top[0], &y));
  CR_TRY(fill_basis(layer, x, &y));
  CR_TRY(cr_layer_pass_tensor(layer, &s->grid, type, crema_shape_count(&grid, 0, 4)));
  CR_TRY(cr_layer_pass_tensor(layer, &s->diff_grid, type, crema_shape_count(&grid, 0, 4)));
  const crema_shape theta = cr_shape_2(x->dim[0], s->free_entries);
  const crema_shape places = cr_shape_2(x->dim[0], 2 * y.dim[2] * y.dim[3]);
  const crema_shape basis = cr_shape_2(places.dim[1], s->free_entries);
  const crema_shape constant = cr_shape_1(places.dim[1]);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_IP_FWD);
  CR_TRY(CR_LAYER_MAKE(layer, &s->place, &desc, &theta, &basis, &constant, &places));
  desc.kind = CR_OP_IP_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->place_back, &desc, &places, &basis, &theta));
  desc = cr_layer_op_desc(CR_OP_SAMPLE_FWD);
  desc.u.sample.rows_first = true;
  CR_TRY(CR_LAYER_MAKE(layer, &s->forward, &desc, x, &grid, &y));
  desc.kind = CR_OP_SAMPLE_BWD_DATA;
  CR_TRY(CR_LAYER_MAKE(layer, &s->backward_data, &desc, &y, &grid, x));
  desc.kind = CR_OP_SAMPLE_BWD_GRID;
  return CR_LAYER_MAKE(layer, &s->backward_grid, &desc, x, &grid, &y, &grid);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  transformer_state *s = layer->state;
  CR_TRY(CR_LAYER_RUN(&s->place, context, bottom[1]->data, s->basis, s->constant, s->grid));
  return CR_LAYER_RUN(&s->forward, context, bottom[0]->data, s->grid, top[0]->data);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  transformer_state *s = layer->state;
  cr_tensor *dy = top[0]->diff;
  if (propagate_down[0] && !param_of(layer)->to_compute_du) cr_tensor_set_zero(bottom[0]->diff);
  else if (propagate_down[0]) {
    CR_TRY(CR_LAYER_RUN(&s->backward_data, context, dy, s->grid, bottom[0]->diff));
  }
  if (!propagate_down[1]) return CREMA_OK;
  CR_TRY(CR_LAYER_RUN(&s->backward_grid, context, bottom[0]->data, s->grid, dy, s->diff_grid));
  return CR_LAYER_RUN(&s->place_back, context, s->diff_grid, s->basis, bottom[1]->diff);
}

static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 0;
}

const cr_layer_class cr_layer_spatial_transformer = {
    CR_LAYER_OF_OPS("SpatialTransformer", sizeof(transformer_state), setup, reshape, forward,
                    backward),
    .bottoms = {2, 2},
    .tops = {1, 1},
    .uses_bottom = uses_bottom,
};
