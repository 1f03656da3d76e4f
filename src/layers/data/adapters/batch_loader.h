/* The batch loader, for layers whose tops are batches of a pipeline (data/pipeline/pipeline.h). */
#ifndef CR_LAYERS_BATCH_LOADER_H
#define CR_LAYERS_BATCH_LOADER_H

#include "data/pipeline/pipeline.h"
#include "layers/data/adapters/input_base.h"

/* Zero-initialise. If the net's device has its own memory and the layer is not shared, the pipeline
 * copies batches there. Batches of shared layers are copied when they are first used: the sharers,
 * whose nets may be on different devices, join after the pipeline was made. Step t of solver r of N
 * gets batch number t N + r, whether they share the layer or not. If they do, `held` has an entry
 * for each solver. */
typedef struct cr_batch_loader {
  cr_pipeline *pipeline;
  cr_batch **held;        /* whose memory the tops share, one per sharer */
  cr_layer_cursor cursor; /* counts batches */
  bool running;
} cr_batch_loader;

/* Makes the pipeline, shapes the tops as options->shape says and starts the threads. consumers,
 * rank, solvers and device of the options are set here. */
crema_status cr_batch_loader_open(cr_batch_loader *loader, const cr_layer *layer,
                                  const cr_pipeline_options *options,
                                  crema_blob *const *top) CREMA_MUST_USE;
/* Stops and frees. */
void cr_batch_loader_close(cr_batch_loader *loader);

/* Returns the last batch and waits for the next batch; for the input class's `await`. */
crema_status cr_batch_loader_await(cr_batch_loader *loader, const cr_layer *layer) CREMA_MUST_USE;

/* Returns the last batch, for which `context` may have queued work, and makes the tops share the
 * next batch's memory. *out (may be NULL) is that batch. Errors: as the pipeline; CREMA_E_STATE
 * when the threads could not be started again after a restore. */
crema_status cr_batch_loader_next(cr_batch_loader *loader, const cr_layer *layer,
                                  crema_context *context, crema_blob *const *top,
                                  const cr_batch **out) CREMA_MUST_USE;

/* The position in the data and the key of the random stream as text, and back. Restoring stops the
 * threads, so that the caller may set its key; cr_batch_loader_start starts them. */
crema_status cr_batch_loader_save(const cr_batch_loader *loader, const cr_layer *layer,
                                  uint64_t key, cr_buffer *out) CREMA_MUST_USE;
crema_status cr_batch_loader_restore(cr_batch_loader *loader, const char *bytes, size_t size,
                                     uint64_t *key) CREMA_MUST_USE;
/* For layers with their own text format. Both are no-ops if there is no work. */
crema_status cr_batch_loader_start(cr_batch_loader *loader, const cr_layer *layer) CREMA_MUST_USE;
void cr_batch_loader_stop(cr_batch_loader *loader);

/* For the input class's stats. */
void cr_batch_loader_stats(const cr_batch_loader *loader, const cr_layer *layer,
                           struct cr_input_stats *out);

/* The state of a layer that does nothing in a pass but take the next batch, or its first member:
 * forward and the input class are these. */
typedef struct cr_batch_input {
  cr_batch_loader loader;
  uint64_t key;                      /* of the random stream */
  uint64_t epoch;                    /* samples of an epoch, for layers that have such */
  void (*key_restored)(void *state); /* makes what depends on the key; may be NULL */
} cr_batch_input;

cr_layer_forward_fn cr_batch_input_forward;
extern const cr_input_class cr_batch_input_class;
/* The same for layers that set `epoch`. */
extern const cr_input_class cr_batch_input_class_with_epochs;

#endif
