/* Batches of compiled models that are computed in pieces: how large these are, which nets allow it,
 * that values are the plain net's, and that less memory is held. */
#include "infer/pair.h"
#include "infer/batch_split.h"

#define INPUT_OF(name)                                 \
  "layer { name: '" name "' type: 'Input' top: '" name \
  "' input_param { shape { dim: 2 dim: 3 "             \
  "dim: 64 dim: 64 } } }"
#define LAYER(name, type, bottom, top, more) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' " more "}"

/* Of enough values. */
#define BRANCHES                                                         \
  INPUT_OF("data")                                                       \
  CONV("a", "data", "a", 32, 3, 1)                                       \
  LAYER("ra", "ReLU", "a", "a", "")                                      \
  CONV("b", "a", "b", 16, 1, 0)                                          \
  CONV("c", "a", "c", 16, 1, 0)                                          \
  "layer { name: 'bc' type: 'Concat' bottom: 'b' bottom: 'c' top: 'bc' " \
  "}" LAYER("p", "Pooling", "bc", "p", "pooling_param { kernel_size: 4 stride: 4 } ")
static const char branches[] =
    BRANCHES LAYER("out", "InnerProduct", "p", "out",
                   "inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } ")
        LAYER("prob", "Softmax", "out", "prob", "");

static void set_samples(pair *p, int64_t samples) {
  set_batch(p, samples);
  check_equal(p);
}

static size_t activations(const pair *p) {
  crema_session_memory memory = {0};
  ok(crema_session_memory_read(p->session, &memory));
  return memory.activations;
}

static void reopen(pair *p, int threads) {
  crema_session_options options;
  crema_session_options_init(&options);
  options.threads = threads;
  crema_session_destroy(p->session);
  ok(crema_session_create(p->model, &options, &p->session));
}

/* 18 samples at a time, 20, or all where no number divides them. */
TEST(values_are_those_of_whole_batches) {
  static const int64_t samples[] = {36, 40, 37};
  pair p;
  open_pair(branches, &p);
  for (int threads = 0; threads <= 2; ++threads) {
    reopen(&p, threads);
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; ++i) set_samples(&p, samples[i]);
  }
  close_pair(&p);
}

TEST(pieces_hold_less_memory) {
  pair p;
  open_pair(branches, &p);
  reopen(&p, 1);
  set_samples(&p, 144);
  const size_t pieces = activations(&p);
  leave_out(&p, "batch");
  reopen(&p, 1);
  set_samples(&p, 144);
  /* Where there is little besides the input, the whole batch's other values were in memory that
   * passes share, which is not counted; so it is with formats for processors without AVX-512. */
  const size_t input = (size_t)144 * 3 * 64 * 64 * sizeof(float), whole = activations(&p);
  if (4 * whole > 5 * input && 4 * pieces > 3 * whole) fail_msg("%zu of %zu bytes", pieces, whole);
  close_pair(&p);
}

/* They have the values of all samples. */
TEST(blobs_that_are_asked_for_are_whole) {
  pair p;
  open_pair(branches, &p);
  set_samples(&p, 36);
  check_blobs(&p);
  close_pair(&p);
}

TEST(nets_whose_samples_meet_are_computed_whole) {
  static const char *const texts[] = {
      BRANCHES LAYER("q", "Softmax", "p", "q", "softmax_param { axis: 0 } "),
      BRANCHES LAYER("q", "Reshape", "p", "q", "reshape_param { shape { dim: 1 dim: -1 } } "),
      BRANCHES LAYER("q", "BatchNorm", "p", "q", "batch_norm_param { use_global_stats: false } "),
      BRANCHES LAYER("q", "Flatten", "p", "q", "flatten_param { axis: 0 end_axis: 1 } "),
      INPUT_OF("data") INPUT_OF("more")
          "layer { name: 'q' type: 'Concat' bottom: 'data' bottom: 'more' top: 'q' "
          "concat_param { axis: 0 } }"};
  for (size_t t = 0; t < sizeof texts / sizeof texts[0]; ++t) {
    pair p;
    open_pair(texts[t], &p);
    if (strstr(crema_model_explain(p.model), "batch:") != NULL) fail_msg("net %zu", t);
    close_pair(&p);
  }
}

/* Weights and values in BFLOAT16, where the processor multiplies such. */
TEST(short_types_go_in_pieces) {
  pair p;
  crema_model_options options;
  open_pair(branches, &p);
  crema_session_destroy(p.session);
  crema_model_destroy(p.model);
  crema_model_options_init(&options);
  options.precision = CREMA_PRECISION_BF16;
  ok(crema_model_load(path_of("net"), path_of("weights.caffemodel"), &options, &p.model));
  ok(crema_session_create(p.model, NULL, &p.session));
  assert_non_null(strstr(crema_model_explain(p.model), "samples can be computed apart\n"));
  set_batch(&p, 36);
  assert_true(output_difference(p.net, p.session) < 0.05);
  close_pair(&p);
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_pair(branches, &p);
  assert_non_null(strstr(crema_model_explain(p.model), "samples can be computed apart\n"));
  leave_out(&p, "batch");
  assert_non_null(strstr(crema_model_explain(p.model), "batch: switched off\n"));
  set_samples(&p, 36);
  close_pair(&p);
}

/* As many as caches hold, more where weights are large, and the same number in each thread. */
TEST(sizes_of_pieces) {
  const cr_batch_cost small = {.apart = true, .weights = 1e6, .values = 20e6, .largest = 5e6};
  const cr_batch_cost heavy = {.apart = true, .weights = 240e6, .values = 6e6, .largest = 2e6};
  const cr_batch_cost tiny = {.apart = true, .weights = 1e6, .values = 1e5, .largest = 5e4};
  const cr_batch_cost mixed = {.weights = 1e6, .values = 20e6, .largest = 5e6};
  const struct {
    const cr_batch_cost *batch;
    int64_t samples;
    int threads, piece;
  } rows[] = {{&small, 16, 1, 2},  {&small, 16, 2, 2},   {&small, 15, 1, 3}, {&small, 16, 8, 2},
              {&small, 16, 16, 0}, {&small, 1, 1, 0},    {&small, 0, 1, 0},  {&small, 17, 1, 0},
              {&heavy, 16, 2, 0},  {&heavy, 256, 2, 64}, {&tiny, 16, 2, 0},  {&tiny, 800, 2, 200},
              {&mixed, 16, 1, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    assert_int_equal(cr_batch_split_choose(rows[i].batch, rows[i].samples, rows[i].threads),
                     rows[i].piece);
  }
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
