#include "parallel/neighbours.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/rng.h"

cr_neighbour cr_neighbour_self(int rank) {
  struct stat names;
  cr_neighbour self = {.rank = rank, .process = getpid()};
  if (stat("/proc/self/ns/pid", &names) == 0) self.processes = names.st_ino;
  return self;
}

/* Linux draws the number anew each time it starts; containers see that of their host. */
uint64_t cr_neighbour_host(void) {
  char text[64] = "";
  FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
  const bool read = file != NULL && fgets(text, sizeof text, file) != NULL;
  if (file != NULL) (void)fclose(file);
  if (!read) (void)gethostname(text, sizeof text - 1);
  return cr_hash_text(text) | 1;
}

crema_status cr_neighbours_watch(const cr_neighbour *neighbour, int count, int own_rank,
                                 cr_neighbours *out) {
  const cr_neighbour self = cr_neighbour_self(own_rank);
  *out = (cr_neighbours){0};
  CR_TRY(CR_NEW(out->process, count, "the processes of this host"));
  const crema_status status = CR_NEW(out->rank, count, "the processes of this host");
  if (status != CREMA_OK) {
    cr_neighbours_free(out);
    return status;
  }
  for (int i = 0; i < count; ++i) {
    if (neighbour[i].rank == own_rank) continue;
    /* In another container the number is that of some other process. */
    if (self.processes == 0 || neighbour[i].processes != self.processes) continue;
    /* Not there before Linux 5.3, and forbidden in some containers. */
    const int process = (int)syscall(SYS_pidfd_open, (pid_t)neighbour[i].process, 0);
    if (process < 0) continue;
    out->process[out->count] = (struct pollfd){.fd = process, .events = POLLIN};
    out->rank[out->count++] = (int)neighbour[i].rank;
  }
  return CREMA_OK;
}

void cr_neighbours_free(cr_neighbours *neighbours) {
  for (int i = 0; i < neighbours->count; ++i) (void)close(neighbours->process[i].fd);
  free(neighbours->process);
  free(neighbours->rank);
  *neighbours = (cr_neighbours){0};
}

int cr_neighbours_ended(cr_neighbours *neighbours) {
  if (neighbours->count == 0) return -1;
  if (poll(neighbours->process, (nfds_t)neighbours->count, 0) <= 0) return -1;
  for (int i = 0; i < neighbours->count; ++i) {
    if (neighbours->process[i].revents != 0) return neighbours->rank[i];
  }
  return -1;
}

bool cr_neighbours_has_ended(cr_neighbours *neighbours, int rank) {
  for (int i = 0; i < neighbours->count; ++i) {
    if (neighbours->rank[i] == rank) return poll(&neighbours->process[i], 1, 0) > 0;
  }
  return false;
}
