/* The line on which each layer begins, however the text is laid out, and the line of a field. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "proto_test.h"

static void must_begin_at(const Caffe__NetParameter *net, size_t layer, size_t line) {
  assert_true(layer < net->n_layer);
  assert_int_equal(cr_layer_line(&net->layer[layer]->base), line);
}

TEST(layers_have_the_line_of_their_bracket) {
  ProtobufCMessage *message = must_parse(NET,
                                         "name: 'a' # layer { name: 'a' }\n"
                                         "layer { name: 'a' }\n"
                                         "layer: < param { name: 'c' }\n name: 'd' >\n"
                                         "layer\n{ type: 'x' 'y' } state { stage: 'x' }\n"
                                         "layer [ { name: 'l1' },\n { name: 'l2' } ] layer {}\n"
                                         "layer { include { phase: TEST } }");
  const Caffe__NetParameter *net = (const Caffe__NetParameter *)message;
  static const size_t lines[] = {2, 3, 6, 7, 8, 8, 9};
  assert_int_equal(net->n_layer, sizeof lines / sizeof *lines);
  for (size_t i = 0; i < net->n_layer; ++i) must_begin_at(net, i, lines[i]);
  assert_int_equal(cr_layer_line(message), 0);
  cr_message_free(message);
}

/* Copies keep the line, and it can be changed. It is in neither form of a file. */
TEST(lines_stay_in_memory) {
  ProtobufCMessage *message = must_parse(NET, "\nlayer { name: 'a' }"), *again = NULL;
  Caffe__NetParameter *copy = NULL;
  cr_buffer wire = {0};
  ok(cr_message_copy(message, &copy));
  must_begin_at(copy, 0, 2);
  ok(cr_layer_set_line(&copy->layer[0]->base, 7));
  must_begin_at(copy, 0, 7);
  must_print(&copy->base, "layer {\n  name: \"a\"\n}\n");
  ok(cr_wire_print(&copy->base, &wire));
  assert_int_equal(wire.size, 6);
  ok(cr_wire_parse(NET, (const uint8_t *)wire.data, wire.size, "wire", &again));
  must_begin_at((const Caffe__NetParameter *)again, 0, 0);
  assert_int_equal(((const Caffe__NetParameter *)again)->layer[0]->base.n_unknown_fields, 0);
  cr_buffer_free(&wire);
  cr_message_free(again);
  cr_message_free(&copy->base);
  cr_message_free(message);
}

/* Upgrades pass the line on, also to layers that they add. A layer for inputs has none. */
TEST(upgrades_keep_lines) {
  static const struct {
    const char *text;
    size_t line[4];
  } rows[] = {
      {"\nlayers { name: 'a' type: RELU }\nlayers { type: RELU }", {2, 3}},
      {"\nlayers { layer { name: 'a' type: 'relu' } }", {2}},
      {"\nlayers { bottom: 'x' top: 'y' layer { name: 'p' type: 'padding' pad: 1 } }\n"
       "layers { bottom: 'y' top: 'z' layer { name: 'c' type: 'conv' } }",
       {3}},
      {"layer {}\nlayer { type: 'BatchNorm' top: 'x' batch_norm_param { scale_bias: true } }\n"
       "layer {}",
       {1, 2, 2, 3}},
      {"layer {}\nlayer { type: 'Convolution' top: 'x' convolution_param { relu: true } }\nlayer "
       "{}",
       {1, 2, 2, 3}},
      {"layer {}\nlayer { type: 'BN' bottom: 'x' top: 'x' bn_param { bn_mode: LEARN } }\nlayer {}",
       {1, 2, 2, 3}},
      {"input: 'x' input_dim: [1, 1, 1, 1]\nlayer {}", {0, 2}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ProtobufCMessage *message = must_parse(NET, rows[i].text);
    Caffe__NetParameter *net = (Caffe__NetParameter *)message;
    ok(cr_net_param_upgrade(net, NULL, NULL));
    for (size_t k = 0; k < net->n_layer; ++k) must_begin_at(net, k, rows[i].line[k]);
    assert_true(net->n_layer > 0 && (net->n_layer == 4 || rows[i].line[net->n_layer] == 0));
    cr_message_free(message);
  }
}

/* A failure of an upgrade names the file, the line and the layer. */
TEST(upgrades_fail_at_lines) {
  static const struct {
    const char *text, *why;
  } rows[] = {
      {"\nlayer { name: 'c' type: 'NdConvolution'\n convolution_param { kernel_size: 1 "
       "kernel_shape { dim: 1 } } }",
       "net.prototxt:2: layer 'c' (NdConvolution): both \"kernel_size\" and \"kernel_shape\" are "
       "given; use \"kernel_shape\""},
      {"layer {}\n\nlayer { type: 'Pooling' pooling_param { pad_shape { dim: -1 } } }",
       "net.prototxt:3: layer '' (Pooling): an entry of pad_3d is -1"},
      {"\nlayers { name: 'l' type: SOFTMAX_LOSS softmaxloss_param { weight_source: 'x' } }",
       "net.prototxt:2: layer 'l' (SoftmaxWithLoss): weight_source of softmaxloss_param is not "
       "supported"},
      {"\nlayers { layer { name: 'x' type: 'convv' } }",
       "net.prototxt:2: layer 'x' (convv): unknown layer type \"convv\"; did you mean \"conv\"?"},
      {"\nlayers {} layer {}",
       "net.prototxt: the net has both \"layer\" and \"layers\"; use \"layer\" for all of them"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    ProtobufCMessage *message = must_parse(NET, rows[i].text);
    assert_true(cr_net_param_upgrade((Caffe__NetParameter *)message, "net.prototxt", NULL) !=
                CREMA_OK);
    assert_string_equal(crema_error_text(), rows[i].why);
    assert_string_equal(crema_error_file(), "net.prototxt");
    cr_message_free(message);
  }
}

TEST(upgrades_of_nets_in_solvers_fail_at_lines) {
  ProtobufCMessage *message =
      must_parse(SOLVER,
                 "base_lr: 1\ntest_net_param {}\ntest_net_param {\n"
                 "layer { name: 'c' type: 'Convolution3D' convolution_param { } } }");
  assert_int_equal(cr_solver_param_upgrade((Caffe__SolverParameter *)message, "s.prototxt"),
                   CREMA_E_ARGUMENT);
  assert_string_equal(crema_error_text(),
                      "s.prototxt:4: test_net_param 1: layer 'c' (Convolution3D): kernel_depth is "
                      "required");
  assert_int_equal(crema_error_line(), 4);
  cr_message_free(message);
}

TEST(fields_are_found_where_they_are_given_last) {
  const char *text =
      "a: 1 # a: 2\n"
      "b { a: 3 }\n"
      "a: \"a: 4\"\n"
      "mode: a\n"
      "list: [ 1, 2 ] c <\n"
      "  d: 5 >\n"
      "e { f { g: 1 } } d: 6";
  static const struct {
    const char *field;
    size_t line;
  } rows[] = {{"a", 3}, {"b", 2}, {"mode", 4}, {"list", 5}, {"c", 5},
              {"d", 7}, {"g", 0}, {"x", 0},    {"", 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    assert_int_equal(cr_text_field_line(text, strlen(text), rows[i].field), rows[i].line);
  }
  assert_int_equal(cr_text_field_line("a: 1 \"", 6, "a"), 1);
  assert_int_equal(cr_text_field_line("", 0, "a"), 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
