/* Blobs as messages: shapes of both kinds, values of every type, and what is said of those that do
 * not fit. */
#include <limits.h>

#include "net_case.h"
#include "refused_text.h"

static Caffe__BlobProto *parse(const char *text) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__blob_proto__descriptor, text, strlen(text), "test", CR_UNKNOWN_ERROR,
                   &message));
  return (Caffe__BlobProto *)message;
}

static crema_shape shape_of(int axes, int64_t a, int64_t b, int64_t c, int64_t d) {
  return (crema_shape){.axes = axes, .dim = {a, b, c, d}};
}

TEST(shapes) {
  static const struct {
    const char *text;
    crema_shape shape;
  } cases[] = {
      {"", {.axes = 0}},
      {"num: 1 channels: 2 height: 3 width: 4", {.axes = 4, .dim = {1, 2, 3, 4}}},
      {"num: 5", {.axes = 4, .dim = {5}}},
      {"channels: 5", {.axes = 4, .dim = {0, 5}}},
      {"height: 5", {.axes = 4, .dim = {0, 0, 5}}},
      {"width: 5", {.axes = 4, .dim = {0, 0, 0, 5}}},
      {"shape { }", {.axes = 0}},
      {"shape { dim: 7 }", {.axes = 1, .dim = {7}}},
      {"num: 1 shape { dim: 7 dim: 8 }", {.axes = 2, .dim = {7, 8}}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    Caffe__BlobProto *proto = parse(cases[i].text);
    crema_shape shape;
    memset(&shape, 1, sizeof shape);
    ok(cr_blob_proto_shape(proto, &shape));
    assert_memory_equal(&shape, &cases[i].shape, sizeof shape);
    cr_message_free(&proto->base);
  }
}

TEST(axes_that_are_too_many) {
  for (int axes = CREMA_MAX_AXES; axes <= CREMA_MAX_AXES + 1; ++axes) {
    char text[512] = "shape {";
    crema_shape shape;
    for (int i = 0; i < axes; ++i) strcat(text, " dim: 1");
    strcat(text, " } data: 3");
    Caffe__BlobProto *proto = parse(text);
    if (axes == CREMA_MAX_AXES) {
      ok(cr_blob_proto_check(proto, &shape));
      assert_int_equal(shape.axes, CREMA_MAX_AXES);
    } else {
      assert_says(cr_blob_proto_check(proto, &shape), CREMA_E_SHAPE,
                  "a blob has 33 axes; at most 32 are possible");
    }
    cr_message_free(&proto->base);
  }
  Caffe__BlobProto *proto = parse("shape { dim: -1 }");
  crema_shape shape;
  assert_int_equal(cr_blob_proto_shape(proto, &shape), CREMA_E_SHAPE);
  cr_message_free(&proto->base);
  proto = parse("num: -1");
  assert_int_equal(cr_blob_proto_shape(proto, &shape), CREMA_E_SHAPE);
  cr_message_free(&proto->base);
}

/* Old shapes have four axes; ones go in front of shorter ones. */
TEST(fitting) {
  static const struct {
    const char *text;
    int axes;
    int64_t dim[5];
    bool fits;
  } cases[] = {
      {"num: 1 channels: 1 height: 3 width: 4", 2, {3, 4}, true},
      {"num: 1 channels: 1 height: 3 width: 4", 4, {1, 1, 3, 4}, true},
      {"num: 1 channels: 1 height: 3 width: 4", 3, {1, 3, 4}, true},
      {"num: 1 channels: 1 height: 3 width: 4", 5, {1, 1, 1, 3, 4}, false},
      {"num: 1 channels: 1 height: 3 width: 4", 2, {4, 3}, false},
      {"num: 1 channels: 1 height: 3 width: 4", 1, {4}, false},
      {"num: 1 channels: 1 height: 3 width: 4", 2, {3, 5}, false},
      {"num: 2 channels: 1 height: 3 width: 4", 2, {3, 4}, false},
      {"num: 1 channels: 2 height: 3 width: 4", 3, {1, 3, 4}, false},
      {"num: 1 channels: 1 height: 1 width: 1", 0, {0}, true},
      {"num: 1 channels: 1 height: 1 width: 2", 0, {0}, false},
      {"shape { dim: 3 dim: 4 }", 2, {3, 4}, true},
      {"shape { dim: 3 dim: 4 }", 3, {1, 3, 4}, false},
      {"shape { dim: 3 dim: 4 }", 1, {3}, false},
      {"shape { dim: 3 dim: 4 }", 2, {3, 5}, false},
      {"shape { dim: 3 dim: 4 }", 2, {2, 4}, false},
      {"", 0, {0}, true},
      {"", 1, {1}, false},
      /* Either will do where both are given. */
      {"num: 1 channels: 1 height: 1 width: 12 shape { dim: 3 dim: 4 }", 2, {3, 4}, true},
      {"num: 1 channels: 1 height: 1 width: 12 shape { dim: 3 dim: 4 }", 1, {12}, true},
      {"num: 1 channels: 1 height: 1 width: 12 shape { dim: 3 dim: 4 }", 1, {13}, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    Caffe__BlobProto *proto = parse(cases[i].text);
    crema_shape shape = {.axes = cases[i].axes};
    memcpy(shape.dim, cases[i].dim, sizeof cases[i].dim);
    if (cr_blob_proto_fits(proto, &shape) != cases[i].fits) {
      fail_msg("%s and %d axes", cases[i].text, cases[i].axes);
    }
    cr_message_free(&proto->base);
  }
}

/* Four values of 1, 2, 3, 4 or what the type makes of them. */
TEST(values_of_messages) {
  static const struct {
    const char *text;
    float wanted[2], diff[2];
    bool has_diff;
  } cases[] = {
      {"data: [1.5, -2]", {1.5f, -2}, {0}, false},
      {"double_data: [1.5, -2]", {1.5f, -2}, {0}, false},
      {"data: [9, 9, 9] double_data: [1.5, -2]", {1.5f, -2}, {0}, false},
      {"data: [1, 2] diff: [3, 4]", {1, 2}, {3, 4}, true},
      {"data: [1, 2] double_diff: [3, 4]", {1, 2}, {3, 4}, true},
      {"data: [1, 2] diff: [9] double_diff: [3, 4]", {1, 2}, {3, 4}, true},
      {"raw_data_type: FLOAT raw_data: '\\x00\\x00\\xc0\\x3f\\x00\\x00\\x00\\xc0'",
       {1.5f, -2},
       {0},
       false},
      {"raw_data_type: DOUBLE raw_data: '\\x00\\x00\\x00\\x00\\x00\\x00\\xf8\\x3f"
       "\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\xc0'",
       {1.5f, -2},
       {0},
       false},
      {"raw_data_type: FLOAT16 raw_data: '\\x00\\x3e\\x00\\xc0'", {1.5f, -2}, {0}, false},
      {"raw_data_type: INT raw_data: '\\x05\\x01\\x00\\x00\\xfe\\xff\\xff\\xff'",
       {261, -2},
       {0},
       false},
      {"raw_data_type: UINT raw_data: '\\x05\\x01\\x00\\x00\\x00\\x00\\x00\\xff'",
       {261, 4278190080.0f},
       {0},
       false},
      {"data: [1, 2] raw_diff_type: FLOAT16 raw_diff: '\\x00\\x3e\\x00\\xc0'",
       {1, 2},
       {1.5f, -2},
       true},
      {"data: [1, 2] raw_data_type: FLOAT raw_data: 'xyz'", {1, 2}, {0}, false},
      {"data: [1, 2] raw_diff: ''", {1, 2}, {0}, false},
  };
  const crema_shape shape = shape_of(1, 2, 0, 0, 0), other = shape_of(2, 3, 4, 0, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[400];
    crema_blob *blob = NULL, *grown = NULL;
    float *diff;
    snprintf(text, sizeof text, "shape { dim: 2 } %s", cases[i].text);
    Caffe__BlobProto *proto = parse(text);
    ok(crema_blob_create(&shape, &blob));
    ok(crema_blob_create(&other, &grown));
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    diff[0] = diff[1] = 77;
    ok(cr_blob_from_proto(blob, proto, false));
    ok(cr_blob_from_proto(grown, proto, true));
    assert_true(crema_shape_equal(crema_blob_shape(grown), &shape));
    for (int k = 0; k < 2; ++k) {
      assert_true(data_of(blob)[k] == cases[i].wanted[k]);
      assert_true(data_of(grown)[k] == cases[i].wanted[k]);
      assert_true(diff_of(blob)[k] == (cases[i].has_diff ? cases[i].diff[k] : 77));
    }
    crema_blob_destroy(blob);
    crema_blob_destroy(grown);
    cr_message_free(&proto->base);
  }
}

TEST(values_that_do_not_fit) {
  static const refused_text cases[] = {
      {"shape { dim: 2 } data: 1", CREMA_E_CORRUPT, "a blob of 2 elements is stored with 1 values"},
      {"shape { dim: 2 } data: [1, 2, 3]", CREMA_E_CORRUPT,
       "a blob of 2 elements is stored with 3 values"},
      {"shape { dim: 2 }", CREMA_E_CORRUPT, "a blob of 2 elements is stored with 0 values"},
      {"shape { dim: 2 } data: [1, 2] diff: 1", CREMA_E_CORRUPT,
       "a blob of 2 elements is stored with 1 values"},
      {"shape { dim: 2 } data: [1, 2] diff: [1, 2, 3]", CREMA_E_CORRUPT,
       "a blob of 2 elements is stored with 3 values"},
      {"shape { dim: 2 } raw_data_type: FLOAT raw_data: '1234567'", CREMA_E_CORRUPT,
       "7 bytes of raw values are not a number of elements of type float"},
      {"shape { dim: 2 } raw_data_type: FLOAT16 raw_data: '12345'", CREMA_E_CORRUPT,
       "5 bytes of raw values are not a number of elements of type float16"},
      {"shape { dim: 2 } raw_data_type: DOUBLE raw_data: '123456789012'", CREMA_E_CORRUPT,
       "12 bytes of raw values are not a number of elements of type double"},
      {"shape { dim: 2 } raw_data_type: BOOL raw_data: '123'", CREMA_E_CORRUPT,
       "a blob of 2 elements is stored with 3 values"},
      {"shape { dim: 2 } data: [1, 2] raw_diff_type: FLOAT raw_diff: '123'", CREMA_E_CORRUPT,
       "3 bytes of raw values are not a number of elements of type float"},
      {"shape { dim: 2 } raw_data: '12345678'", CREMA_E_CORRUPT,
       "8 bytes of raw values have no type that is known"},
      {"shape { dim: 1 dim: 2 } data: [1, 2]", CREMA_E_SHAPE,
       "shapes differ: stored is 1 2 (2), wanted is 2 (2)"},
      {"num: 1 channels: 1 height: 2 width: 1 data: [1, 2]", CREMA_E_SHAPE,
       "shapes differ: stored is 1 1 2 1 (2), wanted is 2 (2)"},
  };
  const crema_shape two = shape_of(1, 2, 0, 0, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    crema_blob *blob = NULL;
    Caffe__BlobProto *proto = parse(cases[i].text);
    ok(crema_blob_create(&two, &blob));
    fill(blob, 5, 1);
    assert_refused(&cases[i], cr_blob_from_proto(blob, proto, false));
    assert_true(data_of(blob)[0] == 5 && data_of(blob)[1] == 6);
    crema_blob_destroy(blob);
    cr_message_free(&proto->base);
  }
}

/* No elements and no values: nothing to take. */
TEST(empty_blobs) {
  const crema_shape two = shape_of(1, 2, 0, 0, 0), none = shape_of(2, 0, 3, 0, 0);
  crema_blob *blob = NULL;
  Caffe__BlobProto *proto = parse("shape { dim: 0 dim: 3 }");
  ok(crema_blob_create(&two, &blob));
  ok(cr_blob_from_proto(blob, proto, true));
  assert_true(crema_shape_equal(crema_blob_shape(blob), &none));
  cr_message_free(&proto->base);
  crema_blob_destroy(blob);
}

/* The message borrows the blob's memory. */
TEST(messages_of_blobs) {
  const crema_shape shape = shape_of(3, 2, 1, 2, 0);
  for (int with_diff = 0; with_diff < 2; ++with_diff) {
    Caffe__BlobProto *proto = NULL;
    crema_blob *blob = NULL;
    float *diff = NULL;
    ok(crema_blob_create(&shape, &blob));
    fill(blob, 3, 1);
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    for (int i = 0; i < 4; ++i) diff[i] = (float)-i;
    ok(cr_blob_to_proto(blob, with_diff == 1, &proto));
    assert_int_equal(proto->shape->n_dim, 3);
    for (int i = 0; i < 3; ++i) assert_int_equal(proto->shape->dim[i], shape.dim[i]);
    assert_false(proto->has_num || proto->has_channels || proto->has_height || proto->has_width);
    assert_int_equal(proto->n_data, 4);
    assert_ptr_equal(proto->data, data_of(blob));
    assert_int_equal(proto->n_diff, with_diff == 1 ? 4 : 0);
    if (with_diff == 1) assert_ptr_equal(proto->diff, diff_of(blob));
    cr_blob_proto_free(proto);
    assert_true(data_of(blob)[3] == 6);
    crema_blob_destroy(blob);
  }
  cr_blob_proto_free(NULL);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
