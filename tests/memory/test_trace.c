/* Traces of passes: what they record, what makes them count, and what running one does. */
#include "memory/trace.h"

#include "device/backend/kernel.h"
#include "device/memory/heap.h"
#include "device/memory/scratchpad.h"
#include "memory/reversed_fixture.h"
#include "memory/sim_fixture.h"

enum { MOST_TRIES = 8, ENOUGH = 4, MANY = 60, WORKSPACE = 4096 };

/* ---- ops ----------------------------------------------------------------- */

/* y = 2 x + 1 in whatever formats the plan says. */
typedef struct twice {
  cr_kernel kernel;
  cr_plan plan;
  cr_format format[2];
} twice;

static struct {
  int runs;
  crema_status status;
  int entered, left; /* what enter_run returned last, what leave was given last */
  int threads;
  crema_status ready;
  const cr_plan *asked; /* by ready */
} seen;

static crema_status run_twice(const cr_call *call) {
  const cr_format from = call->plan->format[0], to = call->plan->format[1];
  ++seen.runs;
  if (seen.status != CREMA_OK) return cr_fail(seen.status, "injected");
  assert_ptr_equal(call->execution, call->plan->state);
  assert_int_equal(call->workspace.address != 0, call->plan->workspace_bytes > 0);
  if (call->plan->workspace_bytes > 0) {
    memset((void *)call->workspace.address, 0x5a, call->plan->workspace_bytes);
  }
  for (int i = 0; i < COUNT; ++i) {
    const double x = get(from.type, call->buffer[0].address, from.layout ? COUNT - 1 - i : i);
    set(to.type, call->buffer[1].address, to.layout ? COUNT - 1 - i : i, 2 * x + 1);
  }
  return CREMA_OK;
}

static int threads_now(const crema_context *context) {
  (void)context;
  return seen.threads;
}

static crema_status ready_now(const cr_plan *plan, bool planning) {
  assert_false(planning);
  seen.asked = plan;
  return seen.ready;
}

static int enter(const cr_plan *plan) {
  assert_ptr_equal(plan->kernel->run, run_twice);
  return seen.entered = 100 + seen.runs;
}

static void leave(int before) {
  seen.left = before;
}

static const cr_host_scheduler scheduler = {
    .threads = threads_now, .enter_run = enter, .leave = leave};

static void plan_twice(twice *op, cr_format from, cr_format to) {
  static char execution[256];
  op->kernel = (cr_kernel){.name = "twice", .run = run_twice};
  op->format[0] = from;
  op->format[1] = to;
  op->plan = (cr_plan){.kernel = &op->kernel, .format = op->format, .state = execution};
}

/* ---- passes -------------------------------------------------------------- */

typedef struct setting {
  fixture *f;
  cr_trace *trace;
  cr_tensor *x, *middle, *y; /* y = 2 (2 x + 1) + 1; the middle is passing */
  twice first, second;
  char access; /* that the second op asks for */
  cr_op_scalars *scalars;
} setting;

static const cr_format doubles = {CREMA_F64, NULL};

static cr_format reversed_of(const setting *s) {
  return (cr_format){CREMA_F32, &s->f->reversed};
}

static setting begin(fixture *f) {
  setting s = {.f = f, .access = 'W'};
  memset(&seen, 0, sizeof seen);
  seen.threads = 2;
  f->backend.scheduler = &scheduler;
  f->backend.ready = ready_now;
  ok(cr_heap_open(f->context));
  ok(cr_trace_create(&s.trace));
  s.x = new_tensor(COUNT);
  s.middle = new_tensor(COUNT);
  s.y = new_tensor(COUNT);
  cr_tensor_set_transient(s.middle, true);
  write_counting(f, s.x, 1);
  return s;
}

static void end(setting *s) {
  cr_tensor_destroy(s->x);
  cr_tensor_destroy(s->middle);
  cr_tensor_destroy(s->y);
  cr_trace_destroy(s->trace);
  cr_trace_destroy(NULL);
  cr_heap_close(s->f->context);
}

/* What ops/op.c does: asks for the memory, runs the kernel, and tells the list of it. `access` A:
 * an op that could add, and overwrites. */
static crema_status run_op(setting *s, twice *op, cr_tensor *x, cr_tensor *y, char access) {
  static crema_devptr memory[2][2];
  static int turn;
  crema_context *context = s->f->context;
  crema_devptr *buffer = memory[turn ^= 1]; /* that the call names lasts no longer than the call */
  cr_call call = {.plan = &op->plan,
                  .execution = op->plan.state,
                  .context = context,
                  .buffer = buffer,
                  .scalars = s->scalars};
  cr_trace_resolve(context, x);
  CR_TRY(cr_tensor_read(x, context, op->format[0], &buffer[0]));
  cr_trace_resolve(context, y);
  if (access == 'U') CR_TRY(cr_tensor_update(y, context, op->format[1], &buffer[1]));
  else CR_TRY(cr_tensor_write(y, context, op->format[1], &buffer[1]));
  if (op->plan.workspace_bytes > 0) {
    static char spare[2][WORKSPACE]; /* nor is its workspace the one that the list has */
    call.workspace.address = (uintptr_t)spare[turn];
  }
  cr_trace_resolve(context, NULL);
  cr_trace_add_call(&call, context->device->backend, 2);
  cr_trace_add_argument(context, 0, 'R', x, op->format[0]);
  cr_trace_add_argument(context, 1, access, y, op->format[1]);
  return op->kernel.run(&call);
}

static crema_status run_both(setting *s) {
  crema_status status;
  cr_trace_set_layer(s->f->context, 3);
  CR_TRY_GOTO(run_op(s, &s->first, s->x, s->middle, 'W'), out);
  cr_trace_set_layer(s->f->context, 5);
  CR_TRY_GOTO(run_op(s, &s->second, s->middle, s->y, s->access), out);
out:
  cr_tensor_release(s->middle);
  return status;
}

typedef crema_status body(setting *s);

/* Whether it was run from the list. */
static bool run_pass(setting *s, body *what) {
  crema_context *context = s->f->context;
  bool ran = false;
  int layer = 77;
  ok(cr_trace_run(s->trace, context, &ran, &layer));
  assert_int_equal(layer, -1);
  if (ran) return true;
  cr_heap_rest(context);
  cr_trace_begin(s->trace, context);
  const crema_status status = what(s);
  cr_trace_end(s->trace, context, status == CREMA_OK);
  assert_null(context->trace);
  return false;
}

static bool gets_list(setting *s, body *what) {
  for (int i = 0; i < ENOUGH; ++i) {
    if (run_pass(s, what)) return true;
  }
  return false;
}

static void plan_floats(setting *s) {
  plan_twice(&s->first, CR_PLAIN_F32, CR_PLAIN_F32);
  plan_twice(&s->second, CR_PLAIN_F32, CR_PLAIN_F32);
}

static void check_y(setting *s, float start) {
  const float *y = read_floats(s->f, s->y, CR_PLAIN_F32);
  for (int i = 0; i < COUNT; ++i) assert_true(y[i] == 4 * (start + (float)i) + 3);
}

/* The list, which is there, is right for new values, be they elsewhere. */
static void check_list(setting *s, body *what) {
  float memory[COUNT];
  for (int k = 0; k < 3; ++k) {
    const float start = (float)(10 + 20 * k);
    for (int i = 0; i < COUNT; ++i) memory[i] = start + (float)i;
    if (k == 1) ok(cr_tensor_adopt_host(s->x, memory));
    else write_counting(s->f, s->x, start);
    cr_tensor_set_zero(s->y);
    assert_true(run_pass(s, what));
    assert_false(cr_tensor_is_zero(s->y));
    check_y(s, start);
  }
  ok(cr_tensor_resize(s->x, COUNT - 1)); /* away from this function's memory */
  ok(cr_tensor_resize(s->x, COUNT + 2));
  ok(cr_tensor_resize(s->x, COUNT));
  write_counting(s->f, s->x, 2);
}

#define TRACE_TEST(name)                \
  static void check_##name(setting *s); \
  FIXTURE_TEST(name) {                  \
    setting s = begin(*state);          \
    plan_floats(&s);                    \
    check_##name(&s);                   \
    end(&s);                            \
  }                                     \
  static void check_##name(setting *s)

/* ---- what a list does ---------------------------------------------------- */

TRACE_TEST(two_equal_passes_make_a_trace) {
  assert_false(run_pass(s, run_both));
  assert_false(run_pass(s, run_both));
  check_y(s, 1);
  const int runs = seen.runs;
  assert_true(run_pass(s, run_both));
  assert_int_equal(seen.runs, runs + 2);
  assert_int_equal(seen.entered, 100 + runs + 1);
  assert_int_equal(seen.left, seen.entered);
  check_list(s, run_both);
  /* It is over when somebody says so, and is then recorded anew. */
  cr_trace_clear(s->trace);
  assert_false(run_pass(s, run_both));
  assert_false(run_pass(s, run_both));
  assert_true(run_pass(s, run_both));
}

/* A back end may lack all that lists ask of it. */
TRACE_TEST(back_ends_need_no_threads) {
  cr_backend *backend = &s->f->backend;
  backend->scheduler = NULL;
  backend->ready = NULL;
  assert_true(gets_list(s, run_both));
  check_list(s, run_both);
  cr_context_set_threads(s->f->context, 3);
  assert_false(run_pass(s, run_both));
}

/* What is converted on the way is converted again, and nothing else is. */
TRACE_TEST(conversions_are_part_of_the_trace) {
  const cr_format reversed = reversed_of(s), wide = {CREMA_F64, &s->f->reversed_double};
  const struct {
    cr_format x, middle_to, middle_from, y;
    int conversions;
  } kind[] = {
      {CR_PLAIN_F32, CR_PLAIN_F32, reversed, CR_PLAIN_F32, 1},
      {doubles, CR_PLAIN_F32, CR_PLAIN_F32, CR_PLAIN_F32, 1},
      {wide, CR_PLAIN_F32, CR_PLAIN_F32, reversed, 2},
      {reversed, reversed, CR_PLAIN_F32, reversed, 2},
      {CR_PLAIN_F32, doubles, CR_PLAIN_F32, CR_PLAIN_F32, 1},
      {doubles, wide, reversed, CR_PLAIN_F32, 4},
  };
  for (size_t i = 0; i < sizeof kind / sizeof kind[0]; ++i) {
    plan_twice(&s->first, kind[i].x, kind[i].middle_to);
    plan_twice(&s->second, kind[i].middle_from, kind[i].y);
    cr_trace_clear(s->trace);
    write_counting(s->f, s->x, 1); /* each pass converts it */
    for (int pass = 0; pass < ENOUGH - 1; ++pass) {
      assert_int_equal(run_pass(s, run_both), pass >= 2);
      write_counting(s->f, s->x, 1);
    }
    conversions = 0;
    assert_true(run_pass(s, run_both));
    assert_int_equal(conversions, kind[i].conversions);
    check_list(s, run_both);
  }
}

/* Nor need they lie where they lay while the list was recorded. */
TRACE_TEST(inputs_move_between_passes) {
  float memory[2][COUNT];
  for (int pass = 0; pass < ENOUGH; ++pass) {
    float *values = memory[pass % 2];
    for (int i = 0; i < COUNT; ++i) values[i] = (float)(pass + i);
    ok(cr_tensor_adopt_host(s->x, values));
    assert_int_equal(run_pass(s, run_both), pass >= 2);
    check_y(s, (float)pass);
  }
  cr_tensor_destroy(s->x);
  s->x = new_tensor(COUNT);
}

/* More than one kind of list in the same memory, in which nothing of the last one is left. */
TRACE_TEST(traces_follow_each_other) {
  const cr_format formats[] = {doubles, reversed_of(s), CR_PLAIN_F32};
  for (int i = 0; i < 9; ++i) {
    plan_twice(&s->first, formats[i % 3], CR_PLAIN_F32);
    plan_twice(&s->second, formats[i / 3], CR_PLAIN_F32);
    cr_trace_set_layer(s->f->context, i);
    cr_trace_clear(s->trace);
    for (int pass = 0; pass < ENOUGH; ++pass) {
      write_counting(s->f, s->x, 1);
      assert_int_equal(run_pass(s, run_both), pass >= 2);
    }
  }
}

static crema_status run_many(setting *s) {
  for (int i = 0; i < MANY; ++i) CR_TRY(run_both(s));
  return CREMA_OK;
}

TRACE_TEST(traces_grow) {
  plan_twice(&s->second, reversed_of(s), CR_PLAIN_F32);
  assert_true(gets_list(s, run_many));
  const int runs = seen.runs;
  assert_true(run_pass(s, run_many));
  assert_int_equal(seen.runs, runs + 2 * MANY);
  check_list(s, run_many);
}

/* An argument that is updated has what was there before. */
static crema_status run_in_place(setting *s) {
  CR_TRY(run_both(s));
  return run_op(s, &s->second, s->y, s->y, 'U');
}

TRACE_TEST(results_may_be_arguments) {
  s->access = 'U';
  plan_twice(&s->second, CR_PLAIN_F32, CR_PLAIN_F32);
  write_counting(s->f, s->y, 0);
  assert_true(gets_list(s, run_in_place));
  write_counting(s->f, s->x, 6);
  assert_true(run_pass(s, run_in_place));
  const float *y = NULL;
  ok(cr_tensor_host_read_floats(s->y, &y));
  for (int i = 0; i < COUNT; ++i) assert_true(y[i] == 2 * (4 * (6 + (float)i) + 3) + 1);
}

/* ---- what a call asks of the process ------------------------------------- */

TRACE_TEST(calls_have_the_workspace_that_they_want) {
  for (int large = 0; large < 2; ++large) {
    s->first.plan.workspace_bytes = large == 0 ? WORKSPACE : 0;
    s->second.plan.workspace_bytes = large == 1 ? WORKSPACE : 64;
    cr_trace_clear(s->trace);
    assert_true(gets_list(s, run_both));
    assert_in_range(cr_device_scratchpad_bytes(&s->f->device), WORKSPACE, 2 * WORKSPACE);
    check_list(s, run_both);
  }
}

/* Asked for is the plan that asks for most: of a library, with the most threads. */
TRACE_TEST(traces_run_where_their_plans_may) {
  const struct {
    bool first_library, second_library;
    int first_threads, second_threads;
    bool second;
  } kind[] = {{false, false, 2, 4, false},
              {true, false, 1, 4, false},
              {false, true, 4, 1, true},
              {true, true, 2, 4, true},
              {true, true, 4, 2, false}};
  for (size_t i = 0; i < sizeof kind / sizeof kind[0]; ++i) {
    s->first.kernel.library = kind[i].first_library;
    s->second.kernel.library = kind[i].second_library;
    s->first.plan.threads = kind[i].first_threads;
    s->second.plan.threads = kind[i].second_threads;
    cr_trace_clear(s->trace);
    seen.asked = NULL;
    assert_true(gets_list(s, run_both));
    assert_ptr_equal(seen.asked, kind[i].second ? &s->second.plan : &s->first.plan);
    seen.ready = CREMA_E_UNSUPPORTED;
    assert_false(run_pass(s, run_both));
    seen.ready = CREMA_OK;
    cr_trace_clear(s->trace);
  }
}

TRACE_TEST(other_numbers_of_threads_make_other_lists) {
  assert_true(gets_list(s, run_both));
  seen.threads = 1;
  assert_false(run_pass(s, run_both));
  assert_true(gets_list(s, run_both));
  seen.threads = 2;
  assert_false(run_pass(s, run_both));
}

/* With nothing but a conversion in it, nothing is asked for. */
static crema_status convert_only(setting *s) {
  crema_devptr data = {0};
  cr_trace_resolve(s->f->context, s->x);
  CR_TRY(cr_tensor_read(s->x, s->f->context, doubles, &data));
  cr_trace_resolve(s->f->context, NULL);
  return CREMA_OK;
}

TRACE_TEST(a_conversion_is_enough_for_a_list) {
  assert_true(gets_list(s, run_both)); /* whose plan is not asked for any more */
  cr_trace_clear(s->trace);
  seen.asked = NULL;
  for (int i = 0; i < ENOUGH; ++i) {
    write_counting(s->f, s->x, 1);
    conversions = 0;
    assert_int_equal(run_pass(s, convert_only), i >= 2);
    assert_int_equal(conversions, 1);
  }
  assert_null(seen.asked);
}

/* ---- failures ------------------------------------------------------------ */

TRACE_TEST(a_call_that_fails_ends_the_list) {
  crema_context *context = s->f->context;
  cr_block block = {0};
  bool ran = false;
  int layer = -1;
  assert_true(gets_list(s, run_both));
  seen.status = CREMA_E_DEVICE;
  assert_fails(cr_trace_run(s->trace, context, &ran, &layer), CREMA_E_DEVICE, "op twice");
  assert_true(ran);
  assert_int_equal(layer, 3);
  assert_int_equal(seen.left, seen.entered);
  assert_true(cr_heap_take(context, 64, &block)); /* the heap was left */
  ok(cr_block_free(&block));
  seen.status = CREMA_OK;
  assert_false(run_pass(s, run_both));
  assert_true(gets_list(s, run_both));
}

/* Neither values that cannot be had nor conversions are mistaken for calls. */
TRACE_TEST(a_conversion_that_fails_ends_the_list) {
  bool ran = false;
  int layer = -1;
  plan_twice(&s->second, reversed_of(s), CR_PLAIN_F32);
  assert_true(gets_list(s, run_both));
  conversions_fail = true;
  assert_fails(cr_trace_run(s->trace, s->f->context, &ran, &layer), CREMA_E_DEVICE, "injected");
  conversions_fail = false;
  assert_int_equal(layer, 5);
  assert_false(run_pass(s, run_both));
}

static crema_status convert_without_layer(setting *s) {
  CR_TRY(convert_only(s));
  return run_both(s);
}

TRACE_TEST(what_precedes_the_layers_has_none) {
  bool ran = false;
  int layer = 9;
  assert_true(gets_list(s, run_both));
  cr_trace_clear(s->trace);
  for (int i = 0; i < 2; ++i) {
    write_counting(s->f, s->x, 1);
    assert_false(run_pass(s, convert_without_layer));
  }
  write_counting(s->f, s->x, 1);
  conversions_fail = true;
  assert_int_equal(cr_trace_run(s->trace, s->f->context, &ran, &layer), CREMA_E_DEVICE);
  conversions_fail = false;
  assert_int_equal(layer, -1);
}

TRACE_TEST(arguments_that_cannot_be_had_end_the_list) {
  bool ran = false;
  int layer = -1;
  plan_twice(&s->first, reversed_of(s), CR_PLAIN_F32);
  assert_true(gets_list(s, run_both));
  write_counting(s->f, s->x, 1);
  conversions_fail = true;
  assert_int_equal(cr_trace_run(s->trace, s->f->context, &ran, &layer), CREMA_E_DEVICE);
  conversions_fail = false;
  assert_int_equal(layer, 3);
  assert_false(run_pass(s, run_both));
}

/* What a failed pass has recorded is of no use, though it be the same as before. */
TRACE_TEST(a_pass_that_fails_is_not_recorded) {
  crema_context *context = s->f->context;
  assert_true(gets_list(s, run_both));
  cr_trace_clear(s->trace);
  for (int i = 0; i < ENOUGH; ++i) {
    cr_trace_begin(s->trace, context);
    ok(run_both(s));
    cr_trace_end(s->trace, context, false);
    assert_false(run_pass(s, run_both));
  }
}

/* ---- what cannot be in a list -------------------------------------------- */

/* The pass never gets a list; without what has happened last it does. */
static void has_no_list(setting *s, body *what) {
  assert_false(gets_list(s, what));
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
  cr_trace_clear(s->trace);
}

static crema_status run_and_spoil(setting *s) {
  CR_TRY(run_op(s, &s->first, s->x, s->middle, 'W'));
  cr_trace_invalidate(s->f->context);
  CR_TRY(run_op(s, &s->second, s->middle, s->y, 'W'));
  cr_tensor_release(s->middle);
  return CREMA_OK;
}

static crema_status write_input(setting *s) {
  write_counting(s->f, s->x, 1); /* by nobody's op */
  return run_both(s);
}

static crema_status update_input(setting *s) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_update(s->x, s->f->context, CR_PLAIN_F32, &data));
  return run_both(s);
}

static crema_status read_zeros(setting *s) {
  cr_tensor_set_zero(s->middle);
  CR_TRY(run_op(s, &s->second, s->middle, s->y, 'W'));
  cr_tensor_release(s->middle);
  return CREMA_OK;
}

static crema_status keep_block(setting *s) {
  CR_TRY(run_op(s, &s->first, s->x, s->middle, 'W'));
  return run_op(s, &s->second, s->middle, s->y, 'W'); /* the middle is not let go */
}

TRACE_TEST(what_a_list_cannot_repeat_is_in_none) {
  cr_op_scalars scalars = {.alpha = 1};
  has_no_list(s, run_and_spoil);
  has_no_list(s, write_input);
  has_no_list(s, update_input);
  has_no_list(s, read_zeros);
  s->scalars = &scalars;
  assert_false(gets_list(s, run_both));
  s->scalars = NULL;
  s->access = 'A'; /* whether it adds is known when it runs */
  assert_false(gets_list(s, run_both));
  s->access = 'W';
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
}

/* Nor is a result that could be added to where it passes. */
static crema_status add_to_middle(setting *s) {
  CR_TRY(run_op(s, &s->first, s->x, s->middle, 'A'));
  CR_TRY(run_op(s, &s->second, s->middle, s->y, 'W'));
  cr_tensor_release(s->middle);
  return CREMA_OK;
}

TRACE_TEST(what_may_be_added_to_is_in_no_list) {
  has_no_list(s, add_to_middle);
}

/* What others than ops convert, of values that may lie elsewhere in the next pass. */
static crema_status convert_unasked(setting *s) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(s->x, s->f->context, doubles, &data));
  return run_both(s);
}

TRACE_TEST(conversions_that_no_op_asks_for_are_in_no_list) {
  for (int i = 0; i < ENOUGH; ++i) {
    write_counting(s->f, s->x, 1);
    assert_false(run_pass(s, convert_unasked));
  }
}

/* Values that last are written in their own type, or else they would have to be converted. */
TRACE_TEST(results_in_another_type_are_in_no_list) {
  plan_twice(&s->second, CR_PLAIN_F32, doubles);
  assert_false(gets_list(s, run_both));
  plan_twice(&s->second, CR_PLAIN_F32, reversed_of(s));
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
  check_list(s, run_both);
}

/* The memory in which blocks lay may be another one when one is held. */
TRACE_TEST(lists_need_the_heap_as_it_was) {
  cr_block block = {0};
  assert_false(run_pass(s, keep_block));
  cr_tensor_release(s->middle);
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
  assert_true(cr_heap_take(s->f->context, 64, &block));
  assert_false(run_pass(s, run_both));
  ok(cr_block_free(&block));
  assert_false(run_pass(s, run_both));
  assert_true(gets_list(s, run_both));
}

/* A pass that leaves a block behind is no list, though it was recorded like the one before. */
static crema_status take_and_run(setting *s) {
  static cr_block block;
  const crema_status status = run_both(s);
  if (block.address != 0) ok(cr_block_free(&block));
  else assert_true(cr_heap_take(s->f->context, 64, &block));
  return status;
}

TRACE_TEST(passes_leave_the_heap_as_it_was) {
  for (int i = 0; i < 2 * MOST_TRIES; ++i) assert_false(run_pass(s, take_and_run));
}

/* Memory that is not the heap's has another address each time. */
TRACE_TEST(passing_values_lie_in_the_heap) {
  crema_devptr data = {0};
  cr_heap_close(s->f->context);
  assert_false(gets_list(s, run_both));
  ok(cr_tensor_write(s->middle, s->f->context, CR_PLAIN_F32, &data)); /* the system's */
  ok(cr_heap_open(s->f->context));
  for (int i = 0; i < ENOUGH; ++i) {
    bool ran = true;
    int layer = 0;
    ok(cr_trace_run(s->trace, s->f->context, &ran, &layer));
    assert_false(ran);
    cr_trace_begin(s->trace, s->f->context);
    ok(run_op(s, &s->first, s->x, s->middle, 'W'));
    ok(run_op(s, &s->second, s->middle, s->y, 'W'));
    cr_trace_end(s->trace, s->f->context, true);
  }
  cr_tensor_release(s->middle);
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
}

/* What was converted before the pass, the list would not convert again. */
TRACE_TEST(conversions_of_earlier_passes_are_missed) {
  plan_twice(&s->first, doubles, CR_PLAIN_F32);
  write_counting(s->f, s->x, 1);
  assert_false(gets_list(s, run_both)); /* the first one has converted it */
  /* Values that do not change need not be. */
  cr_tensor_set_constant(s->x);
  cr_trace_clear(s->trace);
  assert_true(gets_list(s, run_both));
  conversions = 0;
  assert_true(run_pass(s, run_both));
  assert_int_equal(conversions, 0);
  check_y(s, 1);
}

/* Constant values are where they were; a first conversion is no part of the list. */
TRACE_TEST(constant_values_are_not_asked_for) {
  plan_twice(&s->first, reversed_of(s), CR_PLAIN_F32);
  cr_tensor_set_constant(s->x);
  assert_false(run_pass(s, run_both));
  assert_false(run_pass(s, run_both));
  conversions = 0;
  assert_true(run_pass(s, run_both));
  assert_int_equal(conversions, 0);
  check_y(s, 1);
  /* Zeros, too, are made once. */
  cr_trace_clear(s->trace);
  cr_tensor_destroy(s->x);
  s->x = new_tensor(COUNT);
  cr_tensor_set_constant(s->x);
  assert_false(run_pass(s, run_both));
  assert_false(run_pass(s, run_both));
  assert_true(run_pass(s, run_both));
}

/* Zeros that a pass finds in its input are made again where they are asked for. */
TRACE_TEST(inputs_may_be_zeros) {
  cr_tensor_set_zero(s->x);
  for (int i = 0; i < ENOUGH; ++i) {
    cr_tensor_set_zero(s->x);
    assert_int_equal(run_pass(s, run_both), i >= 2);
  }
  const float *y = NULL;
  ok(cr_tensor_host_read_floats(s->y, &y));
  assert_true(y[0] == 3 && y[COUNT - 1] == 3);
  check_list(s, run_both);
  /* In another type they are filled without a conversion, which the list would lack. */
  plan_twice(&s->first, doubles, CR_PLAIN_F32);
  cr_trace_clear(s->trace);
  for (int i = 0; i < ENOUGH; ++i) {
    cr_tensor_set_zero(s->x);
    assert_false(run_pass(s, run_both));
  }
}

/* What passes is written without an op, too. */
static crema_status write_middle(setting *s) {
  crema_devptr data = {0};
  CR_TRY(cr_tensor_write(s->middle, s->f->context, CR_PLAIN_F32, &data));
  return run_both(s);
}

TRACE_TEST(passing_values_may_be_written_by_others) {
  assert_true(gets_list(s, write_middle));
}

/* ---- whether it is tried at all ------------------------------------------ */

static bool is_recorded(setting *s, body *what) {
  crema_context *context = s->f->context;
  cr_heap_rest(context);
  cr_trace_begin(s->trace, context);
  const bool recorded = context->trace != NULL;
  ok(what(s));
  cr_trace_end(s->trace, context, true);
  return recorded;
}

TRACE_TEST(what_is_spoiled_again_and_again_is_not_recorded) {
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < MOST_TRIES; ++i) assert_true(is_recorded(s, run_and_spoil));
    assert_false(is_recorded(s, run_and_spoil));
    assert_false(is_recorded(s, run_both));
    assert_false(run_pass(s, run_both));
    cr_trace_clear(s->trace);
  }
  /* A list in between counts. */
  for (int i = 0; i < MOST_TRIES - 3; ++i) assert_true(is_recorded(s, run_and_spoil));
  assert_true(gets_list(s, run_both));
  for (int i = 0; i < MOST_TRIES; ++i) assert_true(is_recorded(s, run_and_spoil));
  assert_false(is_recorded(s, run_and_spoil));
}

/* What an op asked for last in one pass is not what the next one begins with. */
TRACE_TEST(each_pass_begins_anew) {
  crema_context *context = s->f->context;
  for (int i = 0; i < ENOUGH; ++i) {
    bool ran = true;
    int layer = 0;
    ok(cr_trace_run(s->trace, context, &ran, &layer));
    assert_false(ran);
    cr_heap_rest(context);
    cr_trace_begin(s->trace, context);
    ok(write_input(s));
    cr_trace_resolve(context, s->x);
    cr_trace_end(s->trace, context, true);
  }
}

/* Without a list nothing is told to anybody. */
TRACE_TEST(passes_without_a_list) {
  crema_context *context = s->f->context;
  cr_trace_invalidate(context);
  cr_trace_resolve(context, s->x);
  cr_trace_set_layer(context, 1);
  ok(run_both(s));
  check_y(s, 1);
  /* An empty list is none. */
  for (int i = 0; i < ENOUGH; ++i) {
    bool ran = true;
    int layer = 0;
    cr_trace_begin(s->trace, context);
    cr_trace_end(s->trace, context, true);
    ok(cr_trace_run(s->trace, context, &ran, &layer));
    assert_false(ran);
  }
}

/* Devices with memory of their own have other ways to do the same. */
TEST(devices_have_no_lists) {
  sim_begin_devices(1);
  crema_context *context = sim_test_context(sim_test_device(0));
  cr_trace *commands = NULL;
  bool ran = true;
  int layer = 0;
  ok(cr_trace_create(&commands));
  cr_trace_begin(commands, context);
  assert_null(context->trace);
  cr_trace_end(commands, context, true);
  ok(cr_trace_run(commands, context, &ran, &layer));
  assert_false(ran);
  cr_trace_destroy(commands);
  crema_context_destroy(context);
  sim_end();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
