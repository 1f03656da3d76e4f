/* How many threads an op is worth, by the cost that its line in ops.inc names. */
#include <string.h>

#include "check.h"
#include "device/cpu/threads/threads.h"

enum { ARGS = 4, MANY = 1000000 };

/* "8 3 32 32": an argument's extents; NULL: absent. */
typedef struct op_size {
  cr_op_kind kind;
  const char *arg[ARGS];
  int args;
  int worth; /* of as many threads as one likes */
} op_size;

static const op_size sizes[] = {
#define SIZE(KIND, worth, n, ...) {CR_OP_##KIND, {__VA_ARGS__}, n, worth},
#include "device/op_threads.inc"
#undef SIZE
};

static crema_shape shape_of(const char *text) {
  crema_shape shape = {.axes = -1};
  if (text == NULL) return shape;
  shape.axes = 0;
  for (int64_t extent = 0;; ++text) {
    if (*text >= '0' && *text <= '9') {
      extent = 10 * extent + (*text - '0');
    } else {
      shape.dim[shape.axes++] = extent;
      extent = 0;
      if (*text == '\0') return shape;
    }
  }
}

static int worth(const op_size *size, int most) {
  cr_op_desc *desc = calloc(1, cr_op_desc_bytes(size->args));
  assert_non_null(desc);
  *desc = (cr_op_desc){.kind = size->kind, .type = CREMA_F32, .args = size->args};
  for (int i = 0; i < size->args; ++i) {
    desc->arg[i] = (cr_op_arg){.shape = shape_of(size->arg[i]), .type = CREMA_F32};
  }
  const int threads = cr_cpu_threads_for(desc, most);
  free(desc);
  return threads;
}

TEST(threads_follow_from_the_cost) {
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    const op_size *size = &sizes[i];
    const int found = worth(size, MANY);
    if (found != size->worth) {
      fail_msg("%s of \"%s\", ...: %d threads, not %d", cr_op_kind_name(size->kind), size->arg[0],
               found, size->worth);
    }
    for (int most = 1; most <= 16; ++most) {
      assert_int_equal(worth(size, most), size->worth < most ? size->worth : most);
    }
  }
}

/* Each line of ops.inc has a cost whose arguments exist. */
TEST(costs_name_arguments) {
  for (int kind = 0; kind < CR_OP_KINDS; ++kind) {
    const cr_op_cost cost = cr_op_kind_cost((cr_op_kind)kind);
    int most = 0;
    const int args = cr_op_kind_arity((cr_op_kind)kind, &most);
    assert_in_range(cost.result, 0, args - 1);
    assert_in_range(cost.weights, 0, args - 1);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
