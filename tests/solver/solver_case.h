/* A folder with a solver file and a net, for the tests of this room. */
#ifndef CR_TESTS_SOLVER_CASE_H
#define CR_TESTS_SOLVER_CASE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "data/db/datum.h"
#include "data/db/db.h"
#include "log_lines.h"
#include "solver/solver.h"

typedef struct solver_case {
  char folder[64];
  crema_solver_options options;
  crema_solver *solver;
} solver_case;

/* Four samples of three values in two classes; an inner product learns them. */
static const char *const small_net =
    "name: 'small'\n"
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc'\n"
    "  include { phase: TEST } }\n";

static inline void case_begin(solver_case *c) {
  *c = (solver_case){.folder = "/tmp/crema_solver_XXXXXX"};
  assert_non_null(mkdtemp(c->folder));
  crema_solver_options_init(&c->options);
}

static inline const char *case_path(const solver_case *c, const char *name, char path[256]) {
  snprintf(path, 256, "%s/%s", c->folder, name);
  return path;
}

static inline void case_write(const solver_case *c, const char *name, const char *text) {
  char path[256];
  FILE *file = fopen(case_path(c, name, path), "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

/* Puts "net: 'net.prototxt' base_lr: 0.1 random_seed: 5", a prefix in the folder and `text`, which
 * may give another base_lr, into solver.prototxt and loads it. */
static inline crema_status case_try_load(solver_case *c, const char *net, const char *text) {
  char path[256], solver[4096];
  snprintf(solver, sizeof solver,
           "net: 'net.prototxt' %s random_seed: 5 solver_mode: CPU\n"
           "snapshot_prefix: '%s/s'\n%s\n",
           strstr(text, "base_lr:") == NULL ? "base_lr: 0.1" : "", c->folder, text);
  case_write(c, "net.prototxt", net);
  case_write(c, "solver.prototxt", solver);
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  return crema_solver_load(case_path(c, "solver.prototxt", path), &c->options, &c->solver);
}

static inline void case_load(solver_case *c, const char *net, const char *text) {
  crema_status status = case_try_load(c, net, text);
  if (status != CREMA_OK) fail_msg("%s", crema_error_text());
}

/* Loading fails with this code and a text that holds `words`. */
static inline void case_refuse(solver_case *c, const char *text, crema_status code,
                               const char *words) {
  crema_status status = case_try_load(c, small_net, text);
  assert_null(c->solver);
  if (strstr(crema_error_text(), words) == NULL) {
    fail_msg("\"%s\" does not say \"%s\"", crema_error_text(), words);
  }
  assert_int_equal(status, code);
}

/* Makes the database "db" of grey images of side x side pixels: pixel k of record i is
 * (37 i + 11 k k) mod 256, its label i mod `classes`. */
static inline void case_make_database(const solver_case *c, const char *backend, int records,
                                      int side, int classes) {
  char path[256];
  cr_db *db = NULL;
  cr_db_txn *txn = NULL;
  cr_buffer value = {0};
  uint8_t pixels[64];
  assert_in_range(side, 1, 8);
  ok(cr_db_open(backend, case_path(c, "db", path), CR_DB_NEW, &db));
  ok(cr_db_txn_begin(db, &txn));
  for (int i = 0; i < records; ++i) {
    char key[2] = {(char)('a' + i), 0};
    for (int k = 0; k < side * side; ++k) pixels[k] = (uint8_t)((i * 37 + k * k * 11) % 256);
    cr_datum datum = {.channels = 1,
                      .height = side,
                      .width = side,
                      .label = i % classes,
                      .data = pixels,
                      .size = (size_t)(side * side)};
    cr_buffer_clear(&value);
    ok(cr_datum_append(&datum, &value));
    ok(cr_db_put(txn, (cr_db_bytes){(const uint8_t *)key, 1},
                 (cr_db_bytes){(const uint8_t *)value.data, value.size}));
  }
  ok(cr_db_commit(txn));
  ok(cr_db_finish(db, CREMA_OK));
  cr_buffer_free(&value);
}

static inline void case_end(solver_case *c) {
  char command[128];
  crema_solver_destroy(c->solver);
  snprintf(command, sizeof command, "rm -rf %s", c->folder);
  assert_int_equal(system(command), 0);
}

/* A test with a case of its own, `solver_case *c = *state`. */
#define CASE_TEST(name) TEST_BETWEEN(name, case_setup, case_teardown)

static inline int case_setup(void **state) {
  static solver_case of_test;
  case_begin(&of_test);
  *state = &of_test;
  return 0;
}

static inline int case_teardown(void **state) {
  case_end(*state);
  return 0;
}

/* options.feed: samples that depend on the number of the pass only. */
static inline crema_status case_feed(void *user, crema_net *net, int64_t pass) {
  float *data, *label;
  (void)user;
  crema_status status = crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data);
  if (status != CREMA_OK) return status;
  status = crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label);
  if (status != CREMA_OK) return status;
  for (int i = 0; i < 12; ++i) data[i] = (float)((i * 7 + pass * 5) % 11) / 11.0f - 0.4f;
  for (int i = 0; i < 4; ++i) label[i] = (float)((i + pass) % 2);
  return CREMA_OK;
}

/* A solver that trains on these samples. */
static inline void case_load_fed(solver_case *c, const char *net, const char *text) {
  c->options.feed = case_feed;
  case_load(c, net, text);
}

static inline void case_begin_fed(solver_case *c, const char *net, const char *text) {
  case_begin(c);
  case_load_fed(c, net, text);
}

static inline void case_train_and_save(solver_case *c, int64_t iterations) {
  ok(crema_solver_step(c->solver, iterations));
  ok(crema_solver_snapshot(c->solver));
}

static inline void listen(log_lines *lines) {
  listen_to(lines, CREMA_LOG_INFO);
}

/* The six weights of the small net. */
static inline void case_weights(const solver_case *c, float out[6]) {
  const float *value;
  crema_net *net = crema_solver_net(c->solver);
  ok(crema_blob_cpu_data(net->learnable[0], &value));
  memcpy(out, value, 6 * sizeof *out);
}

#endif
