/* The transformer: from the pixels of a record to the values of a net's input.
 *
 * In this order: augmentation (a separate call), crop (random in TRAIN, central in TEST),
 * subtraction of the mean image or mean values, scale, random mirror. A counter-based generator
 * with the transformer's key and the sample's index gives random numbers that do not depend on
 * order or threads. */
#ifndef CR_DATA_TRANSFORMER_H
#define CR_DATA_TRANSFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/types.h"
#include "data/augment/mean.h"
#include "data/image/image.h"
#include "proto/proto.h"

typedef struct cr_transformer cr_transformer;

/* Pixels to transform; they stay the caller's. */
typedef struct cr_pixels {
  const void *values;
  crema_dtype type;            /* CREMA_U8 or CREMA_F32 */
  bool interleaved;            /* height x width x channels (decoded images), else channel-major */
  int channels, height, width; /* of the whole image */
  cr_image_part part;          /* the part that `values` holds; height 0: all */
} cr_pixels;

/* A decoded image as pixels to transform. */
static inline cr_pixels cr_image_pixels(const cr_image *image) {
  return (cr_pixels){.values = image->pixels,
                     .type = CREMA_U8,
                     .interleaved = true,
                     .channels = image->channels,
                     .height = image->height,
                     .width = image->width};
}

/* `param` may be NULL (no change) and is not kept. A relative mean_file is looked for from the
 * working directory, then from the folder of `net_path` (may be NULL). Free with
 * cr_transformer_destroy. Errors: CREMA_E_ARGUMENT (fields that exclude each other),
 * CREMA_E_UNSUPPORTED (a field of another dialect), errors of reading the file. */
crema_status cr_transformer_create(const Caffe__TransformationParameter *param, Caffe__Phase phase,
                                   uint64_t key, const char *net_path,
                                   cr_transformer **out) CREMA_MUST_USE;
/* Subtracts the mean image `mean`, which the file `path` holds. `mean` must live as long as the
 * transformer, which has no mean yet. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_transformer_borrow_mean(cr_transformer *transformer, const cr_mean *mean,
                                        const char *path) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_transformer_destroy(cr_transformer *transformer);

/* The key of its random numbers, to be saved and restored for an exact resume. */
uint64_t cr_transformer_key(const cr_transformer *transformer);
void cr_transformer_set_key(cr_transformer *transformer, uint64_t key);

/* The channels of decoded records. */
cr_image_color cr_transformer_color(const cr_transformer *transformer);

/* Augmentation between decoding and cropping (data/augment/augment.h), if any. The first call
 * replaces the pixels of sample number `sample` by augmented pixels in `store`, to which *pixels
 * may already point; the second computes channels, height and width after augmentation. Errors: as
 * cr_augment_pixels. */
crema_status cr_transformer_augment(const cr_transformer *transformer, uint64_t sample,
                                    cr_pixels *pixels, cr_image *store) CREMA_MUST_USE;
crema_status cr_transformer_extent(const cr_transformer *transformer, uint64_t sample,
                                   int extent[3]) CREMA_MUST_USE;

/* Channels, height and width of the result for pixels of these extents. Errors: CREMA_E_SHAPE
 * (crop larger than the pixels, mean image or mean values that do not fit). */
crema_status cr_transformer_shape(const cr_transformer *transformer, int channels, int height,
                                  int width, int out[3]) CREMA_MUST_USE;

/* The part of an image of these extents that the crop needs. False if it needs the whole image, or
 * does not fit. */
bool cr_transformer_part(const cr_transformer *transformer, uint64_t sample, int height, int width,
                         cr_image_part *out);

/* The crop of sample `sample` in pixels of height x width (all without a crop), and whether it is
 * mirrored, so that boxes can follow the pixels. Errors: CREMA_E_SHAPE. */
crema_status cr_transformer_crop(const cr_transformer *transformer, uint64_t sample, int height,
                                 int width, cr_image_part *out, bool *mirror) CREMA_MUST_USE;

/* Transforms the pixels of sample number `sample` into `out`, channel-major floats with the extents
 * of cr_transformer_shape. Any number of threads may call it at once. Errors: as
 * cr_transformer_shape; CREMA_E_TYPE; CREMA_E_ARGUMENT (the crop is not in the decoded part). */
crema_status cr_transformer_run(const cr_transformer *transformer, const cr_pixels *pixels,
                                uint64_t sample, float *out) CREMA_MUST_USE;

#endif
