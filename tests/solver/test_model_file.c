/* A state resumes with the model that it was written with, or not at all. */
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "core/file.h"
#include "interpose.h"
#include "solver_case.h"

/* ---- kills at a renaming ---- */

static int renames_left = -1; /* until the process ends; below 0: it does not */

INTERPOSED int rename(const char *from, const char *to) {
  if (renames_left == 0) _exit(9);
  if (renames_left > 0) --renames_left;
  return REAL(rename)(from, to);
}

/* ---- runs ---- */

/* Two runs of one prefix, whose models have the same size. */
static const char *const runs[] = {"lr_policy: 'fixed' momentum: 0.9 ",
                                   "lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.5 "};

typedef struct pair_case {
  solver_case c;
  bool hdf5;
  float weights[2][6]; /* of both runs after three iterations */
} pair_case;

static void load_run(pair_case *p, int run) {
  char text[256];
  snprintf(text, sizeof text, "%s%s", runs[run], p->hdf5 ? "snapshot_format: HDF5" : "");
  p->c.options.feed = case_feed;
  case_load(&p->c, small_net, text);
}

static void train_run(pair_case *p, int run) {
  load_run(p, run);
  ok(crema_solver_step(p->c.solver, 3));
  case_weights(&p->c, p->weights[run]);
}

/* Trains and leaves "s_iter_3". */
static void run_whole(pair_case *p, int run) {
  train_run(p, run);
  ok(crema_solver_snapshot(p->c.solver));
}

static const char *file_in(const pair_case *p, const char *folder, const char *kind,
                           char path[256]) {
  snprintf(path, 256, "%s/%ss_iter_3.%s%s", p->c.folder, folder, kind, p->hdf5 ? ".h5" : "");
  return path;
}

static void move(const pair_case *p, const char *from, const char *to, const char *kind) {
  char source[256], target[256];
  assert_int_equal(rename(file_in(p, from, kind, source), file_in(p, to, kind, target)), 0);
}

static void pair_begin(pair_case *p, bool hdf5) {
  char path[256];
  *p = (pair_case){.hdf5 = hdf5};
  case_begin(&p->c);
  assert_int_equal(mkdir(case_path(&p->c, "a", path), 0777), 0);
  assert_int_equal(mkdir(case_path(&p->c, "b", path), 0777), 0);
}

/* Both pairs, in folders "a/" and "b/"; both states record the path outside of them. */
static void make_pairs(pair_case *p) {
  run_whole(p, 0);
  move(p, "", "a/", "caffemodel");
  move(p, "", "a/", "solverstate");
  run_whole(p, 1);
  move(p, "", "b/", "caffemodel");
  move(p, "", "b/", "solverstate");
  assert_memory_not_equal(p->weights[0], p->weights[1], sizeof p->weights[0]);
}

/* The state in `folder` is resumed with the weights of `run`. */
static void expect_run(pair_case *p, const char *folder, int run) {
  char path[256];
  float found[6];
  load_run(p, 0);
  ok(crema_solver_restore(p->c.solver, file_in(p, folder, "solverstate", path)));
  case_weights(&p->c, found);
  assert_memory_equal(found, p->weights[run], sizeof found);
  assert_int_equal(crema_solver_iteration(p->c.solver), 3);
}

/* The state in `folder` is refused, with these words, and changes nothing. */
static void expect_refusal(pair_case *p, const char *folder, crema_status code, const char *words) {
  char path[256];
  float before[6], after[6];
  load_run(p, 0);
  case_weights(&p->c, before);
  crema_status status = crema_solver_restore(p->c.solver, file_in(p, folder, "solverstate", path));
  if (strstr(crema_error_text(), words) == NULL || strstr(crema_error_text(), path) == NULL) {
    fail_msg("\"%s\" does not say \"%s\" and \"%s\"", crema_error_text(), words, path);
  }
  assert_int_equal(status, code);
  case_weights(&p->c, after);
  assert_memory_equal(before, after, sizeof before);
  assert_int_equal(crema_solver_iteration(p->c.solver), 0);
}

/* What the state in `folder` says of its model. */
static void expected_text(const pair_case *p, const char *folder, char text[128]) {
  char path[256];
  cr_model_sum sum;
  ok(cr_model_sum_read(file_in(p, folder, "caffemodel", path), &sum));
  snprintf(text, 128, "%llu bytes with CRC-32 %08x", (unsigned long long)sum.size,
           (unsigned)sum.crc32);
}

static void each_format(void (*check)(pair_case *p)) {
  for (int hdf5 = 0; hdf5 < 2; ++hdf5) {
    pair_case p;
    pair_begin(&p, hdf5 != 0);
    check(&p);
    case_end(&p.c);
  }
}

/* ---- sums ---- */

CASE_TEST(sums_are_zlibs) {
  solver_case *c = *state;
  char path[256];
  cr_model_sum sum;
  case_write(c, "nine", "123456789"); /* the check value of every list of CRCs */
  ok(cr_model_sum_read(case_path(c, "nine", path), &sum));
  assert_int_equal(sum.size, 9);
  assert_int_equal(sum.crc32, 0xcbf43926);
  /* Also when no file has the lowest number. */
  const int kept = dup(0);
  assert_true(kept > 0);
  close(0);
  const crema_status status = cr_model_sum_read(path, &sum);
  assert_int_equal(dup2(kept, 0), 0);
  close(kept);
  ok(status);
  assert_int_equal(sum.crc32, 0xcbf43926);
  /* Nobody waits for the writer of a pipe. */
  assert_int_equal(mkfifo(case_path(c, "pipe", path), 0600), 0);
  ok(cr_model_sum_read(path, &sum));
  assert_true(sum.size == 0 && sum.crc32 == 0);
  assert_int_equal(cr_model_sum_read(c->folder, &sum), CREMA_E_IO);
  assert_int_equal(cr_model_sum_read(case_path(c, "none", path), &sum), CREMA_E_IO);
}

/* A file that cannot be read is not the one, whatever its size. */
CASE_TEST(files_that_cannot_be_read) {
  solver_case *c = *state;
  char unreadable[] = "/proc/self/mem", path[256], *found = NULL;
  struct stat info;
  Caffe__SolverState message = CAFFE__SOLVER_STATE__INIT;
  Caffe__CremaState extra = CAFFE__CREMA_STATE__INIT;
  if (stat(unreadable, &info) != 0 || info.st_size != 0) skip();
  message.learned_net = unreadable;
  message.crema_state = &extra;
  extra.has_model_size = extra.has_model_crc32 = true;
  assert_fails(cr_model_find(case_path(c, "s.solverstate", path), &message, &found),
               CREMA_E_CORRUPT, "found /proc/self/mem: cannot read");
  assert_null(found);
}

/* ---- where the model is ---- */

/* A copied pair stays a pair although the recorded path has another run's model. */
static void check_copied_pair(pair_case *p) {
  make_pairs(p);
  move(p, "b/", "", "caffemodel");
  expect_run(p, "a/", 0);
}

TEST(a_copied_pair_stays_a_pair) {
  each_format(check_copied_pair);
}

/* The same for states that do not record what their model is: the one beside them is taken. */
static void check_unsummed_pair(pair_case *p) {
  static log_lines lines;
  make_pairs(p);
  move(p, "b/", "", "caffemodel");
  char path[256];
  ProtobufCMessage *message;
  file_in(p, "a/", "solverstate", path);
  ok(cr_message_read_binary(&caffe__solver_state__descriptor, path, &message));
  Caffe__SolverState *found = (Caffe__SolverState *)message;
  assert_true(found->crema_state->has_model_size && found->crema_state->has_model_crc32);
  /* Half of it is worth nothing. */
  for (int size = 1; size >= 0; --size) {
    found->crema_state->has_model_size = size;
    found->crema_state->has_model_crc32 = 0;
    ok(cr_message_write_binary(message, path));
    listen(&lines);
    expect_run(p, "a/", 0);
    assert_int_equal(count_lines(&lines, "does not record which model is its own"), 1);
    assert_int_equal(count_lines(&lines, "not go on exactly"), 0);
  }
  /* As Caffe's states are. */
  cr_message_free(&found->crema_state->base);
  found->crema_state = NULL;
  ok(cr_message_write_binary(message, path));
  listen(&lines);
  expect_run(p, "a/", 0);
  assert_int_equal(count_lines(&lines, "does not record which model is its own"), 1);
  assert_int_equal(count_lines(&lines, "Results differ from a run without a stop"), 1);
  /* Nor does a state have to name a model. */
  char *name = found->learned_net;
  found->learned_net = NULL;
  ok(cr_message_write_binary(message, path));
  found->learned_net = name;
  listen(&lines);
  load_run(p, 0);
  ok(crema_solver_restore(p->c.solver, path));
  assert_int_equal(count_lines(&lines, "names no model; the weights stay as they are"), 1);
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  cr_message_free(message);
}

TEST(states_without_a_sum_are_warned_of) {
  pair_case p;
  pair_begin(&p, false);
  check_unsummed_pair(&p);
  case_end(&p.c);
}

/* Another run's model beside the state is ignored in favour of the right one at the recorded
 * path. */
static void check_state_moved_alone(pair_case *p) {
  make_pairs(p);
  move(p, "a/", "", "caffemodel");
  expect_run(p, "a/", 0);
  move(p, "b/", "a/", "caffemodel");
  expect_run(p, "a/", 0);
}

TEST(a_state_moved_alone_finds_its_model) {
  each_format(check_state_moved_alone);
}

/* A path that was relative to where training ran is tried from where the state is. */
TEST(recorded_paths_are_seen_from_the_state) {
  pair_case p;
  char path[256];
  ProtobufCMessage *message;
  pair_begin(&p, false);
  make_pairs(&p);
  move(&p, "a/", "", "solverstate");
  file_in(&p, "", "solverstate", path);
  ok(cr_message_read_binary(&caffe__solver_state__descriptor, path, &message));
  Caffe__SolverState *found = (Caffe__SolverState *)message;
  char *name = found->learned_net, relative[] = "a/s_iter_3.caffemodel";
  found->learned_net = relative;
  ok(cr_message_write_binary(message, path));
  found->learned_net = name;
  cr_message_free(message);
  expect_run(&p, "", 0);
  case_end(&p.c);
}

static void check_missing(pair_case *p) {
  char words[600], beside[256], recorded[256];
  make_pairs(p);
  assert_int_equal(remove(file_in(p, "a/", "caffemodel", beside)), 0);
  snprintf(words, sizeof words, "its model is not there: no such file as %s or %s", beside,
           file_in(p, "", "caffemodel", recorded));
  expect_refusal(p, "a/", CREMA_E_NOT_FOUND, words);
  /* A folder of that name is no model either. */
  assert_int_equal(mkdir(beside, 0777), 0);
  expect_refusal(p, "a/", CREMA_E_CORRUPT, "which is not a file");
  assert_int_equal(rmdir(beside), 0);
}

TEST(a_model_that_is_gone) {
  each_format(check_missing);
}

static void check_other_size(pair_case *p) {
  char words[600], path[256], expected[128];
  make_pairs(p);
  expected_text(p, "a/", expected);
  file_in(p, "a/", "caffemodel", path);
  FILE *file = fopen(path, "a");
  assert_non_null(file);
  assert_int_equal(fputc(0, file), 0);
  long size = ftell(file);
  assert_int_equal(fclose(file), 0);
  snprintf(words, sizeof words, "expected a file of %s, found %s of %ld bytes", expected, path,
           size);
  expect_refusal(p, "a/", CREMA_E_CORRUPT, words);
  /* That is enough: the file is not read. */
  assert_string_equal(strstr(crema_error_text(), ", found "), strstr(words, ", found "));
}

TEST(a_model_of_another_size) {
  each_format(check_other_size);
}

/* ---- two runs with one prefix ---- */

/* The older pair stays whole when the disk is full before the newer one is. */
static void check_full_disk(pair_case *p) {
  struct rlimit before, limit;
  struct stat model, pair_state;
  char path[256];
  run_whole(p, 0);
  assert_int_equal(stat(file_in(p, "", "caffemodel", path), &model), 0);
  assert_int_equal(stat(file_in(p, "", "solverstate", path), &pair_state), 0);
  assert_true(model.st_size < pair_state.st_size);
  train_run(p, 1);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = (rlim_t)model.st_size;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
  crema_status status = crema_solver_snapshot(p->c.solver);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(status, CREMA_E_IO);
  assert_error_has(file_in(p, "", "solverstate", path));
  expect_run(p, "", 0);
}

TEST(a_full_disk_leaves_the_older_pair) {
  each_format(check_full_disk);
}

/* A model of one run and a state of the other, however they came together. */
static void check_mixed_pairs(pair_case *p) {
  char words[600], expected[128], found[128], path[256];
  make_pairs(p);
  expected_text(p, "a/", expected);
  expected_text(p, "b/", found);
  move(p, "b/", "a/", "caffemodel");
  snprintf(words, sizeof words, "expected a file of %s, found %s of %s", expected,
           file_in(p, "a/", "caffemodel", path), found);
  expect_refusal(p, "a/", CREMA_E_CORRUPT, words);
}

TEST(models_and_states_do_not_mix) {
  each_format(check_mixed_pairs);
}

/* Ends a process that writes the second run's pair over the first one's before its renaming number
 * `renames`. */
static void kill_at(pair_case *p, int renames) {
  run_whole(p, 0);
  train_run(p, 1);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    renames_left = renames;
    _exit(crema_solver_snapshot(p->c.solver) == CREMA_OK ? 0 : 1);
  }
  int result;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_true(WIFEXITED(result));
  assert_int_equal(WEXITSTATUS(result), renames < 2 ? 9 : 0);
}

static void check_kills(pair_case *p) {
  char words[600], found[128];
  kill_at(p, 0);
  expect_run(p, "", 0);
  kill_at(p, 1);
  expected_text(p, "", found);
  snprintf(words, sizeof words, "of %s", found);
  expect_refusal(p, "", CREMA_E_CORRUPT, words);
  /* The path beside the state is the recorded one and is told of once. */
  const char *first = strstr(crema_error_text(), ".caffemodel");
  assert_non_null(first);
  assert_null(strstr(first + 1, ".caffemodel"));
  kill_at(p, 2);
  expect_run(p, "", 1);
}

TEST(kills_between_the_renamings) {
  each_format(check_kills);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
