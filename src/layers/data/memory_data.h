/* How the net hands samples to a MemoryData layer; see crema/memory_data.h. */
#ifndef CR_LAYERS_MEMORY_DATA_H
#define CR_LAYERS_MEMORY_DATA_H

#include "crema/memory_data.h"
#include "layers/common/layer.h"

extern const cr_layer_class cr_layer_memory_data;

/* Aliases the memory, which stays the caller's. */
crema_status cr_memory_data_set(cr_layer *layer, float *data, float *labels,
                                int64_t samples) CREMA_MUST_USE;

/* Copies the images and transforms them. */
crema_status cr_memory_data_set_images(cr_layer *layer, const crema_labeled_image *images,
                                       int64_t count) CREMA_MUST_USE;

crema_status cr_memory_data_set_batch_size(cr_layer *layer, int64_t batch_size) CREMA_MUST_USE;

#endif
