#include "ops/plan_cache.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "ops/op_private.h"

enum { BUCKETS = 1024 };

typedef struct entry entry;
struct entry {
  cr_op_plan *plan;
  entry *next;          /* in its bucket */
  entry *newer, *older; /* in LRU order */
  entry **bucket;
};

struct cr_plan_cache {
  pthread_mutex_t lock; /* guards what follows */
  int most;
  cr_plan_cache_counts counts;
  entry *newest, *oldest;
  entry *bucket[BUCKETS];
};

crema_status cr_plan_cache_create(int most, cr_plan_cache **out) {
  cr_plan_cache *cache = calloc(1, sizeof *cache);
  if (cache == NULL) return cr_fail_memory(sizeof *cache, "a cache of plans");
  pthread_mutex_init(&cache->lock, NULL);
  cache->most = most;
  *out = cache;
  return CREMA_OK;
}

/* FNV-1a. Hints are not hashed: plans whose kernels ignore hints serve for all. */
static entry **bucket_of(cr_plan_cache *cache, const cr_plan_key *key) {
  const unsigned char *bytes = (const unsigned char *)key->desc;
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < cr_op_desc_size(key->desc); ++i) {
    hash = (hash ^ bytes[i]) * 1099511628211u;
  }
  hash = (hash ^ (uintptr_t)key->device) * 1099511628211u;
  hash = (hash ^ (uint64_t)key->threads) * 1099511628211u;
  hash = (hash ^ key->fast_math) * 1099511628211u;
  return &cache->bucket[(hash ^ hash >> 32) % BUCKETS];
}

static void take_from_order(cr_plan_cache *cache, entry *e) {
  *(e->newer != NULL ? &e->newer->older : &cache->newest) = e->older;
  *(e->older != NULL ? &e->older->newer : &cache->oldest) = e->newer;
}

static void make_newest(cr_plan_cache *cache, entry *e) {
  e->newer = NULL;
  e->older = cache->newest;
  *(e->older != NULL ? &e->older->newer : &cache->oldest) = e;
  cache->newest = e;
}

static entry *look_up(entry *first, const cr_plan_key *key) {
  while (first != NULL && !cr_op_plan_fits(first->plan, key)) first = first->next;
  return first;
}

/* Frees the entry; its plan is the caller's. */
static cr_op_plan *take_out(cr_plan_cache *cache, entry *e) {
  cr_op_plan *plan = e->plan;
  entry **link = e->bucket;
  while (*link != e) link = &(*link)->next;
  *link = e->next;
  take_from_order(cache, e);
  --cache->counts.held;
  free(e);
  return plan;
}

void cr_plan_cache_destroy(cr_plan_cache *cache) {
  if (cache == NULL) return;
  while (cache->newest != NULL) cr_op_plan_release(take_out(cache, cache->newest));
  pthread_mutex_destroy(&cache->lock);
  free(cache);
}

void cr_context_set_plans(crema_context *context, cr_plan_cache *cache) {
  context->plans = cache;
}

cr_plan_cache_counts cr_plan_cache_count(cr_plan_cache *cache) {
  pthread_mutex_lock(&cache->lock);
  cr_plan_cache_counts counts = cache->counts;
  pthread_mutex_unlock(&cache->lock);
  return counts;
}

cr_op_plan *cr_plan_cache_find(cr_plan_cache *cache, const cr_plan_key *key) {
  cr_op_plan *plan = NULL;
  pthread_mutex_lock(&cache->lock);
  entry *found = look_up(*bucket_of(cache, key), key);
  if (found != NULL) {
    take_from_order(cache, found);
    make_newest(cache, found);
    plan = found->plan;
    cr_op_plan_retain(plan);
    ++cache->counts.found;
  }
  pthread_mutex_unlock(&cache->lock);
  return plan;
}

/* With the lock held. *dropped: a plan to be released without it. */
static void insert(cr_plan_cache *cache, const cr_plan_key *key, entry *e, cr_op_plan **dropped) {
  if (cache->counts.held >= cache->most) *dropped = take_out(cache, cache->oldest);
  e->bucket = bucket_of(cache, key);
  e->next = *e->bucket;
  *e->bucket = e;
  make_newest(cache, e);
  ++cache->counts.held;
}

void cr_plan_cache_put(cr_plan_cache *cache, const cr_plan_key *key, const cr_op_plan *useless,
                       cr_op_plan **plan) {
  cr_op_plan *dropped = NULL;
  entry *e = calloc(1, sizeof *e);
  if (e == NULL) return;
  pthread_mutex_lock(&cache->lock);
  ++cache->counts.made;
  entry *other = look_up(*bucket_of(cache, key), key);
  if (other == NULL) {
    e->plan = *plan;
    cr_op_plan_retain(e->plan);
    insert(cache, key, e, &dropped);
    e = NULL;
  } else if (other->plan == useless) {
    dropped = other->plan;
    other->plan = *plan;
    cr_op_plan_retain(other->plan);
  } else {
    dropped = *plan;
    *plan = other->plan;
    cr_op_plan_retain(*plan);
  }
  pthread_mutex_unlock(&cache->lock);
  cr_op_plan_release(dropped);
  free(e);
}
