/* The element types of layers and blobs, and half precision while a net runs. */
#include <math.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "device/memory/heap.h"
#include "net_case.h"

#define GAUSS \
  "weight_filler { type: 'gaussian' std: 0.2 } bias_filler { type: 'constant' value: 0.1 } "

/* A net with a branch, layers in place, a layer of the convolution's size behind it, and a loss. */
#define BRANCHES                                                                              \
  INPUT("data", DIM4(4, 3, 12, 12))                                                           \
  INPUT("label", "dim: 4")                                                                    \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"                       \
  "  convolution_param { num_output: 16 kernel_size: 3 " GAUSS                                \
  "} }\n"                                                                                     \
  "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"                          \
  "layer { name: 'left' type: 'Convolution' bottom: 'conv' top: 'left'"                       \
  "  convolution_param { num_output: 16 kernel_size: 3 " GAUSS                                \
  "} }\n"                                                                                     \
  "layer { name: 'right' type: 'Convolution' bottom: 'conv' top: 'right'"                     \
  "  convolution_param { num_output: 16 kernel_size: 3 " GAUSS                                \
  "} }\n"                                                                                     \
  "layer { name: 'sum' type: 'Eltwise' bottom: 'left' bottom: 'right' top: 'sum' }\n"         \
  "layer { name: 'pool' type: 'Pooling' bottom: 'sum' top: 'pool'"                            \
  "  pooling_param { kernel_size: 2 stride: 2 } }\n"                                          \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'pool' top: 'fc'"                          \
  "  inner_product_param { num_output: 10 " GAUSS                                             \
  "} }\n"                                                                                     \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' }\n" \
  "layer { name: 'accuracy' type: 'Accuracy' bottom: 'fc' bottom: 'label' top: 'accuracy' }\n"

typedef struct named_type {
  const char *name;
  crema_dtype type;
} named_type;

static const named_type types[] = {{NULL, CREMA_F32},
                                   {"DOUBLE", CREMA_F64},
                                   {"FLOAT", CREMA_F32},
                                   {"FLOAT16", CREMA_F16},
                                   {"BFLOAT16", CREMA_BF16}};

enum { TYPES = sizeof types / sizeof *types };

/* "field: NAME", or nothing for the first of `types`. */
static const char *field(const char *name, int type, char *text, size_t size) {
  text[0] = '\0';
  if (types[type].name != NULL) snprintf(text, size, "%s: %s ", name, types[type].name);
  return text;
}

static crema_dtype first_of(const int *choice, int choices) {
  for (int i = 0; i < choices; ++i) {
    if (types[choice[i]].name != NULL) return types[choice[i]].type;
  }
  return CREMA_F32;
}

/* Every choice of a layer's own type and mathematics and of the defaults of both (S4-40): the
 * layer's own mathematics, else its own type, else the net's mathematics, else the net's type. */
TEST(s4_39_s4_40_types_follow_the_fields) {
  for (int n = 0; n < TYPES * TYPES * TYPES * TYPES; ++n) {
    int math = n % TYPES, own = n / TYPES % TYPES, net_math = n / TYPES / TYPES % TYPES,
        net_type = n / TYPES / TYPES / TYPES;
    char a[2][40], b[2][40], c[2][48], d[2][48], text[1024];
    snprintf(
        text, sizeof text,
        "%s%s%s%s" INPUT(
            "data", DIM2(2, 3)) "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' %s%s%s%s }",
        field("default_forward_math", net_math, c[0], sizeof c[0]),
        field("default_backward_math", net_type, c[1], sizeof c[1]),
        field("default_forward_type", net_type, d[0], sizeof d[0]),
        field("default_backward_type", net_math, d[1], sizeof d[1]),
        field("forward_math", math, a[0], sizeof a[0]),
        field("backward_math", own, a[1], sizeof a[1]),
        field("forward_type", own, b[0], sizeof b[0]),
        field("backward_type", math, b[1], sizeof b[1]));
    crema_net *net = build(text, CREMA_TRAIN);
    const cr_layer_types *found = &net->layer[1].layer->types;
    assert_int_equal(found->forward_math,
                     first_of((const int[]){math, own, net_math, net_type}, 4));
    assert_int_equal(found->backward_math,
                     first_of((const int[]){own, math, net_type, net_math}, 4));
    assert_int_equal(found->forward, first_of((const int[]){own, net_type}, 2));
    assert_int_equal(found->backward, first_of((const int[]){math, net_math}, 2));
    assert_int_equal(crema_blob_data_type(blob_of(net, "r")), found->forward);
    assert_int_equal(crema_blob_diff_type(blob_of(net, "r")), found->backward);
    crema_net_destroy(net);
  }
}

/* A layer that transforms what it reads keeps gradients in FLOAT unless it says otherwise. */
TEST(layers_that_read_data_have_no_half_gradients) {
  for (int own = 0; own < 2; ++own) {
    char text[512];
    snprintf(text, sizeof text,
             "default_forward_type: FLOAT16 default_backward_type: FLOAT16 "
             "layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' transform_param { } %s"
             "  memory_data_param { batch_size: 2 channels: 1 height: 2 width: 2 } }",
             own ? "backward_type: FLOAT16" : "");
    crema_net *net = build(text, CREMA_TRAIN);
    assert_int_equal(net->layer[0].layer->types.forward, CREMA_F16);
    assert_int_equal(net->layer[0].layer->types.backward, own ? CREMA_F16 : CREMA_F32);
    crema_net_destroy(net);
  }
}

TEST(types_without_fractions_are_refused) {
  refuse("layer { name: 'r' type: 'Input' top: 'r' forward_math: INT }", CREMA_E_UNSUPPORTED,
         WORDS("'r'", "forward_math", "BFLOAT16"));
  refuse("layer { name: 'r' type: 'Input' top: 'r' backward_type: INT }", CREMA_E_UNSUPPORTED,
         WORDS("'r'", "backward_type", "BFLOAT16"));
  refuse("default_forward_type: INT8 layer { name: 'r' type: 'Input' top: 'r' }",
         CREMA_E_UNSUPPORTED, WORDS("'r'", "default_forward_type"));
  refuse(INPUT("x", DIM2(2, 3)) "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' forward_type: "
                                "UINT8 }",
         CREMA_E_UNSUPPORTED, WORDS("'r' (ReLU)", "uint8", "ArgMax"));
  refuse(
      "layer { name: 'in' type: 'Input' top: 'x' forward_type: INT input_param { shape { dim: 2 "
      "dim: 3 } } } layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'fc' "
      "inner_product_param { num_output: 2 } }",
      CREMA_E_UNSUPPORTED, WORDS("'fc' (InnerProduct)", "bottom 0 'x'", "int"));
  refuse(
      "layer { name: 'in' type: 'Input' top: 'x' forward_type: INT input_param { shape { dim: 2 "
      "} } } layer { name: 'flat' type: 'Reshape' bottom: 'x' top: 'y' reshape_param { shape { "
      "dim: 2 dim: 1 } } } layer { name: 'tanh' type: 'TanH' bottom: 'y' top: 'z' }",
      CREMA_E_UNSUPPORTED, WORDS("'tanh' (TanH)", "bottom 0 'y'", "int"));
  refuse("default_backward_math: BOOL layer { name: 'r' type: 'Input' top: 'r' }",
         CREMA_E_UNSUPPORTED, WORDS("default_backward_math"));
  refuse("global_grad_scale: 0 layer { name: 'r' type: 'Input' top: 'r' }", CREMA_E_RANGE,
         WORDS("global_grad_scale", "0"));
}

/* Labels, indices and a selector, in one type, with all the layers that take them; the labels go
 * through a split and a view. */
#define LABELED(type)                                                                              \
  INPUT("data", DIM2(4, 3))                                                                        \
  "layer { name: 'in_label' type: 'Input' top: 'label' top: 'select' " type                        \
  " input_param { shape { dim: 4 dim: 1 } shape { dim: 4 } } }\n"                                  \
  "layer { name: 'ones' type: 'DummyData' top: 'ones' " type                                       \
  " dummy_data_param { shape { dim: 4 } data_filler { value: 1 } } }\n"                            \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'"                               \
  "  inner_product_param { num_output: 3 " GAUSS                                                   \
  "} }\n"                                                                                          \
  "layer { name: 'flat' type: 'Flatten' bottom: 'label' top: 'flat' flatten_param { axis: 0 } }\n" \
  "layer { name: 'embed' type: 'Embed' bottom: 'flat' top: 'embed'"                                \
  "  embed_param { input_dim: 3 num_output: 3 " GAUSS                                              \
  "} }\n"                                                                                          \
  "layer { name: 'sum' type: 'Eltwise' bottom: 'fc' bottom: 'embed' top: 'sum' }\n"                \
  "layer { name: 'keep' type: 'Filter' bottom: 'sum' bottom: 'select' top: 'keep' }\n"             \
  "layer { name: 'best' type: 'ArgMax' bottom: 'sum' top: 'best' " type                            \
  " argmax_param { axis: 1 } }\n"                                                                  \
  "layer { name: 'again' type: 'BatchReindex' bottom: 'keep' bottom: 'ones' top: 'again' }\n"      \
  "layer { name: 'softmax' type: 'SoftmaxWithLoss' bottom: 'again' bottom: 'flat' top: 'softmax' " \
  "}"                                                                                              \
  "layer { name: 'hinge' type: 'HingeLoss' bottom: 'sum' bottom: 'best' top: 'hinge' "             \
  "propagate_down: true propagate_down: false }\n"                                                 \
  "layer { name: 'accuracy' type: 'Accuracy' bottom: 'sum' bottom: 'flat' top: 'accuracy' }\n"

/* Written as floats or as themselves, integers give what floats give, to the bit. */
TEST(layers_read_integers) {
  static const char *const fields[] = {"", "forward_type: INT", "forward_type: UINT",
                                       "forward_type: INT8", "forward_type: UINT8"};
  static const char *const tops[] = {"softmax", "hinge", "accuracy", "best"};
  static const float label[] = {0, 2, 1, 2}, select[] = {1, 0, 1, 1};
  float first[4][4] = {{0}}, gradient[9];
  for (int n = 0; n < 5; ++n) {
    char text[4096];
    float *values = NULL;
    double loss = 0;
    snprintf(text, sizeof text, "debug_info: true " LABELED("%s"), fields[n], fields[n], fields[n]);
    crema_net *net = build(text, CREMA_TRAIN);
    fill(blob_of(net, "data"), -1, 0.3f);
    if (n == 1) {
      void *own = NULL;
      ok(crema_blob_mutable_data_as(blob_of(net, "label"), CREMA_I32, &own));
      memcpy(own, (const int32_t[]){0, 2, 1, 2}, 16);
    } else {
      ok(crema_blob_mutable_cpu_data(blob_of(net, "label"), &values));
      /* What is between two integers is rounded. */
      for (int i = 0; i < 4; ++i) values[i] = label[i] + (n > 0 ? 0.25f : 0);
    }
    ok(crema_blob_mutable_cpu_data(blob_of(net, "select"), &values));
    memcpy(values, select, sizeof select);
    ok(crema_net_forward(net, &loss));
    ok(crema_net_backward(net));
    crema_dtype type = crema_blob_data_type(blob_of(net, "label"));
    assert_true(n == 0 ? type == CREMA_F32 : !cr_dtype_is_floating(type));
    assert_int_equal(crema_blob_data_type(blob_of(net, "flat")), type);
    assert_int_equal(crema_blob_data_type(blob_of(net, "best")), type);
    assert_int_equal(crema_blob_data_type(blob_of(net, "embed")), CREMA_F32);
    assert_int_equal(crema_blob_diff_type(blob_of(net, "label")), CREMA_F32);
    for (int t = 0; t < 4; ++t) {
      const float *found = NULL;
      size_t bytes = (size_t)crema_blob_count(blob_of(net, tops[t])) * sizeof(float);
      ok(crema_blob_cpu_data(blob_of(net, tops[t]), &found));
      if (n == 0) memcpy(first[t], found, bytes);
      assert_memory_equal(found, first[t], bytes);
    }
    if (n == 0) memcpy(gradient, diff_of(param_of(net, "fc", 0)), sizeof gradient);
    assert_memory_equal(diff_of(param_of(net, "fc", 0)), gradient, sizeof gradient);
    crema_net_destroy(net);
  }
}

/* Answers of yes and no, as floats and as each type of integers, give the same loss and gradient.
 */
TEST(answers_are_read_as_integers) {
  static const char *const fields[] = {"", "forward_type: BOOL", "forward_type: UINT8",
                                       "forward_type: INT8", "forward_type: INT"};
  float loss[5], gradient[5][6];
  for (int n = 0; n < 5; ++n) {
    char text[1024];
    float *values = NULL;
    snprintf(text, sizeof text,
             "force_backward: true " INPUT("x", DIM2(2, 3))
             "layer { name: 'in_t' type: 'Input' top: 't' %s input_param { shape { dim: 2 dim: 3 } } }"
             "layer { name: 'loss' type: 'SigmoidCrossEntropyLoss' bottom: 'x' bottom: 't' "
             "top: 'loss' }",
             fields[n]);
    crema_net *net = build(text, CREMA_TRAIN);
    fill(blob_of(net, "x"), -1.5f, 0.7f);
    ok(crema_blob_mutable_cpu_data(blob_of(net, "t"), &values));
    for (int i = 0; i < 6; ++i) values[i] = (float)(i % 2);
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    loss[n] = data_of(blob_of(net, "loss"))[0];
    memcpy(gradient[n], diff_of(blob_of(net, "x")), sizeof gradient[n]);
    assert_true(loss[n] > 0 && loss[n] == loss[0]);
    assert_memory_equal(gradient[n], gradient[0], sizeof gradient[0]);
    crema_net_destroy(net);
  }
}

#define HALF(type) "default_forward_type: " #type " default_backward_type: " #type " "

/* Pictures and parameters are halves; labels, losses and scores are not. */
TEST(s4_41_labels_and_losses_keep_full_precision) {
  crema_net *net = build(HALF(BFLOAT16) BRANCHES, CREMA_TRAIN);
  static const char *const half[] = {"data", "conv", "left", "sum", "pool", "fc"};
  static const char *const full[] = {"label", "loss", "accuracy"};
  for (size_t i = 0; i < sizeof half / sizeof *half; ++i) {
    assert_int_equal(crema_blob_data_type(blob_of(net, half[i])), CREMA_BF16);
    assert_int_equal(crema_blob_diff_type(blob_of(net, half[i])), CREMA_BF16);
  }
  for (size_t i = 0; i < sizeof full / sizeof *full; ++i) {
    assert_int_equal(crema_blob_data_type(blob_of(net, full[i])), CREMA_F32);
  }
  assert_int_equal(crema_blob_data_type(param_of(net, "fc", 0)), CREMA_BF16);
  assert_int_equal(crema_blob_diff_type(param_of(net, "fc", 0)), CREMA_BF16);
  crema_net_destroy(net);
}

/* A layer whose tops share the bottom's values has tops of the bottom's types, whatever its own. */
TEST(s4_35_views_have_the_type_of_what_they_show) {
  static const char *const views[] = {
      "type: 'Flatten' bottom: 'x' top: 'view'",
      "type: 'Reshape' bottom: 'x' top: 'view' reshape_param { shape { dim: 0 dim: -1 } }",
      "type: 'Split' bottom: 'x' top: 'view' top: 'more'",
      "type: 'Concat' bottom: 'x' top: 'view'",
      "type: 'Slice' bottom: 'x' top: 'view'",
  };
  for (size_t i = 0; i < sizeof views / sizeof *views; ++i) {
    char text[2048];
    double loss = 0;
    bool split = strstr(views[i], "Split") != NULL;
    snprintf(text, sizeof text,
             HALF(FLOAT16) "force_backward: true " INPUT(
                 "data", DIM2(2, 3)) "layer { name: 'x' type: 'TanH' bottom: 'data' top: 'x' }"
                                     "layer { name: 'view' forward_type: FLOAT backward_type: "
                                     "DOUBLE %s }"
                                     "layer { name: 'r' type: 'Power' bottom: 'view' top: 'r' "
                                     "loss_weight: 1 power_param { scale: 2 } }",
             views[i]);
    crema_net *net = build(text, CREMA_TRAIN);
    crema_blob *x = blob_of(net, "x"), *view = blob_of(net, "view");
    assert_int_equal(crema_blob_data_type(view), CREMA_F16);
    assert_int_equal(crema_blob_diff_type(view), split ? CREMA_F64 : CREMA_F16);
    assert_true(cr_tensor_shares_with(x->data, view->data));
    assert_true(split || cr_tensor_shares_with(x->diff, view->diff));
    fill(blob_of(net, "data"), 0, 0);
    ok(crema_net_forward(net, &loss));
    ok(crema_net_backward(net));
    assert_true(diff_of(blob_of(net, "data"))[5] == 2);
    crema_net_destroy(net);
  }
}

#define SHARED_FC(name, types)                                               \
  "layer { name: '" name "' type: 'InnerProduct' bottom: 'data' top: '" name \
  "' param { name: 'w' "                                                     \
  "} " types " inner_product_param { num_output: 2 bias_term: false } }\n"

/* Both layers and both types are named. */
TEST(s4_35_layers_of_one_parameter_have_one_type) {
  refuse(INPUT("data", DIM2(2, 3)) SHARED_FC("a", "") SHARED_FC("b", "forward_type: FLOAT16"),
         CREMA_E_TYPE,
         WORDS("'b'", "'w'", "'a'", "values", "float16 and float,", "float and float"));
  refuse(INPUT("data", DIM2(2, 3)) SHARED_FC("a", "") SHARED_FC("b", "backward_type: DOUBLE"),
         CREMA_E_TYPE, WORDS("'b'", "'a'", "float and double,", "float and float"));
  crema_net *train =
      build(HALF(BFLOAT16) INPUT("data", DIM2(2, 3)) SHARED_FC("a", ""), CREMA_TRAIN);
  crema_net *test = build(INPUT("data", DIM2(2, 3)) SHARED_FC("a", ""), CREMA_TEST);
  assert_fails(cr_net_share_params(test, train), CREMA_E_TYPE,
               "parameter 0 of layer 'a': its type is float here and bfloat16 in the other net");
  assert_false(cr_tensor_shares_with(param_of(test, "a", 0)->data, param_of(train, "a", 0)->data));
  crema_net_destroy(test);
  crema_net_destroy(train);
}

static void run_once(crema_net *net, double *loss) {
  fill(blob_of(net, "data"), -1.0f, 0.002f);
  fill(blob_of(net, "label"), 0.0f, 2.0f);
  ok(crema_net_forward(net, loss));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
}

/* The largest difference of two gradients, relative to the largest value. */
static double difference(crema_blob *a, crema_blob *b) {
  const float *x = NULL, *y = NULL;
  double largest = 0, apart = 0;
  ok(crema_blob_cpu_diff(a, &x));
  ok(crema_blob_cpu_diff(b, &y));
  for (int64_t i = 0; i < crema_blob_count(a); ++i) {
    largest = fmax(largest, fabs((double)x[i]));
    apart = fmax(apart, fabs((double)x[i] - (double)y[i]));
  }
  assert_true(largest > 0);
  return apart / largest;
}

TEST(s4_60_gradients_agree_in_all_types) {
  static const struct {
    const char *fields;
    double tolerance;
  } cases[] = {{HALF(DOUBLE), 1e-4},
               {HALF(FLOAT16), 1e-2},
               {HALF(BFLOAT16), 6e-2},
               {"default_forward_type: FLOAT16 ", 1e-2},
               {"default_backward_type: BFLOAT16 ", 4e-2},
               {"default_forward_math: DOUBLE ", 1e-4}};
  double loss = 0, other = 0;
  crema_net *floats = build(BRANCHES, CREMA_TRAIN);
  run_once(floats, &loss);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[8192];
    snprintf(text, sizeof text, "%s%s", cases[i].fields, BRANCHES);
    crema_net *net = build(text, CREMA_TRAIN);
    run_once(net, &other);
    assert_near(other, loss, cases[i].tolerance);
    assert_true(difference(param_of(floats, "conv", 0), param_of(net, "conv", 0)) <
                cases[i].tolerance);
    assert_true(difference(param_of(floats, "fc", 0), param_of(net, "fc", 0)) < cases[i].tolerance);
    crema_net_destroy(net);
  }
  crema_net_destroy(floats);
}

/* Gradients are multiplied with the factor, whatever the loss; a power of two changes no digit. */
TEST(s4_43_the_scale_multiplies_all_gradients) {
  double loss = 0, other = 0;
  crema_net *plain = build(BRANCHES, CREMA_TRAIN),
            *scaled = build("global_grad_scale: 8 " BRANCHES, CREMA_TRAIN);
  run_once(plain, &loss);
  run_once(scaled, &other);
  assert_true(loss == other);
  const float *x = NULL, *y = NULL;
  ok(crema_blob_cpu_diff(param_of(plain, "conv", 0), &x));
  ok(crema_blob_cpu_diff(param_of(scaled, "conv", 0), &y));
  for (int64_t i = 0; i < crema_blob_count(param_of(plain, "conv", 0)); ++i) {
    assert_true(8 * x[i] == y[i]);
  }
  crema_net_destroy(scaled);
  crema_net_destroy(plain);
}

static uint64_t conversions_of(const crema_net *net) {
  uint64_t sum = 0;
  for (int i = 0; i < net->blobs; ++i) {
    sum += cr_tensor_conversions(net->blob[i]->data) + cr_tensor_conversions(net->blob[i]->diff);
  }
  for (int i = 0; i < net->learnables; ++i) {
    sum += cr_tensor_conversions(net->learnable[i]->data) +
           cr_tensor_conversions(net->learnable[i]->diff);
  }
  return sum;
}

/* In each pass, no value is converted more than once to float and once from it. */
TEST(each_value_is_converted_once_per_pass) {
  double loss = 0;
  crema_net *floats = build(BRANCHES, CREMA_TRAIN),
            *halves = build(HALF(FLOAT16) BRANCHES, CREMA_TRAIN);
  for (int pass = 0; pass < 3; ++pass) {
    uint64_t before[64];
    run_once(floats, &loss);
    assert_int_equal(conversions_of(floats), 0);
    fill(blob_of(halves, "data"), -1.0f, 0.002f);
    fill(blob_of(halves, "label"), 0.0f, 2.0f);
    assert_true(halves->blobs <= 64);
    for (int half = 0; half < 2; ++half) {
      for (int i = 0; i < halves->blobs; ++i) {
        before[i] = cr_tensor_conversions(halves->blob[i]->data) +
                    cr_tensor_conversions(halves->blob[i]->diff);
      }
      if (half == 0) ok(crema_net_forward(halves, &loss));
      crema_net_clear_param_diffs(halves);
      if (half == 1) ok(crema_net_backward(halves));
      for (int i = 0; i < halves->blobs; ++i) {
        uint64_t now = cr_tensor_conversions(halves->blob[i]->data) +
                       cr_tensor_conversions(halves->blob[i]->diff);
        /* Backward: the data once more to float, the diff to float and from it. The blob 'conv'
         * has two values in a pass, because the ReLU is in place. */
        const bool two = strcmp(crema_net_blob_name(halves, i), "conv") == 0;
        assert_in_range(now - before[i], 0, half == 0 ? 2 : two ? 5 : 3);
      }
    }
  }
  crema_net_destroy(halves);
  crema_net_destroy(floats);
}

/* After a pass nothing is left of what kernels wanted in float. */
TEST(halves_take_half_the_memory) {
  double loss = 0;
  size_t bytes[2] = {0};
  for (int k = 0; k < 2; ++k) {
    crema_net *net =
        build(k == 0 ? "force_backward: false " BRANCHES : HALF(FLOAT16) BRANCHES, CREMA_TEST);
    fill(blob_of(net, "data"), -1.0f, 0.002f);
    fill(blob_of(net, "label"), 0.0f, 2.0f);
    ok(crema_net_forward(net, &loss));
    for (int i = 0; i < net->blobs; ++i) bytes[k] += cr_tensor_memory_of(net->blob[i]->data).host;
    for (int i = 0; i < net->learnables; ++i) {
      bytes[k] += cr_tensor_memory_of(net->learnable[i]->data).host;
    }
    crema_net_destroy(net);
  }
  if (bytes[1] > bytes[0] * 55 / 100) print_error("%zu of %zu bytes\n", bytes[1], bytes[0]);
  assert_true(bytes[1] <= bytes[0] * 55 / 100);
}

static struct { int large; /* blocks of this net's floats, and larger ones */ } made;

enum { LARGE = 100000 };

static void *count_large(void *user, size_t bytes, size_t alignment) {
  (void)user;
  if (bytes >= LARGE) ++made.large;
  return aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
}

static void free_block(void *user, void *memory) {
  (void)user;
  free(memory);
}

#define LARGE_CONV(name, bottom)                                                  \
  "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" name \
  "'"                                                                             \
  "  convolution_param { num_output: 16 kernel_size: 3 pad: 1 " GAUSS "} }\n"

/* The floats of one layer lie where those of the layers before it lay, in memory that the net's
 * context keeps for the next pass. */
static void floats_of_all_layers_share_memory(void **state) {
  (void)state;
  static const crema_host_allocator counting = {count_large, free_block, NULL};
  double loss = 0;
  crema_net *net = build(HALF(FLOAT16) INPUT("data", DIM4(2, 16, 40, 40)) LARGE_CONV("a", "data")
                             LARGE_CONV("b", "a") LARGE_CONV("c", "b") LARGE_CONV("d", "c")
                                 LARGE_CONV("e", "d") LARGE_CONV("f", "e"),
                         CREMA_TEST);
  fill(blob_of(net, "data"), -1.0f, 0.0001f);
  ok(crema_host_set_allocator(&counting));
  made.large = 0;
  ok(crema_net_forward(net, &loss));
  assert_true(made.large > 0);
  ok(crema_net_forward(net, &loss));
  made.large = 0;
  ok(crema_net_forward(net, &loss));
  ok(crema_host_set_allocator(NULL));
  assert_int_equal(made.large, 0);
  const cr_heap_usage usage = cr_heap_usage_of(net->context);
  assert_int_equal(usage.in_use, 0);
  assert_in_range(usage.highest, 1, 5 * crema_blob_count(blob_of(net, "a")) * sizeof(float));
  crema_net_destroy(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(s4_39_s4_40_types_follow_the_fields),
      cmocka_unit_test(layers_that_read_data_have_no_half_gradients),
      cmocka_unit_test(layers_read_integers),
      cmocka_unit_test(types_without_fractions_are_refused),
      cmocka_unit_test(s4_41_labels_and_losses_keep_full_precision),
      cmocka_unit_test(s4_35_views_have_the_type_of_what_they_show),
      cmocka_unit_test(s4_35_layers_of_one_parameter_have_one_type),
      cmocka_unit_test(s4_60_gradients_agree_in_all_types),
      cmocka_unit_test(s4_43_the_scale_multiplies_all_gradients),
      cmocka_unit_test(each_value_is_converted_once_per_pass),
      cmocka_unit_test(halves_take_half_the_memory),
      cmocka_unit_test(floats_of_all_layers_share_memory),
  };
  return run_each_of(tests, NULL, NULL);
}
