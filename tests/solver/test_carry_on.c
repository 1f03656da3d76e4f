/* Which failures end training and which do not: snapshots that cannot be written, data that fails,
 * values that are not finite. */
#include <math.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "interpose.h"
#include "solver_case.h"

/* These tests need no protection against power cuts, so fsync does nothing but note the files that
 * it is asked for, and whether one of a name was there already. */
typedef struct synced {
  ino_t file[4];
  int files;
  const char *name;
  bool named[4]; /* when the file was first asked for */
} synced;

static synced seen;

INTERPOSED int fsync(int fd) {
  struct stat info;
  int known = 0;
  if (seen.name == NULL || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  while (known < seen.files && seen.file[known] != info.st_ino) ++known;
  if (known < seen.files || known == 4) return 0;
  seen.named[seen.files] = access(seen.name, F_OK) == 0;
  seen.file[seen.files++] = info.st_ino;
  return 0;
}

/* Snapshots go to a folder that is missing for some iterations, which stands for a full disk. */
typedef struct folder_case {
  solver_case c;
  log_lines lines;
  int64_t away_from, away_to; /* iterations; 0: never */
  int64_t snapshot_at_poll, polls;
  /* Iterations after which a weight is not a number, and the second history has another shape. */
  int64_t nan_at, spoil_at;
} folder_case;

static void set_weight(crema_net *net, float value) {
  float *weights;
  ok(crema_blob_mutable_cpu_data(net->learnable[0], &weights));
  weights[2] = value;
}

static void move_folder(const solver_case *c, const char *from, const char *to) {
  char source[256], target[256];
  assert_int_equal(rename(case_path(c, from, source), case_path(c, to, target)), 0);
}

static void on_progress(void *user, const crema_solver_progress *progress) {
  folder_case *f = user;
  if (progress->iteration == f->away_from) move_folder(&f->c, "out", "away");
  if (progress->iteration == f->away_to) move_folder(&f->c, "away", "out");
  if (progress->iteration == f->spoil_at) {
    const crema_shape shape = {.axes = 1, .dim = {7}};
    crema_blob *history = cr_updater_history(f->c.solver->updater, 1);
    ok(crema_blob_reshape(history, &shape));
  }
  if (progress->iteration == f->nan_at) set_weight(crema_solver_net(f->c.solver), NAN);
}

static crema_solver_action on_poll(void *user) {
  folder_case *f = user;
  return ++f->polls == f->snapshot_at_poll ? CREMA_SOLVER_SNAPSHOT : CREMA_SOLVER_CONTINUE;
}

static crema_status on_feed(void *user, crema_net *net, int64_t pass) {
  (void)user;
  return case_feed(NULL, net, pass);
}

static void folder_begin_net(folder_case *f, const char *net, const char *text) {
  char path[256];
  *f = (folder_case){.away_from = 0};
  case_begin(&f->c);
  assert_int_equal(mkdir(case_path(&f->c, "out", path), 0777), 0);
  f->c.options.progress = on_progress;
  f->c.options.poll = on_poll;
  f->c.options.feed = on_feed;
  f->c.options.user = f;
  case_load(&f->c, net, text);
  free(f->c.solver->snapshot_prefix);
  f->c.solver->snapshot_prefix = strdup(case_path(&f->c, "out/s", path));
  listen(&f->lines);
}

static void folder_begin(folder_case *f, const char *text) {
  folder_begin_net(f, small_net, text);
}

static void folder_end(folder_case *f) {
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  case_end(&f->c);
}

static bool has_pair(const folder_case *f, int iteration) {
  char name[64], path[256];
  snprintf(name, sizeof name, "out/s_iter_%d.solverstate", iteration);
  bool state = access(case_path(&f->c, name, path), R_OK) == 0;
  snprintf(name, sizeof name, "out/s_iter_%d.caffemodel", iteration);
  assert_int_equal(access(case_path(&f->c, name, path), R_OK) == 0, state);
  return state;
}

static const char *const goes_on =
    "training continues, and the next snapshot is written when it is";

/* ---- snapshots ---- */

TEST(a_snapshot_that_fails_is_made_up_for) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 9 snapshot: 2");
  f.away_from = 3;
  f.away_to = 5;
  ok(crema_solver_solve(f.c.solver));
  assert_int_equal(crema_solver_iteration(f.c.solver), 9);
  assert_int_equal(count_lines(&f.lines, goes_on), 1);
  assert_int_equal(count_lines(&f.lines, "snapshot after 4 iterations"), 1);
  for (int i = 1; i <= 9; ++i) assert_int_equal(has_pair(&f, i), (i % 2 == 0 && i != 4) || i == 9);
  folder_end(&f);
}

/* The end is the next chance, even if the solver file asks for no snapshot there. */
/* Neither file of a pair takes its name before both are on the disk; that of averages comes first.
 */
TEST(pairs_are_on_the_disk_before_they_have_names) {
  for (int averages = 0; averages < 2; ++averages) {
    static folder_case f;
    char path[256];
    folder_begin(&f, averages ? "lr_policy: 'fixed' max_iter: 9 ema_decay: 0.5"
                              : "lr_policy: 'fixed' max_iter: 9");
    ok(crema_solver_step(f.c.solver, 1));
    seen = (synced){.name = case_path(&f.c, "out/s_iter_1.caffemodel", path)};
    ok(crema_solver_snapshot(f.c.solver));
    assert_int_equal(seen.files, 2 + averages);
    for (int i = 0; i < seen.files; ++i) assert_false(seen.named[i]);
    seen.name = NULL;
    assert_true(has_pair(&f, 1));
    folder_end(&f);
  }
}

TEST(the_end_makes_up_for_the_last_one) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 7 snapshot: 4 snapshot_after_train: false");
  f.away_from = 3;
  f.away_to = 6;
  ok(crema_solver_solve(f.c.solver));
  assert_true(has_pair(&f, 7));
  folder_end(&f);
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 7 snapshot: 4 snapshot_after_train: false");
  ok(crema_solver_solve(f.c.solver));
  assert_true(has_pair(&f, 4) && !has_pair(&f, 7));
  folder_end(&f);
}

TEST(a_last_snapshot_that_fails_is_an_error) {
  static folder_case f;
  folder_begin(&f,
               "lr_policy: 'fixed' max_iter: 7 snapshot: 3 test_interval: 7 test_iter: 1 "
               "test_initialization: false");
  f.away_from = 4;
  assert_fails(crema_solver_solve(f.c.solver), CREMA_E_IO, "snapshot after 7 iterations");
  assert_error_has("s_iter_7.caffemodel");
  assert_int_equal(crema_solver_iteration(f.c.solver), 7);
  assert_int_equal(count_lines(&f.lines, goes_on), 1); /* of iteration 6 */
  assert_int_equal(count_lines(&f.lines, "Test net output #0"), 1);
  assert_int_equal(count_lines(&f.lines, "Optimization Done."), 1);
  move_folder(&f.c, "away", "out");
  assert_true(has_pair(&f, 3) && !has_pair(&f, 6) && !has_pair(&f, 7));
  /* Nothing is lost: the solver can be asked again. */
  ok(crema_solver_snapshot(f.c.solver));
  assert_true(has_pair(&f, 7));
  folder_end(&f);
}

/* A caller who trains step by step is told once, after the iterations. */
TEST(steps_tell_it_once) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' snapshot: 2");
  f.away_from = 1;
  f.away_to = 5;
  assert_fails(crema_solver_step(f.c.solver, 3), CREMA_E_IO, "snapshot after 2 iterations");
  assert_int_equal(crema_solver_iteration(f.c.solver), 3);
  ok(crema_solver_step(f.c.solver, 0));
  assert_fails(crema_solver_step(f.c.solver, 1), CREMA_E_IO, "snapshot after 4 iterations");
  ok(crema_solver_step(f.c.solver, 3));
  assert_true(has_pair(&f, 6));
  folder_end(&f);
}

TEST(a_snapshot_asked_for_in_a_test_may_fail) {
  static folder_case f;
  folder_begin(&f,
               "lr_policy: 'fixed' max_iter: 6 test_interval: 4 test_iter: 3 "
               "test_initialization: false");
  f.away_from = 3;
  f.away_to = 5;
  f.snapshot_at_poll = 4 + 2;
  ok(crema_solver_solve(f.c.solver));
  assert_int_equal(count_lines(&f.lines, goes_on), 1);
  assert_int_equal(count_lines(&f.lines, "Test net output #0"), 1);
  assert_true(has_pair(&f, 6));
  folder_end(&f);
}

/* Either a name is too long at the start, or all snapshots can be written. */
TEST(long_names_fail_at_the_start) {
  static const char *const formats[] = {"", "snapshot_format: HDF5"};
  int refused = 0, written = 0;
  for (size_t i = 0; i < 2 * 14; ++i) {
    static folder_case f;
    char text[256], name[256];
    cr_buffer prefix = {0};
    const size_t length = 226 + i / 2;
    snprintf(text, sizeof text, "lr_policy: 'fixed' max_iter: 10 snapshot: 5 %s", formats[i % 2]);
    memset(name, 'x', length);
    name[length] = '\0';
    folder_begin(&f, text);
    ok(cr_buffer_print(&prefix, "%s/%s", f.c.folder, name));
    free(f.c.solver->snapshot_prefix);
    f.c.solver->snapshot_prefix = cr_buffer_take(&prefix);
    crema_status status = crema_solver_solve(f.c.solver);
    if (status == CREMA_OK) {
      ++written;
    } else {
      ++refused;
      assert_int_equal(status, CREMA_E_IO);
      assert_int_equal(crema_solver_iteration(f.c.solver), 0);
      assert_error_has("snapshot_prefix");
      assert_error_has("File name too long");
    }
    /* A run that goes on past max_iter has longer names. */
    f.c.solver->iteration = 12347;
    status = crema_solver_solve(f.c.solver);
    if (status != CREMA_OK) assert_error_has("snapshot_prefix");
    folder_end(&f);
  }
  assert_true(refused > 0 && written > 0);
}

/* ---- data that fails ---- */

static crema_status feed_three(void *user, crema_net *net, int64_t pass) {
  (void)user;
  if (pass == 3) return cr_fail(CREMA_E_CORRUPT, "no more data");
  return case_feed(NULL, net, pass);
}

static void expect_kept(const char *text, crema_status (*feed)(void *, crema_net *, int64_t),
                        crema_status code, bool kept) {
  static folder_case f;
  folder_begin(&f, text);
  f.c.solver->options.feed = feed;
  assert_int_equal(crema_solver_solve(f.c.solver), code);
  if (code == CREMA_E_CORRUPT) assert_string_equal(crema_error_text(), "no more data");
  assert_int_equal(crema_solver_iteration(f.c.solver), 3);
  assert_int_equal(has_pair(&f, 3), kept);
  assert_int_equal(count_lines(&f.lines, "Training fails after 3 iterations"), kept);
  folder_end(&f);
}

static crema_status feed_nan(void *user, crema_net *net, int64_t pass) {
  float *data;
  CR_TRY(on_feed(user, net, pass));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  if (pass == 3) data[5] = NAN;
  return CREMA_OK;
}

TEST(what_is_learned_is_kept) {
  expect_kept("lr_policy: 'fixed' max_iter: 9", feed_three, CREMA_E_CORRUPT, true);
  expect_kept("lr_policy: 'fixed' max_iter: 9 snapshot: 2 snapshot_after_train: false", feed_three,
              CREMA_E_CORRUPT, true);
  expect_kept("lr_policy: 'fixed' max_iter: 9 snapshot_after_train: false", feed_three,
              CREMA_E_CORRUPT, false);
  expect_kept("lr_policy: 'fixed' max_iter: 9", feed_nan, CREMA_E_NUMERIC, false);
}

static crema_status feed_none(void *user, crema_net *net, int64_t pass) {
  (void)user, (void)net, (void)pass;
  return cr_fail(CREMA_E_CORRUPT, "no data");
}

/* A snapshot that exists already is not written again, nor one before anything was learned. */
TEST(nothing_is_kept_twice) {
  static folder_case f;
  char path[256];
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 9 snapshot: 3");
  f.c.solver->options.feed = feed_three;
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_CORRUPT);
  assert_int_equal(count_lines(&f.lines, "Snapshotting to "), 1);
  assert_int_equal(remove(case_path(&f.c, "out/s_iter_3.caffemodel", path)), 0);
  assert_int_equal(remove(case_path(&f.c, "out/s_iter_3.solverstate", path)), 0);
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_CORRUPT);
  assert_false(has_pair(&f, 3));
  folder_end(&f);
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 9");
  f.c.solver->options.feed = feed_none;
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_CORRUPT);
  assert_false(has_pair(&f, 0));
  folder_end(&f);
}

/* Weights of which only some may have been updated are not saved. */
TEST(half_an_update_is_not_kept) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 9 momentum: 0.9");
  f.spoil_at = 2;
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_SHAPE);
  assert_error_has("had 2 when training began");
  assert_int_equal(crema_solver_iteration(f.c.solver), 2);
  assert_false(has_pair(&f, 2));
  assert_int_equal(count_lines(&f.lines, "Training fails in the middle of update 3: no snapshot"),
                   1);
  folder_end(&f);
}

/* The first failure is the one that is reported. */
TEST(a_failure_to_keep_is_a_warning) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 9");
  f.c.solver->options.feed = feed_three;
  f.away_from = 2;
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_CORRUPT);
  assert_string_equal(crema_error_text(), "no more data");
  assert_int_equal(count_lines(&f.lines, "snapshot after 3 iterations"), 1);
  folder_end(&f);
}

/* ---- values that are not finite ---- */

/* Its loss stays finite: it does not depend on the layer 'ip'. */
static const char *const apart_net =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'silence' type: 'Silence' bottom: 'ip' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'data' top: 'ip2'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";

static const char *const nan_text =
    "lr_policy: 'fixed' max_iter: 12 display: 4 snapshot: 3 test_interval: 12 test_iter: 1 ";

TEST(weights_that_are_not_finite_end_training) {
  static folder_case f;
  folder_begin_net(&f, apart_net, nan_text);
  f.nan_at = 4;
  f.c.solver->param->snapshot = 7;
  assert_fails(crema_solver_solve(f.c.solver), CREMA_E_NUMERIC, "iteration 4: ");
  assert_string_equal(crema_error_text(),
                      "iteration 4: the loss is finite, but values of layer 'ip' are not: param 0 "
                      "(a lower base_lr or clip_gradients may help)");
  assert_int_equal(crema_solver_iteration(f.c.solver), 4);
  folder_end(&f);
}

/* Found by the snapshot, if that comes first. */
TEST(snapshots_find_them_too) {
  static folder_case f;
  folder_begin_net(&f, apart_net, nan_text);
  f.nan_at = 6;
  assert_fails(crema_solver_solve(f.c.solver), CREMA_E_NUMERIC, "snapshot after 6 iterations");
  assert_true(has_pair(&f, 3) && !has_pair(&f, 6));
  folder_end(&f);
  /* At the end, there is nothing left to test then. */
  folder_begin_net(&f, apart_net, nan_text);
  f.c.solver->param->snapshot = 0;
  f.nan_at = 12;
  assert_fails(crema_solver_solve(f.c.solver), CREMA_E_NUMERIC, "snapshot after 12 iterations");
  assert_int_equal(count_lines(&f.lines, "Iteration 12, Testing"), 0);
  folder_end(&f);
}

TEST(or_it_goes_on_with_warnings) {
  static folder_case f;
  folder_begin_net(&f, apart_net, nan_text);
  f.c.solver->options.on_nan = CREMA_SOLVER_NAN_WARN;
  f.nan_at = 4;
  assert_int_equal(crema_solver_solve(f.c.solver), CREMA_E_NUMERIC);
  assert_int_equal(crema_solver_iteration(f.c.solver), 12);

  assert_int_equal(count_lines(&f.lines, "iteration 4: the loss is finite, but values of"), 1);
  assert_int_equal(count_lines(&f.lines, "iteration 8: the loss is finite, but values of"), 1);
  assert_int_equal(count_lines(&f.lines, goes_on), 3); /* 6, 9, 12 */
  assert_error_has("snapshot after 12 iterations");
  assert_true(has_pair(&f, 3) && !has_pair(&f, 6) && !has_pair(&f, 9) && !has_pair(&f, 12));
  folder_end(&f);
}

/* A loss that is not finite is reported at once, then at each display. */
TEST(losses_are_warned_of_at_displays) {
  static folder_case f;
  folder_begin(&f, "lr_policy: 'fixed' max_iter: 10 display: 2 snapshot_after_train: false");
  f.c.solver->options.on_nan = CREMA_SOLVER_NAN_WARN;
  f.c.solver->options.feed = feed_nan;
  ok(crema_solver_solve(f.c.solver));
  assert_int_equal(count_lines(&f.lines, "iteration 3: the loss is "), 1);
  assert_int_equal(count_lines(&f.lines, "NaN or infinite are in blob 'data' of layer 'in'"), 1);
  for (int i = 4; i <= 10; ++i) { /* the last one is of after training */
    char words[64];
    snprintf(words, sizeof words, "iteration %d: the loss is ", i);
    assert_int_equal(count_lines(&f.lines, words), i % 2 == 0);
  }
  folder_end(&f);
}

/* Numbers so large that their sum overflows are finite all the same. */
TEST(large_weights_are_finite) {
  static folder_case f;
  char net[2048];
  float *values;
  folder_begin(&f, "lr_policy: 'fixed'");
  snprintf(net, sizeof net,
           "%s layer { name: 'large' type: 'Parameter' top: 'large' param { lr_mult: 0 }\n"
           "  parameter_param { shape { dim: 8 } } }\n"
           "layer { name: 'unused' type: 'Silence' bottom: 'large' }\n",
           small_net);
  case_load(&f.c, net, "lr_policy: 'fixed' display: 1");
  crema_net *trained = crema_solver_net(f.c.solver);
  crema_blob *large = trained->learnable[trained->learnables - 1];
  assert_int_equal(crema_blob_count(large), 8);
  ok(crema_blob_mutable_cpu_data(large, &values));
  for (int i = 0; i < 8; ++i) values[i] = 3e38f;
  ok(crema_solver_step(f.c.solver, 2));
  values[7] = INFINITY;
  assert_fails(crema_solver_step(f.c.solver, 2), CREMA_E_NUMERIC, "layer 'large'");
  folder_end(&f);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
