/* The dispatcher: ops on tensors, with whatever kernels the CPU has. */
#include <string.h>

#include "device/device.h"
#include "log_lines.h"
#include "memory/sim_fixture.h"
#include "memory/tensor_help.h"
#include "op_make.h"

static crema_context *host(void) {
  return cr_host_context();
}

static cr_tensor *make(int64_t count, const float *values) {
  cr_tensor *tensor = NULL;
  ok(cr_tensor_create(CREMA_F32, count, &tensor));
  void *to = NULL;
  if (values) {
    ok(cr_tensor_host_write(tensor, &to));
    memcpy(to, values, (size_t)count * sizeof *values);
  }
  return tensor;
}

static const float *read_values(cr_tensor *tensor) {
  const void *values = NULL;
  ok(cr_tensor_host_read(tensor, &values));
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

static const crema_shape vector4 = {1, {4}}, vector2 = {1, {2}}, scalar1 = {1, {1}};
static const crema_shape matrix23 = {2, {2, 3}}, matrix22 = {2, {2, 2}};

static cr_op *make_relu(const crema_shape *shape) {
  const cr_op_desc desc = {
      .kind = CR_OP_UNARY_FWD, .type = CREMA_F32, .u.unary = {.function = CR_UNARY_RELU}};
  return op_make(&desc, 2, (const crema_shape *[]){shape, shape});
}

TEST(test_in_place) {
  cr_op *relu = make_relu(&vector4);
  assert_string_equal(cr_op_kernel_name(relu), "");
  cr_tensor *x = make(4, (float[]){-1, 2, -3, 4});
  ok(cr_op_run(relu, host(), (cr_tensor *[]){x, x}, NULL));
  expect(x, 4, (float[]){0, 2, 0, 4});
  assert_non_null(strstr(cr_op_kernel_name(relu), "unary_fwd"));
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
}

TEST(test_shared_values) {
  cr_op *relu = make_relu(&vector4);
  cr_tensor *x = make(4, (float[]){-1, 2, -3, 4}), *y = make(4, NULL);
  ok(cr_tensor_share(y, x));
  ok(cr_op_run(relu, host(), (cr_tensor *[]){x, y}, NULL));
  expect(x, 4, (float[]){0, 2, 0, 4});
  expect(y, 4, (float[]){0, 2, 0, 4});
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* diff_weights = diff_dst^T src; diff_bias = column sums of diff_dst. */
TEST(test_accumulate) {
  const cr_op_desc desc = {.kind = CR_OP_IP_BWD_WEIGHTS, .type = CREMA_F32};
  cr_op *op = op_make(&desc, 4, (const crema_shape *[]){&matrix23, &matrix22, &matrix23, &vector2});
  cr_tensor *src = make(6, (float[]){1, 2, 3, 4, 5, 6}), *diff = make(4, (float[]){1, -1, 2, 0});
  /* What a zero-marked tensor held before must not be added to. */
  cr_tensor *weights = make(6, (float[]){9, 9, 9, 9, 9, 9}), *bias = make(2, (float[]){9, 9});
  cr_tensor_set_zero(weights);
  cr_tensor_set_zero(bias);
  cr_tensor *args[] = {src, diff, weights, bias};
  ok(cr_op_run(op, host(), args, NULL));
  expect(weights, 6, (float[]){9, 12, 15, -1, -2, -3});
  expect(bias, 2, (float[]){3, -1});
  ok(cr_op_run(op, host(), args, NULL));
  ok(cr_op_run(op, host(), args, NULL));
  expect(weights, 6, (float[]){27, 36, 45, -3, -6, -9});
  expect(bias, 2, (float[]){9, -3});
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(args[i]);
}

static cr_op *make_product(bool bias) {
  const cr_op_desc desc = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  return op_make(&desc, 4,
                 (const crema_shape *[]){&matrix23, &matrix23, bias ? &vector2 : NULL, &matrix22});
}

TEST(test_optional) {
  cr_op *with = make_product(true), *without = make_product(false);
  cr_tensor *src = make(6, (float[]){1, 2, 3, 4, 5, 6}), *dst = make(4, NULL);
  cr_tensor *weights = make(6, (float[]){1, 0, 0, 0, 1, 1}), *bias = make(2, (float[]){10, 20});
  ok(cr_op_run(with, host(), (cr_tensor *[]){src, weights, bias, dst}, NULL));
  expect(dst, 4, (float[]){11, 25, 14, 31});
  ok(cr_op_run(without, host(), (cr_tensor *[]){src, weights, NULL, dst}, NULL));
  expect(dst, 4, (float[]){1, 5, 4, 11});
  /* An op gets exactly the arguments that it was planned with. */
  assert_fails(cr_op_run(with, host(), (cr_tensor *[]){src, weights, NULL, dst}, NULL),
               CREMA_E_INTERNAL, "ip_fwd");
  assert_int_equal(cr_op_run(without, host(), (cr_tensor *[]){src, weights, bias, dst}, NULL),
                   CREMA_E_INTERNAL);
  cr_op_destroy(with);
  cr_op_destroy(without);
  cr_tensor_destroy(src);
  cr_tensor_destroy(dst);
  cr_tensor_destroy(weights);
  cr_tensor_destroy(bias);
}

TEST(test_zero_tensor) {
  const cr_op_desc desc = {.kind = CR_OP_SUM, .type = CREMA_F32};
  cr_op *sum = op_make(&desc, 3, (const crema_shape *[]){&vector4, &vector4, &vector4});
  cr_tensor *x = make(4, (float[]){1, 2, 3, 4}), *zero = make(4, (float[]){7, 7, 7, 7});
  cr_tensor *y = make(4, NULL);
  cr_tensor_set_zero(zero);
  ok(cr_op_run(sum, host(), (cr_tensor *[]){x, zero, y}, NULL));
  expect(y, 4, (float[]){1, 2, 3, 4});
  assert_false(cr_tensor_is_zero(y));
  cr_op_destroy(sum);
  cr_tensor_destroy(x);
  cr_tensor_destroy(zero);
  cr_tensor_destroy(y);
}

TEST(test_scalars) {
  const cr_op_desc desc = {.kind = CR_OP_AXPBY, .type = CREMA_F32};
  cr_op *op = op_make(&desc, 2, (const crema_shape *[]){&vector4, &vector4});
  cr_tensor *x = make(4, (float[]){1, 2, 3, 4}), *y = make(4, (float[]){10, 20, 30, 40});
  const cr_op_scalars scalars = {.alpha = 2, .beta = 0.5f};
  ok(cr_op_run(op, host(), (cr_tensor *[]){x, y}, &scalars));
  expect(y, 4, (float[]){7, 14, 21, 28});
  cr_op_destroy(op);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* A 1x1 convolution with the identity as weights keeps its input; between the two convolutions
 * the values may be in any layout. */
TEST(test_chain) {
  enum { C = 16, POSITIONS = 9 };
  const crema_shape image = {4, {2, C, 3, 3}}, filter = {4, {C, C, 1, 1}};
  const cr_op_desc desc = {.kind = CR_OP_CONV_FWD,
                           .type = CREMA_F32,
                           .u.conv = {.window = {2, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, .group = 1}};
  const crema_shape *const shapes[] = {&image, &filter, NULL, &image};
  cr_op *first = op_make(&desc, 4, shapes), *second = op_make(&desc, 4, shapes);
  cr_op *relu = make_relu(&image);
  float values[2 * C * POSITIONS], wanted[2 * C * POSITIONS], identity[C * C] = {0};
  for (int i = 0; i < 2 * C * POSITIONS; ++i) {
    values[i] = (float)(i % 7 - 3);
    wanted[i] = values[i] > 0 ? values[i] : 0;
  }
  for (int i = 0; i < C; ++i) identity[i * C + i] = 1;
  cr_tensor *x = make(2 * C * POSITIONS, values), *weights = make(C * C, identity);
  cr_tensor *a = make(2 * C * POSITIONS, NULL), *b = make(2 * C * POSITIONS, NULL);
  for (int pass = 0; pass < 3; ++pass) {
    assert_int_equal(cr_op_run(first, host(), (cr_tensor *[]){x, weights, NULL, a}, NULL), 0);
    /* The second pass offers the relu its input in plain format, the others as it comes. */
    if (pass == 1) {
      void *plain = NULL;
      ok(update_on_host(a, &plain));
    }
    ok(cr_op_run(relu, host(), (cr_tensor *[]){a, a}, NULL));
    assert_int_equal(cr_op_run(second, host(), (cr_tensor *[]){a, weights, NULL, b}, NULL), 0);
    expect(b, 2 * C * POSITIONS, wanted);
    expect(a, 2 * C * POSITIONS, wanted);
  }
  cr_op_destroy(first);
  cr_op_destroy(second);
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
  cr_tensor_destroy(weights);
  cr_tensor_destroy(a);
  cr_tensor_destroy(b);
}

TEST(test_wrong_arguments) {
  cr_op *op = NULL;
  cr_op_desc *desc = NULL;
  const cr_op_desc softmax = {.kind = CR_OP_SOFTMAX_BWD, .type = CREMA_F32};
  const crema_shape *const shapes[4] = {NULL, &matrix23, NULL, &matrix22};
  ok(cr_op_describe(&softmax, 2, (const crema_shape *[]){&matrix22, &matrix22}, NULL, &desc));
  assert_fails(cr_op_create(&desc, &op), CREMA_E_INTERNAL, "softmax_bwd");
  assert_null(desc);
  const cr_op_desc product = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  ok(cr_op_describe(&product, 4, shapes, NULL, &desc));
  assert_int_equal(cr_op_create(&desc, &op), CREMA_E_INTERNAL);
  assert_null(op);

  cr_op *relu = make_relu(&vector4);
  cr_tensor *four = make(4, NULL), *two = make(2, NULL);
  assert_fails(cr_op_run(relu, host(), (cr_tensor *[]){four, two}, NULL), CREMA_E_INTERNAL,
               "unary_fwd");
  cr_op_destroy(relu);
  cr_tensor_destroy(four);
  cr_tensor_destroy(two);
  cr_op_destroy(NULL);
}

/* Descriptors are compared by their bytes: what lies behind the axes of a shape is not looked at.
 */
TEST(test_same_descriptors) {
  const cr_op_desc concat = {.kind = CR_OP_CONCAT, .type = CREMA_F32, .u.axis = 1};
  cr_op_desc along = concat, *made = NULL, *other = NULL;
  crema_shape part = matrix23, whole = {2, {2, 6}};
  const crema_shape *shapes[3] = {&part, &part, &whole};
  ok(cr_op_describe(&concat, 3, shapes, NULL, &made));
  part.dim[2] = 99;
  ok(cr_op_describe(&concat, 3, shapes, NULL, &other));
  assert_true(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  part.dim[1] = 4;
  ok(cr_op_describe(&concat, 3, shapes, NULL, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  part.dim[1] = 3;
  ok(cr_op_describe(&concat, 3, shapes, (const float[]){1, 1, 2}, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  ok(cr_op_describe(&concat, 2, shapes, NULL, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  along.u.axis = 0;
  ok(cr_op_describe(&along, 3, shapes, NULL, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  cr_op_desc_free(made);
}

/* Constants that an op has are a part of its descriptor. */
TEST(test_numbers) {
  const cr_op_desc concat = {.kind = CR_OP_CONCAT, .type = CREMA_F32, .u.axis = 1};
  const crema_shape *shapes[2] = {&matrix23, NULL};
  float number[5] = {1.5f, -2, 3, 4, 5};
  cr_op_desc *made = NULL, *other = NULL;
  ok(cr_op_describe_numbers(&concat, 2, shapes, NULL, 5, number, &made));
  assert_int_equal(made->numbers, 5);
  assert_memory_equal(cr_op_numbers(made), number, sizeof number);
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(made->arg[i].type, CREMA_F32);
    assert_true(made->arg[i].scale == 1);
  }
  assert_int_equal(made->arg[1].shape.axes, -1);
  ok(cr_op_desc_copy(made, &other));
  assert_true(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  ok(cr_op_describe_numbers(&concat, 2, shapes, NULL, 4, number, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  number[4] = 6;
  ok(cr_op_describe_numbers(&concat, 2, shapes, NULL, 5, number, &other));
  assert_false(cr_op_desc_same(made, other));
  cr_op_desc_free(other);
  cr_op_desc_free(made);
}

TEST(test_no_row) {
  cr_op_desc desc = {.kind = CR_OP_SOFTMAX_FWD, .type = CREMA_U8, .u.axis = 0};
  cr_op *op = op_make(&desc, 2, (const crema_shape *[]){&vector4, &vector4});
  cr_tensor *x = make(4, NULL), *y = make(4, NULL);
  assert_fails(cr_op_run(op, host(), (cr_tensor *[]){x, y}, NULL), CREMA_E_UNSUPPORTED,
               "softmax_fwd");
  cr_op_destroy(op);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
}

/* A device without a kernel has the op run on the CPU. It is counted each time, and said once. */
TEST(test_no_row_on_the_device) {
  static const cr_kernel *const none[] = {NULL};
  static log_lines lines;
  const cr_sim_options options = sim_test_options(1);
  sim_begin(&options);
  crema_device *device = sim_test_device(0);
  crema_context *context = sim_test_context(device);
  const cr_backend *own = device->backend;
  cr_backend without = *own;
  without.kernels = none;
  device->backend = &without;
  listen_to(&lines, CREMA_LOG_WARNING);
  const uint64_t before = cr_device_fallbacks(device);
  cr_op *relu = make_relu(&vector4);
  cr_tensor *x = make(4, (float[]){-1, 2, -3, 4}), *y = make(4, NULL), *z = NULL;
  for (int i = 1; i <= 3; ++i) {
    ok(cr_op_run(relu, context, (cr_tensor *[]){x, y}, NULL));
    assert_int_equal(cr_device_fallbacks(device), before + (uint64_t)i);
  }
  expect(y, 4, (float[]){0, 2, 0, 4});
  ok(cr_tensor_create(CREMA_F64, 4, &z)); /* another plan */
  ok(cr_op_run(relu, context, (cr_tensor *[]){x, z}, NULL));
  assert_int_equal(cr_device_fallbacks(device), before + 4);
  ok(cr_op_run(relu, host(), (cr_tensor *[]){x, y}, NULL));
  assert_int_equal(cr_device_fallbacks(device), before + 4);
  /* Nets have many ops of a kind. */
  cr_op *another = make_relu(&vector4);
  ok(cr_op_run(another, context, (cr_tensor *[]){x, y}, NULL));
  assert_int_equal(cr_device_fallbacks(device), before + 5);
  cr_op_destroy(another);
  stop_listening();
  assert_int_equal(lines.count, 1);
  assert_non_null(strstr(lines.text, "op unary_fwd has no kernel on "));
  cr_op_destroy(relu);
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
  cr_tensor_destroy(z);
  device->backend = own;
  crema_context_destroy(context);
  sim_end();
}

/* The text of a failure in a kernel names the label, its place and the classes, and no kernel. */
TEST(test_bad_label) {
  const crema_shape shape = {3, {2, 2, 1}}, label_shape = {2, {2, 1}};
  const cr_op_desc desc = {.kind = CR_OP_SOFTMAX_LOSS_FWD, .type = CREMA_F32};
  cr_op *op =
      op_make(&desc, 5, (const crema_shape *[]){&shape, &label_shape, &shape, &scalar1, &scalar1});
  cr_tensor *scores = make(4, (float[]){0.5f, 0.5f, 0.25f, 0.75f}), *prob = make(4, NULL);
  cr_tensor *label = make(2, (float[]){1, 7}), *loss = make(1, NULL), *count = make(1, NULL);
  cr_tensor *args[] = {scores, label, prob, loss, count};
  assert_fails(cr_op_run(op, host(), args, NULL), CREMA_E_RANGE,
               "label 7 at position 1 of 2 is outside 0..1: labels start at 0, and the scores have "
               "2 classes (num_output); ignore_label skips a label");
  assert_null(strstr(crema_error_text(), "softmax_loss_fwd"));
  cr_op_destroy(op);
  for (int i = 0; i < 5; ++i) cr_tensor_destroy(args[i]);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
