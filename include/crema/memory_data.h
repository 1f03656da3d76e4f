/* Feeding MemoryData layers: samples that the program holds in memory. */
#ifndef CREMA_MEMORY_DATA_H
#define CREMA_MEMORY_DATA_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the MemoryData layer called `layer` its samples: `data` holds samples x channels x height x
 * width values, `labels` one value a sample. Forward passes go through them batch by batch and
 * start over at the end. The memory stays the caller's and must live until the first forward pass
 * after the layer got other samples, or the net is destroyed; the layer's tops are that memory, so a
 * layer that works in place on them writes to it. Nothing is transformed. `samples` must be a multiple of the batch size.
 * After solver state was restored, the first samples given are gone on with where the snapshot
 * stood, if there are so many. Errors: CREMA_E_UNKNOWN_NAME (no such layer), CREMA_E_TYPE (of
 * another type), CREMA_E_ARGUMENT. */
CREMA_API crema_status crema_memory_data_set(crema_net *net, const char *layer, float *data,
                                             float *labels, int64_t samples) CREMA_MUST_USE;

/* An image in memory with its label. */
typedef struct crema_labeled_image {
  const uint8_t *pixels;       /* row by row, interleaved: blue, green, red, or one channel */
  int channels, height, width; /* of `pixels` */
  float label;                 /* goes to the label's top as it is */
} crema_labeled_image;

/* As crema_memory_data_set, from `count` images: they are transformed as the layer's
 * transform_param says and copied, so `images` and their pixels need not outlive the call. Errors
 * also: CREMA_E_SHAPE when a transformed image has not the layer's channels, height and width. */
CREMA_API crema_status crema_memory_data_set_images(crema_net *net, const char *layer,
                                                    const crema_labeled_image *images,
                                                    int64_t count) CREMA_MUST_USE;

/* Changes the number of samples in a batch of the MemoryData layer called `layer` to `batch_size`,
 * from the next forward pass on. Errors:
 * CREMA_E_STATE while the samples given are not a multiple of it, or were partly run through;
 * CREMA_E_ARGUMENT below 1. */
CREMA_API crema_status crema_memory_data_set_batch_size(crema_net *net, const char *layer,
                                                        int64_t batch_size) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
