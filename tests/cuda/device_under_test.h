/* The device on which the tests of the kernel table run CUDA rows. */
#ifndef CR_TESTS_CUDA_DEVICE_UNDER_TEST_H
#define CR_TESTS_CUDA_DEVICE_UNDER_TEST_H

#include "device/device.h"

/* A context on it, made at the first call; NULL, with a reason in crema_error_text(), when there is
 * none. */
crema_context *test_device_context(void);

/* Waits for the context's work and reports what kernels left behind. */
crema_status test_device_finish(crema_context *context) CREMA_MUST_USE;

#endif
