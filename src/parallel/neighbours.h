/* Watching the processes of the same host: one that is killed can tell nobody. */
#ifndef CR_PARALLEL_NEIGHBOURS_H
#define CR_PARALLEL_NEIGHBOURS_H

#include <poll.h>
#include <stdbool.h>

#include "crema/status.h"
#include "crema/types.h"

/* What a process tells its neighbours of itself. */
typedef struct cr_neighbour {
  int64_t rank;
  int64_t process;
  uint64_t processes; /* the namespace in which `process` is its number; 0: unknown */
} cr_neighbour;

/* Of this process. */
cr_neighbour cr_neighbour_self(int rank);

/* A number that the processes of one host have in common, as long as it runs; never 0. */
uint64_t cr_neighbour_host(void);

/* The neighbours that are watched; zeroed: none. */
typedef struct cr_neighbours {
  int count;
  struct pollfd *process; /* `count` of them, readable once the process has ended */
  int *rank;
} cr_neighbours;

/* Starts to watch the others of neighbour[0 .. count - 1], as far as the system allows it. Free
 * with cr_neighbours_free. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_neighbours_watch(const cr_neighbour *neighbour, int count, int own_rank,
                                 cr_neighbours *out) CREMA_MUST_USE;
void cr_neighbours_free(cr_neighbours *neighbours);

/* The rank of a neighbour whose process has ended; -1: none has. Does not wait. */
int cr_neighbours_ended(cr_neighbours *neighbours);

/* Whether the rank is that of a watched process which has ended. */
bool cr_neighbours_has_ended(cr_neighbours *neighbours, int rank);

#endif
