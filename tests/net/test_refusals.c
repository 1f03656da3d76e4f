/* Nets that must not build: the code, and what the text names. */
#include "net_case.h"

#define DATA INPUT("data", DIM2(2, 3))
#define FC(name, bottom, spec)                                                               \
  "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" name "' " spec \
  " inner_product_param { num_output: 3 bias_term: false } }\n"

TEST(unknown_bottom) {
  refuse(DATA "layer { name: 'r' type: 'ReLU' bottom: 'dat' top: 'r' }", CREMA_E_UNKNOWN_NAME,
         WORDS("test.prototxt", "layer 'r' (ReLU)", "'dat'", "did you mean 'data'?"));
  refuse(DATA
         "layer { name: 'e' type: 'Eltwise' bottom: 'data' bottom: 'late' top: 'e' }\n"
         "layer { name: 'maker' type: 'ReLU' bottom: 'data' top: 'late' }",
         CREMA_E_UNKNOWN_NAME, WORDS("layer 'e' (Eltwise)", "bottom 1 'late'", "layer 'maker'"));
}

/* Programs need not look for the layer in the text. */
TEST(failures_name_layer_blob_file_and_line) {
  refuse(DATA "\nlayer { name: 'r' type: 'ReLU' bottom: 'dat' top: 'r' }", CREMA_E_UNKNOWN_NAME,
         WORDS("test.prototxt:3: layer 'r' (ReLU): "));
  assert_string_equal(crema_error_layer(), "r");
  assert_string_equal(crema_error_blob(), "dat");
  assert_string_equal(crema_error_file(), "test.prototxt");
  assert_int_equal(crema_error_line(), 3);
  refuse(DATA "layer { name: 'r' type: 'ReLU'\n  botom: 'data' }", CREMA_E_PARSE,
         WORDS("test.prototxt:3:3: layer 'r' (ReLU): unknown field"));
  assert_string_equal(crema_error_layer(), "r");
  assert_string_equal(crema_error_blob(), "");
  assert_int_equal(crema_error_line(), 3);
  refuse("nmae: 'x'", CREMA_E_PARSE, WORDS("test.prototxt:1:1: unknown field"));
  assert_string_equal(crema_error_layer(), "");
  assert_int_equal(crema_error_line(), 1);
}

/* A net is often built for a phase, or without a stage, that it was not written for. */
TEST(bottom_of_a_layer_left_out) {
#define READER "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'r' }"
#define MAKER(name, rule) \
  "layer { name: '" name "' type: 'DummyData' top: 'x' " rule " dummy_data_param { num: 1 } }\n"
  refuse(MAKER("m", "include { phase: TEST }") READER, CREMA_E_UNKNOWN_NAME,
         WORDS("layer 'r' (ReLU)", "bottom 0 'x'",
               "layer 'm' would make it, but its include rule (phase: TEST) leaves it out"));
  refuse(MAKER("m", "include { phase: TRAIN stage: 'fit' }") MAKER("n", "include { phase: TEST }")
             READER,
         CREMA_E_UNKNOWN_NAME,
         WORDS("layer 'm' would make it, but its include rule (stage: \"fit\") leaves it out"));
  refuse(MAKER("n", "include { phase: TEST }") MAKER("m", "include { min_level: 2 }") READER,
         CREMA_E_UNKNOWN_NAME, WORDS("layer 'm'", "(min_level: 2)"));
  refuse(MAKER("m", "exclude { phase: TRAIN }") READER, CREMA_E_UNKNOWN_NAME,
         WORDS("layer 'm' would make it, but its exclude rule leaves it out"));
}

TEST(unknown_type) {
  refuse(DATA "layer { name: 'r' type: 'Relu' bottom: 'data' top: 'r' }", CREMA_E_UNKNOWN_NAME,
         WORDS("layer 'r'", "unknown layer type 'Relu'", "'ReLU'"));
  refuse(DATA "layer { name: 'r' bottom: 'data' top: 'r' }", CREMA_E_UNKNOWN_NAME,
         WORDS("layer 'r'"));
  /* An unknown field of such a layer is no second fault. */
  refuse(DATA "layer { name: 'r' type: 'Sofmax'\n sofmax_param { axis: 1 } }", CREMA_E_UNKNOWN_NAME,
         WORDS("test.prototxt:3:2: layer 'r' (Sofmax): unknown layer type 'Sofmax'", "'Softmax'"));
  refuse(DATA "layer { relu_param { slop: [1, 2] } name: 'r' top: ['r'] type: 'Relu' }",
         CREMA_E_PARSE, WORDS("unknown field \"slop\""));
  refuse(DATA "layer { slope: [1, 2] other { type: 'x' } name: 'r' top: ['r'] type: 'Relu' }",
         CREMA_E_UNKNOWN_NAME, WORDS("unknown layer type 'Relu'", "'ReLU'"));
  refuse(DATA "layer { slope: 1 type: 'ReLU' }", CREMA_E_PARSE, WORDS("unknown field \"slope\""));
  refuse(DATA "layer { slope: 1 top: }", CREMA_E_PARSE, WORDS("unknown field \"slope\""));
  refuse(DATA "layer { type: 'BN' bn_par {} }", CREMA_E_PARSE, WORDS("unknown field \"bn_par\""));
  refuse(DATA "layer { type: 'Python' param { name: 1 } }", CREMA_E_PARSE, WORDS("string"));
}

TEST(layer_without_a_name_is_found_by_its_line) {
  refuse(DATA
         "layer { type: 'ReLU' bottom: 'data' top: 'a' }\n"
         "layer { type: 'ReLU' bottom: 'none' top: 'b' }",
         CREMA_E_UNKNOWN_NAME, WORDS("test.prototxt:3: layer '' (ReLU): "));
  assert_int_equal(crema_error_line(), 3);
  refuse(DATA "\nlayer {}", CREMA_E_UNKNOWN_NAME, WORDS("test.prototxt:3: layer '': "));
  /* Layers that a stage or a level leaves out, or an upgrade adds, do not count. */
  refuse(
      DATA
      "layer { type: 'ReLU' bottom: 'data' top: 'a' include { stage: 'deploy' } }\n"
      "layer { type: 'ReLU' bottom: 'data' top: 'a' exclude { min_level: 0 } }\n"
      "layer { type: 'BatchNorm' bottom: 'data' top: 'c' batch_norm_param { scale_bias: true } }\n"
      "layer { type: 'ReLU' bottom: 'none' top: 'b' }\n"
      "layer { type: 'ReLU' bottom: 'data' top: 'd' }",
      CREMA_E_UNKNOWN_NAME, WORDS("test.prototxt:5: layer '' (ReLU): "));
}

TEST(upgrades_fail_at_the_line_of_their_layer) {
  refuse(DATA "\nlayer { type: 'Pooling' name: 'p' pooling_param { kernel_shape { dim: -1 } } }",
         CREMA_E_RANGE, WORDS("test.prototxt:3: layer 'p' (Pooling): an entry of kernel_size_3d"));
  assert_string_equal(crema_error_layer(), "p");
  assert_int_equal(crema_error_line(), 3);
}

/* Shapes that do not fit name all bottoms as the text does, not as the splits do. */
TEST(bottoms_of_other_shapes) {
  refuse(
      "layer { name: 'in' type: 'Input' top: 'a' top: 'b' input_param {\n"
      "  shape { dim: 2 dim: 3 } shape { dim: 2 dim: 4 } } }\n"
      "layer { name: 'r' type: 'ReLU' bottom: 'a' top: 'r' }\n"
      "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'a' bottom: 'b' top: 'loss' }",
      CREMA_E_SHAPE,
      WORDS("layer 'loss' (EuclideanLoss)",
            "; the bottoms are 'a' of shape 2 3 (6), 'b' of shape 2 4 (8)"));
}

TEST(duplicate_top) {
  refuse(DATA
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'y' }\n"
         "layer { name: 't' type: 'TanH' bottom: 'data' top: 'y' }",
         CREMA_E_EXISTS, WORDS("layer 't' (TanH)", "top 'y'", "layer 'r'"));
  refuse("layer { name: 'in' type: 'Input' top: 'a' top: 'a' input_param { shape { dim: 1 } } }",
         CREMA_E_EXISTS, WORDS("layer 'in' (Input)", "top 'a'"));
}

TEST(in_place_on_a_shared_blob) {
  refuse(DATA
         "layer { name: 's' type: 'Sigmoid' bottom: 'data' top: 's' }\n"
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'data' }",
         CREMA_E_ARGUMENT, WORDS("layer 'r' (ReLU)", "in place", "'data'", "layer 's'"));
}

TEST(a_name_that_a_split_needs) {
  refuse(INPUT("data_in_data_0_split_0", DIM2(1, 1)) DATA
         "layer { name: 's' type: 'Sigmoid' bottom: 'data' top: 's' }\n"
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'r' }",
         CREMA_E_EXISTS, WORDS("data_in_data_0_split"));
}

TEST(blob_counts) {
  refuse(DATA "layer { name: 'l' type: 'SoftmaxWithLoss' bottom: 'data' top: 'l' }",
         CREMA_E_ARGUMENT, WORDS("layer 'l' (SoftmaxWithLoss)", "bottom", "found 1"));
  refuse(DATA "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' top: 'b' }", CREMA_E_ARGUMENT,
         WORDS("layer 'r' (ReLU)", "takes 1 top", "found 2"));
  refuse(DATA "layer { name: 'r' type: 'ReLU' bottom: 'data' bottom: 'data' top: 'a' }",
         CREMA_E_ARGUMENT, WORDS("layer 'r' (ReLU)", "takes 1 bottom", "found 2"));
  refuse("layer { name: 'r' type: 'ReLU' top: 'a' }", CREMA_E_ARGUMENT,
         WORDS("layer 'r' (ReLU)", "takes 1 bottom", "found 0"));
  refuse(INPUT("data", DIM4(1, 1, 3, 3))
         "layer { name: 'c' type: 'Convolution' bottom: 'data' top: 'a' top: 'b'"
         "  convolution_param { num_output: 1 kernel_size: 1 } }",
         CREMA_E_ARGUMENT, WORDS("layer 'c' (Convolution)", "1 bottoms and 2 tops"));
}

TEST(list_lengths) {
  refuse(DATA
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' loss_weight: 1"
         "  loss_weight: 1 }",
         CREMA_E_ARGUMENT, WORDS("layer 'r' (ReLU)", "loss_weight", "(1)", "found 2"));
  refuse(DATA
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' propagate_down: true"
         "  propagate_down: true }",
         CREMA_E_ARGUMENT, WORDS("layer 'r' (ReLU)", "propagate_down", "(1)", "found 2"));
  refuse(DATA FC("f", "data", "param {} param {}"), CREMA_E_ARGUMENT,
         WORDS("layer 'f' (InnerProduct)", "2 param entries", "1 parameters"));
  refuse(
      DATA FC("f", "data", "blobs { shape { dim: 1 } data: 1 } blobs { shape { dim: 1 } data: 1 }"),
      CREMA_E_ARGUMENT, WORDS("layer 'f' (InnerProduct)", "2 blobs", "1 parameters"));
}

TEST(rules_of_both_kinds) {
  refuse(DATA
         "layer { name: 'r' type: 'ReLU' bottom: 'data' top: 'a' include { phase: TRAIN }"
         "  exclude { phase: TEST } }",
         CREMA_E_ARGUMENT, WORDS("layer 'r' (ReLU)", "include", "exclude"));
}

TEST(learning_batch_norm) {
  refuse(INPUT("data", DIM4(2, 3, 2, 2))
         "layer { name: 'b' type: 'BatchNorm' bottom: 'data' top: 'b' param { lr_mult: 1 } }",
         CREMA_E_ARGUMENT, WORDS("layer 'b' (BatchNorm)", "param 0", "lr_mult 1"));
}

TEST(shared_params) {
  refuse(DATA FC("a", "data", "param { name: 'w' lr_mult: 1 }")
             FC("b", "a", "param { name: 'w' lr_mult: 2 }"),
         CREMA_E_ARGUMENT, WORDS("layer 'b' (InnerProduct)", "'w'", "lr_mult 2", "1 in another"));
  refuse(DATA FC("a", "data", "param { name: 'w' decay_mult: 0.5 }")
             FC("b", "a", "param { name: 'w' decay_mult: 0 }"),
         CREMA_E_ARGUMENT, WORDS("layer 'b' (InnerProduct)", "'w'", "decay_mult 0", "0.5"));
  refuse(DATA INPUT("wide", DIM2(2, 5)) FC("a", "data", "param { name: 'w' }")
             FC("b", "wide", "param { name: 'w' }"),
         CREMA_E_SHAPE, WORDS("layer 'b' (InnerProduct)", "layer 'a'", "3 5 (15)", "3 3 (9)"));
  refuse(DATA INPUT("wide", DIM2(2, 5)) FC("a", "data", "param { name: 'w' }")
             FC("b", "wide", "param { name: 'w' share_mode: PERMISSIVE }"),
         CREMA_E_SHAPE, WORDS("counts differ", "3 5 (15)", "3 3 (9)"));
}

/* Layers say by themselves who they are; failures from below them get it from the net. */
TEST(shapes_that_do_not_fit) {
  refuse(
      DATA INPUT(
          "other",
          DIM2(3, 2)) "layer { name: 'e' type: 'Eltwise' bottom: 'data' bottom: 'other' top: 'e' }",
      CREMA_E_SHAPE, WORDS("layer 'e' (Eltwise)", "2 3", "3 2"));
}

TEST(huge_shapes) {
  static const char *const shape[] = {"dim: 4611686018427387904 dim: 4",
                                      "dim: 9223372036854775807 dim: 9223372036854775807",
                                      "dim: -1 dim: 3", "dim: 3037000500 dim: 3037000500"};
  for (size_t i = 0; i < sizeof shape / sizeof shape[0]; ++i) {
    char text[512];
    snprintf(text, sizeof text,
             "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { %s } } }\n",
             shape[i]);
    refuse(text, CREMA_E_SHAPE, WORDS("layer 'in' (Input)"));
  }
  /* Legal as a shape, but no machine has the memory for the weights. */
  crema_net *net = NULL;
  const char *text = INPUT("x", DIM2(1, 1099511627776))
      "layer { name: 'fc' type: 'InnerProduct' bottom: 'x' top: 'y'"
      "  inner_product_param { num_output: 4096 } }";
  crema_status status = crema_net_parse(text, strlen(text), "test.prototxt", NULL, &net);
  assert_true(status == CREMA_E_NO_MEMORY || status == CREMA_E_SHAPE);
  assert_names(WORDS("layer 'fc' (InnerProduct)"));
}

TEST(many_axes) {
  char text[2048] = "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { ";
  for (int i = 0; i < 40; ++i) strcat(text, "dim: 1 ");
  strcat(text, "} } }");
  refuse(text, CREMA_E_SHAPE, WORDS("layer 'in' (Input)", "40"));
}

/* Neither depth nor width may exhaust the stack or take quadratic time. */
TEST(deep_and_wide_nets_build) {
  enum { DEPTH = 20000, WIDTH = 2000 };
  cr_buffer text = {0};
  ok(cr_buffer_print(&text, INPUT("x0", DIM2(1, 2))));
  for (int i = 0; i < DEPTH; ++i) {
    ok(cr_buffer_print(&text, "layer { name: 'l%d' type: 'Sigmoid' bottom: 'x%d' top: 'x%d' }\n", i,
                       i, i + 1));
  }
  for (int i = 0; i < WIDTH; ++i) {
    ok(cr_buffer_print(&text, "layer { name: 'w%d' type: 'TanH' bottom: 'x%d' top: 'y%d' }\n", i,
                       DEPTH, i));
  }
  crema_net *net = build(text.data, CREMA_TEST);
  assert_int_equal(crema_net_layer_count(net), DEPTH + WIDTH + 2);
  assert_int_equal(crema_net_output_count(net), WIDTH);
  ok(cr_net_forward_range(net, 0, 20, NULL));
  ok(crema_net_reshape(net));
  crema_net_destroy(net);
  cr_buffer_free(&text);
}

TEST(missing_file) {
  crema_net *net = NULL;
  assert_int_equal(crema_net_load("/nowhere/net.prototxt", NULL, &net), CREMA_E_NOT_FOUND);
  assert_names(WORDS("/nowhere/net.prototxt"));
  refuse("layer { name: 'x' typ: 'ReLU' }", CREMA_E_PARSE,
         WORDS("test.prototxt:1:", "did you mean \"type\"?"));
}

TEST(unknown_fields_can_be_warned_of) {
  crema_net_options options = phase_options(CREMA_TEST);
  options.warn_unknown_fields = true;
  crema_net *net = build_with(DATA "some_field: 3\n", &options);
  assert_int_equal(crema_net_layer_count(net), 1);
  crema_net_destroy(net);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
