#include "solver/blocks.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/watch.h"
#include "memory/tensor_batch.h"

/* The layer that completes the gradient of a learnable parameter: the first that uses it in forward
 * order. */
static int completing_layer(const crema_net *net, int learnable) {
  int layer = net->layers;
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *param = &net->net_param[i];
    if (param->learnable == learnable && param->layer < layer) layer = param->layer;
  }
  return layer;
}

/* Finds or adds the block for a parameter. There is room for one per parameter. */
static cr_param_block *block_for(cr_param_blocks *blocks, int learnable) {
  const crema_blob *blob = blocks->net->learnable[learnable];
  const crema_dtype used_type = cr_tensor_type(blob->data);
  const crema_dtype diff_type = cr_tensor_type(blob->diff);
  bool learns = blocks->net->lr_mult[learnable] != 0;
  for (int i = 0; i < blocks->count; ++i) {
    cr_param_block *block = &blocks->block[i];
    if (block->used_type == used_type && block->diff_type == diff_type && block->learns == learns) {
      return block;
    }
  }
  cr_param_block *block = &blocks->block[blocks->count++];
  block->type = used_type == CREMA_F64 ? CREMA_F64 : CREMA_F32;
  block->used_type = used_type;
  block->diff_type = diff_type;
  block->learns = learns;
  return block;
}

/* Backward runs from the last layer to the first. */
static int by_completion(const void *a, const void *b) {
  const cr_param_block_part *x = a, *y = b;
  if (x->layer != y->layer) return x->layer > y->layer ? -1 : 1;
  return (x->learnable > y->learnable) - (x->learnable < y->learnable);
}

static int64_t aligned(int64_t count) {
  return (count + CR_PARAM_BLOCK_ALIGNMENT - 1) / CR_PARAM_BLOCK_ALIGNMENT *
         CR_PARAM_BLOCK_ALIGNMENT;
}

static void place_parts(cr_param_block *block) {
  int64_t at = 0;
  qsort(block->part, (size_t)block->parts, sizeof *block->part, by_completion);
  for (int i = 0; i < block->parts; ++i) {
    block->part[i].begin = at;
    at += aligned(block->part[i].count);
  }
  block->count = at > 0 ? at : 1;
}

static crema_status lay_out(cr_param_blocks *blocks) {
  const crema_net *net = blocks->net;
  for (int i = 0; i < net->learnables; ++i) {
    cr_param_block *block = block_for(blocks, i);
    if (block->part == NULL) {
      CR_TRY(CR_NEW(block->part, net->learnables, "the parameters' blocks"));
    }
    block->part[block->parts++] =
        (cr_param_block_part){.learnable = i,
                              .layer = completing_layer(net, i),
                              .count = crema_blob_count(net->learnable[i])};
  }
  for (int i = 0; i < blocks->count; ++i) place_parts(&blocks->block[i]);
  return CREMA_OK;
}

/* The gaps between parts stay zero, so that sums over a whole block can ignore them. */
static crema_status clear_gaps(const cr_param_block *block, cr_tensor *whole,
                               crema_context *context) {
  const size_t size = crema_dtype_size(cr_tensor_type(whole));
  crema_devptr memory = {0};
  CR_TRY(cr_tensor_write(whole, context, (cr_format){cr_tensor_type(whole), NULL}, &memory));
  for (int i = 0; i <= block->parts; ++i) {
    int64_t begin = i == 0 ? 0 : block->part[i - 1].begin + block->part[i - 1].count;
    int64_t end = i == block->parts ? block->count : block->part[i].begin;
    const crema_devptr gap = {memory.address + (size_t)begin * size};
    if (end > begin) {
      CR_TRY(context->device->backend->zero(context, gap, (size_t)(end - begin) * size));
    }
  }
  return CREMA_OK;
}

static crema_status make_array(const cr_param_blocks *blocks, const cr_param_block *block,
                               crema_dtype type, bool diff, cr_tensor **out) {
  crema_context *context = blocks->net->context;
  const cr_param_block_tensors tensors = {blocks->net->learnable, diff};
  const size_t bytes = (size_t)block->count * crema_dtype_size(type);
  crema_devptr memory = {0};
  CR_TRY(cr_tensor_create(type, block->count, out));
  if (diff) {
    /* A conversion of adjacent gradients also reads gradients that are elsewhere. */
    CR_TRY(cr_tensor_write(*out, context, (cr_format){type, NULL}, &memory));
    CR_TRY(context->device->backend->zero(context, memory, bytes));
  }
  return cr_param_block_place(block, *out, tensors, context);
}

/* Kernels of the host use other layouts than the arrays, so further arrays serve only a device. */
static crema_status make_arrays(const cr_param_blocks *blocks, cr_param_block *block,
                                bool exchanged) {
  const bool apart = !blocks->net->context->device->backend->host_memory;
  CR_TRY(make_array(blocks, block, block->type, false, &block->weight));
  if (!block->learns) return CREMA_OK;
  if (apart && block->used_type != block->type) {
    CR_TRY(make_array(blocks, block, block->used_type, false, &block->used));
  }
  CR_TRY(make_array(blocks, block, block->type, true, &block->diff));
  if (block->diff_type == block->type) {
    if (exchanged) block->sent = block->diff;
    return CREMA_OK;
  }
  if (!exchanged && !apart) return CREMA_OK;
  return make_array(blocks, block, block->diff_type, true, &block->sent);
}

crema_status cr_param_blocks_create(crema_net *net, bool exchanged, cr_param_blocks **out) {
  cr_param_blocks *blocks = calloc(1, sizeof *blocks);
  if (blocks == NULL) return cr_fail_memory(sizeof *blocks, "the parameters' blocks");
  blocks->net = net;
  crema_status status = CR_NEW(blocks->block, net->learnables + 1, "the parameters' blocks");
  if (status == CREMA_OK) status = lay_out(blocks);
  for (int i = 0; i < blocks->count && status == CREMA_OK; ++i) {
    status = make_arrays(blocks, &blocks->block[i], exchanged);
  }
  if (status != CREMA_OK) {
    cr_param_blocks_destroy(blocks);
    return cr_fail_in(status, "the parameters of net '%s'", crema_net_name(net));
  }
  *out = blocks;
  return CREMA_OK;
}

void cr_param_blocks_destroy(cr_param_blocks *blocks) {
  if (blocks == NULL) return;
  for (int i = 0; i < blocks->count; ++i) {
    cr_param_block *block = &blocks->block[i];
    if (block->sent != block->diff) cr_tensor_destroy(block->sent);
    cr_tensor_destroy(block->diff);
    cr_tensor_destroy(block->used);
    cr_tensor_destroy(block->weight);
    free(block->part);
  }
  free(blocks->block);
  free(blocks);
}

static cr_tensor *tensor_of(cr_param_block_tensors tensors, const cr_param_block_part *part) {
  const crema_blob *blob = tensors.blob[part->learnable];
  return tensors.diff ? blob->diff : blob->data;
}

crema_status cr_param_block_place(const cr_param_block *block, cr_tensor *whole,
                                  cr_param_block_tensors tensors, crema_context *context) {
  CR_TRY(clear_gaps(block, whole, context));
  for (int i = 0; i < block->parts; ++i) {
    const cr_param_block_part *part = &block->part[i];
    CR_TRY(cr_tensor_alias_block(tensor_of(tensors, part), context, whole, part->begin));
  }
  return CREMA_OK;
}

/* The address of element `begin` of an array, in its own type. */
static crema_status address_of(cr_tensor *whole, crema_context *context, int64_t begin,
                               crema_devptr *out) {
  const crema_dtype type = cr_tensor_type(whole);
  CR_TRY(cr_tensor_read(whole, context, (cr_format){type, NULL}, out));
  out->address += (size_t)begin * crema_dtype_size(type);
  return CREMA_OK;
}

/* Two arrays of a block with the same values, in two types. */
typedef struct block_pair {
  cr_tensor *from, *to;
  cr_param_block_tensors tensors;
} block_pair;

/* Converts parts `first` to `last` - 1, at least one, and the gaps between them. */
static crema_status convert_range(const cr_param_block *block, const block_pair *pair, int first,
                                  int last, crema_context *context) {
  const cr_format to = {cr_tensor_type(pair->to), NULL}, from = {cr_tensor_type(pair->from), NULL};
  const int64_t begin = block->part[first].begin;
  const int64_t end = block->part[last - 1].begin + block->part[last - 1].count;
  crema_devptr src = {0}, dst = {0};
  CR_TRY(address_of(pair->from, context, begin, &src));
  CR_TRY(address_of(pair->to, context, begin, &dst));
  return cr_watch_convert(context, NULL, end - begin, to, dst, from, src);
}

/* The same for any number of parts. Values that are in the first array are then in both. */
static crema_status convert_parts(const cr_param_block *block, const block_pair *pair, int first,
                                  int last, crema_context *context) {
  if (first >= last) return CREMA_OK;
  CR_TRY(convert_range(block, pair, first, last, context));
  for (int i = first; i < last; ++i) {
    cr_tensor *tensor = tensor_of(pair->tensors, &block->part[i]);
    if (!cr_tensor_alias_is_in(tensor, pair->from)) continue;
    CR_TRY(cr_tensor_alias_converted(tensor, context, pair->to));
  }
  return CREMA_OK;
}

crema_status cr_param_block_convert_sent(const cr_param_block *block, int first, int last,
                                         crema_context *context) {
  const block_pair pair = {.from = block->sent, .to = block->diff};
  if (block->sent == block->diff || first >= last) return CREMA_OK;
  return convert_range(block, &pair, first, last, context);
}

/* The caller of the library may have reshaped a parameter. */
static crema_status check_part(const cr_param_block_part *part, const cr_tensor *tensor) {
  if (cr_tensor_count(tensor) == part->count) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE,
                 "learnable parameter %d has %lld values, but had %lld when training began",
                 part->learnable, (long long)cr_tensor_count(tensor), (long long)part->count);
}

/* Converts the parts that are in the first array of the pair, with parts between them whose values
 * are in neither array. */
static crema_status convert_adjacent(const cr_param_block *block, const block_pair *pair, int first,
                                     int last, crema_context *context) {
  int begin = -1, end = -1; /* the first and the last part of a range that are in the first array */
  for (int i = first; i < last; ++i) {
    const cr_tensor *tensor = tensor_of(pair->tensors, &block->part[i]);
    const bool done = cr_tensor_is_zero(tensor) || cr_tensor_alias_is_in(tensor, pair->to);
    if (!done && cr_tensor_alias_is_in(tensor, pair->from)) {
      if (begin < 0) begin = i;
      end = i;
    } else if (done && begin >= 0) {
      CR_TRY(convert_parts(block, pair, begin, end + 1, context));
      begin = -1;
    }
  }
  return begin < 0 ? CREMA_OK : convert_parts(block, pair, begin, end + 1, context);
}

crema_status cr_param_block_collect(const cr_param_block *block, cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) {
  const block_pair pair = {block->sent, whole, tensors};
  cr_tensor_batch batch = {.context = context};
  for (int i = first; i < last; ++i) {
    const cr_param_block_part *part = &block->part[i];
    cr_tensor *tensor = tensor_of(tensors, part);
    CR_TRY(check_part(part, tensor));
    CR_TRY(cr_tensor_alias_block(tensor, context, whole, part->begin));
  }
  if (whole == block->diff && block->sent != NULL && block->sent != block->diff) {
    CR_TRY(convert_adjacent(block, &pair, first, last, context));
  }
  for (int i = first; i < last; ++i) {
    CR_TRY(cr_tensor_batch_read(&batch, tensor_of(tensors, &block->part[i]),
                                (cr_format){cr_tensor_type(whole), NULL}));
  }
  return cr_tensor_batch_end(&batch);
}

crema_status cr_param_block_changed(const cr_param_block *block, const cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) {
  const block_pair pair = {block->weight, block->used, tensors};
  const cr_format format = {cr_tensor_type(whole), NULL};
  cr_tensor_batch batch = {.context = context};
  crema_devptr memory = {0};
  for (int i = first; i < last; ++i) {
    const cr_param_block_part *part = &block->part[i];
    cr_tensor *tensor = tensor_of(tensors, part);
    CR_TRY(cr_tensor_write(tensor, context, format, &memory));
    if (whole != block->weight || block->used == NULL) continue;
    CR_TRY(cr_tensor_alias_block(tensor, context, block->used, part->begin));
  }
  if (whole != block->weight) return CREMA_OK;
  if (block->used != NULL) CR_TRY(convert_parts(block, &pair, first, last, context));
  for (int i = first; i < last; ++i) {
    CR_TRY(cr_tensor_batch_refresh(&batch, tensor_of(tensors, &block->part[i])));
  }
  return cr_tensor_batch_end(&batch);
}

void cr_bucket_range(const cr_param_blocks *blocks, const cr_bucket *bucket, int64_t *begin,
                     int64_t *end) {
  const cr_param_block_part *part = blocks->block[bucket->block].part,
                            *last = &part[bucket->last - 1];
  *begin = part[bucket->first].begin;
  *end = last->begin + last->count;
}

static size_t sent_bytes(const cr_param_block *block, int64_t count) {
  return (size_t)count * crema_dtype_size(block->diff_type);
}

/* Cuts one block: a bucket ends when it reaches `bytes`. */
static int cut_block(const cr_param_block *block, int index, size_t bytes, cr_bucket *out) {
  int count = 0;
  for (int first = 0, i = 0; i < block->parts; ++i) {
    const cr_param_block_part *part = &block->part[i];
    int64_t size = part->begin + aligned(part->count) - block->part[first].begin;
    if (i + 1 < block->parts && sent_bytes(block, size) < bytes) continue;
    out[count++] = (cr_bucket){.block = index, .first = first, .last = i + 1, .layer = part->layer};
    first = i + 1;
  }
  return count;
}

static int bucket_by_completion(const void *a, const void *b) {
  const cr_bucket *x = a, *y = b;
  if (x->layer != y->layer) return x->layer > y->layer ? -1 : 1;
  if (x->block != y->block) return x->block < y->block ? -1 : 1;
  return (x->first > y->first) - (x->first < y->first);
}

crema_status cr_param_blocks_cut(const cr_param_blocks *blocks, int buckets, cr_bucket **out,
                                 int *count) {
  size_t bytes = 0;
  for (int i = 0; i < blocks->count; ++i) {
    const cr_param_block *block = &blocks->block[i];
    if (block->learns) bytes += sent_bytes(block, block->count);
  }
  bytes = buckets > 0 ? (bytes + (size_t)buckets - 1) / (size_t)buckets : 0;
  CR_TRY(CR_NEW(*out, blocks->net->learnables + 1, "buckets of gradients"));
  *count = 0;
  for (int i = 0; i < blocks->count; ++i) {
    const cr_param_block *block = &blocks->block[i];
    if (block->learns) *count += cut_block(block, i, bytes, *out + *count);
  }
  qsort(*out, (size_t)*count, sizeof **out, bucket_by_completion);
  return CREMA_OK;
}
