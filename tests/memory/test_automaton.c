/* The automaton against a model: the full table of states and operations (S0-11, S0-17), a failure
 * at every operation of every row (S0-28), and random walks. A walk that fails is shrunk to a
 * short one; its seed is printed. */
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"
#include "memory/walk.h"

#include "core/fail.h"
#include "core/rng.h"
#include "device/memory/pool.h"
#include "memory/syncedmem.h"

enum { SIZE = 24 };

typedef enum op {
  OP_CPU,
  OP_GPU,
  OP_MUTABLE_CPU,
  OP_MUTABLE_GPU,
  OP_WRITE_CPU, /* write-only */
  OP_WRITE_GPU,
  OP_SET_CPU,
  OP_SET_GPU,
  OP_ASYNC_PUSH,
  OP_DESTROY,
  OPS
} op;

static const char *const op_name[OPS] = {"cpu",        "gpu",       "mutable_cpu", "mutable_gpu",
                                         "write_cpu",  "write_gpu", "set_cpu",     "set_gpu",
                                         "async_push", "destroy"};

/* The golden table: the state after each operation; -1: an error that changes nothing. */
#define U CREMA_UNINITIALIZED
#define C CREMA_HEAD_AT_CPU
#define G CREMA_HEAD_AT_GPU
#define S CREMA_SYNCED
static const int golden[4][OPS - 1] = {
    [U] = {C, G, C, G, C, G, C, G, -1},
    [C] = {C, S, C, G, C, G, C, G, S},
    [G] = {S, G, C, G, C, G, C, G, -1},
    [S] = {S, S, C, G, C, G, C, G, -1},
};

/* One block and what is known of it: two arrays of bytes, each filled with one value. */
typedef struct walk {
  crema_device *device;
  crema_context *context, *copier;
  crema_syncedmem *memory;
  crema_head head;
  unsigned char host, gpu; /* the value that each side's bytes have, where the head says so */
  unsigned char next;
  unsigned char mine[SIZE];
  crema_devptr theirs;
  bool wrong_rule; /* a deliberate mistake in the model, to test the shrinking */
} walk;

static void make_block(walk *w) {
  ok(crema_syncedmem_create(w->device, SIZE, &w->memory));
  w->head = CREMA_UNINITIALIZED;
}

static void begin(walk *w, bool stepped) {
  cr_sim_options options = sim_test_options(1);
  options.stepped = stepped;
  options.keep_log = false;
  *w = (walk){.next = 1};
  sim_begin(&options);
  w->device = sim_test_device(0);
  w->context = sim_test_context(w->device);
  w->copier = sim_test_context(w->device);
  ok(cr_device_alloc(w->device, SIZE, &w->theirs));
  make_block(w);
}

static void end(walk *w) {
  cr_sim_clear_faults();
  crema_syncedmem_destroy(w->memory);
  cr_device_free(w->device, w->theirs);
  crema_context_destroy(w->copier);
  crema_context_destroy(w->context);
  sim_end();
}

static bool all_are(const unsigned char *bytes, unsigned char value) {
  for (int i = 0; i < SIZE; ++i) {
    if (bytes[i] != value) return false;
  }
  return true;
}

/* Fills device memory on the walk's stream, so that it is in order with the automaton. */
static void fill(walk *w, crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  memset(bytes, value, SIZE);
  ok(w->device->backend->copy(w->context, CR_COPY_HOST_TO_DEVICE, data.address, (uintptr_t)bytes,
                              SIZE));
  ok(crema_context_finish(w->context));
}

static bool gpu_bytes_are(walk *w, crema_devptr data, unsigned char value) {
  unsigned char bytes[SIZE];
  return crema_context_finish(w->context) == CREMA_OK && cr_sim_peek(data, bytes, SIZE) &&
         all_are(bytes, value);
}

/* What an operation gave. */
typedef struct result {
  crema_status status;
  const void *host;
  crema_devptr gpu;
} result;

static result perform(walk *w, op o) {
  result r = {.status = CREMA_OK};
  void *host = NULL;
  switch (o) {
    case OP_CPU: r.status = crema_syncedmem_cpu_data(w->memory, &r.host); break;
    case OP_GPU: r.status = crema_syncedmem_gpu_data(w->memory, w->context, &r.gpu); break;
    case OP_MUTABLE_CPU:
    case OP_WRITE_CPU:
      r.status = crema_syncedmem_mutable_cpu_data(w->memory, o == OP_MUTABLE_CPU, &host);
      r.host = host;
      break;
    case OP_MUTABLE_GPU:
    case OP_WRITE_GPU:
      r.status =
          crema_syncedmem_mutable_gpu_data(w->memory, w->context, o == OP_MUTABLE_GPU, &r.gpu);
      break;
    case OP_SET_CPU: r.status = crema_syncedmem_set_cpu_data(w->memory, w->mine); break;
    case OP_SET_GPU: r.status = crema_syncedmem_set_gpu_data(w->memory, w->theirs); break;
    case OP_ASYNC_PUSH: r.status = crema_syncedmem_async_push(w->memory, w->context); break;
    default: break;
  }
  return r;
}

/* Gives the head side a new value after an access that allows it. */
static void change(walk *w, op o, const result *r) {
  if (o == OP_MUTABLE_CPU || o == OP_WRITE_CPU || o == OP_SET_CPU) {
    w->host = w->next++;
    memset(o == OP_SET_CPU ? w->mine : (void *)r->host, w->host, SIZE);
  } else if (o == OP_MUTABLE_GPU || o == OP_WRITE_GPU || o == OP_SET_GPU) {
    w->gpu = w->next++;
    fill(w, o == OP_SET_GPU ? w->theirs : r->gpu, w->gpu);
  }
}

/* Which bytes an access finds, by the model. */
static void model_moves(walk *w, op o) {
  bool to_host = o == OP_CPU || o == OP_MUTABLE_CPU;
  bool to_gpu = o == OP_GPU || o == OP_MUTABLE_GPU || o == OP_ASYNC_PUSH;
  if (w->head == CREMA_UNINITIALIZED) w->host = w->gpu = 0;
  if (to_host && w->head == CREMA_HEAD_AT_GPU) w->host = w->gpu;
  if (to_gpu && w->head == CREMA_HEAD_AT_CPU) w->gpu = w->host;
}

/* One step; false when the automaton and the model disagree. */
static bool step(walk *w, op o) {
  if (o == OP_DESTROY) {
    crema_syncedmem_destroy(w->memory);
    make_block(w);
    return true;
  }
  int expected = golden[w->head][o];
  if (w->wrong_rule && w->head == CREMA_SYNCED && o == OP_GPU) expected = CREMA_HEAD_AT_GPU;
  result r = perform(w, o);
  if (expected < 0) {
    return r.status == CREMA_E_STATE && crema_syncedmem_head(w->memory) == w->head;
  }
  if (r.status != CREMA_OK || (int)crema_syncedmem_head(w->memory) != expected) return false;
  model_moves(w, o);
  if ((o == OP_CPU || o == OP_MUTABLE_CPU) && !all_are(r.host, w->host)) return false;
  if ((o == OP_GPU || o == OP_MUTABLE_GPU) && !gpu_bytes_are(w, r.gpu, w->gpu)) return false;
  if (o == OP_ASYNC_PUSH && !gpu_bytes_are(w, w->memory->gpu.data, w->gpu)) return false;
  change(w, o, &r);
  w->head = (crema_head)expected;
  return true;
}

/* ---- S0-11 ---- */

/* Brings a fresh block into a state. */
static void bring_to(walk *w, crema_head head) {
  crema_syncedmem_destroy(w->memory);
  make_block(w);
  if (head == CREMA_HEAD_AT_CPU || head == CREMA_SYNCED) assert_true(step(w, OP_MUTABLE_CPU));
  if (head == CREMA_HEAD_AT_GPU) assert_true(step(w, OP_MUTABLE_GPU));
  if (head == CREMA_SYNCED) assert_true(step(w, OP_GPU));
  assert_int_equal(crema_syncedmem_head(w->memory), head);
}

TEST(s0_11_every_state_and_operation) {
  walk w;
  begin(&w, false);
  for (int head = 0; head < 4; ++head) {
    for (int o = 0; o < OPS; ++o) {
      bring_to(&w, (crema_head)head);
      if (!step(&w, (op)o)) fail_msg("state %d, %s", head, op_name[o]);
    }
  }
  end(&w);
}

/* The row "destroy" of the table: whatever the state, memory that the block allocated is freed and
 * memory that it was given is left as it is. */
TEST(s0_11_destroying_in_every_state) {
  walk w;
  begin(&w, false);
  size_t live = cr_pool_describe(w.device->pool).live_blocks;
  for (int head = 0; head < 4; ++head) {
    for (int adopted = 0; adopted < 2; ++adopted) {
      bring_to(&w, (crema_head)head);
      if (adopted == 1) {
        /* Both sides are the caller's; then the state once more. */
        assert_true(step(&w, OP_SET_GPU) && step(&w, OP_SET_CPU));
        if (head == CREMA_HEAD_AT_GPU) assert_true(step(&w, OP_MUTABLE_GPU));
        if (head == CREMA_SYNCED) assert_true(step(&w, OP_GPU));
      }
      bool made = adopted == 0 && head != CREMA_UNINITIALIZED;
      size_t pinned = cr_sim_pinned_blocks(), blocks = cr_pool_describe(w.device->pool).live_blocks;
      assert_int_equal(pinned + blocks - live, !made ? 0 : head == CREMA_SYNCED ? 2 : 1);
      unsigned char mine[SIZE], theirs[SIZE], after[SIZE];
      memcpy(mine, w.mine, SIZE);
      assert_true(cr_sim_peek(w.theirs, theirs, SIZE));
      crema_syncedmem_destroy(w.memory);
      assert_int_equal(cr_sim_pinned_blocks(), 0);
      assert_int_equal(cr_pool_describe(w.device->pool).live_blocks, live);
      assert_memory_equal(w.mine, mine, SIZE);
      assert_true(cr_sim_peek(w.theirs, after, SIZE));
      assert_memory_equal(after, theirs, SIZE);
      make_block(&w);
    }
  }
  end(&w);
}

TEST(s0_17_const_access_never_claims_the_head) {
  walk w;
  begin(&w, false);
  for (int head = 1; head < 4; ++head) {
    for (int o = OP_CPU; o <= OP_GPU; ++o) {
      bring_to(&w, (crema_head)head);
      assert_true(step(&w, (op)o));
      int after = (int)crema_syncedmem_head(w.memory);
      assert_true(after == head || after == CREMA_SYNCED);
    }
  }
  end(&w);
}

/* ---- S0-28 ---- */

typedef struct picture {
  crema_head head;
  const void *host;
  uintptr_t gpu;
  bool own_host, own_gpu;
  size_t blocks, pinned;
} picture;

static picture take_picture(const walk *w) {
  return (picture){.head = w->memory->head,
                   .host = w->memory->host.data,
                   .gpu = w->memory->gpu.data.address,
                   .own_host = w->memory->host.own,
                   .own_gpu = w->memory->gpu.own,
                   .pinned = cr_sim_pinned_blocks()};
}

static bool same_picture(const picture *a, const picture *b) {
  return a->head == b->head && a->host == b->host && a->gpu == b->gpu &&
         a->own_host == b->own_host && a->own_gpu == b->own_gpu && a->pinned == b->pinned;
}

static bool names_operation(const char *text) {
  static const char *const operation[] = {"allocation", "copy", "zero fill", "ordering"};
  bool named = false;
  for (int i = 0; i < 4; ++i) named = named || strstr(text, operation[i]) != NULL;
  return named && strstr(text, "sim:0") != NULL && strstr(text, "24 bytes") != NULL;
}

/* More driver operations than any row has. */
enum { OPERATIONS = 12 };

/* Fails the nth driver operation of one row. False when the row does not have that many, or when
 * the failure of that one is passed over, such as that of a release. */
static bool fail_nth(walk *w, crema_head head, op o, int nth, cr_sim_op kind, bool late) {
  bring_to(w, head);
  cr_pool_trim(w->device->pool); /* so that a new side needs the driver */
  picture before = take_picture(w);
  cr_sim_fail(kind, nth, CREMA_E_DEVICE, late);
  result r = perform(w, o);
  cr_sim_clear_faults();
  if (r.status == CREMA_OK || r.status == CREMA_E_STATE) {
    ok(crema_context_finish(w->context));
    return false;
  }
  picture after = take_picture(w);
  if (r.status != CREMA_E_DEVICE || !same_picture(&before, &after)) {
    fail_msg("state %d, %s, failure %d: changed", head, op_name[o], nth);
  }
  /* What was tried, on which device, how much. */
  if (!names_operation(crema_error_text())) fail_msg("%s", crema_error_text());
  /* Nothing is left behind that makes a second try fail. */
  if (!step(w, o)) fail_msg("state %d, %s, failure %d: no retry", head, op_name[o], nth);
  return true;
}

TEST(s0_28_a_failure_anywhere_changes_nothing) {
  walk w;
  begin(&w, false);
  int failures = 0;
  for (int head = 0; head < 4; ++head) {
    for (int o = 0; o < OP_SET_CPU; ++o) {
      for (int nth = 1; nth <= OPERATIONS; ++nth) {
        failures += fail_nth(&w, (crema_head)head, (op)o, nth, CR_SIM_ANY, false);
      }
      failures += fail_nth(&w, (crema_head)head, (op)o, 1, CR_SIM_H2D, true);
      failures += fail_nth(&w, (crema_head)head, (op)o, 1, CR_SIM_D2H, true);
    }
    for (int nth = 1; nth <= OPERATIONS; ++nth) {
      failures += fail_nth(&w, (crema_head)head, OP_ASYNC_PUSH, nth, CR_SIM_ANY, false);
    }
  }
  /* Every row with k driver operations gives k failures. */
  assert_true(failures >= 20);
  end(&w);
}

/* ---- random walks ---- */

/* The low four bits of a step are its operation, the high ones say what fails: 0 nothing, 1 to 3
 * the driver operation of that number, 4 to 6 the copy to the device of that number while it is
 * done, 7 to 9 the copy to the host. */
static op op_of(unsigned char s) {
  return (op)(s & 15);
}

static int fault_of(unsigned char s) {
  return s >> 4;
}

static unsigned char draw_step(cr_mt19937 *rng, bool faults) {
  unsigned o = cr_mt19937_below(rng, OPS), fault = 0;
  if (faults && o < OP_SET_CPU && cr_mt19937_below(rng, 4) == 0) {
    fault = 1 + cr_mt19937_below(rng, 9);
  }
  return (unsigned char)(fault << 4 | o);
}

/* An operation that fails must leave everything as it was; the walk goes on. */
static bool step_with_fault(walk *w, op o, int fault, int *failed) {
  static const cr_sim_op kind[] = {CR_SIM_ANY, CR_SIM_H2D, CR_SIM_D2H};
  int of = (fault - 1) / 3;
  picture before = take_picture(w);
  cr_sim_fail(kind[of], 1 + (fault - 1) % 3, CREMA_E_NO_MEMORY, of > 0);
  result r = perform(w, o);
  cr_sim_clear_faults();
  if (r.status != CREMA_OK) {
    picture after = take_picture(w);
    (*failed)++;
    return same_picture(&before, &after);
  }
  model_moves(w, o);
  change(w, o, &r);
  w->head = crema_syncedmem_head(w->memory);
  return (int)w->head == golden[before.head][o];
}

typedef struct rule {
  bool wrong; /* the model has a mistake */
  int failed; /* operations that failed on the way */
} rule;

/* The number of steps that went well. */
static size_t replay(const unsigned char *steps, size_t count, rule *r) {
  walk w;
  begin(&w, true);
  w.wrong_rule = r->wrong;
  r->failed = 0;
  size_t at = 0;
  bool agree = true;
  while (at < count && agree) {
    int fault = fault_of(steps[at]);
    agree = fault == 0 ? step(&w, op_of(steps[at]))
                       : step_with_fault(&w, op_of(steps[at]), fault, &r->failed);
    at += agree;
  }
  end(&w);
  return at;
}

static bool replay_fails(void *user, const void *steps, size_t count) {
  return replay(steps, count, user) < count;
}

static unsigned char *draw_steps(uint32_t seed, size_t count, bool faults) {
  unsigned char *steps = malloc(count);
  assert_non_null(steps);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  for (size_t i = 0; i < count; ++i) steps[i] = draw_step(&rng, faults);
  return steps;
}

static int run_walk(size_t count, bool faults) {
  uint32_t seed = walk_seed();
  unsigned char *steps = draw_steps(seed, count, faults);
  rule r = {0};
  size_t at = replay(steps, count, &r);
  if (at < count) {
    size_t left = walk_shrink(steps, at + 1, 1, replay_fails, &r);
    for (size_t i = 0; i < left; ++i) {
      print_error("%s, fault %d\n", op_name[op_of(steps[i])], fault_of(steps[i]));
    }
    fail_msg("walk of seed %u fails at step %zu; the sequence above is enough", seed, at);
  }
  free(steps);
  return r.failed;
}

TEST(shrinking_finds_the_short_sequence) {
  enum { LONG = 400 };
  unsigned char *steps = draw_steps(11, LONG, false);
  rule sound = {0}, wrong = {.wrong = true};
  assert_int_equal(replay(steps, LONG, &sound), LONG);
  assert_true(replay(steps, LONG, &wrong) < LONG);
  size_t count = walk_shrink(steps, LONG, 1, replay_fails, &wrong);
  /* For instance: cpu, gpu (now synced), gpu. */
  assert_int_equal(count, 3);
  assert_int_equal(op_of(steps[2]), OP_GPU);
  free(steps);
}

TEST(s0_11_random_walk_of_a_million_steps) {
  run_walk(WALK_STEPS, false);
}

TEST(s0_28_random_walk_with_faults) {
  enum { COUNT = WALK_STEPS / 5 };
  assert_true(run_walk(COUNT, true) > COUNT / 100);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
