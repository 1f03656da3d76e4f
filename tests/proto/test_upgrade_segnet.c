/* Upgrades of what the forks of SegNet and ENet have. */
#include "proto/wire_format.h"
#include "upgrade_case.h"

/* SegNet's BN has a scale and a shift alone, which keep its name. */
TEST(bn_of_segnet) {
  net_becomes(
      "layer { name: 'b' type: 'BN' bottom: 'x' top: 'y' param { lr_mult: 2 } param { name: 's' } "
      "bn_param { scale_filler { value: 1 } shift_filler { value: 2 } } } layer { name: 'c' }",
      "layer {\n  name: \"b/norm\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"y\"\n"
      "  batch_norm_param {\n    use_global_stats: false\n    eps: 1e-09\n  }\n}\n"
      "layer {\n  name: \"b\"\n  type: \"Scale\"\n  bottom: \"y\"\n  top: \"y\"\n"
      "  param {\n    lr_mult: 2\n  }\n  param {\n    name: \"s\"\n  }\n"
      "  scale_param {\n    filler {\n      value: 1\n    }\n    bias_term: true\n"
      "    bias_filler {\n      value: 2\n    }\n  }\n}\nlayer {\n  name: \"c\"\n}\n",
      true);
  net_becomes(
      "layer { name: 'b' type: 'BN' bottom: 'x' top: 'y' bn_param { bn_mode: INFERENCE "
      "shift_filler { value: 2 } } }",
      "layer {\n  name: \"b\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"y\"\n"
      "  scale_param {\n    bias_term: true\n    bias_filler {\n      value: 2\n    }\n"
      "  }\n}\n",
      true);
  net_becomes(
      "layer { name: 'b' type: 'BN' bottom: 'x' top: 'x' top: 'm' top: 'v' "
      "bn_param { bn_mode: LEARN } }",
      "layer {\n  name: \"b/norm\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  top: \"m\"\n  top: \"v\"\n"
      "  batch_norm_param {\n    use_global_stats: false\n    eps: 1e-09\n  }\n}\n"
      "layer {\n  name: \"b\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"x\"\n"
      "  scale_param {\n    bias_term: true\n  }\n}\n",
      true);
  net_fails("layer { name: 'b' type: 'BN' top: 'x' top: 'm' bn_param { bn_mode: INFERENCE } }",
            CREMA_E_UNSUPPORTED,
            "layer 'b' (BN): a BN in mode INFERENCE has no statistics for 2 tops");
  net_fails(
      "layer { name: 'b' type: 'BN' bn_param { bn_mode: LEARN frozen: true } }", CREMA_E_PARSE,
      "layer 'b' (BN): BN with bn_mode, scale_filler or shift_filler (SegNet) has no momentum, "
      "eps and frozen (PSPNet)");
}

/* In models its fields have other numbers; the mode tells whether there are statistics. */
TEST(bn_of_segnet_in_models) {
  static const struct {
    const char *mode, *expected;
  } models[] = {
      {"\030\001", "layer {\n  name: \"b\"\n  type: \"Scale\"\n  bottom: \"x\"\n  top: \"y\"\n"},
      {"",
       "layer {\n  name: \"b/norm\"\n  type: \"BatchNorm\"\n  bottom: \"x\"\n  top: \"y\"\n"
       "  batch_norm_param {\n    use_global_stats: false\n    eps: 1e-09\n  }\n}\n"
       "layer {\n  name: \"b\"\n  type: \"Scale\"\n  bottom: \"y\"\n  top: \"y\"\n"}};
  for (size_t i = 0; i < sizeof models / sizeof models[0]; ++i) {
    cr_buffer bytes = {0}, layer = {0}, expected = {0};
    ProtobufCMessage *message = NULL;
    const size_t mode = strlen(models[i].mode);
    /* name, type, bottom, top; blobs of legacy extents 1 x 2 x 1 x 1; bn_param, number 45 */
    static const char head[] = "\n\001b\022\002BN\032\001x\"\001y";
    static const char blobs[] =
        ":\022\010\001\020\002\030\001 \001*\010\000\000\200?\000\000\000@"
        ":\022\010\001\020\002\030\001 \001*\010\000\000@@\000\000\200@";
    ok(cr_buffer_append(&layer, head, sizeof head - 1));
    ok(cr_buffer_append(&layer, blobs, sizeof blobs - 1));
    /* scale_filler is its number 1, and holds the value 0.5 */
    ok(cr_buffer_print(&layer, "\352\002%c\n\005\025", (int)(7 + mode)));
    ok(cr_buffer_append(&layer, "\000\000\000?", 4));
    ok(cr_buffer_append(&layer, models[i].mode, mode));
    ok(cr_buffer_print(&bytes, "\242\006%c", (int)layer.size));
    ok(cr_buffer_append(&bytes, layer.data, layer.size));
    const cr_wire_input input = {.bytes = (const uint8_t *)bytes.data, .size = bytes.size};
    ok(cr_message_parse(NET, "model", &input, &message));
    ok(cr_net_param_upgrade((Caffe__NetParameter *)message, NULL, NULL));
    ok(cr_buffer_print(
        &expected, "%s%s", models[i].expected,
        "  blobs {\n    data: 1\n    data: 2\n    shape {\n      dim: 2\n    }\n  }\n"
        "  blobs {\n    data: 3\n    data: 4\n    shape {\n      dim: 2\n    }\n  }\n"
        "  scale_param {\n    filler {\n      value: 0.5\n    }\n"
        "    bias_term: true\n  }\n}\n"));
    must_print(message, expected.data);
    cr_message_free(message);
    cr_buffer_free(&expected);
    cr_buffer_free(&layer);
    cr_buffer_free(&bytes);
  }
}

TEST(data_of_segnet) {
  net_becomes(
      "layer { name: 'd' type: 'DenseImageData' top: 'x' top: 'y' transform_param { scale: 2 } "
      "dense_image_data_param { source: 's' batch_size: 3 rand_skip: 4 shuffle: true new_height: 5 "
      "new_width: 6 is_color: false root_folder: 'r' mean_file: 'm' mirror: true crop_width: 7 "
      "crop_height: 8 label_divide_factor: 1 } }",
      "layer {\n  name: \"d\"\n  type: \"ImageSegData\"\n  top: \"x\"\n  top: \"y\"\n"
      "  transform_param {\n    scale: 2\n    mirror: true\n    crop_h: 8\n    crop_w: 7\n  }\n"
      "  image_data_param {\n    source: \"s\"\n    batch_size: 3\n    rand_skip: 4\n"
      "    shuffle: true\n    new_height: 5\n    new_width: 6\n    is_color: false\n"
      "    root_folder: \"r\"\n  }\n}\n",
      true);
  net_becomes("layer { name: 'd' type: 'ImageLabelmapData' image_data_param { source: 'l' } }",
              "layer {\n  name: \"d\"\n  type: \"ImageSegData\"\n  image_data_param {\n"
              "    source: \"l\"\n    label_scale: 0.00392156886\n    round_labels: true\n  }\n}\n",
              true);
  net_becomes("layer { name: 'd' type: 'DenseImageData' top: 'x' }",
              "layer {\n  name: \"d\"\n  type: \"ImageSegData\"\n  top: \"x\"\n}\n", true);
  net_fails(
      "layer { name: 'd' type: 'DenseImageData' dense_image_data_param { "
      "label_divide_factor: 8 } }",
      CREMA_E_UNSUPPORTED, "layer 'd' (DenseImageData): label_divide_factor is not supported");
  net_fails("layer { name: 'd' type: 'DenseImageData' dense_image_data_param { crop_width: 8 } }",
            CREMA_E_PARSE,
            "layer 'd' (DenseImageData): crop_height and crop_width belong together");
  net_fails(
      "layer { name: 'd' type: 'DenseImageData' transform_param { crop_size: 4 } "
      "dense_image_data_param { crop_width: 8 crop_height: 8 } }",
      CREMA_E_PARSE,
      "layer 'd' (DenseImageData): both dense_image_data_param and transform_param cut a part out");
}

TEST(weights_of_classes) {
  net_becomes(
      "layer { name: 'l' type: 'SoftmaxWithLoss' softmax_param { axis: 2 engine: CAFFE } "
      "loss_param "
      "{ ignore_label: 3 weight_by_label_freqs: true class_weighting: [1, 2] } }"
      "layer { name: 'm' type: 'SoftmaxWithLoss' loss_param { class_weighting: [1, 2] } }",
      "layer {\n  name: \"l\"\n  type: \"InfogainLoss\"\n"
      "  loss_param {\n    ignore_label: 3\n    class_weighting: 1\n    class_weighting: 2\n  }\n"
      "  infogain_loss_param {\n    axis: 2\n  }\n}\n"
      "layer {\n  name: \"m\"\n  type: \"SoftmaxWithLoss\"\n  loss_param {\n  }\n}\n",
      true);
  net_fails(
      "layer { name: 'l' type: 'SoftmaxWithLoss' loss_param { weight_by_label_freqs: true } }",
      CREMA_E_ARGUMENT, "layer 'l' (SoftmaxWithLoss): weight_by_label_freqs needs class_weighting");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
