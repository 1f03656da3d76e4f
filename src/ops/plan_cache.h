/* Plans that several contexts share: of nets that are made twice, and of sessions of one model.
 *
 * An op whose context carries a cache looks there before it plans, and adds each new plan.
 * In the steady state an op finds its plans in itself and takes no lock. Everything here may be
 * called from any thread. */
#ifndef CR_OPS_PLAN_CACHE_H
#define CR_OPS_PLAN_CACHE_H

#include "device/device.h"

struct cr_op_plan;
struct cr_plan_key;

/* A cache of at most `most` plans (1 or more), with LRU eviction. It must be destroyed before the
 * devices of its plans end; contexts that carry it must not be used afterwards. Plans that ops use
 * live on. Destroying accepts NULL. */
crema_status cr_plan_cache_create(int most, cr_plan_cache **out) CREMA_MUST_USE;
void cr_plan_cache_destroy(cr_plan_cache *cache);

/* Ops that run on `context` share their plans through `cache`; NULL: they share none. */
void cr_context_set_plans(crema_context *context, cr_plan_cache *cache);

/* Counts since the cache was made. */
typedef struct cr_plan_cache_counts {
  uint64_t found, made; /* plans that ops got and put */
  int held;
} cr_plan_cache_counts;
cr_plan_cache_counts cr_plan_cache_count(cr_plan_cache *cache);

/* For ops: */

/* The caller's reference to a plan that fits; NULL: there is none. */
struct cr_op_plan *cr_plan_cache_find(cr_plan_cache *cache, const struct cr_plan_key *key);

/* Adds *plan, which was made for the key. If another thread has added a matching plan in the
 * meantime, *plan becomes that plan. The plan `useless` (may be NULL) is replaced instead. Without
 * memory the plan is not cached. */
void cr_plan_cache_put(cr_plan_cache *cache, const struct cr_plan_key *key,
                       const struct cr_op_plan *useless, struct cr_op_plan **plan);

#endif
