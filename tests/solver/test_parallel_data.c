/* Several devices and their samples: together they read what one device reads that takes all
 * (S3-35), also where a test's batches do not divide among them; the scores are those of all
 * (S4-55), and batch_size may be for all (S4-45). */
#include <hdf5.h>

#include "core/rng.h"
#include "crema/memory_data.h"
#include "data/image/image.h"
#include "parallel_case.h"

enum { RECORDS = 24, BATCH = 4, SIDE = 2, PIXELS = SIDE * SIDE };

/* ---- sources of which sample i has the label i ---- */

static float memory_data[RECORDS * PIXELS], memory_labels[RECORDS];

static void make_values(void) {
  for (int i = 0; i < RECORDS; ++i) {
    memory_labels[i] = (float)i;
    for (int k = 0; k < PIXELS; ++k) memory_data[i * PIXELS + k] = (float)((i * 3 + k) % 7) / 7;
  }
}

static void add_set(hid_t file, const char *name, int axes, const hsize_t *dim, const float *data) {
  hid_t space = H5Screate_simple(axes, dim, NULL);
  hid_t set =
      H5Dcreate2(file, name, H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  assert_true(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
  H5Dclose(set);
  H5Sclose(space);
}

static void make_hdf5(const solver_case *c) {
  char path[256], list[300];
  make_values();
  hid_t file = H5Fcreate(case_path(c, "samples.h5", path), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  add_set(file, "data", 4, (hsize_t[]){RECORDS, 1, SIDE, SIDE}, memory_data);
  add_set(file, "label", 1, (hsize_t[]){RECORDS}, memory_labels);
  H5Fclose(file);
  snprintf(list, sizeof list, "%s\n", path);
  case_write(c, "list.txt", list);
}

static void make_images(const solver_case *c) {
  char path[256], name[32], list[RECORDS * 64] = "";
  uint8_t pixels[3 * PIXELS];
  const cr_image image = {.height = SIDE, .width = SIDE, .channels = 3, .pixels = pixels};
  for (int i = 0; i < RECORDS; ++i) {
    cr_buffer bytes = {0};
    for (int k = 0; k < 3 * PIXELS; ++k) pixels[k] = (uint8_t)((i * 5 + k) % 256);
    ok(cr_image_encode(&image, "png", &bytes));
    snprintf(name, sizeof name, "image%d.png", i);
    FILE *file = fopen(case_path(c, name, path), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fclose(file), 0);
    cr_buffer_free(&bytes);
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s %d\n", path, i);
  }
  case_write(c, "images.txt", list);
}

static void make_database(const solver_case *c) {
  case_make_database(c, "lmdb", RECORDS, SIDE, RECORDS);
}

/* ---- the union over devices ---- */

typedef struct source {
  const char *type, *param; /* of the layer; the batch goes into `param` */
  void (*make)(const solver_case *c);
} source;

static const source sources[] = {
    {"Data", "data_param { source: 'db' batch_size: %d backend: LMDB }", make_database},
    {"Data", "data_param { source: 'db' batch_size: %d backend: LMDB shuffle: true }", NULL},
    {"HDF5Data", "hdf5_data_param { source: 'list.txt' batch_size: %d }", make_hdf5},
    {"HDF5Data", "hdf5_data_param { source: 'list.txt' batch_size: %d shuffle: true }", NULL},
    {"ImageData", "image_data_param { source: 'images.txt' batch_size: %d }", make_images},
    {"MemoryData", "memory_data_param { batch_size: %d channels: 1 height: 2 width: 2 }", NULL},
};

enum { SOURCES = sizeof sources / sizeof *sources };

static const char *const learn_text =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 1 weight_filler { type: 'constant' value: 0.001 } } }\n"
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static void load_source(solver_case *c, const source *from, int batch, const char *solver) {
  char net[2048], param[256];
  snprintf(param, sizeof param, from->param, batch);
  snprintf(net, sizeof net, "layer { name: 'in' type: '%s' top: 'data' top: 'label' %s }\n%s",
           from->type, param, learn_text);
  case_load(c, net, solver);
  if (strcmp(from->type, "MemoryData") != 0) return;
  make_values();
  ok(crema_memory_data_set(crema_solver_net(c->solver), "in", memory_data, memory_labels, RECORDS));
}

static int by_value(const void *a, const void *b) {
  const float *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

/* The labels of the samples of all devices' last pass, in ascending order. */
static int read_labels(const solver_case *c, float *out) {
  int count = 0;
  for (int i = 0; i < c->solver->replicas; ++i) {
    crema_blob *blob = NULL;
    const float *label = NULL;
    ok(crema_net_blob(c->solver->replica[i].net, "label", &blob));
    ok(crema_blob_cpu_data(blob, &label));
    const int batch = (int)crema_blob_count(blob);
    memcpy(out + count, label, (size_t)batch * sizeof *label);
    count += batch;
  }
  qsort(out, (size_t)count, sizeof *out, by_value);
  return count;
}

enum { STEPS = 5, MOST = PARALLEL_MOST_DEVICES * BATCH };

static void read_steps(solver_case *c, float label[STEPS][MOST], int wanted) {
  for (int step = 0; step < STEPS; ++step) {
    ok(crema_solver_step(c->solver, 1));
    assert_int_equal(read_labels(c, label[step]), wanted);
  }
}

static void compare_source(solver_case *c, const source *from, int devices) {
  static float one[STEPS][MOST], several[STEPS][MOST];
  const char *const solver = "base_lr: 1e-9 lr_policy: 'fixed'";
  use_devices(c, 1, CREMA_EXCHANGE_AUTO);
  load_source(c, from, devices * BATCH, solver);
  read_steps(c, one, devices * BATCH);
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    use_devices(c, devices, exchange_ways[way]);
    load_source(c, from, BATCH, solver);
    read_steps(c, several, devices * BATCH);
    for (int step = 0; step < STEPS; ++step) {
      for (int i = 0; i < devices * BATCH; ++i) {
        if (one[step][i] == several[step][i]) continue;
        fail_msg("%s %s, %d devices, step %d: sample %g instead of %g", from->type, from->param,
                 devices, step, (double)several[step][i], (double)one[step][i]);
      }
    }
  }
}

PARALLEL_TEST(s3_35_devices_read_together_what_one_reads) {
  solver_case *c = *state;
  for (int i = 0; i < SOURCES; ++i) {
    if (sources[i].make != NULL) sources[i].make(c);
    compare_source(c, &sources[i], 2);
    compare_source(c, &sources[i], 3);
  }
}

/* ---- records that are skipped ---- */

/* The database "db", in which every other one of the first records is damaged: those of the first
 * or those of the second of two devices. */
static void make_damaged(const solver_case *c, int parity) {
  char path[256];
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_buffer value = {0};
  uint8_t pixels[PIXELS] = {0};
  ok(cr_db_open("lmdb", case_path(c, "db", path), CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  for (int i = 0; i < RECORDS; ++i) {
    const uint8_t key = (uint8_t)('a' + i);
    const cr_datum datum = {.channels = 1,
                            .height = SIDE,
                            .width = SIDE,
                            .label = i,
                            .encoded = i % 2 == parity && i < 8,
                            .has_encoded = true,
                            .data = pixels,
                            .size = PIXELS};
    cr_buffer_clear(&value);
    ok(cr_datum_append(&datum, &value));
    ok(cr_db_put(txn, (cr_db_bytes){&key, 1},
                 (cr_db_bytes){(const uint8_t *)value.data, value.size}));
  }
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
  cr_buffer_free(&value);
}

static void load_skipping(solver_case *c, int devices, bool resume) {
  static const source damaged = {
      "Data", "data_param { source: 'db' batch_size: %d backend: LMDB skip_corrupt: true }", NULL};
  char path[256];
  use_devices(c, devices, CREMA_EXCHANGE_REDUCE);
  load_source(c, &damaged, 2, "base_lr: 1e-9 lr_policy: 'fixed'");
  if (resume) ok(crema_solver_restore(c->solver, case_path(c, "s_iter_2.solverstate", path)));
}

/* Marks the records of the next steps. */
static void mark_records(const solver_case *c, int steps, bool seen[RECORDS]) {
  for (int step = 0; step < steps; ++step) {
    float label[MOST];
    ok(crema_solver_step(c->solver, 1));
    const int count = read_labels(c, label);
    for (int i = 0; i < count; ++i) seen[(int)label[i]] = true;
  }
}

/* The device that skipped is ahead of the other, and stays so. */
PARALLEL_TEST(s2_31_each_device_resumes_where_it_was) {
  solver_case *c = *state;
  for (int parity = 0; parity < 2; ++parity) {
    make_damaged(c, parity);
    bool seen[RECORDS] = {false}, next[RECORDS] = {false}, again[RECORDS] = {false};
    load_skipping(c, 2, false);
    mark_records(c, 2, seen);
    ok(crema_solver_snapshot(c->solver));
    mark_records(c, 2, next);
    load_skipping(c, 2, true);
    mark_records(c, 2, again);
    assert_memory_equal(again, next, sizeof next);
    for (int i = 0; i < 16; ++i) assert_int_equal(seen[i] + next[i], i % 2 != parity || i >= 8);
    /* Others begin where the one was that is behind: some records come twice, but none is lost. */
    for (int devices = 1; devices <= 3; devices += 2) {
      memset(again, 0, sizeof again);
      load_skipping(c, devices, true);
      mark_records(c, 6 / devices, again);
      for (int i = 0; i < 16; ++i) assert_int_equal(seen[i] || again[i], i % 2 != parity || i >= 8);
    }
    char path[256], command[300];
    snprintf(command, sizeof command, "rm -rf %s", case_path(c, "db", path));
    assert_int_equal(system(command), 0);
  }
}

/* batch_size for all devices together (S4-45). */
PARALLEL_TEST(s4_45_a_batch_for_all_is_divided) {
  solver_case *c = *state;
  float label[MOST];
  log_lines lines;
  for (int i = 0; i < SOURCES; ++i) {
    if (sources[i].make != NULL) sources[i].make(c);
    c->options.total_batch = true;
    use_devices(c, 2, CREMA_EXCHANGE_REDUCE);
    listen_to(&lines, CREMA_LOG_WARNING);
    load_source(c, &sources[i], 8, "lr_policy: 'fixed' base_lr: 1e-9");
    stop_listening();
    assert_int_equal(lines.count, 0);
    ok(crema_solver_step(c->solver, 1));
    assert_int_equal(read_labels(c, label), 8);
    /* Tests are divided in the one case and not in the other. */
    use_devices(c, 3, exchange_ways[i % EXCHANGE_WAYS]);
    listen_to(&lines, CREMA_LOG_WARNING);
    load_source(c, &sources[i], 8, "lr_policy: 'fixed' base_lr: 1e-9");
    stop_listening();
    assert_int_equal(count_lines(&lines, "batch_size"), 1);
    ok(crema_solver_step(c->solver, 1));
    assert_int_equal(read_labels(c, label), 9);
  }
}

/* ---- tests ---- */

static const char *const tested_text =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label' include { phase: TRAIN }\n"
    "  data_param { source: 'db' batch_size: 4 backend: LMDB } }\n"
    "layer { name: 'tested' type: 'Data' top: 'data' top: 'label' include { phase: TEST }\n"
    "  data_param { source: 'db' batch_size: %d backend: LMDB prefetch: 1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 24 weight_filler { type: 'gaussian' std: 0.01 } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'mean' type: 'Reduction' bottom: 'label' top: 'mean'\n"
    "  reduction_param { operation: MEAN } include { phase: TEST } }\n";

static void load_tested(solver_case *c, int devices, crema_exchange way, int batch, int tests) {
  char net[2048], solver[256];
  snprintf(net, sizeof net, tested_text, batch);
  snprintf(solver, sizeof solver, "base_lr: 1e-6 lr_policy: 'fixed' test_interval: 1 test_iter: %d",
           tests);
  use_devices(c, devices, way);
  case_load(c, net, solver);
}

/* The score is the mean of the labels that were tested; twelve batches of two are all records. */
PARALLEL_TEST(s4_55_scores_are_those_of_all_devices) {
  solver_case *c = *state;
  make_database(c);
  for (int devices = 1; devices <= 4; ++devices) {
    load_tested(c, devices, CREMA_EXCHANGE_REDUCE, 2, 12);
    for (int i = 0; i < 3; ++i) {
      ok(crema_solver_step(c->solver, 1));
      assert_true(c->solver->has_score);
      assert_float_equal(c->solver->score, (RECORDS - 1) / 2.0, 1e-6);
    }
  }
}

/* With test_iter 0 the first device scores each record once, in the last batch fewer than in the
 * others, with the numbers of one device. The weights do not change, so each test has the same
 * score.
 */
PARALLEL_TEST(each_sample_is_scored_once_on_the_first_device) {
  solver_case *c = *state;
  make_database(c);
  for (int row = 0; row < 16; ++row) {
    static const int batches[] = {1, 5, 7, RECORDS, RECORDS + 1};
    const int devices = 1 + row % 4, batch = batches[row % 5];
    c->options.total_batch = row / 4 == 1;
    load_tested(c, devices, row / 4 == 2 ? CREMA_EXCHANGE_TREE : CREMA_EXCHANGE_REDUCE, batch, 0);
    for (int i = 1; i < devices; ++i) {
      if (c->solver->tests_shared) assert_null(c->solver->test_net[i]);
    }
    for (int i = 0; i < 3; ++i) {
      ok(crema_solver_step(c->solver, 1));
      assert_true(c->solver->has_score);
      assert_float_equal(c->solver->score, (RECORDS - 1) / 2.0, 1e-5);
    }
  }
  c->options.total_batch = false;
}

/* A net that all devices test and a net that the first one tests resume where they were. */
PARALLEL_TEST(tests_of_both_kinds_are_resumed) {
  solver_case *c = *state;
  char path[256], net[4096];
  double score[2];
  static const char *const text =
      "base_lr: 0 lr_policy: 'fixed' test_interval: 2 test_iter: 4 test_iter: 0 "
      "test_initialization: "
      "false";
  make_database(c);
  snprintf(net, sizeof net, tested_text, 5);
  use_devices(c, 3, CREMA_EXCHANGE_REDUCE);
  for (int run = 0; run < 2; ++run) {
    case_load(c, net, text);
    if (run == 1) ok(crema_solver_restore(c->solver, case_path(c, "s_iter_3.solverstate", path)));
    else ok(crema_solver_step(c->solver, 3));
    for (int i = 0; i < 6; ++i) assert_true((c->solver->test_net[i] == NULL) == (i == 3 || i == 5));
    if (run == 0) ok(crema_solver_snapshot(c->solver));
    ok(crema_solver_step(c->solver, 2));
    score[run] = c->solver->score;
  }
  assert_float_equal(score[1], score[0], 0);
}

/* Every device takes as many batches, so none waits for records that another one has to take first,
 * and a test begins where the one before it ended. */
PARALLEL_TEST(s4_55_batches_that_do_not_divide_are_rounded_up) {
  solver_case *c = *state;
  static const int rows[][3] = {{2, 1, 2}, {3, 4, 6}, {4, 5, 8}, {5, 3, 5}, {8, 9, 16}};
  log_lines lines;
  make_database(c);
  for (size_t row = 0; row < sizeof rows / sizeof *rows; ++row) {
    const int devices = rows[row][0], run = rows[row][2];
    listen_to(&lines, CREMA_LOG_WARNING);
    load_tested(c, devices, CREMA_EXCHANGE_REDUCE, 2, rows[row][1]);
    stop_listening();
    assert_int_equal(count_lines(&lines, "test_iter"), 1);
    int at = 0;
    for (int i = 0; i < 12; ++i) {
      double sum = 0;
      for (int k = 0; k < 2 * run; ++k, ++at) sum += at % RECORDS;
      ok(crema_solver_step(c->solver, 1));
      assert_float_equal(c->solver->score, sum / (2 * run), 1e-5);
    }
  }
}

/* Each replica has each test net, whose streams go on from a state. */
PARALLEL_TEST(several_test_nets_are_resumed_on_each_device) {
  solver_case *c = *state;
  char path[256], net[4096];
  static const char *const text =
      "base_lr: 1e-6 lr_policy: 'fixed' test_interval: 1 test_iter: 3 test_iter: 6 test_iter: 12 "
      "test_initialization: false";
  make_database(c);
  snprintf(net, sizeof net, tested_text, 2);
  use_devices(c, 3, CREMA_EXCHANGE_REDUCE);
  case_load(c, net, text);
  assert_int_equal(c->solver->test_nets, 3);
  for (int i = 0; i < 9; ++i) assert_non_null(c->solver->test_net[i]);
  for (int i = 0; i < 3; ++i) {
    c->solver->test_net[i]->layer[1].layer->pass = 100 + i;
    c->solver->test_net[i]->layer[1].layer->key = 1000 + (uint64_t)i;
  }
  ok(crema_solver_snapshot(c->solver));
  case_load(c, net, text);
  ok(crema_solver_restore(c->solver, case_path(c, "s_iter_0.solverstate", path)));
  for (int i = 0; i < 9; ++i) {
    const cr_layer *layer = c->solver->test_net[i]->layer[1].layer;
    const uint64_t rank = (uint64_t)i / 3, key = 1000 + (uint64_t)i % 3;
    assert_int_equal(layer->pass, 100 + i % 3);
    assert_int_equal(layer->key, rank > 0 ? cr_mix_key(key, rank) : key);
  }
  /* All of them test, and the losses of all count. */
  double loss[2] = {0};
  for (int devices = 1; devices <= 3; devices += 2) {
    static log_lines lines;
    use_devices(c, devices, CREMA_EXCHANGE_REDUCE);
    case_load(c, net, text);
    c->solver->param->test_compute_loss = true;
    listen(&lines);
    ok(cr_solver_test_all(c->solver));
    stop_listening();
    assert_int_equal(count_lines(&lines, "Test loss: "), 3);
    loss[devices / 2] = strtod(strstr(lines.text, "Test loss: ") + strlen("Test loss: "), NULL);
  }
  assert_true(loss[0] > 0);
  assert_float_equal(loss[0], loss[1], 1e-4);
}

/* ---- layers that the replicas' test nets share ---- */

static void make_windows(const solver_case *c) {
  char path[256], name[32], text[RECORDS * 96] = "";
  for (int i = 0; i < RECORDS; ++i) {
    snprintf(name, sizeof name, "image%d.png", i);
    snprintf(text + strlen(text), sizeof text - strlen(text),
             "# %d\n%s\n3\n2\n2\n1\n%d %d 0 0 1 1\n", i, case_path(c, name, path), i + 1, i % 2);
  }
  case_write(c, "windows.txt", text);
}

static const source tested_sources[] = {
    {"Data", "data_param { source: 'db' batch_size: %d backend: LMDB }", make_database},
    {"HDF5Data", "hdf5_data_param { source: 'list.txt' batch_size: %d }", make_hdf5},
    {"ImageData", "image_data_param { source: 'images.txt' batch_size: %d shuffle: true }",
     make_images},
    {"ImageSegData",
     "image_data_param { source: 'images.txt' batch_size: %d label_type: IMAGE } "
     "transform_param { crop_size: 2 }",
     NULL},
    {"WindowData",
     "window_data_param { source: 'windows.txt' batch_size: %d fg_fraction: 0.5 } "
     "transform_param { crop_size: 2 }",
     make_windows},
    {"MemoryData", "memory_data_param { batch_size: %d channels: 1 height: 2 width: 2 }", NULL},
};

enum { TESTED_SOURCES = sizeof tested_sources / sizeof *tested_sources, TEST_STEPS = 4 };

/* A net that reads in both phases, and writes what it tests into the file `out`. */
static void load_tested_source(solver_case *c, const source *from, int batch, int tests,
                               const char *out) {
  char net[4096], param[256], solver[256];
  snprintf(param, sizeof param, from->param, batch);
  snprintf(net, sizeof net,
           "layer { name: 'in' type: '%s' top: 'data' top: 'label' %s }\n"
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
           "  inner_product_param { num_output: 1 weight_filler { type: 'constant' } } }\n"
           "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 }\n"
           "layer { name: 'mean' type: 'Reduction' bottom: 'data' top: 'mean'\n"
           "  reduction_param { operation: MEAN } include { phase: TEST } }\n"
           "layer { name: 'out' type: 'HDF5Output' bottom: 'data' bottom: 'label'\n"
           "  hdf5_output_param { file_name: '%s' } include { phase: TEST } }\n"
           "layer { name: 'rest' type: 'Silence' bottom: 'label' include { phase: TRAIN } }\n",
           from->type, param, out);
  snprintf(solver, sizeof solver, "base_lr: 0 lr_policy: 'fixed' test_interval: 1 test_iter: %d",
           tests);
  case_load(c, net, solver);
  if (strcmp(from->type, "MemoryData") != 0) return;
  make_values();
  crema_net *const net_of[] = {c->solver->net, c->solver->test_net[0]};
  for (int i = 0; i < 2; ++i) {
    ok(crema_memory_data_set(net_of[i], "in", memory_data, memory_labels, RECORDS));
  }
}

/* The labels that a test has written, in ascending order. Returns how many. */
static int read_written(const char *path, float label[RECORDS * PIXELS]) {
  hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t set = H5Dopen2(file, "label", H5P_DEFAULT), space = H5Dget_space(set);
  const int count = (int)H5Sget_simple_extent_npoints(space);
  assert_in_range(count, 1, RECORDS * PIXELS);
  assert_true(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, label) >= 0);
  H5Sclose(space);
  H5Dclose(set);
  H5Fclose(file);
  qsort(label, (size_t)count, sizeof *label, by_value);
  return count;
}

/* One device tests with a batch as large as those of all. */
static void compare_tests(solver_case *c, const source *from, int devices) {
  static float one[RECORDS * PIXELS], several[RECORDS * PIXELS];
  char path[256];
  case_path(c, "written.h5", path);
  use_devices(c, 1, CREMA_EXCHANGE_AUTO);
  load_tested_source(c, from, 2 * devices, TEST_STEPS, path);
  ok(crema_solver_step(c->solver, 1));
  const double score = c->solver->score;
  const int count = read_written(path, one);
  use_devices(c, devices, CREMA_EXCHANGE_REDUCE);
  load_tested_source(c, from, 2, TEST_STEPS * devices, path);
  ok(crema_solver_step(c->solver, 1));
  assert_float_equal(c->solver->score, score, 1e-5 * score);
  assert_int_equal(read_written(path, several), count);
  assert_memory_equal(several, one, (size_t)count * sizeof *one);
}

PARALLEL_TEST(s4_55_test_nets_share_their_layers) {
  solver_case *c = *state;
  for (int i = 0; i < TESTED_SOURCES; ++i) {
    if (tested_sources[i].make != NULL) tested_sources[i].make(c);
    compare_tests(c, &tested_sources[i], 2);
    compare_tests(c, &tested_sources[i], 3);
  }
}

/* Along a tree the root tests alone, and the others have no test nets (S3-15, S3-25). */
PARALLEL_TEST(s3_15_s3_25_the_root_of_a_tree_tests_alone) {
  solver_case *c = *state;
  make_database(c);
  load_tested(c, 3, CREMA_EXCHANGE_TREE, 2, 5);
  assert_int_equal(c->solver->test_nets, 1);
  assert_false(c->solver->tests_shared);
  for (int i = 0; i < 6; ++i) {
    ok(crema_solver_step(c->solver, 1));
    double sum = 0;
    for (int k = 0; k < 10; ++k) sum += (i * 10 + k) % RECORDS;
    assert_float_equal(c->solver->score, sum / 10, 1e-5);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
