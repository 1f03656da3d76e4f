#include "layers/detection/matching.h"

#include <string.h>

#include "core/fail.h"

enum {
  PER_PREDICTION = CAFFE__MULTI_BOX_LOSS_PARAMETER__MATCH_TYPE__PER_PREDICTION,
  HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* Smaller overlaps are none. */
static const float least_overlap = 1e-6f;

void cr_matcher_free(cr_matcher *matcher) {
  cr_buffer_free(&matcher->box);
  cr_buffer_free(&matcher->pair);
  cr_buffer_free(&matcher->taken);
  cr_buffer_free(&matcher->candidate);
  cr_buffer_free(&matcher->kept);
}

/* The boxes of all priors: themselves, or decoded. */
static crema_status read_boxes(cr_matcher *m, const cr_matching *of, const float *loc,
                               int64_t loc_classes, int64_t loc_class) {
  CR_TRY(cr_buffer_reserve(&m->box, (size_t)of->priors * sizeof(cr_box)));
  cr_box *box = (cr_box *)(void *)m->box.data;
  for (int64_t k = 0; k < of->priors; ++k) {
    const cr_prior prior = cr_prior_at(of->prior, of->priors, k);
    box[k] = prior.box;
    if (loc == NULL) continue;
    box[k] = cr_box_decode(of->param->code_type, of->param->encode_variance_in_target, &prior,
                           loc + 4 * (k * loc_classes + loc_class));
  }
  return CREMA_OK;
}

static float pair_of(const cr_matcher *m, const cr_matching *of, int64_t k, size_t t) {
  return ((const float *)(const void *)m->pair.data)[(size_t)k * of->truths + t];
}

static crema_status overlaps(cr_matcher *m, const cr_matching *of, int64_t label, int32_t *match,
                             float *overlap) {
  const cr_box *box = (const cr_box *)(const void *)m->box.data;
  CR_TRY(cr_buffer_reserve(&m->pair, (size_t)of->priors * of->truths * sizeof(float)));
  float *pair = (float *)(void *)m->pair.data;
  for (int64_t k = 0; k < of->priors; ++k) {
    match[k] = CR_UNMATCHED;
    overlap[k] = 0;
    if (of->param->ignore_cross_boundary_bbox && cr_box_crosses(box[k])) match[k] = CR_LEFT_OUT;
    for (size_t t = 0; t < of->truths; ++t) {
      const bool meant = label < 0 || of->truth[t].label == label;
      float found =
          meant && match[k] == CR_UNMATCHED ? cr_box_overlap(box[k], of->truth[t].box) : 0;
      if (!(found > least_overlap)) found = 0;
      pair[(size_t)k * of->truths + t] = found;
      if (found > overlap[k]) overlap[k] = found;
    }
  }
  return CREMA_OK;
}

/* Each object gets the box that overlaps it most, the pair with the largest overlap first. */
static crema_status match_objects(cr_matcher *m, const cr_matching *of, int32_t *match,
                                  float *overlap) {
  cr_buffer_clear(&m->taken);
  for (size_t t = 0; t < of->truths; ++t) CR_TRY(cr_buffer_append(&m->taken, "", 1));
  for (;;) {
    int64_t box = -1;
    size_t object = 0;
    float most = 0;
    for (int64_t k = 0; k < of->priors; ++k) {
      if (match[k] != CR_UNMATCHED || overlap[k] <= most) continue;
      for (size_t t = 0; t < of->truths; ++t) {
        const float found = pair_of(m, of, k, t);
        if (!m->taken.data[t] && found > most) box = k, object = t, most = found;
      }
    }
    if (box < 0) return CREMA_OK;
    match[box] = (int32_t)object;
    overlap[box] = most;
    m->taken.data[object] = 1;
  }
}

crema_status cr_match(cr_matcher *m, const cr_matching *of, const float *loc, int64_t loc_classes,
                      int64_t loc_class, int64_t label, int32_t *match, float *overlap) {
  CR_TRY(read_boxes(m, of, loc, loc_classes, loc_class));
  CR_TRY(overlaps(m, of, label, match, overlap));
  CR_TRY(match_objects(m, of, match, overlap));
  if ((int)of->param->match_type != PER_PREDICTION) return CREMA_OK;
  for (int64_t k = 0; k < of->priors; ++k) {
    float most = 0;
    if (match[k] != CR_UNMATCHED) continue;
    for (size_t t = 0; t < of->truths; ++t) {
      const float found = pair_of(m, of, k, t);
      if (found > most && found >= of->param->overlap_threshold) {
        match[k] = (int32_t)t;
        most = found;
      }
    }
    if (most > 0) overlap[k] = most;
  }
  return CREMA_OK;
}

/* ---- mining -------------------------------------------------------------- */

/* The candidates in the order of their loss, how many of them there are, and how many are wanted.
 */
static crema_status rank(cr_matcher *m, const cr_matching *of, const double *loss,
                         const float *overlap, const int32_t *match, size_t *count,
                         size_t *wanted) {
  const bool hard = (int)of->param->mining_type == HARD_EXAMPLE;
  int64_t matched = 0;
  cr_buffer_clear(&m->candidate);
  for (int64_t k = 0; k < of->priors; ++k) {
    const cr_ranked one = {(float)loss[k], 0, (int32_t)k};
    matched += match[k] >= 0;
    if (!hard && (match[k] != CR_UNMATCHED || !(overlap[k] < of->param->neg_overlap))) continue;
    CR_TRY(cr_buffer_append(&m->candidate, &one, sizeof one));
  }
  *count = m->candidate.size / sizeof(cr_ranked);
  const double share = (double)matched * (double)of->param->neg_pos_ratio;
  *wanted = hard ? (size_t)of->param->sample_size : share >= 1e9 ? *count : (size_t)share;
  if (*count > 0) cr_rank((cr_ranked *)(void *)m->candidate.data, *count);
  return CREMA_OK;
}

crema_status cr_mine(cr_matcher *m, const cr_matching *of, const float *loc, const double *loss,
                     const float *overlap, int32_t *match, uint8_t *negative) {
  const Caffe__NonMaximumSuppressionParameter *nms = of->param->nms_param;
  const bool hard = (int)of->param->mining_type == HARD_EXAMPLE;
  size_t count = 0, wanted = 0;
  CR_TRY(rank(m, of, loss, overlap, match, &count, &wanted));
  cr_ranked *all = (cr_ranked *)(void *)m->candidate.data;
  if (nms != NULL && nms->nms_threshold > 0 && count > 0) {
    CR_TRY(read_boxes(m, of, of->param->use_prior_for_nms ? NULL : loc, 1, 0));
    if (nms->has_top_k && nms->top_k >= 0 && count > (size_t)nms->top_k) count = (size_t)nms->top_k;
    CR_TRY(cr_suppress((const cr_box *)(const void *)m->box.data, all, &count, nms->nms_threshold,
                       1, -1, &m->kept));
  }
  if (count > wanted) count = wanted;
  memset(negative, 0, (size_t)of->priors);
  for (size_t i = 0; i < count; ++i) negative[all[i].index] = 1;
  for (int64_t k = 0; k < of->priors; ++k) {
    if (match[k] >= 0 && hard && !negative[k]) match[k] = CR_UNMATCHED;
    else if (match[k] != CR_UNMATCHED) negative[k] = 0;
  }
  return CREMA_OK;
}
