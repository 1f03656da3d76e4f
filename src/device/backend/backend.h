/* A back end: the table of its functions, and the structs of devices and contexts that these get.
 * Everything else under device/ uses this folder. */
#ifndef CR_DEVICE_BACKEND_BACKEND_H
#define CR_DEVICE_BACKEND_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/rng.h"
#include "crema/device.h"
#include "device/backend/collective.h"
#include "device/backend/layout.h"

enum {
  CR_DEVICE_TYPES = CREMA_DEVICE_OPENCL + 1,
  CR_MAX_DEVICES = 16 /* of one type */
};

/* A back end's own event: a position in a context's queue of work. The events of crema/event.h,
 * which have states, are built on it. */
typedef struct cr_native_event cr_native_event;

/* Work of a context that was recorded and can be started again. */
typedef struct cr_device_graph cr_device_graph;
typedef struct cr_kernel cr_kernel;
typedef struct cr_plan cr_plan;
typedef struct cr_pool cr_pool;

/* Direction of a copy, relative to the device whose table is called. */
typedef enum cr_copy_kind {
  CR_COPY_HOST_TO_DEVICE,
  CR_COPY_DEVICE_TO_HOST,
  CR_COPY_SAME_DEVICE,
  CR_COPY_PEER /* from or to another device of the same back end */
} cr_copy_kind;

/* Piece `index` of host work that is no op. `worker` is the number of the thread that does it; no
 * two threads have the same number at a time. */
typedef crema_status cr_host_work(void *state, int worker, int64_t index);

/* How a back end shares out the host's threads. */
typedef struct cr_host_scheduler {
  /* The most threads that an op of the context may use. */
  int (*threads)(const crema_context *context);

  /* Surround a kernel's plan(), for which enter_plan sets plan->threads, and its run() on the
   * calling thread; `leave` gets their result. (optional) NULL, all three: the kernels do it. */
  int (*enter_plan)(cr_plan *plan);
  int (*enter_run)(const cr_plan *plan);
  void (*leave)(int before);

  /* The number of threads that pays for work that takes the time of `multiply_adds` multiply-adds.
   * (optional) NULL: devices with their own memory. */
  int (*workers)(const crema_context *context, double multiply_adds);
  /* Calls `work` for each index below `count`, by at most `workers` threads, then returns the
   * failure of the lowest index that failed. (optional) NULL: as above. */
  crema_status (*spread)(int workers, int64_t count, cr_host_work *work, void *state);
} cr_host_scheduler;

/* See cr_backend.convert. */
typedef struct cr_conversion {
  int64_t count;
  cr_format to, from;
  crema_devptr dst, src;
} cr_conversion;

/* One table per back end. After the driver has been unloaded at the end of the process, calls fail
 * with CREMA_E_CLOSED, which is ignored where something is freed. Calls that take a context queue
 * work on it and may return before the work is done; all others are complete on return. A member
 * may be NULL only if it is marked (optional). */
typedef struct cr_backend {
  crema_device_type type;
  const char *name; /* "cpu", "sim", "cuda" */
  /* The device's memory is host memory: syncedmem keeps one side only, and device addresses are
   * host addresses. */
  bool host_memory;

  /* Devices: */

  /* How many devices there are; a failure (no driver) counts as 0, with the reason as its text. */
  crema_status (*count)(int *out);
  /* Fills `device->state` and other members for the back end's use. */
  crema_status (*open)(crema_device *device);
  void (*close)(crema_device *device);
  crema_status (*describe)(crema_device *device, crema_device_info *out);
  /* Whether the device multiplies values of the type (BF16, I8) faster than floats. (optional)
   * NULL: no. */
  bool (*is_fast)(crema_dtype type);
  /* The back end computes faster with CREMA_MATH_FAST. */
  bool has_fast_math;

  /* Memory: */

  /* Device memory. Alignment at least 64 bytes. bytes > 0. */
  crema_status (*alloc)(crema_device *device, size_t bytes, crema_devptr *out);
  void (*free)(crema_device *device, crema_devptr memory);
  /* Host memory for asynchronous copies: page-locked if the device supports it. */
  crema_status (*host_alloc)(crema_device *device, size_t bytes, void **out);
  void (*host_free)(crema_device *device, void *memory);

  /* Contexts: */

  /* Fills `context->state` with a stream and library handles. */
  crema_status (*context_open)(crema_context *context);
  void (*context_close)(crema_context *context);
  crema_status (*finish)(crema_context *context);
  /* A failure of the context's finished work, which is returned once, here or by finish. Never
   * waits. (optional) NULL: work returns its failures itself. */
  crema_status (*failure)(crema_context *context);

  /* Exactly one of the addresses may be a host address, as `kind` says. Equal ranges and no bytes
   * are a no-op. Errors: CREMA_E_ARGUMENT for ranges that overlap. */
  crema_status (*copy)(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                       size_t bytes);
  crema_status (*zero)(crema_context *context, crema_devptr memory, size_t bytes);
  /* Converts `count` values from one format to another. At most one of the two is not plain, or the
   * element types are equal, or the layouts have the same order. */
  crema_status (*convert)(crema_context *context, int64_t count, cr_format dst_format,
                          crema_devptr dst, cr_format src_format, crema_devptr src);
  /* The same for several arrays of the device, with fewer launches. Each changes between row-major
   * order and a layout. (optional) NULL: there is no such call. */
  crema_status (*convert_many)(crema_context *context, const cr_conversion *conversion, int count);
  /* It changes element type and order in one step as fast as either. */
  bool converts_at_once;

  crema_status (*event_create)(crema_device *device, cr_native_event **out);
  void (*event_destroy)(cr_native_event *event);
  crema_status (*event_record)(crema_context *context, cr_native_event *event);
  /* Later work of `context` waits for the event as recorded so far; the host does not wait. */
  crema_status (*event_wait)(crema_context *context, cr_native_event *event);
  crema_status (*event_query)(cr_native_event *event, bool *done);
  crema_status (*event_finish)(cr_native_event *event);

  /* Kernels: */

  /* The kernel table: best kernels first, the plain kernel last; ends with NULL. See
   * device/backend/kernel.h. */
  const cr_kernel *const *kernels;
  /* Whether plan->kernel may be run or, if `planning`, be planned. CREMA_E_UNSUPPORTED: plan the op
   * with a kernel that follows in the table; any other failure: with none. (optional) NULL: yes. */
  crema_status (*ready)(const cr_plan *plan, bool planning);
  /* (optional) NULL: kernels use no threads of the host. */
  const cr_host_scheduler *scheduler;
  /* (optional) NULL: no library exchanges values between devices. */
  const cr_collectives *collectives;

  /* Graphs: (optional) NULL, all four: the back end records no work: */

  /* The calling thread's work on the context is recorded instead of started, until capture_end by
   * the same thread. Some entries cannot be recorded: those that wait, query, allocate, free, use
   * an event, or copy from or to the host. If the thread calls one, the recording ends and the
   * recorded work starts first. */
  crema_status (*capture_begin)(crema_context *context);
  /* *out becomes the recorded work, which has not started; NULL: the recording has ended before,
   * and *why is the static text of the reason. On failure the recorded work is lost. */
  crema_status (*capture_end)(crema_context *context, cr_device_graph **out, const char **why);
  /* Queues the work. `passes` is added to the counters with which it draws random numbers. */
  crema_status (*graph_run)(cr_device_graph *graph, crema_context *context, uint64_t passes);
  /* To be called when the work is done. Accepts NULL. */
  void (*graph_destroy)(cr_device_graph *graph);

  /* Layouts: (optional) NULL, all: the back end has none; NULL, `part` and `enlarge`: values of
   * arrays in its layouts are not stored in other arrays: */

  /* The layout of `type` with the same order of values and padding, so that a conversion between
   * the two moves no value. NULL if there is none. Lives as long as `layout`, whose counterpart it
   * is. */
  const cr_layout *(*same_order)(const cr_layout *layout, crema_dtype type);
  /* The layout of a part of an array that is held in `format`. False: no layout describes it,
   * because a block of the order spans two parts, or the axis is another than 0 and 1. */
  bool (*part)(cr_format format, const cr_part *part, cr_part_place *out);
  /* The format of values of `shape` in the order of `format`, which is of another shape. False:
   * there is none. */
  bool (*enlarge)(cr_format format, const crema_shape *shape, cr_format *out);
  /* Writes the name of a layout for people, such as "aBcd8b". (optional) NULL: no layouts. */
  void (*layout_text)(const cr_layout *layout, char *text, size_t size);

  /* Devices with their own memory: (optional) NULL, all: host memory: */

  /* The address by which the device reaches memory of host_alloc. */
  crema_status (*host_alias)(crema_device *device, void *memory, crema_devptr *out);
  crema_status (*memory_info)(crema_device *device, size_t *free_bytes, size_t *total_bytes);
  /* Whether the context has work that is not done. Leaves no pending failure. */
  crema_status (*busy)(crema_context *context, bool *out);
  /* The index of the device whose memory it is; -1 for host and unknown addresses. */
  int (*owner)(uintptr_t address);
  /* Makes `device` the driver's current device for the calling thread. */
  crema_status (*set_current)(crema_device *device);
  /* The same until leave_device(*before), which restores the thread's previous choice. */
  crema_status (*enter_device)(const crema_device *device, int *before);
  void (*leave_device)(int before);
  bool (*can_access_peer)(crema_device *device, crema_device *peer);
  /* Whether two devices are on one board, which makes copies between them faster. */
  bool (*same_board)(crema_device *device, crema_device *peer);
  /* Enabling twice is a success. */
  crema_status (*enable_peer)(crema_device *device, crema_device *peer);
  /* The host is about to read or change host memory that may take part in copies. (optional) NULL:
   * the back end does not check this. */
  void (*host_access)(const void *memory, size_t bytes, bool change);
} cr_backend;

/* Plans that contexts share (ops/plan_cache.h); memory that values are in while an op runs
 * (memory/tensor_source.h). */
typedef struct cr_plan_cache cr_plan_cache;
typedef struct cr_tensor_scratch cr_tensor_scratch;

/* The recorded work of a pass, for replay (memory/trace.h). */
typedef struct cr_trace cr_trace;

/* The graphs of a pass (memory/capture.h). */
typedef struct cr_capture cr_capture;

/* Scratch memory that all contexts share that one thread uses on one device. */
typedef struct cr_scratchpad cr_scratchpad;

/* Host memory that the kernels of a context write a result to (device/memory/result.h). */
typedef struct cr_result cr_result;

/* Host memory for values that live for a part of a pass (device/memory/heap.h). */
typedef struct cr_heap cr_heap;

/* Gets each run of an op and conversion (device/watch.h). */
typedef struct cr_watcher cr_watcher;

/* The watcher of a context, and the owner of its next runs. */
typedef struct cr_watch {
  const cr_watcher *watcher; /* NULL: none */
  const char *layer;         /* NULL: none */
  bool backward;             /* the layer's backward pass runs */
  int conversions;           /* of the op that runs, so far */
} cr_watch;

struct crema_device {
  const cr_backend *backend;
  int index;
  void *state;
  size_t memory_bytes;  /* that the device has, set by the back end's open; 0: unknown, the driver
                           says */
  cr_pool *pool;        /* made when the device is opened; NULL for host memory */
  atomic_bool named;    /* by crema_device_open, or a warning was logged */
  pthread_mutex_t lock; /* guards the members below */
  crema_context *contexts; /* that are open on the device; host memory keeps no list */
  cr_scratchpad *scratchpads;
  bool described;
  crema_device_info info;     /* once described */
  _Atomic uint64_t fallbacks; /* see cr_device_fallbacks */
  _Atomic uint64_t launches;  /* see cr_device_launches */
};

struct crema_context {
  crema_device *device;
  cr_mt19937 rng;
  void *state;
  cr_scratchpad *scratchpad; /* of cr_context_workspace; NULL: none was requested */
  cr_result *result;         /* of cr_context_result; likewise */
  cr_heap *heap;             /* NULL: tensors have their own memory */
  uint64_t id;    /* unique in the process, so that it stays valid after the context is destroyed */
  int threads;    /* of the host that an op may use; 0: no limit of the context's own */
  bool fast_math; /* CREMA_MATH_FAST, if the back end has it; read when an op is planned */
  cr_plan_cache *plans; /* where its ops look for plans and put them; NULL: each op has its own */
  cr_tensor_scratch
      *per_use;    /* for values that are converted per use (memory/tensor_source.h); NULL: none */
  cr_trace *trace; /* that records the work; NULL: none */
  cr_capture *capture;   /* that notes the tensors of the work; NULL: none */
  size_t most_workspace; /* that cr_context_workspace was asked for; anybody may reset it */
  cr_watch watch;
  cr_native_event *order; /* made when first needed by cr_context_follow */
  crema_context *next, *before;
};

/* The back ends that are built in. */
extern const cr_backend cr_backend_cpu;
extern const cr_backend cr_backend_sim;

/* The CPU device; always there. */
crema_device *cr_cpu_device(void);

/* `layout` in another element type, with the values in the same order. NULL for the plain layout,
 * and if there is no such layout. */
static inline const cr_layout *cr_layout_in(const cr_layout *layout, crema_dtype type) {
  if (layout == NULL || layout->type == type) return layout;
  const cr_backend *backend = layout->device->backend;
  return backend->same_order == NULL ? NULL : backend->same_order(layout, type);
}

/* The host threads that an op of the context may use; 0: the caller's limit, which is none. */
static inline int cr_scheduler_threads(const crema_context *context) {
  const cr_host_scheduler *scheduler = context->device->backend->scheduler;
  return scheduler == NULL ? context->threads : scheduler->threads(context);
}

/* Before a kernel's run(); cr_scheduler_leave gets the result. */
static inline int cr_scheduler_enter_run(const cr_backend *backend, const cr_plan *plan) {
  const cr_host_scheduler *scheduler = backend->scheduler;
  return scheduler == NULL || scheduler->enter_run == NULL ? 0 : scheduler->enter_run(plan);
}

static inline void cr_scheduler_leave(const cr_backend *backend, int before) {
  const cr_host_scheduler *scheduler = backend->scheduler;
  if (scheduler != NULL && scheduler->leave != NULL) scheduler->leave(before);
}

#endif
