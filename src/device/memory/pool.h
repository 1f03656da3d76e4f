/* The caching allocator of a device's memory.
 *
 * Small and medium requests are rounded up to bins. A freed block returns to its bin and serves the
 * next request of that size without a driver call. A block that is freed while queued work still
 * uses it can serve the same context immediately. Other contexts get it after that work is
 * complete. If the driver has no memory left, all idle blocks are returned to it and the request is
 * retried once. Any thread may allocate and free. */
#ifndef CR_DEVICE_POOL_H
#define CR_DEVICE_POOL_H

#include "device/backend/backend.h"

typedef enum cr_pool_mode {
  CR_POOL_NONE, /* straight to the driver */
  CR_POOL_BINS, /* the default: powers of two from 64 bytes to 4 MiB, larger blocks uncached */
  CR_POOL_CUB,  /* powers of 8 from 512 bytes to 1 GiB, at most 10 GiB idle */
  CR_POOL_THC   /* as BINS, but any context gets a freed block at once: correct only for memory that
                 * never leaves one context */
} cr_pool_mode;

typedef struct cr_pool_options {
  cr_pool_mode mode;
  unsigned growth; /* bin b holds blocks of growth^b bytes */
  unsigned min_bin, max_bin;
  size_t max_idle_bytes; /* SIZE_MAX: no limit */
  bool one_stream;
  bool print_events; /* log the driver's allocations and releases (DEBUG_GPU_MEM) */
  double threshold;  /* fraction of the total below which the free memory is queried again */
} cr_pool_options;

cr_pool_options cr_pool_options_for(cr_pool_mode mode);

/* "" and "none", "bins", "cub", "thc". Errors: CREMA_E_UNKNOWN_NAME for all others. */
crema_status cr_pool_mode_parse(const char *text, cr_pool_mode *out) CREMA_MUST_USE;

/* The mode of pools that are created afterwards. Errors: CREMA_E_STATE once a device has been
 * opened with another mode. */
crema_status cr_pool_set_mode(cr_pool_mode mode) CREMA_MUST_USE;
cr_pool_mode cr_pool_current_mode(void);

/* Free with cr_pool_destroy. `device` stays the caller's. */
crema_status cr_pool_create(crema_device *device, const cr_pool_options *options,
                            cr_pool **out) CREMA_MUST_USE;

/* Gives all blocks, also those still in use, back to the driver. Accepts NULL. */
void cr_pool_destroy(cr_pool *pool);

/* `user` is the id of the context that will use the memory first; 0: the host, which
 * means that the memory must be idle. bytes 0 gives no memory (address 0). */
crema_status cr_pool_alloc(cr_pool *pool, size_t bytes, uint64_t user,
                           crema_devptr *out) CREMA_MUST_USE;

/* `user` is the id of the context whose queued work may still use the memory; 0: none.
 * Address 0 is a no-op. Errors: CREMA_E_ARGUMENT for memory that is not from the pool. */
crema_status cr_pool_free(cr_pool *pool, crema_devptr memory, uint64_t user) CREMA_MUST_USE;

/* Gives all idle blocks back to the driver, waiting for work that still uses them; returns
 * their bytes. */
size_t cr_pool_trim(cr_pool *pool);

typedef struct cr_pool_info {
  size_t live_blocks, live_bytes; /* handed out */
  size_t idle_blocks, idle_bytes; /* kept */
  size_t peak_bytes;              /* most ever held, live and idle together */
  uint64_t cached;                /* requests served without the driver */
  uint64_t driver_allocs;
  uint64_t driver_queries; /* number of queries of the driver's free memory */
  uint64_t flushes;        /* times that a request failed and idle blocks were released */
} cr_pool_info;
cr_pool_info cr_pool_describe(cr_pool *pool);

/* Memory that could be allocated: the running estimate of the driver's free memory, plus idle
 * blocks. With `refresh` the driver is queried first. */
crema_status cr_pool_memory(cr_pool *pool, bool refresh, size_t *free_bytes,
                            size_t *total_bytes) CREMA_MUST_USE;

#endif
