/* The description of a convolution for oneDNN, shared by the convolution rows. */
#ifndef CR_DEVICE_CPU_ONEDNN_CONV_H
#define CR_DEVICE_CPU_ONEDNN_CONV_H

#include "device/backend/kernel.h"
#include "device/cpu/onednn/compat.h"

typedef struct cr_dnnl_conv {
  cr_pd_env env;
  cr_pd_window window;
  cr_md src, weights, bias, dst; /* in layouts of the primitive's choice; bias NULL: none */
} cr_dnnl_conv;

/* Describes the op of `plan`; src, weights, bias and dst are the numbers of the arguments with
 * these shapes (or their gradients). bias < 0: the op has no such argument. The factors of the
 * products are of the shorter element type of src and dst, sums are F32. Free with
 * cr_dnnl_conv_close. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_open(const cr_plan *plan, int src, int weights, int bias, int dst,
                               cr_dnnl_conv *c) CREMA_MUST_USE;
void cr_dnnl_conv_close(cr_dnnl_conv *c);

/* Argument `arg` (O,C/g,K...), as elements of `type`, in a layout of the primitive's choice, as it
 * takes weights: with an axis for the groups when there are several. */
crema_status cr_dnnl_conv_weights(const cr_plan *plan, int arg, crema_dtype type,
                                  cr_md *out) CREMA_MUST_USE;

/* Whether the primitive is safe: see the comment in onednn/conv.c. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_check_blocks(const cr_plan *plan,
                                       const_dnnl_primitive_desc_t pd) CREMA_MUST_USE;

/* ---- for kernels of crema's own that keep sums in registers and write channels-last ---- */

/* Whether the processor has the 32 registers of AVX-512. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_dnnl_conv_check_registers(void) CREMA_MUST_USE;

/* To what results are cut by `posts`; -inf and inf: not at all.
 * Errors: CREMA_E_UNSUPPORTED for other post operations. */
crema_status cr_dnnl_conv_limits(const cr_posts *posts, float *low, float *high) CREMA_MUST_USE;

/* The layouts of source and result of a forward convolution, if they are channels-last where the
 * layout is the library's choice. `src` may be NULL: that one may be anything.
 * Errors: CREMA_E_UNSUPPORTED when they are not. */
crema_status cr_dnnl_conv_last(const cr_plan *plan, const cr_layout **src,
                               const cr_layout **dst) CREMA_MUST_USE;

#endif
