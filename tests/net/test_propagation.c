/* Where gradients and shared values go, and where they do not. */
#include "net_case.h"

#define FC(name, from, out)                                                      \
  "layer { name: '" name "' type: 'InnerProduct' bottom: '" from "' top: '" name \
  "' inner_product_param { num_output: " #out                                    \
  " bias_term: false weight_filler { value: 0.5 } } }\n"

static void run(crema_net *net) {
  ok(crema_net_forward(net, NULL));
  crema_net_clear_param_diffs(net);
  ok(crema_net_backward(net));
}

/* The sum reads a copy of `low` too: the other copy must get no gradient, although the concat could
 * give it one. */
TEST(a_join_keeps_back_what_it_is_not_asked_for) {
  crema_net *net = build(INPUT("data", DIM2(2, 3)) FC("low", "data", 4) FC("other", "data", 4)
                         "layer { name: 'join' type: 'Concat' bottom: 'low' bottom: 'other' top: 'join'"
                         "  propagate_down: false propagate_down: true loss_weight: 5 }\n"
                         FC("sum", "low", 1)
                         "layer { name: 'end' type: 'Power' bottom: 'sum' top: 'end' loss_weight: 1 }\n",
                         CREMA_TRAIN);
  fill(blob_of(net, "data"), 1, 0);
  run(net);
  /* d end / d low = 0.5 in both samples; d low / d weight = 1 */
  for (int i = 0; i < 12; ++i) assert_near((double)diff_of(param_of(net, "low", 0))[i], 1, 1e-6);
  for (int i = 0; i < 12; ++i) assert_near((double)diff_of(param_of(net, "other", 0))[i], 10, 1e-6);
  crema_net_destroy(net);
}

/* A Parameter layer's top shows the shared values. */
TEST(a_shown_parameter_is_the_shared_one) {
  static const char text[] =
      "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: 'a' type: 'Power' bottom: 'p' top: 'a' power_param { scale: 2 } }\n"
      "layer { name: 'b' type: 'Flatten' bottom: 'p' top: 'b' }\n";
  crema_net *train = build(text, CREMA_TRAIN), *test = build(text, CREMA_TEST);
  ok(cr_net_share_params(test, train));
  fill(param_of(train, "p", 0), 1, 1);
  ok(crema_net_forward(test, NULL));
  for (int i = 0; i < 6; ++i) {
    assert_near((double)data_of(blob_of(test, "a"))[i], 2 * (1 + i), 1e-6);
    assert_near((double)data_of(blob_of(test, "b"))[i], 1 + i, 1e-6);
  }
  crema_net_destroy(test);
  crema_net_destroy(train);
}

/* In one net too, and through the copies that a split makes. */
TEST(a_shown_parameter_is_its_owners) {
  crema_net *net = build(
      "layer { name: 'p' type: 'Parameter' top: 'p' param { name: 'w' }"
      "  parameter_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: 'q' type: 'Parameter' top: 'q' param { name: 'w' }"
      "  parameter_param { shape { dim: 2 dim: 3 } } }\n"
      "layer { name: 'sum' type: 'Eltwise' bottom: 'p' bottom: 'q' bottom: 'q' top: 'sum'"
      "  loss_weight: 1 }\n",
      CREMA_TRAIN);
  fill(param_of(net, "p", 0), 1, 1);
  run(net);
  for (int i = 0; i < 6; ++i) {
    assert_near((double)data_of(blob_of(net, "sum"))[i], 3 * (1 + i), 1e-6);
    assert_near((double)diff_of(net->learnable[0])[i], 3, 1e-6);
  }
  crema_net_destroy(net);
}

#define NAMED(name, top)                                                    \
  "layer { name: '" name "' type: 'InnerProduct' bottom: 'data' top: '" top \
  "' param { name: 'w' }"                                                   \
  "  inner_product_param { num_output: 1 bias_term: false } }\n"

/* Layers that only the test net has follow training too, if a parameter's name says so. */
TEST(names_reach_layers_of_the_test_net) {
  static const char *const tests[] = {
      INPUT("data", DIM2(1, 2)) NAMED("both", "y") NAMED("own", "z"),
      INPUT("data", DIM2(1, 2)) NAMED("own", "z") NAMED("both", "y")};
  for (int k = 0; k < 2; ++k) {
    crema_net *train = build(INPUT("data", DIM2(1, 2)) NAMED("both", "y"), CREMA_TRAIN);
    crema_net *test = build(tests[k], CREMA_TEST);
    ok(cr_net_share_params(test, train));
    fill(param_of(train, "both", 0), 3, 1);
    fill(blob_of(test, "data"), 1, 0);
    ok(crema_net_forward(test, NULL));
    assert_near((double)data_of(blob_of(test, "y"))[0], 7, 1e-6);
    assert_near((double)data_of(blob_of(test, "z"))[0], 7, 1e-6);
    crema_net_destroy(test);
    crema_net_destroy(train);
  }
}

/* A sample that is wrong beyond what a float can say of its probability still learns. */
TEST(a_hopeless_sample_has_a_gradient) {
  crema_net *net = build("force_backward: true\n" INPUT("data", DIM2(1, 2)) INPUT("label", "dim: 1") INPUT("gain", DIM2(2, 2))
            "layer { name: 'loss' type: 'InfogainLoss' bottom: 'data' bottom: 'label' bottom: 'gain'"
            "  top: 'loss' }\n",
            CREMA_TRAIN);
  fill(blob_of(net, "data"), 0, 200);
  fill(blob_of(net, "label"), 0, 0);
  fill(blob_of(net, "gain"), 1, 0);
  float *gain = NULL;
  ok(crema_blob_mutable_cpu_data(blob_of(net, "gain"), &gain));
  gain[1] = gain[2] = 0;
  run(net);
  const float *diff = diff_of(blob_of(net, "data"));
  assert_near((double)diff[0], -1, 1e-5);
  assert_near((double)diff[1], 1, 1e-5);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
