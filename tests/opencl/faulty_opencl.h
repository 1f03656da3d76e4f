/* What a test asks the faulty OpenCL loader for. */
#ifndef CR_TESTS_OPENCL_FAULTY_OPENCL_H
#define CR_TESTS_OPENCL_FAULTY_OPENCL_H

#include <stdbool.h>

typedef struct faulty_state {
  bool lost;      /* the device has disappeared: its calls fail */
  bool no_memory; /* no buffer can be made */
} faulty_state;

#endif
