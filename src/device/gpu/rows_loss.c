/* Rows of sums over many positions: reductions, losses, accuracy, and the losses' gradients. */
#include <inttypes.h>

#include "core/fail.h"
#include "device/backend/op_check.h"
#include "device/gpu/kernels/device_functions.h"
#include "device/gpu/rows.h"

enum { MOST_PARTS = 512 };

static size_t part_bytes(int64_t count) {
  return 2 * (size_t)cr_gpu_parts(count, MOST_PARTS) * sizeof(double);
}

/* Sums args->count terms of device function `function` into the results of `total`. */
static crema_status add_up(const cr_call *call, cr_device_function function, cr_loss_args *args,
                           cr_total_args *total) {
  args->parts = cr_gpu_parts(args->count, MOST_PARTS);
  args->part = cr_gpu_scratchpad(call, 0);
  total->part = args->part;
  total->parts = args->parts;
  args->total = *total;
  CR_TRY(cr_gpu_blocks_in(call, function, args, args->parts, args->count / args->parts));
  if (args->parts == 1) return CREMA_OK;
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_total, total, 1, args->parts);
}

/* src, result (F64). */
static crema_status reduce_plan(cr_plan *plan) {
  plan->workspace_bytes = part_bytes(cr_op_arg_count(plan->desc, 0));
  return CREMA_OK;
}

static crema_status reduce(const cr_call *call) {
  cr_loss_args args = {.x = cr_gpu_values(call, 0),
                       .count = cr_op_arg_count(call->desc, 0),
                       .reduction = (int)call->desc->u.reduce};
  cr_total_args total = {.sum = (double *)call->buffer[1].address}; /* NOLINT */
  return add_up(call, CR_DEVICE_FUNCTION_reduce_parts, &args, &total);
}

/* prob (outer, C, inner), label (outer, inner). */
static crema_status labels_plan(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(cr_check_labels(plan));
  plan->workspace_bytes = part_bytes(s.outer * s.inner);
  return CREMA_OK;
}

/* Without the ignored label, which each op keeps in a separate field. */
static cr_loss_args ref_args(const cr_call *call) {
  const cr_split s = cr_op_split(call->desc, 0, 1);
  return (cr_loss_args){.x = cr_gpu_values(call, 0),
                        .label = cr_gpu_values(call, 1),
                        .count = s.outer * s.inner,
                        .classes = s.channels,
                        .inner = s.inner,
                        .fault = cr_gpu_fault_of(call->context),
                        .alpha = call->scalars != NULL ? (float)call->scalars->alpha : 1};
}

/* For ops whose parameters are u.nll. */
static cr_loss_args label_args(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.has_ignore = call->desc->u.nll.has_ignore;
  args.ignore = call->desc->u.nll.ignore;
  return args;
}

/* The bytes of the parts of the sums, which probabilities follow that are not kept. */
static size_t sum_bytes(const cr_op_desc *desc) {
  return cr_gpu_rounded(part_bytes(cr_op_arg_count(desc, 1)));
}

static bool has_argument(const cr_op_desc *desc, int i) {
  return desc->args > i && desc->arg[i].shape.axes >= 0;
}

static crema_status softmax_loss_plan(cr_plan *plan) {
  CR_TRY(cr_check_labels(plan));
  plan->workspace_bytes = sum_bytes(plan->desc);
  if (!has_argument(plan->desc, 2) && !has_argument(plan->desc, 5)) {
    plan->workspace_bytes += (size_t)cr_op_arg_count(plan->desc, 0) * sizeof(float);
  }
  return CREMA_OK;
}

/* scores, label, prob, loss, count, gain, each. Without gain the loss is computed from the
 * probability, unless this has been rounded. */
static crema_status softmax_loss_fwd(const cr_call *call) {
  cr_loss_args args = label_args(call);
  cr_hd_values prob = cr_gpu_values(call, 2);
  cr_total_args total = {.first = cr_gpu_f32(call, 3), .second = cr_gpu_f32(call, 4)};
  if (call->desc->args > 5) args.gain = cr_gpu_f32(call, 5);
  if (call->desc->args > 6) args.each = cr_gpu_f32(call, 6);
  const bool keeps = prob.at != NULL;
  if (!keeps) {
    prob = (cr_hd_values){.at = cr_gpu_scratchpad(call, sum_bytes(call->desc)), .type = CREMA_F32};
  }
  args.of_prob = args.gain == NULL && prob.type == CREMA_F32;
  if (keeps || args.of_prob) {
    CR_TRY(cr_gpu_softmax(call, cr_op_split(call->desc, 0, 1), args.x, prob));
  }
  if (args.of_prob) args.x = prob;
  return add_up(call, CR_DEVICE_FUNCTION_softmax_loss_parts, &args, &total);
}

/* prob or scores, label, diff, gain, sums. Probabilities are computed from scores in the memory of
 * the gradient, which replaces them. */
static crema_status softmax_loss_bwd(const cr_call *call) {
  cr_loss_args args = label_args(call);
  args.out = cr_gpu_values(call, 2);
  if (call->desc->u.nll.of_scores) {
    CR_TRY(cr_gpu_softmax(call, cr_op_split(call->desc, 0, 1), args.x, args.out));
    args.x = args.out;
  }
  if (call->desc->args > 3) {
    args.gain = cr_gpu_f32(call, 3);
    args.sums = cr_gpu_f32(call, 4);
  }
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_softmax_loss_bwd, &args);
}

/* prob, labels, loss. */
static crema_status multinomial_fwd(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  cr_total_args total = {.first = cr_gpu_f32(call, 2)};
  return add_up(call, CR_DEVICE_FUNCTION_multinomial_parts, &args, &total);
}

/* prob, labels, diff_loss, diff_prob. */
static crema_status multinomial_bwd(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.factor = cr_gpu_f32(call, 2);
  args.out = cr_gpu_values(call, 3);
  return cr_gpu_each_of(call, 0, CR_DEVICE_FUNCTION_multinomial_bwd, &args);
}

static crema_status accuracy_plan(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(labels_plan(plan));
  if (s.channels > INT32_MAX / 2) {
    return cr_fail(CREMA_E_UNSUPPORTED, "accuracy over %" PRId64 " classes", s.channels);
  }
  /* The parts of the sum, then one hit per position. */
  plan->workspace_bytes += cr_gpu_rounded((size_t)(s.outer * s.inner) * sizeof(int32_t));
  return CREMA_OK;
}

/* score, label, accuracy, per class. */
static crema_status accuracy(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.has_ignore = call->desc->u.accuracy.has_ignore;
  args.ignore = call->desc->u.accuracy.ignore;
  args.top_k = call->desc->u.accuracy.top_k;
  args.hit = cr_gpu_scratchpad(call, part_bytes(args.count));
  args.out = cr_gpu_values(call, 3);
  cr_total_args total = {.first = cr_gpu_f32(call, 2), .share = true};
  CR_TRY(cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_accuracy_hits, &args, args.count,
                          args.inner >= 32 ? 1 : args.classes));
  CR_TRY(add_up(call, CR_DEVICE_FUNCTION_accuracy_parts, &args, &total));
  if (args.out.at == NULL) return CREMA_OK;
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_accuracy_class, &args, args.classes, args.count);
}

/* scores, targets, loss, count. */
static crema_status sigmoid_loss_fwd(const cr_call *call) {
  cr_loss_args args = label_args(call);
  args.count = cr_op_arg_count(call->desc, 0);
  cr_total_args total = {.first = cr_gpu_f32(call, 2), .second = cr_gpu_f32(call, 3)};
  return add_up(call, CR_DEVICE_FUNCTION_sigmoid_loss_parts, &args, &total);
}

/* scores, targets (or labels), diff_loss, diff_scores. */
static crema_status scores_bwd(const cr_call *call, cr_device_function function,
                               cr_loss_args *args) {
  args->count = cr_op_arg_count(call->desc, 0);
  args->factor = cr_gpu_f32(call, 2);
  args->out = cr_gpu_values(call, 3);
  return cr_gpu_each_in(call, function, args, args->count);
}

static crema_status sigmoid_loss_bwd(const cr_call *call) {
  cr_loss_args args = label_args(call);
  return scores_bwd(call, CR_DEVICE_FUNCTION_sigmoid_loss_bwd, &args);
}
static crema_status hinge_bwd(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.norm = call->desc->u.norm;
  return scores_bwd(call, CR_DEVICE_FUNCTION_hinge_bwd, &args);
}

/* scores, labels, loss. */
static crema_status hinge_fwd(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.count = cr_op_arg_count(call->desc, 0);
  args.norm = call->desc->u.norm;
  cr_total_args total = {.first = cr_gpu_f32(call, 2)};
  return add_up(call, CR_DEVICE_FUNCTION_hinge_parts, &args, &total);
}

static cr_loss_args pair_args(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  const cr_split s = cr_op_split(call->desc, 0, 0);
  args.count = s.channels;
  args.classes = s.inner;
  args.gain = cr_gpu_f32(call, 2);
  args.margin = call->desc->u.contrastive.margin;
  args.legacy = call->desc->u.contrastive.legacy;
  return args;
}

/* a, b, similar, loss. */
static crema_status contrastive_fwd(const cr_call *call) {
  cr_loss_args args = pair_args(call);
  cr_total_args total = {.first = cr_gpu_f32(call, 3)};
  return add_up(call, CR_DEVICE_FUNCTION_contrastive_parts, &args, &total);
}

/* a, b, similar, diff_loss, diff_a. */
static crema_status contrastive_bwd(const cr_call *call) {
  cr_loss_args args = pair_args(call);
  args.factor = cr_gpu_f32(call, 3);
  args.out = cr_gpu_values(call, 4);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_contrastive_bwd, &args, args.count);
}

/* a, b, inside, outside. */
static cr_loss_args smooth_args(const cr_call *call) {
  cr_loss_args args = ref_args(call);
  args.count = cr_op_arg_count(call->desc, 0);
  args.inside = cr_gpu_values(call, 2);
  args.outside = cr_gpu_values(call, 3);
  args.sigma2 = call->desc->u.smooth.sigma2;
  return args;
}

/* a, b, inside, outside, loss. */
static crema_status smooth_l1_fwd(const cr_call *call) {
  cr_loss_args args = smooth_args(call);
  cr_total_args total = {.first = cr_gpu_f32(call, 4)};
  return add_up(call, CR_DEVICE_FUNCTION_smooth_l1_parts, &args, &total);
}

/* a, b, inside, outside, diff_loss, diff_a. */
static crema_status smooth_l1_bwd(const cr_call *call) {
  cr_loss_args args = smooth_args(call);
  args.factor = cr_gpu_f32(call, 4);
  args.out = cr_gpu_values(call, 5);
  return cr_gpu_each_in(call, CR_DEVICE_FUNCTION_smooth_l1_bwd, &args, args.count);
}

/* Scores (rows, C), and argument 2 has a number for each row. */
static crema_status row_loss_plan(cr_plan *plan) {
  const cr_split s = cr_op_split(plan->desc, 0, 1);
  CR_TRY(cr_check_labels(plan));
  if (s.inner == 1 && cr_op_arg_count(plan->desc, 2) == s.outer) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "losses of rows of %" PRId64 " x %" PRId64 " scores", s.channels,
                 s.inner);
}

static cr_row_loss_args row_loss_args(const cr_call *call) {
  return (cr_row_loss_args){.x = cr_gpu_values(call, 0),
                            .label = cr_gpu_f32(call, 1),
                            .classes = cr_op_split(call->desc, 0, 1).channels,
                            .logistic = call->desc->u.logistic};
}

/* scores, label, loss. */
static crema_status row_loss(const cr_call *call) {
  cr_row_loss_args args = row_loss_args(call);
  args.loss = cr_gpu_f32(call, 2);
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_row_loss, &args, cr_op_arg_count(call->desc, 2),
                          args.classes);
}

/* scores, label, diff_loss, diff_scores. */
static crema_status row_loss_bwd(const cr_call *call) {
  cr_row_loss_args args = row_loss_args(call);
  args.diff_loss = cr_gpu_f32(call, 2);
  args.alpha = (float)call->scalars->alpha;
  args.out = cr_gpu_values(call, 3);
  return cr_gpu_blocks_in(call, CR_DEVICE_FUNCTION_row_loss_bwd, &args,
                          cr_op_arg_count(call->desc, 2), args.classes);
}

CR_GPU_ROW(reduce, REDUCE, reduce, .plan = reduce_plan);
CR_GPU_ROW(softmax_loss_fwd, SOFTMAX_LOSS_FWD, softmax_loss_fwd, .plan = softmax_loss_plan);
CR_GPU_SCALARS_ROW(softmax_loss_bwd, SOFTMAX_LOSS_BWD, softmax_loss_bwd, .plan = labels_plan);
CR_GPU_ROW(accuracy, ACCURACY, accuracy, .plan = accuracy_plan);
CR_GPU_ROW(sigmoid_loss_fwd, SIGMOID_LOSS_FWD, sigmoid_loss_fwd, .plan = reduce_plan);
CR_GPU_SCALARS_ROW(sigmoid_loss_bwd, SIGMOID_LOSS_BWD, sigmoid_loss_bwd, .plan = NULL);
CR_GPU_ROW(hinge_fwd, HINGE_FWD, hinge_fwd, .plan = reduce_plan);
CR_GPU_SCALARS_ROW(hinge_bwd, HINGE_BWD, hinge_bwd, .plan = NULL);
CR_GPU_ROW(contrastive_fwd, CONTRASTIVE_FWD, contrastive_fwd, .plan = reduce_plan);
CR_GPU_SCALARS_ROW(contrastive_bwd, CONTRASTIVE_BWD, contrastive_bwd, .plan = NULL);
CR_GPU_ROW(row_loss, ROW_LOSS, row_loss, .plan = row_loss_plan);
CR_GPU_SCALARS_ROW(row_loss_bwd, ROW_LOSS_BWD, row_loss_bwd, .plan = row_loss_plan);
CR_GPU_ROW(smooth_l1_fwd, SMOOTH_L1_FWD, smooth_l1_fwd, .plan = reduce_plan);
CR_GPU_SCALARS_ROW(smooth_l1_bwd, SMOOTH_L1_BWD, smooth_l1_bwd, .plan = NULL);
CR_GPU_ROW(multinomial_fwd, MULTINOMIAL_FWD, multinomial_fwd, .plan = labels_plan);
CR_GPU_SCALARS_ROW(multinomial_bwd, MULTINOMIAL_BWD, multinomial_bwd, .plan = labels_plan);
