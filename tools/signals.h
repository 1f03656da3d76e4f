/* The signals that a command handles.
 *
 * No handler is installed: its frame could be written over data of a kernel that is running
 * (src/core/signals.h). One thread waits for the signals instead. All other threads block them,
 * and all signals that have no handler. */
#ifndef CREMA_TOOLS_SIGNALS_H
#define CREMA_TOOLS_SIGNALS_H

#include <stdbool.h>

/* Takes SIGHUP, SIGINT, SIGTERM, SIGUSR1 and SIGXCPU from now on. To be called once, while the
 * program has one thread. SIGUSR1 is noted at once. Until cli_signals_note the other signals keep
 * their usual effect: they end the program, or do nothing if they were ignored when it started (as
 * nohup does). False (error printed) when the thread cannot be started. */
bool cli_signals_start(void);

/* From now on all are noted for cli_signal_came, also those that were ignored when the program
 * started. A second SIGTERM ends the program at once, as does a second SIGINT if `hasty`. A
 * repetition within half a second does not count: timeout, job managers and terminals send the same
 * signal both to a program and to its process group. */
void cli_signals_note(bool hasty);

/* Whether the signal came since the last call with this number. */
bool cli_signal_came(int number);

#endif
