/* MemoryData, fed through the public interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "crema/memory_data.h"
#include "layers/common/input_class.h"
#include "net/net.h"

enum { BATCH = 2, ITEM = 3 * 2 * 2 };

static void assert_error_has(const char *part) {
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

static crema_net *make_net(const char *rest, int64_t seed) {
  char text[1024];
  crema_net *net = NULL;
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' %s memory_data_param "
           "{ batch_size: 2 channels: 3 height: 2 width: 2 } } "
           "layer { name: 'other' type: 'Silence' bottom: 'label' }",
           rest);
  crema_net_options options;
  crema_net_options_init(&options);
  options.seed = seed;
  options.phase = CREMA_TRAIN;
  assert_int_equal(crema_net_parse(text, strlen(text), "test", &options, &net), CREMA_OK);
  return net;
}

static crema_blob *blob(crema_net *net, const char *name) {
  crema_blob *found = NULL;
  assert_int_equal(crema_net_blob(net, name, &found), CREMA_OK);
  return found;
}

static const float *values(crema_net *net, const char *name) {
  const float *data = NULL;
  assert_int_equal(crema_blob_cpu_data(blob(net, name), &data), CREMA_OK);
  return data;
}

static void forward(crema_net *net) {
  assert_int_equal(crema_net_forward(net, NULL), CREMA_OK);
}

static void test_batches_are_the_samples_memory(void **state) {
  float data[6 * ITEM], label[6] = {0, 1, 2, 3, 4, 5};
  (void)state;
  crema_net *net = make_net("", 1);
  for (int i = 0; i < 6 * ITEM; ++i) data[i] = (float)i;
  assert_int_equal(crema_net_forward(net, NULL), CREMA_E_STATE);
  assert_error_has("'in'");
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 6), CREMA_OK);
  for (int k = 0; k < 7; ++k) {
    forward(net);
    assert_ptr_equal(values(net, "data"), data + k % 3 * BATCH * ITEM);
    assert_ptr_equal(values(net, "label"), label + k % 3 * BATCH);
  }
  /* Others begin at their beginning. */
  assert_int_equal(crema_memory_data_set(net, "in", data + ITEM, label + 1, 4), CREMA_OK);
  forward(net);
  assert_true(values(net, "label")[0] == 1);
  crema_net_destroy(net);
}

static void test_errors(void **state) {
  float data[4 * ITEM] = {0}, label[4] = {0};
  (void)state;
  crema_net *net = make_net("", 1);
  assert_int_equal(crema_memory_data_set(net, "on", data, label, 4), CREMA_E_UNKNOWN_NAME);
  assert_error_has("'on'");
  assert_int_equal(crema_memory_data_set(net, NULL, data, label, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set(net, "other", data, label, 4), CREMA_E_TYPE);
  assert_error_has("Silence");
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 3), CREMA_E_ARGUMENT);
  assert_error_has("multiple of batch_size (2)");
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 0), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set(net, "in", NULL, label, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set(net, "in", data, NULL, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_images(net, "in", NULL, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 0), CREMA_E_ARGUMENT);
  crema_net_destroy(net);
  const char *text =
      "layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' "
      "memory_data_param { batch_size: 2 channels: 3 height: 2 } }";
  assert_int_equal(crema_net_parse(text, strlen(text), "test", NULL, &net), CREMA_E_ARGUMENT);
  assert_error_has("width");
}

static void test_batch_size(void **state) {
  float data[12 * ITEM] = {0}, label[12];
  (void)state;
  crema_net *net = make_net("", 1);
  for (int i = 0; i < 12; ++i) label[i] = (float)i;
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 12), CREMA_OK);
  forward(net);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 3), CREMA_E_STATE);
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 12), CREMA_OK);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 5), CREMA_E_STATE);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 3), CREMA_OK);
  forward(net);
  forward(net);
  assert_int_equal(crema_blob_shape(blob(net, "data"))->dim[0], 3);
  assert_int_equal(crema_blob_shape(blob(net, "label"))->dim[0], 3);
  assert_true(values(net, "label")[0] == 3);
  crema_net_destroy(net);
}

/* 4 x 4 pixels of value 10 * image + channel. */
static void make_images(uint8_t pixels[4][48], crema_labeled_image image[4]) {
  for (int i = 0; i < 4; ++i) {
    for (int k = 0; k < 48; ++k) pixels[i][k] = (uint8_t)(10 * i + k % 3);
    image[i] = (crema_labeled_image){pixels[i], 3, 4, 4, (float)i};
  }
}

static void test_images_are_transformed(void **state) {
  uint8_t pixels[4][48];
  crema_labeled_image image[4];
  (void)state;
  crema_net *net = make_net("transform_param { crop_size: 2 scale: 0.5 mean_value: 1 }", 1);
  make_images(pixels, image);
  for (int round = 0; round < 3; ++round) {
    assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_OK);
    assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_OK);
    /* What the tops showed before is still there. */
    if (round > 0) assert_true(values(net, "data")[4] == 0.5f * 20);
    for (int k = 0; k < 2; ++k) {
      forward(net);
      for (int i = 0; i < BATCH; ++i) {
        assert_true(values(net, "label")[i] == (float)(2 * k + i));
        for (int c = 0; c < 3; ++c) {
          float wanted = 0.5f * (float)(10 * (2 * k + i) + c - 1);
          assert_true(values(net, "data")[i * ITEM + c * 4] == wanted);
        }
      }
    }
  }
  image[1].channels = 1;
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_E_SHAPE);
  assert_error_has("image 1");
  image[1].pixels = NULL;
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 3), CREMA_E_ARGUMENT);
  crema_net_destroy(net);
  /* resize_param comes before the crop. */
  net = make_net("transform_param { resize_param { height: 2 width: 2 } }", 1);
  make_images(pixels, image);
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_OK);
  forward(net);
  assert_true(values(net, "data")[ITEM + 8] == 12);
  crema_net_destroy(net);
}

/* Position and random stream are restored: the same crops, the same next batch. */
static void s2_31_resume(void **state) {
  static const char *const crop = "transform_param { crop_size: 2 mirror: true }";
  uint8_t pixels[4][48];
  crema_labeled_image image[4];
  cr_buffer saved = {0};
  (void)state;
  crema_net *net = make_net(crop, 1), *resumed = make_net(crop, 2);
  make_images(pixels, image);
  for (int i = 0; i < 4 * 48; ++i) pixels[i / 48][i % 48] = (uint8_t)(i * 7);
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_OK);
  forward(net);
  cr_layer *layer = net->layer[0].layer, *other = resumed->layer[0].layer;
  assert_int_equal(layer->class->input->save(layer, &saved), CREMA_OK);
  assert_int_equal(other->class->input->restore(other, "x", 1), CREMA_E_CORRUPT);
  assert_int_equal(other->class->input->restore(other, saved.data, saved.size), CREMA_OK);
  assert_int_equal(crema_memory_data_set_images(resumed, "in", image, 4), CREMA_OK);
  forward(resumed);
  assert_true(values(resumed, "label")[0] == 2);
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_OK);
  forward(net);
  forward(net);
  assert_true(values(net, "label")[0] == 2);
  assert_memory_equal(values(net, "data"), values(resumed, "data"), BATCH * ITEM * sizeof(float));
  cr_buffer_free(&saved);
  crema_net_destroy(resumed);
  crema_net_destroy(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_batches_are_the_samples_memory),
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_batch_size),
      cmocka_unit_test(test_images_are_transformed),
      cmocka_unit_test(s2_31_resume),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
