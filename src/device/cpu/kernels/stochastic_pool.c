/* Stochastic pooling (Zeiler and Fergus, "Stochastic pooling for regularization of deep
 * convolutional neural networks", 2013) over any number of spatial axes. Output element i draws
 * with word i % 4 of the counter-based generator at (s.seed, s.counter, i / 4), so that the result
 * does not depend on threads. */
#include "core/fail.h"
#include "core/rng.h"
#include "device/cpu/kernels/element_type.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/pool.h"

static crema_status plan_forward(cr_plan *plan) {
  return cr_pooling_plan(plan, &plan->desc->arg[0].shape, &plan->desc->arg[1].shape);
}

/* The sums of a window's values and of their squares. */
typedef struct window_sums {
  double value, square;
} window_sums;

static window_sums sum_window(const cr_slide *s, const cr_span *span, const cr_real *plane) {
  window_sums sums = {0, 0};
  if (span->empty) return sums;
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  memcpy(at, span->begin, sizeof at);
  do {
    const cr_real *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      const double value = (double)row[x];
      sums.value += value;
      sums.square += value * value;
    }
  } while (cr_span_next(s, span, at));
  return sums;
}

/* An element of the window: its index in the input plane and in the unclipped window. */
typedef struct window_element {
  int64_t in_plane;
  int32_t in_window;
} window_element;

static window_element element_at(const cr_slide *s, const cr_span *span, const int64_t *at) {
  return (window_element){cr_slide_in_index(s, at), cr_span_index(s, span, at)};
}

/* The first element at which the running sum exceeds `target`; failing that, the last element with
 * a positive value; failing that, the first element. */
static window_element draw(const cr_slide *s, const cr_span *span, const cr_real *plane,
                           double target) {
  const int last = s->axes - 1;
  int64_t at[CR_MAX_SPATIAL];
  double sum = 0;
  memcpy(at, span->begin, sizeof at);
  window_element chosen = element_at(s, span, at);
  do {
    const cr_real *row = plane + cr_slide_in_index(s, at) - at[last];
    for (int64_t x = span->begin[last]; x < span->end[last]; ++x) {
      if (!(row[x] > 0)) continue;
      sum += (double)row[x];
      int64_t here[CR_MAX_SPATIAL];
      memcpy(here, at, sizeof here);
      here[last] = x;
      chosen = element_at(s, span, here);
      if (sum > target) return chosen;
    }
  } while (cr_span_next(s, span, at));
  return chosen;
}

/* src (N,C,S...), dst (N,C,S'...), aux. */
static crema_status forward(const cr_call *call) {
  if (!call->scalars) return cr_fail(CREMA_E_ARGUMENT, "stochastic pooling without a seed");
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
  int32_t *aux = (int32_t *)call->buffer[2].address;
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    const cr_real *plane = src + c * s->in_count;
    for (int64_t i = 0; i < s->out_count; ++i) {
      const int64_t to = c * s->out_count + i;
      uint32_t word[4];
      cr_span span;
      cr_slide_span(s, i, &span);
      if (span.empty) {
        dst[to] = 0;
        aux[to] = -1;
        continue;
      }
      cr_philox(call->scalars->seed, call->scalars->counter, (uint64_t)to / 4, word);
      const double share = (double)word[to % 4] / 4294967296.0;
      const window_element drawn = draw(s, &span, plane, share * sum_window(s, &span, plane).value);
      dst[to] = plane[drawn.in_plane];
      aux[to] = drawn.in_window;
    }
  }
  return CREMA_OK;
}

/* src, dst. */
static crema_status average(const cr_call *call) {
  const cr_pooling *p = call->plan->state;
  const cr_slide *s = &p->slide;
  const cr_real *src = cr_as_reals(call->buffer, 0);
  cr_real *dst = cr_as_reals(call->buffer, 1);
#pragma omp parallel for schedule(static) if (p->planes * s->out_count >= CR_REF_PARALLEL_MIN)
  for (int64_t c = 0; c < p->planes; ++c) {
    for (int64_t i = 0; i < s->out_count; ++i) {
      cr_span span;
      cr_slide_span(s, i, &span);
      const window_sums sums = sum_window(s, &span, src + c * s->in_count);
      const cr_real mean = sums.value > 0 ? (cr_real)(sums.square / sums.value) : 0;
      dst[c * s->out_count + i] = mean;
    }
  }
  return CREMA_OK;
}

/* diff_dst, aux, diff_src. */
static crema_status backward(const cr_call *call) {
  cr_ref_pool_bwd(call, false);
  return CREMA_OK;
}

CR_REF_KERNEL(stochastic_pool_fwd, STOCHASTIC_POOL_FWD, .plan = plan_forward, .run = forward,
              .destroy = cr_plan_release);
CR_REF_KERNEL(stochastic_pool_test, STOCHASTIC_POOL_TEST, .plan = plan_forward, .run = average,
              .destroy = cr_plan_release);
CR_REF_KERNEL(stochastic_pool_bwd, STOCHASTIC_POOL_BWD, .plan = cr_ref_pool_plan_bwd,
              .run = backward, .destroy = cr_plan_release);
