#include "layers/common/layer_host.h"

#include "core/fail.h"
#include "device/device.h"

crema_status cr_host_read(cr_tensor *tensor, cr_host_values *out) {
  const void *values = NULL;
  *out = (cr_host_values){0};
  if (cr_tensor_type(tensor) != CREMA_F64) return cr_tensor_host_read_floats(tensor, &out->narrow);
  CR_TRY(cr_tensor_host_read(tensor, &values));
  out->wide = values;
  return CREMA_OK;
}

crema_status cr_host_write(cr_tensor *tensor, cr_host_results *out) {
  void *values = NULL;
  *out = (cr_host_results){0};
  if (cr_tensor_type(tensor) != CREMA_F64) return cr_tensor_host_write_floats(tensor, &out->narrow);
  CR_TRY(cr_tensor_host_write(tensor, &values));
  out->wide = values;
  return CREMA_OK;
}

crema_status cr_host_update(cr_tensor *tensor, cr_host_values *in, cr_host_results *out) {
  const bool wide = cr_tensor_type(tensor) == CREMA_F64;
  const cr_format format = {wide ? CREMA_F64 : CREMA_F32, NULL};
  crema_devptr data = {0};
  CR_TRY(cr_tensor_update(tensor, cr_host_context(), format, &data));
  void *values = (void *)data.address; /* NOLINT: a host address */
  *out = (cr_host_results){wide ? values : NULL, wide ? NULL : values};
  *in = (cr_host_values){out->wide, out->narrow};
  return CREMA_OK;
}

int cr_host_workers(const crema_context *context, double multiply_adds) {
  return cr_cpu_device()->backend->scheduler->workers(context, multiply_adds);
}

crema_status cr_host_spread(int workers, int64_t count, cr_host_work *work, void *state) {
  return cr_cpu_device()->backend->scheduler->spread(workers, count, work, state);
}
