/* The content of a snapshot, and what happens to states that were altered or belong to another
 * net. */
#include <math.h>
#include <sys/wait.h>

#include "core/file.h"
#include "layers/common/layer.h"
#include "net/net_values.h"
#include "solver_case.h"

static const char *const averaged = "lr_policy: 'fixed' momentum: 0.5 average_loss: 3";

/* Leaves "s_iter_<iteration>" and hands out its state. */
static Caffe__SolverState *make_state(solver_case *c, int iterations) {
  char name[64], path[256];
  ProtobufCMessage *message = NULL;
  ok(crema_solver_step(c->solver, iterations));
  ok(crema_solver_snapshot(c->solver));
  snprintf(name, sizeof name, "s_iter_%lld.solverstate",
           (long long)crema_solver_iteration(c->solver));
  ok(cr_message_read_binary(&caffe__solver_state__descriptor, case_path(c, name, path), &message));
  return (Caffe__SolverState *)message;
}

static crema_status restore(solver_case *c, const Caffe__SolverState *state) {
  char path[256];
  ok(cr_message_write_binary(&state->base, case_path(c, "new.solverstate", path)));
  return crema_solver_restore(c->solver, path);
}

/* ---- content ---- */

static Caffe__NetParameter *read_model(const solver_case *c, const char *name) {
  char path[256];
  Caffe__NetParameter *model = NULL;
  ok(cr_net_param_read_binary(case_path(c, name, path), &model));
  return model;
}

/* With snapshot_diff the model has the last step of each weight; without it has no diffs. */
TEST(models_have_diffs_when_asked) {
  static const char *const texts[] = {"lr_policy: 'fixed' momentum: 0.9",
                                      "lr_policy: 'fixed' momentum: 0.9 snapshot_diff: true"};
  for (int diffs = 0; diffs < 2; ++diffs) {
    solver_case c;
    float before[6], after[6];
    case_begin_fed(&c, small_net, texts[diffs]);
    ok(crema_solver_step(c.solver, 2));
    case_weights(&c, before);
    ok(crema_solver_step(c.solver, 1));
    case_weights(&c, after);
    ok(crema_solver_snapshot(c.solver));
    Caffe__NetParameter *model = read_model(&c, "s_iter_3.caffemodel");
    assert_string_equal(model->layer[1]->name, "ip");
    const Caffe__BlobProto *blob = model->layer[1]->blobs[0];
    assert_int_equal(blob->n_data, 6);
    assert_memory_equal(blob->data, after, sizeof after);
    assert_int_equal(blob->n_diff, diffs * 6);
    for (size_t i = 0; i < blob->n_diff; ++i) {
      assert_true(fabs((double)(before[i] - after[i] - blob->diff[i])) < 1e-6);
    }
    cr_message_free(&model->base);
    case_end(&c);
  }
}

/* ---- altered states ---- */

typedef struct altered_case {
  solver_case c;
  Caffe__SolverState *state; /* of iteration 5: three losses, the next at index 2 */
} altered_case;

static void altered_begin(altered_case *a) {
  case_begin_fed(&a->c, small_net, averaged);
  a->state = make_state(&a->c, 5);
  assert_int_equal(a->state->crema_state->n_loss, 3);
  assert_int_equal(a->state->crema_state->next_loss, 2);
  case_load(&a->c, small_net, averaged);
}

static void altered_end(altered_case *a) {
  cr_message_free(&a->state->base);
  case_end(&a->c);
}

static void expect_refused(altered_case *a, crema_status code, const char *words) {
  assert_int_equal(restore(&a->c, a->state), code);
  if (strstr(crema_error_text(), words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", crema_error_text(), words);
  }
  assert_int_equal(crema_solver_iteration(a->c.solver), 0);
}

TEST(iterations_must_be_possible) {
  static const int32_t hostile[] = {-1, INT32_MIN};
  altered_case a;
  altered_begin(&a);
  a.state->has_iter = 0;
  expect_refused(&a, CREMA_E_CORRUPT, "it has no iteration");
  a.state->has_iter = 1;
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; ++i) {
    a.state->iter = hostile[i];
    expect_refused(&a, CREMA_E_CORRUPT, "are not possible");
    a.state->iter = 5;
    a.state->current_step = hostile[i];
    expect_refused(&a, CREMA_E_CORRUPT, "are not possible");
    a.state->current_step = 0;
  }
  /* Large is not impossible. */
  a.state->iter = a.state->current_step = INT32_MAX;
  ok(restore(&a.c, a.state));
  assert_int_equal(crema_solver_iteration(a.c.solver), INT32_MAX);
  /* But no state could record one more. */
  assert_int_equal(crema_solver_step(a.c.solver, 1), CREMA_E_RANGE);
  assert_int_equal(crema_solver_step(a.c.solver, INT64_MAX), CREMA_E_RANGE);
  altered_end(&a);
}

TEST(histories_must_be_as_many) {
  altered_case a;
  altered_begin(&a);
  Caffe__BlobProto *whole[] = {a.state->history[0], a.state->history[1], a.state->history[0]};
  Caffe__BlobProto **own = a.state->history;
  a.state->history = whole;
  for (size_t count = 0; count <= 3; ++count) {
    a.state->n_history = count;
    if (count != 2) expect_refused(&a, CREMA_E_SHAPE, "history blobs, but SGD");
  }
  a.state->history = own;
  a.state->n_history = 2;
  ok(restore(&a.c, a.state));
  altered_end(&a);
}

/* A window of losses that does not make sense is forgotten, not believed. */
TEST(windows_of_losses_stay_in_their_bounds) {
  static const struct {
    size_t losses;
    int32_t next;
    bool fits;
  } rows[] = {{3, 2, true},  {3, 0, true},          {2, 2, true},         {0, 0, true},
              {3, 3, false}, {3, 4, false},         {4, 0, false},        {2, 1, false},
              {2, 3, false}, {3, -1, false},        {0, 1, false},        {4, 4, false},
              {0, 3, false}, {3, INT32_MAX, false}, {1, INT32_MIN, false}};
  altered_case a;
  altered_begin(&a);
  double losses[] = {4, 5, 6, 7}, *own = a.state->crema_state->loss;
  a.state->crema_state->loss = losses;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const cr_loss_window *window = &a.c.solver->window;
    a.state->crema_state->n_loss = rows[i].losses;
    a.state->crema_state->next_loss = rows[i].next;
    ok(restore(&a.c, a.state)); /* the solver has losses of its own */
    assert_int_equal(window->count, rows[i].fits ? rows[i].losses : 0);
    assert_int_equal(window->next, rows[i].fits ? rows[i].next : 0);
    for (int k = 0; k < window->count; ++k) assert_true(window->loss[k] == losses[k]);
    ok(crema_solver_step(a.c.solver, 4));
    assert_in_range(window->next, 0, 2);
  }
  a.state->crema_state->loss = own;
  a.state->crema_state->n_loss = 3;
  Caffe__CremaState *extra = a.state->crema_state;
  a.state->crema_state = NULL; /* as in Caffe's states */
  ok(restore(&a.c, a.state));
  assert_true(a.c.solver->window.count == 0 && a.c.solver->window.next == 0);
  a.state->crema_state = extra;
  altered_end(&a);
}

/* The generator continues where it was, also in the middle of its words. */
CASE_TEST(the_generator_goes_on) {
  solver_case *c = *state;
  uint32_t expected[700];
  case_load_fed(c, small_net, averaged);
  for (int i = 0; i < 1000; ++i) (void)cr_mt19937_next(&c->solver->context->rng);
  Caffe__SolverState *saved = make_state(c, 1);
  saved->crema_state->seed = 99;
  for (int i = 0; i < 700; ++i) expected[i] = cr_mt19937_next(&c->solver->context->rng);
  case_load(c, small_net, averaged);
  ok(restore(c, saved));
  for (int i = 0; i < 700; ++i) {
    assert_int_equal(cr_mt19937_next(&c->solver->context->rng), expected[i]);
  }
  /* The next state has the seed that the run began with. */
  cr_message_free(&saved->base);
  saved = make_state(c, 1);
  assert_int_equal(saved->crema_state->seed, 99);
  cr_message_free(&saved->base);
}

/* Nets that the solver does not have and layers without names are ignored. */
TEST(what_nobody_has_is_passed_over) {
  altered_case a;
  altered_begin(&a);
  Caffe__CremaState *extra = a.state->crema_state;
  Caffe__CremaState__Net *nets[] = {extra->net[0], extra->net[0], extra->net[0]};
  Caffe__CremaState__Net **own = extra->net;
  char *name = extra->net[0]->layer[0]->name;
  extra->net = nets;
  extra->n_net = 3;
  extra->net[0]->layer[0]->name = NULL;
  ok(restore(&a.c, a.state));
  extra->net[0]->layer[0]->name = name;
  extra->net = own;
  extra->n_net = 0;
  ok(restore(&a.c, a.state));
  extra->n_net = 1;
  altered_end(&a);
}

/* ---- other nets ---- */

/* Two layers of one shape and two with random streams, in the order that is asked for. */
static void branched_net(char text[2048], const char *first, const char *second,
                         const char *streams) {
  static const char ip[] =
      "layer { name: '%s' type: 'InnerProduct' bottom: 'data' top: '%s'\n"
      "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n";
  static const char drop[] = "layer { name: '%c' type: 'Dropout' bottom: '%c' top: '%c%c' }\n";
  int put = snprintf(text, 2048,
                     "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
                     "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n");
  put += snprintf(text + put, 2048 - (size_t)put, ip, first, first);
  put += snprintf(text + put, 2048 - (size_t)put, ip, second, second);
  for (; *streams != '\0'; ++streams) {
    char c = *streams, below = c == 'x' ? 'a' : 'b';
    put += snprintf(text + put, 2048 - (size_t)put, drop, c, below, below, c);
  }
  snprintf(text + put, 2048 - (size_t)put,
           "layer { name: 'sum' type: 'Eltwise' bottom: 'ax' bottom: 'by' top: 'sum' }\n"
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'sum' bottom: 'label' }\n");
}

CASE_TEST(layers_are_found_by_name) {
  solver_case *c = *state;
  char text[2048];
  c->options.feed = case_feed;
  branched_net(text, "a", "b", "xy");
  case_load(c, text, averaged);
  crema_net *net = crema_solver_net(c->solver);
  layer_of(net, "x")->key = 111;
  layer_of(net, "y")->key = 222;
  layer_of(net, "x")->pass = 10;
  layer_of(net, "y")->pass = 20;
  Caffe__SolverState *saved = make_state(c, 1);
  for (int i = 0; i < 2; ++i) {
    branched_net(text, "a", "b", i == 0 ? "xy" : "yx");
    case_load(c, text, averaged);
    ok(restore(c, saved));
    net = crema_solver_net(c->solver);
    assert_int_equal(layer_of(net, "x")->key, 111);
    assert_int_equal(layer_of(net, "y")->key, 222);
    assert_int_equal(layer_of(net, "x")->pass, 11);
    assert_int_equal(layer_of(net, "y")->pass, 21);
  }
  cr_message_free(&saved->base);
}

/* The history has no names: parameters in another order would get each other's. */
TEST(histories_are_not_swapped) {
  altered_case a;
  char text[2048];
  case_begin(&a.c);
  a.c.options.feed = case_feed;
  branched_net(text, "a", "b", "xy");
  case_load(&a.c, text, averaged);
  a.state = make_state(&a.c, 1);
  branched_net(text, "b", "a", "xy");
  case_load(&a.c, text, averaged);
  expect_refused(&a, CREMA_E_SHAPE, "layers 'b' and 'a' are in another order than in the state");
  altered_end(&a);
}

static const char *const own_layer_net =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'own' type: 'InnerProduct' bottom: 'ip' top: 'scores' include { phase: TEST }\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'unused' type: 'Silence' bottom: 'scores' include { phase: TEST } }\n";

/* Layers that only a test net has get their weights from the file, too. */
CASE_TEST(layers_of_a_test_net_get_weights) {
  static const char text[] = "lr_policy: 'fixed' test_iter: 1 test_interval: 9";
  solver_case *c = *state;
  char path[256];
  float *values, given[4] = {1, 2, 3, 4};
  const float *found;
  case_load_fed(c, own_layer_net, text);
  crema_net *net = crema_solver_test_net(c->solver, 0);
  ok(crema_blob_mutable_cpu_data(layer_of(net, "own")->blob[0], &values));
  memcpy(values, given, sizeof given);
  ok(crema_net_save_weights(net, case_path(c, "test.caffemodel", path)));
  case_load(c, own_layer_net, text);
  ok(crema_solver_load_weights(c->solver, path));
  net = crema_solver_test_net(c->solver, 0);
  ok(crema_blob_cpu_data(layer_of(net, "own")->blob[0], &found));
  assert_memory_equal(found, given, sizeof given);
}

/* ---- what a restored solver has done ---- */

static bool has_file(const solver_case *c, const char *name) {
  char path[256];
  return access(case_path(c, name, path), R_OK) == 0;
}

/* Snapshots and failures from before are another run's. */
CASE_TEST(restored_solvers_begin_anew) {
  static const char text[] = "lr_policy: 'fixed' max_iter: 3";
  solver_case *c = *state;
  char path[256];
  case_load_fed(c, small_net, text);
  Caffe__SolverState *saved = make_state(c, 3);
  for (int weights = 0; weights < 2; ++weights) {
    /* Neither a state nor weights are what the snapshot of iteration 3 holds. */
    ok(weights == 0
           ? restore(c, saved)
           : crema_solver_load_weights(c->solver, case_path(c, "s_iter_3.caffemodel", path)));
    assert_int_equal(remove(case_path(c, "s_iter_3.solverstate", path)), 0);
    ok(crema_solver_solve(c->solver));
    assert_true(has_file(c, "s_iter_3.solverstate"));
  }
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 3 snapshot: 5 snapshot_after_train: false");
  char *prefix = c->solver->snapshot_prefix;
  c->solver->snapshot_prefix = strdup("/dev/null/s");
  assert_int_equal(crema_solver_step(c->solver, 5), CREMA_E_IO);
  free(c->solver->snapshot_prefix);
  c->solver->snapshot_prefix = prefix;
  ok(restore(c, saved));
  assert_int_equal(remove(case_path(c, "s_iter_3.solverstate", path)), 0);
  ok(crema_solver_solve(c->solver));
  assert_false(has_file(c, "s_iter_3.solverstate"));
  cr_message_free(&saved->base);
}

/* ---- what kills leave ---- */

/* A draft of `name` by a process that is no more. */
static void abandon_draft(const solver_case *c, const char *name) {
  char path[256];
  case_path(c, name, path);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    cr_file_draft draft;
    _exit(cr_file_draft_begin(path, &draft) == CREMA_OK ? 0 : 1);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

static void expect_lines(const solver_case *c, const char *filter, int lines) {
  char command[256];
  snprintf(command, sizeof command, "test $(ls %s | grep -c '%s') -eq %d", c->folder, filter,
           lines);
  assert_int_equal(system(command), 0);
}

CASE_TEST(abandoned_drafts_go) {
  solver_case *c = *state;
  case_load_fed(c, small_net,
                "lr_policy: 'fixed' max_iter: 0 snapshot_after_train: false snapshot: 5");
  abandon_draft(c, "s_iter_7.caffemodel");
  abandon_draft(c, "other_iter_7.caffemodel");
  expect_lines(c, "_iter_7", 2);
  ok(crema_solver_solve(c->solver));
  expect_lines(c, "s_iter_7", 0);
  expect_lines(c, "_iter_7", 1);
  abandon_draft(c, "s_iter_7.caffemodel");
  ok(crema_solver_snapshot(c->solver));
  expect_lines(c, "_iter_7", 1);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
