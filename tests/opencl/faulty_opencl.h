/* What a test asks the OpenCL loader of the tests for, and what that has seen. */
#ifndef CR_TESTS_OPENCL_FAULTY_OPENCL_H
#define CR_TESTS_OPENCL_FAULTY_OPENCL_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

typedef enum seen_call { SEEN_WRITE, SEEN_READ, SEEN_KERNEL, SEEN_FINISH } seen_call;

typedef struct seen {
  seen_call call;
  const void *queue;
  size_t bytes; /* of a copy */
  bool begun;   /* the device has begun the command; of SEEN_FINISH: always */
  bool done;
} seen;

typedef struct faulty_state {
  atomic_bool lost;      /* the device has disappeared: its calls fail */
  atomic_bool no_memory; /* no buffer can be made */
  atomic_size_t room;    /* bytes of device memory; 0: no limit but the device's */
  atomic_int writes;     /* the number that succeed before all fail; negative: all succeed */
  atomic_int kernels;    /* the number that run before the device is lost; negative: all run */
  /* The next kernel, and all work queued on its queue after it, waits for `release`. */
  atomic_bool hold;
  void (*release)(void);
  /* Work that is queued on the queue after `stop` waits for `resume`. */
  void (*stop)(const void *queue);
  void (*resume)(void);
  /* Commands are kept while `watch` is set. Copies to `out` those that there is room for, in the
   * order in which they were queued; returns their number. `forget` empties the list. */
  atomic_bool watch;
  size_t (*look)(seen *out, size_t room);
  void (*forget)(void);
  /* Buffers that the driver holds: device memory, and memory of the host that it maps. */
  atomic_size_t device_buffers, device_bytes, host_buffers, host_bytes;
  atomic_size_t made, refused; /* device buffers so far */
} faulty_state;

/* The state of the loader at `path`, which the plug-in has opened; NULL: see dlerror. */
static inline faulty_state *find_faulty_state(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *symbol = library != NULL ? dlsym(library, "faulty_opencl") : NULL;
  faulty_state *(*entry)(void) = NULL;
  memcpy(&entry, &symbol, sizeof entry);
  return entry != NULL ? entry() : NULL;
}

/* Whether the count is or becomes `value`. A driver may free a buffer a moment after the work that
 * used it. */
static inline bool becomes(const atomic_size_t *count, size_t value) {
  for (int i = 0; i < 10000 && atomic_load(count) != value; ++i) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
  }
  return atomic_load(count) == value;
}

#endif
