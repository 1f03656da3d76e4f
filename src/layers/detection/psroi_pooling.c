/* PSROIPooling: means of the parts of a region, each with its own channels (Dai et al., "R-FCN",
 * 2016).
 *
 * Formula: a region is divided into group_size x group_size parts. Result y[o][i][j] is the mean of
 * part (i, j) of channel (o group_size + i) group_size + j, or 0 for a part without cells.
 * Shapes: x (N, output_dim group_size^2, H, W), regions (R, 5): index of the image, left, top,
 * right, bottom in pixels of the net's input -> y (R, output_dim, group_size, group_size).
 * Fields: psroi_pooling_param.
 * Caffe: as in R-FCN's fork and Intel Caffe.
 * Example, x 1 8 6 6, rois 1 5:
 *   layer { name: "pool" type: "PSROIPooling" bottom: "x" bottom: "rois" top: "y"
 *     psroi_pooling_param { spatial_scale: 0.0625 output_dim: 2 group_size: 2 } } */
#include "core/fail.h"
#include "layers/common/layer_noop.h"
#include "layers/detection/roi.h"

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const Caffe__PSROIPoolingParameter *param = layer->param->psroi_pooling_param;
  const crema_shape *map = &bottom[0]->shape;
  char text[128];
  if (param == NULL || param->output_dim < 1 || param->group_size < 1 ||
      param->group_size > 32768 || !(param->spatial_scale > 0)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "psroi_pooling_param needs an output_dim and a group_size of 1 or more "
                         "and a spatial_scale above 0");
  }
  const int64_t parts = (int64_t)param->group_size * param->group_size;
  if (map->axes != 4 || map->dim[1] != param->output_dim * parts) {
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom 0 must have %lld channels, output_dim times group_size squared, "
                         "found shape %s",
                         (long long)(param->output_dim * parts),
                         crema_shape_text(map, text, sizeof text));
  }
  return cr_roi_make(layer, bottom, top, CR_OP_PSROI_POOL_FWD, CR_OP_PSROI_POOL_BWD,
                     &(cr_roi_parts){param->output_dim, param->group_size, param->group_size,
                                     param->spatial_scale, 0, 0},
                     false);
}

const cr_layer_class cr_layer_psroi_pooling = {
    CR_LAYER_ROI("PSROIPooling"),
    .setup = cr_layer_noop,
    .reshape = reshape,
};
