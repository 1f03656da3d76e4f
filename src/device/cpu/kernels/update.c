/* The solvers' update: weight, gradient and history in one pass. update_rules.h has the formulas.
 */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/update_rules.h"

/* Where a run begins; parts of the arrays that the rule does not have stay NULL. */
static update_run at(const update_run *u, int64_t begin) {
  update_run out = *u;
  out.w += begin, out.g += begin, out.h0 += begin;
  if (out.h1) out.h1 += begin;
  return out;
}

static void update_only(cr_update_rule rule, update_run u, int64_t n) {
  update_by(rule, u, false, n);
}

static void update_and_keep(cr_update_rule rule, update_run u, int64_t n) {
  update_by(rule, u, true, n);
}

/* The run of a segment's elements from `begin` on. */
static update_run in_segment(const update_run *all, const cr_op_desc *desc,
                             const cr_update_segment *segment, int64_t begin) {
  const bool l1 = desc->u.update.l1, apart = desc->u.update.decoupled;
  update_run out = at(all, segment->begin + begin);
  out.rate = (cr_real)segment->rate;
  out.l1 = l1 ? (cr_real)segment->decay : 0;
  out.l2 = l1 || apart ? 0 : (cr_real)segment->decay;
  out.apart = apart ? (cr_real)segment->decay : 0;
  return out;
}

/* Elements `begin` to `end` - 1, counted through all segments. */
static void update_part(const cr_call *call, const update_run *all,
                        const cr_update_segment *segment, int segments, int64_t begin,
                        int64_t end) {
  const cr_update_rule rule = call->desc->u.update.rule;
  const bool keep = call->desc->kind == CR_OP_UPDATE_KEEP;
  for (int i = 0; i < segments && begin < end; ++i) {
    const int64_t count = segment[i].count;
    const int64_t stop = end < count ? end : count;
    if (begin < stop) {
      const update_run run = in_segment(all, call->desc, &segment[i], begin);
      if (keep) update_and_keep(rule, run, stop - begin);
      else update_only(rule, run, stop - begin);
    }
    begin = begin > count ? begin - count : 0;
    end -= count;
  }
}

/* weight, gradient, history 0, history 1. */
static crema_status update(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "update without its scalars");
  const cr_op_scalars *s = call->scalars;
  const bool two = cr_update_needs_two(call->desc->u.update.rule);
  const update_run all = {.w = cr_as_reals(call->buffer, 0),
                          .g = cr_as_reals(call->buffer, 1),
                          .h0 = cr_as_reals(call->buffer, 2),
                          .h1 = two ? cr_as_reals(call->buffer, 3) : NULL,
                          .scale = (cr_real)s->grad_scale,
                          .momentum = (cr_real)s->momentum,
                          .momentum2 = (cr_real)s->momentum2,
                          .rms_decay = (cr_real)s->rms_decay,
                          .delta = (cr_real)s->delta};
  const cr_update_segment whole = {0, cr_op_arg_count(call->desc, 0), s->rate, s->decay};
  const cr_update_segment *segment = s->segment != NULL ? s->segment : &whole;
  const int segments = s->segment != NULL ? s->segments : 1;
  int64_t count = 0;
  for (int i = 0; i < segments; ++i) count += segment[i].count;
#pragma omp parallel for schedule(static) if (count >= CR_REF_PARALLEL_MIN)
  for (int part = 0; part < CR_REF_PARTS; ++part) {
    update_part(call, &all, segment, segments, cr_ref_part(count, part),
                cr_ref_part(count, part + 1));
  }
  return CREMA_OK;
}

CR_REF_KERNEL(update, UPDATE, .plan = cr_check_update, .run = update);
CR_REF_KERNEL(update_keep, UPDATE_KEEP, .plan = cr_check_update, .run = update);
