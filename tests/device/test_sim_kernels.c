/* Kernels on a simulated device: what the checker for races knows of their arguments, and what
 * reaches the kernel behind it. */
#include <stdatomic.h>

#include "core/clock.h"
#include "device/backend/kernel.h"
#include "device/copy.h"
#include "memory/sim_fixture.h"

enum { MOST_ARGS = 16, BYTES = 64, COUNT = BYTES / (int)sizeof(float) };

/* ---- a kernel that notes what it is given ---- */

static struct {
  int runs, args;
  bool slow, overlap; /* whether two ran at once */
  atomic_bool running;
  float value[MOST_ARGS];
  bool present[MOST_ARGS], accumulate[MOST_ARGS];
} seen;

/* Writes i + 1 into the first value of each argument. */
static crema_status run(const cr_call *call) {
  if (atomic_exchange(&seen.running, true)) seen.overlap = true;
  if (seen.slow) cr_clock_sleep(1e-3);
  ++seen.runs;
  seen.args = call->desc->args;
  for (int i = 0; i < seen.args; ++i) {
    float *value = cr_f32(call->buffer, i);
    seen.present[i] = value != NULL;
    seen.accumulate[i] = call->accumulate[i];
    if (value != NULL) *value = (float)(i + 1);
  }
  atomic_store(&seen.running, false);
  return CREMA_OK;
}

typedef struct kernel_case {
  const cr_kernel *row[2];
  cr_kernel kernel;
  cr_op_desc *desc;
  cr_format format[MOST_ARGS];
  crema_devptr buffer[MOST_ARGS];
  bool accumulate[MOST_ARGS];
  cr_plan plan;
  void *execution;
  crema_device *device;
  crema_context *stream[2];
} kernel_case;

static void begin(kernel_case *c, cr_op_kind op, int args, bool stepped) {
  *c = (kernel_case){.kernel = {.name = "noting", .op = op, .type = CREMA_F32, .run = run}};
  c->row[0] = &c->kernel;
  seen.runs = 0;
  seen.slow = seen.overlap = false;
  cr_sim_options options = sim_test_options(1);
  options.stepped = stepped;
  options.kernels = c->row;
  sim_begin(&options);
  c->device = sim_test_device(0);
  for (int k = 0; k < 2; ++k) c->stream[k] = sim_test_context(c->device);
  c->desc = calloc(1, cr_op_desc_bytes(args));
  assert_non_null(c->desc);
  *c->desc = (cr_op_desc){.kind = op, .type = CREMA_F32, .args = args};
  for (int i = 0; i < args; ++i) {
    c->desc->arg[i] = (cr_op_arg){.type = CREMA_F32, .shape = {.axes = 1, .dim = {COUNT}}};
    c->format[i] = CR_PLAIN_F32;
    assert_int_equal(c->device->backend->alloc(c->device, BYTES, &c->buffer[i]), CREMA_OK);
  }
  c->plan = (cr_plan){.desc = c->desc,
                      .context = c->stream[0],
                      .kernel = c->device->backend->kernels[0],
                      .hint = c->format,
                      .format = c->format};
  assert_ptr_not_equal(c->plan.kernel, NULL);
  assert_null(c->device->backend->kernels[1]);
  assert_int_equal(c->plan.kernel->plan(&c->plan), CREMA_OK);
  assert_int_equal(c->plan.kernel->open(&c->plan, &c->execution), CREMA_OK);
}

static crema_status queue(kernel_case *c, int stream) {
  return c->plan.kernel->run(&(cr_call){.plan = &c->plan,
                                        .execution = c->execution,
                                        .desc = c->desc,
                                        .context = c->stream[stream],
                                        .buffer = c->buffer,
                                        .accumulate = c->accumulate});
}

static void finish(kernel_case *c) {
  for (int k = 0; k < 2; ++k) assert_int_equal(crema_context_finish(c->stream[k]), CREMA_OK);
}

static void end(kernel_case *c, size_t races) {
  finish(c);
  c->plan.kernel->close(&c->plan, c->execution);
  c->plan.kernel->destroy(&c->plan);
  for (int i = 0; i < c->desc->args; ++i) {
    if (c->buffer[i].address != 0) c->device->backend->free(c->device, c->buffer[i]);
  }
  for (int k = 0; k < 2; ++k) crema_context_destroy(c->stream[k]);
  free(c->desc);
  sim_end_with_races(races);
}

/* ---- what is read and what is written ---- */

/* Another stream reads or writes argument i while the kernel may be running. */
static bool use_is_a_race(cr_op_kind op, int args, int i, bool write) {
  kernel_case c;
  char host[BYTES] = "";
  begin(&c, op, args, true);
  assert_int_equal(queue(&c, 0), CREMA_OK);
  uintptr_t device = c.buffer[i].address, memory = (uintptr_t)host;
  assert_int_equal(
      c.device->backend->copy(c.stream[1], write ? CR_COPY_HOST_TO_DEVICE : CR_COPY_DEVICE_TO_HOST,
                              write ? device : memory, write ? memory : device, BYTES),
      CREMA_OK);
  size_t races = cr_sim_races(NULL, 0);
  assert_in_range(races, 0, 1);
  end(&c, races);
  return races == 1;
}

/* A read beside a read is none; every other use beside a kernel is. */
TEST(arguments_are_used_as_the_table_says) {
  static const struct {
    cr_op_kind op;
    const char *access; /* R: only read */
  } rows[] = {
      {CR_OP_SET, "W"},          {CR_OP_COPY, "RW"},
      {CR_OP_AXPBY, "RW"},       {CR_OP_SUM, "RW"},
      {CR_OP_SUM, "RRW"},        {CR_OP_CONCAT, "RRRW"},
      {CR_OP_MAX, "RWW"},        {CR_OP_MAX, "RRRWW"},
      {CR_OP_PROD_BWD, "RRW"},   {CR_OP_SLICE, "RW"},
      {CR_OP_PROD_BWD, "RRRRW"}, {CR_OP_SLICE, "RWWW"},
      {CR_OP_BN_BWD, "RRRRW"},   {CR_OP_PRELU_BWD_SLOPE, "RRW"},
  };
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    int args = (int)strlen(rows[r].access);
    for (int i = 0; i < args; ++i) {
      assert_true(use_is_a_race(rows[r].op, args, i, true));
      if (use_is_a_race(rows[r].op, args, i, false) != (rows[r].access[i] != 'R')) {
        fail_msg("row %zu, argument %d", r, i);
      }
    }
  }
}

/* ---- what reaches the kernel ---- */

/* Few arguments, as many as lie in the queue's own record, and more. */
TEST(arguments_reach_the_kernel) {
  static const int counts[] = {2, 11, 12, 13, MOST_ARGS};
  for (size_t r = 0; r < sizeof counts / sizeof *counts; ++r) {
    kernel_case c;
    int args = counts[r];
    begin(&c, CR_OP_CONCAT, args, false);
    crema_devptr absent = c.buffer[0];
    c.buffer[0] = (crema_devptr){0};
    for (int i = 0; i < args; ++i) c.accumulate[i] = i % 3 == 1;
    assert_int_equal(queue(&c, 0), CREMA_OK);
    /* The call is over before the kernel runs: what it was given may change. */
    bool given[MOST_ARGS];
    memcpy(given, c.accumulate, sizeof given);
    memset(c.accumulate, 0, sizeof c.accumulate);
    finish(&c);
    assert_int_equal(seen.runs, 1);
    assert_int_equal(seen.args, args);
    for (int i = 0; i < args; ++i) {
      float value = 0;
      assert_int_equal(seen.present[i], i > 0);
      assert_int_equal(seen.accumulate[i], given[i]);
      if (i == 0) continue;
      assert_true(cr_sim_peek(c.buffer[i], &value, sizeof value));
      assert_true(value == (float)(i + 1));
    }
    c.buffer[0] = absent;
    end(&c, 0);
  }
}

/* Addresses are of the device, and the bytes behind them in use. */
TEST(foreign_memory_is_refused) {
  kernel_case c;
  float host[COUNT] = {0};
  begin(&c, CR_OP_COPY, 2, false);
  crema_devptr own = c.buffer[1];
  c.buffer[1] = (crema_devptr){(uintptr_t)host};
  assert_int_equal(queue(&c, 0), CREMA_E_DEVICE);
  assert_non_null(strstr(crema_error_text(), "which is not memory in use on sim:0"));
  c.buffer[1] = (crema_devptr){own.address + sizeof(float)};
  assert_int_equal(queue(&c, 0), CREMA_E_DEVICE);
  c.buffer[1] = own;
  assert_int_equal(queue(&c, 0), CREMA_OK);
  finish(&c);
  assert_int_equal(seen.runs, 1);
  end(&c, 0);
}

/* A plan keeps the state of one run: the second stream waits for the first, even when they use
 * memory of their own. */
TEST(runs_of_one_plan_take_turns) {
  kernel_case c;
  begin(&c, CR_OP_COPY, 2, false);
  crema_devptr own[2][2] = {{c.buffer[0], c.buffer[1]}};
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(c.device->backend->alloc(c.device, BYTES, &own[1][i]), CREMA_OK);
  }
  seen.slow = true;
  for (int i = 0; i < 20; ++i) {
    memcpy(c.buffer, own[i % 2], sizeof own[0]);
    assert_int_equal(queue(&c, i % 2), CREMA_OK);
  }
  finish(&c);
  assert_int_equal(seen.runs, 20);
  assert_false(seen.overlap);
  for (int i = 0; i < 2; ++i) c.device->backend->free(c.device, own[0][i]);
  end(&c, 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
