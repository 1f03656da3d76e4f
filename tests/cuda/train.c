/* LeNet trained for 50 iterations on the device under test and on the CPU: the same weights but for
 * rounding, and on the device the same bits each time. With the argument "small": fewer channels
 * and images, for a device that is simulated slowly. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <math.h>

#include "check.h"
#include "core/fail.h"
#include "core/rng.h"
#include "crema/net.h"
#include "crema/solver.h"
#include "device/device.h"
#include "device_under_test.h"
#include "folder.h"

enum { SKIPPED = 77, ITERATIONS = 50, CLASSES = 10, SIDE = 28 };

/* Rounding differs, and 50 steps add it up. */
static const double tolerance = 2e-3;

static const char net_text[] =
    "name: 'LeNet'\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: %d dim: 1 dim: 28 dim: 28 } shape { dim: %d } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' param { lr_mult: 1 }"
    " param { lr_mult: 2 } convolution_param { num_output: %d kernel_size: 5"
    " weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu0' type: 'ReLU' bottom: 'conv1' top: 'conv1' }\n"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2' param { lr_mult: 1 }"
    " param { lr_mult: 2 } convolution_param { num_output: %d kernel_size: 5"
    " weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'pool2' type: 'Pooling' bottom: 'conv2' top: 'pool2' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'pool2' top: 'ip1' inner_product_param {"
    " num_output: %d weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu1' type: 'ReLU' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2' inner_product_param {"
    " num_output: 10 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip2' bottom: 'label' top: 'accuracy' }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.01 lr_policy: 'inv' gamma: 0.0001 power: 0.75 momentum: 0.9 "
    "weight_decay: 0.0005 max_iter: 1000 random_seed: 7 snapshot_after_train: false\n";

static crema_device *device;
static int batch = 64;
static bool is_small;

/* ---- data ---- */

/* A bright line whose height is the class, on noise. */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  (void)user;
  float *data = NULL, *label = NULL;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  for (int n = 0; n < batch; ++n) {
    uint32_t draw[4];
    cr_philox(1, (uint64_t)pass, (uint64_t)n, draw);
    const int class = (int)(draw[0] % CLASSES);
    label[n] = (float)class;
    for (int i = 0; i < SIDE * SIDE; ++i) {
      cr_philox(2, (uint64_t)(pass * batch + n), (uint64_t)i, draw);
      data[n * SIDE * SIDE + i] =
          (float)(draw[0] >> 8) * 0x1p-25f + (i / SIDE == 2 * class + 4 ? 0.5f : 0);
    }
  }
  return CREMA_OK;
}

/* ---- training ---- */

typedef struct trained {
  float *value; /* all parameters in a row */
  size_t count;
  double first_loss, last_loss;
} trained;

static void keep_loss(void *user, const crema_solver_progress *progress) {
  trained *t = user;
  if (progress->iteration == 1) t->first_loss = progress->loss;
  t->last_loss = progress->loss;
}

static void keep_weights(crema_net *net, trained *t) {
  for (int pass = 0; pass < 2; ++pass) {
    size_t at = 0;
    for (int l = 0; l < crema_net_layer_count(net); ++l) {
      for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
        crema_blob *blob = crema_net_layer_param(net, l, p);
        const size_t count = (size_t)crema_blob_count(blob);
        const float *value = NULL;
        ok(crema_blob_cpu_data(blob, &value));
        if (pass == 1) memcpy(t->value + at, value, count * sizeof *value);
        at += count;
      }
    }
    t->count = at;
    if (pass == 0) t->value = malloc(at * sizeof *t->value);
    assert_non_null(t->value);
  }
}

static trained train(crema_device *on) {
  trained t = {0};
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  options.device = on;
  options.feed = feed;
  options.progress = keep_loss;
  options.user = &t;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_solver_step(solver, ITERATIONS));
  keep_weights(crema_solver_net(solver), &t);
  crema_solver_destroy(solver);
  return t;
}

TEST(training_agrees_with_the_cpu) {
  const uint64_t before = cr_device_fallbacks(device);
  trained cpu = train(cr_cpu_device()), gpu = train(device), again = train(device);
  double largest = 0, apart = 0;
  assert_int_equal(gpu.count, cpu.count);
  assert_memory_equal(again.value, gpu.value, gpu.count * sizeof(float));
  for (size_t i = 0; i < cpu.count; ++i) {
    const double difference = fabs((double)cpu.value[i] - (double)gpu.value[i]);
    largest = fmax(largest, fabs((double)cpu.value[i]));
    if (!(difference <= apart)) apart = difference;
  }
  print_message("weights differ by %g of %g; loss %g, then %g (CPU %g)\n", apart, largest,
                gpu.first_loss, gpu.last_loss, cpu.last_loss);
  assert_true(apart <= tolerance * largest);
  /* It has learned something. */
  assert_true(gpu.last_loss < (is_small ? 0.95 : 0.5) * gpu.first_loss);
  assert_int_equal(cr_device_fallbacks(device), before);
  ok(test_device_finish(test_device_context()));
  free(again.value);
  free(gpu.value);
  free(cpu.value);
}

/* ---- halves ---- */

static const char half_text[] =
    "default_forward_type: %s default_backward_type: %s\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 2 dim: 4 dim: 8 dim: 8 } shape { dim: 2 } } }\n"
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'data' top: 'norm' }\n"
    "layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'norm' scale_param {"
    " bias_term: true } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'norm' top: 'norm' }\n"
    "layer { name: 'pool' type: 'Pooling' bottom: 'norm' top: 'pool' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'lrn' type: 'LRN' bottom: 'pool' top: 'lrn' }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'pool' bottom: 'lrn' top: 'sum' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'sum' top: 'ip' inner_product_param {"
    " num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'ip' top: 'drop' }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'drop' bottom: 'label' top: 'loss' }\n";

/* The device's kernels take the values as the tensors have them. */
TEST(a_net_in_halves_converts_nothing) {
  static const char *const types[] = {"FLOAT16", "BFLOAT16"};
  const uint64_t before = cr_device_fallbacks(device);
  for (int t = 0; t < 2; ++t) {
    char text[sizeof half_text + 32];
    crema_net *net = NULL;
    crema_net_options options;
    crema_net_options_init(&options);
    options.device = device;
    options.phase = CREMA_TRAIN;
    const int size = snprintf(text, sizeof text, half_text, types[t], types[t]);
    ok(crema_net_parse(text, (size_t)size, "net", &options, &net));
    uint64_t conversions = 0;
    for (int pass = 0; pass < 3; ++pass) {
      double loss = 0;
      /* The first pass has the weights that fillers gave as floats. */
      if (pass == 1) conversions = crema_net_conversions(net);
      ok(crema_net_forward(net, &loss));
      ok(crema_net_backward(net));
      assert_true(loss > 0);
    }
    assert_int_equal(crema_net_conversions(net), conversions);
    crema_net_destroy(net);
  }
  assert_int_equal(cr_device_fallbacks(device), before);
  ok(test_device_finish(test_device_context()));
}

/* ---- fusion ---- */

static const char fused_text[] =
    "force_backward: true default_forward_type: %s default_backward_type: %s\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 3 dim: 3 dim: 9 dim: 9 } shape { dim: 3 } } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {"
    " num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } bias_filler { value: 0.1 } } "
    "}\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' relu_param {"
    " negative_slope: 0.25 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip' inner_product_param {"
    " num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static void fill_data(crema_net *net) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int64_t i = 0; i < crema_blob_count(crema_net_input(net, 0)); ++i) {
    uint32_t draw[4];
    cr_philox(3, 0, (uint64_t)i, draw);
    data[i] = (float)(draw[0] >> 8) * 0x1p-23f - 1;
  }
}

static void keep_gradients(crema_net *net, float *value, size_t most) {
  size_t at = 0;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      crema_blob *blob = crema_net_layer_param(net, l, p);
      const size_t count = (size_t)crema_blob_count(blob);
      const float *diff = NULL;
      ok(crema_blob_cpu_diff(blob, &diff));
      assert_true(at + count <= most);
      memcpy(value + at, diff, count * sizeof *diff);
      at += count;
    }
  }
}

/* A backward pass in parts runs each layer by itself. */
TEST(fused_layers_give_the_gradients_of_single_layers) {
  enum { MOST = 4096 };
  static const char *const types[] = {"FLOAT", "FLOAT16", "BFLOAT16"};
  static const double error[] = {1e-5, 4e-3, 3e-2};
  for (int t = 0; t < 3; ++t) {
    char text[sizeof fused_text + 32];
    float whole[MOST] = {0}, parts[MOST] = {0};
    double loss[2] = {0, 0};
    crema_net *net = NULL;
    crema_net_options options;
    crema_net_options_init(&options);
    options.device = device;
    options.phase = CREMA_TRAIN;
    const int size = snprintf(text, sizeof text, fused_text, types[t], types[t]);
    ok(crema_net_parse(text, (size_t)size, "net", &options, &net));
    const int last = crema_net_layer_count(net) - 1;
    /* The first pass has the values that fillers gave as floats. */
    fill_data(net);
    ok(crema_net_forward(net, &loss[0]));
    ok(crema_net_backward(net));
    crema_net_clear_param_diffs(net);
    ok(crema_net_forward(net, &loss[0]));
    const uint64_t first = cr_device_launches(device);
    ok(crema_net_backward(net));
    const uint64_t fused = cr_device_launches(device) - first;
    keep_gradients(net, whole, MOST);
    crema_net_clear_param_diffs(net);
    ok(crema_net_forward_range(net, 0, last, &loss[1]));
    const uint64_t second = cr_device_launches(device);
    ok(crema_net_backward_range(net, last, last));
    ok(crema_net_backward_range(net, 0, last - 1));
    const uint64_t single = cr_device_launches(device) - second;
    keep_gradients(net, parts, MOST);
    double largest = 0;
    for (int i = 0; i < MOST; ++i) largest = fmax(largest, fabs((double)parts[i]));
    for (int i = 0; i < MOST; ++i) {
      if (fabs((double)whole[i] - (double)parts[i]) > error[t] * largest) {
        fail_msg("%s, %d: %g, and %g by single layers", types[t], i, (double)whole[i],
                 (double)parts[i]);
      }
    }
    assert_true(largest > 0 && fabs(loss[0] - loss[1]) <= error[t] * fabs(loss[1]));
    /* Rows of the test itself count nothing. */
    assert_true(single == 0 || fused < single);
    crema_net_destroy(net);
  }
}

/* A residual block after a convolution. BatchNorms are with a Scale or without; two of them and the
 * sum have a ReLU. The tops of the ReLUs follow. */
static const char norm_text[] =
    "force_backward: true default_forward_type: %s default_backward_type: %s\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 3 dim: 3 dim: 9 dim: 9 } shape { dim: 3 } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'a' convolution_param {"
    " num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'norm1' type: 'BatchNorm' bottom: 'a' top: 'a' }\n"
    "layer { name: 'scale1' type: 'Scale' bottom: 'a' top: 'a' scale_param { bias_term: true"
    " filler { type: 'uniform' min: -1 max: 2 } bias_filler { value: 0.1 } } }\n"
    "layer { name: 'relu1' type: 'ReLU' bottom: 'a' top: '%s' }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: '%s' top: 'b' convolution_param {"
    " num_output: 5 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'norm2' type: 'BatchNorm' bottom: 'b' top: 'b' }\n"
    "layer { name: 'relu2' type: 'ReLU' bottom: 'b' top: '%s' }\n"
    "layer { name: 'conv3' type: 'Convolution' bottom: '%s' top: 'c' convolution_param {"
    " num_output: 6 kernel_size: 3 pad: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'norm3' type: 'BatchNorm' bottom: 'c' top: 'c' }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: '%s' bottom: 'c' top: 'd' }\n"
    "layer { name: 'relu3' type: 'ReLU' bottom: 'd' top: '%s' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: '%s' top: 'ip' inner_product_param {"
    " num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* Passes of the net with its ReLUs in place or not. The parameters' values include the moving sums;
 * the gradients include the gradient of the data. */
typedef struct norm_results {
  trained values;
  float gradient[4096];
  double loss;
  uint64_t launches; /* of the last pass */
} norm_results;

static void run_norms(const char *type, bool in_place, bool plans, norm_results *out) {
  char text[sizeof norm_text + 64];
  const char *first = in_place ? "a" : "a2", *second = in_place ? "b" : "b2";
  const char *third = in_place ? "d" : "d2";
  crema_net *net = NULL;
  crema_net_options options;
  crema_net_options_init(&options);
  options.device = device;
  options.phase = CREMA_TRAIN;
  options.seed = 3;
  options.plan_memory = plans;
  const int size = snprintf(text, sizeof text, norm_text, type, type, first, first, second, second,
                            first, third, third);
  ok(crema_net_parse(text, (size_t)size, "net", &options, &net));
  fill_data(net);
  memset(out, 0, sizeof *out);
  for (int pass = 0; pass < 3; ++pass) {
    const uint64_t before = cr_device_launches(device);
    crema_net_clear_param_diffs(net);
    ok(crema_net_forward(net, &out->loss));
    ok(crema_net_backward(net));
    out->launches = cr_device_launches(device) - before;
  }
  keep_weights(net, &out->values);
  keep_gradients(net, out->gradient, sizeof out->gradient / sizeof *out->gradient);
  crema_net_destroy(net);
}

/* The ReLU in the kernel of a BatchNorm or of a sum is the ReLU of the rounded result, and its
 * gradient the ReLU's: the values are equal. */
TEST(fused_relus_give_the_values_of_relus_out_of_place) {
  static const char *const types[] = {"FLOAT", "FLOAT16", "BFLOAT16"};
  static norm_results fused, single;
  for (int t = 0; t < 6; ++t) {
    run_norms(types[t % 3], true, t >= 3, &fused);
    run_norms(types[t % 3], false, t >= 3, &single);
    assert_true(fused.loss == single.loss && fused.loss > 0);
    assert_int_equal(fused.values.count, single.values.count);
    assert_memory_equal(fused.values.value, single.values.value,
                        single.values.count * sizeof(float));
    for (size_t i = 0; i < sizeof single.gradient / sizeof *single.gradient; ++i) {
      if (fused.gradient[i] == single.gradient[i]) continue;
      fail_msg("%s, %zu: %g, and %g by single layers", types[t % 3], i, (double)fused.gradient[i],
               (double)single.gradient[i]);
    }
    /* Two launches less for the ReLU of a BatchNorm, and one for the ReLU of a sum. Rows of the
     * test itself count nothing. */
    assert_true(single.launches == 0 || fused.launches == single.launches - 5);
    free(fused.values.value);
    free(single.values.value);
  }
}

/* ---- files ---- */

static int begin(void **state) {
  char text[sizeof net_text + 64];
  snprintf(text, sizeof text, net_text, batch, batch, is_small ? 6 : 20, is_small ? 10 : 50,
           is_small ? 50 : 500);
  return make_solver_folder(state, text, solver_text);
}

int main(int argc, char **argv) {
  is_small = argc > 1 && strcmp(argv[1], "small") == 0;
  if (is_small) {
    batch = 4;
    arguments_read = 1;
  }
  if (test_device_context() == NULL) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  device = test_device_context()->device;
  return run_all_tests(begin, remove_solver_folder);
}
