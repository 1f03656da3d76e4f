/* The conformance runner: each kind of golden case has one function that runs a case
 * directory and says how it went. The layout of the directories is described in
 * tests/golden/README.md. */
#ifndef CR_TESTS_GOLDEN_H
#define CR_TESTS_GOLDEN_H

#include <stddef.h>

#include "crema/device.h"

typedef enum golden_result {
  GOLDEN_FAIL = 0,
  GOLDEN_PASS = 1,
  GOLDEN_PENDING = 2 /* needs a layer type that crema does not have; `why` holds its name */
} golden_result;

/* The device that layer and solver cases run on; NULL: the CPU. */
crema_device *golden_device(void);

/* The arithmetic of -math. */
crema_math golden_math(void);

/* The element type in which layer cases run, forward and backward; FLOAT unless asked otherwise. */
crema_dtype golden_type(void);

/* A case's tolerance in golden_type(): `tolerance` holds for FLOAT. `dir` is the case's folder. */
double golden_type_tolerance(const char *dir, double tolerance);

/* Each writes the reason of a failure (or the pending layer type) to `why`. `dir` is the path
 * of the case directory. */
int golden_run_layer_case(const char *dir, char *why, size_t why_size);
int golden_run_proto_case(const char *dir, char *why, size_t why_size);
int golden_run_net_case(const char *dir, char *why, size_t why_size);
int golden_run_weights_case(const char *dir, char *why, size_t why_size);
int golden_run_solver_case(const char *dir, char *why, size_t why_size);
int golden_run_transform_case(const char *dir, char *why, size_t why_size);
int golden_run_model_case(const char *dir, char *why, size_t why_size);

/* Fails with `why` set from the calling thread's error text; a layer type that crema does not
 * have makes it pending: "unknown layer type 'X'" texts are recognised. */
int golden_from_status(crema_status status, const char *what, char *why, size_t why_size);

/* The largest result of golden_error since it was set to 0. */
extern double golden_largest_error;

#endif
