/* Boxes of maps of anchors (Redmon and Farhadi, "YOLO9000", 2016). */
#include "core/fail.h"
#include "device/cpu/ref_math.h"

enum { NUMBERS = 5 /* of a box */, STRIP = 128 /* cells */ };

typedef struct region {
  int64_t images, anchors, classes, rows, columns, cells;
} region;

static region region_of(const cr_op_desc *desc) {
  const crema_shape *map = &desc->arg[0].shape;
  const int64_t anchors = desc->arg[1].shape.dim[0];
  return (region){map->dim[0], anchors,     map->dim[1] / anchors - NUMBERS,
                  map->dim[2], map->dim[3], map->dim[2] * map->dim[3]};
}

/* One anchor of an image: its numbers lie a plane apart, x, y and width, height side by side. */
CR_CLONES static void make_boxes(const region *r, const cr_value *x, cr_real width, cr_real height,
                                 cr_real *box) {
  const int64_t cells = r->cells;
  const cr_real column = 1 / (cr_real)r->columns, one_row = 1 / (cr_real)r->rows;
  width *= column;
  height *= one_row;
#pragma omp simd
  for (int64_t i = 0; i < 2 * cells; ++i) box[i] = cr_ref_sigmoid(cr_get(x, i));
#pragma omp simd
  for (int64_t i = 2 * cells; i < 4 * cells; ++i) box[i] = cr_ref_exp(cr_get(x, i));
#pragma omp simd
  for (int64_t i = 4 * cells; i < 5 * cells; ++i) box[i] = cr_ref_sigmoid(cr_get(x, i));
  for (int64_t row = 0; row < r->rows; ++row) {
    cr_real *at = box + row * r->columns;
#pragma omp simd
    for (int32_t i = 0; i < (int32_t)r->columns; ++i) {
      at[i] = ((cr_real)i + at[i]) * column;
      at[cells + i] = ((cr_real)row + at[cells + i]) * one_row;
    }
  }
#pragma omp simd
  for (int64_t i = 2 * cells; i < 3 * cells; ++i) {
    box[i] *= width;
    box[cells + i] *= height;
  }
}

/* best[cells]: raised to the overlap with an object. */
CR_CLONES static void raise_overlaps(int64_t cells, const cr_real *box, const cr_real *object,
                                     cr_real *best) {
  const cr_real left = object[0] - object[2] / 2, right = object[0] + object[2] / 2;
  const cr_real top = object[1] - object[3] / 2, bottom = object[1] + object[3] / 2;
  const cr_real area = object[2] * object[3];
#pragma omp simd
  for (int64_t i = 0; i < cells; ++i) {
    const cr_real w = box[2 * cells + i], h = box[3 * cells + i];
    const cr_real x0 = box[i] - w / 2, x1 = box[i] + w / 2;
    const cr_real y0 = box[cells + i] - h / 2, y1 = box[cells + i] + h / 2;
    const cr_real width = (x1 < right ? x1 : right) - (x0 > left ? x0 : left);
    const cr_real height = (y1 < bottom ? y1 : bottom) - (y0 > top ? y0 : top);
    const cr_real common = width * height, overlap = common / (w * h + area - common);
    const bool more = (width > 0) & (height > 0) & (overlap > best[i]);
    best[i] = more ? overlap : best[i];
  }
}

/* score: of the first class. to: the class of the highest one, then its probability. */
CR_CLONES static void find_classes(const region *r, int64_t begin, int64_t count,
                                   const cr_value *score, cr_real *to) {
  cr_real most[STRIP], best[STRIP], sum[STRIP] = {0};
  for (int64_t i = 0; i < count; ++i) most[i] = cr_get(score, begin + i), best[i] = 0;
  for (int64_t c = 1; c < r->classes; ++c) {
    const cr_value *x = score + c * r->cells + begin;
    const cr_real class = (cr_real)c;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const cr_real value = cr_get(x, i);
      const bool more = value > most[i];
      most[i] = more ? value : most[i];
      best[i] = more ? class : best[i];
    }
  }
  for (int64_t c = 0; c < r->classes; ++c) {
    const cr_value *x = score + c * r->cells + begin;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += cr_ref_exp_below_0(cr_get(x, i) - most[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    to[begin + i] = best[i];
    to[r->cells + begin + i] = 1 / sum[i];
  }
}

static void region_plane(const cr_call *call, const region *r, int64_t plane) {
  const cr_value *x = cr_as_values(call->buffer, 0) + plane * (NUMBERS + r->classes) * r->cells;
  const cr_real *bias = cr_as_reals(call->buffer, 1) + plane % r->anchors * 2;
  const cr_real *object = cr_as_reals(call->buffer, 2);
  cr_real *box = cr_as_reals(call->buffer, 3) + plane * NUMBERS * r->cells;
  cr_real *overlap = cr_as_reals(call->buffer, 4), *classes = cr_as_reals(call->buffer, 5);
  make_boxes(r, x, bias[0], bias[1], box);
  if (overlap != NULL) {
    const int64_t objects = call->desc->arg[2].shape.dim[0];
    const cr_real image = (cr_real)(plane / r->anchors);
    overlap += plane * r->cells;
    memset(overlap, 0, (size_t)r->cells * sizeof *overlap);
    for (int64_t t = 0; t < objects; ++t, object += NUMBERS) {
      if (object[0] != image) continue;
      raise_overlaps(r->cells, box, object + 1, overlap);
    }
  }
  if (classes == NULL) return;
  for (int64_t i = 0; i < r->cells; i += STRIP) {
    find_classes(r, i, r->cells - i < STRIP ? r->cells - i : STRIP, x + NUMBERS * r->cells,
                 classes + plane * 2 * r->cells);
  }
}

static crema_status plan_region(cr_plan *plan) {
  const crema_shape *map = &plan->desc->arg[0].shape, *biases = &plan->desc->arg[1].shape;
  const bool objects = plan->desc->arg[2].shape.axes >= 0;
  const bool overlap = plan->desc->arg[4].shape.axes >= 0;
  if (map->axes == 4 && biases->axes == 2 && biases->dim[0] > 0 &&
      map->dim[1] % biases->dim[0] == 0 && map->dim[1] / biases->dim[0] > NUMBERS &&
      map->dim[3] <= INT32_MAX && (objects || !overlap)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "a map of boxes does not fit its anchors");
}

static crema_status region_run(const cr_call *call) {
  const region r = region_of(call->desc);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t plane = 0; plane < r.images * r.anchors; ++plane) region_plane(call, &r, plane);
  return CREMA_OK;
}

CR_REF_KERNEL(region, REGION, .plan = plan_region, .run = region_run);
