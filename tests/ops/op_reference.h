/* What each op is to compute, written from its definition in double precision: slow, short, and
 * sharing nothing with the kernels. Gradients are finite differences of these; the gradients of
 * sums of products are the terms handed back, with some differences that confirm them. */
#ifndef CR_TESTS_OP_REFERENCE_H
#define CR_TESTS_OP_REFERENCE_H

#include "device/backend/op_desc.h"

/* in[i]: argument i where it is read, out[i]: where it is written; plain row-major, NULL
 * when absent. `frozen`: choices that depend on values (the position of a maximum, a random draw)
 * are not made anew but read from their out[i]. False when the op has no reference. */
bool op_reference(const cr_op_desc *desc, const cr_op_scalars *scalars, double *const *in,
                  double *const *out, bool frozen);

/* The part of op_reference that is kept in op_reference_rest.c: functions, losses, rows, moves. */
bool op_reference_rest(const cr_op_desc *desc, double *const *in, double *const *out, bool frozen);

/* The part in op_reference_maps.c: samples, comparisons and perturbations of maps. */
bool op_reference_maps(const cr_op_desc *desc, const cr_op_scalars *scalars, double *const *in,
                       double *const *out);

/* Hands each term of the sums of a convolution, an inner product or a reduction of rows back to
 * argument `of`: its gradient from `given`, the gradient of the sums. False for other ops. */
bool op_reference_back(const cr_op_desc *desc, double *const *in, int of, const double *given,
                       double *gradient);

/* Number of elements of a shape; 0 when absent. */
int64_t op_count(const crema_shape *shape);

#endif
