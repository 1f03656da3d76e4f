/* What layers share that drop values at random in TRAIN and, unless they sample there as well, give
 * their bottom as it is in TEST. */
#ifndef CR_LAYERS_LAYER_DROPOUT_H
#define CR_LAYERS_LAYER_DROPOUT_H

#include "layers/common/layer_op.h"

/* Zero-initialised. */
typedef struct cr_dropout {
  float ratio;  /* the share of values that it drops */
  bool samples; /* in TEST, too */
  cr_layer_op copy;
} cr_dropout;

/* For setup: checks the ratio; a seed of 0 or more takes the place of the net's. Errors:
 * CREMA_E_RANGE. */
crema_status cr_dropout_set(cr_layer *layer, cr_dropout *dropout, float ratio,
                            int64_t seed) CREMA_MUST_USE;

/* Whether a pass drops values; otherwise it is one of the two below. */
bool cr_dropout_drops(const cr_layer *layer, const cr_dropout *dropout);

/* For reshape: shapes the top like the bottom. *drops: whether there is more to do. */
crema_status cr_dropout_make(cr_layer *layer, cr_dropout *dropout, crema_blob *const *bottom,
                             crema_blob *const *top, bool *drops) CREMA_MUST_USE;

/* A pass that drops nothing: copies values or gradients, unless source and destination are the
 * same. */
crema_status cr_dropout_forward(cr_dropout *dropout, crema_context *context,
                                crema_blob *const *bottom, crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_dropout_backward(cr_dropout *dropout, crema_context *context,
                                 crema_blob *const *top, crema_blob *const *bottom) CREMA_MUST_USE;

/* Class function: not where dropout_param says that it samples. */
bool cr_dropout_noop_in_test(const Caffe__LayerParameter *param);

/* The members that the classes set; each adds its functions. */
#define CR_LAYER_DROPOUT(type_name, state)                                           \
  .type = type_name, .state_size = sizeof(state), .bottoms = {1, 1}, .tops = {1, 1}, \
  .in_place = true, .fusion.noop_in_test = cr_dropout_noop_in_test

#endif
