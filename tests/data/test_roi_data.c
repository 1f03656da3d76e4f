/* RoIData: a picture at a time, boxes in pixels that follow it; and nets of py-faster-rcnn. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "fixture.h"
#include "net/net_values.h"
#include "proto/proto.h"

enum { RECORDS = 3 };

/* Record i: 40 pixels high, 20 + 20 i wide, dark, with a bright rectangle that is of class i + 1,
 * and a difficult object of class 7. */
static void put_record(int index, cr_buffer *value) {
  const int height = 40, width = 20 + 20 * index, x1 = 4 + index, y1 = 6, x2 = 14 + index, y2 = 26;
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  ok(cr_buffer_print(&text, "datum { channels: 3 height: %d width: %d data: \"", height, width));
  for (int i = 0; i < 3 * height * width; ++i) {
    const int y = i / width % height, x = i % width;
    ok(cr_buffer_print(&text, x >= x1 && x < x2 && y >= y1 && y < y2 ? "\\310" : "\\000"));
  }
  ok(cr_buffer_print(
      &text,
      "\" } type: BBOX annotation_group { group_label: %d annotation { bbox { xmin: %f "
      "ymin: %f xmax: %f ymax: %f } } } annotation_group { group_label: 7 annotation { "
      "bbox { xmin: 0.5 ymin: 0.5 xmax: 1 ymax: 1 difficult: true } } }",
      index + 1, (double)x1 / width, (double)y1 / height, (double)x2 / width, (double)y2 / height));
  ok(cr_text_parse(&caffe__annotated_datum__descriptor, text.data, text.size, "test",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, value));
  cr_message_free(message);
  cr_buffer_free(&text);
}

static crema_status make_net(const char *db, const char *param, const char *rest, int64_t seed,
                             crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, seed, NULL);
  return parse_net(&options, NULL, out,
                   "layer { name: 'in' type: 'RoIData' top: 'data' top: 'info' top: 'boxes' "
                   "top: 'label' data_param { backend: LMDB source: '%s' %s } %s }",
                   db, param, rest);
}

/* The box is around the bright rectangle, whatever was done to the picture. */
static void check_box(crema_net *net, int record, double scale, bool *mirrored) {
  const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
  const int height = (int)shape->dim[2], width = (int)shape->dim[3];
  const float *info = values(net, "info"), *box = values(net, "boxes"), *data = values(net, "data");
  const float *label = values(net, "label");
  assert_true(info[0] == (float)height && info[1] == (float)width);
  assert_true(fabs((double)info[2] - scale) < 1e-6);
  assert_int_equal(height, lrint(40 * scale));
  assert_int_equal(width, lrint((20 + 20 * record) * scale));
  assert_int_equal(crema_blob_count(blob_of(net, "boxes")), 5);
  assert_int_equal(crema_blob_count(blob_of(net, "label")), 16);
  assert_true(box[4] == (float)(record + 1) && label[1] == box[4] && label[8 + 1] == 7);
  assert_true(label[7] == 0 && label[8 + 7] == 1);
  int at[4] = {width, height, -1, -1};
  for (int i = 0; i < height * width; ++i) {
    if (data[i] < 100) continue;
    const int x = i % width, y = i / width;
    at[0] = x < at[0] ? x : at[0];
    at[1] = y < at[1] ? y : at[1];
    at[2] = x > at[2] ? x : at[2];
    at[3] = y > at[3] ? y : at[3];
  }
  const int extent[2] = {width, height};
  for (int k = 0; k < 4; ++k) {
    assert_true(fabs((double)box[k] - at[k]) <= (scale == 1 ? 1e-4 : 1));
    const double end = k < 2 ? 0 : 1;
    assert_true(fabs((double)label[3 + k] * extent[k % 2] - end - (double)box[k]) < 1e-3);
  }
  *mirrored = label[8 + 3] == 0;
}

FIXTURE_TEST(boxes_follow_the_picture) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  static const struct {
    const char *fields;
    double scale[RECORDS];
  } sizes[] = {{"roi_data_param { short_side: 0 }", {1, 1, 1}},
               {"roi_data_param { short_side: 60 }", {3, 1.5, 1.5}},
               {"roi_data_param { short_side: 60 max_side: 80 }", {2, 1.5, 80.0 / 60}},
               {"roi_data_param { short_side: 10 max_side: 0 }", {0.5, 0.25, 0.25}},
               {"", {25, 15, 15}}};
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; ++k) {
    bool mirrored = false;
    crema_net *net = NULL;
    ok(make_net(db, "batch_size: 1", sizes[k].fields, 1, &net));
    for (int i = 0; i < 4; ++i) {
      forward(net);
      check_box(net, i % RECORDS, sizes[k].scale[i % RECORDS], &mirrored);
      assert_false(mirrored);
    }
    crema_net_destroy(net);
  }
}

/* Some pictures are mirrored, some are of another size; both by the seed. */
FIXTURE_TEST(mirrors_and_sizes_are_drawn) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  bool found[2][24];
  float heights[24];
  for (int run = 0; run < 2; ++run) {
    int seen[2] = {0}, tall = 0;
    crema_net *net = NULL;
    ok(make_net(db, "batch_size: 1",
                "roi_data_param { short_side: 20 short_side: 30 } transform_param { mirror: true }",
                7, &net));
    for (int i = 0; i < 24; ++i) {
      forward(net);
      const double side = (double)fminf(values(net, "info")[0], values(net, "info")[1]);
      const int record = i % RECORDS;
      check_box(net, record, side / fmin(40, 20 + 20 * record), &found[run][i]);
      if (run == 1) assert_true(heights[i] == values(net, "info")[0]);
      heights[i] = values(net, "info")[0];
      ++seen[found[run][i]];
      tall += side == 30;
    }
    assert_true(seen[0] > 3 && seen[1] > 3 && tall > 3 && tall < 21);
    crema_net_destroy(net);
  }
  assert_memory_equal(found[0], found[1], sizeof found[0]);
}

FIXTURE_TEST(what_makes_no_sense_is_refused) {
  const fixture *f = *state;
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  crema_net *net = NULL;
  assert_int_equal(make_net(db, "batch_size: 2", "", 1, &net), CREMA_E_ARGUMENT);
  assert_error_has("batch_size is 2, must be 1");
  assert_int_equal(make_net(db, "batch_size: 1", "transform_param { crop_size: 9 }", 1, &net),
                   CREMA_E_UNSUPPORTED);
  assert_error_has("crops");
  assert_int_equal(
      make_net(db, "batch_size: 1", "roi_data_param { short_side: 70000 max_side: 0 }", 1, &net),
      CREMA_E_RANGE);
  const crema_net_options options = net_options(CREMA_TRAIN, 1, NULL);
  /* py-faster-rcnn's program chooses the pictures; here the net has to name them. */
  assert_int_equal(
      parse_net(&options, NULL, &net,
                "layer { name: 'in' type: 'Python' top: 'data' top: 'info' top: 'boxes' "
                "python_param { module: 'roi_data_layer.layer' layer: 'RoIDataLayer' "
                "param_str: \"'num_classes': 21\" } }"),
      CREMA_E_ARGUMENT);
  assert_error_has("data_param with a source is required");
}

/* A resumed run goes on with the next picture, drawn alike. */
FIXTURE_TEST(resumes_where_it_was) {
  const fixture *f = *state;
  static const char fields[] =
      "roi_data_param { short_side: 20 short_side: 30 } transform_param { mirror: true }";
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  crema_net *net = NULL, *other = NULL;
  ok(make_net(db, "batch_size: 1 shuffle: true", fields, 3, &net));
  ok(make_net(db, "batch_size: 1 shuffle: true", fields, 99, &other));
  for (int i = 0; i < 7; ++i) forward(net);
  check_resumed(net, other, "index 7", 12);
}

/* ---- nets of py-faster-rcnn ---- */

/* Its end-to-end training net with few and small layers: types and fields are as there, and the
 * losses' propagate_down as well as none at all both mean that nothing learns from targets. */
static crema_status make_python_net(const char *db, const char *propagate, int64_t seed,
                                    crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, seed, NULL);
  return parse_net(
      &options, NULL, out,
      "layer { name: 'in' type: 'Python' top: 'data' top: 'im_info' top: 'gt_boxes' python_param { "
      "module: 'roi_data_layer.layer' layer: 'RoIDataLayer' param_str: \"'num_classes': 8\" } "
      "data_param { source: '%s' batch_size: 1 backend: LMDB } roi_data_param { short_side: 160 } }"
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param { "
      "num_output: 4 kernel_size: 16 stride: 16 weight_filler { type: 'msra' } } }"
      "layer { name: 'rpn_cls_score' type: 'Convolution' bottom: 'conv' top: 'rpn_cls_score' "
      "convolution_param { num_output: 18 kernel_size: 1 weight_filler { type: 'gaussian' std: "
      "0.01 } } }"
      "layer { name: 'rpn_bbox_pred' type: 'Convolution' bottom: 'conv' top: 'rpn_bbox_pred' "
      "convolution_param { num_output: 36 kernel_size: 1 weight_filler { type: 'gaussian' std: "
      "0.01 } } }"
      "layer { name: 'reshape' type: 'Reshape' bottom: 'rpn_cls_score' top: "
      "'rpn_cls_score_reshape' "
      "reshape_param { shape { dim: 0 dim: 2 dim: -1 dim: 0 } } }"
      "layer { name: 'rpn-data' type: 'Python' bottom: 'rpn_cls_score' bottom: 'gt_boxes' bottom: "
      "'im_info' bottom: 'data' top: 'rpn_labels' top: 'rpn_bbox_targets' top: 'rpn_inside' top: "
      "'rpn_outside' python_param { module: 'rpn.anchor_target_layer' layer: 'AnchorTargetLayer' "
      "param_str: \"'feat_stride': 16\\n'scales': [1, 2, 4]\" } }"
      "layer { name: 'rpn_loss_cls' type: 'SoftmaxWithLoss' bottom: 'rpn_cls_score_reshape' "
      "bottom: "
      "'rpn_labels' %s top: 'rpn_loss_cls' loss_weight: 1 loss_param { ignore_label: -1 normalize: "
      "true } }"
      "layer { name: 'rpn_loss_bbox' type: 'SmoothL1Loss' bottom: 'rpn_bbox_pred' bottom: "
      "'rpn_bbox_targets' bottom: 'rpn_inside' bottom: 'rpn_outside' top: 'rpn_loss_bbox' "
      "loss_weight: 1 smooth_l1_loss_param { sigma: 3 } }"
      "layer { name: 'prob' type: 'Softmax' bottom: 'rpn_cls_score_reshape' top: 'prob' }"
      "layer { name: 'prob_reshape' type: 'Reshape' bottom: 'prob' top: 'prob_reshape' "
      "reshape_param { shape { dim: 0 dim: 18 dim: -1 dim: 0 } } }"
      "layer { name: 'proposal' type: 'Python' bottom: 'prob_reshape' bottom: 'rpn_bbox_pred' "
      "bottom: "
      "'im_info' top: 'rpn_rois' python_param { module: 'rpn.proposal_layer' layer: "
      "'ProposalLayer' "
      "param_str: \"'feat_stride': 16\\n'scales': [1, 2, 4]\" } }"
      "layer { name: 'roi-data' type: 'Python' bottom: 'rpn_rois' bottom: 'gt_boxes' top: 'rois' "
      "top: "
      "'labels' top: 'bbox_targets' top: 'inside' top: 'outside' python_param { module: "
      "'rpn.proposal_target_layer' layer: 'ProposalTargetLayer' param_str: \"'num_classes': 8\" } }"
      "layer { name: 'pool' type: 'ROIPooling' bottom: 'conv' bottom: 'rois' top: 'pool' "
      "roi_pooling_param { pooled_w: 2 pooled_h: 2 spatial_scale: 0.0625 } }"
      "layer { name: 'cls' type: 'InnerProduct' bottom: 'pool' top: 'cls' inner_product_param { "
      "num_output: 8 weight_filler { type: 'gaussian' std: 0.01 } } }"
      "layer { name: 'bbox' type: 'InnerProduct' bottom: 'pool' top: 'bbox' inner_product_param { "
      "num_output: 32 weight_filler { type: 'gaussian' std: 0.01 } } }"
      "layer { name: 'loss_cls' type: 'SoftmaxWithLoss' bottom: 'cls' bottom: 'labels' %s top: "
      "'loss_cls' loss_weight: 1 }"
      "layer { name: 'loss_bbox' type: 'SmoothL1Loss' bottom: 'bbox' bottom: 'bbox_targets' "
      "bottom: "
      "'inside' bottom: 'outside' top: 'loss_bbox' loss_weight: 1 }",
      db, propagate, propagate);
}

static void step(crema_net *net) {
  crema_net_clear_param_diffs(net);
  forward(net);
  ok(crema_net_backward(net));
}

FIXTURE_TEST(nets_of_py_faster_rcnn_learn) {
  const fixture *f = *state;
  static const char *const learning[] = {"conv", "rpn_cls_score", "rpn_bbox_pred", "cls", "bbox"};
  const char *db = fixture_db(f, "db", RECORDS, put_record);
  crema_net *net[3] = {NULL};
  for (int i = 0; i < 3; ++i) {
    ok(make_python_net(db, i == 1 ? "propagate_down: 1 propagate_down: 0" : "", i == 2 ? 6 : 5,
                       &net[i]));
  }
  for (int pass = 0; pass < 4; ++pass) {
    for (int i = 0; i < 3; ++i) step(net[i]);
    expect_same(net[0], net[1], "rois");
    expect_same(net[0], net[1], "rpn_labels");
    for (size_t k = 0; k < sizeof learning / sizeof *learning; ++k) {
      const float *diff[2];
      double sum = 0;
      for (int i = 0; i < 2; ++i) {
        ok(crema_blob_cpu_diff(layer_of(net[i], learning[k])->blob[0], &diff[i]));
      }
      const int64_t count = crema_blob_count(layer_of(net[0], learning[k])->blob[0]);
      for (int64_t i = 0; i < count; ++i) {
        assert_true(diff[0][i] == diff[1][i] && isfinite(diff[0][i]));
        sum += fabs((double)diff[0][i]);
      }
      assert_true(sum > 0);
    }
  }
  /* Another seed draws other anchors. */
  const int64_t count = crema_blob_count(blob_of(net[0], "rpn_labels"));
  assert_int_equal(crema_blob_count(blob_of(net[2], "rpn_labels")), count);
  assert_memory_not_equal(values(net[0], "rpn_labels"), values(net[2], "rpn_labels"),
                          (size_t)count * sizeof(float));
  for (int i = 0; i < 3; ++i) crema_net_destroy(net[i]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
