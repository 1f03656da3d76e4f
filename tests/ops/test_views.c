/* Ops on tensors that lie in another one's memory as a part of its values. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "memory/parts.h"
#include "ops/op.h"

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
    ok(cr_tensor_alias_move(n.c, cr_host_context()));
    say_complete(n.outer);
    assert_int_equal(formats_of(n.inner), 1);
    assert_true(cr_tensor_head(n.inner).layout->gaps);
    ok(cr_tensor_copy(packed, n.inner, cr_host_context()));
    assert_false(cr_tensor_head(packed).layout->gaps);
    const int before = formats_of(n.inner);
    const char *name = run_op(kind, k < 0, n.inner, scale, bias, y);
    if (k <= 0) assert_string_equal(name, "affine_fwd_fast");
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
  assert_true(read_alias(a, whole) && read_alias(b, whole));
  run_parts(CR_OP_CONCAT, 3, (const crema_shape *[]){&rest, &one, &all},
            (cr_tensor *[]){b, a, both}, "concat_fast");
  check_part(both, &all, 1);
  run_parts(CR_OP_SLICE, 3, (const crema_shape *[]){&one, &rest, &rest}, (cr_tensor *[]){a, c, d},
            "slice_fast");
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

/* A pointwise convolution with 40 outputs; returns the kernel's name. */
static const char *run_points(cr_tensor *x, cr_tensor *weights, cr_tensor *y) {
  const crema_shape filters = {4, {40, 16, 1, 1}}, results = {4, {2, 40, 3, 5}};
  static char name[64];
  cr_op_desc conv, *desc = NULL;
  cr_op *op = NULL;
  memset(&conv, 0, sizeof conv);
  conv.kind = CR_OP_CONV_FWD;
  conv.type = CREMA_F32;
  conv.u.conv.group = 1;
  conv.u.conv.window.axes = 2;
  for (int a = 0; a < 2; ++a) {
    conv.u.conv.window.kernel[a] = conv.u.conv.window.stride[a] = 1;
    conv.u.conv.window.dilation[a] = 1;
  }
  const crema_shape *const shape[] = {&inner_shape, &filters, NULL, &results};
  ok(cr_op_describe(&conv, 4, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, cr_host_context(), (cr_tensor *const[]){x, weights, NULL, y}, NULL));
  snprintf(name, sizeof name, "%s", cr_op_kernel_name(op));
  cr_op_destroy(op);
  return name;
}

TEST(points_read_views) {
  const crema_shape filters = {4, {40, 16, 1, 1}}, results = {4, {2, 40, 3, 5}};
  nest n;
  cr_tensor *weights = make(&filters), *packed = make(&inner_shape);
  cr_tensor *y = make(&results), *want = make(&results);
  const float *values = NULL, *expected = NULL;
  fill(weights, &filters, CR_PLAIN_F32, -300);
  open_nest(&n);
  fill_inner(&n);
  fill(n.c, &two, format_of(&two, last), 2000);
  ok(cr_tensor_alias_move(n.c, cr_host_context()));
  say_complete(n.outer);
  assert_true(cr_tensor_head(n.inner).layout->gaps);
  ok(cr_tensor_copy(packed, n.inner, cr_host_context()));
  const int before = formats_of(n.inner);
  const char *name = run_points(n.inner, weights, y);
  if (strcmp(name, "conv_fwd_points") == 0) assert_int_equal(formats_of(n.inner), before);
  (void)run_points(packed, weights, want);
  ok(cr_tensor_host_read_floats(y, &values));
  ok(cr_tensor_host_read_floats(want, &expected));
  assert_memory_equal(values, expected, (size_t)count_of(&results) * sizeof *values);
  close_nest(&n);
  cr_tensor_destroy(want);
  cr_tensor_destroy(y);
  cr_tensor_destroy(packed);
  cr_tensor_destroy(weights);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
