/* Recording the trace of a pass. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/device.h"
#include "device/memory/heap.h"
#include "device/memory/scratchpad.h"
#include "memory/trace_private.h"

/* After this number of invalid passes in a row, a trace is not recorded: the net has layers that do
 * more than run ops. */
enum { MOST_TRIES = 8 };

crema_status cr_trace_create(cr_trace **out) {
  return CR_NEW(*out, 1, "a list of commands");
}

void cr_trace_destroy(cr_trace *trace) {
  if (trace == NULL) return;
  free(trace->now.data);
  free(trace->before.data);
  free(trace);
}

void cr_trace_clear(cr_trace *trace) {
  trace->valid = false;
  trace->tries = 0;
  trace->now.size = trace->before.size = 0;
}

static cr_trace *recorder(const crema_context *context) {
  cr_trace *trace = context->trace;
  return trace == NULL || trace->invalid ? NULL : trace;
}

void cr_trace_invalidate(const crema_context *context) {
  if (context->trace != NULL) context->trace->invalid = true;
}

void cr_trace_resolve(const crema_context *context, cr_tensor *tensor) {
  if (context->trace != NULL) context->trace->source = tensor;
}

void cr_trace_set_layer(const crema_context *context, int layer) {
  if (context->trace != NULL) context->trace->layer = layer;
}

void cr_trace_begin(cr_trace *trace, crema_context *context) {
  const cr_trace_bytes old = trace->before;
  if (trace->tries >= MOST_TRIES || !context->device->backend->host_memory) return;
  trace->before = trace->now;
  trace->now = old;
  trace->now.size = 0;
  trace->recording = true;
  trace->invalid = false;
  trace->source = NULL;
  trace->plan = NULL;
  trace->workspace = 0;
  trace->layer = -1;
  trace->heap = cr_heap_stamp(context);
  trace->threads = cr_scheduler_threads(context);
  context->trace = trace;
}

void cr_trace_end(cr_trace *trace, crema_context *context, bool done) {
  context->trace = NULL;
  if (!trace->recording) return;
  trace->recording = false;
  if (!done || trace->invalid) trace->now.size = 0;
  const cr_trace_bytes *a = &trace->now, *b = &trace->before;
  trace->valid = a->size == b->size && a->size > 0 && memcmp(a->data, b->data, a->size) == 0 &&
                 trace->heap == cr_heap_stamp(context);
  trace->tries = trace->valid ? 0 : trace->tries + 1;
}

/* `size` more bytes at the end, all 0; NULL: there is no memory, and the trace is invalid. */
static void *add_bytes(cr_trace *trace, size_t size) {
  cr_trace_bytes *b = &trace->now;
  if (b->size + size > b->room) {
    const size_t room = 2 * (b->size + size) + 4096;
    char *data = realloc(b->data, room);
    trace->invalid = data == NULL;
    if (data == NULL) return NULL;
    b->data = data;
    b->room = room;
  }
  char *out = b->data + b->size;
  memset(out, 0, size);
  b->size += size;
  return out;
}

static cr_trace_command *add_command(cr_trace *trace, int buffers) {
  const size_t begin = trace->now.size;
  const size_t size = sizeof(cr_trace_command) + (size_t)buffers * sizeof(crema_devptr);
  cr_trace_command *c = add_bytes(trace, size);
  if (c == NULL) return NULL;
  trace->last = begin;
  c->bytes = size;
  c->layer = trace->layer;
  c->buffers = buffers;
  return c;
}

static cr_trace_command *last_command(const cr_trace *trace) {
  return (cr_trace_command *)(void *)(trace->now.data + trace->last);
}

/* Adds to the last command. */
static void add_rebind(cr_trace *trace, int arg, char access, cr_tensor *tensor, cr_format format) {
  cr_trace_rebind *l = add_bytes(trace, sizeof *l);
  if (l == NULL) return;
  *l = (cr_trace_rebind){.tensor = tensor, .format = format, .arg = arg, .access = access};
  cr_trace_command *c = last_command(trace);
  c->bytes += sizeof *l;
  c->rebinds += 1;
}

/* Whether a conversion of this pass has written there. */
static bool was_converted(const cr_trace *trace, crema_devptr address) {
  for (size_t at = 0; at < trace->now.size;) {
    const cr_trace_command *c = (const cr_trace_command *)(const void *)(trace->now.data + at);
    if (c->run == NULL && c->u.conversion.dst.address == address.address) return true;
    at += c->bytes;
  }
  return false;
}

void cr_trace_add_call(const cr_call *call, const cr_backend *backend, int args) {
  cr_trace *trace = recorder(call->context);
  if (trace == NULL) return;
  cr_trace_command *c = add_command(trace, args);
  if (c == NULL) return;
  c->run = call->plan->kernel->run;
  c->backend = backend;
  c->scratch = call->plan->workspace_bytes > 0;
  c->u.call = *call;
  c->u.call.buffer = NULL;
  if (c->scratch) c->u.call.workspace = (crema_devptr){0};
  memcpy(cr_trace_buffers(c), call->buffer, (size_t)args * sizeof *call->buffer);
  if (call->scalars != NULL) trace->invalid = true;
  const cr_plan *plan = call->plan, *most = trace->plan;
  if (plan->workspace_bytes > trace->workspace) trace->workspace = plan->workspace_bytes;
  if (most == NULL || (plan->kernel->library && !most->kernel->library) ||
      (plan->kernel->library && plan->threads > most->threads)) {
    trace->plan = plan;
  }
}

void cr_trace_add_argument(const crema_context *context, int arg, char access, cr_tensor *tensor,
                           cr_format format) {
  cr_trace *trace = recorder(context);
  if (trace == NULL) return;
  const values *v = tensor->values;
  crema_devptr *buffer = &cr_trace_buffers(last_command(trace))[arg];
  if (v->lifetime == CR_TENSOR_CONSTANT && access == 'R') return;
  const bool converted = format.type != v->type && access == 'R';
  if (is_transient(v) || converted) {
    /* Memory of the system has another address in each pass. */
    trace->invalid = access == 'A' || !cr_heap_has(context, *buffer) ||
                     (!is_transient(v) && !was_converted(trace, *buffer));
    return;
  }
  trace->invalid = access == 'A' || format.type != v->type;
  *buffer = (crema_devptr){0};
  add_rebind(trace, arg, access, tensor, format);
}

/* Whether an op requests the memory of these values in their own type. Each run then requests it
 * too. */
static bool is_rebound(const cr_trace *trace, const values *v, crema_dtype type) {
  return !is_transient(v) && type == v->type && trace->source != NULL && trace->source->values == v;
}

void cr_trace_note_made(const crema_context *context, const values *v, cr_format format) {
  const cr_trace *trace = recorder(context);
  if (trace == NULL || v->lifetime == CR_TENSOR_CONSTANT || is_rebound(trace, v, format.type))
    return;
  cr_trace_invalidate(context);
}

void cr_trace_note_written(const crema_context *context, const values *v) {
  const cr_trace *trace = recorder(context);
  if (trace != NULL && !is_transient(v) && trace->source == NULL) cr_trace_invalidate(context);
}

void cr_trace_add_conversion(const crema_context *context, const values *v, cr_format to,
                             crema_devptr dst, cr_format from, crema_devptr src) {
  cr_trace *trace = recorder(context);
  if (trace == NULL || v->lifetime == CR_TENSOR_CONSTANT || is_rebound(trace, v, to.type)) return;
  const bool rebound = is_rebound(trace, v, from.type);
  if (!cr_heap_has(context, dst) || !(is_transient(v) || rebound || was_converted(trace, src))) {
    trace->invalid = true;
    return;
  }
  cr_trace_command *c = add_command(trace, 0);
  if (c == NULL) return;
  c->backend = context->device->backend;
  c->u.conversion = (cr_trace_conversion){.count = v->count,
                                          .to = to,
                                          .from = from,
                                          .dst = dst,
                                          .src = rebound ? (crema_devptr){0} : src};
  if (rebound) add_rebind(trace, 0, 'R', trace->source, from);
}
