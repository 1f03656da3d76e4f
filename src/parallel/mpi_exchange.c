/* The exchange between processes, by MPI's collectives.
 *
 * A span is sent in pieces. While one piece is summed, the next pieces arrive from the device and
 * earlier pieces return to it. MPI reads and writes only memory of the exchange: after a failure
 * the net may be freed while MPI continues (cr_mpi_world_wait). On the host this costs a copy, but
 * no more CPU time, because Open MPI then reuses the same few pages. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/backend/half.h"
#include "device/copy.h"
#include "device/memory/block.h"
#include "parallel/exchange.h"
#include "parallel/mpi_world.h"

enum { SLOTS = 4, PIECE_BYTES = 4 << 20 };

/* Memory for one piece at a time. */
typedef struct slot {
  cr_block in, out; /* page-locked */
  /* Ends of the last copies from and to the device; NULL on host memory. */
  cr_native_event *fetched, *delivered;
  cr_mpi_handle request;
  bool reads, writes; /* MPI may be reading `in`, writing to `out` */
} slot;

typedef struct mpi_exchange {
  cr_exchange base;
  cr_mpi_world *world;
  cr_mpi_handle comm;
  cr_mpi_handle sum_f16, sum_bf16; /* operations; NULL: not made */
  cr_exchange_span *span;
  slot slot[SLOTS];
} mpi_exchange;

static mpi_exchange *of(cr_exchange *end) {
  return (mpi_exchange *)end;
}

static void add_f16(void *in, void *sum, int *count, cr_mpi_handle *type) {
  (void)type;
  const uint16_t *a = in;
  uint16_t *b = sum;
  for (int i = 0; i < *count; ++i) b[i] = cr_f32_to_f16(cr_f16_to_f32(a[i]) + cr_f16_to_f32(b[i]));
}

static void add_bf16(void *in, void *sum, int *count, cr_mpi_handle *type) {
  (void)type;
  const uint16_t *a = in;
  uint16_t *b = sum;
  for (int i = 0; i < *count; ++i) {
    b[i] = cr_f32_to_bf16(cr_bf16_to_f32(a[i]) + cr_bf16_to_f32(b[i]));
  }
}

/* One collective operation on a span. */
typedef struct mpi_job {
  mpi_exchange *x;
  crema_context *context;
  const cr_exchange_span *span;
  bool sums;      /* else rank 0's values go to all */
  int64_t values; /* of a full piece */
  size_t value_bytes;
} mpi_job;

static int64_t count_of(const mpi_job *j, int64_t piece) {
  const int64_t rest = j->span->count - piece * j->values;
  return rest < j->values ? rest : j->values;
}

static size_t bytes_of(const mpi_job *j, int64_t piece) {
  return (size_t)count_of(j, piece) * j->value_bytes;
}

static uintptr_t address_of(const mpi_job *j, int64_t piece) {
  return j->span->memory.address + (size_t)(piece * j->values) * j->value_bytes;
}

static slot *slot_of(const mpi_job *j, int64_t piece) {
  return &j->x->slot[piece % SLOTS];
}

static bool sends(const mpi_job *j) {
  return j->sums || j->x->base.rank == 0;
}

static bool receives(const mpi_job *j) {
  return j->sums || j->x->base.rank != 0;
}

static crema_status mark(const mpi_job *j, cr_native_event *event) {
  if (event == NULL) return CREMA_OK;
  return j->context->device->backend->event_record(j->context, event);
}

/* Queues the copy from the device. */
static crema_status fetch(const mpi_job *j, int64_t piece) {
  slot *s = slot_of(j, piece);
  if (!sends(j)) return CREMA_OK;
  const crema_devptr from = {address_of(j, piece)};
  CR_TRY(cr_copy_to_cpu(j->context, (void *)s->in.address, from, bytes_of(j, piece)));
  return mark(j, s->fetched);
}

/* Starts the collective once the values are on the host and the slot's previous ones have left. */
static crema_status start(const mpi_job *j, int64_t piece) {
  slot *s = slot_of(j, piece);
  cr_mpi_world *world = j->x->world;
  const cr_mpi *mpi = &world->mpi;
  const int count = (int)count_of(j, piece);
  cr_mpi_handle type = mpi->uint16, operation = mpi->sum;
  switch (j->span->type) {
    case CREMA_F64: type = mpi->f64; break;
    case CREMA_F32: type = mpi->f32; break;
    case CREMA_F16: operation = j->x->sum_f16; break;
    default: operation = j->x->sum_bf16; break;
  }
  cr_native_event *const before[] = {s->fetched, s->delivered};
  for (int i = 0; i < 2; ++i) {
    if (before[i] != NULL) CR_TRY(j->context->device->backend->event_finish(before[i]));
  }
  void *in = (void *)s->in.address, *out = (void *)s->out.address;
  CR_TRY(cr_world_lock(&world->base));
  s->reads = sends(j);
  s->writes = receives(j);
  const int code = j->sums
                       ? mpi->Iallreduce(in, out, count, type, operation, j->x->comm, &s->request)
                       : mpi->Ibcast(sends(j) ? in : out, count, type, 0, j->x->comm, &s->request);
  return cr_mpi_world_unlock(world, code, j->sums ? "MPI_Iallreduce" : "MPI_Ibcast");
}

/* Waits for the collective and queues the copy to the device. */
static crema_status deliver(const mpi_job *j, int64_t piece) {
  slot *s = slot_of(j, piece);
  CR_TRY(cr_mpi_world_wait(j->x->world, &s->request));
  s->reads = s->writes = false;
  if (!receives(j)) return CREMA_OK;
  const crema_devptr to = {address_of(j, piece)};
  CR_TRY(cr_copy_from_cpu(j->context, to, (const void *)s->out.address, bytes_of(j, piece)));
  return mark(j, s->delivered);
}

/* SLOTS pieces are under way at once. MPI gets them in their order, as it must in every process. */
static crema_status mpi_run(cr_exchange *end, crema_context *context, int span, bool sums) {
  mpi_exchange *x = of(end);
  mpi_job j = {.x = x, .context = context, .span = &x->span[span], .sums = sums};
  j.value_bytes = crema_dtype_size(j.span->type);
  j.values = (int64_t)(PIECE_BYTES / j.value_bytes);
  const int64_t pieces = (j.span->count + j.values - 1) / j.values;
  for (int64_t p = 0; p < pieces && p < SLOTS; ++p) CR_TRY(fetch(&j, p));
  for (int64_t p = 0; p < pieces + SLOTS; ++p) {
    if (p >= SLOTS) {
      CR_TRY(deliver(&j, p - SLOTS));
      if (p < pieces) CR_TRY(fetch(&j, p));
    }
    if (p < pieces) CR_TRY(start(&j, p));
  }
  return CREMA_OK;
}

static crema_status make_slot(mpi_exchange *x, slot *s, size_t bytes) {
  crema_device *device = x->base.device;
  const cr_block_options pinned = {.keep_content = true, .pinned = true};
  CR_TRY(cr_block_new(device, bytes, &pinned, &s->in));
  CR_TRY(cr_block_new(device, bytes, &pinned, &s->out));
  if (device->backend->host_memory) return CREMA_OK;
  CR_TRY(device->backend->event_create(device, &s->fetched));
  return device->backend->event_create(device, &s->delivered);
}

static crema_status mpi_prepare(cr_exchange *end, const cr_exchange_span *span, int spans) {
  mpi_exchange *x = of(end);
  size_t largest = 0;
  CR_TRY(CR_NEW(x->span, spans > 0 ? spans : 1, "the spans of an exchange"));
  for (int i = 0; i < spans; ++i) {
    const size_t bytes = (size_t)span[i].count * crema_dtype_size(span[i].type);
    x->span[i] = span[i];
    if (bytes > largest) largest = bytes;
  }
  CR_TRY(cr_world_same_spans(&x->world->base, span, spans));
  if (largest > PIECE_BYTES) largest = PIECE_BYTES;
  for (int i = 0; i < SLOTS && largest > 0; ++i) CR_TRY(make_slot(x, &x->slot[i], largest));
  return CREMA_OK;
}

static void mpi_fail(cr_exchange *end, crema_status status) {
  cr_world_fail(&of(end)->world->base, status);
}

static void free_event(const mpi_exchange *x, cr_native_event *event) {
  if (event == NULL) return;
  /* The copy before it uses the slot's memory. */
  (void)x->base.device->backend->event_finish(event);
  x->base.device->backend->event_destroy(event);
}

static void mpi_destroy(cr_exchange *end) {
  mpi_exchange *x = of(end);
  for (int i = 0; i < SLOTS; ++i) {
    slot *s = &x->slot[i];
    free_event(x, s->delivered);
    free_event(x, s->fetched);
    /* Memory that MPI may be using is left to it for ever. */
    if (!s->reads) (void)cr_block_free(&s->in);
    if (!s->writes) (void)cr_block_free(&s->out);
  }
  if (x->sum_bf16 != NULL) cr_mpi_world_free_operation(x->world, &x->sum_bf16);
  if (x->sum_f16 != NULL) cr_mpi_world_free_operation(x->world, &x->sum_f16);
  if (x->comm != NULL) cr_mpi_world_free_communicator(x->world, &x->comm);
  free(x->span);
  free(x);
}

static const cr_exchange_class mpi_class = {
    .way = CREMA_EXCHANGE_MPI,
    .prepare = mpi_prepare,
    .run = mpi_run,
    .fail = mpi_fail,
    .destroy = mpi_destroy,
};

crema_status cr_exchange_create_mpi(cr_world *world, crema_device *device, cr_exchange **out) {
  crema_status status = CREMA_OK;
  mpi_exchange *x = NULL;
  cr_mpi_world *mpi_world = cr_mpi_world_of(world);
  if (mpi_world == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "mpi exchanges between processes that mpirun started");
  }
  CR_TRY(CR_NEW(x, 1, "an exchange"));
  x->base.class = &mpi_class;
  x->base.rank = cr_world_rank(world);
  x->base.ranks = cr_world_size(world);
  x->base.device = device;
  x->world = mpi_world;
  CR_TRY_GOTO(cr_mpi_world_duplicate(mpi_world, &x->comm), fail);
  CR_TRY_GOTO(cr_world_lock(world), fail);
  int code = mpi_world->mpi.Op_create(add_f16, 1, &x->sum_f16);
  if (code == CR_MPI_SUCCESS) code = mpi_world->mpi.Op_create(add_bf16, 1, &x->sum_bf16);
  CR_TRY_GOTO(cr_mpi_world_unlock(mpi_world, code, "MPI_Op_create"), fail);
  *out = &x->base;
  return CREMA_OK;
fail:
  mpi_destroy(&x->base);
  return status;
}
