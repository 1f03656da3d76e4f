#include "solver/average.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/file.h"
#include "net/weights/weights.h"
#include "ops/op.h"

/* The averages of one block, in the layout of its weights. */
typedef struct block_average {
  const cr_param_block *block; /* that learns */
  cr_tensor *whole;
  cr_op *op;
} block_average;

struct cr_average {
  const cr_param_blocks *blocks;
  double decay;
  bool begun;
  crema_blob **blob; /* one per learnable parameter; NULL: it has no average */
  int count;
  block_average *block;
};

static cr_param_block_tensors averages(const cr_average *average) {
  return (cr_param_block_tensors){average->blob, false};
}

static crema_status add_block(cr_average *average, const cr_param_block *block) {
  const crema_shape shape = cr_shape_1(block->count);
  const cr_op_desc axpby = {.kind = CR_OP_AXPBY, .type = block->type};
  cr_op_desc *desc = NULL;
  block_average *mine = &average->block[average->count++];
  mine->block = block;
  for (int i = 0; i < block->parts; ++i) {
    const int learnable = block->part[i].learnable;
    const crema_blob *weight = average->blocks->net->learnable[learnable];
    CR_TRY(cr_blob_create_typed(&weight->shape, cr_tensor_type(weight->data), CREMA_F32,
                                &average->blob[learnable]));
  }
  CR_TRY(cr_tensor_create(block->type, block->count, &mine->whole));
  CR_TRY(
      cr_param_block_place(block, mine->whole, averages(average), average->blocks->net->context));
  CR_TRY(cr_op_describe(&axpby, 2, (const crema_shape *[]){&shape, &shape}, NULL, &desc));
  return cr_op_create(&desc, &mine->op);
}

crema_status cr_average_create(const cr_param_blocks *blocks, double decay, cr_average **out) {
  static const char what[] = "averaged weights";
  cr_average *average = calloc(1, sizeof *average);
  if (average == NULL) return cr_fail_memory(sizeof *average, what);
  crema_status status = CREMA_OK;
  average->blocks = blocks;
  average->decay = decay;
  CR_TRY_GOTO(CR_NEW(average->blob, blocks->net->learnables + 1, what), fail);
  CR_TRY_GOTO(CR_NEW(average->block, blocks->count + 1, what), fail);
  for (int i = 0; i < blocks->count; ++i) {
    if (blocks->block[i].learns) CR_TRY_GOTO(add_block(average, &blocks->block[i]), fail);
  }
  *out = average;
  return CREMA_OK;
fail:
  cr_average_destroy(average);
  return cr_fail_in(status, "%s", what);
}

void cr_average_destroy(cr_average *average) {
  if (average == NULL) return;
  for (int i = 0; average->blob != NULL && i < average->blocks->net->learnables; ++i) {
    crema_blob_destroy(average->blob[i]);
  }
  for (int i = 0; i < average->count; ++i) {
    cr_op_destroy(average->block[i].op);
    cr_tensor_destroy(average->block[i].whole);
  }
  free(average->block);
  free(average->blob);
  free(average);
}

/* average = (1 - decay) weight + decay average */
static crema_status mix(cr_average *average, double decay) {
  crema_context *context = average->blocks->net->context;
  const cr_param_block_tensors weights = {average->blocks->net->learnable, false};
  const cr_op_scalars scalars = {.alpha = 1 - decay, .beta = decay};
  for (int i = 0; i < average->count; ++i) {
    const block_average *mine = &average->block[i];
    const cr_param_block *block = mine->block;
    cr_tensor *tensors[] = {block->weight, mine->whole};
    CR_TRY(cr_param_block_collect(block, block->weight, weights, 0, block->parts, context));
    CR_TRY(cr_param_block_collect(block, mine->whole, averages(average), 0, block->parts, context));
    CR_TRY(cr_op_run(mine->op, context, tensors, &scalars));
    CR_TRY(cr_param_block_changed(block, mine->whole, averages(average), 0, block->parts, context));
  }
  return CREMA_OK;
}

crema_status cr_average_start(cr_average *average) {
  average->begun = false;
  return mix(average, 0);
}

crema_status cr_average_advance(cr_average *average) {
  average->begun = true;
  return mix(average, average->decay);
}

bool cr_average_has_begun(const cr_average *average) {
  return average->begun;
}

void cr_average_set_begun(cr_average *average) {
  average->begun = true;
}

crema_blob *cr_average_of(const cr_average *average, int i) {
  return average->blob[i];
}

crema_status cr_average_share(const cr_average *average, crema_net *net) {
  const crema_net *trained = average->blocks->net;
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *entry = &net->net_param[i];
    crema_blob *blob = net->layer[entry->layer].layer->blob[entry->index];
    const void *storage = cr_tensor_storage(blob->data);
    int trains = 0; /* the trained parameter whose values `blob` shares */
    while (trains < trained->learnables &&
           cr_tensor_storage(trained->learnable[trains]->data) != storage) {
      ++trains;
    }
    if (trains == trained->learnables || average->blob[trains] == NULL) continue;
    CR_TRY(cr_blob_share_data(blob, average->blob[trains]));
  }
  /* Tops that show parameters, such as tops of Parameter layers, follow. */
  return crema_net_reshape(net);
}

/* Replaces the trained net's parameters by averages, or puts them back. `kept` has one element for
 * each entry of the net. */
static void exchange(const cr_average *average, crema_blob **kept, bool back) {
  const crema_net *net = average->blocks->net;
  for (int i = 0; i < net->params; ++i) {
    const cr_net_param *entry = &net->net_param[i];
    crema_blob **blob = &net->layer[entry->layer].layer->blob[entry->index];
    if (average->blob[entry->learnable] == NULL) continue;
    if (!back) kept[i] = *blob;
    *blob = back ? kept[i] : average->blob[entry->learnable];
  }
}

crema_status cr_average_write(const cr_average *average, cr_file_draft *draft, unsigned save) {
  crema_net *net = average->blocks->net;
  crema_blob **kept = NULL;
  CR_TRY(CR_NEW(kept, net->params + 1, "a model of averaged weights"));
  exchange(average, kept, false);
  crema_status status = cr_net_write(net, draft, save & ~(unsigned)CR_SAVE_DIFFS);
  exchange(average, kept, true);
  free(kept);
  return status;
}
