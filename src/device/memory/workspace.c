#include "device/memory/workspace.h"

#include "core/fail.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"

enum { ROUNDING = 256, TWO_PAGES = 2 * 4096 };

static crema_status free_memory(crema_device *device, size_t *free_bytes, size_t *total_bytes) {
  if (device->pool != NULL) return cr_pool_memory(device->pool, true, free_bytes, total_bytes);
  crema_device_info info = {0};
  CR_TRY(device->backend->describe(device, &info));
  *free_bytes = info.memory_free;
  *total_bytes = info.memory_total;
  return CREMA_OK;
}

void cr_workspace_release(cr_workspace *workspace) {
  cr_device_free(workspace->device, workspace->memory);
  workspace->memory = (crema_devptr){0};
  workspace->bytes = 0;
}

crema_status cr_workspace_reserve(cr_workspace *workspace, size_t bytes) {
  if (bytes <= workspace->bytes) return CREMA_OK;
  cr_workspace_release(workspace);
  CR_TRY(cr_device_alloc(workspace->device, bytes, &workspace->memory));
  workspace->bytes = bytes;
  return CREMA_OK;
}

crema_status cr_workspace_reserve_safely(cr_workspace *workspace, size_t bytes) {
  const size_t before = workspace->bytes;
  if (bytes <= before) return CREMA_OK;
  size_t free_bytes = 0, total_bytes = 0;
  CR_TRY(free_memory(workspace->device, &free_bytes, &total_bytes));
  const size_t most = before + free_bytes / ROUNDING * ROUNDING;
  if (bytes > most) {
    return cr_fail(CREMA_E_NO_MEMORY,
                   "a workspace of %zu bytes does not fit; at most %zu bytes do, and %zu are kept",
                   bytes, most, before);
  }
  crema_status status = cr_workspace_reserve(workspace, bytes);
  if (status == CREMA_OK || before == 0) return status;
  /* The estimate was wrong; memory of the size before fits again. */
  status = cr_fail_in(status, "a workspace of %zu bytes", bytes);
  crema_status again = cr_workspace_reserve(workspace, before);
  return again == CREMA_OK ? status : again;
}

crema_status cr_workspace_budget(const cr_workspace *workspace, size_t reserved, int users,
                                 size_t *out) {
  if (users < 1) return cr_fail(CREMA_E_RANGE, "%d users of a workspace", users);
  size_t free_bytes = 0, total_bytes = 0;
  CR_TRY(free_memory(workspace->device, &free_bytes, &total_bytes));
  size_t most = free_bytes + workspace->bytes;
  if (most > total_bytes / 2) most = total_bytes / 2;
  size_t taken = reserved + TWO_PAGES;
  *out = most > taken ? (most - taken) / (size_t)users / ROUNDING * ROUNDING : 0;
  return CREMA_OK;
}
