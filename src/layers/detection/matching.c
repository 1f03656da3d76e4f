#include "layers/detection/matching.h"

#include <string.h>

#include "core/clones.h"
#include "core/fail.h"

enum {
  PER_PREDICTION = CAFFE__MULTI_BOX_LOSS_PARAMETER__MATCH_TYPE__PER_PREDICTION,
  HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* Smaller overlaps are none. */
static const float least_overlap = 1e-6f;

void cr_matcher_free(cr_matcher *matcher) {
  cr_buffer_free(&matcher->prior);
  cr_buffer_free(&matcher->decoded);
  cr_buffer_free(&matcher->pair);
  cr_buffer_free(&matcher->object);
  cr_buffer_free(&matcher->candidate);
  cr_buffer_free(&matcher->box);
  cr_buffer_free(&matcher->kept);
}

/* ---- boxes --------------------------------------------------------------- */

/* The box that is matched for prior k: itself, or with `loc` what the net makes of it. */
static cr_box box_of(const cr_matching *of, const float *loc, int64_t k) {
  const cr_prior prior = cr_prior_at(of->prior, of->priors, k);
  if (loc == NULL) return prior.box;
  return cr_box_decode(of->param->code_type, of->param->encode_variance_in_target, &prior, loc);
}

/* Instead of a size. */
enum { LEFT_OUT = -1 };

/* All of them. Those that are left out have no area, so that they overlap nothing. */
static crema_status read_columns(const cr_matching *of, const float *loc, int64_t step,
                                 cr_buffer *memory, cr_box_columns *out) {
  CR_TRY(cr_box_columns_make(memory, (size_t)of->priors, out));
  for (int64_t k = 0; k < of->priors; ++k) {
    const cr_box box = box_of(of, loc ? loc + k * step : NULL, k);
    const bool left_out = of->param->ignore_cross_boundary_bbox && cr_box_crosses(box);
    cr_box_columns_add(out, left_out ? (cr_box){0, 0, -1, -1} : box);
    if (left_out) out->size[k] = LEFT_OUT;
  }
  return CREMA_OK;
}

crema_status cr_matcher_begin(cr_matcher *m, const cr_matching *of) {
  return read_columns(of, NULL, 0, &m->prior, &m->priors);
}

/* ---- matching ------------------------------------------------------------ */

/* An object and the box that overlaps it most, of equal ones the first. */
typedef struct object {
  float most;
  int64_t box;
  bool taken;
} object;

/* The overlaps of an object with all boxes, smaller ones than count as 0; and of each box the best
 * of the objects so far, of equal ones the first. */
CR_CLONES static void take_overlaps(int64_t priors, int32_t t, float *row, float *most,
                                    int32_t *best) {
#pragma omp simd
  for (int64_t k = 0; k < priors; ++k) {
    const float found = row[k] > least_overlap ? row[k] : 0;
    const bool more = found > most[k];
    row[k] = found;
    most[k] = more ? found : most[k];
    best[k] = more ? t : best[k];
  }
}

/* Objects of class `label`, or with -1 all. */
static void find_overlaps(const cr_matching *of, const cr_box_columns *columns, int64_t label,
                          float *pair, int32_t *best, float *overlap) {
  memset(overlap, 0, (size_t)of->priors * sizeof *overlap);
  for (size_t t = 0; t < of->truths; ++t, pair += of->priors) {
    if (label >= 0 && of->truth[t].label != label) {
      memset(pair, 0, (size_t)of->priors * sizeof *pair);
      continue;
    }
    cr_box_columns_overlaps(columns, of->truth[t].box, pair);
    take_overlaps(of->priors, (int32_t)t, pair, overlap, best);
  }
}

CR_CLONES static float largest(int64_t count, const float *value) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t k = 0; k < count; ++k) most = value[k] > most ? value[k] : most;
  return most;
}

static void find_best(int64_t priors, const float *pair, object *o) {
  o->most = largest(priors, pair);
  o->box = 0;
  while (o->most > 0 && pair[o->box] != o->most) ++o->box;
}

/* Whether a's pair is taken before b's: that with the larger overlap, then that of the first box.
 */
static bool goes_before(const object *a, const object *b) {
  return a->most != b->most ? a->most > b->most : a->box < b->box;
}

/* Each object gets the box that overlaps it most, the pair with the largest overlap first. A box
 * that has an object overlaps no other one from then on. */
static crema_status match_objects(cr_matcher *m, const cr_matching *of, float *pair, int32_t *match,
                                  float *overlap) {
  CR_TRY(cr_buffer_reserve(&m->object, (of->truths + 1) * sizeof(object)));
  object *all = (object *)(void *)m->object.data;
  for (size_t t = 0; t < of->truths; ++t) {
    all[t].taken = false;
    find_best(of->priors, pair + (int64_t)t * of->priors, &all[t]);
  }
  for (;;) {
    size_t first = of->truths;
    for (size_t t = 0; t < of->truths; ++t) {
      if (all[t].taken || !(all[t].most > 0)) continue;
      if (first == of->truths || goes_before(&all[t], &all[first])) first = t;
    }
    if (first == of->truths) return CREMA_OK;
    const int64_t box = all[first].box;
    match[box] = (int32_t)first;
    overlap[box] = all[first].most;
    all[first].taken = true;
    for (size_t t = 0; t < of->truths; ++t) {
      pair[(int64_t)t * of->priors + box] = 0;
      if (all[t].taken || all[t].box != box) continue;
      find_best(of->priors, pair + (int64_t)t * of->priors, &all[t]);
    }
  }
}

CR_CLONES static void begin_matches(int64_t priors, const float *size, int32_t *match) {
#pragma omp simd
  for (int64_t k = 0; k < priors; ++k) match[k] = size[k] == LEFT_OUT ? CR_LEFT_OUT : CR_UNMATCHED;
}

/* The boxes that are left get the object that they overlap most, if they do by `least` or more. */
CR_CLONES static void match_near(int64_t priors, float least, const float *overlap,
                                 const int32_t *best, int32_t *match) {
#pragma omp simd
  for (int64_t k = 0; k < priors; ++k) {
    const bool near = (overlap[k] > 0) & (overlap[k] >= least) & (match[k] == CR_UNMATCHED);
    match[k] = near ? best[k] : match[k];
  }
}

crema_status cr_match(cr_matcher *m, const cr_matching *of, const float *loc, int64_t loc_classes,
                      int64_t loc_class, int64_t label, int32_t *match, float *overlap) {
  const size_t priors = (size_t)of->priors;
  const bool predicted = (int)of->param->match_type == PER_PREDICTION;
  cr_box_columns columns = m->priors;
  if (loc != NULL) {
    CR_TRY(read_columns(of, loc + 4 * loc_class, 4 * loc_classes, &m->decoded, &columns));
  }
  /* Behind the overlaps, of each box the object that it overlaps most. */
  CR_TRY(cr_buffer_reserve(&m->pair, priors * (of->truths + 1) * sizeof(float)));
  float *pair = (float *)(void *)m->pair.data;
  int32_t *best = (int32_t *)(void *)(pair + priors * of->truths);
  begin_matches(of->priors, columns.size, match);
  find_overlaps(of, &columns, label, pair, best, overlap);
  CR_TRY(match_objects(m, of, pair, match, overlap));
  if (predicted) match_near(of->priors, of->param->overlap_threshold, overlap, best, match);
  return CREMA_OK;
}

/* ---- mining -------------------------------------------------------------- */

static bool suppresses(const cr_matching *of) {
  return of->param->nms_param != NULL && of->param->nms_param->nms_threshold > 0;
}

/* The best candidates by their loss, as many as are wanted, or where boxes are suppressed all that
 * take part, in order. */
static crema_status rank(cr_matcher *m, const cr_matching *of, const float *loss,
                         const float *overlap, const int32_t *match, size_t *count,
                         size_t *wanted) {
  const Caffe__NonMaximumSuppressionParameter *nms = of->param->nms_param;
  const bool hard = (int)of->param->mining_type == HARD_EXAMPLE;
  int64_t matched = 0;
  size_t candidates = 0;
  CR_TRY(cr_buffer_reserve(&m->candidate, ((size_t)of->priors + 1) * sizeof(cr_ranked)));
  cr_ranked *all = (cr_ranked *)(void *)m->candidate.data;
  for (int64_t k = 0; k < of->priors; ++k) {
    const bool free = match[k] == CR_UNMATCHED && overlap[k] < of->param->neg_overlap;
    matched += match[k] >= 0;
    all[candidates] = (cr_ranked){loss[k], 0, (int32_t)k};
    candidates += hard || free;
  }
  const double share = (double)matched * (double)of->param->neg_pos_ratio;
  *wanted = hard ? (size_t)of->param->sample_size : share >= 1e9 ? candidates : (size_t)share;
  if (suppresses(of)) {
    const bool some = nms->has_top_k && nms->top_k >= 0;
    *count = cr_rank_best(all, candidates, some ? (size_t)nms->top_k : candidates);
  } else {
    *count = cr_select_best(all, candidates, *wanted);
  }
  return CREMA_OK;
}

/* The boxes that are suppressed, of the priors or of what the net makes of them. */
static crema_status suppress(cr_matcher *m, const cr_matching *of, const float *loc,
                             cr_ranked *candidate, size_t *count) {
  CR_TRY(cr_buffer_reserve(&m->box, (size_t)of->priors * sizeof(cr_box)));
  cr_box *box = (cr_box *)(void *)m->box.data;
  for (int64_t k = 0; k < of->priors; ++k) {
    box[k] = box_of(of, of->param->use_prior_for_nms ? NULL : loc + 4 * k, k);
  }
  return cr_suppress(box, candidate, count, of->param->nms_param->nms_threshold, 1, -1, &m->kept);
}

crema_status cr_mine(cr_matcher *m, const cr_matching *of, const float *loc, const float *loss,
                     const float *overlap, int32_t *match, uint8_t *negative) {
  const bool hard = (int)of->param->mining_type == HARD_EXAMPLE;
  size_t count = 0, wanted = 0;
  CR_TRY(rank(m, of, loss, overlap, match, &count, &wanted));
  cr_ranked *all = (cr_ranked *)(void *)m->candidate.data;
  if (suppresses(of) && count > 0) CR_TRY(suppress(m, of, loc, all, &count));
  if (count > wanted) count = wanted;
  memset(negative, 0, (size_t)of->priors);
  for (size_t i = 0; i < count; ++i) negative[all[i].index] = 1;
  /* Else none of them is matched. */
  for (int64_t k = 0; k < of->priors && hard; ++k) {
    if (match[k] >= 0 && !negative[k]) match[k] = CR_UNMATCHED;
    else if (match[k] != CR_UNMATCHED) negative[k] = 0;
  }
  return CREMA_OK;
}
