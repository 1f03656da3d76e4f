/* Which kernels the dispatcher takes for tensors of which element types, and what it converts. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "device/backend/convert.h"
#include "device/memory/heap.h"
#include "memory/tensor_help.h"
#include "memory/trace.h"
#include "ops/op.h"

/* A tensor of `count` values, each `value`. */
static cr_tensor *make(crema_dtype type, int64_t count, double value) {
  cr_tensor *tensor = NULL;
  void *to = NULL;
  ok(cr_tensor_create(type, count, &tensor));
  ok(cr_tensor_host_write(tensor, &to));
  const size_t size = crema_dtype_size(type);
  for (int64_t i = 0; i < count; ++i) {
    ok(cr_convert_plain(1, type, (char *)to + (size_t)i * size, CREMA_F64, &value));
  }
  return tensor;
}

static void expect(cr_tensor *tensor, double wanted) {
  const void *values = NULL;
  const crema_dtype type = cr_tensor_type(tensor);
  ok(cr_tensor_host_read(tensor, &values));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) {
    double value = 0;
    const char *at = (const char *)values + (size_t)i * crema_dtype_size(type);
    ok(cr_convert_plain(1, CREMA_F64, &value, type, at));
    if (value != wanted) fail_msg("element %d is %g, not %g", (int)i, value, wanted);
  }
}

/* Whether the tensor holds its values in its own element type alone. Memory is for an even number
 * of elements. */
static bool is_not_converted(const cr_tensor *tensor) {
  const int64_t count = cr_tensor_count(tensor), even = count + count % 2;
  return bytes_of_tensor(tensor) == (size_t)even * crema_dtype_size(cr_tensor_type(tensor));
}

/* Makes an op for these shapes and runs it on the tensors. */
static cr_op *run(cr_op_desc given, int args, const crema_shape *const *shape,
                  cr_tensor *const *tensor, const cr_op_scalars *scalars) {
  cr_op *op = NULL;
  cr_op_desc *desc = NULL;
  given.type = CREMA_F32;
  ok(cr_op_describe(&given, args, shape, NULL, &desc));
  ok(cr_op_create(&desc, &op));
  ok(cr_op_run(op, cr_host_context(), tensor, scalars));
  return op;
}

static void destroy(cr_op *op, int tensors, cr_tensor **tensor) {
  cr_op_destroy(op);
  for (int i = 0; i < tensors; ++i) cr_tensor_destroy(tensor[i]);
}

static const crema_shape vector8 = {1, {8}}, scalar1 = {1, {1}};

/* x y into z, each of its own type. */
static void expect_product(crema_dtype x, crema_dtype y, crema_dtype z, const char *kernel,
                           bool converts) {
  cr_tensor *tensor[] = {make(x, 8, 1.5), make(y, 8, -3), make(z, 8, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_PROD}, 3,
                  (const crema_shape *[]){&vector8, &vector8, &vector8}, tensor, NULL);
  assert_string_equal(cr_op_kernel_name(op), kernel);
  bool kept = true;
  for (int i = 0; i < 3; ++i) kept = kept && is_not_converted(tensor[i]);
  assert_int_equal(kept, !converts);
  expect(tensor[2], -4.5);
  destroy(op, 3, tensor);
}

TEST(values_of_one_type_are_taken_as_they_are) {
  expect_product(CREMA_F32, CREMA_F32, CREMA_F32, "prod_f32_ref", false);
  expect_product(CREMA_F64, CREMA_F64, CREMA_F64, "prod_f64_ref", false);
}

/* The plain kernels compute in F32 and F64. */
TEST(halves_and_mixed_values_are_converted_to_f32) {
  expect_product(CREMA_F16, CREMA_F16, CREMA_F16, "prod_f32_ref", true);
  expect_product(CREMA_BF16, CREMA_BF16, CREMA_BF16, "prod_f32_ref", true);
  expect_product(CREMA_F16, CREMA_F32, CREMA_F16, "prod_f32_ref", true);
  expect_product(CREMA_F16, CREMA_BF16, CREMA_F32, "prod_f32_ref", true);
  expect_product(CREMA_F16, CREMA_F16, CREMA_F32, "prod_f32_ref", true);
}

TEST(one_f64_among_the_values_makes_the_op_f64) {
  expect_product(CREMA_F64, CREMA_F32, CREMA_F32, "prod_f64_ref", true);
  expect_product(CREMA_F16, CREMA_BF16, CREMA_F64, "prod_f64_ref", true);
}

/* The same op on other tensors. */
TEST(types_may_change_between_runs) {
  cr_tensor *wide[] = {make(CREMA_F64, 8, 2), make(CREMA_F64, 8, 5), make(CREMA_F64, 8, 0)};
  cr_tensor *full[] = {make(CREMA_F32, 8, 3), make(CREMA_F32, 8, 5), make(CREMA_F32, 8, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_PROD}, 3,
                  (const crema_shape *[]){&vector8, &vector8, &vector8}, wide, NULL);
  ok(cr_op_run(op, cr_host_context(), full, NULL));
  assert_string_equal(cr_op_kernel_name(op), "prod_f32_ref");
  ok(cr_op_run(op, cr_host_context(), wide, NULL));
  assert_string_equal(cr_op_kernel_name(op), "prod_f64_ref");
  expect(wide[2], 10);
  expect(full[2], 15);
  assert_true(is_not_converted(wide[0]) && is_not_converted(full[0]));
  destroy(op, 3, wide);
  destroy(NULL, 3, full);
}

TEST(updates_in_halves_are_converted) {
  const cr_op_scalars scalars = {.rate = 0.5f, .grad_scale = 1};
  cr_tensor *tensor[] = {make(CREMA_F16, 8, 3), make(CREMA_F16, 8, 1), make(CREMA_F16, 8, 0), NULL};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_UPDATE}, 4,
                  (const crema_shape *[]){&vector8, &vector8, &vector8, NULL}, tensor, &scalars);
  assert_string_equal(cr_op_kernel_name(op), "update_f32_ref");
  expect(tensor[0], 2.5);
  expect(tensor[2], 0.5);
  destroy(op, 3, tensor);
}

/* By the library where it can, else in full precision. */
TEST(convolutions_in_halves_have_no_plain_kernel) {
  const crema_shape image = {4, {1, 2, 4, 4}}, filter = {4, {3, 2, 1, 1}}, out = {4, {1, 3, 4, 4}};
  const cr_op_desc desc = {.kind = CR_OP_CONV_FWD,
                           .u.conv = {.window = {2, {1, 1}, {1, 1}, {0, 0}, {1, 1}}, .group = 1}};
  cr_tensor *tensor[] = {make(CREMA_F16, 32, 3), make(CREMA_F16, 6, 0.5), NULL,
                         make(CREMA_F16, 48, 0)};
  cr_op *op = run(desc, 4, (const crema_shape *[]){&image, &filter, NULL, &out}, tensor, NULL);
  assert_null(strstr(cr_op_kernel_name(op), "f16_ref"));
  expect(tensor[3], 3);
  destroy(op, 4, tensor);
}

/* Scores of `type`, which are all the same, labels and loss in F32: the count is exact, and so is
 * the label 2049, which no half holds. */
static void run_loss(crema_dtype type, const char *kernel, cr_tensor *label) {
  enum { CLASSES = 2050 };
  const crema_shape shape = {3, {1, CLASSES, 1}}, label_shape = {2, {1, 1}};
  cr_tensor *tensor[] = {make(type, CLASSES, 1), label, make(type, CLASSES, 9),
                         make(CREMA_F32, 1, 9), make(CREMA_F32, 1, 9)};
  double loss = 0;
  cr_op *op =
      run((cr_op_desc){.kind = CR_OP_SOFTMAX_LOSS_FWD}, 5,
          (const crema_shape *[]){&shape, &label_shape, &shape, &scalar1, &scalar1}, tensor, NULL);
  assert_string_equal(cr_op_kernel_name(op), kernel);
  ok(cr_tensor_host_value(tensor[3], &loss));
  assert_true(fabs(loss - log(CLASSES)) < 1e-5);
  expect(tensor[4], 1);
  cr_tensor_destroy(tensor[0]);
  destroy(op, 3, tensor + 2);
}

TEST(labels_are_of_the_arithmetics_type) {
  cr_tensor *label = make(CREMA_F32, 1, 2049);
  run_loss(CREMA_F16, "softmax_loss_fwd_fast", label);
  run_loss(CREMA_BF16, "softmax_loss_fwd_fast", label);
  assert_true(is_not_converted(label));
  run_loss(CREMA_F64, "softmax_loss_fwd_f64_ref", label);
  assert_false(is_not_converted(label));
  cr_tensor_destroy(label);
}

TEST(copies_take_halves_as_they_are) {
  const crema_shape *const shape[] = {&vector8, &vector8};
  cr_tensor *same[] = {make(CREMA_F16, 8, 1.25), make(CREMA_F16, 8, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_COPY}, 2, shape, same, NULL);
  expect(same[1], 1.25);
  assert_true(is_not_converted(same[0]) && is_not_converted(same[1]));
  destroy(op, 2, same);
  cr_tensor *other[] = {make(CREMA_F16, 8, 1.25), make(CREMA_F32, 8, 0)};
  op = run((cr_op_desc){.kind = CR_OP_COPY}, 2, shape, other, NULL);
  expect(other[1], 1.25);
  destroy(op, 2, other);
}

/* In arithmetic of their own; f32 has no 2^24 + 1. */
TEST(integers_are_copied_as_integers) {
  const crema_shape *shape[] = {&vector8, &vector8};
  cr_tensor *tensor[] = {make(CREMA_I32, 8, 16777217), make(CREMA_I32, 8, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_COPY}, 2, shape, tensor, NULL);
  assert_string_equal(cr_op_kernel_name(op), "copy_i32_ref");
  expect(tensor[1], 16777217);
  destroy(op, 2, tensor);
}

/* ---- lists of commands --------------------------------------------------- */

/* A pass as a net makes it: from the list, or recorded. Whether it came from the list. */
static bool make_pass(cr_trace *commands, crema_context *context, cr_op *op,
                      cr_tensor *const *tensor) {
  bool ran = false;
  int layer = 0;
  ok(cr_trace_run(commands, context, &ran, &layer));
  if (ran) return true;
  cr_heap_rest(context);
  cr_trace_begin(commands, context);
  crema_status status = cr_op_run(op, context, tensor, NULL);
  cr_trace_end(commands, context, status == CREMA_OK);
  ok(status);
  return false;
}

/* What an op computes is computed again by a list that has recorded it. */
TEST(calls_are_recorded) {
  const crema_shape *shape[] = {&vector8, &vector8};
  cr_tensor *tensor[] = {make(CREMA_F32, 8, 3), make(CREMA_F32, 8, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_COPY}, 2, shape, tensor, NULL);
  crema_context *context = NULL;
  cr_trace *commands = NULL;
  void *values = NULL;
  int passes = 0;
  ok(crema_context_create(cr_cpu_device(), 1, &context));
  ok(cr_heap_open(context));
  ok(cr_trace_create(&commands));
  while (passes < 5 && !make_pass(commands, context, op, tensor)) ++passes;
  assert_in_range(passes, 2, 4);
  ok(cr_tensor_host_write(tensor[0], &values));
  for (int i = 0; i < 8; ++i) ((float *)values)[i] = 5;
  assert_true(make_pass(commands, context, op, tensor));
  expect(tensor[1], 5);
  cr_trace_destroy(commands);
  destroy(op, 2, tensor);
  cr_heap_close(context);
  crema_context_destroy(context);
}

/* ---- sums of halves ------------------------------------------------------ */

/* Where halves of one are added up in an array of bfloat16, the sum does not pass 256. */
enum { TERMS = 300 };

TEST(rows_of_halves_are_summed_in_full_precision) {
  const crema_shape from = {2, {TERMS, 1}}, index = {1, {TERMS}}, to = {2, {4, 1}};
  const crema_shape *const shape[] = {&from, &index, &to};
  cr_tensor *tensor[] = {make(CREMA_BF16, TERMS, 1), make(CREMA_F32, TERMS, 0),
                         make(CREMA_BF16, 4, 7)};
  /* Twice: first in place of what is there, then on top. */
  cr_tensor_set_zero(tensor[2]);
  cr_op *op = run((cr_op_desc){.kind = CR_OP_GATHER_BWD}, 3, shape, tensor, NULL);
  assert_string_equal(cr_op_kernel_name(op), "gather_bwd_f32_ref");
  ok(cr_op_run(op, cr_host_context(), tensor, NULL));
  const void *values = NULL;
  double sum[4];
  ok(cr_tensor_host_read(tensor[2], &values));
  ok(cr_convert_plain(4, CREMA_F64, sum, CREMA_BF16, values));
  assert_true(sum[0] == 2 * TERMS && sum[1] == 0 && sum[3] == 0);
  destroy(op, 3, tensor);
}

/* A window of TERMS elements over one that is padded: each position sees it. */
static const cr_window wide = {1, {TERMS}, {1}, {TERMS - 1}, {1}};
static const crema_shape one_element = {3, {1, 1, 1}}, positions = {3, {1, 1, TERMS}};

TEST(averages_of_halves_are_spread_in_full_precision) {
  const cr_op_desc desc = {.kind = CR_OP_POOL_BWD,
                           .u.pool = {.window = wide, .method = CR_POOL_AVERAGE}};
  cr_tensor *tensor[] = {make(CREMA_BF16, TERMS, TERMS), NULL, make(CREMA_BF16, 1, 0)};
  cr_op *op = run(desc, 3, (const crema_shape *[]){&positions, NULL, &one_element}, tensor, NULL);
  expect(tensor[2], TERMS);
  destroy(op, 3, tensor);
}

TEST(columns_of_halves_are_summed_in_full_precision) {
  const crema_shape columns = {3, {1, TERMS, TERMS}};
  cr_tensor *tensor[] = {make(CREMA_BF16, (int64_t)TERMS * TERMS, 1), make(CREMA_BF16, 1, 0)};
  cr_op *op = run((cr_op_desc){.kind = CR_OP_COL2IM, .u.window = wide}, 2,
                  (const crema_shape *[]){&columns, &one_element}, tensor, NULL);
  assert_string_equal(cr_op_kernel_name(op), "col2im_f32_ref");
  expect(tensor[1], TERMS);
  destroy(op, 2, tensor);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
