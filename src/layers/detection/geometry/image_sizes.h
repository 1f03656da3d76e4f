/* Names and sizes of the images of a test set, and boxes in their pixels. */
#ifndef CR_LAYERS_DETECTION_IMAGE_SIZES_H
#define CR_LAYERS_DETECTION_IMAGE_SIZES_H

#include "core/buffer.h"
#include "data/augment/augment_box.h"

typedef struct cr_test_image {
  const char *name;
  int height, width;
} cr_test_image;

/* Zero-initialise. */
typedef struct cr_test_images {
  cr_buffer text; /* holds the names */
  cr_test_image *at;
  size_t count;
} cr_test_images;

/* Reads the lines "name height width" of a file; `most` is num_test_image, 0 for all lines. A name
 * may hold spaces. Free with cr_test_images_free, also after a failure. Errors name file and
 * line: CREMA_E_NOT_FOUND, CREMA_E_PARSE (also a file with no line or with fewer than `most`). */
crema_status cr_test_images_read(const char *path, size_t most, cr_test_images *out) CREMA_MUST_USE;
void cr_test_images_free(cr_test_images *sizes);

/* Converts a box in shares of the net's input to pixels of its image (height x width), and cuts it
 * to the image. `resize` (may be NULL) made the input from the image. */
cr_box cr_box_in_pixels(const Caffe__ResizeParameter *resize, int height, int width, cr_box box);

#endif
