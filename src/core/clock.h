/* Time. */
#ifndef CR_CORE_CLOCK_H
#define CR_CORE_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double cr_clock_seconds(void);

/* Sleeps at least `seconds`. */
void cr_clock_sleep(double seconds);

/* Between question number `turn` and the next whether something is done that others do: nothing at
 * first, then the processor is left to others, later for a fifth of a millisecond at a time. A
 * thread that waits soon leaves it to those that compute; what it waits for is part of what they
 * will need. */
void cr_clock_pause(unsigned turn);

#endif
