/* Files of a detector's results on a test set, as the evaluation tools of VOC, COCO and ILSVRC read
 * them. */
#ifndef CR_LAYERS_DETECTION_RESULT_FILES_H
#define CR_LAYERS_DETECTION_RESULT_FILES_H

#include "layers/common/layer.h"
#include "layers/detection/geometry/image_sizes.h"

/* Zero-initialise. */
typedef struct cr_result_files {
  const Caffe__SaveOutputParameter *param; /* NULL: no files are written */
  cr_test_images sizes;
  Caffe__LabelMap *names;
  int64_t classes, background;
  size_t image;    /* the next one */
  cr_buffer *text; /* of each class, or one for all (COCO, ILSVRC) */
  int64_t texts;
} cr_result_files;

/* Reads what `param` (may be NULL) asks for; it is kept. A `param` without output_directory
 * requests no files; neither does one whose label map and output folder do not exist here, with a
 * warning. Free with cr_result_files_free, also after a failure. Errors: CREMA_E_ARGUMENT
 * (a field that is missing, an unknown format, a class without a name), or as reading the files. */
crema_status cr_result_files_open(const cr_layer *layer, const Caffe__SaveOutputParameter *param,
                                  int64_t classes, int64_t background,
                                  cr_result_files *out) CREMA_MUST_USE;
void cr_result_files_free(cr_result_files *files);

/* Adds the detections in the next `images` images: rows of image (0 to images - 1), class, score
 * and box. After the last image of the set the files are written, and a next set begins. Errors: as
 * cr_file_write. */
crema_status cr_result_files_add(cr_result_files *files, const float *row, int64_t rows,
                                 int64_t images) CREMA_MUST_USE;

#endif
