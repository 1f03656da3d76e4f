/* The transitions of the memory automaton. Each access names a side, host or device:
 *
 *   - UNINITIALIZED: a read or write makes the side, fills it with zeros and makes it the head.
 *   - head at this side: nothing happens.
 *   - head at the other side: a read copies the block here, and the state is SYNCED. A write copies
 *     it too, unless it keeps nothing, and this side is the head.
 *   - SYNCED: a read does nothing. A write makes this side the head.
 *
 * The state changes last, so that a failure leaves the block as it was. Device work is ordered by
 * `gpu.user`, the context that used the device side last: another context follows it before it uses
 * the side. */
#include "memory/syncedmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/timeline.h"
#include "core/verbose.h"
#include "device/backend/order.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "device/memory/heap.h"
#include "device/watch.h"
#include "memory/check.h"

/* Host memory is a device's own memory: both sides are one. */
static bool one_sided(const crema_context *context) {
  return context->device->backend->host_memory;
}

static const char *const head_names[] = {"UNINITIALIZED", "HEAD_AT_CPU", "HEAD_AT_GPU", "SYNCED"};

/* From host to device (`up`) or back; without streams the copy itself, else its submission. */
static void trace_copy(const crema_syncedmem *memory, const crema_context *context, bool up,
                       double begin) {
  cr_timeline_span(0, "copy", up ? "host to device" : "device to host", begin,
                   "\"blob\":\"%s\",\"bytes\":%zu,\"device\":\"%s:%d\"",
                   cr_timeline_text(memory->label).text, memory->size,
                   context->device->backend->name, context->device->index);
}

static void report_state(const crema_syncedmem *memory, crema_head head) {
  cr_verbose_line("state", "%s,%zu,%s,%s", cr_verbose_name(memory->label).text, memory->size,
                  head_names[memory->head], head_names[head]);
}

static void set_head(crema_syncedmem *memory, crema_head head) {
  if (cr_verbose(CR_VERBOSE_REASONS) && memory->head != head) report_state(memory, head);
  if (cr_timeline() && memory->head != head) {
    cr_timeline_instant("state", head_names[head], "\"blob\":\"%s\",\"bytes\":%zu,\"from\":\"%s\"",
                        cr_timeline_text(memory->label).text, memory->size,
                        head_names[memory->head]);
  }
  CR_ASSERT(cr_syncedmem_check(memory, head));
  memory->head = head;
}

/* A copy between the sides. The context's work is done before the time is taken. */
static crema_status report_copy(const crema_syncedmem *memory, crema_context *context, bool up,
                                double begin) {
  char device[32];
  double end;
  CR_TRY(cr_watch_clock(context, &end));
  snprintf(device, sizeof device, "%s:%d", context->device->backend->name, context->device->index);
  cr_verbose_line("copy", "%s,%zu,%s,%s,%.1f", cr_verbose_name(memory->label).text, memory->size,
                  up ? "host" : device, up ? device : "host", (end - begin) * 1e6);
  return CREMA_OK;
}

static void free_host(cr_host_side *side) {
  if (side->own && cr_block_free(&side->block) != CREMA_OK) cr_log_error("%s", crema_error_text());
  *side = (cr_host_side){0};
}

static void free_gpu(cr_device_side *side) {
  side->block.user = side->user;
  if (side->own && side->block.address == 0) {
    cr_device_free_after(side->device, side->data, side->user);
  } else if (cr_block_free(&side->block) != CREMA_OK) {
    cr_log_error("%s", crema_error_text());
  }
  *side = (cr_device_side){0};
}

/* Whether an allocation can be repeated with less: the capacity may come from an earlier, larger
 * size. */
static bool asks_for_less(crema_syncedmem *memory, crema_status status) {
  if (status != CREMA_E_NO_MEMORY || memory->size == memory->capacity) return false;
  memory->capacity = memory->size;
  return true;
}

/* Host memory for `maker`, page-locked if the device supports it. An empty block also has an
 * address. */
static crema_status new_host_block(crema_device *maker, size_t bytes, cr_block *out) {
  const cr_block_options options = {.keep_content = true, .pinned = true};
  return cr_block_new(maker, bytes > 0 ? bytes : 1, &options, out);
}

/* Creates the host side if it does not exist, with undefined content. *made becomes true if it was
 * created. The device that the block or else the thread works with decides whether it is
 * page-locked. */
static crema_status need_host(crema_syncedmem *memory, bool *made) {
  if (memory->host.data != NULL) return CREMA_OK;
  crema_device *maker = memory->device;
  if (maker->backend->host_memory) maker = cr_device_current();
  cr_block block = {0};
  crema_status status = new_host_block(maker, memory->capacity, &block);
  if (asks_for_less(memory, status)) status = new_host_block(maker, memory->capacity, &block);
  if (status != CREMA_OK) {
    return cr_fail_in(status, "allocation of %zu bytes of host memory for %s:%d", memory->capacity,
                      maker->backend->name, maker->index);
  }
  memory->host = (cr_host_side){
      .data = (void *)block.address, .own = true, .block = block, .bytes = memory->capacity};
  *made = true;
  return CREMA_OK;
}

/* As above, for the device side, on the context's device, which owns the block. */
static crema_status need_gpu(crema_syncedmem *memory, crema_context *context, bool *made) {
  if (memory->gpu.data.address != 0) return CREMA_OK;
  crema_devptr data = {0};
  crema_status status = cr_device_alloc_for(context, memory->capacity, &data);
  if (asks_for_less(memory, status)) status = cr_device_alloc_for(context, memory->capacity, &data);
  if (status != CREMA_OK) {
    return cr_fail_in(status, "allocation of %zu bytes on %s:%d", memory->capacity,
                      context->device->backend->name, context->device->index);
  }
  memory->gpu =
      (cr_device_side){.data = data, .own = true, .device = context->device, .user = context->id};
  *made = true;
  return CREMA_OK;
}

/* Orders later work of the context after the work of other contexts on the device side. */
static crema_status use_gpu(crema_syncedmem *memory, crema_context *context) {
  if (memory->gpu.user == context->id) return CREMA_OK;
  crema_status status = cr_context_follow(context, memory->gpu.user);
  if (status != CREMA_OK) {
    return cr_fail_in(status, "ordering the use of %zu bytes on %s:%d", memory->size,
                      context->device->backend->name, context->device->index);
  }
  memory->gpu.user = context->id;
  return CREMA_OK;
}

/* An idle context of the thread: it has finished when the next work has. */
static crema_status idle_context(crema_device *device, crema_context **out) {
  bool busy = false;
  CR_TRY(cr_thread_context(device, 0, out));
  CR_TRY(cr_context_busy(*out, &busy));
  return busy ? cr_thread_context_next(device, out) : CREMA_OK;
}

/* Waits for all work on the device side and copies it to the host side. A failure of that work
 * fails this call too, because its values are invalid. */
static crema_status fetch(crema_syncedmem *memory) {
  crema_context *context = NULL;
  CR_TRY(idle_context(memory->gpu.device, &context));
  CR_TRY(cr_context_follow(context, memory->gpu.user));
  const bool reports = cr_verbose(CR_VERBOSE_REASONS);
  double begin = 0;
  if (reports) CR_TRY(cr_watch_clock(context, &begin));
  const double traced = cr_timeline_now();
  CR_TRY(cr_copy_to_cpu(context, memory->host.data, memory->gpu.data, memory->size));
  CR_TRY(crema_context_finish(context));
  if (traced > 0) trace_copy(memory, context, false, traced);
  if (reports) CR_TRY(report_copy(memory, context, false, begin));
  return cr_context_failure(memory->gpu.device, memory->gpu.user);
}

static crema_status to_host(crema_syncedmem *memory) {
  if (cr_syncedmem_at_host(memory)) return CREMA_OK;
  bool made = false;
  CR_TRY(need_host(memory, &made));
  if (memory->head == CREMA_UNINITIALIZED) {
    memset(memory->host.data, 0, memory->capacity);
    set_head(memory, CREMA_HEAD_AT_CPU);
    return CREMA_OK;
  }
  crema_status status = fetch(memory);
  if (status != CREMA_OK) {
    if (made) free_host(&memory->host);
    return cr_fail_in(status, "copy of %zu bytes from %s:%d to the host", memory->size,
                      memory->gpu.device->backend->name, memory->gpu.device->index);
  }
  set_head(memory, CREMA_SYNCED);
  return CREMA_OK;
}

/* Brings the host's bytes to the device side. With `wait` the host side is free to be changed on
 * return, otherwise only when the context has done the copy. */
static crema_status push(crema_syncedmem *memory, crema_context *context, bool wait) {
  const cr_backend *backend = context->device->backend;
  bool made = false;
  CR_TRY(need_gpu(memory, context, &made));
  crema_status status = use_gpu(memory, context);
  const bool reports = cr_verbose(CR_VERBOSE_REASONS);
  double begin = 0;
  if (status == CREMA_OK && reports) status = cr_watch_clock(context, &begin);
  const double traced = cr_timeline_now();
  if (status == CREMA_OK) {
    status = cr_copy_from_cpu(context, memory->gpu.data, memory->host.data, memory->size);
  }
  if (status == CREMA_OK && traced > 0) trace_copy(memory, context, true, traced);
  if (status == CREMA_OK && reports) status = report_copy(memory, context, true, begin);
  if (status == CREMA_OK && wait) status = crema_context_finish(context);
  if (status != CREMA_OK) {
    if (made) free_gpu(&memory->gpu);
    return cr_fail_in(status, "copy of %zu bytes from the host to %s:%d", memory->size,
                      backend->name, context->device->index);
  }
  set_head(memory, CREMA_SYNCED);
  return CREMA_OK;
}

static crema_status to_gpu(crema_syncedmem *memory, crema_context *context) {
  if (memory->head == CREMA_HEAD_AT_CPU) return push(memory, context, true);
  if (memory->head != CREMA_UNINITIALIZED) return use_gpu(memory, context);
  const cr_backend *backend = context->device->backend;
  bool made = false;
  CR_TRY(need_gpu(memory, context, &made));
  crema_status status = use_gpu(memory, context);
  if (status == CREMA_OK) status = backend->zero(context, memory->gpu.data, memory->capacity);
  if (status != CREMA_OK) {
    if (made) free_gpu(&memory->gpu);
    return cr_fail_in(status, "zero fill of %zu bytes on %s:%d", memory->capacity, backend->name,
                      context->device->index);
  }
  set_head(memory, CREMA_HEAD_AT_GPU);
  return CREMA_OK;
}

/* The host waits for all work on the device side: no event orders streams of two devices. */
static crema_status await_gpu(const crema_syncedmem *memory) {
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(memory->gpu.device, 0, &context));
  CR_TRY(cr_context_follow(context, memory->gpu.user));
  return crema_context_finish(context);
}

static void set_home(crema_syncedmem *memory, crema_device *device) {
  memory->device = device;
  memory->watched = device->backend->host_access != NULL;
}

/* Makes the block belong to the context's device. */
static crema_status move_to(crema_syncedmem *memory, crema_context *context) {
  crema_device *device = context->device, *old = memory->gpu.device;
  if (memory->gpu.data.address == 0 || old == device) {
    set_home(memory, device);
    return CREMA_OK;
  }
  CR_TRY(await_gpu(memory));
  crema_devptr data = {0};
  CR_TRY(cr_device_alloc(device, memory->capacity, &data));
  /* From the host side if it also has the bytes, because that copy is shorter. */
  uintptr_t from =
      cr_syncedmem_at_host(memory) ? (uintptr_t)memory->host.data : memory->gpu.data.address;
  crema_status status = CREMA_OK;
  if (memory->head == CREMA_HEAD_AT_GPU || memory->head == CREMA_SYNCED) {
    status = cr_copy_any(data.address, from, memory->size);
  }
  if (status != CREMA_OK) {
    cr_device_free(device, data);
    return cr_fail_in(status, "move of %zu bytes from %s:%d to %s:%d", memory->size,
                      old->backend->name, old->index, device->backend->name, device->index);
  }
  free_gpu(&memory->gpu);
  memory->gpu = (cr_device_side){.data = data, .own = true, .device = device, .user = context->id};
  set_home(memory, device);
  return CREMA_OK;
}

/* The device that the block belongs to must be the context's. */
static crema_status come_home(crema_syncedmem *memory, crema_context *context) {
  if (memory->device == context->device) return CREMA_OK;
  if (!memory->movable) {
    return cr_fail(CREMA_E_DEVICE, "memory of %s:%d is used on %s:%d",
                   memory->device->backend->name, memory->device->index,
                   context->device->backend->name, context->device->index);
  }
  return move_to(memory, context);
}

static crema_status in_use(void) {
  return cr_fail(CREMA_E_STATE, "a block of memory is used by two threads at once");
}

/* Two threads that move the same block at once would corrupt it, so the second thread gets an
 * error. */
static crema_status begin_move(crema_syncedmem *memory) {
  return atomic_exchange(&memory->moving, true) ? in_use() : CREMA_OK;
}

static void end_move(crema_syncedmem *memory) {
  atomic_store(&memory->moving, false);
}

/* For accesses that move no bytes: another thread may be changing the sides. */
static inline bool is_moving(const crema_syncedmem *memory) {
  return atomic_load_explicit(&memory->moving, memory_order_relaxed);
}

static crema_status read_host(crema_syncedmem *memory) {
  CR_TRY(begin_move(memory));
  crema_status status = to_host(memory);
  end_move(memory);
  return status;
}

static crema_status read_gpu(crema_syncedmem *memory, crema_context *context) {
  CR_TRY(begin_move(memory));
  crema_status status = come_home(memory, context);
  if (status == CREMA_OK) status = to_gpu(memory, context);
  end_move(memory);
  return status;
}

/* Whether the context has used the device side last, which is on its device then. */
static inline bool at_gpu(const crema_syncedmem *memory, const crema_context *context) {
  crema_head head = atomic_load_explicit(&memory->head, memory_order_acquire);
  return (head == CREMA_HEAD_AT_GPU || head == CREMA_SYNCED) &&
         atomic_load_explicit(&memory->gpu.user, memory_order_relaxed) == context->id;
}

static inline void tell_checker(const crema_syncedmem *memory, bool change) {
  if (!memory->watched) return;
  memory->device->backend->host_access(memory->host.data, memory->size, change);
}

bool cr_syncedmem_get(const crema_syncedmem *memory, const crema_context *context,
                      crema_devptr *out) {
  if (one_sided(context)) {
    if (!cr_syncedmem_at_host(memory)) return false;
    tell_checker(memory, false);
    out->address = (uintptr_t)memory->host.data;
    return true;
  }
  if (!at_gpu(memory, context)) return false;
  *out = memory->gpu.data;
  return true;
}

crema_status cr_syncedmem_read(crema_syncedmem *memory, crema_context *context, crema_devptr *out) {
  if (is_moving(memory)) return in_use();
  if (cr_syncedmem_get(memory, context, out)) return CREMA_OK;
  CR_TRY(one_sided(context) ? read_host(memory) : read_gpu(memory, context));
  if (!one_sided(context)) {
    *out = memory->gpu.data;
    return CREMA_OK;
  }
  tell_checker(memory, false);
  out->address = (uintptr_t)memory->host.data;
  return CREMA_OK;
}

static crema_status overwrite_gpu(crema_syncedmem *memory, crema_context *context) {
  CR_TRY(begin_move(memory));
  bool made = false;
  /* The old bytes are not needed, so a move to another device copies nothing. */
  crema_head head = memory->head;
  if (memory->movable && memory->device != context->device) memory->head = CREMA_UNINITIALIZED;
  crema_status status = come_home(memory, context);
  if (status == CREMA_OK) status = need_gpu(memory, context, &made);
  if (status == CREMA_OK) status = use_gpu(memory, context);
  if (status == CREMA_OK) set_head(memory, CREMA_HEAD_AT_GPU);
  else memory->head = head;
  end_move(memory);
  return status;
}

crema_status cr_syncedmem_overwrite(crema_syncedmem *memory, crema_context *context,
                                    crema_devptr *out) {
  if (is_moving(memory)) return in_use();
  if (one_sided(context)) {
    if (memory->host.data == NULL) {
      bool made = false;
      CR_TRY(begin_move(memory));
      crema_status status = need_host(memory, &made);
      end_move(memory);
      CR_TRY(status);
    }
    tell_checker(memory, true);
    set_head(memory, CREMA_HEAD_AT_CPU);
    out->address = (uintptr_t)memory->host.data;
    return CREMA_OK;
  }
  if (!at_gpu(memory, context)) CR_TRY(overwrite_gpu(memory, context));
  set_head(memory, CREMA_HEAD_AT_GPU);
  *out = memory->gpu.data;
  return CREMA_OK;
}

crema_status cr_syncedmem_write(crema_syncedmem *memory, crema_context *context, bool keep,
                                crema_devptr *out) {
  if (!keep && memory->head != CREMA_UNINITIALIZED) {
    return cr_syncedmem_overwrite(memory, context, out);
  }
  CR_TRY(cr_syncedmem_read(memory, context, out));
  if (one_sided(context)) tell_checker(memory, true);
  set_head(memory, one_sided(context) ? CREMA_HEAD_AT_CPU : CREMA_HEAD_AT_GPU);
  return CREMA_OK;
}

crema_status cr_syncedmem_zero(crema_syncedmem *memory, crema_context *context) {
  crema_devptr data = {0};
  /* A block that moves to another device takes its bytes along. If the fill fails, they are still
   * the newest. */
  bool moves = memory->gpu.data.address != 0 && memory->gpu.device != context->device;
  if (moves && !one_sided(context)) CR_TRY(cr_syncedmem_read(memory, context, &data));
  crema_head before = memory->head;
  CR_TRY(cr_syncedmem_overwrite(memory, context, &data));
  crema_status status = context->device->backend->zero(context, data, memory->size);
  if (status != CREMA_OK) set_head(memory, before);
  return status;
}

void cr_syncedmem_init(crema_syncedmem *memory, crema_device *device, size_t size) {
  *memory = (crema_syncedmem){.device = device,
                              .movable = true,
                              .watched = device->backend->host_access != NULL,
                              .size = size,
                              .capacity = size,
                              .moving = false};
}

void cr_syncedmem_clear(crema_syncedmem *memory) {
  free_gpu(&memory->gpu);
  free_host(&memory->host);
  set_head(memory, CREMA_UNINITIALIZED);
}

void cr_syncedmem_from_heap(crema_syncedmem *memory, crema_context *context) {
  cr_block block = {0};
  const bool host = one_sided(context);
  const bool has = host ? memory->host.data != NULL : memory->gpu.data.address != 0;
  if (has || (!host && memory->device != context->device && !memory->movable)) return;
  if (!cr_heap_take(context, memory->capacity, &block)) return;
  if (host) {
    memory->host = (cr_host_side){
        .data = (void *)block.address, .own = true, .block = block, .bytes = block.bytes};
  } else {
    set_home(memory, context->device);
    memory->gpu = (cr_device_side){.data.address = block.address,
                                   .own = true,
                                   .device = context->device,
                                   .block = block,
                                   .user = context->id};
  }
}

void cr_syncedmem_resize(crema_syncedmem *memory, size_t size) {
  /* A block without memory, which was never used or found no memory, has nothing to keep. */
  bool empty = memory->host.data == NULL && memory->gpu.data.address == 0;
  if (size > memory->capacity || empty) {
    cr_syncedmem_clear(memory);
    memory->capacity = size;
  }
  memory->size = size;
}

crema_status crema_syncedmem_create(crema_device *device, size_t size, crema_syncedmem **out) {
  CR_REQUIRE(device);
  CR_REQUIRE(out);
  crema_syncedmem *memory = malloc(sizeof *memory);
  if (memory == NULL) return cr_fail_memory(sizeof *memory, "syncedmem");
  cr_syncedmem_init(memory, device, size);
  memory->movable = false;
  *out = memory;
  return CREMA_OK;
}

void crema_syncedmem_destroy(crema_syncedmem *memory) {
  if (memory == NULL) return;
  cr_syncedmem_clear(memory);
  free(memory);
}

crema_head crema_syncedmem_head(const crema_syncedmem *memory) {
  if (memory == NULL) return CREMA_UNINITIALIZED;
  return memory->head;
}

size_t crema_syncedmem_size(const crema_syncedmem *memory) {
  if (memory == NULL) return 0;
  return memory->size;
}

crema_status crema_syncedmem_cpu_data(crema_syncedmem *memory, const void **out) {
  CR_REQUIRE(memory);
  CR_REQUIRE(out);
  if (is_moving(memory)) return in_use();
  if (!cr_syncedmem_at_host(memory)) CR_TRY(read_host(memory));
  tell_checker(memory, false);
  *out = memory->host.data;
  return CREMA_OK;
}

/* Where there are no devices there is no context either. */
static crema_status need_context(const crema_context *context) {
  if (context != NULL) return CREMA_OK;
  return cr_fail(CREMA_E_NO_DEVICE,
                 "no device support: memory is used on a device without a context");
}

crema_status crema_syncedmem_gpu_data(crema_syncedmem *memory, crema_context *context,
                                      crema_devptr *out) {
  CR_REQUIRE(memory);
  CR_REQUIRE(out);
  CR_TRY(need_context(context));
  return cr_syncedmem_read(memory, context, out);
}

crema_status crema_syncedmem_mutable_cpu_data(crema_syncedmem *memory, bool keep, void **out) {
  CR_REQUIRE(memory);
  CR_REQUIRE(out);
  crema_devptr data = {0};
  CR_TRY(cr_syncedmem_write(memory, cr_host_context(), keep, &data));
  *out = (void *)data.address;
  return CREMA_OK;
}

crema_status crema_syncedmem_mutable_gpu_data(crema_syncedmem *memory, crema_context *context,
                                              bool keep, crema_devptr *out) {
  CR_REQUIRE(memory);
  CR_REQUIRE(out);
  CR_TRY(need_context(context));
  return cr_syncedmem_write(memory, context, keep, out);
}

crema_status crema_syncedmem_set_cpu_data(crema_syncedmem *memory, void *data) {
  CR_REQUIRE(memory);
  CR_REQUIRE(data);
  CR_TRY(begin_move(memory));
  free_host(&memory->host);
  memory->host = (cr_host_side){.data = data};
  set_head(memory, CREMA_HEAD_AT_CPU);
  end_move(memory);
  return CREMA_OK;
}

crema_status cr_syncedmem_adopt(crema_syncedmem *memory, crema_device *device, crema_devptr data) {
  if (data.address == 0) return cr_fail(CREMA_E_ARGUMENT, "set_gpu_data: no memory given");
  if (device->backend->host_memory) {
    return crema_syncedmem_set_cpu_data(memory, (void *)data.address);
  }
  CR_TRY(begin_move(memory));
  /* A push that is not done still reads the host side. Work that follows on the same device is
   * ordered after it; on another device it could not be. */
  bool moves = memory->gpu.data.address != 0 && memory->gpu.device != device;
  crema_status status = moves ? await_gpu(memory) : CREMA_OK;
  if (status == CREMA_OK) {
    uint64_t user = moves ? 0 : memory->gpu.user;
    free_gpu(&memory->gpu);
    set_home(memory, device);
    memory->gpu = (cr_device_side){.data = data, .device = device, .user = user};
    set_head(memory, CREMA_HEAD_AT_GPU);
  }
  end_move(memory);
  return status;
}

crema_status cr_syncedmem_adopt_both(crema_syncedmem *memory, crema_device *device,
                                     crema_devptr data, void *host) {
  if (host == NULL) return cr_fail(CREMA_E_ARGUMENT, "no host memory given");
  CR_TRY(cr_syncedmem_adopt(memory, device, data));
  free_host(&memory->host);
  memory->host = (cr_host_side){.data = host};
  set_head(memory, CREMA_SYNCED);
  return CREMA_OK;
}

crema_status crema_syncedmem_set_gpu_data(crema_syncedmem *memory, crema_devptr data) {
  CR_REQUIRE(memory);
  return cr_syncedmem_adopt(memory, memory->device, data);
}

crema_status crema_syncedmem_async_push(crema_syncedmem *memory, crema_context *context) {
  CR_REQUIRE(memory);
  CR_TRY(need_context(context));
  if (memory->head != CREMA_HEAD_AT_CPU) {
    return cr_fail(CREMA_E_STATE, "async push needs the newest bytes on the host");
  }
  if (one_sided(context)) return CREMA_OK;
  CR_TRY(begin_move(memory));
  crema_status status = come_home(memory, context);
  if (status == CREMA_OK) status = push(memory, context, false);
  end_move(memory);
  return status;
}
