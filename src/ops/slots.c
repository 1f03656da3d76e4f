/* The plans that an op keeps. */
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "ops/op_private.h"
#include "ops/plan_cache.h"

static void drop_slot(cr_op *op, int i) {
  cr_op_plan *plan = op->slot[i].plan;
  if (plan->kernel->close != NULL) plan->kernel->close(&plan->plan, op->slot[i].execution);
  cr_op_plan_release(plan);
  --op->slots;
  memmove(&op->slot[i], &op->slot[i + 1], (size_t)(op->slots - i) * sizeof op->slot[0]);
}

void cr_op_drop_plans(cr_op *op) {
  while (op->slots > 0) drop_slot(op, op->slots - 1);
}

/* Takes the reference over, also on failure. */
static crema_status keep(cr_op *op, cr_op_plan *plan, cr_op_slot *out) {
  cr_op_slot slot = {.plan = plan};
  if (plan->kernel->open != NULL) {
    crema_status status = plan->kernel->open(&plan->plan, &slot.execution);
    if (status != CREMA_OK) {
      (void)cr_fail_in(status, "op %s", plan->kernel->name);
      cr_op_plan_release(plan);
      return status;
    }
  }
  if (op->slots == CR_OP_PLANS) drop_slot(op, 0);
  *out = slot;
  slot.ran = true;
  op->slot[op->slots++] = slot;
  return CREMA_OK;
}

/* A cached plan that is not ready, such as after a change of threads, is replaced by a new one. */
static crema_status find_or_make(cr_op *op, const cr_plan_key *key, crema_context *context,
                                 cr_op_plan **out) {
  cr_plan_cache *cache = context->plans;
  cr_op_plan *found = cache == NULL ? NULL : cr_plan_cache_find(cache, key);
  if (found != NULL) {
    crema_status status = cr_op_plan_ready(found);
    if (status == CREMA_OK) {
      *out = found;
      return CREMA_OK;
    }
    if (status != CREMA_E_UNSUPPORTED) {
      (void)cr_fail_in(status, "op %s", found->kernel->name);
      cr_op_plan_release(found);
      return status;
    }
  }
  crema_status status = cr_op_plan_make(op->use, key, context, out);
  if (status == CREMA_OK && cache != NULL) cr_plan_cache_put(cache, key, found, out);
  cr_op_plan_release(found);
  return status;
}

static void read_key(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                     cr_plan_key *key) {
  for (int i = 0; i < op->desc->args; ++i) {
    if (tensor[i] != NULL) op->desc->arg[i].type = cr_tensor_type(tensor[i]);
    bool read = tensor[i] != NULL && (op->use[i].access == 'R' || op->use[i].access == 'U');
    op->hint[i] = read ? cr_tensor_head(tensor[i]) : (cr_format){op->desc->arg[i].type, NULL};
  }
  *key = (cr_plan_key){.desc = op->desc,
                       .hint = op->hint,
                       .device = context->device,
                       .threads = cr_scheduler_threads(context),
                       .fast_math = context->fast_math};
}

/* Checks that a kept plan is ready before tensors are resolved: another kernel needs other formats.
 */
crema_status cr_op_find_plan(cr_op *op, crema_context *context, cr_tensor *const *tensor,
                             cr_op_slot *out) {
  cr_plan_key key;
  read_key(op, context, tensor, &key);
  for (int i = 0; i < op->slots; ++i) {
    const cr_op_plan *plan = op->slot[i].plan;
    if (!cr_op_plan_fits(plan, &key)) continue;
    crema_status status = cr_op_plan_ready(plan);
    if (status == CREMA_OK) *out = op->slot[i];
    if (status != CREMA_E_UNSUPPORTED) return cr_fail_in(status, "op %s", plan->kernel->name);
    cr_log_debug("%s given up: %s", plan->kernel->name, crema_error_text());
    drop_slot(op, i);
    break;
  }
  cr_op_plan *plan = NULL;
  CR_TRY(find_or_make(op, &key, context, &plan));
  return keep(op, plan, out);
}
