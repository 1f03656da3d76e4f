/* crema_image_load: the same values as its parts give, and its errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/file.h"
#include "crema/image.h"
#include "data/augment/mean.h"
#include "data/image/image.h"
#include "fixture.h"
#include "image_file.h"
#include "memory/blob.h"

typedef struct image_fixture {
  fixture f;
  cr_image image; /* 20 x 30, colour */
  const char *path;
  crema_blob *blob;
} image_fixture;

static void make(image_fixture *x, int64_t items, int64_t channels, int64_t height, int64_t width) {
  cr_buffer file = {0};
  *x = (image_fixture){0};
  fixture_make(&x->f);
  fixture_image(&x->image, 20, 30, 3);
  assert_int_equal(cr_image_encode(&x->image, "png", &file), CREMA_OK);
  x->path = fixture_path(&x->f, "image.png");
  assert_int_equal(cr_file_write(x->path, file.data, file.size), CREMA_OK);
  cr_buffer_free(&file);
  crema_shape shape = cr_shape_4(items, channels, height, width);
  assert_int_equal(crema_blob_create(&shape, &x->blob), CREMA_OK);
}

static void clean(image_fixture *x) {
  crema_blob_destroy(x->blob);
  cr_image_free(&x->image);
  fixture_remove(&x->f);
}

static void assert_error_has(const char *part) {
  if (strstr(crema_error_text(), part) == NULL) {
    fail_msg("\"%s\" is not in \"%s\"", part, crema_error_text());
  }
}

/* Resized to 12 x 14, centre of 8 x 10, less the mean, scaled; only the asked item changes. */
static void test_resize_crop_mean_scale(void **state) {
  static const float mean[3] = {10, 20, 30};
  image_fixture x;
  cr_image small = {0};
  const float *values = NULL;
  (void)state;
  make(&x, 3, 3, 8, 10);
  crema_image_options options;
  crema_image_options_init(&options);
  options.resize_height = 12;
  options.resize_width = 14;
  options.mean = mean;
  options.mean_count = 3;
  options.scale = 0.5f;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 1), CREMA_OK);
  assert_int_equal(cr_image_resize(&x.image, 12, 14, &small), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(x.blob, &values), CREMA_OK);
  for (int c = 0; c < 3; ++c) {
    for (int i = 0; i < 80; ++i) {
      int place = (2 + i / 10) * 14 + 2 + i % 10;
      float wanted = ((float)small.pixels[place * 3 + c] - mean[c]) * 0.5f;
      assert_true(values[240 + c * 80 + i] == wanted);
    }
  }
  for (int i = 0; i < 240; ++i) assert_true(values[i] == 0 && values[480 + i] == 0);
  cr_image_free(&small);
  clean(&x);
}

/* Without a size the image is resized to the blob's; a gray blob gets gray pixels. */
static void test_straight_to_the_blob(void **state) {
  image_fixture x;
  const float *values = NULL;
  cr_image gray = {0}, small = {0};
  (void)state;
  make(&x, 1, 1, 7, 9);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, 0), CREMA_OK);
  assert_int_equal(read_image(x.path, CR_IMAGE_GRAY, &gray), CREMA_OK);
  assert_int_equal(cr_image_resize(&gray, 7, 9, &small), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(x.blob, &values), CREMA_OK);
  for (int i = 0; i < 63; ++i) assert_true(values[i] == (float)small.pixels[i]);
  cr_image_free(&gray);
  cr_image_free(&small);
  clean(&x);
}

static void test_mean_file(void **state) {
  image_fixture x;
  float mean_values[3 * 20 * 30];
  const float *values = NULL;
  (void)state;
  make(&x, 1, 3, 20, 30);
  for (int i = 0; i < 3 * 600; ++i) mean_values[i] = (float)x.image.pixels[i % 600 * 3 + i / 600];
  const char *path = fixture_path(&x.f, "mean.binaryproto");
  const cr_mean mean = {3, 20, 30, mean_values};
  assert_int_equal(cr_mean_write(path, &mean), CREMA_OK);
  crema_image_options options;
  crema_image_options_init(&options);
  options.mean_file = path;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_OK);
  assert_int_equal(crema_blob_cpu_data(x.blob, &values), CREMA_OK);
  for (int i = 0; i < 3 * 600; ++i) assert_true(values[i] == 0);
  options.resize_height = options.resize_width = 40; /* no longer the mean image's size */
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_SHAPE);
  assert_error_has("mean image");
  clean(&x);
}

/* Item by item into a blob that a device has used: it gets the new one, and keeps the others. */
static void test_into_a_blob_of_a_device(void **state) {
  image_fixture x;
  crema_device *device = NULL;
  crema_context *context = NULL;
  crema_devptr memory = {0};
  const float *values = NULL;
  (void)state;
  make(&x, 2, 3, 20, 30);
  assert_int_equal(crema_device_simulate("1"), CREMA_OK);
  assert_int_equal(crema_device_get(CREMA_DEVICE_SIM, 0, &device), CREMA_OK);
  assert_int_equal(crema_context_create(device, 1, &context), CREMA_OK);
  for (int item = 0; item < 2; ++item) {
    assert_int_equal(crema_image_load(x.path, NULL, x.blob, item), CREMA_OK);
    /* From here on the newest values are the device's alone. */
    assert_int_equal(cr_tensor_update(x.blob->data, context, CR_PLAIN_F32, &memory), CREMA_OK);
    assert_int_equal(crema_context_finish(context), CREMA_OK);
  }
  assert_int_equal(crema_blob_cpu_data(x.blob, &values), CREMA_OK);
  for (int item = 0; item < 2; ++item) {
    for (int i = 0; i < 1800; ++i) {
      assert_true(values[item * 1800 + i] == (float)x.image.pixels[i % 600 * 3 + i / 600]);
    }
  }
  crema_context_destroy(context);
  clean(&x);
}

static void test_errors(void **state) {
  image_fixture x;
  (void)state;
  make(&x, 2, 3, 8, 10);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, 2), CREMA_E_RANGE);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, -1), CREMA_E_RANGE);
  assert_int_equal(crema_image_load("/no/such/image.png", NULL, x.blob, 0), CREMA_E_NOT_FOUND);
  assert_error_has("/no/such/image.png");
  crema_image_options options;
  crema_image_options_init(&options);
  options.resize_height = options.resize_width = 5; /* smaller than the blob */
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_SHAPE);
  assert_error_has("image.png");
  options.resize_height = options.resize_width = 100000;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_RANGE);
  crema_image_options_init(&options);
  options.mean_count = 2;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_ARGUMENT);
  crema_shape flat = cr_shape_2(2, 240);
  assert_int_equal(crema_blob_reshape(x.blob, &flat), CREMA_OK);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, 0), CREMA_E_SHAPE);
  assert_error_has("2 240");
  clean(&x);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resize_crop_mean_scale),
      cmocka_unit_test(test_straight_to_the_blob),
      cmocka_unit_test(test_mean_file),
      cmocka_unit_test(test_into_a_blob_of_a_device),
      cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
