/* What a plan measures, what it foretells from that, and its text: of times and links that are
 * given here. Linked with --wrap for the parts of an iteration. */
#include <math.h>

#include "core/fail.h"
#include "interpose.h"
#include "log_lines.h"
#include "parallel/world_private.h"
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
  ok(cr_param_blocks_cut(c->solver->replica[0].blocks, 2, &plan->bucket, &plan->buckets));
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
      "  sim:1    -> sim:2     via the host        too fast to be measured, after 5 us\n"
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

/* ---- measuring ---- */

/* Where the clock is given, it stands still but for what an iteration takes, in seconds, exact in
 * binary. Each wait for the device takes one of WAIT. */
typedef struct lapse {
  double forward, layer[2], rest, update; /* layer: until each of the two is done */
} lapse;

#define WAIT 0.0078125

static const lapse *lapses; /* of the iteration that comes next; NULL: the clock's own time */
static double clock_now;

/* Whole times of a clock that stands still pass through timespec without rounding. */
INTERPOSED int clock_gettime(clockid_t clock, struct timespec *time) {
  if (lapses == NULL || !from_program()) return REAL(clock_gettime)(clock, time);
  *time = (struct timespec){.tv_sec = (time_t)clock_now};
  time->tv_nsec = (long)((clock_now - (double)time->tv_sec) * 1e9);
  return 0;
}

crema_status __real_crema_context_finish(crema_context *context);
crema_status __wrap_crema_context_finish(crema_context *context);
crema_status __wrap_crema_context_finish(crema_context *context) {
  if (lapses != NULL) clock_now += WAIT;
  return __real_crema_context_finish(context);
}

crema_status __real_cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                       double *loss);
crema_status __wrap_cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                       double *loss);
crema_status __wrap_cr_replica_forward(cr_replica *replica, const cr_iteration *iteration, int pass,
                                       double *loss) {
  if (lapses == NULL) return __real_cr_replica_forward(replica, iteration, pass, loss);
  crema_status status = __real_cr_replica_forward(replica, iteration, pass, loss);
  clock_now += lapses->forward;
  return status;
}

/* TWO_PRODUCTS: two layers of two buckets each, then the input. */
crema_status __real_cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher);
crema_status __wrap_cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher);
crema_status __wrap_cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher) {
  if (lapses == NULL) return __real_cr_net_backward_watched(net, watcher);
  for (int i = 0; i < 2; ++i) {
    clock_now += lapses->layer[i];
    CR_TRY(watcher->layer_done(watcher->user, 2 - i));
  }
  CR_TRY(watcher->layer_done(watcher->user, 0));
  clock_now += lapses->rest;
  net->replay_time += lapses->rest / 2;
  return CREMA_OK;
}

crema_status __real_cr_updater_run(cr_updater *updater, double rate, int64_t iteration);
crema_status __wrap_cr_updater_run(cr_updater *updater, double rate, int64_t iteration);
crema_status __wrap_cr_updater_run(cr_updater *updater, double rate, int64_t iteration) {
  crema_status status = __real_cr_updater_run(updater, rate, iteration);
  if (lapses != NULL) clock_now += lapses++->update;
  return status;
}

/* What was asked of links, the answers to which have their numbers as latency. */
typedef struct asked {
  int ways;
  cr_probe_way way[CR_MAX_DEVICES];
} asked;

static asked question[8];
static int questions;

static crema_status note_question(const cr_probe_way *way, int ways, cr_speed *out) {
  asked *now = &question[questions++];
  now->ways = ways;
  memcpy(now->way, way, (size_t)ways * sizeof *way);
  *out = (cr_speed){.latency = questions};
  return CREMA_OK;
}

/* The plan that was made last; of its arrays only measured_ready is there. */
static cr_training_plan measured;
static double measured_ready[4];

/* Makes a plan and its text. */
static void measure(const solver_case *c, cr_probe_fn *probe) {
  cr_training_plan plan = {.solver = c->solver, .probe = probe};
  questions = 0;
  told[0] = '\0';
  ok(cr_plan_make(&plan));
  cr_plan_tell(&plan, hear, &told);
  measured = plan;
  for (int i = 0; i < 4 && i < plan.buckets; ++i) measured_ready[i] = plan.times.ready[i];
  cr_plan_free(&plan);
}

/* A second process, which takes twice as long. */
static crema_status gather_double(cr_world *world, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(int64_t)) {
    int64_t value;
    memcpy(&value, world->buffer + at, sizeof value);
    memcpy(world->buffer + bytes + at, &value, sizeof value);
    value *= 2;
    memcpy(world->buffer + 2 * bytes + at, &value, sizeof value);
  }
  return CREMA_OK;
}

static const cr_world_class slow_world = {.name = "slow", .gather = gather_double};

static int64_t fed[8];
static int feeds;

static crema_status note_feed(void *user, crema_net *net, int64_t pass) {
  fed[feeds++] = pass;
  return case_feed(user, net, pass);
}

/* Of four iterations the first, which plans, does not count, and the fastest of the others does:
 * here the third. What is learned and remembered stays as it is.
 */
CASE_TEST(the_fastest_iteration_counts) {
  static const lapse given[] = {{0.0625, {0.03125, 0.03125}, 0.03125, 0.03125},
                                {0.25, {0.5, 0.25}, 0.25, 0.125},
                                {0.5, {0.125, 0.0625}, 0.25, 0.125},
                                {0.125, {0.5, 0.25}, 0.125, 0.09375},
                                {0, {0, 0}, 0, 0}};
  solver_case *c = *state;
  weights before, after;
  const float *history;
  c->options.feed = note_feed;
  c->options.recompute = true;
  case_load(c, TWO_PRODUCTS, "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.1 iter_size: 2");
  c->solver->iteration = 10;
  read_weights(c->solver->net, &before);
  lapses = given;
  feeds = 0;
  measure(c, cr_probe_links);
  assert_ptr_equal(lapses, &given[4]);
  lapses = NULL;
  assert_int_equal(measured.buckets, 4);
  assert_ms(measured.times.forward, 1e3 * (0.5 + WAIT));
  for (int i = 0; i < 4; ++i) {
    assert_ms(measured_ready[i], 1e3 * (i < 2 ? 0.125 + WAIT : 0.1875 + 2 * WAIT));
  }
  assert_ms(measured.times.backward, 1e3 * (0.4375 + 3 * WAIT));
  assert_ms(measured.times.again, 1e3 * (0.125));
  assert_ms(measured.times.update, 1e3 * (0.125 + WAIT));
  assert_non_null(strstr(told, "forward 507.812 ms, backward 460.938 ms, update 132.812 ms"));
  assert_int_equal(feeds, 4);
  for (int i = 0; i < 4; ++i) assert_int_equal(fed[i], 2 * (10 + i));
  read_weights(c->solver->net, &after);
  assert_same_weights(&before, &after);
  ok(crema_blob_cpu_data(cr_updater_history(c->solver->updater, 0), &history));
  for (int i = 0; i < 15; ++i) assert_true(history[i] == 0);
  assert_int_equal(crema_solver_iteration(c->solver), 10);
  /* Of several processes the slowest counts. */
  cr_world world = {0};
  cr_world_begin(&world, &slow_world);
  world.size = 2;
  c->solver->world = &world;
  lapses = given;
  feeds = 0;
  measure(c, cr_probe_links);
  lapses = NULL;
  c->solver->world = NULL;
  cr_world_end(&world);
  assert_ms(measured.times.forward, 2e3 * (0.5 + WAIT));
  assert_ms(measured.times.backward, 2e3 * (0.4375 + 3 * WAIT));
  assert_ms(measured.times.again, 2e3 * 0.125);
  assert_ms(measured.times.update, 2e3 * (0.125 + WAIT));
  assert_ms(measured_ready[3], 2e3 * (0.1875 + 2 * WAIT));
}

/* Each link of the tree by itself, those of its last level at once, and those of a ring at once. */
PARALLEL_TEST(links_are_asked_for) {
  solver_case *c = *state;
  cr_tree_pair pair[CR_MAX_DEVICES];
  crema_device *device[4];
  for (int count = 2; count <= 4; ++count) {
    asked last = {0};
    use_devices(c, count, CREMA_EXCHANGE_REDUCE);
    case_load_fed(c, small_net, "lr_policy: 'fixed'");
    for (int i = 0; i < count; ++i) device[i] = sim_test_device(i);
    ok(cr_tree_pair_devices(device, count, pair, NULL));
    measure(c, note_question);
    assert_int_equal(questions, count + 1);
    for (int i = 1; i < count; ++i) {
      bool leaf = true;
      assert_int_equal(question[i - 1].ways, 1);
      assert_ptr_equal(question[i - 1].way[0].from, device[pair[i].parent]);
      assert_ptr_equal(question[i - 1].way[0].to, device[pair[i].child]);
      assert_true(measured.link[i].latency == i);
      for (int k = 1; k < count; ++k) leaf = leaf && pair[k].parent != pair[i].child;
      if (leaf) last.way[last.ways++] = question[i - 1].way[0];
    }
    assert_int_equal(question[count - 1].ways, last.ways);
    assert_memory_equal(question[count - 1].way, last.way, (size_t)last.ways * sizeof *last.way);
    assert_true(measured.level.latency == count);
    assert_int_equal(question[count].ways, count);
    for (int i = 0; i < count; ++i) {
      assert_ptr_equal(question[count].way[i].from, device[i]);
      assert_ptr_equal(question[count].way[i].to, device[(i + 1) % count]);
    }
    assert_true(measured.ring.latency == count + 1);
  }
}

/* The others' threads do what the first one does, and the slowest of them counts. */
PARALLEL_TEST(the_slowest_replica_counts) {
  solver_case *c = *state;
  cr_net_memory memory;
  use_devices(c, 3, CREMA_EXCHANGE_REDUCE);
  case_load_fed(c, small_net, "lr_policy: 'fixed' iter_size: 2");
  measure(c, note_question);
  assert_true(measured.times.forward > 0 && measured.times.forward < 60);
  assert_true(measured.times.backward > 0 && measured.times.backward < 60);
  assert_true(measured.times.update > 0 && measured.times.update < 60);
  for (int i = 0; i < measured.buckets; ++i) assert_true(measured_ready[i] > 0);
  ok(cr_net_memory_read(c->solver->net, &memory));
  assert_int_equal(measured.memory.planned, memory.planned);
  assert_non_null(strstr(told, "  2 forward and backward passes an iteration"));
}

CASE_TEST(plans_are_of_what_trains_together_now) {
  solver_case *c = *state;
  c->options.process_count = 2;
  case_load_fed(c, small_net, "lr_policy: 'fixed'");
  assert_fails(crema_solver_plan(c->solver, hear, &told), CREMA_E_UNSUPPORTED,
               "a plan is made for devices of one process");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
