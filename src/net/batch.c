/* Batches that are given for all replicas of a net together. */
#include "core/log.h"
#include "net/net.h"

/* Rounds up: the replicas take all samples, but their batches may be larger than in the file. */
void cr_net_divide_batch(Caffe__NetParameter *param, int replicas, bool warn) {
  for (size_t i = 0; i < param->n_layer; ++i) {
    const Caffe__LayerParameter *l = param->layer[i];
    uint32_t *const sizes[] = {l->data_param ? &l->data_param->batch_size : NULL,
                               l->hdf5_data_param ? &l->hdf5_data_param->batch_size : NULL,
                               l->image_data_param ? &l->image_data_param->batch_size : NULL,
                               l->memory_data_param ? &l->memory_data_param->batch_size : NULL,
                               l->window_data_param ? &l->window_data_param->batch_size : NULL};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; ++k) {
      if (sizes[k] == NULL) continue;
      const uint32_t batch = *sizes[k], parts = (uint32_t)replicas;
      *sizes[k] = batch / parts + (batch % parts != 0);
      if (batch % parts == 0 || !warn) continue;
      cr_log_warning("layer '%s': batch_size %u cannot be divided among %d replicas; each takes %u",
                     cr_layer_name(l), batch, replicas, *sizes[k]);
    }
  }
}
