/* ROIPooling: the largest value of each part of a region (Girshick, "Fast R-CNN", 2015).
 *
 * Formula: a region, rounded to whole cells of the map, is divided into pooled_h x pooled_w parts.
 * The value of y is the largest value of each part, or 0 for a part without cells. Before that,
 * pad_ratio of its width and height is added to a region on each side.
 * Shapes: x (N, C, H, W), regions (R, 5): index of the image, left, top, right, bottom in pixels of
 * the net's input -> y (R, C, pooled_h, pooled_w).
 * Fields: roi_pooling_param.
 * Caffe: as in the forks of Fast R-CNN, in MS-CNN and in Intel Caffe, which keep the index of each
 * largest value; here backward finds them again in x.
 * Example, x 1 2 6 6, rois 1 5:
 *   layer { name: "pool" type: "ROIPooling" bottom: "x" bottom: "rois" top: "y"
 *     roi_pooling_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.0625 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/detection/roi.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ROIPoolingParameter *param = layer->param->roi_pooling_param;
  cr_roi_parts parts = {0};
  if (param != NULL) {
    const size_t n = param->n_pooled_size;
    parts = (cr_roi_parts){bottom[0]->shape.axes > 1 ? bottom[0]->shape.dim[1] : 0,
                           n > 0 ? param->pooled_size[0] : param->pooled_h,
                           n > 0 ? param->pooled_size[n - 1] : param->pooled_w,
                           param->spatial_scale, 0, param->pad_ratio};
    if (n > 2) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                           "pooled_size must be given once or twice; found %zu", n);
    }
  }
  if (parts.rows == 0 || parts.columns == 0 || !(parts.scale > 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "roi_pooling_param needs pooled_h and pooled_w of 1 or more and a "
                         "spatial_scale above 0");
  }
  if (!(parts.pad >= 0 && parts.pad <= 1000)) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "pad_ratio is %g, must be in [0, 1000]",
                         (double)parts.pad);
  }
  return cr_roi_make(layer, bottom, top, CR_OP_ROI_POOL_FWD, CR_OP_ROI_POOL_BWD, &parts, true);
}

/* In which backward finds the largest values again. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 0;
}

const cr_layer_class cr_layer_roi_pooling = {
    CR_LAYER_ROI("ROIPooling"),
    .uses_bottom = uses_bottom,
    .setup = cr_layer_noop,
    .reshape = reshape,
};
