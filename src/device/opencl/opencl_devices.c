/* The devices of all OpenCL platforms. */
#define _GNU_SOURCE /* strcasestr */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "device/opencl/opencl_private.h"

enum { PLATFORMS = 16 };

static struct {
  pthread_mutex_t lock;
  bool asked;
  cr_opencl_device device[CR_MAX_DEVICES];
  int count;
} found = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const struct {
  cl_int error;
  const char *name;
} error_names[] = {
    {CL_DEVICE_NOT_FOUND, "no device found"},
    {CL_DEVICE_NOT_AVAILABLE, "the device is not available"},
    {CL_COMPILER_NOT_AVAILABLE, "the driver has no compiler"},
    {CL_MEM_OBJECT_ALLOCATION_FAILURE, "no memory for a buffer"},
    {CL_OUT_OF_RESOURCES, "out of resources"},
    {CL_OUT_OF_HOST_MEMORY, "out of host memory"},
    {CL_BUILD_PROGRAM_FAILURE, "a program does not compile"},
    {CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "work that it waits for failed"},
    {CL_INVALID_COMMAND_QUEUE, "the queue is not valid any more"},
    {CL_INVALID_WORK_GROUP_SIZE, "the work-group is too large"},
    {CL_INVALID_BUFFER_SIZE, "the buffer is too large"},
};

crema_status cr_opencl_check(const crema_device *device, cl_int error, const char *what) {
  if (error == CL_SUCCESS) return CREMA_OK;
  const bool memory = error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
                      error == CL_OUT_OF_HOST_MEMORY || error == CL_INVALID_BUFFER_SIZE;
  const char *reason = "error";
  for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; ++i) {
    if (error_names[i].error == error) reason = error_names[i].name;
  }
  return cr_fail(memory ? CREMA_E_NO_MEMORY : CREMA_E_DEVICE, "%s: %s: %s (OpenCL error %d)",
                 device != NULL && device->state != NULL ? cr_opencl_of(device)->name : "OpenCL",
                 what, reason, (int)error);
}

static void ask_text(cl_device_id id, cl_device_info what, char *text, size_t size) {
  char whole[1024] = "";
  (void)cr_cl.clGetDeviceInfo(id, what, sizeof whole, whole, NULL);
  snprintf(text, size, "%.*s", (int)size - 1, whole + strspn(whole, " "));
}

static size_t ask_number(cl_device_id id, cl_device_info what, size_t bytes) {
  union {
    cl_uint number;
    cl_ulong large;
    size_t size;
  } value = {.large = 0};
  if (cr_cl.clGetDeviceInfo(id, what, bytes, &value, NULL) != CL_SUCCESS) return 0;
  return bytes == sizeof(cl_uint) ? (size_t)value.number : (size_t)value.large;
}

/* CREMA_OPENCL_DOUBLE=0 omits the double precision that a device has. */
static bool has_double(cl_device_id id) {
  const char *choice = getenv("CREMA_OPENCL_DOUBLE");
  if (choice != NULL && strcmp(choice, "0") == 0) return false;
  return ask_number(id, CL_DEVICE_DOUBLE_FP_CONFIG, sizeof(cl_ulong)) != 0;
}

/* A CPU gains little from forms for single types, and compiling a function several times takes
 * time. CREMA_OPENCL_FORMS=1 has them nevertheless. */
static bool has_forms(bool is_cpu) {
  const char *choice = getenv("CREMA_OPENCL_FORMS");
  return !is_cpu || (choice != NULL && strcmp(choice, "1") == 0);
}

static void describe(cl_platform_id platform, cl_device_id id, cr_opencl_device *out) {
  const size_t type = ask_number(id, CL_DEVICE_TYPE, sizeof(cl_ulong));
  const size_t single = ask_number(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof(cl_ulong));
  *out = (cr_opencl_device){.platform = platform, .id = id};
  ask_text(id, CL_DEVICE_NAME, out->name, sizeof out->name);
  ask_text(id, CL_DEVICE_VERSION, out->version, sizeof out->version);
  ask_text(id, CL_DRIVER_VERSION, out->driver, sizeof out->driver);
  out->is_cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
  out->has_double = has_double(id);
  out->has_forms = has_forms(out->is_cpu);
  out->correct_division = (single & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0;
  out->memory_bytes = ask_number(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof(cl_ulong));
  out->most_bytes = ask_number(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof(cl_ulong));
  out->parameter_bytes = ask_number(id, CL_DEVICE_MAX_PARAMETER_SIZE, sizeof(size_t));
  out->units = (int)ask_number(id, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof(cl_uint));
  out->most_lanes = ask_number(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof(size_t));
  pthread_rwlock_init(&out->memory_lock, NULL);
}

/* CREMA_OPENCL: a part of the name of a platform or device, to use only those; "1" or "all": all.
 */
static bool is_wanted(const char *platform, const char *device) {
  const char *wanted = getenv("CREMA_OPENCL");
  if (wanted == NULL || wanted[0] == '\0') return true;
  if (strcmp(wanted, "1") == 0 || strcmp(wanted, "all") == 0) return true;
  return strcasestr(platform, wanted) != NULL || strcasestr(device, wanted) != NULL;
}

static void look_at(cl_platform_id platform) {
  cl_device_id id[CR_MAX_DEVICES];
  cl_uint count = 0;
  char name[256] = "";
  (void)cr_cl.clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name, name, NULL);
  if (cr_cl.clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, CR_MAX_DEVICES, id, &count) !=
      CL_SUCCESS) {
    return;
  }
  for (cl_uint i = 0; i < count && i < CR_MAX_DEVICES && found.count < CR_MAX_DEVICES; ++i) {
    cr_opencl_device *device = &found.device[found.count];
    describe(platform, id[i], device);
    /* Argument blocks have 64-bit addresses. */
    if (ask_number(id[i], CL_DEVICE_ADDRESS_BITS, sizeof(cl_uint)) != 64) continue;
    if (is_wanted(name, device->name)) ++found.count;
  }
}

static crema_status look(void) {
  cl_platform_id platform[PLATFORMS];
  cl_uint platforms = 0;
  CR_TRY(cr_opencl_open());
  const cl_int error = cr_cl.clGetPlatformIDs(PLATFORMS, platform, &platforms);
  if (error != CL_SUCCESS || platforms == 0) {
    return cr_fail(CREMA_E_NO_DEVICE, "OpenCL has no platform: no driver is installed");
  }
  for (cl_uint i = 0; i < platforms && i < PLATFORMS; ++i) look_at(platform[i]);
  if (found.count > 0) return CREMA_OK;
  const char *wanted = getenv("CREMA_OPENCL");
  return cr_fail(CREMA_E_NO_DEVICE, "OpenCL has no device%s%s",
                 wanted != NULL ? " that fits CREMA_OPENCL=" : "", wanted != NULL ? wanted : "");
}

crema_status cr_opencl_devices(cr_opencl_device **out, int *count) {
  crema_status status = CREMA_OK;
  pthread_mutex_lock(&found.lock);
  if (!found.asked) status = look();
  if (status == CREMA_OK) found.asked = true;
  pthread_mutex_unlock(&found.lock);
  *out = found.device;
  *count = status == CREMA_OK ? found.count : 0;
  return status;
}

/* The devices of a platform share a context, so that buffers are copied between them. */
static crema_status make_context(crema_device *device) {
  cr_opencl_device *own = cr_opencl_of(device);
  cl_device_id id[CR_MAX_DEVICES];
  cl_uint count = 0;
  cl_int error = CL_SUCCESS;
  if (own->context != NULL) return CREMA_OK;
  for (int i = 0; i < found.count; ++i) {
    if (found.device[i].platform == own->platform) id[count++] = found.device[i].id;
  }
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              (cl_context_properties)own->platform, 0};
  cl_context context = cr_cl.clCreateContext(properties, count, id, NULL, NULL, &error);
  CR_TRY(cr_opencl_check(device, error, "making a context"));
  for (int i = 0; i < found.count; ++i) {
    if (found.device[i].platform == own->platform) found.device[i].context = context;
  }
  return CREMA_OK;
}

crema_status cr_opencl_device_open(crema_device *device) {
  cl_int error = CL_SUCCESS;
  cr_opencl_device *own = &found.device[device->index];
  device->state = own;
  pthread_mutex_lock(&found.lock);
  crema_status status = make_context(device);
  if (status == CREMA_OK && own->queue == NULL) {
    own->queue = cr_cl.clCreateCommandQueue(own->context, own->id, 0, &error);
    status = cr_opencl_check(device, error, "making a queue");
  }
  pthread_mutex_unlock(&found.lock);
  device->memory_bytes = own->memory_bytes;
  return status;
}

/* The context, its queue and the programs stay until the process ends. */
void cr_opencl_device_close(crema_device *device) {
  (void)device;
}
