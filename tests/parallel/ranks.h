/* Ranks of an exchange on simulated devices, one thread each. */
#ifndef CR_TESTS_PARALLEL_RANKS_H
#define CR_TESTS_PARALLEL_RANKS_H

#include <math.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "core/thread.h"
#include "device/backend/half.h"
#include "device/copy.h"
#include "device/memory/device_memory.h"
#include "memory/sim_fixture.h"
#include "parallel/exchange.h"

enum { MOST_RANKS = 16, MOST_SPANS = 16 };

typedef enum way { TREE, TREE_BY_ARRIVAL, REDUCE, WAYS } way;

typedef struct ranks ranks;

typedef struct rank {
  ranks *all;
  int number;
  crema_device *device;
  crema_context *context;
  cr_exchange *end;
  cr_exchange_span span[MOST_SPANS];
  cr_thread *thread;
  crema_status status;
  char text[512];
  cr_mt19937 rng;
} rank;

/* What each rank's thread does. */
typedef crema_status work(rank *r);

struct ranks {
  int count, spans;
  rank rank[MOST_RANKS];
  work *work;
};

static inline cr_sim_options ranks_options(int count) {
  cr_sim_options options = sim_test_options(count);
  options.memory = (size_t)64 << 20;
  return options;
}

static inline crema_status create_exchange(ranks *all, way which) {
  crema_device *device[MOST_RANKS];
  cr_exchange *end[MOST_RANKS] = {NULL};
  for (int i = 0; i < all->count; ++i) device[i] = all->rank[i].device;
  crema_status status;
  switch (which) {
    case TREE: status = cr_exchange_create_tree(device, all->count, CR_EXCHANGE_FIXED, end); break;
    case TREE_BY_ARRIVAL:
      status = cr_exchange_create_tree(device, all->count, CR_EXCHANGE_ARRIVAL, end);
      break;
    default: status = cr_exchange_create_reduce(device, all->count, end); break;
  }
  for (int i = 0; i < all->count; ++i) all->rank[i].end = end[i];
  return status;
}

static inline void ranks_open(ranks *all, int count) {
  *all = (ranks){.count = count};
  for (int i = 0; i < count; ++i) {
    rank *r = &all->rank[i];
    *r = (rank){.all = all, .number = i, .device = sim_test_device(i)};
    r->context = sim_test_context(r->device);
    cr_mt19937_seed(&r->rng, (uint32_t)i + 1);
  }
}

/* A span of all ranks, full of zeros. */
static inline void ranks_add_span(ranks *all, crema_dtype type, int64_t count) {
  const size_t bytes = (size_t)count * crema_dtype_size(type);
  for (int i = 0; i < all->count; ++i) {
    rank *r = &all->rank[i];
    cr_exchange_span *span = &r->span[all->spans];
    *span = (cr_exchange_span){.count = count, .type = type};
    ok(cr_device_alloc(r->device, bytes, &span->memory));
    ok(r->device->backend->zero(r->context, span->memory, bytes));
    ok(crema_context_finish(r->context));
  }
  ++all->spans;
}

static inline void ranks_prepare(ranks *all) {
  for (int i = 0; i < all->count; ++i) {
    ok(cr_exchange_prepare(all->rank[i].end, all->rank[i].span, all->spans));
  }
}

static inline void ranks_close(ranks *all) {
  for (int i = 0; i < all->count; ++i) {
    /* A rank that failed may have left failed work. */
    if (crema_context_finish(all->rank[i].context) != CREMA_OK) continue;
  }
  for (int i = 0; i < all->count; ++i) {
    rank *r = &all->rank[i];
    cr_exchange_destroy(r->end);
    for (int s = 0; s < all->spans; ++s) cr_device_free(r->device, r->span[s].memory);
    crema_context_destroy(r->context);
  }
}

static inline crema_status run_rank(void *arg) {
  rank *r = arg;
  r->status = r->all->work(r);
  if (r->status != CREMA_OK) snprintf(r->text, sizeof r->text, "%s", crema_error_text());
  return CREMA_OK;
}

/* Lets all ranks work and waits for them; rank 0 in the calling thread. */
static inline void ranks_run_any(ranks *all, work *what) {
  all->work = what;
  for (int i = 1; i < all->count; ++i) {
    ok(cr_thread_start(&all->rank[i].thread, "rank", run_rank, &all->rank[i]));
  }
  ok(run_rank(&all->rank[0]));
  for (int i = 1; i < all->count; ++i) ok(cr_thread_join(&all->rank[i].thread));
}

static inline void ranks_run(ranks *all, work *what) {
  ranks_run_any(all, what);
  for (int i = 0; i < all->count; ++i) {
    if (all->rank[i].status == CREMA_OK) continue;
    fail_msg("rank %d: %s", i, all->rank[i].text);
  }
}

/* ---- values ---- */

static inline double get_value(crema_dtype type, const void *memory, int64_t i) {
  switch (type) {
    case CREMA_F64: return ((const double *)memory)[i];
    case CREMA_F32: return ((const float *)memory)[i];
    case CREMA_F16: return cr_f16_to_f32(((const uint16_t *)memory)[i]);
    default: return cr_bf16_to_f32(((const uint16_t *)memory)[i]);
  }
}

static inline void set_value(crema_dtype type, void *memory, int64_t i, double value) {
  switch (type) {
    case CREMA_F64: ((double *)memory)[i] = value; break;
    case CREMA_F32: ((float *)memory)[i] = (float)value; break;
    case CREMA_F16: ((uint16_t *)memory)[i] = cr_f32_to_f16((float)value); break;
    default: ((uint16_t *)memory)[i] = cr_f32_to_bf16((float)value); break;
  }
}

typedef double value_of(rank *r, int64_t i);

static inline void fill_span(rank *r, int span, value_of *value) {
  const cr_exchange_span *s = &r->span[span];
  const size_t bytes = (size_t)s->count * crema_dtype_size(s->type);
  void *host = malloc(bytes + 1);
  assert_non_null(host);
  for (int64_t i = 0; i < s->count; ++i) set_value(s->type, host, i, value(r, i));
  ok(cr_copy_from_cpu(r->context, s->memory, host, bytes));
  ok(crema_context_finish(r->context));
  free(host);
}

/* The span's bytes, to be freed. */
static inline void *read_span(rank *r, int span) {
  const cr_exchange_span *s = &r->span[span];
  const size_t bytes = (size_t)s->count * crema_dtype_size(s->type);
  void *host = malloc(bytes + 1);
  assert_non_null(host);
  if (bytes > 0) assert_true(cr_sim_peek(s->memory, host, bytes));
  return host;
}

#endif
