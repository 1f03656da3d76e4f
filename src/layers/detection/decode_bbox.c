/* DecodeBBox: the boxes that a stage of a cascade passes to the next stage (Cai and Vasconcelos,
 * "Cascade R-CNN", 2018).
 *
 * Formula: box i has centre (c_x + d_0 w, c_y + d_1 h) and size (w exp(d_2), h exp(d_3)). (c_x,
 * c_y) and w x h are the centre and size of region i, in inclusive pixels. The values of row i of
 * the offsets are v, and d_k = bbox_std_k v_(4 + k) + bbox_mean_k; v_0 to v_3 belong to the
 * background. In TRAIN, boxes of negative extent are omitted, and also boxes of regions whose
 * overlap with an object, the last column of the third bottom, is gt_iou_thr or more.
 * Shapes: offsets (N, 8), regions (N, 5): image, left, top, right, bottom, and, in TRAIN, perhaps
 * matches (N, M) -> boxes (R, 5, 1, 1), as the regions. R = N in TEST. There is no gradient.
 * Fields: bbox_reg_param, decode_bbox_param.
 * Caffe: as in Cascade R-CNN and MS-CNN.
 * Example, offsets 3 8, rois 3 5:
 *   layer { name: "next" type: "DecodeBBox" bottom: "offsets" bottom: "rois" top: "boxes"
 *     bbox_reg_param { bbox_mean: 0 bbox_mean: 0 bbox_mean: 0 bbox_mean: 0
 *       bbox_std: 0.1 bbox_std: 0.1 bbox_std: 0.2 bbox_std: 0.2 } } */
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_host.h"

enum { OFFSETS = 8, BOX = 4, REGION = 5 };

typedef struct decode_state {
  double mean[BOX], deviation[BOX], threshold;
} decode_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  static const Caffe__DecodeBBoxParameter defaults = CAFFE__DECODE_BBOX_PARAMETER__INIT;
  const Caffe__DecodeBBoxParameter *p =
      layer->param->decode_bbox_param ? layer->param->decode_bbox_param : &defaults;
  const Caffe__BBoxRegParameter *r = layer->param->bbox_reg_param;
  const bool given = r != NULL && r->n_bbox_mean > 0 && r->n_bbox_std > 0;
  decode_state *s = layer->state;
  (void)bottom, (void)top;
  if (layer->bottoms > 2 && layer->phase != CAFFE__PHASE__TRAIN) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "a third bottom, the matches, is for TRAIN only");
  }
  if (given && (r->n_bbox_mean != BOX || r->n_bbox_std != BOX)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "bbox_reg_param needs 4 of bbox_mean and bbox_std, found %zu and %zu",
                         r->n_bbox_mean, r->n_bbox_std);
  }
  for (int k = 0; k < BOX; ++k) {
    s->mean[k] = given ? (double)r->bbox_mean[k] : 0;
    s->deviation[k] = given ? (double)r->bbox_std[k] : 1;
    if (s->deviation[k] > 0) continue;
    return cr_layer_fail(layer, CREMA_E_RANGE, "bbox_std %d is %g, must be above 0", k,
                         s->deviation[k]);
  }
  s->threshold = (double)p->gt_iou_thr;
  return CREMA_OK;
}

static crema_status check_rows(const cr_layer *layer, int index, const crema_shape *shape,
                               int64_t rows, int64_t columns) {
  char text[128];
  if (shape->axes >= 2 && shape->dim[0] == rows && shape->dim[1] > 0 &&
      crema_shape_count(shape, 2, shape->axes) == 1 && (columns == 0 || shape->dim[1] == columns)) {
    return CREMA_OK;
  }
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "bottom %d must have %lld rows of %s values, found shape %s", index,
                       (long long)rows,
                       columns == OFFSETS  ? "8"
                       : columns == REGION ? "5"
                                           : "some",
                       crema_shape_text(shape, text, sizeof text));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const int64_t rows = bottom[1]->shape.axes > 0 ? bottom[1]->shape.dim[0] : 0;
  const crema_shape to = cr_shape_4(rows, REGION, 1, 1);
  CR_TRY(check_rows(layer, 1, &bottom[1]->shape, rows, REGION));
  CR_TRY(check_rows(layer, 0, &bottom[0]->shape, rows, OFFSETS));
  if (layer->bottoms > 2) CR_TRY(check_rows(layer, 2, &bottom[2]->shape, rows, 0));
  return crema_blob_reshape(top[0], &to);
}

/* The bottoms' values. */
typedef struct decode_values {
  cr_host_values offsets, regions, matches;
  int64_t columns; /* of the matches; 0: there are none */
} decode_values;

/* Row i; false: it is omitted in TRAIN. */
static bool decode(const decode_state *s, const decode_values *v, int64_t i, double row[REGION]) {
  double d[BOX], region[REGION];
  for (int k = 0; k < REGION; ++k) region[k] = cr_host_get(&v->regions, i * REGION + k);
  for (int k = 0; k < BOX; ++k) {
    d[k] = cr_host_get(&v->offsets, i * OFFSETS + BOX + k) * s->deviation[k] + s->mean[k];
  }
  row[0] = region[0];
  for (int axis = 0; axis < 2; ++axis) {
    const double low = region[1 + axis], high = region[3 + axis], extent = high - low + 1;
    const double size = extent * exp(d[2 + axis]);
    row[1 + axis] = d[axis] * extent + 0.5 * (low + high) - (size - 1) / 2;
    row[3 + axis] = row[1 + axis] + size - 1;
  }
  if (v->columns > 0 && cr_host_get(&v->matches, (i + 1) * v->columns - 1) >= s->threshold) {
    return false;
  }
  return !(row[1] > row[3]) && !(row[2] > row[4]);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  const decode_state *s = layer->state;
  const bool all = layer->phase != CAFFE__PHASE__TRAIN;
  const int64_t rows = bottom[1]->shape.dim[0];
  decode_values v = {.columns = layer->bottoms > 2 ? bottom[2]->shape.dim[1] : 0};
  cr_host_results out;
  double row[REGION];
  int64_t kept = 0;
  (void)context;
  CR_TRY(cr_host_read(bottom[0]->data, &v.offsets));
  CR_TRY(cr_host_read(bottom[1]->data, &v.regions));
  if (v.columns > 0) CR_TRY(cr_host_read(bottom[2]->data, &v.matches));
  for (int64_t i = 0; i < rows; ++i) kept += decode(s, &v, i, row) || all;
  if (kept == 0 && rows > 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "none of %lld boxes is kept: all are empty or of objects",
                         (long long)rows);
  }
  const crema_shape to = cr_shape_4(kept, REGION, 1, 1);
  CR_TRY(crema_blob_reshape(top[0], &to));
  CR_TRY(cr_host_write(top[0]->data, &out));
  for (int64_t i = 0, at = 0; i < rows; ++i) {
    if (!decode(s, &v, i, row) && !all) continue;
    for (int k = 0; k < REGION; ++k) cr_host_put(&out, at++, row[k]);
  }
  return CREMA_OK;
}

const cr_layer_class cr_layer_decode_bbox = {
    CR_LAYER_HOST("DecodeBBox", sizeof(decode_state), setup, reshape, forward, NULL),
    .bottoms = {2, 3},
    .tops = {1, 1},
};
