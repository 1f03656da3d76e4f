/* Running the trace of a pass. */
#include "core/fail.h"
#include "device/device.h"
#include "device/memory/heap.h"
#include "device/memory/scratchpad.h"
#include "memory/trace_private.h"

static cr_trace_rebind *rebinds_of(cr_trace_command *c) {
  return (cr_trace_rebind *)(void *)(cr_trace_buffers(c) + c->buffers);
}

static crema_status rebind(const cr_trace_rebind *l, crema_context *context, crema_devptr *out) {
  switch (l->access) {
    case 'R': return cr_tensor_read(l->tensor, context, l->format, out);
    case 'W': return cr_tensor_write(l->tensor, context, l->format, out);
    default: return cr_tensor_update(l->tensor, context, l->format, out);
  }
}

static crema_status run_conversion(cr_trace_command *c, crema_context *context) {
  cr_trace_conversion *v = &c->u.conversion;
  if (c->rebinds > 0) CR_TRY(rebind(rebinds_of(c), context, &v->src));
  return c->backend->convert(context, v->count, v->to, v->dst, v->from, v->src);
}

static crema_status run_call(cr_trace_command *c, crema_context *context, crema_devptr workspace) {
  const cr_backend *backend = c->backend;
  const cr_trace_rebind *l = rebinds_of(c);
  for (int i = 0; i < c->rebinds; ++i)
    CR_TRY(rebind(&l[i], context, &cr_trace_buffers(c)[l[i].arg]));
  c->u.call.buffer = cr_trace_buffers(c);
  if (c->scratch) c->u.call.workspace = workspace;
  const int before = cr_scheduler_enter_run(backend, c->u.call.plan);
  crema_status status = c->run(&c->u.call);
  cr_scheduler_leave(backend, before);
  return cr_fail_in(status, "op %s", c->u.call.plan->kernel->name);
}

/* Fetches the first data of a call, so that it does not wait for one cache line after the other.
 */
static void fetch(const cr_trace_command *c) {
  if (c->run == NULL) return;
  const cr_plan *plan = c->u.call.plan;
  const char *execution = c->u.call.execution;
  __builtin_prefetch(plan);
  __builtin_prefetch(&plan->state);
  for (int i = 0; execution != NULL && i < 4; ++i) __builtin_prefetch(execution + 64 * i);
}

static crema_status run_list(cr_trace *trace, crema_context *context, int *layer) {
  crema_devptr workspace = {0};
  if (trace->workspace > 0) {
    CR_TRY(cr_context_workspace(context, trace->workspace, &workspace));
  }
  for (size_t at = 0; at < trace->now.size;) {
    cr_trace_command *c = (cr_trace_command *)(void *)(trace->now.data + at);
    fetch(c);
    crema_status status =
        c->run == NULL ? run_conversion(c, context) : run_call(c, context, workspace);
    if (status != CREMA_OK) {
      *layer = c->layer;
      return status;
    }
    at += c->bytes;
  }
  return CREMA_OK;
}

/* Whether the process may still run the kernels that were chosen. */
static bool is_ready(const cr_trace *trace, const crema_context *context) {
  const cr_backend *backend = context->device->backend;
  if (cr_scheduler_threads(context) != trace->threads) return false;
  if (trace->plan == NULL || backend->ready == NULL) return true;
  return backend->ready(trace->plan, false) == CREMA_OK;
}

crema_status cr_trace_run(cr_trace *trace, crema_context *context, bool *ran, int *layer) {
  *ran = trace->valid && is_ready(trace, context) && cr_heap_enter(context, trace->heap);
  *layer = -1;
  if (!*ran) return CREMA_OK;
  crema_status status = run_list(trace, context, layer);
  cr_heap_leave(context);
  if (status != CREMA_OK) trace->valid = false;
  return status;
}
