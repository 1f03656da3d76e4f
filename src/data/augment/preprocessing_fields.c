#include "data/augment/preprocessing_fields.h"

#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/log.h"
#include "data/augment/augment_private.h"
#include "proto/field.h"

#define MODE(name) CAFFE__RESIZE_PARAMETER__INTERP_MODE__##name
#define POLICY(name) CAFFE__RESIZE_PARAMETER__RESIZE_MODE__##name

static bool is_one_of(const char *name, const char *const *list) {
  while (*list != NULL && strcmp(*list, name) != 0) ++list;
  return *list != NULL;
}

/* Lists the fields of `message` that are given but not in `known`, with commas. */
static crema_status list_others(const ProtobufCMessage *message, const char *prefix,
                                const char *const *known, cr_buffer *out) {
  for (unsigned i = 0; i < message->descriptor->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
    if (cr_field_count(message, field) == 0 || is_one_of(field->name, known)) continue;
    CR_TRY(cr_buffer_print(out, "%s%s%s", out->size > 0 ? ", " : "", prefix, field->name));
  }
  return CREMA_OK;
}

/* Only what changes the pixels of a single image in phase TEST has an effect. */
static crema_status warn_of_others(const cr_preprocessed_input *input) {
  static const char *const known[] = {
      "scale",        "crop_size", "mean_file", "mean_value", "force_color", "force_gray",
      "resize_param", "crop_h",    "crop_w",    "bgr2rgb",    NULL};
  static const char *const resize[] = {"resize_mode", "height", "width", "interp_mode", NULL};
  const Caffe__TransformationParameter *param = input->param;
  cr_buffer text = {0};
  crema_status status = list_others(&param->base, "", known, &text);
  if (status == CREMA_OK && param->resize_param != NULL) {
    status = list_others(&param->resize_param->base, "resize_param.", resize, &text);
  }
  if (status == CREMA_OK && text.size > 0) {
    cr_log_warning("layer '%s' (Input): these fields of transform_param have no effect: %s",
                   input->layer, text.data);
  }
  cr_buffer_free(&text);
  return status;
}

static crema_status read_resize(const Caffe__ResizeParameter *param, crema_image_options *out) {
  CR_TRY(cr_resize_check(param));
  if (param->resize_mode == POLICY(FIT_LARGE_SIZE_AND_PAD)) {
    return cr_fail(CREMA_E_UNSUPPORTED,
                   "resize_param: an Input layer has the resize_mode WARP or FIT_SMALL_SIZE, not "
                   "FIT_LARGE_SIZE_AND_PAD");
  }
  for (size_t i = 0; i < param->n_interp_mode; ++i) {
    if (param->interp_mode[i] == MODE(LINEAR)) continue;
    return cr_fail(CREMA_E_UNSUPPORTED, "resize_param: an Input layer has the interp_mode LINEAR");
  }
  out->resize_height = (int)param->height;
  out->resize_width = (int)param->width;
  out->keep_aspect = param->resize_mode == POLICY(FIT_SMALL_SIZE);
  return CREMA_OK;
}

/* The fields of an ImageData layer: a size, or the length of the shorter side. */
static crema_status read_image_size(const cr_preprocessed_input *input, crema_image_options *out) {
  const Caffe__ImageDataParameter *image = input->image;
  const uint32_t side = image->short_side;
  const uint32_t height = side > 0 ? side : image->new_height;
  const uint32_t width = side > 0 ? side : image->new_width;
  if (height == 0 && width == 0) return CREMA_OK;
  if (input->param->resize_param != NULL ||
      (side > 0 && image->new_height + image->new_width > 0)) {
    return cr_fail(CREMA_E_ARGUMENT,
                   "resize_param, and new_height or short_side of image_data_param, exclude each "
                   "other");
  }
  if (height == 0 || width == 0 || height > CR_IMAGE_MAX_SIDE || width > CR_IMAGE_MAX_SIDE) {
    return cr_fail(CREMA_E_RANGE, "image_data_param: a size of %u x %u pixels (at most %d a side)",
                   height, width, CR_IMAGE_MAX_SIDE);
  }
  out->resize_height = (int)height;
  out->resize_width = (int)width;
  out->keep_aspect = side > 0;
  return CREMA_OK;
}

static crema_status check_crop(const Caffe__TransformationParameter *param,
                               const crema_shape *shape) {
  const int64_t height = param->crop_h != 0 ? param->crop_h : param->crop_size;
  const int64_t width = param->crop_w != 0 ? param->crop_w : param->crop_size;
  if (height == 0 && width == 0) return CREMA_OK;
  if (shape->axes == 4 && (height == 0 || height == shape->dim[2]) &&
      (width == 0 || width == shape->dim[3])) {
    return CREMA_OK;
  }
  char text[128];
  return cr_fail(
      CREMA_E_SHAPE,
      "a crop of %lld x %lld for an input of shape %s; the crop has the size of the input",
      (long long)height, (long long)width, crema_shape_text(shape, text, sizeof text));
}

static crema_status check_channels(const Caffe__TransformationParameter *param,
                                   const crema_shape *shape) {
  if (param->force_color && param->force_gray) {
    return cr_fail(CREMA_E_ARGUMENT, "force_color and force_gray exclude each other");
  }
  if (shape->axes < 2) return CREMA_OK;
  const int64_t channels = shape->dim[1];
  if ((param->force_color && channels != 3) || (param->force_gray && channels != 1)) {
    return cr_fail(CREMA_E_SHAPE, "%s for an input of %lld channels",
                   param->force_color ? "force_color" : "force_gray", (long long)channels);
  }
  if (param->n_mean_value > 1 && (int64_t)param->n_mean_value != channels) {
    return cr_fail(CREMA_E_SHAPE, "%zu mean values for an input of %lld channels",
                   param->n_mean_value, (long long)channels);
  }
  return CREMA_OK;
}

crema_status cr_preprocessing_read(const cr_preprocessed_input *input, crema_image_options *out) {
  const Caffe__TransformationParameter *param = input->param;
  crema_image_options_init(out);
  if (param == NULL) return CREMA_OK;
  CR_TRY(warn_of_others(input));
  CR_TRY(check_crop(param, &input->shape));
  CR_TRY(check_channels(param, &input->shape));
  if (param->resize_param != NULL) CR_TRY(read_resize(param->resize_param, out));
  if (input->image != NULL) CR_TRY(read_image_size(input, out));
  out->mean = param->mean_value;
  out->mean_count = (int)param->n_mean_value;
  out->mean_file = param->mean_file;
  out->scale = param->scale;
  out->rgb = param->bgr2rgb;
  return CREMA_OK;
}
