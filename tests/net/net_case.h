/* Helpers to build nets from text in tests. */
#ifndef CR_TESTS_NET_CASE_H
#define CR_TESTS_NET_CASE_H

#include <stdio.h>
#include <string.h>

#include "check.h"
#include "net_values.h"

#define INPUT(name, shape)                                                                 \
  "layer { name: 'in_" name "' type: 'Input' top: '" name "' input_param { shape { " shape \
  " } } }\n"
#define DIM2(a, b) "dim: " #a " dim: " #b
#define DIM4(a, b, c, d) "dim: " #a " dim: " #b " dim: " #c " dim: " #d

static inline crema_net *build_with(const char *text, const crema_net_options *options) {
  crema_net *net = NULL;
  crema_status status = crema_net_parse(text, strlen(text), "test.prototxt", options, &net);
  if (status != CREMA_OK) print_error("%s\n", crema_error_text());
  ok(status);
  return net;
}

static inline crema_net_options phase_options(crema_phase phase) {
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = phase;
  options.seed = 1701;
  return options;
}

static inline crema_net *build(const char *text, crema_phase phase) {
  crema_net_options options = phase_options(phase);
  return build_with(text, &options);
}

/* The error text must hold each of the words; the list ends with NULL. */
static inline void assert_names(const char *const *words) {
  for (; *words != NULL; ++words) {
    if (strstr(crema_error_text(), *words) != NULL) continue;
    print_error("'%s' is missing in: %s\n", *words, crema_error_text());
    fail();
  }
}

/* The net must be refused with `code` and a text that holds each of the words. */
static inline void refuse(const char *text, crema_status code, const char *const *words) {
  crema_net *net = NULL;
  crema_net_options options = phase_options(CREMA_TRAIN);
  crema_status status = crema_net_parse(text, strlen(text), "test.prototxt", &options, &net);
  crema_net_destroy(net);
  if (status != code) print_error("%s: %s\n", crema_status_name(status), crema_error_text());
  assert_int_equal(status, code);
  assert_names(words);
}
#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static inline crema_blob *param_of(crema_net *net, const char *layer, int index) {
  crema_blob *blob = crema_net_layer_param(net, cr_net_find_layer(net, layer), index);
  assert_non_null(blob);
  return blob;
}

static inline const float *diff_of(crema_blob *blob) {
  const float *diff = NULL;
  ok(crema_blob_cpu_diff(blob, &diff));
  return diff;
}

/* first, first + step, ... */
static inline void fill(crema_blob *blob, float first, float step) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) data[i] = first + step * (float)i;
}

static inline void assert_near(double got, double want, double tolerance) {
  double error = got > want ? got - want : want - got;
  if (!(error <= tolerance)) print_error("%.9g, should be %.9g\n", got, want);
  assert_true(error <= tolerance);
}

static inline int layer_index(const crema_net *net, const char *name) {
  int index = cr_net_find_layer(net, name);
  assert_true(index >= 0);
  return index;
}

#endif
