/* Short ways to tensors in tests. */
#ifndef CR_TESTS_MEMORY_TENSOR_HELP_H
#define CR_TESTS_MEMORY_TENSOR_HELP_H

#include "device/device.h"
#include "memory/tensor.h"

/* Bytes of all formats on all sides. */
static inline size_t bytes_of_tensor(const cr_tensor *tensor) {
  cr_tensor_memory memory = cr_tensor_memory_of(tensor);
  return memory.host + memory.device;
}

/* The values on the host, to be changed, in the plain format of the tensor's own type. */
static inline crema_status update_on_host(cr_tensor *tensor, void **out) {
  crema_devptr data = {0};
  cr_format plain = {cr_tensor_type(tensor), NULL};
  crema_status status = cr_tensor_update(tensor, cr_host_context(), plain, &data);
  *out = (void *)data.address;
  return status;
}

#endif
