#include "data/augment/image_blob.h"

#include "core/fail.h"
#include "core/file.h"
#include "data/augment/augment.h"
#include "data/augment/augment_private.h"
#include "data/augment/transformer.h"
#include "data/image/image_codec.h"
#include "data/image/image_scaled.h"
#include "memory/blob.h"

void crema_image_options_init(crema_image_options *options) {
  if (options == NULL) return;
  *options = (crema_image_options){.scale = 1};
}

static bool has_mean_file(const crema_image_options *options) {
  return options->mean_file != NULL && options->mean_file[0] != '\0';
}

crema_status cr_image_options_check(const crema_image_options *options) {
  if (options->mean_count < 0 || (options->mean_count > 0 && options->mean == NULL)) {
    return cr_fail(CREMA_E_ARGUMENT, "%d mean values", options->mean_count);
  }
  if (options->mean_count > 0 && has_mean_file(options)) {
    return cr_fail(CREMA_E_ARGUMENT, "mean values and the mean_file %s exclude each other",
                   options->mean_file);
  }
  return CREMA_OK;
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

/* The size before the crop; with keep_aspect, the size to cover. */
static cr_image_size size_of(const crema_image_options *options, const crema_shape *shape) {
  return (cr_image_size){options->resize_height > 0 ? options->resize_height : (int)shape->dim[2],
                         options->resize_width > 0 ? options->resize_width : (int)shape->dim[3],
                         options->exact_resize};
}

/* The resized size of an image of height x width that covers the size `user`. */
static void choose_cover(const void *user, int height, int width, int *out_height, int *out_width) {
  const cr_image_size *size = user;
  Caffe__ResizeParameter param = CAFFE__RESIZE_PARAMETER__INIT;
  const int in[2] = {height, width};
  int out[2];
  param.resize_mode = CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_SMALL_SIZE;
  param.height = (uint32_t)size->height;
  param.width = (uint32_t)size->width;
  cr_resize_extent(&param, in, out);
  *out_height = out[0];
  *out_width = out[1];
}

static cr_image_sizer sizer_of(const crema_image_options *options, const cr_image_size *size) {
  if (!options->keep_aspect) return cr_image_sizer_of(size);
  return (cr_image_sizer){choose_cover, size, size->exact};
}

/* The mean of each channel. */
static void average_mean(const cr_mean *mean, float color[3]) {
  const size_t plane = (size_t)mean->height * (size_t)mean->width;
  for (int c = 0; c < mean->channels; ++c) {
    double sum = 0;
    for (size_t i = 0; i < plane; ++i) sum += (double)mean->values[(size_t)c * plane + i];
    color[c] = (float)(sum / (double)plane);
  }
}

/* Replaces a mean image of another size than before the crop by its mean colour. */
static crema_status make_transformer(const crema_image_options *options, const cr_mean *mean,
                                     const crema_shape *shape, cr_transformer **out) {
  /* Lives on the stack and borrows its values, so it is not freed. */
  Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
  float color[3];
  const cr_image_size size = size_of(options, shape);
  const bool whole =
      mean == NULL || mean->channels > 3 ||
      (mean->height == size.height && mean->width == size.width && !options->keep_aspect);
  param.crop_h = (uint32_t)shape->dim[2];
  param.crop_w = (uint32_t)shape->dim[3];
  param.scale = options->scale;
  param.n_mean_value = (size_t)options->mean_count;
  param.mean_value = (float *)(uintptr_t)options->mean;
  param.bgr2rgb = options->rgb;
  if (!whole) {
    average_mean(mean, color);
    param.n_mean_value = (size_t)mean->channels;
    param.mean_value = color;
  }
  CR_TRY(cr_transformer_create(&param, CAFFE__PHASE__TEST, 0, NULL, out));
  if (mean == NULL || !whole) return CREMA_OK;
  return cr_transformer_borrow_mean(*out, mean, options->mean_file);
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

/* Copies pixels to an image of blue, green, red, or of one channel. */
static crema_status copy_pixels(const crema_pixels *in, int channels, cr_image *out) {
  if (in->channels < 1 || in->channels > 4) {
    return cr_fail(CREMA_E_SHAPE,
                   "pixels of %d channels: 1 (grey), 2 (grey and alpha), 3 (colours) or 4 (colours "
                   "and alpha) can be read",
                   in->channels);
  }
  if (in->values == NULL || in->height < 1 || in->width < 1) {
    return cr_fail(CREMA_E_SHAPE, "an image of %d x %d pixels", in->height, in->width);
  }
  CR_TRY(cr_image_reserve(out, in->height, in->width, channels));
  const size_t pixels = (size_t)in->height * (size_t)in->width;
  const bool gray = in->channels < 3;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t *p = in->values + i * (size_t)in->channels;
    const uint8_t bgr[3] = {p[gray      ? 0
                              : in->rgb ? 2
                                        : 0],
                            p[gray ? 0 : 1],
                            p[gray      ? 0
                              : in->rgb ? 0
                                        : 2]};
    if (gray && channels == 1) out->pixels[i] = p[0];
    else cr_image_put(out->pixels + i * (size_t)channels, channels, bgr);
  }
  return CREMA_OK;
}

/* Resizes the pixels to the sizer's size. */
static crema_status resize_pixels(const crema_pixels *pixels, int channels,
                                  const cr_image_sizer *sizer, image_memory *memory,
                                  cr_image **out) {
  int height = 0, width = 0;
  CR_TRY(copy_pixels(pixels, channels, &memory->raw));
  sizer->choose(sizer->user, pixels->height, pixels->width, &height, &width);
  *out = &memory->raw;
  if (height == pixels->height && width == pixels->width) return CREMA_OK;
  *out = &memory->resized;
  return cr_image_resize(&memory->raw, height, width, &memory->resized);
}

/* Reads the image and resizes it to the size before the crop. */
static crema_status read_resized(const cr_image_source *source, const crema_image_options *options,
                                 const crema_shape *shape, image_memory *memory, cr_image **out) {
  const cr_image_size size = size_of(options, shape);
  const cr_image_sizer sizer = sizer_of(options, &size);
  const bool gray = shape->dim[1] == 1;
  if (source->pixels != NULL) {
    return resize_pixels(source->pixels, (int)shape->dim[1], &sizer, memory, out);
  }
  const void *bytes = source->bytes;
  size_t count = source->size;
  if (source->path != NULL) {
    CR_TRY(cr_file_read(source->path, &memory->file));
    bytes = memory->file.data;
    count = memory->file.size;
  }
  return cr_fail_in(cr_image_decode_to(bytes, count, gray ? CR_IMAGE_GRAY : CR_IMAGE_COLOR, &sizer,
                                       &memory->raw, &memory->resized, out),
                    "%s", source->path != NULL ? source->path : "an image file in memory");
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

crema_status cr_image_to_blob(const cr_image_source *source, const crema_image_options *options,
                              const cr_mean *mean, crema_blob *blob, int64_t item) {
  const crema_shape *shape = crema_blob_shape(blob);
  cr_transformer *transformer = NULL;
  image_memory memory = {0};
  cr_image *image = NULL;
  void *values = NULL;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(check_blob(shape, item), out);
  CR_TRY_GOTO(make_transformer(options, mean, shape, &transformer), out);
  CR_TRY_GOTO(read_resized(source, options, shape, &memory, &image), out);
  CR_TRY_GOTO(item_values(blob, item, &values), out);
  const cr_pixels pixels = cr_image_pixels(image);
  status = cr_fail_in(cr_transformer_run(transformer, &pixels, 0, values), "%s",
                      source->path != NULL ? source->path : "an image in memory");
out:
  cr_image_free(&memory.resized);
  cr_image_free(&memory.raw);
  cr_buffer_free(&memory.file);
  cr_transformer_destroy(transformer);
  return status;
}

crema_status crema_image_load(const char *path, const crema_image_options *options,
                              crema_blob *blob, int64_t item) {
  CR_REQUIRE(path);
  CR_REQUIRE(blob);
  crema_image_options defaults;
  cr_mean mean = {0};
  const cr_image_source source = {.path = path};
  crema_image_options_init(&defaults);
  if (options == NULL) options = &defaults;
  CR_TRY(cr_image_options_check(options));
  if (has_mean_file(options)) CR_TRY(cr_mean_read(options->mean_file, &mean));
  const crema_status status =
      cr_image_to_blob(&source, options, mean.values == NULL ? NULL : &mean, blob, item);
  cr_mean_free(&mean);
  return status;
}
