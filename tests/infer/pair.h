/* A net and its compiled model, side by side. */
#ifndef CR_TESTS_PAIR_H
#define CR_TESTS_PAIR_H

#include <stdio.h>

#include "infer/model_case.h"

#define CONV(name, from, to, outputs, size, pad)                                     \
  "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to        \
  "' convolution_param { num_output: " #outputs " kernel_size: " #size " pad: " #pad \
  " weight_filler { type: 'gaussian' std: 0.1 } bias_filler { type: 'gaussian' std: 1 } } }"
#define DATA(channels)                                                           \
  "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 " \
  "dim: " #channels " dim: 6 dim: 6 } } }"

typedef struct pair {
  crema_net *net;
  crema_model *model;
  crema_session *session;
} pair;

static inline void open_pair(const char *text, pair *out) {
  crema_net_options options = phase_options(CREMA_TEST);
  uint64_t random = 5;
  FILE *file = fopen(path_of("net"), "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0 && fclose(file) == 0);
  ok(crema_net_load(path_of("net"), &options, &out->net));
  draw_inputs(out->net, &random);
  ok(crema_net_save_weights(out->net, path_of("weights.caffemodel")));
  ok(crema_net_forward(out->net, NULL));
  ok(crema_model_load(path_of("net"), path_of("weights.caffemodel"), NULL, &out->model));
  ok(crema_session_create(out->model, NULL, &out->session));
}

static inline void close_pair(pair *p) {
  crema_session_destroy(p->session);
  crema_model_destroy(p->model);
  crema_net_destroy(p->net);
  unlink(path_of("net"));
  unlink(path_of("weights.caffemodel"));
}

static inline void check_equal(pair *p) {
  assert_true(output_difference(p->net, p->session) <= 1e-5);
  assert_true(output_difference(p->net, p->session) <= 1e-5);
}

static inline void set_batch(pair *p, int64_t batch) {
  uint64_t random = (uint64_t)batch;
  crema_shape shape = *crema_blob_shape(crema_net_input(p->net, 0));
  shape.dim[0] = batch;
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
}

static inline void check_batches(pair *p) {
  for (int64_t batch = 1; batch <= 3; ++batch) {
    set_batch(p, batch);
    check_equal(p);
  }
  set_batch(p, 1);
  check_equal(p);
}

/* The model anew, without a pass. */
static inline void leave_out(pair *p, const char *pass) {
  crema_model_options options;
  crema_session_destroy(p->session);
  crema_model_destroy(p->model);
  crema_model_options_init(&options);
  options.without = &pass;
  options.without_count = 1;
  ok(crema_model_load(path_of("net"), path_of("weights.caffemodel"), &options, &p->model));
  ok(crema_session_create(p->model, NULL, &p->session));
}

/* All blobs, asked for one after the other. */
static inline void check_blobs(pair *p) {
  for (int i = 0; i < crema_net_blob_count(p->net); ++i) {
    const char *name = crema_net_blob_name(p->net, i);
    crema_blob *want = NULL, *found = NULL;
    ok(crema_net_blob(p->net, name, &want));
    ok(crema_session_blob(p->session, name, &found));
    check_equal(p);
    if (!(difference(want, found) <= 1e-5)) fail_msg("blob %s", name);
  }
}

#endif
