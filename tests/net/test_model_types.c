/* Model files with values of every element type: what is read and written, and the conversion of
 * whole files. */
#include <stdlib.h>
#include <unistd.h>

#include "core/file.h"
#include "net/weights/weights.h"
#include "net_case.h"

static char dir[] = "/tmp/crema-types-XXXXXX";

static const char *in_dir(const char *name) {
  static char path[4][256];
  static int turn;
  turn = (turn + 1) % 4;
  snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
  return path[turn];
}

static Caffe__NetParameter *parse_model(const char *text) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__net_parameter__descriptor, text, strlen(text), "model", CR_UNKNOWN_ERROR,
                   &message));
  return (Caffe__NetParameter *)message;
}

static void write_model(const char *text, const char *name) {
  Caffe__NetParameter *model = parse_model(text);
  ok(cr_message_write_binary(&model->base, in_dir(name)));
  cr_message_free(&model->base);
}

static Caffe__NetParameter *read_model(const char *name) {
  ProtobufCMessage *message = NULL;
  ok(cr_message_read_binary(&caffe__net_parameter__descriptor, in_dir(name), &message));
  return (Caffe__NetParameter *)message;
}

static crema_blob *typed_blob(int64_t count, crema_dtype type) {
  crema_shape shape = cr_shape_1(count);
  crema_blob *blob = NULL;
  ok(cr_blob_create_typed(&shape, type, type, &blob));
  return blob;
}

static const double *doubles_of(crema_blob *blob) {
  const void *values = NULL;
  ok(crema_blob_data_as(blob, CREMA_F64, &values));
  return values;
}

/* ---- blobs ---- */

static const crema_dtype floating[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
enum { FLOATING = sizeof floating / sizeof *floating };

/* From each type to each, in both formats, with values that all can hold; data and diff. */
TEST(s4_38_every_type_is_read_into_every_other) {
  for (int from = 0; from < FLOATING; ++from) {
    for (int to = 0; to < FLOATING; ++to) {
      for (unsigned save = 0; save < 4; ++save) {
        crema_blob *source = typed_blob(3, floating[from]), *target = typed_blob(3, floating[to]);
        Caffe__BlobProto *proto = NULL;
        float *diff = NULL;
        fill(source, 1.5F, -2);
        ok(crema_blob_mutable_cpu_diff(source, &diff));
        for (int i = 0; i < 3; ++i) diff[i] = 8 + (float)i;
        ok(cr_blob_to_proto(source, save, &proto));
        ok(cr_blob_from_proto(target, proto, false));
        assert_int_equal(crema_blob_data_type(target), floating[to]);
        bool diffs = (save & CR_SAVE_DIFFS) != 0;
        for (int i = 0; i < 3; ++i) {
          assert_near(doubles_of(target)[i], 1.5 - 2 * i, 0);
          assert_near(diff_of(target)[i], diffs ? 8 + i : 0, 0);
        }
        cr_blob_proto_free(proto);
        crema_blob_destroy(target);
        crema_blob_destroy(source);
      }
    }
  }
}

/* Which field has the values. */
TEST(s4_38_each_type_has_its_field) {
  for (int t = 0; t < FLOATING; ++t) {
    for (int old = 0; old < 2; ++old) {
      crema_blob *blob = typed_blob(2, floating[t]);
      Caffe__BlobProto *proto = NULL;
      fill(blob, 1, 1);
      ok(cr_blob_to_proto(blob, old ? CR_SAVE_OLD_FORMAT : 0, &proto));
      bool raw = !old && floating[t] != CREMA_F32, doubles = old && floating[t] == CREMA_F64;
      assert_int_equal(proto->has_raw_data, raw);
      assert_int_equal(proto->has_raw_data_type, raw);
      assert_int_equal(proto->raw_data.len, raw ? 2 * crema_dtype_size(floating[t]) : 0);
      if (raw) assert_int_equal(proto->raw_data_type, floating[t]);
      assert_int_equal(proto->n_double_data, doubles ? 2 : 0);
      assert_int_equal(proto->n_data, raw || doubles ? 0 : 2);
      assert_false(proto->has_raw_diff);
      cr_blob_proto_free(proto);
      crema_blob_destroy(blob);
    }
  }
}

TEST(doubles_and_full_precision_lose_nothing) {
  double value[] = {0.1, 1e300};
  float wide[] = {0.1F, 1.00390625F};
  int64_t dim = 2;
  Caffe__BlobShape shape = CAFFE__BLOB_SHAPE__INIT;
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT;
  shape.n_dim = 1;
  shape.dim = &dim;
  proto.shape = &shape;
  crema_blob *blob = typed_blob(2, CREMA_F64), *half = typed_blob(2, CREMA_BF16);
  proto.n_double_data = 2;
  proto.double_data = value;
  ok(cr_blob_from_proto(blob, &proto, false));
  assert_true(doubles_of(blob)[0] == 0.1 && doubles_of(blob)[1] == 1e300);
  proto.n_double_data = 0;
  proto.n_data = 2;
  proto.data = wide;
  ok(cr_blob_from_proto(half, &proto, false));
  assert_true(data_of(half)[0] == 0.1F && data_of(half)[1] == 1.00390625F);
  crema_blob_destroy(half);
  crema_blob_destroy(blob);
}

/* Each type of integers goes into a file with its type, and comes back, data and diff. */
TEST(s4_38_integers_of_every_type) {
  static const crema_dtype types[] = {CREMA_I32, CREMA_U32, CREMA_BOOL, CREMA_I8, CREMA_U8};
  for (int n = 0; n < 5 * 5; ++n) {
    crema_dtype from = types[n % 5], to = types[n / 5];
    crema_blob *blob = typed_blob(3, from), *other = typed_blob(3, to);
    Caffe__BlobProto *proto = NULL;
    void *out = NULL;
    const void *value = NULL;
    ok(crema_blob_mutable_data_as(blob, CREMA_I32, &out));
    memcpy(out, (const int32_t[]){1, 0, from == CREMA_BOOL ? 1 : 100}, 12);
    ok(crema_blob_mutable_diff_as(blob, CREMA_I32, &out));
    memcpy(out, (const int32_t[]){0, 1, 1}, 12);
    ok(cr_blob_to_proto(blob, CR_SAVE_DIFFS, &proto));
    assert_int_equal(proto->raw_data_type, from);
    assert_int_equal(proto->raw_data.len, 3 * crema_dtype_size(from));
    if (from == to) {
      ok(cr_blob_from_proto(other, proto, false));
      ok(crema_blob_data_as(other, CREMA_I32, &value));
      assert_memory_equal(value, ((const int32_t[]){1, 0, from == CREMA_BOOL ? 1 : 100}), 12);
      ok(crema_blob_diff_as(other, CREMA_I32, &value));
      assert_memory_equal(value, ((const int32_t[]){0, 1, 1}), 12);
    } else {
      assert_int_equal(cr_blob_from_proto(other, proto, false), CREMA_E_TYPE);
    }
    cr_blob_proto_free(proto);
    crema_blob_destroy(other);
    crema_blob_destroy(blob);
  }
}

TEST(integers_stay_integers) {
  int32_t value[] = {-7, 16777217};
  int64_t dim = 2;
  const void *read = NULL;
  Caffe__BlobShape shape = CAFFE__BLOB_SHAPE__INIT;
  Caffe__BlobProto proto = CAFFE__BLOB_PROTO__INIT, *back = NULL;
  shape.n_dim = 1;
  shape.dim = &dim;
  proto.shape = &shape;
  proto.has_raw_data = proto.has_raw_data_type = true;
  proto.raw_data = (ProtobufCBinaryData){sizeof value, (uint8_t *)value};
  proto.raw_data_type = CAFFE__TYPE__INT;
  crema_blob *blob = typed_blob(2, CREMA_I32), *other = typed_blob(2, CREMA_U32),
             *bytes = typed_blob(2, CREMA_U8), *doubles = typed_blob(2, CREMA_F64);
  ok(cr_blob_from_proto(blob, &proto, false));
  ok(crema_blob_data_as(blob, CREMA_I32, &read));
  assert_memory_equal(read, value, sizeof value);
  ok(cr_blob_to_proto(blob, 0, &back));
  assert_int_equal(back->raw_data_type, CAFFE__TYPE__INT);
  assert_memory_equal(back->raw_data.data, value, sizeof value);
  cr_blob_proto_free(back);
  ok(cr_blob_from_proto(doubles, &proto, false));
  assert_true(doubles_of(doubles)[1] == 16777217);
  assert_int_equal(cr_blob_from_proto(other, &proto, false), CREMA_E_TYPE);
  assert_names(WORDS("type int", "type uint"));
  proto.has_raw_data_type = false;
  assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_CORRUPT);
  proto.has_raw_data_type = true;
  proto.raw_data_type = (Caffe__Type)9;
  assert_int_equal(cr_blob_from_proto(blob, &proto, false), CREMA_E_CORRUPT);
  crema_blob_destroy(doubles);
  crema_blob_destroy(bytes);
  crema_blob_destroy(other);
  crema_blob_destroy(blob);
}

/* ---- nets ---- */

#define PRODUCT                                          \
  INPUT("x", DIM2(1, 2))                                 \
  "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' " \
  "top: 'y' inner_product_param { num_output: 2 } }\n"
#define TYPED(type) "default_forward_type: " type " default_backward_type: " type "\n" PRODUCT

/* Every type of net reads what every other wrote, in three formats; doubles keep their bits. */
TEST(s4_38_nets_of_every_type_read_each_other) {
  static const char *const texts[] = {TYPED("DOUBLE"), TYPED("FLOAT"), TYPED("FLOAT16"),
                                      TYPED("BFLOAT16")};
  static const char *const files[] = {"n.caffemodel", "old.caffemodel", "n.h5"};
  for (int from = 0; from < FLOATING; ++from) {
    for (int to = 0; to < FLOATING; ++to) {
      for (int f = 0; f < 3; ++f) {
        crema_net *a = build(texts[from], CREMA_TRAIN), *b = build(texts[to], CREMA_TEST);
        crema_save_options options;
        void *out = NULL;
        crema_save_options_init(&options);
        options.old_format = f == 1;
        ok(crema_blob_mutable_data_as(param_of(a, "ip", 0), CREMA_F64, &out));
        for (int i = 0; i < 4; ++i) ((double *)out)[i] = 0.1 + i;
        ok(crema_net_save_weights_with(a, in_dir(files[f]), &options));
        ok(crema_net_load_weights(b, in_dir(files[f])));
        assert_int_equal(crema_blob_data_type(param_of(b, "ip", 0)), floating[to]);
        bool exact = from == 0 && to == 0;
        bool float_precision = from <= 1 && to <= 1;
        double tolerance = exact ? 0 : float_precision ? 2e-7 : 0.02;
        for (int i = 0; i < 4; ++i) {
          assert_near(doubles_of(param_of(b, "ip", 0))[i], 0.1 + i, tolerance);
        }
        crema_net_destroy(b);
        crema_net_destroy(a);
      }
    }
  }
}

/* Only mixed types convert, and each conversion of shared values counts once. */
TEST(conversions_are_counted) {
  crema_net *net = build(PRODUCT, CREMA_TRAIN);
  const void *values = NULL;
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_net_conversions(net), 0);
  fill(param_of(net, "ip", 0), 1, 1);
  ok(crema_blob_data_as(param_of(net, "ip", 0), CREMA_F16, &values));
  assert_int_equal(crema_net_conversions(net), 1);
  ok(crema_blob_data_as(blob_of(net, "y"), CREMA_F64, &values));
  ok(crema_blob_data_as(blob_of(net, "y"), CREMA_F64, &values));
  assert_int_equal(crema_net_conversions(net), 2);
  crema_net_destroy(net);
  /* Two readers: the copies of x have its values. Two layers of one parameter: the same. */
  net = build(INPUT("x", DIM2(1, 2))
              "layer { name: 'a' type: 'InnerProduct' bottom: 'x' top: 'a' param { name: 'w' }"
              " inner_product_param { num_output: 2 } }"
              "layer { name: 'b' type: 'InnerProduct' bottom: 'x' top: 'b' param { name: 'w' }"
              " inner_product_param { num_output: 2 } }",
              CREMA_TRAIN);
  fill(blob_of(net, "x"), 1, 1);
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_net_conversions(net), 0);
  ok(crema_blob_data_as(blob_of(net, "x"), CREMA_F16, &values));
  assert_int_equal(crema_net_conversions(net), 1);
  fill(param_of(net, "b", 0), 1, 1);
  ok(crema_blob_data_as(param_of(net, "a", 0), CREMA_F16, &values));
  assert_int_equal(crema_net_conversions(net), 2);
  crema_net_destroy(net);
}

/* ---- BatchNorm ---- */

#define NORM "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' "
#define ONE(value) " blobs { shape { dim: 1 } data: " #value " }"
#define TWO(a, b) " blobs { shape { dim: 2 } data: [" #a ", " #b "] }"

#define FOUR(a, b) " blobs { shape { dim: 1 dim: 2 dim: 1 dim: 1 } data: [" #a ", " #b "] }"

static void expect_norm(const char *net_text, const char *name, double y0, double y1) {
  crema_net *net = build(net_text, CREMA_TEST);
  ok(crema_net_load_weights(net, in_dir(name)));
  fill(blob_of(net, "x"), 5.0F, 9.0F);
  ok(crema_net_forward(net, NULL));
  assert_near(data_of(blob_of(net, "y"))[0], y0, 1e-5);
  assert_near(data_of(blob_of(net, "y"))[1], y1, 1e-5);
  crema_net_destroy(net);
}

/* Mean 1, 2, variance 3, 8, scale 4, 6, shift 0.5, 0.25 and eps 1 in every order that there is. */
TEST(s4_58_batch_norms_of_old_models) {
  static const char net[] =
      INPUT("x", DIM2(1, 2)) NORM "batch_norm_param { eps: 1 scale_bias: true } }";
  static const char plain[] = INPUT("x", DIM2(1, 2)) NORM "batch_norm_param { eps: 1 } }";
  double y0 = (5.0 - 1.0) / 2.0, y1 = (14.0 - 2.0) / 3.0;
  write_model(NORM TWO(1, 2) TWO(3, 8) ONE(0) TWO(4, 6) TWO(0.5, 0.25) "}", "today.caffemodel");
  expect_norm(net, "today.caffemodel", y0 * 4 + 0.5, y1 * 6 + 0.25);
  write_model(NORM TWO(4, 6) TWO(0.5, 0.25) TWO(1, 2) TWO(3, 8) ONE(0) "}", "digits.caffemodel");
  expect_norm(net, "digits.caffemodel", y0 * 4 + 0.5, y1 * 6 + 0.25);
  write_model(NORM
              "blobs { num: 1 channels: 2 height: 1 width: 1 data: [4, 6] }"
              "blobs { num: 1 channels: 2 height: 1 width: 1 data: [0.5, 0.25] }"
              "blobs { num: 1 channels: 2 height: 1 width: 1 data: [1, 2] }"
              "blobs { num: 1 channels: 2 height: 1 width: 1 data: [3, 8] }"
              "blobs { num: 1 channels: 1 height: 1 width: 1 data: 7 } }",
              "legacy.caffemodel");
  expect_norm(net, "legacy.caffemodel", y0 * 4 + 0.5, y1 * 6 + 0.25);
  write_model(NORM FOUR(1, 2) FOUR(3, 8) ONE(5) FOUR(4, 6) FOUR(0.5, 0.25) "}", "four.caffemodel");
  expect_norm(net, "four.caffemodel", y0 * 4 + 0.5, y1 * 6 + 0.25);
  write_model(NORM TWO(4, 8) TWO(12, 32) ONE(4) "}", "sums.caffemodel");
  expect_norm(plain, "sums.caffemodel", y0, y1);
  /* One channel: all blobs have one value, and the order is today's. */
  write_model(NORM ONE(1) ONE(3) ONE(1) ONE(4) ONE(0.5) "}", "one.caffemodel");
  crema_net *one = build(
      INPUT("x", DIM2(1, 1)) NORM "batch_norm_param { eps: 1 scale_bias: true } }", CREMA_TEST);
  ok(crema_net_load_weights(one, in_dir("one.caffemodel")));
  fill(blob_of(one, "x"), 5, 0);
  ok(crema_net_forward(one, NULL));
  assert_near(data_of(blob_of(one, "y"))[0], y0 * 4 + 0.5, 1e-5);
  crema_net_destroy(one);
}

/* ---- whole files ---- */

#define BLOBS \
  " blobs { shape { dim: 2 } data: [1.5, -70000] } blobs { shape { dim: 1 } data: 1e-9 } "

static const char bvlc_model[] =
    "name: 'model' layer { name: 'a' type: 'InnerProduct' top: 'y'" BLOBS
    "inner_product_param { num_output: 2 } } layer { name: 'b' type: 'ReLU' }";
static const char v1_model[] = "layers { name: 'a' type: INNER_PRODUCT" BLOBS "}";
static const char v0_model[] = "layers { layer { name: 'a' type: 'innerproduct'" BLOBS "} }";
static const char legacy_model[] =
    "layer { name: 'a' blobs { num: 1 channels: 1 height: 1 width: 2 double_data: [1.5, -70000] } "
    "blobs { shape { } double_data: 1e-9 } }";
static const char *const models[] = {bvlc_model, v1_model, v0_model, legacy_model};

static Caffe__BlobProto *blob_at(const Caffe__NetParameter *model, size_t index) {
  if (model->n_layer > 0) return model->layer[0]->blobs[index];
  if (model->layers[0]->layer != NULL) return model->layers[0]->layer->blobs[index];
  return model->layers[0]->blobs[index];
}

static double first_value(const Caffe__BlobProto *proto, int index) {
  crema_shape shape;
  crema_blob *blob = NULL;
  ok(cr_blob_proto_shape(proto, &shape));
  ok(cr_blob_create_typed(&shape, CREMA_F64, CREMA_F64, &blob));
  ok(cr_blob_from_proto(blob, proto, false));
  double value = doubles_of(blob)[index];
  crema_blob_destroy(blob);
  return value;
}

/* Every format of file to every type in both formats, and from there to every type again. */
TEST(models_are_converted_in_all_directions) {
  for (int m = 0; m < 4; ++m) {
    write_model(models[m], "in.caffemodel");
    for (int t = 0; t < FLOATING; ++t) {
      for (int old = 0; old < 2; ++old) {
        cr_convert_report report;
        crema_dtype type = floating[t];
        ok(cr_model_convert(in_dir("in.caffemodel"), in_dir("out.caffemodel"), type, old, &report));
        assert_int_equal(report.blobs, 2);
        assert_int_equal(report.values, 3);
        assert_int_equal(report.kept, 0);
        assert_int_equal(report.infinite, type == CREMA_F16);
        assert_int_equal(report.zero, type == CREMA_F16);
        assert_true(report.worst <= (type == CREMA_F64 ? 0 : type == CREMA_F32 ? 6e-8 : 0x1p-8));
        Caffe__NetParameter *model = read_model("out.caffemodel");
        bool raw = !old && type != CREMA_F32, doubles = old && type == CREMA_F64;
        assert_int_equal(blob_at(model, 0)->has_raw_data, raw);
        assert_int_equal(blob_at(model, 0)->n_double_data, doubles ? 2 : 0);
        assert_int_equal(blob_at(model, 0)->n_data, raw || doubles ? 0 : 2);
        assert_true(first_value(blob_at(model, 0), 0) == 1.5);
        cr_message_free(&model->base);
        for (int again = 0; again < FLOATING; ++again) {
          ok(cr_model_convert(in_dir("out.caffemodel"), in_dir("again.caffemodel"), floating[again],
                              !old, &report));
          model = read_model("again.caffemodel");
          assert_true(first_value(blob_at(model, 0), 0) == 1.5);
          cr_message_free(&model->base);
        }
      }
    }
  }
}

/* What is not a blob's value stays, byte for byte, and a file converted to its own type is the
 * same file. The output may be the input. */
TEST(all_else_stays_as_it_is) {
  cr_convert_report report;
  cr_buffer before = {0}, after = {0};
  static const uint8_t unknown[] = {0xfa, 0x7f, 3, 'x', 'y', 'z', 0xf8, 0x7f, 1}; /* field 2047 */
  Caffe__NetParameter *model = parse_model(bvlc_model);
  ok(cr_wire_print(&model->base, &before));
  cr_message_free(&model->base);
  ok(cr_buffer_append(&before, unknown, sizeof unknown));
  ok(cr_file_write(in_dir("same.caffemodel"), before.data, before.size));
  ok(cr_model_convert(in_dir("same.caffemodel"), in_dir("same.caffemodel"), CREMA_F32, false,
                      &report));
  ok(cr_file_read(in_dir("same.caffemodel"), &after));
  assert_int_equal(before.size, after.size);
  assert_memory_equal(before.data, after.data, before.size);
  assert_true(report.worst == 0 && report.infinite == 0 && report.zero == 0);
  ok(cr_model_convert(in_dir("same.caffemodel"), in_dir("same.caffemodel"), CREMA_F64, false,
                      &report));
  ok(cr_model_convert(in_dir("same.caffemodel"), in_dir("same.caffemodel"), CREMA_F32, false,
                      &report));
  cr_buffer_clear(&after);
  ok(cr_file_read(in_dir("same.caffemodel"), &after));
  assert_int_equal(before.size, after.size);
  assert_memory_equal(before.data, after.data, before.size);
  cr_buffer_free(&before);
  cr_buffer_free(&after);
}

/* Values are rounded once, to even; gradients too; integers stay. */
TEST(values_are_rounded_once) {
  cr_convert_report report;
  /* Just above the middle of two halves; a float between would be the middle, a tie to even. */
  write_model(
      "layer { name: 'a' blobs { shape { dim: 2 } double_data: [1.00048828125000001, "
      "1.000488281250001] diff: [0.1, 3] } blobs { shape { dim: 1 } raw_data_type: INT "
      "raw_data: '\\001\\000\\000\\000' } }",
      "fine.caffemodel");
  ok(cr_model_convert(in_dir("fine.caffemodel"), in_dir("half.caffemodel"), CREMA_F16, false,
                      &report));
  assert_int_equal(report.kept, 1);
  assert_int_equal(report.values, 4);
  Caffe__NetParameter *model = read_model("half.caffemodel");
  const uint8_t *bytes = blob_at(model, 0)->raw_data.data;
  assert_int_equal(bytes[0] | bytes[1] << 8, 0x3c00);
  assert_int_equal(bytes[2] | bytes[3] << 8, 0x3c01);
  assert_int_equal(blob_at(model, 0)->raw_diff_type, CAFFE__TYPE__FLOAT16);
  assert_int_equal(blob_at(model, 0)->n_diff, 0);
  assert_int_equal(blob_at(model, 1)->raw_data_type, CAFFE__TYPE__INT);
  assert_near(report.worst, 0x1p-11, 1e-6); /* half a unit above 1 */
  cr_message_free(&model->base);
}

static void refuse_convert(const char *in, crema_status code, const char *const *words) {
  cr_convert_report report;
  unlink(in_dir("never.caffemodel"));
  crema_status status =
      cr_model_convert(in_dir(in), in_dir("never.caffemodel"), CREMA_F16, false, &report);
  if (status != code) print_error("%s: %s\n", crema_status_name(status), crema_error_text());
  assert_int_equal(status, code);
  assert_names(words);
  assert_false(cr_file_exists(in_dir("never.caffemodel")));
}

/* A file that is cut anywhere is refused, or is one that ends between two layers; a length that
 * promises more than there is allocates nothing. */
TEST(damaged_models_are_refused) {
  cr_buffer bytes = {0};
  Caffe__NetParameter *model = parse_model(bvlc_model);
  ok(cr_wire_print(&model->base, &bytes));
  cr_message_free(&model->base);
  for (size_t size = 0; size < bytes.size; ++size) {
    cr_convert_report report;
    ok(cr_file_write(in_dir("cut.caffemodel"), bytes.data, size));
    crema_status status =
        cr_model_convert(in_dir("cut.caffemodel"), in_dir("cut.out"), CREMA_F16, false, &report);
    if (status == CREMA_OK) assert_int_equal(report.blobs, 2);
    else assert_true(status == CREMA_E_CORRUPT);
  }
  cr_buffer_free(&bytes);
  static const uint8_t huge[] = {0xa2, 0x06, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01};
  ok(cr_file_write(in_dir("huge.caffemodel"), huge, sizeof huge));
  refuse_convert("huge.caffemodel", CREMA_E_CORRUPT, WORDS("huge.caffemodel", "truncated"));
  write_model("layer { blobs { shape { dim: 1000000000 dim: 1000 } data: 1 } }",
              "large.caffemodel");
  refuse_convert("large.caffemodel", CREMA_E_CORRUPT,
                 WORDS("the blob at byte", "stored with 1 values"));
  write_model("layer { blobs { shape { dim: 9000000000 dim: 9000000000 } data: 1 } }",
              "large.caffemodel");
  refuse_convert("large.caffemodel", CREMA_E_SHAPE, WORDS("large.caffemodel"));
  write_model("name: 'bare' layer { name: 'a' }", "bare.caffemodel");
  refuse_convert("bare.caffemodel", CREMA_E_NOT_FOUND, WORDS("holds no parameters"));
  write_model("name: 'bare'", "bare.caffemodel");
  refuse_convert("bare.caffemodel", CREMA_E_CORRUPT, WORDS("holds no layers"));
  refuse_convert("missing.caffemodel", CREMA_E_NOT_FOUND, WORDS("missing.caffemodel"));
  ok(cr_file_write(in_dir("text"), PRODUCT, sizeof PRODUCT - 1));
  refuse_convert("text", CREMA_E_CORRUPT, WORDS("looks like text"));
}

/* ---- fields that choose algorithms and layouts of NVIDIA's libraries ---- */

static const char overrides[] =
    "default_conv_algos_override: \"1,0,2\"\n"
    "default_cudnn_math_override: 1\n"
    "layer {\n"
    "  name: \"data\"\n"
    "  type: \"MemoryData\"\n"
    "  top: \"data\"\n"
    "  top: \"label\"\n"
    "  transform_param {\n"
    "    forward_packing: NHWC\n"
    "  }\n"
    "  memory_data_param {\n"
    "    batch_size: 2\n"
    "    channels: 1\n"
    "    height: 4\n"
    "    width: 4\n"
    "  }\n"
    "}\n"
    "layer {\n"
    "  name: \"conv\"\n"
    "  type: \"Convolution\"\n"
    "  bottom: \"data\"\n"
    "  top: \"conv\"\n"
    "  convolution_param {\n"
    "    num_output: 2\n"
    "    kernel_size: 3\n"
    "    conv_algos_override: \"0,1,1\"\n"
    "  }\n"
    "  cudnn_math_override: 0\n"
    "}\n";

/* In the net that is built, in both formats of files, and in the layers of a model; a file without
 * them gets the defaults, and is written without them. */
TEST(s4_59_overrides_are_carried) {
  cr_buffer text = {0};
  crema_net *net = build(overrides, CREMA_TRAIN), *plain = build(INPUT("x", "dim: 1"), CREMA_TRAIN);
  Caffe__NetParameter *model = NULL;
  assert_string_equal(net->param->default_conv_algos_override, "1,0,2");
  assert_int_equal(net->param->default_cudnn_math_override, 1);
  assert_string_equal(plain->param->default_conv_algos_override, "-1,-1,-1");
  assert_int_equal(plain->param->default_cudnn_math_override, -1);
  assert_int_equal(plain->param->layer[0]->cudnn_math_override, -1);
  assert_false(plain->param->layer[0]->has_cudnn_math_override);
  assert_false(plain->param->has_default_cudnn_math_override);
  write_model(overrides, "overrides");
  model = read_model("overrides");
  ok(cr_text_print(&model->base, &text));
  assert_string_equal(text.data, overrides);
  cr_message_free(&model->base);
  ok(crema_net_save_weights(net, in_dir("weights")));
  model = read_model("weights");
  assert_int_equal(model->layer[0]->transform_param->forward_packing, CAFFE__PACKING__NHWC);
  assert_true(model->layer[1]->has_cudnn_math_override);
  assert_int_equal(model->layer[1]->cudnn_math_override, 0);
  assert_string_equal(model->layer[1]->convolution_param->conv_algos_override, "0,1,1");
  assert_int_equal(model->layer[1]->n_blobs, 2);
  cr_message_free(&model->base);
  cr_buffer_free(&text);
  crema_net_destroy(plain);
  crema_net_destroy(net);
}

static int make_dir(void **state) {
  (void)state;
  return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state) {
  char command[300];
  (void)state;
  snprintf(command, sizeof command, "rm -rf '%s'", dir);
  return system(command);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s4_38_every_type_is_read_into_every_other),
      cmocka_unit_test(s4_38_each_type_has_its_field),
      cmocka_unit_test(doubles_and_full_precision_lose_nothing),
      cmocka_unit_test(s4_38_integers_of_every_type),
      cmocka_unit_test(integers_stay_integers),
      cmocka_unit_test(s4_38_nets_of_every_type_read_each_other),
      cmocka_unit_test(conversions_are_counted),
      cmocka_unit_test(s4_58_batch_norms_of_old_models),
      cmocka_unit_test(s4_59_overrides_are_carried),
      cmocka_unit_test(models_are_converted_in_all_directions),
      cmocka_unit_test(all_else_stays_as_it_is),
      cmocka_unit_test(values_are_rounded_once),
      cmocka_unit_test(damaged_models_are_refused),
  };
  return run_each_of(tests, make_dir, remove_dir);
}
