/* The state of the simulation, and the calls between its files. From the bottom up: sim_log.c,
 * sim_race.c, sim_memory.c, sim_stream.c, then sim_copy.c and sim_kernel.c, and sim_table.c on
 * top. */
#ifndef CR_DEVICE_SIM_SIM_WORLD_H
#define CR_DEVICE_SIM_SIM_WORLD_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/thread.h"
#include "device/backend/kernel.h"
#include "device/sim/sim.h"

/* Streams that the race checker distinguishes. */
enum { SIM_CLOCKS = 64, SIM_ARGS = 12 };

/* The progress of each stream that an observer knows. */
typedef struct sim_clock {
  uint64_t done[SIM_CLOCKS];
} sim_clock;

typedef struct sim_access {
  uintptr_t low, high; /* [low, high) */
  int stream;          /* index of the stream */
  uint64_t number;     /* of the task in the stream */
  bool write;
  bool host; /* host memory that a copy in flight uses */
} sim_access;

typedef struct sim_block {
  size_t offset, bytes;
} sim_block;

typedef struct sim_device {
  int index;
  crema_device *device; /* NULL: not opened */
  sim_block *block;     /* in use, by offset */
  size_t blocks, block_capacity;
  size_t used, foreign;
  bool peer_on[CR_SIM_MAX_DEVICES];
  /* When its links are free, to the host and to its peers: to the device, from the device. */
  double link_free[2], peer_link_free[2];
} sim_device;

typedef struct sim_pinned {
  char *data;
  size_t bytes;
} sim_pinned;

typedef enum sim_task_kind {
  SIM_TASK_COPY,
  SIM_TASK_ZERO,
  SIM_TASK_CONVERT,
  SIM_TASK_KERNEL,
  SIM_TASK_WAIT,
  SIM_TASK_RECORD
} sim_task_kind;

typedef struct sim_stream sim_stream;

typedef struct sim_kernel_call {
  const struct sim_plan *plan;
  void *execution; /* of the CPU's kernel */
  int args;
  crema_devptr inline_buffer[SIM_ARGS];
  bool inline_accumulate[SIM_ARGS];
  crema_devptr *buffer; /* of `args`, to be freed; NULL: the inline ones are enough */
  bool *accumulate;     /* in the same block as `buffer` */
  bool has_scalars;
  cr_update_segment *segment; /* the segments of `scalars`, owned; may be NULL */
  cr_op_scalars scalars;
  crema_devptr workspace;
} sim_kernel_call;

/* The name of the kernel that a call runs. */
const char *cr_sim_kernel_name(const sim_kernel_call *call);

typedef struct sim_task sim_task;
struct sim_task {
  sim_task_kind kind;
  /* Does the work, without the lock; NULL: there is none. */
  crema_status (*run)(sim_stream *stream, sim_task *task);
  cr_sim_op op;
  uint64_t number;
  crema_status fault; /* fails when it runs */
  union {
    struct {
      char *dst;
      const char *src;
      size_t bytes;
      int from, to;      /* the devices of a copy between peers */
      uint64_t checksum; /* of host memory that is read, for the race checker */
      bool checked;
    } copy;
    struct {
      int64_t count;
      cr_format dst_format, src_format;
      crema_devptr dst, src;
    } convert;
    struct {
      sim_stream *stream;
      uint64_t number;
    } wait;
    sim_kernel_call kernel;
  } u;
};

struct sim_stream {
  int index;
  sim_device *device;
  bool open;
  uint64_t context;       /* id of the context */
  crema_context cpu;      /* the device that does the work */
  cr_thread *worker;      /* NULL when stepped */
  pthread_cond_t arrived; /* for the worker */
  bool stop;
  /* The queue: tasks number first .. first + count - 1. */
  sim_task *ring;
  size_t capacity;
  uint64_t first;
  atomic_size_t count;
  atomic_uint_fast64_t done; /* number of the newest task that is done */
  pthread_cond_t progress;   /* a task that a thread waits for is done */
  uint64_t awaited;          /* the first one; UINT64_MAX: none */
  bool running;
  /* The worker's remaining patience, and the number of spins that it has skipped. */
  int patience;
  unsigned spins_skipped;
  crema_status failure; /* of the first task that failed since the last finish */
  uint64_t failure_number;
  char failure_text[512];
  cr_sim_handle handle; /* number 0: not made yet */
  sim_clock clock;
};

struct cr_native_event {
  sim_stream *stream; /* NULL: never recorded */
  uint64_t number;
  sim_clock clock;
};

typedef struct sim_fault {
  cr_sim_op op;
  int nth;
  crema_status code;
  bool late;
} sim_fault;

enum { SIM_FAULTS = 16, SIM_ACCESSES = 512 };

typedef struct sim_world {
  pthread_mutex_t lock; /* guards everything below */
  bool running, unloading;
  cr_sim_mistake mistake;
  cr_sim_options options;
  sim_device device[CR_SIM_MAX_DEVICES];
  /* Device addresses are in `addresses`, which cannot be read or written. The bytes are at the same
   * offset of `bytes`. */
  char *addresses, *bytes;
  size_t span; /* of one device */
  sim_stream **stream;
  size_t streams;
  size_t open_streams;
  size_t events;
  sim_pinned *pinned;
  size_t pinned_count, pinned_capacity;
  void **kept; /* host memory released too early */
  size_t kept_count;
  sim_fault fault[SIM_FAULTS];
  int faults;
  uint64_t count[CR_SIM_OPS][CR_SIM_MAX_DEVICES];
  uint64_t byte_count[CR_SIM_OPS][CR_SIM_MAX_DEVICES];
  cr_sim_record *log;
  size_t log_size, log_capacity;
  sim_clock host;
  sim_access access[SIM_ACCESSES];
  size_t accesses;
  size_t races;
  char race_text[256];
} sim_world;

extern sim_world cr_sim_world;

static inline void sim_lock(void) {
  pthread_mutex_lock(&cr_sim_world.lock);
}
static inline void sim_unlock(void) {
  pthread_mutex_unlock(&cr_sim_world.lock);
}

/* Defined in sim_log.c: */

/* The back end's set_current, enter_device and leave_device. */
crema_status cr_sim_set_current(crema_device *device);
crema_status cr_sim_enter_device(const crema_device *device, int *before);
void cr_sim_leave_device(int before);
/* Counts and logs an operation. Returns the failure of a fault that hits it now; *late gets the
 * failure to report when it runs (NULL: it cannot fail late). With the lock held. */
crema_status cr_sim_note(const cr_sim_record *record, crema_status *late);
/* The same for an operation of a stream without bytes. */
crema_status cr_sim_note_on(const sim_stream *stream, cr_sim_op op, crema_status *late);

/* Defined in sim_race.c; called with the lock held: */

/* Records that the task to be submitted next to `stream` uses a range, and reports a race when that
 * conflicts with an access that is not ordered before it. */
void cr_sim_note_access(sim_stream *stream, uintptr_t low, size_t bytes, bool write, bool host);
/* Whether a copy that the host does not know to be done writes this host memory. */
bool cr_sim_is_written(uintptr_t low, size_t bytes);
uint64_t cr_sim_checksum(const void *memory, size_t bytes);
void cr_sim_report_race(const char *what, uintptr_t address);
/* Reports a race when queued work still uses memory that is released. */
void cr_sim_note_release(uintptr_t low, size_t bytes, bool host);

/* Defined in sim_memory.c: */

sim_device *cr_sim_device(const crema_device *device);
/* The bytes of device addresses, NULL when they are not memory in use of one block. Page-locked
 * host memory is its own alias. With the lock held. */
char *cr_sim_bytes_of(uintptr_t address, size_t bytes);
/* The index of the device that an address belongs to; -1: none. */
int cr_sim_owner(uintptr_t address);
crema_status cr_sim_alloc(crema_device *device, size_t bytes, crema_devptr *out);
void cr_sim_free(crema_device *device, crema_devptr memory);
crema_status cr_sim_host_alloc(crema_device *device, size_t bytes, void **out);
void cr_sim_host_free(crema_device *device, void *memory);
void cr_sim_free_kept(void);
crema_status cr_sim_memory_info(crema_device *device, size_t *free_bytes, size_t *total_bytes);

/* Defined in sim_stream.c: */

sim_stream *cr_sim_stream(const crema_context *context);
/* Ends all streams and their threads. Without the lock. */
void cr_sim_end_streams(void);
crema_status cr_sim_context_open(crema_context *context);
void cr_sim_context_close(crema_context *context);
crema_status cr_sim_finish(crema_context *context);
crema_status cr_sim_failure(crema_context *context);
crema_status cr_sim_busy(crema_context *context, bool *out);
/* Makes the stream's library handle when it is not there yet. With the lock held. */
crema_status cr_sim_need_handle(sim_stream *stream);
/* Appends a task, whose number it sets. With the lock held. */
crema_status cr_sim_submit(sim_stream *stream, sim_task *task);
/* Waits until the stream has done task `number`; stepped, runs the tasks that it needs. With the
 * lock held, which is released meanwhile. */
void cr_sim_wait_for(sim_stream *stream, uint64_t number);
crema_status cr_sim_event_create(crema_device *device, cr_native_event **out);
void cr_sim_event_destroy(cr_native_event *event);
crema_status cr_sim_event_record(crema_context *context, cr_native_event *event);
crema_status cr_sim_event_wait(crema_context *context, cr_native_event *event);
crema_status cr_sim_event_query(cr_native_event *event, bool *done);
crema_status cr_sim_event_finish(cr_native_event *event);

/* Defined in sim_copy.c: */

crema_status cr_sim_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                         size_t bytes);
crema_status cr_sim_zero(crema_context *context, crema_devptr memory, size_t bytes);
crema_status cr_sim_convert(crema_context *context, int64_t count, cr_format dst_format,
                            crema_devptr dst, cr_format src_format, crema_devptr src);

/* Defined in sim_kernel.c: */

extern const cr_kernel *cr_sim_kernels[];
void cr_sim_make_kernels(void);
/* Frees the memory of a queued call. */
void cr_sim_free_call(sim_kernel_call *call);

#endif
