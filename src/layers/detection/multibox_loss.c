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
#include <float.h>
#include <math.h>

#include "core/fail.h"
#include "layers/common/layer_op.h"
#include "layers/detection/matching.h"

enum {
  L2 = CAFFE__MULTI_BOX_LOSS_PARAMETER__LOC_LOSS_TYPE__L2,
  LOGISTIC = CAFFE__MULTI_BOX_LOSS_PARAMETER__CONF_LOSS_TYPE__LOGISTIC,
  NO_MINING = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__NONE,
  HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* One of the two losses: rows of a bottom, and what they should be. */
typedef struct part {
  int64_t width, rows;                 /* of a row; rows of the pass */
  int64_t made;                        /* rows that the ops are for; -1: none yet */
  cr_tensor *index, *row, *target;     /* (rows), (rows, width), targets or labels */
  cr_tensor *scale;                    /* 1 / variance */
  cr_tensor *value, *diff, *sum, *one; /* value: differences, or probabilities */
  cr_layer_op gather, multiply, first, loss, back, scatter;
  cr_buffer chosen; /* float: the rows' indices */
  cr_buffer wanted; /* double: the targets */
  cr_buffer factor; /* double: 1 / variance */
} part;

typedef struct multibox_state {
  int64_t classes, loc_classes, images, priors;
  int normalization;
  float fixed;    /* the divisor of PRE_FIXED */
  double divisor; /* of the pass */
  bool learns[2];
  cr_matcher matcher;
  cr_buffer truth;    /* cr_truth, sorted by item */
  cr_buffer match;    /* int32_t, of each image, class of locations and prior: an object */
  cr_buffer overlap;  /* float, of each image and prior */
  cr_buffer negative; /* a byte for each prior of an image */
  cr_buffer loss;     /* float for each prior of an image, where locations count */
  cr_tensor *label, *class_losses; /* of each image and prior, for mining */
  cr_layer_op class_loss;
  part loc, conf;
  cr_layer_op add;
} multibox_state;

static int32_t *match_of(const multibox_state *s, int64_t image) {
  return (int32_t *)(void *)s->match.data + image * s->loc_classes * s->priors;
}

static float *overlap_of(const multibox_state *s, int64_t image) {
  return (float *)(void *)s->overlap.data + image * s->priors;
}

static const Caffe__MultiBoxLossParameter *param_of(const cr_layer *layer) {
  return layer->param->multibox_loss_param;
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
  s->loc.made = s->conf.made = -1;
  for (size_t i = 0; i < 2; ++i) {
    s->learns[i] = i >= all->n_propagate_down || all->propagate_down[i];
  }
  return read_divisor(layer, s);
}

/* The losses of all boxes' classes. */
static crema_status make_mining(cr_layer *layer) {
  multibox_state *s = layer->state;
  const int64_t boxes = s->images * s->priors;
  const crema_shape scores = cr_shape_2(boxes, s->classes), labels = cr_shape_1(boxes);
  const crema_dtype type = cr_layer_arithmetic(layer);
  CR_TRY(cr_layer_pass_tensor(layer, &s->label, type, boxes));
  CR_TRY(cr_layer_pass_tensor(layer, &s->class_losses, type, boxes));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_ROW_LOSS);
  desc.u.logistic = (int)param_of(layer)->conf_loss_type == LOGISTIC;
  return cr_layer_op_make(layer, &s->class_loss, &desc, 3,
                          (const crema_shape *[]){&scores, &labels, &labels});
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
  s->loc.width = 4;
  s->conf.width = s->classes;
  s->loc.made = s->conf.made = -1; /* the bottoms may have other extents */
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(cr_layer_op_make(layer, &s->add, &desc, 2, (const crema_shape *[]){&one, &one}));
  return (int)param_of(layer)->mining_type != NO_MINING ? make_mining(layer) : CREMA_OK;
}

/* ---- what is to be learnt ------------------------------------------------ */

static crema_status choose(part *p, int64_t row) {
  const float index = (float)row;
  ++p->rows;
  return cr_buffer_append(&p->chosen, &index, sizeof index);
}

/* A matched box's location. */
static crema_status add_location(cr_layer *layer, const cr_matching *of, int64_t row, int64_t k,
                                 cr_box box) {
  multibox_state *s = layer->state;
  const bool learned = of->param->encode_variance_in_target;
  const cr_prior prior = cr_prior_at(of->prior, of->priors, k);
  double offset[4], factor[4];
  CR_TRY(choose(&s->loc, row));
  cr_box_encode(of->param->code_type, learned, &prior, box, offset);
  for (int i = 0; i < 4; ++i) {
    factor[i] = 1 / (double)prior.variance[i];
    if (learned) offset[i] *= factor[i];
  }
  CR_TRY(cr_buffer_append(&s->loc.wanted, offset, sizeof offset));
  return cr_buffer_append(&s->loc.factor, factor, sizeof factor);
}

static crema_status add_class(multibox_state *s, int64_t row, int64_t label) {
  const double value = (double)label;
  CR_TRY(choose(&s->conf, row));
  return cr_buffer_append(&s->conf.wanted, &value, sizeof value);
}

/* The loss of a matched box's location. */
static double location_loss(const cr_matching *of, const float *loc, int64_t k, cr_box box) {
  const bool learned = of->param->encode_variance_in_target;
  const cr_prior prior = cr_prior_at(of->prior, of->priors, k);
  double offset[4], sum = 0;
  cr_box_encode(of->param->code_type, learned, &prior, box, offset);
  for (int i = 0; i < 4; ++i) {
    double d = fabs((double)loc[4 * k + i] - offset[i]);
    if (learned) d /= (double)prior.variance[i];
    sum += (int)of->param->loc_loss_type == L2 || d < 1 ? d * d / 2 : d - 0.5;
  }
  return sum;
}

static int64_t label_of(const Caffe__MultiBoxLossParameter *p, const cr_truth *truth) {
  return p->map_object_to_agnostic ? (int64_t)p->background_label_id + 1 : truth->label;
}

/* The choice among one image's boxes by the losses of their classes, and for HARD_EXAMPLE of their
 * locations. */
static crema_status mine(cr_layer *layer, const cr_matching *of, int64_t image, const float *loc,
                         const float *loss) {
  multibox_state *s = layer->state;
  int32_t *match = match_of(s, image);
  if ((int)of->param->mining_type == HARD_EXAMPLE) {
    CR_TRY(cr_buffer_reserve(&s->loss, (size_t)s->priors * sizeof *loss));
    float *both = (float *)(void *)s->loss.data;
    for (int64_t k = 0; k < s->priors; ++k) {
      const bool matched = match[k] >= 0;
      both[k] = loss[k];
      if (matched) both[k] += (float)location_loss(of, loc, k, of->truth[match[k]].box);
    }
    loss = both;
  }
  return cr_mine(&s->matcher, of, loc, loss, overlap_of(s, image), match,
                 (uint8_t *)s->negative.data);
}

/* The matches of one image: for each class with locations of its own, one after the other. */
static crema_status match_image(cr_layer *layer, const cr_matching *of, int64_t image,
                                const float *loc) {
  multibox_state *s = layer->state;
  int32_t *match = match_of(s, image);
  float *overlap = overlap_of(s, image);
  if (s->loc_classes == 1) {
    return cr_match(&s->matcher, of, of->param->use_prior_for_matching ? NULL : loc, 1, 0, -1,
                    match, overlap);
  }
  for (int64_t c = 0; c < s->loc_classes; ++c) {
    int32_t *own = match + c * s->priors;
    for (int64_t k = 0; k < s->priors; ++k) own[k] = CR_UNMATCHED;
    if (c == of->param->background_label_id) continue;
    if (!of->param->use_prior_for_matching) {
      CR_TRY(cr_match(&s->matcher, of, loc, s->loc_classes, c, c, own, overlap));
      continue;
    }
    CR_TRY(cr_match(&s->matcher, of, NULL, 1, 0, -1, own, overlap));
    for (int64_t k = 0; k < s->priors; ++k) {
      if (own[k] >= 0 && of->truth[own[k]].label != c) own[k] = CR_UNMATCHED;
    }
  }
  return CREMA_OK;
}

/* What one image with objects adds. */
static crema_status add_image(cr_layer *layer, const cr_matching *of, int64_t image,
                              const float *loc, const float *loss) {
  multibox_state *s = layer->state;
  const bool mines = (int)of->param->mining_type != NO_MINING;
  const int32_t *match = match_of(s, image);
  const int64_t first = image * s->priors;
  if (mines) CR_TRY(mine(layer, of, image, loc, loss + first));
  for (int64_t c = 0; c < s->loc_classes; ++c) {
    for (int64_t k = 0; k < s->priors; ++k) {
      const int32_t t = match[c * s->priors + k];
      if (t < 0) continue;
      CR_TRY(add_location(layer, of, (first + k) * s->loc_classes + c, k, of->truth[t].box));
      if (mines) CR_TRY(add_class(s, first + k, label_of(of->param, &of->truth[t])));
    }
  }
  for (int64_t k = 0; k < s->priors && mines; ++k) {
    if (s->negative.data[k]) CR_TRY(add_class(s, first + k, of->param->background_label_id));
  }
  return CREMA_OK;
}

/* Without mining all boxes count, and boxes of one image may be matched for several classes: the
 * last one stays. */
static crema_status add_all_classes(cr_layer *layer, const cr_matching *of, int64_t image) {
  multibox_state *s = layer->state;
  const int32_t *match = match_of(s, image);
  for (int64_t k = 0; k < s->priors; ++k) {
    int64_t label = of->param->background_label_id;
    for (int64_t c = 0; c < s->loc_classes && of->truths > 0; ++c) {
      const int32_t t = match[c * s->priors + k];
      if (t >= 0) label = label_of(of->param, &of->truth[t]);
    }
    CR_TRY(add_class(s, image * s->priors + k, label));
  }
  return CREMA_OK;
}

static void clear_part(part *p) {
  p->rows = 0;
  cr_buffer_clear(&p->chosen);
  cr_buffer_clear(&p->wanted);
  cr_buffer_clear(&p->factor);
}

/* The objects of an image, behind those of the images before. */
static void take_truths(const multibox_state *s, int64_t image, cr_matching *of) {
  const cr_truth *all = (const cr_truth *)(const void *)s->truth.data;
  const cr_truth *end = all + s->truth.size / sizeof *all;
  of->truth = image == 0 ? all : of->truth + of->truths;
  of->truths = 0;
  while (of->truth + of->truths < end && of->truth[of->truths].item == image) ++of->truths;
}

static const float *locations_of(const multibox_state *s, const float *loc, int64_t image) {
  return loc + image * s->priors * s->loc_classes * 4;
}

static crema_status match_all(cr_layer *layer, cr_matching *of, const float *loc) {
  multibox_state *s = layer->state;
  CR_TRY(cr_matcher_begin(&s->matcher, of));
  for (int64_t i = 0; i < s->images; ++i) {
    take_truths(s, i, of);
    if (of->truths > 0) CR_TRY(match_image(layer, of, i, locations_of(s, loc, i)));
  }
  return CREMA_OK;
}

/* The losses of all boxes' classes, by which they are mined; 0 in images without objects. */
static crema_status find_losses(cr_layer *layer, crema_context *context, cr_matching *of,
                                crema_blob *conf, const float **loss) {
  multibox_state *s = layer->state;
  cr_host_results label;
  CR_TRY(cr_host_write(s->label, &label));
  for (int64_t i = 0; i < s->images; ++i) {
    take_truths(s, i, of);
    const int32_t *match = match_of(s, i);
    const double other = of->truths > 0 ? (double)of->param->background_label_id : -1;
    for (int64_t k = 0; k < s->priors; ++k) cr_host_put(&label, i * s->priors + k, other);
    for (int64_t k = 0; k < s->priors && of->truths > 0; ++k) {
      if (match[k] < 0) continue;
      cr_host_put(&label, i * s->priors + k, (double)label_of(of->param, &of->truth[match[k]]));
    }
  }
  CR_TRY(cr_layer_op_run(&s->class_loss, context,
                         (cr_tensor *[]){conf->data, s->label, s->class_losses}, NULL));
  return cr_tensor_host_read_floats(s->class_losses, loss);
}

static crema_status collect(cr_layer *layer, crema_context *context, crema_blob *const *bottom) {
  multibox_state *s = layer->state;
  const Caffe__MultiBoxLossParameter *p = param_of(layer);
  const bool mines = (int)p->mining_type != NO_MINING;
  const size_t matches = (size_t)(s->images * s->priors * s->loc_classes);
  const float *loc = NULL, *label = NULL;
  const float *loss = NULL;
  cr_matching of = {.param = p, .priors = s->priors};
  CR_TRY(cr_tensor_host_read_floats(bottom[0]->data, &loc));
  CR_TRY(cr_tensor_host_read_floats(bottom[2]->data, &of.prior));
  CR_TRY(cr_tensor_host_read_floats(bottom[3]->data, &label));
  CR_TRY(cr_read_truth(layer, label, bottom[3]->shape.dim[2],
                       p->map_object_to_agnostic ? INT32_MAX : s->classes, p->background_label_id,
                       p->use_difficult_gt, &s->truth));
  CR_TRY(cr_buffer_reserve(&s->match, matches * sizeof(int32_t)));
  CR_TRY(cr_buffer_reserve(&s->overlap, (size_t)(s->images * s->priors) * sizeof(float)));
  CR_TRY(cr_buffer_reserve(&s->negative, (size_t)s->priors));
  clear_part(&s->loc);
  clear_part(&s->conf);
  CR_TRY(match_all(layer, &of, loc));
  if (mines && s->truth.size > 0) CR_TRY(find_losses(layer, context, &of, bottom[1], &loss));
  for (int64_t i = 0; i < s->images; ++i) {
    take_truths(s, i, &of);
    if (of.truths > 0) CR_TRY(add_image(layer, &of, i, locations_of(s, loc, i), loss));
    if (!mines) CR_TRY(add_all_classes(layer, &of, i));
  }
  return CREMA_OK;
}

/* ---- ops ----------------------------------------------------------------- */

static crema_status make_rows(cr_layer *layer, part *p, const crema_blob *bottom, int64_t targets) {
  const crema_dtype type = cr_layer_arithmetic(layer);
  const crema_shape x = cr_shape_2(crema_blob_count(bottom) / p->width, p->width);
  const crema_shape y = cr_shape_2(p->rows, p->width), index = cr_shape_1(p->rows);
  CR_TRY(cr_layer_tensor(layer, &p->index, type, p->rows));
  CR_TRY(cr_layer_tensor(layer, &p->row, type, p->rows * p->width));
  CR_TRY(cr_layer_tensor(layer, &p->value, type, p->rows * p->width));
  CR_TRY(cr_layer_tensor(layer, &p->diff, type, p->rows * p->width));
  CR_TRY(cr_layer_tensor(layer, &p->scale, type, p->rows * p->width));
  CR_TRY(cr_layer_tensor(layer, &p->target, type, targets));
  CR_TRY(cr_layer_tensor(layer, &p->sum, type, 1));
  CR_TRY(cr_layer_tensor(layer, &p->one, type, 1));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_GATHER_FWD);
  CR_TRY(cr_layer_op_make(layer, &p->gather, &desc, 3, (const crema_shape *[]){&x, &index, &y}));
  desc.kind = CR_OP_GATHER_BWD;
  return cr_layer_op_make(layer, &p->scatter, &desc, 3, (const crema_shape *[]){&y, &index, &x});
}

static crema_status make_loc(cr_layer *layer, const crema_blob *bottom) {
  multibox_state *s = layer->state;
  part *p = &s->loc;
  const crema_shape y = cr_shape_1(p->rows * 4), row = cr_shape_2(1, p->rows * 4);
  const crema_shape one = cr_shape_1(1);
  if (p->made == p->rows) return CREMA_OK;
  CR_TRY(make_rows(layer, p, bottom, p->rows * 4));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_PROD);
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

static crema_status make_conf(cr_layer *layer, const crema_blob *bottom) {
  multibox_state *s = layer->state;
  part *p = &s->conf;
  const crema_shape y = cr_shape_2(p->rows, p->width), label = cr_shape_1(p->rows);
  const crema_shape one = cr_shape_1(1);
  const bool logistic = (int)param_of(layer)->conf_loss_type == LOGISTIC;
  if (p->made == p->rows) return CREMA_OK;
  CR_TRY(make_rows(layer, p, bottom, logistic ? p->rows * p->width : p->rows));
  cr_op_desc desc = cr_layer_op_desc(CR_OP_SIGMOID_LOSS_FWD);
  if (logistic) {
    CR_TRY(
        cr_layer_op_make(layer, &p->loss, &desc, 4, (const crema_shape *[]){&y, &y, &one, &one}));
    desc.kind = CR_OP_SIGMOID_LOSS_BWD;
    CR_TRY(cr_layer_op_make(layer, &p->back, &desc, 4, (const crema_shape *[]){&y, &y, &one, &y}));
    p->made = p->rows;
    return CREMA_OK;
  }
  desc.kind = CR_OP_SOFTMAX_LOSS_FWD;
  CR_TRY(cr_layer_op_make(layer, &p->loss, &desc, 5,
                          (const crema_shape *[]){&y, &label, &y, &one, &one}));
  desc.kind = CR_OP_SOFTMAX_LOSS_BWD;
  CR_TRY(cr_layer_op_make(layer, &p->back, &desc, 3, (const crema_shape *[]){&y, &label, &y}));
  p->made = p->rows;
  return CREMA_OK;
}

/* Writes numbers of a buffer of doubles. */
static crema_status write_doubles(cr_tensor *tensor, const cr_buffer *from) {
  cr_host_results to;
  const double *value = (const double *)(const void *)from->data;
  CR_TRY(cr_host_write(tensor, &to));
  for (int64_t i = 0; i < cr_tensor_count(tensor); ++i) cr_host_put(&to, i, value[i]);
  return CREMA_OK;
}

static crema_status write_index(const part *p) {
  cr_host_results to;
  const float *value = (const float *)(const void *)p->chosen.data;
  CR_TRY(cr_host_write(p->index, &to));
  for (int64_t i = 0; i < p->rows; ++i) cr_host_put(&to, i, (double)value[i]);
  return CREMA_OK;
}

static crema_status run_loc(cr_layer *layer, crema_context *context, crema_blob *bottom) {
  multibox_state *s = layer->state;
  part *p = &s->loc;
  CR_TRY(make_loc(layer, bottom));
  CR_TRY(write_index(p));
  CR_TRY(write_doubles(p->target, &p->wanted));
  CR_TRY(
      cr_layer_op_run(&p->gather, context, (cr_tensor *[]){bottom->data, p->index, p->row}, NULL));
  if (param_of(layer)->encode_variance_in_target) {
    CR_TRY(write_doubles(p->scale, &p->factor));
    CR_TRY(cr_layer_op_run(&p->multiply, context, (cr_tensor *[]){p->row, p->scale, p->row}, NULL));
  }
  if ((int)param_of(layer)->loc_loss_type != L2) {
    return cr_layer_op_run(&p->loss, context,
                           (cr_tensor *[]){p->row, p->target, NULL, NULL, p->sum}, NULL);
  }
  CR_TRY(cr_layer_op_run(&p->first, context, (cr_tensor *[]){p->row, p->target, p->value}, NULL));
  return cr_layer_op_run(&p->loss, context, (cr_tensor *[]){p->value, p->sum}, NULL);
}

/* Labels, or for LOGISTIC 1 for the class and 0 for the others; without mining, boxes that are
 * matched with nothing have the background's number throughout, as in Caffe-SSD. */
static crema_status write_classes(cr_layer *layer) {
  multibox_state *s = layer->state;
  part *p = &s->conf;
  const int64_t background = param_of(layer)->background_label_id;
  const double *label = (const double *)(const void *)p->wanted.data;
  const bool mines = (int)param_of(layer)->mining_type != NO_MINING;
  cr_host_results to;
  if ((int)param_of(layer)->conf_loss_type != LOGISTIC) return write_doubles(p->target, &p->wanted);
  CR_TRY(cr_host_write(p->target, &to));
  for (int64_t i = 0; i < p->rows; ++i) {
    for (int64_t c = 0; c < s->classes; ++c) {
      const bool own = c == (int64_t)label[i] && (mines || (int64_t)label[i] != background);
      cr_host_put(&to, i * s->classes + c, own ? 1 : mines ? 0 : (double)background);
    }
  }
  return CREMA_OK;
}

static crema_status run_conf(cr_layer *layer, crema_context *context, crema_blob *bottom) {
  multibox_state *s = layer->state;
  part *p = &s->conf;
  CR_TRY(make_conf(layer, bottom));
  CR_TRY(write_index(p));
  CR_TRY(write_classes(layer));
  CR_TRY(
      cr_layer_op_run(&p->gather, context, (cr_tensor *[]){bottom->data, p->index, p->row}, NULL));
  if ((int)param_of(layer)->conf_loss_type == LOGISTIC) {
    return cr_layer_op_run(&p->loss, context, (cr_tensor *[]){p->row, p->target, p->sum, p->one},
                           NULL);
  }
  return cr_layer_op_run(&p->loss, context,
                         (cr_tensor *[]){p->row, p->target, p->value, p->sum, p->one}, NULL);
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

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  multibox_state *s = layer->state;
  CR_TRY(collect(layer, context, bottom));
  s->divisor = divisor_of(s);
  cr_op_scalars scalars = {.alpha = (double)param_of(layer)->loc_weight / s->divisor};
  cr_tensor_set_zero(top[0]->data);
  if (s->loc.rows > 0 && s->learns[0]) {
    CR_TRY(run_loc(layer, context, bottom[0]));
    CR_TRY(cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->loc.sum, top[0]->data}, &scalars));
  }
  if (s->conf.rows == 0 || !s->learns[1]) return CREMA_OK;
  CR_TRY(run_conf(layer, context, bottom[1]));
  scalars = (cr_op_scalars){.alpha = 1 / s->divisor, .beta = 1};
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->conf.sum, top[0]->data}, &scalars);
}

static crema_status loc_back(cr_layer *layer, crema_context *context, crema_blob *top,
                             crema_blob *bottom) {
  multibox_state *s = layer->state;
  part *p = &s->loc;
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
  part *p = &s->conf;
  cr_op_scalars scalars = {.alpha = 1 / s->divisor};
  double weight = 0;
  if ((int)param_of(layer)->conf_loss_type == LOGISTIC) {
    CR_TRY(cr_layer_op_run(&p->back, context,
                           (cr_tensor *[]){p->row, p->target, top->diff, p->diff}, &scalars));
  } else {
    CR_TRY(cr_tensor_host_value(top->diff, &weight));
    scalars.alpha *= weight;
    CR_TRY(cr_layer_op_run(&p->back, context, (cr_tensor *[]){p->value, p->target, p->diff},
                           &scalars));
  }
  return cr_layer_op_run(&p->scatter, context, (cr_tensor *[]){p->diff, p->index, bottom->diff},
                         NULL);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  multibox_state *s = layer->state;
  if (propagate_down[2] || propagate_down[3]) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "prior boxes and objects (bottoms 2 and 3) have no gradient");
  }
  for (int i = 0; i < 2; ++i) {
    const part *p = i == 0 ? &s->loc : &s->conf;
    if (!propagate_down[i]) continue;
    cr_tensor_set_zero(bottom[i]->diff);
    if (p->rows == 0 || !s->learns[i]) continue;
    CR_TRY(i == 0 ? loc_back(layer, context, top[0], bottom[0])
                  : conf_back(layer, context, top[0], bottom[1]));
  }
  return CREMA_OK;
}

static void free_part(part *p) {
  cr_buffer_free(&p->chosen);
  cr_buffer_free(&p->wanted);
  cr_buffer_free(&p->factor);
}

static void destroy(cr_layer *layer) {
  multibox_state *s = layer->state;
  cr_matcher_free(&s->matcher);
  cr_buffer_free(&s->truth);
  cr_buffer_free(&s->match);
  cr_buffer_free(&s->overlap);
  cr_buffer_free(&s->negative);
  cr_buffer_free(&s->loss);
  free_part(&s->loc);
  free_part(&s->conf);
}

const cr_layer_class cr_layer_multibox_loss = {
    .type = "MultiBoxLoss",
    .state_size = sizeof(multibox_state),
    .bottoms = {4, 4},
    .tops = {1, 1},
    .auto_tops = true,
    .loss = true,
    .no_gradient_bottoms = 1u << 2 | 1u << 3,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = backward,
    .destroy = destroy,
};
