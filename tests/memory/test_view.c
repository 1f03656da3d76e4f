/* Views: memory that shows a blob's values and outlives it. */
#include <malloc.h>

#include "check.h"
#include "memory/blob.h"
#include "memory/view.h"

static crema_blob *new_blob(int64_t count, crema_dtype type) {
  crema_blob *blob = NULL;
  crema_shape shape = cr_shape_1(count);
  ok(cr_blob_create_typed(&shape, type, type, &blob));
  return blob;
}

static crema_view *view_of(crema_blob *blob) {
  crema_view *view = NULL;
  ok(crema_blob_view_data(blob, &view));
  return view;
}

static void expect(crema_blob *blob, float first, float second) {
  const float *data = NULL;
  ok(crema_blob_cpu_data(blob, &data));
  assert_true(data[0] == first && data[1] == second);
}

TEST(shows_values_and_takes_what_is_written) {
  static const crema_dtype types[] = {CREMA_F32, CREMA_F64, CREMA_F16};
  for (int t = 0; t < 3; ++t) {
    crema_blob *blob = new_blob(2, types[t]);
    float *data = NULL;
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = 3;
    data[1] = 4;
    crema_view *view = view_of(blob), *again = view_of(blob);
    float *seen = crema_view_values(view);
    assert_int_equal(crema_view_count(view), 2);
    assert_ptr_equal(seen, crema_view_values(again));
    assert_true(seen[0] == 3 && seen[1] == 4);
    crema_view_release(again);
    seen[1] = 5;
    ok(cr_tensor_take_written(blob->data));
    expect(blob, 3, 5);
    /* Released without having been taken over: still counts. */
    seen[0] = 6;
    crema_view_release(view);
    ok(cr_tensor_take_written(blob->data));
    expect(blob, 6, 5);
    /* What is written otherwise afterwards is not undone. */
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = 7;
    ok(cr_tensor_take_written(blob->data));
    expect(blob, 7, 5);
    crema_blob_destroy(blob);
  }
  assert_false(cr_views_exist());
}

/* Memory of the view's own replaces the blob's values only where somebody has written to it. */
TEST(views_without_writes_replace_nothing) {
  for (int held = 0; held < 2; ++held) {
    crema_blob *blob = new_blob(2, CREMA_F64);
    crema_view *view = view_of(blob), *again = NULL;
    float *data = NULL;
    if (!held) crema_view_release(view);
    ok(crema_blob_mutable_cpu_data(blob, &data));
    data[0] = 7;
    again = view_of(blob);
    expect(blob, 7, 0);
    assert_true(crema_view_values(again)[0] == 7);
    crema_view_release(again);
    if (held) crema_view_release(view);
    crema_blob_destroy(blob);
  }
}

/* The other way round: the view was written to first. */
TEST(changes_of_the_blob_come_after_what_was_written) {
  crema_blob *blob = new_blob(2, CREMA_F64), *other = new_blob(2, CREMA_F64);
  crema_view *view = view_of(blob);
  float *data = NULL, *seen = crema_view_values(view);
  seen[0] = 3;
  seen[1] = 4;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  data[0] = 7;
  ok(cr_tensor_take_written(blob->data));
  expect(blob, 7, 4);
  seen[0] = 2; /* with what it showed last next to it */
  ok(crema_blob_scale_data(blob, 2));
  expect(blob, 4, 8);
  assert_true(seen[0] == 4 && seen[1] == 8);
  ok(crema_blob_mutable_cpu_diff(blob, &data));
  data[0] = 1;
  data[1] = 2;
  seen[0] = 5;
  ok(crema_blob_update(blob));
  expect(blob, 4, 6);
  assert_true(seen[0] == 4 && seen[1] == 6);
  seen[0] = 9;
  ok(crema_blob_copy_data(other, blob));
  expect(other, 9, 6);
  seen[0] = 1;
  ok(crema_blob_scale_data(other, 2));
  ok(crema_blob_copy_data(blob, other));
  assert_true(seen[0] == 18 && seen[1] == 12);
  crema_view_release(view);
  crema_blob_destroy(other);
  crema_blob_destroy(blob);
}

TEST(newest_values_come_after_other_writes) {
  crema_blob *blob = new_blob(2, CREMA_F32);
  crema_view *view = view_of(blob);
  double *wide = NULL;
  void *bytes = NULL;
  ok(crema_blob_mutable_data_as(blob, CREMA_F64, &bytes));
  wide = bytes;
  wide[0] = 1.5;
  ok(cr_tensor_show_newest(blob->data));
  assert_true(crema_view_values(view)[0] == 1.5f);
  crema_view_release(view);
  crema_blob_destroy(blob);
}

/* A view that was released is nobody's reason to refuse an exchange, and what was written counts.
 */
TEST(released_views_do_not_keep_blobs_from_being_exchanged) {
  crema_blob *a = new_blob(2, CREMA_F32), *b = new_blob(3, CREMA_F32);
  crema_view *view = view_of(a);
  assert_int_equal(crema_blob_swap(a, b), CREMA_E_STATE);
  crema_view_values(view)[0] = 4;
  crema_view_release(view);
  ok(crema_blob_swap(a, b));
  assert_int_equal(crema_blob_count(a), 3);
  expect(b, 4, 0);
  view = view_of(b);
  crema_view_values(view)[1] = 5;
  ok(cr_tensor_take_written(b->data));
  expect(b, 4, 5);
  crema_view_release(view);
  crema_blob_destroy(a);
  crema_blob_destroy(b);
}

TEST(outlives_the_blob) {
  crema_blob *blob = new_blob(2, CREMA_F32);
  crema_view *view = view_of(blob);
  crema_view_values(view)[1] = 9;
  crema_blob_destroy(blob);
  assert_true(crema_view_values(view)[1] == 9);
  crema_view_release(view);
  assert_false(cr_views_exist());
}

TEST(a_larger_shape_lets_go_of_it) {
  crema_blob *blob = new_blob(2, CREMA_F32);
  crema_view *view = view_of(blob);
  crema_view_values(view)[0] = 2;
  crema_shape less = cr_shape_1(1), more = cr_shape_1(100000);
  ok(crema_blob_reshape(blob, &less));
  crema_view *shorter = view_of(blob);
  assert_ptr_equal(crema_view_values(view), crema_view_values(shorter));
  crema_view_release(shorter);
  ok(crema_blob_reshape(blob, &more));
  crema_view *longer = view_of(blob);
  assert_ptr_not_equal(crema_view_values(view), crema_view_values(longer));
  assert_int_equal(crema_view_count(longer), 100000);
  crema_view_values(view)[0] = 3; /* of nobody any more */
  ok(cr_tensor_take_written(blob->data));
  expect(blob, 0, 0);
  crema_view_release(view);
  crema_view_release(longer);
  crema_blob_destroy(blob);
}

TEST(other_memory_is_copied_to_and_fro) {
  crema_blob *blob = new_blob(2, CREMA_F32);
  crema_view *view = view_of(blob);
  float mine[] = {1, 2};
  ok(crema_blob_set_cpu_data(blob, mine));
  ok(cr_tensor_take_written(blob->data));
  assert_true(mine[0] == 1 && mine[1] == 2); /* nobody wrote to the view */
  assert_ptr_not_equal(crema_view_values(view), mine);
  assert_true(crema_view_values(view)[1] == 2);
  crema_view_values(view)[1] = 8;
  ok(cr_tensor_take_written(blob->data));
  assert_true(mine[1] == 8);
  crema_view_release(view);
  crema_blob_destroy(blob);
}

TEST(parts_of_other_memory_are_seen_where_they_are) {
  cr_tensor *whole = NULL, *part = NULL;
  void *memory = NULL;
  crema_view *view = NULL;
  ok(cr_tensor_create(CREMA_F32, 8, &whole));
  ok(cr_tensor_create(CREMA_F32, 2, &part));
  ok(cr_tensor_host_write(whole, &memory));
  memset(memory, 0, 8 * sizeof(float));
  ok(cr_tensor_alias_block(part, cr_host_context(), whole, 4));
  ok(cr_tensor_show(part, &view));
  assert_ptr_equal(crema_view_values(view), (float *)memory + 4);
  crema_view_values(view)[1] = 7;
  ok(cr_tensor_take_written(part));
  cr_tensor_destroy(part);
  cr_tensor_destroy(whole);
  assert_true(crema_view_values(view)[1] == 7); /* the memory is kept */
  crema_view_release(view);
}

TEST(zeros_that_are_only_marked_show) {
  crema_blob *blob = new_blob(2, CREMA_F32);
  crema_view *view = NULL;
  ok(crema_blob_view_diff(blob, &view));
  crema_view_values(view)[0] = 1;
  ok(cr_tensor_take_written(blob->diff));
  cr_tensor_set_zero(blob->diff);
  ok(cr_tensor_show_newest(blob->diff));
  assert_true(crema_view_values(view)[0] == 0);
  crema_view_values(view)[0] = 5;
  ok(cr_tensor_take_written(blob->diff));
  const float *diff = NULL;
  ok(crema_blob_cpu_diff(blob, &diff));
  assert_true(diff[0] == 5);
  crema_view_release(view);
  crema_blob_destroy(blob);
}

/* Memory for as many values as there are, a view of none included. */
TEST(views_of_any_count) {
  for (int64_t count = 0; count < 70; ++count) {
    crema_blob *blob = new_blob(count, count % 2 == 0 ? CREMA_F32 : CREMA_F64);
    float *data = NULL;
    ok(crema_blob_mutable_cpu_data(blob, &data));
    for (int64_t i = 0; i < count; ++i) data[i] = (float)i;
    crema_view *view = view_of(blob);
    assert_int_equal(crema_view_count(view), count);
    assert_non_null(crema_view_values(view));
    assert_int_equal((uintptr_t)crema_view_values(view) % 64, 0);
    assert_in_range(malloc_usable_size(crema_view_values(view)), 4 * count, 4 * count + 1024);
    for (int64_t i = 0; i < count; ++i) assert_true(crema_view_values(view)[i] == (float)i);
    crema_view_release(view);
    crema_blob_destroy(blob);
  }
  assert_false(cr_views_exist());
  assert_int_equal(crema_view_count(NULL), 0);
  assert_null(crema_view_values(NULL));
  crema_view_release(NULL);
}

/* What holders do not see any more is not written for them. */
TEST(views_that_are_released_show_nothing) {
  crema_blob *blob = new_blob(2, CREMA_F64);
  float *data = NULL;
  crema_view *view = view_of(blob);
  float *seen = crema_view_values(view);
  crema_view_release(view);
  ok(cr_tensor_take_written(blob->data)); /* what was written before the release counts */
  ok(crema_blob_mutable_cpu_data(blob, &data));
  data[0] = 4;
  ok(cr_tensor_show_newest(blob->data));
  assert_true(seen[0] == 0);
  view = view_of(blob); /* the same memory */
  assert_ptr_equal(crema_view_values(view), seen);
  assert_true(seen[0] == 4);
  crema_view_release(view);
  crema_blob_destroy(blob);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
