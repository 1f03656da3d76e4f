/* Passes that are captured in graphs, over the fake runtime: the same bits as without graphs, also
 * while the program reads and changes values between passes; and passes that no graph can hold. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "core/rng.h"
#include "crema/net.h"
#include "crema/solver.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/heap.h"
#include "fake_symbols.h"
#include "folder.h"
#include "log_lines.h"
#include "memory/capture.h"

enum { STEPS = 12, CLASSES = 5, BATCH = 4, PIXELS = 144, MOST_VALUES = 1 << 14 };

static struct {
  int (*started)(void);
  int (*living)(void);
  int (*left_error)(void);
} fake;

static crema_device *device;
static log_lines lines;

/* ---- nets ---- */

/* %s: layers between conv1 and the last product. */
static const char net_text[] =
    "name: 'small'\n"
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: 4 dim: 1 dim: 12 dim: 12 } shape { dim: 4 } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param {"
    " num_output: 4 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "%s"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'x' top: 'ip' inner_product_param {"
    " num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n"
    "layer { name: 'accuracy' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'accuracy' }\n";

static const char lenet[] =
    "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2' convolution_param {"
    " num_output: 6 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'conv2' top: 'x' inner_product_param {"
    " num_output: 10 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'x' top: 'x' }\n";

static const char random_layers[] =
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'conv1' top: 'norm' }\n"
    "layer { name: 'scale' type: 'Scale' bottom: 'norm' top: 'norm' scale_param {"
    " bias_term: true } }\n"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'norm' top: 'pool1' pooling_param {"
    " pool: STOCHASTIC kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'left' type: 'ReLU' bottom: 'pool1' top: 'left' }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 'pool1' bottom: 'left' top: 'sum' }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'sum' top: 'x' }\n";

/* Its factor grows with the number of the pass. */
static const char varying[] =
    "layer { name: 'grow' type: 'GradientScaler' bottom: 'conv1' top: 'x' }\n";

/* Runs on the host: there is no kernel for it. */
static const char on_host[] =
    "layer { name: 'noise' type: 'Noise' bottom: 'conv1' top: 'x' noise_param {"
    " gaussian_std: 0.1 } }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.05 lr_policy: 'inv' gamma: 0.01 power: 0.75 momentum: 0.9 "
    "weight_decay: 0.0005 max_iter: 1000 random_seed: 7 snapshot_after_train: false "
    "iter_size: %d display: 5\n";

static void write_net(const char *layers, int iter_size) {
  char text[sizeof net_text + sizeof random_layers + 1024];
  snprintf(text, sizeof text, net_text, layers);
  write_text("net.prototxt", text);
  snprintf(text, sizeof text, solver_text, iter_size);
  write_text("solver.prototxt", text);
}

/* The `user` of a solver. */
typedef struct course {
  int64_t bad; /* the pass with a bad label; -1: none */
  double loss; /* of the last step */
} course;

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  float *data = NULL, *label = NULL;
  const course *c = user;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  for (int n = 0; n < BATCH; ++n) {
    uint32_t draw[4];
    cr_philox(1, (uint64_t)pass, (uint64_t)n, draw);
    label[n] = (float)(draw[0] % CLASSES);
    for (int i = 0; i < PIXELS; ++i) {
      cr_philox(2, (uint64_t)(pass * BATCH + n), (uint64_t)i, draw);
      data[n * PIXELS + i] = (float)(draw[0] >> 8) * 0x1p-24f + (i / 12 == 2 * (int)label[n]);
    }
  }
  if (pass == c->bad) label[1] = CLASSES;
  return CREMA_OK;
}

/* ---- training ---- */

typedef struct trained {
  float value[MOST_VALUES];
  size_t count;
  double loss[STEPS];
  int started; /* graphs */
} trained;

static void keep_loss(void *user, const crema_solver_progress *progress) {
  course *c = user;
  c->loss = progress->loss;
}

static void keep_weights(crema_net *net, trained *out) {
  out->count = 0;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      crema_blob *blob = crema_net_layer_param(net, l, p);
      const size_t count = (size_t)crema_blob_count(blob);
      const float *value = NULL;
      ok(crema_blob_cpu_data(blob, &value));
      assert_true(out->count + count <= MOST_VALUES);
      memcpy(out->value + out->count, value, count * sizeof *value);
      out->count += count;
    }
  }
}

static crema_blob *first_param(crema_net *net) {
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    if (crema_net_layer_param_count(net, l) > 0) return crema_net_layer_param(net, l, 0);
  }
  return NULL;
}

/* What a program may do between two steps. *view is held for some steps. */
static void interfere(crema_net *net, int step, crema_view **view) {
  crema_blob *blob = NULL;
  const float *seen = NULL;
  float *value = NULL;
  ok(crema_net_blob(net, "ip", &blob));
  if (step % 2 == 0) ok(crema_blob_cpu_data(blob, &seen));
  if (step == 6) {
    ok(crema_blob_mutable_cpu_data(first_param(net), &value));
    value[3] += 0.25f;
  }
  if (step == 8) ok(crema_blob_cpu_diff(first_param(net), &seen));
  if (step == 7) ok(crema_blob_view_data(first_param(net), view));
  if (step == 9) crema_view_values(*view)[2] -= 0.5f;
  if (step == 10) crema_view_release(*view);
}

/* How the values of the trained nets are kept; FAST: planned, with fast math. */
typedef enum keeping { ALL, PLANNED, RECOMPUTED, FAST } keeping;

static void train(bool graphs, keeping keeps, trained *out) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  crema_blob *blob = NULL;
  crema_view *view = NULL;
  course the_course = {.bad = -1};
  const int before = fake.started();
  crema_solver_options_init(&options);
  options.device = device;
  options.feed = feed;
  options.progress = keep_loss;
  options.user = &the_course;
  options.no_memory_plan = keeps == ALL;
  options.recompute = keeps == RECOMPUTED;
  options.math = keeps == FAST ? CREMA_MATH_FAST : CREMA_MATH_EXACT;
  options.graphs = graphs;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_net_blob(crema_solver_net(solver), "ip", &blob)); /* stays from now on */
  for (int i = 0; i < STEPS; ++i) {
    ok(crema_solver_step(solver, 1));
    out->loss[i] = the_course.loss;
    interfere(crema_solver_net(solver), i, &view);
  }
  keep_weights(crema_solver_net(solver), out);
  crema_solver_destroy(solver);
  out->started = fake.started() - before;
  assert_int_equal(fake.living(), 0);
  assert_int_equal(fake.left_error(), 0);
}

static void check_as(const trained *plain, keeping keeps, int least) {
  static trained captured;
  train(true, keeps, &captured);
  print_message("%d graphs started in %d steps\n", captured.started, STEPS);
  assert_true(captured.started >= least);
  assert_int_equal(captured.count, plain->count);
  assert_memory_equal(captured.value, plain->value, plain->count * sizeof(float));
  assert_memory_equal(captured.loss, plain->loss, sizeof plain->loss);
}

static void check_same(const char *layers, int iter_size, keeping keeps, int least) {
  static trained plain;
  write_net(layers, iter_size);
  train(false, keeps, &plain);
  assert_int_equal(plain.started, 0);
  check_as(&plain, keeps, least);
}

TEST(lenet_trains_to_the_same_bits) {
  check_same(lenet, 1, ALL, 2 * (STEPS - 2));
  check_same(lenet, 1, PLANNED, 2 * (STEPS - 2));
}

TEST(dropout_and_stochastic_pooling_draw_the_same_numbers) {
  check_same(random_layers, 1, ALL, 2 * (STEPS - 2));
  check_same(random_layers, 1, PLANNED, 2 * (STEPS - 2));
}

/* Convolutions hold weights in two orders, of which the update changes one. */
TEST(channels_last_convolutions_train_to_the_same_bits) {
  check_same(lenet, 1, FAST, 2 * (STEPS - 2));
  check_same(random_layers, 1, FAST, 2 * (STEPS - 2));
}

/* The first pass of an iteration writes gradients, and later passes add to them. */
TEST(several_passes_accumulate_gradients) {
  check_same(random_layers, 3, ALL, 2 * (3 * STEPS - 5));
  check_same(random_layers, 3, PLANNED, 2 * (3 * STEPS - 5));
}

/* Dropped values are computed again in the graph of the backward pass, with the same numbers. */
TEST(values_are_computed_again) {
  check_same(random_layers, 1, RECOMPUTED, 2 * (STEPS - 2));
}

/* ---- passes that are not captured ---- */

static int count_reasons(const char *layers, keeping keeps, const char *reason, int least) {
  listen_to(&lines, CREMA_LOG_INFO);
  check_same(layers, 1, keeps, least);
  stop_listening();
  return count_lines(&lines, reason);
}

TEST(a_layer_that_changes_from_pass_to_pass_is_not_captured) {
  assert_int_equal(count_reasons(varying, ALL,
                                 "graphs: the forward pass of net 'small' is not captured: "
                                 "layer 'grow': its work depends on the number of the pass",
                                 0),
                   1);
}

/* Its forward work is interrupted again and again, and four recordings start at once. The backward
 * pass is captured; if memory is planned, after the forward pass was given up. */
TEST(a_layer_on_the_host_is_not_captured) {
  static const char reason[] = "graphs: the forward pass of net 'small' is not captured";
  assert_int_equal(count_reasons(on_host, ALL, reason, STEPS - 4), 1);
  assert_int_equal(count_reasons(on_host, PLANNED, reason, 6), 1);
}

/* Kernels of a graph report bad labels as others do. */
TEST(a_bad_label_is_reported) {
  crema_solver_options options;
  crema_solver *solver = NULL;
  course the_course = {.bad = 7};
  write_net(lenet, 1);
  crema_solver_options_init(&options);
  options.device = device;
  options.feed = feed;
  options.user = &the_course;
  options.graphs = true;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  ok(crema_solver_step(solver, 7));
  const int before = fake.started();
  assert_fails(crema_solver_step(solver, 1), CREMA_E_RANGE, "label 5");
  assert_int_equal(fake.started() - before, 2);
  crema_solver_destroy(solver);
}

/* ---- inference ---- */

static void run_net(crema_net *net, int batch, float *out) {
  const crema_shape shape = {4, {batch, 1, 12, 12}}, labels = {1, {batch}};
  crema_blob *blob = NULL;
  const float *value = NULL;
  float *data = NULL;
  double loss = 0;
  ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
  ok(crema_blob_reshape(crema_net_input(net, 1), &labels));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < batch * PIXELS; ++i) data[i] = (float)(i * 7 % 31) / 31;
  ok(crema_net_forward(net, &loss));
  ok(crema_net_blob(net, "ip", &blob));
  ok(crema_blob_cpu_data(blob, &value));
  memcpy(out, value, (size_t)(batch * CLASSES) * sizeof *value);
  out[batch * CLASSES] = (float)loss;
}

/* A change of shape makes new graphs. */
TEST(a_tested_net_gives_the_same_bits) {
  static const int batches[] = {4, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4, 4, 4};
  crema_net *net[2] = {NULL};
  crema_net_options options;
  write_net(lenet, 1);
  crema_net_options_init(&options);
  options.device = device;
  options.seed = 3;
  for (int i = 0; i < 2; ++i) {
    options.graphs = i == 1;
    ok(crema_net_load(path_of("net.prototxt"), &options, &net[i]));
  }
  const int before = fake.started();
  for (size_t i = 0; i < sizeof batches / sizeof batches[0]; ++i) {
    float value[2][BATCH * CLASSES + 1];
    memset(value, 0, sizeof value);
    for (int k = 0; k < 2; ++k) run_net(net[k], batches[i], value[k]);
    assert_memory_equal(value[0], value[1], sizeof value[0]);
  }
  assert_true(fake.started() - before >= 4);
  for (int i = 0; i < 2; ++i) crema_net_destroy(net[i]);
  assert_int_equal(fake.living(), 0);
}

/* ---- memory ---- */

/* Changes the first value to 0, with memory for itself if `allocates`. */
static crema_status change_first(crema_context *context, cr_tensor *tensor, bool allocates) {
  crema_devptr at = {0}, more = {0};
  if (allocates) CR_TRY(cr_device_alloc_for(context, 64, &more));
  CR_TRY(cr_tensor_update(tensor, context, CR_PLAIN_F32, &at));
  CR_TRY(context->device->backend->zero(context, at, sizeof(float)));
  cr_device_free(context->device, more);
  return CREMA_OK;
}

/* Memory that a pass has for itself may have another user when a graph runs. */
TEST(a_pass_that_allocates_is_not_captured) {
  crema_context *context = NULL;
  cr_capture *capture = NULL;
  cr_tensor *tensor = NULL;
  const char *why = NULL;
  void *host = NULL;
  bool ran = false;
  ok(crema_context_create(device, 1, &context));
  ok(cr_tensor_create(CREMA_F32, 4, &tensor));
  ok(cr_capture_create(context, &capture));
  ok(change_first(context, tensor, true)); /* the pool has the memory from now on */
  ok(cr_capture_begin_list(capture));
  ok(change_first(context, tensor, true));
  assert_string_equal(cr_capture_end_list(capture), "it allocates or frees memory");
  ok(cr_capture_begin_list(capture));
  ok(change_first(context, tensor, false));
  assert_null(cr_capture_end_list(capture));
  for (int allocates = 1; allocates >= 0; --allocates) {
    ok(cr_capture_prepare(capture));
    ok(cr_capture_begin(capture, 0));
    ok(change_first(context, tensor, allocates == 1));
    ok(cr_capture_end(capture, true, &why));
    if (allocates == 1) assert_string_equal(why, "it allocates or frees memory");
    else assert_null(why);
  }
  /* The graph does to new values of the host what the pass did. */
  ok(cr_tensor_host_write(tensor, &host));
  for (int i = 0; i < 4; ++i) ((float *)host)[i] = 5;
  ok(cr_capture_prepare(capture));
  ok(cr_capture_run(capture, 1, &ran));
  assert_true(ran);
  const void *got = NULL;
  ok(cr_tensor_host_read(tensor, &got));
  assert_true(((const float *)got)[0] == 0 && ((const float *)got)[3] == 5);
  cr_capture_destroy(capture);
  cr_tensor_destroy(tensor);
  crema_context_destroy(context);
  assert_int_equal(fake.living(), 0);
}

/* Writes `passing` and keeps its values, or frees them; the last argument is memory that no tensor
 * has. */
static crema_status pass_values(crema_context *context, cr_tensor *passing, bool frees,
                                cr_block *block) {
  crema_devptr at = {0};
  if (block != NULL && !cr_heap_take(context, 64, block)) return CREMA_E_NO_MEMORY;
  CR_TRY(cr_tensor_write(passing, context, CR_PLAIN_F32, &at));
  CR_TRY(context->device->backend->zero(context, at, 4 * sizeof(float)));
  if (frees) cr_tensor_release_in(context, passing);
  return CREMA_OK;
}

static const char *capture_values(cr_capture *capture, crema_context *context, cr_tensor *passing,
                                  bool frees, cr_block *block) {
  const char *why = NULL;
  ok(cr_capture_begin_list(capture));
  ok(pass_values(context, passing, frees, NULL));
  assert_null(cr_capture_end_list(capture));
  cr_tensor_release(passing);
  ok(cr_capture_prepare(capture));
  ok(cr_capture_begin(capture, 0));
  ok(pass_values(context, passing, frees, block));
  ok(cr_capture_end(capture, true, &why));
  cr_tensor_release(passing);
  return why;
}

/* A graph leaves values in memory of the heap, or frees them, as the pass does. */
TEST(a_pass_may_take_memory_of_the_heap) {
  crema_context *context = NULL;
  cr_capture *capture = NULL;
  cr_tensor *passing = NULL;
  cr_block block = {0};
  const void *got = NULL;
  bool ran = false;
  ok(crema_context_create(device, 1, &context));
  ok(cr_heap_open(context));
  ok(cr_tensor_create(CREMA_F32, 4, &passing));
  cr_tensor_set_transient(passing, true);
  ok(cr_capture_create(context, &capture));
  ok(pass_values(context, passing, true, NULL)); /* the heap has memory from now on */
  for (int frees = 0; frees < 2; ++frees) {
    assert_null(capture_values(capture, context, passing, frees == 1, NULL));
    ok(cr_capture_prepare(capture));
    ok(cr_capture_run(capture, 1, &ran));
    assert_true(ran);
    assert_int_equal(cr_heap_usage_of(context).in_use > 0, frees == 0);
    if (frees == 0) ok(cr_tensor_host_read(passing, &got));
    else assert_fails(cr_tensor_host_read(passing, &got), CREMA_E_STATE, "released");
    cr_tensor_release(passing);
    assert_int_equal(cr_heap_usage_of(context).in_use, 0);
  }
  assert_string_equal(capture_values(capture, context, passing, true, &block),
                      "it takes or frees memory of values that it does not use");
  ok(cr_block_free(&block));
  cr_capture_destroy(capture);
  cr_tensor_destroy(passing);
  crema_context_destroy(context);
  assert_int_equal(fake.living(), 0);
}

/* ---- the device ---- */

/* Work that cannot be recorded starts what was recorded before it. */
TEST(a_wait_ends_a_recording) {
  const cr_backend *backend = device->backend;
  crema_context *context = NULL;
  crema_devptr memory = {0};
  cr_device_graph *graph = NULL;
  const char *why = NULL;
  float got[4] = {1, 1, 1, 1};
  ok(crema_context_create(device, 1, &context));
  ok(cr_device_alloc(device, sizeof got, &memory));
  ok(cr_copy_from_cpu(context, memory, got, sizeof got));
  ok(backend->capture_begin(context));
  ok(backend->zero(context, memory, sizeof got));
  ok(backend->capture_end(context, &graph, &why));
  assert_non_null(graph);
  assert_null(why);
  ok(cr_copy_to_cpu(context, got, memory, sizeof got));
  ok(backend->finish(context));
  assert_true(got[0] == 1 && got[3] == 1); /* it has not started */
  ok(backend->graph_run(graph, context, 0));
  ok(cr_copy_to_cpu(context, got, memory, sizeof got));
  ok(backend->finish(context));
  assert_true(got[0] == 0 && got[3] == 0);
  backend->graph_destroy(graph);
  got[0] = 1;
  ok(cr_copy_from_cpu(context, memory, got, sizeof got));
  ok(backend->capture_begin(context));
  ok(backend->zero(context, memory, sizeof got));
  ok(cr_copy_to_cpu(context, got, memory, sizeof got));
  ok(backend->finish(context));
  assert_true(got[0] == 0);
  ok(backend->capture_end(context, &graph, &why));
  assert_null(graph);
  assert_string_equal(why, "values leave or enter the device");
  cr_device_free(device, memory);
  crema_context_destroy(context);
  assert_int_equal(fake.living(), 0);
}

static int end(void **state) {
  (void)unlink(path_of("net.prototxt"));
  (void)unlink(path_of("solver.prototxt"));
  return remove_folder(state);
}

static int begin(void **state) {
  void *runtime = fake_plugin();
  const int first = 0;
  fake_find(runtime, "fake_graphs_started", &fake.started);
  fake_find(runtime, "fake_graphs_living", &fake.living);
  fake_find(runtime, "fake_left_error", &fake.left_error);
  ok(crema_device_open(CREMA_DEVICE_CUDA, &first, 1));
  ok(crema_device_get(CREMA_DEVICE_CUDA, 0, &device));
  return make_folder(state);
}

int main(void) {
  return run_all_tests(begin, end);
}
