/* Collective operations by NCCL, which is opened at run time.
 *
 * Its calls do not wait for other ranks: during a call NCCL connects devices in a separate thread,
 * and the communicator is polled until that is done. So a communicator's lock is never held for
 * long, and it can be aborted at any time. */
#include <stdio.h>
#include <stdlib.h>

#include "device/cuda/cuda_private.h"
#include "device/cuda/nccl_library.h"
#include "device/gpu/library.h"

static cr_nccl nccl;
static cr_library_answer answer = {.lock = PTHREAD_MUTEX_INITIALIZER, .quiet = true};

static void check_version(char *missing, size_t size) {
  int v = 0;
  if (nccl.GetVersion(&v) == CR_NCCL_SUCCESS && v >= CR_NCCL_LEAST_VERSION) return;
  snprintf(missing, size, "NCCL is version %d.%d, and at least 2.14 is needed",
           v >= 10000 ? v / 10000 : v / 1000, v >= 10000 ? v % 10000 / 100 : v % 1000 / 100);
}

static void open_nccl(char *missing, size_t size) {
  void *library = cr_cuda_open_library("libnccl.so.2");
  if (library == NULL) {
    snprintf(missing, size, "NCCL (libnccl.so.2) was not found");
    return;
  }
#define CR_FIND(result, name, parameters)                       \
  if (!cr_library_symbol(library, "nccl" #name, &nccl.name)) {  \
    snprintf(missing, size, "NCCL has no function nccl" #name); \
  }
  CR_NCCL_SYMBOLS(CR_FIND)
#undef CR_FIND
  if (missing[0] == '\0') check_version(missing, size);
}

static crema_status find(void) {
  return cr_library_ask(&answer, open_nccl);
}

static crema_status check(int result, const char *what) {
  if (result == CR_NCCL_SUCCESS || result == CR_NCCL_IN_PROGRESS) return CREMA_OK;
  (void)cudaGetLastError(); /* that NCCL may have left */
  return cr_fail(CREMA_E_DEVICE, "NCCL: %s: %s", what, nccl.GetErrorString(result));
}

struct cr_member {
  const crema_device *device;
  pthread_mutex_t lock; /* held during calls with the communicator; guards the members below */
  cr_nccl_comm *comm;   /* NULL: aborted */
  bool ends, ended;     /* the group; CommDestroy would wait for other ranks until it has ended */
};

/* From the number that NVIDIA has given it. */
static crema_status identity(const crema_device *device, uint64_t *out) {
  struct cudaDeviceProp properties;
  int before = -1;
  CR_TRY(cr_gpu_enter(device, &before));
  const cudaError_t error = cudaGetDeviceProperties(&properties, device->index);
  cr_gpu_leave(before);
  CR_TRY(cr_cuda_check(error, "asking a device"));
  uint64_t digest = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < sizeof properties.uuid.bytes; ++i) {
    digest = (digest ^ (unsigned char)properties.uuid.bytes[i]) * 1099511628211u;
  }
  *out = digest;
  return CREMA_OK;
}

static crema_status make_id(cr_group_id *out) {
  CR_TRY(find());
  return check(nccl.GetUniqueId(out), "making an id");
}

static crema_status make_member(const crema_device *device, cr_member **out) {
  cr_member *member = calloc(1, sizeof *member);
  if (member == NULL) return cr_fail_memory(sizeof *member, "an exchange");
  member->device = device;
  pthread_mutex_init(&member->lock, NULL);
  *out = member;
  return CREMA_OK;
}

/* To load a kernel, the driver may wait until the device is idle. A device that runs a collective
 * is busy until all ranks have queued theirs, so all kernels are loaded before the first one. */
static crema_status load_kernels(const crema_device *device) {
  int before = -1;
  CR_TRY(cr_gpu_enter(device, &before));
  const crema_status status = cr_cuda_load_kernels();
  cr_gpu_leave(before);
  return status;
}

/* Inside of a group of NCCL's, which lets one thread join for several ranks. */
static crema_status join_one(const cr_group_id *id, cr_member *member, int rank, int ranks) {
  cr_nccl_config config = CR_NCCL_CALLS_DO_NOT_WAIT;
  int before = -1;
  CR_TRY(cr_gpu_enter(member->device, &before));
  const int result = nccl.CommInitRankConfig(&member->comm, ranks, *id, rank, &config);
  cr_gpu_leave(before);
  return check(result, "joining");
}

static void leave(cr_member *member);

static crema_status join(const cr_group_id *id, crema_device *const *device, int count, int first,
                         int ranks, cr_member **out) {
  crema_status status = find();
  for (int i = 0; i < count; ++i) out[i] = NULL;
  for (int i = 0; i < count && status == CREMA_OK; ++i) status = load_kernels(device[i]);
  for (int i = 0; i < count && status == CREMA_OK; ++i) status = make_member(device[i], &out[i]);
  if (status == CREMA_OK) status = check(nccl.GroupStart(), "joining");
  if (status == CREMA_OK) {
    for (int i = 0; i < count && status == CREMA_OK; ++i) {
      status = join_one(id, out[i], first + i, ranks);
    }
    const int result = nccl.GroupEnd();
    if (status == CREMA_OK) status = check(result, "joining");
  }
  if (status == CREMA_OK) return CREMA_OK;
  for (int i = 0; i < count; ++i) {
    leave(out[i]);
    out[i] = NULL;
  }
  return status;
}

/* Takes the lock and makes the device current. */
static crema_status enter(cr_member *member, int *before) {
  pthread_mutex_lock(&member->lock);
  crema_status status = member->comm != NULL
                            ? cr_gpu_enter(member->device, before)
                            : cr_fail(CREMA_E_DEVICE, "NCCL: the group was aborted");
  if (status != CREMA_OK) pthread_mutex_unlock(&member->lock);
  return status;
}

static void unlock(cr_member *member, int before) {
  cr_gpu_leave(before);
  pthread_mutex_unlock(&member->lock);
}

static int type_of(crema_dtype type) {
  switch (type) {
    case CREMA_F64: return CR_NCCL_FLOAT64;
    case CREMA_F16: return CR_NCCL_FLOAT16;
    case CREMA_BF16: return CR_NCCL_BFLOAT16;
    default: return CR_NCCL_FLOAT32;
  }
}

static crema_status start(cr_member *member, crema_context *context, const cr_collective *call) {
  void *memory = (void *)call->memory.address; /* NOLINT */
  const size_t count = (size_t)call->count;
  const cudaStream_t stream = cr_cuda_context(context)->queue;
  int before = -1;
  CR_TRY(cr_cuda_interrupt("devices exchange values"));
  CR_TRY(enter(member, &before));
  const int result = call->sum ? nccl.AllReduce(memory, memory, count, type_of(call->type),
                                                CR_NCCL_SUM, member->comm, stream)
                               : nccl.Broadcast(memory, memory, count, type_of(call->type), 0,
                                                member->comm, stream);
  unlock(member, before);
  return check(result, call->sum ? "summing" : "broadcasting");
}

static crema_status progress(cr_member *member, bool *busy) {
  int before = -1, state = CR_NCCL_SUCCESS;
  CR_TRY(enter(member, &before));
  const int result = nccl.CommGetAsyncError(member->comm, &state);
  member->ended = member->ends && result == CR_NCCL_SUCCESS && state == CR_NCCL_SUCCESS;
  unlock(member, before);
  *busy = state == CR_NCCL_IN_PROGRESS;
  CR_TRY(check(result, "asking for failures"));
  return check(state, "exchanging");
}

static crema_status finalize(cr_member *member) {
  int before = -1;
  CR_TRY(enter(member, &before));
  const int result = nccl.CommFinalize(member->comm);
  member->ends = result == CR_NCCL_SUCCESS || result == CR_NCCL_IN_PROGRESS;
  unlock(member, before);
  return check(result, "ending");
}

/* `how` frees the communicator. After the driver is unloaded there is nothing to free. */
static void end(cr_member *member, int (*how)(cr_nccl_comm *comm)) {
  int before = -1;
  pthread_mutex_lock(&member->lock);
  if (member->comm != NULL && !cr_cuda_is_gone() &&
      cr_gpu_enter(member->device, &before) == CREMA_OK) {
    if (how(member->comm) != CR_NCCL_SUCCESS) (void)cudaGetLastError();
    cr_gpu_leave(before);
  }
  member->comm = NULL;
  pthread_mutex_unlock(&member->lock);
}

static void abort_member(cr_member *member) {
  end(member, nccl.CommAbort);
}

static void leave(cr_member *member) {
  if (member == NULL) return;
  end(member, member->ended ? nccl.CommDestroy : nccl.CommAbort);
  pthread_mutex_destroy(&member->lock);
  free(member);
}

const cr_collectives cr_cuda_collectives = {.find = find,
                                            .identity = identity,
                                            .make_id = make_id,
                                            .join = join,
                                            .start = start,
                                            .progress = progress,
                                            .finalize = finalize,
                                            .abort = abort_member,
                                            .leave = leave};
