/* Values that are read from elsewhere when they are wanted, and values that are in a private layout
 * only as long as an op runs. */
#include "memory/tensor_source.h"

#include <pthread.h>

#include "device/memory/heap.h"
#include "memory/reversed_fixture.h"
#include "memory/sim_fixture.h"

enum { BYTES = COUNT * (int)sizeof(float), PADDED = (COUNT + COUNT % 2) * (int)sizeof(float) };

/* What is read is converted by the host, which has to know the layouts of these tests. */
static int set_up_host(void **state) {
  const int status = set_up(state);
  cr_cpu_device()->backend = &((fixture *)*state)->backend;
  return status;
}

static int tear_down_host(void **state) {
  cr_cpu_device()->backend = &cr_backend_cpu;
  return tear_down(state);
}

#define SOURCE_TEST(name) TEST_BETWEEN(name, set_up_host, tear_down_host)

/* Values number k, from the byte on that is asked for, are k. */
typedef struct counting {
  cr_tensor_source base;
  int reads;
  size_t last; /* the bytes of the last one */
  crema_status status;
  bool *destroyed;
} counting;

static crema_status read_counting(cr_tensor_source *base, uint64_t at, void *out, size_t size) {
  counting *source = (counting *)base;
  float *values = out;
  ++source->reads;
  source->last = size;
  if (source->status != CREMA_OK) return cr_fail(source->status, "cannot be read");
  for (size_t i = 0; i < size / sizeof *values; ++i) {
    values[i] = (float)(at / sizeof *values + i);
  }
  return CREMA_OK;
}

static void destroy_counting(cr_tensor_source *base) {
  counting *source = (counting *)base;
  if (source->destroyed != NULL) *source->destroyed = true;
  free(source);
}

static counting *new_source(bool *destroyed) {
  cr_tensor_scratch *scratch = NULL;
  counting *source = calloc(1, sizeof *source);
  assert_non_null(source);
  ok(cr_tensor_scratch_create(&scratch));
  source->destroyed = destroyed;
  if (destroyed != NULL) *destroyed = false;
  cr_tensor_source_init(&source->base, read_counting, destroy_counting, scratch);
  return source;
}

/* The caller's reference to what the first use is in, which the source keeps one of. */
static cr_tensor_scratch *let_use_once(counting *source) {
  cr_tensor_scratch *once = NULL;
  ok(cr_tensor_scratch_create(&once));
  cr_tensor_source_set_per_use(&source->base, once);
  return once;
}

static void take(cr_tensor *tensor, counting *source, int64_t first) {
  ok(cr_tensor_take_from(tensor, &source->base, (uint64_t)first * sizeof(float)));
}

static void check(const float *values, int64_t count, float first) {
  for (int64_t i = 0; i < count; ++i) assert_true(values[i] == first + (float)i);
}

static const float *read_held(fixture *f, cr_tensor *tensor, cr_format format,
                              cr_tensor_scratch **held) {
  crema_devptr data = {0};
  ok(cr_tensor_read_for(tensor, f->context, format, held, &data));
  return (const float *)data.address;
}

/* ---- when they are read -------------------------------------------------- */

SOURCE_TEST(values_are_read_when_they_are_wanted) {
  fixture *f = *state;
  bool destroyed = false;
  counting *source = new_source(&destroyed);
  cr_tensor *tensor = new_tensor(COUNT);
  take(tensor, source, 7);
  assert_int_equal(source->reads, 0);
  assert_false(cr_tensor_is_zero(tensor));
  assert_true(cr_format_equal(cr_tensor_head(tensor), CR_PLAIN_F32));
  assert_int_equal(bytes_of_tensor(tensor), 0);
  cr_tensor_source_release(&source->base); /* the tensor has one, too */
  assert_false(destroyed);
  check(read_floats(f, tensor, CR_PLAIN_F32), COUNT, 7);
  assert_true(destroyed); /* nothing else is wanted of it */
  assert_int_equal(bytes_of_tensor(tensor), PADDED);
  check(read_floats(f, tensor, CR_PLAIN_F32), COUNT, 7);
  cr_tensor_destroy(tensor);
  cr_tensor_source_release(NULL);
}

SOURCE_TEST(they_are_read_at_once_where_there_is_memory) {
  fixture *f = *state;
  counting *source = new_source(NULL);
  cr_tensor *tensor = new_tensor(COUNT), *empty = new_tensor(0);
  write_counting(f, tensor, 100);
  take(tensor, source, 3);
  assert_int_equal(source->reads, 1);
  assert_int_equal(source->last, BYTES);
  check(read_floats(f, tensor, CR_PLAIN_F32), COUNT, 3);
  source->status = CREMA_E_IO;
  assert_int_equal(cr_tensor_take_from(tensor, &source->base, 0), CREMA_E_IO);
  source->status = CREMA_OK;
  /* Of no values there is nothing to wait for. */
  take(empty, source, 0);
  assert_int_equal(source->reads, 3);
  cr_tensor_destroy(empty);
  cr_tensor_destroy(tensor);
  cr_tensor_source_release(&source->base);
}

/* Other formats are made of what is read, where the first one can be another, without the plain
 * one. */
SOURCE_TEST(the_first_format_is_the_one_that_is_wanted) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed}, doubles = {CREMA_F64, NULL};
  counting *source = new_source(NULL);
  for (int kind = 0; kind < 3; ++kind) {
    const cr_format wide_reversed = {CREMA_F64, &f->reversed_double};
    cr_tensor *tensor = new_tensor(COUNT);
    crema_devptr data = {0};
    take(tensor, source, 2);
    ok(cr_tensor_read(tensor, f->context,
                      kind == 0   ? reversed
                      : kind == 1 ? doubles
                                  : wide_reversed,
                      &data));
    for (int i = 0; i < COUNT; ++i) {
      const bool backwards = kind != 1;
      const double value =
          get(kind == 0 ? CREMA_F32 : CREMA_F64, data.address, backwards ? COUNT - 1 - i : i);
      assert_true(value == 2 + i);
    }
    cr_tensor_held held;
    assert_true(cr_tensor_held_at(tensor, 0, &held));
    assert_int_equal(cr_tensor_held_at(tensor, 1, &held), kind != 0);
    assert_int_equal(cr_tensor_conversions(tensor), kind == 0 ? 0 : 1); /* of type */
    check(read_floats(f, tensor, CR_PLAIN_F32), COUNT, 2);
    cr_tensor_destroy(tensor);
  }
  cr_tensor_source_release(&source->base);
}

SOURCE_TEST(a_failure_is_the_readers) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed};
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  crema_devptr data = {0};
  take(tensor, source, 1);
  source->status = CREMA_E_IO;
  assert_fails(cr_tensor_read(tensor, f->context, CR_PLAIN_F32, &data), CREMA_E_IO, "cannot be");
  assert_fails(cr_tensor_read(tensor, f->context, reversed, &data), CREMA_E_IO, "cannot be");
  held = once;
  assert_fails(cr_tensor_read_for(tensor, f->context, CR_PLAIN_F32, &held, &data), CREMA_E_IO, "");
  assert_null(held);
  source->status = CREMA_OK;
  conversions_fail = true;
  assert_int_equal(cr_tensor_read(tensor, f->context, reversed, &data), CREMA_E_DEVICE);
  conversions_fail = false;
  check(read_floats(f, tensor, CR_PLAIN_F32), COUNT, 1);
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
}

/* Whatever else becomes of the values, they are not read any more. */
SOURCE_TEST(other_values_take_their_place) {
  fixture *f = *state;
  for (int way = 0; way < 6; ++way) {
    bool destroyed = false, second = false;
    counting *source = new_source(&destroyed), *other = new_source(&second);
    cr_tensor *tensor = new_tensor(COUNT);
    take(tensor, source, 5);
    cr_tensor_source_release(&source->base);
    assert_false(destroyed);
    if (way == 0) write_counting(f, tensor, 2);
    if (way == 1) cr_tensor_set_zero(tensor);
    if (way == 2) take(tensor, other, 9);
    if (way == 3) ok(cr_tensor_resize(tensor, COUNT + 1)); /* does not fit: zeros */
    if (way == 4) ok(cr_tensor_resize(tensor, COUNT - 2)); /* the first ones are kept */
    if (way < 5) assert_true(destroyed);
    const float first[] = {2, 0, 9, 0, 5, 5};
    const float *values = read_floats(f, tensor, CR_PLAIN_F32);
    const float step = way == 1 || way == 3 ? 0 : 1;
    for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
      assert_true(values[i] == first[way] + step * (float)i);
    }
    assert_true(destroyed);
    cr_tensor_source_release(&other->base);
    assert_true(second);
    cr_tensor_destroy(tensor);
  }
}

/* With the tensor goes what it has of the source. */
TEST(tensors_end_with_values_that_nobody_wanted) {
  bool destroyed = false;
  counting *source = new_source(&destroyed);
  cr_tensor *tensor = new_tensor(COUNT);
  take(tensor, source, 0);
  cr_tensor_source_release(&source->base);
  cr_tensor_destroy(tensor);
  assert_true(destroyed);
}

SOURCE_TEST(copying_out_keeps_nothing) {
  fixture *f = *state;
  counting *source = new_source(NULL);
  cr_tensor *tensor = new_tensor(COUNT);
  float values[COUNT + 1] = {0};
  values[COUNT] = 77;
  take(tensor, source, 4);
  ok(cr_tensor_copy_out(tensor, values));
  check(values, COUNT, 4);
  assert_int_equal(source->last, BYTES);
  assert_int_equal(bytes_of_tensor(tensor), 0);
  source->status = CREMA_E_IO;
  assert_int_equal(cr_tensor_copy_out(tensor, values), CREMA_E_IO);
  write_counting(f, tensor, 8);
  ok(cr_tensor_copy_out(tensor, values)); /* values that are there */
  check(values, COUNT, 8);
  assert_true(values[COUNT] == 77);
  cr_tensor_destroy(tensor);
  cr_tensor_source_release(&source->base);
}

/* A device gets them by way of the host. */
TEST(devices_are_given_what_is_read) {
  sim_begin_devices(1);
  crema_context *context = sim_test_context(sim_test_device(0));
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  crema_devptr data = {0};
  float values[COUNT];
  take(tensor, source, 6);
  ok(cr_tensor_read_for(tensor, context, CR_PLAIN_F32, &held, &data));
  assert_null(held); /* that is for host memory */
  ok(crema_context_finish(context));
  assert_true(cr_sim_peek(data, values, sizeof values));
  check(values, COUNT, 6);
  assert_int_equal(source->reads, 1);
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
  crema_context_destroy(context);
  sim_end();
}

/* ---- one use ------------------------------------------------------------- */

SOURCE_TEST(the_first_use_keeps_nothing) {
  fixture *f = *state;
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  for (int round = 0; round < 2; ++round) {
    take(tensor, source, 3); /* the second time they are read at once */
    if (round == 1) {
      cr_tensor_destroy(tensor);
      tensor = new_tensor(COUNT);
      take(tensor, source, 3);
    }
    const int before = source->reads;
    check(read_held(f, tensor, CR_PLAIN_F32, &held), COUNT, 3);
    assert_ptr_equal(held, once);
    assert_int_equal(bytes_of_tensor(tensor), 0);
    cr_tensor_end_use(held);
    check(read_held(f, tensor, CR_PLAIN_F32, &held), COUNT, 3);
    assert_null(held);
    assert_int_equal(source->reads, before + 2);
    assert_int_equal(bytes_of_tensor(tensor), PADDED);
    check(read_held(f, tensor, CR_PLAIN_F32, &held), COUNT, 3);
    assert_int_equal(source->reads, before + 2);
  }
  cr_tensor_end_use(NULL);
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
}

/* Other values are new ones. */
SOURCE_TEST(each_source_has_a_first_use) {
  fixture *f = *state;
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  for (int i = 0; i < 3; ++i) {
    take(tensor, source, i);
    check(read_held(f, tensor, CR_PLAIN_F32, &held), COUNT, (float)i);
    assert_ptr_equal(held, once);
    cr_tensor_end_use(held);
  }
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
}

/* A private layout is made of what is read to scratch memory. */
SOURCE_TEST(the_first_use_may_be_in_a_layout) {
  fixture *f = *state;
  const cr_format reversed = {CREMA_F32, &f->reversed}, doubles = {CREMA_F64, NULL};
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  cr_tensor *tensor = new_tensor(COUNT);
  take(tensor, source, 3);
  const float *values = read_held(f, tensor, reversed, &held);
  assert_ptr_equal(held, once);
  for (int i = 0; i < COUNT; ++i) assert_true(values[i] == (float)(3 + COUNT - 1 - i));
  cr_tensor_end_use(held);
  cr_tensor_destroy(tensor);
  /* Another type is kept, and what it was made of, too. */
  tensor = new_tensor(COUNT);
  take(tensor, source, 3);
  (void)read_held(f, tensor, doubles, &held);
  assert_null(held);
  assert_true(bytes_of_tensor(tensor) > PADDED);
  cr_tensor_destroy(tensor);
  /* A conversion that fails gives the memory back. */
  tensor = new_tensor(COUNT);
  take(tensor, source, 3);
  crema_devptr data = {0};
  conversions_fail = true;
  assert_int_equal(cr_tensor_read_for(tensor, f->context, reversed, &held, &data), CREMA_E_DEVICE);
  conversions_fail = false;
  assert_null(held);
  (void)read_held(f, tensor, reversed, &held);
  assert_ptr_equal(held, once);
  cr_tensor_end_use(held);
  cr_tensor_destroy(tensor);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
}

/* Whoever finds the memory in use keeps the values; so does whoever may not use it. */
SOURCE_TEST(memory_in_use_is_not_waited_for) {
  fixture *f = *state;
  counting *source = new_source(NULL), *plain = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *first = NULL, *second = NULL;
  cr_tensor *a = new_tensor(COUNT), *b = new_tensor(COUNT), *c = new_tensor(COUNT);
  take(a, source, 3);
  take(b, source, 30);
  take(c, plain, 40);
  const float *values = read_held(f, a, CR_PLAIN_F32, &first);
  assert_ptr_equal(first, once);
  check(read_held(f, b, CR_PLAIN_F32, &second), COUNT, 30);
  assert_null(second);
  check(values, COUNT, 3);
  check(read_held(f, c, CR_PLAIN_F32, &second), COUNT, 40); /* a source without such memory */
  assert_null(second);
  cr_tensor_end_use(first);
  /* Zeros are made where they are asked for. */
  take(a, source, 3);
  cr_tensor_set_zero(a);
  assert_true(read_held(f, a, CR_PLAIN_F32, &second)[1] == 0);
  assert_null(second);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(c);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
  cr_tensor_source_release(&plain->base);
}

/* Made for the largest of them at once, of those that are small enough to be used so. */
SOURCE_TEST(memory_is_made_for_the_largest) {
  enum { MOST = 4 << 20, SMALL = 100, LARGE = 5000 };
  fixture *f = *state;
  counting *source = new_source(NULL);
  cr_tensor_scratch *once = let_use_once(source), *held = NULL;
  const int64_t counts[] = {SMALL, LARGE, LARGE / 2, MOST, MOST + 2};
  cr_tensor *tensor[5];
  const float *where = NULL;
  for (int i = 0; i < 5; ++i) {
    tensor[i] = new_tensor(counts[i]);
    if (i < 3) take(tensor[i], source, i);
  }
  for (int i = 0; i < 5; ++i) {
    if (i >= 3) take(tensor[i], source, i);
    const float *values = read_held(f, tensor[i], CR_PLAIN_F32, &held);
    check(values, counts[i], (float)i);
    assert_ptr_equal(held, i < 4 ? once : NULL);
    if (i == 0) where = values;
    if (i < 3) assert_ptr_equal(values, where);
    cr_tensor_end_use(held);
  }
  for (int i = 0; i < 5; ++i) cr_tensor_destroy(tensor[i]);
  cr_tensor_scratch_release(once);
  cr_tensor_source_release(&source->base);
}

/* The scratch memory of a source is locked while somebody has it. */
TEST(values_are_lent_to_one_at_a_time) {
  counting *source = new_source(NULL);
  void *values = NULL, *again = NULL;
  source->status = CREMA_E_IO;
  assert_int_equal(cr_tensor_source_lock(&source->base, 0, BYTES, &values), CREMA_E_IO);
  source->status = CREMA_OK; /* not locked now */
  ok(cr_tensor_source_lock(&source->base, 2 * sizeof(float), BYTES, &values));
  check(values, COUNT, 2);
  cr_tensor_source_unlock(&source->base);
  ok(cr_tensor_source_lock(&source->base, 0, BYTES, &again));
  assert_ptr_equal(again, values);
  cr_tensor_source_unlock(&source->base);
  cr_tensor_source_release(&source->base);
}

/* ---- layouts that are made per use */

typedef struct per_use {
  fixture *f;
  cr_tensor_scratch *scratch, *held;
  cr_tensor *tensor;
  cr_format reversed;
} per_use;

static per_use begin_per_use(fixture *f) {
  per_use b = {.f = f, .reversed = {CREMA_F32, &f->reversed}};
  ok(cr_tensor_scratch_create(&b.scratch));
  f->context->per_use = b.scratch;
  b.tensor = new_tensor(COUNT);
  cr_tensor_set_per_use(b.tensor);
  write_counting(f, b.tensor, 1);
  return b;
}

static void end_per_use(per_use *b) {
  b->f->context->per_use = NULL;
  cr_tensor_destroy(b->tensor);
  cr_tensor_scratch_release(b->scratch);
}

static void check_reversed(const float *values, float first) {
  for (int i = 0; i < COUNT; ++i) assert_true(values[i] == first + (float)(COUNT - 1 - i));
}

SOURCE_TEST(layouts_are_made_per_use) {
  per_use b = begin_per_use(*state);
  for (int i = 0; i < 3; ++i) {
    write_counting(b.f, b.tensor, (float)i);
    conversions = 0;
    check_reversed(read_held(b.f, b.tensor, b.reversed, &b.held), (float)i);
    assert_ptr_equal(b.held, b.scratch);
    cr_tensor_end_use(b.held);
    assert_int_equal(conversions, 1);
    assert_int_equal(bytes_of_tensor(b.tensor), PADDED);
  }
  /* Whoever does not give it back has the format kept. */
  check_reversed(read_floats(b.f, b.tensor, b.reversed), 2);
  assert_int_equal(bytes_of_tensor(b.tensor), PADDED + BYTES);
  (void)read_held(b.f, b.tensor, b.reversed, &b.held);
  assert_null(b.held); /* it is there */
  /* And it goes once it is stale. */
  write_counting(b.f, b.tensor, 4);
  check_reversed(read_held(b.f, b.tensor, b.reversed, &b.held), 4);
  assert_ptr_equal(b.held, b.scratch);
  assert_int_equal(bytes_of_tensor(b.tensor), PADDED);
  cr_tensor_end_use(b.held);
  end_per_use(&b);
}

static bool is_per_use(per_use *b, cr_format format) {
  (void)read_held(b->f, b->tensor, format, &b->held);
  const bool held = b->held != NULL;
  cr_tensor_end_use(b->held);
  return held;
}

static void renew(per_use *b, bool converts) {
  cr_tensor_destroy(b->tensor);
  b->tensor = new_tensor(COUNT);
  if (converts) cr_tensor_set_per_use(b->tensor);
  write_counting(b->f, b->tensor, 1);
}

SOURCE_TEST(what_is_kept_in_a_format) {
  per_use b = begin_per_use(*state);
  const cr_format doubles = {CREMA_F64, NULL}, wide = {CREMA_F64, &b.f->reversed_double};
  cr_layout gaps = b.f->reversed;
  gaps.gaps = true;
  assert_true(is_per_use(&b, b.reversed));
  write_counting(b.f, b.tensor, 1);
  assert_false(is_per_use(&b, CR_PLAIN_F32));
  assert_false(is_per_use(&b, doubles));
  assert_false(is_per_use(&b, wide));
  assert_false(is_per_use(&b, (cr_format){CREMA_F32, &gaps}));
  renew(&b, false); /* not said to be */
  assert_false(is_per_use(&b, b.reversed));
  renew(&b, true);
  b.f->context->per_use = NULL; /* no memory for it */
  assert_false(is_per_use(&b, b.reversed));
  b.f->context->per_use = b.scratch;
  renew(&b, true);
  cr_tensor_set_zero(b.tensor);
  assert_false(is_per_use(&b, b.reversed)); /* zeros need no conversion */
  renew(&b, true);
  counting *source = new_source(NULL);
  cr_tensor *own = new_tensor(COUNT);
  cr_tensor_set_per_use(own);
  take(own, source, 2);
  cr_tensor_destroy(b.tensor);
  b.tensor = own;
  assert_false(is_per_use(&b, b.reversed)); /* to be read first */
  renew(&b, true);
  cr_tensor_destroy(b.tensor);
  b.tensor = new_tensor(COUNT);
  cr_tensor_set_per_use(b.tensor);
  crema_devptr data = {0};
  ok(cr_tensor_write(b.tensor, b.f->context, doubles, &data));
  write_counting(b.f, b.tensor, 1);
  assert_true(is_per_use(&b, b.reversed)); /* whatever was held first */
  ok(cr_tensor_write(b.tensor, b.f->context, doubles, &data));
  for (int i = 0; i < COUNT; ++i) ((double *)data.address)[i] = i;
  assert_false(is_per_use(&b, b.reversed)); /* the plain format is stale */
  cr_tensor_source_release(&source->base);
  end_per_use(&b);
}

SOURCE_TEST(uses_wait_for_nobody) {
  per_use b = begin_per_use(*state);
  cr_tensor_scratch *held = NULL;
  cr_tensor *other = new_tensor(COUNT);
  cr_tensor_set_per_use(other);
  write_counting(b.f, other, 50);
  const float *values = read_held(b.f, b.tensor, b.reversed, &b.held);
  assert_ptr_equal(b.held, b.scratch);
  check_reversed(read_held(b.f, other, b.reversed, &held), 50);
  assert_null(held);
  check_reversed(values, 1);
  cr_tensor_end_use(b.held);
  /* A failure gives the memory back. */
  crema_devptr data = {0};
  conversions_fail = true;
  assert_int_equal(cr_tensor_read_for(b.tensor, b.f->context, b.reversed, &held, &data),
                   CREMA_E_DEVICE);
  conversions_fail = false;
  assert_null(held);
  assert_true(is_per_use(&b, b.reversed));
  cr_tensor_destroy(other);
  end_per_use(&b);
}

SOURCE_TEST(results_are_brought_to_the_plain_format) {
  per_use b = begin_per_use(*state);
  crema_devptr data = {0};
  ok(cr_tensor_write_for(b.tensor, b.f->context, b.reversed, &b.held, &data));
  assert_ptr_equal(b.held, b.scratch);
  for (int i = 0; i < COUNT; ++i) ((float *)data.address)[i] = (float)(20 + COUNT - 1 - i);
  check(read_floats(b.f, b.tensor, CR_PLAIN_F32), COUNT, 1);
  ok(cr_tensor_end_write(b.tensor, b.f->context, b.reversed, data));
  cr_tensor_end_use(b.held);
  check(read_floats(b.f, b.tensor, CR_PLAIN_F32), COUNT, 20);
  assert_true(cr_format_equal(cr_tensor_head(b.tensor), CR_PLAIN_F32));
  assert_int_equal(bytes_of_tensor(b.tensor), PADDED);
  /* Other formats are written in place. */
  b.held = b.scratch;
  ok(cr_tensor_write_for(b.tensor, b.f->context, CR_PLAIN_F32, &b.held, &data));
  assert_null(b.held);
  for (int i = 0; i < COUNT; ++i) ((float *)data.address)[i] = (float)(30 + i);
  check(read_floats(b.f, b.tensor, CR_PLAIN_F32), COUNT, 30);
  end_per_use(&b);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
