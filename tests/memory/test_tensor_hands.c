/* Values that change hands or lose their memory: taken, placed in others, adopted, settled, cut. */
#include "device/backend/current.h"
#include "device/memory/device_memory.h"
#include "device/memory/heap.h"
#include "memory/math.h"
#include "memory/reversed_fixture.h"
#include "memory/sim_fixture.h"
#include "memory/view.h"

enum { WHOLE = 20, PADDED = (COUNT + COUNT % 2) * (int)sizeof(float) };

static const cr_format doubles = {CREMA_F64, NULL};

static cr_tensor *typed(crema_dtype type, int64_t count) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(type, count, &tensor));
  return tensor;
}

static cr_tensor *passing(int64_t count) {
  cr_tensor *tensor = new_tensor(count);
  cr_tensor_set_transient(tensor, true);
  return tensor;
}

static int formats_of(const cr_tensor *tensor) {
  cr_tensor_held held;
  int count = 0;
  while (cr_tensor_held_at(tensor, count, &held)) ++count;
  return count;
}

/* The tensor holds `format`; what is known of it. */
static cr_tensor_held held_in(const cr_tensor *tensor, cr_format format) {
  cr_tensor_held held;
  for (int i = 0; cr_tensor_held_at(tensor, i, &held); ++i) {
    if (cr_format_equal(held.format, format)) return held;
  }
  fail_msg("the format is not held");
  return held;
}

static void check_from(fixture *f, cr_tensor *tensor, float first) {
  crema_devptr data = {0}; /* of a part, not aligned */
  ok(cr_tensor_read(tensor, f->context, CR_PLAIN_F32, &data));
  const float *values = (const float *)data.address;
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
    assert_true(values[i] == first + (float)i);
  }
}

static void check_zero(fixture *f, cr_tensor *tensor) {
  assert_true(cr_tensor_is_zero(tensor));
  const float *values = read_floats(f, tensor, CR_PLAIN_F32);
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) assert_true(values[i] == 0);
}

static void is_gone(fixture *f, cr_tensor *tensor) {
  crema_devptr data = {0};
  assert_fails(cr_tensor_read(tensor, f->context, CR_PLAIN_F32, &data), CREMA_E_STATE,
               "were released");
}

FIXTURE_TEST(what_a_new_tensor_is) {
  fixture *f = *state;
  cr_tensor *a = typed(CREMA_F64, COUNT), *b = typed(CREMA_F64, COUNT);
  const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_I32};
  for (int i = 0; i < 4; ++i) {
    cr_tensor *tensor = typed(types[i], COUNT);
    assert_true(cr_format_equal(cr_tensor_head(tensor), (cr_format){types[i], NULL}));
    assert_int_equal(cr_tensor_type(tensor), types[i]);
    cr_tensor_destroy(tensor);
  }
  assert_false(cr_tensor_is_shared(a));
  assert_ptr_not_equal(cr_tensor_storage(a), cr_tensor_storage(b));
  ok(cr_tensor_share(a, b));
  assert_true(cr_tensor_is_shared(a) && cr_tensor_is_shared(b));
  assert_ptr_equal(cr_tensor_storage(a), cr_tensor_storage(b));
  cr_tensor_destroy(b);
  assert_false(cr_tensor_is_shared(a));
  assert_true(cr_tensor_can_swap(a));
  write_counting(f, a, 1);
  assert_true(cr_format_equal(cr_tensor_head(a), CR_PLAIN_F32));
  ok(cr_tensor_resize(a, 2));
  assert_true(cr_format_equal(cr_tensor_head(a), doubles));
  cr_tensor_set_transient(a, true);
  assert_false(cr_tensor_can_swap(a));
  cr_tensor_destroy(a);
}

/* ---- taking -------------------------------------------------------------- */

FIXTURE_TEST(taken_values_are_where_they_were) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  ok(cr_heap_open(f->context));
  cr_tensor *a = passing(COUNT), *b = passing(COUNT);
  cr_tensor_view of_a = {0}, of_b = {0};
  void *data = NULL;
  write_counting(f, a, 1);
  ok(cr_tensor_view_make(a, 0, 1, &of_a));
  write_counting(f, b, 50);
  ok(cr_tensor_view_make(b, 0, 1, &of_b));
  (void)read_floats(f, b, reversed);
  const size_t used = cr_heap_usage_of(f->context).in_use;
  assert_true(cr_tensor_take(a, b));
  assert_true(cr_heap_usage_of(f->context).in_use < used);
  conversions = 0;
  assert_true(read_floats(f, a, reversed)[0] == 50 + COUNT - 1);
  check_from(f, a, 50);
  assert_int_equal(conversions, 0);
  is_gone(f, b);
  assert_int_equal(cr_tensor_view_data(&of_a, a, &data), CREMA_E_STATE);
  assert_int_equal(cr_tensor_view_data(&of_b, b, &data), CREMA_E_STATE);
  assert_false(cr_tensor_take(b, b));
  assert_false(cr_tensor_take(a, b)); /* there are none */
  check_from(f, a, 50);
  write_counting(f, b, 9);
  assert_int_equal(cr_tensor_view_data(&of_b, b, &data), CREMA_E_STATE);
  check_from(f, b, 9);
  check_from(f, a, 50);
  write_counting(f, a, 50);
  assert_int_equal(cr_tensor_view_data(&of_a, a, &data), CREMA_E_STATE);
  assert_true(cr_tensor_take(b, a));
  check_from(f, b, 50);
  /* The head is taken along, and so is the mark of all zeros. */
  crema_devptr out = {0};
  ok(cr_tensor_write(a, f->context, reversed, &out));
  for (int i = 0; i < COUNT; ++i) ((float *)out.address)[i] = (float)(COUNT - 1 - i);
  assert_true(cr_tensor_take(b, a));
  assert_true(cr_format_equal(cr_tensor_head(b), reversed));
  check_from(f, b, 0);
  cr_tensor_set_zero(a);
  assert_true(cr_tensor_take(b, a));
  check_zero(f, b);
  is_gone(f, a);
  /* Values that were released make room for others. */
  write_counting(f, a, 3);
  cr_tensor_release(b);
  write_counting(f, b, 4);
  cr_tensor_release(b);
  is_gone(f, b);
  assert_true(cr_tensor_take(b, a));
  check_from(f, b, 3);
  /* A new count makes zeros of them, which are values. */
  ok(cr_tensor_resize(a, COUNT + 1));
  ok(cr_tensor_resize(a, COUNT));
  assert_true(cr_tensor_take(b, a));
  check_zero(f, b);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  assert_int_equal(cr_heap_usage_of(f->context).in_use, 0);
  cr_heap_close(f->context);
}

FIXTURE_TEST(what_cannot_be_taken) {
  fixture *f = *state;
  cr_tensor *a = passing(COUNT), *b = passing(COUNT), *longer = passing(COUNT + 1);
  cr_tensor *wide = typed(CREMA_F64, COUNT), *whole = new_tensor(WHOLE);
  float memory[COUNT] = {0};
  cr_tensor_set_transient(wide, true);
  write_counting(f, a, 1);
  write_counting(f, b, 2);
  write_counting(f, longer, 3);
  assert_false(cr_tensor_take(a, longer));
  crema_devptr out = {0};
  ok(cr_tensor_write(wide, f->context, doubles, &out));
  assert_false(cr_tensor_take(a, wide));
  for (int k = 0; k < 2; ++k) {
    cr_tensor_set_transient(k == 0 ? a : b, false);
    assert_false(cr_tensor_take(a, b));
    cr_tensor_set_transient(k == 0 ? a : b, true);
  }
  check_from(f, a, 1);
  check_from(f, b, 2);
  ok(cr_tensor_adopt_host(b, memory));
  assert_false(cr_tensor_take(a, b));
  cr_tensor_destroy(b);
  b = passing(COUNT);
  write_counting(f, whole, 0);
  ok(cr_tensor_alias_block(b, f->context, whole, 3));
  write_counting(f, b, 7);
  assert_false(cr_tensor_take(a, b));
  check_from(f, a, 1);
  check_from(f, b, 7);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(longer);
  cr_tensor_destroy(wide);
  cr_tensor_destroy(whole);
}

/* Nor where a tensor lies in another, or others in it. */
FIXTURE_TEST(parts_and_wholes_are_not_taken) {
  fixture *f = *state;
  const cr_part part = {.shape = {1, {COUNT}}, .whole = {1, {COUNT}}, .axis = 0, .at = 0};
  for (int k = 0; k < 4; ++k) {
    cr_tensor *a = passing(COUNT), *b = passing(COUNT), *c = passing(COUNT);
    bool done = false;
    write_counting(f, a, 1);
    write_counting(f, b, 2);
    cr_tensor *one = k < 2 ? a : b;
    ok(cr_tensor_alias_set(k % 2 == 0 ? one : c, k % 2 == 0 ? c : one, &part, false, &done));
    assert_true(done);
    assert_false(cr_tensor_take(a, b));
    check_from(f, b, 2);
    cr_tensor_destroy(a);
    cr_tensor_destroy(b);
    cr_tensor_destroy(c);
  }
}

TEST(memory_of_the_caller_on_a_device_is_not_taken) {
  sim_begin_devices(1);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  crema_devptr theirs = {0}, data = {0}, found = {0};
  cr_tensor *a = passing(COUNT), *b = passing(COUNT);
  ok(cr_device_alloc(device, PADDED, &theirs));
  ok(cr_tensor_write(a, context, CR_PLAIN_F32, &data));
  ok(cr_tensor_adopt(b, device, CREMA_F32, theirs, NULL));
  assert_false(cr_tensor_take(a, b));
  assert_true(cr_tensor_take(b, a)); /* their memory is released */
  ok(cr_tensor_read(b, context, CR_PLAIN_F32, &found));
  assert_int_equal(found.address, data.address);
  cr_device_free(device, theirs);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
  crema_context_destroy(context);
  sim_end();
}

/* ---- letting go ---------------------------------------------------------- */

FIXTURE_TEST(what_is_seen_is_not_let_go) {
  fixture *f = *state;
  cr_tensor *tensor = passing(COUNT);
  cr_tensor_view part = {0};
  crema_view *view = NULL;
  void *data = NULL;
  write_counting(f, tensor, 1);
  ok(cr_tensor_view_make(tensor, 0, 1, &part));
  cr_tensor_release(tensor);
  assert_int_equal(cr_tensor_view_data(&part, tensor, &data), CREMA_E_STATE);
  write_counting(f, tensor, 1);
  assert_int_equal(cr_tensor_view_data(&part, tensor, &data), CREMA_E_STATE);
  /* Nor is a format that is given up seen any more. */
  crema_devptr out = {0};
  ok(cr_tensor_view_make(tensor, 0, 1, &part));
  ok(cr_tensor_write(tensor, f->context, (cr_format){CREMA_F32, &f->reversed}, &out));
  cr_tensor_drop_stale(tensor);
  write_counting(f, tensor, 1);
  assert_int_equal(cr_tensor_view_data(&part, tensor, &data), CREMA_E_STATE);
  ok(cr_tensor_show(tensor, &view));
  cr_tensor_release(tensor);
  check_from(f, tensor, 1);
  crema_view_release(view);
  cr_tensor_destroy(tensor);
}

/* Giving up formats concerns neither zeros nor what lies in another tensor. */
FIXTURE_TEST(stale_memory_goes_and_nothing_else) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = passing(COUNT), *whole = new_tensor(WHOLE);
  crema_devptr out = {0};
  cr_tensor_keep_head(tensor); /* there is none */
  write_counting(f, tensor, 1);
  (void)read_floats(f, tensor, reversed);
  cr_tensor_set_zero(tensor);
  const size_t bytes = bytes_of_tensor(tensor);
  cr_tensor_drop_stale(tensor);
  cr_tensor_keep_head(tensor);
  assert_int_equal(bytes_of_tensor(tensor), bytes);
  write_counting(f, whole, 30);
  ok(cr_tensor_alias_block(tensor, f->context, whole, 2));
  ok(cr_tensor_write(tensor, f->context, reversed, &out));
  for (int i = 0; i < COUNT; ++i) ((float *)out.address)[i] = (float)(COUNT - 1 - i);
  cr_tensor_drop_stale(tensor);
  assert_true(cr_tensor_is_part(tensor));
  cr_tensor_drop_types(tensor);
  assert_true(cr_tensor_is_part(tensor));
  check_from(f, tensor, 0);
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(whole);
}

/* ---- types --------------------------------------------------------------- */

FIXTURE_TEST(other_types_are_forgotten_but_the_last) {
  fixture *f = *state;
  const cr_format halves = {CREMA_F16, NULL};
  cr_tensor *tensor = typed(CREMA_F64, COUNT);
  crema_devptr out = {0};
  f->backend.convert = cr_backend_cpu.convert;
  write_counting(f, tensor, 1);
  ok(cr_tensor_read(tensor, f->context, doubles, &out));
  ok(cr_tensor_read(tensor, f->context, halves, &out));
  assert_int_equal(formats_of(tensor), 3);
  cr_tensor_drop_types(tensor);
  assert_int_equal(formats_of(tensor), 2);
  (void)held_in(tensor, CR_PLAIN_F32);
  (void)held_in(tensor, doubles);
  assert_int_equal(cr_tensor_head(tensor).type, CREMA_F32);
  check_from(f, tensor, 1);
  /* Of zeros all others are forgotten. */
  cr_tensor_set_zero(tensor);
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(formats_of(tensor), 1);
  assert_true(cr_tensor_is_zero(tensor));
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(settling_keeps_one_format_in_the_own_type) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *tensor = typed(CREMA_F64, COUNT);
  write_counting(f, tensor, 1);
  (void)read_floats(f, tensor, reversed);
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(formats_of(tensor), 1);
  assert_true(held_in(tensor, doubles).last);
  assert_true(cr_format_equal(cr_tensor_head(tensor), doubles));
  conversions = 0;
  ok(cr_tensor_settle(tensor, f->context)); /* a no-op */
  assert_int_equal(conversions, 0);
  check_from(f, tensor, 1);
  /* What is in the own type is not converted, and its other formats stay. */
  crema_devptr out = {0};
  const cr_format wide = {CREMA_F64, &f->reversed_double};
  ok(cr_tensor_update(tensor, f->context, doubles, &out));
  ok(cr_tensor_read(tensor, f->context, wide, &out));
  (void)read_floats(f, tensor, CR_PLAIN_F32);
  conversions = 0;
  ok(cr_tensor_settle(tensor, f->context));
  assert_int_equal(conversions, 0);
  assert_int_equal(formats_of(tensor), 2);
  assert_true(held_in(tensor, wide).valid);
  conversions_fail = true;
  write_counting(f, tensor, 5);
  assert_int_equal(cr_tensor_settle(tensor, f->context), CREMA_E_DEVICE);
  conversions_fail = false;
  check_from(f, tensor, 5);
  cr_tensor_destroy(tensor);
}

TEST(one_value_as_a_double) {
  const struct {
    crema_dtype type;
    double value;
  } kind[] = {{CREMA_F64, 1.0 / 3}, {CREMA_F32, 0.1f}, {CREMA_F16, 0.25}, {CREMA_I32, 1 << 20}};
  for (int i = 0; i < 4; ++i) {
    cr_tensor *tensor = typed(kind[i].type, 2);
    double value = -1;
    float *floats = NULL;
    void *data = NULL;
    ok(cr_tensor_host_value(tensor, &value));
    assert_true(value == 0);
    if (i == 0) {
      ok(cr_tensor_host_write(tensor, &data));
      ((double *)data)[0] = kind[i].value;
      ((double *)data)[1] = 9;
    } else {
      ok(cr_tensor_host_write_floats(tensor, &floats));
      floats[0] = (float)kind[i].value;
      floats[1] = 9;
    }
    ok(cr_tensor_host_value(tensor, &value));
    assert_true(value == kind[i].value);
    cr_tensor_destroy(tensor);
  }
}

/* ---- memory in another tensor -------------------------------------------- */

static uintptr_t address_of(fixture *f, cr_tensor *tensor) {
  crema_devptr data = {0};
  ok(cr_tensor_read(tensor, f->context, (cr_format){cr_tensor_type(tensor), NULL}, &data));
  return data.address;
}

FIXTURE_TEST(placed_values_lie_in_the_whole) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  cr_tensor *whole = new_tensor(WHOLE), *tensor = new_tensor(COUNT), *zero = new_tensor(COUNT);
  crema_devptr data = {0};
  assert_fails(cr_tensor_alias_block(tensor, f->context, whole, 0), CREMA_E_STATE, "no memory");
  write_counting(f, whole, 100);
  write_counting(f, tensor, 1);
  for (int64_t offset = -1; offset <= WHOLE + 1; ++offset) {
    const crema_status status = cr_tensor_alias_block(zero, f->context, whole, offset);
    const bool fits = offset >= 0 && offset <= WHOLE - COUNT;
    assert_int_equal(status, fits ? CREMA_OK : CREMA_E_RANGE);
    if (fits) assert_true(cr_tensor_is_zero(zero));
  }
  assert_error_has("5 values from 21 on of a tensor of 20");
  check_from(f, whole, 100);                                 /* zeros are a mark */
  ok(cr_tensor_update(tensor, f->context, reversed, &data)); /* brought from where they are */
  conversions = 0;
  ok(cr_tensor_alias_block(tensor, f->context, whole, 3));
  assert_int_equal(conversions, 1);
  const uintptr_t there = address_of(f, whole) + 3 * sizeof(float);
  assert_int_equal(address_of(f, tensor), there);
  check_from(f, tensor, 1);
  assert_true(((float *)there)[-1] == 102 && ((float *)there)[COUNT] == 100 + 3 + COUNT);
  assert_true(cr_tensor_is_part(tensor));
  cr_tensor_view view = {0};
  void *item = NULL;
  ok(cr_tensor_update(tensor, f->context, CR_PLAIN_F32, &data));
  ok(cr_tensor_view_make(tensor, 0, 1, &view));
  ok(cr_tensor_alias_block(tensor, f->context, whole, 3)); /* a no-op */
  ok(cr_tensor_view_data(&view, tensor, &item));
  /* Elsewhere in it, and in another one, it keeps its values. */
  ok(cr_tensor_alias_block(tensor, f->context, whole, 12));
  assert_int_equal(cr_tensor_view_data(&view, tensor, &item), CREMA_E_STATE);
  assert_int_equal(address_of(f, tensor), there + 9 * sizeof(float));
  check_from(f, tensor, 1);
  cr_tensor *second = new_tensor(COUNT);
  write_counting(f, second, 0);
  ok(cr_tensor_alias_block(tensor, f->context, second, 0));
  assert_int_equal(address_of(f, tensor), address_of(f, second));
  cr_tensor_destroy(whole);
  cr_tensor_destroy(second); /* the memory is kept */
  check_from(f, tensor, 1);
  assert_false(cr_tensor_can_swap(tensor));
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(zero);
}

/* Values that were released stay so. */
FIXTURE_TEST(what_has_no_values_can_be_placed) {
  fixture *f = *state;
  cr_tensor *whole = new_tensor(WHOLE), *tensor = passing(COUNT);
  write_counting(f, whole, 100);
  write_counting(f, tensor, 1);
  cr_tensor_release(tensor);
  ok(cr_tensor_alias_block(tensor, f->context, whole, 0));
  is_gone(f, tensor);
  check_from(f, whole, 100);
  write_counting(f, tensor, 7);
  check_from(f, tensor, 7);
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(whole);
}

FIXTURE_TEST(bytes_in_another_tensor_count) {
  fixture *f = *state;
  cr_tensor *whole = typed(CREMA_F64, WHOLE), *tensor = typed(CREMA_F64, COUNT);
  crema_devptr data = {0};
  double memory[COUNT] = {1, 2, 3, 4, 5};
  ok(cr_tensor_write(whole, f->context, doubles, &data));
  ok(cr_tensor_alias_block(tensor, f->context, whole, WHOLE - COUNT));
  assert_int_equal(address_of(f, tensor), data.address + (WHOLE - COUNT) * sizeof(double));
  assert_int_equal(bytes_of_tensor(tensor), COUNT * sizeof(double));
  assert_int_equal(bytes_of_tensor(whole), WHOLE * sizeof(double));
  /* What is adopted later does not, and the whole is not kept for it. */
  ok(cr_tensor_adopt(tensor, cr_cpu_device(), CREMA_F64, (crema_devptr){(uintptr_t)memory}, NULL));
  assert_false(cr_tensor_is_part(tensor));
  cr_tensor_destroy(whole);
  assert_int_equal(bytes_of_tensor(tensor), 0);
  assert_true(((const double *)address_of(f, tensor))[4] == 5);
  assert_fails(cr_tensor_adopt(tensor, cr_cpu_device(), CREMA_F64, data = (crema_devptr){0}, NULL),
               CREMA_E_ARGUMENT, "no memory");
  cr_tensor_destroy(tensor);
}

/* ---- devices ------------------------------------------------------------- */

typedef struct simulated {
  crema_device *device;
  crema_context *context;
} simulated;

static simulated begin_simulated(void) {
  simulated s = {0};
  sim_begin_devices(1);
  s.device = sim_test_device(0);
  s.context = sim_test_context(s.device);
  return s;
}

static void end_simulated(const simulated *s) {
  crema_context_destroy(s->context);
  sim_end();
}

static void peek(const simulated *s, crema_devptr data, float *out, size_t count) {
  ok(crema_context_finish(s->context));
  assert_true(cr_sim_peek(data, out, count * sizeof *out));
}

static void write_on_host(cr_tensor *tensor, float first) {
  float *values = NULL;
  ok(cr_tensor_host_write_floats(tensor, &values));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) values[i] = first + (float)i;
}

TEST(placed_values_lie_in_the_memory_of_the_device) {
  simulated s = begin_simulated();
  cr_tensor *whole = new_tensor(WHOLE), *tensor = new_tensor(COUNT);
  crema_devptr all = {0}, data = {0};
  float values[WHOLE];
  write_on_host(whole, 100);
  assert_int_equal(cr_tensor_alias_block(tensor, s.context, whole, 3), CREMA_E_STATE);
  ok(cr_tensor_read(whole, s.context, CR_PLAIN_F32, &all));
  write_on_host(tensor, 1);
  ok(cr_tensor_alias_block(tensor, s.context, whole, 3));
  ok(cr_tensor_read(tensor, s.context, CR_PLAIN_F32, &data));
  assert_int_equal(data.address, all.address + 3 * sizeof(float));
  peek(&s, all, values, WHOLE);
  for (int i = 0; i < WHOLE; ++i) {
    const bool placed = i >= 3 && i < 3 + COUNT;
    assert_true(values[i] == (float)(placed ? i - 2 : 100 + i));
  }
  assert_true(cr_tensor_is_part(tensor));
  assert_int_equal(cr_tensor_memory_of(tensor).device, COUNT * sizeof(float));
  float *memory = NULL;
  cr_tensor_values *keeps = NULL;
  assert_false(cr_tensor_part_memory(tensor, &memory, &keeps)); /* it is a device's */
  /* A view of such a part has memory of its own. */
  crema_view *view = NULL;
  ok(cr_tensor_show(tensor, &view));
  assert_true(crema_view_values(view)[2] == 3);
  crema_view_values(view)[2] = 30;
  ok(cr_tensor_take_written(tensor));
  ok(cr_tensor_read(tensor, s.context, CR_PLAIN_F32, &data));
  assert_int_equal(data.address, all.address + 3 * sizeof(float));
  peek(&s, data, values, COUNT);
  assert_true(values[2] == 30 && values[1] == 2);
  crema_view_release(view);
  cr_tensor_destroy(tensor);
  cr_tensor_destroy(whole);
  end_simulated(&s);
}

TEST(both_sides_are_adopted) {
  simulated s = begin_simulated();
  cr_tensor *tensor = new_tensor(COUNT);
  float host[COUNT] = {1, 2, 3, 4, 5};
  crema_devptr memory = {0}, data = {0};
  const void *values = NULL;
  ok(cr_device_alloc(s.device, PADDED, &memory));
  assert_ptr_equal(cr_tensor_head_device(tensor), cr_cpu_device());
  ok(cr_tensor_adopt(tensor, s.device, CREMA_F32, memory, host));
  cr_sim_reset_counts();
  ok(cr_tensor_host_read(tensor, &values));
  assert_ptr_equal(values, host);
  ok(cr_tensor_read(tensor, s.context, CR_PLAIN_F32, &data));
  assert_int_equal(data.address, memory.address);
  assert_int_equal(cr_sim_count(CR_SIM_H2D, 0) + cr_sim_count(CR_SIM_D2H, 0), 0);
  assert_ptr_equal(cr_tensor_head_device(tensor), s.device);
  assert_true(held_in(tensor, CR_PLAIN_F32).adopted);
  assert_ptr_equal(held_in(tensor, CR_PLAIN_F32).device, s.device);
  assert_int_equal(held_in(tensor, CR_PLAIN_F32).side, CREMA_SYNCED);
  assert_int_equal(bytes_of_tensor(tensor), 0);
  write_on_host(tensor, 7);
  assert_true(host[4] == 11);
  assert_ptr_equal(cr_tensor_head_device(tensor), cr_cpu_device());
  ok(cr_tensor_write(tensor, s.context, CR_PLAIN_F32, &data));
  assert_ptr_equal(cr_tensor_head_device(tensor), s.device);
  ok(cr_tensor_adopt(tensor, s.device, CREMA_F32, memory, NULL));
  assert_int_equal(held_in(tensor, CR_PLAIN_F32).side, CREMA_HEAD_AT_GPU);
  assert_true(held_in(tensor, CR_PLAIN_F32).adopted);
  cr_tensor_destroy(tensor);
  /* One side is enough for that. */
  for (int side = 0; side < 2; ++side) {
    tensor = new_tensor(COUNT);
    if (side == 0) ok(cr_tensor_adopt_host(tensor, host));
    else ok(cr_tensor_adopt(tensor, s.device, CREMA_F32, memory, NULL));
    assert_true(held_in(tensor, CR_PLAIN_F32).adopted);
    cr_tensor_destroy(tensor);
  }
  cr_device_free(s.device, memory);
  end_simulated(&s);
}

/* Memory on the host is page-locked for the device that the thread works on, where values last. */
TEST(formats_that_last_are_made_for_the_device) {
  simulated s = begin_simulated();
  static const cr_layout layout = {.type = CREMA_F32, .shape = {1, {COUNT}}, .bytes = 64};
  ok(cr_device_set_current(s.device));
  cr_tensor *tensor = new_tensor(COUNT);
  const cr_format format[] = {CR_PLAIN_F32, doubles, {CREMA_F32, &layout}};
  crema_devptr data = {0};
  for (int i = 0; i < 3; ++i) {
    ok(cr_tensor_write(tensor, cr_host_context(), format[i], &data));
    crema_device *made = held_in(tensor, format[i]).device;
    assert_ptr_equal(made, i == 0 ? s.device : cr_cpu_device());
  }
  cr_tensor_destroy(tensor);
  ok(cr_device_set_current(cr_cpu_device()));
  end_simulated(&s);
}

/* A device without a conversion has the host do it. */
TEST(values_are_copied_between_devices_and_types) {
  simulated s = begin_simulated();
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT), *wide = typed(CREMA_F64, COUNT);
  crema_devptr data = {0};
  float values[COUNT];
  const float *floats = NULL;
  write_on_host(a, 1);
  ok(cr_tensor_copy(b, a, s.context));
  ok(cr_tensor_read(b, s.context, CR_PLAIN_F32, &data));
  peek(&s, data, values, COUNT);
  for (int i = 0; i < COUNT; ++i) assert_true(values[i] == (float)(1 + i));
  ok(cr_tensor_copy(wide, b, s.context));
  assert_int_equal(cr_tensor_head(wide).type, CREMA_F64);
  ok(cr_tensor_host_read_floats(wide, &floats));
  for (int i = 0; i < COUNT; ++i) assert_true(floats[i] == (float)(1 + i));
  cr_tensor_set_zero(b);
  ok(cr_tensor_copy(wide, b, s.context));
  assert_true(cr_tensor_is_zero(wide));
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(wide);
  end_simulated(&s);
}

/* ---- counts -------------------------------------------------------------- */

FIXTURE_TEST(values_in_other_formats_are_cut) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  const cr_backend *const backend = cr_cpu_device()->backend;
  cr_cpu_device()->backend = &f->backend;
  for (int k = 0; k < 4; ++k) {
    cr_tensor *tensor = new_tensor(COUNT);
    crema_devptr data = {0};
    ok(cr_tensor_write(tensor, f->context, k % 2 == 0 ? reversed : doubles, &data));
    for (int i = 0; i < COUNT; ++i) {
      if (k % 2 == 0) ((float *)data.address)[i] = (float)(COUNT - 1 - i);
      else ((double *)data.address)[i] = i;
    }
    ok(cr_tensor_prepare_resize(tensor, k < 2 ? COUNT - 2 : COUNT + 1));
    assert_int_equal(cr_tensor_count(tensor), COUNT);
    assert_int_equal(formats_of(tensor), k < 2 ? 2 : 1);
    ok(cr_tensor_resize(tensor, k < 2 ? COUNT - 2 : COUNT + 1));
    assert_int_equal(formats_of(tensor), k < 2 ? 1 : 0);
    if (k < 2) check_from(f, tensor, 0);
    else check_zero(f, tensor);
    assert_true(cr_format_equal(cr_tensor_head(tensor), CR_PLAIN_F32));
    cr_tensor_destroy(tensor);
  }
  cr_cpu_device()->backend = backend;
}

/* An odd count has room for one more; the same count changes nothing. */
FIXTURE_TEST(counts_within_the_memory) {
  fixture *f = *state;
  cr_tensor *tensor = new_tensor(COUNT);
  cr_tensor_view view = {0};
  void *item = NULL;
  write_counting(f, tensor, 1);
  ok(cr_tensor_view_make(tensor, 0, 1, &view));
  ok(cr_tensor_prepare_resize(tensor, COUNT));
  ok(cr_tensor_resize(tensor, COUNT));
  ok(cr_tensor_view_data(&view, tensor, &item));
  ok(cr_tensor_resize(tensor, COUNT + 1));
  assert_false(cr_tensor_is_zero(tensor));
  assert_true(read_floats(f, tensor, CR_PLAIN_F32)[COUNT - 1] == COUNT);
  ok(cr_tensor_resize(tensor, COUNT + 2));
  check_zero(f, tensor);
  /* Memory that is too large is released where it is. */
  write_counting(f, tensor, 1);
  cr_tensor_shrink_to_fit(tensor); /* it is not */
  check_from(f, tensor, 1);
  ok(cr_tensor_resize(tensor, 2));
  check_from(f, tensor, 1);
  cr_tensor_shrink_to_fit(tensor);
  assert_int_equal(bytes_of_tensor(tensor), 0);
  check_zero(f, tensor);
  cr_tensor_shrink_to_fit(tensor);
  cr_tensor_destroy(tensor);
  tensor = new_tensor(COUNT);
  cr_tensor_shrink_to_fit(tensor); /* without any */
  assert_true(cr_tensor_is_zero(tensor));
  cr_tensor_destroy(tensor);
}

FIXTURE_TEST(views_lie_within_the_values) {
  fixture *f = *state;
  cr_tensor *tensor = typed(CREMA_F64, COUNT);
  cr_tensor_view view = {0};
  crema_devptr data = {0};
  void *item = NULL;
  assert_int_equal(cr_tensor_view_make(tensor, 0, 1, &view), CREMA_E_STATE); /* nobody wrote */
  ok(cr_tensor_write(tensor, f->context, doubles, &data));
  for (int64_t offset = -1; offset <= COUNT + 1; ++offset) {
    for (int64_t count = -1; count <= COUNT + 1; ++count) {
      const bool fits = offset >= 0 && count >= 0 && offset + count <= COUNT;
      assert_int_equal(cr_tensor_view_make(tensor, offset, count, &view),
                       fits ? CREMA_OK : CREMA_E_RANGE);
      if (!fits) continue;
      ok(cr_tensor_view_data(&view, tensor, &item));
      assert_ptr_equal(item, (double *)data.address + offset);
      assert_int_equal(view.count, count);
    }
  }
  cr_tensor *other = typed(CREMA_F64, COUNT);
  ok(cr_tensor_write(other, f->context, doubles, &data));
  assert_int_equal(cr_tensor_view_data(&view, other, &item), CREMA_E_STATE);
  cr_tensor_destroy(other);
  /* Floats are not the tensor's own. */
  write_counting(f, tensor, 1);
  assert_int_equal(cr_tensor_view_make(tensor, 0, 1, &view), CREMA_E_STATE);
  cr_tensor_held held;
  assert_false(cr_tensor_held_at(tensor, 2, &held));
  assert_true(held_in(tensor, CR_PLAIN_F32).valid && !held_in(tensor, doubles).valid);
  assert_false(held_in(tensor, CR_PLAIN_F32).adopted);
  cr_tensor_destroy(tensor);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
