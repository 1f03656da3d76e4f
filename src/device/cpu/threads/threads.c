#include "device/cpu/threads/threads.h"

#include <stdlib.h>

#include "core/fail.h"
#include "core/signals.h"
#include "device/cpu/threads/omp_team.h"
#include "device/cpu/threads/waiting.h"

/* The number of multiply-adds that take the time of waking a thread and waiting for its end, and
 * the number that an element of a memory-bound op counts for. */
static const double GRAIN = 2e5, ELEMENT = 12;

static double work_of(const cr_op_desc *desc) {
  const cr_op_cost cost = cr_op_kind_cost(desc->kind);
  double elements = 0;
  switch (cost.kind) {
    case CR_COST_WINDOWS: {
      double outputs = (double)desc->arg[cost.weights].shape.dim[0];
      elements = (double)cr_op_arg_count(desc, cost.result);
      return outputs > 0 ? elements * (double)cr_op_arg_count(desc, cost.weights) / outputs : 0;
    }
    case CR_COST_MATRIX:
      return (double)desc->arg[0].shape.dim[0] * (double)cr_op_arg_count(desc, cost.weights);
    case CR_COST_ELEMENTS: break;
  }
  for (int i = 0; i < desc->args; ++i) elements += (double)cr_op_arg_count(desc, i);
  return elements * ELEMENT;
}

static int threads_for(double work, int most) {
  double worth = work / GRAIN;
  return worth >= most ? most : worth < 1 ? 1 : (int)worth;
}

int cr_cpu_threads_for(const cr_op_desc *desc, int most) {
  return threads_for(work_of(desc), most);
}

int cr_cpu_workers(const crema_context *context, double multiply_adds) {
  return threads_for(multiply_adds, cr_cpu_threads_of(context));
}

/* The failure of the lowest index so far. */
typedef struct first_failure {
  crema_status status;
  int64_t index;
  cr_error *error;
} first_failure;

static void keep_failure(first_failure *first, crema_status status, int64_t index) {
  if (first->status != CREMA_OK && first->index < index) return;
  free(first->error);
  *first = (first_failure){status, index, cr_error_keep()};
}

static crema_status end_work(first_failure *first) {
  if (first->status != CREMA_OK) first->status = cr_error_again(first->status, first->error);
  free(first->error);
  return first->status;
}

#ifdef _OPENMP
#include <omp.h>

static int limit(int threads, int before) {
  if (threads >= before) return 0;
  omp_set_num_threads(threads);
  return before;
}

/* OpenMP's threads inherit the signal mask of the thread that first needs them, so crema's threads
 * get no signals. Parallel regions of the caller may have made other threads: one region as wide as
 * any that follows blocks signals in all of them. */
static void block_signals(int threads) {
  static _Thread_local struct {
    unsigned hold;
    int threads;
  } seen;
  unsigned hold = cr_signals_hold_number();
  if (hold == 0 || threads == 1 || (hold == seen.hold && threads <= seen.threads)) return;
  seen.hold = hold;
  seen.threads = threads;
#pragma omp parallel num_threads(threads)
  cr_signals_block();
}

int cr_cpu_threads_of(const crema_context *context) {
  const int all = omp_get_max_threads(), most = context->threads;
  return most > 0 && most < all ? most : all;
}

int cr_cpu_enter_plan(cr_plan *plan) {
  cr_signals_hold();
  int before = omp_get_max_threads(), most = plan->most_threads;
  if (most == 0 || most > before) most = before;
  if (most > 1) cr_cpu_waiting_planned(); /* before there are threads that wait */
  plan->threads = cr_cpu_team(cr_cpu_threads_for(plan->desc, most));
  return limit(plan->threads, before);
}

int cr_cpu_enter_run(const cr_plan *plan) {
  cr_signals_hold();
  int before = omp_get_max_threads();
  if (plan->threads > 1) cr_cpu_waiting_look();
  int threads = cr_cpu_team(plan->threads);
  block_signals(threads < before ? threads : before);
  return limit(threads, before);
}

int cr_cpu_enter_move(const crema_context *context, int64_t elements) {
  cr_signals_hold();
  int before = omp_get_max_threads();
  int threads =
      cr_cpu_team(threads_for((double)elements * 2 * ELEMENT, cr_cpu_threads_of(context)));
  block_signals(threads);
  return limit(threads, before);
}

void cr_cpu_leave(int before) {
  if (before > 0) omp_set_num_threads(before);
  cr_cpu_waiting_leave();
  cr_signals_release();
}

crema_status cr_cpu_spread(int workers, int64_t count, cr_host_work *work, void *state) {
  const cr_plan plan = {.threads = workers > 1 && cr_openmp_is_ready() ? workers : 1};
  first_failure first = {.status = CREMA_OK};
  const int before = cr_cpu_enter_run(&plan);
#pragma omp parallel for schedule(dynamic) if (plan.threads > 1)
  for (int64_t i = 0; i < count; ++i) {
    const crema_status status = work(state, omp_get_thread_num(), i);
    if (status == CREMA_OK) continue;
#pragma omp critical(cr_cpu_spread)
    keep_failure(&first, status, i);
  }
  cr_cpu_leave(before);
  return end_work(&first);
}

#else

int cr_cpu_threads_of(const crema_context *context) {
  (void)context;
  return 1;
}

int cr_cpu_enter_plan(cr_plan *plan) {
  cr_signals_hold();
  plan->threads = 1;
  return 0;
}

int cr_cpu_enter_run(const cr_plan *plan) {
  (void)plan;
  cr_signals_hold();
  return 0;
}

int cr_cpu_enter_move(const crema_context *context, int64_t elements) {
  (void)context, (void)elements;
  cr_signals_hold();
  return 0;
}

void cr_cpu_leave(int before) {
  (void)before;
  cr_signals_release();
}

crema_status cr_cpu_spread(int workers, int64_t count, cr_host_work *work, void *state) {
  first_failure first = {.status = CREMA_OK};
  (void)workers;
  for (int64_t i = 0; i < count; ++i) {
    const crema_status status = work(state, 0, i);
    if (status != CREMA_OK) keep_failure(&first, status, i);
  }
  return end_work(&first);
}

#endif
