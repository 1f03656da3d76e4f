/* What programs ask of a net: its graph, parts of a pass, hooks, weights in memory. */
#include "crema/crema.h"
#include "folder.h"
#include "net_case.h"

#define TWO_LAYERS                                                                          \
  INPUT("data", DIM4(2, 3, 6, 6))                                                           \
  "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv' convolution_param {" \
  " num_output: 4 kernel_size: 3 weight_filler { type: 'gaussian' std: 0.5 } } }\n"         \
  "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"                        \
  "layer { name: 'sum' type: 'Reduction' bottom: 'conv' top: 'sum' loss_weight: 2 }\n"

TEST(graph_by_index) {
  crema_net *net = build(TWO_LAYERS, CREMA_TEST);
  assert_int_equal(crema_net_phase(net), CREMA_TEST);
  assert_int_equal(crema_net_layer_bottom_count(net, 1), 1);
  assert_int_equal(crema_net_layer_bottom(net, 1, 0), 0);
  assert_int_equal(crema_net_layer_top(net, 2, 0), 1);
  assert_int_equal(crema_net_layer_top(net, 2, 1), -1);
  assert_int_equal(crema_net_layer_top_count(net, 9), 0);
  assert_ptr_equal(crema_net_blob_at(net, 1), blob_of(net, "conv"));
  assert_null(crema_net_blob_at(net, 3));
  assert_true(crema_net_blob_loss_weight(net, 2) == 2);
  assert_true(crema_net_blob_loss_weight(net, 1) == 0);
  char *text = NULL;
  ok(crema_net_layer_text(net, 2, &text));
  assert_non_null(strstr(text, "name: \"relu\""));
  crema_free(text);
  assert_fails(crema_net_layer_text(net, 4, &text), CREMA_E_RANGE, "layer 4");
  /* What there is not. */
  assert_null(crema_net_blob_at(net, -1));
  assert_int_equal(crema_net_layer_bottom(net, 1, 1), -1);
  assert_int_equal(crema_net_layer_bottom(net, 1, -1), -1);
  assert_int_equal(crema_net_layer_bottom(net, -1, 0), -1);
  assert_int_equal(crema_net_layer_bottom_count(net, 4), 0);
  assert_int_equal(crema_net_layer_top(net, 2, -1), -1);
  assert_int_equal(crema_net_layer_top_count(net, 4), 0);
  crema_net_destroy(net);
  /* A loss of the first layer. */
  net = build(
      "layer { name: 'in' type: 'Input' top: 'x' loss_weight: 3"
      " input_param { shape { dim: 1 } } }",
      CREMA_TRAIN);
  assert_true(crema_net_blob_loss_weight(net, 0) == 3);
  crema_net_destroy(net);
}

/* Built again without the stages, the level and the layers that they have left out. */
TEST(text_of_a_net_gives_the_same_net) {
  static const char *const stages[] = {"deploy"};
  crema_net_options options = phase_options(CREMA_TEST);
  options.stages = stages;
  options.stage_count = 1;
  options.level = 2;
  crema_net *net = NULL, *again = NULL;
  char *text = NULL, *text_again = NULL;
  const char *source =
      "name: 'a \"b\" \\\\ c' force_backward: true default_forward_type: DOUBLE\n" TWO_LAYERS
      "layer { name: 'here' type: 'Power' bottom: 'conv' top: 'p'"
      " include { stage: 'deploy' min_level: 2 } }\n"
      "layer { name: 'gone' type: 'Power' bottom: 'conv' top: 'q' exclude { stage: 'deploy' } }\n";
  ok(crema_net_parse(source, strlen(source), "net", &options, &net));
  ok(crema_net_text(net, &text));
  assert_null(strstr(text, "gone"));
  assert_non_null(strstr(text, "force_backward: true\n"));
  again = build(text, CREMA_TEST);
  assert_string_equal(crema_net_name(again), "a \"b\" \\ c");
  ok(crema_net_text(again, &text_again));
  assert_string_equal(text_again, text);
  assert_int_equal(crema_blob_data_type(blob_of(again, "p")), CREMA_F64);
  crema_free(text_again);
  crema_free(text);
  crema_net_destroy(again);
  crema_net_destroy(net);
}

/* A ReLU that whole passes let the convolution compute. */
TEST(parts_see_each_layer) {
  crema_net *net = build(TWO_LAYERS, CREMA_TRAIN);
  double loss[2];
  bool negative = false;
  fill(blob_of(net, "data"), -1.0f, 0.01f);
  ok(crema_net_forward(net, &loss[0]));
  ok(crema_net_forward_range(net, 0, 1, NULL));
  const float *conv = data_of(blob_of(net, "conv"));
  for (int64_t i = 0; i < crema_blob_count(blob_of(net, "conv")); ++i) negative |= conv[i] < 0;
  assert_true(negative);
  ok(crema_net_forward_range(net, 2, 3, &loss[1]));
  assert_near(loss[1], loss[0], 1e-4);
  ok(crema_net_backward_range(net, 3, 3));
  assert_true(diff_of(blob_of(net, "conv"))[0] == 2);
  assert_fails(crema_net_forward_range(net, 2, 1, NULL), CREMA_E_RANGE, "2 to 1");
  assert_fails(crema_net_backward_range(net, 0, 4), CREMA_E_RANGE, "0 to 4");
  crema_net_destroy(net);
}

typedef struct calls {
  char text[256];
  crema_view *view;
  int refuse;
} calls;

static crema_status note(void *user, const char *what, int layer) {
  calls *c = user;
  size_t size = strlen(c->text);
  snprintf(c->text + size, sizeof c->text - size, "%s%d ", what, layer);
  return layer == c->refuse ? CREMA_E_STATE : CREMA_OK;
}

static crema_status before_forward(void *user, crema_net *net, int layer) {
  (void)net;
  return note(user, "f", layer);
}

/* Sees what the layer made, and changes it. */
static crema_status after_forward(void *user, crema_net *net, int layer) {
  const calls *c = user;
  float *conv = crema_view_values(c->view);
  if (layer == 1) {
    assert_true(conv[0] == data_of(blob_of(net, "conv"))[0]);
    conv[0] = 1000;
  }
  return note(user, "g", layer);
}

static crema_status before_backward(void *user, crema_net *net, int layer) {
  (void)net;
  return note(user, "b", layer);
}

static crema_status after_backward(void *user, crema_net *net, int layer) {
  (void)net;
  return note(user, "c", layer);
}

TEST(hooks_are_called_around_layers) {
  crema_net *net = build(TWO_LAYERS, CREMA_TRAIN);
  calls c = {.refuse = -1};
  const crema_net_hooks hooks = {.before_forward = before_forward,
                                 .after_forward = after_forward,
                                 .before_backward = before_backward,
                                 .after_backward = after_backward,
                                 .user = &c};
  double loss = 0;
  ok(crema_blob_view_data(blob_of(net, "conv"), &c.view));
  ok(crema_net_set_hooks(net, &hooks));
  ok(crema_net_forward(net, &loss));
  assert_true(loss == 2000);
  ok(crema_net_backward(net));
  assert_string_equal(c.text, "f0 g0 f1 g1 f2 g2 f3 g3 b3 c3 b2 c2 b1 c1 b0 c0 ");
  c.text[0] = '\0';
  c.refuse = 1;
  assert_int_equal(crema_net_forward(net, NULL), CREMA_E_STATE);
  assert_string_equal(c.text, "f0 g0 f1 ");
  ok(crema_net_set_hooks(net, NULL));
  ok(crema_net_forward(net, NULL));
  assert_string_equal(c.text, "f0 g0 f1 ");
  crema_view_release(c.view);
  crema_net_destroy(net);
}

/* Held views see each pass and are read by the next. */
TEST(views_follow_the_passes) {
  crema_net *net = build(TWO_LAYERS, CREMA_TRAIN);
  crema_view *data = NULL, *conv = NULL, *weight = NULL, *gradient = NULL;
  ok(crema_blob_view_data(blob_of(net, "data"), &data));
  ok(crema_blob_view_data(blob_of(net, "conv"), &conv));
  ok(crema_blob_view_data(param_of(net, "conv", 0), &weight));
  ok(crema_blob_view_diff(param_of(net, "conv", 0), &gradient));
  double loss[3];
  for (int i = 0; i < 216; ++i) crema_view_values(data)[i] = 1;
  ok(crema_net_forward(net, &loss[0]));
  assert_memory_equal(crema_view_values(conv), data_of(blob_of(net, "conv")), 64 * sizeof(float));
  for (int i = 0; i < 108; ++i) crema_view_values(weight)[i] = 1;
  ok(crema_net_forward(net, &loss[1]));
  assert_near(loss[1], 2.0 * 128 * 27, 1e-2);
  ok(crema_net_backward(net));
  assert_near(crema_view_values(gradient)[0], 2.0 * 32, 1e-3);
  crema_net_clear_param_diffs(net);
  assert_true(crema_view_values(gradient)[0] == 0);
  crema_view_release(weight);
  crema_view_release(gradient);
  crema_net_destroy(net);
  assert_near(crema_view_values(conv)[0], 27, 1e-5); /* outlives the net */
  crema_view_release(data);
  crema_view_release(conv);
}

TEST(weights_go_through_memory) {
  crema_net *net = build(TWO_LAYERS, CREMA_TEST), *other = build(TWO_LAYERS, CREMA_TEST);
  crema_view *weight = NULL;
  void *bytes = NULL;
  size_t size = 0;
  ok(crema_blob_view_data(param_of(net, "conv", 0), &weight));
  crema_view_values(weight)[5] = 12345; /* held while it is saved */
  ok(crema_net_save_weights_memory(net, NULL, &bytes, &size));
  assert_true(size > 108 * sizeof(float));
  ok(crema_net_load_weights_memory(other, bytes, size, NULL, NULL));
  assert_true(data_of(param_of(other, "conv", 0))[5] == 12345);
  assert_fails(crema_net_load_weights_memory(other, bytes, size / 2, "half", NULL), CREMA_E_CORRUPT,
               "half");
  assert_fails(crema_net_load_weights_memory(other, bytes, 0, NULL, NULL), CREMA_E_CORRUPT,
               "the bytes given");
  crema_free(bytes);
  crema_save_options options;
  crema_save_options_init(&options);
  options.hdf5 = true;
  assert_fails(crema_net_save_weights_memory(net, &options, &bytes, &size), CREMA_E_UNSUPPORTED,
               "HDF5");
  crema_view_release(weight);
  crema_net_destroy(other);
  crema_net_destroy(net);
}

TEST(shared_weights_change_together) {
  crema_net *net = build(TWO_LAYERS, CREMA_TEST), *other = build(TWO_LAYERS, CREMA_TEST);
  ok(crema_net_share_weights(other, net));
  fill(param_of(net, "conv", 0), 1, 0);
  assert_true(data_of(param_of(other, "conv", 0))[3] == 1);
  crema_net_destroy(net);
  assert_true(data_of(param_of(other, "conv", 0))[4] == 1);
  assert_fails(crema_net_share_weights(other, other), CREMA_E_ARGUMENT, "itself");
  crema_net_destroy(other);
}

/* MemoryData that was given no samples fails in the pass, long after the file was read. */
TEST(failures_in_a_pass_know_the_line) {
  crema_net *net = NULL;
  write_text("net",
             "name: 'x'\n\nlayer { name: 'in' type: 'MemoryData' top: 'data' top: 'label'\n"
             "  memory_data_param { batch_size: 1 channels: 1 height: 1 width: 2 } }\n");
  ok(crema_net_load(path_of("net"), NULL, &net));
  assert_fails(crema_net_forward(net, NULL), CREMA_E_STATE, "layer 'in'");
  assert_string_equal(crema_error_layer(), "in");
  assert_string_equal(crema_error_file(), path_of("net"));
  assert_int_equal(crema_error_line(), 3);
  assert_null(strstr(crema_error_text(), path_of("net")));
  crema_net_destroy(net);
  unlink(path_of("net"));
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
