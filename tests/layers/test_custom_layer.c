/* Layer types that a program registers. */
#include <stdio.h>

#include "check.h"
#include "crema/crema.h"
#include "net/net.h"

/* y = w x with one learned factor w, with what its functions were called for. */
typedef struct scaler {
  int setups, reshapes, forwards, backwards, destroyed;
  char field[64];
} scaler;

static crema_status set_up(crema_layer *layer) {
  scaler *seen = crema_layer_user(layer);
  const crema_shape one = {.axes = 1, .dim = {1}};
  crema_blob *factor = NULL;
  char *text = NULL;
  ++seen->setups;
  ok(crema_layer_field(layer, "python_param.param_str", &text));
  snprintf(seen->field, sizeof seen->field, "%s", text);
  crema_free(text);
  ok(crema_layer_field(layer, "", &text));
  assert_non_null(strstr(text, "type: \"TestScaler\""));
  crema_free(text);
  if (strcmp(seen->field, "refuse") == 0) {
    return crema_layer_fail(layer, CREMA_E_ARGUMENT, "cannot be so");
  }
  crema_layer_set_state(layer, seen);
  return crema_layer_add_param(layer, &one, "type: 'constant' value: 3", &factor);
}

static crema_status shape(crema_layer *layer) {
  scaler *seen = crema_layer_user(layer);
  ++seen->reshapes;
  return crema_blob_reshape(crema_layer_top(layer, 0),
                            crema_blob_shape(crema_layer_bottom(layer, 0)));
}

static crema_status run(crema_layer *layer) {
  scaler *seen = crema_layer_state(layer);
  const float *x = NULL, *w = NULL;
  float *y = NULL;
  ++seen->forwards;
  ok(crema_blob_cpu_data(crema_layer_bottom(layer, 0), &x));
  ok(crema_blob_cpu_data(crema_layer_param(layer, 0), &w));
  ok(crema_blob_mutable_cpu_data(crema_layer_top(layer, 0), &y));
  int64_t count = crema_blob_count(crema_layer_top(layer, 0));
  for (int64_t i = 0; i < count; ++i) y[i] = w[0] * x[i];
  return CREMA_OK;
}

static crema_status run_back(crema_layer *layer) {
  scaler *seen = crema_layer_state(layer);
  const float *x = NULL, *w = NULL, *dy = NULL;
  float *dx = NULL, *dw = NULL;
  ++seen->backwards;
  ok(crema_blob_cpu_data(crema_layer_bottom(layer, 0), &x));
  ok(crema_blob_cpu_data(crema_layer_param(layer, 0), &w));
  ok(crema_blob_cpu_diff(crema_layer_top(layer, 0), &dy));
  ok(crema_blob_mutable_cpu_diff(crema_layer_param(layer, 0), &dw));
  int64_t count = crema_blob_count(crema_layer_top(layer, 0));
  assert_true(crema_layer_param_learns(layer, 0));
  for (int64_t i = 0; i < count; ++i) dw[0] += dy[i] * x[i];
  if (!crema_layer_propagate_down(layer, 0)) return CREMA_OK;
  ok(crema_blob_mutable_cpu_diff(crema_layer_bottom(layer, 0), &dx));
  for (int64_t i = 0; i < count; ++i) dx[i] = w[0] * dy[i];
  return CREMA_OK;
}

static void go(crema_layer *layer) {
  scaler *seen = crema_layer_user(layer);
  ++seen->destroyed;
  assert_int_equal(crema_layer_bottom_count(layer), 0);
}

static scaler seen;
static const crema_layer_type scaler_type = {.type = "TestScaler",
                                             .min_bottoms = 1,
                                             .max_bottoms = 1,
                                             .min_tops = 1,
                                             .max_tops = 1,
                                             .setup = set_up,
                                             .reshape = shape,
                                             .forward = run,
                                             .backward = run_back,
                                             .destroy = go,
                                             .user = &seen};

#define NET(field)                                                                              \
  "force_backward: true "                                                                       \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }"                \
  "layer { name: 's' type: 'TestScaler' bottom: 'x' top: 'y' python_param { param_str: '" field \
  "' } }"                                                                                       \
  "layer { name: 'sum' type: 'Reduction' bottom: 'y' top: 'z' loss_weight: 1 }"

static crema_status parse(const char *text, crema_net **out) {
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  return crema_net_parse(text, strlen(text), "net", &options, out);
}

static void set(crema_net *net, float a, float b) {
  float *x = NULL;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &x));
  x[0] = a;
  x[1] = b;
}

TEST(runs_in_a_net) {
  crema_net *net = NULL;
  const float *diff = NULL;
  double loss = 0;
  seen = (scaler){0};
  ok(parse(NET("text \\'here\\'"), &net));
  assert_string_equal(seen.field, "text 'here'");
  set(net, 1, 5);
  ok(crema_net_forward(net, &loss));
  assert_true(loss == 18);
  ok(crema_net_backward(net));
  ok(crema_blob_cpu_diff(crema_net_input(net, 0), &diff));
  assert_true(diff[0] == 3 && diff[1] == 3);
  ok(crema_blob_cpu_diff(crema_net_layer_param(net, 1, 0), &diff));
  assert_true(diff[0] == 6);
  assert_int_equal(seen.setups, 1);
  assert_int_equal(seen.reshapes, 2); /* when it was built, and before its forward pass */
  assert_int_equal(seen.forwards, 1);
  assert_int_equal(seen.backwards, 1);
  crema_net_destroy(net);
  assert_int_equal(seen.destroyed, 1);
}

/* Its blobs keep their values where others are let go of, and its functions, which may count or
 * draw, are called once per pass where others compute values again. */
static void run_planned(bool recompute) {
  static const char text[] =
      "force_backward: true "
      "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }"
      "layer { name: 'a' type: 'AbsVal' bottom: 'x' top: 'a' }"
      "layer { name: 's' type: 'TestScaler' bottom: 'a' top: 'y' }"
      "layer { name: 'b' type: 'AbsVal' bottom: 'y' top: 'b' }"
      "layer { name: 'c' type: 'AbsVal' bottom: 'b' top: 'c' }"
      "layer { name: 'd' type: 'AbsVal' bottom: 'c' top: 'd' }"
      "layer { name: 'sum' type: 'Reduction' bottom: 'd' top: 'z' loss_weight: 1 }";
  crema_net *net = NULL;
  crema_net_options options;
  double loss = 0;
  seen = (scaler){0};
  crema_net_options_init(&options);
  options.phase = CREMA_TRAIN;
  options.plan_memory = true;
  options.recompute = recompute;
  ok(crema_net_parse(text, sizeof text - 1, "net", &options, &net));
  for (int i = 0; i < 3; ++i) {
    set(net, -1, 5);
    ok(crema_net_forward(net, &loss));
    assert_true(loss == 18);
    ok(crema_net_backward(net));
    bool found = false;
    ok(cr_net_find_nonfinite(net, &found, NULL, NULL));
    assert_false(found);
    assert_int_equal(seen.forwards, i + 1);
  }
  crema_net_destroy(net);
}

TEST(its_state_is_found_in_the_net) {
  crema_net *net = NULL;
  ok(parse(NET("text \\'here\\'"), &net));
  assert_ptr_equal(crema_net_layer_state(net, 1), &seen);
  const int others[] = {-1, 0, 2, 100}; /* layers of the library's types, and none */
  for (int i = 0; i < 4; ++i) assert_null(crema_net_layer_state(net, others[i]));
  crema_net_destroy(net);
}

TEST(runs_in_a_net_that_plans_its_memory) {
  run_planned(false);
}

TEST(runs_in_a_net_that_computes_values_again) {
  run_planned(true);
}

TEST(failures_name_the_layer) {
  crema_net *net = NULL;
  seen = (scaler){0};
  assert_fails(parse(NET("refuse"), &net), CREMA_E_ARGUMENT, "cannot be so");
  assert_string_equal(crema_error_layer(), "s");
  assert_int_equal(seen.destroyed, 1);
}

TEST(names_are_taken_once) {
  crema_layer_type type = scaler_type;
  assert_fails(crema_layer_register(&type), CREMA_E_EXISTS, "TestScaler");
  type.type = "ReLU";
  assert_fails(crema_layer_register(&type), CREMA_E_EXISTS, "ReLU");
  type.type = "TestOther";
  type.max_bottoms = 0;
  assert_fails(crema_layer_register(&type), CREMA_E_RANGE, "from 1 to 0 bottoms");
  type.max_bottoms = CREMA_ANY;
  type.forward = NULL;
  assert_fails(crema_layer_register(&type), CREMA_E_ARGUMENT, "TestOther");
  type.type = NULL;
  assert_fails(crema_layer_register(&type), CREMA_E_ARGUMENT, "name");
  int count = crema_layer_type_count();
  assert_string_equal(crema_layer_type_name(count - 1), "TestScaler");
  assert_string_equal(crema_layer_type_name(0), "AbsVal");
  assert_null(crema_layer_type_name(count));
  assert_null(crema_layer_type_name(-1));
}

/* ---- shared objects ---- */

#define OBJECT CREMA_BINARY_DIR "/examples/soft_threshold.so"
#define PLUGGED(param)                                                           \
  "force_backward: true "                                                        \
  "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: 2 } } }" \
  "layer { name: 'p' type: 'Plugin' bottom: 'x' top: 'y' plugin_param { " param  \
  " } }"                                                                         \
  "layer { name: 'sum' type: 'Reduction' bottom: 'y' top: 'z' loss_weight: 1 }"

TEST(a_shared_object_has_types) {
  crema_net *net = NULL;
  const float *diff = NULL;
  double loss = 0;
  ok(parse(PLUGGED("library: '" OBJECT "' param_str: '1.5'"), &net));
  assert_string_equal(crema_net_layer_type(net, 1), "SoftThreshold");
  set(net, 1, 5);
  ok(crema_net_forward(net, &loss));
  assert_true(loss == 3.5);
  ok(crema_net_backward(net));
  ok(crema_blob_cpu_diff(crema_net_input(net, 0), &diff));
  assert_true(diff[0] == 0 && diff[1] == 1);
  crema_net_destroy(net);
  /* Opened once; its types have names of their own from then on. */
  ok(crema_layer_load(OBJECT));
  ok(parse(PLUGGED("library: '" OBJECT "' type: 'SoftThreshold' param_str: '0'"), &net));
  crema_net_destroy(net);
}

TEST(shared_objects_that_cannot_be) {
  crema_net *net = NULL;
  assert_fails(parse(PLUGGED("param_str: '1'"), &net), CREMA_E_ARGUMENT, "library");
  assert_string_equal(crema_error_layer(), "p");
  assert_fails(parse(PLUGGED("library: '/no/such/file.so'"), &net), CREMA_E_NOT_FOUND, "file.so");
  assert_fails(parse(PLUGGED("library: 'libm.so.6'"), &net), CREMA_E_NOT_FOUND, "libm.so.6");
  assert_fails(parse(PLUGGED("library: '" CREMA_SOURCE_DIR "/LICENSE'"), &net), CREMA_E_UNSUPPORTED,
               "cannot be opened");
  assert_fails(parse(PLUGGED("library: '" CREMA_BINARY_DIR "/lib/libcrema-hdf5.so'"), &net),
               CREMA_E_UNSUPPORTED, "crema_plugin_1");
  assert_fails(parse(PLUGGED("library: '" OBJECT "' type: 'Other'"), &net), CREMA_E_UNKNOWN_NAME,
               "Other");
  assert_fails(parse(PLUGGED("library: '" OBJECT "' param_str: '-1'"), &net), CREMA_E_RANGE,
               "below 0");
}

static int register_all(void **state) {
  (void)state;
  return crema_layer_register(&scaler_type) != CREMA_OK;
}

int main(void) {
  return run_all_tests(register_all, NULL);
}
