/* Measures links under the load of an exchange. */
#ifndef CR_PARALLEL_PROBE_H
#define CR_PARALLEL_PROBE_H

#include "parallel/cost.h"
#include "parallel/world.h"

/* The way from one device to another. */
typedef struct cr_probe_way {
  crema_device *from, *to;
} cr_probe_way;

/* Sends over `ways` (at least 1) links at once, made for this, and finds the speed of the slowest.
 * Links that share a bus or processors all have this speed. No other work may use the devices in
 * the meantime. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
typedef crema_status cr_probe_fn(const cr_probe_way *way, int ways, cr_speed *out);
cr_probe_fn cr_probe_links CREMA_MUST_USE;

/* Sums over all processes by MPI and computes the speed that each link would have if the sums used
 * one ring. The result is the same in all processes. `context` is of the device that this process
 * trains on. All processes, at least 2, must call it. Errors: as cr_exchange_create_mpi and
 * cr_exchange_sum, CREMA_E_NO_MEMORY. */
crema_status cr_probe_processes(cr_world *world, crema_context *context,
                                cr_speed *out) CREMA_MUST_USE;

#endif
