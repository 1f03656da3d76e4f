/* The calls of device/gpu/launch.h on the host: every device function runs as C, element by
 * element; thread blocks are threads that meet at a barrier, so that a lane that forgets to wait
 * for the others is seen (by the thread sanitizer above all). */
#include "device/gpu/launch.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/gpu/kernels/values.h"
#include "functions_host.h"

enum { LANES = 3 };

/* ---- thread blocks ---- */

typedef struct meeting {
  pthread_barrier_t barrier;
  double value[LANES];
} meeting;

double cr_thread_block_sum(cr_thread_block thread_block, double value) {
  if (thread_block.lanes == 1) return value;
  meeting *m = thread_block.host;
  m->value[thread_block.lane] = value;
  pthread_barrier_wait(&m->barrier);
  double sum = 0;
  for (int i = 0; i < thread_block.lanes; ++i) sum += m->value[i];
  pthread_barrier_wait(&m->barrier);
  return sum;
}

float cr_thread_block_max(cr_thread_block thread_block, float value) {
  if (thread_block.lanes == 1) return value;
  meeting *m = thread_block.host;
  m->value[thread_block.lane] = (double)value;
  pthread_barrier_wait(&m->barrier);
  float top = (float)m->value[0];
  for (int i = 1; i < thread_block.lanes; ++i)
    top = (float)m->value[i] > top ? (float)m->value[i] : top;
  pthread_barrier_wait(&m->barrier);
  return top;
}

typedef struct lane {
  pthread_t thread;
  host_thread_block function;
  const void *args;
  int64_t segments;
  cr_thread_block thread_block;
} lane;

static void *run_lane(void *state) {
  lane *l = state;
  for (int64_t s = 0; s < l->segments; ++s) l->function(l->args, s, l->thread_block);
  return NULL;
}

static crema_status run_thread_block(host_thread_block function, const void *args, int64_t segments,
                                     int lanes) {
  meeting m;
  lane l[LANES];
  if (pthread_barrier_init(&m.barrier, NULL, (unsigned)lanes) != 0) {
    return cr_fail(CREMA_E_INTERNAL, "no barrier");
  }
  int started = 0;
  for (int i = 0; i < lanes; ++i) {
    l[i] = (lane){.function = function, .args = args, .segments = segments};
    l[i].thread_block = (cr_thread_block){.lane = i, .lanes = lanes, .host = &m};
    if (lanes == 1) run_lane(&l[i]);
    else if (pthread_create(&l[i].thread, NULL, run_lane, &l[i]) == 0) ++started;
    else abort(); /* the other lanes would wait for ever */
  }
  for (int i = 0; i < started; ++i) pthread_join(l[i].thread, NULL);
  pthread_barrier_destroy(&m.barrier);
  return CREMA_OK;
}

crema_status cr_gpu_enter(const crema_device *device, int *before) {
  (void)device;
  *before = -1;
  return CREMA_OK;
}

void cr_gpu_leave(int before) {
  (void)before;
}

static const host_body *find(int function) {
  static const host_body *const forms[CR_FORMS] = {host_functions_any, host_functions_f32,
                                                   host_functions_f16, host_functions_bf16};
  return &forms[cr_gpu_form_of(function)][cr_gpu_number_of(function)];
}

crema_status cr_gpu_start(crema_context *context, const cr_gpu_launch *launch) {
  (void)context;
  const host_body *f = find(launch->function);
  if ((f->thread_block != NULL) != (launch->lanes > 0)) {
    return cr_fail(CREMA_E_INTERNAL, "%s %s a thread block", cr_gpu_function_name(launch->function),
                   launch->lanes > 0 ? "has no" : "has");
  }
  if (launch->lanes > 0) {
    return run_thread_block(f->thread_block, launch->args, launch->count,
                            launch->lanes == 1 ? 1 : LANES);
  }
  host_run_each(f, launch->args, launch->count, cr_gpu_is_packed(launch->function));
  return CREMA_OK;
}

/* One for all contexts: rows run on threads of a simulated device, and another one waits. */
const uint64_t *cr_gpu_passes(crema_context *context) {
  (void)context;
  return NULL;
}

cr_gpu_fault *cr_gpu_fault_of(crema_context *context) {
  (void)context;
  static cr_gpu_fault fault;
  return &fault;
}

/* ---- matrix products ---- */

struct cr_gemm_plan {
  cr_gemm_shape shape;
};

crema_status cr_gemm_plan_create(crema_context *context, const cr_gemm_shape *shape,
                                 cr_gemm_plan **out, size_t *workspace) {
  (void)context;
  /* As libraries do, not everywhere. */
  if (shape->bias && (shape->m == 1 || shape->n == 1)) {
    return cr_fail(CREMA_E_UNSUPPORTED, "no bias on a single row or column");
  }
  cr_gemm_plan *plan = malloc(sizeof *plan);
  if (plan == NULL) return cr_fail_memory(sizeof *plan, "a matrix product");
  plan->shape = *shape;
  *workspace = 100; /* an odd number, so that what lies behind it must be aligned by the row */
  *out = plan;
  return CREMA_OK;
}

crema_status cr_gemm_plan_run(cr_gemm_plan *plan, crema_context *context, const void *a,
                              const void *b, const void *bias, bool accumulate, void *c,
                              crema_devptr workspace) {
  const cr_gemm_shape *s = &plan->shape;
  const cr_hd_values left = {(void *)(uintptr_t)a, (int32_t)s->type};     /* NOLINT */
  const cr_hd_values right = {(void *)(uintptr_t)b, (int32_t)s->type};    /* NOLINT */
  const cr_hd_values added = {(void *)(uintptr_t)bias, (int32_t)s->type}; /* NOLINT */
  const cr_hd_values out = {c, (int32_t)s->type};
  (void)context;
  if (workspace.address == 0 || s->bias != (bias != NULL) || (bias != NULL && accumulate)) {
    return cr_fail(CREMA_E_INTERNAL, "a matrix product is called in another way than planned");
  }
  for (int64_t i = 0; i < s->m; ++i) {
    for (int64_t j = 0; j < s->n; ++j) {
      double sum = accumulate ? (double)cr_get(out, i * s->n + j) : 0;
      for (int64_t p = 0; p < s->k; ++p) {
        const float x = cr_get(left, s->a_transposed ? p * s->m + i : i * s->k + p);
        const float y = cr_get(right, s->b_transposed ? j * s->k + p : p * s->n + j);
        sum += (double)x * (double)y;
      }
      cr_put(out, i * s->n + j, (float)(sum + (bias != NULL ? (double)cr_get(added, j) : 0)));
    }
  }
  return CREMA_OK;
}

void cr_gemm_plan_destroy(cr_gemm_plan *plan) {
  free(plan);
}
