/* Several devices and all that a net can be: other element types, rates of single parameters,
 * factors that follow the gradients, statistics (S3-25); what goes on from a snapshot with another
 * number of devices (S3-32); the order of calls (S3-18); the end of it all (S3-12). */
#include <pthread.h>

#include "parallel_case.h"

enum { BATCH = 4 };

/* ---- one device with twice the samples ---- */

static void fill(int64_t block, float *data, float *label) {
  for (int i = 0; i < BATCH * 3; ++i) {
    data[i] = (float)((i * 7 + block * 5) % 11) / 11.0f - 0.4f;
  }
  for (int i = 0; i < BATCH; ++i) label[i] = (float)((i + block / 2) % 2);
}

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  float *data = NULL, *label = NULL;
  (void)user;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  const int64_t blocks = crema_blob_shape(crema_net_input(net, 0))->dim[0] / BATCH;
  for (int64_t b = 0; b < blocks; ++b) {
    fill(pass * blocks + b, data + b * BATCH * 3, label + b * BATCH);
  }
  return CREMA_OK;
}

static const char *const net_text =
    "%s\n"
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: %d dim: 3 } shape { dim: %d } } }\n"
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'\n"
    "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'tanh' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";

static void load(solver_case *c, const char *head, int batch, int devices, crema_exchange way,
                 const char *text) {
  char net[4096];
  snprintf(net, sizeof net, net_text, head, batch, batch);
  use_devices(c, devices, way);
  c->options.feed = feed;
  case_load(c, net, text);
}

typedef struct variant {
  const char *head; /* of the net */
  const char *solver;
  double tolerance;
} variant;

#define TYPES(name) "default_forward_type: " name " default_backward_type: " name

/* The first update of a training with a factor that follows the gradients has the factor 1. */
static const variant variants[] = {
    {TYPES("DOUBLE"), "solver_data_type: DOUBLE momentum: 0.9", 1e-7},
    {TYPES("DOUBLE"), "type: 'Adam' momentum: 0.9 delta: 1e-4", 1e-6},
    {TYPES("FLOAT16") " global_grad_scale: 16", "momentum: 0.9", 4e-3},
    {TYPES("BFLOAT16"), "momentum: 0.9 base_lr: 0.5", 2e-2},
    {TYPES("FLOAT16") " global_grad_scale: 1024 global_grad_scale_adaptive: true",
     "momentum: 0.9 iter_size: 2", 4e-3},
    {TYPES("FLOAT16") " global_grad_scale: 1024 global_grad_scale_adaptive: true",
     "momentum: 0.9 clip_gradients: 0.1", 4e-3},
    {"", "larc: true larc_policy: 'scale' larc_eta: 0.1 momentum: 0.9 weight_decay: 0.01", 1e-5},
    {"",
     "larc: true larc_policy: 'clip' larc_eta: 0.1 clip_gradients: 0.1 type: 'Nesterov' "
     "momentum: 0.9",
     1e-5},
    {"", "larc: true larc_turbo: true larc_eta: 0.01 momentum: 0.9 weight_decay: 0.01", 1e-5},
    {"", "solver_data_type: FLOAT16 momentum: 0.9", 2e-4},
};

PARALLEL_TEST(s3_23_other_types_and_rates_give_the_weights_of_one_device) {
  solver_case *c = *state;
  for (size_t i = 0; i < sizeof variants / sizeof *variants; ++i) {
    const variant *v = &variants[i];
    char text[256];
    weights begin, one, several;
    snprintf(text, sizeof text, "lr_policy: 'fixed' %s", v->solver);
    load(c, v->head, 2 * BATCH, 1, CREMA_EXCHANGE_AUTO, text);
    read_weights(c->solver->net, &begin);
    ok(crema_solver_step(c->solver, 4));
    read_weights(c->solver->net, &one);
    double moved = 0;
    for (int k = 0; k < one.count; ++k) {
      moved = fmax(moved, fabs((double)one.value[k] - (double)begin.value[k]));
    }
    if (moved < 5 * v->tolerance) fail_msg("%s %s: moved by %g", v->head, v->solver, moved);
    for (int way = 0; way < EXCHANGE_WAYS; ++way) {
      load(c, v->head, BATCH, 2, exchange_ways[way], text);
      ok(crema_solver_step(c->solver, 4));
      read_weights(c->solver->net, &several);
      assert_near_weights(&several, &one, v->tolerance);
      assert_replicas_agree(c);
    }
  }
}

/* ---- statistics ---- */

static const char *const norm_net =
    "layer { name: 'in' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: 'db' batch_size: 4 backend: LMDB } }\n"
    "layer { name: 'norm' type: 'BatchNorm' bottom: 'data' top: 'norm' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'norm' top: 'ip'\n"
    "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

/* While all test, all have the root's statistics. */
PARALLEL_TEST(s3_25_statistics_are_the_roots_when_all_test) {
  solver_case *c = *state;
  case_make_database(c, "lmdb", 24, 2, 3);
  use_devices(c, 3, CREMA_EXCHANGE_REDUCE);
  case_load(c, norm_net, "lr_policy: 'fixed' test_iter: 3 test_interval: 4");
  ok(crema_solver_step(c->solver, 4));
  weights root, other;
  read_weights(c->solver->net, &root);
  read_weights(c->solver->replica[1].net, &other);
  assert_memory_not_equal(root.value, other.value, sizeof(float) * (size_t)root.count);
  ok(cr_solver_test_all(c->solver));
  for (int i = 0; i < 3; ++i) {
    read_weights(c->solver->replica[i].net, &other);
    assert_same_weights(&root, &other);
    read_weights(c->solver->test_net[i], &other);
    assert_same_weights(&root, &other);
  }
}

/* ---- the loss at the end ---- */

/* Along a tree the others have the weights of before the last update until they are given them. */
PARALLEL_TEST(s3_18_the_last_loss_is_that_of_the_last_weights) {
  solver_case *c = *state;
  double shown[2];
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    log_lines lines;
    load(c, "", BATCH, 3, exchange_ways[way],
         "lr_policy: 'fixed' max_iter: 4 display: 4 base_lr: 1 snapshot_after_train: false");
    listen(&lines);
    ok(crema_solver_solve(c->solver));
    stop_listening();
    const char *line = strstr(lines.text, "Iteration 4, loss = ");
    assert_non_null(line);
    shown[way] = strtod(line + strlen("Iteration 4, loss = "), NULL);
  }
  assert_float_equal(shown[0], shown[1], 1e-4);
}

/* ---- another number of devices ---- */

static const char *const integer_net =
    "layer { name: 'in' type: 'Data' top: 'pixels' top: 'label'\n"
    "  data_param { source: 'db' batch_size: %d backend: LMDB } transform_param { scale: 0.0078125 "
    "} }\n"
    "layer { name: 'bits' type: 'Threshold' bottom: 'pixels' top: 'data'\n"
    "  threshold_param { threshold: 1 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 1 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss'\n"
    "  loss_weight: 12 }\n";

static void load_integers(solver_case *c, int devices, crema_exchange way, int at) {
  char net[2048], path[256], state[64];
  snprintf(net, sizeof net, integer_net, 12 / devices);
  use_devices(c, devices, way);
  case_load(c, net, "lr_policy: 'fixed' base_lr: 0.015625 momentum: 0.5");
  if (at == 0) return;
  snprintf(state, sizeof state, "s_iter_%d.solverstate", at);
  ok(crema_solver_restore(c->solver, case_path(c, state, path)));
}

/* The samples go on where all replicas together were, and integers are added exactly. */
PARALLEL_TEST(s3_32_the_number_of_devices_may_change) {
  solver_case *c = *state;
  weights whole, parts;
  static const int changes[][2] = {{2, 1}, {2, 3}, {1, 4}, {3, 2}, {4, 1}};
  case_make_database(c, "lmdb", 17, 2, 5);
  load_integers(c, 1, CREMA_EXCHANGE_AUTO, 0);
  ok(crema_solver_step(c->solver, 3));
  read_weights(c->solver->net, &whole);
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    for (int way = 0; way < 2 * EXCHANGE_WAYS; ++way) {
      load_integers(c, changes[i][0], exchange_ways[way / 2], 0);
      ok(crema_solver_step(c->solver, 1));
      ok(crema_solver_snapshot(c->solver));
      load_integers(c, changes[i][1], exchange_ways[way % 2], 1);
      ok(crema_solver_step(c->solver, 2));
      read_weights(c->solver->net, &parts);
      assert_same_weights(&whole, &parts);
    }
  }
}

/* ---- replicas ---- */

/* Only who updates has a history (S3-24); only the root has test nets where it tests alone. */
PARALLEL_TEST(s3_15_s3_24_the_others_of_a_tree_update_nothing) {
  solver_case *c = *state;
  load(c, "", BATCH, 4, CREMA_EXCHANGE_TREE, "lr_policy: 'fixed' momentum: 0.9");
  assert_non_null(c->solver->replica[0].updater);
  for (int i = 1; i < 4; ++i) {
    assert_null(c->solver->replica[i].updater);
    assert_null(c->solver->replica[i].reducer);
  }
  load(c, "", BATCH, 4, CREMA_EXCHANGE_REDUCE, "lr_policy: 'fixed' momentum: 0.9");
  for (int i = 0; i < 4; ++i) assert_non_null(c->solver->replica[i].updater);
}

static const char *const drop_net =
    "layer { name: 'in' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 64 } } }\n"
    "layer { name: 'drop' type: 'Dropout' bottom: 'data' top: 'drop' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'drop' top: 'ip'\n"
    "  inner_product_param { num_output: 1 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'loss' type: 'Reduction' bottom: 'ip' top: 'loss' loss_weight: 1 }\n";

static crema_status feed_ones(void *user, crema_net *net, int64_t pass) {
  float *data = NULL;
  (void)user, (void)pass;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 64; ++i) data[i] = 1;
  return CREMA_OK;
}

static void read_masks(solver_case *c, crema_exchange way, float mask[3][64]) {
  use_devices(c, 3, way);
  c->options.feed = feed_ones;
  c->options.no_memory_plan = true; /* the masks are read after a step */
  case_load(c, drop_net, "lr_policy: 'fixed'");
  ok(crema_solver_step(c->solver, 2));
  for (int i = 0; i < 3; ++i) {
    crema_blob *blob = NULL;
    const float *value = NULL;
    ok(crema_net_blob(c->solver->replica[i].net, "drop", &blob));
    ok(crema_blob_cpu_data(blob, &value));
    memcpy(mask[i], value, sizeof mask[i]);
  }
}

PARALLEL_TEST(s3_17_masks_differ_between_devices_and_not_between_runs) {
  float tree[3][64], reduce[3][64];
  read_masks(*state, CREMA_EXCHANGE_TREE, tree);
  read_masks(*state, CREMA_EXCHANGE_REDUCE, reduce);
  assert_memory_equal(tree, reduce, sizeof tree);
  for (int i = 0; i < 3; ++i) assert_memory_not_equal(tree[i], tree[(i + 1) % 3], sizeof tree[i]);
}

/* ---- the order of calls ---- */

typedef struct trace {
  pthread_mutex_t lock;
  char text[1024];
} trace;

static void add(trace *t, const char *word) {
  pthread_mutex_lock(&t->lock);
  strncat(t->text, word, sizeof t->text - strlen(t->text) - 1);
  pthread_mutex_unlock(&t->lock);
}

static crema_status traced_feed(void *user, crema_net *net, int64_t pass) {
  (void)pass;
  add(user, "f");
  return feed(NULL, net, pass);
}

static crema_solver_action traced_poll(void *user) {
  add(user, " p");
  return CREMA_SOLVER_CONTINUE;
}

static void traced_progress(void *user, const crema_solver_progress *progress) {
  char word[16];
  snprintf(word, sizeof word, " %d", (int)progress->iteration);
  add(user, word);
}

PARALLEL_TEST(s3_18_calls_come_in_order) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    trace t = {.lock = PTHREAD_MUTEX_INITIALIZER};
    c->options.user = &t;
    c->options.poll = traced_poll;
    c->options.progress = traced_progress;
    use_devices(c, 3, exchange_ways[way]);
    char net[4096];
    snprintf(net, sizeof net, net_text, "", BATCH, BATCH);
    c->options.feed = traced_feed;
    case_load(c, net, "lr_policy: 'fixed' iter_size: 2");
    ok(crema_solver_step(c->solver, 3));
    assert_string_equal(t.text, "ffffff 1 pffffff 2 pffffff 3 p");
  }
  c->options.user = NULL;
}

/* ---- the end ---- */

/* A net keeps its parameters, and their memory, when the blocks in which they lay are gone. */
PARALLEL_TEST(s3_12_a_net_outlives_its_blocks) {
  solver_case *c = *state;
  for (int exchanged = 0; exchanged < 2; ++exchanged) {
    char path[256];
    crema_net *net = NULL;
    cr_param_blocks *blocks = NULL;
    weights before, after;
    double loss[2];
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = CREMA_TRAIN;
    options.device = sim_test_device(0);
    char text[4096];
    snprintf(text, sizeof text, net_text, "", BATCH, BATCH);
    case_write(c, "net.prototxt", text);
    ok(crema_net_load(case_path(c, "net.prototxt", path), &options, &net));
    ok(feed(NULL, net, 0));
    ok(crema_net_forward(net, &loss[0]));
    read_weights(net, &before);
    ok(cr_param_blocks_create(net, exchanged == 1, &blocks));
    cr_param_blocks_destroy(blocks);
    read_weights(net, &after);
    assert_same_weights(&before, &after);
    ok(crema_net_forward(net, &loss[1]));
    ok(crema_net_backward(net));
    assert_float_equal(loss[0], loss[1], 0);
    float *weight = NULL;
    ok(crema_blob_mutable_cpu_data(net->learnable[0], &weight));
    weight[0] += 1;
    ok(crema_net_forward(net, &loss[1]));
    assert_true(loss[0] != loss[1]);
    crema_net_destroy(net);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
