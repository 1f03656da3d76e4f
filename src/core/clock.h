/* Time. */
#ifndef CR_CORE_CLOCK_H
#define CR_CORE_CLOCK_H

/* Seconds since a fixed moment; monotonic. */
double cr_clock_seconds(void);

/* Seconds since the beginning of 1970, UTC. */
double cr_clock_date(void);

/* Sleeps at least `seconds`. */
void cr_clock_sleep(double seconds);

/* Between poll number `turn` of other threads' work and the next: returns at once at first, then
 * yields the processor, later sleeps up to 0.2 ms. So a waiting thread soon leaves the processor to
 * threads that compute. */
void cr_clock_pause(unsigned turn);

#endif
