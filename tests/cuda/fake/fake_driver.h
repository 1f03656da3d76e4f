/* What the fakes know of each other. */
#ifndef CR_TESTS_CUDA_FAKE_DRIVER_H
#define CR_TESTS_CUDA_FAKE_DRIVER_H

#include <cuda.h>
#include <stdatomic.h>
#include <stdbool.h>

/* One bit per device that somebody opened. */
unsigned fake_open_devices(void);

/* Opens the device and makes its context that of the calling thread. */
void fake_bind(int device);

/* The device whose context the calling thread has; -1: none. */
int fake_bound(void);

/* The end of the process, as far as CUDA is concerned: from now on every call of the runtime fails,
 * and the libraries do not bear being called. */
void fake_unload(void);

/* The driver is unloaded in the middle of the next work of a library. */
void fake_unload_during_work(void);

/* Called by the libraries when they start or work. True: the driver has just gone. */
bool fake_works_on(void);

/* FAKE_CUDA_NO_WORK: kernels and libraries check their calls and compute nothing, for tests of
 * large nets. Memory is zero. */
bool fake_is_idle(void);

/* The driver is back, for the next test. */
void fake_load(void);

/* Remembers what nobody can free after that, so that it does not count as leaked. */
void fake_keep(void *memory);
bool fake_unloaded(void);

/* How many collectives, joining included, this process has begun and not been told to be queued. */
void fake_change_collectives(int change);
/* Called where memory is taken, given back, asked for or shown to another device, and where code is
 * loaded: what a driver may not bear meanwhile. */
void fake_touch_memory(void);
/* Calls it when code is loaded, if *loaded is false; then sets that. FAKE_CUDA_SLOW_CODE: loading
 * takes a while, and it is called again at the end. */
void fake_load_code(atomic_bool *loaded);
/* How often that was called meanwhile, and at all. */
int fake_touched_beside_collectives(void);
int fake_touched(void);

/* Graphs. A thread records one at a time, on one stream. */
typedef struct fake_graph fake_graph;

bool fake_begin_recording(struct CUstream_st *stream);
/* False: the thread does not record there. *out becomes NULL for a recording that was spoiled. */
bool fake_end_recording(struct CUstream_st *stream, fake_graph **out);
/* Called by calls that are forbidden to a thread that records: true, and the recording is spoiled.
 */
bool fake_spoil(void);
/* Keeps the work, with a copy of `data`, if the stream records; false: it is to be done now. */
bool fake_record(struct CUstream_st *stream, void (*run)(const void *data), const void *data,
                 size_t bytes);
void fake_run_graph(const fake_graph *graph);
void fake_keep_graph(fake_graph *graph);
void fake_release_graph(fake_graph *graph);

#endif
