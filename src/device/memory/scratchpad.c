#include "device/memory/scratchpad.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/order.h"
#include "device/memory/device_memory.h"

struct cr_scratchpad {
  cr_scratchpad *next;
  pthread_t thread; /* the only one that uses it */
  int contexts;     /* that hold it */
  crema_devptr memory;
  size_t bytes;
  uint64_t user; /* id of the context that was given it last */
};

/* With the device's lock held. The thread of an entry may have ended and its id been given to a new
 * thread: the new one may have the entry, as nobody else uses it. */
static cr_scratchpad **find_scratchpad(crema_device *device, pthread_t thread) {
  cr_scratchpad **link = &device->scratchpads;
  while (*link != NULL && !pthread_equal((*link)->thread, thread)) link = &(*link)->next;
  return link;
}

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
  cr_device_free_after(device, scratchpad->memory, scratchpad->user);
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
  cr_scratchpad **link = find_scratchpad(device, self);
  if (*link == NULL) {
    fresh->thread = self;
    *link = fresh;
    fresh = NULL;
  }
  context->scratchpad = *link;
  ++context->scratchpad->contexts;
  pthread_mutex_unlock(&device->lock);
  free(fresh);
  return CREMA_OK;
}

crema_status cr_context_workspace(crema_context *context, size_t bytes, crema_devptr *out) {
  CR_TRY(hold_scratchpad(context));
  cr_scratchpad *scratchpad = context->scratchpad;
  if (bytes > scratchpad->bytes) {
    crema_devptr memory = {0};
    /* The new block comes before the old one goes, so that a failure leaves the old one. Queued
     * work may still use the old one. */
    CR_TRY(cr_device_alloc_for(context, bytes, &memory));
    cr_device_free_after(context->device, scratchpad->memory, scratchpad->user);
    pthread_mutex_lock(&context->device->lock);
    scratchpad->memory = memory;
    scratchpad->bytes = bytes;
    pthread_mutex_unlock(&context->device->lock);
  } else {
    CR_TRY(cr_context_follow(context, scratchpad->user));
  }
  scratchpad->user = context->id;
  *out = scratchpad->memory;
  return CREMA_OK;
}

size_t cr_device_scratchpad_bytes(crema_device *device) {
  size_t bytes = 0;
  pthread_mutex_lock(&device->lock);
  for (const cr_scratchpad *s = device->scratchpads; s != NULL; s = s->next) bytes += s->bytes;
  pthread_mutex_unlock(&device->lock);
  return bytes;
}
