/* What a plan foretells from what was measured, and its text: of times and links that are given
 * here. */
#include <math.h>

#include "log_lines.h"
#include "parallel_case.h"
#include "solver/plan.h"

/* In seconds. One pass takes 30 ms, and two of them and an update 65. */
static const double ready[2] = {0.012, 0.035};
static const cr_plan_times times = {
    .forward = 0.01, .backward = 0.02, .update = 0.005, .again = 0.0015, .ready = (double *)ready};

/* A plan for the solver that is loaded. Its net has a bucket of 6 floats and one of 2, in a block
 * of twice 64. */
static void make_plan(solver_case *c, cr_training_plan *plan) {
  static cr_cost_bucket cost[2];
  *plan = (cr_training_plan){.solver = c->solver, .times = times, .cost = cost};
  ok(cr_blocks_cut(c->solver->replica[0].blocks, 2, &plan->bucket, &plan->buckets));
  assert_int_equal(plan->buckets, 2);
  plan->pair[1] = (cr_tree_pair){0, 1};
  plan->pair[2] = (cr_tree_pair){1, 2};
  plan->way[1] = CR_TREE_BOARD;
  plan->way[2] = CR_TREE_BY_HOST;
  plan->link[1] = (cr_speed){12e-6, 11.5e9};
  plan->link[2] = (cr_speed){5e-6, 0};
  plan->level = (cr_speed){1e-3, 272e3};
  plan->ring = (cr_speed){1e-3, 8000.0 / 3};
  plan->memory = (cr_net_memory){.planned = 2500000, .planned_held = 3000000};
}

/* A solver of small_net on `devices` simulated devices, and its plan. */
static void plan_small(solver_case *c, int devices, crema_exchange exchange, const char *solver,
                       cr_training_plan *plan) {
  use_devices(c, devices, exchange);
  case_load_fed(c, small_net, solver);
  make_plan(c, plan);
}

static void assert_ms(double seconds, double wanted) {
  if (fabs(seconds * 1e3 - wanted) > 1e-9) fail_msg("%g ms, not %g", seconds * 1e3, wanted);
}

/* Three devices: each bucket goes round in 4 steps, of 4 ms for 24 bytes and of 2 ms for 8. The
 * mean of 32 bytes of gradients and 512 of weights goes up two levels of a tree and down again, 2
 * ms each. */
PARALLEL_TEST(steps_are_foretold) {
  static const char *const late[] = {"clip_gradients: 1", "global_grad_scale_adaptive: true"};
  solver_case *c = *state;
  cr_training_plan plan;
  char text[128];
  plan_small(c, 3, CREMA_EXCHANGE_REDUCE, "lr_policy: 'fixed' iter_size: 2", &plan);
  assert_true(cr_plan_bucket_bytes(&plan, 0) == 24 && cr_plan_bucket_bytes(&plan, 1) == 8);
  assert_ms(cr_plan_exchange(&plan, CREMA_EXCHANGE_AUTO), 0);
  assert_ms(cr_plan_exchange(&plan, CREMA_EXCHANGE_TREE), 8);
  assert_ms(cr_plan_exchange(&plan, CREMA_EXCHANGE_REDUCE), 16 + 8);
  assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_AUTO), 65);
  assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_TREE), 65 + 8);
  /* The second backward pass begins after 40 ms, its second bucket is complete after 75. */
  assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_REDUCE), 75 + 8 + 5 * 0.25);
  /* The exchange is done before the backward pass is. */
  plan.times.forward = 0.1;
  plan.ring = (cr_speed){0};
  plan.times.ready = (double[]){0, 0};
  assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_REDUCE), 240);
  free(plan.bucket);
  /* Where the update waits for all gradients, it comes after the last exchange. */
  for (int i = 0; i < 2; ++i) {
    snprintf(text, sizeof text, "lr_policy: 'fixed' iter_size: 2 %s", i == 0 ? late[0] : "");
    case_load_fed(c, small_net, text);
    if (i == 1) crema_solver_net(c->solver)->param->global_grad_scale_adaptive = true;
    make_plan(c, &plan);
    assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_REDUCE), 75 + 8 + 5);
    assert_ms(cr_plan_step(&plan, CREMA_EXCHANGE_TREE), 65 + 8);
    free(plan.bucket);
    crema_solver_net(c->solver)->param->global_grad_scale_adaptive = false;
  }
}

/* ---- the text ---- */

static char told[4096];

static void hear(void *user, const char *text) {
  size_t used = strlen(told);
  assert_ptr_equal(user, &told);
  snprintf(told + used, sizeof told - used, "%s\n", text);
}

static void assert_tells(const cr_training_plan *plan, const char *wanted) {
  told[0] = '\0';
  cr_plan_tell(plan, hear, &told);
  assert_string_equal(told, wanted);
}

static const char buckets_text[] =
    "Buckets of gradients, in the order in which the backward pass completes them\n"
    "  number parameters          bytes   ready ms  after layer\n"
    "       0          1             24     12.000  ip\n"
    "       1          1              8     35.000  ip\n"
    "Computing, measured without an exchange: forward 10.000 ms, backward 20.000 ms, update 5.000 "
    "ms\n";
static const char memory_text[] =
    "Activations and gradients: 2.50 MB at most at once, in 3.00 MB of memory\n";
static const char steps_text[] =
    "Predicted time of an iteration\n"
    "  way       exchange ms    step ms  times as long\n";

PARALLEL_TEST(plans_of_devices_are_told) {
  static const char begin[] =
      "Plan of training small with 3 devices, 12 samples a forward pass of all\n"
      "  rank 0: sim:0\n"
      "  rank 1: sim:1\n"
      "  rank 2: sim:2\n"
      "Tree of devices: who copies weights to whom, and gets gradients back\n"
      "  sim:0    -> sim:1     on one board        11.5 GB/s after 12 us\n"
      "  sim:1    -> sim:2     by way of the host  too fast to be measured, after 5 us\n"
      "Links of the tree's last level, all used at once: 0.000272 GB/s after 1e+03 us\n"
      "Links from each device to the next one, all used at once: 2.67e-06 GB/s after 1e+03 us\n";
  static const char passes[] = "  2 forward and backward passes an iteration\n";
  static const char again[] =
      "  computing values again instead of keeping them: 1.500 ms of backward\n";
  solver_case *c = *state;
  cr_training_plan plan;
  const char *why = NULL;
  char wanted[4096];
  use_devices(c, 3, CREMA_EXCHANGE_TREE);
  c->options.recompute = true;
  case_load_fed(c, small_net, "lr_policy: 'fixed' iter_size: 2");
  make_plan(c, &plan);
  assert_int_equal(cr_solver_auto_exchange(c->solver, &why), CREMA_EXCHANGE_REDUCE);
  snprintf(wanted, sizeof wanted,
           "%s%s%s%s%s%s"
           "  none            0.000     65.000           1.00\n"
           "  tree            8.000     73.000           1.12\n"
           "  reduce         24.000     84.250           1.30\n"
           "auto would take: reduce, because %s\n"
           "Taken (-exchange): tree\n"
           "Here the tree may be faster, as so few bytes are exchanged: try -exchange tree\n",
           begin, buckets_text, passes, memory_text, again, steps_text, why);
  assert_tells(&plan, wanted);
  free(plan.bucket);
  /* Chosen by the program, one pass, and times without the tree's advantage. */
  c->options.exchange = CREMA_EXCHANGE_AUTO;
  case_load_fed(c, small_net, "lr_policy: 'fixed' iter_size: 1");
  make_plan(c, &plan);
  plan.ring.latency = 0;
  plan.memory.planned = 0;
  plan.times = (cr_plan_times){.ready = (double[]){0, 0}};
  told[0] = '\0';
  cr_plan_tell(&plan, hear, &told);
  snprintf(wanted, sizeof wanted,
           "%s"
           "  none            0.000      0.000           1.00\n"
           "  tree            8.000      8.000           1.00\n"
           "  reduce         16.000     16.000           1.00\n"
           "Taken (auto): reduce, because %s\n"
           "Here the tree may be faster, as so few bytes are exchanged: try -exchange tree\n",
           steps_text, why);
  assert_non_null(strstr(told, wanted));
  plan.level.latency = 4e-3; /* longer than the rings */
  told[0] = '\0';
  cr_plan_tell(&plan, hear, &told);
  assert_non_null(strstr(told, "  tree           20.000     20.000           1.00\n"));
  assert_null(strstr(told, "may be faster"));
  assert_null(strstr(told, "Activations"));
  assert_null(strstr(told, "instead of keeping"));
  assert_null(strstr(told, "passes an iteration"));
  free(plan.bucket);
}

/* Between devices of one process their own links are measured, and the net is run. */
PARALLEL_TEST(plans_are_measured) {
  static const char *const lines[] = {"  sim:0    -> sim:1 ", " -> sim:2 ", "\n  tree  ",
                                      "\n  reduce  "};
  solver_case *c = *state;
  use_devices(c, 3, CREMA_EXCHANGE_REDUCE);
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  told[0] = '\0';
  ok(crema_solver_plan(c->solver, hear, &told));
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) {
    if (strstr(told, lines[i]) == NULL) fail_msg("\"%s\" is not in:\n%s", lines[i], told);
  }
  assert_null(strstr(told, "between processes"));
  assert_null(strstr(told, "forward 0.000 ms"));
}

PARALLEL_TEST(plans_of_one_device_are_told) {
  solver_case *c = *state;
  cr_training_plan plan;
  char wanted[2048];
  plan_small(c, 1, CREMA_EXCHANGE_AUTO, "lr_policy: 'fixed'", &plan);
  snprintf(wanted, sizeof wanted,
           "Plan of training small with 1 device, 4 samples a forward pass of all\n"
           "  rank 0: sim:0\n%s%s%s"
           "  none            0.000     35.000           1.00\n"
           "There is one device: nothing is exchanged\n",
           buckets_text, memory_text, steps_text);
  assert_tells(&plan, wanted);
  free(plan.bucket);
}

/* Two processes, of which this one has one device: a bucket goes round in 2 steps, of 4 ms for 24
 * bytes and of 2 ms for 8. */
PARALLEL_TEST(plans_of_processes_are_told) {
  static const char begin[] =
      "Plan of training small with 2 processes, 4 samples a forward pass of all\n"
      "  rank 0: sim:0\n"
      "Links between processes, all used at once, of sums by MPI: 4e-06 GB/s after 1e+03 us\n";
  solver_case *c = *state;
  cr_training_plan plan;
  char wanted[2048];
  plan_small(c, 1, CREMA_EXCHANGE_AUTO, "lr_policy: 'fixed'", &plan);
  plan.processes = (cr_speed){1e-3, 4000};      /* made up, as no other process runs here */
  c->solver->world = (cr_world *)(void *)&plan; /* nobody looks into it here */
  c->solver->ranks = 2;
  snprintf(wanted, sizeof wanted,
           "%s%s%s%s"
           "  none            0.000     35.000           1.00\n"
           "  mpi            12.000     50.250           1.44\n"
           "Taken (auto): mpi, because it is the way between processes\n",
           begin, buckets_text, memory_text, steps_text);
  assert_tells(&plan, wanted);
  c->solver->ranks = 1;
  c->solver->options.exchange = CREMA_EXCHANGE_MPI;
  snprintf(wanted, sizeof wanted, "%s", "There is one device: nothing is exchanged\n");
  told[0] = '\0';
  cr_plan_tell(&plan, hear, &told);
  assert_non_null(strstr(told, "with 1 process, 4 samples"));
  assert_non_null(strstr(told, wanted));
  assert_null(strstr(told, "Links"));
  assert_null(strstr(told, "mpi"));
  c->solver->world = NULL;
  free(plan.bucket);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
