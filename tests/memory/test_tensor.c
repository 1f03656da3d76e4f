/* Tensors: formats, validity, sharing, on host memory. */
#include <string.h>

#include "check.h"
#include "memory/reversed_fixture.h"

FIXTURE_TEST(s4_06_starts_as_zero_without_memory) {
  fixture *f = *state;
  cr_tensor *tensor = new_tensor(COUNT);
  assert_true(cr_tensor_is_zero(tensor));
  assert_int_equal(bytes_of_tensor(tensor), 0);
  const float *value = read_floats(f, tensor, CR_PLAIN_F32);
  for (int i = 0; i < COUNT; ++i) assert_true(value[i] == 0);
  /* Still known to be zero, so an accumulation may overwrite. */
  assert_true(cr_tensor_is_zero(tensor));
  value = read_floats(f, tensor, (cr_format){CREMA_F32, &f->reversed});
  for (int i = 0; i < COUNT; ++i) assert_true(value[i] == 0);
  assert_int_equal(conversions, 0);
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(NULL);
}

FIXTURE_TEST(converts_once_and_only_when_asked) {
  fixture *f = *state;
  cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  assert_false(cr_tensor_is_zero(tensor));
  assert_int_equal(conversions, 0);
  for (int round = 0; round < 3; ++round) {
    const float *value = read_floats(f, tensor, reversed);
    for (int i = 0; i < COUNT; ++i) assert_true(value[i] == (float)(COUNT - i));
    value = read_floats(f, tensor, CR_PLAIN_F32);
    for (int i = 0; i < COUNT; ++i) assert_true(value[i] == (float)(1 + i));
  }
  assert_int_equal(conversions, 1);
  assert_null(cr_tensor_head(tensor).layout);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(s4_06_s4_29_writing_makes_the_other_formats_stale) {
  fixture *f = *state;
  cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  crema_devptr out = {0};
  ok(cr_tensor_update(tensor, f->context, reversed, &out));
  assert_int_equal(conversions, 1);
  assert_true(((float *)out.address)[0] == COUNT);
  ((float *)out.address)[0] = 50;
  cr_tensor_held held[2];
  assert_true(cr_tensor_held_at(tensor, 0, &held[0]) && cr_tensor_held_at(tensor, 1, &held[1]));
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(held[i].valid, held[i].format.layout == &f->reversed);
    assert_int_equal(held[i].last, held[i].format.layout == &f->reversed);
  }
  assert_ptr_equal(cr_tensor_head(tensor).layout, &f->reversed);
  const float *value = read_floats(f, tensor, CR_PLAIN_F32);
  assert_true(value[COUNT - 1] == 50 && value[0] == 1);
  assert_int_equal(conversions, 2);
  /* Overwriting converts nothing. */
  write_counting(f, tensor, 7);
  assert_int_equal(conversions, 2);
  assert_true(read_floats(f, tensor, reversed)[0] == 7 + COUNT - 1);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(type_and_layout_change_goes_by_way_of_plain) {
  fixture *f = *state;
  cr_format reversed_double = {CREMA_F64, &f->reversed_double};
  cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  crema_devptr out = {0};
  ok(cr_tensor_update(tensor, f->context, reversed_double, &out));
  for (int i = 0; i < COUNT; ++i) assert_true(((double *)out.address)[i] == COUNT - i);
  assert_int_equal(conversions, 2);
  /* Private to private of another type: two plain formats on the way. */
  assert_true(read_floats(f, tensor, reversed)[0] == COUNT);
  assert_int_equal(conversions, 5);
  cr_tensor_destroy(tensor);
}

static const fixture *same_order_of;

static const cr_layout *same_order(const cr_layout *layout, crema_dtype type) {
  const fixture *f = same_order_of;
  if (layout == &f->reversed && type == CREMA_F64) return &f->reversed_double;
  return layout == &f->reversed_double && type == CREMA_F32 ? &f->reversed : NULL;
}

FIXTURE_TEST(types_of_one_order_take_one_step) {
  fixture *f = *state;
  cr_format reversed_double = {CREMA_F64, &f->reversed_double};
  cr_format reversed = {CREMA_F32, &f->reversed}, plain_double = {CREMA_F64, NULL};
  crema_devptr out = {0};
  cr_tensor *tensor = new_tensor(COUNT);
  same_order_of = f;
  f->backend.same_order = same_order;
  f->backend.convert = convert_in_order;
  write_counting(f, tensor, 1);
  ok(cr_tensor_update(tensor, f->context, reversed, &out));
  conversions = 0;
  ok(cr_tensor_update(tensor, f->context, reversed_double, &out));
  assert_int_equal(conversions, 1);
  for (int i = 0; i < COUNT; ++i) assert_true(((double *)out.address)[i] == COUNT - i);
  /* To a narrower plain format: moved as the wider type, then converted. */
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[0] == 1);
  assert_int_equal(conversions, 3);
  ok(cr_tensor_read(tensor, f->context, plain_double, &out));
  assert_int_equal(conversions, 3);
  /* To a wider one: converted, then moved as the wider type. */
  ok(cr_tensor_update(tensor, f->context, reversed, &out));
  conversions = 0;
  ok(cr_tensor_read(tensor, f->context, plain_double, &out));
  for (int i = 0; i < COUNT; ++i) assert_true(((double *)out.address)[i] == 1 + i);
  assert_int_equal(conversions, 2);
  ok(cr_tensor_read(tensor, f->context, reversed_double, &out));
  assert_int_equal(conversions, 2);
  /* Settled in the order that it has. */
  conversions = 3;
  ok(cr_tensor_update(tensor, f->context, reversed_double, &out));
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(conversions, 4);
  assert_ptr_equal(cr_tensor_head(tensor).layout, &f->reversed);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(settled_integers_stay_short) {
  fixture *f = *state;
  const cr_format bytes = {CREMA_U8, NULL}, floats = {CREMA_F32, NULL};
  const void *whole = NULL;
  crema_devptr out = {0};
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_I32, COUNT, &tensor));
  ok(cr_tensor_write(tensor, f->context, bytes, &out));
  for (int i = 0; i < COUNT; ++i) ((uint8_t *)out.address)[i] = (uint8_t)(200 + i);
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(cr_tensor_conversions(tensor), 0);
  assert_int_equal(bytes_of_tensor(tensor), COUNT + COUNT % 2); /* pairs can be loaded */
  ok(cr_tensor_host_read(tensor, &whole));
  for (int i = 0; i < COUNT; ++i) assert_int_equal(((const int32_t *)whole)[i], 200 + i);
  /* Only the shorter ones are left again; floats are rounded. */
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(cr_tensor_head(tensor).type, CREMA_U8);
  ok(cr_tensor_write(tensor, f->context, floats, &out));
  for (int i = 0; i < COUNT; ++i) ((float *)out.address)[i] = (float)i + 0.25f;
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(cr_tensor_head(tensor).type, CREMA_I32);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(lazy_zero) {
  fixture *f = *state;
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 3);
  size_t bytes = bytes_of_tensor(tensor);
  cr_tensor_set_zero(tensor);
  assert_true(cr_tensor_is_zero(tensor));
  crema_devptr out = {0};
  ok(cr_tensor_update(tensor, f->context, CR_PLAIN_F32, &out));
  for (int i = 0; i < COUNT; ++i) assert_true(((float *)out.address)[i] == 0);
  assert_false(cr_tensor_is_zero(tensor));
  assert_int_equal(bytes_of_tensor(tensor), bytes);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(sharing_outlives_the_donor) {
  fixture *f = *state;
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT), *other = new_tensor(COUNT + 1);
  assert_int_equal(cr_tensor_share(b, other), CREMA_E_SHAPE);
  ok(cr_tensor_share(b, a));
  ok(cr_tensor_share(b, a));
  assert_true(cr_tensor_shares_with(a, b));
  write_counting(f, a, 10);
  assert_true(read_floats(f, b, CR_PLAIN_F32)[1] == 11);
  cr_tensor_destroy(a);
  assert_true(read_floats(f, b, CR_PLAIN_F32)[1] == 11);
  cr_tensor *c = new_tensor(COUNT);
  ok(cr_tensor_share(c, b));
  cr_tensor_destroy(c);
  c = new_tensor(COUNT);
  assert_false(cr_tensor_shares_with(b, c));
  assert_true(cr_tensor_is_zero(c));
  assert_true(read_floats(f, b, CR_PLAIN_F32)[1] == 11);
  ok(cr_tensor_share(c, b));
  cr_tensor_destroy(b);
  assert_true(read_floats(f, c, CR_PLAIN_F32)[1] == 11);
  cr_tensor_destroy(c);
  cr_tensor_destroy(other);
}

/* `sharers` tensors with the same values, first, first + 1 and so on. */
static void share_counting(fixture *f, cr_tensor **tensor, int sharers, float first) {
  for (int i = 0; i < sharers; ++i) tensor[i] = new_tensor(COUNT);
  for (int i = 1; i < sharers; ++i) ok(cr_tensor_share(tensor[i], tensor[0]));
  write_counting(f, tensor[0], first);
}

FIXTURE_TEST(s0_22_s0_25_a_resize_leaves_the_values_to_their_sharers) {
  fixture *f = *state;
  static const int64_t count[] = {COUNT - 2, COUNT + 100};
  for (int k = 0; k < 4; ++k) {
    cr_tensor *tensor[3];
    const bool shrinks = k % 2 == 0;
    share_counting(f, tensor, 3, 10);
    if (k < 2) ok(cr_tensor_prepare_resize(tensor[0], count[k]));
    ok(cr_tensor_resize(tensor[0], count[k % 2]));
    assert_int_equal(cr_tensor_count(tensor[0]), count[k % 2]);
    const float *value = read_floats(f, tensor[0], CR_PLAIN_F32);
    for (int i = 0; i < count[k % 2]; ++i) assert_true(value[i] == (shrinks ? (float)(10 + i) : 0));
    write_counting(f, tensor[0], 50);
    for (int i = 1; i < 3; ++i) {
      assert_int_equal(cr_tensor_count(tensor[i]), COUNT);
      value = read_floats(f, tensor[i], CR_PLAIN_F32);
      for (int j = 0; j < COUNT; ++j) assert_true(value[j] == (float)(10 + j));
    }
    assert_true(cr_tensor_shares_with(tensor[1], tensor[2]));
    for (int i = 0; i < 3; ++i) cr_tensor_destroy(tensor[i]);
  }
}

/* One after the other, as in a net that follows a shape. */
FIXTURE_TEST(sharers_that_are_all_resized_separate_and_can_share_again) {
  fixture *f = *state;
  static const int64_t count[] = {COUNT - 2, COUNT};
  cr_tensor *tensor[3];
  share_counting(f, tensor, 3, 10);
  for (int k = 0; k < 2; ++k) {
    for (int i = 0; i < 3; ++i) {
      ok(cr_tensor_resize(tensor[i], count[k]));
      assert_false(i > 0 && cr_tensor_shares_with(tensor[0], tensor[i]));
      assert_true(read_floats(f, tensor[i], CR_PLAIN_F32)[0] == (k == 0 ? 10 : 0));
    }
    for (int i = 1; i < 3; ++i) ok(cr_tensor_share(tensor[i], tensor[0]));
    if (k == 0) continue;
    write_counting(f, tensor[2], 30);
    for (int i = 0; i < 3; ++i) {
      assert_int_equal(cr_tensor_count(tensor[i]), count[k]);
      assert_true(read_floats(f, tensor[i], CR_PLAIN_F32)[COUNT - 1] == 30 + COUNT - 1);
    }
  }
  for (int i = 0; i < 3; ++i) cr_tensor_destroy(tensor[i]);
}

/* What is done to values that a resize copied. */
FIXTURE_TEST(values_of_a_tensor_that_left_its_sharers_are_used_in_every_way) {
  fixture *f = *state;
  for (int k = 0; k < 8; ++k) {
    cr_tensor *tensor[2], *other = new_tensor(COUNT - 1);
    _Alignas(64) float mine[COUNT] = {0};
    float expected = 10;
    share_counting(f, tensor, 2, 10);
    ok(cr_tensor_resize(tensor[0], COUNT - 1));
    switch (k) {
      case 0: cr_tensor_set_zero(tensor[0]), expected = -1; break;
      case 1: write_counting(f, tensor[0], 3), expected = 3; break;
      case 2: ok(cr_tensor_adopt_host(tensor[0], mine)), expected = -1; break;
      case 3: ok(cr_tensor_copy(other, tensor[0], f->context)); break;
      case 4: cr_tensor_swap(tensor[0], other); break;
      case 5: cr_tensor_shrink_to_fit(tensor[0]); break;
      case 6: ok(cr_tensor_resize(tensor[0], COUNT - 2)); break;
      default: cr_tensor_destroy(tensor[1]), tensor[1] = NULL; break;
    }
    cr_tensor *seen = k == 3 || k == 4 ? other : tensor[0];
    const int64_t count = cr_tensor_count(seen);
    const float *value = read_floats(f, seen, CR_PLAIN_F32);
    for (int i = 0; i < count; ++i) {
      assert_true(value[i] == (expected < 0 ? 0 : expected + (float)i));
    }
    if (tensor[1] != NULL) {
      value = read_floats(f, tensor[1], CR_PLAIN_F32);
      for (int i = 0; i < COUNT; ++i) assert_true(value[i] == (float)(10 + i));
    }
    cr_tensor_destroy(tensor[0]);
    cr_tensor_destroy(tensor[1]);
    cr_tensor_destroy(other);
  }
}

FIXTURE_TEST(s0_25_growing_drops_shrinking_keeps) {
  fixture *f = *state;
  cr_tensor *tensor = new_tensor(6);
  write_counting(f, tensor, 1);
  ok(cr_tensor_resize(tensor, 3));
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[2] == 3);
  size_t bytes = bytes_of_tensor(tensor);
  ok(cr_tensor_resize(tensor, 6));
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[2] == 3);
  assert_int_equal(bytes_of_tensor(tensor), bytes);
  ok(cr_tensor_resize(tensor, 100));
  assert_true(cr_tensor_is_zero(tensor));
  const float *value = read_floats(f, tensor, CR_PLAIN_F32);
  for (int i = 0; i < 100; ++i) assert_true(value[i] == 0);
  ok(cr_tensor_resize(tensor, 0));
  read_floats(f, tensor, CR_PLAIN_F32);
  assert_int_equal(cr_tensor_resize(tensor, -1), CREMA_E_SHAPE);
  assert_int_equal(cr_tensor_resize(tensor, INT64_MAX), CREMA_E_SHAPE);
  assert_int_equal(cr_tensor_count(tensor), 0);
  cr_tensor_destroy(tensor);
}

/* A tensor holds one memory for each format that was asked for, of an even number of elements, so
 * that halves can be loaded in pairs. */
FIXTURE_TEST(s4_25_footprint_by_format) {
  static const crema_dtype type[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16,
                                     CREMA_I32, CREMA_U32, CREMA_I8,  CREMA_U8};
  for (int64_t count = 0; count < 6; ++count) {
    cr_tensor *tensor = NULL;
    size_t bytes = 0;
    ok(cr_tensor_create(CREMA_F32, count, &tensor));
    assert_int_equal(bytes_of_tensor(tensor), 0);
    for (int round = 0; round < 2; ++round) {
      for (int i = 0; i < 6; ++i) {
        crema_devptr out = {0};
        cr_format format = {type[i], NULL};
        ok(cr_tensor_read(tensor, cr_host_context(), format, &out));
        if (round == 0) bytes += (size_t)(count + count % 2) * crema_dtype_size(type[i]);
        assert_int_equal(bytes_of_tensor(tensor), bytes);
        assert_int_equal(cr_tensor_memory_of(tensor).host, bytes);
      }
    }
    cr_tensor_destroy(tensor);
  }
}

/* Memory that held values before it was cut and marked as zero: what comes into use again when the
 * tensor grows within it is zero, too. */
FIXTURE_TEST(s0_25_growing_after_zero_gives_zeros) {
  fixture *f = *state;
  cr_tensor *tensor = new_tensor(8);
  write_counting(f, tensor, 1);
  ok(cr_tensor_resize(tensor, 3));
  cr_tensor_set_zero(tensor);
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[2] == 0);
  ok(cr_tensor_resize(tensor, 8));
  assert_true(cr_tensor_is_zero(tensor));
  const float *value = read_floats(f, tensor, CR_PLAIN_F32);
  for (int i = 0; i < 8; ++i) assert_true(value[i] == 0);
  cr_tensor_destroy(tensor);
}

static void *written(cr_tensor *tensor) {
  void *data = NULL;
  ok(cr_tensor_host_write(tensor, &data));
  return data;
}

/* A view is refused when its tensor has been resized or has made its memory anew, though the newest
 * values are on the host alone again. */
FIXTURE_TEST(s0_23_views_of_memory_that_is_gone) {
  fixture *f = *state;
  cr_tensor_view view = {0};
  void *item = NULL;
  static const int64_t size[] = {2, COUNT + 1, 1000};
  for (size_t i = 0; i < sizeof size / sizeof size[0]; ++i) {
    cr_tensor *tensor = new_tensor(COUNT);
    void *data = written(tensor);
    ok(cr_tensor_view_make(tensor, 1, 2, &view));
    ok(cr_tensor_view_data(&view, tensor, &item));
    assert_ptr_equal(item, (float *)data + 1);
    ok(cr_tensor_resize(tensor, size[i]));
    (void)written(tensor);
    assert_int_equal(cr_tensor_view_data(&view, tensor, &item), CREMA_E_STATE);
    cr_tensor_destroy(tensor);
  }
  /* The plain format has to make room for others, and is made anew elsewhere. */
  cr_layout layout[12];
  cr_tensor *tensor = new_tensor(COUNT);
  (void)written(tensor);
  ok(cr_tensor_view_make(tensor, 0, 2, &view));
  for (int i = 0; i < 12; ++i) {
    crema_devptr out = {0};
    layout[i] = f->reversed;
    cr_format format = {CREMA_F32, &layout[i]};
    ok(cr_tensor_write(tensor, f->context, format, &out));
  }
  (void)written(tensor);
  assert_int_equal(cr_tensor_view_data(&view, tensor, &item), CREMA_E_STATE);
  cr_tensor_destroy(tensor);
}

/* What is written through a view would be missed where the values are known in another format, too,
 * or known to be zero. */
FIXTURE_TEST(s0_23_views_need_the_newest_values_alone) {
  fixture *f = *state;
  cr_tensor_view view = {0};
  crema_devptr out = {0};
  void *item = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  (void)written(tensor);
  ok(cr_tensor_view_make(tensor, 0, 2, &view));
  ok(cr_tensor_read(tensor, f->context, (cr_format){CREMA_F64, NULL}, &out));
  assert_int_equal(cr_tensor_view_data(&view, tensor, &item), CREMA_E_STATE);
  (void)written(tensor);
  ok(cr_tensor_view_data(&view, tensor, &item));
  cr_tensor_set_zero(tensor);
  read_floats(f, tensor, CR_PLAIN_F32);
  assert_int_equal(cr_tensor_view_data(&view, tensor, &item), CREMA_E_STATE);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(s4_26_resizing_forgets_other_types) {
  fixture *f = *state;
  cr_format doubles = {CREMA_F64, NULL};
  cr_tensor *tensor = new_tensor(4);
  write_counting(f, tensor, 1);
  crema_devptr out = {0};
  ok(cr_tensor_read(tensor, f->context, doubles, &out));
  assert_true(((const double *)out.address)[3] == 4);
  ok(cr_tensor_resize(tensor, 1000));
  ok(cr_tensor_read(tensor, f->context, doubles, &out));
  for (int i = 0; i < 1000; ++i) assert_true(((const double *)out.address)[i] == 0);
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(adopted_memory_stays_the_callers) {
  fixture *f = *state;
  float mine[COUNT] = {5, 6, 7, 8, 9};
  cr_tensor *tensor = new_tensor(COUNT);
  assert_int_equal(cr_tensor_adopt_host(tensor, NULL), CREMA_E_ARGUMENT);
  write_counting(f, tensor, 1);
  ok(cr_tensor_adopt_host(tensor, mine));
  assert_int_equal(bytes_of_tensor(tensor), 0);
  assert_false(cr_tensor_is_zero(tensor));
  const void *value = NULL;
  ok(cr_tensor_host_read(tensor, &value));
  assert_ptr_equal(value, mine);
  assert_true(read_floats(f, tensor, (cr_format){CREMA_F32, &f->reversed})[0] == 9);
  /* Growing leaves the adopted memory alone. */
  ok(cr_tensor_resize(tensor, COUNT + 1));
  write_counting(f, tensor, 30);
  assert_true(mine[0] == 5 && mine[4] == 9);
  cr_tensor_destroy(tensor);
  assert_true(mine[0] == 5);
}

FIXTURE_TEST(copying_keeps_the_format) {
  fixture *f = *state;
  cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT), *c = new_tensor(COUNT + 1);
  cr_tensor *d = NULL;
  ok(cr_tensor_create(CREMA_F64, COUNT, &d));
  write_counting(f, b, 1);
  ok(cr_tensor_copy(b, a, f->context));
  assert_true(cr_tensor_is_zero(b));
  crema_devptr out = {0};
  ok(cr_tensor_write(a, f->context, reversed, &out));
  for (int i = 0; i < COUNT; ++i) ((float *)out.address)[i] = (float)i;
  ok(cr_tensor_copy(b, a, f->context));
  assert_int_equal(conversions, 0);
  assert_true(read_floats(f, b, CR_PLAIN_F32)[0] == COUNT - 1);
  assert_int_equal(cr_tensor_copy(c, a, f->context), CREMA_E_SHAPE);
  ok(cr_tensor_copy(d, a, f->context));
  assert_int_equal(cr_tensor_head(d).type, CREMA_F64);
  assert_true(read_floats(f, d, CR_PLAIN_F32)[0] == COUNT - 1);
  ok(cr_tensor_copy(a, a, f->context));
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(c);
  cr_tensor_destroy(d);
}

/* Memory of a caller holds the values and nothing behind them, an odd number of them too. */
FIXTURE_TEST(copying_stays_within_adopted_memory) {
  fixture *f = *state;
  float from[COUNT + 1] = {0}, to[COUNT + 1] = {0};
  _Static_assert(COUNT % 2 == 1, "rounding up to an even number shows");
  for (int i = 0; i <= COUNT; ++i) from[i] = (float)(i + 1);
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT);
  ok(cr_tensor_adopt_host(a, from));
  ok(cr_tensor_adopt_host(b, to));
  ok(cr_tensor_copy(b, a, f->context));
  assert_true(to[0] == 1 && to[COUNT - 1] == COUNT);
  assert_true(to[COUNT] == 0);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
}

FIXTURE_TEST(s0_28_a_failed_conversion_changes_nothing) {
  fixture *f = *state;
  cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = new_tensor(COUNT);
  write_counting(f, tensor, 1);
  crema_devptr out = {0};
  conversions_fail = true;
  assert_int_equal(cr_tensor_read(tensor, f->context, reversed, &out), CREMA_E_DEVICE);
  assert_fails(cr_tensor_update(tensor, f->context, reversed, &out), CREMA_E_DEVICE, "injected");
  assert_int_equal(out.address, 0);
  conversions_fail = false;
  assert_null(cr_tensor_head(tensor).layout);
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[0] == 1);
  assert_true(read_floats(f, tensor, reversed)[0] == COUNT);
  cr_tensor_destroy(tensor);
}

TEST(bad_types_and_counts) {
  cr_tensor *tensor = NULL;
  assert_int_equal(cr_tensor_create((crema_dtype)9, 3, &tensor), CREMA_E_TYPE);
  assert_int_equal(cr_tensor_create(CREMA_F32, -3, &tensor), CREMA_E_SHAPE);
  assert_int_equal(cr_tensor_create(CREMA_F64, INT64_MAX / 8, &tensor), CREMA_E_SHAPE);
  assert_null(tensor);
  /* Legal to name, impossible to hold. */
  ok(cr_tensor_create(CREMA_F64, INT64_MAX / 8 - 1, &tensor));
  cr_tensor_destroy(tensor);
  ok(cr_tensor_create(CREMA_F32, INT64_MAX / 16, &tensor));
  const void *value = NULL;
  assert_int_equal(cr_tensor_host_read(tensor, &value), CREMA_E_NO_MEMORY);
  assert_null(value);
  cr_tensor_destroy(tensor);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
