/* The dispatcher: ops on tensors, with whatever kernels the CPU has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "device/device.h"
#include "memory/tensor_help.h"
#include "ops/op.h"

static crema_context *host(void) {
  return cr_host_context();
}

static cr_tensor *make(int64_t count, const float *values) {
  cr_tensor *tensor = NULL;
  assert_int_equal(cr_tensor_create(CREMA_F32, count, &tensor), CREMA_OK);
  void *to = NULL;
  if (values) {
    assert_int_equal(cr_tensor_host_write(tensor, &to), CREMA_OK);
    memcpy(to, values, (size_t)count * sizeof *values);
  }
  return tensor;
}

static const float *read_values(cr_tensor *tensor) {
  const void *values = NULL;
  assert_int_equal(cr_tensor_host_read(tensor, &values), CREMA_OK);
  return values;
}

static void expect(cr_tensor *tensor, int64_t count, const float *wanted) {
  const float *values = read_values(tensor);
  for (int64_t i = 0; i < count; ++i) {
    const float error = values[i] - wanted[i];
    if (!(error < 1e-6f && error > -1e-6f)) {
      print_error("element %d is %g, not %g\n", (int)i, (double)values[i], (double)wanted[i]);
      fail();
    }
  }
}

static void add_args(cr_op_desc *desc, int args, const crema_shape *const *shape) {
  for (int i = 0; i < args; ++i) {
    const crema_status status =
        shape[i] ? cr_op_desc_add(desc, shape[i], CREMA_F32) : cr_op_desc_add_absent(desc);
    assert_int_equal(status, CREMA_OK);
  }
}

static cr_op *make_op(cr_op_desc desc, int args, const crema_shape *const *shape) {
  cr_op *op = NULL;
  add_args(&desc, args, shape);
  assert_int_equal(cr_op_create(&desc, &op), CREMA_OK);
  assert_null(desc.arg);
  return op;
}

static const crema_shape vector4 = {1, {4}}, vector2 = {1, {2}}, scalar1 = {1, {1}};
static const crema_shape matrix23 = {2, {2, 3}}, matrix22 = {2, {2, 2}};

static cr_op *make_relu(const crema_shape *shape) {
  const cr_op_desc desc = {
      .kind = CR_OP_UNARY_FWD, .type = CREMA_F32, .u.unary = {.function = CR_UNARY_RELU}};
  return make_op(desc, 2, (const crema_shape *[]){shape, shape});
}

static void test_in_place(void **state) {
  (void)state;
  cr_op *relu = make_relu(&vector4);
  assert_string_equal(cr_op_kernel_name(relu), "");
  cr_tensor *x = make(4, (float[]){-1, 2, -3, 4});
  assert_int_equal(cr_op_run(relu, host(), (cr_tensor *[]){x, x}, NULL), CREMA_OK);
  expect(x, 4, (float[]){0, 2, 0, 4});
  assert_non_null(strstr(cr_op_kernel_name(relu), "unary_fwd"));
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
}

static void test_shared_values(void **state) {
  (void)state;
  cr_op *relu = make_relu(&vector4);
  cr_tensor *x = make(4, (float[]){-1, 2, -3, 4}), *y = make(4, NULL);
  assert_int_equal(cr_tensor_share(y, x), CREMA_OK);
  assert_int_equal(cr_op_run(relu, host(), (cr_tensor *[]){x, y}, NULL), CREMA_OK);
  expect(x, 4, (float[]){0, 2, 0, 4});
  expect(y, 4, (float[]){0, 2, 0, 4});
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* diff_weights = diff_dst^T src; diff_bias = column sums of diff_dst. */
static void test_accumulate(void **state) {
  (void)state;
  const cr_op_desc desc = {.kind = CR_OP_IP_BWD_WEIGHTS, .type = CREMA_F32};
  cr_op *op = make_op(desc, 4, (const crema_shape *[]){&matrix23, &matrix22, &matrix23, &vector2});
  cr_tensor *src = make(6, (float[]){1, 2, 3, 4, 5, 6}), *diff = make(4, (float[]){1, -1, 2, 0});
  /* What a zero-marked tensor held before must not be added to. */
  cr_tensor *weights = make(6, (float[]){9, 9, 9, 9, 9, 9}), *bias = make(2, (float[]){9, 9});
  cr_tensor_set_zero(weights);
  cr_tensor_set_zero(bias);
  cr_tensor *args[] = {src, diff, weights, bias};
  assert_int_equal(cr_op_run(op, host(), args, NULL), CREMA_OK);
  expect(weights, 6, (float[]){9, 12, 15, -1, -2, -3});
  expect(bias, 2, (float[]){3, -1});
  assert_int_equal(cr_op_run(op, host(), args, NULL), CREMA_OK);
  assert_int_equal(cr_op_run(op, host(), args, NULL), CREMA_OK);
  expect(weights, 6, (float[]){27, 36, 45, -3, -6, -9});
  expect(bias, 2, (float[]){9, -3});
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(args[i]);
}

static cr_op *make_product(bool bias) {
  const cr_op_desc desc = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  return make_op(desc, 4,
                 (const crema_shape *[]){&matrix23, &matrix23, bias ? &vector2 : NULL, &matrix22});
}

static void test_optional(void **state) {
  (void)state;
  cr_op *with = make_product(true), *without = make_product(false);
  cr_tensor *src = make(6, (float[]){1, 2, 3, 4, 5, 6}), *dst = make(4, NULL);
  cr_tensor *weights = make(6, (float[]){1, 0, 0, 0, 1, 1}), *bias = make(2, (float[]){10, 20});
  assert_int_equal(cr_op_run(with, host(), (cr_tensor *[]){src, weights, bias, dst}, NULL),
                   CREMA_OK);
  expect(dst, 4, (float[]){11, 25, 14, 31});
  assert_int_equal(cr_op_run(without, host(), (cr_tensor *[]){src, weights, NULL, dst}, NULL),
                   CREMA_OK);
  expect(dst, 4, (float[]){1, 5, 4, 11});
  /* An op gets exactly the arguments that it was planned with. */
  assert_int_equal(cr_op_run(with, host(), (cr_tensor *[]){src, weights, NULL, dst}, NULL),
                   CREMA_E_INTERNAL);
  assert_non_null(strstr(crema_error_text(), "ip_fwd"));
  assert_int_equal(cr_op_run(without, host(), (cr_tensor *[]){src, weights, bias, dst}, NULL),
                   CREMA_E_INTERNAL);
  cr_op_destroy(with);
  cr_op_destroy(without);
  cr_tensor_destroy(src);
  cr_tensor_destroy(dst);
  cr_tensor_destroy(weights);
  cr_tensor_destroy(bias);
}

static void test_zero_tensor(void **state) {
  (void)state;
  const cr_op_desc desc = {.kind = CR_OP_SUM, .type = CREMA_F32};
  cr_op *sum = make_op(desc, 3, (const crema_shape *[]){&vector4, &vector4, &vector4});
  cr_tensor *x = make(4, (float[]){1, 2, 3, 4}), *zero = make(4, (float[]){7, 7, 7, 7});
  cr_tensor *y = make(4, NULL);
  cr_tensor_set_zero(zero);
  assert_int_equal(cr_op_run(sum, host(), (cr_tensor *[]){x, zero, y}, NULL), CREMA_OK);
  expect(y, 4, (float[]){1, 2, 3, 4});
  assert_false(cr_tensor_is_zero(y));
  cr_op_destroy(sum);
  cr_tensor_destroy(x);
  cr_tensor_destroy(zero);
  cr_tensor_destroy(y);
}

static void test_scalars(void **state) {
  (void)state;
  const cr_op_desc desc = {.kind = CR_OP_AXPBY, .type = CREMA_F32};
  cr_op *op = make_op(desc, 2, (const crema_shape *[]){&vector4, &vector4});
  cr_tensor *x = make(4, (float[]){1, 2, 3, 4}), *y = make(4, (float[]){10, 20, 30, 40});
  const cr_op_scalars scalars = {.alpha = 2, .beta = 0.5f};
  assert_int_equal(cr_op_run(op, host(), (cr_tensor *[]){x, y}, &scalars), CREMA_OK);
  expect(y, 4, (float[]){7, 14, 21, 28});
  cr_op_destroy(op);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* A 1x1 convolution with the identity as weights keeps its input; between the two convolutions
 * the values may be in any layout. */
static void test_chain(void **state) {
  (void)state;
  enum { C = 16, PLACES = 9 };
  const crema_shape image = {4, {2, C, 3, 3}}, filter = {4, {C, C, 1, 1}};
  const cr_op_desc desc = {.kind = CR_OP_CONV_FWD,
                           .type = CREMA_F32,
                           .u.conv = {.window = {2, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, .group = 1}};
  const crema_shape *const shapes[] = {&image, &filter, NULL, &image};
  cr_op *first = make_op(desc, 4, shapes), *second = make_op(desc, 4, shapes);
  cr_op *relu = make_relu(&image);
  float values[2 * C * PLACES], wanted[2 * C * PLACES], identity[C * C] = {0};
  for (int i = 0; i < 2 * C * PLACES; ++i) {
    values[i] = (float)(i % 7 - 3);
    wanted[i] = values[i] > 0 ? values[i] : 0;
  }
  for (int i = 0; i < C; ++i) identity[i * C + i] = 1;
  cr_tensor *x = make(2 * C * PLACES, values), *weights = make(C * C, identity);
  cr_tensor *a = make(2 * C * PLACES, NULL), *b = make(2 * C * PLACES, NULL);
  for (int pass = 0; pass < 3; ++pass) {
    assert_int_equal(cr_op_run(first, host(), (cr_tensor *[]){x, weights, NULL, a}, NULL), 0);
    /* The second pass offers the relu its input in plain format, the others as it comes. */
    if (pass == 1) {
      void *plain = NULL;
      assert_int_equal(update_on_host(a, &plain), CREMA_OK);
    }
    assert_int_equal(cr_op_run(relu, host(), (cr_tensor *[]){a, a}, NULL), CREMA_OK);
    assert_int_equal(cr_op_run(second, host(), (cr_tensor *[]){a, weights, NULL, b}, NULL), 0);
    expect(b, 2 * C * PLACES, wanted);
    expect(a, 2 * C * PLACES, wanted);
  }
  cr_op_destroy(first);
  cr_op_destroy(second);
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
  cr_tensor_destroy(weights);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
}

static void test_wrong_arguments(void **state) {
  (void)state;
  cr_op *op = NULL;
  cr_op_desc desc = {.kind = CR_OP_SOFTMAX_BWD, .type = CREMA_F32};
  add_args(&desc, 2, (const crema_shape *[]){&matrix22, &matrix22});
  assert_int_equal(cr_op_create(&desc, &op), CREMA_E_INTERNAL);
  assert_non_null(strstr(crema_error_text(), "softmax_bwd"));
  assert_null(desc.arg);
  desc = (cr_op_desc){.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  add_args(&desc, 4, (const crema_shape *[]){NULL, &matrix23, NULL, &matrix22});
  assert_int_equal(cr_op_create(&desc, &op), CREMA_E_INTERNAL);
  assert_null(op);

  cr_op *relu = make_relu(&vector4);
  cr_tensor *four = make(4, NULL), *two = make(2, NULL);
  assert_int_equal(cr_op_run(relu, host(), (cr_tensor *[]){four, two}, NULL), CREMA_E_INTERNAL);
  assert_non_null(strstr(crema_error_text(), "unary_fwd"));
  cr_op_destroy(relu);
  cr_tensor_destroy(four);
  cr_tensor_destroy(two);
  cr_op_destroy(NULL);
}

static void test_no_row(void **state) {
  (void)state;
  cr_op_desc desc = {.kind = CR_OP_SOFTMAX_FWD, .type = CREMA_U8, .u.axis = 0};
  cr_op *op = make_op(desc, 2, (const crema_shape *[]){&vector4, &vector4});
  cr_tensor *x = make(4, NULL), *y = make(4, NULL);
  assert_int_equal(cr_op_run(op, host(), (cr_tensor *[]){x, y}, NULL), CREMA_E_UNSUPPORTED);
  assert_non_null(strstr(crema_error_text(), "softmax_fwd"));
  cr_op_destroy(op);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* The text of a failure in a kernel names the op, the label and its place. */
static void test_bad_label(void **state) {
  (void)state;
  const crema_shape prob_shape = {3, {2, 2, 1}}, label_shape = {2, {2, 1}};
  const cr_op_desc desc = {.kind = CR_OP_NLL_FWD, .type = CREMA_F32};
  cr_op *op =
      make_op(desc, 4, (const crema_shape *[]){&prob_shape, &label_shape, &scalar1, &scalar1});
  cr_tensor *prob = make(4, (float[]){0.5f, 0.5f, 0.25f, 0.75f});
  cr_tensor *label = make(2, (float[]){1, 7}), *loss = make(1, NULL), *count = make(1, NULL);
  cr_tensor *args[] = {prob, label, loss, count};
  assert_int_equal(cr_op_run(op, host(), args, NULL), CREMA_E_RANGE);
  assert_non_null(strstr(crema_error_text(), "nll_fwd"));
  assert_non_null(strstr(crema_error_text(), "label 7 at position 1"));
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(args[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_place),    cmocka_unit_test(test_shared_values),
      cmocka_unit_test(test_accumulate),  cmocka_unit_test(test_optional),
      cmocka_unit_test(test_zero_tensor), cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_chain),       cmocka_unit_test(test_wrong_arguments),
      cmocka_unit_test(test_no_row),      cmocka_unit_test(test_bad_label),
  };
  return cmocka_run_group_tests_name("dispatch", tests, NULL, NULL);
}
