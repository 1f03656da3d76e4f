#include "ops/op.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/timeline.h"
#include "device/device.h"
#include "device/memory/memory_lock.h"
#include "device/memory/scratchpad.h"
#include "device/watch.h"
#include "memory/trace.h"
#include "ops/op_private.h"

static crema_status find_uses(cr_op *op) {
  const cr_op_desc *desc = op->desc;
  int most = 0, least = cr_op_kind_arity(desc->kind, &most);
  if (desc->args < least || desc->args > most) {
    return cr_fail(CREMA_E_INTERNAL, "op %s: %d arguments given, %d wanted",
                   cr_op_kind_name(desc->kind), desc->args, least);
  }
  for (int i = 0; i < desc->args; ++i) {
    op->use[i] = cr_op_kind_use(desc->kind, desc->args, i);
    if (cr_op_is_absent(&desc->arg[i]) && !op->use[i].optional) {
      return cr_fail(CREMA_E_INTERNAL, "op %s: argument %d may not be absent",
                     cr_op_kind_name(desc->kind), i);
    }
  }
  const bool adds = cr_posts_add(cr_op_posts(desc));
  const bool given = desc->args > CR_ARG_ADDEND && !cr_op_is_absent(&desc->arg[CR_ARG_ADDEND]);
  if (adds && !given) {
    return cr_fail(CREMA_E_INTERNAL, "op %s: no addend", cr_op_kind_name(desc->kind));
  }
  return CREMA_OK;
}

crema_status cr_op_create(cr_op_desc **desc, cr_op **out) {
  crema_status status = CREMA_OK;
  size_t args = (size_t)(*desc)->args;
  cr_op *op = calloc(1, sizeof *op);
  if (op == NULL) {
    cr_op_desc_free(*desc);
    *desc = NULL;
    return cr_fail_memory(sizeof *op, "an op");
  }
  op->made_for = *desc;
  op->held_arg = -1;
  *desc = NULL;
  CR_TRY_GOTO(cr_op_desc_copy(op->made_for, &op->desc), fail);
  op->use = calloc(args + 1, sizeof *op->use);
  op->buffer = calloc(args + 1, sizeof *op->buffer);
  op->accumulate = calloc(args + 1, sizeof *op->accumulate);
  op->hint = calloc(args + 1, sizeof *op->hint);
  op->fresh = calloc(args + 1, sizeof *op->fresh);
  op->add = calloc(args + 1, sizeof *op->add);
  if (op->use == NULL || op->buffer == NULL || op->accumulate == NULL || op->hint == NULL ||
      op->fresh == NULL || op->add == NULL) {
    status = cr_fail_memory(args * sizeof *op->buffer, "an op");
    goto fail;
  }
  CR_TRY_GOTO(find_uses(op), fail);
  *out = op;
  return CREMA_OK;
fail:
  cr_op_destroy(op);
  return status;
}

const cr_op_desc *cr_op_made_for(const cr_op *op) {
  return op->made_for;
}

void cr_op_destroy(cr_op *op) {
  if (op == NULL) return;
  cr_op_drop_plans(op);
  for (int i = 0; i < op->made_for->args; ++i) {
    if (op->add != NULL) cr_op_destroy(op->add[i]);
    if (op->fresh != NULL) cr_tensor_destroy(op->fresh[i]);
  }
  for (int i = 0; i < CR_POSTS; ++i) cr_op_destroy(op->post[i]);
  free(op->add);
  free(op->fresh);
  free(op->hint);
  free(op->accumulate);
  free(op->buffer);
  free(op->use);
  cr_op_desc_free(op->desc);
  cr_op_desc_free(op->made_for);
  free(op);
}

const char *cr_op_kernel_name(const cr_op *op) {
  return op->last == NULL ? "" : op->last->name;
}

/* Adds the call to the context's trace, if one records. */
static void record(const cr_op *op, const cr_op_plan *p, const cr_call *call,
                   cr_tensor *const *tensor, cr_tensor *result) {
  const crema_context *context = call->context;
  if (context->trace == NULL) return;
  if (op->held != NULL) cr_trace_invalidate(context);
  cr_trace_resolve(context, NULL);
  cr_trace_add_call(call, p->backend, op->desc->args);
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < op->desc->args; ++i) {
      const bool writes = op->use[i].access != 'R';
      if (writes != (pass == 1) || cr_op_is_absent(&p->desc->arg[i])) continue;
      cr_trace_add_argument(context, i, writes && op->overwrites ? 'W' : op->use[i].access,
                            i == CR_ARG_RESULT && result != NULL ? result : tensor[i],
                            p->format[i]);
    }
  }
}

static crema_status find_workspace(const cr_op_plan *p, crema_context *context, crema_devptr *out) {
  const size_t bytes = p->plan.workspace_bytes;
  if (bytes > 0) return cr_context_workspace(context, bytes, out);
  if (p->backend->host_memory) *out = cr_no_workspace();
  return CREMA_OK;
}

static crema_status run_kernel(const cr_op_slot *slot, const cr_call *call) {
  const cr_op_plan *p = slot->plan;
  const cr_backend *backend = p->backend;
  /* A library may load code, for which the driver may wait until the device is idle. While a
   * collective is not queued by all ranks, this can be never. */
  const bool loads = !slot->ran && backend->collectives != NULL;
  if (loads) cr_memory_lock_shared();
  int before = cr_scheduler_enter_run(backend, &p->plan);
  crema_status status = p->kernel->run(call);
  cr_scheduler_leave(backend, before);
  if (loads) cr_memory_unlock_shared();
  return status;
}

static crema_status check_tensors(const cr_op *op, cr_tensor *const *tensor) {
  for (int i = 0; i < op->desc->args; ++i) {
    const cr_op_arg *arg = &op->desc->arg[i];
    if (cr_op_is_absent(arg) != (tensor[i] == NULL)) {
      return cr_fail(CREMA_E_INTERNAL, "op %s: argument %d is %s", cr_op_kind_name(op->desc->kind),
                     i, tensor[i] == NULL ? "missing" : "not expected");
    }
    if (tensor[i] == NULL) continue;
    int64_t want = crema_shape_count(&arg->shape, 0, arg->shape.axes);
    if (cr_tensor_count(tensor[i]) != want) {
      return cr_fail(CREMA_E_INTERNAL,
                     "op %s: argument %d has %" PRId64 " elements, %" PRId64 " wanted",
                     cr_op_kind_name(op->desc->kind), i, cr_tensor_count(tensor[i]), want);
    }
  }
  return CREMA_OK;
}

/* The tensor that receives argument i's new values if the kernel cannot accumulate. */
static crema_status fresh_tensor(cr_op *op, int i, cr_tensor **out) {
  const cr_op_arg *arg = &op->desc->arg[i];
  if (op->fresh[i] == NULL) {
    CR_TRY(cr_tensor_create(arg->type, crema_shape_count(&arg->shape, 0, arg->shape.axes),
                            &op->fresh[i]));
  }
  *out = op->fresh[i];
  return CREMA_OK;
}

static cr_op_desc blank(cr_op_kind kind, crema_dtype type) {
  cr_op_desc desc;
  memset(&desc, 0, sizeof desc); /* padding, too */
  desc.kind = kind;
  desc.type = type;
  return desc;
}

/* The op that adds the fresh values of argument i. */
static crema_status make_addition(const cr_op *op, int i, cr_op **out) {
  const crema_shape *shape = &op->desc->arg[i].shape;
  const cr_op_desc axpby = blank(CR_OP_AXPBY, op->desc->type);
  cr_op_desc *desc = NULL;
  CR_TRY(cr_op_describe(&axpby, 2, (const crema_shape *[]){shape, shape}, NULL, &desc));
  return cr_op_create(&desc, out);
}

static crema_status add_fresh(cr_op *op, int i, crema_context *context, cr_tensor *sum) {
  if (op->add[i] == NULL) CR_TRY(make_addition(op, i, &op->add[i]));
  cr_tensor *args[2] = {op->fresh[i], sum};
  cr_op_scalars one = {.alpha = 1, .beta = 1};
  return cr_op_run(op->add[i], context, args, &one);
}

/* Where the kernel writes its result: not over an addend that is still needed. */
static crema_status kernel_result(cr_op *op, const cr_op_plan *p, cr_tensor *const *tensor,
                                  cr_tensor **out) {
  *out = tensor[CR_ARG_RESULT];
  const bool apart = cr_posts_add(cr_op_posts(op->desc)) && !cr_posts_add(cr_op_posts(p->desc));
  if (!apart || !cr_tensor_shares_with(tensor[CR_ARG_ADDEND], *out)) return CREMA_OK;
  return fresh_tensor(op, CR_ARG_RESULT, out);
}

/* The op of post operation k, whose arguments all have the shape of the result. */
static crema_status make_post(const cr_op *op, int k, cr_op **out) {
  const crema_shape *shape = &op->desc->arg[CR_ARG_RESULT].shape;
  const cr_post *post = &cr_op_posts(op->desc)->post[k];
  const bool adds = post->kind == CR_POST_ADD;
  cr_op_desc one = blank(adds ? CR_OP_SUM : CR_OP_UNARY_FWD, op->desc->type);
  if (!adds) {
    one.u.unary.function = post->function;
    one.u.unary.alpha = post->alpha;
    one.u.unary.beta = post->beta;
    one.u.unary.gamma = post->gamma;
  }
  cr_op_desc *desc = NULL;
  CR_TRY(cr_op_describe(&one, adds ? 3 : 2, (const crema_shape *[]){shape, shape, shape}, NULL,
                        &desc));
  return cr_op_create(&desc, out);
}

/* `result` has the values that the kernel wrote. */
static crema_status run_posts(cr_op *op, int from, crema_context *context, cr_tensor *result,
                              cr_tensor *const *tensor) {
  const cr_posts *posts = cr_op_posts(op->desc);
  for (int k = from; k < cr_posts_count(posts); ++k) {
    if (op->post[k] == NULL) CR_TRY(make_post(op, k, &op->post[k]));
    if (posts->post[k].kind == CR_POST_ADD) {
      cr_tensor *sum[3] = {result, tensor[CR_ARG_ADDEND], tensor[CR_ARG_RESULT]};
      CR_TRY(cr_op_run(op->post[k], context, sum, NULL));
      result = tensor[CR_ARG_RESULT];
    } else {
      CR_TRY(cr_op_run(op->post[k], context, (cr_tensor *[]){result, result}, NULL));
    }
  }
  return CREMA_OK;
}

/* Memory for all values of argument i. */
static crema_status write_fresh(cr_op *op, int i, crema_context *context, cr_format format,
                                cr_tensor *tensor) {
  if (op->held != NULL) return cr_tensor_write(tensor, context, format, &op->buffer[i]);
  CR_TRY(cr_tensor_write_for(tensor, context, format, &op->held, &op->buffer[i]));
  if (op->held != NULL) op->held_arg = i;
  return CREMA_OK;
}

/* Called after the run for any status. */
static crema_status end_hold(cr_op *op, const cr_op_plan *p, crema_context *context,
                             cr_tensor *const *tensor, crema_status status) {
  const int i = op->held_arg;
  if (status == CREMA_OK && i >= 0) {
    status = cr_tensor_end_write(tensor[i], context, p->format[i], op->buffer[i]);
  }
  cr_tensor_end_use(op->held);
  op->held = NULL;
  op->held_arg = -1;
  return status;
}

/* Resolves argument i to memory in the planned format. */
static crema_status resolve(cr_op *op, const cr_op_plan *p, int i, crema_context *context,
                            cr_tensor *tensor) {
  cr_format format = p->format[i];
  crema_devptr *buffer = &op->buffer[i];
  cr_trace_resolve(context, tensor);
  switch (op->use[i].access) {
    case 'R':
      return cr_tensor_read_for(tensor, context, format, op->held == NULL ? &op->held : NULL,
                                buffer);
    case 'U':
      return op->overwrites ? cr_tensor_write(tensor, context, format, buffer)
                            : cr_tensor_update(tensor, context, format, buffer);
    case 'W': return cr_tensor_write(tensor, context, format, buffer);
    default: break;
  }
  if (cr_tensor_is_zero(tensor)) return write_fresh(op, i, context, format, tensor);
  op->accumulate[i] = true;
  if (p->kernel->can_accumulate) return cr_tensor_update(tensor, context, format, buffer);
  cr_tensor *fresh = NULL;
  CR_TRY(fresh_tensor(op, i, &fresh));
  return cr_tensor_write(fresh, context, format, buffer);
}

/* Arguments that are read come first, so that a tensor that is also written is still valid in the
 * requested format. `result` replaces argument CR_ARG_RESULT, unless NULL. */
static crema_status resolve_all(cr_op *op, const cr_op_plan *p, crema_context *context,
                                cr_tensor *const *tensor, cr_tensor *result) {
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < op->desc->args; ++i) {
      bool reads = op->use[i].access == 'R';
      if (reads != (pass == 0)) continue;
      op->buffer[i] = (crema_devptr){0};
      op->accumulate[i] = false;
      if (cr_op_is_absent(&p->desc->arg[i])) continue;
      CR_TRY(resolve(op, p, i, context, i == CR_ARG_RESULT && result != NULL ? result : tensor[i]));
    }
  }
  return CREMA_OK;
}

/* The times of a watched run, and the device's launches before the kernel. */
typedef struct run_times {
  double begin, prepared, queued, end;
  uint64_t launches;
} run_times;

static void report_run(const cr_op_plan *p, const crema_context *context, const run_times *at) {
  const cr_watch_event event = {
      .context = context,
      .op = cr_op_kind_name(p->desc->kind),
      .kernel = p->kernel->name,
      .desc = p->desc,
      .format = p->format,
      .conversions = context->watch.conversions,
      .threads = p->plan.threads,
      .launches = (int64_t)(cr_device_launches(context->device) - at->launches),
      .prepare = at->prepared - at->begin,
      .queue = at->queued - at->prepared,
      .run = at->end - at->prepared};
  context->watch.watcher->ran(context->watch.watcher->user, &event);
}

static void trace_run(const cr_op_plan *p, const crema_context *context, double begin) {
  const cr_backend *backend = context->device->backend;
  if (begin == 0) return;
  cr_timeline_span(0, backend->host_memory ? "op" : "submit", cr_op_kind_name(p->desc->kind), begin,
                   "\"layer\":\"%s\",\"pass\":\"%s\",\"kernel\":\"%s\",\"device\":\"%s:%d\"",
                   cr_timeline_text(context->watch.layer).text, cr_watch_pass(context),
                   p->kernel->name, backend->name, context->device->index);
}

static crema_status run_planned(cr_op *op, const cr_op_slot *slot, crema_context *context,
                                cr_tensor *const *tensor, const cr_op_scalars *scalars) {
  const cr_op_plan *p = slot->plan;
  const bool posts = cr_posts_count(cr_op_posts(op->desc)) > 0;
  const bool watched = context->watch.watcher != NULL;
  run_times at = {0};
  cr_tensor *result = NULL;
  if (posts) CR_TRY(kernel_result(op, p, tensor, &result));
  /* Values that are multiplied by 0 are not read; there may be none yet. */
  op->overwrites = op->desc->kind == CR_OP_AXPBY && scalars->beta == 0;
  context->watch.conversions = 0;
  if (watched) CR_TRY(cr_watch_clock(context, &at.begin));
  crema_status status = resolve_all(op, p, context, tensor, result);
  crema_devptr workspace = {0};
  if (status == CREMA_OK) status = find_workspace(p, context, &workspace);
  if (status == CREMA_OK && watched) {
    status = cr_watch_clock(context, &at.prepared);
    at.launches = cr_device_launches(context->device);
  }
  const double traced = cr_timeline_now();
  if (status == CREMA_OK) {
    const cr_call call = {.plan = &p->plan,
                          .execution = slot->execution,
                          .desc = p->plan.desc,
                          .context = context,
                          .buffer = op->buffer,
                          .accumulate = op->accumulate,
                          .scalars = scalars,
                          .workspace = workspace};
    record(op, p, &call, tensor, result);
    status = run_kernel(slot, &call);
  }
  if (status == CREMA_OK) trace_run(p, context, traced);
  if (status == CREMA_OK && watched) {
    at.queued = cr_clock_seconds();
    status = cr_watch_clock(context, &at.end);
  }
  status = end_hold(op, p, context, tensor, status);
  if (status == CREMA_E_RANGE)
    return status; /* of the caller's values: the kernel explains nothing */
  if (status != CREMA_OK) return cr_fail_in(status, "op %s", cr_op_kernel_name(op));
  if (watched) report_run(p, context, &at);
  for (int i = 0; i < op->desc->args; ++i) {
    if (op->accumulate[i] && !p->kernel->can_accumulate) {
      CR_TRY(add_fresh(op, i, context, tensor[i]));
    }
  }
  return posts ? run_posts(op, p->posts, context, result, tensor) : CREMA_OK;
}

crema_status cr_op_run(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                       const cr_op_scalars *scalars) {
  CR_TRY(check_tensors(op, tensor));
  cr_op_slot slot;
  CR_TRY(cr_op_find_plan(op, context, tensor, &slot));
  op->last = slot.plan->kernel;
  if (!slot.plan->fallback) return run_planned(op, &slot, context, tensor, scalars);
  atomic_fetch_add_explicit(&context->device->fallbacks, 1, memory_order_relaxed);
  crema_context *host = cr_host_context();
  const cr_watch own = host->watch;
  host->watch = context->watch;
  crema_status status = run_planned(op, &slot, host, tensor, scalars);
  host->watch = own;
  return status;
}
