#include "core/signals.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "core/clock.h"

/* Seconds after which pending signals are delivered. */
static const double INTERVAL = 0.01;

static _Thread_local struct {
  bool always;
  int depth;
  unsigned number;
  double since;    /* by cr_clock_seconds, when signals were last let in */
  sigset_t before; /* the thread's mask outside the outermost hold */
} held;

/* Blocks all signals but those that an instruction causes. */
static void block(sigset_t *before) {
  static const int caused[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
  sigset_t set;
  sigfillset(&set);
  for (size_t i = 0; i < sizeof caused / sizeof *caused; ++i) sigdelset(&set, caused[i]);
  pthread_sigmask(SIG_BLOCK, &set, before);
}

void cr_signals_block(void) {
  block(NULL);
}

void cr_signals_always_held(void) {
  held.always = true;
}

void cr_signals_hold(void) {
  if (held.always) return;
  if (held.depth++ > 0) {
    if (cr_clock_seconds() - held.since < INTERVAL) return;
    cr_signals_let_in();
    cr_signals_let_no_more_in();
    return;
  }
  if (++held.number == 0) held.number = 1;
  block(&held.before);
  held.since = cr_clock_seconds();
}

void cr_signals_release(void) {
  if (held.always || --held.depth > 0) return;
  pthread_sigmask(SIG_SETMASK, &held.before, NULL);
}

void cr_signals_let_in(void) {
  if (held.depth > 0) pthread_sigmask(SIG_SETMASK, &held.before, NULL);
}

void cr_signals_let_no_more_in(void) {
  if (held.depth == 0) return;
  block(NULL);
  held.since = cr_clock_seconds();
}

unsigned cr_signals_hold_number(void) {
  return held.always ? 0 : held.number;
}
