/* Placement of host memory on machines with several memory nodes. Off unless the environment says
 * CREMA_NUMA=1. */
#ifndef CR_DEVICE_NUMA_H
#define CR_DEVICE_NUMA_H

#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

/* Questions to the system; replaced in tests. */
typedef struct cr_numa_system {
  /* The number of nodes; 1 if the system has no nodes. */
  int (*nodes)(void);
  /* The node of the calling thread's processor; -1: unknown. */
  int (*current)(void);
  /* The node of an address; -1: unknown. */
  int (*node_of)(const void *memory);
  /* Binds the whole pages low .. low + bytes to a node and moves them there; 0 or an errno. */
  int (*bind)(void *low, size_t bytes, int node);
} cr_numa_system;

/* NULL: the real system. `system` must outlive its use. */
void cr_numa_use(const cr_numa_system *system);
void cr_numa_enable(bool on);
bool cr_numa_enabled(void);

/* Moves memory to the calling thread's node. No-op while off or with one node. Errors:
 * CREMA_E_RANGE for a node that a mask does not hold, CREMA_E_IO. */
crema_status cr_numa_move_here(void *memory, size_t bytes) CREMA_MUST_USE;

/* Binds memory to `node`; a negative node and NUMA being off: no-op. Errors: CREMA_E_RANGE for
 * a node that there is not, CREMA_E_IO. */
crema_status cr_numa_bind(void *memory, size_t bytes, int node) CREMA_MUST_USE;

/* -1 while off. */
int cr_numa_node_of(const void *memory);
int cr_numa_nodes(void);
int cr_numa_current_node(void);

#endif
