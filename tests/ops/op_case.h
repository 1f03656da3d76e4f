/* The cases on which every kernel row is run. */
#ifndef CR_TESTS_OP_CASE_H
#define CR_TESTS_OP_CASE_H

#include "device/backend/op_desc.h"

enum { OP_MAX_ARGS = 10 };

/* The part of a description that is no argument. */
typedef struct op_given {
  cr_op_kind kind;
  cr_op_params u;
} op_given;

/* A case is an op that is no gradient; the gradients of the op are tested along with it. */
typedef struct op_case {
  const char *label;
  /* One per argument, separated by ";": extents, then the element type unless it is floating; "-"
   * for an absent argument. */
  const char *shapes;
  op_given desc;      /* the arguments come from `shapes` */
  const float *scale; /* one per argument; NULL: all 1 */
  cr_op_scalars scalars;
  /* Too large for the slow reference and finite differences: the reference kernel is the reference.
   */
  bool large;
  /* Values of 0, 1 and 2, so that equal ones are frequent, and sums exact: no rounding moves them
   * across a threshold. */
  bool ties;
} op_case;

/* Of convolution, and of all other ops. */
extern const op_case op_conv_cases[], op_cases[];
extern const int op_conv_case_count, op_case_count;

/* How the arguments of a backward op come from its forward op's, one word per argument:
 *   v<i>  value of argument i     g<i>  given gradient of result i    d<i>  wanted gradient
 * of argument i     s<i>  sums of the rows of argument i. In place of a number, for ops with any
 * number n of sources: `*` all sources in turn, `n` and `m` the arguments after the sources, `k`
 * each source in its turn as u.index. */
typedef struct op_gradient {
  cr_op_kind forward, backward;
  const char *args;
} op_gradient;

extern const op_gradient op_gradients[];
extern const int op_gradient_count;

/* Pairs of arguments that layers may run in place: `from` is read, `to` written over it; `to`
 * below 0 counts from the end. */
typedef struct op_in_place {
  cr_op_kind kind;
  int from, to;
} op_in_place;

extern const op_in_place op_in_places[];
extern const int op_in_place_count;

/* A descriptor without arguments that has room for OP_MAX_ARGS; free with free(). Ends the program
 * when there is no memory. */
cr_op_desc *op_desc_new(void);

/* Fills `desc`, which has such room, from the case for an op whose values are of `type`. False:
 * malformed. */
bool op_case_args(const op_case *test, crema_dtype type, cr_op_desc *desc);

/* Whether the case differs from that of f32 when values are of `type`: copies of integers do not.
 */
bool op_case_exists(const op_case *test, crema_dtype type);

/* The types in which values are tested. */
enum { OP_TYPES = 4 };
extern const crema_dtype op_types[OP_TYPES];

/* Letters R, W, U, A, one per argument (upper case), into access[OP_MAX_ARGS]. */
void op_access(const cr_op_desc *desc, char *access);

/* Numbers of a solver's step, for the cases of UPDATE ops. */
#define OP_UPDATE_SCALARS                                                                     \
  {                                                                                           \
    .rate = 0.01f, .momentum = 0.9f, .momentum2 = 0.999f, .rms_decay = 0.98f, .decay = 0.05f, \
    .delta = 1e-4f, .grad_scale = 0.5f                                                        \
  }

#endif
