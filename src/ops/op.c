#include "ops/op.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/backend/kernel.h"
#include "device/device.h"
#include "device/memory/scratchpad.h"

/* Plans kept for alternating hints and devices; the oldest makes room. */
enum { PLANS_MAX = 4 };

typedef struct planned {
  const cr_kernel *kernel;
  crema_device *device;
  bool fallback; /* planned for the CPU on behalf of another device */
  cr_plan plan;
  cr_format *hint, *format;
} planned;

struct cr_op {
  cr_op_desc desc;
  char *access; /* one letter per argument: R, W, U or A */
  planned *slot[PLANS_MAX];
  int slots;
  planned *last;
  /* Per run, one per argument. */
  crema_devptr *buffer;
  bool *accumulate;
  cr_format *hint;
  /* For kernels that cannot accumulate: the fresh values, and the op that adds them. */
  cr_tensor **fresh;
  cr_op **add;
  bool fallback_logged;
};

/* ---- descriptors --------------------------------------------------------- */

static crema_status desc_grow(cr_op_desc *desc) {
  cr_op_arg *arg = realloc(desc->arg, ((size_t)desc->args + 1) * sizeof *arg);
  if (arg == NULL) return cr_fail_memory(((size_t)desc->args + 1) * sizeof *arg, "an op");
  desc->arg = arg;
  memset(&arg[desc->args], 0, sizeof *arg);
  return CREMA_OK;
}

crema_status cr_op_desc_add(cr_op_desc *desc, const crema_shape *shape, crema_dtype type) {
  CR_TRY(crema_shape_check(shape));
  CR_TRY(desc_grow(desc));
  desc->arg[desc->args].shape = *shape;
  desc->arg[desc->args].type = type;
  ++desc->args;
  return CREMA_OK;
}

crema_status cr_op_desc_add_absent(cr_op_desc *desc) {
  CR_TRY(desc_grow(desc));
  desc->arg[desc->args].shape.axes = -1;
  desc->arg[desc->args].type = CREMA_F32;
  ++desc->args;
  return CREMA_OK;
}

void cr_op_desc_free(cr_op_desc *desc) {
  if (desc == NULL) return;
  free(desc->arg);
  if (desc->kind == CR_OP_SUM) free(desc->u.sum.coeff);
  *desc = (cr_op_desc){0};
}

static bool is_absent(const cr_op_arg *arg) {
  return arg->shape.axes < 0;
}

/* Expands the argument letters of the kind to one letter per argument. */
static crema_status expand_access(const cr_op_desc *desc, char *access) {
  const char *letters = cr_op_kind_args(desc->kind);
  int fixed = 0;
  bool star = false;
  for (const char *p = letters; *p != '\0'; ++p) {
    if (*p == '*') star = true;
    else ++fixed;
  }
  if (desc->args < fixed || (!star && desc->args > fixed)) {
    return cr_fail(CREMA_E_INTERNAL, "op %s: %d arguments given, %d wanted",
                   cr_op_kind_name(desc->kind), desc->args, fixed);
  }
  int n = 0;
  for (const char *p = letters; *p != '\0'; ++p) {
    int repeat = p[1] == '*' ? 1 + desc->args - fixed : 1;
    for (int i = 0; i < repeat; ++i, ++n) {
      access[n] = (char)toupper((unsigned char)*p);
      if (is_absent(&desc->arg[n]) && !islower((unsigned char)*p)) {
        return cr_fail(CREMA_E_INTERNAL, "op %s: argument %d may not be absent",
                       cr_op_kind_name(desc->kind), n);
      }
    }
    if (p[1] == '*') ++p;
  }
  return CREMA_OK;
}

crema_status cr_op_create(cr_op_desc *desc, cr_op **out) {
  crema_status status = CREMA_OK;
  size_t args = (size_t)desc->args;
  cr_op *op = calloc(1, sizeof *op);
  if (op == NULL) {
    cr_op_desc_free(desc);
    return cr_fail_memory(sizeof *op, "an op");
  }
  op->desc = *desc;
  *desc = (cr_op_desc){0};
  op->access = calloc(args + 1, 1);
  op->buffer = calloc(args + 1, sizeof *op->buffer);
  op->accumulate = calloc(args + 1, sizeof *op->accumulate);
  op->hint = calloc(args + 1, sizeof *op->hint);
  op->fresh = calloc(args + 1, sizeof *op->fresh);
  op->add = calloc(args + 1, sizeof *op->add);
  if (op->access == NULL || op->buffer == NULL || op->accumulate == NULL || op->hint == NULL ||
      op->fresh == NULL || op->add == NULL) {
    status = cr_fail_memory(args * sizeof *op->buffer, "an op");
    goto fail;
  }
  CR_TRY_GOTO(expand_access(&op->desc, op->access), fail);
  *out = op;
  return CREMA_OK;
fail:
  cr_op_destroy(op);
  return status;
}

static void planned_destroy(planned *p) {
  if (p == NULL) return;
  if (p->kernel != NULL && p->kernel->destroy != NULL) p->kernel->destroy(&p->plan);
  free(p->hint);
  free(p->format);
  free(p);
}

void cr_op_destroy(cr_op *op) {
  if (op == NULL) return;
  for (int i = 0; i < op->slots; ++i) planned_destroy(op->slot[i]);
  for (int i = 0; i < op->desc.args; ++i) {
    if (op->add != NULL) cr_op_destroy(op->add[i]);
    if (op->fresh != NULL) cr_tensor_destroy(op->fresh[i]);
  }
  free(op->add);
  free(op->fresh);
  free(op->hint);
  free(op->accumulate);
  free(op->buffer);
  free(op->access);
  cr_op_desc_free(&op->desc);
  free(op);
}

const char *cr_op_kernel_name(const cr_op *op) {
  return op->last == NULL ? "" : op->last->kernel->name;
}

/* ---- planning ------------------------------------------------------------ */

static bool hints_equal(const cr_op *op, const planned *p) {
  for (int i = 0; i < op->desc.args; ++i) {
    if (!cr_format_equal(op->hint[i], p->hint[i])) return false;
  }
  return true;
}

static crema_status check_ready(const cr_backend *backend, const cr_plan *plan, bool planning) {
  return backend->ready == NULL ? CREMA_OK : backend->ready(plan, planning);
}

static crema_status plan_kernel(const cr_kernel *kernel, const cr_backend *backend, cr_plan *plan) {
  int before = backend->enter == NULL ? 0 : backend->enter(plan);
  crema_status status = check_ready(backend, plan, true);
  if (status == CREMA_OK && kernel->plan != NULL) status = kernel->plan(plan);
  if (backend->leave != NULL) backend->leave(before);
  return status;
}

static crema_status run_kernel(cr_op *op, planned *p, crema_context *context,
                               const cr_op_scalars *scalars, crema_devptr workspace) {
  const cr_backend *backend = context->device->backend;
  int before = backend->enter == NULL ? 0 : backend->enter(&p->plan);
  crema_status status = p->kernel->run(&(cr_call){.plan = &p->plan,
                                                  .desc = p->plan.desc,
                                                  .context = context,
                                                  .buffer = op->buffer,
                                                  .accumulate = op->accumulate,
                                                  .scalars = scalars,
                                                  .workspace = workspace});
  if (backend->leave != NULL) backend->leave(before);
  return status;
}

/* Whether the next kernel is tried after a failure to plan: this one does not support the op, or
 * its library fails where crema's own kernels may not. */
static bool is_left_to_next(const cr_kernel *kernel, crema_status status) {
  if (status == CREMA_E_UNSUPPORTED) {
    cr_log_debug("%s declined: %s", kernel->name, crema_error_text());
    return true;
  }
  if (!kernel->library || (status != CREMA_E_NO_MEMORY && status != CREMA_E_DEVICE)) return false;
  cr_log_warning("%s cannot be used, another kernel is tried: %s", kernel->name,
                 crema_error_text());
  return true;
}

/* Offers the op to the kernels of `context`'s back end, best first. */
static crema_status choose_kernel(cr_op *op, crema_context *context, planned *p) {
  size_t args = (size_t)op->desc.args;
  for (const cr_kernel *const *row = context->device->backend->kernels; *row != NULL; ++row) {
    const cr_kernel *kernel = *row;
    if (kernel->op != op->desc.kind || kernel->type != op->desc.type) continue;
    memcpy(p->hint, op->hint, args * sizeof *p->hint);
    for (size_t i = 0; i < args; ++i) p->format[i] = (cr_format){op->desc.arg[i].type, NULL};
    p->plan = (cr_plan){.desc = &op->desc,
                        .context = context,
                        .kernel = kernel,
                        .hint = p->hint,
                        .format = p->format};
    crema_status status = plan_kernel(kernel, context->device->backend, &p->plan);
    if (status == CREMA_OK) {
      p->kernel = kernel;
      return CREMA_OK;
    }
    if (!is_left_to_next(kernel, status)) return cr_fail_in(status, "op %s", kernel->name);
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "op %s of type %s: no kernel on %s",
                 cr_op_kind_name(op->desc.kind), crema_dtype_name(op->desc.type),
                 context->device->backend->name);
}

static void keep_plan(cr_op *op, planned *p) {
  if (op->slots == PLANS_MAX) {
    planned_destroy(op->slot[0]);
    memmove(&op->slot[0], &op->slot[1], (PLANS_MAX - 1) * sizeof op->slot[0]);
    --op->slots;
  }
  op->slot[op->slots++] = p;
}

static crema_status make_plan(cr_op *op, crema_context *context, planned **out) {
  size_t args = (size_t)op->desc.args;
  planned *p = calloc(1, sizeof *p);
  if (p == NULL) return cr_fail_memory(sizeof *p, "a plan");
  p->hint = calloc(args + 1, sizeof *p->hint);
  p->format = calloc(args + 1, sizeof *p->format);
  crema_status status = CREMA_OK;
  if (p->hint == NULL || p->format == NULL) {
    status = cr_fail_memory(args * sizeof *p->format, "a plan");
    goto fail;
  }
  status = choose_kernel(op, context, p);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
    if (!op->fallback_logged) {
      cr_log_warning("op %s has no kernel on %s and runs on the CPU",
                     cr_op_kind_name(op->desc.kind), context->device->backend->name);
      op->fallback_logged = true;
    }
    p->fallback = true;
    status = choose_kernel(op, cr_host_context(), p);
  }
  if (status != CREMA_OK) goto fail;
  p->device = context->device;
  keep_plan(op, p);
  *out = p;
  return CREMA_OK;
fail:
  planned_destroy(p);
  return status;
}

static void drop_plan(cr_op *op, int i) {
  if (op->last == op->slot[i]) op->last = NULL;
  planned_destroy(op->slot[i]);
  --op->slots;
  memmove(&op->slot[i], &op->slot[i + 1], (size_t)(op->slots - i) * sizeof op->slot[0]);
}

/* Asked for kept plans before tensors are resolved, because another kernel wants them in other
 * formats. */
static crema_status find_plan(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                              planned **out) {
  for (int i = 0; i < op->desc.args; ++i) {
    bool read = tensor[i] != NULL && (op->access[i] == 'R' || op->access[i] == 'U');
    op->hint[i] = read ? cr_tensor_head(tensor[i]) : (cr_format){op->desc.arg[i].type, NULL};
  }
  for (int i = 0; i < op->slots; ++i) {
    planned *p = op->slot[i];
    if (p->device != context->device || (p->kernel->follows_hints && !hints_equal(op, p))) continue;
    crema_status status = check_ready(p->plan.context->device->backend, &p->plan, false);
    if (status == CREMA_OK) *out = p;
    if (status != CREMA_E_UNSUPPORTED) return cr_fail_in(status, "op %s", p->kernel->name);
    cr_log_debug("%s given up: %s", p->kernel->name, crema_error_text());
    drop_plan(op, i);
    break;
  }
  return make_plan(op, context, out);
}

/* ---- running ------------------------------------------------------------- */

static crema_status check_tensors(const cr_op *op, cr_tensor *const *tensor) {
  for (int i = 0; i < op->desc.args; ++i) {
    const cr_op_arg *arg = &op->desc.arg[i];
    if (is_absent(arg) != (tensor[i] == NULL)) {
      return cr_fail(CREMA_E_INTERNAL, "op %s: argument %d is %s", cr_op_kind_name(op->desc.kind),
                     i, tensor[i] == NULL ? "missing" : "not expected");
    }
    if (tensor[i] == NULL) continue;
    int64_t want = crema_shape_count(&arg->shape, 0, arg->shape.axes);
    if (cr_tensor_count(tensor[i]) != want) {
      return cr_fail(CREMA_E_INTERNAL,
                     "op %s: argument %d has %" PRId64 " elements, %" PRId64 " wanted",
                     cr_op_kind_name(op->desc.kind), i, cr_tensor_count(tensor[i]), want);
    }
  }
  return CREMA_OK;
}

/* The tensor that receives argument i's new values when the kernel cannot add by itself. */
static crema_status fresh_tensor(cr_op *op, int i, cr_tensor **out) {
  const cr_op_arg *arg = &op->desc.arg[i];
  if (op->fresh[i] == NULL) {
    CR_TRY(cr_tensor_create(arg->type, crema_shape_count(&arg->shape, 0, arg->shape.axes),
                            &op->fresh[i]));
  }
  *out = op->fresh[i];
  return CREMA_OK;
}

static crema_status add_fresh(cr_op *op, int i, crema_context *context, cr_tensor *sum) {
  if (op->add[i] == NULL) {
    cr_op_desc desc = {.kind = CR_OP_AXPBY, .type = op->desc.type};
    crema_status status = cr_op_desc_add(&desc, &op->desc.arg[i].shape, op->desc.arg[i].type);
    if (status == CREMA_OK) {
      status = cr_op_desc_add(&desc, &op->desc.arg[i].shape, op->desc.arg[i].type);
    }
    if (status != CREMA_OK) {
      cr_op_desc_free(&desc);
      return status;
    }
    CR_TRY(cr_op_create(&desc, &op->add[i]));
  }
  cr_tensor *args[2] = {op->fresh[i], sum};
  cr_op_scalars one = {.alpha = 1.0f, .beta = 1.0f};
  return cr_op_run(op->add[i], context, args, &one);
}

/* Resolves argument i to memory in the planned format. */
static crema_status resolve(cr_op *op, planned *p, int i, crema_context *context,
                            cr_tensor *tensor) {
  cr_format format = p->format[i];
  crema_devptr *buffer = &op->buffer[i];
  switch (op->access[i]) {
    case 'R': return cr_tensor_read(tensor, context, format, buffer);
    case 'U': return cr_tensor_update(tensor, context, format, buffer);
    case 'W': return cr_tensor_write(tensor, context, format, buffer);
    default: break;
  }
  if (cr_tensor_is_zero(tensor)) return cr_tensor_write(tensor, context, format, buffer);
  op->accumulate[i] = true;
  if (p->kernel->can_accumulate) return cr_tensor_update(tensor, context, format, buffer);
  cr_tensor *fresh = NULL;
  CR_TRY(fresh_tensor(op, i, &fresh));
  return cr_tensor_write(fresh, context, format, buffer);
}

/* Everything that is read comes first, so that a tensor that is also written is still valid
 * in the format that is asked for. */
static crema_status resolve_all(cr_op *op, planned *p, crema_context *context,
                                cr_tensor *const *tensor) {
  for (int pass = 0; pass < 2; ++pass) {
    for (int i = 0; i < op->desc.args; ++i) {
      bool reads = op->access[i] == 'R';
      if (reads != (pass == 0)) continue;
      op->buffer[i] = (crema_devptr){0};
      op->accumulate[i] = false;
      if (tensor[i] != NULL) CR_TRY(resolve(op, p, i, context, tensor[i]));
    }
  }
  return CREMA_OK;
}

crema_status cr_op_run(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                       const cr_op_scalars *scalars) {
  CR_TRY(check_tensors(op, tensor));
  planned *p = NULL;
  CR_TRY(find_plan(op, context, tensor, &p));
  op->last = p;
  if (p->fallback) {
    atomic_fetch_add_explicit(&context->device->fallbacks, 1, memory_order_relaxed);
    context = cr_host_context();
  }
  crema_status status = resolve_all(op, p, context, tensor);
  crema_devptr workspace = {0};
  if (status == CREMA_OK && p->plan.workspace_bytes > 0) {
    status = cr_context_workspace(context, p->plan.workspace_bytes, &workspace);
  }
  if (status == CREMA_OK) {
    status = run_kernel(op, p, context, scalars, workspace);
  }
  if (status != CREMA_OK) return cr_fail_in(status, "op %s", cr_op_kernel_name(op));
  for (int i = 0; i < op->desc.args; ++i) {
    if (op->accumulate[i] && !p->kernel->can_accumulate) {
      CR_TRY(add_fresh(op, i, context, tensor[i]));
    }
  }
  return CREMA_OK;
}
