/* Post operations of the reference kernels. */
#ifndef CR_DEVICE_CPU_REF_POSTS_H
#define CR_DEVICE_CPU_REF_POSTS_H

#include "device/cpu/ref_type.h"

#define cr_ref_unary CR_REF_NAME(cr_ref_unary)
#define cr_ref_posts CR_REF_NAME(cr_ref_posts)

/* One value of an element-wise function. */
cr_real cr_ref_unary(cr_unary function, cr_real alpha, cr_real beta, cr_real gamma, cr_real x);

/* dst[i] = the post operations applied to from[i] + bias, the one that adds with addend[i]. The
 * arrays may be the same. Runs on the calling thread. */
void cr_ref_posts(const cr_posts *posts, int64_t count, cr_real bias, const cr_real *from,
                  const cr_real *addend, cr_real *dst);

#endif
