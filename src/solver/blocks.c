#include "solver/blocks.h"

#include <stdlib.h>

#include "core/fail.h"

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
  const crema_dtype type = cr_tensor_type(blob->data) == CREMA_F64 ? CREMA_F64 : CREMA_F32;
  const crema_dtype diff_type = cr_tensor_type(blob->diff);
  bool learns = blocks->net->lr_mult[learnable] != 0;
  for (int i = 0; i < blocks->count; ++i) {
    cr_param_block *block = &blocks->block[i];
    if (block->type == type && block->diff_type == diff_type && block->learns == learns) {
      return block;
    }
  }
  cr_param_block *block = &blocks->block[blocks->count++];
  block->type = type;
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
  CR_TRY(cr_tensor_create(type, block->count, out));
  return cr_param_block_place(block, *out, tensors, context);
}

static crema_status make_arrays(const cr_param_blocks *blocks, cr_param_block *block,
                                bool exchanged) {
  CR_TRY(make_array(blocks, block, block->type, false, &block->weight));
  if (!block->learns) return CREMA_OK;
  CR_TRY(make_array(blocks, block, block->type, true, &block->diff));
  if (!exchanged) return CREMA_OK;
  if (block->diff_type == block->type) {
    block->sent = block->diff;
    return CREMA_OK;
  }
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

crema_status cr_param_block_collect(const cr_param_block *block, cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) {
  const cr_format format = {cr_tensor_type(whole), NULL};
  crema_devptr memory = {0};
  for (int i = first; i < last; ++i) {
    const cr_param_block_part *part = &block->part[i];
    cr_tensor *tensor = tensor_of(tensors, part);
    /* The caller of the library may have reshaped a parameter. */
    if (cr_tensor_count(tensor) != part->count) {
      return cr_fail(CREMA_E_SHAPE,
                     "learnable parameter %d has %lld values, but had %lld when training began",
                     part->learnable, (long long)cr_tensor_count(tensor), (long long)part->count);
    }
    CR_TRY(cr_tensor_alias_block(tensor, context, whole, part->begin));
    CR_TRY(cr_tensor_read(tensor, context, format, &memory));
  }
  return CREMA_OK;
}

crema_status cr_param_block_changed(const cr_param_block *block, const cr_tensor *whole,
                                    cr_param_block_tensors tensors, int first, int last,
                                    crema_context *context) {
  const cr_format format = {cr_tensor_type(whole), NULL};
  crema_devptr memory = {0};
  for (int i = first; i < last; ++i) {
    CR_TRY(cr_tensor_write(tensor_of(tensors, &block->part[i]), context, format, &memory));
  }
  return CREMA_OK;
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
