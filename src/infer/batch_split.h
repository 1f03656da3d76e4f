/* Batches in pieces: a few samples at a time go through the whole net, so that their values stay in
 * the caches and need less memory, and each thread has pieces of its own instead of a share in each
 * layer. */
#ifndef CR_INFER_PIECES_H
#define CR_INFER_PIECES_H

#include "infer/model.h"

typedef struct cr_pieces cr_pieces;

/* How many of `samples` to compute at a time with so many threads; 0: all of them. */
int64_t cr_pieces_choose(const cr_apart *batch, int64_t samples, int threads);

/* For nets of the program, on the device. Makes nothing yet. Both must outlive it. */
crema_status cr_pieces_create(crema_model *model, const cr_program *program, crema_device *device,
                              cr_pieces **out) CREMA_MUST_USE;
void cr_pieces_destroy(cr_pieces *pieces);

/* Computes the outputs, which have their shapes, from the inputs, `samples` in all, `piece` at a
 * time, in `threads` threads. The blobs are the program's inputs and outputs in their order. The
 * bits do not depend on which thread does what. */
crema_status cr_pieces_run(cr_pieces *pieces, int threads, int64_t samples, int64_t piece,
                           crema_blob *const *input, crema_blob *const *output) CREMA_MUST_USE;

/* Adds what the nets hold. */
crema_status cr_pieces_memory(const cr_pieces *pieces, size_t *activations) CREMA_MUST_USE;

#endif
