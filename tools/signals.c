#include "signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "cli.h"
#include "core/clock.h"
#include "core/signals.h"

/* Enough for the thread, sanitizers and the libraries' thread-local data included; the usual 8 MB
 * would count where memory is limited. */
enum { STACK_BYTES = 256 << 10, HANDLED = 5 };

static const int handled[HANDLED] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXCPU};

/* Two signals of one kind within so many seconds count as one. */
static const double ONE_REQUEST = 0.5;

static struct {
  atomic_bool noted[HANDLED];
  bool ignored[HANDLED]; /* when the program started */
  /* Held while a signal's effect is chosen: a signal that ends the program does so before
   * cli_signals_note() returns. */
  pthread_mutex_t choice;
  bool noting;
  bool hasty;
} signals = {.choice = PTHREAD_MUTEX_INITIALIZER};

static int index_of(int number) {
  int i = 0;
  while (i < HANDLED - 1 && handled[i] != number) ++i;
  return i;
}

static sigset_t handled_set(void) {
  sigset_t set;
  sigemptyset(&set);
  for (int i = 0; i < HANDLED; ++i) sigaddset(&set, handled[i]);
  return set;
}

/* Ends as the signal's default action does. The first process of a container has no default
 * actions; it just exits. */
static void end_program(int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  signal(number, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  raise(number);
  _exit(128 + number);
}

/* A user who asks a second time does not want to wait for the end of the iteration. */
static bool ends_when_repeated(int number) {
  return number == SIGTERM || (number == SIGINT && signals.hasty);
}

/* `first`: when the first signal of this kind was noted; 0: never. */
static void take(int number, double *first) {
  const int i = index_of(number);
  const double now = cr_clock_seconds();
  if (number != SIGUSR1 && !signals.noting) {
    if (!signals.ignored[i]) end_program(number);
    return;
  }
  if (*first > 0 && now - *first > ONE_REQUEST && ends_when_repeated(number)) end_program(number);
  if (*first == 0) *first = now;
  atomic_store(&signals.noted[i], true);
}

static void *take_signals(void *arg) {
  (void)arg;
  const sigset_t set = handled_set();
  double first[HANDLED] = {0};
  for (;;) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    pthread_mutex_lock(&signals.choice);
    take(number, &first[index_of(number)]);
    pthread_mutex_unlock(&signals.choice);
  }
  return NULL;
}

bool cli_signals_start(void) {
  const sigset_t set = handled_set();
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  for (int i = 0; i < HANDLED; ++i) {
    struct sigaction action;
    signals.ignored[i] = sigaction(handled[i], NULL, &action) == 0 && action.sa_handler == SIG_IGN;
    /* POSIX leaves open whether an ignored signal can be waited for. */
    if (signals.ignored[i]) signal(handled[i], SIG_DFL);
  }
  pthread_attr_t attributes;
  pthread_t thread;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  int failed = pthread_create(&thread, &attributes, take_signals, NULL);
  pthread_attr_destroy(&attributes);
  if (failed != 0) {
    cli_error("cannot start the thread that waits for signals");
    return false;
  }
  /* The thread also receives the other signals, which stop, continue or end the program as usual.
   * So no signal has to wait for the end of a pass. */
  cr_signals_block();
  cr_signals_always_held();
  return true;
}

void cli_signals_note(bool hasty) {
  pthread_mutex_lock(&signals.choice);
  signals.hasty = hasty;
  signals.noting = true;
  pthread_mutex_unlock(&signals.choice);
}

bool cli_signal_came(int number) {
  return atomic_exchange(&signals.noted[index_of(number)], false);
}
