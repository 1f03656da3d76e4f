/* Keeps signals away from threads that compute.
 *
 * oneDNN's generated kernels use the stack pointer as a pointer to data. If a signal is delivered
 * at that time, its frame is written over that data, unless its handler runs on a separate stack
 * (SA_ONSTACK). So a thread holds its signals back while it runs kernels, and the threads that
 * crema starts begin with signals blocked.
 *
 * "Signals" here are signals from outside the process. Signals that an instruction causes, such as
 * SIGSEGV, are not blocked: they would end the process before a handler could report them. */
#ifndef CR_CORE_SIGNALS_H
#define CR_CORE_SIGNALS_H

/* From the first hold to the last release the calling thread gets no signals. The pair nests; only
 * the outermost one costs system calls. A hold inside another lets pending signals in from time to
 * time, so that a long pass does not delay them. */
void cr_signals_hold(void);
void cr_signals_release(void);

/* Lets signals in while a thread that may hold them waits, and holds them again. Not to be nested.
 */
void cr_signals_let_in(void);
void cr_signals_let_no_more_in(void);

/* The number of the thread's current outermost hold; 0: the thread never gets signals. For work
 * that must be done once in each hold. */
unsigned cr_signals_hold_number(void);

/* Declares that signals are permanently blocked in the calling thread, and were blocked when it
 * first used OpenMP's threads. Holding then costs nothing. */
void cr_signals_always_held(void);

/* Blocks signals in the calling thread for good. */
void cr_signals_block(void);

#endif
