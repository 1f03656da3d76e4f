/* The search for the targets of MultiBoxLoss: matches of prior boxes and objects, labels, mining
 * and offsets to learn. The threads of a pass take one image each. */
#include "layers/detection/multibox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"

static int32_t *match_of(const cr_multibox_state *s, int64_t image) {
  return (int32_t *)(void *)s->match.data + image * s->loc_classes * s->priors;
}

static int64_t label_of(const Caffe__MultiBoxLossParameter *p, const cr_truth *truth) {
  return cr_multibox_agnostic(p) ? (int64_t)p->background_label_id + 1 : truth->label;
}

static const float *locations_of(const cr_multibox_state *s, const float *loc, int64_t image) {
  return loc + image * s->priors * s->loc_classes * 4;
}

/* Moves the prior boxes by the image's locations of RefineDet's first stage. */
static crema_status refine(const cr_multibox_pass *pass, cr_multibox_scratch *own, int64_t image,
                           cr_matching *of) {
  const int64_t priors = of->priors;
  const float *loc = pass->first_loc + image * priors * 4;
  CR_TRY(cr_buffer_reserve(&own->refined, (size_t)priors * 8 * sizeof(float)));
  float *to = (float *)(void *)own->refined.data;
  for (int64_t k = 0; k < priors; ++k) {
    const cr_prior at = cr_prior_at(of->prior, priors, k);
    const cr_box box =
        cr_box_decode(of->param->code_type, of->param->encode_variance_in_target, &at, loc + 4 * k);
    const float sides[4] = {box.xmin, box.ymin, box.xmax, box.ymax};
    memcpy(to + 4 * k, sides, sizeof sides);
  }
  memcpy(to + 4 * priors, of->prior + 4 * priors, (size_t)priors * 4 * sizeof(float));
  of->prior = to;
  return cr_matching_columns(of, &own->refined_columns);
}

/* The matching of an image, with its objects. */
static crema_status matching_of(const cr_multibox_pass *pass, cr_multibox_scratch *own,
                                int64_t image, cr_matching *out) {
  const cr_multibox_state *s = pass->layer->state;
  const cr_multibox_image *part = cr_multibox_image_at(s, image);
  *out = pass->of;
  out->truth = s->truths.at + part->first_truth;
  out->truths = part->truths;
  if (pass->first_loc == NULL || out->truths == 0) return CREMA_OK;
  return refine(pass, own, image, out);
}

/* Matches one image, for each class with its own locations. */
static crema_status match_image(const cr_multibox_pass *pass, cr_matcher *matcher,
                                const cr_matching *of, int64_t image) {
  const cr_multibox_state *s = pass->layer->state;
  const float *loc = locations_of(s, pass->loc, image);
  int32_t *match = match_of(s, image);
  if (s->loc_classes == 1) {
    return cr_match(matcher, of, of->param->use_prior_for_matching ? NULL : loc, 1, 0, -1, match);
  }
  for (int64_t c = 0; c < s->loc_classes; ++c) {
    int32_t *own = match + c * s->priors;
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

/* Writes the indices of the matched boxes to box[priors]; returns their number. Few boxes match, so
 * it skips blocks without one. Within a block there are no branches, which could not be predicted.
 */
CR_CLONES static int64_t find_matched(int64_t priors, const int32_t *match, int32_t *box) {
  int64_t found = 0;
  for (int64_t first = 0; first < priors; first += BLOCK) {
    const int64_t end = priors - first < BLOCK ? priors : first + BLOCK;
    int32_t all = -1; /* negative if no box of the block is matched */
#pragma omp simd reduction(& : all)
    for (int64_t k = first; k < end; ++k) all &= match[k];
    for (int64_t k = first; k < end && all >= 0; ++k) {
      box[found] = (int32_t)k;
      found += match[k] >= 0;
    }
  }
  return found;
}

/* Writes each box's label, the background for unmatched boxes. A box that is matched for several
 * classes gets the last class. */
static crema_status put_labels(const cr_multibox_pass *pass, cr_multibox_scratch *own,
                               const cr_matching *of, int64_t image) {
  const cr_multibox_state *s = pass->layer->state;
  const cr_host_results *to = &pass->label;
  const int32_t *match = match_of(s, image);
  const int64_t first = image * s->priors;
  const double background = (double)of->param->background_label_id;
  CR_TRY(cr_buffer_reserve(&own->matched, (size_t)(s->priors + 1) * sizeof(int32_t)));
  int32_t *box = (int32_t *)(void *)own->matched.data;
  for (int64_t k = first; k < first + s->priors; ++k) cr_host_put(to, k, background);
  for (int64_t c = 0; c < s->loc_classes; ++c, match += s->priors) {
    const int64_t count = find_matched(s->priors, match, box);
    for (int64_t i = 0; i < count; ++i) {
      cr_host_put(to, first + box[i], (double)label_of(of->param, &of->truth[match[box[i]]]));
    }
  }
  return CREMA_OK;
}

/* Writes 1 for the class of each box. All other numbers become background_label_id, as in
 * Caffe-SSD. */
static void put_targets(const cr_multibox_pass *pass, const cr_matching *of, int64_t image) {
  const cr_multibox_state *s = pass->layer->state;
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
      cr_host_put(&pass->target, first + c, c == label ? 1 : background);
    }
  }
}

static crema_status match_one(void *state, int worker, int64_t image) {
  const cr_multibox_pass *pass = state;
  const cr_multibox_state *s = pass->layer->state;
  cr_multibox_scratch *own = &s->scratch[worker];
  cr_matching of;
  CR_TRY(matching_of(pass, own, image, &of));
  int32_t *match = match_of(s, image);
  for (int64_t k = 0; k < s->loc_classes * s->priors; ++k) match[k] = CR_UNMATCHED;
  if (of.truths > 0) CR_TRY(match_image(pass, &own->matcher, &of, image));
  if (!cr_multibox_has_targets(pass->layer)) return put_labels(pass, own, &of, image);
  put_targets(pass, &of, image);
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
    sum += (int)of->param->loc_loss_type == CR_MULTIBOX_L2 || d < 1 ? d * d / 2 : d - 0.5;
  }
  return sum;
}

/* Mines an image's boxes by the losses of their classes; HARD_EXAMPLE adds the losses of locations.
 */
static crema_status mine(const cr_multibox_pass *pass, cr_multibox_scratch *own,
                         const cr_matching *of, int64_t image) {
  const cr_multibox_state *s = pass->layer->state;
  const float *loc = locations_of(s, pass->loc, image), *loss = pass->loss + image * s->priors;
  int32_t *match = match_of(s, image);
  if (pass->first_conf != NULL) {
    /* Boxes that the first stage takes for background are no examples of it here. */
    const float *conf = pass->first_conf + image * s->priors * 2;
    for (int64_t k = 0; k < s->priors; ++k) {
      const bool hidden = conf[2 * k + 1] < of->param->objectness_score;
      if (hidden && match[k] == CR_UNMATCHED) match[k] = CR_CLOSE;
    }
  }
  if ((int)of->param->mining_type == CR_MULTIBOX_HARD_EXAMPLE) {
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

/* 1 for a box that has an object or is `negative`, else 0. It shifts the sign, because GCC does not
 * vectorise sums of comparisons. */
CR_INLINE int32_t contributes(int32_t match, int32_t negative) {
  return negative | (int32_t)((uint32_t)~match >> 31);
}

/* Sets counts[k] to 1 if box k contributes, else 0. Returns the sum of the contributing losses; its
 * order does not depend on the width of vectors. */
CR_CLONES static double sum_narrow(int64_t priors, const int32_t *match, const int32_t *negative,
                                   const float *loss, float *counts, cr_multibox_image *part) {
  const int64_t whole = priors - priors % LANES;
  double lane[LANES] = {0}, sum = 0;
  int32_t rows[LANES] = {0};
  for (int64_t k = 0; k < whole; k += LANES) {
    float own[LANES];
#pragma omp simd
    for (int i = 0; i < LANES; ++i) {
      const int32_t one = contributes(match[k + i], negative[k + i]);
      counts[k + i] = (float)one;
      rows[i] += one;
      own[i] = one != 0 ? loss[k + i] : 0;
    }
#pragma omp simd
    for (int i = 0; i < LANES; ++i) lane[i] += (double)own[i];
  }
  part->conf_rows = 0;
  for (int64_t k = whole; k < priors; ++k) {
    const int32_t one = contributes(match[k], negative[k]);
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

/* The same for double, in plain order. */
static double sum_wide(int64_t priors, const int32_t *match, const int32_t *negative,
                       const double *loss, double *counts, cr_multibox_image *part) {
  double sum = 0;
  part->conf_rows = 0;
  for (int64_t k = 0; k < priors; ++k) {
    const int32_t one = contributes(match[k], negative[k]);
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

/* Finds which boxes of an image contribute, and sums their losses. */
static crema_status choose(void *state, int worker, int64_t image) {
  const cr_multibox_pass *pass = state;
  const cr_multibox_state *s = pass->layer->state;
  const int64_t first = image * s->priors;
  const bool mines = cr_multibox_mines(pass->layer);
  cr_multibox_scratch *own = &s->scratch[worker];
  cr_matching of;
  CR_TRY(matching_of(pass, own, image, &of));
  cr_multibox_image *part = cr_multibox_image_at(s, image);
  CR_TRY(cr_buffer_reserve(&own->negative, (size_t)s->priors * sizeof(int32_t)));
  int32_t *negative = (int32_t *)(void *)own->negative.data;
  for (int64_t k = 0; k < s->priors; ++k) negative[k] = !mines;
  if (mines && of.truths > 0) CR_TRY(mine(pass, own, &of, image));
  part->loc_rows = matches_in(s->loc_classes * s->priors, match_of(s, image));
  part->conf_rows = s->priors;
  if (cr_multibox_has_targets(pass->layer)) return CREMA_OK;
  if (pass->exact.wide) {
    part->loss = sum_wide(s->priors, match_of(s, image), negative, pass->exact.wide + first,
                          pass->counts.wide + first, part);
  } else {
    part->loss = sum_narrow(s->priors, match_of(s, image), negative, pass->exact.narrow + first,
                            pass->counts.narrow + first, part);
  }
  return CREMA_OK;
}

/* Writes the targets of `count` matched boxes from row `at` on. */
static void put_some(const cr_multibox_pass *pass, const cr_matching *of, const int32_t *match,
                     const int32_t *box, int count, cr_box_pairs *pairs, int64_t at) {
  const bool learned = of->param->encode_variance_in_target;
  for (int i = 0; i < count; ++i) {
    cr_box_pairs_put(pairs, i, of->prior, of->priors, box[i], of->truth[match[box[i]]].box);
  }
  cr_box_encode(of->param->code_type, learned, pairs, count);
  for (int i = 0; i < count; ++i) {
    for (int k = 0; k < 4; ++k) {
      const double factor = learned ? 1 / pairs->variance[k][i] : 1;
      cr_host_put(&pass->target, 4 * (at + i) + k, pairs->offset[k][i] * factor);
      if (learned) cr_host_put(&pass->scale, 4 * (at + i) + k, factor);
    }
  }
}

static crema_status put_image_locations(void *state, int worker, int64_t image) {
  const cr_multibox_pass *pass = state;
  const cr_multibox_state *s = pass->layer->state;
  const int32_t *match = match_of(s, image);
  cr_matching of;
  CR_TRY(matching_of(pass, &s->scratch[worker], image, &of));
  int64_t at = cr_multibox_image_at(s, image)->first_loc_row;
  cr_buffer *matched = &s->scratch[worker].matched;
  cr_box_pairs pairs = {0};
  if (of.truths == 0) return CREMA_OK;
  CR_TRY(cr_buffer_reserve(matched, (size_t)(s->priors + 1) * sizeof(int32_t)));
  int32_t *box = (int32_t *)(void *)matched->data;
  for (int64_t c = 0; c < s->loc_classes; ++c, match += s->priors) {
    const int64_t count = find_matched(s->priors, match, box);
    for (int64_t i = 0; i < count; ++i) {
      cr_host_put(&pass->index, at + i,
                  (double)((image * s->priors + box[i]) * s->loc_classes + c));
    }
    for (int64_t i = 0; i < count; i += CR_BOX_PAIRS) {
      const int some = count - i < CR_BOX_PAIRS ? (int)(count - i) : CR_BOX_PAIRS;
      put_some(pass, &of, match, box + i, some, &pairs, at + i);
    }
    at += count;
  }
  return CREMA_OK;
}

/* Divides the objects among the images. *most: the highest number of objects in one image. */
static crema_status find_images(cr_multibox_state *s, size_t *most) {
  size_t first = 0;
  CR_TRY(cr_buffer_reserve(&s->image, (size_t)s->images * sizeof(cr_multibox_image)));
  *most = 0;
  for (int64_t i = 0; i < s->images; ++i) {
    cr_multibox_image *part = cr_multibox_image_at(s, i);
    const size_t truths = cr_truths_of(&s->truths, i, &first);
    *part = (cr_multibox_image){.first_truth = first, .truths = truths};
    *most = truths > *most ? truths : *most;
  }
  return CREMA_OK;
}

/* Makes scratchpads for that many threads. */
static crema_status need_scratch(cr_multibox_state *s, int workers, size_t truths) {
  if (workers > s->scratchpads) {
    cr_multibox_scratch *more = NULL;
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

static crema_status spread(const cr_multibox_pass *pass, cr_host_work *work) {
  const cr_multibox_state *s = pass->layer->state;
  return cr_host_spread(pass->workers, s->images, work, (void *)(uintptr_t)pass);
}

crema_status cr_multibox_put_locations(cr_multibox_pass *pass) {
  return spread(pass, put_image_locations);
}

/* Matches all images. Computes the loss of each box's classes, unless all boxes have targets. */
static crema_status match_all(cr_multibox_pass *pass, crema_context *context, crema_blob *conf) {
  cr_multibox_state *s = pass->layer->state;
  cr_multibox_conf *p = &s->conf;
  if (cr_multibox_has_targets(pass->layer)) {
    CR_TRY(cr_host_write(p->target, &pass->target));
    return spread(pass, match_one);
  }
  CR_TRY(cr_host_write(p->label, &pass->label));
  CR_TRY(spread(pass, match_one));
  /* Without objects, no box contributes. */
  if (cr_multibox_mines(pass->layer) && s->truths.count == 0) cr_tensor_set_zero(p->loss);
  else CR_TRY(CR_LAYER_RUN(&p->forward, context, conf->data, p->label, p->loss));
  CR_TRY(cr_host_write(p->counts, &pass->counts));
  CR_TRY(cr_host_read(p->loss, &pass->exact));
  return cr_tensor_host_read_floats(p->loss, &pass->loss);
}

crema_status cr_multibox_search(cr_multibox_pass *pass, crema_context *context,
                                crema_blob *const *bottom) {
  cr_layer *layer = pass->layer;
  cr_multibox_state *s = layer->state;
  const Caffe__MultiBoxLossParameter *p = cr_multibox_param(layer);
  const size_t boxes = (size_t)(s->images * s->priors);
  const cr_truth_rule rule = {.items = 1000000000,
                              .classes = cr_multibox_agnostic(p) ? INT32_MAX : s->classes,
                              .background = p->background_label_id,
                              .omits_difficult = !p->use_difficult_gt};
  cr_host_values label;
  size_t truths = 0;
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &pass->loc));
  if (layer->bottoms > 4) {
    CR_TRY(cr_tensor_host_read_floats(bottom[4]->data, &pass->first_conf));
  }
  if (layer->bottoms > 5) CR_TRY(cr_tensor_host_read_floats(bottom[5]->data, &pass->first_loc));
  CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &pass->of.prior));
  CR_TRY(cr_host_read(bottom[3]->data, &label));
  CR_TRY(cr_truths_read(layer, &label, bottom[3]->shape.dim[2], &rule, &s->truths));
  CR_TRY(cr_matching_columns(&pass->of, &s->prior));
  CR_TRY(find_images(s, &truths));
  CR_TRY(need_scratch(s, pass->workers, truths));
  CR_TRY(cr_buffer_reserve(&s->match, boxes * (size_t)s->loc_classes * sizeof(int32_t)));
  CR_TRY(match_all(pass, context, bottom[1]));
  CR_TRY(spread(pass, choose));
  s->loc.rows = s->conf.rows = 0;
  for (int64_t i = 0; i < s->images; ++i) {
    cr_multibox_image *part = cr_multibox_image_at(s, i);
    part->first_loc_row = s->loc.rows;
    s->loc.rows += part->loc_rows;
    s->conf.rows += part->conf_rows;
  }
  return CREMA_OK;
}
