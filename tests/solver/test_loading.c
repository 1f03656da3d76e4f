/* Loading solver files: paths, nets, scores, refusals and messages. */
#include <math.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "solver_case.h"

static void assert_exists(const solver_case *c, const char *name, bool wanted) {
  char path[256];
  assert_int_equal(access(case_path(c, name, path), F_OK) == 0, wanted);
}

static void make_folder(const solver_case *c, const char *name) {
  char path[256];
  assert_int_equal(mkdir(case_path(c, name, path), 0755), 0);
}

/* Loads "d/solver.prototxt" of the case's folder, from this folder, with a line of its own for the
 * prefix. */
static void load_below(solver_case *c, const char *prefix) {
  char text[512];
  case_write(c, "d/net.prototxt", small_net);
  snprintf(text, sizeof text, "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed' %s\n", prefix);
  case_write(c, "d/solver.prototxt", text);
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  if (crema_solver_load("d/solver.prototxt", &c->options, &c->solver) != CREMA_OK) {
    fail_msg("%s", crema_error_text());
  }
}

/* ---- prefixes ---- */

/* A prefix's folder is tried from the working directory, then from the solver file's. */
CASE_TEST(prefixes_are_resolved) {
  static const struct {
    const char *line, *prefix;
  } rows[] = {{"", "d/solver"},
              {"snapshot_prefix: ''", "d/solver"},
              {"snapshot_prefix: 'bare'", "bare"},
              {"snapshot_prefix: 'here/s'", "here/s"},
              {"snapshot_prefix: 'below/s'", "d/below/s"},
              {"snapshot_prefix: 'below/deeper/s'", "d/below/deeper/s"},
              {"snapshot_prefix: 'nowhere/s'", "nowhere/s"},
              {"snapshot_prefix: '/s'", "/s"},
              {"snapshot_prefix: 'here'", "here/solver"},
              {"snapshot_prefix: 'here/'", "here/solver"}};
  char before[256];
  solver_case *c = *state;
  assert_non_null(getcwd(before, sizeof before));
  assert_int_equal(chdir(c->folder), 0);
  make_folder(c, "d");
  make_folder(c, "here");
  make_folder(c, "d/below");
  make_folder(c, "d/below/deeper");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    load_below(c, rows[i].line);
    assert_string_equal(c->solver->snapshot_prefix, rows[i].prefix);
  }
  /* A name that begins with a dot is no extension. */
  static const char *const hidden[][2] = {{"d/.solver", "d/.solver"},
                                          {"d/.solver.prototxt", "d/.solver"},
                                          {"d/a.b.c", "d/a.b"},
                                          {"d/plain", "d/plain"}};
  for (size_t i = 0; i < sizeof hidden / sizeof *hidden; ++i) {
    case_write(c, hidden[i][0], "net: 'net.prototxt' base_lr: 0.1 lr_policy: 'fixed'");
    crema_solver_destroy(c->solver);
    ok(crema_solver_load(hidden[i][0], &c->options, &c->solver));
    assert_string_equal(c->solver->snapshot_prefix, hidden[i][1]);
  }
  assert_int_equal(chdir("d"), 0);
  crema_solver_destroy(c->solver);
  ok(crema_solver_load(".solver", &c->options, &c->solver));
  assert_string_equal(c->solver->snapshot_prefix, ".solver");
  assert_int_equal(chdir(".."), 0);
  load_below(c, "snapshot_prefix: 'below/s'");
  ok(crema_solver_snapshot(c->solver));
  assert_exists(c, "d/below/s_iter_0.caffemodel", true);
  assert_exists(c, "d/below/s_iter_0.solverstate", true);
  assert_int_equal(chdir(before), 0);
}

/* ---- fields ---- */

CASE_TEST(numbers_must_be_finite) {
  static const char *const names[] = {"base_lr", "momentum",       "momentum2", "weight_decay",
                                      "delta",   "clip_gradients", "gamma",     "power"};
  char line[128], says[128];
  solver_case *c = *state;
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    snprintf(line, sizeof line, "lr_policy: 'fixed' %s: nan", names[i]);
    snprintf(says, sizeof says, "/solver.prototxt:3: %s must be a finite number, found nan",
             names[i]);
    if (strcmp(names[i], "base_lr") != 0) case_refuse(c, line, CREMA_E_RANGE, says);
    snprintf(line, sizeof line, "lr_policy: 'fixed' %s: 0.5", names[i]);
    if (strcmp(names[i], "base_lr") != 0) case_load(c, small_net, line);
  }
  case_refuse(c, "lr_policy: 'fixed' max_iter: -1", CREMA_E_RANGE,
              "max_iter must not be negative, found -1");
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 0");
  ok(crema_solver_solve(c->solver));
  assert_int_equal(crema_solver_iteration(c->solver), 0);
}

/* What is wrong with a value is said with the line on which the file has it. */
CASE_TEST(values_are_blamed_by_line) {
  static const struct {
    const char *text; /* from line 3 on */
    int line;         /* 0: none is named */
    crema_status status;
    const char *words;
  } rows[] = {
      {"lr_policy: 'cosin'\nmax_iter: 9", 3, CREMA_E_UNKNOWN_NAME, "did you mean 'cosine'?"},
      {"lr_policy: 'fixed'\nmax_iter: -9", 4, CREMA_E_RANGE, "max_iter must not be negative"},
      {"lr_policy: 'fixed'\nsnapshot: -1", 4, CREMA_E_RANGE, "snapshot must not be negative"},
      {"lr_policy: 'fixed'\ndisplay: -1", 4, CREMA_E_RANGE, "display must not be negative"},
      {"lr_policy: 'fixed'\ntest_interval: -1", 4, CREMA_E_RANGE,
       "test_interval must not be negative"},
      {"lr_policy: 'fixed'\n\nwarmup_iter: -2", 5, CREMA_E_RANGE, "found -2"},
      {"lr_policy: 'fixed'\nwarmup_start_lr: -2", 4, CREMA_E_RANGE, "found -2"},
      {"lr_policy: 'fixed'\nrampup_interval: -1", 4, CREMA_E_RANGE, "found -1"},
      {"lr_policy: 'fixed'\nema_decay: -0.5", 4, CREMA_E_RANGE, "must not be negative"},
      {"lr_policy: 'fixed'\nema_decay: 1", 4, CREMA_E_RANGE, "must be below 1, found 1"},
      {"lr_policy: 'fixed'\nearly_stop_patience: -1", 4, CREMA_E_RANGE, "not be negative"},
      {"lr_policy: 'fixed'\nearly_stop_min_change: -1", 4, CREMA_E_RANGE, "not be negative"},
      {"lr_policy: 'fixed'\nstagelr: [ 1, inf ]", 4, CREMA_E_RANGE, "stagelr must be a finite"},
      {"lr_policy: 'step'", 0, CREMA_E_RANGE, "lr_policy 'step' needs a stepsize above 0"},
      {"\nlr_policy: 'step'\nstepsize: 0", 5, CREMA_E_RANGE, "a stepsize above 0"},
      {"train_state { stage: 'max_iter' }\nlr_policy: 'poly' max_iter: 0", 4, CREMA_E_RANGE,
       "max_iter above 0"},
      {"lr_policy: 'fixed'\ntype: 'AdamV'", 4, CREMA_E_UNKNOWN_NAME, "did you mean 'Adam"},
      {"lr_policy: 'fixed'\niter_size: 0", 4, CREMA_E_RANGE, "iter_size must be at least 1"},
      {"lr_policy: 'fixed'\naverage_loss: 0", 4, CREMA_E_RANGE, "average_loss must be"},
      {"lr_policy: 'fixed'\ntest_iter: -1 test_interval: 1", 4, CREMA_E_RANGE, "found -1"},
  };
  solver_case *c = *state;
  char says[64];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    /* The file's first two lines are those of every case; its third begins with the text. */
    case_refuse(c, rows[i].text, rows[i].status, rows[i].words);
    snprintf(says, sizeof says, "/solver.prototxt:%d: ", rows[i].line);
    if (rows[i].line == 0) snprintf(says, sizeof says, "/solver.prototxt: ");
    if (strstr(crema_error_text(), says) == NULL) fail_msg("%s: %s", says, crema_error_text());
    assert_int_equal(crema_error_line(), rows[i].line);
  }
}

/* What comes through a pipe is gone: no line of it can be named, and nobody waits for more. */
CASE_TEST(pipes_are_read_once) {
  static const char text[] = "net: 'net.prototxt' base_lr: 1\nlr_policy: 'fixed' max_iter: -9\n";
  solver_case *c = *state;
  char path[256];
  assert_int_equal(mkfifo(case_path(c, "pipe", path), 0600), 0);
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    FILE *file = fopen(path, "w");
    _exit(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0 ? 0 : 1);
  }
  assert_fails(crema_solver_load(path, NULL, &c->solver), CREMA_E_RANGE,
               "/pipe: max_iter must not be negative, found -9");
  assert_int_equal(crema_error_line(), 0);
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

/* No field of NVCaffe's dialect is passed over with a warning. */
CASE_TEST(no_field_is_without_effect) {
  static log_lines lines;
  solver_case *c = *state;
  listen(&lines);
  case_load(c, small_net,
            "lr_policy: 'poly' max_iter: 5 min_lr: 0.001 rampup_interval: 2 rampup_lr: 0.01 "
            "max_weight_decay: 0.1 weight_decay_policy: 'poly' weight_decay_power: 2 "
            "momentum_policy: 'poly' max_momentum: 0.9 momentum_power: 2 larc: true "
            "larc_eta: 0.01 larc_policy: 'clip' larc_turbo: true solver_data_type: FLOAT16 "
            "test_and_snapshot_last_epochs: 0");
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(count_lines(&lines, "no effect"), 0);
}

/* ---- nets ---- */

/* Scores are means over the batches, numbered through all values of all outputs; what counts
 * towards the loss says so. */
CASE_TEST(scores_are_means_of_all_outputs) {
  static const char *const net =
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 1 } }\n"
      "  include { phase: TRAIN } }\n"
      "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' include { phase: TRAIN }\n"
      "  inner_product_param { num_output: 1 axis: 0 } }\n"
      "layer { name: 'l' type: 'EuclideanLoss' bottom: 'x' bottom: 'x' top: 'loss'\n"
      "  include { phase: TRAIN } }\n"
      "layer { name: 'a' type: 'DummyData' top: 'a' include { phase: TEST not_stage: 'second' }\n"
      "  dummy_data_param { shape { dim: 2 } data_filler { value: 3 } } }\n"
      "layer { name: 'b' type: 'DummyData' top: 'b' loss_weight: 2 include { phase: TEST }\n"
      "  dummy_data_param { shape { dim: 1 } data_filler { value: 5 } } }\n";
  static log_lines lines;
  solver_case *c = *state;
  case_load(c, net,
            "lr_policy: 'fixed' test_iter: 4 test_iter: 3 test_interval: 1\n"
            "test_state { } test_state { stage: 'second' } test_compute_loss: true");
  assert_int_equal(crema_solver_test_net_count(c->solver), 2);
  listen(&lines);
  ok(cr_solver_test_all(c->solver));
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_string_equal(lines.text,
                      "Iteration 0, Testing net (#0)\n"
                      "Test loss: 10\n"
                      "    Test net output #0: a = 3\n"
                      "    Test net output #1: a = 3\n"
                      "    Test net output #2: b = 5 (* 2 = 10 loss)\n"
                      "Iteration 0, Testing net (#1)\n"
                      "Test loss: 10\n"
                      "    Test net output #0: b = 5 (* 2 = 10 loss)\n");
}

/* Two outputs in a test net: one of `counted` values at first and 3 from the second batch on, and
 * one of a value. */
typedef struct growing {
  crema_solver *solver;
  int polls;
} growing;

static crema_solver_action grow(void *user) {
  growing *g = user;
  const crema_shape shape = {.axes = 1, .dim = {3}};
  float *value;
  crema_blob *blob = crema_net_input(crema_solver_test_net(g->solver, 0), 0);
  if (++g->polls == 2) ok(crema_blob_reshape(blob, &shape));
  ok(crema_blob_mutable_cpu_data(blob, &value));
  for (int i = 0; i < crema_blob_count(blob); ++i) value[i] = (float)(2 * g->polls + i);
  return CREMA_SOLVER_CONTINUE;
}

/* The outputs of a test count as they were in its first batch. */
CASE_TEST(outputs_that_grow_count_as_they_began) {
  static const char *const net =
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 } }\n"
      "  loss_weight: 1 include { phase: TRAIN } }\n"
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } }\n"
      "  include { phase: TEST } }\n";
  static log_lines lines;
  solver_case *c = *state;
  growing g = {.polls = 0};
  c->options.poll = grow;
  c->options.user = &g;
  case_load(c, net, "lr_policy: 'fixed' test_iter: 2 test_interval: 1");
  g.solver = c->solver;
  listen(&lines);
  ok(cr_solver_test_all(c->solver));
  stop_listening();
  assert_string_equal(lines.text,
                      "Iteration 0, Testing net (#0)\n"
                      "    Test net output #0: x = 3\n"
                      "    Test net output #1: x = 4\n");
  assert_true(c->solver->has_score && c->solver->score == 3);
}

/* The score is the first value of the first output that is no loss and has one; else the first
 * value of all. */
CASE_TEST(scores_are_of_outputs_that_are_no_losses) {
  static const struct {
    const char *outputs;
    bool found;
    double score;
  } rows[] = {
      {"top: 'a' loss_weight: 1 top: 'b' loss_weight: 0 dummy_data_param {"
       " shape { dim: 3 } data_filler { value: 7 } shape { dim: 2 } data_filler { value: 5 } }",
       true, 5},
      {"top: 'a' loss_weight: 1 dummy_data_param { shape { dim: 3 } data_filler { value: 7 } }",
       true, 7},
      {"top: 'a' top: 'b' dummy_data_param {"
       " shape { dim: 0 } data_filler { value: 7 } shape { dim: 2 } data_filler { value: 5 } }",
       true, 5},
      {"top: 'a' dummy_data_param { shape { dim: 0 } data_filler { value: 7 } }", false, 0},
  };
  solver_case *c = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char net[1024];
    snprintf(net, sizeof net,
             "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 } }\n"
             "  loss_weight: 1 include { phase: TRAIN } }\n"
             "layer { name: 'd' type: 'DummyData' include { phase: TEST } %s }\n",
             rows[i].outputs);
    case_load(c, net, "lr_policy: 'fixed' test_iter: 2 test_interval: 1");
    ok(cr_solver_test_all(c->solver));
    assert_int_equal(c->solver->has_score, rows[i].found);
    if (rows[i].found) assert_true(c->solver->score == rows[i].score);
  }
}

CASE_TEST(nets_can_be_asked_for) {
  solver_case *c = *state;
  assert_null(crema_solver_net(NULL));
  assert_null(crema_solver_test_net(NULL, 0));
  assert_int_equal(crema_solver_test_net_count(NULL), 0);
  assert_int_equal(crema_solver_iteration(NULL), 0);
  crema_solver_destroy(NULL);
  case_load(c, small_net, "lr_policy: 'fixed' test_iter: 1 test_iter: 1 test_interval: 5");
  assert_int_equal(crema_solver_test_net_count(c->solver), 2);
  assert_ptr_equal(crema_solver_net(c->solver), c->solver->net);
  assert_non_null(crema_solver_net(c->solver));
  for (int i = 0; i < 2; ++i) {
    assert_non_null(crema_solver_test_net(c->solver, i));
    assert_ptr_equal(crema_solver_test_net(c->solver, i), c->solver->test_net[i]);
  }
  assert_null(crema_solver_test_net(c->solver, -1));
  assert_null(crema_solver_test_net(c->solver, 2));
}

/* A base_lr that is missing trains nothing; a negative one may be meant. Without iterations or updates there is no rate
 * to use, so such solvers are accepted: programs make them to run or time a net. */
CASE_TEST(base_lr_is_required_to_train) {
  static const char *const rows[][2] = {
      {"lr_policy: 'fixed' max_iter: 1", "base_lr is missing; give the learning rate"},
      {"lr_policy: 'fixed' max_iter: 0", NULL},
      {"lr_policy: 'fixed' max_iter: 1 disabled_update: true", NULL},
      {"lr_policy: 'multifixed' max_iter: 1 stagelr: 0.1 stageiter: 1", NULL},
      {"lr_policy: 'fixed' max_iter: 1 base_lr: -1", NULL},
  };
  static log_lines lines;
  char path[256], text[512];
  solver_case *c = *state;
  case_write(c, "net.prototxt", small_net);
  listen(&lines);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    snprintf(text, sizeof text, "net: 'net.prototxt' %s", rows[i][0]);
    case_write(c, "solver.prototxt", text);
    crema_solver_destroy(c->solver);
    c->solver = NULL;
    crema_status status =
        crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver);
    assert_int_equal(status, rows[i][1] == NULL ? CREMA_OK : CREMA_E_PARSE);
    if (rows[i][1] != NULL) assert_error_has(rows[i][1]);
  }
  stop_listening();
  assert_int_equal(count_lines(&lines, "base_lr is missing; it is 0"), 2);
  assert_int_equal(count_lines(&lines, "base_lr is negative (-1): training increases the loss"), 1);
}

/* Periodic snapshots need their folder at once, other snapshots before training begins. */
CASE_TEST(folders_of_snapshots_must_exist) {
  static const char rest[] =
      "base_lr: 0.1 lr_policy: 'fixed' max_iter: 9 snapshot_prefix: 'nowhere/s'";
  char path[256], text[512];
  solver_case *c = *state;
  case_write(c, "net.prototxt", small_net);
  snprintf(text, sizeof text, "net: 'net.prototxt' snapshot: 3\n%s", rest);
  case_write(c, "solver.prototxt", text);
  assert_fails(crema_solver_load(case_path(c, "solver.prototxt", path), NULL, &c->solver),
               CREMA_E_IO,
               "solver.prototxt:2: snapshot_prefix \"nowhere/s\": the folder 'nowhere' does not "
               "exist; create it or choose another prefix");
  snprintf(text, sizeof text, "net: 'net.prototxt' %s", rest);
  case_write(c, "solver.prototxt", text);
  ok(crema_solver_load(path, NULL, &c->solver));
  assert_fails(crema_solver_solve(c->solver), CREMA_E_IO, "the folder 'nowhere' does not exist");
  assert_int_equal(crema_solver_iteration(c->solver), 0);
}

CASE_TEST(nets_to_train_are_needed) {
  char path[256];
  solver_case *c = *state;
  case_write(c, "solver.prototxt", "base_lr: 0.1 lr_policy: 'fixed'");
  assert_fails(crema_solver_load(case_path(c, "solver.prototxt", path), NULL, &c->solver),
               CREMA_E_PARSE, "no net to train");
  case_write(c, "solver.prototxt", "base_lr: 0.1 lr_policy: 'fixed' net_param { name: 'x' }");
  assert_fails(crema_solver_load(case_path(c, "solver.prototxt", path), NULL, &c->solver),
               CREMA_E_ARGUMENT, "the net to train has no layers");
  assert_int_equal(crema_solver_load(NULL, NULL, &c->solver), CREMA_E_ARGUMENT);
  assert_int_equal(crema_solver_load("x", NULL, NULL), CREMA_E_ARGUMENT);
  assert_null(c->solver);
}

/* One fewer entry than nets, one more, as many: only the last goes. */
CASE_TEST(test_entries_are_counted) {
  solver_case *c = *state;
  case_refuse(c, "lr_policy: 'fixed' test_interval: 1 test_iter: 1 test_state { } test_state { }",
              CREMA_E_PARSE, "1 test nets but 2 test_state entries");
  case_load(c, small_net,
            "lr_policy: 'fixed' test_interval: 1 test_iter: 1 test_iter: 1 test_state { } "
            "test_state { }");
  /* A file of its own for the first test net, the common one for the second. */
  case_write(c, "test.prototxt", small_net);
  case_load(c, small_net,
            "lr_policy: 'fixed' test_interval: 1 test_iter: 1 test_iter: 1 test_net: "
            "'test.prototxt'");
  assert_int_equal(crema_solver_test_net_count(c->solver), 2);
  case_refuse(c, "lr_policy: 'fixed' test_interval: 0 test_iter: 1", CREMA_E_PARSE,
              "test_interval is 0, not above 0");
}

/* In Caffe the phase of a state decides; here what the net is for does. */
CASE_TEST(phases_of_states_are_not_passed_over_in_silence) {
  static log_lines lines;
  char net[2048], words[400], path[256];
  solver_case *c = *state;
  snprintf(net, sizeof net, "%sstate { phase: TEST }\n", small_net);
  listen_to(&lines, CREMA_LOG_WARNING);
  case_load(c, small_net,
            "lr_policy: 'fixed' test_interval: 1 test_iter: 1\n"
            "train_state { phase: TRAIN } test_state { phase: TEST }");
  assert_int_equal(lines.size, 0);
  case_load(c, small_net,
            "lr_policy: 'fixed' test_interval: 1 test_iter: 1\ntrain_state { phase: TEST }\n"
            "test_state { phase: TRAIN }");
  snprintf(words, sizeof words, "%s:4: train_state: the phase TEST has no effect",
           case_path(c, "solver.prototxt", path));
  assert_int_equal(count_lines(&lines, words), 1);
  assert_int_equal(count_lines(&lines, ":5: test_state: the phase TRAIN has no effect"), 1);
  assert_int_equal(crema_net_phase(crema_solver_net(c->solver)), CREMA_TRAIN);
  assert_int_equal(crema_net_phase(crema_solver_test_net(c->solver, 0)), CREMA_TEST);
  lines.size = 0;
  case_load(c, net, "lr_policy: 'fixed' test_interval: 1 test_iter: 1");
  snprintf(words, sizeof words, "%s:9: state: the phase TEST has no effect: the net is built to be",
           case_path(c, "net.prototxt", path));
  assert_int_equal(count_lines(&lines, words), 1);
  assert_int_equal(count_lines(&lines, "has no effect"), 1); /* the test net is as it says */
  stop_listening();
}

/* ---- training ---- */

typedef struct teller {
  crema_solver_progress last;
  int told;
  int64_t stop_at;
  crema_solver *solver;
} teller;

static void tell(void *user, const crema_solver_progress *progress) {
  teller *t = user;
  t->last = *progress;
  ++t->told;
}

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  (void)user;
  return case_feed(NULL, net, pass);
}

static crema_solver_action poll(void *user) {
  const teller *t = user;
  return crema_solver_iteration(t->solver) == t->stop_at ? CREMA_SOLVER_STOP
                                                         : CREMA_SOLVER_CONTINUE;
}

static void watch(solver_case *c, teller *t) {
  c->options.user = t;
  c->options.feed = feed;
  c->options.poll = poll;
  c->options.progress = tell;
}

CASE_TEST(samples_are_counted) {
  teller t = {.stop_at = -1};
  solver_case *c = *state;
  watch(c, &t);
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 9 iter_size: 3");
  t.solver = c->solver;
  ok(crema_solver_step(c->solver, 2));
  assert_int_equal(t.told, 2);
  assert_int_equal(t.last.iteration, 2);
  assert_int_equal(t.last.max_iterations, 9);
  assert_int_equal(t.last.samples, 2 * 3 * 4);
  assert_true(t.last.rate == (double)0.1f);
  assert_true(t.last.seconds > 0 && t.last.seconds < 600);
}

/* A stop ends one call, not those that follow, wherever it came: between iterations, in a test. */
CASE_TEST(training_goes_on_after_a_stop) {
  teller t = {.stop_at = 2};
  solver_case *c = *state;
  watch(c, &t);
  case_load(c, small_net,
            "lr_policy: 'fixed' max_iter: 6 test_iter: 2 test_interval: 1 test_initialization: "
            "false snapshot_after_train: false");
  t.solver = c->solver;
  ok(crema_solver_step(c->solver, 5));
  assert_int_equal(crema_solver_iteration(c->solver), 2);
  t.stop_at = -1;
  ok(crema_solver_step(c->solver, 2));
  assert_int_equal(crema_solver_iteration(c->solver), 4);
  t.stop_at = 4;
  ok(crema_solver_step(c->solver, 1));
  assert_int_equal(crema_solver_iteration(c->solver), 4);
  t.stop_at = -1;
  ok(crema_solver_solve(c->solver));
  assert_int_equal(crema_solver_iteration(c->solver), 6);
}

/* Of four samples at the end of training, one has no number. */
static crema_status feed_nan_at_the_end(void *user, crema_net *net, int64_t pass) {
  float *data;
  (void)user;
  crema_status status = case_feed(NULL, net, pass);
  if (status != CREMA_OK || pass < 2) return status;
  status = crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data);
  if (status == CREMA_OK) data[5] = NAN;
  return status;
}

TEST(the_last_loss_is_looked_at) {
  static log_lines lines;
  solver_case c;
  for (int warns = 0; warns < 2; ++warns) {
    case_begin(&c);
    c.options.feed = feed_nan_at_the_end;
    c.options.on_nan = warns ? CREMA_SOLVER_NAN_WARN : CREMA_SOLVER_NAN_STOP;
    case_load(&c, small_net, "lr_policy: 'fixed' max_iter: 2 display: 2");
    listen(&lines);
    assert_int_equal(crema_solver_solve(c.solver), warns ? CREMA_OK : CREMA_E_NUMERIC);
    crema_log_set(NULL, NULL, CREMA_LOG_INFO);
    if (!warns) assert_error_has("iteration 2: the loss is ");
    assert_int_equal(count_lines(&lines, "iteration 2: the loss is "), warns);
    assert_int_equal(count_lines(&lines, "Iteration 2, loss = "), warns);
    assert_int_equal(count_lines(&lines, "Optimization Done."), warns);
    case_end(&c);
  }
}

CASE_TEST(steps_are_checked) {
  solver_case *c = *state;
  case_load(c, small_net, "lr_policy: 'fixed'");
  assert_int_equal(crema_solver_step(c->solver, -1), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "cannot train for -1 iterations");
  ok(crema_solver_step(c->solver, 0));
  assert_int_equal(crema_solver_step(c->solver, (int64_t)INT32_MAX + 1), CREMA_E_RANGE);
  c->solver->iteration = INT32_MAX - 1;
  assert_int_equal(crema_solver_step(c->solver, 2), CREMA_E_RANGE);
  ok(crema_solver_step(c->solver, 1));
  assert_int_equal(crema_solver_iteration(c->solver), INT32_MAX);
}

/* ---- weights ---- */

int main(void) {
  return run_all_tests(NULL, NULL);
}
