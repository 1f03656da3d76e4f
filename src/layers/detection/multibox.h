/* The parts of MultiBoxLoss: its state, the search for targets (multibox_targets.c) and the ops of
 * both terms of the loss (multibox_terms.c). The layer itself is in multibox_loss.c. */
#ifndef CR_LAYERS_DETECTION_MULTIBOX_H
#define CR_LAYERS_DETECTION_MULTIBOX_H

#include "layers/common/layer_op.h"
#include "layers/detection/geometry/matching.h"

enum {
  CR_MULTIBOX_L2 = CAFFE__MULTI_BOX_LOSS_PARAMETER__LOC_LOSS_TYPE__L2,
  CR_MULTIBOX_LOGISTIC = CAFFE__MULTI_BOX_LOSS_PARAMETER__CONF_LOSS_TYPE__LOGISTIC,
  CR_MULTIBOX_NO_MINING = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__NONE,
  CR_MULTIBOX_HARD_EXAMPLE = CAFFE__MULTI_BOX_LOSS_PARAMETER__MINING_TYPE__HARD_EXAMPLE
};

/* The loss of the locations of matched boxes. */
typedef struct cr_multibox_loc {
  int64_t rows;                    /* matched boxes of the pass */
  int64_t made;                    /* rows that the ops are for; -1: none yet */
  cr_tensor *index, *row, *target; /* (rows), (rows, 4), (rows, 4) */
  cr_tensor *scale;                /* 1 / variance */
  cr_tensor *value, *diff, *sum;   /* value: differences */
  cr_layer_op gather, multiply, first, loss, back, scatter;
} cr_multibox_loc;

/* The loss of classes. */
typedef struct cr_multibox_conf {
  int64_t rows; /* boxes that contribute */
  cr_tensor *label, *loss,
      *counts;                   /* [boxes] label and loss per box; counts: 1 if it contributes */
  cr_tensor *target, *sum, *one; /* target: 0 or 1 per class, if all boxes contribute */
  cr_layer_op forward, back;
} cr_multibox_conf;

/* An image of the pass: its objects and its results. */
typedef struct cr_multibox_image {
  size_t first_truth, truths;
  int64_t loc_rows, first_loc_row, conf_rows;
  double loss; /* of classes */
} cr_multibox_image;

/* Scratch of one thread. */
typedef struct cr_multibox_scratch {
  cr_matcher matcher;
  cr_buffer negative;                 /* int32_t per prior: 1 if it contributes without an object */
  cr_buffer loss;                     /* float per prior, if locations count in mining */
  cr_buffer matched;                  /* int32_t: the boxes that are matched */
  cr_buffer refined, refined_columns; /* the image's prior boxes after RefineDet's first stage */
} cr_multibox_scratch;

typedef struct cr_multibox_state {
  int64_t classes, loc_classes, images, priors;
  int normalization;
  float fixed;    /* the divisor of PRE_FIXED */
  double divisor; /* of the pass */
  bool learns[2];
  cr_multibox_scratch *scratch; /* of `scratchpads` threads */
  int scratchpads;
  cr_truths truths;
  cr_buffer prior; /* of columns */
  cr_buffer image; /* cr_multibox_image of each */
  cr_buffer match; /* int32_t per image, class of locations and prior: an object */
  cr_multibox_loc loc;
  cr_multibox_conf conf;
  cr_layer_op add;
} cr_multibox_state;

/* A forward pass, as its threads share it. */
typedef struct cr_multibox_pass {
  cr_layer *layer;
  int workers;
  cr_matching of; /* without objects */
  const float *loc;
  const float *first_conf, *first_loc;  /* of RefineDet's first stage; NULL: none */
  const float *loss;                    /* of boxes' classes, for mining */
  cr_host_values exact;                 /* the same losses, for the sum */
  cr_host_results label, counts;        /* unset if all boxes contribute */
  cr_host_results index, target, scale; /* of locations */
} cr_multibox_pass;

static inline const Caffe__MultiBoxLossParameter *cr_multibox_param(const cr_layer *layer) {
  return layer->param->multibox_loss_param;
}

/* Whether all objects are of one class. With two classes they are, as in RefineDet's first stage,
 * whose objects have the labels of the second stage. */
static inline bool cr_multibox_agnostic(const Caffe__MultiBoxLossParameter *p) {
  return p->map_object_to_agnostic || (p->num_classes == 2 && p->background_label_id == 0);
}

static inline bool cr_multibox_mines(const cr_layer *layer) {
  return (int)cr_multibox_param(layer)->mining_type != CR_MULTIBOX_NO_MINING;
}

/* Whether all boxes contribute, with a target per class. */
static inline bool cr_multibox_has_targets(const cr_layer *layer) {
  return !cr_multibox_mines(layer) &&
         (int)cr_multibox_param(layer)->conf_loss_type == CR_MULTIBOX_LOGISTIC;
}

static inline cr_multibox_image *cr_multibox_image_at(const cr_multibox_state *s, int64_t image) {
  return (cr_multibox_image *)(void *)s->image.data + image;
}

/* Defined in multibox_targets.c: */

/* Finds which boxes contribute and to which term. Sets the rows of both terms, the classes' targets
 * and the images' losses of classes. */
crema_status cr_multibox_search(cr_multibox_pass *pass, crema_context *context,
                                crema_blob *const *bottom) CREMA_MUST_USE;
/* Writes pass->index, target and scale: the rows of locations. */
crema_status cr_multibox_put_locations(cr_multibox_pass *pass) CREMA_MUST_USE;

/* Defined in multibox_terms.c: */

/* Makes the ops of the loss of classes. */
crema_status cr_multibox_conf_make(cr_layer *layer) CREMA_MUST_USE;
/* Compute a term's sum from its bottom. */
crema_status cr_multibox_loc_run(cr_multibox_pass *pass, crema_context *context,
                                 crema_blob *bottom) CREMA_MUST_USE;
crema_status cr_multibox_conf_run(cr_layer *layer, crema_context *context,
                                  crema_blob *bottom) CREMA_MUST_USE;
/* Compute the diff of a term's bottom. */
crema_status cr_multibox_loc_back(cr_layer *layer, crema_context *context, crema_blob *top,
                                  crema_blob *bottom) CREMA_MUST_USE;
crema_status cr_multibox_conf_back(cr_layer *layer, crema_context *context, crema_blob *top,
                                   crema_blob *bottom) CREMA_MUST_USE;

#endif
