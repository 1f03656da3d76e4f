/* For weight w, gradient g, momentum m, and rate r of the schedule:
 *
 *   l = (1 - m) larc_eta |w| / |g|       1 if one of the norms is 0
 *   l = l (1 - 0.9 c)                    with larc_turbo, from iteration 2 on
 *   rate = r l, or min(r, l) for larc_policy clip
 *
 * where c = 0.95 c + 0.05 g.h / (|g| |h|), h the history of the momentum: parameters whose
 * gradients keep their direction learn slower, those whose gradients turn learn faster. */
#include "solver/larc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "ops/op.h"

/* Earlier, the history is empty or a gradient alone. */
enum { FIRST_CORRELATED = 2 };

static const double smoothing = 0.95, strength = 0.9;

/* g.h of one parameter: products in single precision, summed in double. */
typedef struct dot_ops {
  cr_op *multiply, *sum;
  cr_tensor *product;
} dot_ops;

struct cr_larc {
  crema_net *net;
  crema_blob *const *history;
  bool clips;
  double eta;
  double *correlation; /* NULL without larc_turbo; so are `dot` and `result` */
  dot_ops *dot;
  cr_tensor *result;
};

static crema_status make_multiply(const crema_shape *shape, cr_op **out) {
  const cr_op_desc product = {.kind = CR_OP_PROD, .type = CREMA_F32};
  cr_op_desc *desc = NULL;
  CR_TRY(cr_op_describe(&product, 3, (const crema_shape *[]){shape, shape, shape}, NULL, &desc));
  return cr_op_create(&desc, out);
}

static crema_status make_sum(const crema_shape *shape, cr_op **out) {
  const crema_shape one = cr_shape_1(1);
  const cr_op_desc sum = {.kind = CR_OP_REDUCE, .type = CREMA_F32, .u.reduce = CR_REDUCE_SUM};
  cr_op_desc *desc = NULL;
  CR_TRY(cr_op_describe(&sum, 2, (const crema_shape *[]){shape, &one}, NULL, &desc));
  return cr_op_create(&desc, out);
}

static crema_status start_turbo(cr_larc *larc) {
  size_t params = (size_t)larc->net->learnables;
  larc->correlation = calloc(params + 1, sizeof *larc->correlation);
  larc->dot = calloc(params + 1, sizeof *larc->dot);
  if (larc->correlation == NULL || larc->dot == NULL) {
    return cr_fail_memory(params * sizeof *larc->dot, "a solver");
  }
  for (int i = 0; i < larc->net->learnables; ++i) {
    const crema_blob *blob = larc->net->learnable[i];
    CR_TRY(cr_tensor_create(CREMA_F32, crema_blob_count(blob), &larc->dot[i].product));
    CR_TRY(make_multiply(crema_blob_shape(blob), &larc->dot[i].multiply));
    CR_TRY(make_sum(crema_blob_shape(blob), &larc->dot[i].sum));
  }
  return cr_tensor_create(CREMA_F64, 1, &larc->result);
}

crema_status cr_larc_create(const Caffe__SolverParameter *param, crema_net *net,
                            crema_blob *const *history, cr_larc **out) {
  cr_larc *larc = calloc(1, sizeof *larc);
  if (larc == NULL) return cr_fail_memory(sizeof *larc, "a solver");
  crema_status status = CREMA_OK;
  larc->net = net;
  larc->history = history;
  larc->eta = (double)param->larc_eta;
  larc->clips = strcmp(param->larc_policy, "clip") == 0;
  if (!larc->clips && strcmp(param->larc_policy, "scale") != 0) {
    status = cr_fail(CREMA_E_UNKNOWN_NAME, "unknown larc_policy '%s' (known: scale, clip)",
                     param->larc_policy);
    goto fail;
  }
  if (param->larc_turbo) CR_TRY_GOTO(start_turbo(larc), fail);
  *out = larc;
  return CREMA_OK;
fail:
  cr_larc_destroy(larc);
  return status;
}

void cr_larc_destroy(cr_larc *larc) {
  if (larc == NULL) return;
  for (int i = 0; larc->dot != NULL && i < larc->net->learnables; ++i) {
    cr_tensor_destroy(larc->dot[i].product);
    cr_op_destroy(larc->dot[i].sum);
    cr_op_destroy(larc->dot[i].multiply);
  }
  cr_tensor_destroy(larc->result);
  free(larc->dot);
  free(larc->correlation);
  free(larc);
}

static crema_status dot(cr_larc *larc, int i, double *out) {
  const dot_ops *ops = &larc->dot[i];
  crema_context *context = larc->net->context;
  cr_tensor *factors[] = {larc->net->learnable[i]->diff, larc->history[i]->data, ops->product};
  cr_tensor *sum[] = {ops->product, larc->result};
  const void *value = NULL;
  CR_TRY(cr_op_run(ops->multiply, context, factors, NULL));
  CR_TRY(cr_op_run(ops->sum, context, sum, NULL));
  CR_TRY(cr_tensor_host_read(larc->result, &value));
  *out = *(const double *)value;
  return CREMA_OK;
}

/* Advances the correlation of parameter `i`, the norm of whose diff is `gradient`. */
static crema_status correlate(cr_larc *larc, int i, double gradient) {
  double squares, product, now = 0;
  CR_TRY(cr_blob_sumsq_data(larc->history[i], &squares));
  if (gradient > 0 && squares > 0) {
    CR_TRY(dot(larc, i, &product));
    now = product / (gradient * sqrt(squares));
  }
  if (!isfinite(now)) now = 0;
  larc->correlation[i] = smoothing * larc->correlation[i] + (1 - smoothing) * now;
  return CREMA_OK;
}

crema_status cr_larc_rate(cr_larc *larc, int i, const cr_larc_step *step, float *out) {
  crema_blob *blob = larc->net->learnable[i];
  const double rate = (double)step->rate;
  double weight, gradient, local = 1;
  CR_TRY(cr_blob_sumsq_data(blob, &weight));
  CR_TRY(cr_blob_sumsq_diff(blob, &gradient));
  if (weight > 0 && gradient > 0) {
    local = (1 - (double)step->momentum) * larc->eta * sqrt(weight) /
            (sqrt(gradient) * (double)step->grad_scale);
  }
  if (larc->correlation != NULL && step->iteration >= FIRST_CORRELATED) {
    CR_TRY(correlate(larc, i, sqrt(gradient)));
    local *= 1 - strength * larc->correlation[i];
  }
  *out = (float)(larc->clips ? fmin(rate, local) : rate * local);
  return CREMA_OK;
}

double *cr_larc_correlation(cr_larc *larc) {
  return larc == NULL ? NULL : larc->correlation;
}
