/* Boxes of maps of anchors (Redmon and Farhadi, "YOLO9000", 2016). */
#include "core/fail.h"
#include "device/cpu/kernels/region_overlap.h"
#include "device/cpu/kernels/vector_math.h"

enum { NUMBERS = CR_REGION_NUMBERS, STRIP = 128 /* cells */ };

typedef struct region {
  int64_t images, anchors, classes, rows, columns, cells;
} region;

static region region_of(const cr_op_desc *desc) {
  const crema_shape *map = &desc->arg[0].shape;
  const int64_t anchors = desc->arg[1].shape.dim[0];
  return (region){map->dim[0], anchors,     map->dim[1] / anchors - NUMBERS,
                  map->dim[2], map->dim[3], map->dim[2] * map->dim[3]};
}

/* Of each cell its column, then its row, and the share of the image that a column or row is. */
static void find_places(const region *r, cr_real *place) {
  cr_real *unit = place + 2 * r->cells;
  for (int64_t i = 0; i < r->cells; ++i) {
    place[i] = (cr_real)(i % r->columns);
    place[r->cells + i] = (cr_real)(i / r->columns);
    unit[i] = 1 / (cr_real)r->columns;
    unit[r->cells + i] = 1 / (cr_real)r->rows;
  }
}

/* One anchor of an image: its numbers lie a plane apart, x, y and width, height side by side. */
CR_REF_CLONES static void make_boxes(const region *r, const cr_real *x, const cr_real *place,
                                     const cr_real *bias, cr_real *box) {
  const int64_t cells = r->cells;
  const cr_real *unit = place + 2 * cells;
  const cr_real width = bias[0] / (cr_real)r->columns, height = bias[1] / (cr_real)r->rows;
#pragma omp simd
  for (int64_t i = 0; i < 2 * cells; ++i) {
    box[i] = (place[i] + cr_ref_sigmoid(x[i])) * unit[i];
  }
#pragma omp simd
  for (int64_t i = 2 * cells; i < 4 * cells; ++i) box[i] = cr_ref_exp(x[i]);
#pragma omp simd
  for (int64_t i = 4 * cells; i < 5 * cells; ++i) box[i] = cr_ref_sigmoid(x[i]);
#pragma omp simd
  for (int64_t i = 2 * cells; i < 3 * cells; ++i) {
    box[i] *= width;
    box[cells + i] *= height;
  }
}

/* score: of the first class. to: the class of the highest one, then its probability. */
CR_REF_CLONES static void find_classes(const region *r, int64_t begin, int64_t count,
                                       const cr_real *score, cr_real *to) {
  cr_real most[STRIP], best[STRIP], sum[STRIP] = {0};
  for (int64_t i = 0; i < count; ++i) most[i] = score[begin + i], best[i] = 0;
  for (int64_t c = 1; c < r->classes; ++c) {
    const cr_real *x = score + c * r->cells + begin;
    const cr_real class = (cr_real)c;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const cr_real value = x[i];
      const bool more = value > most[i];
      most[i] = more ? value : most[i];
      best[i] = more ? class : best[i];
    }
  }
  for (int64_t c = 0; c < r->classes; ++c) {
    const cr_real *x = score + c * r->cells + begin;
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) sum[i] += cr_ref_exp_below_0(false, x[i] - most[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    to[begin + i] = best[i];
    to[r->cells + begin + i] = 1 / sum[i];
  }
}

/* In the scratchpad: what find_places says, and the reach of each image's objects. */
static cr_real *places_of(const cr_call *call) {
  return cr_as_reals(&call->workspace, 0);
}

static cr_reach *reaches_of(const cr_call *call, const region *r) {
  return (cr_reach *)(void *)(places_of(call) + 4 * r->cells);
}

static void region_plane(const cr_call *call, const region *r, int64_t plane) {
  const cr_real *x = cr_as_reals(call->buffer, 0) + plane * (NUMBERS + r->classes) * r->cells;
  const cr_real *bias = cr_as_reals(call->buffer, 1) + plane % r->anchors * 2;
  const cr_real *object = cr_as_reals(call->buffer, 2);
  cr_real *box = cr_as_reals(call->buffer, 3) + plane * NUMBERS * r->cells;
  cr_real *overlap = cr_as_reals(call->buffer, 4), *classes = cr_as_reals(call->buffer, 5);
  make_boxes(r, x, places_of(call), bias, box);
  if (overlap != NULL) {
    const int64_t image = plane / r->anchors;
    cr_region_overlaps(r->cells, box, object, reaches_of(call, r)[image], (cr_real)image,
                       overlap + plane * r->cells);
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
    plan->workspace_bytes = 4 * (size_t)(map->dim[2] * map->dim[3]) * sizeof(cr_real) +
                            (overlap ? (size_t)map->dim[0] * sizeof(cr_reach) : 0);
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "a map of boxes does not fit its anchors");
}

static void find_objects(const cr_call *call, const region *r) {
  const cr_real *object = cr_as_reals(call->buffer, 2);
  cr_reach *of_image = reaches_of(call, r);
  memset(of_image, 0, (size_t)r->images * sizeof *of_image);
  for (int64_t t = 0; t < call->desc->arg[2].shape.dim[0]; ++t) {
    const cr_real image = object[t * NUMBERS];
    if (!(image >= 0 && image < (cr_real)r->images)) continue;
    cr_reach *one = &of_image[(int64_t)image];
    if (one->end == 0) one->begin = t;
    one->end = t + 1;
  }
}

static crema_status region_run(const cr_call *call) {
  const region r = region_of(call->desc);
  if (call->desc->arg[4].shape.axes >= 0) find_objects(call, &r);
  find_places(&r, places_of(call));
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t plane = 0; plane < r.images * r.anchors; ++plane) region_plane(call, &r, plane);
  return CREMA_OK;
}

CR_REF_KERNEL(region, REGION, .plan = plan_region, .run = region_run);
