/* Tensors that lie in another one's memory as a part of its values. */
#include "device/backend/kernel.h"
#include "device/memory/heap.h"
#include "memory/parts.h"
#include "memory/trace.h"

/* One sample in blocks of channels: what is written there needs no copy. */
TEST(parts_of_one_sample_lie_side_by_side) {
  const crema_shape part = {4, {1, 16, 3, 5}}, all = {4, {1, 32, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part), *b = make(&part);
  cr_format format;
  assert_true(set_alias(a, &part, whole, &all, 0));
  assert_true(set_alias(b, &part, whole, &all, 16));
  assert_true(set_alias(b, &part, whole, &all, 16)); /* again: the same */
  assert_false(cr_tensor_alias_format(a, &format));
  fill(a, &part, format_of(&part, blocks), 1);
  cr_tensor_alias_order(a, cr_cpu_device(), cr_tensor_head(a));
  assert_true(cr_tensor_alias_format(a, &format));
  assert_true(cr_format_equal(format, format_of(&part, blocks)));
  fill(b, &part, format, 5000);
  const uintptr_t there = address_of(b);
  const uintptr_t away = address_of(a);
  ok(cr_tensor_alias_move(a, cr_host_context())); /* it was written before the order was known */
  assert_true(address_of(a) != away);
  ok(cr_tensor_alias_move(b, cr_host_context()));
  assert_true(address_of(b) == there);
  assert_true(address_of(a) + 16 * 15 * sizeof(float) == there);
  say_complete(whole);
  check_within(whole, &all, &part, 0, 1);
  check_within(whole, &all, &part, 16, 5000);
  check_part(a, &part, 1);
  cr_tensor_destroy(whole);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
}

/* Channels-last, with the other parts' values in between. */
TEST(parts_of_parts_lie_in_the_outermost) {
  nest n;
  cr_format format;
  open_nest(&n);
  fill_inner(&n);
  assert_true(cr_tensor_alias_format(n.c, &format) && format.layout->gaps);
  fill(n.c, &two, cr_format_packed(format), 2000);
  ok(cr_tensor_alias_move(n.c, cr_host_context()));
  say_complete(n.outer);
  check_within(n.inner, &inner_shape, &two, 0, 1);
  check_within(n.inner, &inner_shape, &two, 8, 1000);
  check_within(n.outer, &outer_shape, &two, 0, 1);
  check_within(n.outer, &outer_shape, &two, 8, 1000);
  check_within(n.outer, &outer_shape, &two, 16, 2000);
  /* Copies have no gaps. */
  cr_tensor *packed = make(&inner_shape);
  ok(cr_tensor_copy(packed, n.inner, cr_host_context()));
  assert_true(cr_tensor_head(n.inner).layout->gaps);
  assert_false(cr_tensor_head(packed).layout->gaps);
  check_within(packed, &inner_shape, &two, 8, 1000);
  cr_tensor_destroy(packed);
  /* Zeros spare what lies in between. */
  cr_tensor_set_zero(n.b);
  ok(cr_tensor_alias_move(n.b, cr_host_context()));
  say_complete(n.outer);
  check_within(n.outer, &outer_shape, &two, 0, 1);
  check_within(n.outer, &outer_shape, &two, 16, 2000);
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(n.outer, &values));
  for (int i = 8 * 15; i < 16 * 15; ++i) assert_true(values[i] == 0.0f);
  close_nest(&n);
}

/* Parts `first`, of 8 channels, and `second` of `all` have no place when `first` is in `order`. */
static void check_no_alias(const crema_shape *all, const crema_shape *first,
                           const crema_shape *second, cr_format order) {
  cr_tensor *whole = make(all), *a = make(first), *b = make(second);
  cr_format format;
  assert_true(set_alias(a, first, whole, all, 0) && set_alias(b, second, whole, all, 8));
  cr_tensor_alias_order(a, cr_cpu_device(), order);
  assert_false(cr_tensor_alias_format(a, &format));
  assert_false(cr_tensor_alias_format(b, &format));
  assert_false(cr_tensor_whole_format(whole, &format));
  fill(a, first, order, 1);
  check_part(a, first, 1);
  assert_int_equal(formats_of(whole), 0); /* it has no memory for them */
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(whole);
}

/* Where nothing is copied twice, a part is not made to lie apart. */
TEST(gaps_are_for_parts_of_parts) {
  const crema_shape all = {4, {2, 16, 3, 5}};
  check_no_alias(&all, &two, &two, format_of(&two, last));
}

/* A block must not span two parts. */
TEST(blocks_end_with_parts) {
  const crema_shape all = {4, {1, 20, 3, 5}}, small = {4, {1, 12, 3, 5}}, rest = {4, {1, 8, 3, 5}};
  check_no_alias(&all, &rest, &small, format_of(&rest, blocks));
}

/* A part that comes later may change where all of them lie. */
TEST(another_part_ends_the_order) {
  const crema_shape part = {4, {1, 16, 3, 5}}, all = {4, {1, 48, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part), *b = make(&part);
  cr_format format;
  assert_true(set_alias(a, &part, whole, &all, 0));
  cr_tensor_alias_order(a, cr_cpu_device(), format_of(&part, blocks));
  assert_true(cr_tensor_alias_format(a, &format));
  fill(a, &part, format, 1);
  const uintptr_t there = address_of(a);
  assert_true(set_alias(b, &part, whole, &all, 16));
  assert_false(cr_tensor_alias_format(a, &format));
  ok(cr_tensor_host_write_floats(a, &(float *){NULL}));
  fill(b, &part, format_of(&part, blocks), 2); /* nobody has a place now */
  assert_true(address_of(b) != there + 16 * 15 * sizeof(float));
  fill(a, &part, format_of(&part, blocks), 3);
  cr_tensor_alias_order(b, cr_cpu_device(), format_of(&part, blocks));
  assert_true(cr_tensor_alias_format(a, &format) && cr_tensor_alias_format(b, &format));
  ok(cr_tensor_alias_move(a, cr_host_context()));
  ok(cr_tensor_alias_move(b, cr_host_context()));
  assert_true(address_of(b) == address_of(a) + 16 * 15 * sizeof(float));
  check_part(a, &part, 3);
  check_part(b, &part, 2);
  cr_tensor_destroy(whole);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
}

/* Channels-last, in blocks, and plain: each part has the whole's values, where they lie. */
TEST(parts_are_read_in_the_whole) {
  const crema_shape all = {4, {1, 32, 3, 5}}, one = {4, {1, 16, 3, 5}};
  const cr_format formats[] = {format_of(&all, last), format_of(&all, blocks), CR_PLAIN_F32};
  for (int k = 0; k < 3; ++k) {
    cr_tensor *whole = make(&all), *a = make(&one), *b = make(&one);
    assert_true(read_there(a, &one, whole, &all, 1, 0));
    assert_true(read_there(b, &one, whole, &all, 1, 16));
    assert_false(read_alias(b, whole)); /* zeros lie nowhere */
    fill(whole, &all, formats[k], 1);
    assert_true(read_alias(a, whole) && read_alias(b, whole));
    assert_int_equal(cr_tensor_head(b).layout != NULL && cr_tensor_head(b).layout->gaps, k == 0);
    assert_true(address_of(a) == address_of(whole));
    assert_true(address_of(b) - address_of(a) == (size_t)(k == 0 ? 16 : 16 * 15) * sizeof(float));
    check_part(a, &one, 1);
    check_part(b, &one, 1 + 16 * 15);
    cr_tensor_destroy(whole);
    cr_tensor_destroy(b);
    cr_tensor_destroy(a);
  }
}

static void is_lost(cr_tensor *tensor) {
  const float *values = NULL;
  assert_int_equal(cr_tensor_host_read_floats(tensor, &values), CREMA_E_STATE);
}

/* The order is the one in which the whole was written last. */
TEST(parts_follow_the_order_of_the_whole) {
  const crema_shape all = {4, {2, 32, 3, 5}}, one = {4, {2, 16, 3, 5}}, half = {4, {1, 32, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&one), *sample = make(&half);
  assert_true(read_there(a, &one, whole, &all, 1, 16));
  assert_true(read_there(sample, &half, whole, &all, 0, 1));
  fill(whole, &all, CR_PLAIN_F32, 1);
  assert_false(read_alias(a, whole)); /* two samples in plain order */
  assert_true(read_alias(sample, whole));
  check_part(sample, &half, 1 + 32 * 15);
  fill(whole, &all, format_of(&all, last), 7);
  assert_true(read_alias(a, whole) && read_alias(sample, whole));
  check_part(sample, &half, 7 + 32 * 15);
  fill(whole, &all, format_of(&all, blocks), 9);
  assert_false(read_alias(a, whole));
  is_lost(a); /* what it had there is not to be had in this order */
  assert_true(read_alias(sample, whole));
  check_part(sample, &half, 9 + 32 * 15);
  cr_tensor_destroy(sample);
  cr_tensor_destroy(a);
  cr_tensor_destroy(whole);
}

/* A part of a part is read in the outermost whole, where the part lies there. */
TEST(parts_of_parts_are_read_in_the_outermost) {
  const crema_shape all = {4, {1, 32, 3, 5}}, half = {4, {1, 16, 3, 5}}, one = {4, {1, 8, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&half), *b = make(&one), *other = make(&half);
  assert_true(read_there(a, &half, whole, &all, 1, 16));
  assert_true(read_there(b, &one, a, &half, 1, 8));
  assert_false(read_there(other, &half, a, &half, 0, 0)); /* along another axis */
  assert_false(set_alias(other, &half, a, &half, 0));     /* written there */
  fill(whole, &all, format_of(&all, last), 1);
  fill(a, &half, CR_PLAIN_F32, 9000);
  assert_false(read_alias(b, a)); /* it is elsewhere */
  fill(other, &half, format_of(&half, last), 1);
  assert_false(read_alias(b, other)); /* no part of the whole */
  assert_true(read_alias(a, whole));
  assert_true(read_alias(b, a));
  assert_true(address_of(b) == address_of(whole) + 24 * sizeof(float));
  check_part(a, &half, 1 + 16 * 15);
  check_part(b, &one, 1 + 24 * 15);
  cr_tensor_destroy(other);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
  cr_tensor_destroy(whole);
}

/* ---- the end of an alias --- */

/* Places `a` behind the first 16 channels of `whole`, in blocks, and fills it with 3 and so on;
 * returns its format. */
static cr_format fill_half(cr_tensor *a, const crema_shape *part, cr_tensor *whole,
                           const crema_shape *all) {
  cr_format format;
  assert_true(set_alias(a, part, whole, all, 16));
  cr_tensor_alias_order(a, cr_cpu_device(), format_of(part, blocks));
  assert_true(cr_tensor_alias_format(a, &format));
  fill(a, part, format, 3);
  return format;
}

TEST(parts_end_with_the_memory_of_the_whole) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}};
  for (int k = 0; k < 4; ++k) {
    cr_tensor *whole = make(&all), *a = make(&part);
    const cr_format format = fill_half(a, &part, whole, &all);
    if (k == 0) {
      ok(cr_tensor_resize(whole, 7));
    } else if (k == 1) {
      cr_tensor_set_transient(whole, true);
      cr_tensor_set_zero(whole);
      ok(cr_tensor_host_write_floats(whole, &(float *){NULL}));
      cr_tensor_release(whole);
    } else if (k == 2) {
      cr_tensor_destroy(whole);
      whole = NULL;
    } else {
      cr_tensor_detach(a);
    }
    is_lost(a);
    fill(a, &part, format, 9);
    check_part(a, &part, 9);
    cr_tensor_destroy(whole);
    check_part(a, &part, 9);
    cr_tensor_destroy(a);
  }
}

/* Values that are held elsewhere, too, outlive it. */
TEST(copies_of_parts_stay) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part);
  (void)fill_half(a, &part, whole, &all);
  check_part(a, &part, 3);
  cr_tensor_detach(a);
  check_part(a, &part, 3);
  ok(cr_tensor_copy(whole, whole, cr_host_context()));
  cr_tensor_destroy(whole);
  cr_tensor_destroy(a);
}

/* The newest of them, though others be held, too. */
TEST(stale_copies_of_parts_are_no_values) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part);
  crema_devptr data = {0};
  fill(a, &part, CR_PLAIN_F32, 70);
  (void)fill_half(a, &part, whole, &all);
  ok(cr_tensor_read(a, cr_host_context(), format_of(&part, last), &data));
  cr_tensor_detach(a);
  assert_true(cr_format_equal(cr_tensor_head(a), format_of(&part, last)));
  check_part(a, &part, 3);
  /* Zeros need no memory. */
  assert_true(set_alias(a, &part, whole, &all, 0));
  fill(a, &part, format_of(&part, blocks), 5);
  cr_tensor_set_zero(a);
  cr_tensor_detach(a);
  assert_true(cr_tensor_is_zero(a));
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(a, &values));
  assert_true(values[7] == 0);
  cr_tensor_detach(a); /* it has none */
  cr_tensor_destroy(whole);
  cr_tensor_destroy(a);
}

/* Memory of the caller replaces either, in plain order here. */
TEST(adopted_memory_is_no_alias) {
  const crema_shape all = {4, {1, 4, 3, 5}}, part = {4, {1, 2, 3, 5}};
  static float memory[60];
  for (int i = 0; i < 60; ++i) memory[i] = (float)(300 + i);
  for (int k = 0; k < 2; ++k) {
    cr_tensor *whole = make(&all), *a = make(&part);
    cr_format format;
    assert_true(set_alias(a, &part, whole, &all, 2));
    cr_tensor_alias_order(a, cr_cpu_device(), CR_PLAIN_F32);
    assert_true(cr_tensor_alias_format(a, &format));
    assert_true(cr_format_equal(format, CR_PLAIN_F32));
    fill(a, &part, format, 3);
    assert_int_equal(formats_of(whole), 1);
    ok(cr_tensor_adopt_host(k == 0 ? whole : a, memory));
    if (k == 0) is_lost(a);
    else check_part(a, &part, 300);
    if (k == 0) check_part(whole, &all, 300);
    cr_tensor_detach(a);
    if (k == 0) is_lost(a);
    else check_part(a, &part, 300);
    cr_tensor_destroy(whole);
    cr_tensor_destroy(a);
  }
}

/* A tensor that is detached keeps the values that lie elsewhere. */
TEST(memory_of_their_own_stays_with_parts) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part), *b = make(&part);
  cr_tensor_set_transient(b, true);
  fill(b, &part, CR_PLAIN_F32, 1);
  cr_tensor_release(b);
  (void)fill_half(a, &part, whole, &all);
  cr_tensor_detach(a);
  is_lost(a);
  for (int k = 0; k < 2; ++k) {
    cr_tensor *tensor = k == 0 ? a : b;
    fill(tensor, &part, k == 0 ? format_of(&part, blocks) : CR_PLAIN_F32, 7);
    assert_true(set_alias(tensor, &part, whole, &all, 0));
    cr_tensor_detach(tensor);
    check_part(tensor, &part, 7);
  }
  cr_tensor_destroy(whole);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
}

static crema_status run_nothing(const cr_call *call) {
  (void)call;
  return CREMA_OK;
}

/* A list of commands does not move parts: it would write where the whole was. */
TEST(parts_of_what_lasts_are_in_no_list) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}};
  const cr_kernel kernel = {.name = "nothing", .run = run_nothing};
  const cr_plan plan = {.kernel = &kernel};
  crema_context *context = cr_host_context();
  ok(cr_heap_open(context));
  for (int placed = 0; placed < 2; ++placed) {
    cr_tensor *whole = make(&all), *a = make(&part);
    cr_trace *commands = NULL;
    bool ran = false;
    int layer = -1, lists = 0;
    const cr_format format = fill_half(a, &part, whole, &all);
    if (placed == 0) cr_tensor_detach(a);
    ok(cr_trace_create(&commands));
    for (int pass = 0; pass < 4; ++pass) {
      crema_devptr data = {0};
      cr_block kept = {0}; /* so that the heap is not without memory */
      const cr_call call = {.plan = &plan, .context = context, .buffer = &data};
      ok(cr_trace_run(commands, context, &ran, &layer));
      lists += ran;
      if (ran) continue;
      cr_trace_begin(commands, context);
      assert_true(cr_heap_take(context, 64, &kept));
      cr_trace_resolve(context, a);
      ok(cr_tensor_write(a, context, format, &data));
      cr_trace_resolve(context, NULL);
      cr_trace_add_call(&call, context->device->backend, 1);
      cr_trace_add_argument(context, 0, 'W', a, format);
      ok(cr_block_free(&kept));
      cr_trace_end(commands, context, true);
    }
    assert_int_equal(lists > 0, placed == 0);
    cr_trace_destroy(commands);
    cr_tensor_destroy(whole);
    cr_tensor_destroy(a);
  }
  cr_heap_close(context);
}

/* A tensor has one alias: a block replaces a planned one, and nothing replaces a block. */
TEST(a_block_is_the_only_alias) {
  const crema_shape all = {4, {1, 4, 3, 5}}, part = {4, {1, 2, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part), *block = make(&all);
  cr_format format;
  assert_true(set_alias(a, &part, whole, &all, 2));
  cr_tensor_alias_order(a, cr_cpu_device(), CR_PLAIN_F32);
  fill(a, &part, CR_PLAIN_F32, 3);
  fill(block, &all, CR_PLAIN_F32, 500);
  ok(cr_tensor_alias_block(a, cr_host_context(), block, 16));
  for (int k = 0; k < 2; ++k) {
    assert_true(address_of(a) == address_of(block) + 16 * sizeof(float));
    check_part(a, &part, 3);
    assert_true(cr_tensor_is_part(a));
    assert_false(cr_tensor_alias_format(a, &format));
    assert_false(set_alias(a, &part, whole, &all, 2));
    cr_tensor_detach(a); /* a no-op */
    cr_tensor_destroy(whole);
    whole = make(&all);
  }
  /* The block may be a part or a whole itself. */
  assert_true(set_alias(whole, &all, block, &all, 0));
  cr_tensor_destroy(whole);
  cr_tensor_destroy(block);
  check_part(a, &part, 3);
  cr_tensor_destroy(a);
}

TEST(what_has_no_alias) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}}, other = {4, {1, 16, 5, 3}},
                    flat = {1, {240}};
  cr_tensor *whole = make(&all), *second = make(&all), *a = make(&part), *wide = NULL;
  ok(cr_tensor_create(CREMA_F64, count_of(&part), &wide));
  assert_false(set_alias(a, &part, whole, &all, 17));
  assert_false(set_alias(a, &part, whole, &all, -1));
  assert_false(set_alias(a, &other, whole, &all, 0));
  assert_false(set_alias(a, &flat, whole, &all, 0));
  assert_false(set_alias(whole, &all, whole, &all, 0));
  assert_false(set_alias(wide, &part, whole, &all, 0));
  assert_true(set_alias(a, &part, whole, &all, 0));
  assert_false(set_alias(a, &part, second, &all, 0));    /* it has one */
  assert_false(set_alias(whole, &all, second, &all, 0)); /* it is one */
  assert_int_equal(cr_tensor_alias_move(second, cr_host_context()), CREMA_E_INTERNAL);
  cr_tensor_destroy(wide);
  cr_tensor_destroy(a);
  cr_tensor_destroy(second);
  cr_tensor_destroy(whole);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
