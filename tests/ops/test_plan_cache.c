/* Plans that contexts share: what is found again, what makes room, and many threads at once. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "core/thread.h"
#include "device/device.h"
#include "net/net_case.h"
#include "op_make.h"
#include "ops/op_private.h"
#include "ops/plan_cache.h"

enum { C = 16, SIDE = 6, IMAGE = C * SIDE * SIDE, OUT = 10, MOST = 5 };

/* ---- ops ---- */

static cr_op *make_conv(int batch) {
  const cr_post add = {.kind = CR_POST_ADD}, relu = {.kind = CR_POST_UNARY};
  const crema_shape image = {4, {batch, C, SIDE, SIDE}}, filter = {4, {C, C, 3, 3}};
  cr_op_desc desc = op_blank(CR_OP_CONV_FWD, CREMA_F32);
  const cr_window window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}};
  desc.u.conv.window = window;
  desc.u.conv.group = 1;
  assert_true(cr_posts_append(&desc.u.conv.posts, &add));
  assert_true(cr_posts_append(&desc.u.conv.posts, &relu));
  return op_make(&desc, 5, (const crema_shape *[]){&image, &filter, NULL, &image, &image});
}

static cr_op *make_pool(int batch) {
  const crema_shape image = {4, {batch, C, SIDE, SIDE}}, half = {4, {batch, C, SIDE / 2, SIDE / 2}};
  cr_op_desc desc = op_blank(CR_OP_POOL_FWD, CREMA_F32);
  const cr_window window = {2, {2, 2}, {2, 2}, {0, 0}, {1, 1}};
  desc.u.pool.window = window;
  desc.u.pool.method = CR_POOL_MAX;
  return op_make(&desc, 3, (const crema_shape *[]){&image, &half, NULL});
}

static cr_op *make_product(int batch) {
  const crema_shape half = {4, {batch, C, SIDE / 2, SIDE / 2}};
  const crema_shape matrix = {2, {OUT, IMAGE / 4}}, out = {2, {batch, OUT}};
  const cr_op_desc desc = op_blank(CR_OP_IP_FWD, CREMA_F32);
  return op_make(&desc, 4, (const crema_shape *[]){&half, &matrix, NULL, &out});
}

static cr_tensor *make_tensor(int64_t count, float step) {
  cr_tensor *tensor = NULL;
  void *values = NULL;
  ok(cr_tensor_create(CREMA_F32, count, &tensor));
  ok(cr_tensor_host_write(tensor, &values));
  for (int64_t i = 0; i < count; ++i) ((float *)values)[i] = step * (float)(i % 97 - 40);
  return tensor;
}

/* Makes the three ops for a batch and runs them, as a net does whose input has a new shape. */
static void run_chain(crema_context *context, int batch, float *result) {
  cr_op *op[] = {make_conv(batch), make_pool(batch), make_product(batch)};
  cr_tensor *x = make_tensor((int64_t)batch * IMAGE, 0.01f),
            *filter = make_tensor(C * C * 9, 0.002f);
  cr_tensor *matrix = make_tensor(OUT * IMAGE / 4, 0.003f);
  cr_tensor *y = make_tensor((int64_t)batch * IMAGE, 0), *half = make_tensor(batch * IMAGE / 4, 0);
  cr_tensor *out = make_tensor(batch * OUT, 0);
  const void *values = NULL;
  ok(cr_op_run(op[0], context, (cr_tensor *[]){x, filter, NULL, y, x}, NULL));
  ok(cr_op_run(op[1], context, (cr_tensor *[]){y, half, NULL}, NULL));
  ok(cr_op_run(op[2], context, (cr_tensor *[]){half, matrix, NULL, out}, NULL));
  ok(cr_tensor_host_read(out, &values));
  memcpy(result, values, (size_t)(batch * OUT) * sizeof *result);
  cr_tensor *all[] = {x, filter, matrix, y, half, out};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) cr_tensor_destroy(all[i]);
  for (int i = 0; i < 3; ++i) cr_op_destroy(op[i]);
}

static crema_context *make_context(cr_plan_cache *cache, int threads) {
  crema_context *context = NULL;
  ok(crema_context_create(cr_cpu_device(), 1, &context));
  cr_context_set_plans(context, cache);
  cr_context_set_threads(context, threads);
  return context;
}

/* ---- what is found ---- */

TEST(equal_ops_share_a_plan) {
  cr_plan_cache *cache = NULL;
  float first[MOST * OUT], second[MOST * OUT];
  ok(cr_plan_cache_create(100, &cache));
  crema_context *a = make_context(cache, 1), *b = make_context(cache, 1);
  run_chain(a, 2, first);
  const cr_plan_cache_counts once = cr_plan_cache_count(cache);
  assert_true(once.made >= 3 && once.found == 0 && once.held == (int)once.made);
  run_chain(b, 2, second);
  const cr_plan_cache_counts twice = cr_plan_cache_count(cache);
  assert_int_equal(twice.made, once.made);
  assert_int_equal(twice.found, once.made);
  assert_memory_equal(first, second, 2 * OUT * sizeof *first);
  run_chain(b, 3, second); /* another shape */
  assert_int_equal(cr_plan_cache_count(cache).made, 2 * once.made);
  crema_context *c = make_context(cache, 0); /* another number of threads, unless there is one */
  run_chain(c, 2, second);
  crema_context_destroy(c);
  crema_context_destroy(b);
  crema_context_destroy(a);
  cr_plan_cache_destroy(cache);
}

TEST(the_oldest_plans_make_room) {
  cr_plan_cache *cache = NULL;
  float result[MOST * OUT];
  ok(cr_plan_cache_create(4, &cache));
  crema_context *context = make_context(cache, 1);
  cr_op *kept = make_pool(1);
  cr_tensor *x = make_tensor(IMAGE, 1), *y = make_tensor(IMAGE / 4, 0);
  ok(cr_op_run(kept, context, (cr_tensor *[]){x, y, NULL}, NULL));
  for (int batch = 1; batch <= MOST; ++batch) run_chain(context, batch, result);
  const cr_plan_cache_counts counts = cr_plan_cache_count(cache);
  assert_int_equal(counts.held, 4);
  run_chain(context, MOST, result); /* the newest are there */
  assert_int_equal(cr_plan_cache_count(cache).made, counts.made);
  run_chain(context, 1, result); /* the oldest are not */
  assert_true(cr_plan_cache_count(cache).made > counts.made);
  /* A plan that an op uses outlives the cache. */
  cr_plan_cache_destroy(cache);
  cr_context_set_plans(context, NULL);
  ok(cr_op_run(kept, context, (cr_tensor *[]){x, y, NULL}, NULL));
  cr_tensor_destroy(x);
  cr_tensor_destroy(y);
  cr_op_destroy(kept);
  crema_context_destroy(context);
  cr_plan_cache_destroy(NULL);
}

static cr_op_plan *make_plan(const cr_op *op, const cr_plan_key *key, crema_context *context) {
  cr_op_plan *plan = NULL;
  ok(cr_op_plan_make(op->use, key, context, &plan));
  return plan;
}

/* Of two plans that were made at the same time, the one that is there already serves both; one that
 * cannot be run any more makes room. */
TEST(equal_plans_meet) {
  cr_plan_cache *cache = NULL;
  ok(cr_plan_cache_create(4, &cache));
  crema_context *context = make_context(cache, 1);
  cr_op *op = make_pool(1);
  const cr_format hint[3] = {{CREMA_F32, NULL}, {CREMA_F32, NULL}, {CREMA_F32, NULL}};
  const cr_plan_key key = {op->desc, hint, cr_cpu_device(), 1, false};
  cr_op_plan *first = make_plan(op, &key, context), *late = make_plan(op, &key, context);
  cr_op_plan *own = late;
  cr_plan_cache_put(cache, &key, NULL, &first);
  cr_op_plan_retain(late); /* ours, so that it can be looked at below */
  cr_plan_cache_put(cache, &key, NULL, &late);
  assert_ptr_equal(late, first);
  assert_int_equal(own->references, 1);
  assert_int_equal(first->references, 3); /* the cache's, and those of who made the two */
  cr_op_plan_release(late);
  cr_plan_cache_put(cache, &key, first, &own);
  assert_int_equal(first->references, 1);
  assert_int_equal(own->references, 2);
  late = cr_plan_cache_find(cache, &key);
  assert_ptr_equal(late, own);
  const cr_plan_cache_counts counts = cr_plan_cache_count(cache);
  assert_true(counts.made == 3 && counts.found == 1 && counts.held == 1);
  cr_op_plan *plans[] = {first, own, late};
  for (int i = 0; i < 3; ++i) cr_op_plan_release(plans[i]);
  cr_op_destroy(op);
  crema_context_destroy(context);
  cr_plan_cache_destroy(cache);
}

/* ---- many threads ---- */

enum { THREADS = 8, RUNS = 200 };

typedef struct runner {
  cr_plan_cache *cache;
  int number;
  float (*wanted)[MOST * OUT];
} runner;

static crema_status run_many(void *arg) {
  const runner *r = arg;
  crema_context *context = make_context(r->cache, 1);
  cr_context_set_threads(cr_host_context(), 1);
  for (int i = 0; i < RUNS; ++i) {
    const int batch = 1 + (i * 7 + r->number * 3) % MOST;
    float result[MOST * OUT];
    run_chain(context, batch, result);
    assert_memory_equal(result, r->wanted[batch - 1], (size_t)(batch * OUT) * sizeof *result);
  }
  crema_context_destroy(context);
  return CREMA_OK;
}

/* A small cache, so that plans come and go while others use them. */
static void run_on_threads(int most) {
  cr_plan_cache *cache = NULL;
  cr_thread *thread[THREADS] = {NULL};
  runner runners[THREADS];
  float wanted[MOST][MOST * OUT];
  ok(cr_plan_cache_create(most, &cache));
  crema_context *alone = make_context(NULL, 1);
  for (int batch = 1; batch <= MOST; ++batch) run_chain(alone, batch, wanted[batch - 1]);
  crema_context_destroy(alone);
  for (int i = 0; i < THREADS; ++i) {
    runners[i] = (runner){cache, i, wanted};
    ok(cr_thread_start(&thread[i], "runner", run_many, &runners[i]));
  }
  for (int i = 0; i < THREADS; ++i) ok(cr_thread_join(&thread[i]));
  const cr_plan_cache_counts counts = cr_plan_cache_count(cache);
  assert_true(counts.held <= most);
  if (most > 100) assert_true(counts.found > counts.made);
  cr_plan_cache_destroy(cache);
}

TEST(threads_get_the_bits_of_one) {
  run_on_threads(1000);
  run_on_threads(5);
}

/* ---- limits of threads ---- */

static long count_threads(void) {
  long count = 0;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) return 0;
  for (struct dirent *entry = readdir(tasks); entry != NULL; entry = readdir(tasks)) {
    if (entry->d_name[0] != '.') ++count;
  }
  closedir(tasks);
  return count;
}

/* A product that is worth many threads. */
static crema_status run_large(void *arg) {
  enum { ROWS = 64, COLUMNS = 512 };
  const crema_shape x = {2, {ROWS, COLUMNS}}, matrix = {2, {COLUMNS, COLUMNS}};
  const cr_op_desc desc = op_blank(CR_OP_IP_FWD, CREMA_F32);
  cr_op *op = op_make(&desc, 4, (const crema_shape *[]){&x, &matrix, NULL, &x});
  cr_tensor *tensor[] = {make_tensor(ROWS * COLUMNS, 1), make_tensor(COLUMNS * COLUMNS, 1), NULL,
                         make_tensor(ROWS * COLUMNS, 0)};
  crema_context *context = make_context(NULL, 1);
  const long before = count_threads();
  ok(cr_op_run(op, context, tensor, NULL));
  if (arg == NULL) assert_int_equal(count_threads(), before);
  crema_context_destroy(context);
  for (int i = 0; i < 4; ++i) cr_tensor_destroy(tensor[i]);
  cr_op_destroy(op);
  return CREMA_OK;
}

/* Nothing but the program's own threads runs. */
TEST(contexts_of_one_thread_start_none) {
  (void)run_large(NULL);
  cr_thread *thread[4] = {NULL};
  bool others = true;
  const long before = count_threads();
  for (int i = 0; i < 4; ++i) ok(cr_thread_start(&thread[i], "large", run_large, &others));
  assert_true(count_threads() <= before + 4);
  for (int i = 0; i < 4; ++i) ok(cr_thread_join(&thread[i]));
}

/* ---- nets ---- */

static const char net_text[] = INPUT("data", DIM4(2, 3, 12, 12))
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'"
    "  convolution_param { num_output: 16 kernel_size: 3 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'relu' type: 'ReLU' bottom: 'conv' top: 'conv' }\n"
    "layer { name: 'pool' type: 'Pooling' bottom: 'conv' top: 'pool'"
    "  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }\n"
    "layer { name: 'norm' type: 'LRN' bottom: 'pool' top: 'norm' lrn_param { local_size: 3 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'norm' top: 'ip'"
    "  inner_product_param { num_output: 7 weight_filler { type: 'xavier' } } }\n"
    "layer { name: 'prob' type: 'Softmax' bottom: 'ip' top: 'prob' }\n";

static void run_net(cr_plan_cache *cache, float *prob) {
  crema_net *net = build(net_text, CREMA_TEST);
  cr_context_set_plans(net->context, cache);
  fill(blob_of(net, "data"), -1.0f, 0.001f);
  double loss = 0;
  for (int i = 0; i < 2; ++i) ok(crema_net_forward(net, &loss));
  memcpy(prob, data_of(blob_of(net, "prob")), 14 * sizeof *prob);
  crema_net_destroy(net);
}

TEST(a_net_that_is_made_again_plans_nothing) {
  cr_plan_cache *cache = NULL;
  float first[14], second[14];
  ok(cr_plan_cache_create(1000, &cache));
  run_net(cache, first);
  const cr_plan_cache_counts once = cr_plan_cache_count(cache);
  assert_true(once.made >= 5);
  run_net(cache, second);
  assert_int_equal(cr_plan_cache_count(cache).made, once.made);
  assert_true(cr_plan_cache_count(cache).found >= once.made);
  assert_memory_equal(first, second, sizeof first);
  cr_plan_cache_destroy(cache);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
