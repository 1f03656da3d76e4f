#include "device/memory/result.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/memory/block.h"

struct cr_result {
  cr_block block;
  crema_devptr alias;
};

crema_status cr_context_result(crema_context *context, crema_devptr *out) {
  if (context->result == NULL) {
    cr_result *result = calloc(1, sizeof *result);
    if (result == NULL) return cr_fail_memory(sizeof *result, "a result");
    crema_status status =
        cr_block_new_pinned(context->device, sizeof(double), &result->block, &result->alias);
    if (status != CREMA_OK) {
      free(result);
      return status;
    }
    context->result = result;
  }
  *out = context->result->alias;
  return CREMA_OK;
}

crema_status cr_context_read_result(crema_context *context, double *out) {
  const cr_backend *backend = context->device->backend;
  const double *value = (const double *)context->result->block.address;
  CR_TRY(backend->finish(context));
  if (backend->host_access != NULL) backend->host_access(value, sizeof *value, false);
  *out = *value;
  return CREMA_OK;
}

void cr_context_result_free(crema_context *context) {
  if (context->result == NULL) return;
  /* The block is in the report, if any, because no other code frees it. */
  (void)cr_block_free(&context->result->block);
  free(context->result);
  context->result = NULL;
}
