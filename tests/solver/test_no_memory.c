/* Every allocation fails once: each failure comes back as CREMA_E_NO_MEMORY (with a text), nothing
 * crashes, hangs or, as the sanitizers see, leaks. */
#include "allocations.h"

#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "core/fail.h"
#include "data/db/datum.h"
#include "data/db/db.h"
#include "data/pipeline/hdf5_set.h"
#include "solver_case.h"

/* Returns what the failed allocation made of it. */
typedef crema_status operation(solver_case *c);

/* Leaves out more and more of them, where each run takes long and CREMA_TEST_ALL_ALLOCATIONS is not
 * set. */
static void allocations_fail(const char *name, solver_case *c, operation *run, bool slow) {
  bool all = !slow || getenv("CREMA_TEST_ALL_ALLOCATIONS") != NULL;
  for (long n = 0;; n += all ? 1 : 1 + n / 8) {
    no_memory_arm(n);
    crema_status status = run(c);
    bool hit = no_memory_end();
    if (!hit) {
      if (status != CREMA_OK) fail_msg("%s: %s", name, crema_error_text());
      print_message("%s: %ld allocations\n", name, n);
      return;
    }
    /* Memory that is not essential causes no failure. */
    if (status == CREMA_OK) continue;
    if (status != CREMA_E_NO_MEMORY || crema_error_text()[0] == '\0') {
      fail_msg("%s, allocation %ld: %s: \"%s\"", name, n, crema_status_name(status),
               crema_error_text());
    }
  }
}

static const char *const solver_text =
    "lr_policy: 'fixed' momentum: 0.9 type: 'LAMB' test_iter: 1 test_interval: 2 max_iter: 2 "
    "average_loss: 2 ema_decay: 0.5 early_stop_patience: 2";

/* Layers of many kinds, a split, sharing and fusion. */
static const char *const wide_net =
    "name: 'wide' input: 'data' input: 'label' input_dim: 2 input_dim: 2 input_dim: 8 input_dim: 8 "
    "input_dim: 2 input_dim: 1 input_dim: 1 input_dim: 1\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
    "  convolution_param { num_output: 3 kernel_size: 3 weight_filler { type: 'msra' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"
    "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'\n"
    "  pooling_param { kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'norm' type: 'LRN' bottom: 'pool' top: 'norm' }\n"
    "layer { name: 'bn' type: 'BatchNorm' bottom: 'norm' top: 'bn' }\n"
    "layer { name: 'scale' type: 'Scale' bottom: 'bn' top: 'scale' scale_param { bias_term: true } "
    "}\n"
    "layer { name: 'a' type: 'InnerProduct' bottom: 'scale' top: 'a' param { name: 'w' }\n"
    "  inner_product_param { num_output: 2 bias_term: false } }\n"
    "layer { name: 'b' type: 'InnerProduct' bottom: 'scale' top: 'b' param { name: 'w' }\n"
    "  inner_product_param { num_output: 2 bias_term: false } }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n"
    "layer { name: 'cat' type: 'Concat' bottom: 'sum' bottom: 'a' top: 'cat' }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'cat' top: 'cat' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'cat' bottom: 'label' top: 'loss' }\n";

/* Samples from a database, through reader and decoding threads. */
static const char *const data_net =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 3 backend: LMDB threads: 2 }\n"
    "  transform_param { mirror: true crop_size: 2 scale: 0.1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* The same from LevelDB, whose own allocations do not fail: it ends the process then. */
static const char *const leveldb_net =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 3 backend: LEVELDB } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* Samples from files that are decoded and resized. */
static const char *const image_net =
    "layer { name: 'in' type: 'ImageData' top: 'data' top: 'label'\n"
    "  image_data_param { source: 'list.txt' batch_size: 2 new_height: 6 new_width: 6 }\n"
    "  transform_param { mean_value: 100 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* Samples from an HDF5 file, which a child process reads. */
static const char *const hdf5_net =
    "layer { name: 'in' type: 'HDF5Data' top: 'data' top: 'label'\n"
    "  hdf5_data_param { source: 'list.txt' batch_size: 2 shuffle: true } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* Windows of an image. */
static const char *const window_net =
    "layer { name: 'in' type: 'WindowData' top: 'data' top: 'label'\n"
    "  window_data_param { source: 'windows.txt' batch_size: 2 fg_fraction: 0.5 }\n"
    "  transform_param { crop_size: 6 mean_value: 100 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static void make_hdf5(const solver_case *c) {
  const crema_shape data = {.axes = 2, .dim = {3, 2}}, label = {.axes = 1, .dim = {3}};
  const float values[6] = {1, 0, 1, 1, 0, 1};
  cr_hdf5_writer *writer = NULL;
  char path[256], list[300];
  ok(cr_hdf5_writer_open(case_path(c, "set.h5", path), &writer));
  ok(cr_hdf5_writer_append(writer, "data", &data, CREMA_F32, values));
  ok(cr_hdf5_writer_append(writer, "label", &label, CREMA_F32, values));
  cr_hdf5_writer_close(writer);
  snprintf(list, sizeof list, "%s\n", path);
  case_write(c, "list.txt", list);
}

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  float *label;
  (void)user, (void)pass;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  label[0] = 1;
  label[1] = 0;
  return CREMA_OK;
}

static crema_status load(solver_case *c) {
  char path[256];
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  return crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver);
}

static crema_status load_and_train(solver_case *c) {
  CR_TRY(load(c));
  return crema_solver_step(c->solver, 2);
}

static crema_status snapshot(solver_case *c) {
  return crema_solver_snapshot(c->solver);
}

enum { STATE_MOST = 1 << 18 };

static ssize_t read_state(const solver_case *c, char state[STATE_MOST]) {
  char path[256];
  const int fd = open(case_path(c, "s_iter_2.solverstate", path), O_RDONLY);
  assert_true(fd >= 0);
  const ssize_t size = read(fd, state, STATE_MOST);
  assert_true(size > 0 && size < STATE_MOST);
  assert_int_equal(close(fd), 0);
  return size;
}

/* One that succeeds lacks nothing. The file is there before. */
static crema_status snapshot_again(solver_case *c) {
  static char before[STATE_MOST], after[STATE_MOST];
  const ssize_t size = read_state(c, before);
  CR_TRY(crema_solver_snapshot(c->solver));
  assert_int_equal(read_state(c, after), size);
  assert_memory_equal(after, before, (size_t)size);
  return CREMA_OK;
}

static crema_status resume(solver_case *c) {
  char path[256];
  return crema_solver_restore(c->solver, case_path(c, "s_iter_2.solverstate", path));
}

static crema_status resume_hdf5(solver_case *c) {
  char path[256];
  return crema_solver_restore(c->solver, case_path(c, "s_iter_2.solverstate.h5", path));
}

static void begin(solver_case *c, const char *net, const char *more) {
  char text[512];
  case_begin(c);
  if (net == data_net) case_make_database(c, "lmdb", 5, 3, 2);
  else if (net == leveldb_net) case_make_database(c, "leveldb", 5, 3, 2);
  else if (net == image_net) {
    case_write(c, "list.txt", CREMA_SOURCE_DIR "/examples/images/cat.jpg 1\n");
  } else if (net == hdf5_net) make_hdf5(c);
  else if (net == window_net) {
    case_write(c, "windows.txt",
               "# 0\n" CREMA_SOURCE_DIR
               "/examples/images/cat.jpg\n3 300 451\n"
               "2\n1 0.9 10 10 200 200\n0 0.1 100 100 290 290\n");
  } else c->options.feed = net == wide_net ? feed : case_feed;
  snprintf(text, sizeof text, "%s %s", solver_text, more);
  case_load(c, net, text);
  ok(crema_solver_step(c->solver, 2));
}

/* What is tried with each net. Slow ones fail at fewer allocations. */
static const struct {
  const char *name, *const *net;
  operation *run;
  bool slow;
} attempts[] = {
    {"small net", &small_net, load, false},
    {"wide net", &wide_net, load, false},
    {"training", &wide_net, load_and_train, false},
    {"training from a database", &data_net, load_and_train, false},
    {"training from LevelDB", &leveldb_net, load_and_train, true},
    {"training from images", &image_net, load_and_train, true},
    {"training from windows", &window_net, load_and_train, true},
    {"training from HDF5", &hdf5_net, load_and_train, true},
};

TEST(loading_and_training) {
  for (size_t i = 0; i < sizeof attempts / sizeof *attempts; ++i) {
    solver_case c;
    begin(&c, *attempts[i].net, "");
    allocations_fail(attempts[i].name, &c, attempts[i].run, attempts[i].slow);
    case_end(&c);
  }
}

TEST(snapshots) {
  solver_case c;
  begin(&c, data_net, "");
  ok(snapshot(&c));
  allocations_fail("snapshot with a reader", &c, snapshot_again, false);
  case_end(&c);
  begin(&c, wide_net, "");
  ok(snapshot(&c));
  allocations_fail("snapshot", &c, snapshot_again, false);
  allocations_fail("resuming", &c, resume, false);
  case_end(&c);
  begin(&c, wide_net, "snapshot_format: HDF5");
  allocations_fail("HDF5 snapshot", &c, snapshot, false);
  allocations_fail("resuming from HDF5", &c, resume_hdf5, true);
  case_end(&c);
}

/* Neither the weights nor their history is copied on the way to the disk: 4 MB each. */
CASE_TEST(a_snapshot_takes_little_memory) {
  solver_case *c = *state;
  char text[256];
  enum { INPUTS = 1 << 17, COPY = INPUTS * 8 * (int)sizeof(float) };
  snprintf(text, sizeof text,
           "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: %d } } }"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'"
           "  inner_product_param { num_output: 8 bias_term: false } }",
           INPUTS);
  case_load(c, text, "lr_policy: 'fixed' momentum: 0.9");
  assert_int_equal(crema_blob_count(c->solver->net->learnable[0]) * (int)sizeof(float), COPY);
  /* The first one allocates the history, which is known to be zero until then. */
  ok(crema_solver_snapshot(c->solver));
  no_memory_arm(LONG_MAX);
  ok(crema_solver_snapshot(c->solver));
  assert_false(no_memory_end());
  const size_t bytes = atomic_load(&no_memory->bytes);
  print_message("a snapshot of %d bytes: %zu allocated\n", 2 * COPY, bytes);
  assert_in_range(bytes, 1, COPY / 2);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
