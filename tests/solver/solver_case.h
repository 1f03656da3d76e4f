/* A folder with a solver file and a net, for the tests of this room. */
#ifndef CR_TESTS_SOLVER_CASE_H
#define CR_TESTS_SOLVER_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "crema/log.h"
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

/* Puts "net: 'net.prototxt' base_lr: 0.1 random_seed: 5", a prefix in the folder and `text`
 * into solver.prototxt and loads it. */
static inline crema_status case_try_load(solver_case *c, const char *net, const char *text) {
  char path[256], solver[4096];
  snprintf(solver, sizeof solver,
           "net: 'net.prototxt' base_lr: 0.1 random_seed: 5 solver_mode: CPU\n"
           "snapshot_prefix: '%s/s'\n%s\n",
           c->folder, text);
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

static inline void case_end(solver_case *c) {
  char command[128];
  crema_solver_destroy(c->solver);
  snprintf(command, sizeof command, "rm -rf %s", c->folder);
  assert_int_equal(system(command), 0);
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

/* A solver that trains on these samples; ends with case_end. */
static inline void case_begin_fed(solver_case *c, const char *net, const char *text) {
  case_begin(c);
  c->options.feed = case_feed;
  case_load(c, net, text);
}

static inline void case_train_and_save(solver_case *c, int64_t iterations) {
  crema_status status = crema_solver_step(c->solver, iterations);
  if (status == CREMA_OK) status = crema_solver_snapshot(c->solver);
  if (status != CREMA_OK) fail_msg("%s", crema_error_text());
}

/* The messages logged since listen(). */
typedef struct log_lines {
  char text[1 << 16];
  size_t size;
} log_lines;

static inline void keep_line(void *user, crema_log_level level, const char *file, int line,
                             const char *message) {
  log_lines *lines = user;
  (void)level, (void)file, (void)line;
  int put = snprintf(lines->text + lines->size, sizeof lines->text - lines->size, "%s\n", message);
  if (put > 0) lines->size += (size_t)put;
  if (lines->size >= sizeof lines->text) lines->size = sizeof lines->text - 1;
}

static inline void listen(log_lines *lines) {
  crema_log_set(NULL, NULL, CREMA_LOG_INFO); /* threads of earlier solvers may be logging still */
  *lines = (log_lines){.size = 0};
  crema_log_set(keep_line, lines, CREMA_LOG_INFO);
}

static inline int count_lines(const log_lines *lines, const char *words) {
  int count = 0;
  for (const char *at = strstr(lines->text, words); at != NULL; at = strstr(at + 1, words)) ++count;
  return count;
}

/* The six weights of the small net. */
static inline void case_weights(const solver_case *c, float out[6]) {
  const float *value;
  crema_net *net = crema_solver_net(c->solver);
  assert_int_equal(crema_blob_cpu_data(net->learnable[0], &value), CREMA_OK);
  memcpy(out, value, 6 * sizeof *out);
}

#endif
