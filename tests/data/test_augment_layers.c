/* Augmentation where layers use it: once for each image, the same for any number of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/file.h"
#include "fixture.h"
#include "net/net.h"

static crema_status make_net(const char *layer, crema_net **out) {
  char text[4096];
  snprintf(text, sizeof text, "name: 'n' layer { name: 'in' top: 'data' top: 'label' %s }", layer);
  crema_net_options options;
  crema_net_options_init(&options);
  options.seed = 7;
  options.phase = CREMA_TRAIN;
  return crema_net_parse(text, strlen(text), "test.prototxt", &options, out);
}

/* The next batch of `data`, and how many values it has. */
static const float *forward(crema_net *net, const char *name, int64_t *count) {
  crema_blob *blob = NULL;
  const float *values = NULL;
  assert_int_equal(crema_net_forward(net, NULL), CREMA_OK);
  assert_int_equal(crema_net_blob(net, name, &blob), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(blob, &values), CREMA_OK);
  *count = crema_shape_count(crema_blob_shape(blob), 0, crema_blob_shape(blob)->axes);
  return values;
}

/* Records of 4 x 5 and 5 x 5 pixels become 6 x 6; inverting twice would give the old values. */
static void test_data(void **state) {
  (void)state;
  fixture f;
  crema_net *net = NULL;
  char layer[1024];
  fixture_make(&f);
  snprintf(layer, sizeof layer,
           "type: 'Data' data_param { source: '%s' backend: LMDB batch_size: 3 } transform_param { "
           "resize_param { height: 6 width: 6 } noise_param { inverse: true } }",
           fixture_db(&f, "db", 9, fixture_mixed));
  assert_int_equal(make_net(layer, &net), CREMA_OK);
  for (int batch = 0; batch < 6; ++batch) {
    int64_t count = 0;
    const float *values = forward(net, "data", &count);
    assert_int_equal(count, 3 * 6 * 6);
    for (int i = 0; i < count; ++i) {
      assert_int_equal((int)values[i], 255 - (batch * 3 + i / 36) % 9);
    }
  }
  crema_net_destroy(net);
  fixture_remove(&f);
}

static void test_image_data(void **state) {
  (void)state;
  fixture f;
  crema_net *plain = NULL, *inverse = NULL;
  cr_image image = {0};
  cr_buffer file = {0};
  char layer[1024];
  fixture_make(&f);
  fixture_image(&image, 7, 9, 3);
  assert_int_equal(cr_image_encode(&image, "png", &file), CREMA_OK);
  assert_int_equal(cr_file_write(fixture_path(&f, "a.png"), file.data, file.size), CREMA_OK);
  assert_int_equal(cr_file_write(fixture_path(&f, "list.txt"), "a.png 3\n", 8), CREMA_OK);
  snprintf(layer, sizeof layer,
           "type: 'ImageData' image_data_param { source: '%s' batch_size: 2 "
           "new_height: 5 new_width: 4 }",
           fixture_path(&f, "list.txt"));
  assert_int_equal(make_net(layer, &plain), CREMA_OK);
  snprintf(layer, sizeof layer,
           "type: 'ImageData' image_data_param { source: '%s' batch_size: 2 } "
           "transform_param { resize_param { height: 5 width: 4 } noise_param { inverse: true } }",
           fixture_path(&f, "list.txt"));
  assert_int_equal(make_net(layer, &inverse), CREMA_OK);
  int64_t count[2] = {0};
  const float *a = forward(plain, "data", &count[0]), *b = forward(inverse, "data", &count[1]);
  assert_int_equal(count[0], 2 * 3 * 5 * 4);
  assert_int_equal(count[1], count[0]);
  for (int64_t i = 0; i < count[0]; ++i) assert_true(a[i] + b[i] == 255);
  crema_net_destroy(plain);
  crema_net_destroy(inverse);
  cr_image_free(&image);
  cr_buffer_free(&file);
  fixture_remove(&f);
}

/* All that is random, on one thread and on four. */
static void test_threads(void **state) {
  (void)state;
  static const char transform[] =
      "transform_param { crop_size: 5 mirror: true distort_param { brightness_prob: 0.5 "
      "brightness_delta: 32 hue_prob: 0.5 hue_delta: 18 random_order_prob: 0.5 } "
      "expand_param { max_expand_ratio: 3 } resize_param { height: 8 width: 8 interp_mode: LINEAR "
      "interp_mode: CUBIC } noise_param { prob: 0.5 gauss_blur: true saltpepper: true "
      "saltpepper_param { fraction: 0.2 value: 0 } } }";
  fixture f;
  crema_net *net[2] = {NULL, NULL};
  fixture_make(&f);
  const char *source = fixture_db(&f, "db", 11, fixture_png);
  for (int i = 0; i < 2; ++i) {
    char layer[2048];
    snprintf(layer, sizeof layer,
             "type: 'Data' data_param { source: '%s' backend: LMDB batch_size: 4 threads: %d } %s",
             source, i == 0 ? 1 : 4, transform);
    assert_int_equal(make_net(layer, &net[i]), CREMA_OK);
  }
  for (int batch = 0; batch < 20; ++batch) {
    int64_t count[2] = {0};
    const float *a = forward(net[0], "data", &count[0]), *b = forward(net[1], "data", &count[1]);
    assert_int_equal(count[0], 4 * 3 * 5 * 5);
    assert_int_equal(count[1], count[0]);
    assert_memory_equal(a, b, (size_t)count[0] * sizeof *a);
  }
  crema_net_destroy(net[0]);
  crema_net_destroy(net[1]);
  fixture_remove(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_data),
      cmocka_unit_test(test_image_data),
      cmocka_unit_test(test_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
