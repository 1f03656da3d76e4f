/* The description of an op: its kind, the shapes of its arguments and its parameters. */
#ifndef CR_DEVICE_OP_DESC_H
#define CR_DEVICE_OP_DESC_H

#include "crema/types.h"
#include "device/backend/op_enums.h"

typedef enum cr_op_kind {
#define CR_OP(NAME, name, args, cost) CR_OP_##NAME,
#include "device/backend/ops.inc"
#undef CR_OP
  CR_OP_KINDS
} cr_op_kind;

/* Window of a convolution or pooling, one entry per spatial axis. */
typedef struct cr_window {
  int axes;
  int64_t kernel[CR_MAX_SPATIAL];
  int64_t stride[CR_MAX_SPATIAL];
  int64_t pad[CR_MAX_SPATIAL];      /* before the first element; after the last element as needed */
  int64_t dilation[CR_MAX_SPATIAL]; /* 1: dense */
} cr_window;

/* AVERAGE: the divisor is the window clipped to the padded input, padding counted; AVERAGE_INPUT:
 * to the input. */
typedef enum cr_pool_method { CR_POOL_MAX, CR_POOL_AVERAGE, CR_POOL_AVERAGE_INPUT } cr_pool_method;

typedef struct cr_pool_params {
  cr_window window;
  cr_pool_method method;
  int64_t src[CR_MAX_SPATIAL]; /* input extents, for POOL_MASK */
} cr_pool_params;

/* The most channels of a window in LRN_QUANTIZE. */
enum { CR_LRN_WINDOW_MAX = 64 };

typedef struct cr_lrn_params {
  int64_t size;
  float alpha, beta, k;
  bool within_channel;
} cr_lrn_params;

/* A post operation, on each value of a result before it is written. */
typedef enum cr_post_kind {
  CR_POST_NONE,
  CR_POST_UNARY, /* the element-wise function */
  CR_POST_ADD    /* the value of the op's last argument is added */
} cr_post_kind;

typedef struct cr_post {
  cr_post_kind kind;
  cr_unary function;
  double alpha, beta, gamma; /* of the function */
} cr_post;

/* Applied in this order; CR_POST_NONE follows the last one. One CR_POST_ADD at most. */
typedef struct cr_posts {
  cr_post post[CR_POSTS];
} cr_posts;

typedef struct cr_conv_params {
  cr_window window;
  int64_t group;
  cr_posts posts; /* forward only */
  bool winograd;  /* forward only: products may be saved by Winograd's method, which rounds more */
} cr_conv_params;

typedef struct cr_ip_params {
  cr_posts posts; /* forward only */
  bool transpose;
} cr_ip_params;

/* Whether the gradient can be computed from the function's value, without the source: in place, the
 * source need not be kept. (ReLU reads the sign of its source, which is also the sign of its
 * value.) */
static inline bool cr_unary_by_value(cr_unary function) {
  return function == CR_UNARY_RELU || function == CR_UNARY_SIGMOID || function == CR_UNARY_TANH;
}

typedef enum cr_resampling {
  CR_RESAMPLE_NEAREST,
  CR_RESAMPLE_LINEAR,
  CR_RESAMPLE_CUBIC
} cr_resampling;

/* The element type of an argument is its tensor's. A stored number n means scale * (n -
 * zero_point). Only SUM and kernels that say so look at these; 1 and 0: n itself. */
typedef struct cr_op_arg {
  crema_shape shape; /* axes -1: an optional argument that is absent */
  crema_dtype type;
  float scale;
  int32_t zero_point;
} cr_op_arg;

/* Parameters of an op; each kind has its own member. */
typedef union cr_op_params {
  cr_conv_params conv;
  cr_pool_params pool;
  cr_lrn_params lrn;
  cr_ip_params ip;
  cr_posts affine; /* forward only; none adds */
  struct {
    float eps;
    bool global;
    float fraction; /* of the moving sums that a run keeps */
    bool rectify;   /* in training, negative results become 0 */
  } bn;
  struct {
    bool rectify; /* negative sums become 0 */
  } sum;
  struct {
    cr_unary function;
    double alpha, beta, gamma;
  } unary;
  struct {
    float ratio; /* of the values that are dropped: set to 0; the rest is scaled by 1/(1-ratio) */
    bool line;   /* instead, those are set to `dropped`, and the rest to gain x + shift */
    double gain, shift, dropped;
  } dropout;
  struct {
    bool has_ignore;
    bool of_scores; /* backward: of scores, where forward kept no probabilities */
    int ignore;
  } nll;
  struct {
    int top_k;
    bool has_ignore;
    int ignore;
  } accuracy;
  struct {
    cr_update_rule rule;
    bool l1, decoupled; /* one at most */
  } update;
  struct {
    float margin;
    bool legacy;
  } contrastive;
  struct {
    bool variance;
    float eps;
  } mvn;
  struct {
    cr_reduction reduction;
    double coeff;
  } rows;
  struct {
    bool across;
    float eps;
  } normalize;
  struct {
    float sigma2;
  } smooth;
  struct {
    float scale;
    int ratio;
    float pad; /* pooling of maxima: share of a region's side that is added to both ends */
  } roi;
  struct {
    bool rows_first, clamped;
    float fill;
  } sample;
  struct {
    cr_resampling method;
    bool antialias; /* maps that shrink are smoothed */
  } resample;
  struct {
    int64_t pad, kernel, displacement; /* kernel: height and width of a patch */
    int64_t stride, step;              /* between patches, between displacements */
    bool subtract;                     /* absolute differences instead of products */
    bool in_rows;                      /* displaced and padded along the last axis only */
    int direction; /* -1, 1: with in_rows, displacements to the left or to the right only */
  } correlation;
  struct {
    bool uniform;
    double mean, spread; /* spread: half the range, or the deviation over the root mean square */
  } noise;
  cr_window window;
  int64_t offset[CREMA_MAX_AXES];
  unsigned flipped;
  int order[CREMA_MAX_AXES];
  int norm;
  bool logistic;
  cr_reduction reduce;
  int axis;
  int index;
  double value;
} cr_op_params;

/* One block of memory without pointers, so that descriptors are compared by their bytes (ops/op.h
 * makes and compares them). An object of just this type has no arguments, and an assignment copies
 * all but the arguments and the data after them. */
typedef struct cr_op_desc {
  cr_op_kind kind;
  crema_dtype type; /* of the arithmetic: F32 or F64, but for copies of other types theirs */
  int args;         /* absent optional arguments are counted too */
  int numbers;      /* constants of kinds that have some, after the arguments */
  cr_op_params u;
  cr_op_arg arg[]; /* `args` of them */
} cr_op_desc;

/* The bytes of a descriptor with `args` arguments and no numbers. */
static inline size_t cr_op_desc_bytes(int args) {
  return sizeof(cr_op_desc) + (size_t)args * sizeof(cr_op_arg);
}

/* The bytes of this one. */
static inline size_t cr_op_desc_size(const cr_op_desc *desc) {
  return cr_op_desc_bytes(desc->args) + (size_t)desc->numbers * sizeof(float);
}

/* The first of its numbers. */
static inline const float *cr_op_numbers(const cr_op_desc *desc) {
  return (const float *)(const void *)&desc->arg[desc->args];
}

/* A run of the elements of an update: one parameter in a block. */
typedef struct cr_update_segment {
  int64_t begin, count;
  double rate, decay; /* instead of those in the scalars */
} cr_update_segment;

/* Scalars that change from run to run. Each op's comment in ops.inc names those it reads. A kernel
 * rounds each once, to the type of its arithmetic. */
typedef struct cr_op_scalars {
  double alpha, beta;
  double rate, momentum, momentum2, rms_decay, decay, delta, grad_scale;
  uint64_t seed, counter;
  /* The segments that an update changes, in ascending order; NULL: all elements. Or what sums are
   * made of, which use neither rates nor decays. A kernel is done with the array when run()
   * returns. */
  const cr_update_segment *segment;
  int segments;
} cr_op_scalars;

/* The cost of a run, see ops.inc. */
typedef enum cr_cost_kind { CR_COST_ELEMENTS, CR_COST_WINDOWS, CR_COST_MATRIX } cr_cost_kind;

typedef struct cr_op_cost {
  cr_cost_kind kind;
  int result, weights; /* indices of arguments; 0 if the kind has none */
} cr_op_cost;

/* The columns of ops.inc: lower-case name, argument letters, cost. */
const char *cr_op_kind_name(cr_op_kind kind);
const char *cr_op_kind_args(cr_op_kind kind);
cr_op_cost cr_op_kind_cost(cr_op_kind kind);

/* An op's access to an argument, and the argument's element type. */
typedef enum cr_op_role {
  CR_ROLE_VALUES,     /* the op's values; integers (indices, masks) have another type */
  CR_ROLE_ARITHMETIC, /* of the arithmetic's type, to which integers are converted, too */
  CR_ROLE_OWN         /* of the type that ops.inc gives */
} cr_op_role;

typedef struct cr_op_use {
  char access; /* R, W, U or A */
  bool optional;
  cr_op_role role;
} cr_op_use;

/* Argument `arg` of an op of `kind` with `args` arguments, as the letters of ops.inc say; access 0
 * when there is no such argument. */
cr_op_use cr_op_kind_use(cr_op_kind kind, int args, int arg);

/* The minimum and the maximum number of arguments of an op of `kind`. */
int cr_op_kind_arity(cr_op_kind kind, int *most);

/* The number of elements of argument `arg`; 0 when it is absent. */
int64_t cr_op_arg_count(const cr_op_desc *desc, int arg);

/* The post operations of an op; none for kinds that have none. */
const cr_posts *cr_op_posts(const cr_op_desc *desc);
/* Keeps the first `count` of them; an addend without an addition is then absent. */
void cr_op_keep_posts(cr_op_desc *desc, int count);

int cr_posts_count(const cr_posts *posts);
bool cr_posts_add(const cr_posts *posts);
/* Appends `post`. False: it does not fit. */
bool cr_posts_append(cr_posts *posts, const cr_post *post);

/* Where ops with post operations have their result and the argument of CR_POST_ADD. */
enum { CR_ARG_RESULT = 3, CR_ARG_ADDEND = 4 };

/* A shape folded to (outer, channels, inner), row-major. */
typedef struct cr_split {
  int64_t outer, channels, inner;
} cr_split;

/* Argument `arg` as (dim[0] ... dim[axis - 1], dim[axis], dim[axis + 1] ...). A missing axis has
 * extent 1. */
cr_split cr_op_split(const cr_op_desc *desc, int arg, int axis);

#endif
