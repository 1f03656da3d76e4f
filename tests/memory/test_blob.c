/* Blobs. */

#include "check.h"
#include "device/device.h"
#include "device/memory/host_memory.h"
#include "memory/blob.h"
#include "memory/math.h"

static crema_blob *new_blob(crema_shape shape, crema_dtype type) {
  crema_blob *blob = NULL;
  ok(cr_blob_create_typed(&shape, type, type, &blob));
  return blob;
}

TEST(shapes_have_no_more_axes_than_said) {
  const int64_t dim[] = {2, 3, 4, 5, 6};
  for (int axes = 0; axes < 5; ++axes) {
    const crema_shape shape = cr_shape(axes, dim);
    assert_int_equal(shape.axes, axes);
    for (int i = 0; i < CREMA_MAX_AXES; ++i) assert_int_equal(shape.dim[i], i < axes ? dim[i] : 0);
  }
}

/* Of both, and once where these are one. */
TEST(conversions_are_counted_on_both_sides) {
  crema_blob *blob = new_blob(cr_shape_1(3), CREMA_F32);
  const void *values = NULL;
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  ok(crema_blob_mutable_cpu_diff(blob, &data));
  ok(crema_blob_data_as(blob, CREMA_F64, &values));
  assert_int_equal(crema_blob_conversions(blob), 1);
  ok(crema_blob_diff_as(blob, CREMA_F64, &values));
  ok(crema_blob_diff_as(blob, CREMA_F16, &values));
  assert_int_equal(crema_blob_conversions(blob), 3);
  ok(cr_tensor_share(blob->data, blob->diff));
  assert_int_equal(crema_blob_conversions(blob), 2);
  crema_blob_destroy(blob);
}

TEST(shapes_that_no_blob_has) {
  const crema_shape bad[] = {{2, {-2, -3}}, {-1, {1}}, {CREMA_MAX_AXES + 1, {1, 1}}};
  const crema_shape good = {2, {2, 3}};
  crema_blob *blob = NULL;
  ok(crema_blob_create(&good, &blob));
  for (int i = 0; i < 3; ++i) {
    crema_blob *none = NULL;
    assert_int_equal(crema_blob_create(&bad[i], &none), CREMA_E_SHAPE);
    assert_null(none);
    assert_int_equal(crema_blob_reshape(blob, &bad[i]), CREMA_E_SHAPE);
    assert_int_equal(crema_blob_count(blob), 6);
  }
  crema_blob_destroy(blob);
}

TEST(starts_as_zero) {
  crema_blob *blob = NULL;
  crema_shape shape = cr_shape_4(2, 3, 4, 5);
  ok(crema_blob_create(&shape, &blob));
  assert_int_equal(crema_blob_count(blob), 120);
  assert_true(crema_shape_equal(crema_blob_shape(blob), &shape));
  const float *value = NULL;
  ok(crema_blob_cpu_data(blob, &value));
  for (int i = 0; i < 120; ++i) assert_true(value[i] == 0);
  ok(crema_blob_cpu_diff(blob, &value));
  for (int i = 0; i < 120; ++i) assert_true(value[i] == 0);
  /* Reading leaves them as they are. */
  assert_true(cr_tensor_is_zero(blob->data) && cr_tensor_is_zero(blob->diff));
  float *change = NULL;
  ok(crema_blob_mutable_cpu_diff(blob, &change));
  assert_true(cr_tensor_is_zero(blob->data) && !cr_tensor_is_zero(blob->diff));
  crema_blob_destroy(blob);
  crema_blob_destroy(NULL);
}

TEST(data_and_diff_are_separate) {
  crema_blob *blob = new_blob(cr_shape_1(3), CREMA_F32);
  float *data = NULL, *diff = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  ok(crema_blob_mutable_cpu_diff(blob, &diff));
  for (int i = 0; i < 3; ++i) {
    data[i] = (float)(i - 1);
    diff[i] = 10;
  }
  double sum = 0;
  ok(cr_tensor_asum(blob->data, &sum));
  assert_true(sum == 2);
  ok(cr_tensor_sumsq(blob->data, &sum));
  assert_true(sum == 2);
  ok(cr_tensor_asum(blob->diff, &sum));
  assert_true(sum == 30);
  ok(cr_tensor_sumsq(blob->diff, &sum));
  assert_true(sum == 300);
  crema_blob_destroy(blob);
}

TEST(sums_of_any_length) {
  for (int64_t count = 0; count < 40; ++count) {
    crema_dtype types[] = {CREMA_F32, CREMA_F64, CREMA_F16};
    for (int t = 0; t < 3; ++t) {
      crema_blob *blob = new_blob(cr_shape_1(count), types[t]);
      float *data = NULL;
      double sum = -1, squares = -1;
      ok(crema_blob_mutable_cpu_data(blob, &data));
      for (int64_t i = 0; i < count; ++i) data[i] = (float)(i % 2 == 0 ? i : -i);
      ok(cr_tensor_asum(blob->data, &sum));
      ok(cr_tensor_sumsq(blob->data, &squares));
      assert_true(sum == (double)(count * (count - 1) / 2));
      assert_true(squares == (double)((count - 1) * count * (2 * count - 1) / 6));
      crema_blob_destroy(blob);
    }
  }
}

/* Fails every request for host memory. */
static void *no_memory(void *user, size_t bytes, size_t alignment) {
  (void)user;
  (void)bytes;
  (void)alignment;
  return NULL;
}

static void none_to_free(void *user, void *memory) {
  (void)user;
  (void)memory;
}

/* The diff is held as float16 alone, so that it has to be converted before it is cut: without
 * memory for that the blob stays as it was, the data too, although it could have been cut. */
TEST(a_failed_reshape_changes_nothing) {
  static const crema_host_allocator broken = {no_memory, none_to_free, NULL};
  const crema_shape before = cr_shape_2(3, 5), smaller = cr_shape_2(2, 5);
  crema_blob *blob = new_blob(before, CREMA_F32);
  float *data = NULL;
  crema_devptr half = {0};
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int i = 0; i < 15; ++i) data[i] = (float)i;
  ok(cr_tensor_write(blob->diff, cr_host_context(), (cr_format){CREMA_F16, NULL}, &half));
  for (int i = 0; i < 15; ++i) ((uint16_t *)half.address)[i] = 0x3c00;
  cr_host_set_allocator(&broken);
  crema_status status = crema_blob_reshape(blob, &smaller);
  cr_host_set_allocator(NULL);
  assert_int_equal(status, CREMA_E_NO_MEMORY);
  assert_true(crema_shape_equal(crema_blob_shape(blob), &before));
  assert_int_equal(cr_tensor_count(blob->data), 15);
  assert_int_equal(cr_tensor_count(blob->diff), 15);
  const float *value = NULL;
  ok(crema_blob_cpu_data(blob, &value));
  for (int i = 0; i < 15; ++i) assert_true(value[i] == (float)i);
  ok(crema_blob_reshape(blob, &smaller));
  ok(crema_blob_cpu_diff(blob, &value));
  for (int i = 0; i < 10; ++i) assert_true(value[i] == 1);
  crema_blob_destroy(blob);
}

/* A shape that there was no memory for does no harm once the blob has another one. */
TEST(recovers_from_a_shape_too_large) {
  const crema_shape huge = cr_shape_2(1 << 30, 1 << 25), small = cr_shape_1(3);
  crema_blob *blob = new_blob(small, CREMA_F32);
  const float *value = NULL;
  ok(crema_blob_cpu_data(blob, &value));
  ok(crema_blob_reshape(blob, &huge));
  assert_int_equal(crema_blob_cpu_data(blob, &value), CREMA_E_NO_MEMORY);
  assert_int_equal(crema_blob_cpu_diff(blob, &value), CREMA_E_NO_MEMORY);
  ok(crema_blob_reshape(blob, &small));
  ok(crema_blob_cpu_data(blob, &value));
  assert_true(value[0] == 0 && value[2] == 0);
  ok(crema_blob_cpu_diff(blob, &value));
  crema_blob_destroy(blob);
}

TEST(s4_05_no_sums_of_integers) {
  crema_blob *blob = new_blob(cr_shape_1(3), CREMA_I32);
  double sum = -1;
  assert_int_equal(cr_tensor_asum(blob->data, &sum), CREMA_E_TYPE);
  crema_blob_destroy(blob);
}

TEST(s0_25_reshape) {
  crema_blob *blob = new_blob(cr_shape_2(3, 4), CREMA_F32);
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int i = 0; i < 12; ++i) data[i] = (float)i;
  crema_shape smaller = cr_shape_3(2, 2, 2), huge = cr_shape_2(INT64_MAX / 4, 3);
  crema_shape many = {.axes = 33};
  ok(crema_blob_reshape(blob, &smaller));
  const float *value = NULL;
  ok(crema_blob_cpu_data(blob, &value));
  for (int i = 0; i < 8; ++i) assert_true(value[i] == (float)i);
  assert_int_equal(crema_blob_reshape(blob, &huge), CREMA_E_SHAPE);
  assert_int_equal(crema_blob_reshape(blob, &many), CREMA_E_SHAPE);
  assert_true(crema_shape_equal(crema_blob_shape(blob), &smaller));
  crema_shape larger = cr_shape_1(100);
  ok(crema_blob_reshape(blob, &larger));
  ok(crema_blob_cpu_data(blob, &value));
  for (int i = 0; i < 100; ++i) assert_true(value[i] == 0);
  crema_blob_destroy(blob);
}

TEST(s0_22_sharing) {
  crema_blob *a = new_blob(cr_shape_2(2, 3), CREMA_F32), *b = new_blob(cr_shape_1(6), CREMA_F32);
  crema_blob *c = new_blob(cr_shape_1(7), CREMA_F32);
  ok(cr_blob_share_data(b, a));
  ok(cr_blob_share_diff(b, a));
  assert_int_equal(cr_blob_share_data(c, a), CREMA_E_SHAPE);
  float *data = NULL, *diff = NULL;
  ok(crema_blob_mutable_cpu_data(a, &data));
  ok(crema_blob_mutable_cpu_diff(b, &diff));
  data[5] = 42;
  diff[1] = 7;
  const float *value = NULL;
  ok(crema_blob_cpu_diff(a, &value));
  assert_true(value[1] == 7);
  crema_blob_destroy(a);
  ok(crema_blob_cpu_data(b, &value));
  assert_true(value[5] == 42);
  crema_blob_destroy(b);
  crema_blob_destroy(c);
}

/* data = start + i, diff = 10 (start + i) */
static void fill(crema_blob *blob, float start) {
  float *data = NULL, *diff = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  ok(crema_blob_mutable_cpu_diff(blob, &diff));
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) {
    data[i] = start + (float)i;
    diff[i] = 10 * (start + (float)i);
  }
}

static void expect(crema_blob *blob, float data0, float data1, float diff0, float diff1) {
  const float *data = NULL, *diff = NULL;
  ok(crema_blob_cpu_data(blob, &data));
  ok(crema_blob_cpu_diff(blob, &diff));
  assert_true(data[0] == data0 && data[1] == data1);
  assert_true(diff[0] == diff0 && diff[1] == diff1);
}

/* Each call changes its own half of the blob, and only the first blob. */
TEST(arithmetic_and_copies) {
  crema_blob *a = new_blob(cr_shape_1(2), CREMA_F32), *b = new_blob(cr_shape_1(2), CREMA_F32);
  fill(a, 1);
  fill(b, 5);
  ok(crema_blob_copy_data(a, b));
  expect(a, 5, 6, 10, 20);
  expect(b, 5, 6, 50, 60);
  fill(a, 1);
  ok(crema_blob_copy_diff(a, b));
  expect(a, 1, 2, 50, 60);
  expect(b, 5, 6, 50, 60);
  ok(crema_blob_scale_data(a, 3));
  expect(a, 3, 6, 50, 60);
  ok(crema_blob_scale_diff(a, 0.5f));
  expect(a, 3, 6, 25, 30);
  ok(crema_blob_update(a));
  expect(a, -22, -24, 25, 30);
  crema_blob *other = new_blob(cr_shape_1(3), CREMA_F32), *wide = NULL;
  const crema_shape shape = cr_shape_1(2);
  ok(cr_blob_create_typed(&shape, CREMA_F64, CREMA_F16, &wide));
  assert_int_equal(crema_blob_data_type(wide), CREMA_F64);
  assert_int_equal(crema_blob_diff_type(wide), CREMA_F16);
  assert_int_equal(crema_blob_copy_data(a, other), CREMA_E_SHAPE);
  assert_int_equal(crema_blob_copy_diff(a, other), CREMA_E_SHAPE);
  expect(a, -22, -24, 25, 30);
  ok(crema_blob_copy_data(wide, a));
  ok(crema_blob_copy_diff(wide, a));
  expect(wide, -22, -24, 25, 30);
  crema_blob_destroy(a);
  crema_blob_destroy(b);
  crema_blob_destroy(other);
  crema_blob_destroy(wide);
}

/* Whoever shares takes the donor's values, and only of the half that is shared. */
TEST(sharing_takes_the_donors_values) {
  for (int half = 0; half < 2; ++half) {
    crema_blob *a = new_blob(cr_shape_1(2), CREMA_F32), *b = new_blob(cr_shape_1(2), CREMA_F32);
    fill(a, 1);
    fill(b, 5);
    ok(half == 0 ? cr_blob_share_data(a, b) : cr_blob_share_diff(a, b));
    expect(b, 5, 6, 50, 60);
    if (half == 0) expect(a, 5, 6, 10, 20);
    else expect(a, 1, 2, 50, 60);
    fill(b, 7);
    if (half == 0) expect(a, 7, 8, 10, 20);
    else expect(a, 1, 2, 70, 80);
    crema_blob_destroy(a);
    crema_blob_destroy(b);
  }
}

/* What is held counts, on the side of the blob that holds it; adopted memory does not. */
TEST(memory_of_both_sides) {
  crema_blob *blob = new_blob(cr_shape_1(5), CREMA_F32);
  float own[5] = {0}, *value = NULL;
  crema_blob_memory found = crema_blob_memory_read(blob);
  assert_int_equal(found.data_host + found.diff_host + found.data_device + found.diff_device, 0);
  ok(crema_blob_mutable_cpu_diff(blob, &value));
  found = crema_blob_memory_read(blob);
  assert_int_equal(found.data_host, 0);
  assert_int_equal(found.diff_host, 6 * sizeof(float));
  ok(crema_blob_mutable_cpu_data(blob, &value));
  assert_int_equal(crema_blob_memory_read(blob).data_host, 6 * sizeof(float));
  ok(crema_blob_set_cpu_data(blob, own));
  found = crema_blob_memory_read(blob);
  assert_int_equal(found.data_host, 0);
  assert_int_equal(found.diff_host, 6 * sizeof(float));
  found = crema_blob_memory_read(NULL);
  assert_int_equal(found.data_host + found.diff_host + found.data_device + found.diff_device, 0);
  crema_blob_destroy(blob);
}

TEST(host_access_converts_other_types) {
  crema_blob *blob = new_blob(cr_shape_1(3), CREMA_F64);
  void *doubles = NULL;
  ok(cr_tensor_host_write(blob->data, &doubles));
  for (int i = 0; i < 3; ++i) ((double *)doubles)[i] = i + 0.5;
  const float *value = NULL;
  ok(crema_blob_cpu_data(blob, &value));
  assert_true(value[2] == 2.5f);
  float *change = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &change));
  change[0] = 9;
  const void *back = NULL;
  ok(cr_tensor_host_read(blob->data, &back));
  assert_true(((const double *)back)[0] == 9 && ((const double *)back)[2] == 2.5);
  crema_blob_destroy(blob);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
