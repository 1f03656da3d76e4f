/* Images into blobs: the public interface of decoding, resizing and transforming. */
#include "crema/image.h"

#include "core/fail.h"
#include "core/file.h"
#include "data/augment/mean.h"
#include "data/augment/transformer.h"
#include "data/image/image_scaled.h"
#include "memory/blob.h"

void crema_image_options_init(crema_image_options *options) {
  if (options == NULL) return;
  *options = (crema_image_options){.scale = 1};
}

static crema_status check_blob(const crema_shape *shape, int64_t item) {
  char text[128];
  if (shape->axes != 4 || (shape->dim[1] != 1 && shape->dim[1] != 3) || shape->dim[2] < 1 ||
      shape->dim[3] < 1 || shape->dim[2] > CR_IMAGE_MAX_SIDE || shape->dim[3] > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_SHAPE,
                   "an image needs a blob of items x 1 or 3 channels x height x width, not %s",
                   crema_shape_text(shape, text, sizeof text));
  }
  if (item < 0 || item >= shape->dim[0]) {
    return cr_fail(CREMA_E_RANGE, "item %lld of a blob of shape %s", (long long)item,
                   crema_shape_text(shape, text, sizeof text));
  }
  return CREMA_OK;
}

/* The size before the crop. */
static cr_image_size size_of(const crema_image_options *options, const crema_shape *shape) {
  return (cr_image_size){options->resize_height > 0 ? options->resize_height : (int)shape->dim[2],
                         options->resize_width > 0 ? options->resize_width : (int)shape->dim[3],
                         options->exact_resize};
}

/* Replaces a mean image of another size by its mean colour, in `color`. */
static crema_status fit_mean(const char *path, const cr_image_size *size, float color[3],
                             Caffe__TransformationParameter *param) {
  cr_mean mean = {0};
  CR_TRY(cr_mean_read(path, &mean));
  if ((mean.height != size->height || mean.width != size->width) && mean.channels <= 3) {
    const size_t plane = (size_t)mean.height * (size_t)mean.width;
    for (int c = 0; c < mean.channels; ++c) {
      double sum = 0;
      for (size_t i = 0; i < plane; ++i) sum += (double)mean.values[(size_t)c * plane + i];
      color[c] = (float)(sum / (double)plane);
    }
    param->n_mean_value = (size_t)mean.channels;
    param->mean_value = color;
    param->mean_file = NULL;
  }
  cr_mean_free(&mean);
  return CREMA_OK;
}

static crema_status make_transformer(const crema_image_options *options, const crema_shape *shape,
                                     cr_transformer **out) {
  /* Lives on the stack and borrows its strings and values, so it is not freed. */
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  float color[3];
  if (options->mean_count < 0 || (options->mean_count > 0 && options->mean == NULL)) {
    return cr_fail(CREMA_E_ARGUMENT, "%d mean values", options->mean_count);
  }
  param.crop_h = (uint32_t)shape->dim[2];
  param.crop_w = (uint32_t)shape->dim[3];
  param.scale = options->scale;
  param.n_mean_value = (size_t)options->mean_count;
  param.mean_value = (float *)(uintptr_t)options->mean;
  param.mean_file = (char *)(uintptr_t)options->mean_file;
  param.bgr2rgb = options->rgb;
  if (param.mean_file != NULL && param.mean_file[0] != '\0' && param.n_mean_value == 0) {
    const cr_image_size size = size_of(options, shape);
    CR_TRY(fit_mean(param.mean_file, &size, color, &param));
  }
  return cr_transformer_create(&param, CAFFE__PHASE__TEST, 0, NULL, out);
}

crema_status crema_image_size(const char *path, int *height, int *width) {
  CR_REQUIRE(path);
  CR_REQUIRE(height);
  CR_REQUIRE(width);
  cr_buffer file = {0};
  int channels = 0;
  crema_status status = cr_file_read(path, &file);
  if (status == CREMA_OK) {
    status =
        cr_fail_in(cr_image_probe((const uint8_t *)file.data, file.size, height, width, &channels),
                   "%s", path);
  }
  cr_buffer_free(&file);
  return status;
}

typedef struct image_memory {
  cr_buffer file;
  cr_image raw, resized;
} image_memory;

/* Reads the file and resizes it to the size before the crop. */
static crema_status read_resized(const char *path, const crema_image_options *options,
                                 const crema_shape *shape, image_memory *memory, cr_image **out) {
  const cr_image_size size = size_of(options, shape);
  const cr_image_sizer sizer = cr_image_sizer_of(&size);
  cr_image_color color = shape->dim[1] == 1 ? CR_IMAGE_GRAY : CR_IMAGE_COLOR;
  CR_TRY(cr_file_read(path, &memory->file));
  return cr_fail_in(cr_image_decode_to((const uint8_t *)memory->file.data, memory->file.size, color,
                                       &sizer, &memory->raw, &memory->resized, out),
                    "%s", path);
}

/* The values of one item, to be written. */
static crema_status item_values(crema_blob *blob, int64_t item, void **out) {
  const crema_shape *shape = crema_blob_shape(blob);
  int64_t count = crema_shape_count(shape, 1, shape->axes);
  cr_tensor_view view = {0};
  float *all = NULL;
  CR_TRY(crema_blob_mutable_cpu_data(blob, &all));
  CR_TRY(cr_tensor_view_make(blob->data, item * count, count, &view));
  return cr_tensor_view_data(&view, blob->data, out);
}

crema_status crema_image_load(const char *path, const crema_image_options *options,
                              crema_blob *blob, int64_t item) {
  CR_REQUIRE(path);
  CR_REQUIRE(blob);
  crema_image_options defaults;
  crema_image_options_init(&defaults);
  if (options == NULL) options = &defaults;
  const crema_shape *shape = crema_blob_shape(blob);
  cr_transformer *transformer = NULL;
  image_memory memory = {0};
  cr_image *image = NULL;
  void *values = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(check_blob(shape, item), out);
  CR_TRY_GOTO(make_transformer(options, shape, &transformer), out);
  CR_TRY_GOTO(read_resized(path, options, shape, &memory, &image), out);
  CR_TRY_GOTO(item_values(blob, item, &values), out);
  const cr_pixels pixels = cr_image_pixels(image);
  status = cr_fail_in(cr_transformer_run(transformer, &pixels, 0, values), "%s", path);
out:
  cr_image_free(&memory.resized);
  cr_image_free(&memory.raw);
  cr_buffer_free(&memory.file);
  cr_transformer_destroy(transformer);
  return status;
}
