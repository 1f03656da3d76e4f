#include "net/weights/weights.h"

#include <stdlib.h>

#include "core/fail.h"

typedef struct file_source {
  cr_tensor_source base;
  cr_piece_file *file;
} file_source;

static crema_status read_file(cr_tensor_source *source, uint64_t at, void *out, size_t size) {
  return cr_piece_file_read(((file_source *)source)->file, at, out, size);
}

static void destroy(cr_tensor_source *source) {
  cr_piece_file_release(((file_source *)source)->file);
  free(source);
}

crema_status cr_net_stored_open(const char *path, size_t run, cr_net_stored *out) {
  file_source *made = NULL;
  cr_tensor_scratch *spare = NULL;
  *out = (cr_net_stored){0};
  CR_TRY(cr_stored_net_open(path, run, &out->net));
  if (out->net.file == NULL) return CREMA_OK;
  crema_status status = cr_tensor_scratch_create(&spare);
  if (status == CREMA_OK) status = CR_NEW(made, 1, "a file of weights");
  if (status != CREMA_OK) {
    cr_tensor_scratch_release(spare);
    cr_stored_net_close(&out->net);
    return status;
  }
  cr_tensor_source_init(&made->base, read_file, destroy, spare);
  made->file = cr_piece_file_retain(out->net.file);
  out->source = &made->base;
  return CREMA_OK;
}

crema_status cr_net_stored_use_once(cr_net_stored *stored) {
  cr_tensor_scratch *once = NULL;
  if (stored->source == NULL) return CREMA_OK;
  CR_TRY(cr_tensor_scratch_create(&once));
  cr_tensor_source_set_per_use(stored->source, once);
  cr_tensor_scratch_release(once);
  return CREMA_OK;
}

void cr_net_stored_close(cr_net_stored *stored) {
  cr_tensor_source_release(stored->source);
  cr_stored_net_close(&stored->net);
}
