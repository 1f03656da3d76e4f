/* What layers share whose tops are batches of a feed (data/feed.h). */
#ifndef CR_LAYERS_LAYER_FEED_H
#define CR_LAYERS_LAYER_FEED_H

#include "data/feed.h"
#include "layers/layer_share.h"

/* Zero-initialise. Which batches a solver gets goes by its steps: batch number t N + r for step t
 * of solver r of N, whether they share the layer (then `held` has an entry for each) or not. */
typedef struct cr_layer_feed {
  cr_feed *feed;
  cr_feed_batch **held; /* lent to the tops, one a sharer */
  uint64_t *end;        /* batches that all solvers have had after as many steps, one a sharer */
  int sharers;
  bool running;
} cr_layer_feed;

/* Prefixes the error text of a failure with the layer's name and type; passes CREMA_OK on. */
crema_status cr_layer_in(const cr_layer *layer, crema_status status);

/* Whether a batch_size can be worked with; `message` is the name of the field that holds it.
 * Errors: CREMA_E_ARGUMENT. */
crema_status cr_layer_check_batch(const cr_layer *layer, const char *message,
                                  uint32_t batch_size) CREMA_MUST_USE;

/* A root_folder that is put before the names of a list: resolved like a file, with a slash at its
 * end; empty when `root` is empty or NULL. The result is to be freed. */
crema_status cr_layer_root_folder(const cr_layer *layer, const char *root,
                                  char **out) CREMA_MUST_USE;

/* Makes the feed, shapes the tops as options->shape says and starts the threads. consumers,
 * rank and solvers of the options are set here. */
crema_status cr_layer_feed_open(cr_layer_feed *feed, const cr_layer *layer,
                                const cr_feed_options *options,
                                crema_blob *const *top) CREMA_MUST_USE;

/* Takes the last batch back and waits for the next one; for the class's `await`. */
crema_status cr_layer_feed_await(cr_layer_feed *feed, const cr_layer *layer) CREMA_MUST_USE;

/* Lends the next batch's memory to the tops and takes the last one back. Errors: those of the feed;
 * CREMA_E_STATE when it did not start again after it was to be restored. */
crema_status cr_layer_feed_next(cr_layer_feed *feed, const cr_layer *layer,
                                crema_blob *const *top) CREMA_MUST_USE;

/* Stops and frees; `free_item` as for cr_feed_destroy. */
void cr_layer_feed_close(cr_layer_feed *feed, void (*free_item)(void *item));

/* The place in the stream and the key of the draws as text, and back. Restoring stops the
 * threads, so that the caller may set its key; cr_layer_feed_start goes on. */
crema_status cr_layer_feed_save(const cr_layer_feed *feed, const cr_layer *layer, uint64_t key,
                                cr_buffer *out) CREMA_MUST_USE;
crema_status cr_layer_feed_restore(cr_layer_feed *feed, const char *bytes, size_t size,
                                   uint64_t *key) CREMA_MUST_USE;
crema_status cr_layer_feed_start(cr_layer_feed *feed) CREMA_MUST_USE;

/* For the class's input_stats. */
void cr_layer_feed_stats(const cr_layer_feed *feed, const cr_layer *layer,
                         struct cr_input_stats *out);

/* Class functions of layers without anything to do there: shapes that come from the data, and no
 * gradient. */
crema_status cr_layer_no_reshape(cr_layer *layer, crema_blob *const *bottom,
                                 crema_blob *const *top) CREMA_MUST_USE;
crema_status cr_layer_no_backward(cr_layer *layer, crema_context *context, crema_blob *const *top,
                                  const bool *propagate_down,
                                  crema_blob *const *bottom) CREMA_MUST_USE;

#endif
