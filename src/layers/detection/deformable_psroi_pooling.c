/* DeformablePSROIPooling: means of the parts of a region, each with its own channels, from places
 * that a third bottom shifts (Dai et al., "Deformable convolutional networks", 2017).
 *
 * Formula: a region of w x h cells is divided into pooled_size x pooled_size parts. Result
 * y[o][i][j] is the mean of sample_per_part^2 values of channel (o group_size + a) group_size + b.
 * Here (a, b) is the group of part (i, j). Values are interpolated between four cells. Their places
 * begin at the part's corner and are shifted: to the right by trans_std * offset * w, and down by
 * trans_std * offset * h. Places more than half a cell outside of the map do not count; without
 * places y is 0.
 * Shapes: x (N, output_dim group_size^2, H, W), regions (R, 5), offsets (R, 2 K, part_size,
 * part_size) -> y (R, output_dim, pooled_size, pooled_size). A region is the index of the image,
 * left, top, right and bottom in pixels of the net's input. Each of K classes, an equal share of
 * the results, has offsets to the right and down. With no_trans there are no offsets.
 * Fields: deformable_psroi_pooling_param.
 * Caffe: as in ports of Deformable ConvNets, where pooled_size is group_size. torchvision has no
 * such function; OpenVINO has one.
 * Example, x 1 8 6 6, rois 1 5, offset 1 2 2 2:
 *   layer { name: "pool" type: "DeformablePSROIPooling" bottom: "x" bottom: "rois"
 *     bottom: "offset" top: "y" deformable_psroi_pooling_param { spatial_scale: 0.0625
 *       output_dim: 2 group_size: 2 sample_per_part: 4 trans_std: 0.1 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"
#include "layers/common/layer_noop.h"
#include "layers/common/layer_op.h"

typedef struct shifted_state {
  int64_t outputs, group, pooled, part, samples;
  double scale, deviation;
  bool shifts;     /* there are offsets */
  int64_t classes; /* with their own offsets */
  crema_shape x;
} shifted_state;

static crema_status check_sizes(const cr_layer *layer) {
  const shifted_state *s = layer->state;
  const struct {
    const char *name;
    int64_t value, most;
  } sizes[] = {{"output_dim", s->outputs, 1 << 20},
               {"group_size", s->group, 1 << 10},
               {"pooled_size", s->pooled, 1 << 10},
               {"part_size", s->part, 1 << 10},
               {"sample_per_part", s->samples, 1 << 8}};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    if (sizes[i].value >= 1 && sizes[i].value <= sizes[i].most) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "%s is %lld, must be 1 to %lld", sizes[i].name,
                         (long long)sizes[i].value, (long long)sizes[i].most);
  }
  if (s->scale > 0 && isfinite(s->scale) && isfinite(s->deviation)) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_RANGE,
                       "spatial_scale is %g, must be above 0; trans_std is %g, must be finite",
                       s->scale, s->deviation);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  shifted_state *s = layer->state;
  const Caffe__DeformablePSROIPoolingParameter *p = layer->param->deformable_psroi_pooling_param;
  (void)bottom, (void)top;
  if (p == NULL || !p->has_output_dim || !p->has_group_size || !p->has_spatial_scale) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "deformable_psroi_pooling_param needs a spatial_scale, an output_dim and "
                         "a group_size");
  }
  s->outputs = p->output_dim;
  s->group = p->group_size;
  s->pooled = p->has_pooled_size ? p->pooled_size : p->group_size;
  s->part = p->part_size != 0 ? p->part_size : s->pooled;
  s->samples = p->sample_per_part;
  s->scale = (double)p->spatial_scale;
  s->deviation = (double)p->trans_std;
  s->shifts = !p->no_trans;
  if (s->shifts != (layer->bottoms == 3)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         s->shifts ? "bottom 2 (offsets) is required without no_trans"
                                   : "bottom 2 (offsets) has no effect with no_trans");
  }
  return check_sizes(layer);
}

static crema_status check_offsets(cr_layer *layer, int64_t regions, const crema_shape *found) {
  shifted_state *s = layer->state;
  char text[128];
  s->classes = found->axes == 4 ? found->dim[1] / 2 : 0;
  const crema_shape wanted = cr_shape_4(regions, 2 * s->classes, s->part, s->part);
  if (s->classes >= 1 && s->outputs % s->classes == 0 && crema_shape_equal(found, &wanted)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "bottom 2 must have offsets (%lld, 2 K, %lld, %lld) with K a divisor of "
                       "output_dim %lld, found %s",
                       (long long)regions, (long long)s->part, (long long)s->part,
                       (long long)s->outputs, crema_shape_text(found, text, sizeof text));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  shifted_state *s = layer->state;
  const crema_shape *map = &bottom[0]->shape, *rois = &bottom[1]->shape;
  const int64_t channels = s->outputs * s->group * s->group;
  char text[128];
  if (map->axes != 4 || map->dim[1] != channels) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 0 must have %lld channels, output_dim times group_size squared, "
                         "found shape %s",
                         (long long)channels, crema_shape_text(map, text, sizeof text));
  }
  if (rois->axes < 2 || crema_shape_count(rois, 1, rois->axes) != 5) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 1 must have regions of 5 numbers, found shape %s",
                         crema_shape_text(rois, text, sizeof text));
  }
  s->classes = 1;
  if (s->shifts) CR_TRY(check_offsets(layer, rois->dim[0], &bottom[2]->shape));
  s->x = *map;
  const crema_shape to = cr_shape_4(rois->dim[0], s->outputs, s->pooled, s->pooled);
  CR_TRY(cr_layer_in(layer, crema_shape_check(&to)));
  return crema_blob_reshape(top[0], &to);
}

/* What threads read and write. */
typedef struct shifted_pass {
  const shifted_state *s;
  int64_t regions;
  cr_host_values x, rois, offset, diff;
  cr_host_results y, diff_x, diff_offset;
} shifted_pass;

/* A part of a region. */
typedef struct shifted_part {
  double y, x;          /* of its first place, in cells */
  double down, right;   /* steps between places */
  double height, width; /* of the region */
  int64_t channel;      /* of its image */
  int64_t offset;       /* index of its offset to the right */
} shifted_part;

static double roi_of(const shifted_pass *pass, int64_t region, int number) {
  return cr_host_get(&pass->rois, 5 * region + number);
}

/* The extent of a region along an axis, from the number of its start; at least 0.1 cells. */
static double extent_of(const shifted_pass *pass, int64_t region, int number, double *start) {
  const double scale = pass->s->scale;
  *start = round(roi_of(pass, region, number)) * scale - 0.5;
  const double end = (round(roi_of(pass, region, number + 2)) + 1) * scale - 0.5;
  return end - *start > 0.1 ? end - *start : 0.1;
}

static shifted_part part_of(const shifted_pass *pass, int64_t region, int64_t o, int64_t i,
                            int64_t j) {
  const shifted_state *s = pass->s;
  const int64_t square = s->part * s->part, each = s->outputs / s->classes;
  const int64_t cell = i * s->part / s->pooled * s->part + j * s->part / s->pooled;
  shifted_part p = {0};
  p.width = extent_of(pass, region, 1, &p.x);
  p.height = extent_of(pass, region, 2, &p.y);
  p.right = p.width / (double)(s->pooled * s->samples);
  p.down = p.height / (double)(s->pooled * s->samples);
  p.x += (double)j * p.width / (double)s->pooled;
  p.y += (double)i * p.height / (double)s->pooled;
  p.channel = (o * s->group + i * s->group / s->pooled) * s->group + j * s->group / s->pooled;
  p.offset = (region * s->classes + o / each) * 2 * square + cell;
  if (s->shifts) {
    p.x += s->deviation * p.width * cr_host_get(&pass->offset, p.offset);
    p.y += s->deviation * p.height * cr_host_get(&pass->offset, p.offset + square);
  }
  return p;
}

/* A place between four cells of the map: their indices and weights, and the derivatives of the
 * weights by the place. */
typedef struct place {
  int64_t at[4];
  double weight[4], down[4], right[4];
} place;

/* The two cells around `at`, which is brought into the map, and the share of the second cell. */
static double split(double at, int64_t size, int64_t two[2]) {
  const double last = (double)(size - 1), inside = at < 0 ? 0 : at > last ? last : at;
  two[0] = (int64_t)floor(inside);
  two[1] = (int64_t)ceil(inside);
  return inside - (double)two[0];
}

/* Place number k of a part. False: it is outside. */
static bool find_place(const shifted_state *s, const shifted_part *p, int64_t k, place *out) {
  const int64_t height = s->x.dim[2], width = s->x.dim[3];
  const double y = p->y + (double)(k / s->samples) * p->down;
  const double x = p->x + (double)(k % s->samples) * p->right;
  int64_t rows[2], columns[2];
  if (height < 1 || width < 1) return false;
  if (!(y >= -0.5 && y <= (double)height - 0.5 && x >= -0.5 && x <= (double)width - 0.5)) {
    return false;
  }
  const double v = split(y, height, rows), h = split(x, width, columns);
  for (int q = 0; q < 4; ++q) {
    const double down = q / 2 ? v : 1 - v, right = q % 2 ? h : 1 - h;
    out->at[q] = rows[q / 2] * width + columns[q % 2];
    out->weight[q] = down * right;
    out->down[q] = (q / 2 ? 1 : -1) * right;
    out->right[q] = (q % 2 ? 1 : -1) * down;
  }
  return true;
}

static int64_t count_places(const shifted_state *s, const shifted_part *p) {
  int64_t count = 0;
  place at;
  for (int64_t k = 0; k < s->samples * s->samples; ++k) count += find_place(s, p, k, &at);
  return count;
}

/* The index of the first value of a part's plane. */
static int64_t plane_of(const shifted_pass *pass, int64_t region, const shifted_part *p) {
  const crema_shape *x = &pass->s->x;
  return ((int64_t)roi_of(pass, region, 0) * x->dim[1] + p->channel) * x->dim[2] * x->dim[3];
}

/* One result of a region. */
static crema_status pool(void *state, int worker, int64_t index) {
  const shifted_pass *pass = state;
  const shifted_state *s = pass->s;
  const int64_t cells = s->pooled * s->pooled, region = index / s->outputs;
  (void)worker;
  for (int64_t c = 0; c < cells; ++c) {
    const shifted_part p = part_of(pass, region, index % s->outputs, c / s->pooled, c % s->pooled);
    const int64_t plane = plane_of(pass, region, &p);
    double sum = 0;
    int64_t count = 0;
    place at;
    for (int64_t k = 0; k < s->samples * s->samples; ++k) {
      if (!find_place(s, &p, k, &at)) continue;
      for (int q = 0; q < 4; ++q) sum += at.weight[q] * cr_host_get(&pass->x, plane + at.at[q]);
      ++count;
    }
    cr_host_put(&pass->y, index * cells + c, count > 0 ? sum / (double)count : 0);
  }
  return CREMA_OK;
}

/* Adds the gradient of a part to its channel. */
static void add_part(const shifted_pass *pass, int64_t region, const shifted_part *p, double diff) {
  const shifted_state *s = pass->s;
  const cr_host_values sums = {pass->diff_x.wide, pass->diff_x.narrow};
  const int64_t plane = plane_of(pass, region, p);
  const double share = diff / (double)count_places(s, p);
  place at;
  for (int64_t k = 0; k < s->samples * s->samples; ++k) {
    if (!find_place(s, p, k, &at)) continue;
    for (int q = 0; q < 4; ++q) {
      const int64_t to = plane + at.at[q];
      cr_host_put(&pass->diff_x, to, cr_host_get(&sums, to) + at.weight[q] * share);
    }
  }
}

/* The gradient of a channel of an image: of the parts that read it. */
static crema_status fill_diff_x(void *state, int worker, int64_t index) {
  const shifted_pass *pass = state;
  const shifted_state *s = pass->s;
  const int64_t size = s->x.dim[2] * s->x.dim[3], cells = s->pooled * s->pooled;
  const int64_t image = index / s->x.dim[1], channel = index % s->x.dim[1];
  const int64_t o = channel / (s->group * s->group);
  (void)worker;
  for (int64_t i = 0; i < size; ++i) cr_host_put(&pass->diff_x, index * size + i, 0);
  for (int64_t r = 0; r < pass->regions; ++r) {
    if ((int64_t)roi_of(pass, r, 0) != image) continue;
    for (int64_t c = 0; c < cells; ++c) {
      const shifted_part p = part_of(pass, r, o, c / s->pooled, c % s->pooled);
      if (p.channel != channel) continue;
      add_part(pass, r, &p, cr_host_get(&pass->diff, (r * s->outputs + o) * cells + c));
    }
  }
  return CREMA_OK;
}

/* Adds the gradient of a part to its offsets. */
static void add_shift(const shifted_pass *pass, int64_t region, const shifted_part *p,
                      double diff) {
  const shifted_state *s = pass->s;
  const cr_host_values sums = {pass->diff_offset.wide, pass->diff_offset.narrow};
  const int64_t plane = plane_of(pass, region, p), square = s->part * s->part;
  double right = 0, down = 0;
  int64_t count = 0;
  place at;
  for (int64_t k = 0; k < s->samples * s->samples; ++k) {
    if (!find_place(s, p, k, &at)) continue;
    for (int q = 0; q < 4; ++q) {
      const double x = cr_host_get(&pass->x, plane + at.at[q]);
      right += at.right[q] * x;
      down += at.down[q] * x;
    }
    ++count;
  }
  if (count == 0) return;
  const double share = s->deviation * diff / (double)count;
  const int64_t to = p->offset;
  cr_host_put(&pass->diff_offset, to, cr_host_get(&sums, to) + share * p->width * right);
  cr_host_put(&pass->diff_offset, to + square,
              cr_host_get(&sums, to + square) + share * p->height * down);
}

/* The gradients of a region's offsets. */
static crema_status fill_diff_offset(void *state, int worker, int64_t region) {
  const shifted_pass *pass = state;
  const shifted_state *s = pass->s;
  const int64_t count = 2 * s->classes * s->part * s->part, cells = s->pooled * s->pooled;
  (void)worker;
  for (int64_t i = 0; i < count; ++i) cr_host_put(&pass->diff_offset, region * count + i, 0);
  for (int64_t i = 0; i < s->outputs * cells; ++i) {
    const int64_t c = i % cells;
    const shifted_part p = part_of(pass, region, i / cells, c / s->pooled, c % s->pooled);
    add_shift(pass, region, &p, cr_host_get(&pass->diff, region * s->outputs * cells + i));
  }
  return CREMA_OK;
}

/* Reads what both passes need, and checks the regions. */
static crema_status begin(cr_layer *layer, crema_blob *const *bottom, shifted_pass *pass) {
  shifted_state *s = layer->state;
  const int64_t images = s->x.dim[0];
  *pass = (shifted_pass){.s = s, .regions = bottom[1]->shape.dim[0]};
  CR_TRY(cr_host_read(bottom[1]->data, &pass->rois));
  if (s->shifts) CR_TRY(cr_host_read(bottom[2]->data, &pass->offset));
  for (int64_t r = 0; r < pass->regions; ++r) {
    const double image = roi_of(pass, r, 0);
    if (image >= 0 && image < (double)images) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "region %lld is of image %g, there are %lld",
                         (long long)r, image, (long long)images);
  }
  return CREMA_OK;
}

static crema_status spread(const shifted_pass *pass, const crema_context *context, int64_t tasks,
                           cr_host_work *work) {
  const shifted_state *s = pass->s;
  const double places = (double)(s->pooled * s->pooled * s->samples * s->samples);
  /* A place takes as long as about 30 multiply-adds. */
  const double cost = 30 * places * (double)(pass->regions * s->outputs);
  return cr_host_spread(cr_host_workers(context, cost), tasks, work, (void *)(uintptr_t)pass);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const shifted_state *s = layer->state;
  shifted_pass pass;
  CR_TRY(begin(layer, bottom, &pass));
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_write(top[0]->data, &pass.y));
  return spread(&pass, context, pass.regions * s->outputs, pool);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  const shifted_state *s = layer->state;
  shifted_pass pass;
  if (propagate_down[1]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED, "regions (bottom 1) have no gradient");
  }
  CR_TRY(begin(layer, bottom, &pass));
  CR_TRY(cr_host_read(top[0]->diff, &pass.diff));
  if (propagate_down[0]) {
    CR_TRY(cr_host_write(bottom[0]->diff, &pass.diff_x));
    CR_TRY(spread(&pass, context, s->x.dim[0] * s->x.dim[1], fill_diff_x));
  }
  if (!s->shifts || !propagate_down[2]) return CREMA_OK;
  CR_TRY(cr_host_read(bottom[0]->data, &pass.x));
  CR_TRY(cr_host_write(bottom[2]->diff, &pass.diff_offset));
  return spread(&pass, context, pass.regions, fill_diff_offset);
}

/* The gradient of the map does not need the map, the gradient of the offsets does. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  return bottom != 0 || layer->bottoms == 3;
}

const cr_layer_class cr_layer_deformable_psroi_pooling = {
    CR_LAYER_OF_OPS("DeformablePSROIPooling", sizeof(shifted_state), setup, reshape, forward,
                    backward),
    .bottoms = {2, 3},
    .tops = {1, 1},
    .no_gradient_bottoms = 1u << 1,
    .uses_bottom = uses_bottom,
};
