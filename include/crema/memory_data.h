/* Feeding MemoryData layers: samples that the program holds in memory. */
#ifndef CREMA_MEMORY_DATA_H
#define CREMA_MEMORY_DATA_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives samples to the MemoryData layer named `layer`. `data` holds samples x channels x height x
 * width values and `labels` one value per sample. The values are not transformed.
 *
 * Forward passes read the samples batch by batch and restart after the last one. `samples` must be
 * a multiple of the batch size. The first call after a restored snapshot resumes at its position,
 * if that is below `samples` and a multiple of the batch size.
 *
 * The memory stays the caller's. It must live until the net is destroyed, or until the first
 * forward pass after the layer got other samples. The layer's tops are this memory: a layer that
 * works in place on them writes to it.
 *
 * Errors: CREMA_E_UNKNOWN_NAME for an unknown layer, CREMA_E_TYPE for a layer of another type,
 * CREMA_E_ARGUMENT. */
CREMA_API crema_status crema_memory_data_set(crema_net *net, const char *layer, float *data,
                                             float *labels, int64_t samples) CREMA_MUST_USE;

/* An image in memory with its label. */
typedef struct crema_labeled_image {
  const uint8_t *pixels;       /* row by row, interleaved: blue, green, red, or one channel */
  int channels, height, width; /* of `pixels` */
  float label;                 /* copied to the label's top */
} crema_labeled_image;

/* Gives `count` images as samples to the MemoryData layer named `layer`. They are transformed as
 * the layer's transform_param says and copied: `images` and their pixels may be freed after the
 * call. Errors: as crema_memory_data_set, and CREMA_E_SHAPE if a transformed image does not have
 * the layer's channels, height and width. */
CREMA_API crema_status crema_memory_data_set_images(crema_net *net, const char *layer,
                                                    const crema_labeled_image *images,
                                                    int64_t count) CREMA_MUST_USE;

/* Changes the batch size of the MemoryData layer named `layer` to `batch_size` samples, starting
 * with the next forward pass. Errors: CREMA_E_ARGUMENT for a batch size below 1. CREMA_E_STATE if
 * the number of samples is not a multiple of it, or if a run through the samples is incomplete. */
CREMA_API crema_status crema_memory_data_set_batch_size(crema_net *net, const char *layer,
                                                        int64_t batch_size) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
