/* What the forks of SegNet and ENet have: unpooling that learns, BN of two parameters, a weight for
 * each class, dropout that samples in tests. */
#include <math.h>

#include "crema/model.h"
#include "net_case.h"

/* ---- unpooling ---- */

#define CONV(name, bottom, outputs)                                                     \
  "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" name       \
  "' convolution_param { num_output: " #outputs                                         \
  " kernel_size: 3 pad: 1 weight_filler { type: 'xavier' } bias_filler { value: 0.1 } " \
  "} }\n"
#define UNPOOL(name, bottom, mask)                                                                \
  "layer { name: '" name "' type: 'Upsample' bottom: '" bottom "' bottom: '" mask "' top: '" name \
  "' upsample_param { scale: 2 } }\n"

/* The mask comes from a layer that learns, and has two readers. */
static const char unpooling[] =
    "default_forward_type: DOUBLE default_backward_type: DOUBLE\n" INPUT("data", DIM4(2, 1, 6, 4))
        CONV("low", "data", 2)
    "layer { name: 'pool' type: 'Pooling' bottom: 'low' top: 'small' top: 'mask'"
    "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n" CONV("high", "small", 2)
        UNPOOL("up", "high", "mask") UNPOOL("copy", "small", "mask")
    "layer { name: 'sum' type: 'Eltwise' bottom: 'up' bottom: 'copy' top: 'sum' }\n"
    "layer { name: 'square' type: 'Power' bottom: 'sum' top: 'square' power_param { power: 2 } }\n"
    "layer { name: 'loss' type: 'Reduction' bottom: 'square' top: 'loss' loss_weight: 1 }\n";

static double loss_with(crema_net *net, crema_blob *weights, int64_t at, float change) {
  double loss = 0;
  float *values = NULL;
  ok(crema_blob_mutable_cpu_data(weights, &values));
  values[at] += change;
  ok(crema_net_forward(net, &loss));
  ok(crema_blob_mutable_cpu_data(weights, &values));
  values[at] -= change;
  return loss;
}

TEST(layers_learn_through_a_mask) {
  static const char *const layers[] = {"low", "high"};
  crema_net *net = build(unpooling, CREMA_TRAIN);
  uint32_t random = 5;
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob_of(net, "data"), &data));
  for (int i = 0; i < 48; ++i) {
    random = random * 1664525u + 1013904223u;
    data[i] = (float)(random >> 8) / 16777216.0f - 0.5f;
  }
  ok(crema_net_forward(net, NULL));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  for (int l = 0; l < 2; ++l) {
    for (int p = 0; p < 2; ++p) {
      crema_blob *weights = param_of(net, layers[l], p);
      const int64_t count = crema_blob_count(weights);
      float gradient[64];
      assert_in_range(count, 1, 64);
      memcpy(gradient, diff_of(weights), (size_t)count * sizeof *gradient);
      for (int64_t i = 0; i < count; ++i) {
        const float step = 1.0f / 4096;
        const double slope =
            (loss_with(net, weights, i, step) - loss_with(net, weights, i, -step)) / (2 * step);
        /* The net is of doubles; the difference is off by the step's square, the gradient is read
         * as a float. */
        assert_near(slope, (double)gradient[i], 1e-5 * (1 + fabs(slope)));
      }
    }
  }
  crema_net_destroy(net);
}

/* ---- BN ---- */

#define BN(fields)                                                        \
  "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'y' bn_param { " fields \
  " "                                                                     \
  "scale_filler { value: 3 } shift_filler { value: 0.5 } } }\n"
#define BN_NET(fields) INPUT("x", DIM4(2, 2, 1, 2)) BN(fields)

/* Values of x, and what a learning BN of scale 3 and shift 0.5 makes of channel 0: mean 2.5,
 * variance 1.25. */
static const float given[8] = {1, 2, 10, 20, 3, 4, 30, 40};

static void fill_x(crema_blob *blob) {
  float *data = NULL;
  ok(crema_blob_mutable_cpu_data(blob, &data));
  memcpy(data, given, sizeof given);
}

static void check_bn(const float *y, bool learns, float scale, float shift) {
  for (int i = 0; i < 8; ++i) {
    const double mean = i / 2 % 2 == 0 ? 2.5 : 25, variance = i / 2 % 2 == 0 ? 1.25 : 125;
    const double x = (double)given[i], normal = learns ? (x - mean) / sqrt(variance) : x;
    assert_near((double)y[i], (double)scale * normal + (double)shift, 1e-5);
  }
}

TEST(bn_takes_the_batch_in_both_phases) {
  for (int phase = 0; phase < 2; ++phase) {
    crema_net *net = build(BN_NET(""), phase == 0 ? CREMA_TRAIN : CREMA_TEST);
    fill_x(blob_of(net, "x"));
    for (int pass = 0; pass < 2; ++pass) {
      ok(crema_net_forward(net, NULL));
      check_bn(values(net, "y"), true, 3, 0.5f);
    }
    assert_int_equal(crema_blob_count(param_of(net, "bn", 0)), 2);
    crema_net_destroy(net);
  }
}

/* Two more tops have the batch's mean and variance, also in a net that trains and in a model. */
TEST(bn_tells_its_statistics) {
  static const char text[] =
      INPUT("x", DIM4(2, 2, 1, 2)) "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'y' top: 'mean'"
                                   "  top: 'variance' bn_param { bn_mode: LEARN } }\n";
  static const float expected[2][2] = {{2.5f, 25}, {1.25f, 125}};
  static const char *const names[] = {"mean", "variance"};
  for (int phase = 0; phase < 2; ++phase) {
    crema_net *net = build(text, phase == 0 ? CREMA_TRAIN : CREMA_TEST);
    fill_x(blob_of(net, "x"));
    ok(crema_net_forward(net, NULL));
    for (int i = 0; i < 4; ++i) {
      assert_int_equal(crema_blob_count(blob_of(net, names[i / 2])), 2);
      assert_near((double)values(net, names[i / 2])[i % 2], (double)expected[i / 2][i % 2], 1e-4);
    }
    check_bn(values(net, "y"), true, 1, 0);
    crema_net_destroy(net);
  }
  crema_model *model = NULL;
  crema_session *session = NULL;
  ok(crema_model_load_memory(text, strlen(text), NULL, 0, NULL, &model));
  ok(crema_session_create(model, NULL, &session));
  assert_int_equal(crema_session_output_count(session), 3);
  for (int run = 0; run < 4; ++run) {
    fill_x(crema_session_input(session, 0));
    ok(crema_session_run(session));
    for (int i = 0; i < 4; ++i) {
      const float *found = data_of(crema_session_output(session, i / 2));
      assert_near((double)found[i % 2], (double)expected[i / 2][i % 2], 1e-4);
    }
    check_bn(data_of(crema_session_output(session, 2)), true, 1, 0);
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
}

/* Of a BatchNorm that uses running statistics they are those: here the sums are over a weight of 2.
 */
TEST(running_statistics_are_told) {
  crema_net *net = build(INPUT("x", DIM4(2, 2, 1, 2))
                         "layer { name: 'bn' type: 'BatchNorm' bottom: 'x' top: 'y' top: 'mean'"
                         "  top: 'variance' }\n",
                         CREMA_TEST);
  fill_x(blob_of(net, "x"));
  fill(param_of(net, "bn", 0), 6, 2);
  fill(param_of(net, "bn", 1), 4, 4);
  fill(param_of(net, "bn", 2), 2, 0);
  ok(crema_net_forward(net, NULL));
  for (int c = 0; c < 2; ++c) {
    assert_near((double)values(net, "mean")[c], 3 + c, 1e-6);
    assert_near((double)values(net, "variance")[c], 2 + 2 * c, 1e-6);
  }
  crema_net_destroy(net);
}

TEST(bn_with_statistics_inside_scales_and_shifts) {
  crema_net *net = build(BN_NET("bn_mode: INFERENCE"), CREMA_TEST);
  fill_x(blob_of(net, "x"));
  ok(crema_net_forward(net, NULL));
  check_bn(values(net, "y"), false, 3, 0.5f);
  crema_net_destroy(net);
}

/* A model of SegNet's has the two parameters alone, under the layer's name, with extents of 1
 * around the channels. */
static void put_model(cr_buffer *file) {
  static const char text[] =
      "layer { name: 'bn' type: 'BN' bottom: 'x' top: 'y'"
      "  blobs { num: 1 channels: 2 height: 1 width: 1 data: [7, 7] }"
      "  blobs { num: 1 channels: 2 height: 1 width: 1 data: [9, 9] } }";
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__net_parameter__descriptor, text, sizeof text - 1, "text",
                   CR_UNKNOWN_ERROR, &message));
  ok(cr_wire_print(message, file));
  cr_message_free(message);
}

TEST(models_of_bn_fit_both_modes) {
  static const char *const texts[] = {BN_NET(""), BN_NET("bn_mode: INFERENCE")};
  crema_weights_options options;
  crema_weights_options_init(&options);
  cr_buffer file = {0};
  put_model(&file);
  for (int i = 0; i < 2; ++i) {
    crema_net *net = build(texts[i], CREMA_TEST);
    ok(crema_net_load_weights_memory(net, file.data, file.size, "memory", &options));
    fill_x(blob_of(net, "x"));
    ok(crema_net_forward(net, NULL));
    check_bn(values(net, "y"), i == 0, 7, 9);
    crema_net_destroy(net);

    crema_model *model = NULL;
    crema_session *session = NULL;
    ok(crema_model_load_memory(texts[i], strlen(texts[i]), file.data, file.size, NULL, &model));
    ok(crema_session_create(model, NULL, &session));
    fill_x(crema_session_input(session, 0));
    ok(crema_session_run(session));
    check_bn(data_of(crema_session_output(session, 0)), i == 0, 7, 9);
    crema_session_destroy(session);
    crema_model_destroy(model);
  }
  cr_buffer_free(&file);
}

/* Other layers still have to be in the file, and so does a BatchNorm that uses its statistics. */
TEST(models_without_statistics_that_are_used_are_refused) {
  static const char text[] =
      BN_NET("") "layer { name: 'own' type: 'BatchNorm' bottom: 'y' top: 'z' }\n";
  crema_weights_options options;
  crema_weights_options_init(&options);
  cr_buffer file = {0};
  put_model(&file);
  crema_net *net = build(text, CREMA_TEST);
  assert_int_equal(crema_net_load_weights_memory(net, file.data, file.size, "memory", &options),
                   CREMA_E_NOT_FOUND);
  assert_names(WORDS("'own' (BatchNorm)", "1 of the net's 3 layers"));
  crema_net_destroy(net);
  cr_buffer_free(&file);
}

/* ---- weights of classes ---- */

#define SCORES INPUT("scores", DIM4(1, 3, 1, 4)) INPUT("label", DIM4(1, 1, 1, 4))
#define WEIGHTED                                                                    \
  SCORES                                                                            \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label'"   \
  "  top: 'loss' top: 'p' loss_param { weight_by_label_freqs: true ignore_label: 3" \
  "  class_weighting: 0.5 class_weighting: 2 class_weighting: 4 } }\n"

TEST(losses_are_weighted_by_their_class) {
  static const double weight[] = {0.5, 2, 4};
  static const float scores[12] = {1, 0, -1, 2, 0.5f, 1, 2, 0, -1, 3, 0, 1};
  static const float label[4] = {2, 0, 3, 1};
  crema_net_options options = phase_options(CREMA_TRAIN);
  options.force_backward = true;
  crema_net *net = build_with(WEIGHTED, &options);
  float *data = NULL;
  double loss = 0, expected = 0, p[12];
  ok(crema_blob_mutable_cpu_data(blob_of(net, "scores"), &data));
  memcpy(data, scores, sizeof scores);
  ok(crema_blob_mutable_cpu_data(blob_of(net, "label"), &data));
  memcpy(data, label, sizeof label);
  ok(crema_net_forward(net, &loss));
  ok(crema_net_backward(net));
  for (int i = 0; i < 4; ++i) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum += exp((double)scores[4 * c + i]);
    for (int c = 0; c < 3; ++c) p[4 * c + i] = exp((double)scores[4 * c + i]) / sum;
    const int truth = (int)label[i];
    if (truth < 3) expected -= weight[truth] * log(p[4 * truth + i]) / 3;
  }
  assert_near(loss, expected, 1e-5);
  for (int k = 0; k < 12; ++k) {
    const int truth = (int)label[k % 4];
    const double slope = truth == 3 ? 0 : weight[truth] * (p[k] - (k / 4 == truth)) / 3;
    assert_near((double)values(net, "p")[k], p[k], 1e-6);
    assert_near((double)diff_of(blob_of(net, "scores"))[k], slope, 1e-5);
  }
  crema_net_destroy(net);
}

TEST(weights_fit_the_classes) {
  refuse(SCORES
         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'scores' bottom: 'label'"
         "  loss_param { weight_by_label_freqs: true class_weighting: [1, 2] } }",
         CREMA_E_SHAPE, WORDS("layer 'loss' (InfogainLoss)", "class_weighting has 2", "3 classes"));
  refuse(SCORES "layer { name: 'loss' type: 'InfogainLoss' bottom: 'scores' bottom: 'label' }",
         CREMA_E_ARGUMENT, WORDS("infogain matrix is missing", "class_weighting"));
}

/* ---- dropout ---- */

#define DROPOUT(type)                       \
  INPUT("x", DIM4(4, 64, 4, 4))             \
  "layer { name: 'drop' type: '" type       \
  "' bottom: 'x' top: 'y' dropout_param { " \
  "dropout_ratio: 0.5 sample_weights_test: true } }\n"

/* Samples differ, from each other and from pass to pass. */
static void check_samples(const float *first, const float *second, int64_t count) {
  const int64_t part = count / 4;
  int64_t dropped = 0;
  for (int64_t i = 0; i < count; ++i) dropped += first[i] == 0;
  assert_in_range(dropped, 1, count - 1);
  assert_memory_not_equal(first, second, (size_t)count * sizeof *first);
  for (int i = 0; i < 3; ++i) {
    assert_memory_not_equal(first + i * part, first + 3 * part, (size_t)part * sizeof *first);
  }
}

TEST(dropout_samples_in_tests) {
  static const char *const texts[] = {DROPOUT("Dropout"), DROPOUT("SpatialDropout")};
  for (size_t t = 0; t < sizeof texts / sizeof *texts; ++t) {
    float before[4096];
    crema_net *net = build(texts[t], CREMA_TEST);
    fill(blob_of(net, "x"), 1, 0);
    ok(crema_net_forward(net, NULL));
    memcpy(before, values(net, "y"), sizeof before);
    ok(crema_net_forward(net, NULL));
    check_samples(before, values(net, "y"), 4096);
    for (int i = 0; t == 0 && i < 4096; ++i) assert_true(before[i] == 0 || before[i] == 2);
    crema_net_destroy(net);

    crema_model *model = NULL;
    crema_session *session = NULL;
    ok(crema_model_load_memory(texts[t], strlen(texts[t]), NULL, 0, NULL, &model));
    ok(crema_session_create(model, NULL, &session));
    for (int run = 0; run < 5; ++run) {
      fill(crema_session_input(session, 0), 1, 0);
      ok(crema_session_run(session));
      const float *y = data_of(crema_session_output(session, 0));
      if (run > 0) check_samples(before, y, 4096);
      memcpy(before, y, sizeof before);
    }
    crema_session_destroy(session);
    crema_model_destroy(model);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
