/* Random walks over automaton x pool x streams x devices x faults: blocks of changing sizes are
 * used by contexts on two devices, in interleavings chosen by the walk, against a model that knows
 * one value for each side of each block. The race checker watches. */
#include "memory/sim_fixture.h"

#include <stdlib.h>
#include <time.h>

#include "core/fail.h"
#include "core/rng.h"
#include "device/pool.h"
#include "memory/syncedmem.h"

enum { BLOCKS = 5, CONTEXTS = 4, MOST_BYTES = 9000, STEPS = 1000000, FAULTY = 16 };

typedef enum op {
  OP_CPU,
  OP_GPU,
  OP_MUTABLE_CPU,
  OP_MUTABLE_GPU,
  OP_WRITE_CPU,
  OP_WRITE_GPU,
  OP_SET_CPU,
  OP_ASYNC_PUSH,
  OP_RENEW,
  OP_FINISH,
  OP_TRIM,
  OPS
} op;

typedef struct tracked {
  crema_syncedmem memory;
  size_t size;
  unsigned char value;   /* that the newest bytes have */
  crema_context *pushes; /* whose queue holds an asynchronous push of the block; NULL: none */
  unsigned char *mine;   /* memory to adopt */
} tracked;

typedef struct world {
  cr_mt19937 rng;
  crema_context *context[CONTEXTS];
  tracked block[BLOCKS];
  unsigned char *pattern[256]; /* MOST_BYTES of each value, to copy from */
  unsigned char next;
  bool faults;
  int failed;
} world;

static uint32_t pick(world *w, uint32_t bound) {
  return cr_mt19937_below(&w->rng, bound);
}

static void new_block(world *w, tracked *b) {
  static const size_t sizes[] = {1, 64, 100, 1000, 4096, MOST_BYTES};
  b->size = sizes[pick(w, 6)];
  b->value = 0;
  b->pushes = NULL;
  cr_syncedmem_init(&b->memory, w->context[pick(w, CONTEXTS)]->device, b->size);
}

static void begin(world *w, uint32_t seed, bool faults) {
  cr_sim_options options = sim_test_options(3);
  options.memory = (size_t)32 << 20;
  options.stepped = true;
  options.keep_log = false;
  options.peer[2][0] = options.peer[0][2] = false;
  sim_begin(&options);
  *w = (world){.next = 1, .faults = faults};
  cr_mt19937_seed(&w->rng, seed);
  static const int device_of[CONTEXTS] = {0, 0, 1, 2};
  for (int i = 0; i < CONTEXTS; i++)
    w->context[i] = sim_test_context(sim_test_device(device_of[i]));
  for (int v = 0; v < 256; v++) {
    w->pattern[v] = malloc(MOST_BYTES);
    assert_non_null(w->pattern[v]);
    memset(w->pattern[v], v, MOST_BYTES);
  }
  for (int i = 0; i < BLOCKS; i++) {
    w->block[i].mine = malloc(MOST_BYTES);
    assert_non_null(w->block[i].mine);
    new_block(w, &w->block[i]);
  }
}

static void end(world *w) {
  cr_sim_clear_faults();
  for (int i = 0; i < CONTEXTS; i++)
    assert_int_equal(crema_context_finish(w->context[i]), CREMA_OK);
  for (int i = 0; i < BLOCKS; i++) {
    cr_syncedmem_clear(&w->block[i].memory);
    free(w->block[i].mine);
  }
  for (int i = 0; i < CONTEXTS; i++) crema_context_destroy(w->context[i]);
  for (int v = 0; v < 256; v++) free(w->pattern[v]);
  sim_end();
}

/* The host side may be changed or given away only when a push of it is done. */
static void await_push(tracked *b) {
  if (b->pushes != NULL) assert_int_equal(crema_context_finish(b->pushes), CREMA_OK);
  b->pushes = NULL;
}

static bool needs_host_alone(op o) {
  return o == OP_MUTABLE_CPU || o == OP_WRITE_CPU || o == OP_SET_CPU || o == OP_RENEW;
}

static crema_status perform(tracked *b, op o, crema_context *context, void **host,
                            crema_devptr *gpu) {
  const void *read = NULL;
  crema_status status = CREMA_OK;
  switch (o) {
    case OP_CPU:
      status = crema_syncedmem_cpu_data(&b->memory, &read);
      if (status == CREMA_OK) *host = (void *)(uintptr_t)read;
      return status;
    case OP_GPU: return cr_syncedmem_read(&b->memory, context, gpu);
    case OP_MUTABLE_CPU: return crema_syncedmem_mutable_cpu_data(&b->memory, true, host);
    case OP_WRITE_CPU: return crema_syncedmem_mutable_cpu_data(&b->memory, false, host);
    case OP_MUTABLE_GPU: return cr_syncedmem_write(&b->memory, context, true, gpu);
    case OP_WRITE_GPU: return cr_syncedmem_write(&b->memory, context, false, gpu);
    case OP_SET_CPU:
      status = crema_syncedmem_set_cpu_data(&b->memory, b->mine);
      *host = b->mine;
      return status;
    case OP_ASYNC_PUSH: return crema_syncedmem_async_push(&b->memory, context);
    default: return CREMA_OK;
  }
}

static bool all_are(const unsigned char *bytes, size_t size, unsigned char value) {
  return size == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Gives the newest side a new value, on the device without waiting. */
static void change(world *w, tracked *b, op o, crema_context *context, void *host,
                   crema_devptr gpu) {
  bool on_host = o == OP_MUTABLE_CPU || o == OP_WRITE_CPU || o == OP_SET_CPU;
  bool on_gpu = o == OP_MUTABLE_GPU || o == OP_WRITE_GPU;
  if (!on_host && !on_gpu) return;
  b->value = w->next++;
  if (on_host) {
    memset(host, b->value, b->size);
  } else {
    assert_int_equal(context->device->backend->copy(context, CR_COPY_HOST_TO_DEVICE, gpu.address,
                                                    (uintptr_t)w->pattern[b->value], b->size),
                     CREMA_OK);
  }
}

/* What an access returned must be the newest bytes. */
static bool is_newest(const tracked *b, op o, crema_context *context, const void *host,
                      crema_devptr gpu, bool look) {
  if (o == OP_CPU || o == OP_MUTABLE_CPU) return all_are(host, b->size, b->value);
  if ((o != OP_GPU && o != OP_MUTABLE_GPU) || !look) return true;
  unsigned char bytes[MOST_BYTES];
  return crema_context_finish(context) == CREMA_OK && cr_sim_peek(gpu, bytes, b->size) &&
         all_are(bytes, b->size, b->value);
}

static bool use_block(world *w, tracked *b, op o, crema_context *context) {
  void *host = NULL;
  crema_devptr gpu = {0};
  crema_head before = crema_syncedmem_head(&b->memory);
  bool fault = w->faults && pick(w, FAULTY) == 0;
  if (fault) cr_sim_fail(CR_SIM_ANY, 1 + (int)pick(w, 6), CREMA_E_DEVICE, false);
  crema_status status = perform(b, o, context, &host, &gpu);
  cr_sim_clear_faults();
  if (status != CREMA_OK) {
    bool wrong_state = o == OP_ASYNC_PUSH && before != CREMA_HEAD_AT_CPU;
    if (fault) w->failed++;
    return (fault || wrong_state) && crema_syncedmem_head(&b->memory) == before;
  }
  if (o == OP_ASYNC_PUSH) b->pushes = context;
  if (!is_newest(b, o, context, host, gpu, pick(w, 4) == 0)) return false;
  change(w, b, o, context, host, gpu);
  return true;
}

static bool step(world *w) {
  tracked *b = &w->block[pick(w, BLOCKS)];
  crema_context *context = w->context[pick(w, CONTEXTS)];
  op o = (op)pick(w, OPS);
  for (uint32_t runs = pick(w, 4); runs > 0; runs--) cr_sim_step_any(pick(w, 1000));
  if (needs_host_alone(o)) await_push(b);
  /* A move to another device lets the old device side go, which the push still fills; that is
   * safe. A push on one context after a push on another needs the first to be known. */
  if (o == OP_ASYNC_PUSH) await_push(b);
  switch (o) {
    case OP_RENEW:
      cr_syncedmem_clear(&b->memory);
      new_block(w, b);
      return true;
    case OP_FINISH: return crema_context_finish(context) == CREMA_OK;
    case OP_TRIM:
      if (pick(w, 50) == 0) cr_pool_trim(context->device->pool);
      return true;
    default: return use_block(w, b, o, context);
  }
}

static void run_walk(int steps, bool faults) {
  const char *given = getenv("CREMA_TEST_SEED");
  uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL);
  print_message("seed %u (CREMA_TEST_SEED repeats it)\n", seed);
  world *w = calloc(1, sizeof *w);
  assert_non_null(w);
  begin(w, seed, faults);
  for (int i = 0; i < steps; i++) {
    if (step(w) && cr_sim_races(NULL, 0) == 0) continue;
    char text[256];
    cr_sim_races(text, sizeof text);
    fail_msg("seed %u: step %d of the walk; race: %s; last error: %s", seed, i, text,
             crema_error_text());
  }
  if (faults) assert_true(w->failed > steps / 200);
  end(w);
  free(w);
}

static void a_million_steps(void **state) {
  (void)state;
  run_walk(STEPS, false);
}

static void s0_28_faults_on_the_way(void **state) {
  (void)state;
  run_walk(STEPS / 4, true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_million_steps),
      cmocka_unit_test(s0_28_faults_on_the_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
