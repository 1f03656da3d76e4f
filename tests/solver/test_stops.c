/* A run that was stopped, or that goes on from a snapshot, at any moment, is the uninterrupted one
 * bit for bit: weights, history, positions in the data and test scores. CREMA_TORTURE_RESUMES=100
 * makes a hundred random ones of it; CREMA_TEST_SEED repeats them. */
#include <sys/stat.h>
#include <time.h>

#include "core/file.h"
#include "data/db/datum.h"
#include "data/db/db.h"
#include "interpose.h"
#include "solver_case.h"

/* These tests need no protection against power cuts, so fsync does nothing. */
INTERPOSED int fsync(int fd) {
  (void)fd;
  return 0;
}

/* ---- runs ---- */

enum { LAST = 6, RECORDS = 7 };

/* Batches that do not divide the records, random crops, mirrors and masks, running statistics. */
static const char *const net_text =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN }\n"
    "  data_param { source: 'db' batch_size: 3 backend: LMDB threads: 2 %s }\n"
    "  transform_param { mirror: true crop_size: 3 scale: 0.01 } }\n"
    "layer { name: 'tested' type: 'Data' top: 'data' top: 'label' include { phase: TEST }\n"
    "  data_param { source: 'db' batch_size: 2 backend: LMDB }\n"
    "  transform_param { crop_size: 3 scale: 0.01 } }\n"
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'data' top: 'norm' }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'norm' top: 'ip1'\n"
    "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n"
    "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'acc'\n"
    "  include { phase: TEST } }\n";

/* Text of the solver file, then of the train net's data_param. */
static const char *const kinds[][2] = {
    {"lr_policy: 'fixed' momentum: 0.9 weight_decay: 0.01", ""},
    {"lr_policy: 'step' stepsize: 2 gamma: 0.5 type: 'Nesterov' momentum: 0.8", "shuffle: true"},
    {"lr_policy: 'inv' gamma: 0.1 power: 0.7 type: 'AdaGrad' iter_size: 2", "cache: true"},
    {"lr_policy: 'exp' gamma: 0.9 type: 'RMSProp' rms_decay: 0.9 average_loss: 4", ""},
    {"lr_policy: 'fixed' type: 'AdaDelta' momentum: 0.9 snapshot_format: HDF5", "shuffle: true"},
    {"lr_policy: 'multistep' stepvalue: 2 stepvalue: 4 gamma: 0.5 type: 'Adam' momentum: 0.9",
     "shuffle: true cache: true"},
    {"lr_policy: 'plateau' plateau_winsize: 1 plateau_winsize: 2 gamma: 0.5 average_loss: 3 "
     "snapshot_format: HDF5",
     ""},
    {"lr_policy: 'poly' power: 2 rampup_interval: 4 larc: true momentum: 0.9 clip_gradients: 0.1",
     "rand_skip: 5"},
};

enum { KINDS = sizeof kinds / sizeof *kinds };

/* What the caller's poll answers, once. */
typedef struct witness {
  crema_solver_action answer;
  int64_t polls, answer_at;
  int64_t answered_at; /* iteration; -1: not yet */
} witness;

typedef struct stop_case {
  solver_case c;
  int kind;
  witness user;
  log_lines whole, part;
  cr_buffer model, state; /* of the uninterrupted run */
  int64_t polls;          /* of the uninterrupted run */
} stop_case;

static crema_solver_action poll(void *user) {
  stop_case *s = user;
  if (++s->user.polls != s->user.answer_at) return CREMA_SOLVER_CONTINUE;
  s->user.answered_at = crema_solver_iteration(s->c.solver);
  return s->user.answer;
}

static const char *ending(const stop_case *s) {
  return strstr(kinds[s->kind][0], "HDF5") != NULL ? ".h5" : "";
}

/* A new solver, which does not know of the ones before. */
static void load(stop_case *s) {
  char net[4096], text[1024];
  snprintf(net, sizeof net, net_text, kinds[s->kind][1]);
  snprintf(text, sizeof text,
           "%s max_iter: %d display: 3 test_interval: 3 test_iter: 3 test_iter: 2 snapshot: 5",
           kinds[s->kind][0], LAST);
  s->user = (witness){.answered_at = -1};
  s->c.options.poll = poll;
  s->c.options.user = s;
  case_load(&s->c, net, text);
}

static void solve(stop_case *s) {
  ok(crema_solver_solve(s->c.solver));
}

static const char *file_of(const stop_case *s, int64_t iteration, const char *kind,
                           char path[256]) {
  snprintf(path, 256, "%s/s_iter_%lld.%s%s", s->c.folder, (long long)iteration, kind, ending(s));
  return path;
}

static void read_file(const char *path, cr_buffer *out) {
  cr_buffer_clear(out);
  ok(cr_file_read(path, out));
}

/* The uninterrupted run, whose files are removed. */
static void begin(stop_case *s, int kind) {
  char path[256], command[300];
  *s = (stop_case){.kind = kind};
  case_begin(&s->c);
  case_make_database(&s->c, "lmdb", RECORDS, 4, 3);
  listen(&s->whole);
  load(s);
  solve(s);
  listen(&s->part);
  s->polls = s->user.polls;
  read_file(file_of(s, LAST, "caffemodel", path), &s->model);
  read_file(file_of(s, LAST, "solverstate", path), &s->state);
  snprintf(command, sizeof command, "rm %s/s_iter_*", s->c.folder);
  assert_int_equal(system(command), 0);
}

static void end(stop_case *s) {
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  cr_buffer_free(&s->model);
  cr_buffer_free(&s->state);
  case_end(&s->c);
}

/* What was logged of losses, rates and scores: without times, and without what is told of files. */
static void scores(const log_lines *lines, char *out, size_t size) {
  size_t put = 0;
  *out = '\0';
  for (const char *at = lines->text; *at != '\0'; at += strcspn(at, "\n") + 1) {
    int length = (int)strcspn(at, "\n");
    bool told = strncmp(at, "    T", 5) == 0 || strncmp(at, "Iteration ", 10) == 0;
    if (strncmp(at, "Iteration ", 10) == 0 && memchr(at, '(', (size_t)length) != NULL &&
        strstr(at, " iter/s") != NULL && strstr(at, " iter/s") < at + length) {
      const char *loss = strstr(at, "loss = ");
      put += (size_t)snprintf(out + put, size - put, "Iteration %ld, %.*s\n", atol(at + 10),
                              (int)(at + length - loss), loss);
      told = false;
    }
    if (told) put += (size_t)snprintf(out + put, size - put, "%.*s\n", length, at);
    if (at[length] == '\0') break;
  }
}

/* What the run says from its last start on is what the uninterrupted one said at its end. */
static void expect_same_scores(const stop_case *s) {
  static char whole[1 << 14], part[1 << 14];
  scores(&s->whole, whole, sizeof whole);
  scores(&s->part, part, sizeof part);
  size_t all = strlen(whole), some = strlen(part);
  if (some > 0 && some <= all && strcmp(whole + all - some, part) == 0) return;
  fprintf(stderr, "%s: the uninterrupted run says\n%s\nthe resumed one says\n%s", kinds[s->kind][0],
          whole, part);
  fail();
}

static void expect_same_files(const stop_case *s) {
  static const char *const names[] = {"caffemodel", "solverstate"};
  for (int i = 0; i < 2; ++i) {
    const cr_buffer *wanted = i == 0 ? &s->model : &s->state;
    char path[256];
    cr_buffer found = {0};
    read_file(file_of(s, LAST, names[i], path), &found);
    if (found.size != wanted->size || memcmp(found.data, wanted->data, found.size) != 0) {
      fail_msg("%s is another than that of the uninterrupted run", path);
    }
    cr_buffer_free(&found);
    assert_int_equal(remove(path), 0);
  }
}

static void restore(stop_case *s, int64_t iteration) {
  char path[256];
  ok(crema_solver_restore(s->c.solver, file_of(s, iteration, "solverstate", path)));
}

static void resume(stop_case *s, int64_t iteration) {
  load(s);
  restore(s, iteration);
  listen(&s->part);
}

/* ---- every moment of one run ---- */

/* How a run goes on after a stop. */
typedef enum way { NEW_SOLVER, SAME_SOLVER, RESTORED_SOLVER } way;

/* A stop at each poll, resumed in a new solver, as in another process, or in the same one. */
static void stop_at_every_poll(way on) {
  static stop_case s;
  begin(&s, 0);
  assert_int_equal(s.polls, LAST + 3 * (3 + 2)); /* each iteration, each batch of three tests */
  for (int64_t at = 1; at <= s.polls; at += on == NEW_SOLVER ? 1 : 2) {
    load(&s);
    listen(&s.part);
    s.user.answer = CREMA_SOLVER_STOP;
    s.user.answer_at = at;
    solve(&s);
    int64_t iteration = crema_solver_iteration(s.c.solver);
    assert_int_equal(iteration, s.user.answered_at);
    s.user = (witness){.answered_at = -1};
    if (on == NEW_SOLVER && iteration > 0) load(&s);
    listen(&s.part);
    /* There is no snapshot of nothing learned. */
    int64_t from = on == RESTORED_SOLVER && iteration == LAST ? LAST - 1 : iteration;
    if (on != SAME_SOLVER && iteration > 0) restore(&s, from);
    solve(&s);
    /* The forward pass of the last display moves the running statistics on, for good. */
    if (on != SAME_SOLVER || iteration < LAST) expect_same_scores(&s);
    expect_same_files(&s);
  }
  end(&s);
}

TEST(stops_resume_exactly) {
  stop_at_every_poll(NEW_SOLVER);
}

TEST(stopped_solvers_go_on_exactly) {
  stop_at_every_poll(SAME_SOLVER);
}

TEST(restored_solvers_forget_the_stop) {
  stop_at_every_poll(RESTORED_SOLVER);
}

/* Training can go on after the end as after any other iteration, with the data that is given
 * then. */
TEST(nothing_is_held_after_the_end) {
  static stop_case s;
  begin(&s, 0);
  assert_null(s.c.solver->held);
  end(&s);
}

/* Requested snapshots, also in the middle of a test, change nothing and resume exactly. */
TEST(snapshots_at_every_poll) {
  static stop_case s;
  begin(&s, 0);
  for (int64_t at = 1; at <= s.polls; ++at) {
    load(&s);
    listen(&s.part);
    s.user.answer = CREMA_SOLVER_SNAPSHOT;
    s.user.answer_at = at;
    solve(&s);
    expect_same_scores(&s);
    int64_t iteration = s.user.answered_at;
    if (iteration < LAST) expect_same_files(&s);
    resume(&s, iteration);
    solve(&s);
    expect_same_scores(&s);
    if (iteration < LAST) expect_same_files(&s);
  }
  end(&s);
}

/* The last display's forward pass counts for no snapshot, although it is written after that. */
TEST(snapshots_in_the_last_test) {
  static const char *const when[] = {"snapshot_after_train: true", "snapshot_after_train: false"};
  static stop_case s;
  cr_buffer bytes[2] = {{0}};
  char path[256], text[512];
  case_begin(&s.c);
  for (int i = 0; i < 2; ++i) {
    s.c.options.feed = case_feed;
    s.c.options.poll = poll;
    s.c.options.user = &s;
    s.user = (witness){.answer = CREMA_SOLVER_SNAPSHOT, .answer_at = LAST + 2 * (LAST / 3)};
    if (i == 0) s.user.answer_at = -1;
    snprintf(text, sizeof text,
             "lr_policy: 'fixed' max_iter: %d display: 3 average_loss: 4 test_interval: 3 "
             "test_iter: 2 test_initialization: false %s",
             LAST, when[i]);
    case_load(&s.c, small_net, text);
    solve(&s);
    if (i == 1) assert_int_equal(s.user.answered_at, LAST);
    read_file(file_of(&s, LAST, "solverstate", path), &bytes[i]);
    assert_int_equal(remove(path), 0);
  }
  assert_int_equal(bytes[0].size, bytes[1].size);
  assert_memory_equal(bytes[0].data, bytes[1].data, bytes[0].size);
  cr_buffer_free(&bytes[0]);
  cr_buffer_free(&bytes[1]);
  case_end(&s.c);
}

/* ---- random stops ---- */

/* A run with random stops and snapshots, from each of which it is resumed. */
static void resume_at_random(stop_case *s, unsigned *seed) {
  int64_t from = -1;
  for (int stops = 1 + rand_r(seed) % 3; stops > 0; --stops) {
    if (from < 0) load(s);
    else resume(s, from);
    s->user.answer = rand_r(seed) % 2 == 0 ? CREMA_SOLVER_STOP : CREMA_SOLVER_SNAPSHOT;
    s->user.answer_at = 1 + rand_r(seed) % (s->polls + 1);
    solve(s);
    int64_t at = s->user.answered_at;
    bool learned = at > 0 || (at == 0 && s->user.answer == CREMA_SOLVER_SNAPSHOT);
    if (learned) from = at;
  }
  if (from < 0) load(s);
  else resume(s, from);
  listen(&s->part);
  solve(s);
  expect_same_scores(s);
  if (from < LAST) expect_same_files(s);
}

TEST(random_resumes) {
  static stop_case s;
  const char *count_text = getenv("CREMA_TORTURE_RESUMES"), *seed_text = getenv("CREMA_TEST_SEED");
  long count = count_text == NULL ? 5 : atol(count_text);
  unsigned seed = seed_text == NULL ? (unsigned)time(NULL) : (unsigned)atol(seed_text);
  print_message("seed %u (CREMA_TEST_SEED), %ld resumes (CREMA_TORTURE_RESUMES)\n", seed, count);
  for (int kind = 0; kind < KINDS; ++kind) {
    long share = (count + KINDS - 1 - kind) / KINDS;
    if (share == 0) continue;
    begin(&s, kind);
    for (long i = 0; i < share; ++i) resume_at_random(&s, &seed);
    end(&s);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
