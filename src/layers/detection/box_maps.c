#include "layers/detection/box_maps.h"

#include <math.h>
#include <string.h>

#include "core/fail.h"
#include "layers/detection/geometry/boxes.h"

enum { ROW = 6 };

static crema_status read_normalization(cr_layer *layer) {
  cr_box_maps *s = layer->state;
  const Caffe__BBoxRegParameter *p = layer->param->bbox_reg_param;
  const bool given = p != NULL && p->n_bbox_mean > 0 && p->n_bbox_std > 0;
  CR_TRY(cr_four_numbers(layer, "bbox_mean", given ? p->bbox_mean : NULL,
                         given ? p->n_bbox_mean : 0, (const double[4]){0}, s->mean));
  return cr_four_numbers(layer, "bbox_std", given ? p->bbox_std : NULL, given ? p->n_bbox_std : 0,
                         (const double[]){1, 1, 1, 1}, s->deviation);
}

crema_status cr_box_maps_setup(cr_layer *layer) {
  cr_box_maps *s = layer->state;
  const cr_box_rules *r = &s->rules;
  const char *type = r->nms_type;
  if (strcmp(type, "IOU") != 0 && strcmp(type, "IOMU") != 0 && strcmp(type, "IOFU") != 0) {
    return cr_layer_fail(layer, CREMA_E_UNKNOWN_NAME, "nms_type is '%s', must be IOU, IOMU or IOFU",
                         type);
  }
  if (!(r->field_whr >= 1 && r->field_xyr > 0 && r->iou_thr >= 0)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "field_whr must be 1 or more, field_xyr above 0 and iou_thr 0 or more");
  }
  s->most_shift = 1 / r->field_xyr;
  s->most_log = log(r->field_whr);
  return read_normalization(layer);
}

crema_status cr_box_maps_reshape(cr_layer *layer, crema_blob *const *top) {
  for (int i = 0; i < layer->tops; ++i) {
    CR_TRY(crema_blob_reshape(top[i], &(crema_shape){.axes = 4, .dim = {1, ROW - 1 + i, 1, 1}}));
  }
  return CREMA_OK;
}

static double bounded(double value, double most) {
  return fmin(fmax(value, -most), most);
}

/* One axis of a box: its borders in pixels. The second one is outside. */
static void place(const cr_box_maps *s, double shift, double growth, double field, double centre,
                  double end, double *low, double *high) {
  const double size = field * exp(bounded(growth, s->most_log));
  *low = bounded(shift, s->most_shift) * field + centre - size / 2;
  if (s->rules.inclusive) {
    *high = fmin(*low + size - 1, end) + 1;
    *low = fmax(*low, 0);
  } else {
    *low = fmax(*low, 0);
    *high = fmin(*low + size, end);
  }
}

crema_status cr_box_maps_add(cr_box_maps *s, const cr_box_field *field, int64_t at, int64_t cell,
                             double score) {
  const int64_t cells = field->columns * field->rows;
  double d[4], low[2], high[2];
  if (!(score >= s->rules.fg_thr)) return CREMA_OK;
  for (int k = 0; k < 4; ++k) {
    d[k] = cr_host_get(&field->values, at + k * cells) * s->deviation[k] + s->mean[k];
  }
  place(s, d[0], d[2], field->width, ((double)(cell % field->columns) + 0.5) * field->rate,
        (double)field->columns * field->rate, &low[0], &high[0]);
  place(s, d[1], d[3], field->height, ((double)(cell / field->columns) + 0.5) * field->rate,
        (double)field->rows * field->rate, &low[1], &high[1]);
  if (!(high[0] - low[0] >= s->rules.min_size && high[1] - low[1] >= s->rules.min_size)) {
    return CREMA_OK;
  }
  const cr_box box = {(float)low[0], (float)low[1], (float)high[0], (float)high[1]};
  const cr_ranked one = {(float)score, 0, (int32_t)(s->box.size / sizeof box)};
  CR_TRY(cr_buffer_append(&s->box, &box, sizeof box));
  return cr_buffer_append(&s->rank, &one, sizeof one);
}

/* The common area as a share of the area that nms_type selects. */
static double overlap_of(const cr_box_rules *r, cr_box better, cr_box box) {
  const double least = r->inclusive ? 1 : 0;
  const double width =
      fmin((double)better.xmax, (double)box.xmax) - fmax((double)better.xmin, (double)box.xmin);
  const double height =
      fmin((double)better.ymax, (double)box.ymax) - fmax((double)better.ymin, (double)box.ymin);
  const double a = (double)cr_box_size(better), b = (double)cr_box_size(box);
  const double both = width <= least || height <= least ? 0 : width * height;
  if (both == 0) return 0;
  if (strcmp(r->nms_type, "IOMU") == 0) return both / fmin(a, b);
  return strcmp(r->nms_type, "IOFU") == 0 ? both / a : both / (a + b - both);
}

/* Drops boxes that overlap a better one; returns the number of kept boxes. */
static size_t suppress(const cr_box_maps *s, cr_ranked *rank, size_t count) {
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  const size_t most = s->rules.max_post_nms_num > 0 ? s->rules.max_post_nms_num : count;
  size_t kept = 0;
  for (size_t i = 0; i < count && kept < most; ++i) {
    bool drop = false;
    for (size_t k = 0; k < kept && !drop; ++k) {
      drop = overlap_of(&s->rules, box[rank[k].index], box[rank[i].index]) > s->rules.iou_thr;
    }
    if (!drop) rank[kept++] = rank[i];
  }
  return kept;
}

static crema_status keep_best(cr_box_maps *s, int64_t image) {
  const cr_box *box = (const cr_box *)(const void *)s->box.data;
  cr_ranked *rank = (cr_ranked *)(void *)s->rank.data;
  size_t count = s->rank.size / sizeof *rank;
  if (count == 0) return CREMA_OK;
  count = cr_rank_best(rank, count, s->rules.max_nms_num > 0 ? s->rules.max_nms_num : count);
  count = suppress(s, rank, count);
  const float last = s->rules.inclusive ? 1 : 0;
  for (size_t i = 0; i < count; ++i) {
    const cr_box b = box[rank[i].index];
    const float row[ROW] = {(float)image,  b.xmin,        b.ymin,
                            b.xmax - last, b.ymax - last, rank[i].score};
    CR_TRY(cr_buffer_append(&s->row, row, sizeof row));
  }
  return CREMA_OK;
}

/* Writes the first `width` numbers of each row. */
static crema_status write_rows(const cr_box_maps *s, int64_t width, crema_blob *top) {
  static const float none[2][ROW] = {{0, 1, 1, 10, 10, 0}, {0}};
  const int64_t found = (int64_t)(s->row.size / (ROW * sizeof(float)));
  const int64_t rows = found > 0 ? found : 1;
  const float *from = found > 0 ? (const float *)(const void *)s->row.data : none[width == ROW];
  cr_host_results to;
  CR_TRY(crema_blob_reshape(top, &(crema_shape){.axes = 4, .dim = {rows, width, 1, 1}}));
  CR_TRY(cr_host_write(top->data, &to));
  for (int64_t i = 0; i < rows * width; ++i) {
    cr_host_put(&to, i, (double)from[i / width * ROW + i % width]);
  }
  return CREMA_OK;
}

crema_status cr_box_maps_forward(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top,
                                 cr_box_maps_find *find) {
  cr_box_maps *s = layer->state;
  cr_buffer_clear(&s->row);
  for (int64_t i = 0; i < s->images; ++i) {
    cr_buffer_clear(&s->box);
    cr_buffer_clear(&s->rank);
    CR_TRY(find(layer, bottom, i));
    CR_TRY(keep_best(s, i));
  }
  CR_TRY(write_rows(s, ROW - 1, top[0]));
  return layer->tops > 1 ? write_rows(s, ROW, top[1]) : CREMA_OK;
}

void cr_box_maps_free(cr_layer *layer) {
  cr_box_maps *s = layer->state;
  cr_buffer_free(&s->row);
  cr_buffer_free(&s->rank);
  cr_buffer_free(&s->box);
}
