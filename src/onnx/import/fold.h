/* Nodes whose outputs are known when the file is read. */
#ifndef CR_ONNX_IMPORT_FOLD_H
#define CR_ONNX_IMPORT_FOLD_H

#include "onnx/import/numbers.h"

/* Each computes the outputs of a node of these operators. All inputs are constant, but for
 * cr_fold_shape and cr_fold_size. */
cr_import_fn cr_fold_constant;          /* Constant */
cr_import_fn cr_fold_constant_of_shape; /* ConstantOfShape */
cr_import_fn cr_fold_shape;             /* Shape */
cr_import_fn cr_fold_size;              /* Size */
cr_import_fn cr_fold_range;             /* Range */
cr_import_fn cr_fold_cast;              /* Cast, CastLike */
cr_import_fn cr_fold_unary;             /* the operators of cr_fold_is_unary */
cr_import_fn cr_fold_binary;            /* the operators of cr_fold_is_binary */
cr_import_fn cr_fold_where;             /* Where */
cr_import_fn cr_fold_reduce;            /* the operators of cr_fold_is_reduction */
cr_import_fn cr_fold_non_zero;          /* NonZero */
cr_import_fn cr_fold_one_hot;           /* OneHot */

/* The most for which each integer is a number in double precision. */
#define CR_FOLD_EXACT 9007199254740992.0

bool cr_fold_is_unary(const char *op);
bool cr_fold_is_binary(const char *op);
bool cr_fold_is_reduction(const char *op);

/* Whether constants of a type are integers or booleans; their numbers wrap at its limits. */
bool cr_fold_is_int(int32_t type);
int64_t cr_fold_wrap(int32_t type, int64_t value);

#endif
