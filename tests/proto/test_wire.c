/* Wire format: bytes to messages and back, numbers of the dialects, damaged input. */
#include "proto_test.h"

#include "proto/wire_writer.h"

#define LAYER (&caffe__layer_parameter__descriptor)
#define TRANSFORM (&caffe__transformation_parameter__descriptor)
#define BYTES(literal) (const uint8_t *)(literal), sizeof(literal) - 1

static ProtobufCMessage *must_read(const ProtobufCMessageDescriptor *type, const uint8_t *bytes,
                                   size_t size) {
  ProtobufCMessage *message = NULL;
  crema_status status = cr_wire_parse(type, bytes, size, "w", &message);
  if (status != CREMA_OK) fail_msg("refused: %s", crema_error_text());
  return message;
}

static void must_write(const ProtobufCMessage *message, const uint8_t *bytes, size_t size) {
  cr_buffer out = {0};
  ok(cr_wire_print(message, &out));
  assert_int_equal(out.size, size);
  assert_int_equal(cr_wire_size(message), size);
  if (size > 0) assert_memory_equal(out.data, bytes, size);
  cr_buffer_free(&out);
}

/* `bytes` must mean `text` and be written as they were read. */
static void must_mean(const ProtobufCMessageDescriptor *type, const char *text,
                      const uint8_t *bytes, size_t size) {
  ProtobufCMessage *message = must_read(type, bytes, size);
  must_print(message, text);
  must_write(message, bytes, size);
  cr_message_free(message);
}

static void must_refuse(const ProtobufCMessageDescriptor *type, const char *why,
                        const uint8_t *bytes, size_t size) {
  ProtobufCMessage *message = NULL;
  assert_int_equal(cr_wire_parse(type, bytes, size, "w", &message), CREMA_E_CORRUPT);
  assert_null(message);
  assert_string_equal(crema_error_text(), why);
}

TEST(scalars) {
  must_mean(NET, "", BYTES(""));
  must_mean(NET, "name: \"ab\"\n",
            BYTES("\x0A\x02"
                  "ab"));
  must_mean(NET, "input_dim: 1\ninput_dim: -1\n",
            BYTES("\x20\x01\x20\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
  must_mean(SOLVER, "base_lr: 1\nsolver_mode: CPU\nrandom_seed: 300\n",
            BYTES("\x2D\x00\x00\x80\x3F\x88\x01\x00\xA0\x01\xAC\x02"));
  must_mean(&caffe__blob_proto__descriptor, "data: 1\ndata: -2\n",
            BYTES("\x2A\x08\x00\x00\x80\x3F\x00\x00\x00\xC0"));
  must_mean(&caffe__blob_shape__descriptor, "dim: 3\ndim: -1\n",
            BYTES("\x0A\x0B\x03\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
  must_mean(&caffe__datum__descriptor, "data: \"\\000\\377\"\nlabel: 7\n",
            BYTES("\x22\x02\x00\xFF\x28\x07"));
}

TEST(packed_and_unpacked_are_read) {
  static const char expected[] = "data: 1\ndata: -2\ndata: 1\n";
  ProtobufCMessage *blob =
      must_read(&caffe__blob_proto__descriptor,
                BYTES("\x2D\x00\x00\x80\x3F\x2A\x00\x2A\x08\x00\x00\x00\xC0\x00\x00\x80\x3F"));
  must_print(blob, expected);
  must_write(blob, BYTES("\x2A\x0C\x00\x00\x80\x3F\x00\x00\x00\xC0\x00\x00\x80\x3F"));
  cr_message_free(blob);
  /* test_iter is not packed in the schema; a packed run of it is read all the same. */
  ProtobufCMessage *solver = must_read(SOLVER, BYTES("\x1A\x03\x01\xAC\x02\x18\x05"));
  must_print(solver, "test_iter: 1\ntest_iter: 300\ntest_iter: 5\n");
  cr_message_free(solver);
}

TEST(later_parts_are_merged) {
  ProtobufCMessage *message = must_read(NET, BYTES("\x0A\x01"
                                                   "a\x32\x02\x08\x00\x0A\x01"
                                                   "b\x32\x05\x1A\x01s\x10\x05"));
  must_print(message, "name: \"b\"\nstate {\n  phase: TRAIN\n  level: 5\n  stage: \"s\"\n}\n");
  cr_message_free(message);
}

TEST(unknown_fields_are_kept) {
  /* Number 1000 as a varint, as bytes, as a group; a known number (6, a message) as a varint. */
  static const char bytes[] =
      "\x28\x01\xC0\x3E\x96\x01\xC2\x3E\x02xy\xC3\x3E\x08\x01\x13\x0A\x01z\x14\xC4\x3E\x30\x05";
  must_mean(NET, "force_backward: true\n", BYTES(bytes));
  ProtobufCMessage *message = must_read(NET, BYTES(bytes));
  ProtobufCMessage *copy = NULL;
  assert_int_equal(message->n_unknown_fields, 4);
  ok(cr_message_copy(message, &copy));
  must_write(copy, BYTES(bytes));
  cr_message_free(copy);
  cr_message_free(message);
}

TEST(foreign_enum_values_are_kept_aside) {
  ProtobufCMessage *message = must_read(SOLVER, BYTES("\x88\x01\x07"));
  assert_false(((Caffe__SolverParameter *)message)->has_solver_mode);
  must_write(message, BYTES("\x88\x01\x07"));
  cr_message_free(message);
}

TEST(dialects_of_a_layer) {
  must_mean(LAYER, "parameter_param {\n}\nrecurrent_param {\n}\nswish_param {\n}\n",
            BYTES("\x8A\x09\x00\x92\x09\x00\x9A\x09\x00"));
  must_mean(LAYER,
            "forward_type: FLOAT16\nbackward_type: FLOAT\nforward_math: DOUBLE\n"
            "backward_math: INT\n",
            BYTES("\x88\x09\x02\x90\x09\x01\x98\x09\x00\xA0\x09\x03"));
  /* nv has recurrent_param under 151. */
  ProtobufCMessage *message = must_read(LAYER, BYTES("\xBA\x09\x02\x08\x04"));
  must_print(message, "recurrent_param {\n  num_output: 4\n}\n");
  must_write(message, BYTES("\x92\x09\x02\x08\x04"));
  cr_message_free(message);
}

TEST(dialects_of_a_transformation) {
  must_mean(TRANSFORM, "resize_param {\n}\ncrop_h: 5\ncrop_w: 6\n",
            BYTES("\x42\x00\x58\x05\x60\x06"));
  /* use_gpu_transform can only be nv: 11 is img_rand_resize_upper then, and crop_h 211. */
  must_mean(TRANSFORM, "crop_h: 9\nuse_gpu_transform: true\nimg_rand_resize_upper: 5\n",
            BYTES("\x40\x01\x58\x05\x98\x0D\x09"));
  must_mean(TRANSFORM, "resize_param {\n}\nrandom_seed: 3\n", BYTES("\x48\x03\x82\x0D\x00"));
  /* Alone, img_rand_resize_upper could not be told from crop_h: it keeps its private number. */
  must_mean(TRANSFORM, "img_rand_resize_upper: 5\n", BYTES("\xD8\xE2\x09\x05"));
}

/* Intel Caffe has other fields under numbers of NVIDIA's. */
TEST(dialects_of_a_normalization) {
  must_mean(LAYER,
            "batch_norm_param {\n  scale_filler {\n  }\n  bias_filler {\n  }\n"
            "  scale_bias: true\n}\n",
            BYTES("\xDA\x08\x06\x2A\x00\x32\x00\x38\x01"));
  must_mean(LAYER,
            "batch_norm_param {\n  use_weight_bias: true\n  bias_term: false\n"
            "  filler {\n  }\n}\n",
            BYTES("\xDA\x08\x06\x28\x01\x30\x00\x3A\x00"));
}

/* MS-CNN's pad_ratio has the number of pooled_size. */
TEST(dialects_of_a_pooling_of_regions) {
  must_mean(&caffe__roipooling_parameter__descriptor, "pad_ratio: 0.5\n",
            BYTES("\x25\x00\x00\x00\x3F"));
  must_mean(&caffe__roipooling_parameter__descriptor, "pooled_size: 3\n", BYTES("\x20\x03"));
}

/* A layer of PSPNet's models has bn_param under the number of trt_param. It is kept aside. */
TEST(bn_param_in_models) {
  ProtobufCMessage *message = must_read(LAYER, BYTES("\x12\x02"
                                                     "BN"
                                                     "\xC2\x09\x07\x0A\x00\x1D\x00\x00\x00\x3F"));
  assert_string_equal(((Caffe__LayerParameter *)message)->type, "BN");
  assert_null(((Caffe__LayerParameter *)message)->bn_param);
  cr_message_free(message);
}

TEST(dialects_of_a_solver) {
  must_mean(SOLVER, "layer_wise_reduce: false\nweights: \"w\"\n",
            BYTES("\xC8\x02\x00\xD2\x02\x01w"));
  must_mean(SOLVER, "min_lr: 1\nrampup_lr: 2\n",
            BYTES("\xD5\x02\x00\x00\x00\x40\xDD\x02\x00\x00\x80\x3F"));
  ProtobufCMessage *message = must_read(SOLVER, BYTES("\xCA\x02\x01s\xD8\x02\x04\xD8\x02\x05"));
  must_print(message, "eval_type: \"s\"\nplateau_winsize: 4\nplateau_winsize: 5\n");
  cr_message_free(message);
}

TEST(damaged_input_is_refused) {
  must_refuse(NET, "w: byte 0: neither a field nor the end in NetParameter", BYTES("\x00"));
  must_refuse(NET, "w: byte 0: neither a field nor the end in NetParameter", BYTES("\x0C"));
  must_refuse(NET, "w: byte 0: neither a field nor the end in NetParameter", BYTES("\x0F"));
  must_refuse(NET, "w: byte 0: neither a field nor the end in NetParameter",
              BYTES("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
  must_refuse(NET,
              "w: byte 2: field 100 (layer) of NetParameter needs 9 bytes, but only 2 are left; "
              "the data is truncated or damaged",
              BYTES("\x28\x01\xA2\x06\x09\x0A\x05"));
  must_refuse(NET,
              "w: byte 3: field 1 (name) of LayerParameter needs 5 bytes, but only 1 are left; "
              "the data is damaged",
              BYTES("\xA2\x06\x03\x0A\x05x\x28\x01"));
  must_refuse(NET,
              "w: byte 0: field 100 (layer) of NetParameter needs 18446744073709551615 bytes, "
              "but only 0 are left; the data is truncated or damaged",
              BYTES("\xA2\x06\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x01"));
  must_refuse(NET, "w: byte 0: unfinished group in NetParameter", BYTES("\xC3\x3E\x08"));
  must_refuse(NET, "w: byte 2: a NUL byte in the string name", BYTES("\x0A\x01\x00"));
  must_refuse(&caffe__blob_proto__descriptor,
              "w: byte 1: the values of BlobProto.data do not fill their record",
              BYTES("\x2A\x05\x00\x00\x80\x3F\x00"));
  must_refuse(LAYER, "w: byte 3: ClipParameter lacks its required field \"max\"",
              BYTES("\xA2\x09\x05\x0D\x00\x00\x00\x00"));
}

TEST(deep_groups_are_refused) {
  uint8_t bytes[1000];
  memset(bytes, 0x7B, sizeof bytes);
  ProtobufCMessage *message = NULL;
  assert_int_equal(cr_wire_parse(NET, bytes, sizeof bytes, "w", &message), CREMA_E_CORRUPT);
}

TEST(every_prefix_is_read_or_refused) {
  ProtobufCMessage *message = must_parse(
      NET,
      "name: 'n' input: 'a' input_shape { dim: [1, 300] } layer { name: 'l' type: 'T' loss_weight: "
      "1 blobs { data: [1, 2, 3] double_data: 4 shape { dim: 3 } } transform_param { mirror: true "
      "} } state { stage: 's' }");
  cr_buffer wire = {0};
  ok(cr_wire_print(message, &wire));
  cr_message_free(message);
  size_t refused = 0;
  for (size_t size = 0; size <= wire.size; ++size) {
    uint8_t *exact = malloc(size > 0 ? size : 1);
    assert_non_null(exact);
    memcpy(exact, wire.data, size);
    crema_status status = cr_wire_parse(NET, exact, size, "w", &message);
    assert_true(status == CREMA_OK || status == CREMA_E_CORRUPT);
    if (status == CREMA_OK) cr_message_free(message);
    else ++refused;
    free(exact);
  }
  assert_true(refused > wire.size / 2);
  cr_buffer_free(&wire);
}

TEST(copies_are_deep) {
  static const char text[] =
      "name: \"n\"\ninput: \"a\"\ninput: \"b\"\nlayer {\n  name: \"l\"\n  blobs {\n    data: 1\n"
      "    raw_data: \"\\000x\"\n  }\n  exp_param {\n    base: 3\n  }\n}\n";
  ProtobufCMessage *message = must_parse(NET, text);
  ProtobufCMessage *copy = NULL;
  ok(cr_message_copy(message, &copy));
  cr_message_free(message);
  must_print(copy, text);
  cr_message_free(copy);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
