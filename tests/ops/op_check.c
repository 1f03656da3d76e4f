#include "op_check.h"
#include "check.h"
#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "op_problem.h"
#include "op_reasons.h"
#include "op_reference.h"
#include "op_run.h"
#include "ops/op.h"

/* What an error may be, of a result's largest magnitude. F64: some roundings; a gradient as exact
 * as the differences that it is compared with. F32: sums of thousands of products stay below it.
 * Halves: computed in F32, so there is the rounding of the result and of what passes through
 * memory. */
static const struct {
  crema_dtype type;
  double value, gradient;
} tolerances[OP_TYPES] = {
    {CREMA_F64, 1e-12, 1e-9},
    {CREMA_F32, 1e-5, 1e-5},
    {CREMA_F16, 4 * 0x1p-11, 4 * 0x1p-11},
    {CREMA_BF16, 4 * 0x1p-9, 4 * 0x1p-9},
};

/* 0 for integers. */
static double tolerance_of(crema_dtype type, bool gradient) {
  for (int i = 0; i < OP_TYPES; ++i) {
    if (tolerances[i].type == type) return gradient ? tolerances[i].gradient : tolerances[i].value;
  }
  return 0;
}

/* A result is no more exact than the arithmetic, nor than its own element type. */
static double tolerance(const op_problem *p, int i) {
  const double own = tolerance_of(p->desc->arg[i].type, p->desc->kind != p->test->desc.kind);
  const double arithmetic = tolerance_of(p->desc->type, p->desc->kind != p->test->desc.kind);
  return own == 0 ? 0 : fmax(own, arithmetic);
}

static void set_threads(int threads) {
#ifdef _OPENMP
  omp_set_num_threads(threads);
#else
  (void)threads;
#endif
}

/* Arrays like the problem's results, to be filled by a row. */
static void make_results(const op_problem *p, double **results) {
  for (int i = 0; i < OP_MAX_ARGS; ++i) {
    results[i] = NULL;
    if (!p->out[i]) continue;
    results[i] = calloc((size_t)op_count(&p->desc->arg[i].shape) + 1, sizeof(double));
    assert_non_null(results[i]);
  }
}

static void free_results(double **results) {
  for (int i = 0; i < OP_MAX_ARGS; ++i) free(results[i]);
}

static void describe(const op_problem *p, const op_run *run, const char *why) {
  static const char *const hints[] = {"plain", "private", "first private"};
  print_error("%s on \"%s\" (%s hints%s%s): %s\n", run->kernel->name, p->test->label,
              hints[run->hint], run->accumulate ? ", accumulating" : "",
              run->in_place_to >= 0 ? ", in place" : "", why);
}

static double largest_of(const op_problem *p, int i) {
  double largest = 0;
  for (int64_t k = 0; k < op_count(&p->desc->arg[i].shape); ++k) {
    largest = fmax(largest, fabs(p->in[i][k]));
  }
  return largest;
}

/* The largest term of the sums that result i of convolutions, inner products, gradients of maxima,
 * of scales and of losses with gains is made of; 0 for other ops. These sums are made in single
 * precision: where the terms of all results cancel, the error is one of the terms. */
static double largest_term(const op_problem *p, int result) {
  double term = 1;
  switch (p->desc->kind) {
    case CR_OP_POOL_BWD: return p->desc->u.pool.method == CR_POOL_MAX ? largest_of(p, 0) : 0;
    case CR_OP_SOFTMAX_LOSS_BWD: /* the sum of a row of gains times a probability */
      return p->in[4] ? largest_of(p, 4) * fabs((double)p->test->scalars.alpha) : 0;
    case CR_OP_SMOOTH_L1_FWD: /* losses times weights of both signs, divided by the samples */
      return op_count(&p->desc->arg[0].shape) > 0 && p->in[3]
                 ? largest_of(p, 3) / (double)p->desc->arg[0].shape.dim[0]
                 : 0;
    case CR_OP_NORMALIZE_BWD: return result == 5 ? largest_of(p, 3) : 0; /* times at most 1 */
    case CR_OP_CONV_FWD:
    case CR_OP_CONV_BWD_DATA:
    case CR_OP_CONV_BWD_WEIGHTS:
    case CR_OP_IP_FWD:
    case CR_OP_IP_BWD_DATA:
    case CR_OP_IP_BWD_WEIGHTS: break;
    default: return 0;
  }
  for (int i = 0; i < p->desc->args; ++i) {
    if (p->access[i] == 'R' && p->in[i]) term *= largest_of(p, i);
  }
  return term;
}

static void keep_error(op_record *record, crema_dtype type, double fraction) {
  for (int i = 0; i < OP_TYPES; ++i) {
    if (tolerances[i].type == type) record->error[i] = fmax(record->error[i], fraction);
  }
}

void op_print_errors(const cr_kernel *row, const op_record *record) {
  const char *wanted = getenv("CREMA_TEST_ERRORS");
  if (wanted == NULL || strcmp(wanted, "1") != 0) return;
  for (int i = 0; i < OP_TYPES; ++i) {
    if (record->error[i] == 0) continue;
    printf("error %s %s %.3g\n", row->name, crema_dtype_name(tolerances[i].type), record->error[i]);
  }
}

/* Error as the golden data measures it: largest difference over largest magnitude. */
static void compare(const op_problem *p, const op_run *run, double *const *results,
                    op_record *record) {
  for (int i = 0; i < p->desc->args; ++i) {
    if (!p->out[i] || i == p->opaque) continue;
    double scale = largest_term(p, i), error = 0;
    int64_t worst = 0;
    for (int64_t k = 0; k < op_count(&p->desc->arg[i].shape); ++k) {
      const bool added = run->accumulate && p->access[i] == 'A';
      const double wanted = p->out[i][k] + (added ? p->in[i][k] : 0);
      const double difference =
          results[i][k] > wanted ? results[i][k] - wanted : wanted - results[i][k];
      scale = wanted > scale ? wanted : -wanted > scale ? -wanted : scale;
      /* A sum is rounded before it is added, and may cancel what it is added to. */
      if (added) scale = fmax(scale, fabs(p->in[i][k]));
      if (!(difference <= error)) error = difference, worst = k;
      if (difference != difference) break;
    }
    if (scale == 0) scale = 1;
    keep_error(record, p->desc->arg[i].type, error / scale);
    if (error <= tolerance(p, i) * scale + p->noise) continue;
    char why[200];
    snprintf(why, sizeof why, "argument %d differs by %g of %g at element %lld: %.9g, not %.9g", i,
             error, scale, (long long)worst, results[i][worst], p->out[i][worst]);
    describe(p, run, why);
    fail();
  }
}

/* Runs and compares. False: the row declined. */
static bool run_and_compare(const op_problem *p, const op_run *run, op_record *record) {
  double *results[OP_MAX_ARGS];
  make_results(p, results);
  cr_format held[OP_MAX_ARGS] = {{0}};
  op_run told = *run;
  told.held = held;
  const op_outcome outcome = op_run_row(&told, p->in, results);
  if (outcome == OP_FAILED) {
    describe(p, run, crema_error_text());
    fail();
  }
  op_check_reasons(p, run->kernel, held, outcome, outcome == OP_DECLINED ? crema_error_text() : "");
  if (outcome == OP_RAN) compare(p, run, results, record);
  if (outcome == OP_DECLINED && strstr(crema_error_text(), "implement")) record->machine = true;
  record->ran += outcome == OP_RAN;
  free_results(results);
  return outcome == OP_RAN;
}

/* The reference kernels promise the same bits for any number of threads. */
static void check_threads(const op_problem *p, const op_run *run) {
  double *one[OP_MAX_ARGS], *many[OP_MAX_ARGS];
  make_results(p, one);
  make_results(p, many);
  set_threads(1);
  assert_int_equal(op_run_row(run, p->in, one), OP_RAN);
  set_threads(4);
  assert_int_equal(op_run_row(run, p->in, many), OP_RAN);
  for (int i = 0; i < p->desc->args; ++i) {
    if (!p->out[i] || i == p->opaque) continue;
    if (memcmp(one[i], many[i], (size_t)op_count(&p->desc->arg[i].shape) * sizeof(double)) != 0) {
      describe(p, run, "the result depends on the number of threads");
      fail();
    }
  }
  free_results(one);
  free_results(many);
}

bool op_is_int8(const cr_kernel *kernel) {
  switch (kernel->op) {
    case CR_OP_CONV_INT8:
    case CR_OP_IP_INT8:
    case CR_OP_QUANTIZE:
    case CR_OP_AFFINE_INT8:
    case CR_OP_AVERAGE_INT8:
    case CR_OP_LRN_QUANTIZE: return true;
    case CR_OP_POOL_FWD:
    case CR_OP_SLICE:
    case CR_OP_PERMUTE:
    case CR_OP_CONCAT: return kernel->type == CREMA_U8 || kernel->type == CREMA_I8;
    default: return false;
  }
}

bool op_is_ref(const cr_kernel *kernel) {
  const size_t length = strlen(kernel->name);
  return length > 4 && strcmp(kernel->name + length - 4, "_ref") == 0;
}

/* Whether the row is one for ops of this kind and these element types. */
static bool takes(const cr_kernel *kernel, const cr_op_desc *desc) {
  if (kernel->op != desc->kind || kernel->type != desc->type) return false;
  for (int i = 0; i < desc->args; ++i) {
    const bool values = cr_op_kind_use(desc->kind, desc->args, i).role == CR_ROLE_VALUES;
    const bool floating = tolerance_of(desc->arg[i].type, false) > 0;
    if (desc->arg[i].shape.axes < 0 || !values || !floating) continue;
    if (!cr_kernel_takes(kernel, desc->arg[i].type)) return false;
  }
  return true;
}

/* The library's own content of an LRN's aux, made by the forward row of the same family.
 * False: that row declines. */
static bool make_opaque(const op_problem *forward, const op_run *backward, op_buffer *content) {
  const char *family = strrchr(backward->kernel->name, '_');
  for (const cr_kernel *const *row = op_table(); *row; ++row) {
    if (!takes(*row, forward->desc)) continue;
    if (strcmp(strrchr((*row)->name, '_'), family) != 0) continue;
    double *results[OP_MAX_ARGS];
    const op_run run = {.kernel = *row,
                        .desc = forward->desc,
                        .hint = backward->hint,
                        .in_place_from = -1,
                        .in_place_to = -1,
                        .opaque = forward->opaque,
                        .opaque_out = content};
    make_results(forward, results);
    const op_outcome outcome = op_run_row(&run, forward->in, results);
    free_results(results);
    return outcome == OP_RAN;
  }
  return false;
}

/* One row on one problem, in every way a layer may ask for. */
static void check_row(const cr_kernel *row, const op_problem *p, const op_problem *forward,
                      op_record *record) {
  const int hints = op_is_ref(row) ? 1 : OP_HINTS; /* reference kernels do not look at them */
  for (int hint = 0; hint < hints; ++hint) {
    op_buffer opaque = {.memory = NULL};
    op_run run = {.kernel = row,
                  .desc = p->desc,
                  .scalars = &p->test->scalars,
                  .hint = (op_hint)hint,
                  .in_place_from = -1,
                  .in_place_to = -1,
                  .opaque = p->opaque};
    if (p->desc->kind == CR_OP_LRN_BWD && p->opaque >= 0 &&
        p->desc->arg[p->opaque].shape.axes >= 0) {
      if (!make_opaque(forward, &run, &opaque)) continue;
      run.opaque_in = &opaque;
    }
    const bool ran_now = run_and_compare(p, &run, record);
    if (ran_now && op_is_ref(row) && hint == 0) check_threads(p, &run);
    for (int i = 0; i < op_in_place_count && ran_now; ++i) {
      const op_in_place *pair = &op_in_places[i];
      if (pair->kind != p->desc->kind || pair->from >= p->desc->args) continue;
      run.in_place_from = pair->from;
      run.in_place_to = pair->to < 0 ? p->desc->args + pair->to : pair->to;
      run_and_compare(p, &run, record);
    }
    run.in_place_from = run.in_place_to = -1;
    run.accumulate = row->can_accumulate;
    if (ran_now && run.accumulate) run_and_compare(p, &run, record);
    op_buffer_free(&opaque);
  }
}

/* The same op with all that is floating in F64; free with free(). */
static cr_op_desc *in_f64(const op_problem *p) {
  cr_op_desc *desc = op_desc_new();
  memcpy(desc, p->desc, cr_op_desc_bytes(p->desc->args));
  desc->type = CREMA_F64;
  for (int i = 0; i < desc->args; ++i) {
    if (tolerance_of(desc->arg[i].type, false) > 0) desc->arg[i].type = CREMA_F64;
  }
  return desc;
}

/* For large cases: the results of the reference kernel of F64 become the reference. */
static void ask_ref_row(op_problem *p) {
  const cr_kernel *plain = NULL;
  cr_op_desc *desc = in_f64(p);
  for (const cr_kernel *const *row = cr_host_context()->device->backend->kernels; *row; ++row) {
    if (takes(*row, desc)) plain = *row;
  }
  assert_non_null(plain);
  assert_true(op_is_ref(plain));
  const op_run run = {.kernel = plain,
                      .desc = desc,
                      .scalars = &p->test->scalars,
                      .in_place_from = -1,
                      .in_place_to = -1,
                      .opaque = p->opaque};
  if (op_run_row(&run, p->in, p->out) != OP_RAN) {
    describe(p, &run, crema_error_text());
    fail();
  }
  free(desc);
}

static void check_problem(const op_problem *p, const op_problem *forward, op_record *records) {
  int n = 0;
  for (const cr_kernel *const *row = op_table(); *row; ++row, ++n) {
    assert_true(n < OP_ROWS_MAX);
    if (!takes(*row, p->desc)) continue;
    check_row(*row, p, forward, &records[n]);
  }
}

/* Whether a row could take an op of `kind` with values of `type`. */
static bool has_row(cr_op_kind kind, crema_dtype type) {
  for (const cr_kernel *const *row = op_table(); *row; ++row) {
    if ((*row)->op == kind && cr_kernel_takes(*row, type)) return true;
  }
  return false;
}

void op_check_case(const op_case *test, cr_op_kind kind, crema_dtype type, cr_mt19937 *rng,
                   op_record *records) {
  op_problem forward;
  if (type != CREMA_F32 && (!has_row(kind, type) || !op_case_exists(test, type))) return;
  if (!op_problem_make(test, type, rng, &forward)) {
    print_error("case \"%s\" of %s cannot be made\n", test->label, cr_op_kind_name(kind));
    fail();
  }
  if (test->large) ask_ref_row(&forward);
  if (test->desc.kind == kind) check_problem(&forward, &forward, records);
  for (int i = 0; i < op_gradient_count; ++i) {
    const op_gradient *gradient = &op_gradients[i];
    if (gradient->forward != test->desc.kind || gradient->backward != kind) continue;
    for (int k = 0; k < op_problem_gradients(&forward, gradient); ++k) {
      op_problem backward;
      assert_true(op_problem_gradient(&forward, gradient, k, rng, &backward));
      if (test->large) ask_ref_row(&backward);
      check_problem(&backward, &forward, records);
      op_problem_free(&backward);
    }
  }
  op_problem_free(&forward);
}

bool op_tests_start(uint32_t *seed) {
  if (op_table() == NULL) {
    printf("skipped: %s\n", crema_error_text());
    return false;
  }
  const char *given = getenv("CREMA_TEST_SEED");
  *seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL);
  printf("seed %u (set CREMA_TEST_SEED to repeat)\n", *seed);
  return true;
}
