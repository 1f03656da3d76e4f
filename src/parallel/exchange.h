/* The exchange: how the replicas that train one net together share weights and sum gradients.
 *
 * A replica is one copy of the net on one device. Each has one end of the exchange, its rank; rank
 * 0 is the root. Ranks exchange spans, runs of values at fixed addresses of the replica's device,
 * which all ranks name in the same order. Ranks are threads of this process (one per device) or
 * processes; there are four ways to exchange between them, each a class:
 *
 *   tree    threads; weights are copied down a tree of devices, gradients summed up it: only the
 *           root has the sum, updates, and broadcasts its weights before the next iteration
 *   reduce  threads; every rank gets the sum and updates
 *   nccl    likewise, by NVIDIA's library; or processes (parallel/world.h), one device each
 *   mpi     likewise, between processes and hosts
 *
 * Every rank makes the same calls in the same order; one thread at a time uses an end, except for
 * cr_exchange_fail. When a rank fails, calls of all ranks that wait for it fail with its message.
 */
#ifndef CR_PARALLEL_EXCHANGE_H
#define CR_PARALLEL_EXCHANGE_H

#include "crema/solver.h"
#include "device/device.h"

typedef struct cr_exchange cr_exchange;
typedef struct cr_exchange_class cr_exchange_class;

typedef struct cr_exchange_span {
  crema_devptr memory; /* of the rank's device; host memory on the CPU */
  int64_t count;       /* values; may be 0 */
  crema_dtype type;    /* F64, F32, F16 or BF16 */
} cr_exchange_span;

struct cr_exchange_class {
  crema_exchange way;
  bool root_only; /* sums reach rank 0 only */
  crema_status (*prepare)(cr_exchange *end, const cr_exchange_span *span, int spans);
  crema_status (*run)(cr_exchange *end, crema_context *context, int span, bool sum);
  crema_status (*finish)(cr_exchange *end); /* NULL: no work remains */
  void (*fail)(cr_exchange *end, crema_status status);
  void (*destroy)(cr_exchange *end);
};

/* The first member of an end of any class. */
struct cr_exchange {
  const cr_exchange_class *class;
  int rank, ranks;
  crema_device *device; /* of this rank */
  /* Set by cr_exchange_prepare. */
  bool prepared;
  int spans;
};

typedef enum cr_exchange_order {
  CR_EXCHANGE_FIXED,  /* terms are added in a fixed order: the same bits in every run */
  CR_EXCHANGE_ARRIVAL /* in the order in which they arrive */
} cr_exchange_order;

/* Makes end[0 .. ranks - 1], one for the thread of each device; device[0] is the root's. Free each
 * with cr_exchange_destroy. Errors: CREMA_E_ARGUMENT for devices of several back ends or a device
 * that is named twice, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
crema_status cr_exchange_create_tree(crema_device *const *device, int ranks,
                                     cr_exchange_order order, cr_exchange **end) CREMA_MUST_USE;
crema_status cr_exchange_create_reduce(crema_device *const *device, int ranks,
                                       cr_exchange **end) CREMA_MUST_USE;
/* Further errors: CREMA_E_UNSUPPORTED without NCCL; NCCL's own as CREMA_E_DEVICE. */
crema_status cr_exchange_create_nccl(crema_device *const *device, int ranks,
                                     cr_exchange **end) CREMA_MUST_USE;
/* Whether NCCL works for `device`. Errors: CREMA_E_UNSUPPORTED; the text names the missing part. */
crema_status cr_exchange_find_nccl(const crema_device *device) CREMA_MUST_USE;

/* When one of the following four calls fails, the rank has failed, as after cr_exchange_fail.
 *
 * Names the spans of this rank, once, and allocates the exchange's memory. Call it from any thread
 * for all ends of this process before any other call. Errors: CREMA_E_NO_MEMORY, CREMA_E_SHAPE when
 * another rank has other counts or types, CREMA_E_TYPE, CREMA_E_STATE. */
crema_status cr_exchange_prepare(cr_exchange *end, const cr_exchange_span *span,
                                 int spans) CREMA_MUST_USE;

/* Copies the values of rank 0's span to all ranks. Queued on `context`, a context of the rank's
 * device: the call may return before it is done. Errors: another rank's failure. */
crema_status cr_exchange_broadcast(cr_exchange *end, crema_context *context,
                                   int span) CREMA_MUST_USE;

/* Replaces each rank's span by the sum of all (root_only: only rank 0's; the rest is then
 * undefined). Queued likewise. Sums of 16-bit values are computed in single precision and rounded
 * once per addition. All ranks get the same bits. */
crema_status cr_exchange_sum(cr_exchange *end, crema_context *context, int span) CREMA_MUST_USE;

/* Waits for all work that this rank's calls have queued, on the caller's contexts or others.
 * Errors: failures of that work that no call has returned; otherwise a later call returns them. */
crema_status cr_exchange_finish(cr_exchange *end) CREMA_MUST_USE;

/* Reports that this rank has failed with `status` and the thread's error text. Present and later
 * waits of all ranks fail with the text "rank N: text". Any thread may call it; the first failure
 * stays. */
void cr_exchange_fail(cr_exchange *end, crema_status status);

/* Accepts NULL. No thread may be using the end. */
void cr_exchange_destroy(cr_exchange *end);

#endif
