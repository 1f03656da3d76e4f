/* A child process for work that may crash: a copy of this one, made by fork(), in which only the
 * calling thread runs. It talks to its parent over a socket.
 *
 * Nothing that happens to the child harms the host. Signals from outside, as of a terminal, do not
 * reach it, and the host's handlers do not run in it. It closes the host's files, leaves no core
 * file, prints nothing and ends with its parent. The system ends it when it computes for too long.
 * The parent learns of its end from the socket, so it does not matter whether the host ignores
 * SIGCHLD or reaps all children itself. */
#ifndef CR_CORE_CHILD_H
#define CR_CORE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <time.h>

typedef struct cr_child {
  pid_t pid;
  int fd;               /* the parent's end of the socket */
  struct timespec used; /* the child's CPU time at the last check */
  unsigned patience;
} cr_child;

/* The work: reads the parent's requests and writes answers with cr_child_receive_from and
 * cr_child_send_to, until one of them fails. */
typedef void cr_child_work(int fd, void *user);

typedef struct cr_child_limits {
  unsigned seconds;  /* of CPU time, in all */
  unsigned patience; /* seconds in which it neither answers nor computes */
} cr_child_limits;

/* Makes a child that does `work`, and waits until it has closed the files of this process. False,
 * with errno, if no process can be created. Used from one thread; the child ends with it. */
bool cr_child_start(cr_child *out, cr_child_work *work, void *user, cr_child_limits limits);

/* False when the child has ended or got stuck. It may wait forever for a lock that another thread
 * of its parent held at the fork, or for a lost disk. */
bool cr_child_send(cr_child *child, const void *bytes, size_t size);
bool cr_child_receive(cr_child *child, void *bytes, size_t size);

/* Called in the child. False: the parent has closed its end. */
bool cr_child_send_to(int fd, const void *bytes, size_t size);
bool cr_child_receive_from(int fd, void *bytes, size_t size);

/* Ends the child and waits for its end. Returns the signal that had ended it before; 0 when there
 * was none or it is not known. */
int cr_child_end(cr_child *child);

#endif
