/* Unfolds the windows of a plane to the columns of a matrix, and folds them back. */
#ifndef CR_DEVICE_CPU_KERNELS_UNFOLD_H
#define CR_DEVICE_CPU_KERNELS_UNFOLD_H

#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/window.h"

#define cr_ref_unfold CR_REF_NAME(cr_ref_unfold)
#define cr_ref_fold_add CR_REF_NAME(cr_ref_fold_add)

/* One plane (in_count values) to kernel_count rows of out_count values: row r holds the values that
 * element r of the window meets at each output position, 0 in the padding. */
void cr_ref_unfold(const cr_slide *slide, const cr_value *plane, cr_value *rows);

/* The reverse: adds each value to its element of `plane`. */
void cr_ref_fold_add(const cr_slide *slide, const cr_value *rows, cr_real *plane);

#endif
