#include "device/memory/scratchpad.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"
#include "device/memory/workspace.h"

struct cr_scratchpad {
  cr_scratchpad *next;
  pthread_t thread; /* the only one that uses it */
  int contexts;     /* that hold it */
  cr_workspace workspace;
  uint64_t user; /* id of the context that used it last */
  size_t needed; /* the largest request since the last choice of an algorithm */
  int passes;    /* backward passes after that choice for which it was larger */
};

void cr_scratchpad_leave(crema_context *context) {
  crema_device *device = context->device;
  cr_scratchpad *scratchpad = context->scratchpad;
  if (scratchpad == NULL) return;
  context->scratchpad = NULL;
  pthread_mutex_lock(&device->lock);
  bool last = --scratchpad->contexts == 0;
  if (last) {
    cr_scratchpad **link = &device->scratchpads;
    while (*link != scratchpad) link = &(*link)->next;
    *link = scratchpad->next;
  }
  pthread_mutex_unlock(&device->lock);
  if (!last) return;
  cr_device_free_after(device, scratchpad->workspace.memory, scratchpad->user);
  free(scratchpad);
}

/* Lets the context hold the calling thread's scratchpad. */
static crema_status hold_scratchpad(crema_context *context) {
  crema_device *device = context->device;
  pthread_t self = pthread_self();
  if (context->scratchpad != NULL && pthread_equal(context->scratchpad->thread, self))
    return CREMA_OK;
  cr_scratchpad *fresh = calloc(1, sizeof *fresh);
  if (fresh == NULL) return cr_fail_memory(sizeof *fresh, "a scratchpad");
  cr_scratchpad_leave(context);
  pthread_mutex_lock(&device->lock);
  /* The thread of an entry may have ended, and a new thread may have its id. The new thread then
   * adopts the unused entry. */
  cr_scratchpad **link = &device->scratchpads;
  while (*link != NULL && !pthread_equal((*link)->thread, self)) link = &(*link)->next;
  if (*link == NULL) {
    fresh->thread = self;
    fresh->workspace.device = device;
    *link = fresh;
    fresh = NULL;
  }
  context->scratchpad = *link;
  ++context->scratchpad->contexts;
  pthread_mutex_unlock(&device->lock);
  free(fresh);
  return CREMA_OK;
}

/* Waits until no queued work uses the scratchpad. */
static crema_status wait_idle(crema_context *context) {
  CR_TRY(cr_context_follow(context, context->scratchpad->user));
  return context->device->backend->finish(context);
}

static crema_status grow(crema_context *context, size_t bytes) {
  cr_scratchpad *scratchpad = context->scratchpad;
  cr_workspace *w = &scratchpad->workspace;
  crema_devptr memory = {0};
  /* Queued work may still use the old block, so the new block is allocated first if both fit. */
  crema_status status = cr_device_alloc_for(context, bytes, &memory);
  if (status == CREMA_E_NO_MEMORY && w->bytes > 0) {
    CR_TRY(wait_idle(context));
    return cr_workspace_reserve_safely(w, bytes);
  }
  CR_TRY(status);
  cr_device_free_after(context->device, w->memory, scratchpad->user);
  w->memory = memory;
  w->bytes = bytes;
  return CREMA_OK;
}

crema_status cr_context_workspace(crema_context *context, size_t bytes, crema_devptr *out) {
  CR_TRY(hold_scratchpad(context));
  cr_scratchpad *scratchpad = context->scratchpad;
  if (bytes > scratchpad->workspace.bytes) {
    CR_TRY(grow(context, bytes));
  } else {
    CR_TRY(cr_context_follow(context, scratchpad->user));
  }
  if (bytes > scratchpad->needed) scratchpad->needed = bytes;
  if (bytes > context->most_workspace) context->most_workspace = bytes;
  scratchpad->user = context->id;
  *out = scratchpad->workspace.memory;
  return CREMA_OK;
}

size_t cr_device_scratchpad_bytes(crema_device *device) {
  size_t bytes = 0;
  pthread_mutex_lock(&device->lock);
  for (const cr_scratchpad *s = device->scratchpads; s != NULL; s = s->next) {
    bytes += s->workspace.bytes;
  }
  pthread_mutex_unlock(&device->lock);
  return bytes;
}

/* The fastest that works with `bytes`; NULL: none does. */
static const cr_algorithm *fastest(const cr_algorithm *table, int count, size_t bytes) {
  const cr_algorithm *best = NULL;
  for (int i = 0; i < count; ++i) {
    const cr_algorithm *a = &table[i];
    if (a->bytes > bytes) continue;
    bool better = best == NULL || a->seconds < best->seconds ||
                  (a->seconds <= best->seconds && a->bytes < best->bytes);
    if (better) best = a;
  }
  return best;
}

crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) {
  CR_TRY(hold_scratchpad(context));
  cr_scratchpad *scratchpad = context->scratchpad;
  crema_devptr memory = {0};
  size_t bytes = 0;
  CR_TRY(cr_workspace_budget(&scratchpad->workspace, 0, 1, &bytes));
  scratchpad->needed = 0;
  scratchpad->passes = 0;
  for (;;) {
    const cr_algorithm *best = fastest(table, count, bytes);
    if (best == NULL) {
      return cr_fail(CREMA_E_UNSUPPORTED, "none of %d algorithms works with %zu bytes", count,
                     bytes);
    }
    const crema_status status = cr_context_workspace(context, best->bytes, &memory);
    if (status == CREMA_OK) *id = best->id;
    if (status != CREMA_E_NO_MEMORY) return status;
    bytes = best->bytes - 1;
  }
}

crema_status cr_context_end_backward(crema_context *context) {
  enum { PASSES = 2 };
  cr_scratchpad *scratchpad = context->scratchpad;
  if (scratchpad == NULL || !pthread_equal(scratchpad->thread, pthread_self())) return CREMA_OK;
  cr_workspace *w = &scratchpad->workspace;
  if (w->bytes <= scratchpad->needed || ++scratchpad->passes < PASSES) return CREMA_OK;
  CR_TRY(wait_idle(context));
  cr_workspace_release(w);
  return cr_workspace_reserve(w, scratchpad->needed);
}
