/* Trainings by several simulated devices, for the tests of this room. */
#ifndef CR_TESTS_SOLVER_PARALLEL_CASE_H
#define CR_TESTS_SOLVER_PARALLEL_CASE_H

#include <math.h>

#include "memory/sim_fixture.h"
#include "solver_case.h"

enum { PARALLEL_MOST_DEVICES = 8, PARALLEL_MOST_VALUES = 512 };

static const crema_exchange exchange_ways[] = {CREMA_EXCHANGE_TREE, CREMA_EXCHANGE_REDUCE};

enum { EXCHANGE_WAYS = sizeof exchange_ways / sizeof *exchange_ways };

/* Two layers with parameters, and inputs that case_feed fills. */
#define TWO_PRODUCTS                                                             \
  "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n"                  \
  "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"               \
  "layer { name: 'ip1' type: 'InnerProduct' bottom: 'data' top: 'ip1'\n"         \
  "  inner_product_param { num_output: 5 weight_filler { type: 'xavier' } } }\n" \
  "layer { name: 'ip2' type: 'InnerProduct' bottom: 'ip1' top: 'ip2'\n"          \
  "  inner_product_param { num_output: 2 weight_filler { type: 'xavier' } } }\n" \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip2' bottom: 'label' top: 'loss' }\n"

/* A test with devices and a case of its own, `solver_case *c = *state`. */
#define PARALLEL_TEST(name) TEST_BETWEEN(name, parallel_setup, parallel_teardown)

static inline int parallel_setup(void **state) {
  cr_sim_options options = sim_test_options(PARALLEL_MOST_DEVICES);
  options.memory = (size_t)64 << 20;
  options.keep_log = false;
  sim_begin(&options);
  return case_setup(state);
}

static inline int parallel_teardown(void **state) {
  (void)case_teardown(state);
  sim_end();
  return 0;
}

/* The solver that is loaded next trains on so many simulated devices. */
static inline void use_devices(solver_case *c, int count, crema_exchange way) {
  static crema_device *device[PARALLEL_MOST_DEVICES];
  for (int i = 0; i < count; ++i) device[i] = sim_test_device(i);
  c->options.devices = device;
  c->options.device_count = (size_t)count;
  c->options.exchange = way;
}

/* All values of the learnable parameters of a net, or of those that learn: each replica gathers
 * statistics of its own. */
typedef struct weights {
  int count;
  float value[PARALLEL_MOST_VALUES];
} weights;

static inline void read_some_weights(crema_net *net, bool all, weights *out) {
  out->count = 0;
  for (int i = 0; i < net->learnables; ++i) {
    const float *value = NULL;
    const int count = (int)crema_blob_count(net->learnable[i]);
    if (!all && net->lr_mult[i] == 0) continue;
    ok(crema_blob_cpu_data(net->learnable[i], &value));
    assert_true(out->count + count <= PARALLEL_MOST_VALUES);
    memcpy(out->value + out->count, value, (size_t)count * sizeof *value);
    out->count += count;
  }
}

static inline void read_weights(crema_net *net, weights *out) {
  read_some_weights(net, true, out);
}

static inline void assert_same_weights(const weights *a, const weights *b) {
  assert_int_equal(a->count, b->count);
  for (int i = 0; i < a->count; ++i) {
    if (memcmp(&a->value[i], &b->value[i], sizeof(float)) == 0) continue;
    fail_msg("value %d: %.9g, not %.9g", i, (double)a->value[i], (double)b->value[i]);
  }
}

/* Sums of the same terms in another order. */
static inline void assert_near_weights(const weights *a, const weights *b, double tolerance) {
  assert_int_equal(a->count, b->count);
  for (int i = 0; i < a->count; ++i) {
    const double x = (double)a->value[i], y = (double)b->value[i];
    if (fabs(x - y) <= tolerance * fmax(1, fabs(y))) continue;
    fail_msg("value %d: %.9g, not %.9g", i, x, y);
  }
}

/* Where every replica updates, all have what the root has learned, bit for bit. */
static inline void assert_replicas_agree(const solver_case *c) {
  weights root, other;
  read_some_weights(c->solver->net, false, &root);
  for (int i = 1; i < c->solver->replicas; ++i) {
    if (c->solver->replica[i].updater == NULL) continue;
    read_some_weights(c->solver->replica[i].net, false, &other);
    assert_same_weights(&root, &other);
  }
}

#endif
