/* The common part of LSTM and RNN: products of the inputs for all steps at once, and the states
 * before the first step and after the last step. */
#ifndef CR_LAYERS_LAYER_RECURRENT_H
#define CR_LAYERS_LAYER_RECURRENT_H

#include "layers/common/layer_op.h"
#include "layers/common/layer_weights.h"

enum { CR_RECURRENT_STATES = 2 };

/* Bottoms: x (T, N, ...), cont (T, N), perhaps a static input (N, ...), and with expose_hidden the
 * first states (1, N, D) each. Tops: the output (T, N, D), and with expose_hidden the last states.
 * Parameters: weights of x (G, K), bias (G), perhaps weights of the static input (G, K'), then the
 * layer's own. */
typedef struct cr_layer_recurrent {
  int states;               /* h, and of an LSTM c */
  int64_t units, gates;     /* D, G */
  int64_t steps, batch;     /* T, N */
  int64_t inputs, statics;  /* K, K' */
  bool exposed, has_static; /* expose_hidden; there is a static input */
  int first_own;            /* index of the layer's first own parameter */
  cr_layer_op forward, backward_data;
  cr_layer_weights backward_weights; /* of x */
  cr_layer_op static_forward, static_add, static_sum, static_data, static_weights;
  cr_layer_op last;
  cr_tensor *sums;      /* (T, N, G); an LSTM makes them the values of its gates */
  cr_tensor *diff_sums; /* (T, N, G) */
  cr_tensor *statics_sum, *diff_statics;
  cr_tensor *state[CR_RECURRENT_STATES];  /* (T, N, D), of all steps */
  cr_tensor *before[CR_RECURRENT_STATES]; /* (N, D), of the pass that ran last */
  cr_tensor *after[CR_RECURRENT_STATES];
} cr_layer_recurrent;

/* Reads recurrent_param, and makes the parameters of the inputs. The layer adds `own` more
 * parameters. */
crema_status cr_layer_recurrent_setup(cr_layer *layer, crema_blob *const *bottom, int states,
                                      int64_t gates_per_unit, int own) CREMA_MUST_USE;

/* Checks the bottoms' shapes, shapes the tops, makes tensors and ops. */
crema_status cr_layer_recurrent_reshape(cr_layer *layer, crema_blob *const *bottom,
                                        crema_blob *const *top) CREMA_MUST_USE;

/* Takes the states over from the pass before, if they are not exposed, and computes s->sums. */
crema_status cr_layer_recurrent_begin(cr_layer *layer, crema_context *context,
                                      crema_blob *const *bottom) CREMA_MUST_USE;

/* The state before the first step: a bottom's or the layer's. */
cr_tensor *cr_layer_recurrent_first(const cr_layer *layer, crema_blob *const *bottom, int state);

/* Keeps the states after the last step, or gives them to the tops. */
crema_status cr_layer_recurrent_end(cr_layer *layer, crema_context *context,
                                    crema_blob *const *top) CREMA_MUST_USE;

/* From s->diff_sums to the gradients of x, the static input and their parameters. */
crema_status cr_layer_recurrent_back(cr_layer *layer, crema_context *context,
                                     const bool *propagate_down,
                                     crema_blob *const *bottom) CREMA_MUST_USE;

/* Index of the bottom that has the first state number `state`. */
int cr_layer_recurrent_bottom(const cr_layer_recurrent *s, int state);

/* Class function: backward reads the inputs for the gradients of their weights. */
bool cr_layer_recurrent_uses_bottom(const cr_layer *layer, int bottom);

#endif
