/* The transformer: from the pixels of a record to the values of a net's input.
 *
 * In this order: augmentation (a call of its own), crop (at random in TRAIN, central in TEST),
 * subtract the mean image or the mean values, scale, mirror at random. Random numbers belong to a
 * sample: they come from a counter-based generator with the transformer's key and the sample's
 * index, so they do not depend on the order or the thread in which samples are transformed. */
#ifndef CR_DATA_TRANSFORMER_H
#define CR_DATA_TRANSFORMER_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/types.h"
#include "data/image/image.h"
#include "proto/proto.h"

typedef struct cr_transformer cr_transformer;

/* Pixels to transform; they stay the caller's. */
typedef struct cr_pixels {
  const void *values;
  crema_dtype type;            /* CREMA_U8 or CREMA_F32 */
  bool interleaved;            /* height x width x channels (decoded images), else channel-major */
  int channels, height, width; /* of the whole picture */
  cr_image_part part;          /* which part of it `values` holds; height 0: all of it */
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

/* Makes a transformer. `param` may be NULL (nothing is changed) and is not kept. A relative
 * mean_file is tried from the working directory, then from the folder of `net_path` (may be NULL).
 * Free with cr_transformer_destroy. Errors: CREMA_E_ARGUMENT (fields that exclude each
 * other), CREMA_E_UNSUPPORTED (a field of another dialect, named), those of reading the file. */
crema_status cr_transformer_create(const Caffe__TransformationParameter *param, Caffe__Phase phase,
                                   uint64_t key, const char *net_path,
                                   cr_transformer **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_transformer_destroy(cr_transformer *transformer);

/* The key of its random numbers, to be saved and set again for an exact resume. */
uint64_t cr_transformer_key(const cr_transformer *transformer);
void cr_transformer_set_key(cr_transformer *transformer, uint64_t key);

/* What encoded records are decoded to. */
cr_image_color cr_transformer_color(const cr_transformer *transformer);

/* What other dialects ask for between decoding and cropping (data/augment/augment.h). The first
 * call replaces the pixels of sample number `sample` by augmented ones in `store`, where *pixels
 * may point already; the second turns channels, height and width of a record into those after
 * augmentation. Both change nothing where nothing is asked for. Errors: as cr_augment_pixels. */
crema_status cr_transformer_augment(const cr_transformer *transformer, uint64_t sample,
                                    cr_pixels *pixels, cr_image *store) CREMA_MUST_USE;
crema_status cr_transformer_extent(const cr_transformer *transformer, uint64_t sample,
                                   int extent[3]) CREMA_MUST_USE;

/* Channels, height and width of the result for pixels of these extents. Errors: CREMA_E_SHAPE
 * (crop larger than the pixels, mean image or mean values that do not fit). */
crema_status cr_transformer_shape(const cr_transformer *transformer, int channels, int height,
                                  int width, int out[3]) CREMA_MUST_USE;

/* The part of a picture of these extents that the crop needs; the rest need not be decoded. False
 * when the whole picture is needed, and when the crop does not fit. */
bool cr_transformer_part(const cr_transformer *transformer, uint64_t sample, int height, int width,
                         cr_image_part *out);

/* Where the crop of sample `sample` lies in pixels of height x width (all of them without a crop),
 * and whether it is mirrored, so that boxes can follow the pixels. Errors: CREMA_E_SHAPE. */
crema_status cr_transformer_crop(const cr_transformer *transformer, uint64_t sample, int height,
                                 int width, cr_image_part *out, bool *mirror) CREMA_MUST_USE;

/* Transforms the pixels of sample number `sample` into `out`, channel-major floats of the extents
 * that cr_transformer_shape tells. Any number of threads may call it at once. Errors: as
 * cr_transformer_shape; CREMA_E_TYPE; CREMA_E_ARGUMENT (the crop is not in the part that was
 * decoded). */
crema_status cr_transformer_run(const cr_transformer *transformer, const cr_pixels *pixels,
                                uint64_t sample, float *out) CREMA_MUST_USE;

#endif
