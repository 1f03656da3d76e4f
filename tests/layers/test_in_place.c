/* Chains of layers in place, as networks have them: the same loss and gradients as with a blob for
 * every layer. */
#include <stdlib.h>

#include "net/net_case.h"

#define GAUSS "weight_filler { type: 'gaussian' std: 0.4 } bias_filler { type: 'uniform' min: -1 } "
#define CONV(name, from, out, size)                                             \
  "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" name \
  "' convolution_param { num_output: " #out " kernel_size: " #size " pad: 1 " GAUSS "} }\n"
#define STEP(name, type, body) \
  "layer { name: '" name "' type: '" type "' bottom: '%s' top: '%s' " body "}\n"

/* Layers that work in place after a convolution. As in Caffe, a layer in place must not follow one
 * whose gradient is taken from the values that it overwrites, but for Dropout behind a ReLU. */
static const struct {
  const char *step[4];
  bool sum_in_place; /* the Eltwise behind the chain may overwrite its end */
} chains[] = {
    {{STEP("relu", "ReLU", "")}, false},
    {{STEP("bn", "BatchNorm", "batch_norm_param { eps: 0.01 }"),
      STEP("scale", "Scale", "scale_param { bias_term: true }"), STEP("relu", "ReLU", "")},
     false},
    {{STEP("bn", "BatchNorm", ""), STEP("scale", "Scale", ""), STEP("bias", "Bias", "")}, true},
    {{STEP("relu", "ReLU", "relu_param { negative_slope: 0.2 }"),
      STEP("drop", "Dropout", "dropout_param { dropout_ratio: 0.3 }")},
     false},
    {{STEP("bn", "BatchNorm", ""), STEP("prelu", "PReLU", ""), STEP("drop", "Dropout", "")}, true},
    {{STEP("scale", "Scale", ""), STEP("power", "Power", "power_param { power: 2 shift: 1 }"),
      STEP("tanh", "TanH", "")},
     false},
};
enum { CHAINS = sizeof chains / sizeof chains[0], LONGEST = 4 };

static void append(char *text, size_t size, const char *fmt, const char *a, const char *b) {
  size_t used = strlen(text);
  snprintf(text + used, size - used, fmt, a, b); /* NOLINT: the formats are the table's */
}

/* data, two convolutions of it, the chain behind the first, the sum of both, a loss. */
static crema_net *make(int chain, int channels, bool in_place) {
  char text[4096] = INPUT("data", DIM4(2, 3, 6, 5));
  char at[32] = "left", next[32];
  strcat(text, channels == 16 ? CONV("left", "data", 16, 3) CONV("right", "data", 16, 3)
                              : CONV("left", "data", 5, 3) CONV("right", "data", 5, 3));
  for (int i = 0; i < LONGEST && chains[chain].step[i] != NULL; ++i) {
    snprintf(next, sizeof next, in_place ? "left" : "left%d", i);
    append(text, sizeof text, chains[chain].step[i], at, next);
    strcpy(at, next);
  }
  append(text, sizeof text,
         "layer { name: 'sum' type: 'Eltwise' bottom: '%s' bottom: 'right' top: '%s' "
         "eltwise_param { coeff: 2 coeff: -1 } }\n",
         at, in_place && chains[chain].sum_in_place ? at : "sum");
  append(text, sizeof text,
         "layer { name: 'fc' type: 'InnerProduct' bottom: '%s' top: 'fc' loss_weight: 1 "
         "inner_product_param { num_output: 1 " GAUSS "} }\n%s",
         in_place && chains[chain].sum_in_place ? at : "sum", "");
  return build(text, CREMA_TRAIN);
}

static double run(crema_net *net) {
  double loss = 0;
  fill(blob_of(net, "data"), -1.0f, 0.011f);
  ok(crema_net_forward(net, &loss));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
  return loss;
}

/* Of all parameters of a layer that both nets have, if they have it. */
static void assert_same_gradients(crema_net *a, crema_net *b, const char *layer) {
  const int index = cr_net_find_layer(a, layer);
  for (int p = 0; index >= 0 && p < crema_net_layer_param_count(a, index); ++p) {
    crema_blob *x = param_of(a, layer, p), *y = param_of(b, layer, p);
    double largest = 1e-3;
    for (int64_t i = 0; i < crema_blob_count(x); ++i) {
      double size = (double)diff_of(y)[i];
      largest = size > largest ? size : -size > largest ? -size : largest;
    }
    for (int64_t i = 0; i < crema_blob_count(x); ++i) {
      assert_near((double)diff_of(x)[i], (double)diff_of(y)[i], 1e-4 * largest);
    }
  }
}

TEST(test_chains) {
  static const char *const learners[] = {"left", "right", "fc", "scale", "bias", "prelu"};
  for (int chain = 0; chain < CHAINS; ++chain) {
    for (int channels = 5; channels <= 16; channels += 11) {
      crema_net *joined = make(chain, channels, true), *apart = make(chain, channels, false);
      for (int pass = 0; pass < 2; ++pass) {
        double loss = run(joined), expected = run(apart);
        assert_near(loss, expected, 1e-4 * (1 + (expected > 0 ? expected : -expected)));
        for (size_t i = 0; i < sizeof learners / sizeof learners[0]; ++i) {
          assert_same_gradients(joined, apart, learners[i]);
        }
      }
      crema_net_destroy(joined);
      crema_net_destroy(apart);
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
