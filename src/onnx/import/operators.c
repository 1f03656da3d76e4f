/* The table of the operators. */
#include <string.h>

#include "onnx/import/graph.h"

static const struct {
  const char *op;
  cr_import_fn *function;
} operators[] = {
#define CR_ONNX_OPERATOR(op, function) {op, cr_import_##function},
#include "onnx/import/operators.inc"
#undef CR_ONNX_OPERATOR
};

cr_import_fn *cr_import_find(const char *op) {
  for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) {
    if (strcmp(operators[i].op, op) == 0) return operators[i].function;
  }
  return NULL;
}
