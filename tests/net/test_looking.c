/* Inspecting a net: all that debug_info logs, the search for values that are not finite, and the
 * queries. */
#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "crema/log.h"
#include "log_lines.h"
#include "net_case.h"

static const char *const two_layers =
    "name: 'two' debug_info: true\n" INPUT("data", DIM2(1, 2))
    "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a'\n"
    "  inner_product_param { num_output: 2 weight_filler { value: 0.5 }\n"
    "    bias_filler { value: 1 } } }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' loss_weight: 1\n"
    "  param { lr_mult: 0 }\n"
    "  inner_product_param { num_output: 1 weight_filler { value: 2 } bias_term: false } }\n";

/* Means of absolute values of each top and parameter, in their order; what gets no gradient is left
 * out. a = 0.5 (-1 + 3) + 1 = (2 2), b = 2 * (2 + 2) = 8. */
TEST(debug_info_tells_all_and_no_more) {
  static log_lines heard;
  crema_net *net = build(two_layers, CREMA_TRAIN);
  fill(blob_of(net, "data"), -1.0f, 4.0f);
  listen_to(&heard, CREMA_LOG_INFO);
  ok(crema_net_forward(net, NULL));
  assert_string_equal(heard.text,
                      "    [Forward] Layer in_data, top blob data data: 2\n"
                      "    [Forward] Layer a, top blob a data: 2\n"
                      "    [Forward] Layer a, param blob 0 data: 0.5\n"
                      "    [Forward] Layer a, param blob 1 data: 1\n"
                      "    [Forward] Layer b, top blob b data: 8\n"
                      "    [Forward] Layer b, param blob 0 data: 2\n");
  listen_to(&heard, CREMA_LOG_INFO);
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  /* da = (2 2); dw of a = (-2 6; -2 6). */
  assert_string_equal(heard.text,
                      "    [Backward] Layer b, bottom blob a diff: 2\n"
                      "    [Backward] Layer a, param blob 0 diff: 4\n"
                      "    [Backward] Layer a, param blob 1 diff: 2\n"
                      "    [Backward] All net params (data, diff): L1 norm = (8, 20); "
                      "L2 norm = (3.31662, 9.38083)\n");
  listen_to(&heard, CREMA_LOG_INFO);
  ok(cr_net_debug_update(net));
  assert_string_equal(heard.text,
                      "    [Update] Layer a, param 0 data: 0.5; diff: 4\n"
                      "    [Update] Layer a, param 1 data: 1; diff: 2\n"
                      "    [Update] Layer b, param 0 data: 2; diff: 0\n");
  listen_to(&heard, CREMA_LOG_INFO);
  net->debug_info = false;
  ok(crema_net_forward(net, NULL));
  ok(crema_net_backward(net));
  ok(cr_net_debug_update(net));
  assert_string_equal(heard.text, "");
  stop_listening();
  crema_net_destroy(net);
}

static void set_value(crema_blob *blob, int64_t index, float value) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  data[index] = value;
}

static void assert_found(crema_net *net, const char *layer, const char *blob) {
  bool found = false;
  const char *layer_name = NULL, *blob_name = NULL;
  ok(cr_net_find_nonfinite(net, &found, &layer_name, &blob_name));
  assert_int_equal(found, layer != NULL);
  if (layer == NULL) return;
  assert_string_equal(layer_name, layer);
  assert_string_equal(blob_name, blob);
  ok(cr_net_find_nonfinite(net, &found, NULL, NULL));
  assert_true(found);
}

/* The first one: layers in their order, parameters before tops, to the last value. */
TEST(values_that_are_no_numbers_are_found) {
  crema_net *net = build(two_layers, CREMA_TRAIN);
  net->debug_info = false;
  fill(blob_of(net, "data"), -1.0f, 4.0f);
  ok(crema_net_forward(net, NULL));
  assert_found(net, NULL, NULL);
  ok(cr_net_check_weights(net));
  set_value(blob_of(net, "b"), 0, NAN);
  assert_found(net, "b", "b");
  ok(cr_net_check_weights(net));
  set_value(param_of(net, "b", 0), 1, -INFINITY);
  assert_found(net, "b", "param 0");
  assert_int_equal(cr_net_check_weights(net), CREMA_E_NUMERIC);
  assert_string_equal(crema_error_text(),
                      "layer 'b' (InnerProduct): param 0 holds values that are not finite");
  set_value(blob_of(net, "a"), 1, INFINITY);
  assert_found(net, "a", "a");
  set_value(param_of(net, "a", 1), 1, NAN);
  assert_found(net, "a", "param 1");
  assert_int_equal(cr_net_check_weights(net), CREMA_E_NUMERIC);
  assert_string_equal(crema_error_text(),
                      "layer 'a' (InnerProduct): param 1 holds values that are not finite");
  set_value(param_of(net, "a", 0), 3, NAN);
  assert_found(net, "a", "param 0");
  crema_net_destroy(net);
}

/* A double that is too large for a float is a number. */
TEST(large_doubles_are_numbers) {
  char text[1024];
  void *data = NULL;
  snprintf(text, sizeof text,
           "default_forward_type: DOUBLE default_backward_type: DOUBLE "
           "default_forward_math: DOUBLE default_backward_math: DOUBLE %s",
           two_layers);
  crema_net *net = build(text, CREMA_TRAIN);
  net->debug_info = false;
  fill(blob_of(net, "data"), -1.0f, 4.0f);
  ok(crema_net_forward(net, NULL));
  ok(crema_blob_mutable_data_as(param_of(net, "b", 0), CREMA_F64, &data));
  ((double *)data)[1] = 1e300;
  assert_found(net, NULL, NULL);
  ok(cr_net_check_weights(net));
  ok(crema_blob_mutable_data_as(param_of(net, "b", 0), CREMA_F64, &data));
  ((double *)data)[1] = (double)NAN;
  assert_found(net, "b", "param 0");
  crema_net_destroy(net);
}

/* Indices from 0 on, names as in the text, and nothing else. */
TEST(nets_tell_what_they_have) {
  crema_net *net = build(two_layers, CREMA_TRAIN);
  static const char *const layers[] = {"in_data", "a", "b"};
  static const char *const types[] = {"Input", "InnerProduct", "InnerProduct"};
  static const int params[] = {0, 2, 1};
  assert_string_equal(crema_net_name(net), "two");
  assert_int_equal(crema_net_layer_count(net), 3);
  for (int i = 0; i < 3; ++i) {
    assert_string_equal(crema_net_layer_name(net, i), layers[i]);
    assert_string_equal(crema_net_layer_type(net, i), types[i]);
    assert_int_equal(crema_net_layer_param_count(net, i), params[i]);
    for (int p = 0; p < params[i]; ++p) assert_non_null(crema_net_layer_param(net, i, p));
    assert_null(crema_net_layer_param(net, i, params[i]));
    assert_null(crema_net_layer_param(net, i, -1));
  }
  for (int i = -1; i <= 3; i += 4) {
    assert_null(crema_net_layer_name(net, i));
    assert_null(crema_net_layer_type(net, i));
    assert_int_equal(crema_net_layer_param_count(net, i), 0);
    assert_null(crema_net_layer_param(net, i, 0));
    assert_null(crema_net_blob_name(net, i));
  }
  assert_int_equal(crema_net_blob_count(net), 3);
  assert_string_equal(crema_net_blob_name(net, 0), "data");
  assert_string_equal(crema_net_blob_name(net, 2), "b");
  assert_int_equal(crema_net_input_count(net), 1);
  assert_string_equal(crema_net_input_name(net, 0), "data");
  assert_ptr_equal(crema_net_input(net, 0), blob_of(net, "data"));
  assert_int_equal(crema_net_output_count(net), 1);
  assert_string_equal(crema_net_output_name(net, 0), "b");
  assert_ptr_equal(crema_net_output(net, 0), blob_of(net, "b"));
  for (int i = -1; i <= 1; i += 2) {
    assert_null(crema_net_input(net, i));
    assert_null(crema_net_input_name(net, i));
    assert_null(crema_net_output(net, i));
    assert_null(crema_net_output_name(net, i));
  }
  crema_blob *blob = NULL;
  assert_int_equal(crema_net_blob(net, "dat", &blob), CREMA_E_UNKNOWN_NAME);
  assert_string_equal(crema_error_text(), "net 'two' has no blob 'dat'; did you mean 'data'?");
  assert_int_equal(crema_net_blob(net, "something", &blob), CREMA_E_UNKNOWN_NAME);
  assert_string_equal(crema_error_text(), "net 'two' has no blob 'something'");
  assert_null(blob);
  crema_net_destroy(net);
}

/* Every type that values are stored in, of data and of diffs, to the last bit that a float keeps.
 */
TEST(stored_values_become_floats) {
  static const struct {
    Caffe__Type type;
    size_t size;
    uint8_t bytes[16];
    float value[2];
  } rows[] = {
      {CAFFE__TYPE__FLOAT, 8, {0, 0, 0x80, 0x3f, 0, 0, 0x28, 0xc1}, {1, -10.5f}},
      {CAFFE__TYPE__FLOAT16, 4, {0, 0x3c, 0x40, 0xc9}, {1, -10.5f}},
      {CAFFE__TYPE__INT, 8, {0xfe, 0xff, 0xff, 0xff, 0x15, 0xcd, 0x5b, 0x07}, {-2, 123456792}},
      {CAFFE__TYPE__UINT, 8, {0xfe, 0xff, 0xff, 0xff, 1, 2, 0, 0}, {4294967294.0f, 513}},
      {CAFFE__TYPE__DOUBLE,
       16,
       {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0x25, 0xc0},
       {1, -10.5f}}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    for (int as_diff = 0; as_diff < 2; ++as_diff) {
      Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
      Caffe__BlobShape shape = CAFFE__BLOB_SHAPE__INIT;
      int64_t extent = 2;
      float plain[] = {7, 8};
      crema_blob *blob = NULL;
      crema_shape made = {.axes = 1, .dim = {2}};
      ok(crema_blob_create(&made, &blob));
      shape.n_dim = 1;
      shape.dim = &extent;
      proto.shape = &shape;
      ProtobufCBinaryData raw = {rows[i].size, (uint8_t *)(uintptr_t)rows[i].bytes};
      if (as_diff) {
        proto.n_data = 2;
        proto.data = plain;
        proto.has_raw_diff = proto.has_raw_diff_type = 1;
        proto.raw_diff = raw;
        proto.raw_diff_type = rows[i].type;
      } else {
        proto.has_raw_data = proto.has_raw_data_type = 1;
        proto.raw_data = raw;
        proto.raw_data_type = rows[i].type;
      }
      ok(cr_blob_from_proto(blob, &proto, false));
      for (int k = 0; k < 2; ++k) {
        assert_true((as_diff ? diff_of(blob) : data_of(blob))[k] == rows[i].value[k]);
        if (as_diff) assert_true(data_of(blob)[k] == plain[k]);
      }
      --*(as_diff ? &proto.raw_diff.len : &proto.raw_data.len);
      assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_CORRUPT);
      crema_blob_destroy(blob);
    }
  }
}

/* A blob and its message and back, with its diff where that is wanted. */
TEST(blobs_become_messages) {
  for (int with_diff = 0; with_diff < 2; ++with_diff) {
    crema_shape shape = {.axes = 2, .dim = {2, 3}}, other = {.axes = 1, .dim = {1}};
    crema_blob *blob = NULL, *back = NULL;
    Caffe__BlobProto *proto = NULL;
    float *diff = NULL;
    ok(crema_blob_create(&shape, &blob));
    ok(crema_blob_create(&other, &back));
    fill(blob, 1, 1);
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    for (int i = 0; i < 6; ++i) diff[i] = (float)(10 * i);
    ok(cr_blob_to_proto(blob, with_diff, &proto));
    assert_int_equal(proto->shape->n_dim, 2);
    assert_int_equal(proto->shape->dim[0], 2);
    assert_int_equal(proto->shape->dim[1], 3);
    assert_int_equal(proto->n_data, 6);
    assert_int_equal(proto->n_diff, with_diff ? 6 : 0);
    assert_int_equal(cr_blob_from_proto(back, proto, false), CREMA_E_SHAPE);
    assert_string_equal(crema_error_text(), "shapes differ: stored is 2 3 (6), wanted is 1 (1)");
    ok(cr_blob_from_proto(back, proto, true));
    assert_true(crema_shape_equal(crema_blob_shape(back), &shape));
    for (int i = 0; i < 6; ++i) {
      assert_true(data_of(back)[i] == (float)(i + 1));
      assert_true(diff_of(back)[i] == (float)(with_diff ? 10 * i : 0));
    }
    /* A gradient of another number of values. */
    if (with_diff) {
      --proto->n_diff;
      assert_int_equal(cr_blob_from_proto(back, proto, false), CREMA_E_CORRUPT);
      assert_string_equal(crema_error_text(), "a blob of 6 elements is stored with 5 values");
      ++proto->n_diff;
    }
    --proto->n_data;
    assert_int_equal(cr_blob_from_proto(back, proto, false), CREMA_E_CORRUPT);
    assert_string_equal(crema_error_text(), "a blob of 6 elements is stored with 5 values");
    ++proto->n_data;
    cr_blob_proto_free(proto);
    crema_blob_destroy(back);
    crema_blob_destroy(blob);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
