/* Triplets whose samples are the rows of one bottom, for TripletLoss: which rows form triplets, the
 * sum of their terms, and its gradient. */
#ifndef CR_LAYERS_LOSS_TRIPLET_BATCH_H
#define CR_LAYERS_LOSS_TRIPLET_BATCH_H

#include "core/buffer.h"
#include "layers/common/layer_host.h"

typedef enum cr_triplet_form {
  CR_TRIPLETS_SETS,   /* num_negatives: reference, positive and negatives of each set */
  CR_TRIPLETS_GROUPS, /* group_size: an anchor with its hardest positive and negative */
  CR_TRIPLETS_LABELS, /* all pairs of the first label, with each sample of another label */
  CR_TRIPLETS_NUMBERS /* bottom 1 has the numbers of three rows per triplet */
} cr_triplet_form;

typedef struct cr_triplet_batch {
  cr_triplet_form form;
  int64_t rows, width;
  int64_t edges;
  cr_buffer edge;   /* pairs of rows, with numbers for the gradient */
  cr_buffer square; /* of each row its squared norm, for CR_TRIPLETS_NUMBERS */
} cr_triplet_batch;

/* Finds the form from fields and shapes, and checks them. Errors: CREMA_E_ARGUMENT, which lists the
 * forms, if none or several fit. */
crema_status cr_triplet_batch_reshape(const cr_layer *layer, cr_triplet_batch *batch,
                                      crema_blob *const *bottom) CREMA_MUST_USE;

/* The loss, its divisor included. */
crema_status cr_triplet_batch_forward(const cr_layer *layer, crema_context *context,
                                      cr_triplet_batch *batch, crema_blob *const *bottom,
                                      double *loss) CREMA_MUST_USE;

/* The gradient of the last pass times `weight`, into the diff of bottom 0. */
crema_status cr_triplet_batch_backward(crema_context *context, const cr_triplet_batch *batch,
                                       double weight, crema_blob *const *bottom) CREMA_MUST_USE;

void cr_triplet_batch_free(cr_triplet_batch *batch);

#endif
