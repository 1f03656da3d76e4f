/* The common part of ImageData, ImageSegData and VideoClips: batches of the files of a list, in
 * order or shuffled, loaded by several threads. */
#ifndef CR_LAYERS_LISTED_INPUT_H
#define CR_LAYERS_LISTED_INPUT_H

#include "data/augment/transformer.h"
#include "data/pipeline/order.h"
#include "layers/data/adapters/batch_loader.h"

/* The state of such a layer, or its first member. */
typedef struct cr_listed_input {
  cr_batch_input batches; /* must be the first member */
  const Caffe__ImageDataParameter *param;
  char *path, *root; /* of the list; the folder of its names with a slash at its end, or empty */
  cr_order order;    /* of the list's lines */
  uint64_t skip;     /* samples at the start */
  cr_transformer *transformer;
  int threads;
} cr_listed_input;

/* An item of a batch. */
typedef struct cr_listed_item {
  size_t line; /* of the list, blank lines not counted */
  uint64_t sample;
} cr_listed_item;

/* Checks source, batch_size, new_height and new_width of image_data_param, and resolves the list's
 * path. Errors: CREMA_E_ARGUMENT. */
crema_status cr_listed_input_begin(cr_layer *layer) CREMA_MUST_USE;
/* Sets the order, the transformer for `transform` and the number of threads. `lines`: of the
 * list, which was read. */
crema_status cr_listed_input_open(cr_layer *layer, size_t lines,
                                  const Caffe__TransformationParameter *transform) CREMA_MUST_USE;
/* Shapes the tops and starts. `source` loads items (cr_listed_item). */
crema_status cr_listed_input_start(cr_layer *layer, const cr_source *source,
                                   const crema_shape *shape, crema_blob *const *top) CREMA_MUST_USE;
/* Call it after cr_batch_loader_close. */
void cr_listed_input_free(cr_listed_input *input);

/* The item at a position of the stream; for cr_source.take. */
crema_status cr_listed_input_take(void *user, cr_batch *batch, int item);
crema_status cr_listed_input_at(cr_listed_input *input, uint64_t sample,
                                cr_listed_item *out) CREMA_MUST_USE;
/* The required colour type of an image. */
cr_image_color cr_listed_input_color(const cr_listed_input *input);

/* Reads the file of a name in a list: in `root` or, if missing, in the folder of the list. `path`
 * becomes the path. */
crema_status cr_listed_file_read(const char *list, const char *root, const char *name,
                                 cr_buffer *path, cr_buffer *file) CREMA_MUST_USE;

#endif
