/* MultiBoxLoss: the loss of a detector that predicts locations and classes of many boxes at once
 * (Liu et al., "SSD", 2016).
 *
 * Formula: loss = (loc_weight * L + C) / divisor. L is the sum of the losses of locations, over
 * prior boxes matched with an object. C is the sum of the losses of classes, over these boxes and
 * the boxes that mining selects. The target of a location is the offset from the prior box to the
 * object (code_type).
 * Shapes: locations (N, 4 priors), scores (N, classes priors), prior boxes (1, 2, 4 priors),
 * objects (1, 1, rows, 8), optionally scores (N, 2 priors) and locations (N, 4 priors) of
 * RefineDet's first stage -> loss (a scalar). With share_location: false, locations are (N, 4
 * classes priors). A row of objects is item, class, instance, xmin, ymin, xmax, ymax, difficult.
 * The first stage's locations refine the prior boxes. A box with a score of an object below
 * objectness_score is not mined. With num_classes: 2 and background 0, objects of all labels are of
 * class 1.
 * Fields: multibox_loss_param, loss_param.
 * Caffe: as in Caffe-SSD and RefineDet; HARD_EXAMPLE is refused after a first stage; bp_inside and
 * ignore_difficult_gt are refused. VALID divides by the number of matched boxes. With
 * encode_variance_in_target the gradient of locations lacks the factor 1 / variance, as in
 * Caffe-SSD.
 * Example, loc 1 8, conf 1 6, prior 1 2 8, label 1 1 2 8:
 *   layer { name: "loss" type: "MultiBoxLoss" bottom: "loc" bottom: "conf" bottom: "prior"
 *     bottom: "label" top: "loss" propagate_down: true propagate_down: true
 *     propagate_down: false propagate_down: false
 *     multibox_loss_param { num_classes: 3 background_label_id: 2 code_type: CENTER_SIZE } } */
#include <math.h>
#include <stdlib.h>

#include "core/fail.h"
#include "layers/detection/multibox.h"

static crema_status read_divisor(cr_layer *layer, cr_multibox_state *s) {
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
  cr_multibox_state *s = layer->state;
  const Caffe__MultiBoxLossParameter *p = cr_multibox_param(layer);
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
  if (p->use_polygon) {
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "use_polygon: the polygons of TextBoxes++ are not supported");
  }
  if (layer->bottoms > 4 &&
      ((int)p->mining_type == CR_MULTIBOX_HARD_EXAMPLE || !p->share_location)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "after a first stage (bottoms 4 and 5) mining_type is MAX_NEGATIVE or "
                         "NONE, with share_location");
  }
  if ((int)p->mining_type != CR_MULTIBOX_NO_MINING && !p->share_location) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "mining goes with share_location only");
  }
  if (p->background_label_id >= p->num_classes && (int)p->conf_loss_type != CR_MULTIBOX_LOGISTIC) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "background_label_id is %u, must be one of the %u classes",
                         p->background_label_id, p->num_classes);
  }
  if (p->has_do_neg_mining && p->do_neg_mining != ((int)p->mining_type != CR_MULTIBOX_NO_MINING)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "do_neg_mining contradicts mining_type");
  }
  if ((int)p->mining_type == CR_MULTIBOX_HARD_EXAMPLE && p->sample_size < 1) {
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

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  cr_multibox_state *s = layer->state;
  const crema_shape scalar = cr_shape(0, NULL), one = cr_shape_1(1);
  CR_TRY(cr_priors_check(layer, bottom, s->classes, s->loc_classes, &s->images, &s->priors));
  CR_TRY(cr_check_rows(layer, "bottom 3 (objects)", &bottom[3]->shape, 8));
  for (int i = 4; i < layer->bottoms; ++i) {
    const int64_t wanted = s->images * s->priors * (i == 4 ? 2 : 4);
    if (crema_blob_count(bottom[i]) == wanted) continue;
    return cr_layer_fail(layer, CREMA_E_SHAPE,
                         "bottom %d (of the first stage) must have %lld numbers, found %lld", i,
                         (long long)wanted, (long long)crema_blob_count(bottom[i]));
  }
  CR_TRY(crema_blob_reshape(top[0], &scalar));
  s->loc.made = -1; /* the bottom may have other extents */
  cr_op_desc desc = cr_layer_op_desc(CR_OP_AXPBY);
  CR_TRY(CR_LAYER_MAKE(layer, &s->add, &desc, &one, &one));
  return cr_multibox_conf_make(layer);
}

static double divisor_of(const cr_multibox_state *s) {
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

enum {
  OPERATIONS =
      60 /* approximate number of multiply-adds that take the time of the search for one box */
};

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  cr_multibox_state *s = layer->state;
  const double boxes = (double)s->images * (double)s->priors * (double)s->loc_classes;
  cr_multibox_pass pass = {.layer = layer,
                           .workers = cr_host_workers(context, boxes * OPERATIONS),
                           .of = {.param = cr_multibox_param(layer), .priors = s->priors}};
  CR_TRY(cr_multibox_search(&pass, context, bottom));
  s->divisor = divisor_of(s);
  cr_op_scalars scalars = {.alpha = (double)cr_multibox_param(layer)->loc_weight / s->divisor};
  cr_tensor_set_zero(top[0]->data);
  if (s->loc.rows > 0 && s->learns[0]) {
    CR_TRY(cr_multibox_loc_run(&pass, context, bottom[0]));
    CR_TRY(cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->loc.sum, top[0]->data}, &scalars));
  }
  if (s->conf.rows == 0 || !s->learns[1]) return CREMA_OK;
  CR_TRY(cr_multibox_conf_run(layer, context, bottom[1]));
  scalars = (cr_op_scalars){.alpha = 1 / s->divisor, .beta = 1};
  return cr_layer_op_run(&s->add, context, (cr_tensor *[]){s->conf.sum, top[0]->data}, &scalars);
}

static crema_status backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                             const bool *propagate_down, crema_blob *const *bottom) {
  cr_multibox_state *s = layer->state;
  for (int i = 2; i < layer->bottoms; ++i) {
    if (!propagate_down[i]) continue;
    return cr_layer_fail(layer, CREMA_E_UNSUPPORTED,
                         "only locations and scores (bottoms 0 and 1) have a gradient");
  }
  for (int i = 0; i < 2; ++i) {
    if (!propagate_down[i]) continue;
    cr_tensor_set_zero(bottom[i]->diff);
    if ((i == 0 ? s->loc.rows : s->conf.rows) == 0 || !s->learns[i]) continue;
    CR_TRY(i == 0 ? cr_multibox_loc_back(layer, context, top[0], bottom[0])
                  : cr_multibox_conf_back(layer, context, top[0], bottom[1]));
  }
  return CREMA_OK;
}

/* Backward computes the softmax of the scores again. */
static bool uses_bottom(const cr_layer *layer, int bottom) {
  (void)layer;
  return bottom == 1;
}

static void destroy(cr_layer *layer) {
  cr_multibox_state *s = layer->state;
  for (int i = 0; i < s->scratchpads; ++i) {
    cr_matcher_free(&s->scratch[i].matcher);
    cr_buffer_free(&s->scratch[i].negative);
    cr_buffer_free(&s->scratch[i].loss);
    cr_buffer_free(&s->scratch[i].matched);
    cr_buffer_free(&s->scratch[i].refined);
    cr_buffer_free(&s->scratch[i].refined_columns);
  }
  free(s->scratch);
  cr_buffer_free(&s->truths.memory);
  cr_buffer_free(&s->prior);
  cr_buffer_free(&s->image);
  cr_buffer_free(&s->match);
}

const cr_layer_class cr_layer_multibox_loss = {
    CR_LAYER_OF_OPS("MultiBoxLoss", sizeof(cr_multibox_state), setup, reshape, forward, backward),
    .bottoms = {4, 6},
    .tops = {1, 1},
    .graph.auto_tops = true,
    .loss = true,
    .graph.reads_loss_param = true,
    .no_gradient_bottoms = 1u << 2 | 1u << 3 | 1u << 4 | 1u << 5,
    .uses_bottom = uses_bottom,
    .destroy = destroy,
};
