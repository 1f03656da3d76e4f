/* The values in a BlobProto, whatever field of which dialect has them. */
#ifndef CR_NET_BLOB_VALUES_H
#define CR_NET_BLOB_VALUES_H

#include "crema/types.h"
#include "proto/proto.h"

/* What a message holds of data or diff; owned by it. `at` need not be aligned. */
typedef struct cr_blob_values {
  const void *at;
  crema_dtype type;
  size_t count; /* 0: none */
} cr_blob_values;

/* Finds both and checks their counts against the shape, which goes to *shape. Errors:
 * CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_blob_values_find(const Caffe__BlobProto *proto, crema_shape *shape,
                                 cr_blob_values *data, cr_blob_values *diff) CREMA_MUST_USE;

/* Writes all values to `out` as elements of `type`, rounded to nearest even. */
crema_status cr_blob_values_copy(const cr_blob_values *values, crema_dtype type,
                                 void *out) CREMA_MUST_USE;

/* How values are written. */
typedef struct cr_blob_field {
  crema_dtype type;
  bool raw; /* as bytes with their type; otherwise as Caffe's repeated float or double */
} cr_blob_field;

/* The field for values of `type`: floats are always in Caffe's own; so are halves (widened to
 * floats) and doubles in the old format. Errors: CREMA_E_TYPE for what no field can hold. */
crema_status cr_blob_field_for(crema_dtype type, bool old_format,
                               cr_blob_field *out) CREMA_MUST_USE;

/* Makes `values`, `count` elements of field.type, the message's data or diff, without a copy. */
void cr_blob_field_set(Caffe__BlobProto *proto, bool diff, cr_blob_field field, void *values,
                       size_t count);

#endif
