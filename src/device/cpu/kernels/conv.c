/* Convolution, plain (conv.h). */
#include "device/cpu/kernels/conv.h"

static crema_status conv_fwd(const cr_call *call) {
  return cr_conv_forward(call, cr_ref_gemm);
}
static crema_status conv_bwd_data(const cr_call *call) {
  return cr_conv_backward_data(call, cr_ref_gemm);
}
static crema_status conv_bwd_weights(const cr_call *call) {
  return cr_conv_backward_weights(call, cr_ref_gemm);
}

CR_REF_KERNEL(conv_fwd, CONV_FWD, .plan = cr_conv_plan, .run = conv_fwd,
              .destroy = cr_plan_release);
CR_REF_KERNEL(conv_bwd_data, CONV_BWD_DATA, .plan = cr_conv_plan, .run = conv_bwd_data,
              .destroy = cr_plan_release);
CR_REF_KERNEL(conv_bwd_weights, CONV_BWD_WEIGHTS, .can_accumulate = true, .plan = cr_conv_plan,
              .run = conv_bwd_weights, .destroy = cr_plan_release);
