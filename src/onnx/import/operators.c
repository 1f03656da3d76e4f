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

/* Operators without a function, and why. */
static const struct {
  const char *op, *reason;
} unsupported[] = {
    {"ConvInteger", "quantised operators are not supported"},
    {"ConcatFromSequence", "sequences are not supported"},
    {"DequantizeLinear", "quantised operators are not supported"},
    {"DynamicQuantizeLinear", "quantised operators are not supported"},
    {"Einsum", "products of two activations are not supported"},
    {"GRU", "no layer has these gates"},
    {"GridSample", "no layer samples with these rules"},
    {"If", "control flow is not supported"},
    {"Loop", "control flow is not supported"},
    {"MatMulInteger", "quantised operators are not supported"},
    {"MaxUnpool", "its indices count the values of all planes"},
    {"NonMaxSuppression", "the number of its boxes depends on the values"},
    {"NonZero", "the number of its indices depends on the values"},
    {"QLinearConv", "quantised operators are not supported"},
    {"QLinearMatMul", "quantised operators are not supported"},
    {"QuantizeLinear", "quantised operators are not supported"},
    {"RNN", "the RNN layer has a second product at its output"},
    {"RandomNormal", "random numbers are not supported"},
    {"RandomNormalLike", "random numbers are not supported"},
    {"RandomUniform", "random numbers are not supported"},
    {"RandomUniformLike", "random numbers are not supported"},
    {"Scan", "control flow is not supported"},
    {"SequenceAt", "sequences are not supported"},
    {"SequenceConstruct", "sequences are not supported"},
    {"SplitToSequence", "sequences are not supported"},
    {"TopK", "ArgMax layers have no values and indices of several axes"},
    {"Unique", "the number of its values depends on the values"},
};

const char *cr_import_reason(const char *op) {
  for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; ++i) {
    if (strcmp(unsupported[i].op, op) == 0) return unsupported[i].reason;
  }
  return "no layer computes this operator";
}
