/* A child that answers, crashes, computes for ever, or waits for ever: its parent goes on. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "core/child.h"
#include "interpose.h"

static const cr_child_limits limits = {.seconds = 60, .patience = 60};
static volatile sig_atomic_t handled;

/* How many bytes the system takes at a time; 0: any number. */
static size_t most_sent;

INTERPOSED ssize_t send(int fd, const void *bytes, size_t size, int flags) {
  return REAL(send)(fd, bytes, most_sent > 0 && size > most_sent ? most_sent : size, flags);
}

/* Whether the system does not tell how much processor time a child has used. */
static bool no_clocks;

INTERPOSED int clock_getcpuclockid(pid_t pid, clockid_t *clock) {
  return no_clocks ? EPERM : REAL(clock_getcpuclockid)(pid, clock);
}

static void handle(int signal) {
  (void)signal;
  handled = 1;
}

static void answer_twice(int fd, void *user) {
  int number = 0;
  const int *factor = user;
  while (cr_child_receive_from(fd, &number, sizeof number)) {
    number *= *factor;
    if (!cr_child_send_to(fd, &number, sizeof number)) return;
  }
}

static bool multiply(cr_child *child, int number, int *out) {
  return cr_child_send(child, &number, sizeof number) && cr_child_receive(child, out, sizeof *out);
}

static void no_child_is_left(void) {
  assert_true(waitpid(-1, NULL, WNOHANG) < 0);
}

TEST(answers) {
  cr_child child;
  int factor = 7, got = 0;
  assert_true(cr_child_start(&child, answer_twice, &factor, limits));
  factor = 8; /* not the child's */
  assert_true(multiply(&child, 6, &got));
  assert_int_equal(got, 42);
  assert_true(multiply(&child, -1, &got));
  assert_int_equal(got, -7);
  assert_int_equal(cr_child_end(&child), 0);
  no_child_is_left();
}

static void die(int fd, void *user) {
  const int *signal = user;
  (void)fd;
  if (*signal != 0) raise(*signal);
}

/* The host's handlers do not run in the child. */
TEST(crashes) {
  int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGSYS, 0};
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    struct sigaction own = {.sa_handler = handle}, before;
    cr_child child;
    int got;
    if (signals[i] != 0) assert_int_equal(sigaction(signals[i], &own, &before), 0);
    assert_true(cr_child_start(&child, die, &signals[i], limits));
    assert_false(multiply(&child, 1, &got));
    assert_int_equal(cr_child_end(&child), signals[i]);
    if (signals[i] != 0) assert_int_equal(sigaction(signals[i], &before, NULL), 0);
  }
  assert_int_equal(handled, 0);
  no_child_is_left();
}

/* An end that an interrupted call came before is an end. */
TEST(an_end_is_no_interruption) {
  int end[2], none = 0;
  char byte;
  cr_child child;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
  assert_int_equal(close(end[0]), 0);
  errno = EINTR;
  assert_false(cr_child_receive_from(end[1], &byte, 1));
  close(end[1]);
  assert_true(cr_child_start(&child, die, &none, limits));
  errno = EINTR;
  assert_false(cr_child_receive(&child, &byte, 1));
  assert_int_equal(cr_child_end(&child), 0);
}

/* What comes in pieces is put together, and nothing of what follows is taken with it. */
TEST(pieces_are_put_together) {
  for (int of_child = 0; of_child < 2; ++of_child) {
    int end[2];
    char got[9] = "--------";
    /* These keep the bounds of what is sent. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, end), 0);
    cr_child child = {.pid = -1, .fd = end[1], .patience = 60};
    assert_true(cr_child_send_to(end[0], "abc", 3));
    assert_true(cr_child_send_to(end[0], "defgh", 5));
    assert_true(of_child ? cr_child_receive(&child, got, 5)
                         : cr_child_receive_from(end[1], got, 5));
    assert_string_equal(got, "abcde---");
    for (int i = 0; i < 2; ++i) close(end[i]);
  }
}

/* What the system takes in pieces is sent as a whole. */
TEST(pieces_are_sent) {
  int end[2];
  char got[9] = "--------";
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, end), 0);
  most_sent = 3;
  bool sent = cr_child_send_to(end[0], "abcdefgh", 8);
  most_sent = 0;
  assert_true(sent);
  assert_int_equal(recv(end[1], got, 8, MSG_DONTWAIT), 8);
  assert_string_equal(got, "abcdefgh");
  assert_int_equal(recv(end[1], got, 1, MSG_DONTWAIT), -1);
  close(end[1]);
  assert_false(cr_child_send_to(end[0], "abcdefgh", 8)); /* nobody is there */
  close(end[0]);
}

TEST(signals_from_outside) {
  int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGQUIT, SIGALRM, SIGTSTP};
  cr_child child;
  int factor = 2, got = 0;
  assert_true(signal(SIGUSR1, handle) != SIG_ERR);
  assert_true(cr_child_start(&child, answer_twice, &factor, limits));
  for (size_t i = 0; i < sizeof signals / sizeof *signals; ++i) {
    assert_int_equal(kill(child.pid, signals[i]), 0);
  }
  assert_true(multiply(&child, 5, &got));
  assert_int_equal(got, 10);
  assert_int_equal(cr_child_end(&child), 0);
  /* They still reach the parent. */
  assert_int_equal(handled, 0);
  assert_int_equal(raise(SIGUSR1), 0);
  assert_int_equal(handled, 1);
  handled = 0;
  no_child_is_left();
}

/* The system then does not report how children end. */
TEST(children_are_ignored) {
  int crash = SIGSEGV, quiet = 0, factor = 3, got = 0;
  cr_child child;
  assert_true(signal(SIGCHLD, SIG_IGN) != SIG_ERR);
  assert_true(cr_child_start(&child, answer_twice, &factor, limits));
  assert_true(multiply(&child, 5, &got));
  assert_int_equal(got, 15);
  assert_int_equal(cr_child_end(&child), 0);
  assert_true(cr_child_start(&child, die, &crash, limits));
  assert_false(multiply(&child, 5, &got));
  assert_int_equal(cr_child_end(&child), 0);
  assert_true(cr_child_start(&child, die, &quiet, limits));
  assert_false(multiply(&child, 5, &got));
  assert_int_equal(cr_child_end(&child), 0);
  assert_true(signal(SIGCHLD, SIG_DFL) != SIG_ERR);
  no_child_is_left();
}

static void compute(int fd, void *user) {
  volatile unsigned *count = user;
  (void)fd;
  for (;;) *count += 1;
}

static void wait_for_ever(int fd, void *user) {
  (void)fd, (void)user;
  for (;;) pause();
}

TEST(endless) {
  cr_child child;
  unsigned count = 0;
  int got;
  assert_true(
      cr_child_start(&child, compute, &count, (cr_child_limits){.seconds = 1, .patience = 60}));
  assert_false(cr_child_receive(&child, &got, sizeof got));
  assert_int_equal(cr_child_end(&child), SIGXCPU);
  assert_true(
      cr_child_start(&child, wait_for_ever, NULL, (cr_child_limits){.seconds = 60, .patience = 1}));
  assert_false(cr_child_receive(&child, &got, sizeof got));
  assert_int_equal(cr_child_end(&child), SIGKILL);
  no_child_is_left();
}

/* A child that computes for longer than the patience is still waited for, also where only its state
 * tells that it does. */
static void compute_and_answer(int fd, void *user) {
  struct timespec used = {0};
  const int answer = 11;
  (void)user;
  while (used.tv_sec < 1 || used.tv_nsec < 200000000) {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  }
  cr_child_send_to(fd, &answer, sizeof answer);
}

TEST(slow) {
  for (int untold = 0; untold < 2; ++untold) {
    cr_child child;
    int got = 0;
    memset(&child, 0xff, sizeof child); /* nothing of what was there counts */
    no_clocks = untold == 1;
    assert_true(cr_child_start(&child, compute_and_answer, NULL,
                               (cr_child_limits){.seconds = 60, .patience = 1}));
    assert_true(cr_child_receive(&child, &got, sizeof got));
    no_clocks = false;
    assert_int_equal(got, 11);
    assert_int_equal(cr_child_end(&child), 0);
  }
}

/* So is one that has computed, but rests at the moment when the patience ends. */
static void compute_rest_and_answer(int fd, void *user) {
  struct timespec used = {0}, end;
  const int answer = 12;
  (void)user;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_sec += end.tv_nsec < 500000000 ? 1 : 2;
  end.tv_nsec += end.tv_nsec < 500000000 ? 500000000 : -500000000;
  while (used.tv_nsec < 100000000) clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
  cr_child_send_to(fd, &answer, sizeof answer);
}

TEST(resting) {
  cr_child child;
  int got = 0;
  assert_true(cr_child_start(&child, compute_rest_and_answer, NULL,
                             (cr_child_limits){.seconds = 60, .patience = 1}));
  assert_true(cr_child_receive(&child, &got, sizeof got));
  assert_int_equal(got, 12);
  assert_int_equal(cr_child_end(&child), 0);
}

static void say_limits(int fd, void *user) {
  struct rlimit core, processor;
  (void)user;
  getrlimit(RLIMIT_CORE, &core);
  getrlimit(RLIMIT_CPU, &processor);
  const int64_t found[3] = {(int64_t)core.rlim_cur, (int64_t)processor.rlim_cur,
                            prctl(PR_GET_DUMPABLE, 0L, 0L, 0L, 0L)};
  cr_child_send_to(fd, found, sizeof found);
}

TEST(limits_of_children) {
  cr_child child;
  int64_t found[3];
  struct rlimit before, less;
  assert_int_equal(getrlimit(RLIMIT_CPU, &before), 0);
  assert_true(cr_child_start(&child, say_limits, NULL, limits));
  assert_true(cr_child_receive(&child, found, sizeof found));
  assert_true(found[0] == 0 && found[1] == 60 && found[2] == 0);
  cr_child_end(&child);
  /* A stricter limit of the host's stays. */
  less = before;
  less.rlim_cur = 50;
  assert_int_equal(setrlimit(RLIMIT_CPU, &less), 0);
  assert_true(cr_child_start(&child, say_limits, NULL, limits));
  assert_true(cr_child_receive(&child, found, sizeof found));
  assert_int_equal(found[1], 50);
  cr_child_end(&child);
  assert_int_equal(setrlimit(RLIMIT_CPU, &before), 0);
}

enum { FILES = 300 };

/* Which of the files are open. */
static void say_files(int fd, void *user) {
  char open[FILES];
  (void)user;
  for (int i = 0; i < FILES; ++i) open[i] = i != fd && fcntl(i, F_GETFD) >= 0;
  cr_child_send_to(fd, open, sizeof open);
}

/* A child has its three standard streams and its socket, whatever the host has opened before and
 * after. */
TEST(files_of_children) {
  static const int extra[] = {20, 21, 100, FILES - 1};
  cr_child child;
  char open[FILES] = {0};
  for (size_t i = 0; i < sizeof extra / sizeof *extra; ++i) {
    assert_int_equal(dup2(STDERR_FILENO, extra[i]), extra[i]);
  }
  assert_true(cr_child_start(&child, say_files, NULL, limits));
  assert_true(cr_child_receive(&child, open, sizeof open));
  assert_int_equal(cr_child_end(&child), 0);
  for (int i = 0; i < FILES; ++i) {
    if (open[i] != (i <= STDERR_FILENO)) fail_msg("file %d is %s", i, open[i] ? "open" : "closed");
  }
  for (size_t i = 0; i < sizeof extra / sizeof *extra; ++i) close(extra[i]);
}

/* Where no child can be had, there is nothing to end, and the signals are as before. */
TEST(no_child_to_be_had) {
  struct rlimit before, none;
  sigset_t mask, after;
  cr_child child;
  int factor = 2;
  memset(&child, 0xff, sizeof child);
  int lowest = dup(STDERR_FILENO);
  assert_true(lowest >= 0);
  close(lowest);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  pthread_sigmask(SIG_BLOCK, NULL, &mask);
  for (int files = 0; files < 2; ++files) {
    none = before;
    none.rlim_cur = (rlim_t)(lowest + files); /* none, and one of the two that it takes */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool started = cr_child_start(&child, answer_twice, &factor, limits);
    int error = errno;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_false(started);
    assert_int_equal(error, EMFILE);
    assert_int_equal(child.pid, -1);
    assert_int_equal(child.fd, -1);
  }
  pthread_sigmask(SIG_BLOCK, NULL, &after);
  for (int i = 1; i < 32; ++i) assert_int_equal(sigismember(&mask, i), sigismember(&after, i));
  int next = dup(STDERR_FILENO);
  assert_int_equal(next, lowest);
  close(next);
  no_child_is_left();
}

/* Its parent is killed while it waits. */
TEST(ends_with_its_parent) {
  int end[2];
  char byte;
  assert_int_equal(pipe(end), 0);
  pid_t parent = fork();
  if (parent == 0) {
    cr_child child;
    close(end[0]);
    if (cr_child_start(&child, wait_for_ever, NULL, limits)) raise(SIGKILL);
    _exit(1);
  }
  close(end[1]);
  /* The other end of the pipe is open as long as one of the two processes exists. */
  assert_int_equal(read(end[0], &byte, 1), 0);
  close(end[0]);
  int how;
  assert_int_equal(waitpid(parent, &how, 0), parent);
  assert_true(WIFSIGNALED(how));
}

/* The host may have closed its standard streams; what it has open is not kept open by a child. */
TEST(files_of_the_host) {
  cr_child child;
  int factor = 2, got = 0, end[2];
  char byte;
  assert_int_equal(pipe(end), 0);
  int input = dup(STDIN_FILENO);
  assert_true(input >= 0);
  close(STDIN_FILENO);
  assert_true(cr_child_start(&child, answer_twice, &factor, limits));
  assert_int_equal(child.fd, STDIN_FILENO);
  assert_true(multiply(&child, 4, &got));
  assert_int_equal(got, 8);
  close(end[1]);
  assert_int_equal(read(end[0], &byte, 1), 0);
  close(end[0]);
  assert_int_equal(cr_child_end(&child), 0);
  /* The child's end of the socket is one of the three where there are none at all. */
  int output = fcntl(STDOUT_FILENO, F_DUPFD, 10), error = fcntl(STDERR_FILENO, F_DUPFD, 10);
  close(STDOUT_FILENO), close(STDERR_FILENO);
  bool good = cr_child_start(&child, answer_twice, &factor, limits) && multiply(&child, 5, &got) &&
              got == 10 && cr_child_end(&child) == 0;
  dup2(output, STDOUT_FILENO), dup2(error, STDERR_FILENO), dup2(input, STDIN_FILENO);
  close(output), close(error), close(input);
  assert_true(good);
  no_child_is_left();
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
