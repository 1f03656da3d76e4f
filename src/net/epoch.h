/* Epochs: tests that score each sample of a net's inputs once, and means of the outputs. */
#ifndef CR_NET_EPOCH_H
#define CR_NET_EPOCH_H

#include "net/common/net_struct.h"

/* The size of an epoch. */
typedef struct cr_net_epoch {
  int64_t samples; /* 0: the net's inputs have no common end */
  int64_t batch;   /* samples of a batch; the last one can have fewer */
  int64_t batches;
  char reason[256]; /* without samples: why */
} cr_net_epoch;

/* Finds the epoch of all inputs, before the first pass. `count`: also counts the records of a
 * database that does not know their number, which can take long. Errors: of reading the data. */
crema_status cr_net_find_epoch(const crema_net *net, bool count, cr_net_epoch *out) CREMA_MUST_USE;

/* The inputs give only the first `samples` samples of a batch in the next passes; 0: all. */
void cr_net_take_samples(crema_net *net, int64_t samples);

/* The number of samples in batch `index` of an epoch: less than `batch` for a short last batch. */
int64_t cr_net_epoch_take(const cr_net_epoch *epoch, int64_t index);

/* Appends the positions of all inputs in the data to `out`, and returns the inputs there. Errors:
 * of the layers. */
crema_status cr_net_save_inputs(const crema_net *net, cr_buffer *out) CREMA_MUST_USE;
crema_status cr_net_restore_inputs(const crema_net *net, const cr_buffer *saved) CREMA_MUST_USE;

/* One sentence about a test of `batches` batches that scores samples repeatedly or not at all, into
 * `text`. False: each sample counts equally often, or the number of samples is not known. */
bool cr_net_describe_test(const cr_net_epoch *epoch, int64_t batches, char *text, size_t size);

/* Sums of the outputs' values and of the loss over batches. Zero-initialise. */
typedef struct cr_net_means {
  /* `count` values of the outputs, then the loss, then the weights of all of these. */
  double *sum;
  int64_t count;
  int64_t *first; /* one per output: its first value */
} cr_net_means;

/* Prepares for the outputs of the net, which has its shapes. To be called before the first pass. */
crema_status cr_net_means_begin(crema_net *net, cr_net_means *means) CREMA_MUST_USE;
/* Adds the values of the last pass. Values that a layer knows to be means of a number of samples
 * (layer_parts.h, `weigh`) have that weight if they are per class, or if `samples` is not 0. Other values
 * have the weight `samples`, or 1 if it is 0: Caffe's arithmetic. */
crema_status cr_net_means_add(crema_net *net, double loss, int64_t samples,
                              cr_net_means *means) CREMA_MUST_USE;
/* The number of doubles at `sum`. */
int cr_net_means_size(const cr_net_means *means);
/* The mean of value number `index`; `count`: of the loss. 0 without any sample. */
double cr_net_means_value(const cr_net_means *means, int64_t index);
void cr_net_means_free(cr_net_means *means);

#endif
