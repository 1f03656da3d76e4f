/* crema_image_load: the same values as its parts give, and its errors. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
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
  ok(cr_image_encode(&x->image, "png", &file));
  x->path = fixture_path(&x->f, "image.png");
  ok(cr_file_write(x->path, file.data, file.size));
  cr_buffer_free(&file);
  crema_shape shape = cr_shape_4(items, channels, height, width);
  ok(crema_blob_create(&shape, &x->blob));
}

static void clean(image_fixture *x) {
  crema_blob_destroy(x->blob);
  cr_image_free(&x->image);
  fixture_remove(&x->f);
}

TEST(sizes_of_files) {
  image_fixture x;
  int height = 0, width = 0;
  make(&x, 1, 3, 20, 30);
  ok(crema_image_size(x.path, &height, &width));
  assert_true(height == 20 && width == 30);
  ok(cr_file_write(x.path, "P5 7 3 255\n012345670123456701234", 32));
  ok(crema_image_size(x.path, &height, &width));
  assert_true(height == 3 && width == 7);
  ok(cr_file_write(x.path, "text", 4));
  assert_fails(crema_image_size(x.path, &height, &width), CREMA_E_CORRUPT, x.path);
  assert_int_equal(crema_image_size("none", &height, &width), CREMA_E_NOT_FOUND);
  clean(&x);
}

/* Resized to 12 x 14, centre of 8 x 10, less the mean, scaled; only the asked item changes. */
TEST(test_resize_crop_mean_scale) {
  static const float mean[3] = {10, 20, 30};
  image_fixture x;
  cr_image small = {0};
  const float *values = NULL;
  make(&x, 3, 3, 8, 10);
  crema_image_options options;
  crema_image_options_init(&options);
  options.resize_height = 12;
  options.resize_width = 14;
  options.mean = mean;
  options.mean_count = 3;
  options.scale = 0.5f;
  ok(crema_image_load(x.path, &options, x.blob, 1));
  ok(cr_image_resize(&x.image, 12, 14, &small));
  ok(crema_blob_cpu_data(x.blob, &values));
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
TEST(test_straight_to_the_blob) {
  image_fixture x;
  const float *values = NULL;
  cr_image gray = {0}, small = {0};
  make(&x, 1, 1, 7, 9);
  ok(crema_image_load(x.path, NULL, x.blob, 0));
  ok(read_image(x.path, CR_IMAGE_GRAY, &gray));
  ok(cr_image_resize(&gray, 7, 9, &small));
  ok(crema_blob_cpu_data(x.blob, &values));
  for (int i = 0; i < 63; ++i) assert_true(values[i] == (float)small.pixels[i]);
  cr_image_free(&gray);
  cr_image_free(&small);
  clean(&x);
}

/* A JPEG of four times the size is averaged, or decoded whole. */
TEST(large_jpegs_are_resized_exactly_on_demand) {
  image_fixture x;
  const float *values = NULL;
  cr_image image = {0}, whole = {0}, small = {0};
  cr_buffer file = {0};
  crema_image_options options;
  crema_image_options_init(&options);
  make(&x, 1, 1, 16, 16);
  ok(cr_image_reserve(&image, 64, 64, 1));
  for (int i = 0; i < 64 * 64; ++i) image.pixels[i] = (uint8_t)(i * i % 251);
  ok(cr_image_encode(&image, "jpg", &file));
  const char *path = fixture_path(&x.f, "grain.jpg");
  ok(cr_file_write(path, file.data, file.size));
  ok(read_image(path, CR_IMAGE_GRAY, &whole));
  ok(cr_image_resize(&whole, 16, 16, &small));
  for (int exact = 0; exact < 2; ++exact) {
    int other = 0;
    options.exact_resize = exact == 1;
    ok(crema_image_load(path, &options, x.blob, 0));
    ok(crema_blob_cpu_data(x.blob, &values));
    for (int i = 0; i < 256; ++i) other += values[i] != (float)small.pixels[i];
    assert_int_equal(other > 0, !exact);
  }
  cr_buffer_free(&file);
  cr_image_free(&small);
  cr_image_free(&whole);
  cr_image_free(&image);
  clean(&x);
}

TEST(test_mean_file) {
  image_fixture x;
  float mean_values[3 * 20 * 30];
  const float *values = NULL;
  make(&x, 1, 3, 20, 30);
  for (int i = 0; i < 3 * 600; ++i) mean_values[i] = (float)x.image.pixels[i % 600 * 3 + i / 600];
  const char *path = fixture_path(&x.f, "mean.binaryproto");
  const cr_mean mean = {3, 20, 30, mean_values};
  ok(cr_mean_write(path, &mean));
  crema_image_options options;
  crema_image_options_init(&options);
  options.mean_file = path;
  ok(crema_image_load(x.path, &options, x.blob, 0));
  ok(crema_blob_cpu_data(x.blob, &values));
  for (int i = 0; i < 3 * 600; ++i) assert_true(values[i] == 0);
  /* A mean image of another size than before the crop counts as one colour. */
  float color[3] = {0};
  crema_blob *expected = NULL;
  const float *wanted = NULL;
  for (int i = 0; i < 3 * 600; ++i) color[i / 600] += mean_values[i] / 600;
  ok(crema_blob_create(crema_blob_shape(x.blob), &expected));
  options.resize_height = options.resize_width = 40;
  ok(crema_image_load(x.path, &options, x.blob, 0));
  options.mean_file = NULL;
  options.mean = color;
  options.mean_count = 3;
  ok(crema_image_load(x.path, &options, expected, 0));
  ok(crema_blob_cpu_data(x.blob, &values));
  ok(crema_blob_cpu_data(expected, &wanted));
  /* Pixels are up to 255. The mean colours are sums in another order, whose rounding is up to 1e-4. */
  for (int i = 0; i < 3 * 600; ++i) {
    assert_true(values[i] - wanted[i] < 1e-3F && wanted[i] - values[i] < 1e-3F);
  }
  /* In the order red, green, blue, the mean too. */
  const float reversed[3] = {color[2], color[1], color[0]};
  options.mean = reversed;
  options.rgb = true;
  ok(crema_image_load(x.path, &options, x.blob, 0));
  ok(crema_blob_cpu_data(x.blob, &values));
  for (int c = 0; c < 3; ++c) {
    assert_memory_equal(values + c * 600, wanted + (2 - c) * 600, 600 * sizeof(float));
  }
  crema_blob_destroy(expected);
  clean(&x);
}

/* Item by item into a blob that a device has used: it gets the new one, and keeps the others. */
TEST(test_into_a_blob_of_a_device) {
  image_fixture x;
  crema_device *device = NULL;
  crema_context *context = NULL;
  crema_devptr memory = {0};
  const float *values = NULL;
  make(&x, 2, 3, 20, 30);
  ok(crema_device_simulate("1"));
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  ok(crema_context_create(device, 1, &context));
  for (int item = 0; item < 2; ++item) {
    ok(crema_image_load(x.path, NULL, x.blob, item));
    /* From here on the newest values are the device's alone. */
    ok(cr_tensor_update(x.blob->data, context, CR_PLAIN_F32, &memory));
    ok(crema_context_finish(context));
  }
  ok(crema_blob_cpu_data(x.blob, &values));
  for (int item = 0; item < 2; ++item) {
    for (int i = 0; i < 1800; ++i) {
      assert_true(values[item * 1800 + i] == (float)x.image.pixels[i % 600 * 3 + i / 600]);
    }
  }
  crema_context_destroy(context);
  clean(&x);
}

TEST(test_errors) {
  image_fixture x;
  make(&x, 2, 3, 8, 10);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, 2), CREMA_E_RANGE);
  assert_int_equal(crema_image_load(x.path, NULL, x.blob, -1), CREMA_E_RANGE);
  assert_fails(crema_image_load("/no/such/image.png", NULL, x.blob, 0), CREMA_E_NOT_FOUND,
               "/no/such/image.png");
  crema_image_options options;
  crema_image_options_init(&options);
  options.resize_height = options.resize_width = 5; /* smaller than the blob */
  assert_fails(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_SHAPE, "image.png");
  options.resize_height = options.resize_width = 100000;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_RANGE);
  crema_image_options_init(&options);
  options.mean_count = 2;
  assert_int_equal(crema_image_load(x.path, &options, x.blob, 0), CREMA_E_ARGUMENT);
  crema_shape flat = cr_shape_2(2, 240);
  ok(crema_blob_reshape(x.blob, &flat));
  assert_fails(crema_image_load(x.path, NULL, x.blob, 0), CREMA_E_SHAPE, "2 240");
  clean(&x);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
