#include "device/backend/op_check.h"

#include "core/fail.h"

/* Checks that the parts [first, last) together form `whole` along u.axis. */
static crema_status check_parts(const cr_plan *plan, int whole, int first, int last) {
  const cr_split all = cr_op_split(plan->desc, whole, plan->desc->u.axis);
  int64_t channels = 0;
  for (int k = first; k < last; ++k) {
    const cr_split part = cr_op_split(plan->desc, k, plan->desc->u.axis);
    channels += part.channels;
    if (part.outer != all.outer || part.inner != all.inner) channels = -1;
    if (channels < 0) break;
  }
  if (channels != all.channels) {
    return cr_fail(CREMA_E_SHAPE, "the parts do not make up the whole along axis %d",
                   plan->desc->u.axis);
  }
  return CREMA_OK;
}

crema_status cr_check_concat(cr_plan *plan) {
  return check_parts(plan, plan->desc->args - 1, 0, plan->desc->args - 1);
}

crema_status cr_check_slice(cr_plan *plan) {
  return check_parts(plan, 0, 1, plan->desc->args);
}

crema_status cr_check_crop(cr_plan *plan) {
  const bool forward = plan->desc->kind == CR_OP_CROP_FWD;
  const crema_shape *whole = &plan->desc->arg[forward ? 0 : 1].shape;
  const crema_shape *part = &plan->desc->arg[forward ? 1 : 0].shape;
  bool fits = whole->axes == part->axes && whole->axes > 0;
  for (int a = 0; fits && a < whole->axes; ++a) {
    const int64_t offset = plan->desc->u.offset[a];
    fits = offset >= 0 && offset + part->dim[a] <= whole->dim[a];
  }
  return fits ? CREMA_OK : cr_fail(CREMA_E_SHAPE, "the window to crop leaves the source");
}

crema_status cr_check_permute(cr_plan *plan) {
  const crema_shape *from = &plan->desc->arg[0].shape, *to = &plan->desc->arg[1].shape;
  bool fits = from->axes == to->axes;
  for (int a = 0; fits && a < to->axes; ++a) {
    const int of = plan->desc->u.order[a];
    fits = of >= 0 && of < from->axes && from->dim[of] == to->dim[a];
  }
  return fits ? CREMA_OK : cr_fail(CREMA_E_SHAPE, "the permuted shapes do not correspond");
}

crema_status cr_check_arg_max(cr_plan *plan) {
  const crema_shape *from = &plan->desc->arg[0].shape, *to = &plan->desc->arg[1].shape;
  if (from->axes == 3 && to->axes == 3 && to->dim[1] <= from->dim[1]) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "more largest values are asked for than there are");
}

crema_status cr_check_gather(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  const bool biased = desc->args > 3 && desc->arg[3].shape.axes >= 0;
  const int64_t columns = cr_op_split(desc, 0, 0).inner;
  if (!biased || cr_op_arg_count(desc, 3) == columns) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%lld biases for rows of %lld values",
                 (long long)cr_op_arg_count(desc, 3), (long long)columns);
}

crema_status cr_check_labels(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  if (cr_op_arg_count(plan->desc, 1) != s.outer * s.inner) {
    return cr_fail(CREMA_E_SHAPE, "%lld labels for %lld x %lld positions",
                   (long long)cr_op_arg_count(plan->desc, 1), (long long)s.outer,
                   (long long)s.inner);
  }
  return CREMA_OK;
}

crema_status cr_check_copy(cr_plan *plan) {
  const cr_op_arg *arg = plan->desc->arg;
  if (arg[0].type != arg[1].type || crema_dtype_size(arg[0].type) == 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "copy from %s to %s", crema_dtype_name(arg[0].type),
                   crema_dtype_name(arg[1].type));
  }
  return CREMA_OK;
}

crema_status cr_check_lrn(cr_plan *plan) {
  const crema_shape *shape = &plan->desc->arg[0].shape;
  if (shape->axes == 4 && plan->desc->u.lrn.size >= 1) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "LRN of size %lld over a blob of %d axes, not 4",
                 (long long)plan->desc->u.lrn.size, shape->axes);
}

bool cr_update_needs_two(cr_update_rule rule) {
  return rule == CR_UPDATE_ADADELTA || rule == CR_UPDATE_ADAM || rule == CR_UPDATE_DIRECTION;
}

crema_status cr_check_update(cr_plan *plan) {
  const int64_t count = cr_op_arg_count(plan->desc, 0);
  const cr_update_rule rule = plan->desc->u.update.rule;
  if (cr_op_arg_count(plan->desc, 1) != count || cr_op_arg_count(plan->desc, 2) != count ||
      (cr_update_needs_two(rule) && cr_op_arg_count(plan->desc, 3) != count)) {
    return cr_fail(CREMA_E_SHAPE, "update: gradient and history are not shaped like the weight");
  }
  if (rule == CR_UPDATE_DIRECTION && plan->desc->kind != CR_OP_UPDATE_KEEP) {
    return cr_fail(CREMA_E_UNSUPPORTED, "update: a direction that is not kept");
  }
  return CREMA_OK;
}

crema_status cr_check_dots(cr_plan *plan) {
  const int64_t count = cr_op_arg_count(plan->desc, 0);
  if (cr_op_arg_count(plan->desc, 1) == count) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "scalar products of arrays of %lld and %lld elements",
                 (long long)count, (long long)cr_op_arg_count(plan->desc, 1));
}

crema_status cr_check_dots_segments(const cr_call *call) {
  const int64_t results = cr_op_arg_count(call->desc, 2);
  const cr_op_scalars *s = call->scalars;
  if (s != NULL && s->segment != NULL && s->segments == results) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT, "%d segments for %lld scalar products",
                 s == NULL || s->segment == NULL ? 0 : s->segments, (long long)results);
}

static crema_status wrong_recurrence(const cr_split *s) {
  return cr_fail(CREMA_E_SHAPE,
                 "a recurrence of %lld steps, %lld sequences and %lld units, with arguments of "
                 "other shapes",
                 (long long)s->outer, (long long)s->channels, (long long)s->inner);
}

crema_status cr_check_recurrence(const cr_plan *plan, int state, int gates, int64_t per_unit,
                                 int cont, int weights, int first) {
  const cr_op_desc *desc = plan->desc;
  const cr_split s = cr_op_split(desc, state, 1);
  const int64_t all = per_unit * s.inner, rows = s.outer * s.channels;
  const int64_t first_count = cr_op_arg_count(desc, first);
  if (cr_op_arg_count(desc, gates) == rows * all && cr_op_arg_count(desc, cont) == rows &&
      cr_op_arg_count(desc, weights) == all * s.inner &&
      (first_count == s.channels * s.inner || first_count == 0)) {
    return CREMA_OK;
  }
  return wrong_recurrence(&s);
}

crema_status cr_check_lstm_unit(cr_plan *plan) {
  const cr_op_desc *desc = plan->desc;
  const int64_t cells = cr_op_arg_count(desc, 2);
  const cr_split s = cr_op_split(desc, 2, 1);
  for (int i = 3; i < desc->args; ++i) {
    const bool gates = desc->kind == CR_OP_LSTM_UNIT_BWD && i == 5;
    if (cr_op_arg_count(desc, i) != (gates ? 4 : 1) * cells) return wrong_recurrence(&s);
  }
  if (s.outer == 1 && cr_op_arg_count(desc, 0) == 4 * cells &&
      cr_op_arg_count(desc, 1) == s.channels) {
    return CREMA_OK;
  }
  return wrong_recurrence(&s);
}

crema_status cr_check_maps(const cr_plan *plan, int src, int dst) {
  const crema_shape *s = &plan->desc->arg[src].shape, *d = &plan->desc->arg[dst].shape;
  if (s->axes == 4 && d->axes == 4 && s->dim[0] == d->dim[0] && s->dim[1] == d->dim[1]) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_SHAPE, "%s: source and result must have 4 axes, and the first two alike",
                 cr_op_kind_name(plan->desc->kind));
}
