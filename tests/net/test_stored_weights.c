/* Weights that are left in their file until they are wanted. Blobs here are large enough for that
 * where nothing else is said. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/fail.h"
#include "device/device.h"
#include "folder.h"
#include "memory/tensor_source.h"
#include "net_case.h"

/* 64 x 64 x 3 x 3 and 300 x 1024 weights, small biases, and a parameter with two owners. */
#define NET(types) \
  "name: 'model' " types INPUT(                                                                 \
      "data", DIM4(1, 64, 4, 4)) "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: " \
                                 "'conv' convolution_param { num_output: 64 kernel_size: 3 "    \
                                 "pad: 1 weight_filler { type: 'xavier' } } }\n"                \
                                 "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv' top: " \
                                 "'fc' param { name: 'w' } inner_product_param { num_output: "  \
                                 "300 weight_filler { type: 'xavier' } } }\n"                   \
                                 "layer { name: 'fc2' type: 'InnerProduct' bottom: 'conv' "     \
                                 "top: 'fc2' param { name: 'w' } inner_product_param { "        \
                                 "num_output: 300 } }\n"
#define FLOATS NET("")

static void fill_params(crema_net *net, float first) {
  for (int i = 0; i < net->learnables; ++i) {
    float *data = NULL;
    ok(crema_blob_mutable_cpu_data(net->learnable[i], &data));
    for (int64_t k = 0; k < crema_blob_count(net->learnable[i]); ++k) {
      data[k] = first + (float)i + (float)(k % 128) / 128;
    }
  }
}

static void assert_same_params(crema_net *a, crema_net *b) {
  assert_int_equal(a->learnables, b->learnables);
  for (int i = 0; i < a->learnables; ++i) {
    assert_memory_equal(data_of(a->learnable[i]), data_of(b->learnable[i]),
                        (size_t)crema_blob_count(a->learnable[i]) * sizeof(float));
  }
}

static crema_status run_net(crema_net *net, float *out) {
  const float *values = NULL;
  fill(crema_net_input(net, 0), 1.0f, 0.01f);
  CR_TRY(crema_net_forward(net, NULL));
  CR_TRY(crema_blob_cpu_data(crema_net_output(net, 0), &values));
  memcpy(out, values, 300 * sizeof *out);
  return CREMA_OK;
}

static void assert_same_outputs(crema_net *a, crema_net *b) {
  float left[300], right[300];
  ok(run_net(a, left));
  ok(run_net(b, right));
  assert_memory_equal(left, right, sizeof left);
}

/* Loads the file's bytes, which are then destroyed, from an address that fits no type. */
static void load_from_memory(crema_net *net, const char *path) {
  cr_buffer file = {0};
  crema_weights_options options;
  crema_weights_options_init(&options);
  ok(cr_file_read(path, &file));
  char *odd = malloc(file.size + 1);
  assert_non_null(odd);
  memcpy(odd + 1, file.data, file.size);
  ok(crema_net_load_weights_memory(net, odd + 1, file.size, "memory", &options));
  memset(odd, 0x5A, file.size + 1);
  free(odd);
  cr_buffer_free(&file);
}

static size_t param_bytes(const crema_net *net, const char *layer) {
  const cr_tensor *data = param_of((crema_net *)(uintptr_t)net, layer, 0)->data;
  return cr_tensor_memory_of(data).host;
}

TEST(weights_of_all_types_come_back) {
  static const char *const text[] = {
      FLOATS, NET("default_forward_type: FLOAT16 default_backward_type: FLOAT16 "),
      NET("default_forward_type: DOUBLE default_backward_type: DOUBLE ")};
  for (size_t i = 0; i < sizeof text / sizeof text[0]; ++i) {
    for (unsigned save = 0; save < 4; ++save) {
      crema_net *a = build(text[i], CREMA_TEST), *b = build(text[i], CREMA_TEST);
      crema_net *c = build(text[i], CREMA_TEST), *floats = build(FLOATS, CREMA_TEST);
      fill_params(a, 1.0f);
      ok(cr_net_save(a, path_of("w"), save));
      ok(crema_net_load_weights(b, path_of("w")));
      load_from_memory(c, path_of("w"));
      ok(crema_net_load_weights(floats, path_of("w")));
      assert_same_params(a, b);
      assert_same_params(a, c);
      assert_same_params(a, floats);
      assert_same_outputs(a, b);
      crema_net_destroy(a);
      crema_net_destroy(b);
      crema_net_destroy(c);
      crema_net_destroy(floats);
      assert_int_equal(unlink(path_of("w")), 0);
    }
  }
}

/* No memory is made before the values are wanted for the second time, and no more than one format
 * then. */
TEST(only_what_is_wanted_is_read) {
  crema_net *a = build(FLOATS, CREMA_TEST), *b = build(FLOATS, CREMA_TEST);
  fill_params(a, 1.0f);
  ok(crema_net_save_weights(a, path_of("w")));
  /* Fillers have made memory in `a` and `b`; a net whose fillers are all zero has none. */
  crema_net *c = build("name: 'model' " INPUT("data", DIM4(1, 64, 4, 4))
                       "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "
                       "convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }\n",
                       CREMA_TEST);
  assert_int_equal(param_bytes(c, "conv"), 0);
  ok(crema_net_load_weights(c, path_of("w")));
  assert_int_equal(param_bytes(c, "conv"), 0);
  ok(crema_net_forward(c, NULL));
  assert_int_equal(param_bytes(c, "conv"), 0);
  ok(crema_net_forward(c, NULL));
  const size_t one = sizeof(float) * 64 * 64 * 9;
  assert_in_range(param_bytes(c, "conv"), one, one + one / 4);
  ok(crema_net_load_weights(b, path_of("w")));
  assert_memory_equal(data_of(param_of(c, "conv", 0)), data_of(param_of(b, "conv", 0)), one);
  crema_net_destroy(a);
  crema_net_destroy(b);
  crema_net_destroy(c);
  assert_int_equal(unlink(path_of("w")), 0);
}

#define EMPTY \
  "name: 'model' " INPUT("data", DIM4(1, 64, 4, 4))                                        \
      "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' "               \
      "convolution_param { num_output: 64 kernel_size: 3 pad: 1 } }\n"                     \
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'conv' top: 'fc' "                  \
      "inner_product_param { num_output: 300 } }\n"

/* A new file that takes the name of the old one changes nothing. */
TEST(a_file_that_is_replaced_is_still_read) {
  crema_net *a = build(EMPTY, CREMA_TEST), *b = build(EMPTY, CREMA_TEST);
  fill_params(a, 1.0f);
  ok(crema_net_save_weights(a, path_of("w")));
  ok(crema_net_load_weights(b, path_of("w")));
  ok(cr_file_write(path_of("w"), "other", 5));
  assert_int_equal(unlink(path_of("w")), 0);
  assert_same_outputs(a, b);
  assert_same_params(a, b);
  crema_net_destroy(a);
  crema_net_destroy(b);
}

static void cut(const char *path) {
  assert_int_equal(truncate(path, 1000), 0);
}

static void overwrite(const char *path) {
  const struct timespec times[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
  int fd = open(path, O_WRONLY);
  assert_true(fd >= 0);
  assert_int_equal(pwrite(fd, "xxxx", 4, 100000), 4);
  assert_int_equal(futimens(fd, times), 0);
  close(fd);
}

/* Runs the net so many times before the file is changed. Values that were used once are read again.
 */
static void refuse_after(int runs, void (*change)(const char *path)) {
  float out[300];
  crema_net *net = build(EMPTY, CREMA_TEST);
  fill_params(net, 1.0f);
  ok(crema_net_save_weights(net, path_of("w")));
  crema_net_destroy(net);
  net = build(EMPTY, CREMA_TEST);
  ok(crema_net_load_weights(net, path_of("w")));
  for (int i = 0; i < runs; ++i) ok(run_net(net, out));
  change(path_of("w"));
  assert_int_equal(run_net(net, out), CREMA_E_CORRUPT);
  assert_names(WORDS(path_of("w"), "was changed", "conv"));
  /* It is no dead end. */
  ok(crema_net_load_weights(net, path_of("good")));
  ok(run_net(net, out));
  crema_net_destroy(net);
  assert_int_equal(unlink(path_of("w")), 0);
}

TEST(a_file_that_is_changed_is_an_error) {
  crema_net *net = build(EMPTY, CREMA_TEST);
  ok(crema_net_save_weights(net, path_of("good")));
  crema_net_destroy(net);
  for (int runs = 0; runs < 2; ++runs) {
    refuse_after(runs, cut);
    refuse_after(runs, overwrite);
  }
  assert_int_equal(unlink(path_of("good")), 0);
}

/* Tensors take values again, also while some are still in another file, and where the net has
 * memory already they are read at once. */
TEST(the_last_file_counts) {
  crema_net *a = build(EMPTY, CREMA_TEST), *b = build(EMPTY, CREMA_TEST);
  for (int i = 0; i < 4; ++i) {
    fill_params(a, (float)i);
    ok(crema_net_save_weights(a, path_of("w")));
    ok(crema_net_load_weights(b, path_of("w")));
    if (i % 2 == 1) assert_same_params(a, b);
    if (i == 3) assert_same_outputs(a, b);
  }
  cr_tensor_set_zero(b->learnable[0]->data);
  assert_true(data_of(b->learnable[0])[5] == 0.0f);
  crema_net_destroy(a);
  crema_net_destroy(b);
  assert_int_equal(unlink(path_of("w")), 0);
}

/* ---- files of other make ---- */

static void load_both(const char *text, const cr_buffer *file, crema_net *out[2]) {
  crema_weights_options options;
  crema_weights_options_init(&options);
  ok(cr_file_write(path_of("w"), file->data, file->size));
  for (int i = 0; i < 2; ++i) out[i] = build(text, CREMA_TEST);
  ok(crema_net_load_weights(out[0], path_of("w")));
  ok(crema_net_load_weights_memory(out[1], file->data, file->size, "memory", &options));
  assert_int_equal(unlink(path_of("w")), 0);
}

static void put_varint(cr_buffer *out, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    ok(cr_buffer_append(out, &(uint8_t){(uint8_t)value | 0x80}, 1));
  ok(cr_buffer_append(out, &(uint8_t){(uint8_t)value}, 1));
}

/* A field of bytes or a message. */
static void put_part(cr_buffer *out, unsigned number, const void *bytes, size_t size) {
  put_varint(out, (uint64_t)number << 3 | 2);
  put_varint(out, size);
  ok(cr_buffer_append(out, bytes, size));
}

enum { MANY = 40000 };

static void put_floats(cr_buffer *out, unsigned number, float first) {
  static float values[MANY];
  for (int i = 0; i < MANY; ++i) values[i] = first + (float)i;
  put_part(out, number, values, sizeof values);
}

/* Values in two runs belong together; so do a long run and single values. */
TEST(runs_are_joined) {
  for (int kind = 0; kind < 2; ++kind) {
    cr_buffer shape = {0}, blob = {0}, layer = {0}, file = {0};
    const int64_t count = kind == 0 ? 2 * MANY : MANY + 1;
    put_varint(&shape, 1 << 3);
    put_varint(&shape, (uint64_t)count);
    put_part(&blob, 7, shape.data, shape.size);
    put_floats(&blob, 5, 0.0f);
    if (kind == 0) put_floats(&blob, 5, MANY);
    const float last = MANY;
    if (kind == 1) put_varint(&blob, 5 << 3 | 5);
    if (kind == 1) ok(cr_buffer_append(&blob, &last, sizeof last));
    put_part(&layer, 1, "p", 1);
    put_part(&layer, 2, "Parameter", 9);
    put_part(&layer, 7, blob.data, blob.size);
    put_part(&file, 100, layer.data, layer.size);
    char text[256];
    snprintf(
        text, sizeof text,
        "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: %lld } } }",
        (long long)count);
    crema_net *net[2];
    load_both(text, &file, net);
    for (int n = 0; n < 2; ++n) {
      const float *values = data_of(param_of(net[n], "p", 0));
      for (int64_t i = 0; i < count; ++i) assert_true(values[i] == (float)i);
      crema_net_destroy(net[n]);
    }
    cr_buffer_free(&shape);
    cr_buffer_free(&blob);
    cr_buffer_free(&layer);
    cr_buffer_free(&file);
  }
}

/* A layer whose upgrade takes blobs apart, with `channels`: a BatchNorm of the NVIDIA dialect, or
 * PSPNet's BN, which lacks the third blob. */
static void put_norm(const char *type, const char *tops, int channels, cr_buffer *file) {
  const bool bn = strcmp(type, "BN") == 0;
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  ok(cr_buffer_print(&text, "layer { name: 'bn' type: '%s' %s ", type, tops));
  for (int i = 0; i < 5; ++i) {
    int count = i == 2 ? 1 : channels;
    if (bn && i == 2) continue;
    ok(cr_buffer_print(&text, "blobs { shape { dim: %d } ", count));
    for (int k = 0; k < count; ++k) ok(cr_buffer_print(&text, "data: %d ", i + 1));
    ok(cr_buffer_print(&text, "} "));
  }
  ok(cr_buffer_print(&text, bn ? "}" : "batch_norm_param { scale_bias: true } }"));
  ok(cr_text_parse(&caffe__net_parameter__descriptor, text.data, text.size, "text",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, file));
  cr_message_free(message);
  cr_buffer_free(&text);
}

TEST(large_norms_are_upgraded) {
  enum { CHANNELS = 20000 };
  cr_buffer file = {0};
  crema_net *net[2];
  put_norm("BatchNorm", "bottom: 'x' top: 'x'", CHANNELS, &file);
  load_both(INPUT("x", DIM4(1, 20000, 1, 1)) "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' "
                                             "top: 'x' batch_norm_param { scale_bias: true } }",
            &file, net);
  for (int n = 0; n < 2; ++n) {
    assert_true(data_of(param_of(net[n], "bn", 1))[CHANNELS - 1] == 2.0f);
    assert_true(data_of(param_of(net[n], "bn/scale_bias", 0))[CHANNELS - 1] == 4.0f);
    assert_true(data_of(param_of(net[n], "bn/scale_bias", 1))[0] == 5.0f);
    crema_net_destroy(net[n]);
  }
  cr_buffer_free(&file);
}

TEST(large_bn_layers_are_upgraded) {
  enum { CHANNELS = 20000 };
  cr_buffer file = {0};
  crema_net *net[2];
  put_norm("BN", "bottom: 'x' top: 'x'", CHANNELS, &file);
  load_both(INPUT("x", DIM4(1, 20000, 1, 1)) "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'x' }",
            &file, net);
  for (int n = 0; n < 2; ++n) {
    const float weight = data_of(param_of(net[n], "bn", 2))[0];
    assert_near(weight, 10, 1e-5);
    assert_true(data_of(param_of(net[n], "bn", 0))[0] == 4.0f * weight);
    assert_true(data_of(param_of(net[n], "bn", 1))[CHANNELS - 1] == 5.0f * weight);
    assert_true(data_of(param_of(net[n], "bn/scale_bias", 0))[CHANNELS - 1] == 1.0f);
    assert_true(data_of(param_of(net[n], "bn/scale_bias", 1))[0] == 2.0f);
    crema_net_destroy(net[n]);
  }
  cr_buffer_free(&file);
}

/* As scripts that convert models write them, which know names and values alone. */
TEST(norms_without_tops_are_upgraded) {
  static const char *const types[] = {"BatchNorm", "BN"};
  for (int t = 0; t < 2; ++t) {
    char text[300];
    cr_buffer file = {0};
    crema_net *net[2];
    put_norm(types[t], "", 3, &file);
    snprintf(text, sizeof text, "%slayer { name: 'bn' type: '%s' bottom: 'x' top: 'x' %s }",
             INPUT("x", DIM4(1, 3, 1, 1)), types[t],
             t == 0 ? "batch_norm_param { scale_bias: true }" : "");
    load_both(text, &file, net);
    for (int n = 0; n < 2; ++n) {
      assert_true(data_of(param_of(net[n], "bn/scale_bias", 1))[2] == (t == 0 ? 5.0f : 2.0f));
      crema_net_destroy(net[n]);
    }
    cr_buffer_free(&file);
  }
}

/* The statistics of a BN move towards a batch's by 1 - momentum, from the first batch on. */
TEST(statistics_of_bn_layers_are_not_forgotten) {
  crema_weights_options options;
  crema_weights_options_init(&options);
  cr_buffer file = {0};
  put_norm("BN", "", 2, &file);
  crema_net *net = build(INPUT("x", DIM4(2, 2, 1, 1)) "layer { name: 'bn' type: 'BN' bottom: 'x' "
                                                      "top: 'y' }",
                         CREMA_TRAIN);
  ok(crema_net_load_weights_memory(net, file.data, file.size, "memory", &options));
  fill(blob_of(net, "x"), 14.0f, 0.0f);
  ok(crema_net_forward(net, NULL));
  const float *mean = data_of(param_of(net, "bn", 0));
  const float weight = data_of(param_of(net, "bn", 2))[0];
  assert_near(mean[0] / weight, 0.9 * 4 + 0.1 * 14, 1e-4);
  crema_net_destroy(net);
  cr_buffer_free(&file);
}

/* Layers of the two older formats, `padding` among them, which the upgrade drops. */
TEST(old_formats_are_upgraded) {
  static const char *const head[] = {
      "layers { name: 'p' type: INNER_PRODUCT blobs { num: 1 channels: 1 height: 40 width: 1000 ",
      "layers { layer { name: 'p' type: 'innerproduct' num_output: 40 "
      "blobs { num: 1 channels: 1 height: 40 width: 1000 "};
  static const char *const tail[] = {
      "} inner_product_param { num_output: 40 bias_term: false } }",
      "} biasterm: false } } layers { layer { name: 'pad' type: 'padding' pad: 1 "
      "blobs { num: 1 channels: 1 height: 1 width: 1 } } bottom: 'q' top: 'r' } "
      "layers { layer { name: 'c' type: 'conv' num_output: 1 kernelsize: 3 } bottom: 'r' top: 's' "
      "}"};
  for (int kind = 0; kind < 2; ++kind) {
    cr_buffer text = {0}, file = {0};
    ProtobufCMessage *message = NULL;
    crema_net *net[2];
    ok(cr_buffer_print(&text, "%s", head[kind]));
    for (int i = 0; i < MANY; ++i) ok(cr_buffer_print(&text, "data: %d ", i));
    ok(cr_buffer_print(&text, "%s", tail[kind]));
    ok(cr_text_parse(&caffe__net_parameter__descriptor, text.data, text.size, "text",
                     CR_UNKNOWN_ERROR, &message));
    ok(cr_wire_print(message, &file));
    load_both(INPUT("x", DIM2(1, 1000)) "layer { name: 'p' type: 'InnerProduct' bottom: 'x' top: 'y' "
                                        "inner_product_param { num_output: 40 bias_term: false } }",
              &file, net);
    for (int n = 0; n < 2; ++n) {
      assert_true(data_of(param_of(net[n], "p", 0))[MANY - 1] == MANY - 1);
      crema_net_destroy(net[n]);
    }
    cr_message_free(message);
    cr_buffer_free(&text);
    cr_buffer_free(&file);
  }
}

/* Every cut of a file is refused, or lacks whole layers, in memory as well as in a file. */
TEST(cut_files_are_refused) {
  cr_buffer file = {0};
  crema_weights_options options;
  crema_weights_options_init(&options);
  crema_net *net = build(EMPTY, CREMA_TEST);
  fill_params(net, 1.0f);
  ok(crema_net_save_weights(net, path_of("w")));
  ok(cr_file_read(path_of("w"), &file));
  for (size_t size = 0; size < file.size; size += size < 300 ? 7 : 9973) {
    ok(cr_file_write(path_of("w"), file.data, size));
    crema_status status = crema_net_load_weights(net, path_of("w"));
    assert_true(status == CREMA_E_CORRUPT || status == CREMA_E_NOT_FOUND);
    assert_int_equal(crema_net_load_weights_memory(net, file.data, size, "memory", &options),
                     status);
    assert_names(WORDS("memory"));
  }
  crema_net_destroy(net);
  cr_buffer_free(&file);
  assert_int_equal(unlink(path_of("w")), 0);
}

/* ---- threads ---- */

typedef struct numbers {
  cr_tensor_source base;
  atomic_int reads;
  bool fails;
} numbers;

static crema_status read_numbers(cr_tensor_source *source, uint64_t at, void *out, size_t size) {
  numbers *self = (numbers *)source;
  atomic_fetch_add(&self->reads, 1);
  if (self->fails) return cr_fail(CREMA_E_IO, "no numbers");
  for (size_t i = 0; i < size / sizeof(float); ++i) ((float *)out)[i] = (float)(at / 4 + i);
  return CREMA_OK;
}

static void keep(cr_tensor_source *source) {
  (void)source;
}

enum { THREADS = 4, COUNT = 1000 };

static void *read_as(void *user) {
  cr_tensor *tensor = user;
  static _Atomic int next;
  const crema_dtype type = atomic_fetch_add(&next, 1) % 2 == 0 ? CREMA_F32 : CREMA_F64;
  crema_devptr out = {0};
  ok(cr_tensor_read(tensor, cr_host_context(), (cr_format){type, NULL}, &out));
  const void *at = (const void *)out.address;
  double last =
      type == CREMA_F32 ? (double)((const float *)at)[COUNT - 1] : ((const double *)at)[COUNT - 1];
  assert_true(last == 10 + COUNT - 1);
  return NULL;
}

TEST(threads_read_a_source_once) {
  for (int round = 0; round < 20; ++round) {
    numbers source = {.fails = false};
    pthread_t thread[THREADS];
    cr_tensor *tensor[THREADS] = {NULL};
    cr_tensor_scratch *spare = NULL;
    ok(cr_tensor_scratch_create(&spare));
    cr_tensor_source_init(&source.base, read_numbers, keep, spare);
    for (int i = 0; i < THREADS; ++i) ok(cr_tensor_create(CREMA_F32, COUNT, &tensor[i]));
    for (int i = 1; i < THREADS; ++i) ok(cr_tensor_share(tensor[i], tensor[0]));
    ok(cr_tensor_take_from(tensor[0], &source.base, 40));
    cr_tensor_source_release(&source.base);
    for (int i = 0; i < THREADS; ++i) {
      assert_int_equal(pthread_create(&thread[i], NULL, read_as, tensor[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) pthread_join(thread[i], NULL);
    assert_int_equal(atomic_load(&source.reads), 1);
    for (int i = 0; i < THREADS; ++i) cr_tensor_destroy(tensor[i]);
  }
}

/* ---- the first use ------------------------------------------------------- */

static cr_tensor *tensor_from(numbers *source, int64_t count) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count, &tensor));
  ok(cr_tensor_take_from(tensor, &source->base, 40));
  return tensor;
}

/* Reads the values for one use; whether they are kept. */
static bool are_kept(cr_tensor *tensor, crema_dtype type, cr_tensor_scratch **held) {
  crema_devptr out = {0};
  const int64_t last = cr_tensor_count(tensor) - 1;
  ok(cr_tensor_read_for(tensor, cr_host_context(), (cr_format){type, NULL}, held, &out));
  if (type == CREMA_F32) {
    assert_true(((const float *)out.address)[last] == (float)(10 + last));
  } else {
    assert_true(((const double *)out.address)[last] == (double)(10 + last));
  }
  assert_true((*held == NULL) == (cr_tensor_memory_of(tensor).host > 0));
  return *held == NULL;
}

TEST(values_are_kept_from_the_second_use_on) {
  enum { LARGE = (16 << 20) / sizeof(float) + 2, TENSORS = 5 };
  numbers source = {.fails = false};
  cr_tensor_scratch *spare = NULL, *once = NULL, *held[2] = {NULL, NULL};
  cr_tensor *tensor[TENSORS];
  ok(cr_tensor_scratch_create(&spare));
  ok(cr_tensor_scratch_create(&once));
  cr_tensor_source_init(&source.base, read_numbers, keep, spare);
  cr_tensor_source_set_per_use(&source.base, once);
  cr_tensor_scratch_release(once);
  for (int i = 0; i < TENSORS; ++i) tensor[i] = tensor_from(&source, i == 4 ? LARGE : COUNT);
  cr_tensor_source_release(&source.base);
  assert_false(are_kept(tensor[0], CREMA_F32, &held[0]));
  /* Others keep theirs while the memory is in use. */
  assert_true(are_kept(tensor[1], CREMA_F32, &held[1]));
  cr_tensor_end_use(held[0]);
  assert_false(are_kept(tensor[2], CREMA_F32, &held[0]));
  cr_tensor_end_use(held[0]);
  assert_int_equal(atomic_load(&source.reads), 3);
  assert_true(are_kept(tensor[0], CREMA_F32, &held[0]));
  assert_int_equal(atomic_load(&source.reads), 4);
  assert_true(are_kept(tensor[0], CREMA_F32, &held[0]));
  assert_int_equal(atomic_load(&source.reads), 4);
  /* Neither in another type nor where there are too many. */
  assert_true(are_kept(tensor[3], CREMA_F64, &held[0]));
  assert_true(are_kept(tensor[4], CREMA_F32, &held[0]));
  /* New values have their own first use, which may fail. */
  source.fails = true;
  crema_devptr out = {0};
  cr_tensor_destroy(tensor[2]);
  ok(cr_tensor_scratch_create(&spare));
  ok(cr_tensor_scratch_create(&once));
  cr_tensor_source_init(&source.base, read_numbers, keep, spare);
  cr_tensor_source_set_per_use(&source.base, once);
  cr_tensor_scratch_release(once);
  tensor[2] = tensor_from(&source, COUNT);
  cr_tensor_source_release(&source.base);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(cr_tensor_read_for(tensor[2], cr_host_context(), CR_PLAIN_F32, &held[0], &out),
                     CREMA_E_IO);
    assert_null(held[0]);
  }
  source.fails = false;
  assert_false(are_kept(tensor[2], CREMA_F32, &held[0]));
  cr_tensor_end_use(held[0]);
  for (int i = 0; i < TENSORS; ++i) cr_tensor_destroy(tensor[i]);
}

/* A tensor whose values cannot be had says so, and takes others. */
TEST(a_source_that_fails_is_asked_again) {
  numbers source = {.fails = true};
  cr_tensor *tensor = NULL, *copy = NULL;
  const float *values = NULL;
  cr_tensor_scratch *spare = NULL;
  ok(cr_tensor_scratch_create(&spare));
  cr_tensor_source_init(&source.base, read_numbers, keep, spare);
  ok(cr_tensor_create(CREMA_F32, COUNT, &tensor));
  ok(cr_tensor_create(CREMA_F32, COUNT, &copy));
  ok(cr_tensor_take_from(tensor, &source.base, 0));
  assert_false(cr_tensor_is_zero(tensor));
  assert_int_equal(cr_tensor_host_read_floats(tensor, &values), CREMA_E_IO);
  assert_int_equal(cr_tensor_copy(copy, tensor, cr_host_context()), CREMA_E_IO);
  source.fails = false;
  ok(cr_tensor_copy(copy, tensor, cr_host_context()));
  ok(cr_tensor_host_read_floats(copy, &values));
  assert_true(values[7] == 7.0f);
  /* A tensor that shrinks keeps its first values, one that grows none. */
  ok(cr_tensor_take_from(tensor, &source.base, 8));
  ok(cr_tensor_resize(tensor, 100));
  ok(cr_tensor_host_read_floats(tensor, &values));
  assert_true(values[99] == 101.0f);
  cr_tensor_destroy(tensor);
  ok(cr_tensor_create(CREMA_F32, 10, &tensor));
  ok(cr_tensor_take_from(tensor, &source.base, 0));
  ok(cr_tensor_resize(tensor, 100));
  ok(cr_tensor_host_read_floats(tensor, &values));
  assert_true(values[5] == 0.0f);
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(copy);
  cr_tensor_source_release(&source.base);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
