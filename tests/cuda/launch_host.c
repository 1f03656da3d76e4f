/* The calls of device/cuda/launch.h on the host: every body runs as C, element by element; teams
 * are threads that meet at a barrier, so that a lane that forgets to wait for the others is seen
 * (by the thread sanitizer above all). */
#include "device/cuda/launch.h"

#include <pthread.h>
#include <stdlib.h>

#include "core/fail.h"
#include "device/cuda/kernels/bodies.h"

enum { LANES = 3 };

typedef void (*each_body)(const void *args, int64_t i);
typedef void (*team_body)(const void *args, int64_t segment, cr_team team);

static const struct {
  each_body each;
  team_body team;
} bodies[] = {
#define CR_EACH(name, args) {.each = cr_##name##_body},
#define CR_TEAM(name, args) {.team = cr_##name##_body},
#include "device/cuda/kernels/bodies.inc"
#undef CR_EACH
#undef CR_TEAM
};

/* ---- teams ---- */

typedef struct meeting {
  pthread_barrier_t barrier;
  double value[LANES];
} meeting;

double cr_team_sum(cr_team team, double value) {
  if (team.lanes == 1) return value;
  meeting *m = team.host;
  m->value[team.lane] = value;
  pthread_barrier_wait(&m->barrier);
  double sum = 0;
  for (int i = 0; i < team.lanes; i++) sum += m->value[i];
  pthread_barrier_wait(&m->barrier);
  return sum;
}

float cr_team_max(cr_team team, float value) {
  if (team.lanes == 1) return value;
  meeting *m = team.host;
  m->value[team.lane] = (double)value;
  pthread_barrier_wait(&m->barrier);
  float top = (float)m->value[0];
  for (int i = 1; i < team.lanes; i++) top = (float)m->value[i] > top ? (float)m->value[i] : top;
  pthread_barrier_wait(&m->barrier);
  return top;
}

void cr_team_meet(cr_team team) {
  if (team.lanes > 1) pthread_barrier_wait(&((meeting *)team.host)->barrier);
}

typedef struct lane {
  pthread_t thread;
  team_body body;
  const void *args;
  int64_t segments;
  cr_team team;
} lane;

static void *run_lane(void *state) {
  lane *l = state;
  for (int64_t s = 0; s < l->segments; s++) l->body(l->args, s, l->team);
  return NULL;
}

static crema_status run_team(team_body body, const void *args, int64_t segments, int lanes) {
  meeting m;
  lane l[LANES];
  if (pthread_barrier_init(&m.barrier, NULL, (unsigned)lanes) != 0) {
    return cr_fail(CREMA_E_INTERNAL, "no barrier");
  }
  int started = 0;
  for (int i = 0; i < lanes; i++) {
    l[i] = (lane){.body = body, .args = args, .segments = segments};
    l[i].team = (cr_team){.lane = i, .lanes = lanes, .host = &m};
    if (lanes == 1) run_lane(&l[i]);
    else if (pthread_create(&l[i].thread, NULL, run_lane, &l[i]) == 0) started++;
    else abort(); /* the other lanes would wait for ever */
  }
  for (int i = 0; i < started; i++) pthread_join(l[i].thread, NULL);
  pthread_barrier_destroy(&m.barrier);
  return CREMA_OK;
}

crema_status cr_cuda_enter(const crema_device *device, int *before) {
  (void)device;
  *before = -1;
  return CREMA_OK;
}

void cr_cuda_leave(int before) {
  (void)before;
}

crema_status cr_cuda_teams(crema_context *context, cr_body body, const void *args, int64_t segments,
                           int64_t length) {
  (void)context;
  if (bodies[body].team == NULL) return cr_fail(CREMA_E_INTERNAL, "body %d has no team", (int)body);
  return run_team(bodies[body].team, args, segments, length <= 1 ? 1 : LANES);
}

crema_status cr_cuda_each(crema_context *context, cr_body body, const void *args, int64_t count) {
  (void)context;
  if (bodies[body].each == NULL) return cr_fail(CREMA_E_INTERNAL, "body %d has a team", (int)body);
  for (int64_t i = 0; i < count; i++) bodies[body].each(args, i);
  return CREMA_OK;
}

cr_cuda_fault *cr_cuda_fault_of(crema_context *context) {
  (void)context;
  static _Thread_local cr_cuda_fault fault;
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

crema_status cr_gemm_plan_run(const cr_gemm_plan *plan, crema_context *context, const float *a,
                              const float *b, const float *bias, bool accumulate, float *c,
                              crema_devptr workspace) {
  const cr_gemm_shape *s = &plan->shape;
  (void)context;
  if (workspace.address == 0 || s->bias != (bias != NULL) || (bias != NULL && accumulate)) {
    return cr_fail(CREMA_E_INTERNAL, "a matrix product is called in another way than planned");
  }
  for (int64_t i = 0; i < s->m; i++) {
    for (int64_t j = 0; j < s->n; j++) {
      double sum = accumulate ? (double)c[i * s->n + j] : 0;
      for (int64_t p = 0; p < s->k; p++) {
        const float left = a[s->a_transposed ? p * s->m + i : i * s->k + p];
        const float right = b[s->b_transposed ? j * s->k + p : p * s->n + j];
        sum += (double)left * (double)right;
      }
      c[i * s->n + j] = (float)(sum + (bias != NULL ? (double)bias[j] : 0));
    }
  }
  return CREMA_OK;
}

void cr_gemm_plan_destroy(cr_gemm_plan *plan) {
  free(plan);
}
