/* The CPU as a device: its memory is host memory, its streams and events are always done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/system.h"
#include "device/backend/convert.h"
#include "device/backend/copy_check.h"
#include "device/cpu/cpu.h"
#include "device/cpu/onednn/layout.h"
#include "device/cpu/onednn/ready.h"
#include "device/cpu/threads/threads.h"
#include "device/memory/host_memory.h"

static crema_status cpu_count(int *out) {
  *out = 1;
  return CREMA_OK;
}

static crema_status cpu_open(crema_device *device) {
  (void)device;
  return CREMA_OK;
}

static void cpu_close(crema_device *device) {
  (void)device;
}

/* The processor's name as the system reports it; unchanged when it does not. */
static void read_processor_name(char *name, size_t size) {
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (file == NULL) return;
  char line[512];
  while (fgets(line, sizeof line, file) != NULL) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || colon == NULL) continue;
    colon += strspn(colon, ": \t");
    colon[strcspn(colon, "\n")] = '\0';
    snprintf(name, size, "%s", colon);
    break;
  }
  fclose(file);
}

static crema_status cpu_describe(crema_device *device, crema_device_info *out) {
  (void)device;
  snprintf(out->name, sizeof out->name, "CPU");
  read_processor_name(out->name, sizeof out->name);
  cr_dnnl_describe(out->library, sizeof out->library);
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  out->memory_total = (size_t)sysconf(_SC_PHYS_PAGES) * page;
  out->memory_free = cr_system_free_memory();
  out->compute_units = (int)sysconf(_SC_NPROCESSORS_ONLN);
  return CREMA_OK;
}

static crema_status cpu_host_alloc(crema_device *device, size_t bytes, void **out) {
  (void)device;
  return cr_host_alloc(bytes, out);
}

static void cpu_host_free(crema_device *device, void *memory) {
  (void)device;
  cr_host_free(memory);
}

static crema_status cpu_alloc(crema_device *device, size_t bytes, crema_devptr *out) {
  (void)device;
  void *memory = NULL;
  CR_TRY(cr_host_alloc(bytes, &memory));
  out->address = (uintptr_t)memory;
  return CREMA_OK;
}

static void cpu_free(crema_device *device, crema_devptr memory) {
  (void)device;
  cr_host_free((void *)memory.address);
}

static crema_status cpu_context_open(crema_context *context) {
  context->state = NULL;
  return CREMA_OK;
}

static void cpu_context_close(crema_context *context) {
  (void)context;
}

static crema_status cpu_finish(crema_context *context) {
  (void)context;
  return CREMA_OK;
}

static crema_status cpu_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst,
                             uintptr_t src, size_t bytes) {
  (void)context;
  (void)kind; /* every address is a host address */
  if (bytes == 0 || dst == src) return CREMA_OK;
  CR_TRY(cr_copy_check(dst, src, bytes));
  memcpy((void *)dst, (const void *)src, bytes);
  return CREMA_OK;
}

static crema_status cpu_zero(crema_context *context, crema_devptr memory, size_t bytes) {
  (void)context;
  if (bytes > 0) memset((void *)memory.address, 0, bytes);
  return CREMA_OK;
}

static crema_status cpu_convert(crema_context *context, int64_t count, cr_format dst_format,
                                crema_devptr dst, cr_format src_format, crema_devptr src) {
  bool plain = dst_format.layout == NULL && src_format.layout == NULL;
  int before = cr_cpu_enter_move(context, count);
  crema_status status = plain ? cr_convert_plain(count, dst_format.type, (void *)dst.address,
                                                 src_format.type, (const void *)src.address)
                              : cr_dnnl_convert(context, count, dst_format, dst, src_format, src);
  cr_cpu_leave(before);
  return status;
}

/* Work is complete when the call that submits it returns, so an event only needs to exist. */
struct cr_native_event {
  crema_device *device;
};

static crema_status cpu_event_create(crema_device *device, cr_native_event **out) {
  cr_native_event *event = malloc(sizeof *event);
  if (event == NULL) return cr_fail_memory(sizeof *event, "an event");
  event->device = device;
  *out = event;
  return CREMA_OK;
}

static void cpu_event_destroy(cr_native_event *event) {
  free(event);
}

static crema_status cpu_event_pass(crema_context *context, cr_native_event *event) {
  (void)context;
  (void)event;
  return CREMA_OK;
}

static crema_status cpu_event_query(cr_native_event *event, bool *done) {
  (void)event;
  *done = true;
  return CREMA_OK;
}

static crema_status cpu_event_finish(cr_native_event *event) {
  (void)event;
  return CREMA_OK;
}

static bool cpu_is_fast(crema_dtype type) {
  return type == CREMA_BF16 ? cr_dnnl_has_bf16() : type == CREMA_I8 && cr_dnnl_has_int8();
}

static const cr_host_scheduler scheduler = {
    .threads = cr_cpu_threads_of,
    .enter_plan = cr_cpu_enter_plan,
    .enter_run = cr_cpu_enter_run,
    .leave = cr_cpu_leave,
    .workers = cr_cpu_workers,
    .spread = cr_cpu_spread,
};

const cr_backend cr_backend_cpu = {
    .type = CREMA_DEVICE_CPU,
    .name = "cpu",
    .host_memory = true,
    .count = cpu_count,
    .open = cpu_open,
    .close = cpu_close,
    .describe = cpu_describe,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .host_alloc = cpu_host_alloc,
    .host_free = cpu_host_free,
    .context_open = cpu_context_open,
    .context_close = cpu_context_close,
    .finish = cpu_finish,
    .copy = cpu_copy,
    .zero = cpu_zero,
    .convert = cpu_convert,
    .same_order = cr_dnnl_layout_in,
    .part = cr_dnnl_part,
    .enlarge = cr_dnnl_enlarge,
    .layout_text = cr_dnnl_layout_text,
    .event_create = cpu_event_create,
    .event_destroy = cpu_event_destroy,
    .event_record = cpu_event_pass,
    .event_wait = cpu_event_pass,
    .event_query = cpu_event_query,
    .event_finish = cpu_event_finish,
    .ready = cr_cpu_ready,
    .scheduler = &scheduler,
    .is_fast = cpu_is_fast,
    .kernels = cr_cpu_kernels,
};

crema_device *cr_cpu_device(void) {
  /* Opening needs no memory and cannot fail, so that host code always has a device. */
  static crema_device cpu = {.backend = &cr_backend_cpu, .lock = PTHREAD_MUTEX_INITIALIZER};
  return &cpu;
}
