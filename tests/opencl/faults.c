/* Faults of OpenCL devices: no memory, kernels that do not compile, a device that disappears. The
 * program runs over faulty_opencl.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "device/copy.h"
#include "device/device.h"
#include "device/memory/device_memory.h"
#include "faulty_opencl.h"

enum { SKIPPED = 77, COUNT = 100 };

static crema_device *device;
static crema_context *context;
static crema_device_info info;
static faulty_state *fault;

/* Floats to halves, on the device. */
static crema_status halve(float *values, unsigned short *halves) {
  crema_devptr from = {0}, to = {0};
  CR_TRY(cr_device_alloc(device, COUNT * sizeof *values, &from));
  crema_status status = cr_device_alloc(device, COUNT * sizeof *halves, &to);
  if (status == CREMA_OK) status = cr_copy_from_cpu(context, from, values, COUNT * sizeof *values);
  if (status == CREMA_OK) {
    status = device->backend->convert(context, COUNT, (cr_format){CREMA_F16, NULL}, to,
                                      CR_PLAIN_F32, from);
  }
  if (status == CREMA_OK) status = cr_copy_to_cpu(context, halves, to, COUNT * sizeof *halves);
  if (status == CREMA_OK) status = crema_context_finish(context);
  if (to.address != 0) cr_device_free(device, to);
  cr_device_free(device, from);
  return status;
}

static float values[COUNT];
static unsigned short halves[COUNT];

static void expect_work(void) {
  for (int i = 0; i < COUNT; ++i) values[i] = 1.5f;
  memset(halves, 0, sizeof halves);
  ok(halve(values, halves));
  for (int i = 0; i < COUNT; ++i) assert_int_equal(halves[i], 0x3e00);
}

/* The first use of the kernel in this process. */
TEST(a_kernel_that_does_not_compile_is_named) {
  assert_int_equal(setenv("CREMA_OPENCL_OPTIONS", "-D cr_convert_device=1", 1), 0);
  assert_fails(halve(values, halves), CREMA_E_DEVICE, "kernel convert does not compile");
  assert_error_has(info.name);
  assert_int_equal(unsetenv("CREMA_OPENCL_OPTIONS"), 0);
  expect_work();
}

TEST(a_device_that_disappears_is_an_error) {
  expect_work();
  fault->lost = true;
  assert_fails(halve(values, halves), CREMA_E_DEVICE, "not available");
  assert_error_has(info.name);
  assert_int_equal(crema_context_finish(context), CREMA_E_DEVICE);
  fault->lost = false;
  expect_work();
}

TEST(a_lack_of_memory_is_an_error) {
  crema_devptr memory = {0};
  assert_fails(device->backend->alloc(device, info.memory_total + 1, &memory), CREMA_E_NO_MEMORY,
               "no memory for");
  fault->no_memory = true;
  assert_fails(device->backend->alloc(device, COUNT, &memory), CREMA_E_NO_MEMORY,
               "no memory for a buffer");
  assert_error_has(info.name);
  fault->no_memory = false;
  expect_work();
}

/* No address is used twice, so memory that was freed is never another block's. */
TEST(freed_memory_is_rejected) {
  crema_devptr memory = {0};
  size_t before = 0, after = 0, total = 0;
  ok(device->backend->memory_info(device, &before, &total));
  ok(device->backend->alloc(device, COUNT, &memory));
  ok(device->backend->memory_info(device, &after, &total));
  assert_int_equal(before - after, COUNT);
  device->backend->free(device, memory);
  ok(device->backend->memory_info(device, &after, &total));
  assert_int_equal(before, after);
  assert_fails(device->backend->copy(context, CR_COPY_DEVICE_TO_HOST, (uintptr_t)halves,
                                     memory.address, sizeof *halves),
               CREMA_E_DEVICE, "no memory is allocated");
  assert_fails(device->backend->zero(context, memory, 1), CREMA_E_DEVICE, "no memory is allocated");
}

int main(void) {
  if (crema_device_get(CREMA_DEVICE_OPENCL, 0, &device) != CREMA_OK ||
      crema_context_create(device, 1, &context) != CREMA_OK) {
    printf("skipped: %s\n", crema_error_text());
    return SKIPPED;
  }
  ok(crema_device_describe(device, &info));
  fault = find_faulty_state(CREMA_FAULTY_OPENCL);
  if (fault == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  const int failed = run_all_tests(NULL, NULL);
  crema_context_destroy(context);
  return failed;
}
