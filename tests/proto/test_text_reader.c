/* Text format: accepted texts and their meaning; rejected texts, the place and the reason. */
#include "log_lines.h"
#include "proto_test.h"

#include "comma_locale.h"
#include "core/log.h"

typedef struct text_case {
  const char *text;
  const char *expected;
} text_case;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static void accept_all(const ProtobufCMessageDescriptor *type, const text_case *cases,
                       size_t count) {
  for (size_t i = 0; i < count; ++i) must_become(type, cases[i].text, cases[i].expected);
}

static void refuse_all(const ProtobufCMessageDescriptor *type, const text_case *cases,
                       size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ProtobufCMessage *message = NULL;
    const char *text = cases[i].text;
    assert_int_equal(cr_text_parse(type, text, strlen(text), "t", CR_UNKNOWN_ERROR, &message),
                     CREMA_E_PARSE);
    assert_null(message);
    assert_string_equal(crema_error_text(), cases[i].expected);
  }
}

TEST(punctuation) {
  static const text_case cases[] = {
      {"", ""},
      {" \t\r\n # only a comment", ""},
      {"layer{}layer:{}layer<>layer:<>", "layer {\n}\nlayer {\n}\nlayer {\n}\nlayer {\n}\n"},
      {"name:'a';force_backward:1,", "name: \"a\"\nforce_backward: true\n"},
      {"input:['a', \"b\"]input:'c'", "input: \"a\"\ninput: \"b\"\ninput: \"c\"\n"},
      {"input: [] layer []", ""},
      {"layer [{name:'a'}, <name:'b'>]", "layer {\n  name: \"a\"\n}\nlayer {\n  name: \"b\"\n}\n"},
      {"name # between\n : # these\n 'a'", "name: \"a\"\n"},
      {"\xEF\xBB\xBFname:'mark'", "name: \"mark\"\n"},
      {"layer { exp_param { base: 2 } }", "layer {\n  exp_param {\n    base: 2\n  }\n}\n"},
  };
  accept_all(NET, cases, COUNT(cases));
}

TEST(strings) {
  static const text_case cases[] = {
      {"name: 'a' \"b\"\n'c'", "name: \"abc\"\n"},
      {"name: '\\a\\b\\f\\n\\r\\t\\v\\\\\\?\\'\\\"'",
       "name: \"\\007\\010\\014\\n\\r\\t\\013\\\\?\\'\\\"\"\n"},
      {"name: '\\101\\1012\\x41\\x4g\\7'", "name: \"AA2A\\004g\\007\"\n"},
      {"name: '\\u00e9\\U0001F600\\ud83d\\ude00'",
       "name: \"\\303\\251\\360\\237\\230\\200\\360\\237\\230\\200\"\n"},
      {"name: 'it\"s' \"it's\"", "name: \"it\\\"sit\\'s\"\n"},
      {"name: ''", "name: \"\"\n"},
  };
  accept_all(NET, cases, COUNT(cases));
}

TEST(numbers) {
  static const text_case cases[] = {
      {"max_iter: 0x1F", "max_iter: 31\n"},
      {"max_iter: 017", "max_iter: 15\n"},
      {"max_iter: - 5", "max_iter: -5\n"},
      {"max_iter: -2147483648 test_iter: 2147483647",
       "test_iter: 2147483647\nmax_iter: -2147483648\n"},
      {"random_seed: -9223372036854775808", "random_seed: -9223372036854775808\n"},
      {"random_seed: 9223372036854775807", "random_seed: 9223372036854775807\n"},
      {"base_lr: .5", "base_lr: 0.5\n"},
      {"base_lr: 5.", "base_lr: 5\n"},
      {"base_lr: 1f", "base_lr: 1\n"},
      {"base_lr: 1.5E-3F", "base_lr: 0.0015\n"},
      {"base_lr: 1e3", "base_lr: 1000\n"},
      {"base_lr: 1e400", "base_lr: inf\n"},
      {"base_lr: -Infinity", "base_lr: -inf\n"},
      {"base_lr: - nAn", "base_lr: nan\n"},
      {"base_lr: 3.4028235e38", "base_lr: 3.40282347e+38\n"},
      {"base_lr: 0.1", "base_lr: 0.1\n"},
      {"base_lr: 16777217", "base_lr: 16777216\n"},
  };
  accept_all(SOLVER, cases, COUNT(cases));
}

/* A comma between two numbers is a decimal comma or stands in a list without brackets. */
TEST(stray_commas) {
  static const text_case cases[] = {
      {"base_lr: 0,01",
       "t:1:12: unexpected comma in \"base_lr\"; write a decimal number with a "
       "point: 0.01"},
      {"gamma: -0,5e-3",
       "t:1:11: unexpected comma in \"gamma\"; write a decimal number with a "
       "point: 0.5e-3"},
      {"stagelr: 0.1,0.01",
       "t:1:14: unexpected comma in \"stagelr\"; write several values in "
       "brackets, as in [1, 2]"},
      {"test_iter: 1, -2",
       "t:1:15: unexpected comma in \"test_iter\"; write several values in "
       "brackets, as in [1, 2]"},
      {"max_iter: 1,000", "t:1:13: unexpected comma in \"max_iter\"; give one value only"},
  };
  refuse_all(SOLVER, cases, COUNT(cases));
  must_become(SOLVER, "stagelr: [0.1, 0.01], base_lr: 1, gamma: 2",
              "base_lr: 1\ngamma: 2\nstagelr: 0.1\nstagelr: 0.01\n");
}

/* Pooling takes several extents, where most Caffes have one. */
TEST(lists_of_extents) {
#define EXTENTS(text, becomes) \
  { "layer { pooling_param { " text " } }", "layer {\n  pooling_param {\n" becomes "  }\n}\n" }
  static const text_case cases[] = {
      EXTENTS("kernel_size: 3", "    kernel_size: 3\n"),
      EXTENTS("kernel_size: 3 pad: 1 kernel_size: 2 kernel_size: 1",
              "    pad: 1\n    kernel_size_3d: 3\n    kernel_size_3d: 2\n    kernel_size_3d: 1\n"),
      EXTENTS("stride: [1, 2]", "    stride_3d: 1\n    stride_3d: 2\n"),
      EXTENTS("pad: [1] pad: [2, 3]", "    pad_3d: 1\n    pad_3d: 2\n    pad_3d: 3\n"),
      EXTENTS("pad: 1 pad: [2, 3]", "    pad_3d: 1\n    pad_3d: 2\n    pad_3d: 3\n"),
  };
  static const text_case refused[] = {
      {"layer { pooling_param { kernel_h: 1 kernel_h: 2 } }",
       "t:1:37: \"kernel_h\" is given twice in one PoolingParameter"},
      {"layer { pooling_param { pad: [1 2] } }", "t:1:33: expected \",\" or \"]\", found \"2\""},
  };
  accept_all(NET, cases, COUNT(cases));
  refuse_all(NET, refused, COUNT(refused));
}

/* The first field of a text shows its kind. */
TEST(nets_and_solvers_are_distinguished) {
  static const text_case nets[] = {
      {"# a net\nname: 'n'",
       "t:2:1: this is a network, not a solver; a solver file names it with net: \"FILE\""},
      {"layer { name: 'l' }",
       "t:1:1: this is a network, not a solver; a solver file names it with net: \"FILE\""},
      {"item { label: 1 }", "t:1:1: this is a label map, neither a network nor a solver"},
      {"base_lr: 1 layer { }", "t:1:12: unknown field \"layer\" in SolverParameter"},
      {"net_param { base_lr: 1 }", "t:1:13: unknown field \"base_lr\" in NetParameter"},
  };
  static const text_case solvers[] = {
      {"net: 'n'",
       "t:1:1: this is a solver, not a network; give the file that its field net names"},
      {"name: 'n' base_lr: 1", "t:1:11: unknown field \"base_lr\" in NetParameter"},
  };
  refuse_all(SOLVER, nets, COUNT(nets));
  refuse_all(NET, solvers, COUNT(solvers));
}

TEST(bools_and_enums) {
  static const text_case cases[] = {
      {"debug_info: true", "debug_info: true\n"},   {"debug_info: True", "debug_info: true\n"},
      {"debug_info: t", "debug_info: true\n"},      {"debug_info: 0x1", "debug_info: true\n"},
      {"debug_info: false", "debug_info: false\n"}, {"debug_info: False", "debug_info: false\n"},
      {"debug_info: f", "debug_info: false\n"},     {"debug_info: 0", "debug_info: false\n"},
      {"solver_mode: CPU", "solver_mode: CPU\n"},   {"solver_mode: 1", "solver_mode: GPU\n"},
  };
  accept_all(SOLVER, cases, COUNT(cases));
}

TEST(refused_values) {
  static const text_case cases[] = {
      {"max_iter: 1.5", "t:1:11: expected an integer, found \"1.5\""},
      {"max_iter: 2147483648", "t:1:11: 2147483648 is out of range (-2147483648 to 2147483647)"},
      {"max_iter: -2147483649", "t:1:12: -2147483649 is out of range (-2147483648 to 2147483647)"},
      {"max_iter: 99999999999999999999",
       "t:1:11: 99999999999999999999 is out of range (-2147483648 to 2147483647)"},
      {"net_param { layer { data_param { batch_size: 5000000000 } } }",
       "t:1:46: 5000000000 is out of range (0 to 4294967295)"},
      {"net_param { layer { data_param { batch_size: -64 } } }",
       "t:1:46: expected an integer of at least 0, found -64"},
      {"net_param { layer { data_param { batch_size: - } } }",
       "t:1:48: expected an integer of at least 0, found \"}\""},
      {"max_iter: 08", "t:1:11: a number that starts with 0 is octal and has digits 0 to 7"},
      {"max_iter: 0x", "t:1:11: no digits after 0x"},
      {"max_iter: 1x", "t:1:11: a space is missing after the number \"1\""},
      {"max_iter: +1", "t:1:11: expected an integer, found \"+\""},
      {"base_lr: 1e", "t:1:10: no digits in the exponent"},
      {"base_lr: 1.2.3", "t:1:10: a second point after the number \"1.2\""},
      {"base_lr: 0x10", "t:1:10: expected a decimal number, found \"0x10\""},
      {"base_lr: fast", "t:1:10: expected a number, found \"fast\""},
      {"base_lr: [0.1]", "t:1:10: expected a number, found \"[\""},
      {"debug_info: yes", "t:1:13: expected true or false, found \"yes\""},
      {"debug_info: 2", "t:1:13: expected true or false, found \"2\""},
      {"solver_mode: GPUS",
       "t:1:14: \"GPUS\" is not a value of caffe.SolverParameter.SolverMode; did you mean GPU?"},
      {"solver_mode: fastest",
       "t:1:14: \"fastest\" is not a value of caffe.SolverParameter.SolverMode; it can be CPU or "
       "GPU"},
      {"solver_mode: 7", "t:1:14: 7 is not a value of caffe.SolverParameter.SolverMode"},
      {"solver_mode: 'CPU'", "t:1:14: expected the name of a value, found the string 'CPU'"},
      {"net: 4", "t:1:6: expected a string in quotes, found \"4\""},
      {"net: \"a\nb\"", "t:1:6: the string has no closing \" on its line"},
      {"net: 'a", "t:1:6: the string has no closing '"},
      {"net: '\\q'", "t:1:7: unknown escape in a string"},
      {"net: 'a\\xg'", "t:1:8: \\x needs 1 hexadecimal digit"},
      {"net: '\\u12'", "t:1:7: \\u needs 4 hexadecimal digits"},
      {"net: '\\U00110000'", "t:1:7: \\U goes up to 0010FFFF"},
      {"net: '\\0'", "t:1:6: a NUL byte in a string"},
  };
  refuse_all(SOLVER, cases, COUNT(cases));
}

TEST(refused_structure) {
  static const text_case cases[] = {
      {"name \"x\"", "t:1:6: expected \":\" after \"name\", found the string \"x\""},
      {"name: 'a' name: 'b'", "t:1:11: \"name\" is given twice in one NetParameter"},
      {"layer { relu_param {} relu_param {} }",
       "t:1:23: \"relu_param\" is given twice in one LayerParameter"},
      {"layer {", "t:1:8: expected the name of a field or \"}\", found end of text"},
      {"layer { > ", "t:1:9: expected the name of a field or \"}\", found \">\""},
      {"layer { } }", "t:1:11: expected the name of a field, found \"}\""},
      {"layer: 1", "t:1:8: expected \"{\", found \"1\""},
      {"input: ['a' 'b'", "t:1:16: expected \",\" or \"]\", found end of text"},
      {"input: ['a',]", "t:1:13: expected a string in quotes, found \"]\""},
      {"\n\n  name: 'a';;", "t:3:13: expected the name of a field, found \";\""},
      {"name: 'a' \x01", "t:1:11: unexpected byte 0x01"},
      {"n\xC3\xA9: 1", "t:1:2: unexpected byte 0xC3"},
      {"layer { clip_param { min: 0 } }", "t:1:29: ClipParameter lacks its required field \"max\""},
      {"layer { convolution_param { kernal_size: 3 } }",
       "t:1:29: unknown field \"kernal_size\" in ConvolutionParameter; did you mean "
       "\"kernel_size\"?"},
      {"layer { exp_param { base_: 3 } }",
       "t:1:21: unknown field \"base_\" in ExpParameter; did you mean \"base\"?"},
      {"layer { name: 'c' type: 'ZebraStripe' zebra_stripe_param {} }",
       "t:1:39: layer 'c' (ZebraStripe): unknown field \"zebra_stripe_param\" in LayerParameter"},
      {"layer { name: 'p' pooling_param { pool: MIN } }",
       "t:1:41: layer 'p': \"MIN\" is not a value of caffe.PoolingParameter.PoolMethod; did you "
       "mean MAX?"},
      {"layers { name: 's' type: ZEBRA_STRIPE }",
       "t:1:26: layer 's': unknown layer type \"ZEBRA_STRIPE\""},
      {"layers { name: 's' type: CONVOLUTE }",
       "t:1:26: layer 's': unknown layer type \"CONVOLUTE\"; did you mean CONVOLUTION?"},
      {"layers { name: 'c' pool_param {} }",
       "t:1:20: layer 'c': unknown field \"pool_param\" in V1LayerParameter"},
      {"layer { type: 'WarpCTCLoss' warpctc_loss_param {} }",
       "t:1:29: layer '' (WarpCTCLoss): unknown field \"warpctc_loss_param\" in LayerParameter"},
      {"layer { convolutoin_param {} }",
       "t:1:9: unknown field \"convolutoin_param\" in LayerParameter; did you mean "
       "\"convolution_param\"?"},
      {"layer { name: 'c' } nam: 'x'",
       "t:1:21: unknown field \"nam\" in NetParameter; did you mean \"name\"?"},
      {"zzzzzzzzzzzz: 3", "t:1:1: unknown field \"zzzzzzzzzzzz\" in NetParameter"},
      {"[caffe.extension]: 3", "t:1:1: expected the name of a field, found \"[\""},
  };
  refuse_all(NET, cases, COUNT(cases));
}

TEST(unknown_fields_can_be_skipped) {
  static const char text[] =
      "name: 'a' foo: 1 foo: -1.5 foo: bar foo: 'x' 'y' foo: [1, 'a', {b: 2}] foo [] foo <a {b: 1}>"
      " foo { x: inf; y [ {}, <> ] } force_backward: true";
  static log_lines lines;
  ProtobufCMessage *message = NULL;
  listen_to(&lines, CREMA_LOG_WARNING);
  crema_status status = cr_text_parse(NET, text, strlen(text), "t", CR_UNKNOWN_WARN, &message);
  stop_listening();
  ok(status);
  assert_int_equal(lines.count, 8);
  assert_int_equal(count_lines(&lines, "unknown field"), 8);
  must_print(message, "name: \"a\"\nforce_backward: true\n");
  cr_message_free(message);
  static const char *const broken[] = {"foo 1", "foo: {", "foo: [1 2]", "foo: -'a'", "foo: }"};
  for (size_t i = 0; i < COUNT(broken); ++i) {
    assert_int_equal(
        cr_text_parse(NET, broken[i], strlen(broken[i]), "t", CR_UNKNOWN_WARN, &message),
        CREMA_E_PARSE);
  }
}

TEST(unknown_engines_can_be_skipped) {
  static const char text[] = "layer { relu_param { engine: XNNPACK negative_slope: 1 } }";
  static const char other[] = "layer { pooling_param { pool: MIN } }";
  ProtobufCMessage *message = NULL;
  assert_int_equal(cr_text_parse(NET, text, strlen(text), "t", CR_UNKNOWN_ERROR, &message),
                   CREMA_E_PARSE);
  assert_int_equal(cr_text_parse(NET, other, strlen(other), "t", CR_UNKNOWN_WARN, &message),
                   CREMA_E_PARSE);
  ok(cr_text_parse(NET, text, strlen(text), "t", CR_UNKNOWN_WARN, &message));
  must_print(message,
             "layer {\n  relu_param {\n    negative_slope: 1\n    engine: DEFAULT\n  }\n}\n");
  cr_message_free(message);
}

TEST(engines_of_forks_are_values) {
  static const text_case cases[] = {
      {"layer{convolution_param{engine:LIBDNN}}",
       "layer {\n  convolution_param {\n    engine: LIBDNN\n  }\n}\n"},
      {"layer{convolution_param{engine:INTEL_SPATIAL}}",
       "layer {\n  convolution_param {\n    engine: INTEL_SPATIAL\n  }\n}\n"},
      {"layers{pooling_param{engine:SPATIAL}}",
       "layers {\n  pooling_param {\n    engine: SPATIAL\n  }\n}\n"},
  };
  accept_all(NET, cases, COUNT(cases));
}

/* The Caffe of TSN has a list of GPUs in this field. */
TEST(first_device_of_a_list_counts) {
  static const text_case cases[] = {
      {"device_id: [2]", "device_id: 2\n"},
      {"device_id: 1, device_id: 3 device_id: [4]", "device_id: 1\n"},
      {"device_id: [1, 0, 5] group_id: [0, 1, 1]",
       "device_id: 1\ngroup_id: 0\ngroup_id: 1\ngroup_id: 1\n"},
  };
  static const text_case bad[] = {
      {"device_id: []", "t:1:13: expected an integer, found \"]\""},
      {"device_id: [1 2]", "t:1:15: expected \",\" or \"]\", found \"2\""},
      {"device_id: [1, ]", "t:1:16: expected a value, found \"]\""},
      {"max_iter: [1]", "t:1:11: expected an integer, found \"[\""},
  };
  static log_lines lines;
  listen_to(&lines, CREMA_LOG_WARNING);
  accept_all(SOLVER, cases, COUNT(cases));
  stop_listening();
  assert_int_equal(count_lines(&lines, "t:1: only the first value of device_id counts"), 3);
  refuse_all(SOLVER, bad, COUNT(bad));
}

TEST(deep_nesting_is_refused) {
  enum { DEPTH = 100000 };
  char *text = malloc(2 * DEPTH + 1);
  assert_non_null(text);
  for (int i = 0; i < DEPTH; ++i) memcpy(text + 2 * i, "a{", 2);
  ProtobufCMessage *message = NULL;
  assert_fails(cr_text_parse(NET, text, 2 * DEPTH, "t", CR_UNKNOWN_WARN, &message), CREMA_E_PARSE,
               "nested deeper than 100 levels");
  free(text);
}

TEST(every_prefix_is_read_or_refused) {
  static const char text[] =
      "layer { name: 'a\\x41' param [{lr_mult: 1.5e-3f}, <>] blobs { data: [1, -inf] } }";
  for (size_t size = 0; size < sizeof text; ++size) {
    /* A copy of the exact size lets the address sanitizer see a read beyond the end. */
    char *copy = malloc(size + 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    char *exact = realloc(copy, size > 0 ? size : 1);
    assert_non_null(exact);
    ProtobufCMessage *message = NULL;
    crema_status status = cr_text_parse(NET, exact, size, "t", CR_UNKNOWN_ERROR, &message);
    bool whole = size == 0 || size == sizeof text - 1;
    assert_int_equal(status, whole ? CREMA_OK : CREMA_E_PARSE);
    cr_message_free(message);
    free(exact);
  }
}

TEST(locale_does_not_matter) {
  if (!comma_locale_begin()) skip();
  must_become(SOLVER, "base_lr: 0.25", "base_lr: 0.25\n");
  setlocale(LC_ALL, "C");
}

TEST(long_lists) {
  enum { COUNT_OF_VALUES = 1000 };
  cr_buffer text = {0};
  for (int i = 0; i < COUNT_OF_VALUES; ++i) {
    ok(cr_buffer_print(&text, "test_iter: %d test_net: 'n%d'\n", i, i));
  }
  Caffe__SolverParameter *solver = (Caffe__SolverParameter *)must_parse(SOLVER, text.data);
  assert_int_equal(solver->n_test_iter, COUNT_OF_VALUES);
  assert_int_equal(solver->n_test_net, COUNT_OF_VALUES);
  for (int i = 0; i < COUNT_OF_VALUES; ++i) assert_int_equal(solver->test_iter[i], i);
  assert_string_equal(solver->test_net[COUNT_OF_VALUES - 1], "n999");
  cr_message_free(&solver->base);
  cr_buffer_free(&text);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
