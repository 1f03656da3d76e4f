/* BoxOutput: the best boxes of maps, with one size of boxes for each map (Cai et al., "A unified
 * multi-scale deep convolutional neural network for fast object detection", 2016).
 *
 * Formula: a cell's score is the best score of classes 1 and above minus the score of class 0.
 * Cells below fg_thr are dropped. With d = prediction * bbox_std + bbox_mean, the centre is dx
 * field_w + (column + 0.5) rate, with |dx| at most 1 / field_xyr. The width is field_w exp(dw),
 * with |dw| at most log(field_whr). The same holds for y and the height. Negative left and top
 * become 0, then width and height are cut at the rate times the extents of the map. Boxes with a
 * side below min_size are dropped. Of the best max_nms_num boxes of an image, a box is dropped if
 * it overlaps a better one by more than iou_thr. The best max_post_nms_num remain.
 * Shapes: maps (N, classes + 4, h, w) -> regions (R, 5, 1, 1), optionally rows (R, 6, 1, 1). A
 * region is image, left, top, right, bottom; a row has the score as well. Without any box there is
 * one region, 0 1 1 10 10, and a row of zeros.
 * Fields: box_output_param, bbox_reg_param.
 * Caffe: as in MS-CNN.
 * Example, map 1 6 3 3:
 *   layer { name: "boxes" type: "BoxOutput" bottom: "map" top: "rois" top: "scores"
 *     box_output_param { field_h: 16 field_w: 16 downsample_rate: 8 fg_thr: -5 min_size: 4 } } */
#include <float.h>
#include <string.h>

#include "core/fail.h"
#include "layers/detection/box_maps.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_box_maps *s = layer->state;
  const Caffe__BoxOutputParameter *p = layer->param->box_output_param;
  const size_t maps = (size_t)layer->bottoms;
  (void)bottom, (void)top;
  if (p == NULL || p->n_field_h != maps || p->n_field_w != maps || p->n_downsample_rate != maps) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "box_output_param needs field_h, field_w and downsample_rate for each of "
                         "%zu bottoms",
                         maps);
  }
  s->rules = (cr_box_rules){.fg_thr = (double)p->fg_thr,
                            .iou_thr = (double)p->iou_thr,
                            .nms_type = p->nms_type,
                            .field_whr = (double)p->field_whr,
                            .field_xyr = (double)p->field_xyr,
                            .min_size = (double)p->min_size,
                            .max_nms_num = p->max_nms_num,
                            .max_post_nms_num = p->max_post_nms_num};
  return cr_box_maps_setup(layer);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_box_maps *s = layer->state;
  const crema_shape *first = &bottom[0]->shape;
  for (int i = 0; i < layer->bottoms; ++i) {
    const crema_shape *map = &bottom[i]->shape;
    if (map->axes == 4 && map->dim[1] > 5 && map->dim[0] == first->dim[0]) continue;
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom %d must have shape N classes+4 h w, with 2 or more classes", i);
  }
  s->images = first->dim[0];
  return cr_box_maps_reshape(layer, top);
}

/* The score of a cell. */
static double score_at(const cr_host_values *values, int64_t at, int64_t cells, int64_t classes) {
  double best = -DBL_MAX;
  for (int64_t c = 1; c < classes; ++c) {
    const double score = cr_host_get(values, at + c * cells);
    if (score > best) best = score; /* not fmax: GCC 12 crashes on it on aarch64 */
  }
  return best - cr_host_get(values, at);
}

static crema_status find(cr_layer *layer, crema_blob *const *bottom, int64_t image) {
  cr_box_maps *s = layer->state;
  const Caffe__BoxOutputParameter *p = layer->param->box_output_param;
  for (int i = 0; i < layer->bottoms; ++i) {
    const crema_shape *map = &bottom[i]->shape;
    const int64_t classes = map->dim[1] - 4, cells = map->dim[2] * map->dim[3];
    const int64_t first = image * map->dim[1] * cells;
    cr_box_field field = {.width = p->field_w[i],
                          .height = p->field_h[i],
                          .rate = p->downsample_rate[i],
                          .columns = map->dim[3],
                          .rows = map->dim[2]};
    CR_TRY(cr_host_read(bottom[i]->data, &field.values));
    for (int64_t cell = 0; cell < cells; ++cell) {
      const double score = score_at(&field.values, first + cell, cells, classes);
      CR_TRY(cr_box_maps_add(s, &field, first + classes * cells + cell, cell, score));
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)context;
  return cr_box_maps_forward(layer, bottom, top, find);
}

const cr_layer_class cr_layer_box_output = {
    CR_LAYER_HOST("BoxOutput", sizeof(cr_box_maps), setup, reshape, forward, cr_box_maps_free),
    .bottoms = {1, CR_ANY},
    .tops = {1, 2},
};
