/* NCCL on the host, for testing how the plug-in calls it. Communicators must be such whose calls do
 * not wait: a call is under way until all ranks have made it; the last one does the work of all.
 * What ranks do that others wait for for ever stays under way for ever, as with the real one.
 *
 * Ranks may be threads or processes: a group lies in a file that all of them map, whose name is its
 * id. Each rank copies its values into it, and gets what became of them when it asks. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "device/cuda/nccl_library.h"
#include "device/gpu/kernels/values.h"
#include "fake_driver.h"
#include "fake_runtime.h"

#define DECLARE(result, name, parameters) result nccl##name parameters;
CR_NCCL_SYMBOLS(DECLARE)
#undef DECLARE

enum { RANKS = 16, MOST_BYTES = 1 << 20, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

typedef enum fake_state { JOINING, IDLE, CALLING, DONE, ENDING, ENDED, BROKEN } fake_state;

typedef struct fake_call {
  bool sum;
  size_t count;
  int type;
} fake_call;

typedef struct fake_member {
  bool there;
  int device;
  fake_state state;
  int error; /* of BROKEN */
  fake_call call;
} fake_member;

typedef struct fake_group {
  pthread_mutex_t lock; /* guards what follows, in all processes */
  int ranks, joined, calling, ending;
  fake_member member[RANKS];
  _Alignas(8) unsigned char values[RANKS][MOST_BYTES];
} fake_group;

struct cr_nccl_comm {
  fake_group *group;
  int rank, device;
  void *memory;    /* of the call that is under way */
  bool is_waiting; /* its last call is not known to be queued yet */
};

/* Of this process. */
static struct {
  pthread_mutex_t lock;
  int living, calls, finalized;
  int failing_step, failing_rank, failure;
} world = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local int depth;

/* For tests: the next time that `rank` joins (0), makes a call (1), asks for failures (2) or
 * finalizes (3), the answer is `error`. */
__attribute__((visibility("default"))) void fake_nccl_fail(int step, int rank, int error);
/* Communicators that were neither destroyed nor aborted. */
__attribute__((visibility("default"))) int fake_nccl_living(void);
/* Communicators that were finalized together with the rest of their group, then destroyed. */
__attribute__((visibility("default"))) int fake_nccl_finalized(void);
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

int fake_nccl_finalized(void) {
  pthread_mutex_lock(&world.lock);
  const int finalized = world.finalized;
  pthread_mutex_unlock(&world.lock);
  return finalized;
}

int fake_nccl_calls(void) {
  pthread_mutex_lock(&world.lock);
  const int calls = world.calls;
  pthread_mutex_unlock(&world.lock);
  return calls;
}

static int failure_of(int step, int rank) {
  int error = 0;
  pthread_mutex_lock(&world.lock);
  if (world.failing_step == step && world.failing_rank == rank) {
    error = world.failure;
    world.failure = 0;
  }
  pthread_mutex_unlock(&world.lock);
  return error;
}

static void change_count(int *what, int change) {
  pthread_mutex_lock(&world.lock);
  *what += change;
  pthread_mutex_unlock(&world.lock);
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

/* ---- groups ---- */

static fake_group *map_group(int file) {
  fake_group *group = mmap(NULL, sizeof *group, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  (void)close(file);
  return group == MAP_FAILED ? NULL : group;
}

/* A process may have been killed with the lock held. */
static void lock_group(fake_group *group) {
  if (pthread_mutex_lock(&group->lock) == EOWNERDEAD) pthread_mutex_consistent(&group->lock);
}

int ncclGetUniqueId(cr_group_id *id) {
  pthread_mutexattr_t shared;
  memset(id, 0, sizeof *id);
  snprintf(id->bytes, sizeof id->bytes, "/tmp/fake_nccl_XXXXXX");
  const int file = mkstemp(id->bytes);
  if (file < 0 || ftruncate(file, sizeof(fake_group)) != 0) return INVALID_USAGE;
  fake_group *group = map_group(file);
  if (group == NULL) return INVALID_USAGE;
  pthread_mutexattr_init(&shared);
  pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&group->lock, &shared);
  pthread_mutexattr_destroy(&shared);
  (void)munmap(group, sizeof *group);
  return CR_NCCL_SUCCESS;
}

/* ---- communicators ---- */

static void set_waiting(cr_nccl_comm *comm, bool waits) {
  if (comm->is_waiting != waits) fake_change_collectives(waits ? 1 : -1);
  comm->is_waiting = waits;
}

/* With the lock held. */
static int join(const cr_nccl_comm *comm, int ranks) {
  fake_group *group = comm->group;
  if (group->joined > 0 && group->ranks != ranks) return INVALID_ARGUMENT;
  for (int i = 0; i < RANKS; ++i) {
    if (!group->member[i].there) continue;
    if (i == comm->rank || group->member[i].device == comm->device) return INVALID_USAGE;
  }
  group->ranks = ranks;
  group->member[comm->rank] = (fake_member){.there = true, .device = comm->device};
  ++group->joined;
  return CR_NCCL_IN_PROGRESS;
}

static int join_group(cr_nccl_comm *comm, const char *path, int ranks) {
  const int error = failure_of(0, comm->rank);
  const int file = error == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (error != 0) {
    (void)unlink(path);
    return error;
  }
  comm->group = file < 0 ? NULL : map_group(file);
  if (comm->group == NULL) return INVALID_USAGE;
  lock_group(comm->group);
  const int result = join(comm, ranks);
  const bool last = comm->group->joined == ranks;
  pthread_mutex_unlock(&comm->group->lock);
  if (last || result != CR_NCCL_IN_PROGRESS) (void)unlink(path);
  if (result != CR_NCCL_IN_PROGRESS) (void)munmap(comm->group, sizeof *comm->group);
  return result;
}

int ncclCommInitRankConfig(cr_nccl_comm **out, int ranks, cr_group_id id, int rank,
                           cr_nccl_config *config) {
  const cr_nccl_config expected = CR_NCCL_CALLS_DO_NOT_WAIT;
  if (memcmp(config, &expected, sizeof expected) != 0) return INVALID_ARGUMENT;
  if (depth < 1 || ranks > RANKS || rank < 0 || rank >= ranks) return INVALID_USAGE;
  cr_nccl_comm *comm = calloc(1, sizeof *comm);
  if (comm == NULL) return INVALID_USAGE;
  *comm = (cr_nccl_comm){.rank = rank, .device = fake_bound()};
  const int result = join_group(comm, id.bytes, ranks);
  if (result == CR_NCCL_IN_PROGRESS) {
    change_count(&world.living, 1);
    set_waiting(comm, true);
    *out = comm;
  } else {
    free(comm);
  }
  return result;
}

static size_t bytes_of(const fake_call *call);

/* With the lock held. */
static int ask(cr_nccl_comm *comm) {
  fake_group *group = comm->group;
  fake_member *member = &group->member[comm->rank];
  const int error = failure_of(2, comm->rank);
  if (member->state == JOINING && group->joined == group->ranks) member->state = IDLE;
  if (error != 0) {
    member->state = BROKEN;
    member->error = error;
  }
  if (member->state == DONE) {
    memcpy(comm->memory, group->values[comm->rank], bytes_of(&member->call));
    member->state = IDLE;
  }
  if (member->state == ENDING && group->ending == group->ranks) member->state = ENDED;
  if (member->state == BROKEN) return member->error;
  const bool rests = member->state == IDLE || member->state == ENDED;
  return rests ? CR_NCCL_SUCCESS : CR_NCCL_IN_PROGRESS;
}

int ncclCommGetAsyncError(cr_nccl_comm *comm, int *state) {
  if (fake_unloaded()) abort();
  lock_group(comm->group);
  *state = ask(comm);
  if (*state != CR_NCCL_IN_PROGRESS) set_waiting(comm, false);
  pthread_mutex_unlock(&comm->group->lock);
  return CR_NCCL_SUCCESS;
}

/* The group has ended when all ranks have called this. */
int ncclCommFinalize(cr_nccl_comm *comm) {
  if (fake_unloaded()) abort();
  if (fake_bound() != comm->device) return INVALID_USAGE;
  lock_group(comm->group);
  fake_member *member = &comm->group->member[comm->rank];
  int result = failure_of(3, comm->rank);
  if (result == 0 && ask(comm) != CR_NCCL_SUCCESS) result = INVALID_USAGE;
  if (result == 0 && member->state != IDLE) result = INVALID_USAGE;
  if (result == 0) {
    member->state = ENDING;
    ++comm->group->ending;
    result = ask(comm);
  }
  pthread_mutex_unlock(&comm->group->lock);
  return result;
}

static int drop(cr_nccl_comm *comm, bool ended) {
  if (fake_unloaded()) abort();
  if (fake_bound() != comm->device) return INVALID_USAGE;
  lock_group(comm->group);
  fake_member *member = &comm->group->member[comm->rank];
  /* The real one would wait for the other ranks, which may wait for this thread. */
  if (ended && member->state != ENDED) abort();
  if (ended) change_count(&world.finalized, 1);
  member->there = false;
  set_waiting(comm, false);
  pthread_mutex_unlock(&comm->group->lock);
  (void)munmap(comm->group, sizeof *comm->group);
  change_count(&world.living, -1);
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
  const cr_hd_values a = {to, own}, b = {(void *)(uintptr_t)from, own};
  cr_put(a, (int64_t)i, cr_get(a, (int64_t)i) + cr_get(b, (int64_t)i));
}

static size_t bytes_of(const fake_call *call) {
  return call->count * size_of(call->type);
}

/* Rank 0 gets the sum, in the order of ranks; then all get what rank 0 has. */
static void work(fake_group *group) {
  const fake_call *root = &group->member[0].call;
  for (int k = 1; root->sum && k < group->ranks; ++k) {
    for (size_t i = 0; i < root->count; ++i) add(root->type, group->values[0], group->values[k], i);
  }
  for (int k = 1; k < group->ranks; ++k) {
    memcpy(group->values[k], group->values[0], bytes_of(root));
  }
}

static bool same_calls(const fake_group *group) {
  const fake_call *root = &group->member[0].call;
  for (int k = 1; k < group->ranks; ++k) {
    const fake_call *other = &group->member[k].call;
    if (other->sum != root->sum || other->count != root->count || other->type != root->type) {
      return false;
    }
  }
  return true;
}

/* With the lock held. */
static int begin_call(cr_nccl_comm *comm, void *memory, const fake_call *call) {
  fake_group *group = comm->group;
  fake_member *member = &group->member[comm->rank];
  const int error = failure_of(1, comm->rank);
  if (error != 0) return error;
  if (member->state != IDLE) return INVALID_USAGE;
  if (bytes_of(call) > MOST_BYTES) return INVALID_ARGUMENT;
  comm->memory = memory;
  member->call = *call;
  member->state = CALLING;
  memcpy(group->values[comm->rank], memory, bytes_of(call));
  if (++group->calling < group->ranks) return CR_NCCL_IN_PROGRESS;
  group->calling = 0;
  const bool same = same_calls(group);
  if (same) work(group);
  for (int k = 0; k < group->ranks; ++k) {
    group->member[k].state = same ? DONE : BROKEN;
    group->member[k].error = INVALID_USAGE;
  }
  change_count(&world.calls, same);
  return same ? ask(comm) : CR_NCCL_SUCCESS;
}

static int call(cr_nccl_comm *comm, cudaStream_t stream, void *memory, const fake_call *what) {
  if (fake_unloaded()) abort();
  if (fake_bound() != comm->device || stream == NULL || stream->device != comm->device) {
    return INVALID_USAGE;
  }
  lock_group(comm->group);
  set_waiting(comm, true);
  const int result = begin_call(comm, memory, what);
  if (result != CR_NCCL_IN_PROGRESS) set_waiting(comm, false);
  pthread_mutex_unlock(&comm->group->lock);
  return result;
}

int ncclAllReduce(const void *from, void *to, size_t count, int type, int operation,
                  cr_nccl_comm *comm, cudaStream_t stream) {
  if (from != to || operation != CR_NCCL_SUM) return INVALID_ARGUMENT;
  return call(comm, stream, to, &(fake_call){true, count, type});
}

int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, cr_nccl_comm *comm,
                  cudaStream_t stream) {
  if (from != to || root != 0) return INVALID_ARGUMENT;
  return call(comm, stream, to, &(fake_call){false, count, type});
}
