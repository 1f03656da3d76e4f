/* On which line a layer begins, however the text is laid out, also with several layers of one
 * name. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "proto_test.h"

static size_t line_of(const char *text, const char *name, size_t before, Caffe__Phase phase) {
  const cr_layer_search search = {.name = name, .before = before, .phase = phase};
  return cr_text_layer_line(text, strlen(text), &search);
}

static size_t line_in(const char *text, const char *field, size_t number, const char *name) {
  const cr_layer_search search = {
      .field = field, .number = number, .name = name, .phase = CAFFE__PHASE__TRAIN};
  return cr_text_layer_line(text, strlen(text), &search);
}

static const Caffe__Phase TRAIN = CAFFE__PHASE__TRAIN, TEST = CAFFE__PHASE__TEST;

TEST(names_are_found_wherever_they_stand) {
  const char *text =
      "name: 'a' # layer { name: 'a' }\n"
      "layer { name: 'a' type: 'x' }\n"
      "layer { type: 'x' bottom: \"name: 'b'\" name: \"b\" }\n"
      "layer: < param { name: 'c' } name: 'd' >\n"
      "layer { type: 'x' 'y' name: 'c'\n 'c' }\n"
      "layer { type: 'x' name: 'q\\'\\x41' } state { stage: 'x' }\n"
      "layer [ { name: 'l1' },\n { name: 'l2' } ] layer {}\n"
      "layers { layer { name: 'v0' } }\n"
      "layer { name: 'last' include { phase: TEST } }";
  assert_int_equal(line_of(text, "a", 0, TRAIN), 2);
  assert_int_equal(line_of(text, "b", 0, TRAIN), 3);
  assert_int_equal(line_of(text, "d", 0, TRAIN), 4);
  assert_int_equal(line_of(text, "c", 0, TRAIN), 0);
  assert_int_equal(line_of(text, "cc", 0, TRAIN), 5);
  assert_int_equal(line_of(text, "q'A", 0, TRAIN), 7);
  assert_int_equal(line_of(text, "l1", 0, TRAIN), 8);
  assert_int_equal(line_of(text, "l2", 0, TRAIN), 9);
  assert_int_equal(line_of(text, "", 0, TRAIN), 9);
  assert_int_equal(line_of(text, "v0", 0, TRAIN), 10);
  assert_int_equal(line_of(text, "last", 0, TEST), 11);
  assert_int_equal(line_of(text, "last", 0, TRAIN), 11); /* better than none */
  assert_int_equal(line_of(text, "none", 0, TRAIN), 0);
}

/* Layers of one name are told apart by the phases in their rules, and counted. */
TEST(layers_of_one_name_are_counted) {
  const char *text =
      "layer { name: 'd' include { phase: TRAIN } }\n"
      "layer { name: 'd' include { phase: TEST stage: 's' } include { min_level: 1 } }\n"
      "layer { name: 'd' exclude { phase: TEST } exclude { stage: 'x' } }\n"
      "layer { name: 'd' exclude { phase: TRAIN } phase: TRAIN }\n"
      "layer { name: 'd' include { phase: TRAIN } include { phase: TEST } }\n"
      "layer { name: 'n' include { phase: 0 } }\n"
      "layer { name: 'n' include { phase: 0x1 } }\n"
      "layer { name: 'n' exclude { phase: 1 } }\n";
  const size_t train[] = {1, 3, 5}, test[] = {2, 4, 5};
  for (size_t i = 0; i < 3; ++i) {
    assert_int_equal(line_of(text, "d", i, TRAIN), train[i]);
    assert_int_equal(line_of(text, "d", i, TEST), test[i]);
  }
  assert_int_equal(line_of(text, "d", 3, TRAIN), 1);
  /* Phases may be given as numbers. */
  assert_int_equal(line_of(text, "n", 0, TRAIN), 6);
  assert_int_equal(line_of(text, "n", 1, TRAIN), 8);
  assert_int_equal(line_of(text, "n", 0, TEST), 7);
}

/* The text and the parsed message agree on which layers count. */
TEST(the_message_counts_as_the_text_does) {
  static const struct {
    const char *rules;
    bool train, test;
  } cases[] = {
      {"", true, true},
      {"phase: TEST", true, true},
      {"include { phase: TRAIN }", true, false},
      {"include { phase: TEST }", false, true},
      {"include { phase: TRAIN } include { phase: TEST }", true, true},
      {"include { stage: 'x' }", true, true},
      {"exclude { phase: TRAIN }", false, true},
      {"exclude { phase: TEST }", true, false},
      {"exclude { min_level: 1 }", true, true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    char text[256];
    snprintf(text, sizeof text, "layer { name: 'a' %s }\nlayer { name: 'a' }", cases[i].rules);
    ProtobufCMessage *message = must_parse(&caffe__net_parameter__descriptor, text);
    const Caffe__NetParameter *net = (const Caffe__NetParameter *)message;
    assert_int_equal(cr_layer_names_phase(net->layer[0], CAFFE__PHASE__TRAIN), cases[i].train);
    assert_int_equal(cr_layer_names_phase(net->layer[0], CAFFE__PHASE__TEST), cases[i].test);
    assert_int_equal(line_of(text, "a", 0, TRAIN), cases[i].train ? 1 : 2);
    assert_int_equal(line_of(text, "a", 0, TEST), cases[i].test ? 1 : 2);
    cr_message_free(message);
  }
}

TEST(nets_inside_solver_files_are_searched) {
  const char *text =
      "net_param {\n layer { name: 'a' }\n layer { name: 'b' }\n}\n"
      "test_net_param: {\n layer { name: 'a' } }\n"
      "test_net_param <\n layer < name: 'a' > >\n"
      "train_net_param { state { phase: TRAIN }\n layer { name: 'c' } }\n";
  assert_int_equal(line_in(text, "net_param", 0, "a"), 2);
  assert_int_equal(line_in(text, "net_param", 0, "b"), 3);
  assert_int_equal(line_in(text, "net_param", 0, "c"), 0);
  assert_int_equal(line_in(text, "net_param", 1, "a"), 0);
  assert_int_equal(line_in(text, "test_net_param", 0, "a"), 6);
  assert_int_equal(line_in(text, "test_net_param", 1, "a"), 8);
  assert_int_equal(line_in(text, "test_net_param", 1, "b"), 0);
  assert_int_equal(line_in(text, "train_net_param", 0, "c"), 10);
  assert_int_equal(line_of(text, "a", 0, TRAIN), 0);
}

/* Text that is not a net gives no line, and is never read beyond its end. */
TEST(damaged_texts_have_no_lines) {
  static const char *const text[] = {"",
                                     "layer { name: 'x'",
                                     "layer { name: 'x",
                                     "}}} \"",
                                     "layer { {",
                                     "layer } name 'x' {",
                                     "{{{{",
                                     "< > <"};
  for (size_t i = 0; i < sizeof text / sizeof text[0]; ++i) {
    assert_int_equal(line_of(text[i], "x", 0, TRAIN), 0);
    assert_int_equal(line_in(text[i], "net_param", 0, "x"), 0);
  }
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
