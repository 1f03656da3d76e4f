/* Trials of one kernel row: an op with values, the row's run on it, and what the reference kernel
 * makes of the same values. Failures end the test. */
#ifndef CR_TESTS_DNNL_TRIAL_H
#define CR_TESTS_DNNL_TRIAL_H

#include <dnnl.h>

#include "check.h"
#include "device/backend/half_blocks.h"
#include "device/backend/kernel.h"
#include "device/cpu/onednn/layout.h"
#include "ops/op.h"

enum { ARGS_MAX = 8, ORDERS = 4, SHORT_TYPES = 2 };

/* An op with the plain values of its arguments. */
typedef struct fixture {
  cr_op_desc *desc; /* with room for ARGS_MAX */
  char access[ARGS_MAX];
  cr_format hint[ARGS_MAX];
  void *value[ARGS_MAX];
  cr_op_scalars scalars;
} fixture;

/* One kernel's run on a fixture. */
typedef struct trial {
  const cr_kernel *kernel;
  cr_plan plan;
  cr_format format[ARGS_MAX];
  void *memory[ARGS_MAX];
} trial;

/* A test whose values are the same each time. */
#define TRIAL_TEST(name) TEST_BETWEEN(name, seed_values, NULL)
int seed_values(void **state);

/* Makes an op without arguments. Free with finish(). */
void start(fixture *f, cr_op_kind kind);
void finish(fixture *f);

/* Adds an argument, with values between -1 and 1 if it is F32 and zeros otherwise. */
void add(fixture *f, char access, crema_dtype type, int axes, const int64_t *dim);
/* The same without values, for shapes that are only planned. */
void add_shape(fixture *f, char access, crema_dtype type, const crema_shape *shape);
void add_absent(fixture *f);

#define ADD_TYPE(f, access, type, ...)                                            \
  add(f, access, type, (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
      (int64_t[]){__VA_ARGS__})
#define ADD(f, access, ...) ADD_TYPE(f, access, CREMA_F32, __VA_ARGS__)

bool is_absent(const fixture *f, int i);

/* The bytes of argument i in plain memory. */
size_t value_bytes(const fixture *f, int i);

/* The n-th oneDNN row for the kind, best first; NULL after the last. */
const cr_kernel *dnnl_row(cr_op_kind kind, int n);

/* The reference kernel in F32. */
const cr_kernel *ref_row(cr_op_kind kind);

/* Plain memory, blocks of 8 and of 16 channels, channels-last. */
extern const cr_dnnl_order all_orders[ORDERS];

/* Hints that every F32 argument of 3 to 5 axes that is read is held in `order`. */
void hold(fixture *f, cr_dnnl_order order);

/* Hints that argument `arg` is held in `order`. */
void hold_argument(fixture *f, int arg, cr_dnnl_order order);

/* Hints that argument 0 (outer,C,inner) is held as (N,C,H,W) in `order`. */
void hold_images(fixture *f, int64_t height, int64_t width, cr_dnnl_order order);

/* The same window along all axes. */
void set_window(cr_window *w, int axes, int64_t kernel, int64_t stride, int64_t pad,
                int64_t dilation);

/* One of the four affine ops on (3,channels,inner). `variant`: forward has scale and bias, no scale
 * or no bias. */
void make_affine(fixture *f, cr_op_kind kind, int64_t channels, int64_t inner, int variant);

/* Plans and, unless the kernel declines, makes the arguments' memory. Free with release() unless
 * it declined. */
crema_status prepare(trial *t, fixture *f, const cr_kernel *kernel);
void execute(trial *t, fixture *f);
/* The same; `add_to`: accumulated arguments are added to. */
void execute_on(trial *t, fixture *f, bool add_to);
void release(trial *t);

/* Argument i's values in plain format; free with free(). */
void *fetch(const trial *t, const fixture *f, int i);

/* Compares the values of argument `arg`, relative to 1 + the value that is wanted. */
void compare_values(const fixture *f, int arg, const void *got, const void *want, double tolerance);

/* Runs all rows of the kind, in all element types that they take, and compares what they write with
 * the reference kernel. Returns false when all decline F32. */
bool agree(fixture *f, double tolerance);

/* The same in all orders, and frees `f`; at least `wanted` of the four must not be declined. */
void agree_in_all_orders(fixture *f, double tolerance, int wanted);

/* ---- element types that are shorter than F32 ---- */

extern const crema_dtype short_types[SHORT_TYPES];

/* How often rows of a kind took values of short_types[t]: counted by agree(). */
extern int taken[SHORT_TYPES][CR_OP_KINDS];

/* A copy of `f` whose values for which `which` has a bit are of `type`; and in `rounded` a copy
 * with the same values in F32. */
void shorten(const fixture *f, crema_dtype type, unsigned which, fixture *out, fixture *rounded);

/* Runs the row on shortened values, and the reference kernel in F32 on the same numbers: a result
 * may be off by its own rounding on top of the tolerance. Returns false when the row declines. */
bool row_agrees_in(const fixture *f, const cr_kernel *row, crema_dtype type, unsigned which,
                   double tolerance);

/* Whether the processor has instructions for products of bf16 numbers. */
bool multiplies_bf16(void);

#endif
