#include "memory/tensor_source.h"

#include "core/fail.h"
#include "device/memory/host_memory.h"

void cr_tensor_source_init(cr_tensor_source *source,
                           crema_status (*read)(cr_tensor_source *, uint64_t, void *, size_t),
                           void (*destroy)(cr_tensor_source *)) {
  atomic_init(&source->references, 1);
  source->read = read;
  source->destroy = destroy;
  pthread_mutex_init(&source->lock, NULL);
  source->spare = NULL;
  source->spare_bytes = 0;
}

cr_tensor_source *cr_tensor_source_retain(cr_tensor_source *source) {
  atomic_fetch_add(&source->references, 1);
  return source;
}

void cr_tensor_source_release(cr_tensor_source *source) {
  if (source == NULL || atomic_fetch_sub(&source->references, 1) != 1) return;
  cr_host_free(source->spare);
  pthread_mutex_destroy(&source->lock);
  source->destroy(source);
}

/* Memory that is used again needs no fresh pages. */
static crema_status need_spare(cr_tensor_source *source, size_t size) {
  if (source->spare_bytes >= size) return CREMA_OK;
  cr_host_free(source->spare);
  source->spare = NULL;
  source->spare_bytes = 0;
  CR_TRY(cr_host_alloc(size, &source->spare));
  source->spare_bytes = size;
  return CREMA_OK;
}

crema_status cr_tensor_source_lock(cr_tensor_source *source, uint64_t at, size_t size, void **out) {
  pthread_mutex_lock(&source->lock);
  crema_status status = need_spare(source, size);
  if (status == CREMA_OK) status = source->read(source, at, source->spare, size);
  if (status != CREMA_OK) pthread_mutex_unlock(&source->lock);
  *out = source->spare;
  return status;
}

void cr_tensor_source_unlock(cr_tensor_source *source) {
  pthread_mutex_unlock(&source->lock);
}
