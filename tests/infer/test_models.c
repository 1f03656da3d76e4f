/* Compiled models in use: every model and every golden net computes what the plain net does; blobs
 * that are asked for, sessions that outlive their model, wrong names, shapes and weights. */
#include <dirent.h>
#include <sys/stat.h>

#include "infer/model.h"
#include "infer/model_case.h"

/* Loads the net as it is, gives it weights and inputs, and compares. False when it is no net for
 * phase TEST, or reads files that are not there. */
static bool compare(const char *path, double *worst) {
  crema_net_options options = phase_options(CREMA_TEST);
  crema_net *net = NULL;
  crema_model *model = NULL;
  crema_session *session = NULL;
  uint64_t random = 7;
  if (crema_net_load(path, &options, &net) != CREMA_OK) return false;
  draw_weights(net, &random);
  draw_statistics(net, &random);
  draw_inputs(net, &random);
  ok(crema_net_save_weights(net, path_of("weights.caffemodel")));
  const bool has_params = net->params > 0;
  const bool runs = crema_net_layer_count(net) > 0 && crema_net_forward(net, NULL) == CREMA_OK;
  if (runs) {
    crema_model_options how;
    crema_model_options_init(&how);
    how.seed = options.seed;
    ok(crema_model_load(path, has_params ? path_of("weights.caffemodel") : NULL, &how, &model));
    ok(crema_session_create(model, NULL, &session));
    const double error = output_difference(net, session);
    if (error > *worst) *worst = error;
    if (!(error <= 1e-5)) print_error("%s: %g\n%s", path, error, crema_model_explain(model));
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
  crema_net_destroy(net);
  unlink(path_of("weights.caffemodel"));
  return runs;
}

/* Two nets cannot write to one file. */
static int is_name(const struct dirent *entry) {
  return entry->d_name[0] != '.' && strcmp(entry->d_name, "HDF5Output") != 0;
}

/* The files `file` one folder below `path`, or two where `deep`. */
static int compare_all(const char *path, const char *file, bool deep, double *worst) {
  struct dirent **entry = NULL;
  const int entries = scandir(path, &entry, is_name, alphasort);
  int compared = 0;
  assert_true(entries > 0);
  for (int i = 0; i < entries; ++i) {
    char below[PATH_SIZE];
    struct stat info;
    snprintf(below, sizeof below, "%s/%s", path, entry[i]->d_name);
    const bool is_folder = stat(below, &info) == 0 && S_ISDIR(info.st_mode);
    if (deep && is_folder) {
      compared += compare_all(below, file, false, worst);
    } else if (is_folder) {
      strncat(below, "/", sizeof below - strlen(below) - 1);
      strncat(below, file, sizeof below - strlen(below) - 1);
      compared += compare(below, worst);
    }
    free(entry[i]);
  }
  free(entry);
  return compared;
}

/* Cases that draw random numbers in phase TEST (DummyData) draw the same ones. */
TEST(golden_nets_compute_the_same) {
  double worst = 0;
  int nets = compare_all(CREMA_BINARY_DIR "/golden/nets", "net.prototxt", false, &worst);
  nets += compare_all(CREMA_BINARY_DIR "/golden/layers", "net.prototxt", true, &worst);
  print_message("%d golden nets, largest difference %g\n", nets, worst);
  assert_true(nets > 100 && worst > 0 && worst <= 1e-5);
}

/* The large ones only where CREMA_TEST_MODELS is set: their weights take seconds to draw. */
TEST(models_compute_the_same) {
  static const char *const name[] = {
      "cifar10_quick",   "squeezenet_v1.1", "mobilenet_v2", "alexnet",  "googlenet",
      "squeezenet_v1.0", "mobilenet_v1",    "densenet121",  "resnet50", "resnet152"};
  const size_t count = getenv("CREMA_TEST_MODELS") != NULL ? sizeof name / sizeof name[0] : 2;
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/deploy.prototxt", name[i]);
    assert_true(compare(path, &worst));
  }
  print_message("%zu models, largest difference %g\n", count, worst);
  assert_true(worst <= 1e-5);
}

/* ---- one model in use ---------------------------------------------------- */

#define CONV(name, bottom, top, more)                                            \
  "layer { name: '" name "' type: 'Convolution' bottom: '" bottom "' top: '" top \
  "' convolution_param { num_output: 4 kernel_size: 3 pad: 1 " more              \
  " weight_filler { type: 'xavier' } } }\n"
#define LAYER(name, type, bottom, top) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' }\n"

/* Two blocks with shortcuts, as ResNet has them. */
static const char blocks[] =
    INPUT("data", DIM4(2, 4, 7, 6))
    CONV("c1", "data", "a", "bias_term: false") LAYER("n1", "BatchNorm", "a", "b")
    LAYER("r1", "ReLU", "b", "b") CONV("c2", "b", "c", "") LAYER("n2", "BatchNorm", "c", "d")
    LAYER("r2", "ReLU", "d", "e") CONV("c3", "e", "f", "")
    "layer { name: 's' type: 'Eltwise' bottom: 'f' bottom: 'b' top: 'g' }\n"
    LAYER("r3", "ReLU", "g", "g") CONV("c4", "g", "h", "")
    "layer { name: 's2' type: 'Eltwise' bottom: 'g' bottom: 'h' top: 'i' }\n"
    LAYER("r4", "ReLU", "i", "i")
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'i' top: 'out' inner_product_param {"
    " num_output: 3 weight_filler { type: 'xavier' } } }\n";

static crema_net *make_blocks(void) {
  uint64_t random = 3;
  crema_net *net = build(blocks, CREMA_TEST);
  draw_statistics(net, &random);
  draw_inputs(net, &random);
  ok(crema_net_save_weights(net, path_of("blocks.caffemodel")));
  write_text("blocks", blocks);
  ok(crema_net_forward(net, NULL));
  return net;
}

static crema_model *load_blocks(const char *const *keep, size_t keeps) {
  crema_model_options options;
  crema_model *model = NULL;
  crema_model_options_init(&options);
  options.keep = keep;
  options.keep_count = keeps;
  ok(crema_model_load(path_of("blocks"), path_of("blocks.caffemodel"), &options, &model));
  return model;
}

static void remove_blocks(crema_net *net) {
  crema_net_destroy(net);
  unlink(path_of("blocks"));
  unlink(path_of("blocks.caffemodel"));
}

TEST(passes_are_explained) {
  static const char *const said[] = {
      "fold: BatchNorm 'n1' into Convolution 'c1'\n", "fuse: ReLU 'r1' into Convolution 'c1'\n",
      "fuse: Eltwise 's' into Convolution 'c3', in the memory of the addend\n",
      "fuse: ReLU 'r3' into Convolution 'c3'\n"};
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  for (size_t i = 0; i < sizeof said / sizeof said[0]; ++i) {
    if (strstr(crema_model_explain(model), said[i]) != NULL) continue;
    print_error("'%s' is missing in:\n%s", said[i], crema_model_explain(model));
    fail();
  }
  crema_model_destroy(model);
  remove_blocks(net);
}

/* Asked for one after the other, each keeps those before it and the inputs. */
TEST(every_blob_can_be_read) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL, *other = NULL;
  ok(crema_session_create(model, NULL, &session));
  ok(crema_session_create(model, NULL, &other));
  copy_inputs(net, session);
  for (int i = 0; i < crema_net_blob_count(net); ++i) {
    const char *name = crema_net_blob_name(net, i);
    crema_blob *found = NULL, *again = NULL;
    ok(crema_session_blob(session, name, &found));
    ok(crema_session_run(session));
    ok(crema_session_blob(session, name, &again));
    assert_ptr_equal(found, again);
    const double error = difference(blob_of(net, name), found);
    if (!(error <= 1e-5)) print_error("%s: %g\n", name, error);
    assert_true(error <= 1e-5);
  }
  assert_true(output_difference(net, session) <= 1e-5);
  assert_true(output_difference(net, other) <= 1e-5);
  crema_session_destroy(other);
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* A net is built anew for some of them, whose memory is planned anew. */
TEST(all_blobs_asked_for_can_be_read_together) {
  static const char *const name[] = {"c", "a", "f", "b"};
  enum { NAMES = sizeof name / sizeof name[0] };
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL;
  crema_blob *found[NAMES] = {NULL};
  ok(crema_session_create(model, NULL, &session));
  copy_inputs(net, session);
  for (int i = 0; i < NAMES; ++i) {
    ok(crema_session_blob(session, name[i], &found[i]));
    ok(crema_session_run(session));
    for (int j = 0; j <= i; ++j) assert_true(difference(blob_of(net, name[j]), found[j]) <= 1e-5);
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* The memory of "b" is that of the sum, unless "b" is asked for. */
TEST(overwritten_blobs_can_be_read) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL;
  crema_blob *found = NULL;
  ok(crema_session_create(model, NULL, &session));
  ok(crema_session_blob(session, "b", &found));
  assert_true(output_difference(net, session) <= 1e-5);
  assert_true(difference(blob_of(net, "b"), found) <= 1e-5);
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* The compiled net has the outputs of the plain one; whether its explanation has `words`. */
static void check_compiled(const char *text, const char *words, bool has_words) {
  crema_model_options options;
  crema_model *model = NULL;
  crema_session *session = NULL;
  uint64_t random = 9;
  crema_net *net = build(text, CREMA_TEST);
  draw_inputs(net, &random);
  ok(crema_net_forward(net, NULL));
  crema_model_options_init(&options);
  options.seed = 1701; /* that of `build` */
  ok(crema_model_load_memory(text, strlen(text), NULL, 0, &options, &model));
  if (words != NULL) {
    assert_int_equal(strstr(crema_model_explain(model), words) != NULL, has_words);
  }
  ok(crema_session_create(model, NULL, &session));
  assert_true(output_difference(net, session) <= 1e-5);
  crema_session_destroy(session);
  crema_model_destroy(model);
  crema_net_destroy(net);
}

/* Layers that overwrite what others still read, which is warned of, stay in their order: 'p' and
 * 'q' must not become one layer, nor may 'r' go, although nobody reads its top. */
TEST(values_that_are_overwritten_early_stay_so) {
  static const char text[] =
      INPUT("data", DIM4(2, 3, 6, 5))
      "layer { name: 'first' type: 'Convolution' bottom: 'data' top: 'a' convolution_param {"
      " num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'flat' type: 'Flatten' bottom: 'a' top: 'b' }\n"
      "layer { name: 'p' type: 'Power' bottom: 'b' top: 'b' power_param { scale: 0.5 shift: 1 } }\n"
      "layer { name: 'c' type: 'Convolution' bottom: 'a' top: 'c' convolution_param {"
      " num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'q' type: 'Power' bottom: 'b' top: 'b' power_param { scale: 0.5 shift: 1 } }\n"
      "layer { name: 'd' type: 'Convolution' bottom: 'a' top: 'd' convolution_param {"
      " num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } }\n"
      "layer { name: 'r' type: 'Power' bottom: 'b' top: 'b' power_param { scale: 2 } }\n"
      "layer { name: 'hush' type: 'Silence' bottom: 'b' }\n"
      "layer { name: 'e' type: 'Convolution' bottom: 'a' top: 'e' convolution_param {"
      " num_output: 4 kernel_size: 1 weight_filler { type: 'xavier' } } }\n";
  check_compiled(text, NULL, false);
}

/* Behind padding only a shift of 0 can be folded into the convolution after it. */
TEST(shifts_stay_before_padding) {
  static const char head[] =
      INPUT("data", DIM4(1, 2, 5, 5))
      "layer { name: 'pool' type: 'Pooling' bottom: 'data' top: 'a' pooling_param { kernel_size: 2"
      " } }\n"
      "layer { name: 'bias' type: 'Bias' bottom: 'a' top: 'b' bias_param { filler { value: 0.5 } }"
      " }\n"
      "layer { name: 'scale' type: 'Scale' bottom: 'b' top: 'c' scale_param { filler { value: 3 } }"
      " }\n";
  for (int pad = 0; pad < 2; ++pad) {
    char text[2048];
    snprintf(text, sizeof text,
             "%slayer { name: 'conv' type: 'Convolution' bottom: 'c' top: 'd' convolution_param {"
             " num_output: 2 kernel_size: 3 pad: %d weight_filler { type: 'xavier' } } }\n",
             head, pad);
    check_compiled(text, "Bias 'bias' into", pad == 0);
  }
}

TEST(kept_blobs_need_no_file_later) {
  static const char *const keep[] = {"a", "f"};
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(keep, 2);
  crema_session *session = NULL;
  crema_blob *found = NULL;
  ok(crema_session_create(model, NULL, &session));
  write_text("blocks.caffemodel", "something else");
  ok(crema_session_blob(session, "a", &found));
  assert_true(output_difference(net, session) <= 1e-5);
  assert_true(difference(blob_of(net, "a"), found) <= 1e-5);
  assert_fails(crema_session_blob(session, "c", &found), CREMA_E_STATE, "has changed");
  ok(crema_session_run(session)); /* goes on as before */
  assert_true(output_difference(net, session) <= 1e-5);
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

TEST(sessions_outlive_their_model) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session[2] = {NULL, NULL};
  for (int i = 0; i < 2; ++i) ok(crema_session_create(model, NULL, &session[i]));
  crema_model_destroy(model);
  assert_true(output_difference(net, session[0]) <= 1e-5);
  crema_session_destroy(session[0]);
  assert_true(output_difference(net, session[1]) <= 1e-5);
  crema_session_destroy(session[1]);
  remove_blocks(net);
}

/* Asking for a blob reads the weights there again. */
TEST(models_are_made_from_memory) {
  crema_net *net = make_blocks();
  cr_buffer weights = {0};
  crema_model *model = NULL;
  crema_session *session = NULL;
  crema_blob *found = NULL;
  ok(cr_file_read(path_of("blocks.caffemodel"), &weights));
  assert_fails(crema_model_load_memory(blocks, sizeof blocks - 1, weights.data, weights.size / 2,
                                       NULL, &model),
               CREMA_E_CORRUPT, "weights in memory");
  ok(crema_model_load_memory(blocks, sizeof blocks - 1, weights.data, weights.size, NULL, &model));
  ok(crema_session_create(model, NULL, &session));
  assert_true(output_difference(net, session) <= 1e-5);
  ok(crema_session_blob(session, "a", &found));
  assert_true(output_difference(net, session) <= 1e-5);
  assert_true(difference(blob_of(net, "a"), found) <= 1e-5);
  crema_session_destroy(session);
  crema_model_destroy(model);
  cr_buffer_free(&weights);
  remove_blocks(net);
}

/* The weights are counted once, and do not grow with sessions. */
TEST(memory_is_told) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session[2] = {NULL, NULL};
  crema_session_memory memory[2];
  for (int i = 0; i < 2; ++i) {
    ok(crema_session_create(model, NULL, &session[i]));
    /* Values of a file are kept from their second use on. */
    for (int run = 0; run < 2; ++run) assert_true(output_difference(net, session[i]) <= 1e-5);
    ok(crema_session_memory_read(session[i], &memory[i]));
  }
  assert_true(memory[0].weights > 0 && memory[0].activations > 0);
  assert_int_equal(memory[0].weights, memory[1].weights);
  for (int i = 0; i < 2; ++i) crema_session_destroy(session[i]);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* A second session finds what the first one planned. */
TEST(sessions_share_plans) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL;
  uint64_t made[2];
  for (int i = 0; i < 2; ++i) {
    ok(crema_session_create(model, NULL, &session));
    assert_true(output_difference(net, session) <= 1e-5);
    made[i] = cr_plan_cache_count(model->plans).made;
    crema_session_destroy(session);
  }
  assert_true(made[0] > 0);
  assert_int_equal(made[0], made[1]);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* Weights belong to one device. */
TEST(sessions_run_on_a_device) {
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL, *other = NULL;
  crema_session_options options;
  crema_session_options_init(&options);
  if (crema_device_count(CREMA_DEVICE_SIM) == 0) ok(crema_device_simulate("1"));
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &options.device));
  ok(crema_session_create(model, &options, &session));
  assert_true(output_difference(net, session) <= 1e-5);
  assert_fails(crema_session_create(model, NULL, &other), CREMA_E_STATE, "each device");
  ok(crema_session_create(model, &options, &other));
  assert_true(output_difference(net, other) <= 1e-5);
  crema_session_destroy(other);
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* ---- what is refused ----------------------------------------------------- */

TEST(wrong_names_are_refused) {
  static const char *const unknown[] = {"fould"}, *const lost[] = {"q"};
  crema_net *net = make_blocks();
  crema_model_options options;
  crema_model *model = NULL;
  crema_session *session = NULL, *made = NULL;
  crema_blob *found = NULL;
  const char *text = path_of("blocks"), *weights = path_of("blocks.caffemodel");
  crema_model_options_init(&options);
  options.without = unknown;
  options.without_count = 1;
  assert_fails(crema_model_load(text, weights, &options, &model), CREMA_E_UNKNOWN_NAME,
               "did you mean 'fold'");
  crema_model_options_init(&options);
  options.keep = lost;
  options.keep_count = 1;
  assert_fails(crema_model_load(text, weights, &options, &model), CREMA_E_UNKNOWN_NAME, "blob 'q'");
  assert_fails(crema_model_load("/no/such", weights, NULL, &model), CREMA_E_NOT_FOUND, "/no/such");
  assert_fails(crema_model_load(text, "/no/such", NULL, &model), CREMA_E_NOT_FOUND, "/no/such");
  assert_null(model);
  model = load_blocks(NULL, 0);
  ok(crema_session_create(model, NULL, &session));
  assert_fails(crema_session_blob(session, "q", &found), CREMA_E_UNKNOWN_NAME, "blob 'q'");
  assert_true(output_difference(net, session) <= 1e-5); /* goes on as before */
  assert_null(crema_session_input(session, 1));
  assert_fails(crema_session_create(model, &(crema_session_options){.threads = -1}, &made),
               CREMA_E_RANGE, "-1 threads");
  assert_null(crema_session_output(session, -1));
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

TEST(wrong_shapes_are_refused) {
  const crema_shape wide = cr_shape_4(1, 5, 7, 6);
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL;
  ok(crema_session_create(model, NULL, &session));
  ok(crema_blob_reshape(crema_session_input(session, 0), &wide));
  assert_fails(crema_session_run(session), CREMA_E_SHAPE, "c1");
  assert_true(output_difference(net, session) <= 1e-5);
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* Also to another shape and back, and with memory of the caller, which stays the data. */
TEST(inputs_are_reshaped_between_runs) {
  static const int64_t items[] = {2, 5, 1, 1, 3, 2};
  static float mine[5 * 4 * 7 * 6];
  const float *data = NULL;
  uint64_t random = 5;
  crema_net *net = make_blocks();
  crema_model *model = load_blocks(NULL, 0);
  crema_session *session = NULL;
  ok(crema_session_create(model, NULL, &session));
  crema_blob *input = crema_session_input(session, 0);
  for (int k = 0; k < 6; ++k) {
    const crema_shape shape = cr_shape_4(items[k], 4, 7, 6), other = cr_shape_4(4, 4, 7, 6);
    ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
    draw_inputs(net, &random);
    ok(crema_net_forward(net, NULL));
    ok(crema_blob_reshape(input, &other));
    assert_true(output_difference(net, session) <= 1e-5);
    if (k != 4) continue;
    ok(crema_blob_reshape(input, &other));
    ok(crema_blob_reshape(input, &shape));
    ok(crema_blob_set_cpu_data(input, mine));
    for (int run = 0; run < 2; ++run) {
      draw_values(input, &random);
      ok(crema_blob_cpu_data(input, &data));
      assert_ptr_equal(data, mine);
      ok(crema_blob_copy_data(crema_net_input(net, 0), input));
      ok(crema_net_forward(net, NULL));
      ok(crema_session_run(session));
      assert_true(difference(crema_net_output(net, 0), crema_session_output(session, 0)) <= 1e-5);
    }
  }
  crema_session_destroy(session);
  crema_model_destroy(model);
  remove_blocks(net);
}

/* Nothing is drawn for parameters that a file gives, but their fillers are looked at. */
TEST(fillers_are_checked_where_weights_follow) {
  static const char *const fillers[][2] = {
      {"type: 'xaviar'", "did you mean 'xavier'"},
      {"type: 'uniform' min: 2 max: 1", "min 2 is above max 1"},
      {"type: 'gaussian' std: -1", "std is -1"},
      {"type: 'gaussian' sparse: 9", "sparse 9 is above the 4 outputs"},
      {"type: 'msra' sparse: 2", "does not take sparse"},
      {"type: 'bilinear'", "needs four axes"},
  };
  char text[600];
  for (size_t i = 0; i < sizeof fillers / sizeof fillers[0]; ++i) {
    crema_model *model = NULL;
    snprintf(text, sizeof text,
             INPUT("x", DIM4(1, 3, 4, 4))
             "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param {"
             " num_output: 4 weight_filler { %s } } }\n",
             fillers[i][0]);
    assert_int_not_equal(crema_model_load_memory(text, strlen(text), "", 0, NULL, &model),
                         CREMA_OK);
    assert_null(model);
    if (strstr(crema_error_text(), fillers[i][1]) == NULL) fail_msg("%s", crema_error_text());
  }
}

TEST(weights_of_another_net_are_refused) {
  crema_net *net = make_blocks();
  crema_net *other = build(INPUT("data", DIM2(1, 2))
                           "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'y'"
                           " inner_product_param { num_output: 1 } }", CREMA_TEST);
  crema_model *model = NULL;
  ok(crema_net_save_weights(other, path_of("other")));
  assert_fails(crema_model_load(path_of("blocks"), path_of("other"), NULL, &model), CREMA_E_SHAPE,
               "ip");
  assert_null(model);
  crema_net_destroy(other);
  unlink(path_of("other"));
  remove_blocks(net);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
