/* Poolings of regions. */
#include "core/fail.h"
#include "onnx/import/numbers.h"

static crema_status check_inputs(cr_import_node *node, int numbers) {
  const cr_import_value *rois = cr_import_input(node, 1);
  if (node->input[0]->shape->axes != 4 || rois == NULL || rois->shape->axes != 2 ||
      rois->shape->dim[1] != numbers) {
    return cr_import_reject(node, "a map of 4 axes and regions of %d numbers are needed", numbers);
  }
  return CREMA_OK;
}

static crema_status set_regions_shape(cr_import_node *node, int64_t rows, int64_t columns) {
  if (rows < 1 || columns < 1 || rows > INT32_MAX || columns > INT32_MAX) {
    return cr_import_reject(node, "a pooled shape of %lld x %lld", (long long)rows,
                            (long long)columns);
  }
  const crema_shape shape = {
      .axes = 4,
      .dim = {node->input[1]->shape->dim[0], node->input[0]->shape->dim[1], rows, columns}};
  return cr_import_set_shape(node->import, node->output[0], &shape);
}

crema_status cr_import_max_roi_pool(cr_import_node *node) {
  size_t count;
  const int64_t *pooled = cr_import_ints(node, "pooled_shape", &count);
  CR_TRY(check_inputs(node, 5));
  if (pooled == NULL || count != 2) return cr_import_reject(node, "pooled_shape is missing");
  CR_TRY(set_regions_shape(node, pooled[0], pooled[1]));
  const cr_import_ends ends = {.bottom = {node->input[0], node->input[1]},
                               .top = {node->output[0]}};
  return cr_import_layer(node, &ends,
                         "type: \"ROIPooling\" roi_pooling_param { pooled_h: %lld pooled_w: %lld "
                         "spatial_scale: %.9g }",
                         (long long)pooled[0], (long long)pooled[1],
                         (double)cr_import_float(node, "spatial_scale", 1));
}

/* The layer's regions start with the index of their image. */
crema_status cr_import_roi_align(cr_import_node *node) {
  const int64_t rows = cr_import_int(node, "output_height", 1);
  const int64_t columns = cr_import_int(node, "output_width", 1);
  const int64_t ratio = cr_import_int(node, "sampling_ratio", 0);
  cr_import_value *image = cr_import_input(node, 2), *column = NULL, *regions;
  CR_TRY(check_inputs(node, 4));
  if (!cr_import_is_text(node, "mode", "avg", true)) {
    return cr_import_reject(node, "only the mode avg is supported");
  }
  if (!cr_import_is_text(node, "coordinate_transformation_mode", "output_half_pixel",
                         node->import->opset < 16)) {
    return cr_import_reject(node, "coordinate_transformation_mode half_pixel");
  }
  const int64_t count = node->input[1]->shape->dim[0];
  if (image == NULL || cr_import_count(image) != count || ratio < 0 || ratio > INT32_MAX) {
    return cr_import_reject(node, "batch_indices or sampling_ratio do not fit");
  }
  CR_TRY(set_regions_shape(node, rows, columns));
  const crema_shape single = {.axes = 2, .dim = {count, 1}}, five = {.axes = 2, .dim = {count, 5}};
  CR_TRY(cr_import_view(node, image, &single, &column));
  CR_TRY(cr_import_between(node, "regions", &five, &regions));
  const cr_import_ends join = {.bottom = {column, node->input[1]}, .top = {regions}};
  CR_TRY(cr_import_layer(node, &join, "type: \"Concat\" concat_param { axis: 1 }"));
  const cr_import_ends ends = {.bottom = {node->input[0], regions}, .top = {node->output[0]}};
  return cr_import_layer(node, &ends,
                         "type: \"ROIAlign\" roi_align_param { pooled_h: %lld pooled_w: %lld "
                         "spatial_scale: %.9g sampling_ratio: %lld }",
                         (long long)rows, (long long)columns,
                         (double)cr_import_float(node, "spatial_scale", 1), (long long)ratio);
}
