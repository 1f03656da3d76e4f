/* BoxGroupOutput: the best boxes of maps with several sizes of boxes for each cell (Cai and
 * Vasconcelos, "Cascade R-CNN", 2018).
 *
 * Formula: sample i g + k of a pair of maps has the boxes of image i with field k of the pair's g
 * fields. A cell's score is 1 - the probability of class 0. Boxes are computed as in BoxOutput,
 * but in inclusive pixels: the right border is left + width - 1. Boxes are cut at 0 and at the
 * stride times the extents of the map, before their sizes are compared with min_size.
 * Shapes: pairs of probabilities (N g, classes, h, w) and locations (N g, 4, h, w) -> regions (R,
 * 5, 1, 1), optionally rows (R, 6, 1, 1), as in BoxOutput.
 * Fields: box_group_output_param, bbox_reg_param.
 * Caffe: as in Cascade R-CNN.
 * Example, prob 2 2 3 3, loc 2 4 3 3:
 *   layer { name: "boxes" type: "BoxGroupOutput" bottom: "prob" bottom: "loc" top: "rois"
 *     box_group_output_param { min_size: 4
 *       box_group_param { field_h: 16 field_w: 16 field_h: 12 field_w: 24 stride: 8 } } } */
#include "core/fail.h"
#include "layers/detection/box_maps.h"

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_box_maps *s = layer->state;
  const Caffe__BoxGroupOutputParameter *p = layer->param->box_group_output_param;
  (void)bottom, (void)top;
  if (p == NULL || layer->bottoms % 2 != 0 || p->n_box_group_param != (size_t)layer->bottoms / 2) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "box_group_output_param needs a box_group_param for each pair of bottoms");
  }
  for (size_t i = 0; i < p->n_box_group_param; ++i) {
    const Caffe__BoxGroupParameter *group = p->box_group_param[i];
    if (group->n_field_h > 0 && group->n_field_h == group->n_field_w && group->stride > 0) continue;
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "box_group_param %zu needs a stride and as many field_h as field_w", i);
  }
  s->rules = (cr_box_rules){.fg_thr = (double)p->fg_thr,
                            .iou_thr = (double)p->iou_thr,
                            .nms_type = p->nms_type,
                            .field_whr = (double)p->field_whr,
                            .field_xyr = (double)p->field_xyr,
                            .min_size = (double)p->min_size,
                            .max_nms_num = p->max_nms_num,
                            .max_post_nms_num = p->max_post_nms_num,
                            .inclusive = true};
  return cr_box_maps_setup(layer);
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_box_maps *s = layer->state;
  const Caffe__BoxGroupOutputParameter *p = layer->param->box_group_output_param;
  for (int i = 0; i < layer->bottoms; i += 2) {
    const crema_shape *chance = &bottom[i]->shape, *loc = &bottom[i + 1]->shape;
    const int64_t fields = (int64_t)p->box_group_param[i / 2]->n_field_h;
    const int64_t images = chance->axes == 4 ? chance->dim[0] / fields : 0;
    if (i == 0) s->images = images;
    if (chance->axes == 4 && loc->axes == 4 && chance->dim[1] > 0 && loc->dim[1] == 4 &&
        chance->dim[0] == images * fields && images == s->images && loc->dim[0] == chance->dim[0] &&
        loc->dim[2] == chance->dim[2] && loc->dim[3] == chance->dim[3]) {
      continue;
    }
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottoms %d and %d must have shapes N*%lld classes h w and N*%lld 4 h w",
                         i, i + 1, (long long)fields, (long long)fields);
  }
  return cr_box_maps_reshape(layer, top);
}

static crema_status find(cr_layer *layer, crema_blob *const *bottom, int64_t image) {
  cr_box_maps *s = layer->state;
  const Caffe__BoxGroupOutputParameter *p = layer->param->box_group_output_param;
  for (int i = 0; i < layer->bottoms; i += 2) {
    const Caffe__BoxGroupParameter *group = p->box_group_param[i / 2];
    const crema_shape *map = &bottom[i]->shape;
    const int64_t cells = map->dim[2] * map->dim[3];
    cr_box_field field = {.rate = group->stride, .columns = map->dim[3], .rows = map->dim[2]};
    cr_host_values chance;
    CR_TRY(cr_host_read(bottom[i]->data, &chance));
    CR_TRY(cr_host_read(bottom[i + 1]->data, &field.values));
    for (size_t k = 0; k < group->n_field_h; ++k) {
      const int64_t sample = image * (int64_t)group->n_field_h + (int64_t)k;
      field.width = group->field_w[k];
      field.height = group->field_h[k];
      for (int64_t cell = 0; cell < cells; ++cell) {
        const double score = 1 - cr_host_get(&chance, sample * map->dim[1] * cells + cell);
        CR_TRY(cr_box_maps_add(s, &field, sample * 4 * cells + cell, cell, score));
      }
    }
  }
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)context;
  return cr_box_maps_forward(layer, bottom, top, find);
}

const cr_layer_class cr_layer_box_group_output = {
    CR_LAYER_HOST("BoxGroupOutput", sizeof(cr_box_maps), setup, reshape, forward, cr_box_maps_free),
    .bottoms = {2, CR_ANY},
    .tops = {1, 2},
};
