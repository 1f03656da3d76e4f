/* Concat layers of compiled models whose bottoms lie in the top: that they do, that values are the
 * plain net's, and that they are where blobs are asked for and shapes change. */
#include <stdio.h>

#include "infer/model_case.h"
#include "infer/session.h"

#define CONV(name, from, to, outputs, size, pad)                                     \
  "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to        \
  "' convolution_param { num_output: " #outputs " kernel_size: " #size " pad: " #pad \
  " weight_filler { type: 'gaussian' std: 0.1 } bias_filler { type: 'gaussian' std: 1 } } }"
#define DATA(channels)                                                           \
  "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 " \
  "dim: " #channels " dim: 6 dim: 6 } } }"

/* Two branches; one more value that the second Concat shares with the first, which it therefore
 * copies. */
static const char branches[] =
    DATA(16) CONV("a", "data", "a", 16, 1, 0) CONV("b", "data", "b", 32, 3, 1)
    "layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }"
    "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' }"
    CONV("c", "ab", "c", 16, 3, 1) CONV("d", "ab", "d", 16, 1, 0)
    "layer { name: 'cd' type: 'Concat' bottom: 'c' bottom: 'd' top: 'cd' }"
    "layer { name: 'r' type: 'ReLU' bottom: 'cd' top: 'cd' }"
    "layer { name: 'cda' type: 'Concat' bottom: 'cd' bottom: 'c' top: 'cda' }"
    CONV("e", "cda", "e", 8, 1, 0);

/* Each Concat is a part of the next one and read besides. */
static const char dense[] =
    DATA(3) CONV("x0", "data", "x0", 16, 3, 1)
    "layer { name: 's1' type: 'Scale' bottom: 'x0' top: 's1' scale_param { bias_term: true "
    "filler { type: 'gaussian' std: 1 } bias_filler { type: 'gaussian' std: 1 } } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 's1' top: 's1' }" CONV("y1", "s1", "y1", 16, 3, 1)
    "layer { name: 'x1' type: 'Concat' bottom: 'x0' bottom: 'y1' top: 'x1' }"
    "layer { name: 's2' type: 'Scale' bottom: 'x1' top: 's2' scale_param { bias_term: true "
    "filler { type: 'gaussian' std: 1 } bias_filler { type: 'gaussian' std: 1 } } }"
    "layer { name: 'r2' type: 'ReLU' bottom: 's2' top: 's2' }" CONV("y2", "s2", "y2", 16, 3, 1)
    "layer { name: 'x2' type: 'Concat' bottom: 'x1' bottom: 'y2' top: 'x2' }"
    "layer { name: 'p' type: 'Pooling' bottom: 'x2' top: 'p' pooling_param { pool: AVE "
    "kernel_size: 2 stride: 2 } }" CONV("y3", "x2", "y3", 16, 3, 1)
    "layer { name: 'x3' type: 'Concat' bottom: 'x2' bottom: 'y3' top: 'x3' }"
    "layer { name: 'r3' type: 'ReLU' bottom: 'x3' top: 'x3' }" CONV("z", "x3", "z", 8, 1, 0);

/* A bottom is read again when the top has been overwritten. */
static const char late[] =
    DATA(16) CONV("a", "data", "a", 16, 3, 1) CONV("b", "data", "b", 16, 3, 1)
    "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' }"
    "layer { name: 'r' type: 'ReLU' bottom: 'ab' top: 'ab' }" CONV("c", "ab", "c", 16, 3, 1)
    CONV("d", "a", "d", 16, 3, 1)
    "layer { name: 's' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 's' }";

typedef struct pair {
  crema_net *net;
  crema_model *model;
  crema_session *session;
} pair;

static void open_pair(const char *text, pair *out) {
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

static void close_pair(pair *p) {
  crema_session_destroy(p->session);
  crema_model_destroy(p->model);
  crema_net_destroy(p->net);
  unlink(path_of("net"));
  unlink(path_of("weights.caffemodel"));
}

/* In a pass: how many bottoms of Concat layers lay where they belong before the layer ran. */
typedef struct counts {
  int joined, bottoms, there;
} counts;

static crema_status count_bottoms(void *user, crema_net *net, int index) {
  counts *c = user;
  const cr_net_layer *layer = &net->layer[index];
  if (!layer->layer->joined) return CREMA_OK;
  ++c->joined;
  for (int j = 0; j < layer->layer->bottoms; ++j) {
    cr_format home;
    cr_tensor *data = layer->bottom[j]->data;
    const bool found = cr_tensor_has_home(data, &home);
    ++c->bottoms;
    c->there += found && cr_format_equal(cr_tensor_head(data), home);
  }
  return CREMA_OK;
}

/* Of a pass that is not the first one. */
static counts count_pass(crema_session *session) {
  counts c = {0};
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session),
                         &(crema_net_hooks){.before_forward = count_bottoms, .user = &c}));
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session), NULL));
  return c;
}

static void check_equal(pair *p) {
  assert_true(output_difference(p->net, p->session) <= 1e-5);
  assert_true(output_difference(p->net, p->session) <= 1e-5);
}

static void set_batch(pair *p, int64_t batch) {
  uint64_t random = (uint64_t)batch;
  crema_shape shape = *crema_blob_shape(crema_net_input(p->net, 0));
  shape.dim[0] = batch;
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
}

static void check_batches(pair *p) {
  for (int64_t batch = 1; batch <= 3; ++batch) {
    set_batch(p, batch);
    check_equal(p);
  }
  set_batch(p, 1);
  check_equal(p);
}

/* The processor's orders are limited in main to blocks, in which convolutions write parts. */
TEST(convolutions_write_their_part) {
  pair p;
  open_pair(branches, &p);
  check_equal(&p);
  const counts c = count_pass(p.session);
  /* 'c' is in 'cda', of which 'cd' has another reader: 'cd' copies or 'cda' does. */
  assert_true(c.joined >= 1 && c.bottoms >= 2);
  assert_int_equal(c.there, c.bottoms);
  check_batches(&p);
  close_pair(&p);
}

TEST(a_concat_lies_in_the_next_one) {
  pair p;
  open_pair(dense, &p);
  check_equal(&p);
  const counts c = count_pass(p.session);
  assert_int_equal(c.joined, 3);
  assert_int_equal(c.bottoms, 6);
  assert_int_equal(c.there, 6);
  check_batches(&p);
  close_pair(&p);
}

TEST(what_is_read_later_is_copied) {
  pair p;
  open_pair(late, &p);
  check_equal(&p);
  assert_int_equal(count_pass(p.session).joined, 0);
  check_batches(&p);
  close_pair(&p);
}

/* Blobs that are asked for are not let go of with the top that they would lie in. */
TEST(asked_parts_are_kept) {
  static const char *const texts[] = {branches, dense};
  for (int t = 0; t < 2; ++t) {
    pair p;
    open_pair(texts[t], &p);
    check_equal(&p);
    for (int i = 0; i < crema_net_blob_count(p.net); ++i) {
      const char *name = crema_net_blob_name(p.net, i);
      crema_blob *want = NULL, *found = NULL;
      ok(crema_net_blob(p.net, name, &want));
      ok(crema_session_blob(p.session, name, &found));
      check_equal(&p);
      if (!(difference(want, found) <= 1e-5)) fail_msg("blob %s", name);
    }
    check_batches(&p);
    close_pair(&p);
  }
}

TEST(the_pass_can_be_left_out) {
  const char *const without[] = {"concat"};
  crema_model_options options;
  pair p;
  open_pair(dense, &p);
  assert_non_null(strstr(crema_model_explain(p.model),
                         "concat: bottoms of Concat 'x1' are written into its top\n"));
  crema_session_destroy(p.session);
  crema_model_destroy(p.model);
  crema_model_options_init(&options);
  options.without = without;
  options.without_count = 1;
  ok(crema_model_load(path_of("net"), path_of("weights.caffemodel"), &options, &p.model));
  ok(crema_session_create(p.model, NULL, &p.session));
  check_equal(&p);
  assert_int_equal(count_pass(p.session).joined, 0);
  close_pair(&p);
}

int main(void) {
  if (setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1) != 0 || setenv("DNNL_MAX_CPU_ISA", "AVX2", 1) != 0) {
    return 1;
  }
  return run_all_tests(make_folder, remove_folder);
}
