/* Transformers and augmentations from the text of a transform_param, and an image for them. */
#ifndef CR_TESTS_DATA_TRANSFORM_TEXT_H
#define CR_TESTS_DATA_TRANSFORM_TEXT_H

#include "check.h"
#include "data/augment/augment.h"
#include "data/augment/transformer.h"

/* Free with cr_message_free. */
static inline Caffe__TransformationParameter *parse_transform(const char *text) {
  ProtobufCMessage *param = NULL;
  ok(cr_text_parse(&caffe__transformation_parameter__descriptor, text, strlen(text), "test",
                   CR_UNKNOWN_ERROR, &param));
  return (Caffe__TransformationParameter *)param;
}

static inline crema_status make_transformer(const char *text, Caffe__Phase phase,
                                            cr_transformer **out) {
  Caffe__TransformationParameter *param = parse_transform(text);
  crema_status status = cr_transformer_create(param, phase, 77, NULL, out);
  cr_message_free(&param->base);
  return status;
}

static inline crema_status make_augment(const char *text, cr_augment **out) {
  Caffe__TransformationParameter *param = parse_transform(text);
  crema_status status = cr_augment_create(param, out);
  cr_message_free(&param->base);
  return status;
}

/* The text must ask for something. */
static inline cr_augment *augment_of(const char *text) {
  cr_augment *augment = NULL;
  if (make_augment(text, &augment) != CREMA_OK) fail_msg("%s: %s", text, crema_error_text());
  assert_non_null(augment);
  return augment;
}

/* A pattern that repeats after 251 values. */
static inline void fill(cr_image *image, int height, int width, int channels) {
  ok(cr_image_reserve(image, height, width, channels));
  for (int i = 0; i < height * width * channels; ++i) image->pixels[i] = (uint8_t)(i * 37 % 251);
}

#endif
