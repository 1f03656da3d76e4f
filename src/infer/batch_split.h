/* Batches in pieces: a few samples at a time go through the whole net. Their values stay in the
 * caches and need less memory, and each thread has its own pieces instead of a share in each layer.
 */
#ifndef CR_INFER_BATCH_SPLIT_H
#define CR_INFER_BATCH_SPLIT_H

#include "infer/model.h"

typedef struct cr_batch_split cr_batch_split;

/* How many of `samples` to compute at a time with `threads` threads; 0: all of them. */
int64_t cr_batch_split_choose(const cr_batch_cost *batch, int64_t samples, int threads);

/* For nets of the program, on the device. Makes nothing yet. Both must outlive it. */
crema_status cr_batch_split_create(crema_model *model, const cr_program *program,
                                   crema_device *device, cr_batch_split **out) CREMA_MUST_USE;
void cr_batch_split_destroy(cr_batch_split *pieces);

/* Computes the outputs, which have their shapes, from the inputs, `samples` in all, `piece` at a
 * time, in `threads` threads. The blobs are the program's inputs and outputs in their order. The
 * bits do not depend on the assignment of work to threads. */
crema_status cr_batch_split_run(cr_batch_split *pieces, int threads, int64_t samples, int64_t piece,
                                crema_blob *const *input, crema_blob *const *output) CREMA_MUST_USE;

/* Adds the bytes that the nets hold. */
crema_status cr_batch_split_memory(const cr_batch_split *pieces,
                                   size_t *activations) CREMA_MUST_USE;

#endif
