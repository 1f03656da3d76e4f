/* Averaged weights: what they are is in test_trajectories.c; here how they are tested, kept and
 * resumed. */
#include "parallel_case.h"

enum { WEIGHTS = 6 };

static const char *const averaging =
    "lr_policy: 'fixed' momentum: 0.9 ema_decay: 0.75 test_iter: 1 test_interval: 100";

static void read_average(const solver_case *c, int replica, float out[WEIGHTS]) {
  const float *value;
  ok(crema_blob_cpu_data(cr_average_of(c->solver->replica[replica].average, 0), &value));
  memcpy(out, value, WEIGHTS * sizeof *out);
}

static void expect_equal(const float *a, const float *b) {
  assert_memory_equal(a, b, WEIGHTS * sizeof *a);
}

/* The test net has the averages, the train net the weights; a program that sets weights before
 * training sets both. */
CASE_TEST(tests_are_of_the_averages) {
  solver_case *c = *state;
  float weight[WEIGHTS], average[WEIGHTS], expected[WEIGHTS], *value;
  const float *tested;
  case_load_fed(c, small_net, averaging);
  crema_net *net = crema_solver_net(c->solver), *test = crema_solver_test_net(c->solver, 0);
  case_weights(c, weight);
  read_average(c, 0, average);
  expect_equal(average, weight);
  ok(crema_blob_mutable_cpu_data(net->learnable[0], &value));
  for (int i = 0; i < WEIGHTS; ++i) expected[i] = value[i] = 0.125f * (float)i;
  for (int step = 0; step < 3; ++step) {
    ok(crema_solver_step(c->solver, 1));
    case_weights(c, weight);
    for (int i = 0; i < WEIGHTS; ++i) expected[i] = 0.25f * weight[i] + 0.75f * expected[i];
    read_average(c, 0, average);
    for (int i = 0; i < WEIGHTS; ++i) {
      assert_true(fabs((double)(average[i] - expected[i])) < 1e-6);
    }
    ok(crema_blob_cpu_data(test->learnable[0], &tested));
    expect_equal(tested, average);
    assert_memory_not_equal(tested, weight, sizeof weight);
    memcpy(expected, average, sizeof expected);
  }
}

/* Without ema_decay, test nets share the trained weights. */
CASE_TEST(no_decay_no_averages) {
  solver_case *c = *state;
  float weight[WEIGHTS];
  const float *tested;
  case_load_fed(c, small_net, "lr_policy: 'fixed' test_iter: 1 test_interval: 100");
  assert_null(c->solver->replica[0].average);
  ok(crema_solver_step(c->solver, 2));
  case_weights(c, weight);
  ok(crema_blob_cpu_data(crema_solver_test_net(c->solver, 0)->learnable[0], &tested));
  expect_equal(tested, weight);
  ok(crema_solver_snapshot(c->solver));
  char path[256];
  assert_true(access(case_path(c, "s_iter_2.ema.caffemodel", path), F_OK) != 0);
}

/* The model of averages holds them, and no diffs; both models and the state go on alike. */
static void run_snapshot(solver_case *c, const char *more, const char *end) {
  char text[512], path[256], name[64];
  float average[WEIGHTS], later[WEIGHTS], weight[WEIGHTS], found[WEIGHTS];
  const float *value;
  snprintf(text, sizeof text, "%s %s", averaging, more);
  case_load_fed(c, small_net, text);
  case_train_and_save(c, 4);
  read_average(c, 0, average);
  ok(crema_solver_step(c->solver, 3));
  read_average(c, 0, later);
  case_weights(c, weight);
  case_load_fed(c, small_net, text);
  snprintf(name, sizeof name, "s_iter_4.solverstate%s", end);
  ok(crema_solver_restore(c->solver, case_path(c, name, path)));
  read_average(c, 0, found);
  expect_equal(found, average);
  ok(crema_solver_step(c->solver, 3));
  read_average(c, 0, found);
  expect_equal(found, later);
  case_weights(c, found);
  expect_equal(found, weight);
  snprintf(name, sizeof name, "s_iter_4.ema.caffemodel%s", end);
  crema_net *net = crema_solver_net(c->solver);
  ok(crema_net_load_weights(net, case_path(c, name, path)));
  ok(crema_blob_cpu_data(net->learnable[0], &value));
  if (strstr(more, "FLOAT16") == NULL) expect_equal(value, average);
  for (int i = 0; i < WEIGHTS; ++i) assert_true(fabs((double)(value[i] - average[i])) < 1e-3);
}

CASE_TEST(averages_are_kept_and_resumed) {
  run_snapshot(*state, "", "");
  run_snapshot(*state, "snapshot_format: HDF5", ".h5");
  run_snapshot(*state, "snapshot_diff: true", "");
  run_snapshot(*state, "store_blobs_in_old_format: true type: 'LAMB'", "");
}

/* In 16 bits, the state has what the model rounds; in 64 it has doubles. */
static void resume_in(solver_case *c, const char *type) {
  char net[2048], path[256];
  float later[WEIGHTS], found[WEIGHTS];
  snprintf(net, sizeof net, "default_forward_type: %s default_backward_type: %s %s", type, type,
           small_net);
  case_load_fed(c, net, averaging);
  case_train_and_save(c, 4);
  ok(crema_solver_step(c->solver, 3));
  read_average(c, 0, later);
  case_load_fed(c, net, averaging);
  ok(crema_solver_restore(c->solver, case_path(c, "s_iter_4.solverstate", path)));
  ok(crema_solver_step(c->solver, 3));
  read_average(c, 0, found);
  expect_equal(found, later);
}

CASE_TEST(averages_of_other_types_are_resumed) {
  resume_in(*state, "FLOAT16");
  resume_in(*state, "BFLOAT16");
  resume_in(*state, "DOUBLE");
}

/* A state without averages begins them with its weights, and new weights end the old ones. */
CASE_TEST(averages_begin_with_weights_that_are_loaded) {
  solver_case *c = *state;
  char path[256];
  float weight[WEIGHTS], average[WEIGHTS];
  case_load_fed(c, small_net, "lr_policy: 'fixed' momentum: 0.9");
  case_train_and_save(c, 4);
  case_weights(c, weight);
  case_load_fed(c, small_net, averaging);
  ok(crema_solver_step(c->solver, 2));
  ok(crema_solver_restore(c->solver, case_path(c, "s_iter_4.solverstate", path)));
  read_average(c, 0, average);
  expect_equal(average, weight);
  ok(crema_solver_step(c->solver, 2));
  ok(crema_solver_load_weights(c->solver, case_path(c, "s_iter_4.caffemodel", path)));
  read_average(c, 0, average);
  expect_equal(average, weight);
}

/* What a program makes of weights that were loaded begins the averages, too. */
CASE_TEST(averages_begin_with_weights_that_a_program_sets) {
  solver_case *c = *state;
  char path[256];
  float weight[WEIGHTS], average[WEIGHTS], *value;
  case_load_fed(c, small_net, averaging);
  case_train_and_save(c, 4);
  ok(crema_solver_load_weights(c->solver, case_path(c, "s_iter_4.caffemodel", path)));
  ok(crema_blob_mutable_cpu_data(crema_solver_net(c->solver)->learnable[0], &value));
  for (int i = 0; i < WEIGHTS; ++i) value[i] = (float)i;
  ok(crema_solver_step(c->solver, 0));
  case_weights(c, weight);
  assert_true(weight[5] == 5);
  read_average(c, 0, average);
  expect_equal(average, weight);
}

/* A state whose averages do not fit is refused. */
CASE_TEST(altered_averages) {
  solver_case *c = *state;
  char path[256];
  ProtobufCMessage *message = NULL;
  case_load_fed(c, small_net, averaging);
  case_train_and_save(c, 2);
  ok(cr_message_read_binary(&caffe__solver_state__descriptor,
                            case_path(c, "s_iter_2.solverstate", path), &message));
  Caffe__CremaState *extra = ((Caffe__SolverState *)message)->crema_state;
  assert_int_equal(extra->n_average, 2);
  extra->n_average = 1;
  ok(cr_message_write_binary(message, path));
  assert_fails(crema_solver_restore(c->solver, path), CREMA_E_SHAPE, "the average of 1 parameters");
  extra->n_average = 2;
  Caffe__BlobProto *first = extra->average[0];
  extra->average[0] = extra->average[1];
  extra->average[1] = first;
  ok(cr_message_write_binary(message, path));
  assert_fails(crema_solver_restore(c->solver, path), CREMA_E_SHAPE, "average of parameter 0");
  cr_message_free(message);
}

/* All replicas have the same averages, with each way to exchange; so has a resume on one device. */
PARALLEL_TEST(replicas_have_the_same_averages) {
  solver_case *c = *state;
  char path[256];
  for (size_t k = 0; k < EXCHANGE_WAYS; ++k) {
    float first[WEIGHTS], other[WEIGHTS], later[WEIGHTS];
    use_devices(c, 2, exchange_ways[k]);
    case_load_fed(c, small_net, averaging);
    case_train_and_save(c, 3);
    read_average(c, 0, first);
    if (exchange_ways[k] == CREMA_EXCHANGE_TREE) {
      assert_null(c->solver->replica[1].average); /* the root updates and tests */
    } else {
      const float *tested;
      read_average(c, 1, other);
      expect_equal(other, first);
      ok(crema_blob_cpu_data(c->solver->test_net[1]->learnable[0], &tested));
      expect_equal(tested, first);
    }
    ok(crema_solver_step(c->solver, 2));
    read_average(c, 0, later);
    case_load_fed(c, small_net, averaging);
    ok(crema_solver_restore(c->solver, case_path(c, "s_iter_3.solverstate", path)));
    ok(crema_solver_step(c->solver, 2));
    read_average(c, 0, other);
    expect_equal(other, later);
    use_devices(c, 1, CREMA_EXCHANGE_AUTO);
    case_load_fed(c, small_net, averaging);
    ok(crema_solver_restore(c->solver, case_path(c, "s_iter_3.solverstate", path)));
    read_average(c, 0, other);
    expect_equal(other, first);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
