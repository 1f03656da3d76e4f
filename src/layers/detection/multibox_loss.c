/* MultiBoxLoss: the loss of a detector that predicts locations and classes of many boxes at once
 * (Liu et al., "SSD", 2016).
 *
 * Formula: loss = (loc_weight * sum of the losses of locations, over prior boxes matched with an
 * object, + sum of the losses of classes, over these and the boxes that mining chooses) / divisor.
 * The target of a location is the offset from the prior box to the object (code_type).
 * Shapes: locations (N, 4 priors) or, with share_location: false, (N, 4 classes priors), scores (N,
 * classes priors), prior boxes (1, 2, 4 priors), objects (1, 1, rows, 8): item, class, instance,
 * xmin, ymin, xmax, ymax, difficult -> loss (a scalar).
 * Fields: multibox_loss_param, loss_param.
 * Caffe: as in Caffe-SSD; bp_inside and ignore_difficult_gt are refused. VALID divides by the
 * number of matched boxes. With encode_variance_in_target the gradient of locations lacks the
 * factor 1 / variance, as there.
 * Example, loc 1 8, conf 1 6, prior 1 2 8, label 1 1 2 8:
 *   layer { name: "loss" type: "MultiBoxLoss" bottom: "loc" bottom: "conf" bottom: "prior"
 *     bottom: "label" top: "loss" propagate_down: true propagate_down: true
 *     propagate_down: false propagate_down: false
 *     multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE } } */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/detection/geometry/matching.h"

enum {
  L2 = CAFFE__MULTI_BOX_LOSS_PARAMETER__LOC_LOSS_TYPE__L2,
  LOGISTIC = CAFFE__MULTI_BOX_LOSS_PARAMETER__CONF_LOSS_TYPE__LOGISTIC,
  NO_MINING = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__NONE,
  HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* The loss of the locations of boxes that are matched. */
typedef struct loc_part {
  int64_t rows;                        /* of the pass */
  int64_t made;                        /* rows that the ops are for; -1: none yet */
  cr_tensor *index, *row, *target;     /* (rows), (rows, 4), (rows, 4) */
  cr_tensor *scale;                    /* 1 / variance */
  cr_tensor *value, *diff, *sum, *one; /* value: differences */
  cr_layer_op gather, multiply, first, loss, back, scatter;
} loc_part;

/* The loss of classes. Each box has a label and counts once or not at all. */
typedef struct conf_part {
  int64_t rows;                     /* that count */
  cr_tensor *label, *loss, *counts; /* (boxes): of each, and 1 where it counts, else 0 */
  cr_tensor *target, *sum, *one;    /* target: where all boxes' classes are yes or no */
  cr_layer_op forward, back;
} conf_part;

/* An image of the pass: its objects, and what it has found. */
typedef struct image_part {
  size_t first_truth, truths;
  int64_t loc_rows, first_loc_row, conf_rows;
  double loss; /* of classes */
} image_part;

/* What a thread needs for an image. */
typedef struct scratch {
  cr_matcher matcher;
  cr_buffer negative; /* int32_t for each prior: 1 where it counts without an object */
  cr_buffer loss;     /* float for each prior, where locations count in mining */
  cr_buffer matched;  /* int32_t: the boxes that are matched */
} scratch;

typedef struct multibox_state {
  int64_t classes, loc_classes, images, priors;
  int normalization;
  float fixed;    /* the divisor of PRE_FIXED */
  double divisor; /* of the pass */
  bool learns[2];
  scratch *scratch; /* of `scratchpads` threads */
  int scratchpads;
  cr_buffer truth; /* cr_truth, sorted by item */
  cr_buffer prior; /* of columns */
  cr_buffer image; /* image_part of each */
  cr_buffer match; /* int32_t, of each image, class of locations and prior: an object */
  loc_part loc;
  conf_part conf;
  cr_layer_op add;
} multibox_state;

static int32_t *match_of(const multibox_state *s, int64_t image) {
  return (int32_t *)(void *)s->match.data + image * s->loc_classes * s->priors;
}

static image_part *image_of(const multibox_state *s, int64_t image) {
  return (image_part *)(void *)s->image.data + image;
}

static const Caffe__MultiBoxLossParameter *param_of(const cr_layer *layer) {
  return layer->param->multibox_loss_param;
}

static bool mines(const cr_layer *layer) {
  return (int)param_of(layer)->mining_type != NO_MINING;
}

/* Whether all boxes have a target for each class. */
static bool has_targets(const cr_layer *layer) {
  return !mines(layer) && (int)param_of(layer)->conf_loss_type == LOGISTIC;
}

/* ---- parameters ---------------------------------------------------------- */

static crema_status read_divisor(cr_layer *layer, multibox_state *s) {
  const Caffe__LossParameter *p = layer->param->loss_param;
  s->normalization = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID;
  if (p == NULL) return CREMA_OK;
  if (p->has_ignore_label || p->label_smoothing != 0) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "ignore_label and label_smoothing have no meaning here");
  }
  if (p->has_normalization) {
    s->normalization = (int)p->normalization;
  } else if (p->has_normalize && !p->normalize) {
    s->normalization = CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE;
  }
  s->fixed = p->pre_fixed_normalizer;
  return CREMA_OK;
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  multibox_state *s = layer->state;
  const Caffe__MultiBoxLossParameter *p = param_of(layer);
  const Caffe__LayerParameter *all = layer->param;
  (void)bottom, (void)top;
  if (p == NULL || p->num_classes == 0 || p->num_classes > 1000000) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "multibox_loss_param needs num_classes of 1 or more");
  }
  if (p->bp_inside || p->ignore_difficult_gt) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "bp_inside and ignore_difficult_gt are not supported");
  }
  if ((int)p->mining_type != NO_MINING && !p->share_location) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "mining goes with share_location only");
  }
  if (p->background_label_id >= p->num_classes && (int)p->conf_loss_type != LOGISTIC) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "background_label_id is %u, must be one of the %u classes",
                         p->background_label_id, p->num_classes);
  }
  if (p->has_do_neg_mining && p->do_neg_mining != ((int)p->mining_type != NO_MINING)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "do_neg_mining contradicts mining_type");
  }
  if ((int)p->mining_type == HARD_EXAMPLE && p->sample_size < 1) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "sample_size is %d, must be 1 or more",
                         p->sample_size);
  }
  if (!(p->neg_pos_ratio >= 0) || !(p->overlap_threshold > 0) || !isfinite(p->loc_weight)) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "neg_pos_ratio must be 0 or more and overlap_threshold above 0");
  }
  s->classes = p->num_classes;
  s->loc_classes = p->share_location ? 1 : s->classes;
  s->loc.made = -1;
  for (size_t i = 0; i < 2; ++i) {
    s->learns[i] = i >= all->n_propagate_down || all->propagate_down[i];
  }
  return read_divisor(layer, s);
}

static crema_status make_conf(cr_layer *layer) {
  multibox_state *s = layer->state;
  conf_part *p = &s->conf;
  const int64_t boxes = s->images * s->priors;
  const crema_shape scores = cr_shape_2(boxes, s->classes), each = cr_shape_1(boxes);
  const crema_shape one = cr_shape_1(1);
  const crema_dtype type = cr_layer_arithmetic(layer);
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SIGMOID_LOSS_FWD);
  CR_TRY(cr_layer_tensor(layer, &p->sum, type, 1));
  if (has_targets(layer)) {
    CR_TRY(cr_layer_tensor(layer, &p->one, type, 1));
    CR_TRY(cr_layer_pass_tensor(layer, &p->target, type, boxes * s->classes));
    CR_TRY(cr_layer_op_make(layer, &p->forward, &desc, 4,
                            (const crema_shape *[]){&scores, &scores, &one, &one}));
    desc.kind = CR_OP_SIGMOID_LOSS_BWD;
    return cr_layer_op_make(layer, &p->back, &desc, 4,
                            (const crema_shape *[]){&scores, &scores, &one, &scores});
  }
  CR_TRY(cr_layer_pass_tensor(layer, &p->label, type, boxes));
  CR_TRY(cr_layer_pass_tensor(layer, &p->loss, type, boxes));
  CR_TRY(cr_layer_pass_tensor(layer, &p->counts, type, boxes));
  desc = cr_layer_op_desc(CR_OP_ROW_LOSS);
  desc.u.logistic = (int)param_of(layer)->conf_loss_type == LOGISTIC;
  CR_TRY(cr_layer_op_make(layer, &p->forward, &desc, 3,
                          (const crema_shape *[]){&scores, &each, &each}));
  desc.kind = CR_OP_ROW_LOSS_BWD;
  return cr_layer_op_make(layer, &p->back, &desc, 4,
                          (const crema_shape *[]){&scores, &each, &each, &scores});
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  multibox_state *s = layer->state;
  const crema_shape *loc = &bottom[0]->shape, *prior = &bottom[2]->shape;
  const crema_shape scalar = cr_shape(0, NULL), one = cr_shape_1(1);
  char text[3][128];
  s->images = loc->axes > 0 ? loc->dim[0] : 0;
  s->priors = prior->axes == 3 ? prior->dim[2] / 4 : -1;
  if (loc->axes < 1 || prior->axes != 3 || prior->dim[0] != 1 || prior->dim[1] != 2 ||
      prior->dim[2] % 4 != 0 || s->priors > INT32_MAX ||
      crema_blob_count(bottom[0]) != s->images * s->priors * s->loc_classes * 4 ||
      crema_blob_count(bottom[1]) != s->images * s->priors * s->classes) {
    return cr_layer_fail(
        layer, CREMA_E_SHAPE,
        "locations %s, scores %s and prior boxes %s do not fit each other and %lld classes",
        crema_shape_text(loc, text[0], sizeof text[0]),
        crema_shape_text(&bottom[1]->shape, text[1], sizeof text[1]),
        crema_shape_text(prior, text[2], sizeof text[2]), (long long)s->classes);
  }
  CR_TRY(cr_check_rows(layer, "bottom 3 (objects)", &bottom[3]->shape, 8));
  CR_TRY(crema_blob_reshape(top[0], &scalar));
  s->loc.made = -1; /* the bottom may have other extents */
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(cr_layer_op_make(layer, &s->add, &desc, 2, (const crema_shape *[]){&one, &one}));
  return make_conf(layer);
}

/* ---- what is to be learnt ------------------------------------------------ */

/* What the threads that look for it share. */
typedef struct search {
  cr_layer *layer;
  int workers;
  cr_matching of; /* without objects */
  const float *loc;
  const float *loss;                    /* of boxes' classes, by which they are mined */
  cr_host_values exact;                 /* the same as it is summed */
  cr_host_results label, counts;        /* where all boxes count alike: none */
  cr_host_results index, target, scale; /* of locations */
} search;

static int64_t label_of(const Caffe__MultiBoxLossParameter *p, const cr_truth *truth) {
  return p->map_object_to_agnostic ? (int64_t)p->background_label_id + 1 : truth->label;
}

static const float *locations_of(const multibox_state *s, const float *loc, int64_t image) {
  return loc + image * s->priors * s->loc_classes * 4;
}

/* With the image's objects. */
static cr_matching matching_of(const search *all, int64_t image) {
  const multibox_state *s = all->layer->state;
  const image_part *part = image_of(s, image);
  cr_matching of = all->of;
  of.truth = (const cr_truth *)(const void *)s->truth.data + part->first_truth;
  of.truths = part->truths;
  return of;
}

/* The matches of one image: for each class with locations of its own, one after the other. */
static crema_status match_image(const search *all, cr_matcher *matcher, const cr_matching *of,
                                int64_t image) {
  const multibox_state *s = all->layer->state;
  const float *loc = locations_of(s, all->loc, image);
  int32_t *match = match_of(s, image);
  if (s->loc_classes == 1) {
    return cr_match(matcher, of, of->param->use_prior_for_matching ? NULL : loc, 1, 0, -1, match);
  }
  for (int64_t c = 0; c < s->loc_classes; ++c) {
    int32_t *own = match + c * s->priors;
    for (int64_t k = 0; k < s->priors; ++k) own[k] = CR_UNMATCHED;
    if (c == of->param->background_label_id) continue;
    if (!of->param->use_prior_for_matching) {
      CR_TRY(cr_match(matcher, of, loc, s->loc_classes, c, c, own));
      continue;
    }
    CR_TRY(cr_match(matcher, of, NULL, 1, 0, -1, own));
    for (int64_t k = 0; k < s->priors; ++k) {
      if (own[k] >= 0 && of->truth[own[k]].label != c) own[k] = CR_UNMATCHED;
    }
  }
  return CREMA_OK;
}

enum { BLOCK = 64 };

/* The boxes that are matched, in box[priors]. A detector's are few, so that whole blocks without
 * any are passed over; within a block there are no branches, as nobody foresees which ones they
 * are. */
CR_CLONES static int64_t find_matched(int64_t priors, const int32_t *match, int32_t *box) {
  int64_t found = 0;
  for (int64_t first = 0; first < priors; first += BLOCK) {
    const int64_t end = priors - first < BLOCK ? priors : first + BLOCK;
    int32_t all = -1; /* negative if all of the block's are */
#pragma omp simd reduction(& : all)
    for (int64_t k = first; k < end; ++k) all &= match[k];
    for (int64_t k = first; k < end && all >= 0; ++k) {
      box[found] = (int32_t)k;
      found += match[k] >= 0;
    }
  }
  return found;
}

static void fill(const cr_host_results *to, int64_t first, int64_t count, double value) {
  if (to->wide) {
    for (int64_t k = first; k < first + count; ++k) to->wide[k] = value;
  } else {
    for (int64_t k = first; k < first + count; ++k) to->narrow[k] = (float)value;
  }
}

/* The background where nothing is matched. Boxes of one image may be matched for several classes:
 * the last one stays. */
static crema_status put_labels(const search *all, scratch *own, const cr_matching *of,
                               int64_t image) {
  const multibox_state *s = all->layer->state;
  const cr_host_results *to = &all->label;
  const int32_t *match = match_of(s, image);
  const int64_t first = image * s->priors;
  const double background = (double)of->param->background_label_id;
  CR_TRY(cr_buffer_reserve(&own->matched, (size_t)(s->priors + 1) * sizeof(int32_t)));
  int32_t *box = (int32_t *)(void *)own->matched.data;
  fill(to, first, s->priors, background);
  for (int64_t c = 0; c < s->loc_classes; ++c, match += s->priors) {
    const int64_t count = find_matched(s->priors, match, box);
    for (int64_t i = 0; i < count; ++i) {
      cr_host_put(to, first + box[i], (double)label_of(of->param, &of->truth[match[box[i]]]));
    }
  }
  return CREMA_OK;
}

/* 1 for the class and 0 for the others; boxes that are matched with nothing have the background's
 * number throughout, as in Caffe-SSD. */
static void put_targets(const search *all, const cr_matching *of, int64_t image) {
  const multibox_state *s = all->layer->state;
  const int32_t *match = match_of(s, image);
  const double background = (double)of->param->background_label_id;
  for (int64_t k = 0; k < s->priors; ++k) {
    const int64_t first = (image * s->priors + k) * s->classes;
    int64_t label = -1;
    for (int64_t c = 0; c < s->loc_classes && of->truths > 0; ++c) {
      const int32_t t = match[c * s->priors + k];
      if (t >= 0) label = label_of(of->param, &of->truth[t]);
    }
    for (int64_t c = 0; c < s->classes; ++c) {
      cr_host_put(&all->target, first + c, c == label ? 1 : background);
    }
  }
}

static crema_status look_at(void *state, int worker, int64_t image) {
  const search *all = state;
  const multibox_state *s = all->layer->state;
  const cr_matching of = matching_of(all, image);
  scratch *own = &s->scratch[worker];
  int32_t *match = match_of(s, image);
  for (int64_t k = 0; k < s->loc_classes * s->priors && of.truths == 0; ++k) {
    match[k] = CR_UNMATCHED;
  }
  if (of.truths > 0) CR_TRY(match_image(all, &own->matcher, &of, image));
  if (!has_targets(all->layer)) return put_labels(all, own, &of, image);
  put_targets(all, &of, image);
  return CREMA_OK;
}

/* The loss of a matched box's location. */
static double location_loss(const cr_matching *of, const float *loc, int64_t k, cr_box box) {
  const bool learned = of->param->encode_variance_in_target;
  cr_box_pairs pair = {0};
  double sum = 0;
  cr_box_pairs_put(&pair, 0, of->prior, of->priors, k, box);
  cr_box_encode(of->param->code_type, learned, &pair, 1);
  for (int i = 0; i < 4; ++i) {
    double d = fabs((double)loc[4 * k + i] - pair.offset[i][0]);
    if (learned) d /= pair.variance[i][0];
    sum += (int)of->param->loc_loss_type == L2 || d < 1 ? d * d / 2 : d - 0.5;
  }
  return sum;
}

/* The choice among one image's boxes by the losses of their classes, and for HARD_EXAMPLE of their
 * locations. */
static crema_status mine(const search *all, scratch *own, const cr_matching *of, int64_t image) {
  const multibox_state *s = all->layer->state;
  const float *loc = locations_of(s, all->loc, image), *loss = all->loss + image * s->priors;
  int32_t *match = match_of(s, image);
  if ((int)of->param->mining_type == HARD_EXAMPLE) {
    CR_TRY(cr_buffer_reserve(&own->loss, (size_t)s->priors * sizeof *loss));
    float *both = (float *)(void *)own->loss.data;
    for (int64_t k = 0; k < s->priors; ++k) {
      const bool matched = match[k] >= 0;
      both[k] = loss[k];
      if (matched) both[k] += (float)location_loss(of, loc, k, of->truth[match[k]].box);
    }
    loss = both;
  }
  return cr_mine(&own->matcher, of, loc, loss, match, (int32_t *)(void *)own->negative.data);
}

enum { LANES = 16 };

/* 1 for a box that has an object or is `negative`, else 0. From the sign, as GCC moves the results
 * of comparisons that it combines with numbers out of the vectors. */
CR_INLINE int32_t counts_one(int32_t match, int32_t negative) {
  return negative | (int32_t)((uint32_t)~match >> 31);
}

/* counts[k] = 1 for boxes that count, else 0. Returns the sum of the losses of those, in an order
 * that does not depend on vectors. */
CR_CLONES static double judge_narrow(int64_t priors, const int32_t *match, const int32_t *negative,
                                     const float *loss, float *counts, image_part *part) {
  const int64_t whole = priors - priors % LANES;
  double lane[LANES] = {0}, sum = 0;
  int32_t rows[LANES] = {0};
  for (int64_t k = 0; k < whole; k += LANES) {
    float own[LANES];
#pragma omp simd
    for (int i = 0; i < LANES; ++i) {
      const int32_t one = counts_one(match[k + i], negative[k + i]);
      counts[k + i] = (float)one;
      rows[i] += one;
      own[i] = one != 0 ? loss[k + i] : 0;
    }
#pragma omp simd
    for (int i = 0; i < LANES; ++i) lane[i] += (double)own[i];
  }
  part->conf_rows = 0;
  for (int64_t k = whole; k < priors; ++k) {
    const int32_t one = counts_one(match[k], negative[k]);
    counts[k] = (float)one;
    part->conf_rows += one;
    sum += one != 0 ? (double)loss[k] : 0;
  }
  for (int i = 0; i < LANES; ++i) {
    part->conf_rows += rows[i];
    sum += lane[i];
  }
  return sum;
}

/* The same in plain order. */
static double judge_wide(int64_t priors, const int32_t *match, const int32_t *negative,
                         const double *loss, double *counts, image_part *part) {
  double sum = 0;
  part->conf_rows = 0;
  for (int64_t k = 0; k < priors; ++k) {
    const int32_t one = counts_one(match[k], negative[k]);
    counts[k] = one;
    part->conf_rows += one;
    sum += one ? loss[k] : 0;
  }
  return sum;
}

CR_CLONES static int64_t matches_in(int64_t count, const int32_t *match) {
  int64_t found = 0;
#pragma omp simd reduction(+ : found)
  for (int64_t k = 0; k < count; ++k) found += match[k] >= 0;
  return found;
}

/* Which boxes of an image count, and their losses. */
static crema_status judge(void *state, int worker, int64_t image) {
  const search *all = state;
  const multibox_state *s = all->layer->state;
  const cr_matching of = matching_of(all, image);
  const int64_t first = image * s->priors;
  const bool chooses = mines(all->layer);
  scratch *own = &s->scratch[worker];
  image_part *part = image_of(s, image);
  CR_TRY(cr_buffer_reserve(&own->negative, (size_t)s->priors * sizeof(int32_t)));
  int32_t *negative = (int32_t *)(void *)own->negative.data;
  if (chooses && of.truths > 0) CR_TRY(mine(all, own, &of, image));
  else
    for (int64_t k = 0; k < s->priors; ++k) negative[k] = !chooses;
  part->loc_rows = matches_in(s->loc_classes * s->priors, match_of(s, image));
  part->conf_rows = s->priors;
  if (has_targets(all->layer)) return CREMA_OK;
  if (all->exact.wide) {
    part->loss = judge_wide(s->priors, match_of(s, image), negative, all->exact.wide + first,
                            all->counts.wide + first, part);
  } else {
    part->loss = judge_narrow(s->priors, match_of(s, image), negative, all->exact.narrow + first,
                              all->counts.narrow + first, part);
  }
  return CREMA_OK;
}

/* The locations of matched boxes, `count` of them, as rows of those that are learnt from `at` on.
 */
static void put_some(const search *all, const cr_matching *of, const int32_t *match,
                     const int32_t *box, int count, cr_box_pairs *pairs, int64_t at) {
  const bool learned = of->param->encode_variance_in_target;
  for (int i = 0; i < count; ++i) {
    cr_box_pairs_put(pairs, i, of->prior, of->priors, box[i], of->truth[match[box[i]]].box);
  }
  cr_box_encode(of->param->code_type, learned, pairs, count);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 4; ++k) {
      const double factor = learned ? 1 / pairs->variance[k][i] : 1;
      cr_host_put(&all->target, 4 * (at + i) + k, pairs->offset[k][i] * factor);
      if (learned) cr_host_put(&all->scale, 4 * (at + i) + k, factor);
    }
  }
}

static crema_status put_locations(void *state, int worker, int64_t image) {
  const search *all = state;
  const multibox_state *s = all->layer->state;
  const cr_matching of = matching_of(all, image);
  const int32_t *match = match_of(s, image);
  int64_t at = image_of(s, image)->first_loc_row;
  cr_buffer *matched = &s->scratch[worker].matched;
  cr_box_pairs pairs = {0};
  if (of.truths == 0) return CREMA_OK;
  CR_TRY(cr_buffer_reserve(matched, (size_t)(s->priors + 1) * sizeof(int32_t)));
  int32_t *box = (int32_t *)(void *)matched->data;
  for (int64_t c = 0; c < s->loc_classes; ++c, match += s->priors) {
    const int64_t count = find_matched(s->priors, match, box);
    for (int64_t i = 0; i < count; ++i) {
      cr_host_put(&all->index, at + i, (double)((image * s->priors + box[i]) * s->loc_classes + c));
    }
    for (int64_t i = 0; i < count; i += CR_BOX_PAIRS) {
      const int some = count - i < CR_BOX_PAIRS ? (int)(count - i) : CR_BOX_PAIRS;
      put_some(all, &of, match, box + i, some, &pairs, at + i);
    }
    at += count;
  }
  return CREMA_OK;
}

static crema_status spread(const search *all, cr_host_work *work) {
  const multibox_state *s = all->layer->state;
  return cr_host_spread(all->workers, s->images, work, (void *)(uintptr_t)all);
}

/* ---- memory -------------------------------------------------------------- */

/* Which objects are of which image. */
static crema_status find_images(multibox_state *s, size_t *most) {
  const cr_truth *truth = (const cr_truth *)(const void *)s->truth.data;
  const size_t truths = s->truth.size / sizeof *truth;
  size_t at = 0;
  CR_TRY(cr_buffer_reserve(&s->image, (size_t)s->images * sizeof(image_part)));
  *most = 0;
  for (int64_t i = 0; i < s->images; ++i) {
    image_part *part = image_of(s, i);
    *part = (image_part){.first_truth = at};
    while (at < truths && truth[at].item == i) ++at;
    part->truths = at - part->first_truth;
    *most = part->truths > *most ? part->truths : *most;
  }
  return CREMA_OK;
}

/* Scratchpads for that many threads. */
static crema_status need_scratch(multibox_state *s, int workers, size_t truths) {
  if (workers > s->scratchpads) {
    scratch *more = NULL;
    CR_TRY(CR_NEW(more, workers, "scratchpads"));
    for (int i = 0; i < s->scratchpads; ++i) more[i] = s->scratch[i];
    free(s->scratch);
    s->scratch = more;
    s->scratchpads = workers;
  }
  for (int i = 0; i < workers; ++i) {
    CR_TRY(cr_matcher_reserve(&s->scratch[i].matcher, s->priors, truths));
  }
  return CREMA_OK;
}

/* ---- forward ------------------------------------------------------------- */

static crema_status make_loc(cr_layer *layer, const crema_blob *bottom) {
  multibox_state *s = layer->state;
  loc_part *p = &s->loc;
  const crema_dtype type = cr_layer_arithmetic(layer);
  const crema_shape x = cr_shape_2(crema_blob_count(bottom) / 4, 4), rows = cr_shape_2(p->rows, 4);
  const crema_shape y = cr_shape_1(p->rows * 4), row = cr_shape_2(1, p->rows * 4);
  const crema_shape one = cr_shape_1(1), index = cr_shape_1(p->rows);
  if (p->made == p->rows) return CREMA_OK;
  CR_TRY(cr_layer_tensor(layer, &p->index, type, p->rows));
  CR_TRY(cr_layer_tensor(layer, &p->row, type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->value, type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->diff, type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->scale, type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->target, type, p->rows * 4));
  CR_TRY(cr_layer_tensor(layer, &p->sum, type, 1));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(cr_layer_op_make(layer, &p->gather, &desc, 3, (const crema_shape *[]){&x, &index, &rows}));
  desc.kind = CR_OP_GATHER_BWD;
  CR_TRY(
      cr_layer_op_make(layer, &p->scatter, &desc, 3, (const crema_shape *[]){&rows, &index, &x}));
  desc = cr_layer_op_desc(CR_OP_PROD);
  CR_TRY(cr_layer_op_make(layer, &p->multiply, &desc, 3, (const crema_shape *[]){&y, &y, &y}));
  if ((int)param_of(layer)->loc_loss_type != L2) {
    desc = cr_layer_op_desc(CR_OP_SMOOTH_L1_FWD);
    desc.u.smooth.sigma2 = 1;
    CR_TRY(cr_layer_op_make(layer, &p->loss, &desc, 5,
                            (const crema_shape *[]){&y, &y, NULL, NULL, &one}));
    desc.kind = CR_OP_SMOOTH_L1_BWD;
    CR_TRY(cr_layer_op_make(layer, &p->back, &desc, 6,
                            (const crema_shape *[]){&y, &y, NULL, NULL, &one, &y}));
    p->made = p->rows;
    return CREMA_OK;
  }
  desc.kind = CR_OP_SUM;
  CR_TRY(cr_layer_op_make_scaled(layer, &p->first, &desc, 3, (const crema_shape *[]){&y, &y, &y},
                                 (const float[]){1, -1, 1}));
  desc.kind = CR_OP_AXPBY;
  CR_TRY(cr_layer_op_make(layer, &p->back, &desc, 2, (const crema_shape *[]){&y, &y}));
  desc.kind = CR_OP_ROW_REDUCE_FWD;
  desc.u.rows.reduction = CR_REDUCE_SUMSQ;
  desc.u.rows.coeff = 0.5;
  CR_TRY(cr_layer_op_make(layer, &p->loss, &desc, 2, (const crema_shape *[]){&row, &one}));
  p->made = p->rows;
  return CREMA_OK;
}

/* The matches of all images, and the loss of each box's classes or, where all boxes have targets,
 * these. */
static crema_status look(search *all, crema_context *context, crema_blob *conf) {
  multibox_state *s = all->layer->state;
  conf_part *p = &s->conf;
  if (has_targets(all->layer)) {
    CR_TRY(cr_host_write(p->target, &all->target));
    return spread(all, look_at);
  }
  CR_TRY(cr_host_write(p->label, &all->label));
  CR_TRY(spread(all, look_at));
  /* Where there is no object, none of the boxes counts. */
  if (mines(all->layer) && s->truth.size == 0) cr_tensor_set_zero(p->loss);
  else
    CR_TRY(cr_layer_op_run(&p->forward, context, (cr_tensor *[]){conf->data, p->label, p->loss},
                           NULL));
  CR_TRY(cr_host_write(p->counts, &all->counts));
  CR_TRY(cr_host_read(p->loss, &all->exact));
  return cr_tensor_host_read_floats(p->loss, &all->loss);
}

static crema_status collect(search *all, crema_context *context, crema_blob *const *bottom) {
  cr_layer *layer = all->layer;
  multibox_state *s = layer->state;
  const Caffe__MultiBoxLossParameter *p = param_of(layer);
  const size_t boxes = (size_t)(s->images * s->priors);
  const float *label = NULL;
  size_t truths = 0;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &all->loc));
  CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &all->of.prior));
  CR_TRY(cr_tensor_host_read_floats(bottom[3]->data, &label));
  CR_TRY(cr_read_truth(layer, label, bottom[3]->shape.dim[2],
                       p->map_object_to_agnostic ? INT32_MAX : s->classes, p->background_label_id,
                       p->use_difficult_gt, &s->truth));
  CR_TRY(cr_matching_columns(&all->of, &s->prior));
  CR_TRY(find_images(s, &truths));
  CR_TRY(need_scratch(s, all->workers, truths));
  CR_TRY(cr_buffer_reserve(&s->match, boxes * (size_t)s->loc_classes * sizeof(int32_t)));
  CR_TRY(look(all, context, bottom[1]));
  CR_TRY(spread(all, judge));
  s->loc.rows = s->conf.rows = 0;
  for (int64_t i = 0; i < s->images; ++i) {
    image_part *part = image_of(s, i);
    part->first_loc_row = s->loc.rows;
    s->loc.rows += part->loc_rows;
    s->conf.rows += part->conf_rows;
  }
  return CREMA_OK;
}

static crema_status run_loc(search *all, crema_context *context, crema_blob *bottom) {
  cr_layer *layer = all->layer;
  multibox_state *s = layer->state;
  loc_part *p = &s->loc;
  const bool learned = param_of(layer)->encode_variance_in_target;
  CR_TRY(make_loc(layer, bottom));
  CR_TRY(cr_host_write(p->index, &all->index));
  CR_TRY(cr_host_write(p->target, &all->target));
  if (learned) CR_TRY(cr_host_write(p->scale, &all->scale));
  CR_TRY(spread(all, put_locations));
  CR_TRY(
      cr_layer_op_run(&p->gather, context, (cr_tensor *[]){bottom->data, p->index, p->row}, NULL));
  if (learned) {
    CR_TRY(cr_layer_op_run(&p->multiply, context, (cr_tensor *[]){p->row, p->scale, p->row}, NULL));
  }
  if ((int)param_of(layer)->loc_loss_type != L2) {
    return cr_layer_op_run(&p->loss, context,
                           (cr_tensor *[]){p->row, p->target, NULL, NULL, p->sum}, NULL);
  }
  CR_TRY(cr_layer_op_run(&p->first, context, (cr_tensor *[]){p->row, p->target, p->value}, NULL));
  return cr_layer_op_run(&p->loss, context, (cr_tensor *[]){p->value, p->sum}, NULL);
}

static crema_status run_conf(cr_layer *layer, crema_context *context, crema_blob *bottom) {
  multibox_state *s = layer->state;
  conf_part *p = &s->conf;
  cr_host_results to;
  double sum = 0;
  if (has_targets(layer)) {
    return cr_layer_op_run(&p->forward, context,
                           (cr_tensor *[]){bottom->data, p->target, p->sum, p->one}, NULL);
  }
  for (int64_t i = 0; i < s->images; ++i) sum += image_of(s, i)->loss;
  CR_TRY(cr_host_write(p->sum, &to));
  cr_host_put(&to, 0, sum);
  return CREMA_OK;
}

static double divisor_of(const multibox_state *s) {
  double n = 1;
  switch (s->normalization) {
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__FULL:
      n = (double)(s->images * s->priors);
      break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__VALID: n = (double)s->loc.rows; break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__BATCH_SIZE: n = (double)s->images; break;
    case CAFFE__LOSS_PARAMETER__NORMALIZATION_MODE__PRE_FIXED: n = (double)s->fixed; break;
    default: break;
  }
  return n > 1 ? n : 1;
}

/* Multiply-adds that take as long as a box's search, about. */
enum { OPERATIONS = 60 };

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  multibox_state *s = layer->state;
  const double boxes = (double)s->images * (double)s->priors * (double)s->loc_classes;
  search all = {.layer = layer,
                .workers = cr_host_workers(context, boxes * OPERATIONS),
                .of = {.param = param_of(layer), .priors = s->priors}};
  CR_TRY(collect(&all, context, bottom));
  s->divisor = divisor_of(s);
  cr_op_scalars scalars = {.alpha = (double)param_of(layer)->loc_weight / s->divisor};
  cr_tensor_set_zero(top[0]->data);
  if (s->loc.rows > 0 && s->learns[0]) {
    CR_TRY(run_loc(&all, context, bottom[0]));
    CR_TRY(cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->loc.sum, top[0]->data}, &scalars));
  }
  if (s->conf.rows == 0 || !s->learns[1]) return CREMA_OK;
  CR_TRY(run_conf(layer, context, bottom[1]));
  scalars = (cr_op_scalars){.alpha = 1 / s->divisor, .beta = 1};
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->conf.sum, top[0]->data}, &scalars);
}

/* ---- backward ------------------------------------------------------------ */

static crema_status loc_back(cr_layer *layer, crema_context *context, crema_blob *top,
                             crema_blob *bottom) {
  multibox_state *s = layer->state;
  loc_part *p = &s->loc;
  cr_op_scalars scalars = {.alpha = (double)param_of(layer)->loc_weight / s->divisor};
  double weight = 0;
  if ((int)param_of(layer)->loc_loss_type == L2) {
    CR_TRY(cr_tensor_host_value(top->diff, &weight));
    scalars.alpha *= weight;
    CR_TRY(cr_layer_op_run(&p->back, context, (cr_tensor *[]){p->value, p->diff}, &scalars));
  } else {
    CR_TRY(cr_layer_op_run(&p->back, context,
                           (cr_tensor *[]){p->row, p->target, NULL, NULL, top->diff, p->diff},
                           &scalars));
  }
  return cr_layer_op_run(&p->scatter, context, (cr_tensor *[]){p->diff, p->index, bottom->diff},
                         NULL);
}

static crema_status conf_back(cr_layer *layer, crema_context *context, crema_blob *top,
                              crema_blob *bottom) {
  multibox_state *s = layer->state;
  conf_part *p = &s->conf;
  cr_op_scalars scalars = {.alpha = 1 / s->divisor};
  double weight = 0;
  if (has_targets(layer)) {
    return cr_layer_op_run(&p->back, context,
                           (cr_tensor *[]){bottom->data, p->target, top->diff, bottom->diff},
                           &scalars);
  }
  CR_TRY(cr_tensor_host_value(top->diff, &weight));
  scalars.alpha *= weight;
  return cr_layer_op_run(&p->back, context,
                         (cr_tensor *[]){bottom->data, p->label, p->counts, bottom->diff},
                         &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  multibox_state *s = layer->state;
  if (propagate_down[2] || propagate_down[3]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "prior boxes and objects (bottoms 2 and 3) have no gradient");
  }
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    cr_tensor_set_zero(bottom[i]->diff);
    if ((i == 0 ? s->loc.rows : s->conf.rows) == 0 || !s->learns[i]) continue;
    CR_TRY(i == 0 ? loc_back(layer, context, top[0], bottom[0])
                  : conf_back(layer, context, top[0], bottom[1]));
  }
  return CREMA_OK;
}

/* The softmax of scores is not kept. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 1;
}

static void destroy(cr_layer *layer) {
  multibox_state *s = layer->state;
  for (int i = 0; i < s->scratchpads; ++i) {
    cr_matcher_free(&s->scratch[i].matcher);
    cr_buffer_free(&s->scratch[i].negative);
    cr_buffer_free(&s->scratch[i].loss);
    cr_buffer_free(&s->scratch[i].matched);
  }
  free(s->scratch);
  cr_buffer_free(&s->truth);
  cr_buffer_free(&s->prior);
  cr_buffer_free(&s->image);
  cr_buffer_free(&s->match);
}

const cr_layer_class cr_layer_multibox_loss = {
    .type = "MultiBoxLoss",
    .state_size = sizeof(multibox_state),
    .bottoms = {4, 4},
    .tops = {1, 1},
    .graph.auto_tops = true,
    .loss = true,
    .graph.reads_loss_param = true,
    .no_gradient_bottoms = 1u << 2 | 1u << 3,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .uses_bottom = uses_bottom,
    .destroy = destroy,
};
