/* Records of detection data sets (AnnotatedDatum of the SSD dialect): an image with boxes. */
#ifndef CR_DATA_ANNOTATED_H
#define CR_DATA_ANNOTATED_H

#include "data/augment/augment_box.h"

typedef struct cr_object {
  int label;    /* the class, which the group has */
  int instance; /* index among the objects of the class */
  bool difficult;
  cr_box box;
} cr_object;

/* A parsed record. Zero-initialise ({0}); the next record reuses its memory. */
typedef struct cr_annotated {
  cr_image image;
  int label;         /* the Datum's */
  bool encoded;      /* the record holds an image file */
  bool has_boxes;    /* its annotations are boxes */
  cr_buffer objects; /* of cr_object */
} cr_annotated;

/* Whether a record is an AnnotatedDatum, not a Datum. */
bool cr_annotated_is(const uint8_t *bytes, size_t size);

/* Parses and decodes a record, to `color` if it is encoded. Pixels must be bytes. Errors:
 * CREMA_E_CORRUPT, CREMA_E_UNSUPPORTED, errors of cr_image_decode. */
crema_status cr_annotated_load(cr_annotated *annotated, const uint8_t *bytes, size_t size,
                               cr_image_color color) CREMA_MUST_USE;

size_t cr_annotated_count(const cr_annotated *annotated);
cr_object *cr_annotated_object(const cr_annotated *annotated, size_t i);

/* A row of a label: item (0), class, instance, xmin, ymin, xmax, ymax, whether it is difficult. */
enum { CR_ANNOTATED_ROW = 8 };
void cr_annotated_row(const cr_object *object, cr_box box, float out[CR_ANNOTATED_ROW]);

/* Drops objects that do not count in the window (cr_box_emits) or are outside, and converts the
 * rest to its coordinates. */
void cr_annotated_project(cr_annotated *annotated, const Caffe__EmitConstraint *constraint,
                          cr_box window);

/* Frees the memory and zeroes the struct. */
void cr_annotated_free(cr_annotated *annotated);

#endif
