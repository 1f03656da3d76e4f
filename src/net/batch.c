/* Batches that are given for all replicas of a net together. */
#include "core/log.h"
#include "net/net.h"

/* Rounded up: no sample is left out, but batches may be larger than what the file says. */
static void divide(const Caffe__LayerParameter *layer, uint32_t *batch, int replicas, bool told) {
  const uint32_t parts = (uint32_t)replicas, share = *batch / parts + (*batch % parts != 0);
  if (*batch % parts != 0 && told) {
    cr_log_warning("layer '%s': batch_size %u cannot be divided among %d replicas; each takes %u",
                   cr_layer_name(layer), *batch, replicas, share);
  }
  *batch = share;
}

void cr_net_divide_batch(Caffe__NetParameter *param, int replicas, bool told) {
  for (size_t i = 0; i < param->n_layer; ++i) {
    Caffe__LayerParameter *layer = param->layer[i];
    if (layer->data_param != NULL) divide(layer, &layer->data_param->batch_size, replicas, told);
    if (layer->hdf5_data_param != NULL) {
      divide(layer, &layer->hdf5_data_param->batch_size, replicas, told);
    }
    if (layer->image_data_param != NULL) {
      divide(layer, &layer->image_data_param->batch_size, replicas, told);
    }
    if (layer->memory_data_param != NULL) {
      divide(layer, &layer->memory_data_param->batch_size, replicas, told);
    }
    if (layer->window_data_param != NULL) {
      divide(layer, &layer->window_data_param->batch_size, replicas, told);
    }
  }
}
