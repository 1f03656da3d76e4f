/* Running one kernel row on values given as plain arrays of double, without tensors and without
 * the dispatcher. */
#ifndef CR_TESTS_OP_RUN_H
#define CR_TESTS_OP_RUN_H

#include <stdlib.h>

#include "device/backend/kernel.h"
#include "op_case.h"

/* An argument as the row holds it. */
typedef struct op_buffer {
  cr_format format;
  void *memory; /* 64-byte aligned, exactly as large as the format asks for */
} op_buffer;

typedef enum op_hint {
  OP_HINT_PLAIN,
  OP_HINT_PRIVATE,       /* images are offered in the layout that convolution likes */
  OP_HINT_PRIVATE_FIRST, /* the first argument only */
  OP_HINTS
} op_hint;

typedef struct op_run {
  const cr_kernel *kernel;
  const cr_op_desc *desc;
  const cr_op_scalars *scalars;
  op_hint hint;
  bool accumulate;                /* for accumulated arguments: add to in[i] */
  int in_place_from, in_place_to; /* one array for both; -1: none */
  int opaque;                     /* argument with the library's own content; -1: none */
  /* Of the argument `opaque`: content that is read, content that was written. */
  const op_buffer *opaque_in;
  op_buffer *opaque_out;
  /* OP_MAX_ARGS formats, set to those in which the row is told that the arguments are held; NULL:
   * no matter. Rows of a device are told nothing. */
  cr_format *held;
} op_run;

typedef enum op_outcome { OP_RAN, OP_DECLINED, OP_SAME_FORMATS_NOT_HELD, OP_FAILED } op_outcome;

/* The rows under test; ends with NULL. NULL, with a reason in crema_error_text(): the device that
 * they need is not there. */
const cr_kernel *const *op_table(void);

/* Converts in[i] to what the row wants, runs it and converts the results to out[i] (arrays of the
 * argument's count). Memory that is written is filled with nan first, and so is what lies around
 * all arrays. OP_DECLINED: the row does not take this op. OP_SAME_FORMATS_NOT_HELD: it cannot run
 * in place as asked, as the two formats differ. OP_FAILED: an error, or something was written to
 * that is not the row's to write, in crema_error_text(). */
op_outcome op_run_row(const op_run *run, double *const *in, double *const *out);

static inline void op_buffer_free(op_buffer *buffer) {
  free(buffer->memory);
  buffer->memory = NULL;
}

#endif
