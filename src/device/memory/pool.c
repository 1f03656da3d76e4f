#include "device/memory/pool.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/backend/current.h"
#include "device/backend/order.h"
#include "device/memory/driver.h"
#include "device/memory/memory_lock.h"
#include "device/memory/tracking.h"

enum { MAX_BINS = 33, SHARDS = 8, BUCKETS = 1024, BUCKET_LOCKS = 64, NO_BIN = -1, LOOK_AT = 16 };

typedef struct pool_block {
  struct pool_block *next; /* in its bucket while live, in its bin while idle */
  crema_devptr memory;
  size_t bytes;
  int bin; /* NO_BIN: not cached */
  bool counted;
  bool pending;           /* `freed` was recorded and is not known to be done */
  uint64_t user;          /* context on which `freed` was recorded */
  cr_native_event *freed; /* made at the first free with a user, kept */
} pool_block;

/* Idle blocks and counters. Each thread has its shard, so that threads seldom meet at a lock. A
 * counter is the sum over all shards (a single one may wrap around when one thread takes a block
 * and another frees it). */
typedef struct shard {
  _Alignas(64) pthread_mutex_t lock;
  pool_block *bin[MAX_BINS];
  _Atomic uint64_t filled; /* bit b: bin b holds blocks; changed with the lock held */
  size_t live_blocks, live_bytes, idle_blocks, idle_bytes;
  uint64_t cached;
} shard;

typedef struct bucket_lock {
  _Alignas(64) pthread_mutex_t lock;
} bucket_lock;

struct cr_pool {
  shard shard[SHARDS];
  bucket_lock bucket_lock[BUCKET_LOCKS];
  pool_block *bucket[BUCKETS]; /* live blocks by address */
  crema_device *device;
  cr_pool_options options;
  size_t bin_bytes[MAX_BINS];
  atomic_uint_fast64_t driver_allocs, driver_queries, flushes;
  /* The running estimate of the driver's free memory (S4-14). */
  pthread_mutex_t info_lock;
  size_t free_bytes, total_bytes, threshold;
  size_t held_bytes, peak_held_bytes; /* taken from the driver */
};

cr_pool_options cr_pool_options_for(cr_pool_mode mode) {
  /* The variable of the NVIDIA dialect's memory manager. */
  const char *debug = getenv("DEBUG_GPU_MEM");
  cr_pool_options options = {
      .mode = mode,
      .growth = 2,
      .min_bin = 6,
      .max_bin = 22,
      .max_idle_bytes = SIZE_MAX,
      .one_stream = mode == CR_POOL_THC,
      .print_events = debug != NULL && debug[0] != '\0' && strcmp(debug, "0") != 0,
      .threshold = 0.9};
  if (mode == CR_POOL_CUB) {
    options.growth = 8;
    options.min_bin = 3;
    options.max_bin = 10;
    options.max_idle_bytes = (size_t)10240 << 20;
  }
  return options;
}

crema_status cr_pool_mode_parse(const char *text, cr_pool_mode *out) {
  static const struct {
    const char *name;
    cr_pool_mode mode;
  } known[] = {{"", CR_POOL_NONE},
               {"none", CR_POOL_NONE},
               {"bins", CR_POOL_BINS},
               {"cub", CR_POOL_CUB},
               {"thc", CR_POOL_THC}};
  for (size_t i = 0; i < sizeof known / sizeof known[0]; ++i) {
    if (strcmp(text, known[i].name) == 0) {
      *out = known[i].mode;
      return CREMA_OK;
    }
  }
  return cr_fail(CREMA_E_UNKNOWN_NAME, "unknown memory pool \"%s\"; there are none, bins, cub, thc",
                 text);
}

static struct {
  pthread_mutex_t lock;
  cr_pool_mode mode;
  bool used;
} choice = {.lock = PTHREAD_MUTEX_INITIALIZER, .mode = CR_POOL_BINS};

crema_status cr_pool_set_mode(cr_pool_mode mode) {
  pthread_mutex_lock(&choice.lock);
  bool allowed = !choice.used || choice.mode == mode;
  if (allowed) choice.mode = mode;
  pthread_mutex_unlock(&choice.lock);
  return allowed ? CREMA_OK
                 : cr_fail(CREMA_E_STATE, "the memory pool cannot be changed after its first use");
}

cr_pool_mode cr_pool_current_mode(void) {
  pthread_mutex_lock(&choice.lock);
  choice.used = true;
  cr_pool_mode mode = choice.mode;
  pthread_mutex_unlock(&choice.lock);
  return mode;
}

/* With info_lock held. A driver that cannot answer leaves the estimate as it is. */
static void ask_driver(cr_pool *pool) {
  size_t free_bytes = 0, total_bytes = 0;
  atomic_fetch_add(&pool->driver_queries, 1);
  if (cr_device_memory_info(pool->device, &free_bytes, &total_bytes) != CREMA_OK) return;
  pool->free_bytes = free_bytes;
  pool->total_bytes = total_bytes;
}

/* With info_lock held. */
static void hold(cr_pool *pool, size_t bytes) {
  pool->held_bytes += bytes;
  if (pool->held_bytes > pool->peak_held_bytes) pool->peak_held_bytes = pool->held_bytes;
}

static void note_allocated(cr_pool *pool, size_t bytes) {
  pthread_mutex_lock(&pool->info_lock);
  if (pool->free_bytes < pool->threshold) {
    ask_driver(pool);
    pool->threshold -= pool->threshold / 10;
  } else if (pool->free_bytes < bytes) {
    ask_driver(pool);
  } else {
    pool->free_bytes -= bytes;
  }
  hold(pool, bytes);
  pthread_mutex_unlock(&pool->info_lock);
}

static size_t idle_bytes(cr_pool *pool) {
  size_t bytes = 0;
  for (int i = 0; i < SHARDS; ++i) {
    pthread_mutex_lock(&pool->shard[i].lock);
    bytes += pool->shard[i].idle_bytes;
    pthread_mutex_unlock(&pool->shard[i].lock);
  }
  return bytes;
}

crema_status cr_pool_memory(cr_pool *pool, bool refresh, size_t *free_bytes, size_t *total_bytes) {
  pthread_mutex_lock(&pool->info_lock);
  if (refresh) ask_driver(pool);
  size_t idle = idle_bytes(pool);
  size_t total = pool->total_bytes, available = pool->free_bytes + idle;
  pthread_mutex_unlock(&pool->info_lock);
  *total_bytes = total;
  *free_bytes = available < total ? available : total;
  return CREMA_OK;
}

static crema_status driver_alloc(cr_pool *pool, size_t bytes, crema_devptr *out) {
  if (!atomic_load(&pool->device->named) && !atomic_exchange(&pool->device->named, true)) {
    /* The program has not named the device at its start (S4-11). */
    cr_log_warning(
        "%s:%d is opened by its first allocation; crema_device_open names the devices of a "
        "program",
        pool->device->backend->name, pool->device->index);
  }
  cr_device_guard guard;
  CR_TRY(cr_device_enter(pool->device, &guard));
  cr_memory_lock_shared();
  crema_status status = pool->device->backend->alloc(pool->device, bytes, out);
  cr_memory_unlock_shared();
  cr_device_leave(guard);
  if (status == CREMA_OK) atomic_fetch_add(&pool->driver_allocs, 1);
  if (pool->options.print_events) {
    cr_log_info("%s:%d: %zu bytes %s", pool->device->backend->name, pool->device->index, bytes,
                status == CREMA_OK ? "allocated" : "could not be allocated");
  }
  return status;
}

/* Frees a block that is in no list: its memory goes back to the driver after its last use. */
static void driver_free(cr_pool *pool, pool_block *b) {
  const cr_backend *backend = pool->device->backend;
  cr_device_guard guard;
  crema_status status = cr_device_enter(pool->device, &guard);
  if (status != CREMA_OK && status != CREMA_E_CLOSED) {
    /* Releasing needs no current device where addresses are unique in the process. */
    cr_log_warning("%s", crema_error_text());
  }
  if (b->pending && backend->event_finish(b->freed) != CREMA_OK) {
    /* The work failed, so it is over; its context reports the failure. */
    b->pending = false;
  }
  if (b->freed != NULL) backend->event_destroy(b->freed);
  cr_memory_lock_shared();
  backend->free(pool->device, b->memory);
  cr_memory_unlock_shared();
  cr_device_leave(guard);
  if (pool->options.print_events) {
    cr_log_info("%s:%d: %zu bytes freed", backend->name, pool->device->index, b->bytes);
  }
  pthread_mutex_lock(&pool->info_lock);
  pool->held_bytes -= b->bytes;
  pool->free_bytes += b->bytes;
  if (pool->free_bytes > pool->total_bytes) pool->free_bytes = pool->total_bytes;
  pthread_mutex_unlock(&pool->info_lock);
  free(b);
}

static int bin_of(const cr_pool *pool, size_t bytes) {
  if (pool->options.mode == CR_POOL_NONE) return NO_BIN;
  for (unsigned b = pool->options.min_bin; b <= pool->options.max_bin; ++b) {
    if (bytes <= pool->bin_bytes[b]) return (int)b;
  }
  return NO_BIN;
}

static unsigned own_shard(void) {
  static atomic_uint next;
  static _Thread_local unsigned mine; /* number + 1 */
  if (mine == 0) mine = atomic_fetch_add(&next, 1) % SHARDS + 1;
  return mine - 1;
}

/* True when `user` may have the block now. */
static bool is_ready(cr_pool *pool, pool_block *b, uint64_t user) {
  if (!b->pending || (user != 0 && b->user == user) || pool->options.one_stream) return true;
  bool done = false;
  crema_status status = pool->device->backend->event_query(b->freed, &done);
  /* Work that failed is over; its context reports the failure. */
  if (status != CREMA_OK || done) b->pending = false;
  return !b->pending;
}

/* With the shard's lock held. */
static void set_bin(shard *s, int bin, pool_block *first) {
  uint64_t filled = atomic_load_explicit(&s->filled, memory_order_relaxed),
           bit = (uint64_t)1 << bin;
  s->bin[bin] = first;
  atomic_store_explicit(&s->filled, first != NULL ? filled | bit : filled & ~bit,
                        memory_order_relaxed);
}

static pool_block *take_from_shard(cr_pool *pool, shard *s, int bin, uint64_t user) {
  pool_block *found = NULL, *before = NULL;
  pthread_mutex_lock(&s->lock);
  pool_block *b = s->bin[bin];
  for (int looked = 0; b != NULL && looked < LOOK_AT && found == NULL; ++looked) {
    if (is_ready(pool, b, user)) {
      found = b;
    } else {
      before = b;
      b = b->next;
    }
  }
  if (found != NULL) {
    if (before != NULL) before->next = found->next;
    else set_bin(s, bin, found->next);
    --s->idle_blocks;
    s->idle_bytes -= found->bytes;
    ++s->live_blocks;
    s->live_bytes += found->bytes;
    ++s->cached;
  }
  pthread_mutex_unlock(&s->lock);
  return found;
}

static pool_block *take_idle(cr_pool *pool, int bin, uint64_t user) {
  if (bin == NO_BIN) return NULL;
  unsigned mine = own_shard();
  for (unsigned i = 0; i < SHARDS; ++i) {
    shard *s = &pool->shard[(mine + i) % SHARDS];
    const uint64_t filled = atomic_load_explicit(&s->filled, memory_order_relaxed);
    pool_block *b = (filled >> bin & 1) != 0 ? take_from_shard(pool, s, bin, user) : NULL;
    if (b != NULL) return b;
  }
  return NULL;
}

static void put_idle(cr_pool *pool, pool_block *b) {
  shard *s = &pool->shard[own_shard()];
  pthread_mutex_lock(&s->lock);
  b->next = s->bin[b->bin];
  set_bin(s, b->bin, b);
  ++s->idle_blocks;
  s->idle_bytes += b->bytes;
  --s->live_blocks;
  s->live_bytes -= b->bytes;
  pthread_mutex_unlock(&s->lock);
}

/* A block that came from the driver, or goes back to it, without having been idle. */
static void count_live(cr_pool *pool, const pool_block *b, bool more) {
  shard *s = &pool->shard[own_shard()];
  pthread_mutex_lock(&s->lock);
  s->live_blocks += more ? (size_t)1 : (size_t)-1;
  s->live_bytes += more ? b->bytes : (size_t)0 - b->bytes;
  pthread_mutex_unlock(&s->lock);
}

/* Empties a bin of a shard; returns its blocks. */
static pool_block *empty_bin(shard *s, int bin) {
  pthread_mutex_lock(&s->lock);
  pool_block *list = s->bin[bin];
  set_bin(s, bin, NULL);
  for (const pool_block *b = list; b != NULL; b = b->next) {
    --s->idle_blocks;
    s->idle_bytes -= b->bytes;
  }
  pthread_mutex_unlock(&s->lock);
  return list;
}

size_t cr_pool_trim(cr_pool *pool) {
  size_t bytes = 0;
  for (unsigned i = 0; i < SHARDS; ++i) {
    for (int bin = 0; bin < MAX_BINS; ++bin) {
      for (pool_block *b = empty_bin(&pool->shard[i], bin); b != NULL;) {
        pool_block *next = b->next;
        bytes += b->bytes;
        driver_free(pool, b);
        b = next;
      }
    }
  }
  return bytes;
}

static size_t bucket_of(crema_devptr memory) {
  /* Addresses are multiples of 64 at least; the multiplier spreads them (Knuth). */
  return (size_t)(((uint64_t)memory.address >> 6) * 0x9e3779b97f4a7c15u >> 54) % BUCKETS;
}

static void add_live(cr_pool *pool, pool_block *b) {
  size_t index = bucket_of(b->memory);
  pthread_mutex_t *lock = &pool->bucket_lock[index % BUCKET_LOCKS].lock;
  pthread_mutex_lock(lock);
  b->next = pool->bucket[index];
  pool->bucket[index] = b;
  pthread_mutex_unlock(lock);
}

static pool_block *take_live(cr_pool *pool, crema_devptr memory) {
  size_t index = bucket_of(memory);
  pthread_mutex_t *lock = &pool->bucket_lock[index % BUCKET_LOCKS].lock;
  pthread_mutex_lock(lock);
  pool_block **link = &pool->bucket[index];
  while (*link != NULL && (*link)->memory.address != memory.address) link = &(*link)->next;
  pool_block *b = *link;
  if (b != NULL) *link = b->next;
  pthread_mutex_unlock(lock);
  return b;
}

static crema_status out_of_memory(cr_pool *pool, size_t bytes) {
  char reason[512];
  size_t free_bytes = 0, total_bytes = 0;
  strncpy(reason, crema_error_text(), sizeof reason - 1);
  reason[sizeof reason - 1] = '\0';
  CR_TRY(cr_pool_memory(pool, false, &free_bytes, &total_bytes));
  return cr_fail(CREMA_E_NO_MEMORY,
                 "cannot allocate %zu bytes on %s:%d (%zu of %zu bytes are free): %s", bytes,
                 pool->device->backend->name, pool->device->index, free_bytes, total_bytes, reason);
}

static crema_status fresh_block(cr_pool *pool, size_t bytes, int bin, pool_block **out) {
  pool_block *b = calloc(1, sizeof *b);
  if (b == NULL) return cr_fail_memory(sizeof *b, "a block of device memory");
  b->bin = bin;
  b->bytes = bin == NO_BIN ? bytes : pool->bin_bytes[bin];
  crema_status status = driver_alloc(pool, b->bytes, &b->memory);
  if (status == CREMA_E_NO_MEMORY) {
    size_t released = cr_pool_trim(pool);
    if (released > 0) status = driver_alloc(pool, b->bytes, &b->memory);
    atomic_fetch_add(&pool->flushes, 1);
    pthread_mutex_lock(&pool->info_lock);
    ask_driver(pool);
    hold(pool, status == CREMA_OK ? b->bytes : 0);
    pthread_mutex_unlock(&pool->info_lock);
    if (status == CREMA_E_NO_MEMORY) status = out_of_memory(pool, bytes);
  } else if (status == CREMA_OK) {
    note_allocated(pool, b->bytes);
  }
  if (status != CREMA_OK) {
    free(b);
    return status;
  }
  *out = b;
  return CREMA_OK;
}

crema_status cr_pool_alloc(cr_pool *pool, size_t bytes, uint64_t user, crema_devptr *out) {
  *out = (crema_devptr){0};
  if (bytes == 0) return CREMA_OK;
  int bin = bin_of(pool, bytes);
  pool_block *b = take_idle(pool, bin, user);
  if (b == NULL) {
    CR_TRY(fresh_block(pool, bytes, bin, &b));
    count_live(pool, b, true);
  }
  b->counted = cr_tracking_add(pool->device, b->bytes);
  add_live(pool, b);
  *out = b->memory;
  return CREMA_OK;
}

/* Records the position in the queue of context `user` after which the block is idle. */
static crema_status mark_freed(cr_pool *pool, pool_block *b, uint64_t user) {
  /* Work of an earlier user of the block may still be pending. */
  if (user == 0) return CREMA_OK;
  b->pending = false;
  bool busy = false;
  CR_TRY(cr_context_mark(pool->device, user, &b->freed, &busy));
  b->pending = busy;
  b->user = user;
  return CREMA_OK;
}

crema_status cr_pool_free(cr_pool *pool, crema_devptr memory, uint64_t user) {
  if (memory.address == 0) return CREMA_OK;
  pool_block *b = take_live(pool, memory);
  if (b == NULL) {
    return cr_fail(CREMA_E_ARGUMENT, "memory at %#zx is not in use on %s:%d",
                   (size_t)memory.address, pool->device->backend->name, pool->device->index);
  }
  cr_tracking_remove(pool->device, b->bytes, b->counted);
  crema_status status = mark_freed(pool, b, user);
  if (status != CREMA_OK) {
    /* Without a mark the end of the work is unknown, so the memory is lost rather than reused too
     * early. The device has failed anyway, or the driver was unloaded with its memory. */
    if (status != CREMA_E_CLOSED) {
      cr_log_error("memory of %zu bytes is given up: %s", b->bytes, crema_error_text());
    }
    if (b->freed != NULL) pool->device->backend->event_destroy(b->freed);
    count_live(pool, b, false);
    free(b);
    return CREMA_OK;
  }
  const size_t limit = pool->options.max_idle_bytes;
  const bool fits =
      b->bytes <= limit && (limit == SIZE_MAX || idle_bytes(pool) <= limit - b->bytes);
  if (b->bin != NO_BIN && fits) {
    put_idle(pool, b);
  } else {
    count_live(pool, b, false);
    driver_free(pool, b);
  }
  return CREMA_OK;
}

cr_pool_info cr_pool_describe(cr_pool *pool) {
  cr_pool_info info = {.driver_allocs = atomic_load(&pool->driver_allocs),
                       .driver_queries = atomic_load(&pool->driver_queries),
                       .flushes = atomic_load(&pool->flushes)};
  /* All locks at once, because a block may be allocated in one shard and freed in another. */
  for (int i = 0; i < SHARDS; ++i) pthread_mutex_lock(&pool->shard[i].lock);
  for (int i = 0; i < SHARDS; ++i) {
    const shard *s = &pool->shard[i];
    info.live_blocks += s->live_blocks;
    info.live_bytes += s->live_bytes;
    info.idle_blocks += s->idle_blocks;
    info.idle_bytes += s->idle_bytes;
    info.cached += s->cached;
  }
  for (int i = 0; i < SHARDS; ++i) pthread_mutex_unlock(&pool->shard[i].lock);
  pthread_mutex_lock(&pool->info_lock);
  info.peak_bytes = pool->peak_held_bytes;
  pthread_mutex_unlock(&pool->info_lock);
  return info;
}

crema_status cr_pool_create(crema_device *device, const cr_pool_options *options, cr_pool **out) {
  if (options->growth < 2 || options->max_bin >= MAX_BINS || options->min_bin > options->max_bin) {
    return cr_fail(CREMA_E_RANGE, "a memory pool has bins %u to %u of powers of 2 or more",
                   options->min_bin, options->max_bin);
  }
  cr_pool *pool = aligned_alloc(_Alignof(cr_pool), sizeof *pool);
  if (pool == NULL) return cr_fail_memory(sizeof *pool, "a memory pool");
  memset(pool, 0, sizeof *pool);
  pool->device = device;
  pool->options = *options;
  for (size_t b = 0, bytes = 1; b < MAX_BINS; ++b) {
    pool->bin_bytes[b] = bytes;
    bytes = bytes > SIZE_MAX / options->growth ? SIZE_MAX : bytes * options->growth;
  }
  for (int i = 0; i < SHARDS; ++i) pthread_mutex_init(&pool->shard[i].lock, NULL);
  for (int i = 0; i < BUCKET_LOCKS; ++i) pthread_mutex_init(&pool->bucket_lock[i].lock, NULL);
  pthread_mutex_init(&pool->info_lock, NULL);
  pthread_mutex_lock(&pool->info_lock);
  ask_driver(pool);
  pool->threshold = (size_t)((double)pool->total_bytes * options->threshold);
  pthread_mutex_unlock(&pool->info_lock);
  *out = pool;
  return CREMA_OK;
}

void cr_pool_destroy(cr_pool *pool) {
  if (pool == NULL) return;
  cr_pool_trim(pool);
  for (int i = 0; i < BUCKETS; ++i) {
    for (pool_block *b = pool->bucket[i]; b != NULL;) {
      pool_block *next = b->next;
      cr_tracking_remove(pool->device, b->bytes, b->counted);
      driver_free(pool, b);
      b = next;
    }
  }
  pthread_mutex_destroy(&pool->info_lock);
  for (int i = 0; i < BUCKET_LOCKS; ++i) pthread_mutex_destroy(&pool->bucket_lock[i].lock);
  for (int i = 0; i < SHARDS; ++i) pthread_mutex_destroy(&pool->shard[i].lock);
  free(pool);
}
