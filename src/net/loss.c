#include "net/loss.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/backend/current.h"
#include "device/copy.h"
#include "device/memory/block.h"

/* The values of one top, in page-locked memory. */
typedef struct loss_copy {
  cr_block block;
  crema_dtype type;
  int64_t count;
  double weight;
} loss_copy;

struct cr_net_loss {
  double sum;             /* of the values that the host has */
  int copies;             /* on their way, in this pass */
  int tops;               /* with a loss weight */
  cr_native_event *event; /* after the last copy; NULL: none was made yet */
  loss_copy copy[];       /* one for each such top */
};

static bool is_loss(const cr_layer *layer, int top) {
  return layer->loss_weight[top] != 0.0f;
}

crema_status cr_net_loss_make(crema_net *net) {
  size_t tops = 0;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    for (int j = 0; j < layer->tops; ++j) tops += is_loss(layer, j);
  }
  const size_t bytes = sizeof *net->loss + tops * sizeof net->loss->copy[0];
  net->loss = calloc(1, bytes);
  if (net->loss == NULL) return cr_fail_memory(bytes, "the loss of a net");
  net->loss->tops = (int)tops;
  return CREMA_OK;
}

static const cr_backend *backend_of(const crema_net *net) {
  return net->context->device->backend;
}

void cr_net_loss_free(crema_net *net) {
  cr_net_loss *loss = net->loss;
  if (loss == NULL) return;
  if (loss->event != NULL) {
    /* Unread copies may still be on their way, unless the device has failed. */
    (void)backend_of(net)->event_finish(loss->event);
    backend_of(net)->event_destroy(loss->event);
  }
  /* A failure to free a block is in the device's report. */
  for (int i = 0; i < loss->tops; ++i) (void)cr_block_free(&loss->copy[i].block);
  free(loss);
  net->loss = NULL;
}

void cr_net_loss_begin(crema_net *net) {
  net->loss->sum = 0;
  net->loss->copies = 0;
}

static double sum_of(crema_dtype type, const void *memory, int64_t count) {
  double sum = 0;
  if (type == CREMA_F64) {
    for (int64_t k = 0; k < count; ++k) sum += ((const double *)memory)[k];
  } else {
    for (int64_t k = 0; k < count; ++k) sum += (double)((const float *)memory)[k];
  }
  return sum;
}

static crema_status add_copy(crema_net *net, cr_tensor *values, cr_format format, double weight) {
  loss_copy *copy = &net->loss->copy[net->loss->copies];
  const int64_t count = cr_tensor_count(values);
  const size_t bytes = (size_t)count * crema_dtype_size(format.type);
  crema_devptr from = {0};
  if (copy->block.bytes < bytes) {
    /* The device may still write to the block that is too small. */
    if (copy->block.address != 0) CR_TRY(crema_context_finish(net->context));
    CR_TRY(cr_block_free(&copy->block));
    CR_TRY(cr_block_new(net->context->device, bytes, &(cr_block_options){.pinned = true},
                        &copy->block));
  }
  CR_TRY(cr_tensor_read(values, net->context, format, &from));
  CR_TRY(cr_copy_to_cpu(net->context, (void *)copy->block.address, from, bytes));
  copy->type = format.type;
  copy->count = count;
  copy->weight = weight;
  ++net->loss->copies;
  return CREMA_OK;
}

crema_status cr_net_loss_add(crema_net *net, const cr_net_layer *layer) {
  for (int j = 0; j < layer->layer->tops; ++j) {
    cr_tensor *values = layer->top[j]->data;
    const double weight = (double)layer->layer->loss_weight[j];
    const bool wide = cr_tensor_type(values) == CREMA_F64;
    const cr_format format = {wide ? CREMA_F64 : CREMA_F32, NULL};
    crema_devptr at = {0};
    if (!is_loss(layer->layer, j) || cr_tensor_count(values) == 0) continue;
    if (!cr_tensor_head_device(values)->backend->host_memory) {
      CR_TRY(add_copy(net, values, format, weight));
      continue;
    }
    CR_TRY(cr_tensor_read(values, cr_host_context(), format, &at));
    net->loss->sum +=
        sum_of(format.type, (const void *)at.address, cr_tensor_count(values)) * weight;
  }
  return CREMA_OK;
}

crema_status cr_net_loss_end(crema_net *net) {
  cr_device_guard guard;
  if (net->loss->copies == 0) return CREMA_OK;
  CR_TRY(cr_device_enter(net->context->device, &guard));
  cr_native_event **event = &net->loss->event;
  crema_status status = CREMA_OK;
  if (*event == NULL) status = backend_of(net)->event_create(net->context->device, event);
  if (status == CREMA_OK) status = backend_of(net)->event_record(net->context, *event);
  cr_device_leave(guard);
  return status;
}

crema_status cr_net_loss_read(crema_net *net, double *loss) {
  const cr_backend *backend = backend_of(net);
  double sum = net->loss->sum;
  if (net->loss->copies > 0) {
    /* Work on a device reports errors, such as a label out of range, when it is done. */
    crema_status status = backend->event_finish(net->loss->event);
    crema_status left = backend->failure(net->context);
    CR_TRY(status != CREMA_OK ? status : left);
  }
  for (int i = 0; i < net->loss->copies; ++i) {
    const loss_copy *copy = &net->loss->copy[i];
    const void *memory = (const void *)copy->block.address;
    if (backend->host_access != NULL) backend->host_access(memory, copy->block.bytes, false);
    sum += sum_of(copy->type, memory, copy->count) * copy->weight;
  }
  *loss = sum;
  return CREMA_OK;
}
