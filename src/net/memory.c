/* The memory of a net's blobs and parameters. */
#include <stdlib.h>

#include "core/fail.h"
#include "device/memory/heap.h"
#include "net/net.h"

/* The tensors of blobs that were counted. */
typedef struct counted {
  const cr_tensor **tensor;
  int tensors;
} counted;

static void add_tensor(counted *seen, const cr_tensor *tensor, size_t *host, size_t *device,
                       size_t *host_again, size_t *device_again) {
  cr_tensor_memory bytes = cr_tensor_memory_of(tensor);
  bool again = false;
  for (int i = 0; i < seen->tensors && !again; ++i) {
    again = cr_tensor_shares_with(seen->tensor[i], tensor);
  }
  *(again ? host_again : host) += bytes.host;
  *(again ? device_again : device) += bytes.device;
  if (!again) seen->tensor[seen->tensors++] = tensor;
}

static void add_blob(counted *seen, const crema_blob *blob, crema_blob_memory *once,
                     crema_blob_memory *again) {
  add_tensor(seen, blob->data, &once->data_host, &once->data_device, &again->data_host,
             &again->data_device);
  add_tensor(seen, blob->diff, &once->diff_host, &once->diff_device, &again->diff_host,
             &again->diff_device);
}

crema_status cr_net_memory_read(const crema_net *net, cr_net_memory *out) {
  size_t most = 1;
  counted tops = {0}, bottoms = {0}, params = {0};
  crema_blob_memory again = {0};
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    most += 2 * (size_t)(layer->bottoms + layer->tops + layer->params);
  }
  *out = (cr_net_memory){0};
  const cr_tensor **list = NULL;
  CR_TRY(CR_NEW(list, 3 * most, "a report of memory"));
  tops.tensor = list;
  bottoms.tensor = list + most;
  params.tensor = list + 2 * most;
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    for (int j = 0; j < layer->layer->bottoms; ++j) {
      add_blob(&bottoms, layer->bottom[j], &out->bottoms, &again);
    }
    for (int j = 0; j < layer->layer->tops; ++j) {
      add_blob(&tops, layer->top[j], &out->tops, &out->shared_tops);
    }
    for (int p = 0; p < layer->layer->params; ++p) {
      add_blob(&params, layer->layer->blob[p], &out->params, &out->shared_params);
    }
  }
  free((void *)list);
  const cr_heap_usage usage = cr_heap_usage_of(net->context);
  out->planned_held = usage.held;
  out->planned = usage.highest;
  out->planned_now = usage.in_use;
  return CREMA_OK;
}
