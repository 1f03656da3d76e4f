/* Names and sizes of the pictures of a test set, and boxes in their pixels. */
#ifndef CR_LAYERS_DETECTION_PICTURE_SIZES_H
#define CR_LAYERS_DETECTION_PICTURE_SIZES_H

#include "core/buffer.h"
#include "data/augment/augment_box.h"

typedef struct cr_picture_size {
  const char *name;
  int height, width;
} cr_picture_size;

/* Zero-initialise. */
typedef struct cr_picture_sizes {
  cr_buffer text; /* holds the names */
  cr_picture_size *at;
  size_t count;
} cr_picture_sizes;

/* Reads the lines "name height width" of a file; `most` is num_test_image, 0 for all lines. A name
 * may hold spaces. Free with cr_picture_sizes_free, also after a failure. Errors name file and
 * line: CREMA_E_NOT_FOUND, CREMA_E_PARSE (also a file with no line or with fewer than `most`). */
crema_status cr_picture_sizes_read(const char *path, size_t most,
                                   cr_picture_sizes *out) CREMA_MUST_USE;
void cr_picture_sizes_free(cr_picture_sizes *sizes);

/* A box in shares of the net's input, in pixels of a picture of height x width that `resize` (may
 * be NULL) has made the input of; cut to the picture. */
cr_box cr_box_in_pixels(const Caffe__ResizeParameter *resize, int height, int width, cr_box box);

#endif
