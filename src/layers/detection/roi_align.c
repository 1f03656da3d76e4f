/* ROIAlign: means of interpolated values of each part of a region, without rounding (He et al.,
 * "Mask R-CNN", 2017).
 *
 * Formula: a region is cut into pooled_h x pooled_w parts; y = the mean of sampling_ratio^2 values
 * of each part. They are evenly spaced and interpolated between the cells' centres, which have
 * integer coordinates. Values more than a cell beyond the border are 0.
 * Shapes: x (N, C, H, W), regions (R, 5): index of the image, left, top, right, bottom in pixels of
 * the net's input -> y (R, C, pooled_h, pooled_w).
 * Fields: roi_align_param.
 * Caffe: as in forks that have it; sides are at least one cell long.
 * Example, x 1 2 6 6, rois 1 5:
 *   layer { name: "pool" type: "ROIAlign" bottom: "x" bottom: "rois" top: "y"
 *     roi_align_param { pooled_h: 2 pooled_w: 2 spatial_scale: 0.0625 sampling_ratio: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/detection/roi.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__ROIAlignParameter *param = layer->param->roi_align_param;
  const crema_shape *map = &bottom[0]->shape;
  if (param == NULL || param->pooled_h == 0 || param->pooled_w == 0 ||
      !(param->spatial_scale > 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "roi_align_param needs pooled_h and pooled_w of 1 or more and a "
                         "spatial_scale above 0");
  }
  return cr_roi_make(layer, bottom, top, CR_OP_ROI_ALIGN_FWD, CR_OP_ROI_ALIGN_BWD,
                     &(cr_roi_parts){map->axes > 1 ? map->dim[1] : 0, param->pooled_h,
                                     param->pooled_w, param->spatial_scale, param->sampling_ratio,
                                     0},
                     false);
}

const cr_layer_class cr_layer_roi_align = {
    CR_LAYER_ROI("ROIAlign"),
    .setup = cr_layer_noop,
    .reshape = reshape,
};
