/* Failure messages between the processes of one host that train together, for worlds without a
 * channel of their library (nccl_world.c). Each rank has a socket, which is found by the group's
 * id. The id in a message proves that the sender is a member. */
#ifndef CR_PARALLEL_MESSENGER_H
#define CR_PARALLEL_MESSENGER_H

#include "parallel/world_private.h"

typedef struct cr_messenger {
  int socket; /* -1: there is none */
  int rank, ranks;
  cr_group_id id;
} cr_messenger;

/* Opens rank `rank`'s socket. Where the system allows none there are no messages, which is logged.
 * Errors: CREMA_E_EXISTS when a process of this host is that rank already. */
crema_status cr_messenger_open(const cr_group_id *id, int rank, int ranks,
                               cr_messenger *out) CREMA_MUST_USE;

/* To all other ranks, except those that are not on this host or not there. Does not wait. */
void cr_messenger_send(const cr_messenger *messenger, const cr_world_message *message);

/* The next message, if there is one. Does not wait. */
bool cr_messenger_receive(const cr_messenger *messenger, cr_world_message *out);

void cr_messenger_close(cr_messenger *messenger);

#endif
