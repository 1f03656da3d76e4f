/* Inner product, plain (inner_product.h). */
#include "device/cpu/kernels/inner_product.h"

static crema_status ip_fwd(const cr_call *call) {
  return cr_ip_forward(call, cr_ref_gemm);
}
static crema_status ip_bwd_data(const cr_call *call) {
  return cr_ip_backward_data(call, cr_ref_gemm);
}
static crema_status ip_bwd_weights(const cr_call *call) {
  return cr_ip_backward_weights(call, cr_ref_gemm);
}

CR_REF_KERNEL(ip_fwd, IP_FWD, .plan = cr_ip_fwd_plan, .run = ip_fwd, .destroy = cr_plan_release);
CR_REF_KERNEL(ip_bwd_data, IP_BWD_DATA, .plan = cr_ip_bwd_data_plan, .run = ip_bwd_data,
              .destroy = cr_plan_release);
CR_REF_KERNEL(ip_bwd_weights, IP_BWD_WEIGHTS, .can_accumulate = true,
              .plan = cr_ip_bwd_weights_plan, .run = ip_bwd_weights, .destroy = cr_plan_release);
