/* Checks of an op's arguments and parameters that kernels of every back end make at plan time. Each
 * can be a kernel's plan(): it looks only at plan->desc. Errors: CREMA_E_SHAPE, unless stated
 * otherwise. */
#ifndef CR_DEVICE_BACKEND_OP_CHECK_H
#define CR_DEVICE_BACKEND_OP_CHECK_H

#include "device/backend/kernel.h"

/* The parts together form the whole along u.axis. */
crema_status cr_check_concat(cr_plan *plan) CREMA_MUST_USE;
crema_status cr_check_slice(cr_plan *plan) CREMA_MUST_USE;

/* The window at u.offset is inside the larger array. */
crema_status cr_check_crop(cr_plan *plan) CREMA_MUST_USE;

/* Axis a of the result has the extent of axis u.order[a] of the source. */
crema_status cr_check_permute(cr_plan *plan) CREMA_MUST_USE;

/* ARG_MAX requests at most the number of existing values. */
crema_status cr_check_arg_max(cr_plan *plan) CREMA_MUST_USE;

/* The bias of GATHER_FWD, if there is one, has a value for each column. */
crema_status cr_check_gather(cr_plan *plan) CREMA_MUST_USE;

/* Argument 1 has a label for each position of argument 0 (outer, C, inner). */
crema_status cr_check_labels(cr_plan *plan) CREMA_MUST_USE;

/* Source and result have one element type that has values. Errors: CREMA_E_UNSUPPORTED. */
crema_status cr_check_copy(cr_plan *plan) CREMA_MUST_USE;

/* Argument 0 has four axes, and u.lrn a size. */
crema_status cr_check_lrn(cr_plan *plan) CREMA_MUST_USE;

/* Gradient and history are shaped like the weight. */
crema_status cr_check_update(cr_plan *plan) CREMA_MUST_USE;

/* Both factors of SEGMENT_DOTS have the same number of elements. At run time: there is a segment
 * for each result (CREMA_E_ARGUMENT). */
crema_status cr_check_dots(cr_plan *plan) CREMA_MUST_USE;
crema_status cr_check_dots_segments(const cr_call *call) CREMA_MUST_USE;

/* For argument `state` of shape (T,N,D): argument `gates` has `per_unit` values for each of its
 * values, and `cont`, `weights` and `first`, which may be absent, belong to these. */
crema_status cr_check_recurrence(const cr_plan *plan, int state, int gates, int64_t per_unit,
                                 int cont, int weights, int first) CREMA_MUST_USE;
crema_status cr_check_lstm_unit(cr_plan *plan) CREMA_MUST_USE;

/* Arguments `src` and `dst` have four axes, and the same numbers of samples and channels. */
crema_status cr_check_maps(const cr_plan *plan, int src, int dst) CREMA_MUST_USE;

/* Whether the rule has a second history. */
bool cr_update_needs_two(cr_update_rule rule);

#endif
