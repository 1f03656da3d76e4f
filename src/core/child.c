#define _GNU_SOURCE /* close_range */
#include "core/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/io.h"
#include "core/system.h"

/* Signals that a fault or a limit causes end the child, as is the system's default; all others stay
 * blocked. */
static void reset_signals(void) {
  static const int mortal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS, SIGXCPU};
  struct sigaction usual = {.sa_handler = SIG_DFL};
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof mortal / sizeof *mortal; ++i) {
    sigaction(mortal[i], &usual, NULL);
    sigaddset(&set, mortal[i]);
  }
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void set_limits(unsigned seconds) {
  struct rlimit limit;
  setrlimit(RLIMIT_CORE, &(struct rlimit){0});
  cr_system_keep_no_core();
  if (getrlimit(RLIMIT_CPU, &limit) != 0) return;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur <= seconds) return;
  limit.rlim_cur = seconds;
  setrlimit(RLIMIT_CPU, &limit);
}

/* The C library reports a damaged heap on standard error. Other files are closed, so that the
 * host's locks and pipes do not outlive it. */
static void drop_files(int socket) {
  int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (fd >= 0) {
    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
  }
  if (socket > STDERR_FILENO + 1) close_range(STDERR_FILENO + 1, (unsigned)socket - 1, 0);
  close_range((unsigned)socket + 1, ~0U, 0);
}

/* The first byte that the child sends. */
static const char ready = 'r';

_Noreturn static void run(int fd, pid_t parent, cr_child_work *work, void *user, unsigned seconds) {
  cr_system_end_with_parent();
  /* A descriptor other than the three standard ones, which are about to be replaced. */
  if (fd <= STDERR_FILENO) fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (getppid() == parent && fd >= 0) {
    reset_signals();
    set_limits(seconds);
    drop_files(fd);
    if (cr_child_send_to(fd, &ready, 1)) work(fd, user);
  }
  /* _exit, because it must not flush, close or destroy anything of the host. */
  _exit(0);
}

bool cr_child_send_to(int fd, const void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t put = send(fd, (const char *)bytes + done, size - done, MSG_NOSIGNAL);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += (size_t)put;
  }
  return true;
}

bool cr_child_receive_from(int fd, void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = recv(fd, (char *)bytes + done, size - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

bool cr_child_send(cr_child *child, const void *bytes, size_t size) {
  return cr_child_send_to(child->fd, bytes, size);
}

/* Whether the child has computed since the last call, `seconds` ago. A little CPU time does not
 * count: the runtimes of some tools have a thread that wakes up from time to time. */
static bool has_worked(cr_child *child, unsigned seconds) {
  enum { LEAST = 2000000 /* nanoseconds per second */ };
  struct timespec before = child->used;
  if (!cr_system_time_of(child->pid, &child->used)) return false;
  int64_t used = (int64_t)(child->used.tv_sec - before.tv_sec) * 1000000000 + child->used.tv_nsec -
                 before.tv_nsec;
  return used >= (int64_t)seconds * LEAST;
}

/* Whether it waits for a processor or for a disk: /proc shows the state after the process's
 * name. */
static bool is_underway(const cr_child *child) {
  char path[32], text[256];
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)child->pid);
  int fd = cr_io_open(path, O_RDONLY, 0);
  if (fd < 0) return false;
  ssize_t size = cr_io_read(fd, text, sizeof text - 1);
  cr_io_close(fd);
  text[size < 0 ? 0 : size] = '\0';
  const char *state = strrchr(text, ')');
  return state != NULL && (strncmp(state, ") R", 3) == 0 || strncmp(state, ") D", 3) == 0);
}

bool cr_child_receive(cr_child *child, void *bytes, size_t size) {
  for (size_t done = 0; done < size;) {
    ssize_t got = recv(child->fd, (char *)bytes + done, size - done, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
      if (has_worked(child, child->patience) || is_underway(child)) continue;
      /* It still exists, since its end of the socket is open. */
      kill(child->pid, SIGKILL);
      return false;
    }
    if (got <= 0) return false;
    done += (size_t)got;
  }
  return true;
}

bool cr_child_start(cr_child *out, cr_child_work *work, void *user, cr_child_limits limits) {
  const struct timeval patience = {.tv_sec = limits.patience};
  sigset_t all, before;
  int pair[2], error = 0;
  pid_t self = getpid();
  *out = (cr_child){.pid = -1, .fd = -1, .patience = limits.patience};
  if (cr_system_socket_pair(AF_UNIX, SOCK_STREAM, pair) != 0) return false;
  setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  /* No handler of the host may run in the child. */
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pid_t pid = fork();
  if (pid == 0) {
    run(pair[1], self, work, user, limits.seconds);
  }
  error = errno;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  close(pair[1]);
  if (pid < 0) {
    close(pair[0]);
    errno = error;
    return false;
  }
  out->pid = pid;
  out->fd = pair[0];
  /* Waits until it has closed its parent's files. A child that ended before that is noticed at the
   * first request. */
  (void)cr_child_receive(out, &(char){0}, 1);
  return true;
}

int cr_child_end(cr_child *child) {
  int how = 0;
  pid_t ended;
  /* Unlike closing, this reaches the child even where other processes have inherited the socket. */
  shutdown(child->fd, SHUT_RDWR);
  close(child->fd);
  do ended = waitpid(child->pid, &how, 0);
  while (ended < 0 && errno == EINTR);
  return ended == child->pid && WIFSIGNALED(how) ? WTERMSIG(how) : 0;
}
