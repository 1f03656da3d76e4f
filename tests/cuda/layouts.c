/* Channels-last convolutions over the fake runtime: nets with fast math, whose images are
 * channels-last between two convolutions, have the results of the same nets with exact math. The
 * fake cuDNN computes in the order of the strides that it is given. Run with
 * NVIDIA_TF32_OVERRIDE=0.
 *
 * With the folder of the models as an argument, and FAKE_CUDA_NO_WORK: how many values three nets
 * reorder in a training step. */
#include <math.h>
#include <stdlib.h>

#include "crema/solver.h"
#include "device/device.h"
#include "device/watch.h"
#include "memory/blob.h"
#include "model_net.h"
#include "net/common/net_struct.h"
#include "solver/solver.h"

static crema_device *device;

/* ---- what runs ---- */

typedef struct seen {
  int reorders; /* conversions to or from channels-last order */
  int images;   /* channels-last images of convolutions */
  int moved;    /* reorders for ops of the layers x */
} seen;

static bool is_image_op(const char *op) {
  return strcmp(op, "conv_fwd") == 0 || strcmp(op, "conv_bwd_data") == 0 ||
         strcmp(op, "conv_bwd_weights") == 0;
}

static void note(void *user, const cr_watch_event *e) {
  seen *s = user;
  const char *layer = e->context->watch.layer;
  if (e->desc != NULL) {
    if (is_image_op(e->op) && e->format[0].layout != NULL) s->images += 1;
  } else if ((e->format[0].layout == NULL) != (e->format[1].layout == NULL)) {
    s->reorders += 1;
    if (layer != NULL && layer[0] == 'x') s->moved += 1;
  }
}

/* ---- nets of two convolutions with something between them ---- */

static const char head[] =
    "default_forward_type: %s default_backward_type: %s force_backward: true\n"
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 2 dim: 6 dim: 9 "
    "dim: "
    "7 } } }\n"
    "layer { name: 'first' type: 'Convolution' bottom: 'data' top: 'a' convolution_param {"
    " num_output: 8 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' }"
    " bias_filler { type: 'constant' value: 0.1 } } }\n";

static const char tail[] =
    "layer { name: 'last' type: 'Convolution' bottom: 'b' top: 'c' convolution_param {"
    " num_output: 4 kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'Reduction' bottom: 'c' top: 'loss' loss_weight: 1"
    " reduction_param { operation: SUMSQ } }\n";

#define LAYER(type, rest) "layer { name: 'x' type: '" type "' bottom: 'a' top: 'b' " rest " }\n"
#define CONV "weight_filler { type: 'xavier' } bias_filler { type: 'constant' value: 0.2 }"
#define TWO                                                                                \
  "layer { name: 'other' type: 'Convolution' bottom: 'data' top: 'a2' convolution_param {" \
  " num_output: 8 kernel_size: 1 " CONV " } }\n"

typedef struct between {
  const char *text;
  bool follows; /* no value of the layers x is reordered */
} between;

static const between all[] = {
    {LAYER("ReLU", ""), true},
    {LAYER("ReLU", "relu_param { negative_slope: 0.2 }"), true},
    {LAYER("Sigmoid", ""), true},
    {LAYER("TanH", ""), true},
    {LAYER("ELU", ""), true},
    {LAYER("Power", "power_param { scale: 0.5 shift: 2 power: 2 }"), true},
    {LAYER("AbsVal", ""), true},
    {LAYER("PReLU", ""), true},
    {LAYER("BatchNorm", ""), true},
    {LAYER("Scale", "scale_param { bias_term: true filler { value: 1.5 } }"), true},
    {LAYER("Bias", "bias_param { filler { value: 0.5 } }"), true},
    {"layer { name: 'x1' type: 'BatchNorm' bottom: 'a' top: 'b' }\n"
     "layer { name: 'x2' type: 'Scale' bottom: 'b' top: 'b' scale_param { bias_term: true } }\n"
     "layer { name: 'x3' type: 'ReLU' bottom: 'b' top: 'b' }\n",
     true},
    {LAYER("Pooling", "pooling_param { pool: MAX kernel_size: 3 stride: 2 pad: 1 }"), true},
    {LAYER("Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }"), true},
    {LAYER("Pooling", "pooling_param { pool: MAX kernel_h: 2 kernel_w: 3 stride: 1 }"), true},
    {LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 1 stride: 2 " CONV " }"),
     false},
    {LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 3 group: 2 " CONV " }"),
     false},
    {LAYER("Convolution", "convolution_param { num_output: 8 kernel_size: 3 group: 8 " CONV " }"),
     false},
    {LAYER("Convolution",
           "convolution_param { num_output: 6 kernel_h: 1 kernel_w: 3 dilation: 2 " CONV " }"),
     false},
    {LAYER("Deconvolution",
           "convolution_param { num_output: 4 kernel_size: 3 stride: 2 " CONV " }"),
     false},
    {TWO "layer { name: 'x' type: 'Eltwise' bottom: 'a' bottom: 'a2' top: 'b' }\n", true},
    {TWO "layer { name: 'x' type: 'Eltwise' bottom: 'a' bottom: 'a2' top: 'b' eltwise_param {"
         " coeff: 1 coeff: -0.5 } }\n",
     true},
    {TWO "layer { name: 'x' type: 'Eltwise' bottom: 'a' bottom: 'a2' top: 'b' eltwise_param {"
         " operation: PROD } }\n",
     true},
    {TWO "layer { name: 'x' type: 'Eltwise' bottom: 'a' bottom: 'a2' top: 'b' eltwise_param {"
         " operation: MAX } }\n",
     true},
    {TWO "layer { name: 'x' type: 'Concat' bottom: 'a' bottom: 'a2' top: 'b' }\n", true},
    {"layer { name: 'x' type: 'Slice' bottom: 'a' top: 's' top: 't' slice_param { slice_point: 4 } "
     "}\nlayer { name: 'x2' type: 'Eltwise' bottom: 's' bottom: 't' top: 'b' }\n",
     true},
    /* One channel is in both orders. */
    {"layer { name: 'x' type: 'Slice' bottom: 'a' top: 's' top: 't' slice_param { slice_point: 1 } "
     "}\nlayer { name: 'x2' type: 'Concat' bottom: 't' bottom: 's' top: 'b' }\n",
     true},
    /* Of the gradient of one position, either order may be meant. */
    {LAYER("Pooling", "pooling_param { pool: AVE global_pooling: true }"), false},
    {LAYER("Pooling", "pooling_param { pool: MAX global_pooling: true }"), false},
    {LAYER("LRN", "lrn_param { local_size: 3 alpha: 0.5 }"), true},
    /* Layers whose rows work on row-major values. */
    {LAYER("Dropout", "dropout_param { dropout_ratio: 0.3 }"), false},
    {LAYER("LRN", "lrn_param { local_size: 3 alpha: 0.5 norm_region: WITHIN_CHANNEL }"), false},
    {LAYER("Softmax", ""), false},
    {LAYER("MVN", ""), false},
    {LAYER("Reshape", "reshape_param { shape { dim: 2 dim: 4 dim: 18 dim: 7 } }"), false},
    {LAYER("Permute", "permute_param { order: 0 order: 2 order: 1 order: 3 }"), false},
    {LAYER("Interp", "interp_param { height: 5 width: 9 }"), false},
    {"layer { name: 'x' type: 'Split' bottom: 'a' top: 's' top: 't' }\n"
     "layer { name: 'x2' type: 'ReLU' bottom: 's' top: 'u' }\n"
     "layer { name: 'x3' type: 'Eltwise' bottom: 'u' bottom: 't' top: 'b' }\n",
     true},
};
enum { NETS = sizeof all / sizeof *all };

static crema_net *new_net(const between *what, const char *type, crema_math math) {
  char text[4096];
  crema_net_options options;
  crema_net *net = NULL;
  const int begin = snprintf(text, sizeof text, head, type, type);
  snprintf(text + begin, sizeof text - (size_t)begin, "%s%s", what->text, tail);
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.device = device;
  options.seed = 5;
  options.math = math;
  ok(crema_net_parse(text, strlen(text), "net", &options, &net));
  float *to = NULL;
  ok(cr_tensor_host_write_floats(crema_net_input(net, 0)->data, &to));
  for (int i = 0; i < 2 * 6 * 9 * 7; ++i) to[i] = (float)sin(0.7 * i) + (float)(i % 5) / 8;
  return net;
}

/* Another engine adds in another order, so values differ by rounding: by the type's, or in FLOAT by
 * the golden cases' tolerance. */
static void check_tensors(cr_tensor *exact, cr_tensor *fast, float tolerance, const char *what,
                          int net) {
  const float *x = NULL, *y = NULL;
  float most = 0;
  ok(cr_tensor_host_read_floats(exact, &x));
  ok(cr_tensor_host_read_floats(fast, &y));
  for (int64_t i = 0; i < cr_tensor_count(exact); ++i) {
    if (fabsf(x[i]) > most) most = fabsf(x[i]);
  }
  for (int64_t i = 0; i < cr_tensor_count(exact); ++i) {
    if (fabsf(x[i] - y[i]) <= tolerance * most + 1e-6f) continue;
    fail_msg("net %d, %s: element %d is %g, not %g", net, what, (int)i, (double)y[i], (double)x[i]);
  }
}

static void check_nets(crema_net *exact, crema_net *fast, float tolerance, int number) {
  for (int i = 0; i < crema_net_blob_count(exact); ++i) {
    crema_blob *a = crema_net_blob_at(exact, i), *b = crema_net_blob_at(fast, i);
    check_tensors(a->data, b->data, tolerance, crema_net_blob_name(exact, i), number);
  }
  check_tensors(crema_net_input(exact, 0)->diff, crema_net_input(fast, 0)->diff, tolerance,
                "gradient of the input", number);
  for (int i = 0; i < crema_net_layer_count(exact); ++i) {
    for (int k = 0; k < crema_net_layer_param_count(exact, i); ++k) {
      check_tensors(crema_net_layer_param(exact, i, k)->diff,
                    crema_net_layer_param(fast, i, k)->diff, tolerance,
                    crema_net_layer_name(exact, i), number);
    }
  }
}

/* Two passes, whose gradients add up. */
static void run_twice(crema_net *net, seen *what) {
  const cr_watcher watcher = {.ran = note, .user = what};
  crema_net_clear_param_diffs(net);
  for (int i = 0; i < 2; ++i) {
    net->context->watch.watcher = &watcher;
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    net->context->watch.watcher = NULL;
  }
}

static void compare(const char *type, float tolerance) {
  for (int n = 0; n < NETS; ++n) {
    seen plain = {0}, last = {0};
    crema_net *exact = new_net(&all[n], type, CREMA_MATH_EXACT);
    crema_net *fast = new_net(&all[n], type, CREMA_MATH_FAST);
    run_twice(exact, &plain);
    run_twice(fast, &last);
    check_nets(exact, fast, tolerance, n);
    assert_int_equal(plain.images, 0);
    /* Three passes of a convolution, twice. */
    assert_true(last.images >= 6);
    if (all[n].follows && last.moved != 0) fail_msg("net %d: %d reorders", n, last.moved);
    crema_net_destroy(fast);
    crema_net_destroy(exact);
  }
  assert_int_equal(cr_device_fallbacks(device), 0);
}

TEST(layouts_give_equal_results_in_float) {
  compare("FLOAT", 1e-5f);
}

TEST(layouts_give_equal_results_in_halves) {
  compare("FLOAT16", 4e-3f);
  compare("BFLOAT16", 3e-2f);
}

/* The program changes weights between passes; the host reads values that are channels-last. */
TEST(weights_follow_the_program) {
  const between relu = {LAYER("ReLU", ""), true};
  seen what = {0};
  crema_net *nets[2] = {new_net(&relu, "FLOAT", CREMA_MATH_EXACT),
                        new_net(&relu, "FLOAT", CREMA_MATH_FAST)};
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 2; ++i) {
      float *w = NULL;
      run_twice(nets[i], &what);
      ok(cr_tensor_host_write_floats(crema_net_layer_param(nets[i], 1, 0)->data, &w));
      for (int k = 0; k < 8 * 6 * 9; ++k) w[k] = (float)((k * 7 + round) % 11) / 20 - 0.2f;
    }
    check_nets(nets[0], nets[1], 1e-5f, round);
  }
  for (int i = 0; i < 2; ++i) crema_net_destroy(nets[i]);
}

/* ---- training ---- */

enum { STEPS = 6, CONVOLUTIONS = 60 };

/* More convolutions than one launch reorders, and points, whose weights have one order. */
static void write_deep_net(const char *type) {
  FILE *file = fopen(path_of("net.prototxt"), "w");
  assert_non_null(file);
  fprintf(file,
          "default_forward_type: %s default_backward_type: %s\n"
          "layer { name: 'data' type: 'DummyData' top: 'c0' dummy_data_param { shape { dim: 2 dim: "
          "3 dim: 5 dim: 6 } data_filler { type: 'gaussian' std: 1 } } }\n",
          type, type);
  for (int i = 0; i < CONVOLUTIONS; ++i) {
    fprintf(file,
            "layer { name: 'c%d' type: 'Convolution' bottom: 'c%d' top: 'c%d' convolution_param {"
            " num_output: %d kernel_size: %d pad: %d weight_filler { type: 'msra' }"
            " bias_filler { type: 'constant' value: 0.1 } } }\n",
            i + 1, i, i + 1, 2 + i % 4, i % 9 == 4 ? 1 : 3, i % 9 == 4 ? 0 : 1);
    fprintf(file, "layer { name: 'n%d' type: 'BatchNorm' bottom: 'c%d' top: 'c%d' }\n", i + 1,
            i + 1, i + 1);
  }
  fprintf(file,
          "layer { name: 'loss' type: 'Reduction' bottom: 'c%d' top: 'loss' loss_weight: 0.01"
          " reduction_param { operation: SUMSQ } }\n",
          CONVOLUTIONS);
  assert_int_equal(fclose(file), 0);
}

/* *launches: of the last step. */
static crema_solver *train_deep_net(crema_math math, uint64_t *launches) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  options.device = device;
  options.math = math;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_solver_step(solver, STEPS - 1));
  *launches = cr_device_launches(device);
  ok(crema_solver_step(solver, 1));
  *launches = cr_device_launches(device) - *launches;
  return solver;
}

/* The update reads gradients and writes weights in row-major order. A launch reorders the gradients
 * or the weights of up to 48 convolutions. */
static void train_in_orders(const char *type, float tolerance) {
  uint64_t exact_launches = 0, fast_launches = 0;
  write_deep_net(type);
  crema_solver *exact = train_deep_net(CREMA_MATH_EXACT, &exact_launches);
  crema_solver *fast = train_deep_net(CREMA_MATH_FAST, &fast_launches);
  crema_net *a = crema_solver_net(exact), *b = crema_solver_net(fast);
  for (int i = 0; i < crema_net_layer_count(a); ++i) {
    for (int k = 0; k < crema_net_layer_param_count(a, i); ++k) {
      check_tensors(crema_net_layer_param(a, i, k)->data, crema_net_layer_param(b, i, k)->data,
                    tolerance, crema_net_layer_name(a, i), i);
    }
  }
  print_message("%s: %d launches a step exact, %d fast\n", type, (int)exact_launches,
                (int)fast_launches);
  assert_true(fast_launches <= exact_launches + 10);
  crema_solver_destroy(fast);
  crema_solver_destroy(exact);
}

/* Channels-last kernels add in another order, and rounding grows over the steps: to 1e-3 of the
 * largest weight in FLOAT, and to 0.2 in BFLOAT16, which has 8 bits. A gradient or weight in the
 * wrong order differs by about 1. */
TEST(parameters_are_reordered_together) {
  train_in_orders("FLOAT", 1e-3f);
  train_in_orders("BFLOAT16", 0.2f);
}

/* ---- nets of models/ ---- */

static const char *models;

/* Of the third step and of the fourth. */
static void check_step(const char *name, int side, int reorders, uint64_t most) {
  static const char *const types[] = {"FLOAT", "BFLOAT16"};
  for (int t = 0; t < 2; ++t) {
    crema_solver_options options;
    crema_solver *solver = NULL;
    seen what = {0};
    const cr_watcher watcher = {.ran = note, .user = &what};
    write_model_net(models, name, types[t], side);
    crema_solver_options_init(&options);
    options.device = device;
    options.math = CREMA_MATH_FAST;
    ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
    ok(crema_solver_step(solver, 2));
    const uint64_t before = cr_device_launches(device);
    ok(crema_solver_step(solver, 1));
    const uint64_t launches = cr_device_launches(device) - before;
    solver->context->watch.watcher = &watcher;
    ok(crema_solver_step(solver, 1));
    solver->context->watch.watcher = NULL;
    crema_solver_destroy(solver);
    print_message("%s in %s: %d reorders a step, at most %d; %llu launches, at most %llu\n", name,
                  types[t], what.reorders, reorders, (unsigned long long)launches,
                  (unsigned long long)most);
    assert_true(what.reorders <= reorders);
    assert_true(launches <= most);
    assert_true(what.images > 0);
  }
}

static void alexnet(void **state) {
  (void)state;
  check_step("alexnet", 227, 13, 70);
}

static void googlenet(void **state) {
  (void)state;
  check_step("googlenet", 224, 50, 425);
}

static void resnet50(void **state) {
  (void)state;
  check_step("resnet50", 224, 35, 565);
}

static int begin_tests(void **state) {
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return make_solver_folder(state, "", model_solver_text);
}

int main(int argc, char **argv) {
  const struct CMUnitTest steps[] = {
      cmocka_unit_test(alexnet),
      cmocka_unit_test(googlenet),
      cmocka_unit_test(resnet50),
  };
  if (argc < 2) return run_all_tests(begin_tests, remove_solver_folder);
  models = argv[1];
  arguments_read = 1;
  return run_each_of(steps, begin_tests, remove_solver_folder);
}
