/* Rules, splits, in-place layers, inputs, outputs: what the graph looks like. */
#include "net_case.h"

#define RULES                                                                                 \
  INPUT("data", DIM2(2, 3))                                                                   \
  "layer { name: 'train' type: 'ReLU' bottom: 'data' top: 'a' include { phase: TRAIN } }\n"   \
  "layer { name: 'not_test' type: 'ReLU' bottom: 'data' top: 'b' exclude { phase: TEST } }\n" \
  "layer { name: 'both' type: 'ReLU' bottom: 'data' top: 'c'"                                 \
  "  include { stage: 'deploy' stage: 'fast' } }\n"                                           \
  "layer { name: 'no_debug' type: 'ReLU' bottom: 'data' top: 'd'"                             \
  "  include { not_stage: 'debug' } }\n"                                                      \
  "layer { name: 'one_two' type: 'ReLU' bottom: 'data' top: 'e'"                              \
  "  include { min_level: 1 max_level: 2 } }\n"                                               \
  "layer { name: 'either' type: 'ReLU' bottom: 'data' top: 'f'"                               \
  "  include { phase: TEST stage: 'deploy' } include { phase: TRAIN min_level: 2 } }\n"

/* Which of the layers above the net has, one letter each, in order. */
static void assert_kept(const crema_net_options *options, const char *own, const char *want) {
  static const char *const name[] = {"train", "not_test", "both", "no_debug", "one_two", "either"};
  char text[4096], kept[8] = "";
  snprintf(text, sizeof text, "%s%s", own, RULES);
  crema_net *net = build_with(text, options);
  for (size_t i = 0; i < 6; ++i) {
    if (cr_net_find_layer(net, name[i]) >= 0) kept[strlen(kept)] = "abcdef"[i];
  }
  assert_string_equal(kept, want);
  crema_net_destroy(net);
}

TEST(rules_choose_layers) {
  const char *stages[] = {"deploy", "fast"};
  crema_net_options train = phase_options(CREMA_TRAIN), test = phase_options(CREMA_TEST);
  assert_kept(&train, "", "abd");
  assert_kept(&test, "", "d");
  test.stages = stages;
  test.stage_count = 1;
  assert_kept(&test, "", "df");
  test.stage_count = 2;
  test.level = 1;
  assert_kept(&test, "", "cdef");
  train.level = 2;
  assert_kept(&train, "", "abdef");
  train.level = 3;
  assert_kept(&train, "", "abdf");
  /* The stages of the net's own state hold beside those of the caller. */
  train.level = 0;
  assert_kept(&train, "state { stage: 'debug' }\n", "ab");
}

#define FORK                                                        \
  INPUT("data", DIM2(2, 4))                                         \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'x'" \
  "  inner_product_param { num_output: 3 } }\n"                     \
  "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'x' }\n"         \
  "layer { name: 's' type: 'Sigmoid' bottom: 'x' top: 'y' }\n"      \
  "layer { name: 't' type: 'TanH' bottom: 'x' top: 'z' }\n"

TEST(a_blob_with_two_readers_is_split) {
  crema_net *net = build(FORK, CREMA_TRAIN);
  static const char *const layers[] = {"in_data", "fc", "r", "x_r_0_split", "s", "t"};
  assert_int_equal(crema_net_layer_count(net), 6);
  for (int i = 0; i < 6; ++i) assert_string_equal(crema_net_layer_name(net, i), layers[i]);
  assert_string_equal(crema_net_layer_type(net, 3), "Split");
  crema_blob *copy = blob_of(net, "x_r_0_split_1");
  assert_ptr_equal(net->layer[5].bottom[0], copy);
  assert_true(cr_tensor_shares_with(copy->data, blob_of(net, "x")->data));
  /* In place: one blob below and above. */
  assert_ptr_equal(net->layer[2].bottom[0], net->layer[2].top[0]);
  assert_ptr_equal(net->layer[2].top[0], net->layer[1].top[0]);
  crema_net_destroy(net);
}

TEST(inputs_and_outputs_are_found) {
  crema_net *net = build("name: 'n'\n" FORK INPUT("other", DIM2(1, 1)), CREMA_TEST);
  assert_string_equal(crema_net_name(net), "n");
  assert_int_equal(crema_net_input_count(net), 2);
  assert_string_equal(crema_net_input_name(net, 0), "data");
  assert_string_equal(crema_net_input_name(net, 1), "other");
  assert_ptr_equal(crema_net_input(net, 1), blob_of(net, "other"));
  /* Alphabetical, not in the order of layers. */
  assert_int_equal(crema_net_output_count(net), 3);
  assert_string_equal(crema_net_output_name(net, 0), "other");
  assert_string_equal(crema_net_output_name(net, 1), "y");
  assert_string_equal(crema_net_output_name(net, 2), "z");
  assert_ptr_equal(crema_net_output(net, 2), blob_of(net, "z"));
  assert_null(crema_net_output(net, 3));
  assert_null(crema_net_input(net, -1));
  assert_null(crema_net_layer_name(net, 100));
  assert_null(crema_net_blob_name(net, crema_net_blob_count(net)));
  crema_blob *blob = NULL;
  assert_int_equal(crema_net_blob(net, "othr", &blob), CREMA_E_UNKNOWN_NAME);
  assert_names(WORDS("othr", "'other'"));
  crema_net_destroy(net);
}

TEST(a_loss_weight_moves_to_the_split) {
  crema_net *net = build(INPUT("data", DIM2(4, 5))
                         "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'fc'"
                         "  inner_product_param { num_output: 1 } loss_weight: 0.5 }\n"
                         "layer { name: 's' type: 'Sigmoid' bottom: 'fc' top: 's' }\n",
                         CREMA_TRAIN);
  const cr_layer *fc = net->layer[layer_index(net, "fc")].layer;
  const cr_layer *split = net->layer[layer_index(net, "fc_fc_0_split")].layer;
  assert_int_equal(split->tops, 2);
  assert_true(fc->loss_weight[0] == 0.0f);
  assert_true(split->loss_weight[0] == 0.5f && split->loss_weight[1] == 0.0f);
  crema_net_destroy(net);
}

/* A loss whose weight went to a split does not count it again as its default. */
TEST(a_split_loss_counts_once) {
  crema_net *net = build(
      INPUT("data", DIM2(2, 3)) INPUT("label", "dim: 2")
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' top: 'loss'"
      "  loss_weight: 2 }\n"
      "layer { name: 'quiet' type: 'Silence' bottom: 'loss' }\n",
      CREMA_TRAIN);
  double loss = 0.0;
  fill(blob_of(net, "data"), 0.0f, 0.0f);
  fill(blob_of(net, "label"), 0.0f, 1.0f);
  ok(crema_net_forward(net, &loss));
  assert_near(loss, 2.0 * 1.0986122886681098, 1e-5);
  crema_net_destroy(net);
}

TEST(a_missing_loss_top_is_made) {
  crema_net *net = build(
      INPUT("data", DIM2(2, 3)) INPUT("label", "dim: 2")
      "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'data' bottom: 'label' }\n",
      CREMA_TRAIN);
  assert_int_equal(crema_net_output_count(net), 0);
  assert_int_equal(crema_net_blob_count(net), 3);
  assert_string_equal(crema_net_blob_name(net, 2), "(automatic)");
  crema_blob *blob = NULL;
  assert_int_equal(crema_net_blob(net, "(automatic)", &blob), CREMA_E_UNKNOWN_NAME);
  double loss = 0.0;
  ok(crema_net_forward(net, &loss));
  assert_near(loss, 1.0986122886681098, 1e-5);
  crema_net_destroy(net);
}

TEST(legacy_inputs_are_a_layer) {
  crema_net *net = build(
      "input: 'data' input_dim: 2 input_dim: 3 input_dim: 4 input_dim: 5\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }\n",
      CREMA_TEST);
  crema_shape want = cr_shape_4(2, 3, 4, 5);
  assert_int_equal(crema_net_input_count(net), 1);
  assert_true(crema_shape_equal(crema_blob_shape(blob_of(net, "r")), &want));
  crema_net_destroy(net);
}

TEST(an_empty_net_runs) {
  crema_net *net = build("name: 'nothing'", CREMA_TRAIN);
  double loss = 1.0;
  ok(crema_net_forward(net, &loss));
  ok(crema_net_backward(net));
  ok(crema_net_reshape(net));
  crema_net_clear_param_diffs(net);
  assert_true(loss == 0.0);
  assert_int_equal(crema_net_layer_count(net), 0);
  assert_int_equal(cr_net_forward_range(net, 0, 0, NULL), CREMA_E_RANGE);
  crema_net_destroy(net);
  crema_net_destroy(NULL);
}

TEST(values_in_the_prototxt_are_taken) {
#define INLINE_FC(shape)                                             \
  INPUT("data", DIM2(1, 2))                                          \
  "layer { name: 'fc' type: 'InnerProduct' bottom: 'data' top: 'y' " \
  "inner_product_param { num_output: 1 bias_term: false } "          \
  "blobs { shape { " shape " } data: 2 data: 3 } }\n"
  crema_net *net = build(INLINE_FC(DIM2(1, 2)), CREMA_TEST);
  fill(blob_of(net, "data"), 10.0f, 1.0f);
  ok(crema_net_forward(net, NULL));
  assert_near(data_of(blob_of(net, "y"))[0], 20.0 + 33.0, 1e-5);
  crema_net_destroy(net);
  refuse(INLINE_FC(DIM2(2, 1)), CREMA_E_SHAPE, WORDS("'fc'", "2 1 (2)", "1 2 (2)"));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
