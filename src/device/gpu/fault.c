/* The faults of kernels, as errors. */
#include <inttypes.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/launch.h"

crema_status cr_gpu_fault_take(cr_gpu_fault *fault) {
  cr_gpu_fault found = {.what = __atomic_load_n(&fault->what, __ATOMIC_ACQUIRE)};
  if (found.what == 0) return CREMA_OK;
  found = (cr_gpu_fault){found.what, fault->count, fault->limit, fault->kind};
  fault->what = 0;
  const uint32_t bits = (uint32_t)(found.what >> 32);
  float value;
  memcpy(&value, &bits, sizeof value);
  const unsigned position = (unsigned)found.what - 1;
  switch ((cr_gpu_fault_kind)found.kind) {
    case CR_GPU_FAULT_REGION:
      return cr_fail(CREMA_E_RANGE, "region %u is of image %g, and there are %" PRId64, position,
                     (double)value, found.limit);
    case CR_GPU_FAULT_SIDE:
      return cr_fail(CREMA_E_RANGE, "region %u has a side at %g", position, (double)value);
    case CR_GPU_FAULT_SAMPLES:
      return cr_fail(CREMA_E_RANGE, "region %u would take %g samples along a side of each value",
                     position, (double)value);
    case CR_GPU_FAULT_LABEL:
      return cr_fail(CREMA_E_RANGE,
                     "label %g at position %u of %" PRId64 " is outside 0..%" PRId64
                     ": labels start at 0, and the scores have %" PRId64 " classes (num_output)",
                     (double)value, position, found.count, found.limit - 1, found.limit);
    case CR_GPU_FAULT_INDEX: break;
  }
  return cr_fail(CREMA_E_RANGE, "index %g at position %u of %" PRId64 " is outside 0..%" PRId64,
                 (double)value, position, found.count, found.limit - 1);
}
