/* Boxes of maps of anchors (Redmon and Farhadi, "YOLO9000", 2016). For anchor a at cell (h, w) of a
 * map of H x W cells, with the numbers x:
 *
 *   box = ((w + sigmoid(x0)) / W, (h + sigmoid(x1)) / H,
 *          bias[a][0] exp(x2) / W, bias[a][1] exp(x3) / H, sigmoid(x4)).
 *
 * The overlap is the largest with an object of the image: the common area over the area of either.
 * The class is the one with the highest score, with its probability by softmax. */
#include "core/fail.h"
#include "device/cpu/kernels/vector_math.h"

enum { NUMBERS = 5 /* of a box or an object */ };

typedef struct region {
  int64_t images, anchors, classes, rows, columns, cells;
} region;

static region region_of(const cr_op_desc *desc) {
  const crema_shape *map = &desc->arg[0].shape;
  const int64_t anchors = desc->arg[1].shape.dim[0];
  return (region){map->dim[0], anchors,     map->dim[1] / anchors - NUMBERS,
                  map->dim[2], map->dim[3], map->dim[2] * map->dim[3]};
}

/* One anchor of an image: its numbers are a plane apart. */
CR_REF_CLONES static void make_boxes(const region *r, const cr_real *x, const cr_real *bias,
                                     cr_real *box) {
  const int64_t cells = r->cells;
  const cr_real high = 1 / (cr_real)r->rows, wide = 1 / (cr_real)r->columns; /* of a cell */
  const cr_real width = bias[0] * wide, height = bias[1] * high;
#pragma omp simd
  for (int64_t i = 0; i < 2 * cells; ++i) box[i] = cr_ref_sigmoid(x[i]);
#pragma omp simd
  for (int64_t i = 2 * cells; i < 4 * cells; ++i) box[i] = cr_ref_exp(x[i]);
#pragma omp simd
  for (int64_t i = 4 * cells; i < 5 * cells; ++i) box[i] = cr_ref_sigmoid(x[i]);
  for (int64_t h = 0; h < r->rows; ++h) {
    cr_real *line = box + h * r->columns;
#pragma omp simd
    for (int64_t w = 0; w < r->columns; ++w) {
      line[w] = ((cr_real)w + line[w]) * wide;
      line[cells + w] = ((cr_real)h + line[cells + w]) * high;
      line[2 * cells + w] *= width;
      line[3 * cells + w] *= height;
    }
  }
}

/* best[i] = the largest overlap of box i with an object of `image`. */
CR_REF_CLONES static void find_overlaps(int64_t cells, int64_t objects, const cr_real *box,
                                        const cr_real *object, cr_real image, cr_real *best) {
  const cr_real *x = box, *y = x + cells, *w = y + cells, *h = w + cells;
  for (int64_t i = 0; i < cells; ++i) best[i] = 0;
  for (const cr_real *o = object; o < object + objects * NUMBERS; o += NUMBERS) {
    if (o[0] != image) continue;
    const cr_real left = o[1] - o[3] / 2, right = o[1] + o[3] / 2, top = o[2] - o[4] / 2,
                  bottom = o[2] + o[4] / 2, area = o[3] * o[4];
#pragma omp simd
    for (int64_t i = 0; i < cells; ++i) {
      const cr_real width = (x[i] + w[i] / 2 < right ? x[i] + w[i] / 2 : right) -
                            (x[i] - w[i] / 2 > left ? x[i] - w[i] / 2 : left);
      const cr_real height = (y[i] + h[i] / 2 < bottom ? y[i] + h[i] / 2 : bottom) -
                             (y[i] - h[i] / 2 > top ? y[i] - h[i] / 2 : top);
      const cr_real common = width * height, overlap = common / (w[i] * h[i] + area - common);
      const bool more = (width > 0) & (height > 0) & (overlap > best[i]);
      best[i] = more ? overlap : best[i];
    }
  }
}

/* score: of the first class. to: the class of the highest one, then its probability. `sum`: space
 * for a value per cell. */
CR_REF_CLONES static void find_classes(const region *r, const cr_real *score, cr_real *sum,
                                       cr_real *to) {
  const int64_t cells = r->cells;
  cr_real *best = to, *most = to + cells;
  for (int64_t i = 0; i < cells; ++i) best[i] = 0, most[i] = score[i], sum[i] = 0;
  for (int64_t c = 1; c < r->classes; ++c) {
    const cr_real *x = score + c * cells;
#pragma omp simd
    for (int64_t i = 0; i < cells; ++i) {
      const bool more = x[i] > most[i];
      best[i] = more ? (cr_real)c : best[i];
      most[i] = more ? x[i] : most[i];
    }
  }
  for (int64_t c = 0; c < r->classes; ++c) {
    const cr_real *x = score + c * cells;
#pragma omp simd
    for (int64_t i = 0; i < cells; ++i) sum[i] += cr_ref_exp_below_0(false, x[i] - most[i]);
  }
#pragma omp simd
  for (int64_t i = 0; i < cells; ++i) most[i] = 1 / sum[i];
}

static crema_status plan_region(cr_plan *plan) {
  const crema_shape *map = &plan->desc->arg[0].shape, *biases = &plan->desc->arg[1].shape;
  const bool objects = plan->desc->arg[2].shape.axes >= 0;
  const bool overlap = plan->desc->arg[4].shape.axes >= 0;
  if (map->axes == 4 && biases->axes == 2 && biases->dim[0] > 0 &&
      map->dim[1] % biases->dim[0] == 0 && map->dim[1] / biases->dim[0] > NUMBERS &&
      map->dim[3] <= INT32_MAX && (objects || !overlap)) {
    const region r = region_of(plan->desc);
    plan->workspace_bytes = (size_t)(r.images * r.anchors * r.cells) * sizeof(cr_real);
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "a map of boxes does not fit its anchors");
}

/* map, biases, objects, boxes, overlaps, classes. */
static crema_status region_run(const cr_call *call) {
  const region r = region_of(call->desc);
  const cr_real *map = cr_as_reals(call->buffer, 0), *bias = cr_as_reals(call->buffer, 1);
  const cr_real *object = cr_as_reals(call->buffer, 2);
  cr_real *boxes = cr_as_reals(call->buffer, 3), *overlaps = cr_as_reals(call->buffer, 4);
  cr_real *classes = cr_as_reals(call->buffer, 5), *sums = cr_as_reals(&call->workspace, 0);
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t p = 0; p < r.images * r.anchors; ++p) {
    const cr_real *x = map + p * (NUMBERS + r.classes) * r.cells;
    cr_real *box = boxes + p * NUMBERS * r.cells;
    make_boxes(&r, x, bias + p % r.anchors * 2, box);
    if (overlaps != NULL) {
      find_overlaps(r.cells, call->desc->arg[2].shape.dim[0], box, object, (cr_real)(p / r.anchors),
                    overlaps + p * r.cells);
    }
    if (classes == NULL) continue;
    find_classes(&r, x + NUMBERS * r.cells, sums + p * r.cells, classes + p * 2 * r.cells);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(region, REGION, .plan = plan_region, .run = region_run);
