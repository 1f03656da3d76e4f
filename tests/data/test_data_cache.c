/* Records that are kept in memory: epochs without the database, orders of their own, positions, and
 * memory that runs short. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/clock.h"
#include "core/mem_available.h"
#include "crema/log.h"
#include "crema/solver.h"
#include "data/pipeline/input_group.h"
#include "data/pipeline/record_cache.h"
#include "fixture.h"
#include "given_text.h"
#include "interpose.h"
#include "log_lines.h"
#include "net/net_values.h"

enum { RECORDS = 23, EPOCHS = 4 };

/* What the machine has left, where a test pretends that it has so much. */
static uint64_t pretended;

INTERPOSED int openat(int base, const char *path, int flags, ...) {
  char text[32];
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = va_arg(rest, mode_t);
  va_end(rest);
  if (pretended == 0 || strncmp(path, "/sys/fs/cgroup/", 15) != 0) {
    return REAL(openat)(base, path, flags, mode);
  }
  const bool limit = strcmp(path, "/sys/fs/cgroup/memory.max") == 0;
  snprintf(text, sizeof text, "%" PRIu64, limit ? pretended : 0);
  return open_text(text);
}

/* The database `name` with both back ends, keys %08d, values of different sizes. */
static const char *make_db(const fixture *f, const char *backend, const char *name, int count) {
  const char *path = fixture_path(f, name);
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  uint8_t value[6000];
  ok(cr_db_open(backend, path, CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  for (int i = 0; i < count; ++i) {
    char key[16];
    int length = snprintf(key, sizeof key, "%08d", i);
    memset(value, i % 251, sizeof value);
    const cr_db_bytes bytes = {(const uint8_t *)key, (size_t)length};
    ok(cr_db_put(txn, bytes, (cr_db_bytes){value, (size_t)(i * 251 % 6000) + 1}));
  }
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
  return path;
}

/* Number in the key of a record whose value is checked; its number is `index`. */
static int take(cr_reader *reader, int consumer, uint64_t index) {
  cr_record *record = NULL;
  cr_buffer store = {0};
  cr_db_bytes value;
  char text[16];
  ok(cr_reader_take(reader, consumer, &record));
  assert_int_equal(record->index, index);
  cr_db_key_text(record->key, text, sizeof text);
  int number = atoi(text);
  ok(cr_record_value(record, &store, &value));
  assert_int_equal(value.size, number * 251 % 6000 + 1);
  for (size_t i = 0; i < value.size; ++i) assert_int_equal(value.data[i], number % 251);
  ok(fixture_give_back(reader, consumer, record));
  cr_buffer_free(&store);
  return number;
}

static void open_reader(const char *backend, const char *path, bool shuffle, uint64_t key,
                        cr_reader **out) {
  const cr_reader_options options = {.backend = backend,
                                     .source = path,
                                     .consumers = 1,
                                     .depth = 3,
                                     .cache = true,
                                     .shuffle = shuffle,
                                     .order_key = key};
  ok(cr_reader_open(&options, out));
}

/* Every record is read once; later epochs come from memory, in the same order. */
FIXTURE_TEST(s2_29_later_epochs_read_nothing) {
  static const char *const backends[] = {"lmdb", "leveldb"};
  const fixture *f = *state;
  for (int b = 0; b < 2; ++b) {
    cr_reader *reader = NULL;
    open_reader(backends[b], make_db(f, backends[b], backends[b], RECORDS), false, 1, &reader);
    ok(fixture_reader_start(reader));
    for (int k = 0; k < EPOCHS * RECORDS; ++k) {
      assert_int_equal(take(reader, 0, (uint64_t)k), k % RECORDS);
    }
    assert_int_equal(cr_reader_get_stats(reader).reads, RECORDS);
    assert_int_equal(cr_reader_count(reader), RECORDS);
    cr_reader_close(reader);
  }
}

/* Without cache the same stream costs one read per record. */
FIXTURE_TEST(s2_29_without_cache_every_epoch_reads) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const cr_reader_options options = {
      .backend = "lmdb", .source = make_db(f, "lmdb", "db", RECORDS), .consumers = 1, .depth = 3};
  ok(cr_reader_open(&options, &reader));
  ok(fixture_reader_start(reader));
  for (int k = 0; k < EPOCHS * RECORDS; ++k) (void)take(reader, 0, (uint64_t)k);
  assert_true(cr_reader_get_stats(reader).reads >= EPOCHS * RECORDS);
  cr_reader_close(reader);
}

static void run_shuffled(const char *backend, const char *path, uint64_t key,
                         int out[EPOCHS][RECORDS]) {
  cr_reader *reader = NULL;
  open_reader(backend, path, true, key, &reader);
  ok(fixture_reader_start(reader));
  for (int k = 0; k < EPOCHS * RECORDS; ++k) {
    out[k / RECORDS][k % RECORDS] = take(reader, 0, (uint64_t)k);
  }
  assert_int_equal(cr_reader_get_stats(reader).reads, RECORDS);
  cr_reader_close(reader);
}

/* The first epoch in the order of the keys, each later one in another order, which seed and epoch
 * decide alone. */
FIXTURE_TEST(s2_29_each_epoch_has_its_permutation) {
  static int order[4][EPOCHS][RECORDS];
  const fixture *f = *state;
  const char *lmdb = make_db(f, "lmdb", "db", RECORDS);
  const char *leveldb = make_db(f, "leveldb", "level", RECORDS);
  run_shuffled("lmdb", lmdb, 1, order[0]);
  run_shuffled("lmdb", lmdb, 1, order[1]);
  run_shuffled("leveldb", leveldb, 1, order[2]);
  run_shuffled("lmdb", lmdb, 2, order[3]);
  assert_memory_equal(order[0], order[1], sizeof order[0]);
  assert_memory_equal(order[0], order[2], sizeof order[0]);
  for (int run = 0; run < 4; run += 3) {
    for (int e = 0; e < EPOCHS; ++e) {
      int seen[RECORDS] = {0};
      for (int i = 0; i < RECORDS; ++i) ++seen[order[run][e][i]];
      for (int i = 0; i < RECORDS; ++i) assert_int_equal(seen[i], 1);
      if (e == 0) {
        for (int i = 0; i < RECORDS; ++i) assert_int_equal(order[run][0][i], i);
      }
      for (int other = 0; other < e; ++other) {
        assert_memory_not_equal(order[run][e], order[run][other], sizeof order[run][e]);
      }
    }
  }
  assert_memory_not_equal(order[0][1], order[3][1], sizeof order[0][1]);
}

/* Three consumers divide the order of one among themselves; passing records over at the start
 * shifts the epochs. */
FIXTURE_TEST(s2_29_several_solvers_divide_the_same_order) {
  enum { SOLVERS = 3, SKIP = 2 * RECORDS + 5 };
  static int order[EPOCHS][RECORDS];
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *path = make_db(f, "leveldb", "db", RECORDS);
  run_shuffled("leveldb", path, 7, order);
  const cr_reader_options options = {.backend = "leveldb",
                                     .source = path,
                                     .consumers = SOLVERS,
                                     .depth = 3,
                                     .skip = SKIP,
                                     .shuffle = true,
                                     .order_key = 7};
  ok(cr_reader_open(&options, &reader));
  ok(fixture_reader_start(reader));
  for (int k = 0; k < (EPOCHS - 1) * RECORDS; ++k) {
    int position = SKIP % RECORDS + k;
    assert_int_equal(take(reader, k % SOLVERS, (uint64_t)k),
                     order[position / RECORDS][position % RECORDS]);
  }
  cr_reader_close(reader);
}

/* Resumes at every position of every epoch as if it had never stopped. */
FIXTURE_TEST(s2_29_s2_31_shuffled_epochs_resume) {
  static int order[EPOCHS][RECORDS];
  const fixture *f = *state;
  cr_reader *reader = NULL;
  const char *path = make_db(f, "leveldb", "db", RECORDS);
  run_shuffled("leveldb", path, 7, order);
  open_reader("leveldb", path, true, 1234, &reader);
  for (int from = (EPOCHS - 1) * RECORDS; from > 0; from -= 5) {
    char key[16];
    snprintf(key, sizeof key, "%08d", order[(from - 1) / RECORDS][(from - 1) % RECORDS]);
    const cr_reader_cursor position = {
        .index = (uint64_t)from, .key = {(const uint8_t *)key, 8}, .order_key = 7};
    ok(cr_reader_resume(reader, 0, &position));
    ok(fixture_reader_start(reader));
    for (int k = from; k < from + RECORDS; ++k) {
      assert_int_equal(take(reader, 0, (uint64_t)k), order[k / RECORDS][k % RECORDS]);
    }
    fixture_reader_stop(reader);
  }
  cr_reader_close(reader);
  /* A new reader has to walk through the records first, and then notices a key that is at another
   * position. */
  open_reader("leveldb", path, true, 7, &reader);
  char wrong[16];
  snprintf(wrong, sizeof wrong, "%08d", order[1][5]);
  const cr_reader_cursor position = {
      .index = RECORDS + 5, .key = {(const uint8_t *)wrong, 8}, .order_key = 7};
  cr_record *record = NULL;
  ok(cr_reader_resume(reader, 0, &position));
  ok(fixture_reader_start(reader));
  assert_fails(cr_reader_take(reader, 0, &record), CREMA_E_CORRUPT, "the database was changed");
  assert_error_has(wrong);
  cr_reader_close(reader);
}

/* Stopped in the middle of going through the records, of filling, of an epoch from memory. */
FIXTURE_TEST(s2_05_s2_29_stops_at_any_moment) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader("lmdb", make_db(f, "lmdb", "db", 3000), true, 1, &reader);
  int cycles = fixture_cycles(300);
  for (int i = 0; i < cycles; ++i) {
    const cr_reader_cursor position = {
        .index = 3000, .key = {(const uint8_t *)"00002999", 8}, .order_key = 1};
    if (i % 2 == 1) ok(cr_reader_resume(reader, 0, &position));
    ok(fixture_reader_start(reader));
    if (i % 3 == 0) cr_clock_sleep(1e-5 * (i % 30));
    fixture_reader_stop(reader);
  }
  cr_reader_close(reader);
}

/* ---- memory that runs short ---------------------------------------------- */

/* One warning, and all goes on from the database, in the order of the keys. With a limit of its
 * own, and with the machine's free memory, of which the cache takes at most half. */
FIXTURE_TEST(s2_29_short_memory_ends_caching) {
  enum { MANY = 1500 };
  static const char *const backends[] = {"lmdb", "leveldb"};
  const fixture *f = *state;
  for (int n = 0; n < 8; ++n) {
    const char *backend = backends[n % 2];
    bool shuffle = n % 4 >= 2, automatic = n >= 4;
    static log_lines lines;
    cr_reader *reader = NULL;
    cr_reader_cursor position = {0};
    char name[16];
    snprintf(name, sizeof name, "%s%d", backend, n);
    /* Room for the keys and offsets of 1024 records, but not for copies of their values. */
    pretended = automatic ? 180000 : 0;
    const cr_reader_options options = {.backend = backend,
                                       .source = make_db(f, backend, name, MANY),
                                       .consumers = 1,
                                       .depth = 3,
                                       .cache = true,
                                       .shuffle = shuffle,
                                       .order_key = 1,
                                       .cache_limit = automatic ? 0 : 120000};
    listen_to(&lines, CREMA_LOG_WARNING);
    ok(cr_reader_open(&options, &reader));
    ok(fixture_reader_start(reader));
    for (int k = 0; k < 2 * MANY + 100; ++k) {
      assert_int_equal(take(reader, 0, (uint64_t)k), k % MANY);
    }
    stop_listening();
    assert_int_equal(lines.count, 1);
    assert_non_null(strstr(last_line(&lines), "memory runs short"));
    assert_non_null(strstr(last_line(&lines), options.source));
    assert_true((strstr(last_line(&lines), "cannot be shuffled") != NULL) == shuffle);
    assert_non_null(
        strstr(last_line(&lines), n % 2 == 0 ? "after 1024 records" : "after 0 records"));
    assert_true(cr_reader_get_stats(reader).reads > 2 * MANY);
    cr_reader_note_cursor(reader, &position);
    assert_true(position.in_key_order);
    cr_reader_close(reader);
  }
  pretended = 0;
}

/* A run whose caching was given up goes on in the order of the keys where there is memory again. */
FIXTURE_TEST(s2_29_a_given_up_order_stays_so_on_resume) {
  const fixture *f = *state;
  cr_reader *reader = NULL;
  open_reader("lmdb", make_db(f, "lmdb", "db", RECORDS), true, 7, &reader);
  const cr_reader_cursor position = {.index = RECORDS + 5,
                                     .key = {(const uint8_t *)"00000004", 8},
                                     .order_key = 7,
                                     .in_key_order = true};
  ok(cr_reader_resume(reader, 0, &position));
  ok(fixture_reader_start(reader));
  for (int k = RECORDS + 5; k < 3 * RECORDS; ++k) {
    assert_int_equal(take(reader, 0, (uint64_t)k), k % RECORDS);
  }
  cr_reader_close(reader);
}

TEST(the_cache_keeps_to_its_limit) {
  cr_record_cache *cache = NULL;
  static uint8_t value[100000];
  const cr_db_bytes key = {(const uint8_t *)"key", 3}, bytes = {value, sizeof value};
  /* Copies come in blocks of 8 MB: two of them with the table of records. */
  ok(cr_record_cache_create(false, 20 << 20, &cache));
  uint64_t count = 0;
  while (cr_record_cache_add(cache, key, bytes, 0)) {
    value[0] = (uint8_t)++count;
    assert_true(count < 1000);
  }
  assert_int_equal(count, 2 * ((8 << 20) / (sizeof value + 3)));
  assert_int_equal(cr_record_cache_count(cache), count);
  assert_true(cr_record_cache_bytes(cache) <= 20 << 20);
  for (uint64_t i = 0; i < count; ++i) {
    const cr_cached_record record = cr_record_cache_get(cache, i);
    assert_true(record.key.size == 3 && record.value.size == sizeof value);
    assert_int_equal(record.value.data[0], (uint8_t)i);
  }
  cr_record_cache_destroy(cache);
  cr_record_cache_destroy(NULL);
  /* One record more than there is memory, without a limit of its own. */
  const cr_db_bytes huge = {value, SIZE_MAX / 4};
  ok(cr_record_cache_create(false, 0, &cache));
  assert_false(cr_record_cache_add(cache, key, huge, 0));
  assert_int_equal(cr_record_cache_count(cache), 0);
  cr_record_cache_destroy(cache);
}

TEST(free_memory_is_read) {
  assert_int_equal(cr_mem_available_parse("MemTotal: 5 kB\nMemAvailable:    123 kB\nX: 1\n"),
                   123 * 1024);
  assert_true(cr_mem_available_parse("MemTotal: 5 kB\n") == UINT64_MAX);
  assert_true(cr_mem_available_parse("MemAvailable: much\n") == UINT64_MAX);
  assert_true(cr_mem_available() > 0);
}

/* ---- in a net ------------------------------------------------------------ */

enum { BATCH = 4 };

static void labels_of_epochs(const char *db, const char *rest, int64_t seed, int batches,
                             int out[]) {
  crema_net *net = NULL;
  const crema_net_options options = net_options(CREMA_TRAIN, seed, NULL);
  ok(parse_net(&options, NULL, &net,
               "layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
               "source: '%s' backend: LMDB batch_size: %d %s } }",
               db, BATCH, rest));
  for (int k = 0; k < batches; ++k) {
    forward(net);
    for (int i = 0; i < BATCH; ++i) out[k * BATCH + i] = (int)values(net, "label")[i];
  }
  crema_net_destroy(net);
}

/* The fields of the prototxt: cache keeps the order, shuffle implies cache and depends on the seed;
 * damaged records are passed over wherever they come. */
FIXTURE_TEST(s2_29_fields_of_the_layer) {
  enum { COUNT = 16, WHOLE = 10, LABELS = 15 * BATCH };
  static int plain[LABELS], cached[LABELS], shuffled[3][LABELS];
  const fixture *f = *state;
  static log_lines lines;
  const char *db = fixture_db(f, "db", COUNT, fixture_png);
  listen_to(&lines, CREMA_LOG_WARNING);
  labels_of_epochs(db, "", 3, LABELS / BATCH, plain);
  labels_of_epochs(db, "cache: true", 3, LABELS / BATCH, cached);
  labels_of_epochs(db, "shuffle: true", 3, LABELS / BATCH, shuffled[0]);
  labels_of_epochs(db, "shuffle: true cache: true threads: 2", 3, LABELS / BATCH, shuffled[1]);
  labels_of_epochs(db, "shuffle: true", 4, LABELS / BATCH, shuffled[2]);
  assert_int_equal(lines.count, 0);
  assert_memory_equal(plain, cached, sizeof plain);
  assert_memory_equal(shuffled[0], shuffled[1], sizeof plain);
  assert_memory_equal(plain, shuffled[0], COUNT * sizeof(int));
  assert_memory_not_equal(plain, shuffled[0], sizeof plain);
  assert_memory_not_equal(shuffled[0], shuffled[2], sizeof plain);
  const char *damaged = fixture_db(f, "damaged", COUNT, fixture_damaged_mixed);
  labels_of_epochs(damaged, "shuffle: true skip_corrupt: true", 3, LABELS / BATCH, shuffled[0]);
  for (int e = 0; e < LABELS / WHOLE; ++e) {
    int seen[COUNT] = {0};
    for (int i = 0; i < WHOLE; ++i) ++seen[shuffled[0][e * WHOLE + i]];
    for (int i = 0; i < COUNT; ++i) {
      bool bad = i == 1 || i == 4 || i == 8 || i == 9 || i == 10 || i == 12;
      assert_int_equal(seen[i], bad ? 0 : 1);
    }
  }
  stop_listening();
  assert_true(lines.count > 0 && strstr(last_line(&lines), "skipped") != NULL);
}

/* ---- in training --------------------------------------------------------- */

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* A solver of a small net over the database, with crops and mirrors; snapshots go to `prefix`. */
static crema_solver *make_solver(const fixture *f, const char *db, const char *rest,
                                 const char *prefix) {
  char text[2048];
  const char *path = fixture_path(f, "solver.prototxt");
  crema_solver *solver = NULL;
  crema_solver_options options;
  snprintf(text, sizeof text,
           "net_param { layer { name: 'in' type: 'Data' top: 'data' top: 'label' data_param { "
           "source: '%s' backend: LMDB batch_size: 5 %s } "
           "transform_param { crop_size: 4 mirror: true scale: 0.004 } } "
           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip' "
           "inner_product_param { num_output: 23 weight_filler { type: 'xavier' } } } "
           "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' "
           "top: 'loss' } } "
           "base_lr: 0.1 lr_policy: 'fixed' momentum: 0.9 max_iter: 1000 random_seed: 7 "
           "snapshot_prefix: '%s'",
           db, rest, prefix);
  write_text(path, text);
  crema_solver_options_init(&options);
  ok(crema_solver_load(path, &options, &solver));
  return solver;
}

enum { WEIGHTS = 23 * 3 * 4 * 4, STEPS = 100 };

/* Trains `steps` steps, noting the labels of each batch. */
static void train(crema_solver *solver, int steps, float labels[][5]) {
  crema_blob *label = NULL;
  const float *data = NULL;
  ok(crema_net_blob(crema_solver_net(solver), "label", &label));
  for (int k = 0; k < steps; ++k) {
    ok(crema_solver_step(solver, 1));
    ok(crema_blob_cpu_data(label, &data));
    memcpy(labels[k], data, sizeof labels[k]);
  }
}

static void copy_weights(crema_solver *solver, float out[WEIGHTS]) {
  const float *data = NULL;
  crema_blob *blob = crema_net_layer_param(crema_solver_net(solver), 1, 0);
  assert_int_equal(crema_blob_count(blob), WEIGHTS);
  ok(crema_blob_cpu_data(blob, &data));
  memcpy(out, data, WEIGHTS * sizeof *out);
}

/* 100 steps against 50, a snapshot and 50 more: the same records and the same weights. */
TEST(s2_29_s2_31_training_resumes_in_a_shuffled_epoch) {
  static const char *const rest[] = {"", "rand_skip: 50 cache: true",
                                     "rand_skip: 50 shuffle: true"};
  static float whole[STEPS][5], parts[STEPS][5], wanted[WEIGHTS], found[WEIGHTS];
  for (int i = 0; i < 3; ++i) {
    fixture f;
    fixture_make(&f);
    const char *db = fixture_db(&f, "db", 23, fixture_png);
    const char *snapshot = fixture_path(&f, "half_iter_50.solverstate");
    crema_solver *solver = make_solver(&f, db, rest[i], fixture_path(&f, "whole"));
    train(solver, STEPS, whole);
    copy_weights(solver, wanted);
    crema_solver_destroy(solver);
    solver = make_solver(&f, db, rest[i], fixture_path(&f, "half"));
    train(solver, STEPS / 2, parts);
    ok(crema_solver_snapshot(solver));
    crema_solver_destroy(solver);
    solver = make_solver(&f, db, rest[i], fixture_path(&f, "other"));
    ok(crema_solver_restore(solver, snapshot));
    train(solver, STEPS / 2, parts + STEPS / 2);
    copy_weights(solver, found);
    crema_solver_destroy(solver);
    assert_memory_equal(whole, parts, sizeof whole);
    assert_memory_equal(wanted, found, sizeof wanted);
    fixture_remove(&f);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
