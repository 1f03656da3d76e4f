/* The work of a stream that is not a kernel: copies over a link, zero fills, conversions. */
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "device/backend/copy_check.h"
#include "device/sim/sim_world.h"

/* The last part of a wait is spun: the system wakes a sleeper too late. */
#define SPIN_SECONDS 1e-4

enum { TO_DEVICE, FROM_DEVICE };

static double later(double a, double b) {
  return a > b ? a : b;
}

/* Reserves the copy's links, to the host or between two peers, which carry one copy per direction
 * at a time. Returns when the copy is over; 0: it uses no link. */
static double reserve_links(sim_stream *stream, const sim_task *task) {
  const cr_sim_options *options = &cr_sim_world.options;
  const int from = task->u.copy.from, to = task->u.copy.to;
  const bool peers = task->op == CR_SIM_PEER && from >= 0 && to >= 0 && from != to;
  if (!peers && task->op != CR_SIM_H2D && task->op != CR_SIM_D2H) return 0;
  const double bandwidth = peers ? options->peer_bandwidth : options->bandwidth;
  double seconds = peers ? options->peer_latency : options->latency;
  if (bandwidth > 0) seconds += (double)task->u.copy.bytes / bandwidth;
  double *out = &stream->device->link_free[task->op == CR_SIM_D2H ? FROM_DEVICE : TO_DEVICE];
  double *in = out;
  if (peers) {
    out = &cr_sim_world.device[from].peer_link_free[FROM_DEVICE];
    in = &cr_sim_world.device[to].peer_link_free[TO_DEVICE];
  }
  double now = cr_clock_seconds();
  sim_lock();
  const double end = later(now, later(*out, *in)) + seconds;
  *out = *in = end;
  sim_unlock();
  return end;
}

static crema_status run_copy(sim_stream *stream, sim_task *task) {
  double end = reserve_links(stream, task);
  if (task->u.copy.checked &&
      cr_sim_checksum(task->u.copy.src, task->u.copy.bytes) != task->u.copy.checksum) {
    sim_lock();
    cr_sim_report_race("the host changed memory before its copy was done",
                       (uintptr_t)task->u.copy.src);
    sim_unlock();
  }
  const size_t omitted = cr_sim_world.mistake == CR_SIM_COPIES_SHORT ? 1 : 0;
  memcpy(task->u.copy.dst, task->u.copy.src, task->u.copy.bytes - omitted);
  const double left = end - cr_clock_seconds();
  if (left > SPIN_SECONDS) cr_clock_sleep(left - SPIN_SECONDS);
  while (cr_clock_seconds() < end) {
  }
  return CREMA_OK;
}

static crema_status run_zero(sim_stream *stream, sim_task *task) {
  (void)stream;
  if (cr_sim_world.mistake == CR_SIM_FORGETS_ZEROS) return CREMA_OK;
  memset(task->u.copy.dst, 0, task->u.copy.bytes);
  return CREMA_OK;
}

static crema_status run_convert(sim_stream *stream, sim_task *task) {
  return stream->cpu.device->backend->convert(&stream->cpu, task->u.convert.count,
                                              task->u.convert.dst_format, task->u.convert.dst,
                                              task->u.convert.src_format, task->u.convert.src);
}

static cr_sim_op op_of(cr_copy_kind kind) {
  switch (kind) {
    case CR_COPY_HOST_TO_DEVICE: return CR_SIM_H2D;
    case CR_COPY_DEVICE_TO_HOST: return CR_SIM_D2H;
    case CR_COPY_SAME_DEVICE: return CR_SIM_D2D;
    case CR_COPY_PEER: return CR_SIM_PEER;
  }
  return CR_SIM_D2D;
}

/* The host address of one end of a copy; records the access. With the lock held. */
static crema_status resolve(sim_stream *stream, bool on_device, uintptr_t address, size_t bytes,
                            bool write, char **out) {
  if (!on_device) {
    if (cr_sim_owner(address) >= 0) {
      return cr_fail(CREMA_E_ARGUMENT, "%#zx is an address of sim:%d, not of the host",
                     (size_t)address, cr_sim_owner(address));
    }
    *out = (char *)address;
  } else {
    *out = cr_sim_bytes_of(address, bytes);
    if (*out == NULL) {
      return cr_fail(CREMA_E_DEVICE, "sim:%d has no memory in use at %#zx for %zu bytes",
                     stream->device->index, (size_t)address, bytes);
    }
  }
  cr_sim_note_access(stream, address, bytes, write, !on_device);
  return CREMA_OK;
}

/* Whether the stream's device reaches the other end of a copy between peers. */
static crema_status check_peer(const sim_stream *stream, int peer) {
  if (peer < 0 || peer == stream->device->index || stream->device->peer_on[peer]) return CREMA_OK;
  return cr_fail(CREMA_E_DEVICE, "sim:%d has no access to sim:%d", stream->device->index, peer);
}

crema_status cr_sim_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                         size_t bytes) {
  if (bytes == 0 || dst == src) return CREMA_OK;
  CR_TRY(cr_copy_check(dst, src, bytes));
  sim_stream *stream = cr_sim_stream(context);
  sim_task task = {.kind = SIM_TASK_COPY, .run = run_copy, .op = op_of(kind)};
  char *to = NULL, *from = NULL;
  sim_lock();
  crema_status status = cr_sim_note(&(cr_sim_record){.op = task.op,
                                                     .device = stream->device->index,
                                                     .stream = context->id,
                                                     .bytes = bytes,
                                                     .dst = dst,
                                                     .src = src},
                                    &task.fault);
  if (kind == CR_COPY_PEER) {
    task.u.copy.from = cr_sim_owner(src);
    task.u.copy.to = cr_sim_owner(dst);
    if (status == CREMA_OK) status = check_peer(stream, task.u.copy.from);
    if (status == CREMA_OK) status = check_peer(stream, task.u.copy.to);
  }
  /* Memory that a stream has yet to write is not for the host to change. */
  const bool checked = cr_sim_world.options.check_races && kind == CR_COPY_HOST_TO_DEVICE &&
                       !cr_sim_is_written(src, bytes);
  if (status == CREMA_OK) {
    status = resolve(stream, kind != CR_COPY_HOST_TO_DEVICE, src, bytes, false, &from);
  }
  if (status == CREMA_OK) {
    status = resolve(stream, kind != CR_COPY_DEVICE_TO_HOST, dst, bytes, true, &to);
  }
  if (status == CREMA_OK) {
    task.u.copy.dst = to;
    task.u.copy.src = from;
    task.u.copy.bytes = bytes;
    task.u.copy.checked = checked;
    if (task.u.copy.checked) task.u.copy.checksum = cr_sim_checksum(from, bytes);
    status = cr_sim_submit(stream, &task);
  }
  sim_unlock();
  return status;
}

crema_status cr_sim_zero(crema_context *context, crema_devptr memory, size_t bytes) {
  if (bytes == 0) return CREMA_OK;
  sim_stream *stream = cr_sim_stream(context);
  sim_task task = {.kind = SIM_TASK_ZERO, .run = run_zero, .op = CR_SIM_ZERO};
  sim_lock();
  crema_status status = cr_sim_note(&(cr_sim_record){.op = CR_SIM_ZERO,
                                                     .device = stream->device->index,
                                                     .stream = context->id,
                                                     .bytes = bytes,
                                                     .dst = memory.address},
                                    &task.fault);
  if (status == CREMA_OK) {
    status = resolve(stream, true, memory.address, bytes, true, &task.u.copy.dst);
  }
  task.u.copy.bytes = bytes;
  if (status == CREMA_OK) status = cr_sim_submit(stream, &task);
  sim_unlock();
  return status;
}

static size_t format_bytes(int64_t count, cr_format format) {
  return format.layout != NULL ? format.layout->bytes
                               : (size_t)count * crema_dtype_size(format.type);
}

crema_status cr_sim_convert(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src) {
  if (count == 0) return CREMA_OK;
  sim_stream *stream = cr_sim_stream(context);
  sim_task task = {.kind = SIM_TASK_CONVERT, .run = run_convert, .op = CR_SIM_CONVERT};
  char *to = NULL, *from = NULL;
  sim_lock();
  crema_status status = cr_sim_note(&(cr_sim_record){.op = CR_SIM_CONVERT,
                                                     .device = stream->device->index,
                                                     .stream = context->id,
                                                     .bytes = format_bytes(count, dst_format),
                                                     .dst = dst.address,
                                                     .src = src.address},
                                    &task.fault);
  if (status == CREMA_OK) {
    status = resolve(stream, true, src.address, format_bytes(count, src_format), false, &from);
  }
  if (status == CREMA_OK) {
    status = resolve(stream, true, dst.address, format_bytes(count, dst_format), true, &to);
  }
  if (status == CREMA_OK) {
    task.u.convert.count = count;
    task.u.convert.dst_format = dst_format;
    task.u.convert.src_format = src_format;
    task.u.convert.dst.address = (uintptr_t)to;
    task.u.convert.src.address = (uintptr_t)from;
    status = cr_sim_submit(stream, &task);
  }
  sim_unlock();
  return status;
}
