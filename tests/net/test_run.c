/* Forward and backward passes, shapes that change, fusion, losses, debugging aids. */
#include <math.h>
#include <stdlib.h>

#include "crema/log.h"
#include "log_lines.h"
#include "net_case.h"
#include "simulation.h"

#define GAUSS "weight_filler { type: 'gaussian' std: 0.5 } bias_filler { type: 'uniform' min: -1 } "
#define CONV_RELU(relu)                                                 \
  INPUT("data", DIM4(2, 3, 6, 6))                                       \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'" \
  "  convolution_param { num_output: 4 kernel_size: 3 " GAUSS           \
  "} }\n"                                                               \
  "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: '" relu        \
  "'"                                                                   \
  "  relu_param { negative_slope: 0.25 } }\n"                           \
  "layer { name: 'fc' type: 'InnerProduct' bottom: '" relu              \
  "' top: 'fc'"                                                         \
  "  inner_product_param { num_output: 1 " GAUSS "} loss_weight: 1 }\n"

static void run_both(crema_net *net, double *loss) {
  fill(blob_of(net, "data"), -1.0f, 0.01f);
  ok(crema_net_forward(net, loss));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
}

static void assert_values_near(const float *a, const float *b, int64_t count, double tolerance) {
  for (int64_t i = 0; i < count; ++i) assert_near(a[i], b[i], tolerance * (1.0 + fabs(b[i])));
}

static void assert_same_values(const float *a, const float *b, int64_t count) {
  assert_values_near(a, b, count, 1e-5);
}

/* Runs a net with one fusion and two without, which have the same loss; the first one's. */
static double run_alike(crema_net *fused, crema_net *plain, crema_net *apart) {
  double loss[3];
  assert_int_equal(fused->fusions, 1);
  assert_int_equal(plain->fusions, 0);
  assert_int_equal(apart->fusions, 0);
  run_both(fused, &loss[0]);
  run_both(plain, &loss[1]);
  run_both(apart, &loss[2]);
  assert_near(loss[0], loss[1], 1e-5 * fabs(loss[1]));
  assert_near(loss[2], loss[1], 1e-5 * fabs(loss[1]));
  return loss[0];
}

/* Fused or not, in place or not: the same loss, values and gradients. */
TEST(fusion_changes_nothing) {
  crema_net *fused = build(CONV_RELU("conv"), CREMA_TRAIN);
  crema_net *plain = build("debug_info: true " CONV_RELU("conv"), CREMA_TRAIN);
  crema_net *apart = build(CONV_RELU("relu"), CREMA_TRAIN);
  assert_true(fused->layer[layer_index(fused, "relu")].fused);
  const double loss = run_alike(fused, plain, apart);
  crema_blob *values = blob_of(fused, "conv");
  assert_same_values(data_of(values), data_of(blob_of(plain, "conv")), crema_blob_count(values));
  assert_same_values(data_of(values), data_of(blob_of(apart, "relu")), crema_blob_count(values));
  for (int p = 0; p < 2; ++p) {
    crema_blob *gradient = param_of(fused, "conv", p);
    assert_same_values(diff_of(gradient), diff_of(param_of(plain, "conv", p)),
                       crema_blob_count(gradient));
    assert_same_values(diff_of(gradient), diff_of(param_of(apart, "conv", p)),
                       crema_blob_count(gradient));
  }
  /* debug_info set later undoes it. */
  fused->debug_info = true;
  double again = 0.0;
  ok(crema_net_forward(fused, &again));
  assert_int_equal(fused->fusions, 0);
  assert_near(again, loss, 1e-5 * fabs(loss));
  crema_net_destroy(fused);
  crema_net_destroy(plain);
  crema_net_destroy(apart);
}

/* A BatchNorm between a convolution and a Scale; `more`: fields of the Scale. */
#define NORMED(norm, scaled, more)                                             \
  INPUT("data", DIM4(3, 3, 6, 6))                                              \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"        \
  "  convolution_param { num_output: 16 kernel_size: 3 " GAUSS                 \
  "} }\n"                                                                      \
  "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: '" norm          \
  "' }\n"                                                                      \
  "layer { name: 'scale' type: 'Scale' bottom: '" norm "' top: '" scaled       \
  "' scale_param { bias_term: true filler { type: 'uniform' min: 0.5 max: 2 }" \
  "    bias_filler { type: 'uniform' min: -1 } } " more                        \
  "}\n"                                                                        \
  "layer { name: 'fc' type: 'InnerProduct' bottom: '" scaled                   \
  "' top: 'fc'"                                                                \
  "  inner_product_param { num_output: 1 " GAUSS "} loss_weight: 1 }\n"

/* The gradients of a convolution before a BatchNorm are sums of terms that nearly cancel, at most
 * 0.011 here. Their rounding errors depend on the compiler: 0.9e-5 with GCC 12, 1.5e-5 with Clang
 * 14. */
static void assert_same_gradients(crema_net *a, crema_net *b, const char *layer) {
  const double tolerance = strcmp(layer, "conv") == 0 ? 4e-5 : 1e-5;
  const int params = a->layer[layer_index(a, layer)].layer->params;
  for (int p = 0; p < params; ++p) {
    crema_blob *gradient = param_of(a, layer, p);
    assert_values_near(diff_of(gradient), diff_of(param_of(b, layer, p)),
                       crema_blob_count(gradient), tolerance);
  }
}

/* The same for a Scale that the BatchNorm before it does, backward, too. */
TEST(fusion_of_a_scale_changes_nothing) {
  static const char *const layers[] = {"conv", "scale", "fc"};
  crema_net *fused = build(NORMED("conv", "conv", ""), CREMA_TRAIN);
  crema_net *plain = build("debug_info: true " NORMED("conv", "conv", ""), CREMA_TRAIN);
  crema_net *apart = build(NORMED("norm", "scale", ""), CREMA_TRAIN);
  assert_ptr_equal(fused->layer[layer_index(fused, "scale")].backs,
                   &fused->layer[layer_index(fused, "norm")]);
  run_alike(fused, plain, apart);
  crema_blob *values = blob_of(fused, "conv");
  assert_same_values(data_of(values), data_of(blob_of(plain, "conv")), crema_blob_count(values));
  assert_same_values(diff_of(values), diff_of(blob_of(plain, "conv")), crema_blob_count(values));
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
    assert_same_gradients(fused, plain, layers[i]);
    assert_same_gradients(fused, apart, layers[i]);
  }
  for (int p = 0; p < 3; ++p) { /* running sums */
    crema_blob *sums = param_of(fused, "norm", p);
    assert_same_values(data_of(sums), data_of(param_of(plain, "norm", p)), crema_blob_count(sums));
  }
  /* Gradients of a second pass are added. */
  ok(crema_net_backward(fused));
  ok(crema_net_backward(plain));
  assert_same_gradients(fused, plain, "scale");
  /* A part of a pass is each layer's own. */
  crema_net_clear_param_diffs(fused);
  ok(crema_net_backward_range(fused, layer_index(fused, "fc"), layer_index(fused, "fc")));
  assert_int_equal(fused->fusions, 0);
  ok(crema_net_backward_range(fused, 0, layer_index(fused, "scale")));
  assert_same_gradients(fused, apart, "scale");
  assert_same_gradients(fused, apart, "conv");
  crema_net_destroy(fused);
  crema_net_destroy(plain);
  crema_net_destroy(apart);
}

/* A Scale that learns its factors alone, is not in place or computes in double does its own work.
 */
TEST(scales_that_are_not_fused) {
  static const char *const texts[] = {
      NORMED("conv", "conv", "param { lr_mult: 1 } param { lr_mult: 0 }"),
      NORMED("norm", "norm", ""),
      NORMED("conv", "scale", ""),
      "default_forward_type: DOUBLE " NORMED("conv", "conv", ""),
  };
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; ++i) {
    double loss = 0;
    crema_net *net = build(texts[i], CREMA_TRAIN);
    assert_int_equal(net->fusions, 0);
    run_both(net, &loss);
    crema_net_destroy(net);
  }
}

/* ---- ReLUs on a device with its own memory ---- */

#define RELU(blob, more) \
  "layer { name: 'relu' type: 'ReLU' bottom: '" blob "' top: '" blob "' " more "}\n"
#define NORMED_RELU(top, more)                                               \
  INPUT("data", DIM4(3, 3, 6, 6))                                            \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"      \
  "  convolution_param { num_output: 8 kernel_size: 3 " GAUSS                \
  "} }\n"                                                                    \
  "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv' top: 'conv' }\n"    \
  "layer { name: 'scale' type: 'Scale' bottom: 'conv' top: 'conv'"           \
  "  scale_param { bias_term: true filler { type: 'uniform' min: -1 } } }\n" \
  "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: '" top "' " more    \
  "}\n"                                                                      \
  "layer { name: 'fc' type: 'InnerProduct' bottom: '" top                    \
  "' top: 'fc'"                                                              \
  "  inner_product_param { num_output: 1 " GAUSS "} loss_weight: 1 }\n"
#define SUM_RELU(operation)                                                                       \
  INPUT("data", DIM4(3, 3, 6, 6))                                                                 \
  "layer { name: 'sum' type: 'Eltwise' bottom: 'data' bottom: 'data' top: 'sum' eltwise_param { " \
  "operation: " operation " } }\n" RELU("sum", "")

static crema_net *build_on(crema_device *device, const char *text, crema_phase phase) {
  crema_net_options options = phase_options(phase);
  options.device = device;
  return build_with(text, &options);
}

/* The Scale and the ReLU of the net are done by the BatchNorm, or the ReLU by the sum. A leaky
 * ReLU, a ReLU out of place, and a ReLU after constant statistics do their own work. */
TEST(relus_that_other_layers_do) {
  static const struct {
    const char *text;
    int fusions;
  } nets[] = {{NORMED_RELU("conv", ""), 2},
              {NORMED_RELU("conv", "relu_param { negative_slope: 0.1 } "), 1},
              {NORMED_RELU("relu", ""), 1},
              {"debug_info: true " NORMED_RELU("conv", ""), 0},
              {"default_forward_type: DOUBLE " NORMED_RELU("conv", ""), 0},
              {SUM_RELU("SUM"), 1},
              {SUM_RELU("PROD"), 0}};
  const cr_sim_options simulated = cr_sim_defaults();
  crema_device *device = NULL;
  ok(start_simulation(&simulated));
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; ++i) {
    crema_net *net = build_on(device, nets[i].text, CREMA_TRAIN);
    assert_int_equal(net->fusions, nets[i].fusions);
    crema_net_destroy(net);
  }
  crema_net *test = build_on(device, NORMED_RELU("conv", ""), CREMA_TEST);
  crema_net *host = build(NORMED_RELU("conv", ""), CREMA_TRAIN);
  assert_int_equal(test->fusions, 0);
  assert_int_equal(host->fusions, 1);
  crema_net_destroy(host);
  crema_net_destroy(test);
  cr_sim_stop(NULL);
}

/* Forward and backward as the same layers out of place on the host, and as each layer by itself. */
TEST(fusion_of_a_relu_changes_nothing) {
  static const char *const layers[] = {"conv", "scale", "fc"};
  double loss[3];
  const cr_sim_options simulated = cr_sim_defaults();
  crema_device *device = NULL;
  ok(start_simulation(&simulated));
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  crema_net *fused = build_on(device, NORMED_RELU("conv", ""), CREMA_TRAIN);
  crema_net *host = build(NORMED_RELU("relu", ""), CREMA_TRAIN);
  run_both(fused, &loss[0]);
  run_both(host, &loss[1]);
  assert_near(loss[0], loss[1], 1e-5 * (1 + fabs(loss[1])));
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
    assert_same_gradients(fused, host, layers[i]);
  }
  crema_blob *values = blob_of(fused, "conv");
  assert_same_values(data_of(values), data_of(blob_of(host, "relu")), crema_blob_count(values));
  /* A part of a pass is each layer's own. */
  const int last = crema_net_layer_count(fused) - 1;
  crema_net_clear_param_diffs(fused);
  ok(crema_net_forward_range(fused, 0, last, &loss[2]));
  ok(crema_net_backward_range(fused, last, last));
  assert_int_equal(fused->fusions, 0);
  ok(crema_net_backward_range(fused, 0, last - 1));
  assert_near(loss[2], loss[1], 1e-5 * (1 + fabs(loss[1])));
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
    assert_same_gradients(fused, host, layers[i]);
  }
  crema_net_destroy(host);
  crema_net_destroy(fused);
  cr_sim_stop(NULL);
}

/* LRN over one channel, in whatever layout the convolution before it leaves. */
TEST(lrn_of_one_channel_runs) {
  crema_net *net = build(
      INPUT("data", DIM4(2, 3, 5, 4))
      "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'"
      "  convolution_param { num_output: 16 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'n' type: 'LRN' bottom: 'c' top: 'n' lrn_param { local_size: 1 alpha: 3 } }\n"
      "layer { name: 'd' type: 'Convolution' bottom: 'n' top: 'd'"
      "  convolution_param { num_output: 16 kernel_size: 1 } loss_weight: 1 }\n",
      CREMA_TRAIN);
  double loss = 0.0;
  run_both(net, &loss);
  const float *x = data_of(blob_of(net, "c")), *y = data_of(blob_of(net, "n"));
  for (int64_t i = 0; i < crema_blob_count(blob_of(net, "c")); ++i) {
    const double expected = (double)x[i] / pow(1.0 + 3.0 * (double)x[i] * (double)x[i], 0.75);
    assert_near(y[i], expected, 1e-5);
  }
  crema_net_destroy(net);
}

/* A ReLU is done by a convolution only if it is for all that the convolution makes. */
TEST(fusion_leaves_other_tops_alone) {
  crema_net *net = build(
      INPUT("a", DIM4(1, 1, 1, 1)) INPUT("b", DIM4(1, 1, 1, 1))
      "layer { name: 'c' type: 'Convolution' bottom: 'a' bottom: 'b' top: 'x' top: 'y'"
      "  convolution_param { num_output: 1 kernel_size: 1 bias_term: false"
      "    weight_filler { type: 'constant' value: 1 } } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }\n",
      CREMA_TEST);
  fill(blob_of(net, "a"), -1.0f, 0.0f);
  fill(blob_of(net, "b"), -2.0f, 0.0f);
  ok(crema_net_forward(net, NULL));
  assert_int_equal(net->fusions, 0);
  assert_near(data_of(blob_of(net, "x"))[0], 0.0, 0.0);
  assert_near(data_of(blob_of(net, "y"))[0], -2.0, 0.0);
  crema_net_destroy(net);
}

/* A value between convolution and ReLU that somebody needs is kept. */
TEST(fusion_leaves_values_that_are_needed) {
  crema_net *net =
      build(CONV_RELU("relu") "layer { name: 'late' type: 'ReLU' bottom: 'fc' top: 'fc2' }\n",
            CREMA_TEST);
  assert_int_equal(net->fusions, 0);
  crema_net_destroy(net);
  net = build(INPUT("data", DIM4(1, 1, 3, 3))
              "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'c'"
              "  convolution_param { num_output: 1 kernel_size: 1 } }\n"
              "layer { name: 'b' type: 'BatchNorm' bottom: 'c' top: 'c' }\n"
              "layer { name: 'r' type: 'ReLU' bottom: 'c' top: 'c' }\n",
              CREMA_TEST);
  assert_int_equal(net->fusions, 0);
  crema_net_destroy(net);
}

/* ---- other shapes ---- */

#define LAYER(type, more) "layer { name: 'layer' type: '" type "' bottom: 'r' top: 'y' " more "}\n"

/* Layers for which it matters where channels are. */
static const char *const readers[] = {
    LAYER("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 } "),
    LAYER("Pooling", "pooling_param { pool: MAX global_pooling: true } "),
    LAYER("Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 } "),
    LAYER("Pooling", "pooling_param { pool: AVE global_pooling: true } "),
    LAYER("LRN", "lrn_param { local_size: 3 alpha: 2 } "),
    LAYER("LRN", "lrn_param { local_size: 3 alpha: 2 norm_region: WITHIN_CHANNEL } "),
    LAYER("Softmax", ""),
    LAYER("Normalize", ""),
    LAYER("PReLU", ""),
    LAYER("MVN", ""),
    LAYER("Scale", "scale_param { bias_term: true filler { type: 'gaussian' } } "),
    LAYER("ShuffleChannel", "shuffle_channel_param { group: 2 } "),
    LAYER("Slice", "top: 'z' slice_param { slice_point: 2 } "),
    LAYER("Concat", "bottom: 'r' concat_param { axis: 2 } "),
    LAYER("Reduction", "reduction_param { axis: 2 } "),
    LAYER("Permute", "permute_param { order: 0 order: 2 order: 1 order: 3 } "),
    LAYER("Interp", "interp_param { zoom_factor: 2 } "),
    LAYER("Reorg", "reorg_param { stride: 2 } "),
    LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 1 " GAUSS "} "),
    LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 3 pad: 1 " GAUSS "} "),
    LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 2 group: 2 " GAUSS "} "),
    LAYER("Deconvolution",
          "convolution_param { num_output: 4 kernel_size: 2 stride: 2 " GAUSS "} "),
    LAYER("InnerProduct", "inner_product_param { num_output: 5 " GAUSS "} ")};

/* What a convolution leaves in an order of its own, with blocks of channels or channels last, is
 * read right by layers that get it in another shape: they make of it what they make of an input. */
TEST(values_in_another_shape_are_read_right) {
  static const char *const shapes[] = {"dim: 0 dim: 4 dim: 8 dim: 4",
                                       "dim: 0 dim: 16 dim: 4 dim: 2",
                                       "dim: 0 dim: 32 dim: 2 dim: 2"};
  static const char *const windows[] = {"kernel_size: 1", "kernel_size: 3 pad: 1"};
  for (size_t k = 0; k < sizeof readers / sizeof *readers * 6; ++k) {
    char text[2048], alone[1024];
    const char *reader = readers[k / 6];
    snprintf(text, sizeof text,
             INPUT("data", DIM4(1, 2, 4, 4)) "layer { name: 'conv' type: 'Convolution' bottom: "
                                              "'data' top: 'conv' convolution_param { num_output: "
                                              "8 %s " GAUSS "} }\n"
             "layer { name: 'reshape' type: 'Reshape' bottom: 'conv' top: 'r' reshape_param { shape "
             "{ %s } } }\n%s",
             windows[k % 2], shapes[k / 2 % 3], reader);
    crema_net *net = build(text, CREMA_TEST);
    fill(blob_of(net, "data"), -1.0f, 0.01f);
    ok(crema_net_forward(net, NULL));
    const crema_shape *shape = crema_blob_shape(blob_of(net, "r"));
    snprintf(alone, sizeof alone,
             "layer { name: 'in' type: 'Input' top: 'r' input_param { shape { dim: 1 dim: %d dim: "
             "%d dim: %d } } }\n%s",
             (int)shape->dim[1], (int)shape->dim[2], (int)shape->dim[3], reader);
    crema_net *right = build(alone, CREMA_TEST);
    ok(crema_net_share_weights(right, net));
    float *plain = NULL;
    ok(crema_blob_mutable_cpu_data(blob_of(right, "r"), &plain));
    memcpy(plain, data_of(blob_of(net, "r")), (size_t)crema_blob_count(blob_of(net, "r")) * 4);
    ok(crema_net_forward(right, NULL));
    assert_same_values(data_of(blob_of(net, "y")), data_of(blob_of(right, "y")),
                       crema_blob_count(blob_of(right, "y")));
    crema_net_destroy(net);
    crema_net_destroy(right);
  }
}

TEST(a_new_input_shape_is_followed) {
  crema_net *net = build(CONV_RELU("conv"), CREMA_TRAIN);
  crema_shape wide = cr_shape_4(5, 3, 6, 6), want = cr_shape_4(5, 4, 4, 4);
  double loss = 0.0;
  run_both(net, &loss);
  ok(crema_blob_reshape(blob_of(net, "data"), &wide));
  run_both(net, &loss); /* by itself */
  assert_true(crema_shape_equal(crema_blob_shape(blob_of(net, "conv")), &want));
  wide.dim[0] = want.dim[0] = 1;
  ok(crema_blob_reshape(blob_of(net, "data"), &wide));
  ok(crema_net_reshape(net)); /* when asked */
  assert_true(crema_shape_equal(crema_blob_shape(blob_of(net, "conv")), &want));
  run_both(net, &loss);
  /* One that does not fit is refused, and a good one works again. */
  wide.dim[1] = 2;
  ok(crema_blob_reshape(blob_of(net, "data"), &wide));
  assert_int_equal(crema_net_forward(net, NULL), CREMA_E_SHAPE);
  assert_names(WORDS("layer 'conv' (Convolution)"));
  wide.dim[1] = 3;
  ok(crema_blob_reshape(blob_of(net, "data"), &wide));
  ok(crema_net_forward(net, NULL));
  crema_net_destroy(net);
}

#define TWO_LOSSES \
  INPUT("data", DIM2(2, 3)) INPUT("label", "dim: 2")                           \
  "layer { name: 'one' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label'" \
  "  top: 'one' loss_weight: 0.5 }\n"                                          \
  "layer { name: 'two' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label'" \
  "  top: 'two' }\n"                                                           \
  "layer { name: 'off' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label'" \
  "  top: 'off' loss_weight: 0 }\n"

#define POWER(name, from, to, scale)                                    \
  "layer { name: '" name "' type: 'Power' bottom: '" from "' top: '" to \
  "' power_param { scale: " scale " } }\n"
#define TWO_READERS       \
  INPUT("a", DIM2(8, 30)) \
  POWER("p", "a", "b", "2") POWER("q", "a", "c", "3")                            \
  "layer { name: 'r' type: 'Reshape' bottom: 'b' top: 'd'"                       \
  "  reshape_param { shape { dim: -1 } } }\n"                                    \
  "layer { name: 'f' type: 'Flatten' bottom: 'c' top: 'e' }\n"

/* Each blob has as many values as its shape says: those of the last pass, or zeros. */
static void read_all(crema_net *net) {
  for (int i = 0; i < crema_net_blob_count(net); ++i) {
    crema_blob *blob = crema_net_blob_at(net, i);
    double sum = 0;
    for (int64_t k = 0; k < crema_blob_count(blob); ++k) sum += (double)data_of(blob)[k];
    assert_true(sum >= 0);
    fill(blob, 1, 0);
  }
}

static void check_readers(crema_net *net, int64_t count) {
  ok(crema_net_forward(net, NULL));
  const char *const name[] = {"b", "c", "d", "e"};
  for (int i = 0; i < 4; ++i) {
    assert_int_equal(crema_blob_count(blob_of(net, name[i])), count);
    for (int64_t k = 0; k < count; ++k) {
      assert_true(data_of(blob_of(net, name[i]))[k] == (float)(k + 1) * (i % 2 == 0 ? 2 : 3));
    }
  }
}

/* Blobs that share values are given other shapes, smaller and larger, and the old ones again. */
TEST(shapes_of_blobs_that_share_values_change) {
  const char *const name[] = {"a", "a_in_a_0_split_0", "b", "d", "c", "e"};
  for (int n = 0; n < 6; ++n) {
    crema_net *net = build(TWO_READERS, CREMA_TEST);
    crema_blob *a = blob_of(net, "a"), *blob = blob_of(net, name[n]);
    const crema_shape shapes[] = {cr_shape_2(1, 5), cr_shape_2(80, 50), *crema_blob_shape(blob)};
    for (int k = 0; k < 3; ++k) {
      ok(crema_blob_reshape(blob, &shapes[k]));
      read_all(net);
      if (k == 0) ok(crema_blob_reshape(blob, &shapes[2]));
      fill(a, 1, 1);
      check_readers(net, crema_blob_count(a));
    }
    crema_net_destroy(net);
  }
}

/* The input has other values of the same count and shape after it left its sharers. */
TEST(views_of_views_follow_an_input_that_comes_back) {
  crema_net *net =
      build(INPUT("a", DIM2(8, 30)) POWER("p", "a", "b", "2")
            "layer { name: 'f' type: 'Flatten' bottom: 'a' top: 'c'"
            "  flatten_param { axis: 0 } }\n"
            "layer { name: 'r' type: 'Reshape' bottom: 'c' top: 'd'"
            "  reshape_param { shape { dim: 4 dim: -1 } } }\n", CREMA_TEST);
  crema_blob *a = blob_of(net, "a");
  const crema_shape shapes[] = {cr_shape_2(1, 5), cr_shape_2(80, 50)}, own = *crema_blob_shape(a);
  for (int k = 0; k < 2; ++k) {
    ok(crema_net_forward(net, NULL));
    ok(crema_blob_reshape(a, &shapes[k]));
    ok(crema_blob_reshape(a, &own));
    fill(a, (float)k, 1);
    ok(crema_net_forward(net, NULL));
    for (int i = 0; i < 240; ++i) {
      assert_true(data_of(blob_of(net, "c"))[i] == (float)(k + i));
      assert_true(data_of(blob_of(net, "d"))[i] == (float)(k + i));
    }
  }
  crema_net_destroy(net);
}

TEST(losses_are_weighted_and_summed) {
  crema_net *net = build("force_backward: true " TWO_LOSSES, CREMA_TRAIN);
  double loss = 0.0;
  fill(blob_of(net, "data"), 0.0f, 0.0f);
  ok(crema_net_forward(net, &loss));
  assert_near(loss, 1.5 * log(3.0), 1e-5);
  assert_near(diff_of(blob_of(net, "one"))[0], 0.5, 0.0);
  assert_near(diff_of(blob_of(net, "two"))[0], 1.0, 0.0);
  ok(crema_net_backward(net));
  /* 1.5 (p - onehot) / N, p = 1/3, label 0 */
  const float *diff = diff_of(blob_of(net, "data"));
  assert_near(diff[0], 1.5 * (1.0 / 3.0 - 1.0) / 2.0, 1e-6);
  assert_near(diff[1], 1.5 * (1.0 / 3.0) / 2.0, 1e-6);
  double part = -1.0;
  int two = layer_index(net, "two");
  ok(cr_net_forward_range(net, two, two, &part));
  assert_near(part, log(3.0), 1e-5);
  assert_int_equal(cr_net_forward_range(net, -1, 0, NULL), CREMA_E_RANGE);
  assert_int_equal(cr_net_backward_range(net, 0, net->layers), CREMA_E_RANGE);
  crema_net_destroy(net);
}

/* An in-place layer's backward overwrites the diff that holds the loss weight. */
TEST(an_in_place_loss_is_seeded_each_time) {
  crema_net *net = build(
      INPUT("data", DIM2(1, 2))
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'"
      "  inner_product_param { num_output: 1 weight_filler { value: 0.5 } } }\n"
      "layer { name: 's' type: 'Sigmoid' bottom: 'fc' top: 'fc' loss_weight: 3 }\n",
      CREMA_TRAIN);
  fill(blob_of(net, "data"), 1.0f, 1.0f);
  double y = 1.0 / (1.0 + exp(-1.5));
  for (int pass = 0; pass < 3; ++pass) {
    double loss = 0.0;
    ok(crema_net_forward(net, &loss));
    assert_near(loss, 3.0 * y, 1e-5);
    crema_net_clear_param_diffs(net);
    ok(crema_net_backward(net));
    assert_near(diff_of(param_of(net, "fc", 1))[0], 3.0 * y * (1.0 - y), 1e-5);
  }
  crema_net_destroy(net);
}

TEST(parameter_gradients_add_up) {
  crema_net *net = build(CONV_RELU("conv"), CREMA_TRAIN);
  double loss = 0.0;
  run_both(net, &loss);
  float once = diff_of(param_of(net, "fc", 1))[0];
  ok(crema_net_forward(net, &loss));
  ok(crema_net_backward(net));
  assert_near(diff_of(param_of(net, "fc", 1))[0], 2.0 * once, 1e-5);
  crema_net_clear_param_diffs(net);
  assert_near(diff_of(param_of(net, "fc", 1))[0], 0.0, 0.0);
  crema_net_destroy(net);
}

TEST(equal_seeds_give_equal_nets) {
  crema_net_options options = phase_options(CREMA_TRAIN);
  crema_net *a = build_with(CONV_RELU("conv"), &options);
  crema_net *b = build_with(CONV_RELU("conv"), &options);
  options.seed = 1702;
  crema_net *c = build_with(CONV_RELU("conv"), &options);
  options.seed = -1;
  crema_net *d = build_with(CONV_RELU("conv"), &options);
  size_t bytes = (size_t)crema_blob_count(param_of(a, "conv", 0)) * sizeof(float);
  const float *values = data_of(param_of(a, "conv", 0));
  assert_memory_equal(values, data_of(param_of(b, "conv", 0)), bytes);
  assert_memory_not_equal(values, data_of(param_of(c, "conv", 0)), bytes);
  assert_memory_not_equal(values, data_of(param_of(d, "conv", 0)), bytes);
  crema_net_destroy(a);
  crema_net_destroy(b);
  crema_net_destroy(c);
  crema_net_destroy(d);
}

TEST(the_first_non_finite_value_is_named) {
  crema_net *net = build(CONV_RELU("relu"), CREMA_TRAIN);
  bool found = true;
  const char *layer = NULL, *blob = NULL;
  fill(blob_of(net, "data"), 1.0f, 0.0f);
  ok(crema_net_forward(net, NULL));
  ok(cr_net_find_nonfinite(net, &found, &layer, &blob));
  assert_false(found);
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob_of(net, "relu"), &data));
  data[3] = INFINITY;
  ok(cr_net_find_nonfinite(net, &found, &layer, &blob));
  assert_true(found);
  assert_string_equal(layer, "relu");
  assert_string_equal(blob, "relu");
  ok(crema_blob_mutable_cpu_data(param_of(net, "conv", 1), &data));
  data[0] = NAN;
  ok(cr_net_find_nonfinite(net, &found, &layer, &blob));
  assert_string_equal(layer, "conv");
  assert_string_equal(blob, "param 1");
  ok(cr_net_find_nonfinite(net, &found, NULL, NULL));
  crema_net_destroy(net);
}

static void assert_logged(const log_lines *lines, const char *line) {
  if (strstr(lines->text, line) == NULL) print_error("'%s' is missing in\n%s", line, lines->text);
  assert_non_null(strstr(lines->text, line));
}

TEST(debug_info_is_worded_as_parsers_expect) {
  log_lines *lines = calloc(1, sizeof *lines);
  assert_non_null(lines);
  crema_net *net = build(
      "debug_info: true " INPUT("data", DIM2(1, 2))
      "layer { name: 'a' type: 'InnerProduct' bottom: 'data' top: 'a' param { name: 'w' }"
      "  inner_product_param { num_output: 2 weight_filler { value: 0.5 } bias_term: false } }\n"
      "layer { name: 'b' type: 'InnerProduct' bottom: 'a' top: 'b' param { name: 'w' }"
      "  inner_product_param { num_output: 2 bias_term: false } loss_weight: 1 }\n",
      CREMA_TRAIN);
  fill(blob_of(net, "data"), -1.0f, 4.0f); /* -1 3 */
  listen_to(lines, CREMA_LOG_INFO);
  ok(crema_net_forward(net, NULL));
  assert_logged(lines, "    [Forward] Layer in_data, top blob data data: 2\n");
  assert_logged(lines, "    [Forward] Layer a, top blob a data: 1\n");
  assert_logged(lines, "    [Forward] Layer a, param blob w data: 0.5\n");
  ok(crema_net_backward(net));
  assert_logged(lines, "    [Backward] Layer b, bottom blob a diff: 1\n");
  /* db/dw = (1 1; 1 1) from above, plus da/dw = (-1 3; -1 3) from below: (0 4; 0 4) */
  assert_logged(lines, "    [Backward] Layer b, param blob w diff: 1\n");
  assert_logged(lines, "    [Backward] Layer a, param blob w diff: 2\n");
  assert_logged(lines,
                "    [Backward] All net params (data, diff): L1 norm = (2, 8); "
                "L2 norm = (1, 5.65685)\n");
  ok(cr_net_debug_update(net));
  assert_logged(lines, "    [Update] Layer a, param w data: 0.5; diff: 2\n");
  assert_logged(lines, "    [Update] Layer b, param blob w (owned by layer a, param w) diff: 2\n");
  stop_listening();
  crema_net_destroy(net);
  free(lines);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
