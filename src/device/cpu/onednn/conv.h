/* The description of a convolution for oneDNN, shared by the convolution rows. */
#ifndef CR_DEVICE_CPU_ONEDNN_CONV_H
#define CR_DEVICE_CPU_ONEDNN_CONV_H

#include "device/cpu/onednn/primitive.h"

/* Describes the op of `plan`; src, weights, bias and dst are the numbers of the arguments with
 * these shapes (or their gradients). bias < 0: the op has no such argument. Floats are multiplied
 * in the shorter element type of src and dst and summed in F32. Free with cr_dnnl_operands_close.
 * Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_open(const cr_plan *plan, int src, int weights, int bias, int dst,
                               cr_dnnl_operands *c) CREMA_MUST_USE;

/* The forward convolution of `plan`, arguments src, weights, bias, dst. Rejects primitives that
 * crash. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_fwd(const cr_plan *plan, dnnl_primitive_desc_t *out) CREMA_MUST_USE;

/* For crema's own kernels that keep sums in registers: */

/* Whether the processor has the 32 registers of AVX-512. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_check_registers(void) CREMA_MUST_USE;

/* The limits that `posts` set to results; -inf and inf: none.
 * Errors: CREMA_E_UNSUPPORTED for other post operations. */
crema_status cr_dnnl_conv_limits(const cr_posts *posts, float *low, float *high) CREMA_MUST_USE;

/* The same for an addition, if there is one, and limits after it. Errors: see above. */
crema_status cr_dnnl_conv_sum_limits(const cr_posts *posts, bool *adds, float *low,
                                     float *high) CREMA_MUST_USE;

/* The layouts that oneDNN chooses for source and result of a forward convolution. `src` may be
 * NULL. Errors: CREMA_E_UNSUPPORTED unless they are channels-last. */
crema_status cr_dnnl_conv_last(const cr_plan *plan, const cr_layout **src,
                               const cr_layout **dst) CREMA_MUST_USE;

#endif
