/* NCCL on the host, for testing how the plug-in calls it. Communicators must be such whose calls do
 * not wait: a call is under way until all ranks have made it; the last one does the work of all.
 * What ranks do that others wait for for ever stays under way for ever, as with the real one. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/kernels/values.h"
#include "device/cuda/nccl_library.h"
#include "fake_driver.h"
#include "fake_runtime.h"

#define DECLARE(result, name, parameters) result nccl##name parameters;
CR_NCCL_SYMBOLS(DECLARE)
#undef DECLARE

enum { RANKS = 16, GROUPS = 4096, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

typedef enum fake_state { JOINING, IDLE, CALLING, BROKEN } fake_state;

typedef struct fake_call {
  bool sum;
  void *memory;
  size_t count;
  int type;
} fake_call;

struct cr_nccl_comm {
  int group, rank, device;
  fake_state state;
  int error; /* of BROKEN */
  fake_call call;
};

typedef struct fake_group {
  int ranks, joined, calling;
  cr_nccl_comm *comm[RANKS];
} fake_group;

static struct {
  pthread_mutex_t lock;
  fake_group group[GROUPS];
  int groups, living, calls;
  int failing_step, failing_rank, failure;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int depth;

/* For tests: the next time that `rank` joins (0), makes a call (1) or asks for failures (2), the
 * answer is `error`. */
__attribute__((visibility("default"))) void fake_nccl_fail(int step, int rank, int error);
/* Communicators that were neither destroyed nor aborted. */
__attribute__((visibility("default"))) int fake_nccl_living(void);
/* Sums and broadcasts that all ranks have made. */
__attribute__((visibility("default"))) int fake_nccl_calls(void);

void fake_nccl_fail(int step, int rank, int error) {
  pthread_mutex_lock(&world.lock);
  world.failing_step = step;
  world.failing_rank = rank;
  world.failure = error;
  pthread_mutex_unlock(&world.lock);
}

int fake_nccl_living(void) {
  pthread_mutex_lock(&world.lock);
  const int living = world.living;
  pthread_mutex_unlock(&world.lock);
  return living;
}

int fake_nccl_calls(void) {
  pthread_mutex_lock(&world.lock);
  const int calls = world.calls;
  pthread_mutex_unlock(&world.lock);
  return calls;
}

/* With the lock held. */
static int failure_of(int step, int rank) {
  if (world.failure == 0 || world.failing_step != step || world.failing_rank != rank) return 0;
  const int error = world.failure;
  world.failure = 0;
  return error;
}

int ncclGetVersion(int *version) {
  const char *given = getenv("FAKE_NCCL_VERSION");
  *version = given != NULL && given[0] != '\0' ? atoi(given) : CR_NCCL_LEAST_VERSION;
  return CR_NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result) {
  if (result == INVALID_ARGUMENT) return "invalid argument";
  return result == INVALID_USAGE ? "invalid usage" : "fake failure";
}

int ncclGroupStart(void) {
  ++depth;
  return CR_NCCL_SUCCESS;
}
int ncclGroupEnd(void) {
  return --depth < 0 ? INVALID_USAGE : CR_NCCL_IN_PROGRESS;
}

/* ---- communicators ---- */

int ncclGetUniqueId(cr_group_id *id) {
  pthread_mutex_lock(&world.lock);
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "%d", ++world.groups);
  pthread_mutex_unlock(&world.lock);
  return CR_NCCL_SUCCESS;
}

/* With the lock held. */
static int join(cr_nccl_comm *comm, int ranks) {
  fake_group *group = &world.group[comm->group];
  const int error = failure_of(0, comm->rank);
  if (error != 0) return error;
  if (group->joined > 0 && group->ranks != ranks) return INVALID_ARGUMENT;
  for (int i = 0; i < RANKS; ++i) {
    if (group->comm[i] == NULL) continue;
    if (i == comm->rank || group->comm[i]->device == comm->device) return INVALID_USAGE;
  }
  group->ranks = ranks;
  group->comm[comm->rank] = comm;
  ++group->joined;
  ++world.living;
  return CR_NCCL_IN_PROGRESS;
}

int ncclCommInitRankConfig(cr_nccl_comm **out, int ranks, cr_group_id id, int rank,
                           cr_nccl_config *config) {
  const cr_nccl_config expected = CR_NCCL_CALLS_DO_NOT_WAIT;
  const int group = atoi(id.bytes);
  if (memcmp(config, &expected, sizeof expected) != 0) return INVALID_ARGUMENT;
  if (depth < 1 || group < 1 || group >= GROUPS || ranks > RANKS || rank < 0 || rank >= ranks) {
    return INVALID_USAGE;
  }
  cr_nccl_comm *comm = calloc(1, sizeof *comm);
  if (comm == NULL) return INVALID_USAGE;
  *comm = (cr_nccl_comm){.group = group, .rank = rank, .device = fake_bound(), .state = JOINING};
  pthread_mutex_lock(&world.lock);
  const int result = join(comm, ranks);
  pthread_mutex_unlock(&world.lock);
  if (result == CR_NCCL_IN_PROGRESS) *out = comm;
  else free(comm);
  return result;
}

int ncclCommGetAsyncError(cr_nccl_comm *comm, int *state) {
  if (fake_unloaded()) abort();
  pthread_mutex_lock(&world.lock);
  const fake_group *group = &world.group[comm->group];
  const int error = failure_of(2, comm->rank);
  if (comm->state == JOINING && group->joined == group->ranks) comm->state = IDLE;
  if (error != 0) {
    comm->state = BROKEN;
    comm->error = error;
  }
  *state = comm->state == IDLE     ? CR_NCCL_SUCCESS
           : comm->state == BROKEN ? comm->error
                                   : CR_NCCL_IN_PROGRESS;
  pthread_mutex_unlock(&world.lock);
  return CR_NCCL_SUCCESS;
}

static int drop(cr_nccl_comm *comm, bool idle) {
  if (fake_unloaded()) abort();
  if (fake_bound() != comm->device) return INVALID_USAGE;
  pthread_mutex_lock(&world.lock);
  /* What is under way would never end. */
  if (idle && comm->state == CALLING) abort();
  world.group[comm->group].comm[comm->rank] = NULL;
  --world.living;
  pthread_mutex_unlock(&world.lock);
  free(comm);
  return CR_NCCL_SUCCESS;
}

int ncclCommDestroy(cr_nccl_comm *comm) {
  return drop(comm, true);
}
int ncclCommAbort(cr_nccl_comm *comm) {
  return drop(comm, false);
}

/* ---- calls ---- */

static size_t size_of(int type) {
  return type == CR_NCCL_FLOAT64 ? 8 : type == CR_NCCL_FLOAT32 ? 4 : 2;
}

/* One addition, rounded once. */
static void add(int type, void *to, const void *from, size_t i) {
  if (type == CR_NCCL_FLOAT64) {
    ((double *)to)[i] += ((const double *)from)[i];
    return;
  }
  int32_t own = CREMA_F32;
  if (type == CR_NCCL_FLOAT16) own = CREMA_F16;
  if (type == CR_NCCL_BFLOAT16) own = CREMA_BF16;
  const cr_values a = {to, own}, b = {(void *)(uintptr_t)from, own};
  cr_put(a, (int64_t)i, cr_get(a, (int64_t)i) + cr_get(b, (int64_t)i));
}

/* Rank 0 gets the sum, in the order of ranks; then all get what rank 0 has. */
static void work(fake_group *group) {
  const fake_call root = group->comm[0]->call;
  for (int k = 1; root.sum && k < group->ranks; ++k) {
    for (size_t i = 0; i < root.count; ++i)
      add(root.type, root.memory, group->comm[k]->call.memory, i);
  }
  for (int k = 1; k < group->ranks; ++k) {
    memcpy(group->comm[k]->call.memory, root.memory, root.count * size_of(root.type));
  }
  ++world.calls;
}

static bool same_calls(const fake_group *group) {
  const fake_call *root = &group->comm[0]->call;
  for (int k = 1; k < group->ranks; ++k) {
    const fake_call *other = &group->comm[k]->call;
    if (other->sum != root->sum || other->count != root->count || other->type != root->type) {
      return false;
    }
  }
  return true;
}

/* With the lock held. */
static int begin_call(cr_nccl_comm *comm, const fake_call *call) {
  fake_group *group = &world.group[comm->group];
  const int error = failure_of(1, comm->rank);
  if (error != 0) return error;
  if (comm->state != IDLE) return INVALID_USAGE;
  comm->call = *call;
  comm->state = CALLING;
  if (++group->calling < group->ranks) return CR_NCCL_IN_PROGRESS;
  group->calling = 0;
  const bool same = same_calls(group);
  if (same) work(group);
  for (int k = 0; k < group->ranks; ++k) {
    group->comm[k]->state = same ? IDLE : BROKEN;
    group->comm[k]->error = INVALID_USAGE;
  }
  return CR_NCCL_SUCCESS;
}

static int call(cr_nccl_comm *comm, cudaStream_t stream, const fake_call *what) {
  if (fake_unloaded()) abort();
  if (fake_bound() != comm->device || stream == NULL || stream->device != comm->device) {
    return INVALID_USAGE;
  }
  pthread_mutex_lock(&world.lock);
  const int result = begin_call(comm, what);
  pthread_mutex_unlock(&world.lock);
  return result;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  cr_nccl_comm *comm, cudaStream_t stream) {
  if (from != to || operation != CR_NCCL_SUM) return INVALID_ARGUMENT;
  return call(comm, stream, &(fake_call){true, to, count, type});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, cr_nccl_comm *comm,
                  cudaStream_t stream) {
  if (from != to || root != 0) return INVALID_ARGUMENT;
  return call(comm, stream, &(fake_call){false, to, count, type});
}
