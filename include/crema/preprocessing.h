/* Preprocessing: from images to the values of a net's input, as the net's deploy file describes.
 *
 * The transform_param of an Input layer gives the size before the crop, the mean, the scale and the
 * order of the channels. The file labels.txt or labels in the folder of the deploy file names the
 * classes, one per line.
 *
 *   crema_preprocessing *images = NULL;
 *   crema_preprocessing_create(net, 0, &images);
 *   crema_preprocessing_load(images, "cat.jpg", crema_net_input(net, 0), 0);
 *   crema_net_forward(net, NULL);
 *   crema_preprocessing_destroy(images);
 *
 * A compiled model has its own preprocessing: crema_model_preprocessing in crema/model.h. The same
 * image gives the same values, bit for bit, in a net and in a compiled model.
 *
 * Threads: any number of threads may use a preprocessing at once, except while a thread calls
 * crema_preprocessing_set_options or crema_preprocessing_set_labels. */
#ifndef CREMA_PREPROCESSING_H
#define CREMA_PREPROCESSING_H

#include <stddef.h>
#include <stdint.h>

#include "crema/image.h"
#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The preprocessing of one input. */
typedef struct crema_preprocessing crema_preprocessing;

/* An image in memory. */
typedef struct crema_pixels {
  const uint8_t *values; /* row by row without gaps; the channels of a pixel are neighbours */
  int height, width;     /* in pixels */
  int channels;          /* 1: grey, 2: grey and alpha, 3: colours, 4: colours and alpha */
  bool rgb;              /* the colours are red, green, blue; false: blue, green, red */
} crema_pixels;

/* Reads the preprocessing of input `index` of `net` from the transform_param of its Input layer:
 *
 * - resize_param: height and width, with resize_mode WARP or FIT_SMALL_SIZE and interp_mode LINEAR.
 *   Or, as in an ImageData layer and for every Caffe, image_data_param of the same layer:
 * new_height and new_width, or short_side.
 * - mean_value or mean_file. A relative path is tried from the working directory, then from the
 *   folder of the net's file. The file is read for the first image.
 * - scale and bgr2rgb.
 * - crop_size, or crop_h and crop_w: must be the size of the input.
 * - force_color and force_gray: must fit the channels of the input.
 *
 * Other fields have no effect; a warning names them. The result does not depend on the net's life.
 * Free with crema_preprocessing_destroy.
 *
 * Errors, which name the layer:
 *
 * - CREMA_E_RANGE: the net has no such input.
 * - CREMA_E_ARGUMENT: fields contradict each other, or resize_param lacks a side.
 * - CREMA_E_UNSUPPORTED: an unsupported mode of resize_param.
 * - CREMA_E_SHAPE: the crop or the channels do not fit the input. */
CREMA_API crema_status crema_preprocessing_create(const crema_net *net, int index,
                                                  crema_preprocessing **out) CREMA_MUST_USE;

/* Frees the preprocessing. Accepts NULL. */
CREMA_API void crema_preprocessing_destroy(crema_preprocessing *preprocessing);

/* The guess that the preprocessing makes because the Input layer has no transform_param: a sentence
 * for the user. NULL if nothing is guessed. Owned by the preprocessing. */
CREMA_API const char *crema_preprocessing_guess(const crema_preprocessing *preprocessing);

/* The options. They and their values are owned by the preprocessing and live until the next
 * crema_preprocessing_set_options. */
CREMA_API const crema_image_options *crema_preprocessing_options(
    const crema_preprocessing *preprocessing);

/* Replaces the options by a copy of `options`, so that nothing is guessed. Errors: CREMA_E_ARGUMENT
 * for a mean and a mean_file together. */
CREMA_API crema_status crema_preprocessing_set_options(
    crema_preprocessing *preprocessing, const crema_image_options *options) CREMA_MUST_USE;

/* Replaces the file of labels by `path`, which is read at the next crema_preprocessing_labels.
 * NULL: no labels. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_preprocessing_set_labels(crema_preprocessing *preprocessing,
                                                      const char *path) CREMA_MUST_USE;

/* The labels: *count names at *names, owned by the preprocessing. Without a file of labels *count
 * is 0. `classes`: the number of classes that a file must name; 0: any.
 *
 * Errors, which name the file: as opening a file, CREMA_E_PARSE for a zero byte, and CREMA_E_SHAPE
 * for another number of labels than `classes`. */
CREMA_API crema_status crema_preprocessing_labels(crema_preprocessing *preprocessing,
                                                  int64_t classes, const char *const **names,
                                                  size_t *count) CREMA_MUST_USE;

/* Puts an image into item `item` of `blob`, as crema_image_load does with the options. The blob is
 * usually the input, and its size is the size of the crop. The three functions read the image file
 * `path`, an image file of `size` bytes in memory, and an image in memory, which is resized from
 * its full size. Grey images get three equal channels if the blob has three, and colours become
 * their luma if it has one. Alpha is dropped, and samples of 16 bits become 8 bits.
 *
 * Errors: as crema_image_load, errors of reading the mean image, and CREMA_E_SHAPE for pixels of
 * another number of channels or without a size. */
CREMA_API crema_status crema_preprocessing_load(crema_preprocessing *preprocessing,
                                                const char *path, crema_blob *blob,
                                                int64_t item) CREMA_MUST_USE;
CREMA_API crema_status crema_preprocessing_decode(crema_preprocessing *preprocessing,
                                                  const void *bytes, size_t size, crema_blob *blob,
                                                  int64_t item) CREMA_MUST_USE;
CREMA_API crema_status crema_preprocessing_convert(crema_preprocessing *preprocessing,
                                                   const crema_pixels *pixels, crema_blob *blob,
                                                   int64_t item) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
