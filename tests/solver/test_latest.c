/* Going on from the newest snapshot that is whole. */
#include "solver/solver_case.h"

/* A solver that has written snapshots after so many iterations. */
static void train_to(solver_case *c, int iterations, const char *fields) {
  char text[256];
  snprintf(text, sizeof text, "lr_policy: 'fixed' momentum: 0.9 max_iter: %d %s", iterations,
           fields);
  case_load(c, small_net, text);
  c->solver->options.feed = case_feed;
  ok(crema_solver_solve(c->solver));
}

static void begin_with_snapshots(solver_case *c, const char *fields) {
  case_begin(c);
  train_to(c, 11, fields);
  case_load(c, small_net, "lr_policy: 'fixed' momentum: 0.9 max_iter: 11 snapshot: 1");
}

/* Keeps the first half of a file. */
static void cut(const solver_case *c, const char *name) {
  char path[256];
  FILE *file = fopen(case_path(c, name, path), "r");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  assert_int_equal(fclose(file), 0);
  assert_int_equal(truncate(path, size / 2), 0);
}

/* Goes on and says from which iteration; -1: there was no snapshot. */
static int64_t latest(solver_case *c) {
  bool found = false;
  ok(crema_solver_restore_latest(c->solver, &found));
  return found ? crema_solver_iteration(c->solver) : -1;
}

TEST(without_snapshots_training_begins_anew) {
  solver_case c;
  float before[6], after[6];
  case_begin(&c);
  case_load(&c, small_net, "lr_policy: 'fixed' max_iter: 3");
  case_write(&c, "s_iter_.solverstate", "");
  case_write(&c, "s_iter_x.solverstate", "");
  case_write(&c, "s_iter_3.caffemodel", "");
  case_write(&c, "s_iter_3.solverstate.tmp", "");
  case_write(&c, "s_iter_99999999999999999999.solverstate", "");
  case_write(&c, "st_iter_3.solverstate", "");
  case_write(&c, "s_iter_+3.solverstate", "");
  case_write(&c, "s_iter_ 3.solverstate", "");
  case_write(&c, "s_iter__3.solverstate", "");
  case_write(&c, "s_iter_3x.solverstate", "");
  case_write(&c, "s_iter_3.old.solverstate", "");
  case_write(&c, "s_iter_3.solverstate.h6", "");
  case_write(&c, "s_itar_3.solverstate", "");
  case_write(&c, "t_iter_3.solverstate", "");
  static log_lines lines;
  listen_to(&lines, CREMA_LOG_WARNING);
  case_weights(&c, before);
  assert_int_equal(latest(&c), -1);
  ok(crema_solver_restore_latest(c.solver, NULL));
  case_weights(&c, after);
  assert_memory_equal(before, after, sizeof before);
  assert_int_equal(crema_solver_iteration(c.solver), 0);
  assert_int_equal(lines.count, 0); /* none of these is a snapshot of this training */
  stop_listening();
  case_end(&c);
}

/* Names with scores are snapshots, too; of one iteration the one without comes first. */
TEST(scores_in_names_are_passed_over) {
  solver_case c;
  char from[256], to[256];
  case_begin(&c);
  train_to(&c, 4, "snapshot: 2");
  assert_int_equal(rename(case_path(&c, "s_iter_4.solverstate", from),
                          case_path(&c, "s_iter_4_0.75.solverstate", to)),
                   0);
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.9 max_iter: 11");
  assert_int_equal(latest(&c), 4);
  case_write(&c, "s_iter_4_-1e-05.solverstate", "");
  case_write(&c, "s_iter_4_9.solverstate", "");
  static log_lines lines;
  listen(&lines);
  assert_int_equal(rename(to, from), 0);
  assert_int_equal(latest(&c), 4);
  assert_int_equal(count_lines(&lines, "cannot go on"), 0);
  assert_int_equal(count_lines(&lines, "/s_iter_4.solverstate\n"), 1);
  stop_listening();
  case_end(&c);
}

/* A prefix without a folder is one of the working directory. */
TEST(prefixes_without_a_folder) {
  solver_case c;
  char before[256], prefix[] = "s", *own;
  case_begin(&c);
  train_to(&c, 3, "snapshot: 1");
  case_load(&c, small_net, "lr_policy: 'fixed' momentum: 0.9 max_iter: 11");
  assert_non_null(getcwd(before, sizeof before));
  own = c.solver->snapshot_prefix;
  c.solver->snapshot_prefix = prefix;
  assert_int_equal(latest(&c), -1);
  assert_int_equal(chdir(c.folder), 0);
  assert_int_equal(latest(&c), 3);
  c.solver->snapshot_prefix = own;
  assert_int_equal(chdir(before), 0);
  case_end(&c);
}

/* By number and not by name: 11 comes after 9. */
TEST(the_newest_is_taken) {
  solver_case c;
  begin_with_snapshots(&c, "snapshot: 1");
  assert_int_equal(latest(&c), 11);
  case_end(&c);
}

TEST(the_newest_is_taken_in_hdf5) {
  solver_case c;
  begin_with_snapshots(&c, "snapshot: 5 snapshot_format: HDF5");
  assert_int_equal(latest(&c), 11);
  cut(&c, "s_iter_11.solverstate.h5");
  assert_int_equal(latest(&c), 10);
  case_end(&c);
}

/* A state that is cut short, a model that is another's, a model that is gone. */
TEST(one_that_is_not_whole_is_warned_of) {
  static log_lines lines;
  solver_case c;
  char path[256], other[256];
  begin_with_snapshots(&c, "snapshot: 1");
  cut(&c, "s_iter_11.solverstate");
  case_path(&c, "s_iter_10.caffemodel", path);
  assert_int_equal(rename(case_path(&c, "s_iter_2.caffemodel", other), path), 0);
  assert_int_equal(unlink(case_path(&c, "s_iter_9.caffemodel", path)), 0);
  listen_to(&lines, CREMA_LOG_WARNING);
  assert_int_equal(latest(&c), 8);
  stop_listening();
  assert_int_equal(count_lines(&lines, "cannot resume from this snapshot"), 3);
  assert_int_equal(count_lines(&lines, "s_iter_11.solverstate: cannot"), 1);
  case_end(&c);
}

/* Snapshots of another net are no failure either, but nothing to go on from. */
TEST(one_that_does_not_fit_is_left_alone) {
  solver_case c;
  case_begin(&c);
  train_to(&c, 3, "snapshot: 1");
  char wider[2048];
  snprintf(wider, sizeof wider, "%s", small_net);
  memcpy(strstr(wider, "num_output: 2"), "num_output: 3", 13);
  case_load(&c, wider, "lr_policy: 'fixed' momentum: 0.9 max_iter: 11");
  assert_int_equal(latest(&c), -1);
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
