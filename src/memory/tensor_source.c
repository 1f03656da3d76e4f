#include "memory/tensor_source.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/memory/host_memory.h"

struct cr_tensor_scratch {
  atomic_int references;
  pthread_mutex_t lock; /* guards the members below; held during a use */
  void *memory;
  size_t bytes;
  size_t expected; /* the most that is known to be needed */
};

crema_status cr_tensor_scratch_create(cr_tensor_scratch **out) {
  cr_tensor_scratch *scratch = NULL;
  CR_TRY(CR_NEW(scratch, 1, "memory for reading"));
  atomic_init(&scratch->references, 1);
  pthread_mutex_init(&scratch->lock, NULL);
  *out = scratch;
  return CREMA_OK;
}

cr_tensor_scratch *cr_tensor_scratch_retain(cr_tensor_scratch *scratch) {
  atomic_fetch_add(&scratch->references, 1);
  return scratch;
}

void cr_tensor_scratch_release(cr_tensor_scratch *scratch) {
  if (scratch == NULL || atomic_fetch_sub(&scratch->references, 1) != 1) return;
  cr_host_free(scratch->memory);
  pthread_mutex_destroy(&scratch->lock);
  free(scratch);
}

/* Made for the largest use at once: memory that grows is cleared several times. */
static crema_status need_bytes(cr_tensor_scratch *scratch, size_t size) {
  if (scratch->bytes >= size) return CREMA_OK;
  if (size < scratch->expected) size = scratch->expected;
  cr_host_free(scratch->memory);
  scratch->memory = NULL;
  scratch->bytes = 0;
  CR_TRY(cr_host_alloc(size, &scratch->memory));
  scratch->bytes = size;
  return CREMA_OK;
}

crema_status cr_tensor_scratch_try(cr_tensor_scratch *scratch, size_t size,
                                   cr_tensor_scratch **held, void **out) {
  *held = NULL;
  if (pthread_mutex_trylock(&scratch->lock) != 0) return CREMA_OK;
  crema_status status = need_bytes(scratch, size);
  if (status != CREMA_OK) {
    pthread_mutex_unlock(&scratch->lock);
    return status;
  }
  *out = scratch->memory;
  *held = cr_tensor_scratch_retain(scratch);
  return CREMA_OK;
}

void cr_tensor_end_use(cr_tensor_scratch *held) {
  if (held == NULL) return;
  pthread_mutex_unlock(&held->lock);
  cr_tensor_scratch_release(held);
}

static void expect_bytes(cr_tensor_scratch *scratch, size_t size) {
  pthread_mutex_lock(&scratch->lock);
  if (scratch->expected < size) scratch->expected = size;
  pthread_mutex_unlock(&scratch->lock);
}

void cr_tensor_source_init(cr_tensor_source *source,
                           crema_status (*read)(cr_tensor_source *, uint64_t, void *, size_t),
                           void (*destroy)(cr_tensor_source *), cr_tensor_scratch *scratch) {
  atomic_init(&source->references, 1);
  source->read = read;
  source->destroy = destroy;
  source->scratch = scratch;
  source->per_use = NULL;
}

void cr_tensor_source_set_per_use(cr_tensor_source *source, cr_tensor_scratch *scratch) {
  source->per_use = cr_tensor_scratch_retain(scratch);
}

cr_tensor_source *cr_tensor_source_retain(cr_tensor_source *source) {
  atomic_fetch_add(&source->references, 1);
  return source;
}

void cr_tensor_source_release(cr_tensor_source *source) {
  if (source == NULL || atomic_fetch_sub(&source->references, 1) != 1) return;
  cr_tensor_scratch_release(source->scratch);
  cr_tensor_scratch_release(source->per_use);
  source->destroy(source);
}

crema_status cr_tensor_source_lock(cr_tensor_source *source, uint64_t at, size_t size, void **out) {
  cr_tensor_scratch *scratch = source->scratch;
  pthread_mutex_lock(&scratch->lock);
  crema_status status = need_bytes(scratch, size);
  if (status == CREMA_OK) status = source->read(source, at, scratch->memory, size);
  *out = scratch->memory;
  if (status != CREMA_OK) pthread_mutex_unlock(&scratch->lock);
  return status;
}

void cr_tensor_source_unlock(cr_tensor_source *source) {
  pthread_mutex_unlock(&source->scratch->lock);
}

void cr_tensor_source_expect(cr_tensor_source *source, size_t size) {
  expect_bytes(source->scratch, size);
  if (source->per_use != NULL && size <= CR_TENSOR_MOST_PER_USE)
    expect_bytes(source->per_use, size);
}
