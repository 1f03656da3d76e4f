#include "device/memory/workspace.h"

#include "core/fail.h"
#include "device/memory/device_memory.h"
#include "device/memory/pool.h"
#include "device/memory/scratchpad.h"

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

crema_status cr_workspace_reserve_safely(cr_workspace *workspace, size_t bytes, bool *grown) {
  *grown = false;
  if (bytes <= workspace->bytes) return CREMA_OK;
  size_t free_bytes = 0, total_bytes = 0;
  CR_TRY(free_memory(workspace->device, &free_bytes, &total_bytes));
  size_t most = workspace->bytes + free_bytes / ROUNDING * ROUNDING;
  if (bytes > most) {
    return cr_fail(CREMA_E_NO_MEMORY,
                   "a workspace of %zu bytes does not fit; at most %zu bytes do, and %zu are kept",
                   bytes, most, workspace->bytes);
  }
  size_t before = workspace->bytes;
  crema_status status = cr_workspace_reserve(workspace, bytes);
  *grown = status == CREMA_OK;
  if (status != CREMA_OK && before > 0) {
    /* The estimate was wrong; memory of the size before fits again. */
    status = cr_fail_in(status, "a workspace of %zu bytes", bytes);
    crema_status again = cr_workspace_reserve(workspace, before);
    if (again != CREMA_OK) return again;
  }
  return status;
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

/* ---- searching for algorithms ---- */

crema_status cr_workspace_reserve_search(cr_workspace *workspace, size_t reserved, int users) {
  size_t bytes = 0;
  CR_TRY(cr_workspace_budget(workspace, reserved, users, &bytes));
  crema_status status = CREMA_E_NO_MEMORY;
  for (; bytes > 0 && status == CREMA_E_NO_MEMORY; bytes = bytes / 2 / ROUNDING * ROUNDING) {
    bool grown = false;
    status = cr_workspace_reserve_safely(workspace, bytes, &grown);
  }
  if (status == CREMA_E_NO_MEMORY) return cr_fail_in(status, "search for algorithms");
  return status;
}

crema_status cr_workspace_choose(cr_workspace *workspace, const cr_algorithm *table, int count,
                                 int *id) {
  const cr_algorithm *best = NULL;
  for (int i = 0; i < count; ++i) {
    const cr_algorithm *a = &table[i];
    if (a->bytes > workspace->bytes) continue;
    bool better = best == NULL || a->seconds < best->seconds ||
                  (a->seconds <= best->seconds && a->bytes < best->bytes);
    if (better) best = a;
  }
  if (best == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "none of %d algorithms works with %zu bytes", count,
                   workspace->bytes);
  }
  if (best->bytes > workspace->needed) workspace->needed = best->bytes;
  *id = best->id;
  return CREMA_OK;
}

crema_status cr_context_choose(crema_context *context, const cr_algorithm *table, int count,
                               int *id) {
  cr_workspace w = {.device = context->device,
                    .bytes = cr_device_scratchpad_bytes(context->device)};
  CR_TRY(cr_workspace_budget(&w, 0, 1, &w.bytes));
  crema_devptr memory = {0};
  for (;;) {
    int best = 0;
    w.needed = 0;
    CR_TRY(cr_workspace_choose(&w, table, count, &best));
    const crema_status status = cr_context_workspace(context, w.needed, &memory);
    if (status == CREMA_OK) *id = best;
    if (status != CREMA_E_NO_MEMORY) return status;
    w.bytes = w.needed - 1;
  }
}

crema_status cr_workspace_end_backward(cr_workspace *workspace) {
  enum { PASSES = 2 };
  if (workspace->passes < PASSES) ++workspace->passes;
  if (workspace->passes < PASSES || workspace->bytes <= workspace->needed) return CREMA_OK;
  cr_workspace_release(workspace);
  return cr_workspace_reserve(workspace, workspace->needed);
}
