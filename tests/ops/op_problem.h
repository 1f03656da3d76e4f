/* A case with values: inputs drawn at random, and the results they must give. */
#ifndef CR_TESTS_OP_PROBLEM_H
#define CR_TESTS_OP_PROBLEM_H

#include "core/rng.h"
#include "op_case.h"

typedef struct op_problem {
  const op_case *test;
  cr_op_desc *desc;
  char access[OP_MAX_ARGS];
  /* in[i]: what is read, and what an accumulated argument holds before. Each value is one
   * of the argument's element type. out[i]: what must be written, or added. NULL: does not apply.
   */
  double *in[OP_MAX_ARGS], *out[OP_MAX_ARGS];
  double
      noise; /* how far off wanted gradients may be, as what differences are taken of is rounded */
  /* The argument whose content is the library's own; -1: none. */
  int opaque;
} op_problem;

/* Draws the inputs, values of `type`, and, unless the case is large, computes the results in double
 * precision. False: the case is malformed or has no reference. */
bool op_problem_make(const op_case *test, crema_dtype type, cr_mt19937 *rng, op_problem *problem);

/* The number of gradients that `gradient` asks for of `forward`: one, or one per source. 0 when an
 * argument that it needs is absent. */
int op_problem_gradients(const op_problem *forward, const op_gradient *gradient);

/* Makes gradient `index` of a forward problem whose results are there. Unless the case is large the
 * wanted gradients are central differences of the reference. */
bool op_problem_gradient(const op_problem *forward, const op_gradient *gradient, int index,
                         cr_mt19937 *rng, op_problem *problem);

void op_problem_free(op_problem *problem);

#endif
