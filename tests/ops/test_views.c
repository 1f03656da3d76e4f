/* Tensors that lie in another one's memory as a part of its values, and ops on such parts. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "device/cpu/dnnl_layout.h"
#include "device/device.h"
#include "memory/tensor.h"
#include "ops/op.h"

enum { MOST = 4096 };

static const cr_dnnl_order blocks = {CR_DNNL_BLOCKED, 8};
static const cr_dnnl_order last = {CR_DNNL_LAST, 1};

static cr_format format_of(const crema_shape *shape, cr_dnnl_order order) {
  cr_md md = NULL;
  cr_format format = {CREMA_F32, NULL};
  ok(cr_dnnl_md_ordered(shape, CREMA_F32, order, &md));
  ok(cr_dnnl_layout(cr_cpu_device(), md, &format.layout));
  cr_md_destroy(md);
  return format;
}

static int64_t count_of(const crema_shape *shape) {
  return crema_shape_count(shape, 0, shape->axes);
}

static cr_tensor *make(const crema_shape *shape) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count_of(shape), &tensor));
  return tensor;
}

/* Values that no other part has, in `format`. */
static void fill(cr_tensor *tensor, const crema_shape *shape, cr_format format, float base) {
  const cr_format plain = {CREMA_F32, NULL};
  crema_devptr data = {0};
  static float values[MOST];
  assert_true(count_of(shape) <= MOST);
  for (int64_t i = 0; i < count_of(shape); ++i) values[i] = base + (float)i;
  ok(cr_tensor_write(tensor, cr_host_context(), format, &data));
  ok(cr_cpu_device()->backend->convert(cr_host_context(), count_of(shape), format, data, plain,
                                       (crema_devptr){(uintptr_t)values}));
}

static void check_part(cr_tensor *tensor, const crema_shape *shape, float base) {
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(tensor, &values));
  for (int64_t i = 0; i < count_of(shape); ++i) assert_true(values[i] == base + (float)i);
}

/* The values of `part` are those of `whole` from channel `at` on. */
static void check_within(cr_tensor *whole, const crema_shape *all, const crema_shape *part,
                         int64_t at, float base) {
  const float *values = NULL;
  const int64_t inner = crema_shape_count(all, 2, all->axes);
  ok(cr_tensor_host_read_floats(whole, &values));
  for (int64_t n = 0; n < part->dim[0]; ++n) {
    for (int64_t i = 0; i < part->dim[1] * inner; ++i) {
      const float found = values[(n * all->dim[1] + at) * inner + i];
      assert_true(found == base + (float)(n * part->dim[1] * inner + i));
    }
  }
}

/* `tensor` is read in `whole`. */
static bool read_there(cr_tensor *tensor, const crema_shape *shape, cr_tensor *whole,
                       const crema_shape *all, int axis, int64_t at) {
  const cr_part part = {.shape = *shape, .whole = *all, .axis = axis, .at = at};
  bool done = false;
  ok(cr_tensor_set_home(tensor, whole, &part, true, &done));
  return done;
}

static bool set_home(cr_tensor *tensor, const crema_shape *shape, cr_tensor *whole,
                     const crema_shape *all, int64_t at) {
  const cr_part part = {.shape = *shape, .whole = *all, .axis = 1, .at = at};
  bool done = false;
  ok(cr_tensor_set_home(tensor, whole, &part, false, &done));
  return done;
}

static void say_complete(cr_tensor *whole) {
  cr_format format;
  crema_devptr data = {0};
  assert_true(cr_tensor_lies_in_order(whole, &format));
  ok(cr_tensor_write(whole, cr_host_context(), format, &data));
}

static uintptr_t address_of(cr_tensor *tensor) {
  crema_devptr data = {0};
  ok(cr_tensor_read(tensor, cr_host_context(), cr_tensor_head(tensor), &data));
  return data.address;
}

static int formats_of(const cr_tensor *tensor) {
  cr_tensor_held held;
  int count = 0;
  while (cr_tensor_held_at(tensor, count, &held)) ++count;
  return count;
}

/* One sample in blocks of channels: what is written there needs no copy. */
TEST(parts_of_one_sample_lie_side_by_side) {
  const crema_shape part = {4, {1, 16, 3, 5}}, all = {4, {1, 32, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&part), *b = make(&part);
  cr_format format;
  assert_true(set_home(a, &part, whole, &all, 0));
  assert_true(set_home(b, &part, whole, &all, 16));
  assert_true(set_home(b, &part, whole, &all, 16)); /* again: the same */
  assert_false(cr_tensor_has_home(a, &format));
  fill(a, &part, format_of(&part, blocks), 1);
  cr_tensor_order_home(a, cr_cpu_device(), cr_tensor_head(a));
  assert_true(cr_tensor_has_home(a, &format));
  assert_true(cr_format_equal(format, format_of(&part, blocks)));
  fill(b, &part, format, 5000);
  const uintptr_t there = address_of(b);
  const uintptr_t away = address_of(a);
  ok(cr_tensor_go_home(a, cr_host_context())); /* it was written before the order was known */
  assert_true(address_of(a) != away);
  ok(cr_tensor_go_home(b, cr_host_context()));
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

static const crema_shape two = {4, {2, 8, 3, 5}}, inner_shape = {4, {2, 16, 3, 5}},
                         outer_shape = {4, {2, 24, 3, 5}};

/* a and b make `inner`; that and c make `outer`. */
typedef struct nest {
  cr_tensor *a, *b, *c, *inner, *outer;
} nest;

static void open_nest(nest *n) {
  *n = (nest){make(&two), make(&two), make(&two), make(&inner_shape), make(&outer_shape)};
  assert_true(set_home(n->inner, &inner_shape, n->outer, &outer_shape, 0));
  assert_true(set_home(n->c, &two, n->outer, &outer_shape, 16));
  assert_true(set_home(n->a, &two, n->inner, &inner_shape, 0));
  assert_true(set_home(n->b, &two, n->inner, &inner_shape, 8));
}

static void close_nest(nest *n) {
  cr_tensor_destroy(n->a);
  cr_tensor_destroy(n->outer);
  cr_tensor_destroy(n->inner);
  cr_tensor_destroy(n->b);
  cr_tensor_destroy(n->c);
}

static void fill_inner(nest *n) {
  fill(n->a, &two, format_of(&two, last), 1);
  fill(n->b, &two, format_of(&two, last), 1000);
  cr_tensor_order_home(n->a, cr_cpu_device(), cr_tensor_head(n->a));
  ok(cr_tensor_go_home(n->a, cr_host_context()));
  ok(cr_tensor_go_home(n->b, cr_host_context()));
  say_complete(n->inner);
}

/* Channels-last, with the other parts' values in between. */
TEST(parts_of_parts_lie_in_the_outermost) {
  nest n;
  cr_format format;
  open_nest(&n);
  fill_inner(&n);
  assert_true(cr_tensor_has_home(n.c, &format) && format.layout->gaps);
  fill(n.c, &two, cr_format_packed(format), 2000);
  ok(cr_tensor_go_home(n.c, cr_host_context()));
  say_complete(n.outer);
  check_within(n.inner, &inner_shape, &two, 0, 1);
  check_within(n.inner, &inner_shape, &two, 8, 1000);
  check_within(n.outer, &outer_shape, &two, 0, 1);
  check_within(n.outer, &outer_shape, &two, 8, 1000);
  check_within(n.outer, &outer_shape, &two, 16, 2000);
  /* Zeros spare what lies in between. */
  cr_tensor_set_zero(n.b);
  ok(cr_tensor_go_home(n.b, cr_host_context()));
  say_complete(n.outer);
  check_within(n.outer, &outer_shape, &two, 0, 1);
  check_within(n.outer, &outer_shape, &two, 16, 2000);
  const float *values = NULL;
  ok(cr_tensor_host_read_floats(n.outer, &values));
  for (int i = 8 * 15; i < 16 * 15; ++i) assert_true(values[i] == 0.0f);
  close_nest(&n);
}

/* Parts `first`, of 8 channels, and `second` of `all` have no homes when `first` is in `order`. */
static void check_no_home(const crema_shape *all, const crema_shape *first,
                          const crema_shape *second, cr_format order) {
  cr_tensor *whole = make(all), *a = make(first), *b = make(second);
  cr_format format;
  assert_true(set_home(a, first, whole, all, 0) && set_home(b, second, whole, all, 8));
  cr_tensor_order_home(a, cr_cpu_device(), order);
  assert_false(cr_tensor_has_home(a, &format));
  assert_false(cr_tensor_has_home(b, &format));
  assert_false(cr_tensor_lies_in_order(whole, &format));
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
  cr_tensor_destroy(whole);
}

/* Where nothing is copied twice, a part is not made to lie apart. */
TEST(gaps_are_for_parts_of_parts) {
  const crema_shape all = {4, {2, 16, 3, 5}};
  check_no_home(&all, &two, &two, format_of(&two, last));
}

/* A block must not span two parts. */
TEST(blocks_end_with_parts) {
  const crema_shape all = {4, {1, 20, 3, 5}}, small = {4, {1, 12, 3, 5}}, rest = {4, {1, 8, 3, 5}};
  check_no_home(&all, &rest, &small, format_of(&rest, blocks));
}

/* ---- ops ----------------------------------------------------------------- */

/* y = x * scale + bias, then a ReLU where `relu`, or, without those, |x|; returns the kernel's
 * name.
 */
static const char *run_op(cr_op_kind kind, bool relu, cr_tensor *x, cr_tensor *scale,
                          cr_tensor *bias, cr_tensor *y) {
  const crema_shape values = {3, {2, 16, 15}}, channels = {1, {16}};
  static char name[64];
  cr_op_desc kind_only, *desc = NULL;
  cr_op *op = NULL;
  memset(&kind_only, 0, sizeof kind_only);
  kind_only.kind = kind;
  kind_only.type = CREMA_F32;
  if (kind == CR_OP_UNARY_FWD) kind_only.u.unary.function = CR_UNARY_ABS;
  const bool affine = kind == CR_OP_AFFINE_FWD;
  if (relu) {
    kind_only.u.affine.post[0] =
        (cr_post){.kind = CR_POST_UNARY, .function = CR_UNARY_RELU, .alpha = 0.5};
  }
  const crema_shape *const shape[] = {&values, affine ? &channels : &values, &channels, &values};
  ok(cr_op_describe(&kind_only, affine ? 4 : 2, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  cr_tensor *const of_affine[] = {x, scale, bias, y}, *const of_unary[] = {x, y};
  ok(cr_op_run(op, cr_host_context(), affine ? of_affine : of_unary, NULL));
  snprintf(name, sizeof name, "%s", cr_op_kernel_name(op));
  cr_op_destroy(op);
  return name;
}

/* `found` is what the op gives without the ReLU, and that ReLU behind it. */
static void check_rectified(cr_tensor *x, cr_tensor *scale, cr_tensor *bias, cr_tensor *found) {
  cr_tensor *plain = make(&inner_shape);
  const float *y = NULL, *values = NULL;
  int64_t below = 0;
  (void)run_op(CR_OP_AFFINE_FWD, false, x, scale, bias, plain);
  ok(cr_tensor_host_read_floats(plain, &y));
  ok(cr_tensor_host_read_floats(found, &values));
  for (int64_t i = 0; i < count_of(&inner_shape); ++i) {
    assert_true(values[i] == (y[i] < 0 ? 0.5f * y[i] : y[i]));
    below += y[i] < 0;
  }
  assert_true(below > 0 && below < count_of(&inner_shape));
  cr_tensor_destroy(plain);
}

/* A kernel that takes views reads them where they are; others are given a copy. */
TEST(ops_read_views) {
  const crema_shape channels = {1, {16}};
  nest n;
  cr_tensor *scale = make(&channels), *bias = make(&channels);
  cr_tensor *y = make(&inner_shape), *packed = make(&inner_shape), *want = make(&inner_shape);
  const float *values = NULL, *expected = NULL;
  fill(scale, &channels, CR_PLAIN_F32, 2);
  fill(bias, &channels, CR_PLAIN_F32, -700);
  for (int k = -1; k < 2; ++k) {
    const cr_op_kind kind = k <= 0 ? CR_OP_AFFINE_FWD : CR_OP_UNARY_FWD;
    open_nest(&n);
    fill_inner(&n);
    fill(n.c, &two, format_of(&two, last), 2000);
    ok(cr_tensor_go_home(n.c, cr_host_context()));
    say_complete(n.outer);
    assert_int_equal(formats_of(n.inner), 1);
    assert_true(cr_tensor_head(n.inner).layout->gaps);
    ok(cr_tensor_copy(packed, n.inner, cr_host_context()));
    assert_false(cr_tensor_head(packed).layout->gaps);
    const int before = formats_of(n.inner);
    const char *name = run_op(kind, k < 0, n.inner, scale, bias, y);
    if (k <= 0) assert_string_equal(name, "affine_fwd_dnnl");
    if (k <= 0) assert_int_equal(formats_of(n.inner), before);
    assert_false(cr_tensor_head(y).layout != NULL && cr_tensor_head(y).layout->gaps);
    (void)run_op(kind, k < 0, packed, scale, bias, want);
    if (k < 0) check_rectified(packed, scale, bias, want);
    ok(cr_tensor_host_read_floats(y, &values));
    ok(cr_tensor_host_read_floats(want, &expected));
    assert_memory_equal(values, expected, (size_t)count_of(&inner_shape) * sizeof *values);
    check_within(n.outer, &outer_shape, &two, 0, 1); /* nothing was written there */
    check_within(n.outer, &outer_shape, &two, 16, 2000);
    close_nest(&n);
  }
  cr_tensor_destroy(want);
  cr_tensor_destroy(packed);
  cr_tensor_destroy(y);
  cr_tensor_destroy(bias);
  cr_tensor_destroy(scale);
}

/* ---- parts that are read ------------------------------------------------- */

/* What a Slice does; false where the newest values of `whole` are not at the part's home. */
static bool read_home(cr_tensor *part, cr_tensor *whole) {
  cr_format format;
  crema_devptr data = {0};
  cr_tensor_order_home(part, cr_cpu_device(), cr_tensor_head(whole));
  if (!cr_tensor_can_read_home(part, whole)) return false;
  assert_true(cr_tensor_has_home(part, &format));
  ok(cr_tensor_write(part, cr_host_context(), format, &data));
  return true;
}

/* Channels-last, in blocks, and plain: each part has the whole's values, where they lie. */
TEST(parts_are_read_in_the_whole) {
  const crema_shape all = {4, {1, 32, 3, 5}}, one = {4, {1, 16, 3, 5}};
  const cr_format formats[] = {format_of(&all, last), format_of(&all, blocks), CR_PLAIN_F32};
  for (int k = 0; k < 3; ++k) {
    cr_tensor *whole = make(&all), *a = make(&one), *b = make(&one);
    assert_true(read_there(a, &one, whole, &all, 1, 0));
    assert_true(read_there(b, &one, whole, &all, 1, 16));
    assert_false(read_home(b, whole)); /* zeros lie nowhere */
    fill(whole, &all, formats[k], 1);
    assert_true(read_home(a, whole) && read_home(b, whole));
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

/* The order is the one in which the whole was written last. */
TEST(parts_follow_the_order_of_the_whole) {
  const crema_shape all = {4, {2, 32, 3, 5}}, one = {4, {2, 16, 3, 5}}, half = {4, {1, 32, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&one), *sample = make(&half);
  assert_true(read_there(a, &one, whole, &all, 1, 16));
  assert_true(read_there(sample, &half, whole, &all, 0, 1));
  fill(whole, &all, CR_PLAIN_F32, 1);
  assert_false(read_home(a, whole)); /* two samples in plain order */
  assert_true(read_home(sample, whole));
  check_part(sample, &half, 1 + 32 * 15);
  fill(whole, &all, format_of(&all, last), 7);
  assert_true(read_home(a, whole) && read_home(sample, whole));
  check_part(sample, &half, 7 + 32 * 15);
  fill(whole, &all, format_of(&all, blocks), 9);
  assert_false(read_home(a, whole));
  assert_true(read_home(sample, whole));
  check_part(sample, &half, 9 + 32 * 15);
  cr_tensor_destroy(sample);
  cr_tensor_destroy(a);
  cr_tensor_destroy(whole);
}

static void run_parts(cr_op_kind kind, int args, const crema_shape *const *shape,
                      cr_tensor *const *tensor, const char *kernel) {
  cr_op_desc kind_only, *desc = NULL;
  cr_op *op = NULL;
  memset(&kind_only, 0, sizeof kind_only);
  kind_only.kind = kind;
  kind_only.type = CREMA_F32;
  kind_only.u.axis = 1;
  ok(cr_op_describe(&kind_only, args, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, cr_host_context(), tensor, NULL));
  assert_string_equal(cr_op_kernel_name(op), kernel);
  cr_op_destroy(op);
}

/* Concat and Slice ops read channels between others as they lie. */
TEST(parts_are_cut_and_joined_where_they_lie) {
  const crema_shape all = {4, {2, 24, 3, 5}}, one = {4, {2, 16, 3, 5}}, rest = {4, {2, 8, 3, 5}};
  cr_tensor *whole = make(&all), *a = make(&one), *b = make(&rest), *both = make(&all);
  cr_tensor *c = make(&rest), *d = make(&rest);
  assert_true(read_there(a, &one, whole, &all, 1, 8) && read_there(b, &rest, whole, &all, 1, 0));
  fill(whole, &all, format_of(&all, last), 1);
  assert_true(read_home(a, whole) && read_home(b, whole));
  run_parts(CR_OP_CONCAT, 3, (const crema_shape *[]){&rest, &one, &all},
            (cr_tensor *[]){b, a, both}, "concat_dnnl");
  check_part(both, &all, 1);
  run_parts(CR_OP_SLICE, 3, (const crema_shape *[]){&one, &rest, &rest}, (cr_tensor *[]){a, c, d},
            "slice_dnnl");
  assert_int_equal(formats_of(a), 1);
  assert_int_equal(formats_of(b), 1);
  check_part(whole, &all, 1);
  const float *x = NULL, *y = NULL;
  ok(cr_tensor_host_read_floats(whole, &x));
  for (int k = 0; k < 2; ++k) {
    ok(cr_tensor_host_read_floats(k == 0 ? c : d, &y));
    for (int i = 0; i < 2 * 8 * 15; ++i) {
      assert_true(y[i] == x[i / 120 * 360 + (k + 1) * 120 + i % 120]);
    }
  }
  cr_tensor_destroy(d);
  cr_tensor_destroy(c);
  cr_tensor_destroy(both);
  cr_tensor_destroy(b);
  cr_tensor_destroy(a);
  cr_tensor_destroy(whole);
}

/* ---- the end of a home --------------------------------------------------- */

static void is_lost(cr_tensor *tensor) {
  const float *values = NULL;
  assert_int_equal(cr_tensor_host_read_floats(tensor, &values), CREMA_E_STATE);
}

/* Places `a` behind the first 16 channels of `whole`, in blocks, and fills it with 3 and so on;
 * returns its format. */
static cr_format fill_half(cr_tensor *a, const crema_shape *part, cr_tensor *whole,
                           const crema_shape *all) {
  cr_format format;
  assert_true(set_home(a, part, whole, all, 16));
  cr_tensor_order_home(a, cr_cpu_device(), format_of(part, blocks));
  assert_true(cr_tensor_has_home(a, &format));
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
      cr_tensor_set_passing(whole, true);
      cr_tensor_set_zero(whole);
      ok(cr_tensor_host_write_floats(whole, &(float *){NULL}));
      cr_tensor_let_go(whole);
    } else if (k == 2) {
      cr_tensor_destroy(whole);
      whole = NULL;
    } else {
      cr_tensor_leave_home(a);
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
  cr_tensor_leave_home(a);
  check_part(a, &part, 3);
  ok(cr_tensor_copy(whole, whole, cr_host_context()));
  cr_tensor_destroy(whole);
  cr_tensor_destroy(a);
}

TEST(what_has_no_home) {
  const crema_shape all = {4, {1, 32, 3, 5}}, part = {4, {1, 16, 3, 5}}, other = {4, {1, 16, 5, 3}},
                    flat = {1, {240}};
  cr_tensor *whole = make(&all), *second = make(&all), *a = make(&part), *wide = NULL;
  ok(cr_tensor_create(CREMA_F64, count_of(&part), &wide));
  assert_false(set_home(a, &part, whole, &all, 17));
  assert_false(set_home(a, &part, whole, &all, -1));
  assert_false(set_home(a, &other, whole, &all, 0));
  assert_false(set_home(a, &flat, whole, &all, 0));
  assert_false(set_home(whole, &all, whole, &all, 0));
  assert_false(set_home(wide, &part, whole, &all, 0));
  assert_true(set_home(a, &part, whole, &all, 0));
  assert_false(set_home(a, &part, second, &all, 0));    /* it has one */
  assert_false(set_home(whole, &all, second, &all, 0)); /* it is one */
  assert_int_equal(cr_tensor_go_home(second, cr_host_context()), CREMA_E_INTERNAL);
  cr_tensor_destroy(wide);
  cr_tensor_destroy(a);
  cr_tensor_destroy(second);
  cr_tensor_destroy(whole);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
