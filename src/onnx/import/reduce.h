/* Reductions along axes. */
#ifndef CR_ONNX_IMPORT_REDUCE_H
#define CR_ONNX_IMPORT_REDUCE_H

#include "onnx/import/numbers.h"

typedef struct cr_import_reduction {
  bool reduced[CREMA_MAX_AXES]; /* of the axes of input 0 */
  int count;                    /* axes that are reduced */
  crema_shape shape;            /* of the output */
} cr_import_reduction;

/* Reads the attributes axes, keepdims and noop_with_empty_axes, or input 1. */
crema_status cr_import_read_reduction(cr_import_node *node,
                                      cr_import_reduction *out) CREMA_MUST_USE;

/* The kinds that layers compute. */
typedef enum cr_import_reducer {
  CR_IMPORT_REDUCE_SUM,
  CR_IMPORT_REDUCE_MEAN,
  CR_IMPORT_REDUCE_L1, /* sum of absolute values */
  CR_IMPORT_REDUCE_SQUARES,
  CR_IMPORT_REDUCE_MAX
} cr_import_reducer;

/* `out`: `value` reduced along these axes, with the shape r->shape. *out may be NULL: a new value.
 */
crema_status cr_import_reduce(cr_import_node *node, cr_import_reducer kind, cr_import_value *value,
                              const cr_import_reduction *r, cr_import_value **out) CREMA_MUST_USE;

#endif
