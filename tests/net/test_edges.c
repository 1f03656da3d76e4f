/* Nets at the edge of what is found, counted or said: indices, names, rules, ranges of layers,
 * models in HDF5 and how many layers a message names. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/file.h"
#include "folder.h"
#include "log_lines.h"
#include "net_case.h"

static log_lines lines;

/* ---- indices and names ---- */

#define P(name, top, more)                                \
  "layer { name: '" name "' type: 'Parameter' top: '" top \
  "' parameter_param { shape { dim: 2 } } " more " }\n"

TEST(indices) {
  crema_net *net = build(
      "name: 'n'\n" INPUT("x", DIM2(1, 2)) INPUT("y", DIM2(1, 3)) P("p", "z", ""), CREMA_TEST);
  assert_string_equal(crema_net_name(net), "n");
  assert_int_equal(crema_net_input_count(net), 2);
  assert_string_equal(crema_net_input_name(net, 0), "x");
  assert_string_equal(crema_net_input_name(net, 1), "y");
  assert_ptr_equal(crema_net_input(net, 1), blob_of(net, "y"));
  assert_int_equal(crema_net_output_count(net), 3);
  assert_string_equal(crema_net_output_name(net, 0), "x");
  assert_string_equal(crema_net_output_name(net, 2), "z");
  assert_ptr_equal(crema_net_output(net, 2), blob_of(net, "z"));
  assert_int_equal(crema_net_blob_count(net), 3);
  assert_string_equal(crema_net_blob_name(net, 2), "z");
  assert_int_equal(crema_net_layer_count(net), 3);
  assert_string_equal(crema_net_layer_name(net, 2), "p");
  assert_string_equal(crema_net_layer_type(net, 2), "Parameter");
  assert_int_equal(crema_net_layer_param_count(net, 2), 1);
  assert_int_equal(crema_net_layer_param_count(net, 0), 0);
  assert_non_null(crema_net_layer_param(net, 2, 0));
  for (int i = 0; i < 2; ++i) {
    const int index = i == 0 ? -1 : 3;
    assert_null(crema_net_input(net, i == 0 ? -1 : 2));
    assert_null(crema_net_input_name(net, i == 0 ? -1 : 2));
    assert_null(crema_net_output(net, index));
    assert_null(crema_net_output_name(net, index));
    assert_null(crema_net_blob_name(net, index));
    assert_null(crema_net_layer_name(net, index));
    assert_null(crema_net_layer_type(net, index));
    assert_int_equal(crema_net_layer_param_count(net, index), 0);
    assert_null(crema_net_layer_param(net, index, 0));
    assert_null(crema_net_layer_param(net, 2, i == 0 ? -1 : 1));
  }
  crema_blob *blob = NULL;
  assert_fails(crema_net_blob(net, "zz", &blob), CREMA_E_UNKNOWN_NAME,
               "net 'n' has no blob 'zz'; did you mean 'z'?");
  crema_net_destroy(net);
  net = build("", CREMA_TEST);
  assert_int_equal(crema_net_layer_count(net), 0);
  assert_fails(crema_net_blob(net, "zz", &blob), CREMA_E_UNKNOWN_NAME, "net '' has no blob 'zz'");
  crema_net_destroy(net);
}

/* ---- ranges of layers ---- */

TEST(ranges) {
  crema_net *net =
      build(INPUT("x", DIM2(1, 2)) P("p", "p", "loss_weight: 2") P("q", "q", ""), CREMA_TRAIN);
  double loss = 5;
  fill(param_of(net, "p", 0), 3, 1);
  ok(cr_net_forward_range(net, 0, 0, &loss));
  assert_near(loss, 0, 0);
  ok(cr_net_forward_range(net, 1, 1, &loss));
  assert_near(loss, 14, 1e-6);
  ok(cr_net_forward_range(net, 1, 2, NULL));
  ok(cr_net_backward_range(net, 2, 2));
  ok(cr_net_backward_range(net, 0, 2));
  static const int wrong[][2] = {{-1, 0}, {0, 3}, {2, 1}, {3, 3}, {0, -1}};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; ++i) {
    char words[64];
    loss = 5;
    snprintf(words, sizeof words, "layers %d to %d of a net with 3 layers", wrong[i][0],
             wrong[i][1]);
    assert_fails(cr_net_forward_range(net, wrong[i][0], wrong[i][1], &loss), CREMA_E_RANGE, words);
    assert_fails(cr_net_backward_range(net, wrong[i][0], wrong[i][1]), CREMA_E_RANGE, words);
    assert_near(loss, 5, 0);
  }
  crema_net_destroy(net);
  net = build("", CREMA_TRAIN);
  ok(crema_net_forward(net, &loss));
  assert_near(loss, 0, 0);
  ok(crema_net_backward(net));
  assert_int_equal(cr_net_forward_range(net, 0, 0, NULL), CREMA_E_RANGE);
  assert_int_equal(cr_net_forward_range(net, 1, -1, NULL), CREMA_E_RANGE);
  assert_int_equal(cr_net_forward_range(net, 0, -2, NULL), CREMA_E_RANGE);
  crema_net_destroy(net);
}

/* ---- rules ---- */

/* Whether a layer with these rules is in the net of this level. */
static bool is_kept(const char *rules, crema_phase phase, int level, const char *const *stages,
                    size_t stage_count) {
  char text[512];
  crema_net_options options = phase_options(phase);
  options.level = level;
  options.stages = stages;
  options.stage_count = stage_count;
  snprintf(text, sizeof text,
           "state { stage: 'own' }\n" INPUT("x", DIM2(1, 1))
           "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 } } %s }",
           rules);
  crema_net *net = build_with(text, &options);
  const bool kept = cr_net_find_layer(net, "p") == 1;
  assert_int_equal(crema_net_layer_count(net), kept ? 2 : 1);
  crema_net_destroy(net);
  return kept;
}

TEST(rules) {
  static const struct {
    const char *text;
    crema_phase phase;
    int level;
    bool kept;
  } cases[] = {
      {"", CREMA_TRAIN, 0, true},
      {"include { }", CREMA_TRAIN, 0, true},
      {"exclude { }", CREMA_TRAIN, 0, false},
      {"include { phase: TRAIN }", CREMA_TRAIN, 0, true},
      {"include { phase: TRAIN }", CREMA_TEST, 0, false},
      {"exclude { phase: TRAIN }", CREMA_TEST, 0, true},
      {"include { min_level: 2 }", CREMA_TEST, 1, false},
      {"include { min_level: 2 }", CREMA_TEST, 2, true},
      {"include { max_level: 2 }", CREMA_TEST, 2, true},
      {"include { max_level: 2 }", CREMA_TEST, 3, false},
      {"include { min_level: 2 max_level: 2 }", CREMA_TEST, 2, true},
      {"exclude { min_level: 2 max_level: 2 }", CREMA_TEST, 2, false},
      {"include { stage: 'a' }", CREMA_TEST, 0, true},
      {"include { stage: 'b' }", CREMA_TEST, 0, true},
      {"include { stage: 'own' }", CREMA_TEST, 0, true},
      {"include { stage: 'c' }", CREMA_TEST, 0, false},
      {"include { stage: 'a' stage: 'c' }", CREMA_TEST, 0, false},
      {"include { stage: 'a' stage: 'b' stage: 'own' }", CREMA_TEST, 0, true},
      {"include { not_stage: 'c' }", CREMA_TEST, 0, true},
      {"include { not_stage: 'c' not_stage: 'b' }", CREMA_TEST, 0, false},
      {"include { not_stage: 'own' }", CREMA_TEST, 0, false},
      {"include { stage: 'c' } include { stage: 'a' }", CREMA_TEST, 0, true},
      {"include { stage: 'c' } include { stage: 'd' }", CREMA_TEST, 0, false},
      {"exclude { stage: 'c' } exclude { stage: 'a' }", CREMA_TEST, 0, false},
      {"exclude { stage: 'c' } exclude { stage: 'd' }", CREMA_TEST, 0, true},
  };
  static const char *const stages[] = {"a", "b"};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (is_kept(cases[i].text, cases[i].phase, cases[i].level, stages, 2) != cases[i].kept) {
      fail_msg("%s, level %d", cases[i].text, cases[i].level);
    }
  }
}

/* Which rule leaves out the layer whose blob is missing: the first part of it that fails. */
TEST(rules_in_messages) {
  static const struct {
    const char *rules, *words;
  } cases[] = {{"include { phase: TEST }", "include rule (phase: TEST)"},
               {"include { min_level: 1 }", "include rule (min_level: 1)"},
               {"include { max_level: -1 }", "include rule (max_level: -1)"},
               {"include { stage: 'gone' }", "include rule (stage: \"gone\")"},
               {"include { phase: TRAIN stage: 'gone' }", "include rule (stage: \"gone\")"},
               {"include { stage: 'x' } include { stage: 'y' }", "include rule (stage: \"y\")"},
               {"exclude { phase: TRAIN }", "exclude rule"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char text[512], words[256];
    snprintf(text, sizeof text,
             "layer { name: 'p' type: 'Parameter' top: 'p' parameter_param { shape { dim: 1 } } %s "
             "}\nlayer { name: 's' type: 'Silence' bottom: 'p' }",
             cases[i].rules);
    snprintf(words, sizeof words,
             "bottom 0 'p' is not made by any earlier layer; layer 'p' would make it, but its %s "
             "leaves it out",
             cases[i].words);
    refuse(text, CREMA_E_UNKNOWN_NAME, WORDS(words));
  }
}

/* ---- models in HDF5 ---- */

/* The signature may stand at byte 0, 512, 1024, 2048 and so on, up to the last 8 bytes. */
TEST(signatures) {
  static const struct {
    off_t at, size;
    bool found;
  } cases[] = {{0, 8, true},       {0, 7, false},      {1, 600, false},    {512, 520, true},
               {512, 519, false},  {513, 600, false},  {1024, 1032, true}, {1536, 1600, false},
               {2048, 2056, true}, {4096, 9000, true}, {4096, 4103, false}};
  const char *path = path_of("signed");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(pwrite(fd, "\211HDF\r\n\032\n", 8, cases[i].at), 8);
    assert_int_equal(ftruncate(fd, cases[i].size), 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(cr_net_is_hdf5(path), cases[i].found);
  }
  unlink(path);
  assert_false(cr_net_is_hdf5(path));
  assert_false(cr_net_is_hdf5(folder));
  assert_true(cr_net_is_named_hdf5("a.h5"));
  assert_true(cr_net_is_named_hdf5(".h5"));
  assert_false(cr_net_is_named_hdf5("h5"));
  assert_false(cr_net_is_named_hdf5("a.h5x"));
  assert_false(cr_net_is_named_hdf5("a_h5"));
  assert_false(cr_net_is_named_hdf5(""));
}

/* HDF5 tells layers apart by their names. */
TEST(names_of_saved_layers) {
  const char *path = path_of("named.h5");
  crema_net *net = build(INPUT("x", DIM2(1, 2)) P("", "p", ""), CREMA_TRAIN);
  assert_fails(
      cr_net_check_hdf5(net, false), CREMA_E_ARGUMENT,
      "layer 1 (Parameter) (line 2) has no name; HDF5 models identify layers by their names");
  assert_fails(crema_net_save_weights(net, path), CREMA_E_ARGUMENT,
               "layer 1 (Parameter) (line 2) has no name");
  crema_net_destroy(net);
  net = build(P("two", "p", "") P("one", "q", "") P("two", "r", ""), CREMA_TRAIN);
  assert_fails(cr_net_check_hdf5(net, false), CREMA_E_EXISTS,
               "two layers are named 'two': Parameter (line 1), Parameter (line 3)");
  assert_fails(crema_net_save_weights(net, path), CREMA_E_EXISTS, "two layers are named 'two'");
  assert_int_not_equal(access(path, F_OK), 0);
  crema_net_destroy(net);
  /* Layers without parameters may lack a name or share one. */
  net = build(
      "layer { name: '' type: 'Input' top: 'x' input_param { shape { dim: 1 } } }\n"
      "layer { name: 'two' type: 'Silence' bottom: 'x' }\n" P("two", "p", ""),
      CREMA_TRAIN);
  ok(cr_net_check_hdf5(net, true));
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  unlink(path);
  /* Sharers are saved with their diffs only. */
  net =
      build(P("two", "p", "param { name: 'w' }") P("two", "r", "param { name: 'w' }"), CREMA_TRAIN);
  ok(cr_net_check_hdf5(net, false));
  assert_fails(cr_net_check_hdf5(net, true), CREMA_E_EXISTS, "two layers are named 'two'");
  crema_net_destroy(net);
}

/* The layers of a file that a net lacks are found in groups inside groups, whatever they are listed
 * behind. */
TEST(layers_in_groups) {
  const char *path = path_of("groups.h5");
  crema_net *net =
      build(P("a", "p", "") P("a/!b", "q", "") P("c/d", "r", "") P("here", "s", ""), CREMA_TRAIN);
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  net = build(P("here", "s", ""), CREMA_TRAIN);
  listen_to(&lines, CREMA_LOG_INFO);
  ok(crema_net_load_weights(net, path));
  stop_listening();
  assert_int_equal(count_lines(&lines, "3 layers of "), 1);
  assert_int_equal(count_lines(&lines, " are not in the net: a, a/!b, c/d\n"), 1);
  assert_int_equal(count_lines(&lines, "\n"), 1);
  listen_to(&lines, CREMA_LOG_DEBUG);
  ok(crema_net_load_weights(net, path));
  stop_listening();
  assert_int_equal(count_lines(&lines, "Ignoring source layer c/d\n"), 1);
  assert_int_equal(count_lines(&lines, "Ignoring source layer"), 3);
  crema_net_destroy(net);
  unlink(path);
}

/* A net of one InnerProduct layer, 'i'. */
static crema_net *build_product(const char *inputs, const char *more) {
  char text[512];
  snprintf(text, sizeof text,
           INPUT("x", "dim: 1 dim: %s") "layer { name: 'i' type: 'InnerProduct' bottom: 'x' top:"
           " 'i' inner_product_param { num_output: 2 %s } }", inputs, more);
  return build(text, CREMA_TRAIN);
}

TEST(hdf5_models_that_do_not_fit) {
  const char *path = path_of("fit.h5");
  crema_net *net = build_product("3", "");
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  net = build_product("3", "bias_term: false");
  assert_fails(crema_net_load_weights(net, path), CREMA_E_ARGUMENT,
               "incompatible number of blobs for layer 'i' (InnerProduct): the file has /data/i/1, "
               "the net has 1 parameters");
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  net = build_product("3", "");
  assert_fails(crema_net_load_weights(net, path), CREMA_E_ARGUMENT,
               "incompatible number of blobs for layer 'i' (InnerProduct): the file has no "
               "/data/i/1");
  crema_net_destroy(net);
  net = build_product("4", "bias_term: false");
  assert_fails(crema_net_load_weights(net, path), CREMA_E_SHAPE,
               "/data/i/0 (layer 'i', parameter 0): the file's shape is 2 3 (6), the net's is 2 4 "
               "(8)");
  crema_net_destroy(net);
  unlink(path);
}

/* ---- layers that get no weights ---- */

/* `count` layers with parameters, named <first><i>. */
static crema_net *build_many(const char *first, int count, crema_phase phase) {
  static char text[1 << 14];
  text[0] = '\0';
  for (int i = 0; i < count; ++i) {
    char layer[200];
    snprintf(layer, sizeof layer,
             "layer { name: '%s%d' type: 'Parameter' top: '%s%d' parameter_param { shape { dim: 1 "
             "} } }\n",
             first, i, first, i);
    strcat(text, layer);
  }
  strcat(text, P("both", "both", ""));
  return build(text, phase);
}

/* An error names four of them, and counts the others. */
TEST(missing_layers_in_errors) {
  const char *path = path_of("few");
  crema_net *net = build_many("x", 0, CREMA_TRAIN);
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  for (int count = 1; count <= 6; ++count) {
    char words[200];
    net = build_many("q", count, CREMA_TEST);
    snprintf(words, sizeof words,
             "holds no parameters for %d of the net's %d layers that have some: 'q0' (Parameter)",
             count, count + 1);
    assert_fails(crema_net_load_weights(net, path), CREMA_E_NOT_FOUND, words);
    const char *text = crema_error_text();
    assert_int_equal(strstr(text, "'q3' (Parameter)") != NULL, count > 3);
    assert_null(strstr(text, "'q4' (Parameter)"));
    assert_int_equal(strstr(text, "'q3' (Parameter) and 1 more;") != NULL, count == 5);
    assert_int_equal(strstr(text, "'q3' (Parameter) and 2 more;") != NULL, count == 6);
    assert_int_equal(strstr(text, " more;") != NULL, count > 4);
    crema_net_destroy(net);
  }
  unlink(path);
}

/* Warnings name 32 of them, and what may have been meant. */
TEST(missing_layers_in_warnings) {
  const char *path = path_of("few");
  crema_net *net = build_many("layer_", 1, CREMA_TRAIN);
  ok(crema_net_save_weights(net, path));
  crema_net_destroy(net);
  for (int count = 31; count <= 34; ++count) {
    net = build_many("kayer_", count, CREMA_TRAIN);
    listen_to(&lines, CREMA_LOG_WARNING);
    ok(crema_net_load_weights(net, path));
    stop_listening();
    assert_int_equal(count_lines(&lines, " gets no weights and keeps its initial values"),
                     count > 32 ? 32 : count);
    assert_int_equal(
        count_lines(&lines,
                    "layer 'kayer_0' (Parameter) gets no weights and keeps its initial "
                    "values; the file has a layer 'layer_0', which the net lacks"),
        1);
    assert_int_equal(count_lines(&lines, "1 more layers get no weights"), count == 33);
    assert_int_equal(count_lines(&lines, "2 more layers get no weights"), count == 34);
    assert_int_equal(count_lines(&lines, "more layers get no weights"), count > 32);
    crema_net_destroy(net);
  }
  unlink(path);
}

/* ---- looking into nets ---- */

/* Each parameter and each top of each layer is looked at, to its last value. */
TEST(values_that_are_no_numbers) {
  crema_net *net = build(INPUT("x", DIM2(1, 3))
                         "layer { name: 'i' type: 'InnerProduct' bottom: 'x' top: 'i'"
                         " inner_product_param { num_output: 2 } }\n" P("p", "top of p", ""),
                         CREMA_TRAIN);
  const struct {
    crema_blob *blob;
    const char *layer, *name;
    bool weight;
  } cases[] = {{blob_of(net, "x"), "in_x", "x", false},
               {param_of(net, "i", 0), "i", "param 0", true},
               {param_of(net, "i", 1), "i", "param 1", true},
               {blob_of(net, "i"), "i", "i", false},
               {param_of(net, "p", 0), "p", "param 0", true}};
  ok(crema_net_forward(net, NULL));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const int64_t last = crema_blob_count(cases[i].blob) - 1;
    const char *layer = NULL, *name = NULL;
    bool found = true;
    float *data;
    ok(cr_net_find_nonfinite(net, &found, &layer, &name));
    assert_true(!found && layer == NULL && name == NULL);
    ok(cr_net_check_weights(net));
    ok(crema_blob_mutable_cpu_data(cases[i].blob, &data));
    const float keep = data[last];
    data[last] = i % 2 == 0 ? 0 / (keep - keep) : 1 / (keep - keep);
    ok(cr_net_find_nonfinite(net, &found, &layer, &name));
    assert_true(found);
    assert_string_equal(layer, cases[i].layer);
    assert_string_equal(name, cases[i].name);
    ok(cr_net_find_nonfinite(net, &found, NULL, NULL));
    if (cases[i].weight) {
      char words[64];
      snprintf(words, sizeof words, "%s holds values that are not finite", cases[i].name);
      assert_fails(cr_net_check_weights(net), CREMA_E_NUMERIC, words);
      assert_string_equal(crema_error_layer(), cases[i].layer);
    } else {
      ok(cr_net_check_weights(net));
    }
    ok(crema_blob_mutable_cpu_data(cases[i].blob, &data));
    data[last] = keep;
  }
  crema_net_destroy(net);
}

/* debug_info of layers with as many bottoms as there can be without a gap behind their flags. */
TEST(debug_info_of_many_bottoms) {
  static char text[1 << 14];
  for (int bottoms = 8; bottoms <= 64; bottoms *= 2) {
    snprintf(text, sizeof text, "debug_info: true\n");
    for (int i = 0; i < bottoms; ++i) {
      snprintf(text + strlen(text), sizeof text - strlen(text),
               "layer { name: 'p%d' type: 'Parameter' top: 'p%d' parameter_param { shape { dim: 1 "
               "dim: 1 } } }\n",
               i, i);
    }
    strcat(text, "layer { name: 'c' type: 'Concat' top: 'c' loss_weight: 1");
    for (int i = 0; i < bottoms; ++i) {
      snprintf(text + strlen(text), sizeof text - strlen(text), " bottom: 'p%d'", i);
    }
    strcat(text, " }");
    crema_net *net = build(text, CREMA_TRAIN);
    listen_to(&lines, CREMA_LOG_INFO);
    ok(crema_net_forward(net, NULL));
    ok(crema_net_backward(net));
    stop_listening();
    assert_int_equal(count_lines(&lines, "[Backward] Layer c, bottom blob p"), bottoms);
    assert_int_equal(count_lines(&lines, "[Forward] Layer c, top blob c data"), 1);
    crema_net_destroy(net);
  }
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
