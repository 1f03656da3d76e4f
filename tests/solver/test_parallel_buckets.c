/* What is exchanged: every parameter that learns is summed once and updated once in an iteration,
 * in however many buckets (S4-49), also with gradients of two types, shared weights (S3-28),
 * parameters that stand still and none at all (S3-10). Updates are
 * counted where they are linked. */
#include <stdatomic.h>

#include "parallel_case.h"

enum { MOST_PARAMS = 16 };

/* ---- counting ---- */

typedef struct counts {
  atomic_int summed[MOST_PARAMS], updated[MOST_PARAMS];
  atomic_int sums;
} counts;

static crema_solver *counted; /* NULL: nothing is counted */
static counts counts_of[PARALLEL_MOST_DEVICES];

crema_status __real_cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                          crema_context *context);
crema_status __real_cr_updater_run(cr_updater *updater, double rate, int64_t iteration);
crema_status __wrap_cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                          crema_context *context);
crema_status __wrap_cr_updater_run(cr_updater *updater, double rate, int64_t iteration);

static void count_bucket(const cr_replica *replica, const cr_bucket *bucket, bool updated) {
  const cr_param_block *block = &replica->blocks->block[bucket->block];
  counts *c = &counts_of[replica->rank];
  for (int i = bucket->first; i < bucket->last; ++i) {
    const int learnable = block->part[i].learnable;
    atomic_fetch_add(updated ? &c->updated[learnable] : &c->summed[learnable], 1);
  }
}

/* The class of the exchange, and the same with sums that are counted. */
static const cr_exchange_class *usual_class;
static cr_exchange_class counting_class;

static crema_status count_run(cr_exchange *end, crema_context *context, int span, bool sum) {
  if (sum) {
    const cr_replica *replica = &counted->replica[end->rank];
    const int bucket = span - replica->blocks->count;
    assert_in_range(bucket, 0, replica->buckets - 1);
    atomic_fetch_add(&counts_of[end->rank].sums, 1);
    count_bucket(replica, &replica->bucket[bucket], false);
  }
  return usual_class->run(end, context, span, sum);
}

static void set_class(const crema_solver *solver, const cr_exchange_class *class) {
  for (int r = 0; r < solver->replicas; ++r) solver->replica[r].exchange->class = class;
}

static const cr_replica *replica_of(const cr_updater *updater) {
  int i = 0;
  while (counted->replica[i].updater != updater) ++i;
  return &counted->replica[i];
}

crema_status __wrap_cr_updater_run_bucket(cr_updater *updater, const cr_bucket *bucket,
                                          crema_context *context) {
  if (counted != NULL) count_bucket(replica_of(updater), bucket, true);
  return __real_cr_updater_run_bucket(updater, bucket, context);
}

/* An update of everything. */
crema_status __wrap_cr_updater_run(cr_updater *updater, double rate, int64_t iteration) {
  if (counted != NULL) {
    const cr_replica *replica = replica_of(updater);
    for (int i = 0; i < replica->blocks->count; ++i) {
      const cr_bucket all = {.block = i, .last = replica->blocks->block[i].parts};
      count_bucket(replica, &all, true);
    }
  }
  return __real_cr_updater_run(updater, rate, iteration);
}

/* ---- nets ---- */

#define INPUT                                                   \
  "layer { name: 'in' type: 'Input' top: 'data' top: 'label'\n" \
  "  input_param { shape { dim: 4 dim: 3 } shape { dim: 4 } } }\n"
#define PRODUCT(name, bottom, more)                                                          \
  "layer { name: '" name "' type: 'InnerProduct' bottom: '" bottom "' top: '" name "' " more \
  "  inner_product_param { num_output: 3 weight_filler { type: 'xavier' } } }\n"
#define LOSS(bottom)                                              \
  "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: '" bottom \
  "' bottom: 'label' top: "                                       \
  "'loss' }\n"
#define HALF "forward_type: FLOAT16 backward_type: FLOAT16\n"

static const char *const nets[] = {
    INPUT PRODUCT("a", "data", "") PRODUCT("b", "a", "") PRODUCT("c", "b", "")
        PRODUCT("d", "c", "") LOSS("d"),
    /* Gradients of two types. */
    INPUT PRODUCT("a", "data", HALF) PRODUCT("b", "a", "") PRODUCT("c", "b", HALF)
        PRODUCT("d", "c", "") LOSS("d"),
    /* Shared weights: those of c are complete when a has added its part. */
    INPUT PRODUCT("a", "data", "param { name: 'w' } param { name: 'v' }") PRODUCT("b", "a", "")
        PRODUCT("c", "b", "param { name: 'w' } param { name: 'v' }") LOSS("c"),
    /* Parameters that stand still, and statistics. */
    INPUT PRODUCT("a", "data", "param { lr_mult: 0 } param { lr_mult: 1 }")
        "layer { name: 'norm' type: 'BatchNorm' bottom: 'a' top: 'norm' }\n"
        PRODUCT("b", "norm", "param { lr_mult: 1 } param { lr_mult: 0 }") PRODUCT("c", "b", "")
            LOSS("c"),
};

enum { NETS = sizeof nets / sizeof *nets };

static void load(solver_case *c, const char *net, int buckets, int devices, crema_exchange way,
                 const char *text) {
  char all[4096], solver[256];
  snprintf(all, sizeof all, "reduce_buckets: %d\n%s", buckets, net);
  snprintf(solver, sizeof solver, "lr_policy: 'fixed' momentum: 0.9 %s", text);
  use_devices(c, devices, way);
  case_load_fed(c, all, solver);
}

static void expect_once(const solver_case *c, int iterations) {
  const crema_solver *solver = c->solver;
  for (int r = 0; r < solver->replicas; ++r) {
    const cr_replica *replica = &solver->replica[r];
    for (int i = 0; i < replica->net->learnables; ++i) {
      const bool learns = replica->net->lr_mult[i] != 0;
      assert_int_equal(counts_of[r].summed[i], learns ? iterations : 0);
      if (learns) assert_int_equal(counts_of[r].updated[i], replica->updater ? iterations : 0);
    }
    assert_int_equal(counts_of[r].sums, iterations * replica->buckets);
  }
}

static void train_counted(solver_case *c, int iterations) {
  memset(counts_of, 0, sizeof counts_of);
  usual_class = c->solver->replica[0].exchange->class;
  counting_class = *usual_class;
  counting_class.run = count_run;
  set_class(c->solver, &counting_class);
  counted = c->solver;
  crema_status status = crema_solver_step(c->solver, iterations);
  counted = NULL;
  set_class(c->solver, usual_class);
  ok(status);
  expect_once(c, iterations);
  assert_replicas_agree(c);
}

/* The last pass of an iteration exchanges, whatever iter_size is (S4-50, S3-26). */
PARALLEL_TEST(s4_49_s4_50_s3_26_s3_28_every_parameter_is_summed_and_updated_once) {
  solver_case *c = *state;
  static const char *const texts[] = {"", "iter_size: 3", "clip_gradients: 0.1",
                                      "larc: true iter_size: 2", "layer_wise_reduce: false"};
  for (int n = 0; n < NETS; ++n) {
    for (int buckets = 0; buckets <= 64; ++buckets) {
      load(c, nets[n], buckets, 2, CREMA_EXCHANGE_REDUCE, texts[(buckets + n) % 5]);
      train_counted(c, 2);
    }
    for (int i = 0; i < 5; ++i) {
      load(c, nets[n], 6, 3, CREMA_EXCHANGE_TREE, texts[i]);
      train_counted(c, 2);
    }
  }
}

/* The number of buckets changes nothing but the order of sums. */
PARALLEL_TEST(s4_49_weights_do_not_depend_on_the_buckets) {
  solver_case *c = *state;
  for (int n = 0; n < NETS; ++n) {
    weights first, other;
    load(c, nets[n], 0, 3, CREMA_EXCHANGE_REDUCE, "");
    ok(crema_solver_step(c->solver, 3));
    read_weights(c->solver->net, &first);
    for (int buckets = 1; buckets <= 64; buckets *= 2) {
      load(c, nets[n], buckets, 3, CREMA_EXCHANGE_REDUCE, "");
      ok(crema_solver_step(c->solver, 3));
      read_weights(c->solver->net, &other);
      assert_near_weights(&other, &first, n == 1 ? 2e-3 : 1e-5);
    }
  }
}

/* ---- layout ---- */

/* Buckets take every part of the blocks that learn once, in the order in which backward completes
 * them, and about as many as asked for. */
static void check_cut(const cr_param_blocks *blocks, int wanted) {
  cr_bucket *bucket = NULL;
  int count = 0, taken[MOST_PARAMS] = {0}, learn = 0;
  ok(cr_param_blocks_cut(blocks, wanted, &bucket, &count));
  for (int i = 0; i < count; ++i) {
    const cr_param_block *block = &blocks->block[bucket[i].block];
    assert_true(block->learns);
    assert_true(bucket[i].first < bucket[i].last);
    if (i > 0) assert_true(bucket[i].layer <= bucket[i - 1].layer);
    for (int k = bucket[i].first; k < bucket[i].last; ++k) {
      ++taken[block->part[k].learnable];
      assert_true(block->part[k].layer >= bucket[i].layer);
    }
  }
  free(bucket);
  for (int i = 0; i < blocks->net->learnables; ++i) {
    learn += blocks->net->lr_mult[i] != 0;
    assert_int_equal(taken[i], blocks->net->lr_mult[i] != 0);
  }
  if (wanted == 0) assert_int_equal(count, learn);
  else assert_in_range(count, 1, (wanted < learn ? wanted : learn) + blocks->count);
}

PARALLEL_TEST(s4_47_s3_10_s3_11_parameters_lie_side_by_side) {
  solver_case *c = *state;
  for (int n = 0; n < NETS; ++n) {
    load(c, nets[n], 6, 2, CREMA_EXCHANGE_REDUCE, "");
    const cr_replica *replica = &c->solver->replica[1];
    int seen[MOST_PARAMS] = {0}, types = 0;
    for (int b = 0; b < replica->blocks->count; ++b) {
      const cr_param_block *block = &replica->blocks->block[b];
      const cr_format format = {cr_tensor_type(block->weight), NULL};
      crema_devptr whole = {0}, part = {0};
      int64_t at = 0;
      types += block->learns;
      ok(cr_tensor_read(block->weight, replica->context, format, &whole));
      for (int i = 0; i < block->parts; ++i) {
        crema_blob *blob = replica->net->learnable[block->part[i].learnable];
        ++seen[block->part[i].learnable];
        assert_int_equal(block->part[i].begin, at);
        assert_int_equal(block->part[i].begin % 64, 0);
        ok(cr_tensor_read(blob->data, replica->context, format, &part));
        assert_int_equal(part.address, whole.address + (size_t)at * crema_dtype_size(format.type));
        at += (block->part[i].count + 63) / 64 * 64;
      }
      assert_int_equal(block->count, at);
    }
    for (int i = 0; i < replica->net->learnables; ++i) assert_int_equal(seen[i], 1);
    assert_int_equal(types, n == 1 ? 2 : 1);
    for (int wanted = 0; wanted <= 64; ++wanted) check_cut(replica->blocks, wanted);
  }
}

PARALLEL_TEST(s3_10_nets_without_parameters_train) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    load(c, INPUT LOSS("data"), 6, 3, exchange_ways[way], "clip_gradients: 1");
    assert_int_equal(crema_solver_net(c->solver)->learnables, 0);
    train_counted(c, 2);
  }
}

/* ---- clearing ---- */

/* Gradients of an iteration are those of its own samples: a training with iter_size gives the same
 * when it is cut into single steps (S4-52); also those that no update has used. */
PARALLEL_TEST(s4_52_gradients_begin_at_zero) {
  solver_case *c = *state;
  for (int way = 0; way < EXCHANGE_WAYS; ++way) {
    weights whole, steps;
    load(c, nets[0], 6, 3, exchange_ways[way], "iter_size: 2");
    ok(crema_solver_step(c->solver, 4));
    read_weights(c->solver->net, &whole);
    load(c, nets[0], 6, 3, exchange_ways[way], "iter_size: 2");
    for (int i = 0; i < 4; ++i) {
      for (int r = 0; r < 3; ++r) {
        crema_net *net = c->solver->replica[r].net;
        for (int k = 0; k < net->learnables; ++k) {
          float *diff = NULL;
          ok(crema_blob_mutable_cpu_diff(net->learnable[k], &diff));
          diff[0] = 1000;
        }
      }
      ok(crema_solver_step(c->solver, 1));
    }
    read_weights(c->solver->net, &steps);
    assert_same_weights(&whole, &steps);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
