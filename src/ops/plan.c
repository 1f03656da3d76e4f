/* The choice of a kernel for an op, and the plans that an op keeps. */
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "core/log.h"
#include "device/device.h"
#include "ops/op_private.h"

static bool hints_equal(const cr_op *op, const cr_op_planned *p) {
  for (int i = 0; i < op->desc->args; ++i) {
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

/* F64 when asked for or when a value is one, else F32; the type of what is moved when nothing is
 * computed. */
static crema_dtype arithmetic_of(const cr_op *op) {
  bool floating = false;
  for (int i = 0; i < op->desc->args; ++i) {
    const crema_dtype type = op->type[i];
    if (cr_op_is_absent(&op->desc->arg[i]) || !cr_dtype_is_floating(type)) continue;
    floating = true;
    if (op->use[i].role == CR_ROLE_VALUES && type == CREMA_F64) return CREMA_F64;
  }
  return floating || op->desc->args == 0 ? op->desc->type : op->type[0];
}

/* The element type in which a kernel gets argument `i`: that of its tensor, or that of the
 * arithmetic. */
static crema_dtype wanted_type(const cr_op *op, int i, crema_dtype arithmetic, bool as_held) {
  const crema_dtype held = op->type[i];
  cr_op_role role = op->use[i].role;
  bool kept =
      role == CR_ROLE_OWN || (role == CR_ROLE_VALUES && (as_held || !cr_dtype_is_floating(held)));
  return kept ? held : arithmetic;
}

/* Sets what kernels see of the op; whether that has other element types than the tensors. */
static bool show(const cr_op *op, cr_op_planned *p, bool as_held) {
  bool converts = false;
  p->desc->type = arithmetic_of(op);
  for (int i = 0; i < op->desc->args; ++i) {
    p->desc->arg[i].type = wanted_type(op, i, p->desc->type, as_held);
    converts = converts || p->desc->arg[i].type != op->type[i];
    const crema_dtype type = p->desc->arg[i].type;
    p->shown[i] = (cr_format){type, cr_layout_in(op->hint[i].layout, type)};
  }
  memcpy(p->hint, op->hint, (size_t)op->desc->args * sizeof *p->hint);
  return converts;
}

static bool takes_values(const cr_kernel *kernel, const cr_op *op, const cr_op_desc *desc) {
  for (int i = 0; i < desc->args; ++i) {
    const cr_op_arg *arg = &desc->arg[i];
    if (cr_op_is_absent(arg) || op->use[i].role != CR_ROLE_VALUES) continue;
    if (cr_dtype_is_floating(arg->type) && !cr_kernel_takes(kernel, arg->type)) return false;
  }
  return true;
}

/* Offers the op, as it is shown, to the kernels of `context`'s back end, best first. */
static crema_status offer(const cr_op *op, crema_context *context, cr_op_planned *p) {
  const cr_backend *backend = context->device->backend;
  for (const cr_kernel *const *row = backend->kernels; *row != NULL; ++row) {
    const cr_kernel *kernel = *row;
    if (kernel->op != p->desc->kind || kernel->type != p->desc->type) continue;
    if (!takes_values(kernel, op, p->desc)) continue;
    for (int i = 0; i < p->desc->args; ++i) p->format[i] = (cr_format){p->desc->arg[i].type, NULL};
    p->plan = (cr_plan){.desc = p->desc,
                        .context = context,
                        .kernel = kernel,
                        .hint = p->shown,
                        .format = p->format};
    crema_status status = plan_kernel(kernel, backend, &p->plan);
    if (status == CREMA_OK) {
      p->kernel = kernel;
      return CREMA_OK;
    }
    p->declined = p->declined || kernel->library;
    if (!is_left_to_next(kernel, status)) return cr_fail_in(status, "op %s", kernel->name);
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "op %s of type %s: no kernel on %s",
                 cr_op_kind_name(p->desc->kind), crema_dtype_name(p->desc->type), backend->name);
}

/* Whether the plan reads values that are held in a private layout in another order. */
static bool reorders(const cr_op *op, const cr_op_planned *p) {
  for (int i = 0; i < op->desc->args; ++i) {
    const cr_layout *held = op->hint[i].layout;
    if (held == NULL || op->use[i].role != CR_ROLE_VALUES || op->use[i].access == 'W') continue;
    if (p->format[i].layout != cr_layout_in(held, p->format[i].type)) return true;
  }
  return false;
}

static void drop_kernel(cr_op_planned *p) {
  if (p->kernel->destroy != NULL) p->kernel->destroy(&p->plan);
  p->kernel = NULL;
}

/* Kernels that take the values in the element types in which the tensors have them come first, then
 * those that take them in the type of the arithmetic, for which tensors convert them. A kernel of
 * our own that takes them as they are, but in another order, comes after one that leaves the order:
 * to move values costs more than to convert them. */
static crema_status choose_kernel(const cr_op *op, crema_context *context, cr_op_planned *p) {
  show(op, p, true);
  crema_status status = offer(op, context, p);
  if (status == CREMA_E_UNSUPPORTED) {
    return show(op, p, false) ? offer(op, context, p) : status;
  }
  if (status != CREMA_OK || p->kernel->library || !reorders(op, p)) return status;
  drop_kernel(p);
  if (show(op, p, false)) {
    status = offer(op, context, p);
    if (status == CREMA_OK && !reorders(op, p)) return CREMA_OK;
    if (status == CREMA_OK) drop_kernel(p);
  }
  show(op, p, true);
  return offer(op, context, p);
}

/* A kernel that applies the first `count` post operations. */
static crema_status choose_for_posts(const cr_op *op, crema_context *context, int count,
                                     cr_op_planned *p) {
  p->posts = count;
  p->declined = false;
  p->desc->u = op->desc->u;
  for (int i = 0; i < op->desc->args; ++i) p->desc->arg[i].shape = op->desc->arg[i].shape;
  cr_op_keep_posts(p->desc, count);
  return choose_kernel(op, context, p);
}

/* Where a library has a kernel for an op without its last post operations only, that kernel and
 * ops for those are faster than a kernel of our own for all. */
static crema_status choose(const cr_op *op, crema_context *context, cr_op_planned *p) {
  const int posts = cr_posts_count(cr_op_posts(op->desc));
  crema_status status = choose_for_posts(op, context, posts, p);
  for (int count = posts - 1; count >= 0; --count) {
    if (status != CREMA_OK || p->kernel->library || !p->declined) return status;
    drop_kernel(p);
    status = choose_for_posts(op, context, count, p);
  }
  if (status != CREMA_OK || p->kernel->library || p->posts == posts) return status;
  drop_kernel(p);
  return choose_for_posts(op, context, posts, p);
}

static void planned_destroy(cr_op_planned *p) {
  if (p == NULL) return;
  if (p->kernel != NULL && p->kernel->destroy != NULL) p->kernel->destroy(&p->plan);
  free(p->hint);
  free(p->shown);
  free(p->format);
  cr_op_desc_free(p->desc);
  free(p);
}

static crema_status planned_create(const cr_op *op, cr_op_planned **out) {
  crema_status status = CREMA_OK;
  size_t args = (size_t)op->desc->args + 1;
  cr_op_planned *p = calloc(1, sizeof *p);
  if (p == NULL) return cr_fail_memory(sizeof *p, "a plan");
  CR_TRY_GOTO(cr_op_desc_copy(op->desc, &p->desc), fail);
  p->hint = calloc(args, sizeof *p->hint);
  p->shown = calloc(args, sizeof *p->shown);
  p->format = calloc(args, sizeof *p->format);
  if (p->hint == NULL || p->shown == NULL || p->format == NULL) {
    status = cr_fail_memory(args * sizeof *p->hint, "a plan");
    goto fail;
  }
  *out = p;
  return CREMA_OK;
fail:
  planned_destroy(p);
  return status;
}

static void keep_plan(cr_op *op, cr_op_planned *p) {
  if (op->slots == CR_OP_PLANS) {
    planned_destroy(op->slot[0]);
    memmove(&op->slot[0], &op->slot[1], (CR_OP_PLANS - 1) * sizeof op->slot[0]);
    --op->slots;
  }
  op->slot[op->slots++] = p;
}

static crema_status make_plan(cr_op *op, crema_context *context, cr_op_planned **out) {
  cr_op_planned *p = NULL;
  CR_TRY(planned_create(op, &p));
  crema_status status = choose(op, context, p);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
    if (!op->fallback_logged) {
      cr_log_warning("op %s has no kernel on %s and runs on the CPU",
                     cr_op_kind_name(op->desc->kind), context->device->backend->name);
      op->fallback_logged = true;
    }
    p->fallback = true;
    status = choose(op, cr_host_context(), p);
  }
  if (status != CREMA_OK) {
    planned_destroy(p);
    return status;
  }
  p->device = context->device;
  keep_plan(op, p);
  *out = p;
  return CREMA_OK;
}

static void drop_plan(cr_op *op, int i) {
  if (op->last == op->slot[i]) op->last = NULL;
  planned_destroy(op->slot[i]);
  --op->slots;
  memmove(&op->slot[i], &op->slot[i + 1], (size_t)(op->slots - i) * sizeof op->slot[0]);
}

void cr_op_drop_plans(cr_op *op) {
  while (op->slots > 0) drop_plan(op, op->slots - 1);
}

/* The element types are those of the tensors; other ones than last time need other plans. */
static void take_types(cr_op *op, cr_tensor *const *tensor) {
  for (int i = 0; i < op->desc->args; ++i) {
    if (tensor[i] == NULL || op->type[i] == cr_tensor_type(tensor[i])) continue;
    op->type[i] = cr_tensor_type(tensor[i]);
    cr_op_drop_plans(op);
  }
}

/* Asked for kept plans before tensors are resolved, because another kernel wants them in other
 * formats. */
crema_status cr_op_find_plan(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                             cr_op_planned **out) {
  take_types(op, tensor);
  for (int i = 0; i < op->desc->args; ++i) {
    bool read = tensor[i] != NULL && (op->use[i].access == 'R' || op->use[i].access == 'U');
    op->hint[i] = read ? cr_tensor_head(tensor[i]) : (cr_format){op->type[i], NULL};
  }
  for (int i = 0; i < op->slots; ++i) {
    cr_op_planned *p = op->slot[i];
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
