/* Solver states, models and data sets in HDF5 files whose metadata are damaged: the HDF5 library
 * crashes on some of them. Whatever it does, the process goes on, and an error names the file. */
#include "solver_case.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

#include "core/file.h"
#include "core/hdf5_api.h"
#include "data/pipeline/hdf5_set.h"
#include "interpose.h"

enum { COPIES = 100 };

typedef crema_status reading(solver_case *c, const char *path);

static crema_status read_state(solver_case *c, const char *path) {
  return crema_solver_restore(c->solver, path);
}

static crema_status read_model(solver_case *c, const char *path) {
  return crema_net_load_weights(crema_solver_net(c->solver), path);
}

static crema_status read_data(solver_case *c, const char *path) {
  char list[256], text[512];
  crema_net *net = NULL;
  snprintf(text, sizeof text, "%s\n", path);
  case_write(c, "list.txt", text);
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label' "
           "hdf5_data_param { source: '%s' batch_size: 2 } }",
           case_path(c, "list.txt", list));
  crema_status status = crema_net_parse(text, strlen(text), "test", NULL, &net);
  if (status == CREMA_OK) status = crema_net_forward(net, NULL);
  crema_net_destroy(net);
  return status;
}

static void write_data(const char *path) {
  const crema_shape data = {.axes = 2, .dim = {3, 2}}, label = {.axes = 1, .dim = {3}};
  const float values[6] = {1, 2, 3, 4, 5, 6};
  cr_hdf5_writer *writer = NULL;
  ok(cr_hdf5_writer_open(path, &writer));
  ok(cr_hdf5_writer_append(writer, "data", &data, CREMA_F32, values));
  ok(cr_hdf5_writer_append(writer, "label", &label, CREMA_F32, values));
  cr_hdf5_writer_close(writer);
}

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

/* A few bytes take other values. Most are some that are not zero, which have a meaning. */
static void damage(unsigned char *bytes, size_t size, uint64_t seed) {
  uint64_t random = seed * 2654435761u + 1;
  size_t count = 1 + next_random(&random) % 4;
  for (size_t i = 0; i < count; ++i) {
    unsigned char *byte = NULL;
    for (int tries = 0; tries < 8 && (byte == NULL || *byte == 0); ++tries) {
      byte = &bytes[next_random(&random) % size];
    }
    switch (next_random(&random) % 4) {
      case 0: *byte = 0xff; break;
      case 1: *byte = 0; break;
      case 2: *byte = (unsigned char)(*byte + 1); break;
      default: *byte ^= (unsigned char)(1u << next_random(&random) % 8);
    }
  }
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes, 1, size, file), size);
  assert_int_equal(fclose(file), 0);
}

/* Reads damaged copies of a file. */
static void read_damaged(solver_case *c, const char *path, reading *read) {
  cr_buffer whole = {0};
  char damaged[256];
  int refused = 0, crashed = 0;
  case_path(c, "damaged.h5", damaged);
  ok(cr_file_read(path, &whole));
  unsigned char *copy = malloc(whole.size);
  assert_non_null(copy);
  for (int seed = 0; seed < COPIES; ++seed) {
    memcpy(copy, whole.data, whole.size);
    damage(copy, whole.size, (uint64_t)seed);
    write_file(damaged, copy, whole.size);
    if (read(c, damaged) == CREMA_OK) continue;
    ++refused;
    if (strstr(crema_error_text(), "damaged.h5") == NULL) {
      fail_msg("copy %d of %s: %s", seed, path, crema_error_text());
    }
    crashed += strstr(crema_error_text(), "crashes on it") != NULL;
  }
  print_message("%s: %d of %d refused, %d of them after a crash\n", strrchr(path, '/') + 1, refused,
                COPIES, crashed);
  assert_in_range(refused, 1, COPIES - 1);
  free(copy);
  cr_buffer_free(&whole);
}

static void begin(solver_case *c) {
  case_begin(c);
  case_load(c, small_net, "lr_policy: 'fixed' max_iter: 2 snapshot_format: HDF5");
  ok(crema_solver_snapshot(c->solver));
}

TEST(damaged_files) {
  solver_case c;
  char path[256];
  begin(&c);
  read_damaged(&c, case_path(&c, "s_iter_0.solverstate.h5", path), read_state);
  read_damaged(&c, case_path(&c, "s_iter_0.caffemodel.h5", path), read_model);
  write_data(case_path(&c, "set.h5", path));
  read_damaged(&c, path, read_data);
  /* The undamaged file can still be read after all that. */
  ok(read_data(&c, path));
  ok(crema_solver_restore(c.solver, case_path(&c, "s_iter_0.solverstate.h5", path)));
  assert_true(waitpid(-1, NULL, WNOHANG) < 0);
  case_end(&c);
}

/* Data sets that are stored in one piece now say that they are stored in chunks, of no axes: HDF5
 * 1.10 divides by zero. */
static void make_deadly(const char *from, const char *to) {
  /* The message "layout" of an object header: type 8, 24 bytes, version 3, contiguous. */
  static const unsigned char layout[] = {8, 0, 24, 0, 0, 0, 0, 0, 3, 1};
  cr_buffer whole = {0};
  int found = 0;
  ok(cr_file_read(from, &whole));
  for (size_t at = 0; at + sizeof layout <= whole.size; ++at) {
    if (memcmp(whole.data + at, layout, sizeof layout) != 0) continue;
    whole.data[at + sizeof layout - 1] = 2;
    ++found;
  }
  assert_true(found > 0);
  write_file(to, whole.data, whole.size);
  cr_buffer_free(&whole);
}

TEST(a_file_that_crashes_it) {
  static const struct {
    const char *name;
    reading *read;
  } cases[] = {{"s_iter_0.solverstate.h5", read_state}, {"s_iter_0.caffemodel.h5", read_model}};
  solver_case c;
  begin(&c);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char sound[256], deadly[256];
    make_deadly(case_path(&c, cases[i].name, sound), case_path(&c, "deadly.h5", deadly));
    crema_status status = cases[i].read(&c, deadly);
    print_message("%s\n", crema_error_text());
    assert_int_equal(status, CREMA_E_CORRUPT);
    assert_error_has("deadly.h5");
    ok(cases[i].read(&c, sound));
  }
  assert_true(waitpid(-1, NULL, WNOHANG) < 0);
  case_end(&c);
}

/* ---- without a child ----------------------------------------------------- */

static int forks;
static bool no_forks;

INTERPOSED pid_t fork(void) {
  ++forks;
  if (!no_forks) return REAL(fork)();
  errno = EAGAIN;
  return -1;
}

/* One child per opened file; none where none can be made. */
TEST(processes) {
  solver_case c;
  char state_path[256], set_path[256];
  static log_lines lines;
  begin(&c);
  case_path(&c, "s_iter_0.solverstate.h5", state_path);
  write_data(case_path(&c, "set.h5", set_path));
  forks = 0;
  ok(read_state(&c, state_path));
  assert_int_equal(forks, 2); /* with the model */
  forks = 0;
  ok(read_data(&c, set_path));
  assert_int_equal(forks, 2); /* at the set-up, and for the values */
  no_forks = true;
  listen_to(&lines, CREMA_LOG_WARNING);
  ok(read_data(&c, set_path));
  assert_non_null(
      strstr(last_line(&lines), "set.h5: read without the protection of a child process"));
  ok(read_state(&c, state_path));
  stop_listening();
  no_forks = false;
  assert_int_equal(setenv("CREMA_HDF5_FORK", "0", 1), 0);
  forks = 0;
  ok(read_state(&c, state_path));
  ok(read_model(&c, case_path(&c, "s_iter_0.caffemodel.h5", state_path)));
  ok(read_data(&c, set_path));
  assert_int_equal(forks, 0);
  assert_int_equal(unsetenv("CREMA_HDF5_FORK"), 0);
  case_end(&c);
}

/* The host has the file open itself. */
TEST(files_of_the_host) {
  solver_case c;
  char path[256];
  begin(&c);
  case_path(&c, "s_iter_0.caffemodel.h5", path);
  hid_t file = cr_h5()->Fopen(path, cr_h5()->F_ACC_RDONLY, H5P_DEFAULT);
  assert_true(file >= 0);
  ok(read_model(&c, path));
  assert_true(cr_h5()->Lexists(file, "data", H5P_DEFAULT) > 0);
  assert_true(cr_h5()->Fclose(file) >= 0);
  /* One that is being written is not read. */
  write_data(path);
  cr_hdf5_writer *writer = NULL;
  ok(cr_hdf5_writer_open(path, &writer));
  assert_fails(read_data(&c, path), CREMA_E_CORRUPT, "still being written");
  cr_hdf5_writer_close(writer);
  case_end(&c);
}

/* ---- threads ------------------------------------------------------------- */

enum { THREADS = 3, ROUNDS = 12 };

/* Reads and writes, while others do the same. */
static void *work(void *user) {
  const char *path = user;
  char own[300];
  snprintf(own, sizeof own, "%s.own", path);
  for (int i = 0; i < ROUNDS; ++i) {
    const crema_shape shape = {.axes = 2, .dim = {3, 2}};
    float values[6] = {0};
    cr_hdf5_reader *reader = NULL;
    write_data(own);
    bool good = cr_hdf5_reader_open(i % 2 == 0 ? path : own, &reader) == CREMA_OK &&
                cr_hdf5_set_read(reader, "data", &shape, CREMA_F32, values) == CREMA_OK &&
                values[5] == 6;
    cr_hdf5_reader_close(reader);
    if (!good) return user;
  }
  return NULL;
}

TEST(threads) {
  solver_case c;
  pthread_t thread[THREADS];
  char path[THREADS][256];
  begin(&c);
  for (int i = 0; i < THREADS; ++i) {
    char name[32];
    snprintf(name, sizeof name, "set_%d.h5", i);
    write_data(case_path(&c, name, path[i]));
    assert_int_equal(pthread_create(&thread[i], NULL, work, path[i]), 0);
  }
  for (int i = 0; i < THREADS; ++i) {
    void *failed = NULL;
    assert_int_equal(pthread_join(thread[i], &failed), 0);
    assert_null(failed);
  }
  case_end(&c);
}

int main(void) {
  crema_log_set(NULL, NULL, CREMA_LOG_ERROR);
  return run_all_tests(NULL, NULL);
}
