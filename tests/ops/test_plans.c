/* How an op chooses a kernel, keeps plans and resolves its arguments: on a back end whose kernels
 * are this test's. */
#include "each_allocation.h"

#include <string.h>

#include "core/fail.h"
#include "crema/log.h"
#include "device/backend/kernel.h"
#include "device/device.h"
#include "device/memory/scratchpad.h"
#include "device/registry.h"
#include "memory/tensor.h"
#include "ops/op.h"

enum { COUNT = 4, KERNELS = 3, LINES = 8 };

/* ---- a back end ---- */

/* What the kernels do and what was asked of them, by their index in the table. */
static struct {
  crema_status plans[KERNELS], runs[KERNELS]; /* what they return */
  crema_status ready;
  size_t workspace_bytes;
  int planned[KERNELS], ran[KERNELS], destroyed[KERNELS];
  int entered, left, asked;
  bool accumulate;
  crema_devptr workspace;
} now;

static int index_of(const cr_plan *plan) {
  return plan->kernel->name[0] - 'a';
}

static crema_status plan_it(cr_plan *plan) {
  int i = index_of(plan);
  ++now.planned[i];
  plan->workspace_bytes = now.workspace_bytes;
  return now.plans[i] == CREMA_OK ? CREMA_OK : cr_fail(now.plans[i], "kernel %d declines", i);
}

static void destroy_it(cr_plan *plan) {
  ++now.destroyed[index_of(plan)];
}

/* Writes 1, 2, 3, 4 into the last argument, or adds them to it. */
static crema_status run_it(const cr_call *call) {
  int i = index_of(call->plan), last = call->desc->args - 1;
  ++now.ran[i];
  now.accumulate = call->accumulate[last];
  now.workspace = call->workspace;
  if (now.runs[i] != CREMA_OK) return cr_fail(now.runs[i], "kernel %d fails", i);
  float *out = cr_f32(call->buffer, last);
  bool adds = call->accumulate[last] && call->plan->kernel->can_accumulate;
  for (int k = 0; k < COUNT; ++k) out[k] = (float)(k + 1) + (adds ? out[k] : 0);
  return CREMA_OK;
}

/* y += x, as the dispatcher asks for it. */
static crema_status run_axpby(const cr_call *call) {
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  assert_true(call->scalars->alpha == 1 && call->scalars->beta == 1);
  for (int k = 0; k < COUNT; ++k) y[k] += x[k];
  return CREMA_OK;
}

static crema_status is_ready(const cr_plan *plan, bool planning) {
  (void)plan;
  ++now.asked;
  if (planning || now.ready == CREMA_OK) return CREMA_OK;
  return cr_fail(now.ready, "not ready");
}

static int enter_plan(cr_plan *plan) {
  (void)plan;
  return ++now.entered;
}

static int enter_run(const cr_plan *plan) {
  (void)plan;
  return ++now.entered;
}

static void leave(int before) {
  assert_int_equal(before, now.entered);
  ++now.left;
}

static cr_kernel kernel[KERNELS + 1];
static const cr_kernel *const table[] = {&kernel[0], &kernel[1], &kernel[2], &kernel[3], NULL};
static cr_backend backend;
static crema_device device;
static crema_context *context;

static char heard[LINES][256];
static int lines;

static void hear(void *user, crema_log_level level, const char *file, int line, const char *text) {
  (void)user, (void)file, (void)line;
  if (level < CREMA_LOG_WARNING || lines == LINES) return;
  snprintf(heard[lines++], sizeof heard[0], "%s", text);
}

static int begin(void **state) {
  static const char *const name[] = {"a", "b", "c"};
  (void)state;
  memset(&now, 0, sizeof now);
  for (int i = 0; i < KERNELS; ++i) {
    kernel[i] = (cr_kernel){.name = name[i],
                            .op = CR_OP_UNARY_FWD,
                            .type = CREMA_F32,
                            .plan = plan_it,
                            .run = run_it,
                            .destroy = destroy_it};
  }
  kernel[KERNELS] =
      (cr_kernel){.name = "axpby", .op = CR_OP_AXPBY, .type = CREMA_F32, .run = run_axpby};
  backend = cr_backend_cpu;
  backend.name = "test";
  backend.kernels = table;
  backend.ready = is_ready;
  backend.enter_plan = enter_plan;
  backend.enter_run = enter_run;
  backend.leave = leave;
  device = (crema_device){.backend = &backend};
  lines = 0;
  crema_log_set(hear, NULL, CREMA_LOG_DEBUG);
  return crema_context_create(&device, 1, &context) == CREMA_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  crema_context_destroy(context);
  crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  return 0;
}

#define PLAN_TEST(name) TEST_BETWEEN(name, begin, end)

/* For the next row of a table. */
static void begin_anew(void) {
  end(NULL);
  assert_int_equal(begin(NULL), 0);
}

/* ---- an op ---- */

typedef struct example {
  cr_op *op;
  cr_tensor *x, *y;
} example;

static crema_status example_open(example *e, cr_op_kind kind) {
  const crema_shape shape = {1, {COUNT}};
  const crema_shape *const shapes[] = {&shape, &shape, &shape};
  const cr_op_desc given = {.kind = kind, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  *e = (example){NULL};
  CR_TRY(cr_op_describe(&given, kind == CR_OP_PRELU_BWD_SLOPE ? 3 : 2, shapes, NULL, &desc));
  CR_TRY(cr_op_create(&desc, &e->op));
  CR_TRY(cr_tensor_create(CREMA_F32, COUNT, &e->x));
  return cr_tensor_create(CREMA_F32, COUNT, &e->y);
}

static void example_close(example *e) {
  cr_op_destroy(e->op);
  cr_tensor_destroy(e->x);
  cr_tensor_destroy(e->y);
}

static example open_unary(void) {
  example e;
  assert_int_equal(example_open(&e, CR_OP_UNARY_FWD), CREMA_OK);
  return e;
}

static crema_status run_unary(example *e) {
  return cr_op_run(e->op, context, (cr_tensor *[]){e->x, e->y}, NULL);
}

static void expect_values(cr_tensor *tensor, float step) {
  const void *value = NULL;
  assert_int_equal(cr_tensor_host_read(tensor, &value), CREMA_OK);
  for (int k = 0; k < COUNT; ++k) {
    assert_true(((const float *)value)[k] == (float)(k + 1) * step);
  }
}

static void expect_counts(const int *found, int a, int b, int c) {
  assert_int_equal(found[0], a);
  assert_int_equal(found[1], b);
  assert_int_equal(found[2], c);
}

/* ---- the choice ---- */

PLAN_TEST(the_first_that_accepts_runs) {
  example e = open_unary();
  assert_string_equal(cr_op_kernel_name(e.op), "");
  now.plans[0] = CREMA_E_UNSUPPORTED;
  for (int i = 0; i < 3; ++i) assert_int_equal(run_unary(&e), CREMA_OK);
  assert_string_equal(cr_op_kernel_name(e.op), "b");
  expect_values(e.y, 1);
  expect_counts(now.planned, 1, 1, 0);
  expect_counts(now.ran, 0, 3, 0);
  /* Entered once per plan that was tried and once per run. */
  assert_int_equal(now.entered, 5);
  assert_int_equal(now.left, 5);
  assert_int_equal(lines, 0);
  example_close(&e);
  expect_counts(now.destroyed, 0, 1, 0);
}

PLAN_TEST(kernels_of_other_ops_and_types_are_not_asked) {
  kernel[0].type = CREMA_F64;
  kernel[1].op = CR_OP_COPY;
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_OK);
  expect_counts(now.planned, 0, 0, 1);
  example_close(&e);
}

PLAN_TEST(no_kernel_is_left) {
  for (int i = 0; i < KERNELS; ++i) now.plans[i] = CREMA_E_UNSUPPORTED;
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_E_UNSUPPORTED);
  assert_non_null(strstr(crema_error_text(), "op unary_fwd of type "));
  assert_non_null(strstr(crema_error_text(), "no kernel on test"));
  expect_counts(now.planned, 1, 1, 1);
  assert_int_equal(now.entered, now.left);
  example_close(&e);
  expect_counts(now.destroyed, 0, 0, 0);
}

/* A library that cannot be used leaves the op to the next kernel, with a warning; other failures of
 * its own, and any of crema's kernels, are the op's. */
PLAN_TEST(failures_to_plan) {
  static const struct {
    bool library;
    crema_status status;
    bool next;
  } rows[] = {{true, CREMA_E_NO_MEMORY, true},  {true, CREMA_E_DEVICE, true},
              {true, CREMA_E_INTERNAL, false},  {false, CREMA_E_NO_MEMORY, false},
              {false, CREMA_E_DEVICE, false},   {false, CREMA_E_UNSUPPORTED, true},
              {true, CREMA_E_UNSUPPORTED, true}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    begin_anew();
    kernel[0].library = rows[i].library;
    now.plans[0] = rows[i].status;
    example e = open_unary();
    assert_int_equal(run_unary(&e), rows[i].next ? CREMA_OK : rows[i].status);
    expect_counts(now.ran, 0, rows[i].next, 0);
    bool warned = rows[i].next && rows[i].status != CREMA_E_UNSUPPORTED;
    assert_int_equal(lines, warned);
    if (warned) {
      assert_string_equal(heard[0], "a cannot be used, another kernel is tried: kernel 0 declines");
    }
    if (!rows[i].next) assert_string_equal(crema_error_text(), "op a: kernel 0 declines");
    example_close(&e);
  }
}

PLAN_TEST(a_failed_run_names_the_op) {
  example e = open_unary();
  now.runs[0] = CREMA_E_RANGE;
  assert_int_equal(run_unary(&e), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "op a: kernel 0 fails");
  assert_int_equal(now.entered, now.left);
  now.runs[0] = CREMA_OK;
  assert_int_equal(run_unary(&e), CREMA_OK);
  expect_counts(now.planned, 1, 0, 0);
  example_close(&e);
}

/* ---- plans that are kept ---- */

/* The values of x are held in plain memory of this type. */
static void hold_in(cr_tensor *x, crema_dtype type) {
  crema_devptr data = {0};
  assert_int_equal(cr_tensor_write(x, context, (cr_format){type, NULL}, &data), CREMA_OK);
  memset((void *)data.address, 0, (size_t)COUNT * crema_dtype_size(type));
}

/* Four, for formats in which arguments are held by turns; the oldest makes room. */
PLAN_TEST(plans_are_kept_for_formats) {
  static const crema_dtype type[] = {CREMA_F32, CREMA_F64, CREMA_F16, CREMA_BF16, CREMA_U8};
  kernel[0].follows_hints = true;
  example e = open_unary();
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 4; ++i) {
      hold_in(e.x, type[i]);
      assert_int_equal(run_unary(&e), CREMA_OK);
    }
    expect_counts(now.planned, 4, 0, 0);
  }
  expect_counts(now.destroyed, 0, 0, 0);
  /* A fifth takes the place of the first, which then takes that of the second. */
  for (int i = 0; i < 2; ++i) {
    hold_in(e.x, type[i == 0 ? 4 : 0]);
    assert_int_equal(run_unary(&e), CREMA_OK);
    expect_counts(now.planned, 5 + i, 0, 0);
    expect_counts(now.destroyed, 1 + i, 0, 0);
  }
  for (int i = 2; i < 5; ++i) {
    hold_in(e.x, type[i]);
    assert_int_equal(run_unary(&e), CREMA_OK);
  }
  expect_counts(now.planned, 6, 0, 0);
  example_close(&e);
  expect_counts(now.destroyed, 6, 0, 0);
}

PLAN_TEST(one_plan_serves_kernels_that_ignore_formats) {
  example e = open_unary();
  hold_in(e.x, CREMA_F32);
  assert_int_equal(run_unary(&e), CREMA_OK);
  hold_in(e.x, CREMA_F16);
  assert_int_equal(run_unary(&e), CREMA_OK);
  expect_counts(now.planned, 1, 0, 0);
  example_close(&e);
}

/* Another device of the same back end has a plan of its own. */
PLAN_TEST(devices_have_plans_of_their_own) {
  crema_device second = {.backend = &backend, .index = 1};
  crema_context *first = context, *other = NULL;
  assert_int_equal(crema_context_create(&second, 1, &other), CREMA_OK);
  example e = open_unary();
  for (int i = 0; i < 6; ++i) {
    context = i % 2 == 0 ? first : other;
    assert_int_equal(run_unary(&e), CREMA_OK);
  }
  context = first;
  expect_counts(now.planned, 2, 0, 0);
  expect_counts(now.ran, 6, 0, 0);
  example_close(&e);
  expect_counts(now.destroyed, 2, 0, 0);
  crema_context_destroy(other);
}

/* A plan that may no longer run is given up for the next kernel that may; a failure is the op's. */
PLAN_TEST(plans_that_are_not_ready) {
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_OK);
  now.ready = CREMA_E_NO_MEMORY;
  assert_int_equal(run_unary(&e), CREMA_E_NO_MEMORY);
  assert_string_equal(crema_error_text(), "op a: not ready");
  expect_counts(now.destroyed, 0, 0, 0);
  now.ready = CREMA_E_UNSUPPORTED;
  now.plans[0] = CREMA_E_UNSUPPORTED;
  assert_int_equal(run_unary(&e), CREMA_OK);
  assert_string_equal(cr_op_kernel_name(e.op), "b");
  expect_counts(now.planned, 2, 1, 0);
  expect_counts(now.destroyed, 1, 0, 0);
  expect_counts(now.ran, 1, 1, 0);
  example_close(&e);
  expect_counts(now.destroyed, 1, 1, 0);
}

/* ---- arguments ---- */

static crema_status run_slope(example *e) {
  return cr_op_run(e->op, context, (cr_tensor *[]){e->x, e->x, e->y}, NULL);
}

/* The gradient of a slope is added to what is there: by the kernel, or else by the dispatcher.
 * Zeros are overwritten. */
PLAN_TEST(gradients_are_added) {
  for (int adds = 0; adds < 2; ++adds) {
    begin_anew();
    kernel[0].op = CR_OP_PRELU_BWD_SLOPE;
    kernel[0].can_accumulate = adds;
    example e;
    assert_int_equal(example_open(&e, CR_OP_PRELU_BWD_SLOPE), CREMA_OK);
    for (int i = 1; i <= 3; ++i) {
      assert_int_equal(run_slope(&e), CREMA_OK);
      assert_int_equal(now.accumulate, i > 1);
      expect_values(e.y, (float)i);
    }
    cr_tensor_set_zero(e.y);
    assert_int_equal(run_slope(&e), CREMA_OK);
    assert_false(now.accumulate);
    expect_values(e.y, 1);
    example_close(&e);
  }
}

/* Only kernels that want a workspace get one. */
PLAN_TEST(workspaces) {
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_OK);
  assert_int_equal(now.workspace.address, 0);
  example_close(&e);
  now.workspace_bytes = 1000;
  e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_OK);
  assert_true(now.workspace.address != 0);
  memset((void *)now.workspace.address, 1, 1000);
  example_close(&e);
}

/* ---- memory that runs out ---- */

static crema_status make_and_run(void *user) {
  const cr_op_kind kind = *(const cr_op_kind *)user;
  example e;
  crema_status status = example_open(&e, kind);
  for (int i = 0; i < 2 && status == CREMA_OK; ++i) {
    status = kind == CR_OP_UNARY_FWD ? run_unary(&e) : run_slope(&e);
  }
  if (status == CREMA_OK) expect_values(e.y, kind == CR_OP_UNARY_FWD ? 1 : 2);
  example_close(&e);
  return status;
}

PLAN_TEST(every_allocation_fails) {
  cr_op_kind unary = CR_OP_UNARY_FWD, slope = CR_OP_PRELU_BWD_SLOPE;
  each_allocation_fails("an op", make_and_run, &unary, CREMA_OK, 15);
  kernel[0].op = slope;
  each_allocation_fails("an op that adds", make_and_run, &slope, CREMA_OK, 25);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
