#include "parallel/peer_watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/rng.h"
#include "core/system.h"

cr_peer cr_peer_self(int rank) {
  struct stat names;
  cr_peer self = {.rank = rank, .process = getpid()};
  if (stat("/proc/self/ns/pid", &names) == 0) self.processes = names.st_ino;
  return self;
}

/* Linux draws the number at each start; containers have their host's number. */
uint64_t cr_peer_host(void) {
  char text[64] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  const bool read = file != NULL && fgets(text, sizeof text, file) != NULL;
  if (file != NULL) (void)fclose(file);
  if (!read) (void)gethostname(text, sizeof text - 1);
  return cr_hash_text(text) | 1;
}

crema_status cr_peer_watch_start(const cr_peer *peer, int count, int own_rank, cr_peer_watch *out) {
  const cr_peer self = cr_peer_self(own_rank);
  *out = (cr_peer_watch){0};
  CR_TRY(CR_NEW(out->process, count, "the processes of this host"));
  const crema_status status = CR_NEW(out->rank, count, "the processes of this host");
  if (status != CREMA_OK) {
    cr_peer_watch_stop(out);
    return status;
  }
  for (int i = 0; i < count; ++i) {
    if (peer[i].rank == own_rank) continue;
    /* In another container the number belongs to some other process. */
    if (self.processes == 0 || peer[i].processes != self.processes) continue;
    const int process = cr_system_watch_process((pid_t)peer[i].process);
    if (process < 0) continue;
    out->process[out->count] = (struct pollfd){.fd = process, .events = POLLIN};
    out->rank[out->count++] = (int)peer[i].rank;
  }
  return CREMA_OK;
}

void cr_peer_watch_stop(cr_peer_watch *peers) {
  for (int i = 0; i < peers->count; ++i) (void)close(peers->process[i].fd);
  free(peers->process);
  free(peers->rank);
  *peers = (cr_peer_watch){0};
}

int cr_peer_watch_ended(cr_peer_watch *peers) {
  if (peers->count == 0) return -1;
  if (poll(peers->process, (nfds_t)peers->count, 0) <= 0) return -1;
  for (int i = 0; i < peers->count; ++i) {
    if (peers->process[i].revents != 0) return peers->rank[i];
  }
  return -1;
}

bool cr_peer_watch_has_ended(cr_peer_watch *peers, int rank) {
  for (int i = 0; i < peers->count; ++i) {
    if (peers->rank[i] == rank) return poll(&peers->process[i], 1, 0) > 0;
  }
  return false;
}
