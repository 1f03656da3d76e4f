/* Sums share gradients and memory with their bottoms where nobody needs what is overwritten
 * (S4-57). */
#include "device/memory/heap.h"
#include "net_case.h"

#define CONV(name, bottom, top)                                                                   \
  "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" top                  \
  "'"                                                                                             \
  "  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } " \
  "}\n"
#define LAYER(type, name, bottom, top) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' }\n"
#define SUM(name, a, b, top) SUM_OF(name, a, b, top, "")
#define SUM_OF(name, a, b, top, param)                                                  \
  "layer { name: '" name "' type: 'Eltwise' bottom: '" a "' bottom: '" b "' top: '" top \
  "'"                                                                                   \
  "  eltwise_param { " param " } }\n"
#define LOSS(bottom)                                      \
  "layer { name: 'square' type: 'Power' bottom: '" bottom \
  "' top: 'sq' power_param { power: 2 } }\n"              \
  "layer { name: 'loss' type: 'Reduction' bottom: 'sq' top: 'loss' loss_weight: 0.01 }\n"
#define BEGIN INPUT("data", DIM4(2, 3, 8, 8)) CONV("first", "data", "x")

/* A shortcut, and a branch that ends in a layer in place, which writes to its gradient while the
 * shortcut's is still to be read. */
#define RESIDUAL                                                                    \
  BEGIN CONV("a", "x", "a") LAYER("ReLU", "r", "a", "a") CONV("b", "a", "b") LAYER( \
      "Scale", "s", "b", "b") SUM("sum", "x", "b", "y") LAYER("ReLU", "out", "y", "y") LOSS("y")

/* Branches out of place, the lower one read by a layer in place further down. */
#define BRANCHES                                                               \
  BEGIN CONV("a", "x", "a") LAYER("TanH", "ta", "a", "ta") CONV("b", "x", "b") \
      LAYER("TanH", "tb", "b", "tb") SUM("sum", "ta", "tb", "y") LOSS("y")

/* A sum of a sum, of which the inner top has one reader. */
#define SUM_OF_SUM                                                                              \
  BEGIN CONV("a", "x", "a") CONV("b", "x", "b") SUM("inner", "a", "b", "y") CONV("c", "x", "c") \
      SUM("outer", "y", "c", "z") LOSS("z")

/* The first sum's top has a ReLU in place before the second sum reads it. */
#define WRITTEN_BETWEEN                                                     \
  BEGIN CONV("a", "x", "a") CONV("b", "x", "b") SUM("inner", "a", "b", "y") \
      LAYER("ReLU", "r", "y", "y") CONV("c", "x", "c") SUM("outer", "y", "c", "z") LOSS("z")

/* In place, on a blob that has another layer in place below. */
#define IN_PLACE                                                             \
  BEGIN CONV("b", "x", "b") CONV("a", "x", "a") LAYER("ReLU", "r", "a", "a") \
      SUM("sum", "a", "b", "a") LOSS("a")

/* Tops and bottoms that show others' gradients under other names. */
#define VIEWS                                                                     \
  BEGIN CONV("a", "x", "a") LAYER("Flatten", "fa", "a", "fa") CONV("b", "x", "b") \
      LAYER("Flatten", "fb", "b", "fb") SUM("sum", "fa", "fb", "y")               \
          LAYER("Flatten", "fy", "y", "fy") LOSS("fy")

#define TWICE BEGIN SUM("sum", "x", "x", "y") LOSS("y")
#define WEIGHTED                                \
  BEGIN CONV("a", "x", "a") CONV("b", "x", "b") \
      SUM_OF("sum", "a", "b", "y", "coeff: 1 coeff: -0.5") LOSS("y")
#define TYPED \
  BEGIN CONV("a", "x", "a")                                                          \
  "layer { name: 'b' type: 'Convolution' bottom: 'x' top: 'b' backward_type: DOUBLE" \
  "  convolution_param { num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n" \
  SUM("sum", "a", "b", "y") LOSS("y")

enum { TEXT_ROOM = 8192 };

static crema_net *build_sums(const char *text, bool shares, bool plans) {
  static char whole[TEXT_ROOM];
  crema_net_options options = phase_options(CREMA_TRAIN);
  options.plan_memory = plans;
  snprintf(whole, sizeof whole, "%s%s", shares ? "eltwise_mem_sharing: true\n" : "", text);
  return build_with(whole, &options);
}

static void run(crema_net *net, float first) {
  fill(crema_net_input(net, 0), first, 0.003f);
  ok(crema_net_forward(net, NULL));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
}

static void assert_same_values(crema_blob *a, crema_blob *b, const char *name) {
  const size_t bytes = (size_t)crema_blob_count(a) * sizeof(float);
  if (memcmp(diff_of(a), diff_of(b), bytes) == 0 && memcmp(data_of(a), data_of(b), bytes) == 0) {
    return;
  }
  fail_msg("blob '%s' differs", name);
}

/* Whether the gradients of the blobs share their values. */
static bool shares(crema_net *net, const char *a, const char *b) {
  return cr_tensor_shares_with(blob_of(net, a)->diff, blob_of(net, b)->diff);
}

static const char *const all_nets[] = {
    RESIDUAL, BRANCHES, SUM_OF_SUM, WRITTEN_BETWEEN, IN_PLACE, VIEWS, TWICE, WEIGHTED, TYPED};
enum { NETS = sizeof all_nets / sizeof *all_nets };

/* Every blob of a net that keeps its values, and every gradient of a parameter, to the bit. */
TEST(s4_57_sharing_changes_no_value) {
  for (int n = 0; n < NETS; ++n) {
    crema_net *on = build_sums(all_nets[n], true, false);
    crema_net *off = build_sums(all_nets[n], false, false);
    crema_net *planned = build_sums(all_nets[n], true, true);
    for (int pass = 0; pass < 3; ++pass) {
      const crema_shape shape = cr_shape_4(pass == 1 ? 4 : 2, 3, 8, 8);
      crema_net *const nets[] = {on, off, planned};
      for (int k = 0; k < 3; ++k) {
        ok(crema_blob_reshape(crema_net_input(nets[k], 0), &shape));
        run(nets[k], -0.4f - 0.1f * (float)pass);
      }
      for (int i = 0; i < on->blobs; ++i)
        assert_same_values(on->blob[i], off->blob[i], on->blob_name[i]);
      for (int p = 0; p < on->learnables; ++p) {
        assert_same_values(on->learnable[p], off->learnable[p], "a parameter");
        assert_same_values(planned->learnable[p], off->learnable[p], "a parameter of a plan");
      }
    }
    crema_net_destroy(planned);
    crema_net_destroy(off);
    crema_net_destroy(on);
  }
}

TEST(s4_57_gradients_are_shared_where_nobody_overwrites_them) {
  crema_net *net = build_sums(RESIDUAL, true, false);
  assert_true(shares(net, "x_first_0_split_1", "y"));
  assert_false(shares(net, "b", "y"));
  crema_net_destroy(net);
  net = build_sums(BRANCHES, true, false);
  assert_true(shares(net, "ta", "y") && shares(net, "tb", "y"));
  crema_net_destroy(net);
  net = build_sums(SUM_OF_SUM, true, false);
  assert_true(shares(net, "a", "z") && shares(net, "b", "y") && shares(net, "c", "z"));
  crema_net_destroy(net);
  net = build_sums(WRITTEN_BETWEEN, true, false);
  assert_true(shares(net, "a", "y") && shares(net, "b", "y") && shares(net, "c", "z"));
  assert_false(shares(net, "y", "z"));
  crema_net_destroy(net);
  net = build_sums(IN_PLACE, true, false);
  assert_false(shares(net, "b", "a"));
  crema_net_destroy(net);
  net = build_sums(VIEWS, true, false);
  assert_false(shares(net, "fa", "y"));
  assert_true(shares(net, "fa", "a") && shares(net, "fy", "y"));
  crema_net_destroy(net);
  net = build_sums(WEIGHTED, true, false);
  assert_true(shares(net, "a", "y") && !shares(net, "b", "y"));
  crema_net_destroy(net);
  net = build_sums(TYPED, true, false);
  assert_true(shares(net, "a", "y") && !shares(net, "b", "y"));
  crema_net_destroy(net);
  net = build_sums(BRANCHES, false, false);
  assert_false(shares(net, "ta", "y") || shares(net, "tb", "y"));
  crema_net_destroy(net);
}

/* ---- a BatchNorm that reads the gradient of a sum's top ---- */

#define NORM(name, blob) LAYER("BatchNorm", name, blob, blob)
#define SCALED(name, blob)                                                \
  "layer { name: '" name "' type: 'Scale' bottom: '" blob "' top: '" blob \
  "' scale_param {"                                                       \
  "  bias_term: true filler { type: 'uniform' min: 0.5 max: 2 } } }\n"

/* A residual block whose shortcut is a convolution. */
#define PROJECTED                                                                                 \
  BEGIN CONV("a", "x", "a") NORM("na", "a") SCALED("sa", "a") CONV("b", "x", "b") NORM("nb", "b") \
      SUM("sum", "a", "b", "y") LAYER("ReLU", "out", "y", "y") LOSS("y")

/* The same with the bottom of the block as a shortcut, which shares the gradient of the top. */
#define IDENTICAL                                                                       \
  BEGIN CONV("b", "x", "b") NORM("nb", "b") SCALED("sb", "b") SUM("sum", "x", "b", "y") \
      LAYER("ReLU", "out", "y", "y") LOSS("y")

/* Two blocks without a layer between them. */
#define STACKED                                                                             \
  BEGIN CONV("b", "x", "b") NORM("nb", "b") SUM("inner", "x", "b", "y") CONV("c", "y", "c") \
      NORM("nc", "c") SUM("outer", "y", "c", "z") LOSS("z")

/* A BatchNorm that is not the last layer in place, and one that is out of place. */
#define OTHERS                                                                               \
  BEGIN CONV("b", "x", "b") NORM("nb", "b") LAYER("TanH", "t", "b", "b") CONV("c", "x", "c") \
      LAYER("BatchNorm", "nc", "c", "d") SUM("sum", "b", "d", "y") LOSS("y")

static int readers(const crema_net *net) {
  int count = 0;
  for (int i = 0; i < net->layers; ++i) count += net->layer[i].layer->diff_source != NULL;
  return count;
}

/* Sums copy their gradients. */
static void copy_gradients(crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    net->layer[i].layer->diff_source = NULL;
    net->layer[i].layer->omitted_diffs = 0;
  }
}

/* Every value and every gradient is the same, to the bit, for each kind of sharing. */
TEST(a_norm_reads_the_gradient_of_a_sum) {
  static const struct {
    const char *text;
    int readers;
  } nets[] = {{PROJECTED, 2}, {IDENTICAL, 1}, {STACKED, 2}, {OTHERS, 0}};
  for (int n = 0; n < 3 * 4; ++n) {
    const char *text = nets[n / 3].text;
    const bool shared = n % 3 > 0, plans = n % 3 > 1;
    crema_net *reads = build_sums(text, shared, plans), *copies = build_sums(text, false, false);
    assert_int_equal(readers(reads), nets[n / 3].readers);
    copy_gradients(copies);
    for (int pass = 0; pass < 3; ++pass) {
      const crema_shape shape = cr_shape_4(pass == 1 ? 4 : 2, 3, 8, 8);
      ok(crema_blob_reshape(crema_net_input(reads, 0), &shape));
      ok(crema_blob_reshape(crema_net_input(copies, 0), &shape));
      run(reads, -0.4f - 0.1f * (float)pass);
      run(copies, -0.4f - 0.1f * (float)pass);
      for (int i = 0; i < reads->blobs && !plans; ++i)
        assert_same_values(reads->blob[i], copies->blob[i], reads->blob_name[i]);
      for (int p = 0; p < reads->learnables; ++p)
        assert_same_values(reads->learnable[p], copies->learnable[p], "a parameter");
    }
    crema_net_destroy(copies);
    crema_net_destroy(reads);
  }
}

/* A program that gives the BatchNorm's top a gradient meets a net without fused layers. */
TEST(a_part_of_a_backward_pass_reads_its_own_gradient) {
  crema_net *net = build_sums(PROJECTED, true, false);
  run(net, -0.4f);
  const int norm = cr_net_find_layer(net, "nb");
  float *diff = NULL;
  ok(crema_blob_mutable_cpu_diff(blob_of(net, "b"), &diff));
  memset(diff, 0, (size_t)crema_blob_count(blob_of(net, "b")) * sizeof *diff);
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward_range(net, 0, norm));
  assert_int_equal(readers(net), 0);
  const float *of_weights = diff_of(param_of(net, "b", 0));
  for (int64_t i = 0; i < crema_blob_count(param_of(net, "b", 0)); ++i) {
    assert_true(of_weights[i] == 0);
  }
  crema_net_destroy(net);
}

static size_t highest_after(crema_net *net, bool backward) {
  fill(crema_net_input(net, 0), -1, 0.003f);
  ok(crema_net_forward(net, NULL));
  if (backward) ok(crema_net_backward(net));
  return cr_heap_usage_of(net->context).highest;
}

TEST(s4_57_gradients_share_again_after_a_reshape) {
  static const int64_t items[] = {5, 1, 2};
  for (int plans = 0; plans < 2; ++plans) {
    crema_net *net = build_sums(SUM_OF_SUM, true, plans == 1);
    for (int k = 0; k < 3; ++k) {
      const crema_shape shape = cr_shape_4(items[k], 3, 8, 8);
      ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
      run(net, -0.4f);
      assert_true(shares(net, "a", "z") && shares(net, "b", "y") && shares(net, "c", "z"));
    }
    crema_net_destroy(net);
  }
}

/* Three blobs of which the sum needs two at once: one that is read again and its own top, which is
 * made in the memory of the other bottom. Without sharing they are there all three. */
TEST(s4_57_a_sum_takes_the_memory_of_a_bottom) {
  static const char text[] = INPUT("data", DIM4(2, 8, 32, 32)) LAYER("TanH", "a", "data", "a")
      LAYER("TanH", "b", "data", "b") SUM("sum", "a", "b", "y") LAYER("Reduction", "r", "y", "r");
  const size_t blob = 2 * 8 * 32 * 32 * sizeof(float);
  for (int shared = 0; shared < 2; ++shared) {
    crema_net_options options = phase_options(CREMA_TEST);
    char whole[TEXT_ROOM];
    snprintf(whole, sizeof whole, "%s%s", shared ? "" : "eltwise_mem_sharing: false\n", text);
    options.plan_memory = true;
    crema_net *net = build_with(whole, &options);
    const size_t most = highest_after(net, false), blobs = shared ? 2 : 3;
    assert_in_range(most, blobs * blob, blobs * blob + blob / 2);
    crema_net_destroy(net);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
