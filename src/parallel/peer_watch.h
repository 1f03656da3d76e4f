/* Watches the other processes of this host, because a killed process sends no message. */
#ifndef CR_PARALLEL_PEER_WATCH_H
#define CR_PARALLEL_PEER_WATCH_H

#include <poll.h>
#include <stdbool.h>

#include "crema/status.h"
#include "crema/types.h"

/* The identity of this process for other processes of the host. */
typedef struct cr_peer {
  int64_t rank;
  int64_t process;
  uint64_t processes; /* the namespace in which `process` is its number; 0: unknown */
} cr_peer;

/* This process as a peer. */
cr_peer cr_peer_self(int rank);

/* A number shared by all processes of one host until it restarts; never 0. */
uint64_t cr_peer_host(void);

/* The watched peers; zeroed: none. */
typedef struct cr_peer_watch {
  int count;
  struct pollfd *process; /* `count` of them, readable once the process has ended */
  int *rank;
} cr_peer_watch;

/* Starts to watch peer[0 .. count - 1] except `own_rank`, if the system allows it. End with
 * cr_peer_watch_stop. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_peer_watch_start(const cr_peer *peer, int count, int own_rank,
                                 cr_peer_watch *out) CREMA_MUST_USE;
void cr_peer_watch_stop(cr_peer_watch *peers);

/* The rank of a peer that has ended; -1: none. Does not wait. */
int cr_peer_watch_ended(cr_peer_watch *peers);

/* Whether `rank` is a watched peer that has ended. */
bool cr_peer_watch_has_ended(cr_peer_watch *peers, int rank);

#endif
