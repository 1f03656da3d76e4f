/* What layers share whose tops are batches of a feed (data/pipeline/feed.h). */
#ifndef CR_LAYERS_LAYER_FEED_H
#define CR_LAYERS_LAYER_FEED_H

#include "data/pipeline/batch_push.h"
#include "data/pipeline/feed.h"
#include "layers/common/layer_share.h"

/* Zero-initialise. Where the net's device has memory of its own and the layer is not shared, a
 * pusher stands between the feed and the tops; the only sharer's batch is then held_pushed as well.
 * Batches of shared layers are copied when they are first used: the sharers, whose nets may be on
 * different devices, come after the feed was made. Which batches a solver gets goes by its steps:
 * batch number t N + r for step t of solver r of N, whether they share the layer (then `held` has
 * an entry for each) or not. */
typedef struct cr_layer_feed {
  cr_feed *feed;
  cr_batch_push *push;  /* to the net's device; NULL: none */
  cr_feed_batch **held; /* lent to the tops, one per sharer */
  cr_pushed_batch *held_pushed;
  uint64_t *end; /* batches that all solvers have had after as many steps, one per sharer */
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
 * rank, solvers and device of the options are set here. */
crema_status cr_layer_feed_open(cr_layer_feed *feed, const cr_layer *layer,
                                const cr_feed_options *options,
                                crema_blob *const *top) CREMA_MUST_USE;

/* Takes the last batch back and waits for the next one; for the class's `await`. */
crema_status cr_layer_feed_await(cr_layer_feed *feed, const cr_layer *layer) CREMA_MUST_USE;

/* Lends the next batch's memory to the tops and takes the last one back, on which work may still be
 * queued on `context`. Errors: those of the feed and of the pusher; CREMA_E_STATE when it did not
 * start again after it was to be restored. */
crema_status cr_layer_feed_next(cr_layer_feed *feed, const cr_layer *layer, crema_context *context,
                                crema_blob *const *top) CREMA_MUST_USE;

/* Lends a batch's memory to a top: `host` and, where there is some, equal memory of `device`. */
crema_status cr_layer_alias(crema_blob *top, crema_device *device, crema_devptr memory,
                            float *host) CREMA_MUST_USE;

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

#endif
