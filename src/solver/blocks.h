/* Parameter blocks: the learnable parameters of a net side by side in memory.
 *
 * A block holds parameters of one element type, in the order in which backward completes their
 * gradients: those of the last layers come first. Its weights are one array, so are its gradients,
 * and an update or an exchange is one operation on one array. The tensors of the net's blobs stay
 * what they are; only their memory lies in the block (cr_tensor_alias_block). Parameters that do
 * not learn (lr_mult 0: statistics, frozen layers) have a block of their own, without gradients. */
#ifndef CR_SOLVER_BLOCKS_H
#define CR_SOLVER_BLOCKS_H

#include "net/net.h"

/* One parameter in its block. */
typedef struct cr_param_block_part {
  int learnable;        /* its index in the net */
  int layer;            /* whose backward pass completes the gradient */
  int64_t begin, count; /* in elements; begin is a multiple of CR_PARAM_BLOCK_ALIGNMENT */
} cr_param_block_part;

enum { CR_PARAM_BLOCK_ALIGNMENT = 64 };

typedef struct cr_param_block {
  crema_dtype type;      /* of the weights: F64 or F32 */
  crema_dtype diff_type; /* of the gradients as backward leaves them */
  bool learns;           /* lr_mult is not 0 */
  int parts;
  cr_param_block_part *part;
  int64_t count; /* elements, gaps included; at least 1 */
  cr_tensor *weight;
  cr_tensor *diff; /* in `type`; NULL for a block that does not learn */
  cr_tensor *sent; /* in `diff_type`: what is exchanged; `diff` itself where the types are equal,
                      NULL where nothing is exchanged */
} cr_param_block;

typedef struct cr_param_blocks {
  crema_net *net;
  int count;
  cr_param_block *block;
} cr_param_blocks;

/* Lays out the parameters of `net`, which must outlive the blocks, and moves their values there.
 * `exchanged`: the gradients will be. Errors: CREMA_E_NO_MEMORY, those of the device. */
crema_status cr_param_blocks_create(crema_net *net, bool exchanged,
                                    cr_param_blocks **out) CREMA_MUST_USE;
/* Accepts NULL. The parameters keep their values and their memory. */
void cr_param_blocks_destroy(cr_param_blocks *blocks);

/* The tensors that lie in an array of a block: those of these blobs, one per learnable parameter.
 */
typedef struct cr_param_block_tensors {
  crema_blob *const *blob;
  bool diff; /* their gradients, not their values */
} cr_param_block_tensors;

/* Moves the memory of the tensors of all parts into `whole`, an array of block->count elements;
 * their values are kept. */
crema_status cr_param_block_place(const cr_param_block *block, cr_tensor *whole,
                                  cr_param_block_tensors tensors,
                                  crema_context *context) CREMA_MUST_USE;

/* Sees to it that the newest values of parts `first` to `last` - 1 are in `whole`, for work that
 * `context` does next. */
crema_status cr_param_block_collect(const cr_param_block *block, cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) CREMA_MUST_USE;

/* Says that `context` has written to these parts in `whole`: what is there are their newest
 * values. They must have been collected before. */
crema_status cr_param_block_changed(const cr_param_block *block, const cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) CREMA_MUST_USE;

/* A run of parts of one block whose gradients are exchanged together. */
typedef struct cr_bucket {
  int block, first, last; /* parts first to last - 1 */
  int layer;              /* whose backward pass completes the last of them */
} cr_bucket;

/* The elements of the block's arrays that a bucket takes: *begin to *end - 1. */
void cr_bucket_range(const cr_param_blocks *blocks, const cr_bucket *bucket, int64_t *begin,
                     int64_t *end);

/* Cuts the blocks that learn into about `buckets` buckets of equal size for all blocks together (0:
 * one per parameter), ordered as backward completes them. *out is to be freed. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_param_blocks_cut(const cr_param_blocks *blocks, int buckets, cr_bucket **out,
                                 int *count) CREMA_MUST_USE;

#endif
