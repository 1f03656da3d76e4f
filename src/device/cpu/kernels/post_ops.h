/* Post operations of the plain kernels. */
#ifndef CR_DEVICE_CPU_KERNELS_POST_OPS_H
#define CR_DEVICE_CPU_KERNELS_POST_OPS_H

#include "device/cpu/kernels/element_type.h"

#define cr_ref_unary CR_REF_NAME(cr_ref_unary)
#define cr_ref_unary_slope CR_REF_NAME(cr_ref_unary_slope)
#define cr_ref_posts CR_REF_NAME(cr_ref_posts)

/* The element-wise function of a post operation, in place. Runs on the calling thread. */
void cr_ref_unary(const cr_post *post, int64_t count, cr_real *y);

/* diff[i] *= the derivative at x[i], where the function is y[i]. Reads only x or only y if that
 * suffices. Runs on the calling thread. */
void cr_ref_unary_slope(const cr_post *post, int64_t count, const cr_real *x, const cr_real *y,
                        cr_real *diff);

/* dst[i] = the post operations applied to from[i] + bias; the addition adds addend[i]. The arrays
 * may be the same. Runs on the calling thread. */
void cr_ref_posts(const cr_posts *posts, int64_t count, cr_real bias, const cr_real *from,
                  const cr_real *addend, cr_real *dst);

#endif
