/* Time. */
#ifndef CR_CORE_CLOCK_H
#define CR_CORE_CLOCK_H

/* Seconds since some fixed moment; never goes back. */
double cr_clock_seconds(void);

/* Sleeps at least `seconds`. */
void cr_clock_sleep(double seconds);

#endif
