#include "data/augment/annotated.h"

#include <string.h>

#include "core/fail.h"
#include "proto/proto.h"

static crema_status load_planes(cr_image *image, const Caffe__Datum *datum) {
  if (datum->n_float_data > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "float_data with boxes; only bytes are supported");
  }
  if (datum->channels < 1 || datum->channels > 4) {
    return cr_fail(CREMA_E_CORRUPT, "%d channels", datum->channels);
  }
  CR_TRY(cr_image_reserve(image, datum->height, datum->width, datum->channels));
  size_t channels = (size_t)datum->channels;
  size_t plane = (size_t)datum->height * (size_t)datum->width;
  if (datum->data.len != plane * channels) {
    return cr_fail(CREMA_E_CORRUPT, "%zu bytes of pixels, %d x %d x %d need %zu", datum->data.len,
                   datum->channels, datum->height, datum->width, plane * channels);
  }
  cr_image_interleave(datum->data.data, image);
  return CREMA_OK;
}

static crema_status load_objects(cr_annotated *annotated, const Caffe__AnnotatedDatum *message) {
  for (size_t g = 0; g < message->n_annotation_group; ++g) {
    const Caffe__AnnotationGroup *group = message->annotation_group[g];
    for (size_t a = 0; a < group->n_annotation; ++a) {
      const Caffe__Annotation *annotation = group->annotation[a];
      const Caffe__NormalizedBBox *box = annotation->bbox;
      if (box == NULL) continue;
      const cr_object object = {.label = group->group_label,
                                .instance = annotation->instance_id,
                                .difficult = box->difficult,
                                .box = {box->xmin, box->ymin, box->xmax, box->ymax}};
      CR_TRY(cr_buffer_append(&annotated->objects, &object, sizeof object));
    }
  }
  return CREMA_OK;
}

/* Field 1 is a message in an AnnotatedDatum and a number in a Datum. */
bool cr_annotated_is(const uint8_t *bytes, size_t size) {
  enum { FIRST_IS_MESSAGE = 1 << 3 | 2 };
  return size > 0 && bytes[0] == FIRST_IS_MESSAGE;
}

crema_status cr_annotated_load(cr_annotated *annotated, const uint8_t *bytes, size_t size,
                               cr_image_color color) {
  ProtobufCMessage *parsed = NULL;
  cr_buffer_clear(&annotated->objects);
  CR_TRY(
      cr_wire_parse(&caffe__annotated_datum__descriptor, bytes, size, "AnnotatedDatum", &parsed));
  const Caffe__AnnotatedDatum *message = (const Caffe__AnnotatedDatum *)parsed;
  const Caffe__Datum *datum = message->datum;
  crema_status status = CREMA_OK;
  annotated->has_boxes = message->has_type;
  if (datum == NULL) {
    status = cr_fail(CREMA_E_CORRUPT,
                     "not an AnnotatedDatum, it has no datum; a plain Datum is "
                     "read by layers of type Data");
    goto out;
  }
  annotated->label = datum->label;
  annotated->encoded = datum->encoded;
  if (datum->encoded) {
    CR_TRY_GOTO(cr_image_decode(datum->data.data, datum->data.len, color, &annotated->image), out);
  } else {
    CR_TRY_GOTO(load_planes(&annotated->image, datum), out);
  }
  status = load_objects(annotated, message);
out:
  cr_message_free(parsed);
  return status;
}

size_t cr_annotated_count(const cr_annotated *annotated) {
  return annotated->objects.size / sizeof(cr_object);
}

cr_object *cr_annotated_object(const cr_annotated *annotated, size_t i) {
  return (cr_object *)(void *)annotated->objects.data + i;
}

void cr_annotated_row(const cr_object *object, cr_box box, float out[CR_ANNOTATED_ROW]) {
  const float row[CR_ANNOTATED_ROW] = {
      0,        (float)object->label,    (float)object->instance, box.xmin, box.ymin, box.xmax,
      box.ymax, (float)object->difficult};
  memcpy(out, row, sizeof row);
}

void cr_annotated_project(cr_annotated *annotated, const Caffe__EmitConstraint *constraint,
                          cr_box window) {
  size_t kept = 0, count = cr_annotated_count(annotated);
  for (size_t i = 0; i < count; ++i) {
    cr_object object = *cr_annotated_object(annotated, i);
    if (!cr_box_emits(constraint, window, object.box)) continue;
    if (cr_box_project(window, &object.box)) *cr_annotated_object(annotated, kept++) = object;
  }
  annotated->objects.size = kept * sizeof(cr_object);
}

void cr_annotated_free(cr_annotated *annotated) {
  cr_buffer_free(&annotated->objects);
  cr_image_free(&annotated->image);
  *annotated = (cr_annotated){0};
}
