/* param_str of the Python layers of py-faster-rcnn (Ren et al., "Faster R-CNN", 2015), for the
 * layers of crema that do the same. An example is "'feat_stride': 16"; there may be more fields,
 * lists of numbers (in YAML "!!python/tuple [4, 8]"), and braces around all. */
#ifndef CR_LAYERS_PYTHON_FIELDS_H
#define CR_LAYERS_PYTHON_FIELDS_H

#include "layers/common/layer.h"

/* Numbers that a field has. */
typedef struct cr_python_field {
  const char *name;
  float *value;
  size_t most, count; /* capacity, and number of values; 0: the field is not set */
} cr_python_field;

/* Whether the layer is of type Python in its file. */
bool cr_is_python(const cr_layer *layer);

/* Reads python_param { param_str } into the fields; a no-op for other types. Errors:
 * CREMA_E_PARSE; CREMA_E_UNKNOWN_NAME for a field that none of these is. */
crema_status cr_python_fields(const cr_layer *layer, cr_python_field *field,
                              int fields) CREMA_MUST_USE;

#endif
