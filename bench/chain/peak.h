#ifndef CR_BENCH_CHAIN_PEAK_H
#define CR_BENCH_CHAIN_PEAK_H

/* Float operations a second that `threads` threads of the processor reach; a multiply-add is two. 0
 * where it is not known how to reach the peak. */
double measure_peak(int threads);

#endif
