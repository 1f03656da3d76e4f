/* Binary models of C3D 1.0: layers of the second format with C3D's numbers of types and fields, and
 * blobs of five extents. The numbers come from C3D's caffe.proto. */
#include "net_case.h"
#include "proto/proto.h"

enum { VARINT = 0, BYTES = 2 };
enum {
  CONVOLUTION3D = 30,
  POOLING3D = 31,
  VIDEO_DATA = 33,
  DECONVOLUTION3D = 34,
  INNER_PRODUCT = 14
};

static void put_varint(cr_buffer *out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) {
    ok(cr_buffer_append(out, &(uint8_t){(uint8_t)(value | 0x80)}, 1));
  }
  ok(cr_buffer_append(out, &(uint8_t){(uint8_t)value}, 1));
}

static void put_number(cr_buffer *out, uint32_t field, uint64_t value) {
  put_varint(out, field << 3 | VARINT);
  put_varint(out, value);
}

static void put_bytes(cr_buffer *out, uint32_t field, const void *bytes, size_t size) {
  put_varint(out, field << 3 | BYTES);
  put_varint(out, size);
  if (size > 0) ok(cr_buffer_append(out, bytes, size));
}

static void put_text(cr_buffer *out, uint32_t field, const char *text) {
  put_bytes(out, field, text, strlen(text));
}

/* Puts a finished message into another one, and empties it. */
static void put_message(cr_buffer *out, uint32_t field, cr_buffer *inner) {
  put_bytes(out, field, inner->data, inner->size);
  cr_buffer_free(inner);
}

/* A blob with the values first, first + 1, ..., and a diff of zeros. */
static void put_blob(cr_buffer *layer, const int extent[5], float first) {
  cr_buffer blob = {0}, data = {0}, diff = {0};
  int count = 1;
  for (int i = 0; i < 5; ++i) {
    put_number(&blob, (uint32_t)i + 1, (uint64_t)extent[i]);
    count *= extent[i];
  }
  for (int i = 0; i < count; ++i) {
    const float value = first + (float)i, zero = 0;
    ok(cr_buffer_append(&data, &value, sizeof value));
    ok(cr_buffer_append(&diff, &zero, sizeof zero));
  }
  put_message(&blob, 6, &data);
  put_message(&blob, 7, &diff);
  put_message(layer, 6, &blob);
}

static void put_layer(cr_buffer *net, const char *name, int type, uint32_t field, cr_buffer *param,
                      cr_buffer *blobs) {
  cr_buffer layer = {0};
  put_text(&layer, 2, "bottom");
  put_text(&layer, 3, "top");
  put_text(&layer, 4, name);
  put_number(&layer, 5, (uint64_t)type);
  if (blobs != NULL) {
    ok(cr_buffer_append(&layer, blobs->data, blobs->size));
    cr_buffer_free(blobs);
  }
  put_message(&layer, field, param);
  put_message(net, 2, &layer);
}

/* With `plain`, fields that only C3D has under their numbers are left out. */
static void put_convolution(cr_buffer *net, int type, bool plain) {
  cr_buffer param = {0}, filler = {0}, blobs = {0};
  put_number(&param, 1, 2); /* num_output */
  put_number(&param, 3, 1); /* pad */
  put_number(&param, 4, 3); /* kernel_size */
  put_number(&param, 6, 2); /* kernel_depth */
  if (!plain) {
    put_text(&filler, 1, "gaussian");
    put_number(&param, 7, 1); /* stride */
    put_number(&param, 8, 2); /* temporal_stride */
    put_message(&param, 9, &filler);
    put_message(&param, 10, &filler);
  }
  put_number(&param, 11, 1); /* filter_group */
  put_number(&param, 12, 0); /* temporal_pad */
  put_blob(&blobs, (const int[]){2, 1, 2, 3, 3}, 1);
  put_blob(&blobs, (const int[]){1, 1, 1, 1, 2}, 100);
  put_layer(net, "conv", type, 10, &param, &blobs);
}

static void put_model(cr_buffer *net, bool plain) {
  cr_buffer param = {0}, blobs = {0};
  put_text(net, 1, "c3d");
  put_text(&param, 1, "clips.txt");
  put_number(&param, 4, 30);  /* batch_size */
  put_number(&param, 11, 16); /* new_length */
  put_number(&param, 13, 1);  /* use_image */
  put_layer(net, "data", VIDEO_DATA, 15, &param, NULL);
  put_convolution(net, CONVOLUTION3D, plain);
  put_number(&param, 1, 0); /* pool */
  put_number(&param, 2, 2); /* kernel_size */
  put_number(&param, 3, 2); /* stride */
  put_number(&param, 5, 1); /* kernel_depth */
  put_number(&param, 6, 1); /* temporal_stride */
  put_layer(net, "pool", POOLING3D, 19, &param, NULL);
  put_number(&param, 1, 3); /* num_output */
  put_blob(&blobs, (const int[]){1, 1, 1, 3, 16}, 1000);
  put_blob(&blobs, (const int[]){1, 1, 1, 1, 3}, 2000);
  put_layer(net, "fc", INNER_PRODUCT, 17, &param, &blobs);
}

static const char net_text[] =
    "input: 'x' input_dim: [1, 1, 4, 4, 4]\n"
    "layers { name: 'conv' type: CONVOLUTION3D bottom: 'x' top: 'c' convolution_param {\n"
    "  num_output: 2 pad: 1 kernel_size: 3 kernel_depth: 2 temporal_stride: 2 temporal_pad: 0 } }\n"
    "layers { name: 'pool' type: POOLING3D bottom: 'c' top: 'p'\n"
    "  pooling_param { pool: MAX kernel_size: 2 stride: 2 kernel_depth: 1 temporal_stride: 1 } }\n"
    "layers { name: 'fc' type: INNER_PRODUCT bottom: 'p' top: 'f'\n"
    "  inner_product_param { num_output: 3 } }\n";

static void must_count_from(crema_net *net, const char *layer, int index, int count, float first) {
  const float *value = NULL;
  crema_blob *blob = param_of(net, layer, index);
  assert_int_equal(crema_blob_count(blob), count);
  ok(crema_blob_cpu_data(blob, &value));
  for (int i = 0; i < count; ++i) assert_float_equal(value[i], first + (float)i, 0);
}

static void must_have_weights(crema_net *net) {
  must_count_from(net, "conv", 0, 36, 1);
  must_count_from(net, "conv", 1, 2, 100);
  must_count_from(net, "fc", 0, 48, 1000);
  must_count_from(net, "fc", 1, 3, 2000);
}

TEST(weights_are_read) {
  for (int plain = 0; plain < 2; ++plain) {
    cr_buffer model = {0};
    put_model(&model, plain == 1);
    crema_net *net = build(net_text, CREMA_TEST);
    ok(crema_net_load_weights_memory(net, model.data, model.size, "c3d", NULL));
    must_have_weights(net);
    crema_net_destroy(net);
    cr_buffer_free(&model);
  }
}

/* Extents that differ from the layer's are refused. */
TEST(weights_of_another_shape_are_refused) {
  cr_buffer model = {0}, param = {0}, blobs = {0};
  put_number(&param, 1, 2);
  put_number(&param, 4, 3);
  put_number(&param, 6, 2);
  put_blob(&blobs, (const int[]){2, 1, 3, 3, 2}, 1);
  put_blob(&blobs, (const int[]){1, 1, 1, 1, 2}, 1);
  put_layer(&model, "conv", CONVOLUTION3D, 10, &param, &blobs);
  crema_net *net = build(net_text, CREMA_TRAIN);
  assert_int_equal(crema_net_load_weights_memory(net, model.data, model.size, "c3d", NULL),
                   CREMA_E_SHAPE);
  assert_names(WORDS("c3d", "'conv'"));
  crema_net_destroy(net);
  cr_buffer_free(&model);
}

/* The layers become layers of other dialects, and are written with the usual numbers. */
TEST(layers_get_todays_types_and_fields) {
  static const int types[] = {CONVOLUTION3D, DECONVOLUTION3D};
  for (int i = 0; i < 4; ++i) {
    cr_buffer model = {0}, again = {0};
    ProtobufCMessage *message = NULL;
    const bool plain = i % 2 == 1;
    put_convolution(&model, types[i / 2], plain);
    for (int round = 0; round < 2; ++round) {
      const cr_buffer *wire = round == 0 ? &model : &again;
      ok(cr_wire_parse(&caffe__net_parameter__descriptor, (const uint8_t *)wire->data, wire->size,
                       "c3d", &message));
      Caffe__NetParameter *net = (Caffe__NetParameter *)message;
      ok(cr_weights_param_upgrade(net, "c3d"));
      assert_int_equal(net->n_layer, 1);
      const Caffe__LayerParameter *layer = net->layer[0];
      const Caffe__ConvolutionParameter *conv = layer->convolution_param;
      assert_string_equal(layer->type, i < 2 ? "Convolution" : "Deconvolution");
      assert_int_equal(conv->n_kernel_size, 3);
      assert_int_equal(conv->kernel_size[0], 2);
      assert_int_equal(conv->kernel_size[2], 3);
      assert_int_equal(conv->stride[0], plain ? 1 : 2);
      assert_int_equal(conv->stride[2], 1);
      assert_int_equal(conv->pad[0], 0);
      assert_int_equal(conv->pad[1], 1);
      assert_false(conv->has_kernel_h || conv->has_kernel_w);
      assert_true((conv->weight_filler != NULL) == !plain);
      assert_int_equal(layer->n_blobs, 2);
      assert_int_equal(layer->blobs[0]->length, 2);
      assert_int_equal(layer->blobs[0]->n_data, 36);
      assert_int_equal(layer->blobs[0]->n_diff, 36);
      if (round == 0) ok(cr_wire_print(message, &again));
      cr_message_free(message);
    }
    cr_buffer_free(&again);
    cr_buffer_free(&model);
  }
}

/* Types of other dialects with the same numbers stay. */
TEST(types_of_other_dialects_stay) {
  static const char *const types[] = {
      [30] = "ArgMax", [31] = "Threshold", [33] = "Slice", [34] = "MVN"};
  for (int type = 30; type <= 34; ++type) {
    cr_buffer model = {0}, param = {0};
    ProtobufCMessage *message = NULL;
    if (types[type] == NULL) continue;
    put_layer(&model, "layer", type, 21, &param, NULL); /* an empty power_param */
    ok(cr_wire_parse(&caffe__net_parameter__descriptor, (const uint8_t *)model.data, model.size,
                     "other", &message));
    ok(cr_weights_param_upgrade((Caffe__NetParameter *)message, "other"));
    assert_string_equal(((Caffe__NetParameter *)message)->layer[0]->type, types[type]);
    cr_message_free(message);
    cr_buffer_free(&model);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
