/* A blob: data and diff tensors under one shape. */
#ifndef CR_MEMORY_BLOB_H
#define CR_MEMORY_BLOB_H

#include "crema/blob.h"
#include "memory/tensor.h"

struct crema_blob {
  crema_shape shape;
  cr_tensor *data;
  cr_tensor *diff; /* its memory is made on first use */
  bool typed;      /* see crema_blob_set_typed */
  /* How often the count changed or the data moved to another blob's values: blobs that shared the
   * values may have separated, even if the shape is the same. */
  uint64_t changes;
};

/* The shape of a blob at one time. */
typedef struct cr_blob_seen {
  crema_shape shape;
  uint64_t changes;
} cr_blob_seen;

cr_blob_seen cr_blob_look(const crema_blob *blob);
bool cr_blob_is_as_seen(const crema_blob *blob, const cr_blob_seen *seen);

/* crema_blob_create_typed without its check of the pointers. */
crema_status cr_blob_create_typed(const crema_shape *shape, crema_dtype data_type,
                                  crema_dtype diff_type, crema_blob **out) CREMA_MUST_USE;

/* Shares data (or diff) of equal count and type with `donor`; see cr_tensor_share. */
crema_status cr_blob_share_data(crema_blob *blob, crema_blob *donor) CREMA_MUST_USE;
crema_status cr_blob_share_diff(crema_blob *blob, crema_blob *donor) CREMA_MUST_USE;

/* Shorthands for shapes. */
crema_shape cr_shape(int axes, const int64_t *dim);
crema_shape cr_shape_1(int64_t a);
crema_shape cr_shape_2(int64_t a, int64_t b);
crema_shape cr_shape_3(int64_t a, int64_t b, int64_t c);
crema_shape cr_shape_4(int64_t a, int64_t b, int64_t c, int64_t d);

#endif
