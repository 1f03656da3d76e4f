
#include "parallel/messenger.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/system.h"

typedef struct packet {
  cr_group_id id;
  cr_world_message message;
} packet;

/* A name that begins with a zero is not one of a file: it ends with the socket. The id itself is
 * not part of it, because every process on the host could read it there. */
static socklen_t address_of(const cr_group_id *id, int rank, struct sockaddr_un *out) {
  uint64_t digest = 14695981039346656037u; /* FNV-1a */
  for (size_t i = 0; i < sizeof id->bytes; ++i) {
    digest = (digest ^ (unsigned char)id->bytes[i]) * 1099511628211u;
  }
  *out = (struct sockaddr_un){.sun_family = AF_UNIX};
  const int length = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "crema-%016llx-%d",
                              (unsigned long long)digest, rank);
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

crema_status cr_messenger_open(const cr_group_id *id, int rank, int ranks, cr_messenger *out) {
  struct sockaddr_un address;
  const socklen_t size = address_of(id, rank, &address);
  *out = (cr_messenger){.rank = rank, .ranks = ranks, .id = *id};
  out->socket = cr_system_socket(AF_UNIX, SOCK_DGRAM);
  if (out->socket >= 0 && bind(out->socket, (const struct sockaddr *)&address, size) == 0) {
    return CREMA_OK;
  }
  const int error = errno;
  cr_messenger_close(out);
  if (error == EADDRINUSE) {
    return cr_fail(CREMA_E_EXISTS, "another process of this host is rank %d already", rank);
  }
  cr_log_info("Ranks of this host hear late of a failure: no socket: %s", strerror(error));
  return CREMA_OK;
}

void cr_messenger_send(const cr_messenger *messenger, const cr_world_message *message) {
  packet all;
  memset(&all, 0, sizeof all);
  all.id = messenger->id;
  all.message = *message;
  if (messenger->socket < 0) return;
  for (int i = 0; i < messenger->ranks; ++i) {
    struct sockaddr_un address;
    const socklen_t size = address_of(&messenger->id, i, &address);
    if (i == messenger->rank) continue;
    (void)sendto(messenger->socket, &all, sizeof all, MSG_NOSIGNAL,
                 (const struct sockaddr *)&address, size);
  }
}

bool cr_messenger_receive(const cr_messenger *messenger, cr_world_message *out) {
  packet all;
  while (messenger->socket >= 0) {
    const ssize_t size = recv(messenger->socket, &all, sizeof all, MSG_DONTWAIT);
    if (size < 0) return false;
    if ((size_t)size != sizeof all) continue;
    if (memcmp(&all.id, &messenger->id, sizeof all.id) != 0) continue;
    *out = all.message;
    return true;
  }
  return false;
}

void cr_messenger_close(cr_messenger *messenger) {
  if (messenger->socket >= 0) (void)close(messenger->socket);
  messenger->socket = -1;
}
