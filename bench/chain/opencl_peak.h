/* The peak of multiply-adds of an OpenCL device: a kernel of independent chains of them. */
#ifndef BENCH_CHAIN_OPENCL_PEAK_H
#define BENCH_CHAIN_OPENCL_PEAK_H

typedef struct opencl_peak opencl_peak;

/* Of the first device of this name: compiles the kernel with vectors of 1, 4, 8 and 16 floats,
 * keeps the fastest, and makes a run take about `seconds`. NULL: there is no such device, or the
 * build has no headers of OpenCL. Free with opencl_peak_close, which accepts NULL. */
opencl_peak *opencl_peak_open(const char *device_name, double seconds);
void opencl_peak_close(opencl_peak *peak);

/* Runs the kernel and waits for it. */
void opencl_peak_run(void *peak);

/* Operations of a run, two for each multiply-add, and the vectors' width. */
double opencl_peak_operations(const opencl_peak *peak);
int opencl_peak_width(const opencl_peak *peak);

#endif
