/* The share of positions whose label is among the k best scores. */
#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/label.h"

static crema_status accuracy_plan(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(cr_check_labels(plan));
  /* Per class: the number of counted positions, and the number of right positions among them. */
  plan->workspace_bytes = 2 * (size_t)s.channels * sizeof(int64_t);
  return CREMA_OK;
}

/* Whether fewer than top_k classes score at least as well as `truth`: ties count against. */
static bool is_right(const cr_split *s, const cr_real *score, int64_t truth, int top_k) {
  const cr_real own = score[truth * s->inner];
  int better = 0;
  for (int64_t c = 0; c < s->channels && better < top_k; ++c) {
    better += c != truth && score[c * s->inner] >= own;
  }
  return better < top_k;
}

/* score (outer, C, inner), label (outer, inner), accuracy (1), per class (C). */
static crema_status accuracy(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  const cr_real *score = cr_as_reals(call->buffer, 0);
  const cr_real *label = cr_as_reals(call->buffer, 1);
  cr_real *per_class = cr_as_reals(call->buffer, 3);
  int64_t *seen = (int64_t *)call->workspace.address, *right = seen + s.channels;
  const int64_t positions = s.outer * s.inner;
  const bool has_ignore = call->desc->u.accuracy.has_ignore;
  const int ignore = call->desc->u.accuracy.ignore, top_k = call->desc->u.accuracy.top_k;
  memset(seen, 0, 2 * (size_t)s.channels * sizeof *seen);
  int64_t all_seen = 0, all_right = 0;
  for (int64_t i = 0; i < positions; ++i) {
    const int64_t truth = cr_label_class(label[i], s.channels, has_ignore, ignore);
    if (truth == CR_LABEL_IGNORED) continue;
    if (truth == CR_LABEL_BAD) return cr_label_fail(label[i], i, positions, s.channels, has_ignore);
    const cr_real *at = score + i / s.inner * s.channels * s.inner + i % s.inner;
    const bool hit = is_right(&s, at, truth, top_k);
    ++seen[truth], ++all_seen;
    right[truth] += hit, all_right += hit;
  }
  *cr_as_reals(call->buffer, 2) = all_seen ? (cr_real)((double)all_right / (double)all_seen) : 0;
  for (int64_t c = 0; per_class && c < s.channels; ++c) {
    per_class[c] = seen[c] ? (cr_real)((double)right[c] / (double)seen[c]) : 0;
  }
  return CREMA_OK;
}

CR_REF_KERNEL(accuracy, ACCURACY, .plan = accuracy_plan, .run = accuracy);
