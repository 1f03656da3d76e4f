/* Memory layouts that are private to a back end.
 *
 * A layout describes the order in memory of the values of one shape and element type, if a compute
 * library prefers an order other than row-major, such as blocked channels. Layouts are interned by
 * their device: equal layouts are the same pointer, and a pointer lives as long as its device. NULL
 * means the plain layout. */
#ifndef CR_DEVICE_LAYOUT_H
#define CR_DEVICE_LAYOUT_H

#include <stdbool.h>

#include "crema/device.h"

typedef struct cr_layout {
  crema_device *device; /* whose kernels understand it */
  crema_dtype type;
  crema_shape shape;
  size_t bytes; /* memory it takes, padding included */
  /* Other values are stored between these: they are a part of a larger array (a view). Only a part
   * of a tensor (memory/tensor.h) is held in such a layout. */
  bool gaps;
  const struct cr_layout *packed; /* with gaps: the layout of the same order without; may be NULL */
  const void *detail;             /* the back end's own description */
} cr_layout;

/* One format in which the values of a tensor can be held. */
typedef struct cr_format {
  crema_dtype type;
  const cr_layout *layout; /* NULL: plain */
} cr_format;

/* A part of an array of shape `whole`: the values of shape `shape`, starting at index `at` of
 * `axis`. All other extents are equal. */
typedef struct cr_part {
  crema_shape shape, whole;
  int axis;
  int64_t at;
} cr_part;

/* The layout of a part of an array in the memory of the whole. */
typedef struct cr_part_place {
  cr_format format;
  size_t offset; /* in bytes, of the part's first value */
} cr_part_place;

/* `format` without gaps. */
static inline cr_format cr_format_packed(cr_format format) {
  if (format.layout != NULL && format.layout->gaps) format.layout = format.layout->packed;
  return format;
}

#define CR_PLAIN_F32 ((cr_format){CREMA_F32, NULL})

static inline bool cr_format_equal(cr_format a, cr_format b) {
  return a.type == b.type && a.layout == b.layout;
}

#endif
