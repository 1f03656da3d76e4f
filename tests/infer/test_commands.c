/* Passes that are run from a list of commands: the same bits as those that go layer by layer,
 * whatever happens between two passes. */
#include "device/memory/heap.h"
#include "infer/model_case.h"
#include "infer/session.h"

enum { SIZE = 19, RUNS = 6, VALUES = 2 * 3 * SIZE * SIZE };

#define PRODUCT(name, from, to, outputs, size, more)                            \
  "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to   \
  "' convolution_param { num_output: " #outputs " kernel_size: " #size " " more \
  " weight_filler { type: 'msra' } bias_filler { type: 'uniform' max: 0.3 } } }\n"
#define POOLING(name, from, to, method)                                   \
  "layer { name: '" name "' type: 'Pooling' bottom: '" from "' top: '" to \
  "' pooling_param { pool: " method " kernel_size: 3 stride: 2 } }\n"
#define RELU(blob) \
  "layer { name: 'relu_" blob "' type: 'ReLU' bottom: '" blob "' top: '" blob "' }\n"

/* Sums, parts of a whole in place, planes and channels side by side, an output that others read. */
static const char net_text[] =
    INPUT("x", DIM4(2, 3, 19, 19))
    PRODUCT("c1", "x", "c1", 16, 3, "stride: 2") RELU("c1")
    PRODUCT("a", "c1", "a", 16, 1, "") PRODUCT("b", "c1", "b", 16, 3, "pad: 1 group: 16")
    "layer { name: 'sum' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'sum' }\n" RELU("sum")
    "layer { name: 'lrn' type: 'LRN' bottom: 'sum' top: 'lrn' }\n"
    POOLING("p1", "lrn", "p1", "MAX")
    PRODUCT("d", "p1", "d", 32, 3, "pad: 1") RELU("d") PRODUCT("e", "p1", "e", 32, 1, "")
    "layer { name: 'cat' type: 'Concat' bottom: 'd' bottom: 'e' top: 'cat' }\n"
    "layer { name: 'half' type: 'Slice' bottom: 'cat' top: 'low' top: 'high' }\n"
    PRODUCT("f", "low", "f", 32, 1, "")
    "layer { name: 'both' type: 'Concat' bottom: 'f' bottom: 'high' top: 'both' }\n"
    POOLING("p2", "both", "p2", "AVE")
    "layer { name: 'scale' type: 'Scale' bottom: 'p2' top: 's' scale_param { bias_term: true\n"
    "  filler { type: 'uniform' min: 0.5 max: 2 } bias_filler { type: 'uniform' max: 1 } } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 's' top: 'ip' inner_product_param {\n"
    "  num_output: 40 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'tanh' type: 'TanH' bottom: 'ip' top: 'ip' }\n"
    "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }\n";

static const char scales_text[] = "c1 60\na 30\nb 30\nd 20\ne 20\nf 20\nip 20\n";

typedef struct commands_case {
  crema_model *model;
  crema_session *session;
  uint64_t random;
  int samples;
} commands_case;

static void load(crema_precision precision, crema_model **out) {
  crema_model_options options;
  crema_model_options_init(&options);
  options.seed = 5;
  options.precision = precision;
  options.table = precision == CREMA_PRECISION_INT8 ? path_of("table") : NULL;
  ok(crema_model_load(path_of("net"), NULL, &options, out));
}

static void open_case(commands_case *c, crema_precision precision) {
  *c = (commands_case){.random = 3, .samples = 2};
  write_text("net", net_text);
  write_text("table", scales_text);
  load(precision, &c->model);
  ok(crema_session_create(c->model, NULL, &c->session));
}

static void close_case(commands_case *c) {
  crema_session_destroy(c->session);
  crema_model_destroy(c->model);
  unlink(path_of("net"));
  unlink(path_of("table"));
}

/* That a layer runs is seen by what the net notes of it. Whether none did. */
static bool ran_from_list(crema_session *session) {
  crema_net *net = cr_session_net(session);
  cr_net_layer *last = &net->layer[net->layers - 1];
  last->ran = 0;
  ok(crema_session_run(session));
  return last->ran == 0;
}

/* The outputs are those of a session whose first pass this is. */
static void check_outputs(const commands_case *c) {
  crema_session *other = NULL;
  const float *found = NULL, *wanted = NULL;
  crema_blob *from = crema_session_input(c->session, 0);
  ok(crema_session_create(c->model, NULL, &other));
  ok(crema_blob_reshape(crema_session_input(other, 0), crema_blob_shape(from)));
  ok(crema_blob_copy_data(crema_session_input(other, 0), from));
  assert_false(ran_from_list(other));
  for (int i = 0; i < crema_session_output_count(other); ++i) {
    crema_blob *a = crema_session_output(c->session, i), *b = crema_session_output(other, i);
    assert_int_equal(crema_blob_count(a), crema_blob_count(b));
    ok(crema_blob_cpu_data(a, &found));
    ok(crema_blob_cpu_data(b, &wanted));
    assert_memory_equal(found, wanted, (size_t)crema_blob_count(a) * sizeof *found);
  }
  crema_session_destroy(other);
}

/* New values each time; how many of the passes ran from the list. */
static int run_several(commands_case *c) {
  int lists = 0;
  for (int i = 0; i < RUNS; ++i) {
    draw_values(crema_session_input(c->session, 0), &c->random);
    if (ran_from_list(c->session)) ++lists;
    check_outputs(c);
  }
  return lists;
}

static void set_samples(const commands_case *c, int samples) {
  const crema_shape shape = cr_shape_4(samples, 3, SIZE, SIZE);
  ok(crema_blob_reshape(crema_session_input(c->session, 0), &shape));
}

TEST(passes_run_from_lists) {
  for (int precision = CREMA_PRECISION_F32; precision <= CREMA_PRECISION_INT8; ++precision) {
    commands_case c;
    open_case(&c, (crema_precision)precision);
    assert_true(run_several(&c) >= 2);
    assert_true(ran_from_list(c.session)); /* with the input that it has */
    check_outputs(&c);
    close_case(&c);
  }
}

TEST(other_shapes_make_other_lists) {
  commands_case c;
  open_case(&c, CREMA_PRECISION_F32);
  for (int samples = 1; samples <= 3; ++samples) {
    set_samples(&c, samples);
    assert_true(run_several(&c) >= 2);
  }
  set_samples(&c, 1);
  set_samples(&c, 3); /* and back, without a pass */
  assert_true(run_several(&c) >= 2);
  close_case(&c);
}

TEST(inputs_may_lie_anywhere) {
  static float memory[2][VALUES];
  for (int precision = CREMA_PRECISION_F32; precision <= CREMA_PRECISION_INT8; ++precision) {
    commands_case c;
    open_case(&c, (crema_precision)precision);
    run_several(&c);
    for (int i = 0; i < 2 * RUNS; ++i) {
      float *values = memory[i % 2];
      for (int k = 0; k < VALUES; ++k) values[k] = draw_value(&c.random);
      ok(crema_blob_set_cpu_data(crema_session_input(c.session, 0), values));
      assert_true(ran_from_list(c.session));
      check_outputs(&c);
    }
    close_case(&c);
  }
}

/* What lies in a blob that is kept could lie elsewhere in the next pass: no list then. */
TEST(blobs_may_be_asked_for_later) {
  static const char *const name[] = {"lrn", "cat"};
  for (int i = 0; i < 2; ++i) {
    commands_case c;
    crema_blob *blob = NULL, *other = NULL;
    crema_session *first = NULL;
    open_case(&c, CREMA_PRECISION_F32);
    run_several(&c);
    ok(crema_session_blob(c.session, name[i], &blob));
    const int lists = run_several(&c);
    assert_true(lists >= 2 || i == 1);
    ok(crema_session_create(c.model, NULL, &first));
    ok(crema_session_blob(first, name[i], &other));
    ok(crema_blob_copy_data(crema_session_input(first, 0), crema_session_input(c.session, 0)));
    ok(crema_session_run(first));
    assert_true(difference(other, blob) == 0);
    crema_session_destroy(first);
    close_case(&c);
  }
}

TEST(parts_of_a_pass_end_the_list) {
  commands_case c;
  open_case(&c, CREMA_PRECISION_F32);
  run_several(&c);
  crema_net *net = cr_session_net(c.session);
  assert_true(ran_from_list(c.session));
  for (int i = 0; i < net->layers; ++i) ok(crema_net_forward_range(net, i, i, NULL));
  assert_false(ran_from_list(c.session));
  assert_true(run_several(&c) >= 2);
  close_case(&c);
}

/* Memory of the context's heap that somebody has must not be written by a list. */
TEST(blocks_of_the_heap_end_the_list) {
  commands_case c;
  cr_block block = {0};
  open_case(&c, CREMA_PRECISION_F32);
  run_several(&c);
  crema_context *context = cr_session_net(c.session)->context;
  assert_true(ran_from_list(c.session));
  assert_true(cr_heap_take(context, 64, &block));
  memset((void *)block.address, 0x5a, 64);
  assert_false(ran_from_list(c.session));
  run_several(&c);
  for (int i = 0; i < 64; ++i) assert_int_equal(((const char *)block.address)[i], 0x5a);
  ok(cr_block_free(&block));
  assert_false(ran_from_list(c.session));
  assert_true(run_several(&c) >= 2);
  close_case(&c);
}

/* A layer that does other things than running ops. */
TEST(nets_with_other_layers_have_no_list) {
  commands_case c;
  open_case(&c, CREMA_PRECISION_F32);
  crema_session_destroy(c.session);
  crema_model_destroy(c.model);
  write_text(
      "net",
      INPUT("x",
            DIM4(2, 3, 19,
                 19)) "layer { name: 'n' type: 'BatchNorm' bottom: 'x' top: 'n' }\n" RELU("n"));
  load(CREMA_PRECISION_F32, &c.model);
  ok(crema_session_create(c.model, NULL, &c.session));
  assert_int_equal(run_several(&c), 0);
  close_case(&c);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
