/* Post operations of the plain kernels. */
#ifndef CR_DEVICE_CPU_KERNELS_POST_OPS_H
#define CR_DEVICE_CPU_KERNELS_POST_OPS_H

#include "device/cpu/kernels/element_type.h"

#define cr_ref_unary CR_REF_NAME(cr_ref_unary)
#define cr_ref_unary_slope CR_REF_NAME(cr_ref_unary_slope)
#define cr_ref_posts CR_REF_NAME(cr_ref_posts)

/* The element-wise function of an op UNARY_FWD or UNARY_BWD. */
static inline cr_post cr_op_function(const cr_op_desc *desc) {
  return (cr_post){CR_POST_UNARY, desc->u.unary.function, desc->u.unary.alpha, desc->u.unary.beta,
                   desc->u.unary.gamma};
}

/* y[i] = the element-wise function of x[i]. The arrays may be the same. Runs on the calling
 * thread. */
void cr_ref_unary(const cr_post *post, int64_t count, const cr_real *x, cr_real *y);

/* dx[i] = dy[i] times the derivative at x[i], whose function value is y[i]. Reads only x or only y
 * if the other suffices. The arrays may be the same. Runs on the calling thread. */
void cr_ref_unary_slope(const cr_post *post, int64_t count, const cr_real *x, const cr_real *y,
                        const cr_real *dy, cr_real *dx);

/* dst[i] = the post operations applied to from[i] + bias; the addition adds addend[i]. The arrays
 * may be the same. Runs on the calling thread. */
void cr_ref_posts(const cr_posts *posts, int64_t count, cr_real bias, const cr_real *from,
                  const cr_real *addend, cr_real *dst);

#endif
