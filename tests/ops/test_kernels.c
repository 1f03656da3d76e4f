/* Every row of the kernel table, on every case of its op: against the double-precision reference,
 * for gradients against finite differences, for large cases against the reference kernel of F64,
 * with values of each floating type. One test an op; it fails too when the op has a row that no
 * case reaches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cpu_only.h"
#include "device/backend/backend.h"
#include "op_check.h"
#include "op_run.h"
#include "ops/op.h"

static uint32_t seed;

static bool concerns(const op_case *test, cr_op_kind kind) {
  if (test->desc.kind == kind) return true;
  for (int i = 0; i < op_gradient_count; ++i) {
    if (op_gradients[i].forward == test->desc.kind && op_gradients[i].backward == kind) return true;
  }
  return false;
}

static void check_cases(const op_case *cases, int count, cr_op_kind kind, crema_dtype type,
                        cr_mt19937 *rng, op_record *records) {
  for (int i = 0; i < count; ++i) {
    if (concerns(&cases[i], kind)) op_check_case(&cases[i], kind, type, rng, records);
  }
}

static void check_kind(cr_op_kind kind, crema_dtype type, uint32_t from_seed, op_record *records) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, from_seed + (uint32_t)kind);
  check_cases(op_conv_cases, op_conv_case_count, kind, type, &rng, records);
  check_cases(op_cases, op_case_count, kind, type, &rng, records);
}

/* Seeds that once failed. */
static const struct {
  cr_op_kind kind;
  uint32_t seed;
} known_seeds[] = {
    {CR_OP_AFFINE_BWD_SCALE, 351}, /* terms that nearly cancel, summed in single precision */
    {CR_OP_AFFINE_BWD_SCALE, 605},
};

TEST(test_kind) {
  const cr_op_kind kind = (cr_op_kind)(uintptr_t)*state;
  op_record records[OP_ROWS_MAX] = {{0}};
  for (int i = 0; i < OP_TYPES; ++i) check_kind(kind, op_types[i], seed, records);
  for (size_t i = 0; i < sizeof known_seeds / sizeof known_seeds[0]; ++i) {
    if (known_seeds[i].kind == kind) check_kind(kind, CREMA_F32, known_seeds[i].seed, records);
  }
  int rows = 0, n = 0;
  for (const cr_kernel *const *row = op_table(); *row; ++row, ++n) {
    if ((*row)->op != kind) continue;
    ++rows;
    op_print_errors(*row, &records[n]);
    if (op_is_int8(*row)) continue;
    if (records[n].ran > 0) continue;
    if (records[n].machine && !op_is_ref(*row)) {
      print_message("%s has no fast code for this processor\n", (*row)->name);
      continue;
    }
    print_error("no case reaches the row %s: add one to op_cases.c or op_cases_conv.c\n",
                (*row)->name);
    fail();
  }
  if (op_table() != cr_backend_cpu.kernels && op_is_cpu_only(kind)) {
    assert_int_equal(rows, 0);
    return;
  }
  if (rows == 0) print_error("op %s has no row\n", cr_op_kind_name(kind));
  assert_true(rows > 0);
}

/* One test per op, named after it. */
int main(void) {
  /* These programs test the rows of a GPU, too, which most machines do not have. */
  if (!op_tests_start(&seed)) return OP_TESTS_SKIPPED;
  static struct CMUnitTest tests[CR_OP_KINDS];
  for (int i = 0; i < CR_OP_KINDS; ++i) {
    tests[i] = (struct CMUnitTest){.name = cr_op_kind_name((cr_op_kind)i),
                                   .test_func = test_kind,
                                   .initial_state = (void *)(uintptr_t)i};
  }
  return run_each_of(tests, NULL, NULL);
}
