/* The windows of a convolution as columns of a matrix, and back: col2im sums where windows overlap.
 */
#include "core/fail.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/unfold.h"

static crema_status window_keep(cr_plan *plan, const crema_shape *image,
                                const crema_shape *columns) {
  cr_slide slide;
  CR_TRY(cr_slide_make(&plan->desc->u.window, image, columns, &slide));
  if (image->dim[0] != columns->dim[0] || image->dim[1] * slide.kernel_count != columns->dim[1]) {
    return cr_fail(CREMA_E_SHAPE, "the columns do not hold the image's windows");
  }
  return cr_plan_keep(plan, &slide, sizeof slide);
}

static crema_status im2col_plan(cr_plan *plan) {
  return window_keep(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

static crema_status col2im_plan(cr_plan *plan) {
  return window_keep(plan, &plan->desc->arg[1].shape, &plan->desc->arg[0].shape);
}

/* src (N, C, S...), dst (N, C * window, S'...). */
static crema_status im2col(const cr_call *call) {
  const cr_slide *s = call->plan->state;
  const crema_shape *image = &call->desc->arg[0].shape;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 1) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < image->dim[0] * image->dim[1]; ++c) {
    cr_ref_unfold(s, cr_as_values(call->buffer, 0) + c * s->in_count,
                  cr_as_values(call->buffer, 1) + c * s->kernel_count * s->out_count);
  }
  return CREMA_OK;
}

/* diff_dst, diff_src. */
static crema_status col2im(const cr_call *call) {
  const cr_slide *s = call->plan->state;
  const crema_shape *image = &call->desc->arg[1].shape;
#pragma omp parallel for schedule(static) if (cr_op_arg_count(call->desc, 0) >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < image->dim[0] * image->dim[1]; ++c) {
    cr_real *plane = cr_as_reals(call->buffer, 1) + c * s->in_count;
    memset(plane, 0, (size_t)s->in_count * sizeof *plane);
    cr_ref_fold_add(s, cr_as_values(call->buffer, 0) + c * s->kernel_count * s->out_count, plane);
  }
  return CREMA_OK;
}

CR_REF_KERNEL(im2col, IM2COL, .plan = im2col_plan, .run = im2col, .destroy = cr_plan_release);
CR_REF_KERNEL(col2im, COL2IM, .plan = col2im_plan, .run = col2im, .destroy = cr_plan_release);
