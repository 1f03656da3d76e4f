/* Parameter blocks: the learnable parameters of a net side by side in memory.
 *
 * A block holds parameters of one element type, in the order in which backward completes their
 * gradients: the last layers come first. Weights and gradients are one array each, so an update or
 * an exchange is one operation on one array. The tensors of the net's blobs are aliases into the
 * block (cr_tensor_alias_block). A device with its own memory also has arrays of 16-bit weights and
 * gradients, so that one conversion serves many parameters. Parameters that do not learn (lr_mult
 * 0: statistics, frozen layers) have separate blocks without gradients. */
#ifndef CR_SOLVER_BLOCKS_H
#define CR_SOLVER_BLOCKS_H

#include "net/net.h"

/* One parameter in its block. */
typedef struct cr_param_block_part {
  int learnable;        /* its index in the net */
  int layer;            /* its backward pass completes the gradient */
  int64_t begin, count; /* in elements; begin is a multiple of CR_PARAM_BLOCK_ALIGNMENT */
} cr_param_block_part;

enum { CR_PARAM_BLOCK_ALIGNMENT = 64 };

typedef struct cr_param_block {
  crema_dtype type;      /* of the weights: F64 or F32 */
  crema_dtype used_type; /* of the weights as the layers use them */
  crema_dtype diff_type; /* of the gradients as backward leaves them */
  bool learns;           /* lr_mult is not 0 */
  int parts;
  cr_param_block_part *part;
  int64_t count; /* elements, gaps included; at least 1 */
  cr_tensor *weight;
  cr_tensor *diff; /* in `type`; NULL for a block that does not learn */
  cr_tensor *used; /* weights in `used_type`, converted after each update; NULL: layers convert */
  cr_tensor *sent; /* exchanged, in `diff_type`: `diff` if the types are equal; NULL: backward's
                      gradients have no array */
} cr_param_block;

typedef struct cr_param_blocks {
  crema_net *net;
  int count;
  cr_param_block *block;
} cr_param_blocks;

/* Lays out the parameters of `net`, which must outlive the blocks, and moves their values there.
 * `exchanged`: gradients will be exchanged. Errors: CREMA_E_NO_MEMORY, device errors. */
crema_status cr_param_blocks_create(crema_net *net, bool exchanged,
                                    cr_param_blocks **out) CREMA_MUST_USE;
/* Accepts NULL. The parameters keep their values and their memory. */
void cr_param_blocks_destroy(cr_param_blocks *blocks);

/* The tensors in an array of a block. */
typedef struct cr_param_block_tensors {
  crema_blob *const *blob; /* one per learnable parameter */
  bool diff;               /* their gradients, not their values */
} cr_param_block_tensors;

/* Moves the tensors of all parts, with their values, into `whole`, an array of block->count
 * elements. */
crema_status cr_param_block_place(const cr_param_block *block, cr_tensor *whole,
                                  cr_param_block_tensors tensors,
                                  crema_context *context) CREMA_MUST_USE;

/* Brings the newest values of parts `first` to `last` - 1 into `whole`, for the next work of
 * `context`. Gradients in `sent` are converted together. */
crema_status cr_param_block_collect(const cr_param_block *block, cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) CREMA_MUST_USE;

/* Marks the parts in `whole`, which `context` has written, as the newest values. They must have
 * been collected first. Weights are converted to `used`. */
crema_status cr_param_block_changed(const cr_param_block *block, const cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) CREMA_MUST_USE;

/* Converts the gradients of parts `first` to `last` - 1 from `sent` to `diff` and marks nothing:
 * for a thread that exchanges them while another thread uses the net. A no-op if the types are
 * equal. */
crema_status cr_param_block_convert_sent(const cr_param_block *block, int first, int last,
                                         crema_context *context) CREMA_MUST_USE;

/* Adjacent parts of one block whose gradients are exchanged together. */
typedef struct cr_bucket {
  int block, first, last; /* parts first to last - 1 */
  int layer;              /* its backward pass completes the last part */
} cr_bucket;

/* The bucket is elements *begin to *end - 1 of the block's arrays. */
void cr_bucket_range(const cr_param_blocks *blocks, const cr_bucket *bucket, int64_t *begin,
                     int64_t *end);

/* Divides the blocks that learn into about `buckets` buckets of equal size (0: one per parameter),
 * in the order in which backward completes them. The caller frees *out. Errors: CREMA_E_NO_MEMORY.
 */
crema_status cr_param_blocks_cut(const cr_param_blocks *blocks, int buckets, cr_bucket **out,
                                 int *count) CREMA_MUST_USE;

#endif
