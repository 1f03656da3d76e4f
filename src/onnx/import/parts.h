/* Parts of an axis. */
#ifndef CR_ONNX_IMPORT_PARTS_H
#define CR_ONNX_IMPORT_PARTS_H

#include "onnx/import/numbers.h"

/* Places start, start + step, ... of an axis, `count` of them; the step may be negative. */
typedef struct cr_import_places {
  int axis;
  int64_t start, step, count;
} cr_import_places;

/* `out`: these places of `value`. *out may be NULL: a new value, or `value` itself. */
crema_status cr_import_take_places(cr_import_node *node, cr_import_value *value,
                                   const cr_import_places *places,
                                   cr_import_value **out) CREMA_MUST_USE;

/* `out`: the places of an axis that a list names. *out as above. */
crema_status cr_import_take_list(cr_import_node *node, cr_import_value *value, int axis,
                                 const int64_t *list, int64_t count,
                                 cr_import_value **out) CREMA_MUST_USE;

#endif
