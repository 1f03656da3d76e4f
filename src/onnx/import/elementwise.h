/* Arithmetic of values in the net. */
#ifndef CR_ONNX_IMPORT_ELEMENTWISE_H
#define CR_ONNX_IMPORT_ELEMENTWISE_H

#include "onnx/import/numbers.h"

typedef enum cr_import_arithmetic {
  CR_IMPORT_ADD,
  CR_IMPORT_SUB,
  CR_IMPORT_MUL,
  CR_IMPORT_DIV,
  CR_IMPORT_MAX,
  CR_IMPORT_MIN
} cr_import_arithmetic;

/* `out`: a and b combined, which broadcast. At least one is not constant. *out may be NULL: a new
 * value. */
crema_status cr_import_combine(cr_import_node *node, cr_import_arithmetic op, cr_import_value *a,
                               cr_import_value *b, cr_import_value **out) CREMA_MUST_USE;

/* `out`: a function of one number, by the text of its layer. *out as above. */
crema_status cr_import_map(cr_import_node *node, cr_import_value *value, cr_import_value **out,
                           const char *text, ...) CREMA_MUST_USE CREMA_PRINTF(4, 5);

#endif
