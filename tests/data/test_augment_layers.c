/* Augmentation where layers use it: once for each image, the same for any number of threads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "fixture.h"
#include "net/net_values.h"

static crema_status make_net(const char *layer, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TRAIN, 7, NULL);
  return parse_net(&options, NULL, out,
                   "name: 'n' layer { name: 'in' top: 'data' top: 'label' %s }", layer);
}

/* The next batch of `data`, and how many values it has. */
static const float *next(crema_net *net, int64_t *count) {
  forward(net);
  *count = crema_blob_count(blob_of(net, "data"));
  return values(net, "data");
}

/* Records of 4 x 5 and 5 x 5 pixels become 6 x 6; inverting twice would give the old values. */
FIXTURE_TEST(test_data) {
  const fixture *f = *state;
  crema_net *net = NULL;
  char layer[1024];
  snprintf(layer, sizeof layer,
           "type: 'Data' data_param { source: '%s' backend: LMDB batch_size: 3 } transform_param { "
           "resize_param { height: 6 width: 6 } noise_param { inverse: true } }",
           fixture_db(f, "db", 9, fixture_mixed));
  ok(make_net(layer, &net));
  for (int batch = 0; batch < 6; ++batch) {
    int64_t count = 0;
    const float *value = next(net, &count);
    assert_int_equal(count, 3 * 6 * 6);
    for (int i = 0; i < count; ++i) {
      assert_int_equal((int)value[i], 255 - (batch * 3 + i / 36) % 9);
    }
  }
  crema_net_destroy(net);
}

FIXTURE_TEST(test_image_data) {
  const fixture *f = *state;
  crema_net *plain = NULL, *inverse = NULL;
  cr_image image = {0};
  char layer[1024];
  fixture_image(&image, 7, 9, 3);
  fixture_write_png(f, "a.png", &image);
  fixture_text(f, "list.txt", "a.png 3\n");
  snprintf(layer, sizeof layer,
           "type: 'ImageData' image_data_param { source: '%s' batch_size: 2 "
           "new_height: 5 new_width: 4 }",
           fixture_path(f, "list.txt"));
  ok(make_net(layer, &plain));
  snprintf(layer, sizeof layer,
           "type: 'ImageData' image_data_param { source: '%s' batch_size: 2 } "
           "transform_param { resize_param { height: 5 width: 4 } noise_param { inverse: true } }",
           fixture_path(f, "list.txt"));
  ok(make_net(layer, &inverse));
  int64_t count[2] = {0};
  const float *a = next(plain, &count[0]), *b = next(inverse, &count[1]);
  assert_int_equal(count[0], 2 * 3 * 5 * 4);
  assert_int_equal(count[1], count[0]);
  for (int64_t i = 0; i < count[0]; ++i) assert_true(a[i] + b[i] == 255);
  crema_net_destroy(plain);
  crema_net_destroy(inverse);
  cr_image_free(&image);
}

/* All that is random, on one thread and on four. */
FIXTURE_TEST(test_threads) {
  static const char transform[] =
      "transform_param { crop_size: 5 mirror: true distort_param { brightness_prob: 0.5 "
      "brightness_delta: 32 hue_prob: 0.5 hue_delta: 18 random_order_prob: 0.5 } "
      "expand_param { max_expand_ratio: 3 } resize_param { height: 8 width: 8 interp_mode: LINEAR "
      "interp_mode: CUBIC } noise_param { prob: 0.5 gauss_blur: true saltpepper: true "
      "saltpepper_param { fraction: 0.2 value: 0 } } }";
  const fixture *f = *state;
  crema_net *net[2] = {NULL, NULL};
  const char *source = fixture_db(f, "db", 11, fixture_png);
  for (int i = 0; i < 2; ++i) {
    char layer[2048];
    snprintf(layer, sizeof layer,
             "type: 'Data' data_param { source: '%s' backend: LMDB batch_size: 4 threads: %d } %s",
             source, i == 0 ? 1 : 4, transform);
    ok(make_net(layer, &net[i]));
  }
  assert_int_equal(crema_blob_count(blob_of(net[0], "data")), 4 * 3 * 5 * 5);
  expect_same_batches(net[0], net[1], 20);
  crema_net_destroy(net[0]);
  crema_net_destroy(net[1]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
