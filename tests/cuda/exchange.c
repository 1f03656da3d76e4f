/* Exchanges between GPUs: sums of all element types by every way, failures of NCCL, and
 * training. Runs with as many devices as there are, up to three; failures need the fake NCCL. */
#include <dlfcn.h>
#include <stdatomic.h>

#include "crema/net.h"
#include "crema/solver.h"
#include "device/device.h"
#include "device/memory/driver.h"
#include "device/registry.h"
#include "folder.h"
#include "log_lines.h"
#include "ops/op.h"
#include "parallel/ranks.h"

enum { SKIPPED = 77, MOST_DEVICES = 3, FAILING_VALUES = 1000 };

enum { JOINING, STARTING, ASKING, FINALIZING }; /* steps of fake_nccl_fail */

static crema_device *devices[MOST_DEVICES];
static int device_count;

static struct {
  void (*inject)(int step, int rank, int error); /* NULL: a real NCCL, or none */
  int (*living)(void);
  int (*finalized)(void);
  int (*calls)(void);
  int (*peer_copies)(int from, int to);
  int (*unloaded_kernels)(int device);
  int (*touched)(void);                    /* how often the driver was asked for memory */
  int (*touched_beside_collectives)(void); /* while a collective was begun and not yet queued */
} fake;

static void find(void *library, const char *name, void *function) {
  void *symbol = library != NULL ? dlsym(library, name) : NULL;
  memcpy(function, &symbol, sizeof symbol);
}

static bool has_nccl(void) {
  return cr_exchange_find_nccl(devices[0]) == CREMA_OK;
}

/* The plug-in has opened the libraries by then, wherever they are. */
static void find_fakes(void) {
  const char *plugin = getenv("CREMA_CUDA_PLUGIN");
  if (plugin == NULL) return;
  find(dlopen(plugin, RTLD_NOW | RTLD_LOCAL), "fake_peer_copies", &fake.peer_copies);
  find(dlopen(plugin, RTLD_NOW | RTLD_LOCAL), "fake_unloaded_kernels", &fake.unloaded_kernels);
  if (!has_nccl()) return;
  void *nccl = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  find(nccl, "fake_nccl_fail", &fake.inject);
  find(nccl, "fake_nccl_living", &fake.living);
  find(nccl, "fake_nccl_calls", &fake.calls);
  find(nccl, "fake_nccl_finalized", &fake.finalized);
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  find(driver, "fake_touched", &fake.touched);
  find(driver, "fake_touched_beside_collectives", &fake.touched_beside_collectives);
}

/* ---- ranks ---- */

typedef enum cuda_way { BY_NCCL, BY_TREE, BY_REDUCE, CUDA_WAYS } cuda_way;

static crema_status create(ranks *all, cuda_way which) {
  cr_exchange *end[MOST_DEVICES] = {NULL};
  crema_status status = CREMA_OK;
  switch (which) {
    case BY_TREE:
      status = cr_exchange_create_tree(devices, all->count, CR_EXCHANGE_FIXED, end);
      break;
    case BY_REDUCE: status = cr_exchange_create_reduce(devices, all->count, end); break;
    default: status = cr_exchange_create_nccl(devices, all->count, end); break;
  }
  for (int i = 0; i < all->count; ++i) all->rank[i].end = end[i];
  return status;
}

static void open_ranks(ranks *all, int count) {
  *all = (ranks){.count = count};
  for (int i = 0; i < count; ++i) {
    rank *r = &all->rank[i];
    *r = (rank){.all = all, .number = i, .device = devices[i]};
    ok(crema_context_create(devices[i], 1, &r->context));
  }
}

/* ---- sums ---- */

/* Whole numbers of which three have an exact sum in all types. */
static double small_integer(rank *r, int64_t i) {
  return (double)((i * 7 + r->number * 3) % 9 - 4);
}

static crema_status sum_all(rank *r) {
  for (int s = 0; s < r->all->spans; ++s) CR_TRY(cr_exchange_sum(r->end, r->context, s));
  CR_TRY(cr_exchange_finish(r->end));
  return crema_context_finish(r->context);
}

static crema_status broadcast_all(rank *r) {
  for (int s = 0; s < r->all->spans; ++s) CR_TRY(cr_exchange_broadcast(r->end, r->context, s));
  return crema_context_finish(r->context);
}

/* Every value of rank `n` is the sum over all ranks. */
static void check_sums(ranks *all, int n) {
  for (int s = 0; s < all->spans; ++s) {
    const cr_exchange_span *span = &all->rank[n].span[s];
    const size_t bytes = (size_t)span->count * crema_dtype_size(span->type);
    void *host = malloc(bytes + 1);
    assert_non_null(host);
    ok(cr_copy_to_cpu(all->rank[n].context, host, span->memory, bytes));
    ok(crema_context_finish(all->rank[n].context));
    for (int64_t i = 0; i < span->count; ++i) {
      double sum = 0;
      for (int k = 0; k < all->count; ++k) sum += small_integer(&all->rank[k], i);
      if (get_value(span->type, host, i) == sum) continue;
      fail_msg("%s, value %d of rank %d of %d is %.17g, not %.17g", crema_dtype_name(span->type), (int)i,
               n, all->count, get_value(span->type, host, i), sum);
    }
    free(host);
  }
}

static void exchange_once(cuda_way which, int count) {
  static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
  static const int64_t values[] = {0, 1, 1000};
  ranks all;
  open_ranks(&all, count);
  for (int v = 0; v < 3; ++v) {
    for (int t = 0; t < 4; ++t) {
      ranks_add_span(&all, types[t], values[v]);
      for (int i = 0; i < count; ++i) fill_span(&all.rank[i], all.spans - 1, small_integer);
    }
  }
  ok(create(&all, which));
  ranks_prepare(&all);
  ranks_run(&all, sum_all);
  for (int i = 0; i < (which == BY_TREE ? 1 : count); ++i) check_sums(&all, i);
  ranks_run(&all, broadcast_all);
  for (int i = 0; i < count; ++i) check_sums(&all, i);
  ranks_close(&all);
}

/* Before the first collective a device has loaded all kernels, of which it otherwise loads each when
 * it first starts. */
TEST(kernels_are_loaded_before_a_group_is_joined) {
  if (fake.inject == NULL || device_count < 2) skip(); /* only the fake runtime tells */
  ranks all;
  assert_true(fake.unloaded_kernels(0) > 100 && fake.unloaded_kernels(1) > 100);
  open_ranks(&all, 2);
  ok(create(&all, BY_NCCL));
  assert_int_equal(fake.unloaded_kernels(0), 0);
  assert_int_equal(fake.unloaded_kernels(1), 0);
  ranks_close(&all);
}

/* S3-20, S3-27: exact sums of all types; afterwards all ranks have what rank 0 has. */
TEST(s3_27_sums_are_exact) {
  for (int w = 0; w < CUDA_WAYS; ++w) {
    if (w == BY_NCCL && !has_nccl()) {
      print_message("without NCCL: %s\n", crema_error_text());
      continue;
    }
    for (int count = 1; count <= device_count; ++count) exchange_once((cuda_way)w, count);
  }
  if (fake.living != NULL) {
    assert_int_equal(fake.living(), 0);
    /* Each of the spans with values, summed and broadcast. */
    assert_int_equal(fake.calls(), device_count * 2 * 8);
  }
}

/* The two devices of one board exchange; the third reaches the root through neither. */
TEST(s3_08_a_board_comes_first) {
  if (fake.peer_copies == NULL) skip(); /* only the fake runtime has this board and counts copies */
  assert_true(devices[0]->backend->same_board(devices[0], devices[2]));
  assert_false(devices[0]->backend->same_board(devices[0], devices[1]));
  const int within = fake.peer_copies(2, 0), from_other = fake.peer_copies(1, 2);
  ranks all;
  open_ranks(&all, 3);
  ranks_add_span(&all, CREMA_F32, 100);
  for (int i = 0; i < 3; ++i) fill_span(&all.rank[i], 0, small_integer);
  ok(create(&all, BY_TREE));
  ranks_prepare(&all);
  ranks_run(&all, sum_all);
  check_sums(&all, 0);
  ranks_close(&all);
  assert_int_equal(fake.peer_copies(2, 0), within + 1);
  assert_int_equal(fake.peer_copies(1, 2), from_other);
}

/* ---- the allocation lock ---- */

enum { STORMS = 5, STORMY_SUMS = 100 };

static atomic_bool storm_over;

/* The first run of a product, for which a library loads code. */
static crema_status multiply_first(crema_context *context) {
  const crema_shape square = {2, {4, 4}};
  const crema_shape *const shape[4] = {&square, &square, NULL, &square};
  const cr_op_desc product = {.kind = CR_OP_IP_FWD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  cr_tensor *tensor[4] = {NULL};
  cr_op *op = NULL;
  CR_TRY(cr_op_describe(&product, 4, shape, NULL, &desc));
  crema_status status = cr_op_create(&desc, &op);
  for (int i = 0; i < 4 && status == CREMA_OK; ++i) {
    if (i == 2) continue;
    status = cr_tensor_create(CREMA_F32, 16, &tensor[i]);
    if (status == CREMA_OK) cr_tensor_set_zero(tensor[i]);
  }
  if (status == CREMA_OK) status = cr_op_run(op, context, tensor, NULL);
  if (status == CREMA_OK) status = crema_context_finish(context);
  cr_op_destroy(op);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  return status;
}

/* What drivers may not bear beside a collective: memory of a device and of the host taken and given
 * back, contexts, devices that are connected, code that is loaded. */
static crema_status storm(void *arg) {
  const uintptr_t kind = (uintptr_t)arg;
  crema_devptr at[2] = {{0}};
  crema_context *context = NULL;
  for (int i = 0; i < 2; ++i) CR_TRY(cr_device_alloc(devices[i], 256, &at[i]));
  while (!atomic_load(&storm_over)) {
    crema_devptr memory = {0};
    void *pinned = NULL;
    switch (kind) {
      case 0: /* larger than what a pool keeps */
        CR_TRY(cr_device_alloc(devices[0], (size_t)5 << 20, &memory));
        cr_device_free(devices[0], memory);
        break;
      case 1:
        CR_TRY(cr_pinned_alloc(devices[1], 4096, &pinned));
        cr_pinned_free(devices[1], pinned, 4096);
        break;
      case 2:
        CR_TRY(crema_context_create(devices[1], 1, &context));
        crema_context_destroy(context);
        break;
      case 3:
        CR_TRY(crema_context_create(devices[1], 1, &context));
        CR_TRY(multiply_first(context));
        crema_context_destroy(context);
        break;
      default: CR_TRY(cr_copy_any(at[1].address, at[0].address, 256));
    }
    cr_clock_sleep(1e-5);
  }
  for (int i = 0; i < 2; ++i) cr_device_free(devices[i], at[i]);
  return CREMA_OK;
}

/* The ranks come one after the other, so that the first one has to wait for the last one. */
static crema_status sum_in_turn(rank *r) {
  for (int i = 0; i < STORMY_SUMS; ++i) {
    cr_clock_sleep(1e-4 * ((r->number + i) % r->all->count));
    CR_TRY(cr_exchange_sum(r->end, r->context, 0));
  }
  CR_TRY(cr_exchange_finish(r->end));
  return crema_context_finish(r->context);
}

/* From the first rank's call until all ranks have queued theirs nobody asks the driver for memory,
 * also while the ranks join. */
TEST(s1_27_s3_27_s4_07_no_allocation_beside_a_sum_of_nccl) {
  /* Real drivers do not tell what they were asked for meanwhile, and one rank waits for none. */
  if (fake.touched == NULL || device_count < 2) skip();
  cr_thread *thread[STORMS] = {0};
  ranks all;
  const int beside = fake.touched_beside_collectives();
  atomic_store(&storm_over, false);
  for (uintptr_t i = 0; i < STORMS; ++i) {
    ok(cr_thread_start(&thread[i], "storm", storm, (void *)i));
  }
  open_ranks(&all, device_count);
  ranks_add_span(&all, CREMA_F32, 100);
  ok(create(&all, BY_NCCL));
  ranks_prepare(&all);
  const int before = fake.touched();
  ranks_run(&all, sum_in_turn);
  const int touched = fake.touched() - before;
  ranks_close(&all);
  atomic_store(&storm_over, true);
  for (int i = 0; i < STORMS; ++i) ok(cr_thread_join(&thread[i]));
  assert_true(touched > STORMY_SUMS);
  assert_int_equal(fake.touched_beside_collectives(), beside);
}

/* ---- failures ---- */

static crema_status sum_again(rank *r) {
  for (int i = 0; i < 4; ++i) CR_TRY(cr_exchange_sum(r->end, r->context, 0));
  return CREMA_OK;
}

static void open_failing(ranks *all) {
  open_ranks(all, device_count);
  ranks_add_span(all, CREMA_F32, FAILING_VALUES);
  ok(create(all, BY_NCCL));
  ranks_prepare(all);
}

/* All ranks have failed with what rank `failed` said, and NCCL keeps nothing. */
static void check_failed(ranks *all, int failed, crema_status code, const char *text) {
  char wanted[256];
  snprintf(wanted, sizeof wanted, "rank %d: %s", failed, text);
  for (int i = 0; i < all->count; ++i) {
    const rank *r = &all->rank[i];
    if (r->status == code && strstr(r->text, i == failed ? text : wanted) != NULL) continue;
    fail_msg("rank %d: %s: \"%s\" instead of \"%s\"", i, crema_status_name(r->status), r->text,
             wanted);
  }
  assert_int_equal(fake.living(), 0);
  for (int i = 0; i < all->count; ++i) {
    assert_fails(cr_exchange_sum(all->rank[i].end, all->rank[i].context, 0), code, wanted);
  }
  ranks_close(all);
}

/* S3-31: what NCCL says to one rank, at once or later, reaches all; none waits for ever. */
TEST(s3_31_a_failure_of_nccl_ends_all) {
  if (fake.inject == NULL) skip(); /* only the fake NCCL fails when told to */
  static const char *const text[] = {
      [STARTING] = "NCCL: summing: fake failure", [ASKING] = "NCCL: exchanging: fake failure"};
  for (int step = STARTING; step <= ASKING; ++step) {
    for (int failed = 0; failed < device_count; ++failed) {
      ranks all;
      open_failing(&all);
      fake.inject(step, failed, 6);
      ranks_run_any(&all, sum_again);
      check_failed(&all, failed, CREMA_E_DEVICE, text[step]);
    }
  }
}

static crema_status fail_alone(rank *r) {
  if (r->number != r->all->count - 1) return sum_again(r);
  cr_clock_sleep(0.02); /* the others wait by now */
  crema_status status = cr_fail(CREMA_E_RANGE, "a bad label");
  cr_exchange_fail(r->end, status);
  return status;
}

TEST(s3_31_a_rank_that_fails_elsewhere_ends_all) {
  if (fake.inject == NULL) skip(); /* only the fake NCCL fails when told to */
  ranks all;
  open_failing(&all);
  ranks_run_any(&all, fail_alone);
  check_failed(&all, device_count - 1, CREMA_E_RANGE, "a bad label");
}

TEST(a_group_that_cannot_be_joined_is_given_up) {
  if (fake.inject == NULL) skip(); /* only the fake NCCL fails when told to */
  for (int step = JOINING; step <= ASKING; step += ASKING - JOINING) {
    for (int failed = 0; failed < device_count; ++failed) {
      ranks all;
      open_ranks(&all, device_count);
      fake.inject(step, failed, 1);
      assert_fails(create(&all, BY_NCCL), CREMA_E_DEVICE, "fake failure");
      assert_int_equal(fake.living(), 0);
      for (int i = 0; i < device_count; ++i) assert_null(all.rank[i].end);
      ranks_close(&all);
    }
  }
}

/* A group ends on all ranks together, and only then its communicators are destroyed. If one fails
 * in the meantime, all are aborted, and the thread's error text stays. */
TEST(a_group_ends_on_all_ranks_together) {
  if (fake.inject == NULL) skip(); /* only the fake NCCL fails when told to */
  for (int step = JOINING; step <= FINALIZING; ++step) {
    if (step == STARTING) continue;
    for (int failed = 0; failed < device_count; ++failed) {
      ranks all;
      const int finalized = fake.finalized();
      open_failing(&all);
      ranks_run(&all, sum_again);
      for (int i = 0; i < device_count; ++i) {
        ok(cr_exchange_finish(all.rank[i].end));
        ok(crema_context_finish(all.rank[i].context));
      }
      if (step != JOINING) fake.inject(step, failed, 6);
      (void)!cr_fail(CREMA_E_RANGE, "a bad label");
      ranks_close(&all);
      assert_string_equal(crema_error_text(), "a bad label");
      assert_int_equal(fake.living(), 0);
      assert_int_equal(fake.finalized() - finalized, step == JOINING ? device_count : 0);
    }
  }
}

TEST(other_devices_have_no_nccl) {
  crema_device *const cpu = cr_cpu_device();
  cr_exchange *end = NULL;
  assert_fails(cr_exchange_create_nccl(&cpu, 1, &end), CREMA_E_UNSUPPORTED, "cpu:0 is none");
  assert_null(end);
}

/* ---- training ---- */

enum { BATCH = 4, SIDE = 12, CLASSES = 4 };

/* As LeNet, small, with a loss of whole numbers for whole numbers. */
static const char net_text[] =
    "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param {"
    " shape { dim: %d dim: 1 dim: 12 dim: 12 } shape { dim: %d dim: 4 } } }\n"
    "layer { name: 'conv1' type: 'Convolution' bottom: 'data' top: 'conv1' convolution_param {"
    " num_output: 3 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'pool1' type: 'Pooling' bottom: 'conv1' top: 'pool1' pooling_param {"
    " pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'conv2' type: 'Convolution' bottom: 'pool1' top: 'conv2' convolution_param {"
    " num_output: 2 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv2' top: 'conv2' }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv2' top: 'ip' inner_product_param {"
    " num_output: 4 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'loss' type: 'EuclideanLoss' bottom: 'ip' bottom: 'label' top: 'loss' }\n";

static const char solver_text[] =
    "net: 'net.prototxt' base_lr: 0.0009765625 lr_policy: 'fixed' momentum: 0.5 max_iter: 100 "
    "random_seed: 7 snapshot_after_train: false iter_size: %d clip_gradients: %g\n";

static int feed_batch;

static crema_status feed(void *user, crema_net *net, int64_t pass) {
  (void)user;
  float *data = NULL, *label = NULL;
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  CR_TRY(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &label));
  for (int n = 0; n < feed_batch; ++n) {
    const int64_t sample = pass * feed_batch + n;
    for (int i = 0; i < SIDE * SIDE; ++i) {
      data[n * SIDE * SIDE + i] = (float)((sample * 5 + i * i) % 3 - 1);
    }
    for (int i = 0; i < CLASSES; ++i) label[n * CLASSES + i] = (float)((sample + i) % 2);
  }
  return CREMA_OK;
}

static void set_whole_weights(crema_net *net) {
  int number = 0;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      crema_blob *blob = crema_net_layer_param(net, l, p);
      float *value = NULL;
      ok(crema_blob_mutable_cpu_data(blob, &value));
      for (int64_t i = 0; i < crema_blob_count(blob); ++i, ++number) {
        value[i] = (float)(number * number % 5 - 2);
      }
    }
  }
}

typedef struct trained {
  float value[4096];
  int count;
} trained;

static void keep_weights(crema_net *net, trained *out) {
  out->count = 0;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    for (int p = 0; p < crema_net_layer_param_count(net, l); ++p) {
      crema_blob *blob = crema_net_layer_param(net, l, p);
      const float *value = NULL;
      ok(crema_blob_cpu_data(blob, &value));
      for (int64_t i = 0; i < crema_blob_count(blob); ++i) out->value[out->count++] = value[i];
      assert_true(out->count < 4096);
    }
  }
}

typedef struct training {
  int devices, batch, iter_size, iterations;
  crema_exchange exchange;
  double clip;
} training;

static trained train(const training *t) {
  static char text[sizeof net_text + 64];
  trained out;
  crema_solver_options options;
  crema_solver *solver = NULL;
  const int beside = fake.touched != NULL ? fake.touched_beside_collectives() : 0;
  snprintf(text, sizeof text, net_text, t->batch, t->batch);
  write_text("net.prototxt", text);
  snprintf(text, sizeof text, solver_text, t->iter_size, t->clip);
  write_text("solver.prototxt", text);
  feed_batch = t->batch;
  crema_solver_options_init(&options);
  options.devices = devices;
  options.device_count = (size_t)t->devices;
  options.exchange = t->exchange;
  options.feed = feed;
  ok(crema_solver_load(path_of("solver.prototxt"), &options, &solver));
  set_whole_weights(crema_solver_net(solver));
  ok(crema_solver_step(solver, t->iterations));
  keep_weights(crema_solver_net(solver), &out);
  crema_solver_destroy(solver);
  unlink(path_of("net.prototxt"));
  unlink(path_of("solver.prototxt"));
  if (fake.touched != NULL) assert_int_equal(fake.touched_beside_collectives(), beside);
  return out;
}

static const crema_exchange exchanges[] = {CREMA_EXCHANGE_NCCL, CREMA_EXCHANGE_TREE,
                                           CREMA_EXCHANGE_REDUCE};
enum { EXCHANGES = sizeof exchanges / sizeof exchanges[0] };

/* After one iteration from whole numbers nothing has been rounded but the weights themselves. */
static void compare_exactly(const training *alone, training *together) {
  const trained one = train(alone);
  for (int e = 0; e < EXCHANGES; ++e) {
    if (exchanges[e] == CREMA_EXCHANGE_NCCL && !has_nccl()) continue;
    together->exchange = exchanges[e];
    const trained several = train(together);
    assert_int_equal(several.count, one.count);
    assert_memory_equal(several.value, one.value, (size_t)one.count * sizeof(float));
  }
}

TEST(s3_20_two_devices_are_one_with_the_double_batch) {
  if (device_count < 2) skip();
  for (int clipped = 0; clipped < 2; ++clipped) {
    training one = {1, 2 * BATCH, 1, 1, CREMA_EXCHANGE_AUTO, clipped == 1 ? 0.5 : -1};
    training two = {2, BATCH, 1, 1, CREMA_EXCHANGE_AUTO, one.clip};
    compare_exactly(&one, &two);
    two.iter_size = 2;
    one.iter_size = 2;
    compare_exactly(&one, &two);
  }
}

/* Clipping looks at the sum of the passes, before it is divided by their number. */
TEST(s3_20_three_devices_are_one_with_three_passes) {
  if (device_count < 3) skip();
  const training one = {1, BATCH, 3, 1, CREMA_EXCHANGE_AUTO, -1};
  training three = {3, BATCH, 1, 1, CREMA_EXCHANGE_AUTO, -1};
  compare_exactly(&one, &three);
}

/* Later sums are rounded, in other orders. */
TEST(training_goes_on_as_on_one_device) {
  if (device_count < 2) skip();
  const training one = {1, BATCH, device_count, 8, CREMA_EXCHANGE_AUTO, -1};
  training several = {device_count, BATCH, 1, 8, CREMA_EXCHANGE_AUTO, -1};
  const trained expected = train(&one);
  for (int e = 0; e < EXCHANGES; ++e) {
    if (exchanges[e] == CREMA_EXCHANGE_NCCL && !has_nccl()) continue;
    several.exchange = exchanges[e];
    const trained got = train(&several), again = train(&several);
    assert_memory_equal(got.value, again.value, (size_t)got.count * sizeof(float));
    for (int i = 0; i < got.count; ++i) {
      assert_true(fabs((double)got.value[i] - (double)expected.value[i]) <= 1e-5);
    }
  }
}

static log_lines lines;

TEST(s3_27_auto_takes_nccl) {
  if (device_count < 2) skip();
  const char *version = getenv("FAKE_NCCL_VERSION");
  training two = {2, BATCH, 1, 1, CREMA_EXCHANGE_AUTO, -1};
  const bool there = has_nccl();
  listen_to(&lines, CREMA_LOG_INFO);
  (void)train(&two);
  if (there && fake.inject != NULL) {
    fake.inject(JOINING, 1, 1);
    (void)train(&two);
  }
  stop_listening();
  assert_int_equal(count_lines(&lines, "Exchange: nccl, between 2 devices: "), there);
  if (there && fake.inject != NULL) {
    assert_int_equal(count_lines(&lines, "; not nccl: NCCL: joining: fake failure"), 1);
  }
  if (version != NULL) {
    assert_int_equal(
        count_lines(&lines, "; not nccl: NCCL is version 2.10, and at least 2.14 is needed"), 1);
  }
}

int main(void) {
  setenv("FAKE_CUDA_SLOW_CODE", "1", 1);
  device_count = crema_device_count(cr_registry_gpu_type());
  if (device_count > MOST_DEVICES) device_count = MOST_DEVICES;
  if (device_count < 1) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  for (int i = 0; i < device_count; ++i) {
    ok(crema_device_open(cr_registry_gpu_type(), &i, 1));
    ok(crema_device_get(cr_registry_gpu_type(), i, &devices[i]));
  }
  find_fakes();
  if (fake.inject == NULL) files_kept = 1 << 10; /* the real driver and NCCL keep theirs */
  return run_all_tests(make_folder, remove_folder);
}
