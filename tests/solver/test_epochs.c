/* test_and_snapshot_last_epochs. */
#include <fcntl.h>
#include <math.h>

#include "crema/memory_data.h"
#include "interpose.h"
#include "solver_case.h"

enum { SAMPLES = 20 };

/* The last name under which it was tried to write before training. */
static char tried[512];

/* A draft has the name of its file, ".tmp." and more. */
INTERPOSED int openat(int base, const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if ((flags & O_CREAT) != 0) {
    snprintf(tried, sizeof tried, "%s", path);
    char *end = strstr(tried, ".tmp.");
    if (end != NULL) *end = '\0';
  }
  return REAL(openat)(base, path, flags, mode);
}

/* 20 samples in batches of 4. */
static const char *const memory_net =
    "layer { name: 'in' type: 'MemoryData' top: 'data' top: 'label'\n"
    "  memory_data_param { batch_size: 4 channels: 3 height: 1 width: 1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc'\n"
    "  include { phase: TEST } }\n";

static float data[SAMPLES * 3], label[SAMPLES];

static void give_samples(crema_solver *solver) {
  for (int i = 0; i < SAMPLES * 3; ++i) data[i] = (float)(i * 7 % 11) / 11.0f - 0.4f;
  for (int i = 0; i < SAMPLES; ++i) label[i] = (float)(i % 3 == 0);
  assert_int_equal(crema_memory_data_set(crema_solver_net(solver), "in", data, label, SAMPLES),
                   CREMA_OK);
  for (int i = 0; i < crema_solver_test_net_count(solver); ++i) {
    assert_int_equal(
        crema_memory_data_set(crema_solver_test_net(solver, i), "in", data, label, SAMPLES),
        CREMA_OK);
  }
}

static void load_without_samples(solver_case *c, const char *text) {
  char whole[512];
  snprintf(whole, sizeof whole, "lr_policy: 'fixed' momentum: 0.9 snapshot_after_train: false %s",
           text);
  case_load(c, memory_net, whole);
}

static void load_epochs(solver_case *c, const char *text) {
  load_without_samples(c, text);
  give_samples(c->solver);
}

/* Files of the folder that match. */
static int count_files(const solver_case *c, const char *pattern) {
  char command[256];
  int count = -1;
  snprintf(command, sizeof command, "ls %s | grep -c -E -x '%s'", c->folder, pattern);
  FILE *pipe = popen(command, "r");
  assert_non_null(pipe);
  assert_int_equal(fscanf(pipe, "%d", &count), 1);
  (void)pclose(pipe);
  return count;
}

static const char *const tests = "test_iter: 3 test_interval: 1000 test_initialization: false ";

TEST(s4_56_the_last_epochs_are_tested_and_kept) {
  static const struct {
    const char *text;
    int at[4]; /* iterations, 0: no more */
  } rows[] = {{"max_iter: 12 test_and_snapshot_last_epochs: 1", {10}},
              {"max_iter: 12 test_and_snapshot_last_epochs: 2", {5, 10}},
              {"max_iter: 12 test_and_snapshot_last_epochs: 9", {5, 10}},
              {"max_iter: 15 test_and_snapshot_last_epochs: 2", {10, 15}},
              {"max_iter: 4 test_and_snapshot_last_epochs: 2", {0}},
              /* 8 samples in an iteration, which ends in the middle of an epoch. */
              {"max_iter: 10 iter_size: 2 test_and_snapshot_last_epochs: 3", {5, 8, 10}},
              {"max_iter: 10 test_and_snapshot_last_epochs: 0", {0}}};
  static log_lines lines;
  (void)state;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; ++r) {
    solver_case c;
    char text[256], pattern[128];
    int count = 0;
    case_begin(&c);
    snprintf(text, sizeof text, "%s %s", tests, rows[r].text);
    load_epochs(&c, text);
    listen(&lines);
    assert_int_equal(crema_solver_solve(c.solver), CREMA_OK);
    crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
    for (; count < 4 && rows[r].at[count] > 0; ++count) {
      snprintf(pattern, sizeof pattern, "s_iter_%d_0\\.[0-9]+\\.(caffemodel|solverstate)",
               rows[r].at[count]);
      if (count_files(&c, pattern) != 2) fail_msg("%s: no files %s", rows[r].text, pattern);
      snprintf(pattern, sizeof pattern, "Iteration %d, Testing net (#0)", rows[r].at[count]);
      assert_int_equal(count_lines(&lines, pattern), 1);
    }
    assert_int_equal(count_files(&c, "s_iter.*"), 2 * count);
    assert_int_equal(count_lines(&lines, "Testing net"), count);
    case_end(&c);
  }
}

/* Steps beyond max_iter are no last epochs; how long an epoch is, is said where it is known. */
TEST(epochs_after_the_last_do_not_count) {
  static log_lines lines;
  solver_case c;
  (void)state;
  case_begin(&c);
  load_epochs(&c, "max_iter: 6 test_and_snapshot_last_epochs: 1");
  assert_int_equal(crema_solver_step(c.solver, 16), CREMA_OK);
  assert_int_equal(count_files(&c, "s_iter.*"), 2); /* of iteration 5 */
  /* As many samples as no number counts. */
  c.solver->iteration = 0;
  assert_false(cr_epoch_has_ended(c.solver));
  c.solver->iteration = 5;
  assert_true(cr_epoch_has_ended(c.solver));
  c.solver->batch_samples = INT64_MAX;
  assert_false(cr_epoch_has_ended(c.solver));
  case_make_database(&c, "lmdb", 6, 2, 2);
  listen(&lines);
  case_load(&c,
            "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
            "  data_param { source: 'db' batch_size: 2 backend: LMDB } }\n"
            "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
            "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
            "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' }\n",
            "lr_policy: 'fixed' iter_size: 2 test_and_snapshot_last_epochs: 1");
  stop_listening();
  assert_int_equal(count_lines(&lines, "An epoch has 6 samples, which are 1.5 iterations\n"), 1);
  case_end(&c);
}

/* The name has the accuracy, not the loss, which is the first output; a test that is due at the
 * same iteration is not run twice; and without test nets there is no score. */
TEST(names_have_the_score) {
  static log_lines lines;
  char name[64];
  (void)state;
  solver_case c;
  case_begin(&c);
  load_epochs(&c,
              "test_iter: 5 test_interval: 5 test_initialization: false max_iter: 10 "
              "test_and_snapshot_last_epochs: 1");
  listen(&lines);
  assert_int_equal(crema_solver_solve(c.solver), CREMA_OK);
  crema_log_set(NULL, NULL, CREMA_LOG_WARNING);
  assert_int_equal(count_lines(&lines, "Testing net"), 2);
  const char *at = strstr(strstr(lines.text, "Iteration 10, Testing"), "acc = ");
  assert_non_null(at);
  assert_int_equal(sscanf(at, "acc = %60s", name), 1);
  char pattern[128];
  snprintf(pattern, sizeof pattern, "s_iter_10_%s.solverstate", name);
  assert_int_equal(count_files(&c, pattern), 1);
  load_epochs(&c, "max_iter: 5 test_and_snapshot_last_epochs: 1");
  assert_int_equal(crema_solver_solve(c.solver), CREMA_OK);
  assert_int_equal(count_files(&c, "s_iter_5.solverstate"), 1);
  case_end(&c);
}

/* It is the longest of those that come. */
TEST(names_are_tried_before_training) {
  static const struct {
    const char *text, *name;
    int iteration;
  } rows[] = {
      {"snapshot: 2", "s_iter_9.solverstate", 0},
      {"snapshot: 2 snapshot_format: HDF5", "s_iter_9.solverstate.h5", 0},
      {"snapshot: 2", "s_iter_12345.solverstate", 12345},
      {"snapshot: 2", "s_iter_9.solverstate", 8},
      {"test_and_snapshot_last_epochs: 1", "s_iter_9_-1.23456e-300.solverstate", 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    solver_case c;
    char text[256], path[256];
    case_begin(&c);
    snprintf(text, sizeof text, "max_iter: 9 %s", rows[i].text);
    load_epochs(&c, text);
    c.solver->iteration = rows[i].iteration;
    assert_int_equal(cr_snapshot_check(c.solver), CREMA_OK);
    assert_string_equal(tried, case_path(&c, rows[i].name, path));
    case_end(&c);
  }
}

/* A run that resumes from such a snapshot repeats its test and goes on bit for bit. */
TEST(runs_resume_from_the_end_of_an_epoch) {
  char text[256], path[256], command[512];
  float expected[6], found[6];
  (void)state;
  solver_case c;
  case_begin(&c);
  snprintf(text, sizeof text, "%s max_iter: 12 test_and_snapshot_last_epochs: 2", tests);
  load_epochs(&c, text);
  assert_int_equal(crema_solver_solve(c.solver), CREMA_OK);
  assert_null(c.solver->held);
  case_weights(&c, expected);
  snprintf(command, sizeof command,
           "mkdir %s/first && mv %s/s_iter_5_* %s/first && cd %s/first && ln -s *state state",
           c.folder, c.folder, c.folder, c.folder);
  assert_int_equal(system(command), 0);
  load_without_samples(&c, text);
  assert_int_equal(crema_solver_restore(c.solver, case_path(&c, "first/state", path)), CREMA_OK);
  give_samples(c.solver);
  assert_int_equal(crema_solver_solve(c.solver), CREMA_OK);
  case_weights(&c, found);
  assert_memory_equal(found, expected, sizeof found);
  snprintf(command, sizeof command, "for f in %s/first/s_*; do cmp $f %s/${f##*/} || exit 1; done",
           c.folder, c.folder);
  assert_int_equal(system(command), 0);
  case_end(&c);
}

TEST(refuses) {
  solver_case c;
  (void)state;
  case_begin(&c);
  case_refuse(&c, "lr_policy: 'fixed' test_and_snapshot_last_epochs: 2", CREMA_E_ARGUMENT,
              "the input of net 'small' has no epochs");
  case_refuse(&c, "lr_policy: 'fixed' test_and_snapshot_last_epochs: -1", CREMA_E_RANGE,
              "test_and_snapshot_last_epochs must not be negative");
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
