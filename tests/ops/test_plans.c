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
#include "ops/plan_cache.h"

enum { COUNT = 4, KERNELS = 3, LINES = 8 };

/* ---- a back end ---- */

/* What the kernels do and what was asked of them, by their index in the table. */
static struct {
  crema_status plans[KERNELS], runs[KERNELS]; /* what they return */
  crema_status ready;
  size_t workspace_bytes;
  int posts[KERNELS]; /* how many post operations they take at most; below 0: they decline */
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
  const cr_posts *posts = cr_op_posts(plan->desc);
  if (cr_posts_count(posts) > now.posts[i]) return cr_fail(CREMA_E_UNSUPPORTED, "too many");
  if (plan->desc->args > CR_ARG_ADDEND) {
    assert_int_equal(plan->desc->arg[CR_ARG_ADDEND].shape.axes >= 0, cr_posts_add(posts));
  }
  return now.plans[i] == CREMA_OK ? CREMA_OK : cr_fail(now.plans[i], "kernel %d declines", i);
}

static void destroy_it(cr_plan *plan) {
  ++now.destroyed[index_of(plan)];
}

/* Writes 1, 2, 3, 4 into the last argument that is not an addend, or adds them to it. */
static crema_status run_it(const cr_call *call) {
  int i = index_of(call->plan), last = call->desc->args - 1;
  if (last == CR_ARG_ADDEND) last = CR_ARG_RESULT;
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

/* Linear functions, as they follow another kernel. */
static crema_status run_linear(const cr_call *call) {
  const float *x = cr_f32(call->buffer, 0);
  float *y = cr_f32(call->buffer, 1);
  ++now.ran[index_of(call->plan)];
  assert_int_equal(call->desc->u.unary.function, CR_UNARY_POWER);
  assert_true(call->desc->u.unary.alpha == 1);
  for (int k = 0; k < COUNT; ++k) {
    y[k] = (float)call->desc->u.unary.beta * x[k] + (float)call->desc->u.unary.gamma;
  }
  return CREMA_OK;
}

static crema_status run_sum(const cr_call *call) {
  float *y = cr_f32(call->buffer, 2);
  for (int k = 0; k < COUNT; ++k) y[k] = cr_f32(call->buffer, 0)[k] + cr_f32(call->buffer, 1)[k];
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

static cr_kernel kernel[KERNELS + 2];
static const cr_kernel *const table[] = {&kernel[0], &kernel[1], &kernel[2],
                                         &kernel[3], &kernel[4], NULL};
static int thread_limit;

static int threads_of(const crema_context *asking) {
  (void)asking;
  return thread_limit;
}

static const cr_host_scheduler scheduler = {
    .threads = threads_of, .enter_plan = enter_plan, .enter_run = enter_run, .leave = leave};

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
    now.posts[i] = CR_POSTS;
  }
  thread_limit = 1;
  kernel[KERNELS + 1] =
      (cr_kernel){.name = "sum", .op = CR_OP_SUM, .type = CREMA_F32, .run = run_sum};
  kernel[KERNELS] =
      (cr_kernel){.name = "axpby", .op = CR_OP_AXPBY, .type = CREMA_F32, .run = run_axpby};
  backend = cr_backend_cpu;
  backend.name = "test";
  backend.kernels = table;
  backend.ready = is_ready;
  backend.scheduler = &scheduler;
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
  *e = (example){0};
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

static crema_status fail_to_open(const cr_plan *plan, void **execution) {
  (void)plan, (void)execution;
  return cr_fail(CREMA_E_NO_MEMORY, "kernel 0 does not open");
}

PLAN_TEST(a_failure_to_open_names_the_op) {
  kernel[0].open = fail_to_open;
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_E_NO_MEMORY);
  assert_string_equal(crema_error_text(), "op a: kernel 0 does not open");
  expect_counts(now.ran, 0, 0, 0);
  example_close(&e);
  expect_counts(now.destroyed, 1, 0, 0);
}

PLAN_TEST(a_failed_run_names_the_op) {
  example e = open_unary();
  now.runs[0] = CREMA_E_DEVICE;
  assert_int_equal(run_unary(&e), CREMA_E_DEVICE);
  assert_string_equal(crema_error_text(), "op a: kernel 0 fails");
  now.runs[0] = CREMA_E_RANGE; /* values of the caller */
  assert_int_equal(run_unary(&e), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "kernel 0 fails");
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

/* So has another number of threads. */
PLAN_TEST(numbers_of_threads_have_plans_of_their_own) {
  example e = open_unary();
  for (int i = 0; i < 6; ++i) {
    thread_limit = 1 + i % 3;
    assert_int_equal(run_unary(&e), CREMA_OK);
  }
  expect_counts(now.planned, 3, 0, 0);
  example_close(&e);
}

/* A plan depends on how the values are held that are read, also of what is changed, but not on how
 * those were that are written. */
PLAN_TEST(what_is_only_written_may_be_held_in_any_format) {
  static const crema_dtype type[] = {CREMA_F32, CREMA_F16, CREMA_F64};
  kernel[0].follows_hints = true;
  example e = open_unary();
  for (int i = 0; i < 3; ++i) {
    hold_in(e.y, type[i]);
    assert_int_equal(run_unary(&e), CREMA_OK);
  }
  expect_counts(now.planned, 1, 0, 0);
  example_close(&e);
  kernel[0].op = CR_OP_AXPBY;
  assert_int_equal(example_open(&e, CR_OP_AXPBY), CREMA_OK);
  hold_in(e.x, CREMA_F32);
  for (int i = 0; i < 3; ++i) {
    hold_in(e.y, type[i]);
    const cr_op_scalars add = {.alpha = 1, .beta = 1};
    assert_int_equal(cr_op_run(e.op, context, (cr_tensor *[]){e.x, e.y}, &add), CREMA_OK);
  }
  expect_counts(now.planned, 4, 0, 0);
  example_close(&e);
}

/* A plan from the cache that may no longer run is replaced there, too. */
PLAN_TEST(kept_plans_that_are_not_ready) {
  cr_plan_cache *cache = NULL;
  ok(cr_plan_cache_create(4, &cache));
  cr_context_set_plans(context, cache);
  example e[4];
  for (int i = 0; i < 4; ++i) e[i] = open_unary();
  assert_int_equal(run_unary(&e[0]), CREMA_OK);
  now.ready = CREMA_E_NO_MEMORY;
  assert_says(run_unary(&e[1]), CREMA_E_NO_MEMORY, "op a: not ready");
  expect_counts(now.planned, 1, 0, 0);
  now.ready = CREMA_OK;
  assert_int_equal(run_unary(&e[1]), CREMA_OK);
  expect_counts(now.planned, 1, 0, 0);
  assert_int_equal(cr_plan_cache_count(cache).found, 2);
  now.ready = CREMA_E_UNSUPPORTED;
  now.plans[0] = CREMA_E_UNSUPPORTED;
  assert_int_equal(run_unary(&e[2]), CREMA_OK);
  assert_string_equal(cr_op_kernel_name(e[2].op), "b");
  now.ready = CREMA_OK;
  assert_int_equal(run_unary(&e[3]), CREMA_OK);
  assert_string_equal(cr_op_kernel_name(e[3].op), "b");
  expect_counts(now.planned, 2, 1, 0);
  assert_int_equal(cr_plan_cache_count(cache).held, 1);
  for (int i = 0; i < 4; ++i) example_close(&e[i]);
  cr_plan_cache_destroy(cache);
  cr_context_set_plans(context, NULL);
  expect_counts(now.destroyed, 1, 1, 0);
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

/* ---- post operations ---- */

/* An inner product, followed by 2 x + 0.5, an addition and 3 x. */
typedef struct followed {
  cr_op *op;
  cr_tensor *x, *weights, *bias, *y, *addend;
} followed;

static const cr_posts three_posts = {{{CR_POST_UNARY, CR_UNARY_POWER, 1, 2, 0.5},
                                      {.kind = CR_POST_ADD},
                                      {CR_POST_UNARY, CR_UNARY_POWER, 1, 3, 0}}};

static void set_tens(cr_tensor *tensor) {
  void *value = NULL;
  ok(cr_tensor_host_write(tensor, &value));
  for (int k = 0; k < COUNT; ++k) ((float *)value)[k] = 10;
}

/* a: a library's kernel, b: one of our own, c: the linear functions. */
static followed open_followed(int numbers) {
  const crema_shape row = {2, {1, COUNT}}, square = {2, {COUNT, COUNT}}, line = {1, {COUNT}};
  const crema_shape *const shapes[] = {&row, &square, &line, &row, &row};
  static const float number[COUNT] = {1, 1, 1, 1};
  cr_op_desc given = {.kind = numbers > 0 ? CR_OP_IP_INT8 : CR_OP_IP_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  followed f = {0};
  given.u.ip.posts = three_posts;
  ok(cr_op_describe_numbers(&given, 5, shapes, NULL, numbers, number, &desc));
  ok(cr_op_create(&desc, &f.op));
  ok(cr_tensor_create(CREMA_F32, COUNT, &f.x));
  ok(cr_tensor_create(CREMA_F32, COUNT * COUNT, &f.weights));
  ok(cr_tensor_create(CREMA_F32, COUNT, &f.bias));
  ok(cr_tensor_create(CREMA_F32, COUNT, &f.y));
  ok(cr_tensor_create(CREMA_F32, COUNT, &f.addend));
  set_tens(f.y);
  set_tens(f.addend);
  kernel[0].op = kernel[1].op = given.kind;
  kernel[0].library = true;
  kernel[2].run = run_linear;
  return f;
}

static void close_followed(followed *f) {
  cr_op_destroy(f->op);
  cr_tensor_destroy(f->x);
  cr_tensor_destroy(f->weights);
  cr_tensor_destroy(f->bias);
  cr_tensor_destroy(f->y);
  cr_tensor_destroy(f->addend);
}

static crema_status run_followed(followed *f, bool in_place) {
  cr_tensor *args[] = {f->x, f->weights, f->bias, f->y, in_place ? f->y : f->addend};
  return cr_op_run(f->op, context, args, NULL);
}

/* What ops make of 1, 2, 3, 4 when the kernel applies the first `taken` functions. */
static void expect_followed(const followed *f, int taken) {
  const void *value = NULL;
  ok(cr_tensor_host_read(f->y, &value));
  for (int k = 0; k < COUNT; ++k) {
    float want = (float)(k + 1);
    if (taken < 1) want = 2 * want + 0.5f;
    if (taken < 2) want += 10;
    if (taken < 3) want *= 3;
    assert_float_equal(((const float *)value)[k], want, 0);
  }
}

/* The library's kernel with as many of the functions as it takes, the others as ops; one of our own
 * with all only where the library has none at all. */
PLAN_TEST(a_library_takes_some_post_operations) {
  for (int most = -1; most <= 3; ++most) {
    for (int in_place = 0; in_place < 2; ++in_place) {
      begin_anew();
      followed f = open_followed(0);
      now.posts[0] = most;
      ok(run_followed(&f, in_place));
      if (most < 0) {
        assert_string_equal(cr_op_kernel_name(f.op), "b");
        expect_followed(&f, 3);
        expect_counts(now.planned, 5, 5, 0);
        expect_counts(now.destroyed, 0, 4, 0);
      } else {
        assert_string_equal(cr_op_kernel_name(f.op), "a");
        expect_followed(&f, most);
        expect_counts(now.planned, 4 - most, 3 - most, (most < 1) + (most < 3));
        expect_counts(now.destroyed, 0, 3 - most, 0);
        /* The addend is what it was. */
        if (!in_place) set_tens(f.y);
        if (!in_place) ok(run_followed(&f, false));
        if (!in_place) expect_followed(&f, most);
      }
      assert_int_equal(now.entered, now.left);
      close_followed(&f);
    }
  }
}

/* No fewer functions are tried where no library declines, where all kernels decline, and before a
 * result is rounded. */
PLAN_TEST(post_operations_are_not_split) {
  followed f = open_followed(0);
  kernel[0].library = false;
  now.posts[0] = 1;
  ok(run_followed(&f, false));
  assert_string_equal(cr_op_kernel_name(f.op), "b");
  expect_counts(now.planned, 1, 1, 0);
  close_followed(&f);
  begin_anew();
  f = open_followed(0);
  now.posts[0] = now.posts[1] = 2;
  assert_int_equal(run_followed(&f, false), CREMA_E_UNSUPPORTED);
  expect_counts(now.planned, 1, 1, 0);
  close_followed(&f);
  begin_anew();
  f = open_followed(COUNT);
  now.posts[0] = 2;
  ok(run_followed(&f, false));
  assert_string_equal(cr_op_kernel_name(f.op), "b");
  expect_counts(now.planned, 1, 1, 0);
  expect_followed(&f, 3);
  close_followed(&f);
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

/* Kernels on the host that want none get an address all the same, which they may compute with. */
PLAN_TEST(workspaces) {
  example e = open_unary();
  assert_int_equal(run_unary(&e), CREMA_OK);
  assert_true(now.workspace.address != 0 && now.workspace.address % _Alignof(double) == 0);
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
