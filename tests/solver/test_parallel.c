/* N devices that take batches of B train as one device does that takes N x B (S3-02, S3-23, S4-51):
 * bit for bit where no sum rounds, else but for the order of sums. In the default mode a run gives
 * the same bits each time, however long each device takes (S3-22). */
#include <stdatomic.h>
#include <time.h>

#include "log_lines.h"
#include "parallel_case.h"

static const int counts[] = {1, 2, 3, 5, 8};

enum { COUNTS = sizeof counts / sizeof *counts, BATCH = 4, INPUTS = 3 };

/* ---- samples ---- */

/* A block of BATCH samples; integers, when asked for, of which sums are exact. */
typedef struct samples {
  bool integers;
  atomic_bool delays;
} samples;

static void fill_block(const samples *s, int64_t block, float *data, float *label) {
  for (int i = 0; i < BATCH * INPUTS; ++i) {
    const int64_t draw = (i * 7 + block * 5 + (i * block) % 3) % 11;
    data[i] = s->integers ? (float)(draw % 3 - 1) : (float)draw / 11.0f - 0.4f;
  }
  for (int i = 0; i < BATCH; ++i) label[i] = (float)((i + block / 2) % 2);
}

/* A net of batch K x BATCH gets the blocks of K nets of batch BATCH. */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  samples *s = user;
  float *data = NULL, *label = NULL;
  crema_status status = crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data);
  if (status == CREMA_OK) status = crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label);
  if (status != CREMA_OK) return status;
  if (atomic_load(&s->delays)) {
    nanosleep(&(struct timespec){.tv_nsec = (rand() % 5) * 300000}, NULL);
  }
  const int64_t blocks = crema_blob_shape(crema_net_input(net, 0))->dim[0] / BATCH;
  for (int64_t b = 0; b < blocks; ++b) {
    fill_block(s, pass * blocks + b, data + b * BATCH * INPUTS, label + b * BATCH);
  }
  return CREMA_OK;
}

/* ---- trainings ---- */

static const char *const input_text =
    "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"
    "  input_param { shape { dim: %d dim: 3 } shape { dim: %d } } }\n";

static const char *const float_net =
    "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'\n"
    "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'tanh' type: 'TanH' bottom: 'ip1' top: 'ip1' }\n"
    "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n"
    "  param { lr_mult: 1 decay_mult: 1 } param { lr_mult: 2 decay_mult: 0 }\n"
    "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n";

/* The loss weight, the number of all samples, takes the division by it back. */
static const char *const integer_net =
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 1 weight_filler { type: 'constant' value: 1 } } }\n"
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss'\n"
    "  loss_weight: %d }\n";

typedef struct training {
  const char *solver; /* text */
  int devices, batch, all_samples;
  crema_exchange way;
  samples samples;
} training;

static void run(solver_case *c, training *t, weights *out) {
  char net[4096];
  int size = snprintf(net, sizeof net, input_text, t->batch, t->batch);
  if (t->samples.integers) {
    snprintf(net + size, sizeof net - (size_t)size, integer_net, t->all_samples);
  } else {
    snprintf(net + size, sizeof net - (size_t)size, "%s", float_net);
  }
  use_devices(c, t->devices, t->way);
  c->options.feed = feed;
  c->options.user = &t->samples;
  case_load(c, net, t->solver);
  ok(crema_solver_step(c->solver, t->samples.integers ? 3 : 2));
  read_weights(c->solver->net, out);
  assert_replicas_agree(c);
}

/* One device with all samples of an iteration, then several with theirs, in each way. */
static void compare(solver_case *c, const char *solver, int devices, bool integers) {
  weights one, several;
  training t = {.solver = solver,
                .devices = 1,
                .batch = BATCH * devices,
                .all_samples = BATCH * devices,
                .samples = {.integers = integers}};
  run(c, &t, &one);
  t.devices = devices;
  t.batch = BATCH;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    t.way = exchange_ways[way];
    run(c, &t, &several);
    if (integers) assert_same_weights(&one, &several);
    else assert_near_weights(&several, &one, 2e-5);
  }
}

PARALLEL_TEST(s3_02_s3_23_integers_give_the_weights_of_one_device_bit_for_bit) {
  solver_case *c = *state;
  static const char *const texts[] = {
      "base_lr: 0.03125 lr_policy: 'fixed' momentum: 0.5",
      "base_lr: 0.015625 lr_policy: 'fixed' iter_size: 4",
      "base_lr: 0.03125 lr_policy: 'fixed' layer_wise_reduce: false",
  };
  for (int n = 0; n < COUNTS; ++n) {
    for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) compare(c, texts[i], counts[n], true);
  }
}

static const char *const rules[] = {
    "type: 'SGD' momentum: 0.9 weight_decay: 0.01",
    "type: 'Nesterov' momentum: 0.9 weight_decay: 0.01 regularization_type: 'L1'",
    "type: 'AdaGrad' weight_decay: 0.01",
    "type: 'RMSProp' rms_decay: 0.9 weight_decay: 0.01",
    "type: 'AdaDelta' momentum: 0.9 delta: 1e-4",
    "type: 'Adam' momentum: 0.9 momentum2: 0.99 delta: 1e-4",
    "type: 'AdamW' momentum: 0.9 momentum2: 0.99 delta: 1e-4 weight_decay: 0.01",
    "type: 'LAMB' momentum: 0.9 momentum2: 0.99 delta: 1e-4 weight_decay: 0.01",
    "type: 'LARS' momentum: 0.9 weight_decay: 0.01 local_gw_ratio: 0.1",
};

enum { RULES = sizeof rules / sizeof *rules };

PARALLEL_TEST(s3_23_s4_51_floats_give_the_weights_of_one_device_but_for_rounding) {
  solver_case *c = *state;
  static const char *const settings[] = {"", "iter_size: 3", "clip_gradients: 0.2",
                                         "iter_size: 3 clip_gradients: 0.2"};
  for (int n = 0; n < COUNTS; ++n) {
    for (int rule = 0; rule < RULES; ++rule) {
      for (int i = 0; i < 4; ++i) {
        char text[256];
        snprintf(text, sizeof text, "lr_policy: 'fixed' %s %s", rules[rule], settings[i]);
        compare(c, text, counts[n], false);
      }
    }
  }
}

/* The policy that looks at the loss has to see that of all replicas (S3-24). */
PARALLEL_TEST(s3_24_rates_follow_the_loss_of_all) {
  solver_case *c = *state;
  compare(c, "lr_policy: 'plateau' plateau_winsize: 1 gamma: 0.5 momentum: 0.9", 5, false);
  compare(c, "lr_policy: 'step' stepsize: 1 gamma: 0.5 momentum: 0.9", 5, false);
}

/* Only where auto chooses is there a reason to tell. */
PARALLEL_TEST(the_log_tells_of_the_exchange) {
  solver_case *c = *state;
  static const struct {
    crema_exchange way;
    const char *says;
  } rows[] = {{CREMA_EXCHANGE_TREE, "Exchange: tree of 2 devices; the first device updates\n"},
              {CREMA_EXCHANGE_REDUCE, "Exchange: reduce, between 2 devices\n"},
              {CREMA_EXCHANGE_AUTO, "Exchange: reduce, between 2 devices: "}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    static log_lines lines;
    weights out;
    training t = {.solver = "lr_policy: 'fixed'",
                  .devices = 2,
                  .batch = BATCH,
                  .all_samples = BATCH * 2,
                  .way = rows[i].way};
    t.samples.integers = true;
    listen_to(&lines, CREMA_LOG_INFO);
    run(c, &t, &out);
    stop_listening();
    assert_int_equal(count_lines(&lines, rows[i].says), 1);
    assert_int_equal(count_lines(&lines, "Exchange: "), 1);
    assert_int_equal(count_lines(&lines, "not nccl"), 0);
  }
}

/* All replicas clip the summed gradient, and one of them logs it: the same lines as on one device
 * with all samples. Integers and powers of two make the sums exact. */
PARALLEL_TEST(clipping_is_logged_once_per_iteration) {
  solver_case *c = *state;
  static log_lines one, several;
  weights out;
  training t = {.solver = "base_lr: 0.03125 lr_policy: 'fixed' clip_gradients: 0.5",
                .devices = 1,
                .batch = BATCH * 2,
                .all_samples = BATCH * 2,
                .samples = {.integers = true}};
  listen_to(&one, CREMA_LOG_INFO);
  run(c, &t, &out);
  stop_listening();
  assert_int_equal(count_lines(&one, "Gradient clipping"), 3);
  t.devices = 2;
  t.batch = BATCH;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    t.way = exchange_ways[way];
    listen_to(&several, CREMA_LOG_INFO);
    run(c, &t, &out);
    stop_listening();
    assert_int_equal(count_lines(&several, "Gradient clipping"), 3);
    const char *first = strstr(one.text, "Gradient clipping");
    const size_t size = (size_t)(strchr(first, '\n') - first);
    assert_memory_equal(first, strstr(several.text, "Gradient clipping"), size);
  }
}

PARALLEL_TEST(s3_22_runs_are_the_same_bit_for_bit) {
  solver_case *c = *state;
  static const char *const texts[] = {
      "lr_policy: 'fixed' momentum: 0.9",
      "lr_policy: 'fixed' type: 'Adam' momentum: 0.9 clip_gradients: 0.2 iter_size: 2",
  };
  for (int i = 0; i < 2; ++i) {
    for (int way = 0; way < EXCHANGE_WAYS; ++way) {
      weights first, again;
      training t = {.solver = texts[i], .devices = 8, .batch = BATCH, .way = exchange_ways[way]};
      run(c, &t, &first);
      atomic_store(&t.samples.delays, true);
      for (int k = 0; k < 5; ++k) {
        run(c, &t, &again);
        assert_same_weights(&first, &again);
      }
    }
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
