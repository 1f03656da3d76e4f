/* A device that fails: whatever a solver asks of it, no failure is passed over. Each operation of a
 * call fails in one run, and the call fails then. */
#include "core/fail.h"
#include "parallel_case.h"

static const cr_sim_op kinds[] = {CR_SIM_ALLOC,   CR_SIM_KERNEL, CR_SIM_H2D,
                                  CR_SIM_D2H,     CR_SIM_D2D,    CR_SIM_ZERO,
                                  CR_SIM_CONVERT, CR_SIM_FINISH, CR_SIM_HOST_ALLOC};

enum { KINDS = sizeof kinds / sizeof *kinds, MOST_RUNS = 24 };

typedef struct deed {
  const char *name;
  const char *net, *text; /* of the solver that is loaded before */
  int before;             /* so many iterations are made before */
  crema_status (*act)(solver_case *c);
} deed;

static void prepare(solver_case *c, const deed *d) {
  use_devices(c, 1, CREMA_EXCHANGE_AUTO);
  case_load_fed(c, d->net, d->text);
  ok(crema_solver_step(c->solver, d->before));
  ok(crema_context_finish(c->solver->context));
  cr_sim_reset_counts();
}

/* How often an operation of a kind was made to fail. */
static int fail_each(solver_case *c, const deed *d, cr_sim_op op) {
  prepare(c, d);
  ok(d->act(c));
  const int count = (int)cr_sim_count(op, 0);
  int failed = 0;
  for (int nth = 1; nth <= count; nth += 1 + count / MOST_RUNS) {
    prepare(c, d);
    cr_sim_fail(op, nth, CREMA_E_DEVICE, false);
    const crema_status status = d->act(c);
    const bool reached = (int)cr_sim_count(op, 0) >= nth;
    cr_sim_clear_faults();
    if (reached && status == CREMA_OK) {
      fail_msg("%s: operation %d of kind %d fails, and nobody hears of it", d->name, nth, op);
    }
    failed += reached;
  }
  return failed;
}

static void run(solver_case *c, const deed *d) {
  int failed = 0;
  for (int k = 0; k < KINDS; ++k) failed += fail_each(c, d, kinds[k]);
  assert_true(failed > 0); /* else nothing was shown */
}

static crema_status step(solver_case *c) {
  CR_TRY(crema_solver_step(c->solver, 1));
  return crema_context_finish(c->solver->context);
}

static crema_status test(solver_case *c) {
  return cr_solver_test_all(c->solver);
}

static crema_status snapshot(solver_case *c) {
  return crema_solver_snapshot(c->solver);
}

static crema_status restore(solver_case *c) {
  char path[256];
  CR_TRY(crema_solver_restore(c->solver, case_path(c, "s_iter_2.solverstate", path)));
  return crema_context_finish(c->solver->context);
}

static crema_status load_weights(solver_case *c) {
  CR_TRY(crema_solver_load_weights(c->solver, "s_iter_2.caffemodel"));
  return crema_context_finish(c->solver->context);
}

static crema_status update_by_hand(solver_case *c) {
  CR_TRY(crema_solver_apply_update(c->solver));
  return crema_context_finish(c->solver->context);
}

static crema_status broadcast(solver_case *c) {
  CR_TRY(crema_solver_broadcast(c->solver));
  return crema_context_finish(c->solver->context);
}

static void hear(void *user, const char *text) {
  (void)user, (void)text;
}

static crema_status plan(solver_case *c) {
  return crema_solver_plan(c->solver, hear, NULL);
}

#define FIXED "lr_policy: 'fixed' momentum: 0.9 "
#define HALVES "default_forward_type: FLOAT16 default_backward_type: FLOAT16 " TWO_PRODUCTS

static const char frozen_net[] =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'data' top: 'norm' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'norm' top: 'ip' param { lr_mult: 0 }\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static const deed steps[] = {
    {"a step", TWO_PRODUCTS, FIXED "weight_decay: 0.1", 1, step},
    {"a step that is shown", TWO_PRODUCTS, FIXED "display: 1 debug_info: true", 1, step},
    {"a step that is clipped", frozen_net, FIXED "clip_gradients: 0.01 ema_decay: 0.5", 1, step},
    {"a step of LARC", TWO_PRODUCTS, FIXED "larc: true larc_turbo: true", 3, step},
    {"a step of LAMB", TWO_PRODUCTS, FIXED "type: 'LAMB' snapshot_diff: true", 1, step},
    {"a step of halves", HALVES, FIXED "solver_data_type: FLOAT16 iter_size: 2", 1, step},
    {"a step of doubles", TWO_PRODUCTS, FIXED "solver_data_type: DOUBLE type: 'Adam'", 1, step},
    {"a step with a factor", "global_grad_scale: 64 global_grad_scale_adaptive: true " HALVES,
     FIXED, 1, step},
};

PARALLEL_TEST(steps_fail) {
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) run(*state, &steps[i]);
}

static const deed others[] = {
    {"a test", frozen_net, FIXED "test_iter: 2 test_interval: 100", 1, test},
    {"a test of averages", TWO_PRODUCTS, FIXED "test_iter: 2 test_interval: 100 ema_decay: 0.5", 1,
     test},
    {"a snapshot", TWO_PRODUCTS, FIXED "ema_decay: 0.5 snapshot_diff: true", 2, snapshot},
    {"a snapshot of halves", HALVES, FIXED "ema_decay: 0.5 solver_data_type: FLOAT16", 2, snapshot},
    {"an update by hand", TWO_PRODUCTS, FIXED "type: 'Adam'", 1, update_by_hand},
    {"a broadcast", TWO_PRODUCTS, FIXED "ema_decay: 0.5", 0, broadcast},
    {"a plan", TWO_PRODUCTS, FIXED, 0, plan},
};

PARALLEL_TEST(other_calls_fail) {
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) run(*state, &others[i]);
}

/* From snapshots that are there. */
PARALLEL_TEST(resumes_fail) {
  /* The last one resumes from the state of a history in another type. */
  static const deed rows[] = {
      {"a resume", TWO_PRODUCTS, FIXED "type: 'Adam' ema_decay: 0.5", 2, restore},
      {"a resume of halves", HALVES, FIXED "ema_decay: 0.5 solver_data_type: FLOAT16", 2, restore},
      {"weights", TWO_PRODUCTS, FIXED "ema_decay: 0.5", 2, load_weights},
      {"a resume in another type", TWO_PRODUCTS, FIXED "solver_data_type: FLOAT16", 2, restore},
  };
  solver_case *c = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    prepare(c, &rows[i == 3 ? 2 : i]);
    ok(crema_solver_snapshot(c->solver));
    run(c, &rows[i]);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
