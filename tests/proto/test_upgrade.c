/* Upgrades of older formats: what they become, and what cannot be upgraded. */
#include "upgrade_case.h"

#include <stdio.h>

#include "crema/log.h"

TEST(current_net_stays) {
  static const char text[] = "name: \"n\"\nlayer {\n  name: \"a\"\n  type: \"ReLU\"\n}\n";
  ProtobufCMessage *message = must_parse(NET, text);
  bool fine = false;
  assert_false(cr_net_param_needs_upgrade((Caffe__NetParameter *)message));
  ok(cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, &fine));
  assert_true(fine);
  must_print(message, text);
  cr_message_free(message);
}

TEST(inputs) {
  net_becomes("input: 'x' input_dim: [1, 2, 3, 4] layer { name: 'l' }",
              "layer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"x\"\n  input_param {\n"
              "    shape {\n      dim: 1\n      dim: 2\n      dim: 3\n      dim: 4\n    }\n  }\n}\n"
              "layer {\n  name: \"l\"\n}\n",
              true);
  net_becomes("input: 'x' input: 'y' input_shape { dim: 5 } input_shape { }",
              "layer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"x\"\n  top: \"y\"\n"
              "  input_param {\n    shape {\n      dim: 5\n    }\n    shape {\n    }\n  }\n}\n",
              true);
  net_becomes("input: 'x' layer { name: 'l' }", "layer {\n  name: \"l\"\n}\n", true);
  net_fails("input: 'x' input: 'y' input_shape { dim: 5 }", CREMA_E_SHAPE,
            "the net has 2 \"input\" but 1 \"input_shape\"");
  net_fails("input: 'x' input_dim: [1, 2, 3]", CREMA_E_SHAPE,
            "the net has 1 \"input\" but 3 \"input_dim\"; 4 each are needed");
}

static char warning[256];

static void keep_warning(void *user, crema_log_level level, const char *file, int line,
                         const char *message) {
  (void)user;
  (void)file;
  (void)line;
  if (level == CREMA_LOG_WARNING) snprintf(warning, sizeof warning, "%s", message);
}

/* A net that is to run needs the shape; why a blob is missing must not be a riddle. */
TEST(an_input_without_a_shape_is_warned_of) {
  ProtobufCMessage *message = must_parse(NET, "input: 'x' layer { name: 'l' }");
  crema_log_set(keep_warning, NULL, CREMA_LOG_INFO);
  ok(cr_net_param_upgrade((Caffe__NetParameter *)message, "net.prototxt", NULL));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_string_equal(warning,
                      "net.prototxt: input \"x\" is omitted, as it has neither input_shape nor "
                      "input_dim");
  cr_message_free(message);
}

TEST(second_format) {
  net_becomes(
      "layers { name: 'c' type: CONVOLUTION param: 'w' blobs_lr: [1, 2] weight_decay: [0, "
      "3] blob_share_mode: PERMISSIVE convolution_param { pad: 1 } loss_weight: 2 }",
      "layer {\n  name: \"c\"\n  type: \"Convolution\"\n  loss_weight: 2\n  param {\n"
      "    name: \"w\"\n    share_mode: PERMISSIVE\n    lr_mult: 1\n    decay_mult: 0\n"
      "  }\n  param {\n    lr_mult: 2\n    decay_mult: 3\n  }\n  convolution_param {\n"
      "    pad: 1\n  }\n}\n",
      true);
  net_becomes(
      "layers { name: 'd' type: DATA data_param { scale: 2 crop_size: 3 mean_file: 'm' "
      "mirror: true batch_size: 4 } }",
      "layer {\n  name: \"d\"\n  type: \"Data\"\n  transform_param {\n    scale: 2\n"
      "    mirror: true\n    crop_size: 3\n    mean_file: \"m\"\n  }\n  data_param {\n"
      "    batch_size: 4\n  }\n}\n",
      true);
  net_fails("layers { name: 'a' } layer { name: 'b' }", CREMA_E_PARSE,
            "the net has both \"layer\" and \"layers\"; use \"layer\" for all of them");
}

TEST(first_format) {
  net_becomes(
      "layers { layer { name: 'c' type: 'conv' kernelsize: 3 stride: 2 pad: 1 biasterm: "
      "false weight_filler { type: 'xavier' } blobs_lr: 1 } bottom: 'a' top: 'b' }",
      "layer {\n  name: \"c\"\n  type: \"Convolution\"\n  bottom: \"a\"\n  top: \"b\"\n"
      "  param {\n    lr_mult: 1\n  }\n  convolution_param {\n    bias_term: false\n"
      "    pad: 1\n    kernel_size: 3\n    stride: 2\n    weight_filler {\n"
      "      type: \"xavier\"\n    }\n  }\n}\n",
      true);
  net_becomes("layers { layer { name: 'r' type: 'relu' num_output: 5 } }",
              "layer {\n  name: \"r\"\n  type: \"ReLU\"\n}\n", false);
  net_fails("layers { layer { name: 'x' type: 'convv' } }", CREMA_E_UNKNOWN_NAME,
            "layer 'x' (convv): unknown layer type \"convv\"; did you mean \"conv\"?");
}

TEST(padding_layers) {
  net_becomes(
      "layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'a' top: 'b' } layers { "
      "layer { name: 'q' type: 'pool' } bottom: 'b' top: 'c' }",
      "layer {\n  name: \"q\"\n  type: \"Pooling\"\n  bottom: \"a\"\n  top: \"c\"\n"
      "  pooling_param {\n    pad: 2\n  }\n}\n",
      true);
  net_fails(
      "layers { layer { name: 'p' type: 'padding' pad: 2 } bottom: 'a' top: 'b' } layers { "
      "layer { name: 'r' type: 'relu' } bottom: 'b' top: 'c' }",
      CREMA_E_UNSUPPORTED,
      "layer 'r' (relu): padding (layer \"p\") can only precede conv and pool");
  net_fails(
      "layers { layer { name: 'p' type: 'padding' pad: 2 } top: 'b' } layers { layer { name: "
      "'c' type: 'conv' } bottom: 'b' top: 'c' }",
      CREMA_E_UNSUPPORTED,
      "layer 'c' (conv): padding (layer \"p\") needs one bottom and one top, as does the "
      "layer after it");
}

TEST(batch_norm_statistics) {
  net_becomes(
      "layer { name: 'b' type: 'BatchNorm' param { lr_mult: 0 } param { name: 'n' } param "
      "{ } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    name: \"n\"\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n}\n",
      true);
}

TEST(batch_norm_that_scales) {
  net_becomes(
      "layer { name: 'a' } layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'y' include { "
      "phase: TEST } batch_norm_param { eps: 0.5 scale_bias: true scale_filler { value: 3 } } "
      "blobs { data: 1 } blobs { data: 2 } blobs { data: 1.25 } blobs { data: 4 } blobs { data: 5 "
      "} } "
      "layer { name: 'c' bottom: 'y' }",
      "layer {\n  name: \"a\"\n}\n"
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"y\"\n"
      "  blobs {\n    data: 1\n  }\n  blobs {\n    data: 2\n  }\n"
      "  blobs {\n    data: 1\n    shape {\n      dim: 1\n    }\n  }\n"
      "  include {\n    phase: TEST\n  }\n  batch_norm_param {\n    eps: 0.5\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"y\"\n  top: \"y\"\n"
      "  blobs {\n    data: 4\n  }\n  blobs {\n    data: 5\n  }\n  include {\n    phase: TEST\n  "
      "}\n"
      "  scale_param {\n    filler {\n      value: 3\n    }\n    bias_term: true\n  }\n}\n"
      "layer {\n  name: \"c\"\n  bottom: \"y\"\n}\n",
      true);
  /* A filler means the same; multipliers do not count. */
  net_becomes(
      "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'x' param { lr_mult: 1 } param {} "
      "param {} param { lr_mult: 0 name: 's' } batch_norm_param { bias_filler { value: 2 } } } "
      "layer { name: 'd' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { scale_bias: "
      "true } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n"
      "  batch_norm_param {\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    name: \"s\"\n  }\n  scale_param {\n    bias_term: true\n"
      "    bias_filler {\n      value: 2\n    }\n  }\n}\n"
      "layer {\n  name: \"d\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  batch_norm_param {\n  }\n}\n"
      "layer {\n  name: \"d/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  scale_param {\n    bias_term: true\n  }\n}\n",
      true);
}

/* Intel Caffe's fields: parameters 3 and 4 keep their multipliers, and what statistics are divided
 * by its value. */
TEST(batch_norm_of_intel) {
  net_becomes(
      "layer { name: 'b' type: 'BatchNorm' bottom: 'x' top: 'x' param {} param {} param {} "
      "param { lr_mult: 2 } param { lr_mult: 3 } batch_norm_param { filler { value: 4 } } "
      "blobs { data: 1 } blobs { data: 2 } blobs { data: 1.9 } blobs { data: 4 } blobs { data: 5 } "
      "} layer { name: 'c' type: 'BatchNorm' bottom: 'x' top: 'x' batch_norm_param { "
      "use_weight_bias: true bias_term: false } } layer { name: 'd' type: 'BatchNorm' bottom: 'x' "
      "top: 'x' batch_norm_param { use_weight_bias: false filler { value: 4 } } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n"
      "  blobs {\n    data: 1\n  }\n  blobs {\n    data: 2\n  }\n  blobs {\n    data: 1.9\n  }\n"
      "  batch_norm_param {\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    lr_mult: 2\n  }\n  param {\n    lr_mult: 3\n  }\n"
      "  blobs {\n    data: 4\n  }\n  blobs {\n    data: 5\n  }\n"
      "  scale_param {\n    filler {\n      value: 4\n    }\n    bias_term: true\n  }\n}\n"
      "layer {\n  name: \"c\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  batch_norm_param {\n  }\n}\n"
      "layer {\n  name: \"c/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  scale_param {\n    bias_term: false\n  }\n}\n"
      "layer {\n  name: \"d\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  batch_norm_param {\n    use_weight_bias: false\n    filler {\n      value: 4\n    }\n"
      "  }\n}\n",
      true);
  /* A model without the shift. */
  net_becomes(
      "layer { name: 'b' type: 'BatchNorm' top: 'x' blobs { data: 1 } blobs { data: 2 } "
      "blobs { data: 3 } blobs { data: 4 } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  top: \"x\"\n"
      "  blobs {\n    data: 1\n  }\n  blobs {\n    data: 2\n  }\n"
      "  blobs {\n    data: 3\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n"
      "  top: \"x\"\n  blobs {\n    data: 4\n  }\n  scale_param {\n"
      "    bias_term: false\n  }\n}\n",
      true);
}

/* PSPNet's BN has scale and shift before mean and variance. */
TEST(bn) {
  net_becomes(
      "layer { name: 'b' type: 'BN' bottom: 'x' top: 'y' param { lr_mult: 2 } param { name: 's' } "
      "bn_param { momentum: 0.5 eps: 0.25 slope_filler { value: 1 } bias_filler { value: 2 } } "
      "blobs { data: 1 } blobs { data: 2 } blobs { data: 3 } blobs { data: 4 } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"y\"\n"
      "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n"
      "  blobs {\n    data: 6\n  }\n  blobs {\n    data: 8\n  }\n"
      "  blobs {\n    data: 2\n    shape {\n      dim: 1\n    }\n  }\n"
      "  batch_norm_param {\n    moving_average_fraction: 0.5\n    eps: 0.25\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"y\"\n  top: \"y\"\n"
      "  param {\n    lr_mult: 2\n  }\n  param {\n    name: \"s\"\n  }\n"
      "  blobs {\n    data: 1\n  }\n  blobs {\n    data: 2\n  }\n"
      "  scale_param {\n    filler {\n      value: 1\n    }\n    bias_term: true\n"
      "    bias_filler {\n      value: 2\n    }\n  }\n}\n",
      true);
  net_becomes(
      "layer { name: 'b' type: 'BN' bottom: 'x' top: 'x' bn_param { frozen: true } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n"
      "  batch_norm_param {\n    use_global_stats: true\n    moving_average_fraction: 0.9\n"
      "    eps: 1e-05\n    initial_variance: 1\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  param {\n    lr_mult: 0\n    decay_mult: 0\n  }\n  param {\n    lr_mult: 0\n"
      "    decay_mult: 0\n  }\n  scale_param {\n    bias_term: true\n  }\n}\n",
      true);
  net_becomes(
      "layer { name: 'b' type: 'BN' bn_param { momentum: 1 } blobs { } blobs { } "
      "blobs { data: 3 } blobs { double_data: 4 } }",
      "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n"
      "  blobs {\n    data: 3e+06\n  }\n  blobs {\n    double_data: 4000000\n  }\n"
      "  blobs {\n    data: 1e+06\n    shape {\n      dim: 1\n    }\n  }\n"
      "  batch_norm_param {\n    moving_average_fraction: 1\n    eps: 1e-05\n  }\n}\n"
      "layer {\n  name: \"b/scale_bias\"\n  type: \"Scale\"\n"
      "  blobs {\n  }\n  blobs {\n  }\n"
      "  scale_param {\n    bias_term: true\n  }\n}\n",
      true);
  net_fails("layer { name: 'b' type: 'BN' top: 'x' blobs { } blobs { } blobs { } }",
            CREMA_E_UNSUPPORTED,
            "layer 'b' (BN): BN of 3 parameters is not supported, it has four: scale, shift, mean, "
            "variance");
}

/* In TEST, py-faster-rcnn's Dropout multiplies by what the others divide by in TRAIN. */
TEST(dropout_that_scales_in_tests) {
  net_becomes(
      "layer { name: 'd' type: 'Dropout' bottom: 'x' top: 'x' dropout_param { dropout_ratio: 0.25 "
      "scale_train: false } } layer { name: 'e' type: 'Dropout' dropout_param { scale_train: true "
      "} }",
      "layer {\n  name: \"d\"\n  type: \"Dropout\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  dropout_param {\n    dropout_ratio: 0.25\n  }\n}\n"
      "layer {\n  name: \"d/scale\"\n  type: \"Power\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  power_param {\n    scale: 0.75\n  }\n}\n"
      "layer {\n  name: \"e\"\n  type: \"Dropout\"\n  dropout_param {\n  }\n}\n",
      true);
  net_fails("layer { name: 'd' type: 'Dropout' dropout_param { scale_train: false } }",
            CREMA_E_UNSUPPORTED, "layer 'd' (Dropout): scale_train needs one top, found 0");
}

/* Intel Caffe's ReLU in a layer becomes one behind it, with its rules and without its weights. */
TEST(layers_that_rectify) {
  net_becomes(
      "layer { name: 'a' type: 'Convolution' bottom: 'x' top: 'y' param { lr_mult: 2 } include { "
      "phase: TEST } convolution_param { num_output: 3 relu: true negative_slope: 0.25 } blobs { "
      "data: 1 } } layer { name: 'b' type: 'InnerProduct' bottom: 'y' top: 'z' inner_product_param "
      "{ num_output: 2 relu: true } } layer { name: 'c' type: 'BatchNorm' bottom: 'z' top: 'z' "
      "batch_norm_param { relu: true } } layer { name: 'd' convolution_param { relu: false } }",
      "layer {\n  name: \"a\"\n  type: \"Convolution\"\n  bottom: \"x\"\n  top: \"y\"\n"
      "  param {\n    lr_mult: 2\n  }\n  blobs {\n    data: 1\n  }\n  include {\n"
      "    phase: TEST\n  }\n  convolution_param {\n    num_output: 3\n  }\n}\n"
      "layer {\n  name: \"a/relu\"\n  type: \"ReLU\"\n  bottom: \"y\"\n  top: \"y\"\n"
      "  include {\n    phase: TEST\n  }\n  relu_param {\n    negative_slope: 0.25\n  }\n}\n"
      "layer {\n  name: \"b\"\n  type: \"InnerProduct\"\n  bottom: \"y\"\n  top: \"z\"\n"
      "  inner_product_param {\n    num_output: 2\n  }\n}\n"
      "layer {\n  name: \"b/relu\"\n  type: \"ReLU\"\n  bottom: \"z\"\n  top: \"z\"\n"
      "  relu_param {\n  }\n}\n"
      "layer {\n  name: \"c\"\n  type: \"BatchNorm\"\n  bottom: \"z\"\n  top: \"z\"\n"
      "  batch_norm_param {\n  }\n}\n"
      "layer {\n  name: \"c/relu\"\n  type: \"ReLU\"\n  bottom: \"z\"\n  top: \"z\"\n"
      "  relu_param {\n  }\n}\n"
      "layer {\n  name: \"d\"\n  convolution_param {\n    relu: false\n  }\n}\n",
      true);
  net_fails("layer { name: 'a' top: 'x' top: 'y' convolution_param { relu: true } }",
            CREMA_E_UNSUPPORTED, "layer 'a': relu needs one top, found 2");
}

TEST(batch_size_of_statistics) {
  net_becomes("bn_stats_batch_size: 4 layer { name: 'a' } layer { name: 'b' type: 'BatchNorm' }",
              "layer {\n  name: \"a\"\n}\n"
              "layer {\n  name: \"b\"\n  type: \"BatchNorm\"\n  batch_norm_param {\n"
              "    stats_batch_size: 4\n  }\n}\n",
              true);
}

TEST(ceil_mode_of_pooling) {
  net_becomes(
      "layer { name: 'p' pooling_param { ceil_mode: false } } layer { pooling_param { ceil_mode: "
      "true } }",
      "layer {\n  name: \"p\"\n  pooling_param {\n    round_mode: FLOOR\n  }\n}\n"
      "layer {\n  pooling_param {\n    round_mode: CEIL\n  }\n}\n",
      true);
  net_becomes("layers { type: POOLING pooling_param { ceil_mode: false } }",
              "layer {\n  type: \"Pooling\"\n  pooling_param {\n    round_mode: FLOOR\n  }\n}\n",
              true);
  net_fails("layer { name: 'p' pooling_param { ceil_mode: true round_mode: CEIL } }", CREMA_E_PARSE,
            "layer 'p': both \"ceil_mode\" and \"round_mode\" are given; use \"round_mode\"");
}

TEST(volumes_of_c3d) {
  net_becomes(
      "input: 'x' input_dim: [1, 2, 4, 6, 8] layers { name: 'c' type: CONVOLUTION3D "
      "convolution_param { num_output: 3 kernel_size: 3 kernel_depth: 5 pad: 1 temporal_pad: 2 "
      "filter_group: 2 } } layers { type: POOLING3D pooling_param { kernel_size: 2 kernel_depth: 1 "
      "stride: 2 } } layers { type: DECONVOLUTION3D convolution_param { kernel_size: 2 "
      "kernel_depth: 4 temporal_stride: 3 } }",
      "layer {\n  name: \"input\"\n  type: \"Input\"\n  top: \"x\"\n  input_param {\n"
      "    shape {\n      dim: 1\n      dim: 2\n      dim: 4\n      dim: 6\n      dim: 8\n"
      "    }\n  }\n}\n"
      "layer {\n  name: \"c\"\n  type: \"Convolution\"\n  convolution_param {\n"
      "    num_output: 3\n    pad: 2\n    pad: 1\n    pad: 1\n    kernel_size: 5\n"
      "    kernel_size: 3\n    kernel_size: 3\n    stride: 1\n    stride: 1\n    stride: 1\n"
      "  }\n}\n"
      "layer {\n  type: \"Pooling\"\n  pooling_param {\n    pad_3d: 0\n    pad_3d: 0\n"
      "    pad_3d: 0\n    kernel_size_3d: 1\n    kernel_size_3d: 2\n    kernel_size_3d: 2\n"
      "    stride_3d: 1\n    stride_3d: 2\n    stride_3d: 2\n  }\n}\n"
      "layer {\n  type: \"Deconvolution\"\n  convolution_param {\n    pad: 0\n    pad: 0\n"
      "    pad: 0\n    kernel_size: 4\n    kernel_size: 2\n    kernel_size: 2\n    stride: 3\n"
      "    stride: 1\n    stride: 1\n  }\n}\n",
      true);
  net_becomes(
      "layer { type: 'Pooling3D' pooling3d_param { pool: AVE kernel_size: 2 kernel_depth: 1 "
      "temporal_stride: 2 } }",
      "layer {\n  type: \"Pooling\"\n  pooling_param {\n    pool: AVE\n    pad_3d: 0\n"
      "    pad_3d: 0\n    pad_3d: 0\n    kernel_size_3d: 1\n    kernel_size_3d: 2\n"
      "    kernel_size_3d: 2\n    stride_3d: 2\n    stride_3d: 1\n    stride_3d: 1\n"
      "  }\n}\n",
      true);
  net_fails("layer { name: 'c' type: 'Convolution3D' convolution3d_param { kernel_size: 3 } }",
            CREMA_E_ARGUMENT, "layer 'c' (Convolution3D): kernel_depth is required");
  net_fails("layer { name: 'p' type: 'Pooling3D' pooling_param {} pooling3d_param {} }",
            CREMA_E_PARSE,
            "layer 'p' (Pooling3D): both \"pooling3d_param\" and \"pooling_param\" are given; "
            "use \"pooling_param\"");
  net_fails("layer { name: 'c' convolution_param { kernel_size: [3, 2] kernel_depth: 1 } }",
            CREMA_E_PARSE,
            "layer 'c': with kernel_depth, kernel_size takes one value, for height and width");
  net_fails("layer { name: 'p' pooling_param { kernel_size: [3, 2] kernel_depth: 1 } }",
            CREMA_E_PARSE,
            "layer 'p': with kernel_depth, kernel_size takes one value, for height and width");
  net_fails("input: 'x' input_dim: [1, 2, 3]", CREMA_E_SHAPE,
            "the net has 1 \"input\" but 3 \"input_dim\"; 4 each are needed");
}

TEST(volumes_of_video_caffe) {
  net_becomes(
      "layer { type: 'NdConvolution' convolution_param { kernel_shape { dim: 3 dim: 2 dim: 1 "
      "} stride_shape { dim: 1 dim: 2 dim: 2 } pad_shape { dim: 1 dim: 0 dim: 0 } } } "
      "layer { type: 'NdPooling' pooling_param { kernel_shape { dim: 1 dim: 2 dim: 2 } } }",
      "layer {\n  type: \"Convolution\"\n  convolution_param {\n    pad: 1\n    pad: 0\n"
      "    pad: 0\n    kernel_size: 3\n    kernel_size: 2\n    kernel_size: 1\n"
      "    stride: 1\n    stride: 2\n    stride: 2\n  }\n}\n"
      "layer {\n  type: \"Pooling\"\n  pooling_param {\n    kernel_size_3d: 1\n"
      "    kernel_size_3d: 2\n    kernel_size_3d: 2\n  }\n}\n",
      true);
  net_fails(
      "layer { name: 'c' type: 'NdConvolution' convolution_param { kernel_size: 2 "
      "kernel_shape { dim: 3 } } }",
      CREMA_E_PARSE,
      "layer 'c' (NdConvolution): both \"kernel_size\" and \"kernel_shape\" are given; use "
      "\"kernel_shape\"");
  net_fails("layer { name: 'p' type: 'NdPooling' pooling_param { kernel_shape { dim: -1 } } }",
            CREMA_E_RANGE, "layer 'p' (NdPooling): an entry of kernel_size_3d is -1");
  net_fails(
      "layer { name: 'p' pooling_param { kernel_depth: 1 kernel_shape { dim: 1 } } }",
      CREMA_E_PARSE,
      "layer 'p': both \"kernel_depth\" and \"kernel_shape\" are given; use \"kernel_shape\"");
}

TEST(clips_of_forks) {
  net_becomes(
      "layer { name: 'd' type: 'VideoData' video_data_param { source: 'l' batch_size: 2 "
      "new_length: 3 shuffle: true root_folder: 'r' grayscale: true crop_size: 5 } }",
      "layer {\n  name: \"d\"\n  type: \"VideoClips\"\n  transform_param {\n"
      "    crop_size: 5\n  }\n  image_data_param {\n    source: \"l\"\n    batch_size: 2\n"
      "    shuffle: true\n    is_color: false\n    root_folder: \"r\"\n  }\n"
      "  video_data_param {\n    new_length: 3\n  }\n}\n",
      true);
  net_becomes(
      "layers { type: VIDEO_DATA image_data_param { source: 'l' new_length: 3 mean_value: 4 "
      "mirror: true } }",
      "layer {\n  type: \"VideoClips\"\n  transform_param {\n    mirror: true\n"
      "    mean_value: 4\n  }\n  image_data_param {\n    source: \"l\"\n  }\n"
      "  video_data_param {\n    new_length: 3\n    use_image: false\n  }\n}\n",
      true);
  net_fails(
      "layer { name: 'd' type: 'VideoData' image_data_param {} video_data_param { source: 'l' "
      "} }",
      CREMA_E_PARSE,
      "layer 'd' (VideoData): both \"image_data_param\" and \"video_data_param\" are given; use "
      "\"video_data_param\"");
}

/* DeepLab's first version, and FCN's. */
TEST(segmentation_of_the_second_format) {
  net_becomes(
      "layers { name: 'd' type: IMAGE_SEG_DATA image_data_param { has_label: false } "
      "strict_dim: false }",
      "layer {\n  name: \"d\"\n  type: \"ImageSegData\"\n  image_data_param {\n"
      "    label_type: NONE\n  }\n}\n",
      true);
  net_becomes(
      "layers { type: IMAGE_SEG_DATA image_data_param { has_label: true } } layers { type: "
      "SEG_ACCURACY seg_accuracy_param { ignore_label: 255 } } layers { type: DENSE_CRF "
      "dense_crf_param { max_iter: 2 } }",
      "layer {\n  type: \"ImageSegData\"\n  image_data_param {\n  }\n}\n"
      "layer {\n  type: \"SegAccuracy\"\n  seg_accuracy_param {\n    ignore_label: 255\n"
      "  }\n}\nlayer {\n  type: \"DenseCRF\"\n  dense_crf_param {\n    max_iter: 2\n"
      "  }\n}\n",
      true);
  net_becomes(
      "layers { type: SOFTMAX_LOSS softmaxloss_param { ignore_label: 255 } } layers { "
      "type: INTERP interp_param { zoom_factor: 8 } } layers { type: PADDING "
      "padding_param { pad_end: -1 } }",
      "layer {\n  type: \"SoftmaxWithLoss\"\n  loss_param {\n    ignore_label: 255\n"
      "  }\n}\nlayer {\n  type: \"Interp\"\n  interp_param {\n    zoom_factor: 8\n"
      "  }\n}\nlayer {\n  type: \"Interp\"\n  interp_param {\n    zoom_factor: 1\n"
      "    pad_beg: 0\n    pad_end: -1\n  }\n}\n",
      true);
  /* DeconvNet's. Its models have the number of MAT_WRITE for BN. */
  net_becomes(
      "layers { name: 'b' type: BN bn_param { bn_mode: INFERENCE } } layers { type: UNPOOLING "
      "unpooling_param { kernel_size: 2 } }",
      "layer {\n  name: \"b\"\n  type: \"Scale\"\n  scale_param {\n    bias_term: true\n  }\n}\n"
      "layer {\n  type: \"Unpooling\"\n  unpooling_param {\n    kernel_size: 2\n  }\n}\n",
      true);
  net_becomes("layers { name: 'b' type: MAT_WRITE blobs { data: 1 } blobs { data: 2 } }",
              "layer {\n  name: \"b/norm\"\n  type: \"BatchNorm\"\n  batch_norm_param {\n"
              "    use_global_stats: false\n    eps: 1e-09\n  }\n}\n"
              "layer {\n  name: \"b\"\n  type: \"Scale\"\n  blobs {\n    data: 1\n  }\n"
              "  blobs {\n    data: 2\n  }\n  scale_param {\n    bias_term: true\n  }\n}\n",
              true);
  net_becomes("layers { type: LOCAL local_param { num_output: 2 } }",
              "layer {\n  type: \"Local\"\n  local_param {\n    num_output: 2\n  }\n}\n", true);
  net_becomes("layers { type: CROP bottom: 'x' bottom: 'like' top: 'y' }",
              "layer {\n  type: \"Crop\"\n  bottom: \"x\"\n  bottom: \"like\"\n  top: \"y\"\n}\n",
              true);
  net_becomes(
      "layers { type: MAT_WRITE mat_write_param { prefix: 'p' strip: 0 period: 1 } include "
      "{ phase: TEST } }",
      "layer {\n  type: \"MatWrite\"\n  include {\n    phase: TEST\n  }\n"
      "  mat_write_param {\n    prefix: \"p\"\n    strip: 0\n    period: 1\n  }\n}\n",
      true);
  net_fails("layers { name: 'l' softmaxloss_param { ignore_label: [1, 2] } }", CREMA_E_UNSUPPORTED,
            "layer 'l': 2 labels are ignored; one at most is supported");
  net_fails("layers { name: 'l' softmaxloss_param { weight_source: 'w' } }", CREMA_E_UNSUPPORTED,
            "layer 'l': weight_source of softmaxloss_param is not supported");
}

TEST(names_of_other_forks) {
  net_becomes("layers { convolution_param { hole: 4 } }",
              "layer {\n  convolution_param {\n    dilation: 4\n  }\n}\n", true);
  net_becomes("layer { convolution_param { hole_h: 2 hole: 3 } }",
              "layer {\n  convolution_param {\n    dilation: 2\n    dilation: 3\n  }\n}\n", true);
  net_becomes("layer { transform_param { crop_height: 4 crop_width: 5 } }",
              "layer {\n  transform_param {\n    crop_h: 4\n    crop_w: 5\n  }\n}\n", true);
  net_becomes("layer { type: 'SeLuDropout' selu_dropout_param { dropout_ratio: 0.25 } }",
              "layer {\n  type: \"SeLuDropout\"\n  dropout_param {\n    dropout_ratio: 0.25\n"
              "  }\n}\n",
              true);
  net_becomes(
      "layer { type: 'SoftmaxWithLoss' top: ['a', 'b', 'c'] } layer { type: 'SmoothL1Loss' "
      "top: ['d', 'e'] } layer { type: 'SoftmaxWithLoss' top: ['f', 'g'] }",
      "layer {\n  type: \"SoftmaxWithLossOHEM\"\n  top: \"a\"\n  top: \"b\"\n"
      "  top: \"c\"\n}\nlayer {\n  type: \"SmoothL1LossOHEM\"\n  top: \"d\"\n"
      "  top: \"e\"\n}\nlayer {\n  type: \"SoftmaxWithLoss\"\n  top: \"f\"\n"
      "  top: \"g\"\n}\n",
      true);
  net_becomes(
      "layer { type: 'SoftmaxWithLoss' bottom: ['a', 'b', 'c'] } layer { type: "
      "'SoftmaxFocalLoss' } layer { type: 'focalSoftmaxWithLoss' }",
      "layer {\n  type: \"WeightedSoftmaxWithLoss\"\n  bottom: \"a\"\n  bottom: \"b\"\n"
      "  bottom: \"c\"\n}\nlayer {\n  type: \"FocalLoss\"\n}\nlayer {\n  type: \"FocalLoss\"\n}\n",
      true);
  net_becomes("layer { type: 'CTCDecoder' } layer { type: 'CTCBeamSearchDecoder' }",
              "layer {\n  type: \"CTCGreedyDecoder\"\n  ctc_param {\n  }\n}\nlayer {\n"
              "  type: \"CTCGreedyDecoder\"\n  ctc_decoder_param {\n    beam_width: 1000\n  }\n}\n",
              true);
  net_becomes("layer { type: 'SoftmaxWithLoss' weighted_softmax_param { positions: '1' } }",
              "layer {\n  type: \"WeightedSoftmaxWithLoss\"\n  weighted_softmax_param {\n"
              "    positions: \"1\"\n  }\n}\n",
              true);
  net_becomes("layer { type: 'CtcLoss' } layer { type: 'WarpCTCLoss' }",
              "layer {\n  type: \"CTCLoss\"\n}\nlayer {\n  type: \"CTCLoss\"\n}\n", true);
  net_fails("layer { name: 'l' convolution_param { hole: 1 dilation: 1 } }", CREMA_E_PARSE,
            "layer 'l': both \"hole\" and \"dilation\" are given; use \"dilation\"");
  net_fails("layer { name: 'l' transform_param { crop_height: 1 } }", CREMA_E_PARSE,
            "layer 'l': crop_height and crop_width belong together, without crop_size");
  net_fails("layer { name: 'l' transform_param { crop_height: 1 crop_w: 1 } }", CREMA_E_PARSE,
            "layer 'l': both \"crop_height\" and \"crop_h\" are given; use \"crop_h\"");
  net_fails("layer { name: 'l' image_data_param { has_label: false label_type: PIXEL } }",
            CREMA_E_PARSE,
            "layer 'l': both \"has_label\" and \"label_type\" are given; use \"label_type\"");
  net_fails("layer { name: 'l' selu_dropout_param { } dropout_param { } }", CREMA_E_PARSE,
            "layer 'l': both \"selu_dropout_param\" and \"dropout_param\" are given; use "
            "\"dropout_param\"");
}

TEST(solvers) {
  static const char *const names[] = {"SGD",      "Nesterov", "AdaGrad", "RMSProp",
                                      "AdaDelta", "Adam",     "SAG"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    char text[64];
    char expected[64];
    snprintf(text, sizeof text, "solver_type: %zu", i);
    snprintf(expected, sizeof expected, "type: \"%s\"\n", names[i]);
    ProtobufCMessage *message = must_parse(SOLVER, text);
    ok(cr_solver_param_upgrade((Caffe__SolverParameter *)message, NULL));
    must_print(message, expected);
    cr_message_free(message);
  }
  ProtobufCMessage *both = must_parse(SOLVER, "solver_type: SGD type: 'Adam'");
  assert_int_equal(cr_solver_param_upgrade((Caffe__SolverParameter *)both, NULL), CREMA_E_PARSE);
  cr_message_free(both);
  ProtobufCMessage *inside = must_parse(SOLVER, "net_param { layers { type: RELU } }");
  ok(cr_solver_param_upgrade((Caffe__SolverParameter *)inside, NULL));
  must_print(inside, "net_param {\n  layer {\n    type: \"ReLU\"\n  }\n}\n");
  cr_message_free(inside);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
