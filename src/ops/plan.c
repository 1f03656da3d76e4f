/* The choice of a kernel for an op, and its plan. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "core/log.h"
#include "core/verbose.h"
#include "device/device.h"
#include "ops/op_private.h"

/* The request for a plan. */
typedef struct asked {
  const cr_op_use *use;
  const cr_plan_key *key;
  crema_context *context; /* to plan for */
} asked;

static crema_status check_ready(const cr_backend *backend, const cr_plan *plan, bool planning) {
  return backend->ready == NULL ? CREMA_OK : backend->ready(plan, planning);
}

crema_status cr_op_plan_ready(const cr_op_plan *plan) {
  return check_ready(plan->backend, &plan->plan, false);
}

static crema_status plan_kernel(const cr_kernel *kernel, const cr_backend *backend, cr_plan *plan) {
  const cr_host_scheduler *scheduler = backend->scheduler;
  const bool enters = scheduler != NULL && scheduler->enter_plan != NULL;
  const int before = enters ? scheduler->enter_plan(plan) : 0;
  crema_status status = check_ready(backend, plan, true);
  if (status == CREMA_OK && kernel->plan != NULL) status = kernel->plan(plan);
  if (enters) scheduler->leave(before);
  plan->context = NULL;
  return status;
}

/* The line of CREMA_VERBOSE for a kernel that declines for `reason`; NULL: it is planned, with so
 * many threads. */
static void report(const asked *op, const cr_kernel *kernel, const char *reason, int threads) {
  const crema_context *context = op->context;
  char planned[16];
  if (!cr_verbose(CR_VERBOSE_REASONS)) return;
  snprintf(planned, sizeof planned, "%d", threads);
  cr_verbose_line(reason == NULL ? "planned" : "declined", "%s,%s,%s,%s:%d,%s",
                  cr_verbose_name(context->watch.layer).text, cr_op_kind_name(kernel->op),
                  kernel->name, context->device->backend->name, context->device->index,
                  reason == NULL ? planned : reason);
}

/* Whether to try the next kernel after a failure to plan: this kernel does not support the op, or
 * its library failed and crema's own kernels may succeed. */
static bool is_left_to_next(const asked *op, const cr_kernel *kernel, crema_status status) {
  if (status == CREMA_E_UNSUPPORTED) {
    cr_log_debug("%s declined: %s", kernel->name, crema_error_text());
    report(op, kernel, crema_error_text(), 0);
    return true;
  }
  if (!kernel->library || (status != CREMA_E_NO_MEMORY && status != CREMA_E_DEVICE)) return false;
  cr_log_warning("%s cannot be used, another kernel is tried: %s", kernel->name,
                 crema_error_text());
  report(op, kernel, crema_error_text(), 0);
  return true;
}

/* F64 if it is requested or a value has that type, else F32. An op that only moves values has their
 * type. */
static crema_dtype arithmetic_of(const asked *op) {
  bool floating = false;
  for (int i = 0; i < op->key->desc->args; ++i) {
    const crema_dtype type = op->key->desc->arg[i].type;
    if (cr_op_is_absent(&op->key->desc->arg[i]) || !cr_dtype_is_floating(type)) continue;
    floating = true;
    if (op->use[i].role == CR_ROLE_VALUES && type == CREMA_F64) return CREMA_F64;
  }
  return floating || op->key->desc->args == 0 ? op->key->desc->type : op->key->desc->arg[0].type;
}

/* The element type in which a kernel gets argument `i`: the tensor's type, or the type of the
 * arithmetic. */
static crema_dtype wanted_type(const asked *op, int i, crema_dtype arithmetic, bool as_held) {
  const crema_dtype held = op->key->desc->arg[i].type;
  cr_op_role role = op->use[i].role;
  bool kept =
      role == CR_ROLE_OWN || (role == CR_ROLE_VALUES && (as_held || !cr_dtype_is_floating(held)));
  return kept ? held : arithmetic;
}

/* Sets the op's description for kernels. Returns whether it has other element types than the
 * tensors. */
static bool show(const asked *op, cr_op_plan *p, bool as_held) {
  bool converts = false;
  p->desc->type = arithmetic_of(op);
  for (int i = 0; i < op->key->desc->args; ++i) {
    p->desc->arg[i].type = wanted_type(op, i, p->desc->type, as_held);
    converts = converts || p->desc->arg[i].type != op->key->desc->arg[i].type;
  }
  return converts;
}

/* Whether kernels of the context's device know the order of the values. */
static bool knows(const crema_context *context, cr_format format) {
  if (format.layout == NULL) return true;
  const crema_device *device = format.layout->device;
  return device == context->device || device->backend->host_memory;
}

/* Sets the layout hints for the kernel. If the kernel does not accept gaps, the hints have none,
 * and tensors make a copy without gaps. Orders that only another device knows are plain. */
static void show_hints(const asked *op, const cr_kernel *kernel, cr_op_plan *p) {
  for (int i = 0; i < op->key->desc->args; ++i) {
    const crema_dtype type = p->desc->arg[i].type;
    cr_format held = op->key->hint[i];
    if (!kernel->views || held.type != type) held = cr_format_packed(held);
    if (!knows(op->context, held)) held.layout = NULL;
    p->shown[i] = (cr_format){type, cr_layout_in(held.layout, type)};
  }
}

static bool takes_values(const cr_kernel *kernel, const asked *op, const cr_op_desc *desc) {
  for (int i = 0; i < desc->args; ++i) {
    const cr_op_arg *arg = &desc->arg[i];
    if (cr_op_is_absent(arg) || op->use[i].role != CR_ROLE_VALUES) continue;
    if (cr_dtype_is_floating(arg->type) && !cr_kernel_takes(kernel, arg->type)) return false;
  }
  return true;
}

/* Offers the op, as it is shown, to the kernels of the context's back end, best first. */
static crema_status offer(const asked *op, cr_op_plan *p) {
  const cr_backend *backend = op->context->device->backend;
  for (const cr_kernel *const *row = backend->kernels; *row != NULL; ++row) {
    const cr_kernel *kernel = *row;
    if (kernel->op != p->desc->kind || kernel->type != p->desc->type) continue;
    if (!takes_values(kernel, op, p->desc)) {
      report(op, kernel, "it does not take values of these types", 0);
      continue;
    }
    for (int i = 0; i < p->desc->args; ++i) p->format[i] = (cr_format){p->desc->arg[i].type, NULL};
    show_hints(op, kernel, p);
    p->plan = (cr_plan){.desc = p->desc,
                        .context = op->context,
                        .kernel = kernel,
                        .hint = p->shown,
                        .format = p->format,
                        .most_threads = op->key->threads};
    crema_status status = plan_kernel(kernel, backend, &p->plan);
    if (status == CREMA_OK) {
      p->kernel = kernel;
      p->backend = backend;
      report(op, kernel, NULL, p->plan.threads);
      return CREMA_OK;
    }
    p->declined = p->declined || kernel->library;
    if (!is_left_to_next(op, kernel, status)) return cr_fail_in(status, "op %s", kernel->name);
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "op %s of type %s: no kernel on %s",
                 cr_op_kind_name(p->desc->kind), crema_dtype_name(p->desc->type), backend->name);
}

/* Whether the plan reads values that are held in a private layout in another order. */
static bool reorders(const asked *op, const cr_op_plan *p) {
  for (int i = 0; i < op->key->desc->args; ++i) {
    const cr_layout *held = cr_format_packed(op->key->hint[i]).layout;
    if (held == NULL || !knows(op->context, op->key->hint[i])) continue;
    if (op->use[i].role != CR_ROLE_VALUES || op->use[i].access == 'W') continue;
    if (cr_format_packed(p->format[i]).layout != cr_layout_in(held, p->format[i].type)) return true;
  }
  return false;
}

static void drop_kernel(cr_op_plan *p) {
  if (p->kernel->destroy != NULL) p->kernel->destroy(&p->plan);
  p->kernel = NULL;
}

/* Kernels that accept the tensors' element types come first, then kernels that accept the type of
 * the arithmetic, to which tensors convert. A kernel of crema that needs a different order comes
 * last, because moving values costs more than converting them. */
static crema_status choose_kernel(const asked *op, cr_op_plan *p) {
  show(op, p, true);
  crema_status status = offer(op, p);
  if (status == CREMA_E_UNSUPPORTED) {
    return show(op, p, false) ? offer(op, p) : status;
  }
  if (status != CREMA_OK || p->kernel->library || !reorders(op, p)) return status;
  drop_kernel(p);
  if (show(op, p, false)) {
    status = offer(op, p);
    if (status == CREMA_OK && !reorders(op, p)) return CREMA_OK;
    if (status == CREMA_OK) drop_kernel(p);
  }
  show(op, p, true);
  return offer(op, p);
}

/* A kernel that applies the first `count` post operations. */
static crema_status choose_for_posts(const asked *op, int count, cr_op_plan *p) {
  p->posts = count;
  p->declined = false;
  p->desc->u = op->key->desc->u;
  for (int i = 0; i < op->key->desc->args; ++i) p->desc->arg[i].shape = op->key->desc->arg[i].shape;
  cr_op_keep_posts(p->desc, count);
  return choose_kernel(op, p);
}

/* A library's kernel that lacks some of the last post operations, with ops for these, is faster
 * than crema's own kernel with all of them. Example: oneDNN declines a convolution with an addition
 * and a ReLU, and a kernel of crema's own takes it. Then the convolution is offered with the
 * addition only, and next without either. The first library kernel wins, and the rest run as ops.
 * If the libraries decline all three, crema's own kernel applies both. */
static crema_status choose(const asked *op, cr_op_plan *p) {
  const int posts = cr_posts_count(cr_op_posts(op->key->desc));
  crema_status status = choose_for_posts(op, posts, p);
  /* Before the result is rounded. */
  const cr_op_kind kind = op->key->desc->kind;
  if (op->key->desc->numbers > 0 || kind == CR_OP_QUANTIZE || kind == CR_OP_AFFINE_INT8) {
    return status;
  }
  for (int count = posts - 1; count >= 0; --count) {
    if (status != CREMA_OK || p->kernel->library || !p->declined) return status;
    drop_kernel(p);
    status = choose_for_posts(op, count, p);
  }
  if (status != CREMA_OK || p->kernel->library || p->posts == posts) return status;
  drop_kernel(p);
  return choose_for_posts(op, posts, p);
}

bool cr_op_plan_fits(const cr_op_plan *plan, const cr_plan_key *key) {
  if (plan->device != key->device || plan->threads != key->threads ||
      plan->fast_math != key->fast_math || !cr_op_desc_same(plan->asked, key->desc)) {
    return false;
  }
  for (int i = 0; plan->kernel->follows_hints && i < key->desc->args; ++i) {
    if (!cr_format_equal(plan->hint[i], key->hint[i])) return false;
  }
  return true;
}

void cr_op_plan_retain(cr_op_plan *plan) {
  atomic_fetch_add_explicit(&plan->references, 1, memory_order_relaxed);
}

void cr_op_plan_release(cr_op_plan *plan) {
  if (plan == NULL) return;
  if (atomic_fetch_sub_explicit(&plan->references, 1, memory_order_acq_rel) > 1) return;
  if (plan->kernel != NULL && plan->kernel->destroy != NULL) plan->kernel->destroy(&plan->plan);
  free(plan->hint);
  free(plan->shown);
  free(plan->format);
  cr_op_desc_free(plan->desc);
  cr_op_desc_free(plan->asked);
  free(plan);
}

static crema_status create(const cr_plan_key *key, cr_op_plan **out) {
  crema_status status = CREMA_OK;
  size_t args = (size_t)key->desc->args + 1;
  cr_op_plan *p = calloc(1, sizeof *p);
  if (p == NULL) return cr_fail_memory(sizeof *p, "a plan");
  atomic_init(&p->references, 1);
  p->device = key->device;
  p->threads = key->threads;
  p->fast_math = key->fast_math;
  CR_TRY_GOTO(cr_op_desc_copy(key->desc, &p->asked), fail);
  CR_TRY_GOTO(cr_op_desc_copy(key->desc, &p->desc), fail);
  p->hint = calloc(args, sizeof *p->hint);
  p->shown = calloc(args, sizeof *p->shown);
  p->format = calloc(args, sizeof *p->format);
  if (p->hint == NULL || p->shown == NULL || p->format == NULL) {
    status = cr_fail_memory(args * sizeof *p->hint, "a plan");
    goto fail;
  }
  memcpy(p->hint, key->hint, (size_t)key->desc->args * sizeof *p->hint);
  *out = p;
  return CREMA_OK;
fail:
  cr_op_plan_release(p);
  return status;
}

/* Once per kind of op and of device: a net may have hundreds of ops of a kind. */
static void warn_of_fallback(cr_op_kind kind, const cr_backend *backend) {
  static atomic_bool warned[CR_DEVICE_TYPES][CR_OP_KINDS];
  if (atomic_exchange(&warned[backend->type][kind], true)) return;
  cr_log_warning("op %s has no kernel on %s and runs on the CPU", cr_op_kind_name(kind),
                 backend->name);
}

crema_status cr_op_plan_make(const cr_op_use *use, const cr_plan_key *key, crema_context *context,
                             cr_op_plan **out) {
  cr_op_plan *p = NULL;
  CR_TRY(create(key, &p));
  crema_status status = choose(&(asked){use, key, context}, p);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
    warn_of_fallback(key->desc->kind, context->device->backend);
    p->fallback = true;
    crema_context *host = cr_host_context();
    const cr_watch own = host->watch;
    host->watch = context->watch;
    status = choose(&(asked){use, key, host}, p);
    host->watch = own;
  }
  if (status != CREMA_OK) {
    cr_op_plan_release(p);
    return status;
  }
  *out = p;
  return CREMA_OK;
}
