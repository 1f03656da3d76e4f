/* Sums, scaling and updates of tensors, done where the newest values are. */
#include "memory/math.h"

#include <math.h>

#include "core/dtype.h"
#include "core/fail.h"
#include "device/backend/kernel.h"
#include "device/device.h"
#include "device/memory/result.h"
#include "device/memory/scratchpad.h"

typedef struct call {
  cr_op_kind kind;
  cr_reduction reduce;
  cr_tensor *tensor[2]; /* the first is read, the second read and written */
  crema_devptr result;  /* the destination of a sum; then there is no second tensor */
  cr_op_scalars scalars;
} call;

/* A descriptor with room for the arguments. */
typedef union call_desc {
  cr_op_desc desc;
  char bytes[sizeof(cr_op_desc) + 2 * sizeof(cr_op_arg)];
} call_desc;

static void describe(const call *c, cr_op_desc *desc) {
  desc->kind = c->kind;
  desc->type = CREMA_F32;
  if (c->kind == CR_OP_REDUCE) desc->u.reduce = c->reduce;
  desc->args = 2;
  for (int i = 0; i < 2; ++i) {
    const cr_tensor *tensor = c->tensor[i];
    desc->arg[i].shape.axes = 1;
    desc->arg[i].shape.dim[0] = tensor == NULL ? 1 : cr_tensor_count(tensor);
    /* Results of sums are doubles. All other types are computed in float. */
    desc->arg[i].type = tensor == NULL ? CREMA_F64 : CREMA_F32;
  }
}

static crema_status run_kernel(const cr_kernel *kernel, const cr_op_desc *desc, call *c,
                               crema_context *context) {
  cr_format hint[2], format[2];
  for (int i = 0; i < 2; ++i) {
    format[i] = (cr_format){desc->arg[i].type, NULL};
    hint[i] = c->tensor[i] == NULL ? format[i] : cr_tensor_head(c->tensor[i]);
  }
  cr_plan plan = {
      .desc = desc, .context = context, .kernel = kernel, .hint = hint, .format = format};
  if (kernel->plan != NULL) CR_TRY(kernel->plan(&plan));
  crema_devptr buffer[2] = {{0}, c->result}, workspace = {0};
  bool accumulate[2] = {false, false};
  void *execution = NULL;
  crema_status status = CREMA_OK;
  if (kernel->open != NULL) CR_TRY_GOTO(kernel->open(&plan, &execution), done);
  CR_TRY_GOTO(cr_tensor_read(c->tensor[0], context, format[0], &buffer[0]), done);
  if (c->tensor[1] != NULL) {
    CR_TRY_GOTO(cr_tensor_update(c->tensor[1], context, format[1], &buffer[1]), done);
  }
  CR_TRY_GOTO(cr_context_workspace(context, plan.workspace_bytes, &workspace), done);
  status = kernel->run(&(cr_call){.plan = &plan,
                                  .execution = execution,
                                  .desc = plan.desc,
                                  .context = context,
                                  .buffer = buffer,
                                  .accumulate = accumulate,
                                  .scalars = &c->scalars,
                                  .workspace = workspace});
done:
  if (execution != NULL) kernel->close(&plan, execution);
  if (kernel->destroy != NULL) kernel->destroy(&plan);
  return status;
}

/* The first kernel of the back end that accepts the call. CREMA_E_UNSUPPORTED: there is none. */
static crema_status run_call(call *c, crema_context *context) {
  call_desc memory = {.bytes = {0}};
  describe(c, &memory.desc);
  for (const cr_kernel *const *row = context->device->backend->kernels; *row != NULL; ++row) {
    if ((*row)->op != c->kind || (*row)->type != CREMA_F32) continue;
    if (!cr_kernel_takes(*row, CREMA_F32)) continue;
    crema_status status = run_kernel(*row, &memory.desc, c, context);
    if (status != CREMA_E_UNSUPPORTED) return status;
  }
  return cr_fail(CREMA_E_UNSUPPORTED, "no kernel on %s", context->device->backend->name);
}

/* A context on the device that has the newest values, or on the CPU if only the host has them. */
static crema_status context_at(const cr_tensor *tensor, crema_context **out) {
  return cr_thread_context(cr_tensor_head_device(tensor), 0, out);
}

/* Eight partial sums hide the latency of the adder; the order is the same in every run. */
enum { LANES = 8 };

static double sum_of(const float *value, int64_t count, bool squared) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    for (int l = 0; l < LANES; ++l) {
      double x = value[i + l];
      lane[l] += squared ? x * x : fabs(x);
    }
  }
  for (int l = 0; i < count; ++i, ++l) {
    double x = value[i];
    lane[l] += squared ? x * x : fabs(x);
  }
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static crema_status sum_on_host(cr_tensor *tensor, bool squared, double *out) {
  crema_dtype type = cr_tensor_type(tensor);
  int64_t count = cr_tensor_count(tensor);
  cr_format format = {type == CREMA_F64 ? CREMA_F64 : CREMA_F32, NULL};
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), format, &data));
  if (type != CREMA_F64) {
    *out = sum_of((const float *)data.address, count, squared);
    return CREMA_OK;
  }
  const double *value = (const double *)data.address;
  *out = 0;
  for (int64_t i = 0; i < count; ++i) *out += squared ? value[i] * value[i] : fabs(value[i]);
  return CREMA_OK;
}

static crema_status sum_on_device(cr_tensor *tensor, crema_context *context, bool squared,
                                  double *out) {
  call c = {.kind = CR_OP_REDUCE,
            .reduce = squared ? CR_REDUCE_SUMSQ : CR_REDUCE_ASUM,
            .tensor = {tensor}};
  CR_TRY(cr_context_result(context, &c.result));
  CR_TRY(run_call(&c, context));
  return cr_context_read_result(context, out);
}

static crema_status check_floating(const cr_tensor *tensor, const char *what) {
  crema_dtype type = cr_tensor_type(tensor);
  if (cr_dtype_is_floating(type)) return CREMA_OK;
  return cr_fail(CREMA_E_TYPE, "no %s of values of type %s", what, crema_dtype_name(type));
}

static crema_status sum_tensor(cr_tensor *tensor, bool squared, double *out) {
  CR_TRY(check_floating(tensor, "sum"));
  if (cr_tensor_is_zero(tensor)) {
    *out = 0;
    return CREMA_OK;
  }
  crema_context *context = NULL;
  CR_TRY(context_at(tensor, &context));
  if (!context->device->backend->host_memory && cr_tensor_type(tensor) == CREMA_F32) {
    crema_status status = sum_on_device(tensor, context, squared, out);
    if (status != CREMA_E_UNSUPPORTED) return status;
  }
  return sum_on_host(tensor, squared, out);
}

crema_status cr_tensor_asum(cr_tensor *tensor, double *out) {
  return sum_tensor(tensor, false, out);
}

crema_status cr_tensor_sumsq(cr_tensor *tensor, double *out) {
  return sum_tensor(tensor, true, out);
}

crema_status cr_tensor_amax(cr_tensor *tensor, double *out) {
  CR_TRY(check_floating(tensor, "largest value"));
  bool doubles = cr_tensor_type(tensor) == CREMA_F64;
  int64_t count = cr_tensor_count(tensor);
  crema_devptr data = {0};
  double most = 0;
  *out = 0;
  if (cr_tensor_is_zero(tensor)) return CREMA_OK;
  CR_TRY(cr_tensor_read(tensor, cr_host_context(),
                        (cr_format){doubles ? CREMA_F64 : CREMA_F32, NULL}, &data));
  /* NaN stays. */
  for (int64_t i = 0; i < count; ++i) {
    const double value = fabs(doubles ? ((const double *)data.address)[i]
                                      : (double)((const float *)data.address)[i]);
    if (!isnan(most) && !(value <= most)) most = value;
  }
  *out = most;
  return CREMA_OK;
}

/* The same for doubles, which no back end's kernels take. */
static crema_status axpby_doubles(cr_tensor *x, cr_tensor *y, double alpha, double beta) {
  crema_devptr from = {0}, to = {0};
  cr_format doubles = {CREMA_F64, NULL};
  CR_TRY(cr_tensor_read(x, cr_host_context(), doubles, &from));
  CR_TRY(cr_tensor_update(y, cr_host_context(), doubles, &to));
  const double *a = (const double *)from.address;
  double *b = (double *)to.address;
  for (int64_t i = 0; i < cr_tensor_count(y); ++i) {
    b[i] = beta == 0 ? alpha * a[i] : alpha * a[i] + beta * b[i]; /* 0 times infinity is no 0 */
  }
  return CREMA_OK;
}

/* y = alpha x + beta y, on the device of y's newest values, or of x's if y is all zero. */
static crema_status axpby(cr_tensor *x, cr_tensor *y, float alpha, float beta) {
  if (cr_tensor_type(y) == CREMA_F64) return axpby_doubles(x, y, alpha, beta);
  crema_context *context = NULL;
  CR_TRY(context_at(cr_tensor_is_zero(y) ? x : y, &context));
  call c = {.kind = CR_OP_AXPBY, .tensor = {x, y}, .scalars = {.alpha = alpha, .beta = beta}};
  crema_status status = run_call(&c, context);
  if (status == CREMA_E_UNSUPPORTED && !context->device->backend->host_memory) {
    status = run_call(&c, cr_host_context());
  }
  return status;
}

crema_status cr_tensor_scale(cr_tensor *tensor, float factor) {
  CR_TRY(check_floating(tensor, "scaling"));
  if (cr_tensor_is_zero(tensor)) return CREMA_OK;
  return axpby(tensor, tensor, factor, 0);
}

crema_status cr_tensor_subtract(cr_tensor *tensor, cr_tensor *difference) {
  CR_TRY(check_floating(tensor, "update"));
  if (cr_tensor_count(tensor) != cr_tensor_count(difference)) {
    return cr_fail(CREMA_E_SHAPE, "an update of values and differences of unequal count");
  }
  if (cr_tensor_is_new(tensor)) {
    return cr_fail(CREMA_E_STATE, "an update of values that were never set");
  }
  if (cr_tensor_is_zero(difference)) return CREMA_OK;
  return axpby(difference, tensor, -1, 1);
}
