/* Warnings of layers in place that overwrite what others need, and of losses. */
#include "log_lines.h"
#include "net_case.h"

#define STEP(name, type, from, to, body) \
  "layer { name: '" name "' type: '" type "' bottom: '" from "' top: '" to "' " body " }\n"
#define GAUSS "weight_filler { type: 'gaussian' std: 0.4 } "
#define FC(name, from) \
  STEP(name, "InnerProduct", from, name, "inner_product_param { num_output: 4 " GAUSS "}")
#define CONV(name, from)                \
  STEP(name, "Convolution", from, name, \
       "convolution_param { num_output: 4 kernel_size: 1 " GAUSS "}")
#define DATA INPUT("data", DIM4(2, 3, 4, 4))
#define LOSS(from)                                        \
  "layer { name: 'loss' type: 'Reduction' bottom: '" from \
  "' top: 'loss' loss_weight: 1 "                         \
  "reduction_param { operation: SUMSQ } }\n"

/* The number of warnings that building gives; the last goes to *last. */
static int warnings_of(const char *text, crema_phase phase, log_lines *kept) {
  listen_to(kept, CREMA_LOG_WARNING);
  crema_net *net = build(text, phase);
  stop_listening();
  crema_net_destroy(net);
  return kept->count;
}

static void assert_warns(const char *text, const char *const *words) {
  log_lines kept;
  int count = warnings_of(text, CREMA_TRAIN, &kept);
  if (count != 1) print_error("%d warnings, the last: %s\n%s\n", count, last_line(&kept), text);
  assert_int_equal(count, 1);
  for (; *words != NULL; ++words) {
    if (strstr(last_line(&kept), *words) != NULL) continue;
    print_error("'%s' is missing in: %s\n", *words, last_line(&kept));
    fail();
  }
}

static void assert_silent(const char *text) {
  for (int phase = 0; phase < 2; ++phase) {
    log_lines kept;
    int count = warnings_of(text, phase == 0 ? CREMA_TRAIN : CREMA_TEST, &kept);
    if (count > 0) print_error("%s\n%s\n", last_line(&kept), text);
    assert_int_equal(count, 0);
  }
}

TEST(wrong_gradients_are_told) {
  assert_warns(
      DATA FC("fc", "data") STEP("s", "Sigmoid", "fc", "s", "") STEP("d", "Dropout", "s", "s", "")
          LOSS("s"),
      WORDS("layer 's' (Sigmoid)", "computes its gradient", "blob 's'", "layer 'd' (Dropout)"));
  assert_warns(DATA FC("fc", "data") STEP("t", "TanH", "fc", "fc", "")
                   STEP("s", "Scale", "fc", "fc", "") LOSS("fc"),
               WORDS("layer 't' (TanH)", "layer 's' (Scale)"));
  assert_warns(DATA CONV("c", "data") STEP("r", "ReLU", "c", "c", "")
                   STEP("b", "BatchNorm", "c", "c", "") LOSS("c"),
               WORDS("layer 'r' (ReLU)", "layer 'b' (BatchNorm)"));
  assert_warns(DATA CONV("c", "data") STEP("r", "ReLU", "c", "c", "")
                   STEP("d", "Dropout", "c", "c", "") STEP("b", "Bias", "c", "c", "") LOSS("c"),
               WORDS("layer 'r' (ReLU)", "layer 'b' (Bias)"));
  assert_warns(DATA FC("fc", "data") STEP("e", "ELU", "fc", "e", "") STEP(
                   "v", "Reshape", "e", "v", "reshape_param { shape { dim: 0 dim: 2 dim: 2 } }")
                   STEP("d", "Dropout", "v", "v", "") LOSS("v"),
               WORDS("layer 'e' (ELU)", "layer 'd' (Dropout)"));
  assert_warns(DATA CONV("c", "data") STEP("r", "ReLU", "c", "c", "") CONV("other", "data")
                   "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'other' top: 'c' }\n"
                   LOSS("c"),
               WORDS("layer 'r' (ReLU)", "layer 'sum' (Eltwise)"));
}

/* What networks do, and what comes out right. */
TEST(right_gradients_are_silent) {
  assert_silent(DATA CONV("c", "data") STEP("r", "ReLU", "c", "c", "") LOSS("c"));
  assert_silent(DATA FC("fc", "data") STEP("r", "ReLU", "fc", "fc", "")
                    STEP("d", "Dropout", "fc", "fc", "") LOSS("fc"));
  assert_silent(DATA FC("fc", "data")
                    STEP("r", "ReLU", "fc", "fc", "relu_param { negative_slope: 0.1 }")
                        STEP("d", "Dropout", "fc", "fc", "") LOSS("fc"));
  assert_silent(DATA CONV("c", "data") STEP("b", "BatchNorm", "c", "c", "")
                    STEP("s", "Scale", "c", "c", "scale_param { bias_term: true }")
                        STEP("r", "ReLU", "c", "c", "") LOSS("c"));
  assert_silent(DATA CONV("c", "data")
                    STEP("p", "Pooling", "c", "p", "pooling_param { kernel_size: 2 }")
                        STEP("r", "ReLU", "p", "p", "") LOSS("p"));
  assert_silent(DATA CONV("c", "data") STEP("n", "LRN", "c", "n", "")
                    STEP("r", "ReLU", "n", "n", "") LOSS("n"));
  assert_silent(DATA CONV("c", "data") STEP("p", "PReLU", "c", "c", "")
                    STEP("b", "BatchNorm", "c", "c", "") LOSS("c"));
  /* Out of place, the ReLU reads its bottom. */
  assert_silent(DATA CONV("c", "data") STEP("r", "ReLU", "c", "r", "")
                    STEP("s", "Scale", "r", "r", "") LOSS("r"));
  assert_silent(DATA CONV("c", "data") STEP("r", "ReLU", "c", "c", "")
                    STEP("six", "Clip", "c", "c", "clip_param { min: 0 max: 6 }") LOSS("c"));
  assert_silent(DATA FC("fc", "data") STEP("t", "TanH", "fc", "t", "")
                    STEP("r", "ReLU", "t", "t", "") LOSS("t"));
  /* Behind the residual sum, not before it. */
  assert_silent(DATA CONV("c", "data") CONV("other", "data")
                    "layer { name: 'sum' type: 'Eltwise' bottom: 'c' bottom: 'other' top: 'sum' }\n"
                    STEP("r", "ReLU", "sum", "sum", "") LOSS("sum"));
  /* No gradient is computed: nothing below learns. */
  assert_silent(DATA STEP("s", "Sigmoid", "data", "s", "") STEP("d", "Dropout", "s", "s", "")
                    FC("fc", "s") LOSS("fc"));
  assert_silent(DATA FC("fc", "data") STEP("s", "Sigmoid", "fc", "s", "")
                    STEP("d", "Dropout", "s", "s", ""));
}

#define DUMMY(filler)                                                                             \
  "layer { name: 'dummy' type: 'DummyData' top: 'data' dummy_data_param { shape { dim: 2 dim: 3 " \
  "} "                                                                                            \
  "data_filler { " filler " } } }\n"

/* Readers and gradients that an overwrite harms, and others that it does not. */
TEST(only_what_is_used_counts) {
  static const char flat[] =
      STEP("flat", "Flatten", "data", "f", "") STEP("r", "ReLU", "f", "f", "");
  char text[4096];
  /* Silence reads no values. */
  snprintf(text, sizeof text, "%s%s%s", DATA, flat,
           "layer { name: 'quiet' type: 'Silence' bottom: 'data' }\n");
  assert_silent(text);
  /* The gradient of weights is computed from the bottom's values, though the bottom itself gets
   * none. */
  snprintf(text, sizeof text, "%s%s%s%s", DATA, FC("early", "data"), flat, LOSS("early"));
  assert_warns(text, WORDS("layer 'early' (InnerProduct)", "layer 'r' (ReLU)",
                           "computes its gradient", "blob 'data_in_data_0_split_0'"));
  snprintf(
      text, sizeof text, "%s%s%s%s", DATA,
      STEP("early", "InnerProduct", "data", "early",
           "param { lr_mult: 0 } inner_product_param { num_output: 4 bias_term: false " GAUSS "}"),
      flat, LOSS("early"));
  assert_silent(text);
  /* A layer in place that changes nothing harms no later reader. */
  snprintf(text, sizeof text, "%s%s%s", DATA,
           STEP("flat", "Flatten", "data", "f", "")
               STEP("d", "Dropout", "f", "f", "dropout_param { dropout_ratio: 0 }"),
           FC("late", "data"));
  assert_silent(text);
  assert_silent(DUMMY("value: 2")
                    STEP("d", "Dropout", "data", "data", "dropout_param { dropout_ratio: 0 }"));
  /* A loss layer's gradient is computed from its second top, not from the loss. */
#define LOSS_AND_PROB(more) \
  DATA FC("fc", "data") INPUT("label", "dim: 2")                                                  \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'l' top: 'p' }" \
  "\n" more
  assert_warns(LOSS_AND_PROB(STEP("twice", "Power", "l", "l", "power_param { scale: 2 }")),
               WORDS("layer 'loss' (SoftmaxWithLoss)", "nothing learns from its loss itself"));
  assert_warns(LOSS_AND_PROB(STEP("twice", "Power", "p", "p", "power_param { scale: 2 }")),
               WORDS("layer 'loss' (SoftmaxWithLoss)", "blob 'p'", "layer 'twice' (Power)"));
}

/* A ReLU on a view of one copy of a blob changes what the readers of the other copies see, if they
 * come later. */
TEST(overwritten_copies_are_told) {
  static const char flat[] = STEP("flat", "Flatten", "c", "f", "") STEP("r", "ReLU", "f", "f", "");
  char text[4096];
  snprintf(text, sizeof text, "%s%s%s", DATA CONV("c", "data"), flat,
           CONV("late", "c") STEP("sum", "InnerProduct", "f", "sum",
                                  "inner_product_param { num_output: 1 " GAUSS "}"));
  assert_warns(text,
               WORDS("layer 'late' (Convolution)", "layer 'r' (ReLU)", "reads blob 'c_c_0_split_"));
  snprintf(text, sizeof text, "%s%s", DATA CONV("c", "data") CONV("early", "c"), flat);
  assert_silent(text);
  /* An earlier reader is affected only if its gradient is computed from what it read. */
  snprintf(text, sizeof text, "%s%s%s", DATA CONV("c", "data") CONV("early", "c"), flat,
           LOSS("early"));
  assert_warns(text,
               WORDS("layer 'early' (Convolution)", "layer 'r' (ReLU)", "computes its gradient"));
  snprintf(text, sizeof text, "%s%s%s", DATA CONV("c", "data") STEP("e", "TanH", "c", "e", ""),
           flat, LOSS("e"));
  assert_silent(text);
  /* Views that are made after the overwrite have the values that are meant. */
  snprintf(text, sizeof text, "%s%s%s", DATA CONV("c", "data"), flat,
           STEP("back", "Reshape", "f", "b", "reshape_param { shape { dim: 0 dim: 4 dim: -1 } }")
               FC("fc", "b"));
  assert_silent(text);
}

/* Values that the next pass hands out again must not be overwritten by this one. */
TEST(overwritten_sources_are_told) {
  assert_warns(
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 2 dim: 3 } } "
      "}\n" STEP("s", "Sigmoid", "p", "p", "") LOSS("p"),
      WORDS("layer 's' (Sigmoid)", "layer 'p' (Parameter)", "next pass"));
  assert_warns(DUMMY("value: 2") STEP("flat", "Flatten", "data", "f", "") STEP(
                   "t", "Power", "f", "f", "power_param { scale: 2 }") FC("fc", "f") LOSS("fc"),
               WORDS("layer 't' (Power)", "layer 'dummy' (DummyData)"));
  assert_warns(
      "layer { name: 'm' type: 'MemoryData' top: 'data' top: 'label' memory_data_param {"
      "  batch_size: 2 channels: 3 height: 4 width: 4 } }\n" STEP(
          "t", "Power", "data", "data", "power_param { scale: 2 }") FC("fc", "data") LOSS("fc"),
      WORDS("layer 't' (Power)", "layer 'm' (MemoryData)"));
  assert_silent(DUMMY("type: 'gaussian'") STEP(
      "t", "Power", "data", "data", "power_param { scale: 2 }") FC("fc", "data") LOSS("fc"));
  assert_silent(DATA STEP("t", "Power", "data", "data", "power_param { scale: 2 }") FC("fc", "data")
                    LOSS("fc"));
}

#define SOFTMAX_LOSS(weight)                                                                      \
  INPUT("label", "dim: 2")                                                                        \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'fc' bottom: 'label' top: 'loss' " weight \
  " }\n"

/* Without a second top, the gradient is computed from the scores. */
TEST(overwritten_scores_are_told) {
  static const char flat[] = STEP("flat", "Flatten", "fc", "f", "") STEP("r", "ReLU", "f", "f", "");
  char text[4096];
  snprintf(text, sizeof text, "%s%s%s", DATA FC("fc", "data"), SOFTMAX_LOSS(""), flat);
  assert_warns(
      text, WORDS("layer 'loss' (SoftmaxWithLoss)", "layer 'r' (ReLU)", "computes its gradient"));
  snprintf(text, sizeof text, "%s%s%s", DATA FC("fc", "data"), SOFTMAX_LOSS("top: 'prob'"), flat);
  assert_silent(text);
}

/* As in Caffe, only a loss weight that is written down goes on to a copy of a blob that others
 * read. */
TEST(losses_that_do_not_count_are_told) {
  static const char read[] = "layer { name: 'quiet' type: 'Silence' bottom: 'loss' }\n";
  char text[4096];
  snprintf(text, sizeof text, "%s%s", DATA FC("fc", "data") SOFTMAX_LOSS(""), read);
  assert_warns(
      text, WORDS("layer 'loss' (SoftmaxWithLoss)", "layer 'quiet' (Silence)", "loss_weight: 1"));
  snprintf(text, sizeof text, "%s%s", DATA FC("fc", "data") SOFTMAX_LOSS(""),
           STEP("twice", "Power", "loss", "twice", "loss_weight: 1"));
  assert_warns(text, WORDS("layer 'loss' (SoftmaxWithLoss)", "layer 'twice' (Power)"));
  snprintf(text, sizeof text, "%s%s", DATA FC("fc", "data") SOFTMAX_LOSS("loss_weight: 1"), read);
  assert_silent(text);
  snprintf(text, sizeof text, "%s%s", DATA FC("fc", "data") SOFTMAX_LOSS("loss_weight: 0"), read);
  assert_silent(text);
  assert_silent(DATA FC("fc", "data") SOFTMAX_LOSS(""));
  /* Nothing is trained with it anyway. */
  log_lines kept;
  snprintf(text, sizeof text, "%s%s", DATA FC("fc", "data") SOFTMAX_LOSS(""), read);
  assert_int_equal(warnings_of(text, CREMA_TEST, &kept), 0);
}

#define PAIR(type, body) \
  INPUT("a", DIM2(2, 3)) \
  INPUT("b", DIM2(2, 3)) \
  "layer { name: 'l' type: '" type "' bottom: 'a' bottom: 'b' top: 'l' " body " }\n"

TEST(fields_that_a_loss_does_not_read_are_told) {
  assert_warns(PAIR("EuclideanLoss", "loss_param { normalization: NONE }"),
               WORDS("layer 'l' (EuclideanLoss) (line 3)", "normalization of loss_param"));
  assert_warns(PAIR("L1Loss", "loss_param { ignore_label: 1 }"),
               WORDS("layer 'l' (L1Loss) (line 3)", "ignore_label of loss_param"));
  static const char *const types[] = {"HingeLoss", "MultinomialLogisticLoss", "ContrastiveLoss"};
  for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
    char text[1000], name[80];
    const bool pairs = strcmp(types[i], "ContrastiveLoss") == 0;
    snprintf(text, sizeof text,
             "%slayer { name: 'l' type: '%s' bottom: 'a' bottom: '%s' top: 'l' %s "
             "loss_param { normalize: true } }\n",
             INPUT("a", DIM2(2, 3)) INPUT("b", DIM2(2, 3)) INPUT("label", "dim: 2"), types[i],
             pairs ? "b" : "label", pairs ? "bottom: 'label'" : "");
    snprintf(name, sizeof name, "layer 'l' (%s) (line 4)", types[i]);
    assert_warns(text, WORDS(name, "normalize of loss_param"));
  }
  assert_silent(PAIR("EuclideanLoss", "loss_param { }"));
  assert_silent(PAIR("SigmoidCrossEntropyLoss", "loss_param { normalization: NONE }"));
  assert_silent(PAIR("SmoothL1Loss", "loss_param { normalization: NONE }"));
}

#define INFOGAIN(from)                                    \
  INPUT("label", "dim: 2")                                \
  INPUT("gain", DIM2(3, 3))                               \
  "layer { name: 'l' type: 'InfogainLoss' bottom: '" from \
  "' bottom: 'label' bottom: 'gain' top: 'l' }\n"

/* Older versions and forks of Caffe want the probabilities there. */
TEST(probabilities_for_a_loss_that_makes_them_are_told) {
  const char *const words[] = {"layer 'l' (InfogainLoss) (line 5)", "layer 'p' (Softmax)", NULL};
  assert_warns(INPUT("a", DIM2(2, 3)) STEP("p", "Softmax", "a", "p", "") INFOGAIN("p"), words);
  assert_warns(INPUT("a", DIM2(2, 3)) STEP("p", "Softmax", "a", "p", "")
                   INFOGAIN("p") "layer { name: 's' type: 'Silence' bottom: 'p' }\n",
               words);
  assert_silent(INPUT("a", DIM2(2, 3)) INFOGAIN("a"));
  assert_silent(INPUT("a", DIM2(2, 3)) STEP("p", "Softmax", "a", "p", "")
                    STEP("log", "Log", "p", "log", "") INFOGAIN("log"));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
