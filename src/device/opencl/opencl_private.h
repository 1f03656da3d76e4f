/* Shared by the files of the OpenCL plug-in. */
#ifndef CR_OPENCL_OPENCL_PRIVATE_H
#define CR_OPENCL_OPENCL_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device/backend/backend.h"
#include "device/gpu/launch.h"
#include "device/gpu/plugin.h"
#include "device/opencl/opencl_library.h"

/* Device memory is buffers, without shared virtual memory: every driver has them. A buffer gets a
 * range of made-up addresses, which no memory of the host has, so that rows can compute with
 * addresses. Calls find the buffer and the offset of an address. */

typedef struct cr_opencl_block {
  uintptr_t address;
  size_t bytes;
  cl_mem buffer;
  void *host; /* the host memory that the block stands for; NULL: none (cr_opencl_place) */
} cr_opencl_block;

/* Where an address is. Host memory has no buffer. An alias of page-locked memory has both: its
 * buffer is a copy, which a kernel's launch updates before and writes back after. */
typedef struct cr_opencl_place {
  cl_mem buffer;
  size_t offset, bytes; /* to the end of the buffer */
  void *host;
} cr_opencl_place;

/* Page-locked host memory of a device. */
typedef struct cr_opencl_locked {
  void *memory;
  size_t bytes;
  cl_mem buffer;      /* that is mapped there */
  crema_devptr alias; /* address 0: none */
  struct cr_opencl_locked *next;
} cr_opencl_locked;

/* The numbers of programs: of the device functions, then of crema's own products
 * (opencl_product.h). */
enum { CR_OPENCL_PRODUCT = CR_BODIES, CR_OPENCL_FUNCTIONS = CR_OPENCL_PRODUCT + 4 };

/* One of the devices of all platforms that CREMA_OPENCL allows. */
typedef struct cr_opencl_device {
  cl_platform_id platform;
  cl_device_id id;
  cl_context context;     /* shared by the platform's devices; NULL: not made yet */
  cl_command_queue queue; /* for allocations; NULL: the device is not open */
  char name[128], version[128], driver[64];
  bool is_cpu, has_double, correct_division;
  size_t memory_bytes, most_bytes; /* of the device, of one buffer */
  size_t parameter_bytes;          /* of a kernel's arguments */
  size_t most_lanes;               /* of a thread block */
  int units;
  bool has_forms;                                    /* for single types (kernels/hd.h) */
  cl_program program[CR_FORMS][CR_OPENCL_FUNCTIONS]; /* NULL: not built; see cr_opencl_program */
  pthread_rwlock_t memory_lock;                      /* guards the members below */
  cr_opencl_block *block;                            /* in the order of their addresses */
  size_t blocks, room, used_bytes;
  uintptr_t next; /* address; none is used twice */
  cr_opencl_locked *locked;
} cr_opencl_device;

/* The most words and pointers of an argument block. */
enum { CR_OPENCL_WORDS = 512, CR_OPENCL_POINTERS = 40 };

/* The kernels of a program, in one stream. */
typedef struct cr_opencl_kernel {
  /* For packs, and for thread blocks of one lane; NULL: not made yet. */
  cl_kernel run, packs, alone;
  size_t most_lanes; /* of `run` and `packs` */
  bool by_value;     /* the argument block */
  int pointers;      /* in the block, with their places */
  size_t offset[CR_OPENCL_POINTERS];
} cr_opencl_kernel;

/* The plug-in's state of a context. */
typedef struct cr_opencl_stream {
  cl_command_queue queue;
  /* Other threads record events in the queue, too (cr_context_follow). */
  cl_event last;          /* of the last command; NULL: none. Guarded by cr_opencl_lock. */
  atomic_int unsubmitted; /* commands since the last flush */
  cr_opencl_kernel kernel[CR_FORMS][CR_OPENCL_FUNCTIONS];
  cr_gpu_fault *fault; /* in page-locked memory */
  crema_devptr fault_alias;
  struct cr_opencl_stream *next; /* of all, so that memory is freed after its last use */
} cr_opencl_stream;

static inline cr_opencl_stream *cr_opencl_stream_of(const crema_context *context) {
  return context->state;
}

static inline cr_opencl_device *cr_opencl_of(const crema_device *device) {
  return device->state;
}

/* CREMA_OK, or an error whose text is the device's name, `what` and OpenCL's error. */
crema_status cr_opencl_check(const crema_device *device, cl_int error,
                             const char *what) CREMA_MUST_USE;

/* Devices: opencl_devices.c */

/* The devices, looked for at the first call. Errors: CREMA_E_NO_DEVICE. */
crema_status cr_opencl_devices(cr_opencl_device **out, int *count) CREMA_MUST_USE;
/* Makes a device's context and queue. */
crema_status cr_opencl_device_open(crema_device *device) CREMA_MUST_USE;
void cr_opencl_device_close(crema_device *device);

/* Memory: opencl_memory.c */

crema_status cr_opencl_alloc(crema_device *device, size_t bytes, crema_devptr *out);
void cr_opencl_free(crema_device *device, crema_devptr memory);
crema_status cr_opencl_host_alloc(crema_device *device, size_t bytes, void **out);
void cr_opencl_host_free(crema_device *device, void *memory);
crema_status cr_opencl_host_alias(crema_device *device, void *memory, crema_devptr *out);
/* Whether page-locked memory of any device has the address. */
bool cr_opencl_is_locked(const void *memory);
crema_status cr_opencl_memory_info(crema_device *device, size_t *free_bytes, size_t *total_bytes);
int cr_opencl_owner(uintptr_t address);

/* The place of an address of any device or of the host. Errors: CREMA_E_DEVICE for device memory
 * that is not allocated. */
crema_status cr_opencl_find(uintptr_t address, cr_opencl_place *out) CREMA_MUST_USE;

/* Streams and events: opencl_stream.c */

crema_status cr_opencl_context_open(crema_context *context);
void cr_opencl_context_close(crema_context *context);
crema_status cr_opencl_finish(crema_context *context);
crema_status cr_opencl_failure(crema_context *context);
crema_status cr_opencl_busy(crema_context *context, bool *out);
crema_status cr_opencl_copy(crema_context *context, cr_copy_kind kind, uintptr_t dst, uintptr_t src,
                            size_t bytes);
crema_status cr_opencl_zero(crema_context *context, crema_devptr memory, size_t bytes);
crema_status cr_opencl_event_create(crema_device *device, cr_native_event **out);
void cr_opencl_event_destroy(cr_native_event *event);
crema_status cr_opencl_event_record(crema_context *context, cr_native_event *event);
crema_status cr_opencl_event_wait(crema_context *context, cr_native_event *event);
crema_status cr_opencl_event_query(cr_native_event *event, bool *done);
crema_status cr_opencl_event_finish(cr_native_event *event);

/* Held by the thread that queues a command. OpenCL allows several threads at a time. PoCL 3.1,
 * however, releases an event twice if two threads queue commands on one buffer, and one command
 * brings the buffer from another device. The lock also guards the streams' `last`. */
void cr_opencl_lock(void);
void cr_opencl_unlock(void);
/* Where a command of the stream puts its event. */
cl_event *cr_opencl_next(cr_opencl_stream *stream);
/* After a command was queued: submits some commands at a time. */
crema_status cr_opencl_queued(crema_context *context, cl_int error,
                              const char *what) CREMA_MUST_USE;
/* Waits for all streams of all devices. */
void cr_opencl_finish_all(void);

/* Kernels: opencl_program.c, opencl_launch.c */

/* The device's program of a device function, or of crema's own products; built, or read from the
 * cache, at the first call. */
crema_status cr_opencl_program(crema_device *device, int function, cr_gpu_form form,
                               cl_program *out) CREMA_MUST_USE;
/* Arguments: opencl_arguments.c */

/* The bytes of the argument block of a device function. */
size_t cr_opencl_argument_bytes(int function);
/* Whether a device takes the argument block of a function by value; else in a buffer. */
bool cr_opencl_by_value(const cr_opencl_device *device, int function);
/* Fills `offset` with the places of the pointers in the function's argument block; their number. */
int cr_opencl_pointers(int function, size_t offset[CR_OPENCL_POINTERS]);
/* The source of a device function's kernel, and of a second one for packs or, for thread blocks,
 * for one lane. Their arguments are the block, the number of elements or segments, and the buffer
 * of each pointer. The caller frees *out. */
crema_status cr_opencl_wrapper(const cr_opencl_device *device, int function,
                               char **out) CREMA_MUST_USE;

/* The form that the device uses where a launch allows `form`. */
cr_gpu_form cr_opencl_form(const crema_device *device, cr_gpu_form form);
/* The most lanes of a thread block, a power of two. */
size_t cr_opencl_most_lanes(const cr_opencl_device *device);

#endif
