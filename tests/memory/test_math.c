/* Sums, scaling and updates where the values are (S0-26, S4-05, S4-36), views (S0-23), adopted blob
 * data (S0-24), sharing (S0-22). */
#include <math.h>

#include "device/device.h"
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"

#include "core/fail.h"
#include "device/backend/kernel.h"
#include "device/memory/pool.h"
#include "memory/blob.h"
#include "memory/math.h"
#include "memory/tensor_help.h"

enum { COUNT = 1000 };

typedef struct fixture {
  crema_device *device;
  crema_context *context;
  crema_blob *blob;
} fixture;

static fixture begin(void) {
  fixture f;
  cr_sim_options options = sim_test_options(1);
  options.memory = (size_t)64 << 20;
  sim_begin(&options);
  f.device = sim_test_device(0);
  f.context = sim_test_context(f.device);
  crema_shape shape = cr_shape_1(COUNT);
  ok(crema_blob_create(&shape, &f.blob));
  return f;
}

static void end(fixture *f) {
  crema_blob_destroy(f->blob);
  crema_context_destroy(f->context);
  sim_end();
}

/* data = i - 500, diff = 2 i */
static void fill(fixture *f) {
  float *data = NULL, *diff = NULL;
  ok(crema_blob_mutable_cpu_data(f->blob, &data));
  ok(crema_blob_mutable_cpu_diff(f->blob, &diff));
  for (int i = 0; i < COUNT; ++i) {
    data[i] = (float)(i - 500);
    diff[i] = (float)(2 * i);
  }
}

static void to_device(fixture *f, bool head) {
  crema_devptr data = {0};
  crema_status status = head ? cr_tensor_update(f->blob->data, f->context, CR_PLAIN_F32, &data)
                             : cr_tensor_read(f->blob->data, f->context, CR_PLAIN_F32, &data);
  ok(status);
}

static void expect_sums(fixture *f, bool on_device) {
  double asum = 0, sumsq = 0;
  cr_sim_reset_counts();
  ok(cr_tensor_asum(f->blob->data, &asum));
  ok(cr_tensor_sumsq(f->blob->data, &sumsq));
  /* |i - 500| for i = 0..999, and its squares. */
  assert_true(asum == 250000);
  assert_true(sumsq == 83333500);
  assert_int_equal(cr_sim_count(CR_SIM_KERNEL, 0), on_device ? 2 : 0);
  /* The kernels write the sums to host memory (S4-24). */
  assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), 0);
}

TEST(s0_26_sums_run_where_the_head_is) {
  fixture f = begin();
  double sum = -1;
  ok(cr_tensor_asum(f.blob->data, &sum));
  assert_true(sum == 0);
  fill(&f);
  expect_sums(&f, false);
  to_device(&f, false);
  expect_sums(&f, true);
  to_device(&f, true);
  expect_sums(&f, true);
  /* What they need is made once. */
  assert_int_equal(cr_sim_count(CR_SIM_ALLOC, 0) + cr_sim_count(CR_SIM_HOST_ALLOC, -1), 0);
  end(&f);
}

TEST(s0_26_scale_and_update_run_where_the_head_is) {
  /* Newest on the host, on the device, on both. */
  for (int place = 0; place < 3; ++place) {
    int on_device = place > 0;
    fixture f = begin();
    /* Never set: scaling does nothing, an update is an error. */
    ok(cr_tensor_scale(f.blob->data, 3));
    assert_true(cr_tensor_is_zero(f.blob->data));
    assert_int_equal(crema_blob_update(f.blob), CREMA_E_STATE);
    fill(&f);
    if (on_device == 1) to_device(&f, place == 1);
    cr_sim_reset_counts();
    ok(cr_tensor_scale(f.blob->data, 4));
    ok(crema_blob_update(f.blob));
    assert_int_equal(cr_sim_count(CR_SIM_KERNEL, 0), on_device == 1 ? 2 : 0);
    const float *data = NULL, *diff = NULL;
    ok(crema_blob_cpu_data(f.blob, &data));
    ok(crema_blob_cpu_diff(f.blob, &diff));
    for (int i = 0; i < COUNT; ++i) {
      assert_true(data[i] == (float)(4 * (i - 500) - 2 * i));
      assert_true(diff[i] == (float)(2 * i));
    }
    end(&f);
  }
}

/* data = 1.5 data - diff in every type of data, where the newest values are; integers are refused
 * by name and stay as they were. */
TEST(s4_30_arithmetic_in_every_type_where_the_values_are) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  for (int n = 0; n < 12; ++n) {
    fixture f = begin();
    const crema_dtype type = types[n % 4];
    const int place = n / 4; /* newest on the host, on the device, on both */
    crema_blob *blob = NULL;
    float *data = NULL, *diff = NULL;
    const void *value = NULL;
    void *own_values = NULL;
    crema_devptr device = {0};
    crema_shape shape = cr_shape_1(5);
    ok(crema_blob_create_typed(&shape, type, type, &blob));
    ok(crema_blob_mutable_cpu_data(blob, &data));
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    for (int i = 0; i < 5; ++i) {
      data[i] = (float)(2 * i - 3);
      diff[i] = 0.25f * (float)i;
    }
    const cr_format own = {type, NULL};
    ok(crema_blob_mutable_data_as(blob, type, &own_values)); /* the newest in the blob's type */
    if (place == 1) ok(cr_tensor_update(blob->data, f.context, own, &device));
    if (place == 2) ok(cr_tensor_read(blob->data, f.context, own, &device));
    cr_sim_reset_counts();
    ok(crema_blob_scale_data(blob, 1.5f));
    ok(crema_blob_update(blob));
    /* No device has kernels for doubles: the host does it. */
    /* No device has kernels for doubles: the host does it. */
    assert_int_equal(cr_sim_count(CR_SIM_KERNEL, 0) > 0, place > 0 && type != CREMA_F64);
    ok(crema_blob_data_as(blob, CREMA_F64, &value));
    for (int i = 0; i < 5; ++i) {
      assert_true(((const double *)value)[i] == 1.5 * (2 * i - 3) - 0.25 * i);
    }
    crema_blob_destroy(blob);
    end(&f);
  }
}

TEST(s4_30_no_arithmetic_with_integers) {
  static const crema_dtype types[] = {CREMA_I32, CREMA_U32, CREMA_BOOL, CREMA_I8, CREMA_U8};
  crema_shape shape = cr_shape_1(2);
  for (int t = 0; t < 5; ++t) {
    crema_blob *blob = NULL;
    float *data = NULL;
    const float *value = NULL;
    ok(crema_blob_create_typed(&shape, types[t], types[t], &blob));
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = data[1] = 1;
    assert_fails(crema_blob_scale_data(blob, 2), CREMA_E_TYPE, crema_dtype_name(types[t]));
    assert_fails(crema_blob_scale_diff(blob, 2), CREMA_E_TYPE, crema_dtype_name(types[t]));
    assert_fails(crema_blob_update(blob), CREMA_E_TYPE, crema_dtype_name(types[t]));
    ok(crema_blob_cpu_data(blob, &value));
    assert_true(value[0] == 1 && value[1] == 1);
    crema_blob_destroy(blob);
  }
}

TEST(s4_36_update_with_other_types) {
  crema_shape shape = cr_shape_1(4);
  const crema_dtype floating[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  for (int t = 0; t < 16; ++t) {
    crema_blob *blob = NULL;
    float *data = NULL, *diff = NULL;
    const float *result = NULL;
    ok(cr_blob_create_typed(&shape, floating[t / 4], floating[t % 4], &blob));
    ok(crema_blob_mutable_cpu_data(blob, &data));
    ok(crema_blob_mutable_cpu_diff(blob, &diff));
    for (int i = 0; i < 4; ++i) {
      data[i] = (float)i;
      diff[i] = 0.25f * (float)i;
    }
    ok(crema_blob_update(blob));
    ok(cr_tensor_scale(blob->data, 2));
    ok(crema_blob_cpu_data(blob, &result));
    for (int i = 0; i < 4; ++i) assert_true(result[i] == 1.5f * (float)i);
    ok(crema_blob_cpu_diff(blob, &result));
    for (int i = 0; i < 4; ++i) assert_true(result[i] == 0.25f * (float)i);
    crema_blob_destroy(blob);
  }
  crema_blob *whole = NULL;
  ok(cr_blob_create_typed(&shape, CREMA_I32, CREMA_I32, &whole));
  assert_int_equal(crema_blob_update(whole), CREMA_E_TYPE);
  assert_int_equal(cr_tensor_scale(whole->data, 2), CREMA_E_TYPE);
  crema_blob_destroy(whole);
}

TEST(s0_26_infinities_are_scaled) {
  const crema_dtype floating[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  crema_shape shape = cr_shape_1(2);
  for (int t = 0; t < 4; ++t) {
    crema_blob *blob = NULL;
    float *data = NULL;
    const float *value = NULL;
    ok(cr_blob_create_typed(&shape, floating[t], floating[t], &blob));
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = INFINITY;
    data[1] = -INFINITY;
    ok(crema_blob_scale_data(blob, -2));
    ok(crema_blob_cpu_data(blob, &value));
    assert_true(value[0] == -INFINITY && value[1] == INFINITY);
    crema_blob_destroy(blob);
  }
}

/* Zeros that somebody has set or seen are values, where the newest differences are. */
TEST(s0_26_zeros_are_updated) {
  for (int way = 0; way < 3; ++way) {
    fixture f = begin();
    crema_devptr data = {0};
    const float *value = NULL;
    fill(&f);
    crema_shape none = cr_shape_1(1), large = cr_shape_1(COUNT);
    ok(crema_blob_reshape(f.blob, &none));
    cr_tensor_shrink_to_fit(f.blob->data); /* new again */
    ok(crema_blob_reshape(f.blob, &large));
    ok(cr_tensor_update(f.blob->diff, f.context, CR_PLAIN_F32, &data));
    assert_fails(crema_blob_update(f.blob), CREMA_E_STATE, "never set");
    if (way == 0) cr_tensor_set_zero(f.blob->data);
    else if (way == 1) ok(crema_blob_cpu_data(f.blob, &value));
    else ok(cr_tensor_write(f.blob->data, f.context, CR_PLAIN_F32, &data));
    if (way == 2) cr_tensor_set_zero(f.blob->data);
    cr_sim_reset_counts();
    ok(crema_blob_update(f.blob));
    assert_int_equal(cr_sim_count(CR_SIM_KERNEL, 0) > 0, true);
    ok(crema_blob_cpu_data(f.blob, &value));
    for (int i = 0; i < COUNT; ++i) assert_true(value[i] == (float)(-2 * i));
    end(&f);
  }
}

/* Differences of another count are refused, longer ones too; differences that are all zero cost
 * nothing. */
TEST(s0_26_s4_36_updates_with_odd_differences) {
  fixture f = begin();
  cr_tensor *difference = NULL;
  fill(&f);
  for (int64_t count = COUNT - 1; count <= COUNT + 1; ++count) {
    ok(cr_tensor_create(CREMA_F32, count, &difference));
    cr_sim_reset_counts();
    to_device(&f, false);
    assert_int_equal(cr_tensor_subtract(f.blob->data, difference),
                     count == COUNT ? CREMA_OK : CREMA_E_SHAPE);
    assert_int_equal(bytes_of_tensor(difference), 0);
    assert_int_equal(cr_sim_count(CR_SIM_KERNEL, -1), 0);
    cr_tensor_destroy(difference);
  }
  expect_sums(&f, true);
  end(&f);
}

TEST(s0_23_a_batch_filled_through_views) {
  fixture f = begin();
  cr_tensor *batch = f.blob->data;
  cr_tensor_view view = {0};
  void *data = NULL, *item = NULL;
  /* Nothing is on the host yet. */
  assert_int_equal(cr_tensor_view_make(batch, 0, 10, &view), CREMA_E_STATE);
  ok(cr_tensor_host_write(batch, &data));
  assert_int_equal(cr_tensor_view_make(batch, 995, 10, &view), CREMA_E_RANGE);
  assert_int_equal(cr_tensor_view_make(batch, -1, 10, &view), CREMA_E_RANGE);
  for (int i = 0; i < 100; ++i) {
    ok(cr_tensor_view_make(batch, 10 * i, 10, &view));
    ok(cr_tensor_view_data(&view, batch, &item));
    assert_ptr_equal(item, (float *)data + 10 * i);
    for (int k = 0; k < 10; ++k) ((float *)item)[k] = (float)(10 * i + k);
  }
  crema_devptr device = {0};
  float seen[COUNT];
  ok(cr_tensor_read(batch, f.context, CR_PLAIN_F32, &device));
  assert_true(cr_sim_peek(device, seen, sizeof seen));
  for (int i = 0; i < COUNT; ++i) assert_true(seen[i] == (float)i);
  /* With a copy on the device, what is written through a view would be missed. */
  assert_int_equal(cr_tensor_view_data(&view, batch, &item), CREMA_E_STATE);
  ok(update_on_host(batch, &data));
  ok(cr_tensor_view_data(&view, batch, &item));
  /* Other memory under the same tensor. */
  ok(cr_tensor_resize(batch, 2 * COUNT));
  assert_int_equal(cr_tensor_view_data(&view, batch, &item), CREMA_E_STATE);
  /* Another tensor in the place of one that is gone, wherever its memory lies. */
  for (int i = 0; i < 10; ++i) {
    cr_tensor *first = NULL, *second = NULL;
    ok(cr_tensor_create(CREMA_F32, 10, &first));
    ok(cr_tensor_host_write(first, &data));
    ok(cr_tensor_view_make(first, 0, 10, &view));
    cr_tensor_destroy(first);
    ok(cr_tensor_create(CREMA_F32, 10, &second));
    ok(cr_tensor_host_write(second, &data));
    assert_int_equal(cr_tensor_view_data(&view, second, &item), CREMA_E_STATE);
    cr_tensor_destroy(second);
  }
  end(&f);
}

TEST(s0_24_adopted_data_after_shrinking) {
  float mine[6] = {1, 2, 3, 4, 5, 6};
  crema_blob *blob = NULL;
  float *diff = NULL;
  const float *value = NULL;
  crema_shape large = cr_shape_1(100), small = cr_shape_1(6);
  ok(crema_blob_create(&large, &blob));
  ok(crema_blob_mutable_cpu_diff(blob, &diff));
  for (int i = 0; i < 100; ++i) diff[i] = 9;
  ok(crema_blob_reshape(blob, &small));
  assert_int_equal(crema_blob_set_cpu_data(blob, NULL), CREMA_E_ARGUMENT);
  ok(crema_blob_set_cpu_data(blob, mine));
  ok(crema_blob_cpu_data(blob, &value));
  assert_ptr_equal(value, mine);
  ok(crema_blob_cpu_diff(blob, &value));
  for (int i = 0; i < 6; ++i) assert_true(value[i] == 0);
  /* At an unchanged size the diff stays. */
  ok(crema_blob_mutable_cpu_diff(blob, &diff));
  for (int i = 0; i < 6; ++i) diff[i] = 8;
  ok(crema_blob_set_cpu_data(blob, mine));
  ok(crema_blob_cpu_diff(blob, &value));
  assert_true(value[5] == 8);
  crema_blob_destroy(blob);
  assert_true(mine[5] == 6);
}

/* A reshape to another count lets go of the caller's memory, in blobs that share it, too. */
TEST(s0_24_adopted_data_is_left_when_the_count_changes) {
  fixture f = begin();
  for (int way = 0; way < 4; ++way) {
    float mine[6] = {1, 2, 3, 4, 5, 6};
    crema_devptr theirs = {0};
    crema_blob *blob[2];
    const float *value = NULL;
    crema_shape six = cr_shape_1(6), four = cr_shape_1(4);
    for (int i = 0; i < 2; ++i) ok(crema_blob_create(&six, &blob[i]));
    if (way % 2 == 1) ok(cr_blob_share_data(blob[1], blob[0]));
    ok(cr_device_alloc(f.device, sizeof mine, &theirs));
    ok(f.device->backend->copy(f.context, CR_COPY_HOST_TO_DEVICE, theirs.address, (uintptr_t)mine,
                               sizeof mine));
    ok(crema_context_finish(f.context));
    if (way < 2) ok(crema_blob_set_cpu_data(blob[0], mine));
    else ok(crema_blob_set_gpu_data(blob[0], f.device, theirs));
    ok(crema_blob_reshape(blob[0], &four));
    cr_device_free(f.device, theirs);
    for (int i = 0; i < 6; ++i) mine[i] = -1;
    for (int b = 0; b < 1 + way % 2; ++b) {
      ok(crema_blob_cpu_data(blob[b], &value));
      for (int i = 0; i < (b == 0 ? 4 : 6); ++i) assert_true(value[i] == (float)(i + 1));
    }
    for (int i = 0; i < 2; ++i) crema_blob_destroy(blob[i]);
  }
  end(&f);
}

TEST(s0_24_adopted_device_data) {
  fixture f = begin();
  crema_devptr theirs = {0}, data = {0};
  const float *value = NULL;
  float sent[6] = {6, 5, 4, 3, 2, 1}, *diff = NULL;
  crema_shape small = cr_shape_1(6);
  ok(cr_device_alloc(f.device, sizeof sent, &theirs));
  ok(f.device->backend->copy(f.context, CR_COPY_HOST_TO_DEVICE, theirs.address, (uintptr_t)sent,
                             sizeof sent));
  ok(crema_context_finish(f.context));
  fill(&f);
  to_device(&f, false);
  ok(crema_blob_reshape(f.blob, &small));
  assert_int_equal(crema_blob_set_gpu_data(f.blob, f.device, (crema_devptr){0}), CREMA_E_ARGUMENT);
  assert_int_equal(crema_blob_set_gpu_data(f.blob, NULL, theirs), CREMA_E_NO_DEVICE);
  size_t before = cr_pool_describe(f.device->pool).live_blocks;
  ok(crema_blob_set_gpu_data(f.blob, f.device, theirs));
  /* What the larger shape left is gone, of the diff too, which reads as zeros. */
  assert_int_equal(cr_pool_describe(f.device->pool).live_blocks, before - 1);
  ok(cr_tensor_read(f.blob->data, f.context, CR_PLAIN_F32, &data));
  assert_int_equal(data.address, theirs.address);
  ok(crema_blob_cpu_data(f.blob, &value));
  assert_memory_equal(value, sent, sizeof sent);
  ok(crema_blob_cpu_diff(f.blob, &value));
  for (int i = 0; i < 6; ++i) assert_true(value[i] == 0);
  /* At an unchanged size the diff stays, and so does the adopted memory. */
  ok(crema_blob_mutable_cpu_diff(f.blob, &diff));
  diff[5] = 8;
  ok(crema_blob_set_gpu_data(f.blob, f.device, theirs));
  ok(crema_blob_cpu_diff(f.blob, &value));
  assert_true(value[5] == 8);
  crema_blob_destroy(f.blob);
  f.blob = NULL;
  float back[6];
  assert_true(cr_sim_peek(theirs, back, sizeof back));
  assert_memory_equal(back, sent, sizeof sent);
  cr_device_free(f.device, theirs);
  end(&f);
}

/* Where the newest values are, and no further than that: nothing goes over the link. */
TEST(s4_37_blobs_are_copied_where_they_are) {
  fixture f = begin();
  crema_blob *to = NULL, *small = NULL;
  const float *value = NULL;
  float *data = NULL;
  crema_devptr device = {0};
  crema_shape shape = *crema_blob_shape(f.blob), less = cr_shape_1(3);
  ok(crema_blob_create(&shape, &to));
  ok(crema_blob_create(&less, &small));
  ok(crema_blob_mutable_cpu_data(f.blob, &data));
  for (int i = 0; i < COUNT; ++i) data[i] = (float)i;
  ok(crema_blob_copy_data(to, f.blob));
  assert_int_equal(cr_sim_count(CR_SIM_H2D, -1), 0);
  ok(crema_blob_scale_data(f.blob, 2));
  ok(cr_tensor_update(f.blob->data, f.context, CR_PLAIN_F32, &device));
  cr_sim_reset_counts();
  ok(crema_blob_copy_diff(to, f.blob));
  assert_true(cr_tensor_is_zero(to->diff));
  ok(crema_blob_cpu_data(to, &value));
  for (int i = 0; i < COUNT; ++i) assert_true(value[i] == (float)i);
  ok(crema_blob_copy_data(to, f.blob));
  assert_int_equal(cr_sim_count(CR_SIM_H2D, -1) + cr_sim_count(CR_SIM_D2H, -1), 0);
  assert_int_equal(cr_sim_count(CR_SIM_D2D, -1), 1);
  ok(crema_blob_cpu_data(to, &value));
  for (int i = 0; i < COUNT; ++i) assert_true(value[i] == 2 * (float)i);
  assert_int_equal(crema_blob_copy_data(small, to), CREMA_E_SHAPE);
  /* A step by hand: data = data - 0.5 diff. */
  ok(crema_blob_mutable_cpu_diff(to, &data));
  for (int i = 0; i < COUNT; ++i) data[i] = 4;
  ok(crema_blob_scale_diff(to, 0.5f));
  ok(crema_blob_update(to));
  ok(crema_blob_cpu_data(to, &value));
  for (int i = 0; i < COUNT; ++i) assert_true(value[i] == 2 * (float)i - 2);
  crema_blob_destroy(small);
  crema_blob_destroy(to);
  end(&f);
}

TEST(s0_22_a_circle_of_sharing_is_reported) {
  crema_shape shape = cr_shape_1(3);
  crema_blob *a = NULL, *b = NULL, *c = NULL;
  crema_blob **all[3] = {&a, &b, &c};
  for (int i = 0; i < 3; ++i) ok(crema_blob_create(&shape, all[i]));
  /* a from b, then b from a. */
  ok(cr_blob_share_data(a, b));
  assert_fails(cr_blob_share_data(b, a), CREMA_E_STATE, "circle");
  /* The diffs go their own way. */
  ok(cr_blob_share_diff(b, a));
  assert_int_equal(cr_blob_share_diff(a, b), CREMA_E_STATE);
  /* Once more from the same donor, and from another one with the same values. */
  ok(cr_blob_share_data(a, b));
  ok(cr_blob_share_data(c, a));
  ok(cr_blob_share_data(c, b));
  /* By way of another, which may be gone: c from a from b. */
  assert_int_equal(cr_blob_share_data(b, c), CREMA_E_STATE);
  crema_blob_destroy(a);
  assert_int_equal(cr_blob_share_data(b, c), CREMA_E_STATE);
  /* What was refused changed nothing. */
  float *data = NULL;
  const float *value = NULL;
  ok(crema_blob_mutable_cpu_data(b, &data));
  data[2] = 5;
  ok(crema_blob_cpu_data(c, &value));
  assert_true(value[2] == 5);
  /* Another blob has no share in it: then the other direction is no circle. */
  crema_blob_destroy(c);
  ok(crema_blob_create(&shape, &c));
  ok(cr_blob_share_data(b, c));
  assert_int_equal(cr_blob_share_data(c, b), CREMA_E_STATE);
  crema_blob_destroy(b);
  crema_blob_destroy(c);
}

/* Every value counts, the first and what is left of the last few, too. */
TEST(s4_36_sums_of_doubles_and_of_odd_counts) {
  const crema_dtype type[] = {CREMA_F64, CREMA_F32};
  for (size_t t = 0; t < sizeof type / sizeof *type; ++t) {
    for (int count = 1; count <= 19; ++count) {
      cr_tensor *tensor = NULL;
      crema_devptr data = {0};
      crema_blob *blob = NULL;
      crema_shape shape = {.axes = 1, .dim = {count}};
      ok(cr_blob_create_typed(&shape, type[t], type[t], &blob));
      tensor = blob->data;
      cr_format format = {type[t], NULL};
      ok(cr_tensor_write(tensor, cr_host_context(), format, &data));
      double asum = 0, sumsq = 0, expected = 0, squares = 0;
      for (int i = 0; i < count; ++i) {
        double value = i % 2 == 0 ? i + 3 : -(i + 3);
        if (type[t] == CREMA_F64) ((double *)data.address)[i] = value;
        else ((float *)data.address)[i] = (float)value;
        expected += i + 3;
        squares += value * value;
      }
      ok(cr_tensor_asum(blob->data, &asum));
      ok(cr_tensor_sumsq(blob->data, &sumsq));
      assert_true(asum == expected);
      assert_true(sumsq == squares);
      crema_blob_destroy(blob);
    }
  }
}

/* Values that are in half precision alone are converted before they are updated. */
TEST(s4_36_halves_are_updated_from_halves) {
  static const uint16_t numbers[] = {0x3c00, 0x4000, 0x4200, 0x4400}; /* 1 to 4 */
  static const uint16_t quarters[] = {0x3400, 0x3800, 0x3a00, 0x3c00};
  const cr_format halves = {CREMA_F16, NULL};
  cr_tensor *tensor[2] = {NULL, NULL};
  crema_devptr data = {0};
  double sum = 0;
  for (int i = 0; i < 2; ++i) {
    ok(cr_tensor_create(CREMA_F16, 4, &tensor[i]));
    ok(cr_tensor_write(tensor[i], cr_host_context(), halves, &data));
    memcpy((void *)data.address, i == 0 ? numbers : quarters, sizeof numbers);
  }
  ok(cr_tensor_subtract(tensor[0], tensor[1]));
  ok(cr_tensor_read(tensor[0], cr_host_context(), CR_PLAIN_F32, &data));
  for (int i = 0; i < 4; ++i) assert_true(((float *)data.address)[i] == 0.75f * (float)(i + 1));
  /* The differences stay as they were, in their own precision. */
  assert_int_equal(cr_tensor_head(tensor[1]).type, CREMA_F16);
  ok(cr_tensor_scale(tensor[1], 2));
  ok(cr_tensor_asum(tensor[1], &sum));
  assert_true(sum == 5);
  for (int i = 0; i < 2; ++i) cr_tensor_destroy(tensor[i]);
}

/* An update on a device leaves the differences on both sides, which a reader on the host finds. */
TEST(s0_26_operands_are_only_read) {
  fixture f = begin();
  const float *diff = NULL;
  crema_devptr data = {0};
  fill(&f);
  to_device(&f, true);
  ok(crema_blob_update(f.blob));
  cr_sim_reset_counts();
  ok(crema_blob_cpu_diff(f.blob, &diff));
  assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), 0);
  assert_true(diff[7] == 14);
  /* Nor do sums change who has the newest values. */
  double sum = 0;
  ok(cr_tensor_read(f.blob->diff, f.context, CR_PLAIN_F32, &data));
  ok(cr_tensor_asum(f.blob->diff, &sum));
  assert_true(sum == 999000);
  cr_sim_reset_counts();
  ok(crema_blob_cpu_diff(f.blob, &diff));
  assert_int_equal(cr_sim_count(CR_SIM_D2H, 0), 0);
  end(&f);
}

/* ---- which kernel runs, and with what ---- */

static struct {
  int plans, opens, runs, closes, destroys;
  cr_format hint[2];
  crema_status planned, opened;
} kernel_calls;

static crema_status refuse_to_run(const cr_call *call) {
  (void)call;
  return cr_fail(CREMA_E_INTERNAL, "the wrong kernel");
}

static crema_status decline(cr_plan *plan) {
  (void)plan;
  return cr_fail(CREMA_E_UNSUPPORTED, "not this one");
}

static crema_status plan_call(cr_plan *plan) {
  ++kernel_calls.plans;
  memcpy(kernel_calls.hint, plan->hint, sizeof kernel_calls.hint);
  assert_int_equal(plan->desc->args, 2);
  assert_int_equal(plan->desc->type, CREMA_F32);
  for (int i = 0; i < 2; ++i) {
    assert_true(cr_format_equal(plan->format[i], CR_PLAIN_F32));
    assert_int_equal(plan->desc->arg[i].shape.axes, 1);
    assert_int_equal(plan->desc->arg[i].shape.dim[0], 4);
    assert_int_equal(plan->desc->arg[i].type, CREMA_F32);
  }
  plan->workspace_bytes = 64;
  return kernel_calls.planned;
}

static crema_status open_call(const cr_plan *plan, void **execution) {
  assert_int_equal(plan->workspace_bytes, 64);
  ++kernel_calls.opens;
  if (kernel_calls.opened != CREMA_OK) return kernel_calls.opened;
  *execution = &kernel_calls;
  return CREMA_OK;
}

static crema_status run_counted(const cr_call *call) {
  ++kernel_calls.runs;
  assert_ptr_equal(call->execution, &kernel_calls);
  assert_true(call->workspace.address != 0 && call->desc == call->plan->desc);
  assert_ptr_equal(call->context->device, cr_cpu_device());
  assert_false(call->accumulate[0] || call->accumulate[1]);
  const float *x = (const float *)call->buffer[0].address;
  float *y = (float *)call->buffer[1].address;
  for (int i = 0; i < 4; ++i) {
    y[i] = call->scalars->alpha * x[i] + call->scalars->beta * y[i];
  }
  return CREMA_OK;
}

static void close_call(const cr_plan *plan, void *execution) {
  (void)plan;
  assert_ptr_equal(execution, &kernel_calls);
  ++kernel_calls.closes;
}

static void destroy_plan(cr_plan *plan) {
  (void)plan;
  ++kernel_calls.destroys;
}

/* The first of the table that is for the op and takes floats, unless it declines. */
TEST(s0_26_kernels_are_asked_in_their_order) {
  static const cr_kernel
      other_op = {.op = CR_OP_REDUCE, .type = CREMA_F32, .run = refuse_to_run},
      doubles = {.op = CR_OP_AXPBY, .type = CREMA_F64, .run = refuse_to_run},
      halves = {.op = CR_OP_AXPBY, .type = CREMA_F32, .types = CR_TYPE(F16), .run = refuse_to_run},
      declines = {.op = CR_OP_AXPBY, .type = CREMA_F32, .plan = decline, .run = refuse_to_run},
      counted = {.op = CR_OP_AXPBY,
                 .type = CREMA_F32,
                 .plan = plan_call,
                 .open = open_call,
                 .run = run_counted,
                 .close = close_call,
                 .destroy = destroy_plan},
      late = {.op = CR_OP_AXPBY, .type = CREMA_F32, .run = refuse_to_run};
  static const cr_kernel *const table[] = {&other_op, &doubles, &halves, &declines,
                                           &counted,  &late,    NULL};
  cr_backend backend = cr_backend_cpu;
  backend.kernels = table;
  cr_cpu_device()->backend = &backend;
  cr_tensor *tensor[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) {
    float *values = NULL;
    ok(cr_tensor_create(i == 0 ? CREMA_F32 : CREMA_F16, 4, &tensor[i]));
    ok(cr_tensor_host_write_floats(tensor[i], &values));
    for (int k = 0; k < 4; ++k) values[k] = (float)((i + 1) * (k + 1));
  }
  memset(&kernel_calls, 0, sizeof kernel_calls);
  ok(cr_tensor_subtract(tensor[0], tensor[1]));
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(tensor[0], &values));
  for (int k = 0; k < 4; ++k) assert_true(values[k] == (float)-(k + 1));
  assert_int_equal(kernel_calls.runs, 1);
  assert_int_equal(kernel_calls.closes, 1);
  assert_int_equal(kernel_calls.destroys, 1);
  assert_true(cr_format_equal(kernel_calls.hint[1], CR_PLAIN_F32));
  /* Failures end it, and what was made before is given back. */
  kernel_calls.opened = CREMA_E_NO_MEMORY;
  assert_int_equal(cr_tensor_scale(tensor[0], 2), CREMA_E_NO_MEMORY);
  assert_int_equal(kernel_calls.runs, 1);
  assert_int_equal(kernel_calls.closes, 1);
  assert_int_equal(kernel_calls.destroys, 2);
  kernel_calls.planned = CREMA_E_DEVICE;
  assert_int_equal(cr_tensor_scale(tensor[0], 2), CREMA_E_DEVICE);
  assert_int_equal(kernel_calls.opens, 2);
  assert_int_equal(kernel_calls.destroys, 2);
  /* None is left where the first ones decline. */
  kernel_calls.planned = CREMA_E_UNSUPPORTED;
  backend.kernels = &table[6];
  assert_fails(cr_tensor_scale(tensor[0], 2), CREMA_E_UNSUPPORTED, "no kernel on cpu");
  cr_cpu_device()->backend = &cr_backend_cpu;
  for (int i = 0; i < 2; ++i) cr_tensor_destroy(tensor[i]);
}

/* Zeros are not looked at. */
TEST(s0_26_zeros_have_no_memory) {
  static const crema_dtype type[] = {CREMA_F32, CREMA_F64};
  for (int i = 0; i < 2; ++i) {
    cr_tensor *tensor = NULL;
    double value = 1;
    ok(cr_tensor_create(type[i], 4, &tensor));
    ok(cr_tensor_amax(tensor, &value));
    assert_true(value == 0);
    value = 1;
    ok(cr_tensor_asum(tensor, &value));
    assert_true(value == 0);
    ok(cr_tensor_scale(tensor, 3));
    assert_true(cr_tensor_is_zero(tensor));
    assert_int_equal(bytes_of_tensor(tensor), 0);
    cr_tensor_destroy(tensor);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
