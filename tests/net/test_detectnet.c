/* DetectNet's training net (NVIDIA's fork and DIGITS), with a small trunk, learns. */
#include <math.h>

#include "check.h"
#include "net_values.h"

/* Behind the trunk all is as in examples/kitti of the fork. */
static const char text[] =
    "layer { name: 'raw' type: 'Input' top: 'raw_data' top: 'raw_label' input_param { shape { dim: "
    "2 "
    "dim: 3 dim: 50 dim: 90 } shape { dim: 2 dim: 1 dim: 4 dim: 16 } } }"
    "layer { name: 'train_transform' type: 'DetectNetTransformation' bottom: 'raw_data' bottom: "
    "'raw_label' top: 'data' top: 'label' detectnet_groundtruth_param: { stride: 16 scale_cvg: 0.4 "
    "gridbox_type: GRIDBOX_MIN coverage_type: RECTANGULAR min_cvg_len: 20 obj_norm: true "
    "image_size_x: "
    "96 image_size_y: 64 crop_bboxes: true } detectnet_augmentation_param: { crop_prob: 1 shift_x: "
    "8 "
    "shift_y: 8 flip_prob: 0.5 rotation_prob: 0 max_rotate_degree: 5 scale_prob: 0.4 scale_min: "
    "0.8 "
    "scale_max: 1.2 hue_rotation_prob: 0.8 hue_rotation: 30 desaturation_prob: 0.8 "
    "desaturation_max: "
    "0.8 } transform_param { mean_value: 127 } include { phase: TRAIN } }"
    "layer { name: 'slice-label' type: 'Slice' bottom: 'label' top: 'foreground-label' top: "
    "'bbox-label' top: 'size-label' top: 'obj-label' top: 'coverage-label' slice_param { "
    "slice_dim: 1 "
    "slice_point: 1 slice_point: 5 slice_point: 7 slice_point: 8 } }"
    "layer { name: 'coverage-block' type: 'Concat' bottom: 'foreground-label' bottom: "
    "'foreground-label' bottom: 'foreground-label' bottom: 'foreground-label' top: "
    "'coverage-block' "
    "concat_param { concat_dim: 1 } }"
    "layer { name: 'size-block' type: 'Concat' bottom: 'size-label' bottom: 'size-label' top: "
    "'size-block' concat_param { concat_dim: 1 } }"
    "layer { name: 'obj-block' type: 'Concat' bottom: 'obj-label' bottom: 'obj-label' bottom: "
    "'obj-label' bottom: 'obj-label' top: 'obj-block' concat_param { concat_dim: 1 } }"
    "layer { name: 'bb-label-norm' type: 'Eltwise' bottom: 'bbox-label' bottom: 'size-block' top: "
    "'bbox-label-norm' eltwise_param { operation: PROD } }"
    "layer { name: 'bb-obj-norm' type: 'Eltwise' bottom: 'bbox-label-norm' bottom: 'obj-block' "
    "top: "
    "'bbox-obj-label-norm' eltwise_param { operation: PROD } }"
    "layer { name: 'trunk' type: 'Convolution' bottom: 'data' top: 'trunk' convolution_param { "
    "num_output: 6 kernel_size: 16 stride: 16 weight_filler { type: 'xavier' } } }"
    "layer { name: 'relu' type: 'ReLU' bottom: 'trunk' top: 'trunk' }"
    "layer { name: 'cvg/classifier' type: 'Convolution' bottom: 'trunk' top: 'cvg/classifier' "
    "convolution_param { num_output: 1 kernel_size: 1 weight_filler { type: 'xavier' std: 0.03 } } "
    "}"
    "layer { name: 'coverage/sig' type: 'Sigmoid' bottom: 'cvg/classifier' top: 'coverage' }"
    "layer { name: 'bbox/regressor' type: 'Convolution' bottom: 'trunk' top: 'bboxes' "
    "convolution_param { num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' std: 0.03 } } "
    "}"
    "layer { name: 'bbox_mask' type: 'Eltwise' bottom: 'bboxes' bottom: 'coverage-block' top: "
    "'bboxes-masked' eltwise_param { operation: PROD } }"
    "layer { name: 'bbox-norm' type: 'Eltwise' bottom: 'bboxes-masked' bottom: 'size-block' top: "
    "'bboxes-masked-norm' eltwise_param { operation: PROD } }"
    "layer { name: 'bbox-obj-norm' type: 'Eltwise' bottom: 'bboxes-masked-norm' bottom: "
    "'obj-block' "
    "top: 'bboxes-obj-masked-norm' eltwise_param { operation: PROD } }"
    "layer { name: 'bbox_loss' type: 'L1Loss' bottom: 'bboxes-obj-masked-norm' bottom: "
    "'bbox-obj-label-norm' top: 'loss_bbox' loss_weight: 2 }"
    "layer { name: 'coverage_loss' type: 'EuclideanLoss' bottom: 'coverage' bottom: "
    "'coverage-label' "
    "top: 'loss_coverage' }";

TEST(detectnet_learns) {
  static const char *const learning[] = {"trunk", "cvg/classifier", "bbox/regressor"};
  static const float object[6] = {20, 10, 40, 30, 0, 1};
  const crema_net_options options = net_options(CREMA_TRAIN, 3, NULL);
  crema_net *net = NULL;
  float *data = NULL, *label = NULL;
  double loss = 0, covered = 0;
  ok(crema_net_parse(text, sizeof text - 1, "detectnet", &options, &net));
  ok(crema_blob_mutable_cpu_data(blob_of(net, "raw_data"), &data));
  ok(crema_blob_mutable_cpu_data(blob_of(net, "raw_label"), &label));
  for (int i = 0; i < 2 * 3 * 50 * 90; ++i) data[i] = 127 + 90 * sinf((float)i * 0.01f);
  memset(label, 0, 2 * 64 * sizeof *label);
  for (int n = 0; n < 2; ++n) {
    label[64 * n] = 1;
    label[64 * n + 1] = 16;
    memcpy(&label[64 * n + 16], object, sizeof object);
  }
  ok(crema_net_forward(net, &loss));
  ok(crema_net_backward(net));
  assert_true(isfinite(loss) && loss > 0);
  const crema_blob *cells = blob_of(net, "coverage-label");
  assert_int_equal(crema_blob_count(cells), 2 * 4 * 6);
  for (int i = 0; i < 2 * 4 * 6; ++i) covered += (double)values(net, "coverage-label")[i];
  assert_true(covered >= 4 && covered <= 24);
  for (size_t k = 0; k < sizeof learning / sizeof *learning; ++k) {
    const crema_blob *weights = layer_of(net, learning[k])->blob[0];
    const float *diff = NULL;
    double sum = 0;
    ok(crema_blob_cpu_diff(layer_of(net, learning[k])->blob[0], &diff));
    for (int64_t i = 0; i < crema_blob_count(weights); ++i) sum += fabs((double)diff[i]);
    assert_true(isfinite(sum) && sum > 0);
  }
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
