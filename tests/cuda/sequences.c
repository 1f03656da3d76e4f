#include "sequences.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "device/device.h"
#include "op_check.h"
#include "op_reference.h"
#include "op_run.h"

/* Of two sequences the first begins at the first step, the second at the second step. */
static const double cont_values[] = {0, 1, 0.75, 0, 1, 0.5};
enum { CONT_VALUES = sizeof cont_values / sizeof cont_values[0], NONE = -1 };

typedef struct sequence {
  cr_op_kind kind;
  const char *shapes;
  int cont;     /* the argument */
  int state[2]; /* arguments (2,D) before the first step; NONE */
  int diff_h;   /* the argument (T,2,D); NONE */
  bool accumulate;
} sequence;

static const sequence sequences[] = {
    {CR_OP_LSTM_FWD, "3 2 12; 3 2; 12 3; 2 3; 2 3; 3 2 3; 3 2 3; 3 2 12", 1, {3, 4}, NONE, false},
    {CR_OP_LSTM_FWD, "1 2 12; 1 2; 12 3; 2 3; 2 3; 1 2 3; 1 2 3; 1 2 12", 1, {3, 4}, NONE, false},
    {CR_OP_LSTM_FWD, "0 2 12; 0 2; 12 3; 2 3; 2 3; 0 2 3; 0 2 3; 0 2 12", 1, {3, 4}, NONE, false},
    {CR_OP_LSTM_FWD, "3 0 12; 3 0; 12 3; 0 3; 0 3; 3 0 3; 3 0 3; 3 0 12", 1, {3, 4}, NONE, false},
    {CR_OP_LSTM_FWD, "3 2 0; 3 2; 0 0; 2 0; 2 0; 3 2 0; 3 2 0; 3 2 0", 1, {3, 4}, NONE, false},
    {CR_OP_LSTM_BWD,
     "3 2 12; 3 2 3; 2 3; 3 2; 12 3; 3 2 3; 3 2 3; 3 2 12; 2 3; 2 3",
     3,
     {2, NONE},
     5,
     false},
    {CR_OP_LSTM_BWD,
     "3 2 12; 3 2 3; 2 3; 3 2; 12 3; 3 2 3; -; 3 2 12; -; -",
     3,
     {2, NONE},
     5,
     false},
    {CR_OP_LSTM_BWD,
     "3 2 12; 3 2 3; 2 3; 3 2; 12 3; 3 2 3; -; 3 2 12; 2 3; -",
     3,
     {2, NONE},
     5,
     false},
    {CR_OP_LSTM_BWD,
     "1 2 12; 1 2 3; 2 3; 1 2; 12 3; 1 2 3; -; 1 2 12; -; 2 3",
     3,
     {2, NONE},
     NONE,
     false},
    {CR_OP_LSTM_BWD,
     "0 2 12; 0 2 3; 2 3; 0 2; 12 3; 0 2 3; 0 2 3; 0 2 12; 2 3; 2 3",
     3,
     {2, NONE},
     NONE,
     false},
    {CR_OP_LSTM_BWD,
     "3 2 0; 3 2 0; 2 0; 3 2; 0 0; 3 2 0; -; 3 2 0; 2 0; 2 0",
     3,
     {2, NONE},
     NONE,
     false},
    {CR_OP_LSTM_UNIT_FWD, "1 2 12; 1 2; 1 2 3; 1 2 3; 1 2 3", 1, {2, NONE}, NONE, false},
    {CR_OP_LSTM_UNIT_BWD,
     "1 2 12; 1 2; 1 2 3; 1 2 3; 1 2 3; 1 2 12; 1 2 3",
     1,
     {2, NONE},
     NONE,
     false},
    {CR_OP_RNN_FWD, "3 2 3; 3 2; 3 3; 2 3; 3 2 3", 1, {3, NONE}, NONE, false},
    {CR_OP_RNN_FWD, "0 2 3; 0 2; 3 3; 2 3; 0 2 3", 1, {3, NONE}, NONE, false},
    {CR_OP_RNN_BWD, "3 2 3; 3 2; 3 3; 3 2 3; 3 2 3; 2 3", 1, {NONE, NONE}, 3, false},
    {CR_OP_RNN_BWD, "3 2 3; 3 2; 3 3; 3 2 3; 3 2 3; -", 1, {NONE, NONE}, 3, false},
    {CR_OP_RNN_BWD, "0 2 3; 0 2; 3 3; 0 2 3; 0 2 3; 2 3", 1, {NONE, NONE}, NONE, false},
    {CR_OP_RECURRENT_BWD_WEIGHTS, "3 2 3; 2 3; 3 2; 3 2 12; 12 3", 2, {1, NONE}, NONE, false},
    {CR_OP_RECURRENT_BWD_WEIGHTS, "1 2 3; 2 3; 1 2; 1 2 3; 3 3", 2, {1, NONE}, NONE, true},
    {CR_OP_RECURRENT_BWD_WEIGHTS, "0 2 3; 2 3; 0 2; 0 2 12; 12 3", 2, {1, NONE}, NONE, false},
    {CR_OP_RECURRENT_BWD_WEIGHTS, "3 0 3; 0 3; 3 0; 3 0 3; 3 3", 2, {1, NONE}, NONE, true},
    {CR_OP_RECURRENT_BWD_WEIGHTS, "3 2 0; 2 0; 3 2; 3 2 0; 0 0", 2, {1, NONE}, NONE, false},
};

static void fill(const sequence *s, const cr_op_desc *desc, int i, double *to) {
  const int64_t count = op_count(&desc->arg[i].shape);
  const int axes = desc->arg[i].shape.axes;
  for (int64_t k = 0; k < count; ++k) {
    to[k] = i == s->cont ? cont_values[k % CONT_VALUES] : sin((double)(k + 7 * i));
  }
  if (count == 0) return;
  const int64_t units = desc->arg[i].shape.dim[axes - 1];
  for (int64_t d = 0; d < units; ++d) {
    if (i == s->state[0]) to[d] = NAN;
    if (i == s->state[1]) to[d] = -INFINITY;
    /* It does not reach the second sequence's first step. */
    if (i == s->diff_h) to[3 * units + d] = NAN;
  }
}

/* The row of `table` with arithmetic in F32: that of the device, or the reference. */
static const cr_kernel *find(const cr_kernel *const *table, cr_op_kind kind, bool reference) {
  for (; *table; ++table) {
    if ((*table)->op == kind && (*table)->type == CREMA_F32 && op_is_ref(*table) == reference) {
      return *table;
    }
  }
  fail_msg("no row of %s", cr_op_kind_name(kind));
  return NULL;
}

static void run(const sequence *s, const cr_op_desc *desc, const cr_kernel *row, double *const *in,
                double *const *out) {
  const op_run how = {.kernel = row,
                      .desc = desc,
                      .accumulate = s->accumulate,
                      .in_place_from = NONE,
                      .in_place_to = NONE,
                      .opaque = NONE};
  const op_outcome outcome = op_run_row(&how, in, out);
  if (outcome != OP_RAN) fail_msg("%s of %s: %s", row->name, s->shapes, crema_error_text());
}

static void compare(const sequence *s, const cr_op_desc *desc, int i, const double *wanted,
                    const double *found) {
  for (int64_t k = 0; k < op_count(&desc->arg[i].shape); ++k) {
    if (isnan(wanted[k]) ? isnan(found[k]) : fabs(wanted[k] - found[k]) < 1e-5) continue;
    fail_msg("%s of %s: argument %d, element %lld is %g, not %g", cr_op_kind_name(s->kind),
             s->shapes, i, (long long)k, found[k], wanted[k]);
  }
}

static void check_sequence(const sequence *s) {
  const op_case test = {.label = "sequences", .shapes = s->shapes, .desc = {.kind = s->kind}};
  cr_op_desc *desc = op_desc_new();
  double *in[OP_MAX_ARGS] = {NULL}, *wanted[OP_MAX_ARGS] = {NULL}, *found[OP_MAX_ARGS] = {NULL};
  assert_true(op_case_args(&test, CREMA_F32, desc));
  for (int i = 0; i < desc->args; ++i) {
    if (desc->arg[i].shape.axes < 0) continue;
    double **const arrays[] = {&in[i], &wanted[i], &found[i]};
    for (int k = 0; k < 3; ++k) {
      *arrays[k] = calloc((size_t)op_count(&desc->arg[i].shape) + 1, sizeof(double));
      assert_non_null(*arrays[k]);
    }
    fill(s, desc, i, in[i]);
  }
  run(s, desc, find(cr_host_context()->device->backend->kernels, s->kind, true), in, wanted);
  run(s, desc, find(op_table(), s->kind, false), in, found);
  for (int i = 0; i < desc->args; ++i) {
    compare(s, desc, i, wanted[i], found[i]);
    free(in[i]);
    free(wanted[i]);
    free(found[i]);
  }
  free(desc);
}

void sequences_begin_and_end(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof sequences / sizeof *sequences; ++i) check_sequence(&sequences[i]);
}
