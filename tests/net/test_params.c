/* Parameters: owners, sharers, factors; which layers run backward. */
#include <math.h>

#include "net_case.h"

#define FC(name, bottom, out, spec)                                                          \
  "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" name "' " spec \
  " inner_product_param { num_output: " #out " weight_filler { type: 'gaussian' std: 1 } } }\n"

TEST(owners_and_sharers) {
  crema_net *net =
      build(INPUT("a", DIM2(2, 4)) INPUT("b", DIM2(3, 4))
                FC("fa", "a", 3, "param { name: 'w' lr_mult: 2 } param { decay_mult: 0 }")
                    FC("fb", "b", 3, "param { name: 'w' decay_mult: 0.5 } param { name: 'c' }"),
            CREMA_TRAIN);
  static const cr_net_param want[] = {
      {2, 0, "w", -1, 0}, {2, 1, "", -1, 1}, {3, 0, "w", 0, 0}, {3, 1, "c", -1, 2}};
  assert_int_equal(net->params, 4);
  for (int i = 0; i < 4; ++i) {
    const cr_net_param *got = &net->net_param[i];
    assert_int_equal(got->layer, want[i].layer);
    assert_int_equal(got->index, want[i].index);
    assert_string_equal(got->name, want[i].name);
    assert_int_equal(got->owner, want[i].owner);
    assert_int_equal(got->learnable, want[i].learnable);
  }
  /* The sharer adds the factor that the owner left open. */
  assert_int_equal(net->learnables, 3);
  assert_true(net->lr_mult[0] == 2.0f && net->decay_mult[0] == 0.5f);
  assert_true(net->lr_mult[1] == 1.0f && net->decay_mult[1] == 0.0f);
  assert_true(net->lr_mult[2] == 1.0f && net->decay_mult[2] == 1.0f);
  crema_blob *owner = param_of(net, "fa", 0), *sharer = param_of(net, "fb", 0);
  assert_ptr_equal(net->learnable[0], owner);
  assert_true(cr_tensor_shares_with(owner->data, sharer->data));
  assert_true(cr_tensor_shares_with(owner->diff, sharer->diff));
  fill(sharer, 7.0f, 0.0f);
  assert_near(data_of(owner)[5], 7.0, 0.0);
  crema_net_destroy(net);
}

TEST(permissive_sharing_asks_for_counts_only) {
  crema_net *net = build(
      INPUT("a", DIM2(2, 4)) INPUT("b", DIM2(2, 6))
      "layer { name: 'fa' type: 'InnerProduct' bottom: 'a' top: 'fa' param { name: 'w' }"
      "  inner_product_param { num_output: 6 bias_term: false } }\n"
      "layer { name: 'fb' type: 'InnerProduct' bottom: 'b' top: 'fb'"
      "  param { name: 'w' share_mode: PERMISSIVE }"
      "  inner_product_param { num_output: 4 bias_term: false } }\n",
      CREMA_TRAIN);
  crema_shape mine = cr_shape_2(4, 6);
  assert_true(crema_shape_equal(crema_blob_shape(param_of(net, "fb", 0)), &mine));
  assert_int_equal(net->learnables, 1);
  ok(crema_net_forward(net, NULL));
  crema_net_destroy(net);
}

TEST(statistics_do_not_learn) {
  crema_net *net = build(INPUT("a", DIM4(2, 3, 2, 2))
                         "layer { name: 'bn' type: 'BatchNorm' bottom: 'a' top: 'b'"
                         "  param { lr_mult: 0 decay_mult: 0.5 } }\n",
                         CREMA_TRAIN);
  assert_int_equal(net->learnables, 3);
  for (int i = 0; i < 3; ++i) assert_true(net->lr_mult[i] == 0.0f);
  assert_true(net->decay_mult[0] == 0.5f && net->decay_mult[1] == 1.0f);
  assert_false(net->layer[layer_index(net, "bn")].need_backward);
  crema_net_destroy(net);
}

TEST(test_nets_share_the_values_of_train_nets) {
#define MODEL(out) FC("fa", "a", 3, "") FC("fb", "fa", out, "")
  crema_net *train = build(INPUT("a", DIM2(2, 4)) MODEL(2) FC("extra", "fb", 2, ""), CREMA_TRAIN);
  crema_net *test = build(INPUT("a", DIM2(5, 4)) MODEL(2), CREMA_TEST);
  crema_net *other = build(INPUT("a", DIM2(5, 4)) MODEL(3), CREMA_TEST);
  ok(cr_net_share_params(test, train));
  crema_blob *mine = param_of(test, "fb", 0), *theirs = param_of(train, "fb", 0);
  assert_true(cr_tensor_shares_with(mine->data, theirs->data));
  assert_false(cr_tensor_shares_with(mine->diff, theirs->diff));
  fill(theirs, 3.0f, 1.0f);
  assert_near(data_of(mine)[1], 4.0, 0.0);
  ok(crema_net_forward(test, NULL));
  assert_int_equal(cr_net_share_params(other, train), CREMA_E_SHAPE);
  assert_names(WORDS("'fb'", "3 3 (9)", "2 3 (6)"));
  /* The values outlive the net they came from. */
  crema_net_destroy(train);
  assert_near(data_of(mine)[1], 4.0, 0.0);
  crema_net_destroy(test);
  crema_net_destroy(other);
}

/* One parameter more or less on either side, which the shapes of the others do not show. */
TEST(numbers_of_parameters_must_agree) {
#define BIAS_OR_NOT(bias)                                         \
  INPUT("a", DIM2(1, 2))                                          \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'a' top: 'fc'" \
  "  inner_product_param { num_output: 2 bias_term: " bias " } }\n"
  crema_net *with = build(BIAS_OR_NOT("true"), CREMA_TRAIN);
  crema_net *without = build(BIAS_OR_NOT("false"), CREMA_TEST);
  assert_int_equal(cr_net_share_params(without, with), CREMA_E_ARGUMENT);
  assert_names(WORDS("'fc'", "1 parameters here and 2"));
  assert_int_equal(cr_net_share_params(with, without), CREMA_E_ARGUMENT);
  assert_names(WORDS("'fc'", "2 parameters here and 1"));
  crema_net_destroy(with);
  crema_net_destroy(without);
}

/* frozen - s0 - train - loss, with a side branch that leads to no loss. */
#define PRUNED \
  INPUT("data", DIM2(3, 4)) INPUT("label", "dim: 3")                                       \
  FC("frozen", "data", 4, "param { lr_mult: 0 } param { lr_mult: 0 }")                     \
  "layer { name: 's0' type: 'Sigmoid' bottom: 'frozen' top: 's0' }\n"                      \
  FC("train", "s0", 3, "")                                                                 \
  "layer { name: 'side' type: 'Sigmoid' bottom: 'train' top: 'side' }\n"                   \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'train' bottom: 'label' top: 'l' }\n" \
  FC("dangling", "side", 2, "")

static bool runs_backward(const crema_net *net, const char *layer) {
  return net->layer[layer_index(net, layer)].need_backward;
}

TEST(backward_runs_where_a_loss_needs_it) {
  crema_net *net = build(PRUNED, CREMA_TRAIN);
  assert_false(runs_backward(net, "frozen"));
  assert_false(runs_backward(net, "s0"));
  assert_true(runs_backward(net, "train"));
  assert_true(runs_backward(net, "train_train_0_split"));
  assert_false(runs_backward(net, "side"));
  assert_true(runs_backward(net, "loss"));
  assert_false(runs_backward(net, "dangling"));
  const cr_net_layer *loss = &net->layer[layer_index(net, "loss")];
  assert_true(loss->propagate_down[0] && !loss->propagate_down[1]);
  assert_false(net->layer[layer_index(net, "train")].propagate_down[0]);
  assert_false(net->layer[layer_index(net, "frozen")].layer->needs_backward);
  ok(crema_net_forward(net, NULL));
  ok(crema_net_backward(net));
  assert_true(cr_tensor_is_zero(param_of(net, "frozen", 0)->diff));
  assert_true(cr_tensor_is_zero(param_of(net, "dangling", 0)->diff));
  assert_false(cr_tensor_is_zero(param_of(net, "train", 0)->diff));
  crema_net_destroy(net);
}

TEST(force_backward_reaches_everything_but_labels) {
  for (int by_option = 0; by_option < 2; ++by_option) {
    crema_net_options options = phase_options(CREMA_TRAIN);
    options.force_backward = by_option == 1;
    crema_net *net = build_with(by_option == 1 ? PRUNED : "force_backward: true " PRUNED, &options);
    for (int i = 0; i < net->layers; ++i) assert_true(net->layer[i].need_backward);
    const cr_net_layer *loss = &net->layer[layer_index(net, "loss")];
    assert_true(loss->propagate_down[0]);
    assert_false(loss->propagate_down[1]);
    assert_true(net->layer[layer_index(net, "frozen")].layer->param_propagate_down[0]);
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    assert_false(cr_tensor_is_zero(blob_of(net, "data")->diff));
    crema_net_destroy(net);
  }
}

TEST(propagate_down_is_obeyed) {
  crema_net *net = build(INPUT("data", DIM2(3, 4)) INPUT("label", "dim: 3") FC("a", "data", 4, "")
                         FC("b", "a", 3, "propagate_down: false")
                         "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'label'"
                         "  top: 'l' }\n",
                         CREMA_TRAIN);
  assert_false(runs_backward(net, "a"));
  assert_true(runs_backward(net, "b"));
  assert_false(net->layer[layer_index(net, "b")].propagate_down[0]);
  crema_net_destroy(net);
  /* true asks for a gradient that nobody below needs. */
  net = build(INPUT("data", DIM2(3, 4)) INPUT("label", "dim: 3")
              FC("b", "data", 3, "propagate_down: true")
              "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'b' bottom: 'label' top: 'l' }\n",
              CREMA_TRAIN);
  assert_true(net->layer[layer_index(net, "b")].propagate_down[0]);
  ok(crema_net_forward(net, NULL));
  ok(crema_net_backward(net));
  assert_false(cr_tensor_is_zero(blob_of(net, "data")->diff));
  crema_net_destroy(net);
}

/* Two layers with the same parameters, and the loss of their difference. */
#define TWIN(name, bottom, layer)                             \
  "layer { name: '" name "' bottom: '" bottom "' top: '" name \
  "' param { name: 'w' } param { name: 'b' } " layer
#define TWINS(layer)                                                    \
  INPUT("data", DIM4(7, 6, 5, 5))                                       \
  INPUT("other", DIM4(7, 6, 5, 5))                                      \
  TWIN("fa", "data", layer)                                             \
  TWIN("fb", "other", layer)                                            \
  "layer { name: 'diff' type: 'Eltwise' bottom: 'fa' bottom: 'fb'"      \
  "  top: 'diff' eltwise_param { coeff: 1 coeff: -1 } }\n"              \
  "layer { name: 'square' type: 'Power' bottom: 'diff' top: 'square'"   \
  "  power_param { power: 2 } }\n"                                      \
  "layer { name: 'loss' type: 'Reduction' bottom: 'square' top: 'loss'" \
  "  loss_weight: 0.3 }\n"

static void check_bias_cancels(const char *type, const char *layer) {
  cr_buffer text = {0};
  crema_net *net;
  ok(cr_buffer_print(&text, "default_forward_type: %s default_backward_type: %s\n", type, type));
  ok(cr_buffer_print(&text, TWINS("%s"), layer, layer));
  net = build(text.data, CREMA_TRAIN);
  fill(blob_of(net, "data"), -0.3f, 0.0137f);
  fill(blob_of(net, "other"), 0.7f, -0.0031f);
  ok(crema_net_forward(net, NULL));
  ok(crema_net_backward(net));
  double largest = 0;
  crema_blob *weights = param_of(net, "fa", 0), *bias = param_of(net, "fa", 1);
  for (int64_t i = 0; i < crema_blob_count(weights); ++i) {
    largest = fmax(largest, fabs((double)diff_of(weights)[i]));
  }
  assert_true(largest > 0);
  for (int64_t i = 0; i < crema_blob_count(bias); ++i) assert_near(diff_of(bias)[i], 0, 0);
  crema_net_destroy(net);
  cr_buffer_free(&text);
}

/* A gradient of rounding errors would be a step of full length in Adam. */
TEST(opposite_gradients_of_a_shared_bias_cancel) {
#define GAUSS "weight_filler { type: 'gaussian' std: 1 } } }\n"
  static const char *const layers[] = {
      "type: 'InnerProduct' inner_product_param { num_output: 4 " GAUSS,
      "type: 'Convolution' convolution_param { num_output: 4 kernel_size: 3 " GAUSS,
      "type: 'Convolution' convolution_param { num_output: 6 kernel_size: 3 group: 6 " GAUSS,
      "type: 'Scale' scale_param { bias_term: true filler { type: 'gaussian' std: 1 } } }\n"};
  for (size_t i = 0; i < sizeof layers / sizeof layers[0]; ++i) {
    check_bias_cancels("FLOAT", layers[i]);
    check_bias_cancels("DOUBLE", layers[i]);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
