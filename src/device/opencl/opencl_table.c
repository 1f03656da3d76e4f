/* The table of OpenCL devices. */
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "device/gpu/convert.h"
#include "device/gpu/rows.h"
#include "device/opencl/opencl_product.h"

static crema_status opencl_count(int *out) {
  cr_opencl_device *devices = NULL;
  const crema_status status = cr_opencl_devices(&devices, out);
  return status == CREMA_E_UNSUPPORTED ? cr_fail(CREMA_E_NO_DEVICE, "%s", crema_error_text())
                                       : status;
}

static crema_status opencl_describe(crema_device *device, crema_device_info *out) {
  const cr_opencl_device *own = cr_opencl_of(device);
  char platform[64] = "";
  (void)cr_cl.clGetPlatformInfo(own->platform, CL_PLATFORM_NAME, sizeof platform, platform, NULL);
  snprintf(out->name, sizeof out->name, "%.*s", (int)sizeof out->name - 1, own->name);
  snprintf(out->library, sizeof out->library, "%.10s, %.40s, driver %.24s%s, %s", own->version,
           platform, own->driver, own->has_double ? "" : ", no double precision",
           cr_opencl_clblast() != NULL ? "CLBlast" : "own products");
  out->compute_units = own->units;
  return cr_opencl_memory_info(device, &out->memory_free, &out->memory_total);
}

/* OpenCL has no current device. */
static crema_status opencl_set_current(crema_device *device) {
  (void)device;
  return CREMA_OK;
}

crema_status cr_gpu_enter(const crema_device *device, int *before) {
  (void)device;
  *before = -1;
  return CREMA_OK;
}

void cr_gpu_leave(int before) {
  (void)before;
}

/* Buffers belong to all devices of a platform. */
static bool opencl_can_access_peer(crema_device *device, crema_device *peer) {
  return device->index != peer->index &&
         cr_opencl_of(device)->context == cr_opencl_of(peer)->context;
}

static bool opencl_same_board(crema_device *device, crema_device *peer) {
  (void)device;
  (void)peer;
  return false;
}

static crema_status opencl_enable_peer(crema_device *device, crema_device *peer) {
  (void)device;
  (void)peer;
  return CREMA_OK;
}

#define ENTRY(name) &cr_##name.kernel,
static const cr_kernel *const kernels[] = {CR_OPENCL_ROWS(ENTRY) CR_GPU_ROWS(ENTRY) NULL};

const cr_backend cr_gpu_backend = {
    .type = CREMA_DEVICE_OPENCL,
    .name = "opencl",
    .host_memory = false,
    .count = opencl_count,
    .open = cr_opencl_device_open,
    .close = cr_opencl_device_close,
    .describe = opencl_describe,
    .alloc = cr_opencl_alloc,
    .free = cr_opencl_free,
    .host_alloc = cr_opencl_host_alloc,
    .host_free = cr_opencl_host_free,
    .context_open = cr_opencl_context_open,
    .context_close = cr_opencl_context_close,
    .finish = cr_opencl_finish,
    .failure = cr_opencl_failure,
    .copy = cr_opencl_copy,
    .zero = cr_opencl_zero,
    .convert = cr_gpu_convert,
    .event_create = cr_opencl_event_create,
    .event_destroy = cr_opencl_event_destroy,
    .event_record = cr_opencl_event_record,
    .event_wait = cr_opencl_event_wait,
    .event_query = cr_opencl_event_query,
    .event_finish = cr_opencl_event_finish,
    .host_alias = cr_opencl_host_alias,
    .memory_info = cr_opencl_memory_info,
    .busy = cr_opencl_busy,
    .owner = cr_opencl_owner,
    .set_current = opencl_set_current,
    .enter_device = cr_gpu_enter,
    .leave_device = cr_gpu_leave,
    .can_access_peer = opencl_can_access_peer,
    .same_board = opencl_same_board,
    .enable_peer = opencl_enable_peer,
    .kernels = kernels,
};
