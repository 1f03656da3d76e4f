#include "layers/detection/geometry/matching.h"

#include <math.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "core/float_bits.h"

enum {
  PER_PREDICTION = CAFFE__MULTI_BOX_LOSS_PARAMETER__MATCH_TYPE__PER_PREDICTION,
  HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* Smaller overlaps are none. */
static const float least_overlap = 1e-6f;

void cr_matcher_free(cr_matcher *matcher) {
  cr_buffer_free(&matcher->decoded);
  cr_buffer_free(&matcher->pair);
  cr_buffer_free(&matcher->object);
  cr_buffer_free(&matcher->key);
  cr_buffer_free(&matcher->candidate);
  cr_buffer_free(&matcher->box);
  cr_buffer_free(&matcher->kept);
}

/* The box that is matched for prior k: the prior, or with `loc` the box that the net predicts. */
static cr_box box_of(const cr_matching *of, const float *loc, int64_t k) {
  const cr_prior prior = cr_prior_at(of->prior, of->priors, k);
  if (loc == NULL) return prior.box;
  return cr_box_decode(of->param->code_type, of->param->encode_variance_in_target, &prior, loc);
}

/* Instead of a size. */
enum { LEFT_OUT = -1 };

/* Reads all boxes. Omitted boxes have no area and therefore no overlap. */
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

/* The priors themselves, as read_columns. */
CR_CLONES static void split_priors(int64_t priors, const float *prior, bool crossing_left_out,
                                   cr_box_columns *out) {
  float *xmin = out->xmin, *ymin = out->ymin, *xmax = out->xmax, *ymax = out->ymax;
#pragma omp simd
  for (int64_t k = 0; k < priors; ++k) {
    const float x0 = prior[4 * k], y0 = prior[4 * k + 1], x1 = prior[4 * k + 2],
                y1 = prior[4 * k + 3];
    const bool outside =
        (x0 < 0) | (x0 > 1) | (y0 < 0) | (y0 > 1) | (x1 < 0) | (x1 > 1) | (y1 < 0) | (y1 > 1);
    const bool left_out = crossing_left_out & outside;
    const float size = ((x1 < x0) | (y1 < y0)) ? 0 : (x1 - x0) * (y1 - y0);
    xmin[k] = left_out ? 0 : x0;
    ymin[k] = left_out ? 0 : y0;
    xmax[k] = left_out ? -1 : x1;
    ymax[k] = left_out ? -1 : y1;
    out->size[k] = left_out ? LEFT_OUT : size;
  }
}

crema_status cr_matching_columns(cr_matching *of, cr_buffer *memory) {
  CR_TRY(cr_box_columns_make(memory, (size_t)of->priors, &of->columns));
  split_priors(of->priors, of->prior, of->param->ignore_cross_boundary_bbox, &of->columns);
  of->columns.count = (size_t)of->priors;
  return CREMA_OK;
}

/* An object and the box that overlaps it most, of equal ones the first. */
typedef struct object {
  float most;
  int64_t box;
  bool taken;
} object;

/* Overlaps of objects with boxes, and of each box the best one and its object. */
typedef struct overlaps {
  object *object;
  float *pair; /* objects x boxes */
  float *most;
  int32_t *best;
} overlaps;

/* Computes the overlaps of objects of class `label`, or with -1 of all objects. Other objects have
 * no overlap. */
static void find_overlaps(const cr_matching *of, const cr_box_columns *columns, int64_t label,
                          const overlaps *o) {
  const size_t priors = (size_t)of->priors;
  bool first = true;
  for (size_t t = 0; t < of->truths; ++t) {
    float *pair = o->pair + t * priors;
    o->object[t] = (object){0};
    if (label >= 0 && of->truth[t].label != label) {
      memset(pair, 0, priors * sizeof *pair);
      continue;
    }
    o->object[t].most = cr_box_columns_match(columns, of->truth[t].box, least_overlap, (int32_t)t,
                                             first, pair, o->most, o->best);
    first = false;
  }
  if (!first) return;
  memset(o->most, 0, priors * sizeof *o->most);
  memset(o->best, 0, priors * sizeof *o->best);
}

CR_CLONES static float largest(int64_t count, const float *value) {
  float most = 0;
#pragma omp simd reduction(max : most)
  for (int64_t k = 0; k < count; ++k) most = value[k] > most ? value[k] : most;
  return most;
}

/* The first value that equals `wanted`, which exists. */
CR_CLONES static int64_t first_of(const float *value, int64_t count, float wanted) {
  enum { STRIP = 64 };
  int64_t k = 0;
  for (; k + STRIP <= count; k += STRIP) {
    int found = 0;
#pragma omp simd reduction(| : found)
    for (int i = 0; i < STRIP; ++i) found |= value[k + i] == wanted;
    if (found) break;
  }
  while (value[k] != wanted) ++k;
  return k;
}

static void find_box(int64_t priors, const float *pair, object *o) {
  o->box = o->most > 0 ? first_of(pair, priors, o->most) : 0;
}

/* Gives each object the box that overlaps it most, even if that box is matched already. The pair
 * with the largest overlap comes first, then the one with the lower box. A box that has an object
 * overlaps no other object. */
static void match_objects(const cr_matching *of, const overlaps *o, int32_t *match) {
  object *all = o->object;
  for (size_t t = 0; t < of->truths; ++t) {
    find_box(of->priors, o->pair + (int64_t)t * of->priors, &all[t]);
  }
  for (;;) {
    size_t first = of->truths;
    for (size_t t = 0; t < of->truths; ++t) {
      if (all[t].taken || !(all[t].most > 0)) continue;
      const object *best = first < of->truths ? &all[first] : NULL;
      if (best == NULL || all[t].most > best->most ||
          (all[t].most == best->most && all[t].box < best->box)) {
        first = t;
      }
    }
    if (first == of->truths) return;
    const int64_t box = all[first].box;
    match[box] = (int32_t)first;
    all[first].taken = true;
    for (size_t t = 0; t < of->truths; ++t) {
      float *pair = o->pair + (int64_t)t * of->priors;
      pair[box] = 0;
      if (all[t].taken || all[t].box != box) continue;
      all[t].most = largest(of->priors, pair);
      find_box(of->priors, pair, &all[t]);
    }
  }
}

/* Gives boxes the object that they overlap most, if the overlap is `least` or more. Boxes with an
 * overlap of `limit` or more are not background. */
CR_CLONES static void match_boxes(int64_t priors, float least, float limit, const float *size,
                                  const overlaps *of, int32_t *match) {
  const float *most = of->most;
  const int32_t *best = of->best;
#pragma omp simd
  for (int64_t k = 0; k < priors; ++k) {
    const int32_t alone = most[k] < limit ? CR_UNMATCHED : CR_CLOSE;
    const bool near = (most[k] > 0) & (most[k] >= least);
    const int32_t found = near ? best[k] : alone;
    match[k] = size[k] == LEFT_OUT ? CR_LEFT_OUT : found;
  }
}

crema_status cr_matcher_reserve(cr_matcher *m, int64_t priors, size_t truths) {
  CR_TRY(cr_buffer_reserve(&m->pair, (size_t)priors * (truths + 2) * sizeof(float)));
  return cr_buffer_reserve(&m->object, (truths + 1) * sizeof(object));
}

crema_status cr_match(cr_matcher *m, const cr_matching *of, const float *loc, int64_t loc_classes,
                      int64_t loc_class, int64_t label, int32_t *match) {
  const bool predicted = (int)of->param->match_type == PER_PREDICTION;
  cr_box_columns columns = of->columns;
  if (loc != NULL) {
    CR_TRY(read_columns(of, loc + 4 * loc_class, 4 * loc_classes, &m->decoded, &columns));
  }
  CR_TRY(cr_matcher_reserve(m, of->priors, of->truths));
  overlaps o = {.object = (object *)(void *)m->object.data, .pair = (float *)(void *)m->pair.data};
  o.most = o.pair + of->priors * (int64_t)of->truths;
  o.best = (int32_t *)(void *)(o.most + of->priors);
  find_overlaps(of, &columns, label, &o);
  match_boxes(of->priors, predicted ? of->param->overlap_threshold : INFINITY,
              of->param->neg_overlap, columns.size, &o, match);
  match_objects(of, &o, match);
  return CREMA_OK;
}

/* Numbers in the order of losses; NaN is the lowest. */
enum { NO_CANDIDATE = 0, NAN_KEY = 1 };

CR_INLINE uint32_t key_of(float loss) {
  const uint32_t bits = cr_f32_bits(loss + 0.0f); /* -0 becomes 0 */
  const uint32_t key = bits ^ ((uint32_t)((int32_t)bits >> 31) | 0x80000000u);
  return loss == loss ? key : NAN_KEY;
}

/* Keys, and the number of candidates' keys. */
typedef struct ranking {
  int64_t count;
  uint32_t *key, least, most; /* of the candidates */
  int64_t candidates, matched;
} ranking;

/* hard: all boxes are candidates. Otherwise the boxes that are not matched and not close to any
 * object. */
CR_CLONES static void make_keys(bool hard, const float *loss, const int32_t *match, ranking *out) {
  uint32_t *key = out->key, least = UINT32_MAX, most = 0;
  int32_t candidates = 0, matched = 0;
#pragma omp simd reduction(min : least) reduction(max : most) reduction(+ : candidates, matched)
  for (int64_t k = 0; k < out->count; ++k) {
    const bool is_one = (match[k] == CR_UNMATCHED) | hard;
    const uint32_t own = key_of(loss[k]), low = is_one ? own : UINT32_MAX;
    key[k] = is_one ? own : NO_CANDIDATE;
    least = low < least ? low : least;
    most = key[k] > most ? key[k] : most;
    candidates += is_one;
    matched += match[k] >= 0;
  }
  out->least = least;
  out->most = most;
  out->candidates = candidates;
  out->matched = matched;
}

CR_CLONES static int64_t count_from(const ranking *of, uint32_t least) {
  const uint32_t *key = of->key;
  int32_t found = 0;
#pragma omp simd reduction(+ : found)
  for (int64_t k = 0; k < of->count; ++k) found += key[k] >= least;
  return found;
}

CR_CLONES static void choose_from(const ranking *of, uint32_t least, int32_t *chosen) {
  const uint32_t *key = of->key;
#pragma omp simd
  for (int64_t k = 0; k < of->count; ++k) chosen[k] = key[k] >= least;
}

/* chosen[k] = 1 for the `wanted` candidates with the highest keys, of equal ones the first. Halves
 * the range of the lowest chosen key; counting its keys takes less time than sorting even a part of
 * them. */
static void choose_best(const ranking *of, int64_t wanted, int32_t *chosen) {
  uint64_t low = of->least, high = (uint64_t)of->most + 1;
  int64_t found = of->candidates; /* from `low` on */
  if (wanted <= 0 || found == 0) {
    memset(chosen, 0, (size_t)of->count * sizeof *chosen);
    return;
  }
  while (found > wanted && high - low > 1) {
    const uint64_t middle = (low + high) / 2;
    const int64_t above = count_from(of, (uint32_t)middle);
    if (above >= wanted) low = middle, found = above;
    else high = middle;
  }
  choose_from(of, (uint32_t)low, chosen);
  for (int64_t k = of->count - 1; found > wanted; --k) {
    if (of->key[k] != low) continue;
    chosen[k] = 0;
    --found;
  }
}

/* Chooses the best candidates that overlap no better one, among the priors or the predicted boxes.
 */
static crema_status choose_apart(cr_matcher *m, const cr_matching *of, const float *loc,
                                 const float *loss, const ranking *keys, int64_t wanted,
                                 int32_t *chosen) {
  const Caffe__NonMaximumSuppressionParameter *nms = of->param->nms_param;
  const bool some = nms->has_top_k && nms->top_k >= 0;
  const size_t priors = (size_t)of->priors;
  size_t count = 0;
  CR_TRY(cr_buffer_reserve(&m->candidate, (priors + 1) * sizeof(cr_ranked)));
  CR_TRY(cr_buffer_reserve(&m->box, priors * sizeof(cr_box)));
  cr_ranked *all = (cr_ranked *)(void *)m->candidate.data;
  cr_box *box = (cr_box *)(void *)m->box.data;
  for (int64_t k = 0; k < of->priors; ++k) {
    all[count] = (cr_ranked){loss[k], 0, (int32_t)k};
    count += keys->key[k] != NO_CANDIDATE;
    box[k] = box_of(of, of->param->use_prior_for_nms ? NULL : loc + 4 * k, k);
  }
  count = cr_rank_best(all, count, some ? (size_t)nms->top_k : count);
  CR_TRY(cr_suppress(box, all, &count, nms->nms_threshold, 1, -1, &m->kept));
  memset(chosen, 0, priors * sizeof *chosen);
  for (size_t i = 0; i < count && i < (size_t)wanted; ++i) chosen[all[i].index] = 1;
  return CREMA_OK;
}

crema_status cr_mine(cr_matcher *m, const cr_matching *of, const float *loc, const float *loss,
                     int32_t *match, int32_t *negative) {
  const bool hard = (int)of->param->mining_type == HARD_EXAMPLE;
  CR_TRY(cr_buffer_reserve(&m->key, (size_t)of->priors * sizeof(uint32_t)));
  ranking keys = {.count = of->priors, .key = (uint32_t *)(void *)m->key.data};
  make_keys(hard, loss, match, &keys);
  const double share = (double)keys.matched * (double)of->param->neg_pos_ratio;
  const int64_t some = share < 1e9 ? (int64_t)share : keys.candidates;
  const int64_t wanted = hard ? (int64_t)of->param->sample_size : some;
  const Caffe__NonMaximumSuppressionParameter *nms = of->param->nms_param;
  if (nms != NULL && nms->nms_threshold > 0)
    CR_TRY(choose_apart(m, of, loc, loss, &keys, wanted, negative));
  else choose_best(&keys, wanted, negative);
  /* Else none of them is matched. */
  for (int64_t k = 0; k < of->priors && hard; ++k) {
    if (match[k] >= 0 && !negative[k]) match[k] = CR_UNMATCHED;
    else if (match[k] >= 0 || match[k] == CR_LEFT_OUT) negative[k] = 0;
  }
  return CREMA_OK;
}
