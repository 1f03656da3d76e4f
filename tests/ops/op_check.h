/* Checking kernel rows on a case: against the double-precision reference, for gradients against
 * finite differences, for large cases against the reference kernel of F64. Failures end the running
 * test.
 */
#ifndef CR_TESTS_OP_CHECK_H
#define CR_TESTS_OP_CHECK_H

#include "core/rng.h"
#include "device/backend/kernel.h"
#include "op_case.h"

/* What became of a row: how often it ran, and whether it once declined for want of fast code for
 * this processor, which no case can change. */
typedef struct op_record {
  int ran;
  bool machine;
  double
      error[OP_TYPES]; /* the largest, of the results of each type, as a fraction of their scale */
} op_record;

/* Rows of the table at most. */
enum { OP_ROWS_MAX = 512 };

/* Runs every row of `kind` that the case concerns with values of `type`, in every way a layer may
 * ask for, on values drawn from `rng`. records[n] is of row n of op_table(). */
void op_check_case(const op_case *test, cr_op_kind kind, crema_dtype type, cr_mt19937 *rng,
                   op_record *records);

/* With CREMA_TEST_ERRORS=1: prints the row's errors, "error ROW TYPE FRACTION". */
void op_print_errors(const cr_kernel *row, const op_record *record);

/* Whether the row computes with integers of 8 bits, on which test_int8.c runs it. */
bool op_is_int8(const cr_kernel *kernel);

/* The reference kernel, whose name ends with _ref. */
bool op_is_ref(const cr_kernel *kernel);

/* For main(): false, having said so, where there is no device to test; then the program's result is
 * OP_TESTS_SKIPPED. Otherwise draws and prints *seed, or takes it from CREMA_TEST_SEED. */
bool op_tests_start(uint32_t *seed);

enum { OP_TESTS_SKIPPED = 77 };

#endif
