#include "memory/tensor_source.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/memory/host_memory.h"
#include "memory/tensor_private.h"

/* Larger values are kept from the start: as much memory as the largest of them would be held
 * beside those that are kept. */
#define MOST_ONCE ((size_t)16 << 20)

struct cr_tensor_spare {
  atomic_int references;
  pthread_mutex_t lock; /* of what follows */
  void *memory;
  size_t bytes;
  size_t expected; /* that will be needed at most */
};

crema_status cr_tensor_spare_create(cr_tensor_spare **out) {
  cr_tensor_spare *spare = NULL;
  CR_TRY(CR_NEW(spare, 1, "memory for reading"));
  atomic_init(&spare->references, 1);
  pthread_mutex_init(&spare->lock, NULL);
  *out = spare;
  return CREMA_OK;
}

cr_tensor_spare *cr_tensor_spare_retain(cr_tensor_spare *spare) {
  atomic_fetch_add(&spare->references, 1);
  return spare;
}

void cr_tensor_spare_release(cr_tensor_spare *spare) {
  if (spare == NULL || atomic_fetch_sub(&spare->references, 1) != 1) return;
  cr_host_free(spare->memory);
  pthread_mutex_destroy(&spare->lock);
  free(spare);
}

void cr_tensor_source_init(cr_tensor_source *source,
                           crema_status (*read)(cr_tensor_source *, uint64_t, void *, size_t),
                           void (*destroy)(cr_tensor_source *), cr_tensor_spare *spare) {
  atomic_init(&source->references, 1);
  source->read = read;
  source->destroy = destroy;
  source->spare = spare;
  source->once = NULL;
}

void cr_tensor_source_set_once(cr_tensor_source *source, cr_tensor_spare *once) {
  source->once = cr_tensor_spare_retain(once);
}

cr_tensor_source *cr_tensor_source_retain(cr_tensor_source *source) {
  atomic_fetch_add(&source->references, 1);
  return source;
}

void cr_tensor_source_release(cr_tensor_source *source) {
  if (source == NULL || atomic_fetch_sub(&source->references, 1) != 1) return;
  cr_tensor_spare_release(source->spare);
  cr_tensor_spare_release(source->once);
  source->destroy(source);
}

/* Made for the largest at once: memory that grows is cleared again and again. */
static crema_status need_bytes(cr_tensor_spare *spare, size_t size) {
  if (spare->bytes >= size) return CREMA_OK;
  if (size < spare->expected) size = spare->expected;
  cr_host_free(spare->memory);
  spare->memory = NULL;
  spare->bytes = 0;
  CR_TRY(cr_host_alloc(size, &spare->memory));
  spare->bytes = size;
  return CREMA_OK;
}

crema_status cr_tensor_source_lock(cr_tensor_source *source, uint64_t at, size_t size, void **out) {
  cr_tensor_spare *spare = source->spare;
  pthread_mutex_lock(&spare->lock);
  crema_status status = need_bytes(spare, size);
  if (status == CREMA_OK) status = source->read(source, at, spare->memory, size);
  *out = spare->memory;
  if (status != CREMA_OK) pthread_mutex_unlock(&spare->lock);
  return status;
}

void cr_tensor_source_unlock(cr_tensor_source *source) {
  pthread_mutex_unlock(&source->spare->lock);
}

/* ---- sizes --------------------------------------------------------------- */

static void expect_bytes(cr_tensor_spare *spare, size_t size) {
  pthread_mutex_lock(&spare->lock);
  if (spare->expected < size) spare->expected = size;
  pthread_mutex_unlock(&spare->lock);
}

void cr_tensor_source_expect(cr_tensor_source *source, size_t size) {
  expect_bytes(source->spare, size);
  if (source->once != NULL && size <= MOST_ONCE) expect_bytes(source->once, size);
}

/* ---- one use ------------------------------------------------------------- */

/* Whoever finds the memory in use does without, instead of waiting for another thread's op. */
crema_status cr_tensor_spare_try(cr_tensor_spare *spare, size_t size, cr_tensor_spare **held,
                                 void **out) {
  *held = NULL;
  if (pthread_mutex_trylock(&spare->lock) != 0) return CREMA_OK;
  crema_status status = need_bytes(spare, size);
  if (status != CREMA_OK) {
    pthread_mutex_unlock(&spare->lock);
    return status;
  }
  *out = spare->memory;
  *held = cr_tensor_spare_retain(spare);
  return CREMA_OK;
}

crema_status cr_tensor_source_try_once(cr_tensor_source *source, size_t size,
                                       cr_tensor_spare **held, void **out) {
  *held = NULL;
  if (source->once == NULL || size > MOST_ONCE) return CREMA_OK;
  return cr_tensor_spare_try(source->once, size, held, out);
}

void cr_tensor_give_back(cr_tensor_spare *held) {
  if (held == NULL) return;
  pthread_mutex_unlock(&held->lock);
  cr_tensor_spare_release(held);
}
