/* MemoryData, fed through the public interface. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "crema/memory_data.h"
#include "net/net_values.h"

enum { BATCH = 2, ITEM = 3 * 2 * 2 };

static crema_net *make_net(const char *rest, int64_t seed) {
  crema_net *net = NULL;
  const crema_net_options options = net_options(CREMA_TRAIN, seed, NULL);
  ok(parse_net(
      &options, NULL, &net,
      "layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' %s memory_data_param "
      "{ batch_size: 2 channels: 3 height: 2 width: 2 } } "
      "layer { name: 'other' type: 'Silence' bottom: 'label' }",
      rest));
  return net;
}

TEST(test_batches_are_the_samples_memory) {
  float data[6 * ITEM], label[6] = {0, 1, 2, 3, 4, 5};
  crema_net *net = make_net("", 1);
  for (int i = 0; i < 6 * ITEM; ++i) data[i] = (float)i;
  assert_fails(crema_net_forward(net, NULL), CREMA_E_STATE, "'in'");
  ok(crema_memory_data_set(net, "in", data, label, 6));
  for (int k = 0; k < 7; ++k) {
    forward(net);
    assert_ptr_equal(values(net, "data"), data + k % 3 * BATCH * ITEM);
    assert_ptr_equal(values(net, "label"), label + k % 3 * BATCH);
  }
  /* Others begin at their beginning. */
  ok(crema_memory_data_set(net, "in", data + ITEM, label + 1, 4));
  forward(net);
  assert_true(values(net, "label")[0] == 1);
  crema_net_destroy(net);
}

TEST(test_errors) {
  float data[4 * ITEM] = {0}, label[4] = {0};
  crema_net *net = make_net("", 1);
  assert_fails(crema_memory_data_set(net, "on", data, label, 4), CREMA_E_UNKNOWN_NAME, "'on'");
  assert_int_equal(crema_memory_data_set(net, NULL, data, label, 4), CREMA_E_ARGUMENT);
  assert_fails(crema_memory_data_set(net, "other", data, label, 4), CREMA_E_TYPE, "Silence");
  assert_fails(crema_memory_data_set(net, "in", data, label, 3), CREMA_E_ARGUMENT,
               "multiple of batch_size (2)");
  assert_int_equal(crema_memory_data_set(net, "in", data, label, 0), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set(net, "in", NULL, label, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set(net, "in", data, NULL, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_images(net, "in", NULL, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 0), CREMA_E_ARGUMENT);
  crema_net_destroy(net);
  const char *text =
      "layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label' "
      "memory_data_param { batch_size: 2 channels: 3 height: 2 } }";
  assert_fails(crema_net_parse(text, strlen(text), "test", NULL, &net), CREMA_E_ARGUMENT, "width");
}

TEST(test_batch_size) {
  float data[12 * ITEM] = {0}, label[12];
  crema_net *net = make_net("", 1);
  for (int i = 0; i < 12; ++i) label[i] = (float)i;
  ok(crema_memory_data_set(net, "in", data, label, 12));
  forward(net);
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 3), CREMA_E_STATE);
  ok(crema_memory_data_set(net, "in", data, label, 12));
  assert_int_equal(crema_memory_data_set_batch_size(net, "in", 5), CREMA_E_STATE);
  ok(crema_memory_data_set_batch_size(net, "in", 3));
  forward(net);
  forward(net);
  assert_int_equal(crema_blob_shape(blob_of(net, "data"))->dim[0], 3);
  assert_int_equal(crema_blob_shape(blob_of(net, "label"))->dim[0], 3);
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

TEST(test_images_are_transformed) {
  uint8_t pixels[4][48];
  crema_labeled_image image[4];
  crema_net *net = make_net("transform_param { crop_size: 2 scale: 0.5 mean_value: 1 }", 1);
  make_images(pixels, image);
  for (int round = 0; round < 3; ++round) {
    ok(crema_memory_data_set_images(net, "in", image, 4));
    ok(crema_memory_data_set_images(net, "in", image, 4));
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
  assert_fails(crema_memory_data_set_images(net, "in", image, 4), CREMA_E_SHAPE, "image 1");
  image[1].pixels = NULL;
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 4), CREMA_E_ARGUMENT);
  assert_int_equal(crema_memory_data_set_images(net, "in", image, 3), CREMA_E_ARGUMENT);
  crema_net_destroy(net);
  /* resize_param comes before the crop. */
  net = make_net("transform_param { resize_param { height: 2 width: 2 } }", 1);
  make_images(pixels, image);
  ok(crema_memory_data_set_images(net, "in", image, 4));
  forward(net);
  assert_true(values(net, "data")[ITEM + 8] == 12);
  crema_net_destroy(net);
}

/* What a net of that seed makes of 64 pictures. */
static void draw_all(const char *transform, int64_t seed, float *out) {
  uint8_t pixels[4][48];
  crema_labeled_image image[4];
  crema_net *net = make_net(transform, seed);
  make_images(pixels, image);
  for (int i = 0; i < 4 * 48; ++i) pixels[i / 48][i % 48] = (uint8_t)(i * 7);
  for (int k = 0; k < 32; ++k) {
    if (k % 2 == 0) ok(crema_memory_data_set_images(net, "in", image, 4));
    forward(net);
    memcpy(out + k * BATCH * ITEM, values(net, "data"), BATCH * ITEM * sizeof *out);
  }
  crema_net_destroy(net);
}

/* With a seed of the layer's own, that of the net does not matter; without one it does. */
TEST(test_seed_of_the_layers_own) {
  static float drawn[4][32 * BATCH * ITEM];
  draw_all("transform_param { crop_size: 2 mirror: true random_seed: 9 }", 1, drawn[0]);
  draw_all("transform_param { crop_size: 2 mirror: true random_seed: 9 }", 2, drawn[1]);
  draw_all("transform_param { crop_size: 2 mirror: true random_seed: 8 }", 1, drawn[2]);
  draw_all("transform_param { crop_size: 2 mirror: true }", 1, drawn[3]);
  assert_memory_equal(drawn[0], drawn[1], sizeof drawn[0]);
  assert_memory_not_equal(drawn[0], drawn[2], sizeof drawn[0]);
  assert_memory_not_equal(drawn[0], drawn[3], sizeof drawn[0]);
}

/* Position and random stream are restored: the same crops, the same next batch. */
TEST(s2_31_resume) {
  static const char *const crop = "transform_param { crop_size: 2 mirror: true }";
  uint8_t pixels[4][48];
  crema_labeled_image image[4];
  crema_net *net = make_net(crop, 1), *resumed = make_net(crop, 2);
  make_images(pixels, image);
  for (int i = 0; i < 4 * 48; ++i) pixels[i / 48][i % 48] = (uint8_t)(i * 7);
  ok(crema_memory_data_set_images(net, "in", image, 4));
  forward(net);
  assert_int_equal(restore_input(resumed, "x", 1), CREMA_E_CORRUPT);
  resume_input(net, resumed);
  ok(crema_memory_data_set_images(resumed, "in", image, 4));
  forward(resumed);
  assert_true(values(resumed, "label")[0] == 2);
  ok(crema_memory_data_set_images(net, "in", image, 4));
  forward(net);
  forward(net);
  assert_true(values(net, "label")[0] == 2);
  assert_memory_equal(values(net, "data"), values(resumed, "data"), BATCH * ITEM * sizeof(float));
  crema_net_destroy(resumed);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
