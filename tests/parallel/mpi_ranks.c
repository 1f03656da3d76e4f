/* One of several processes that mpirun starts (mpi.sh). The first argument says what they do
 * together, the second names a file to which each rank appends a line when all went well. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/thread.h"
#include "device/backend/half.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "log_lines.h"
#include "parallel/world.h"
#include "simulation.h"

enum { SIM_MEMORY = 256 << 20, SECONDS_UNTIL_HEARD = 10, FAILED_AS_PLANNED = 7 };

static cr_world *world;
static const char *notes;

static int rank(void) {
  return cr_world_rank(world);
}

static int size(void) {
  return cr_world_size(world);
}

static bool note(const char *text) {
  FILE *file = fopen(notes, "a");
  if (file == NULL) return false;
  const bool noted = fprintf(file, "%s %ld\n", text, (long)getpid()) > 0;
  return fclose(file) == 0 && noted;
}

/* Fails when the ranks' numbers differ. */
static void expect_same(uint64_t number) {
  int64_t most[] = {(int64_t)(number >> 1), -(int64_t)(number >> 1)};
  ok(cr_world_agree(world, NULL, 0, most, 2));
  assert_int_equal(most[0], -most[1]);
}

static uint64_t digest(const void *memory, size_t bytes) {
  uint64_t sum = 14695981039346656037u;
  for (size_t at = 0; at < bytes; at += sizeof sum) {
    uint64_t word = 0;
    const size_t rest = bytes - at < sizeof word ? bytes - at : sizeof word;
    memcpy(&word, (const char *)memory + at, rest);
    sum = (sum ^ word ^ (word >> 32)) * 1099511628211u;
  }
  return sum;
}

/* ---- the world ---- */

TEST(s4_54_ranks_are_numbered) {
  const int count = atoi(getenv("OMPI_COMM_WORLD_SIZE"));
  double ranks = rank();
  int64_t local[] = {cr_world_local_rank(world), cr_world_local_size(world)};
  assert_int_equal(cr_world_is_there(), count > 1);
  assert_int_equal(size(), count);
  assert_int_equal(rank(), atoi(getenv("OMPI_COMM_WORLD_RANK")));
  assert_int_equal(local[0], rank());
  assert_int_equal(local[1], count);
  ok(cr_world_agree(world, &ranks, 1, local, 2));
  assert_true(ranks == count * (count - 1) / 2);
  assert_int_equal(local[0], count - 1);
}

TEST(sums_are_added_in_the_order_of_ranks) {
  /* (1e16 + 1) + 1 and so on lose each 1; another order does not. */
  double sum[] = {rank() == 0 ? 1e16 : 1, rank(), 0.25};
  int64_t most[] = {-rank(), INT64_MIN + rank(), INT64_MAX - rank()};
  ok(cr_world_agree(world, sum, 3, most, 3));
  assert_true(sum[0] == 1e16);
  assert_true(sum[1] == size() * (size() - 1) / 2);
  assert_true(sum[2] == 0.25 * size());
  assert_int_equal(most[0], 0);
  assert_int_equal(most[1], INT64_MIN + size() - 1);
  assert_int_equal(most[2], INT64_MAX);
  ok(cr_world_agree(world, NULL, 0, NULL, 0));
}

TEST(s3_29_bytes_of_rank_0_reach_all) {
  static const size_t sizes[] = {0, 1, 1 << 20, (3 << 20) + 17};
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
    unsigned char *bytes = malloc(sizes[s] + 1);
    for (size_t i = 0; i <= sizes[s]; ++i) bytes[i] = (unsigned char)(rank() == 0 ? i % 251 : 252);
    ok(cr_world_broadcast(world, bytes, sizes[s]));
    size_t wrong = 0;
    for (size_t i = 0; i < sizes[s]; ++i) wrong += bytes[i] != i % 251;
    assert_int_equal(wrong, 0);
    assert_int_equal(bytes[sizes[s]], rank() == 0 ? sizes[s] % 251 : 252);
    free(bytes);
  }
}

/* A mask as /proc writes it: signal s is bit s - 1. */
static uint64_t mask_of(const char *file, const char *field) {
  char line[256];
  unsigned long long mask = 0;
  FILE *status = fopen(file, "r");
  assert_non_null(status);
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, field, strlen(field)) == 0) mask = strtoull(line + strlen(field), NULL, 16);
  }
  (void)fclose(status);
  return mask;
}

TEST(signals_stay_the_commands_own) {
  static const int handled[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU};
  const uint64_t caught = mask_of("/proc/self/status", "SigCgt:");
  int threads = 0;
  for (long task = getpid(); task < getpid() + 1000; ++task) {
    char file[64];
    snprintf(file, sizeof file, "/proc/self/task/%ld/status", task);
    if (access(file, R_OK) != 0) continue;
    ++threads;
    for (size_t i = 0; task != getpid() && i < sizeof handled / sizeof handled[0]; ++i) {
      assert_true(mask_of(file, "SigBlk:") >> (handled[i] - 1) & 1);
    }
  }
  assert_true(threads > 1); /* MPI has some, or this test shows nothing */
  for (size_t i = 0; i < sizeof handled / sizeof handled[0]; ++i) {
    assert_false(caught >> (handled[i] - 1) & 1);
  }
}

/* ---- the exchange ---- */

static const crema_dtype types[] = {CREMA_F64, CREMA_F32, CREMA_F16, CREMA_BF16};
enum { TYPES = 4, COUNTS = 4, SPANS = TYPES * COUNTS, LONGEST = 5000001 };
static const int64_t counts[] = {0, 1, 1000003, LONGEST};

/* A rank with memory for one span of each type and count on its device. */
typedef struct replica {
  crema_device *device;
  crema_context *context;
  cr_exchange *end;
  cr_exchange_span span[SPANS];
  void *host; /* of the largest span */
} replica;

static size_t bytes_of(const cr_exchange_span *span) {
  return (size_t)span->count * crema_dtype_size(span->type);
}

static replica new_replica(crema_device *device) {
  replica r = {.device = device, .host = malloc(8 * LONGEST)};
  assert_non_null(r.host);
  ok(crema_context_create(device, 1, &r.context));
  for (int i = 0; i < SPANS; ++i) {
    r.span[i] = (cr_exchange_span){.type = types[i / COUNTS], .count = counts[i % COUNTS]};
    /* The longest one only where it takes several rounds of the pieces. */
    if (r.span[i].count == LONGEST && r.span[i].type != CREMA_F32) r.span[i].count = 63;
    if (r.span[i].count > 0) ok(cr_device_alloc(device, bytes_of(&r.span[i]), &r.span[i].memory));
  }
  ok(cr_exchange_create_mpi(world, device, &r.end));
  assert_int_equal(r.end->class->way, CREMA_EXCHANGE_MPI);
  assert_false(r.end->class->root_only);
  assert_int_equal(r.end->rank, rank());
  assert_int_equal(r.end->ranks, size());
  return r;
}

static void free_replica(replica *r) {
  cr_exchange_destroy(r->end);
  for (int i = 0; i < SPANS; ++i) cr_device_free(r->device, r->span[i].memory);
  crema_context_destroy(r->context);
  free(r->host);
}

static void put(void *memory, crema_dtype type, int64_t i, float value) {
  switch (type) {
    case CREMA_F64: ((double *)memory)[i] = value; break;
    case CREMA_F32: ((float *)memory)[i] = value; break;
    case CREMA_F16: ((uint16_t *)memory)[i] = cr_f32_to_f16(value); break;
    default: ((uint16_t *)memory)[i] = cr_f32_to_bf16(value); break;
  }
}

static float get(const void *memory, crema_dtype type, int64_t i) {
  switch (type) {
    case CREMA_F64: return (float)((const double *)memory)[i];
    case CREMA_F32: return ((const float *)memory)[i];
    case CREMA_F16: return cr_f16_to_f32(((const uint16_t *)memory)[i]);
    default: return cr_bf16_to_f32(((const uint16_t *)memory)[i]);
  }
}

/* The sums of up to 4 ranks are exact in each type. */
static float value_of(int of_rank, int span, int64_t i) {
  return (float)((i * 7 + of_rank * 13 + span) % 31);
}

static float sum_of(int span, int64_t i) {
  float sum = 0;
  for (int r = 0; r < size(); ++r) sum += value_of(r, span, i);
  return sum;
}

static void store(replica *r, int span) {
  if (r->span[span].count == 0) return;
  ok(cr_copy_from_cpu(r->context, r->span[span].memory, r->host, bytes_of(&r->span[span])));
  ok(crema_context_finish(r->context));
}

static void load(replica *r, int span) {
  if (r->span[span].count == 0) return;
  ok(cr_copy_to_cpu(r->context, r->host, r->span[span].memory, bytes_of(&r->span[span])));
  ok(crema_context_finish(r->context));
}

static void fill(replica *r, int span) {
  const cr_exchange_span *s = &r->span[span];
  for (int64_t i = 0; i < s->count; ++i) put(r->host, s->type, i, value_of(rank(), span, i));
  store(r, span);
}

static void expect_sum(replica *r, int span) {
  const cr_exchange_span *s = &r->span[span];
  int64_t wrong = 0;
  load(r, span);
  for (int64_t i = 0; i < s->count; ++i) wrong += get(r->host, s->type, i) != sum_of(span, i);
  assert_int_equal(wrong, 0);
}

static void expect_root(replica *r, int span) {
  const cr_exchange_span *s = &r->span[span];
  int64_t wrong = 0;
  load(r, span);
  for (int64_t i = 0; i < s->count; ++i) wrong += get(r->host, s->type, i) != value_of(0, span, i);
  assert_int_equal(wrong, 0);
}

static void exchange_on(crema_device *device) {
  replica r = new_replica(device);
  ok(cr_exchange_prepare(r.end, r.span, SPANS));
  for (int i = 0; i < SPANS; ++i) fill(&r, i);
  for (int i = SPANS; i-- > 0;) ok(cr_exchange_sum(r.end, r.context, i));
  for (int i = 0; i < SPANS; ++i) expect_sum(&r, i);
  for (int i = 0; i < SPANS; ++i) fill(&r, i);
  for (int i = 0; i < SPANS; ++i) ok(cr_exchange_broadcast(r.end, r.context, i));
  for (int i = 0; i < SPANS; ++i) expect_root(&r, i);
  free_replica(&r);
}

TEST(s3_29_the_cpus_spans_are_summed_and_broadcast) {
  exchange_on(cr_cpu_device());
}

static void begin_simulation(void) {
  cr_sim_options options = cr_sim_defaults();
  options.memory = SIM_MEMORY;
  options.check_races = true;
  options.poison = true;
  ok(start_simulation(&options));
}

static void end_simulation(void) {
  char text[256];
  cr_sim_leaks leaks = {0};
  if (cr_sim_races(text, sizeof text) != 0) fail_msg("race: %s", text);
  cr_sim_stop(&leaks);
  assert_int_equal(leaks.device_blocks + leaks.host_blocks + leaks.streams + leaks.events, 0);
}

TEST(s3_29_a_devices_spans_are_summed_and_broadcast) {
  crema_device *device = NULL;
  begin_simulation();
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  exchange_on(device);
  end_simulation();
}

/* Values whose sums are rounded, different ones in each rank. */
static void fill_rounded(replica *r, int span, uint32_t seed) {
  const cr_exchange_span *s = &r->span[span];
  uint32_t state = seed + 77u * (uint32_t)rank();
  for (int64_t i = 0; i < s->count; ++i) {
    state = state * 1664525u + 1013904223u;
    put(r->host, s->type, i, (float)(state >> 8) * 0x1p-20f);
  }
  store(r, span);
}

TEST(sums_have_the_same_bits_everywhere_and_each_time) {
  replica r = new_replica(cr_cpu_device());
  ok(cr_exchange_prepare(r.end, r.span, SPANS));
  for (int span = 0; span < SPANS; ++span) {
    uint64_t first = 0;
    for (int turn = 0; turn < 2; ++turn) {
      fill_rounded(&r, span, 1);
      ok(cr_exchange_sum(r.end, r.context, span));
      load(&r, span);
      const uint64_t now = digest(r.host, bytes_of(&r.span[span]));
      expect_same(now);
      if (turn == 1) assert_true(now == first);
      first = now;
    }
  }
  free_replica(&r);
}

/* What rank r gives in the test below. */
static float unrounded(int r, int64_t i) {
  return (r == 0 ? 2048.0f : 1.0f) + (float)(i % 100) * 0.25f;
}

TEST(halves_are_rounded_once_per_addition) {
  if (size() != 2) skip(); /* with more, the order of additions matters */
  replica r = new_replica(cr_cpu_device());
  ok(cr_exchange_prepare(r.end, r.span, SPANS));
  for (int span = 0; span < SPANS; ++span) {
    const cr_exchange_span *s = &r.span[span];
    uint16_t first[4], second[4], sum[4]; /* put and get know wider types, too */
    int64_t wrong = 0;
    if (s->type != CREMA_F16 && s->type != CREMA_BF16) continue;
    for (int64_t i = 0; i < s->count; ++i) put(r.host, s->type, i, unrounded(rank(), i));
    store(&r, span);
    ok(cr_exchange_sum(r.end, r.context, span));
    load(&r, span);
    for (int64_t i = 0; i < s->count; ++i) {
      put(first, s->type, 0, unrounded(0, i));
      put(second, s->type, 0, unrounded(1, i));
      put(sum, s->type, 0, get(first, s->type, 0) + get(second, s->type, 0));
      wrong += ((uint16_t *)r.host)[i] != sum[0];
    }
    assert_int_equal(wrong, 0);
  }
  free_replica(&r);
}

static crema_status sum_often(void *arg) {
  replica *r = arg;
  for (int turn = 0; turn < 20; ++turn) CR_TRY(cr_exchange_sum(r->end, r->context, 5));
  return CREMA_OK;
}

TEST(a_thread_sums_while_another_agrees) {
  replica r = new_replica(cr_cpu_device());
  cr_thread *thread = NULL;
  ok(cr_exchange_prepare(r.end, r.span, SPANS));
  ok(cr_thread_start(&thread, "summing", sum_often, &r));
  for (int turn = 0; turn < 20; ++turn) {
    double sum = turn;
    ok(cr_world_agree(world, &sum, 1, NULL, 0));
    assert_true(sum == turn * size());
  }
  ok(cr_thread_join(&thread));
  free_replica(&r);
}

TEST(other_spans_in_another_process_are_noticed) {
  replica r = new_replica(cr_cpu_device());
  if (rank() == size() - 1) ++r.span[SPANS - 1].count;
  if (size() == 1) {
    ok(cr_exchange_prepare(r.end, r.span, SPANS));
  } else {
    assert_int_equal(cr_exchange_prepare(r.end, r.span, SPANS), CREMA_E_SHAPE);
    assert_error_has("do not train the same net");
  }
  free_replica(&r);
}

/* ---- failures ---- */

static const char *phase;
static replica *failing;
static bool heard_early;

static bool phase_is(const char *name) {
  return strcmp(phase, name) == 0;
}

static crema_status do_phase(replica *r) {
  int64_t most = 0;
  char bytes[100] = "";
  if (phase_is("prepare")) return cr_exchange_prepare(r->end, r->span, SPANS);
  if (phase_is("sum")) return cr_exchange_sum(r->end, r->context, 7);
  if (phase_is("copy")) return cr_exchange_sum(r->end, r->context, 7);
  if (phase_is("weights")) return cr_exchange_broadcast(r->end, r->context, 7);
  if (phase_is("broadcast")) return cr_world_broadcast(world, bytes, sizeof bytes);
  if (phase_is("compute")) cr_clock_sleep(0.3);
  return cr_world_agree(world, NULL, 0, &most, 1);
}

static crema_status fail_here(void *arg) {
  (void)arg;
  const crema_status status = cr_fail(CREMA_E_NUMERIC, "injected at %.6f", cr_clock_seconds());
  cr_exchange_fail(failing->end, status);
  /* The first failure stays. */
  cr_world_fail(world, cr_fail(CREMA_E_IO, "a second one"));
  return CREMA_OK;
}

static void expect_injected(crema_status status, int by) {
  char part[64], own[1024];
  assert_int_equal(status, CREMA_E_NUMERIC);
  snprintf(own, sizeof own, "%s", crema_error_text());
  snprintf(part, sizeof part, "rank %d (", by);
  assert_error_has(part);
  const char *when = strstr(own, "injected at ");
  assert_non_null(when);
  const double seconds = cr_clock_seconds() - strtod(when + strlen("injected at "), NULL);
  printf("rank %d heard after %.4f s: %s\n", rank(), seconds, own);
  assert_true(seconds < SECONDS_UNTIL_HEARD);
}

/* One rank fails, each in its own way; the others get its message from what they wait in. */
TEST(s3_31_s4_54_a_failure_reaches_all) {
  crema_device *device = NULL;
  /* Whom the others wait for. */
  const bool root = phase_is("leave") || phase_is("weights") || phase_is("broadcast");
  const int who = root ? 0 : size() - 1;
  begin_simulation();
  ok(crema_device_get(CREMA_DEVICE_SIM, 0, &device));
  replica r = new_replica(device);
  failing = &r;
  if (!phase_is("prepare")) ok(cr_exchange_prepare(r.end, r.span, SPANS));
  /* A failure may overtake the last message of this agreement. */
  const crema_status early = cr_world_agree(world, NULL, 0, NULL, 0);
  heard_early = early != CREMA_OK;
  if (phase_is("leave") && rank() != who) return; /* main leaves */
  if (phase_is("copy")) {
    if (rank() == who) cr_sim_fail(CR_SIM_D2H, 1, CREMA_E_NUMERIC, true);
    assert_int_equal(early != CREMA_OK ? early : do_phase(&r), CREMA_E_NUMERIC);
    if (rank() != who) assert_error_has("rank 2 (");
  } else if (rank() != who) {
    expect_injected(early != CREMA_OK ? early : do_phase(&r), who);
  } else if (phase_is("thread")) {
    /* One thread waits for the others, which wait for this one. */
    cr_thread *thread = NULL;
    ok(cr_thread_start(&thread, "failing", fail_here, NULL));
    expect_injected(cr_exchange_sum(r.end, r.context, 7), who);
    ok(cr_thread_join(&thread));
  } else {
    ok(fail_here(NULL));
  }
  /* From then on nothing works. */
  assert_int_not_equal(cr_world_agree(world, NULL, 0, NULL, 0), CREMA_OK);
  if (!phase_is("prepare")) {
    assert_int_not_equal(cr_exchange_sum(r.end, r.context, 1), CREMA_OK);
  }
  /* The simulation goes on: MPI may be using memory of its host. */
  free_replica(&r);
}

/* ---- the net's memory after a failure ---- */

/* A rank of a large span on the CPU. */
typedef struct net {
  crema_context *context;
  cr_exchange *end;
  cr_exchange_span span;
} net;

static net new_net(void) {
  net n = {.span = {.count = LONGEST, .type = CREMA_F32}};
  void *memory =
      mmap(NULL, bytes_of(&n.span), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  memset(memory, 0, bytes_of(&n.span));
  n.span.memory.address = (uintptr_t)memory;
  ok(crema_context_create(cr_cpu_device(), 1, &n.context));
  ok(cr_exchange_create_mpi(world, cr_cpu_device(), &n.end));
  ok(cr_exchange_prepare(n.end, &n.span, 1));
  return n;
}

/* From then on whoever touches the span's memory crashes; nothing else comes to lie there. */
static void free_net(net *n) {
  cr_exchange_destroy(n->end);
  assert_int_equal(mprotect((void *)n->span.memory.address, bytes_of(&n->span), PROT_NONE), 0);
  crema_context_destroy(n->context);
}

static crema_status exchange_net(void *arg) {
  net *n = arg;
  if (phase_is("freed-weights")) return cr_exchange_broadcast(n->end, n->context, 0);
  return cr_exchange_sum(n->end, n->context, 0);
}

/* What a rank has begun to send is asked for when the memory that it came from is gone: the others,
 * or the one that sums come to first, start after that rank has failed. */
TEST(s3_31_no_memory_of_a_net_that_was_freed_is_touched) {
  const bool kills = phase_is("freed-kill");
  const int who = kills ? size() - 1 : phase_is("freed-sum") ? 1 : 0;
  const bool late = kills ? rank() == 0 : rank() != who;
  net n = new_net();
  assert_true(note("started"));
  crema_status status = cr_world_agree(world, NULL, 0, NULL, 0);
  if (rank() == who) {
    cr_thread *thread = NULL;
    ok(status);
    ok(cr_thread_start(&thread, "exchanging", exchange_net, &n));
    cr_clock_sleep(0.1); /* it waits for the others */
    if (kills) (void)raise(SIGKILL);
    cr_world_fail(world, cr_fail(CREMA_E_NUMERIC, "injected at %.6f", cr_clock_seconds()));
    status = cr_thread_join(&thread);
  } else {
    if (late) cr_clock_sleep(0.5);
    if (status == CREMA_OK) status = exchange_net(&n);
  }
  if (kills) assert_int_equal(status, CREMA_E_IO);
  else expect_injected(status, who);
  free_net(&n);
}

/* ---- signals ---- */

static sigset_t handled_set(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGHUP);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGUSR1);
  return set;
}

/* Its neighbours notice it, before mpirun ends them. */
TEST(s3_31_one_is_killed) {
  replica r = new_replica(cr_cpu_device());
  ok(cr_exchange_prepare(r.end, r.span, SPANS));
  assert_true(note("started"));
  const crema_status early = cr_world_agree(world, NULL, 0, NULL, 0);
  if (rank() == 1) (void)raise(SIGKILL);
  assert_int_equal(early != CREMA_OK ? early : cr_exchange_sum(r.end, r.context, 7), CREMA_E_IO);
  assert_error_has("rank 1 (");
  assert_error_has("the process has ended");
  free_replica(&r);
}

/* Until a rank gets a signal; all agree on which. */
TEST(s3_30_s4_54_all_know_of_a_signal) {
  const sigset_t set = handled_set();
  int64_t number = 0;
  assert_true(note("ready"));
  while (number == 0) {
    const struct timespec soon = {.tv_nsec = 10000000};
    const int got = sigtimedwait(&set, NULL, &soon);
    number = got > 0 ? got : 0;
    ok(cr_world_agree(world, NULL, 0, &number, 1));
  }
  char text[32];
  snprintf(text, sizeof text, "signal %d", (int)number);
  assert_true(note(text));
}

int main(int argc, char **argv) {
  const struct CMUnitTest all[] = {
      cmocka_unit_test(s4_54_ranks_are_numbered),
      cmocka_unit_test(sums_are_added_in_the_order_of_ranks),
      cmocka_unit_test(s3_29_bytes_of_rank_0_reach_all),
      cmocka_unit_test(signals_stay_the_commands_own),
      cmocka_unit_test(s3_29_the_cpus_spans_are_summed_and_broadcast),
      cmocka_unit_test(s3_29_a_devices_spans_are_summed_and_broadcast),
      cmocka_unit_test(sums_have_the_same_bits_everywhere_and_each_time),
      cmocka_unit_test(halves_are_rounded_once_per_addition),
      cmocka_unit_test(a_thread_sums_while_another_agrees),
  };
  const struct CMUnitTest spans[] = {cmocka_unit_test(other_spans_in_another_process_are_noticed)};
  const struct CMUnitTest failure[] = {cmocka_unit_test(s3_31_s4_54_a_failure_reaches_all)};
  const struct CMUnitTest kill[] = {cmocka_unit_test(s3_31_one_is_killed)};
  const struct CMUnitTest freed[] = {
      cmocka_unit_test(s3_31_no_memory_of_a_net_that_was_freed_is_touched)};
  const struct CMUnitTest signals[] = {cmocka_unit_test(s3_30_s4_54_all_know_of_a_signal)};
  static log_lines lines;
  int failed = 1;
  if (argc < 3) return 1;
  arguments_read = 2;
  phase = argv[1];
  notes = argv[2];
  /* As the command does. mpirun ends processes with SIGTERM as soon as one of them has failed. */
  if (!phase_is("all")) {
    const sigset_t set = handled_set();
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
  }
  if (cr_world_join(&world) != CREMA_OK) {
    fprintf(stderr, "%s\n", crema_error_text());
    return 1;
  }
  listen_to(&lines, CREMA_LOG_ERROR);
  if (phase_is("all")) {
    failed = run_each_of(all, NULL, NULL);
  } else if (phase_is("spans")) {
    failed = run_each_of(spans, NULL, NULL);
  } else if (phase_is("kill")) {
    failed = run_each_of(kill, NULL, NULL);
  } else if (strncmp(phase, "freed", 5) == 0) {
    failed = run_each_of(freed, NULL, NULL);
  } else if (strncmp(phase, "signals", 7) == 0) {
    failed = run_each_of(signals, NULL, NULL);
  } else {
    failed = run_each_of(failure, NULL, NULL);
  }
  if (failed != 0) return failed;
  const bool is_last_to_know = phase_is("leave") && rank() != 0 && !heard_early;
  cr_world_leave(world);
  if (count_lines(&lines, "rank 0 (") != is_last_to_know) {
    fprintf(stderr, "logged: %s\n", lines.text);
    return 1;
  }
  if (!note("passed")) return 1;
  return phase_is("all") || strncmp(phase, "signals", 7) == 0 ? 0 : FAILED_AS_PLANNED;
}
