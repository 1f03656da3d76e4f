/* Simulated accelerators: everything that is true of an accelerator except speed.
 *
 * Host code cannot dereference their memory (an attempt faults). Their streams run on separate
 * threads, or step by step for a test. Copies take the time of the link, and faults happen on
 * request. Every kernel of the CPU runs on the simulated memory.
 *
 * The library starts the simulation when the environment variable CREMA_SIM says so
 * ("devices=4,memory=2G"); tests and tools use the calls below. */
#ifndef CR_DEVICE_SIM_SIM_H
#define CR_DEVICE_SIM_SIM_H

#include "device/backend/backend.h"

enum { CR_SIM_MAX_DEVICES = 32 };

/* Operations, for the log, the counters and the faults. */
typedef enum cr_sim_op {
  CR_SIM_COUNT, /* asking for the number of devices */
  CR_SIM_DESCRIBE,
  CR_SIM_ALLOC,
  CR_SIM_FREE,
  CR_SIM_HOST_ALLOC,
  CR_SIM_HOST_FREE,
  CR_SIM_MEMORY_INFO,
  CR_SIM_H2D,
  CR_SIM_D2H,
  CR_SIM_D2D,
  CR_SIM_PEER,
  CR_SIM_ZERO,
  CR_SIM_CONVERT,
  CR_SIM_KERNEL,
  CR_SIM_EVENT_RECORD,
  CR_SIM_EVENT_WAIT,
  CR_SIM_FINISH,
  CR_SIM_SET_DEVICE,
  CR_SIM_STREAM_OPEN,
  CR_SIM_STREAM_CLOSE,
  CR_SIM_HANDLE_OPEN,
  CR_SIM_HANDLE_CLOSE,
  CR_SIM_ENABLE_PEER,
  CR_SIM_OPS,
  CR_SIM_ANY = CR_SIM_OPS /* for faults: any operation */
} cr_sim_op;

typedef struct cr_sim_options {
  int devices;
  size_t memory; /* bytes of each device */
  /* Streams run only in cr_sim_step and when the host waits for them. */
  bool stepped;
  double bandwidth; /* bytes per second of the host link in each direction; 0: as fast as memcpy */
  double latency;   /* seconds before a copy begins */
  /* The same for each device's link to its peers, which is separate from its host link. */
  double peer_bandwidth, peer_latency;
  bool check_races;
  bool keep_log;
  bool poison; /* new memory is filled with 0xA5, freed memory with 0x5A */
  int board[CR_SIM_MAX_DEVICES];
  bool peer[CR_SIM_MAX_DEVICES][CR_SIM_MAX_DEVICES]; /* [a][b]: a can read b */
  size_t driver_memory;       /* the total that the driver reports; 0: `memory` */
  crema_status count_failure; /* of asking for the number of devices; CREMA_OK: none */
  int library_version;        /* version of the simulated DNN library; 0: the expected version */
  /* The kernels that the devices run, on host memory; NULL: the CPU's. */
  const cr_kernel *const *kernels;
} cr_sim_options;

/* One device of 4 GiB, threads, no delays, all devices peers, each on a separate board. */
cr_sim_options cr_sim_defaults(void);

/* "devices=4,memory=512M,bandwidth=12G,latency=1e-5,stepped=1": changes `options`. All entries:
 * crema_device_simulate, and "stepped" and "races" of this struct.
 * Errors: CREMA_E_PARSE naming the entry. */
crema_status cr_sim_parse(const char *text, cr_sim_options *options) CREMA_MUST_USE;

/* Sets up or takes down the simulation, but not the registry's devices: cr_sim_start and
 * cr_sim_stop do both. Errors: CREMA_E_STATE when one runs; CREMA_E_RANGE; CREMA_E_NO_MEMORY. */
crema_status cr_sim_begin(const cr_sim_options *options) CREMA_MUST_USE;
/* The same from a number of devices, or from a list of entries. Errors: CREMA_E_PARSE, too. */
crema_status cr_sim_begin_from(const char *text) CREMA_MUST_USE;
void cr_sim_end(void);

bool cr_sim_running(void);

/* Start and stop, in device/simulation.c: */

/* Starts a simulation. Errors: CREMA_E_STATE when one runs; CREMA_E_NO_MEMORY. */
crema_status cr_sim_start(const cr_sim_options *options) CREMA_MUST_USE;

/* Resources that were not freed when the simulation stopped. */
typedef struct cr_sim_leaks {
  size_t device_blocks, device_bytes;
  size_t host_blocks;
  size_t streams;
  size_t events;
} cr_sim_leaks;

/* Ends the simulation. The calling thread's own contexts (cr_thread_context) are destroyed first;
 * no other context may be left. `leaks` may be NULL. No-op when none runs. */
void cr_sim_stop(cr_sim_leaks *leaks);

/* Stepping: */

/* Runs the next piece of work of the context. False when there is none or it waits for another
 * stream's event. */
bool cr_sim_step(crema_context *context);

/* Runs the next piece of one of the streams that can continue, chosen by `choice` (any number): a
 * sequence of choices replays an interleaving. False when none can continue. */
bool cr_sim_step_any(uint32_t choice);

/* Pieces of work of the context that are not done. */
size_t cr_sim_pending(crema_context *context);

/* Faults: */

/* The `nth` operation of kind `op` from now (1: the next) fails with `code`. `late`: it fails when
 * it runs, so that the next wait returns the failure, instead of when it is queued. Several faults
 * can be outstanding. */
void cr_sim_fail(cr_sim_op op, int nth, crema_status code, bool late);
void cr_sim_clear_faults(void);

/* Makes the simulated driver behave wrongly until the simulation is stopped, so that a test can
 * show that it would notice. */
typedef enum cr_sim_mistake {
  CR_SIM_SOUND,
  CR_SIM_LOSES_WAITS,   /* streams do not wait for events */
  CR_SIM_COPIES_SHORT,  /* copies omit the last byte */
  CR_SIM_EVENTS_EARLY,  /* events count as done when they are recorded */
  CR_SIM_FORGETS_ZEROS, /* zero fills do nothing */
  CR_SIM_MISTAKES
} cr_sim_mistake;
void cr_sim_break(cr_sim_mistake mistake);

/* Simulates a process that is about to end and whose driver is unloaded: every call fails with
 * CREMA_E_CLOSED, and freeing does nothing. Off again when the simulation is stopped. */
void cr_sim_set_unloading(bool on);

/* Takes memory away from a device, as another process would. */
void cr_sim_set_foreign_bytes(int device, size_t bytes);

/* Observation: */

typedef struct cr_sim_record {
  cr_sim_op op;
  int device;         /* on which it runs */
  int current_device; /* of the calling thread; -1: none was ever set */
  uint64_t stream;    /* context id; 0: none */
  size_t bytes;
  uintptr_t dst, src;
} cr_sim_record;

/* Operations of a kind since the start or the last reset, on all devices (device -1) or one. */
uint64_t cr_sim_count(cr_sim_op op, int device);
uint64_t cr_sim_bytes(cr_sim_op op, int device);
void cr_sim_reset_counts(void);

/* The log, oldest first; valid until the next operation. Needs keep_log. */
size_t cr_sim_log(const cr_sim_record **out);

/* Races found so far; `text` (may be NULL) receives the newest one. */
size_t cr_sim_races(char *text, size_t size);

/* For the race checker: the host is about to read or change host memory. */
void cr_sim_host_access(const void *memory, size_t bytes, bool change);

/* The handle of the pretended compute libraries that a context makes before its first kernel and
 * destroys before its stream. */
typedef struct cr_sim_handle {
  uint64_t number;    /* never used again */
  uint64_t stream;    /* id of the context whose stream it is bound to */
  bool host_pointers; /* scalars are read from host memory */
} cr_sim_handle;
/* False while there is none. */
bool cr_sim_handle_of(crema_context *context, cr_sim_handle *out);

bool cr_sim_is_pinned(const void *memory);
size_t cr_sim_pinned_blocks(void);
size_t cr_sim_live_blocks(int device);
size_t cr_sim_live_bytes(int device);
size_t cr_sim_live_streams(void);

/* Copies device memory to the host at once, past streams, counters and races; for tests. False
 * when the range is not device memory in use. */
bool cr_sim_peek(crema_devptr memory, void *out, size_t bytes);

#endif
