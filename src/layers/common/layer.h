/* What a layer is.
 *
 * A layer file defines one cr_layer_class: parameters, shapes, and the ops of the forward and the
 * backward pass. layers/registry.h finds a class by its type. Layers compute through ops only; host
 * access (cr_tensor_host_read and so on) is for control values and input layers. */
#ifndef CR_LAYERS_LAYER_H
#define CR_LAYERS_LAYER_H

#include "data/pipeline/input_group.h"
#include "memory/blob.h"
#include "ops/op.h"
#include "proto/proto.h"

typedef struct cr_input_class cr_input_class;
typedef struct cr_layer cr_layer;
typedef struct cr_layer_int8 cr_layer_int8;
typedef struct cr_layer_maker cr_layer_maker;
typedef struct cr_layer_op cr_layer_op;
typedef struct cr_layer_owned cr_layer_owned;
typedef struct cr_layer_pair_table cr_layer_pair_table;
typedef struct cr_layer_share cr_layer_share;

/* Which of the solvers that train a net together this net belongs to: each gets its share of the
 * samples, sample k going to solver k mod `solvers`. */
typedef struct cr_solver_rank {
  int rank, solvers; /* 0 <= rank < solvers; 0 of 1 for a solver alone */
  /* Shared by the solvers of one process. NULL: the others are in other processes, or there are
   * none. */
  cr_input_group *group;
  /* The net of rank 0, whose shareable layers also work for the other solvers of this process; only
   * used while a net is made. NULL: each net has its own. */
  const struct crema_net *root;
  bool tests; /* a net of phase TEST has its share of the samples, too; else it is alone */
} cr_solver_rank;

enum { CR_ANY = -1 };

/* In cr_layer_class.integer_bottoms: the last one, and all. */
#define CR_LAST_BOTTOM (1u << 31)
#define CR_ALL_BOTTOMS (CR_LAST_BOTTOM | (CR_LAST_BOTTOM - 1))

/* The element types of a layer: of its tops' values and parameters, of their gradients, and of the
 * mathematics of both passes. */
typedef struct cr_layer_types {
  crema_dtype forward, backward, forward_math, backward_math;
} cr_layer_types;

#define CR_LAYER_FLOATS ((cr_layer_types){CREMA_F32, CREMA_F32, CREMA_F32, CREMA_F32})

/* How many bottoms or tops a layer may have; max CR_ANY: no bound. */
typedef struct cr_layer_count {
  int min, max;
} cr_layer_count;

/* How much of a blob's values is meant: each includes those before it. */
typedef enum cr_values {
  CR_VALUES_NONE,
  CR_VALUES_SIGNS,    /* only whether each is above 0 */
  CR_VALUES_LEARNING, /* those that have a gradient other than 0 */
  CR_VALUES_ALL
} cr_values;

/* What tops share with the bottom (without one: with the parameter) of their layer. */
typedef enum cr_layer_sharing {
  CR_SHARES_NOTHING,
  CR_SHARES_DATA,
  CR_SHARES_BLOB,  /* data and diff */
  CR_SHARES_IF_ONE /* as before if it has one bottom and one top, else nothing */
} cr_layer_sharing;

/* How far the values may lie from a top's value that it is computed from. */
typedef enum cr_layer_reach {
  CR_REACHES_ANY,     /* anywhere, in any bottom */
  CR_REACHES_SAMPLE,  /* in the same sample, which is an index of axis 0 */
  CR_REACHES_POSITION /* there, and at the same position, wherever that is: axes 2 and on */
} cr_layer_reach;

/* Layers whose parameter 0 are weights and parameter 1, if there is one, a bias with a value for
 * each output. */
typedef enum cr_layer_product {
  CR_PRODUCT_NONE,
  CR_PRODUCT_CONV, /* a convolution or its transpose; the state is a cr_layer_conv */
  CR_PRODUCT_INNER /* an inner product; its fields are those of inner_product_param */
} cr_layer_product;

/* Functions of a class: for setup and reshape, for forward, for backward. */
typedef crema_status cr_layer_shape_fn(cr_layer *layer, crema_blob *const *bottom,
                                       crema_blob *const *top) CREMA_MUST_USE;
typedef crema_status cr_layer_forward_fn(cr_layer *layer, crema_context *context,
                                         crema_blob *const *bottom,
                                         crema_blob *const *top) CREMA_MUST_USE;
typedef crema_status cr_layer_backward_fn(cr_layer *layer, crema_context *context,
                                          crema_blob *const *top, const bool *propagate_down,
                                          crema_blob *const *bottom) CREMA_MUST_USE;

typedef struct cr_layer_class {
  const char *type;  /* as in the prototxt */
  size_t state_size; /* bytes of cr_layer.state, zero-initialised */
  cr_layer_count bottoms, tops;
  bool equal_bottoms_tops; /* as many tops as bottoms */
  bool auto_tops;          /* missing tops up to max(tops.min, 1) get blobs without a name */
  bool in_place;           /* top 0 may be bottom 0 */
  bool loss;               /* the first top has loss weight 1 by default */
  bool reads_loss_param;   /* a loss that does */
  bool takes_softmax;      /* of bottom 0, which Caffe has as probabilities in some versions */
  bool probabilities;      /* its tops are */
  bool shareable;          /* several solvers can work on one (layers/common/layer_share.h) */
  bool statistics;         /* its parameters are statistics of its bottoms, which are not learned */
  bool ignores_values;     /* its tops, if any, follow from its bottoms' shapes alone */
  bool wide_tops;          /* its tops are sums or indices, which half precision could not hold */
  cr_layer_sharing shares; /* what its tops share with its bottom, or with its parameter */
  bool fuses_posts;        /* its op can apply post operations (cr_layer.posts) */
  bool fuses_functions;    /* the same for functions alone, in a compiled net */
  bool reshapes_always;    /* its forward pass may give its tops other shapes each time */
  bool keeps_state;        /* what its tops become may depend on earlier passes */
  bool takes_bf16;         /* its kernels read and write BF16 values as they are */
  bool takes_int8;         /* it can compute with integers (cr_layer.int8) */
  bool rounds_tops;        /* of floats and parameters it makes integers, where tops are such */
  bool crops;              /* its top is the part of bottom 0 that crop_param and bottom 1 say */
  bool scales_integers;    /* as a Scale it reads them: their unit is a factor of parameter 0 */
  bool keeps_positive;     /* no top has a value below 0 where no bottom has one */
  bool integer_tops;       /* its tops may be integers, as forward_type says */
  unsigned integer_bottoms; /* bottoms that may be: bit i for bottom i, CR_LAST_BOTTOM */
  cr_layer_product product; /* how its weights multiply its bottoms */
  /* For a layer of one op forward and one backward (layer_pair.h): its table; else NULL. */
  const cr_layer_pair_table *pair;
  /* For a layer that brings samples into the net (input_class.h); NULL: it is mathematics. */
  const cr_input_class *input;
  /* Bottoms that may receive no gradient (labels): bit i for bottom i. force_backward leaves
   * them out. */
  unsigned no_gradient_bottoms;
  /* In phase TEST, forward does nothing but run ops on tensors of its bottoms, tops and parameters,
   * and the same ones each time. */
  bool runs_ops;
  /* Whether in phase TEST the layer's top has its bottom's values. NULL: no. */
  bool (*noop_in_test)(const Caffe__LayerParameter *param);
  /* The window over two spatial axes that each value of the tops is made of; NULL: none. That of
   * products is in their cr_layer_conv. */
  const cr_window *(*window)(const cr_layer *layer);
  /* Whether something depends on the values of the layer's parameters; otherwise a file need not
   * have them. NULL: yes. */
  bool (*reads_params)(const Caffe__LayerParameter *param);
  bool ends_gradient; /* its tops need no gradient and its bottoms get none (targets of a loss) */

  /* Reads parameters, creates layer->param blobs (filled). Called once, bottoms shaped. */
  cr_layer_shape_fn *setup;
  /* Shapes the tops (and internal tensors) from the bottoms' shapes; makes the ops when shapes
   * changed. Called after setup and before a forward pass whose bottoms changed shape. */
  cr_layer_shape_fn *reshape;
  cr_layer_forward_fn *forward;
  /* Computes diffs of bottoms i with propagate_down[i] (overwritten) and of parameters p with
   * layer->param_propagate_down[p] (accumulated). NULL: has no backward; fails only when a
   * gradient is asked for. */
  cr_layer_backward_fn *backward;
  /* For a layer of one element-wise function only: what it computes, in arithmetic of F64 or F32,
   * for a layer with fuses_posts that does so. False: setup refuses the parameters. */
  bool (*post)(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out);
  /* How much of the values that forward gave the tops (of a loss: all tops but the first) backward
   * uses; and how much of its bottom's values a pass in place preserves. src/net warns of a layer
   * in place that preserves less than a layer before it uses. NULL: nothing. */
  cr_values (*uses_tops)(const cr_layer *layer, bool in_place);
  /* Whether backward reads the values of that bottom, which is not a label and not overwritten by
   * this layer. NULL: it does not. */
  bool (*uses_bottom)(const cr_layer *layer, int bottom);
  cr_values (*preserves)(const cr_layer *layer);
  /* Whether forward is a sum to which that bottom goes as it is, so that backward gives it the
   * gradient of top 0. The net may then let both gradients share their values, with which backward
   * leaves them alone, and forward make top 0 in the memory of a bottom (cr_layer.spare_bottom).
   * NULL: it is not. */
  bool (*adds_bottom)(const cr_layer *layer, int bottom);
  /* Computes top 0 again, to the bit in each run, from what the layer has for its backward pass.
   * NULL, or can_make_again says false: it cannot. */
  crema_status (*make_again)(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                             crema_blob *const *top, cr_tensor *out);
  bool (*can_make_again)(const cr_layer *layer);
  /* In place, it needs no copy of its input where the layer before it can make that again. */
  bool makes_input_again;
  /* Whether it multiplies each channel by parameter 0 and adds parameter 1, if there is one, to it.
   * NULL: it does not. */
  bool (*scales_channels)(const cr_layer *layer);
  bool fuses_scale; /* it can do the work of such a layer in place behind it (cr_layer.scaled_by) */
  /* Whether the next pass finds the values of that top as this one left them: they are a
   * parameter's, the caller's, or filled once. NULL: it does not. */
  bool (*persistent)(const cr_layer *layer, int top);
  /* In phase TEST, for a layer with these parameters and so many bottoms. NULL: CR_REACHES_ANY. */
  cr_layer_reach (*reach)(const Caffe__LayerParameter *param, int bottoms);
  /* Whether its tops' values are some of its bottoms' values or averages of such, no finer than
   * these, so that it works on integers of any scale as on floats. `top`: the shape of top 0.
   * NULL: they are not. */
  bool (*carries_integers)(const cr_layer *layer, const crema_shape *top);
  /* Whether it can make floats of integers of the scale that cr_layer.int8 says. NULL: it cannot.
   */
  bool (*averages_integers)(const cr_layer *layer, const crema_shape *top);
  /* For a class with rounds_tops: changes the parameters so that the tops' values come out `factor`
   * (above 0) times as large, beside what scaling the blobs does. False: it cannot, so that the
   * layer makes no integers. NULL: scaling the blobs is all that it takes. */
  bool (*rescale)(Caffe__LayerParameter *param, float factor);
  /* Frees what state holds besides ops, tensors and memory of layer_op.h; may be NULL. */
  void (*destroy)(cr_layer *layer);
} cr_layer_class;

struct cr_layer {
  const cr_layer_class *kind;
  const Caffe__LayerParameter *param; /* owned by the net; outlives the layer */
  const char *name;
  Caffe__Phase phase;
  crema_context *context;      /* of the net: fillers, allocation at setup */
  const char *source_dir_file; /* path of the net's file, to resolve relative paths; may be NULL */
  cr_layer_types types;        /* CR_LAYER_FLOATS until src/net says otherwise, before setup */
  uint64_t key;  /* mixes the seed and the layer's name; for counter-based random streams */
  uint64_t pass; /* forward passes so far in TRAIN, or where it draws in TEST: the counter */
  /* Forward is to compute the values of the last pass again: `pass` is what it was then, and
   * running statistics have them already. */
  bool replays;
  cr_solver_rank solver; /* for layers that produce samples; holds a reference to the group */
  int bottoms, tops;
  int params;
  crema_blob **blob; /* the layer's parameters, owned by the layer, `params` of them */
  /* Where not NULL: parameter i shares the values of given[i] instead of being filled. Set before
   * setup; `givens` of them, which must live until then. */
  crema_blob *const *given;
  int givens;
  bool awaits_params; /* their values follow, so that nothing is drawn for them; before setup */
  bool *param_propagate_down;
  int spare_bottom; /* for kind->adds_bottom: nobody needs its values after forward; -1: none */
  const cr_layer_maker *maker; /* of its input, for kind->makes_input_again; NULL: it is kept */
  float *loss_weight;          /* one per top */
  void *state;
  cr_layer_op *ops;      /* those that the layer file made, as a list; freed with the layer */
  cr_layer_owned *owned; /* its tensors and memory likewise */
  cr_layer_share *share; /* with other solvers; NULL: not shared */
  /* False: the net will never run this layer's backward pass, so forward may skip what only that
   * pass reads (masks, copies of overwritten inputs). True from cr_layer_create on; src/net may
   * clear it before the first forward pass. */
  bool needs_backward;
  /* For a class with fuses_posts or fuses_functions: what the net has this layer compute besides,
   * of the layers that follow it. Set before the first reshape. An addition is of one more bottom,
   * which is shaped like the top, behind those that the class knows; it needs a layer of one top.
   * The first top may be that bottom. */
  cr_posts posts;
  /* For a class with fuses_scale: the layer with scales_channels in place behind it, whose work it
   * does, forward and backward; NULL: none. To be followed by a reshape. */
  const cr_layer *scaled_by;
  /* For a convolution: forward may save products by Winograd's method. Set before the first
   * reshape. */
  bool winograd;
  /* For a Concat: the bottoms' values have their homes (cr_tensor_set_home) side by side in the
   * top's memory; for a Slice: the tops' in the bottom's. src/net changes it between passes. */
  bool parts_in_place;
  /* For a class with takes_int8: the layer computes with integers, as this says
   * (layers/common/layer_int8.h), and its weights are some; for one with averages_integers: its
   * bottom has integers; NULL: with floats. Set before setup, must outlive the layer. */
  const cr_layer_int8 *int8;
};

/* The number of bottoms that the class knows of. */
static inline int cr_layer_own_bottoms(const cr_layer *layer) {
  return layer->bottoms - (cr_posts_add(&layer->posts) ? 1 : 0);
}

/* A layer with its blobs that can make its top again. */
struct cr_layer_maker {
  cr_layer *layer;
  crema_blob *const *bottom, *const *top;
};

static inline crema_status cr_layer_make_again(const cr_layer_maker *maker, crema_context *context,
                                               cr_tensor *out) {
  return maker->layer->kind->make_again(maker->layer, context, maker->bottom, maker->top, out);
}

/* The type in which a layer computes, and which its statistics, sums and losses have: F64 when one
 * of its types is, else F32. */
static inline crema_dtype cr_layer_arithmetic(const cr_layer *layer) {
  const cr_layer_types *t = &layer->types;
  bool wide = t->forward == CREMA_F64 || t->backward == CREMA_F64 || t->forward_math == CREMA_F64 ||
              t->backward_math == CREMA_F64;
  return wide ? CREMA_F64 : CREMA_F32;
}

/* Whether something depends on the values of its parameters. */
static inline bool cr_layer_reads_params(const cr_layer *layer) {
  return layer->kind->reads_params == NULL || layer->kind->reads_params(layer->param);
}

/* The layer's name; "" when it has none. */
static inline const char *cr_layer_name(const Caffe__LayerParameter *param) {
  return param->name ? param->name : "";
}

/* Makes and frees a layer of a class (cr_layer_create in layers/registry.h finds the class).
 * `param` must outlive it. layer->tops counts the tops that `param` names; the caller (src/net)
 * adds automatic ones, and checks the number of bottoms and tops. layer->loss_weight has room for
 * max(tops named, class->tops.min, 1) entries; it holds the weights that `param` gives, else 1 for
 * the first top of a loss and 0 for all others. `net_path` (may be NULL) must outlive the layer.
 * cr_layer_destroy accepts NULL. */
crema_status cr_layer_create_as(const cr_layer_class *kind, const Caffe__LayerParameter *param,
                                Caffe__Phase phase, crema_context *context, uint64_t seed,
                                const char *net_path, cr_layer **out) CREMA_MUST_USE;
void cr_layer_destroy(cr_layer *layer);

/* Says which solver the layer belongs to; to be called once, before setup. By default, and with
 * `solver` NULL, it is number 0 of 1, without a group. A layer that draws masks gets a key of the
 * solver's own; one that brings samples keeps its key, as its random numbers depend on the sample's
 * number. */
void cr_layer_set_solver(cr_layer *layer, const cr_solver_rank *solver);

/* Sets the layer up as its class says. With `root`, a layer of the same name in the net of rank 0
 * whose class can be shared, it works on the state of `root` and its tops get the same shapes.
 * Errors: those of the class and of cr_layer_share_join. */
crema_status cr_layer_setup(cr_layer *layer, const cr_layer *root, crema_blob *const *bottom,
                            crema_blob *const *top) CREMA_MUST_USE;

/* The class's forward pass. When the layer is shared, one solver at a time. */
crema_status cr_layer_forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                              crema_blob *const *top) CREMA_MUST_USE;

/* Fails when a top is one of the bottoms, unless it is the first of both and the class works in
 * place. Called before setup. Errors: CREMA_E_ARGUMENT. */
crema_status cr_layer_check_in_place(const cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) CREMA_MUST_USE;

/* ---- for layer files ---- */

/* Sets the number of parameter blobs (all NULL at first). */
crema_status cr_layer_set_params(cr_layer *layer, int count) CREMA_MUST_USE;
/* One parameter more, NULL at first. */
crema_status cr_layer_append_param(cr_layer *layer) CREMA_MUST_USE;
/* Creates parameter `index` with `shape`, of the layer's types; statistics are of its arithmetic.
 * It shares the values that the layer was given, in their type, or is filled by `filler` (NULL:
 * constant 0). */
crema_status cr_layer_add_param(cr_layer *layer, int index, const crema_shape *shape,
                                const Caffe__FillerParameter *filler) CREMA_MUST_USE;
/* A filler that gives every element the value `constant`. */
#define CR_CONSTANT_FILLER(constant)                                       \
  {                                                                        \
    .base = PROTOBUF_C_MESSAGE_INIT(&caffe__filler_parameter__descriptor), \
    .type = (char *)"constant", .value = (constant), .sparse = -1          \
  }
/* An error text that starts with "layer 'name' (Type): ". */
crema_status cr_layer_fail(const cr_layer *layer, crema_status code, const char *fmt, ...)
    CREMA_PRINTF(3, 4);
/* Adds the layer to a failure that is passed on; passes CREMA_OK on. */
crema_status cr_layer_in(const cr_layer *layer, crema_status status);

/* Fills `blob`'s data as the filler says (constant, uniform, gaussian with sparse,
 * positive_unitball, xavier, msra, bilinear, gabor; fan from the shape as Caffe: fan_in = count /
 * dim 0, fan_out = count / dim 1). Draws from `context`'s generator in index order. */
crema_status cr_fill(const Caffe__FillerParameter *filler, crema_context *context,
                     crema_blob *blob) CREMA_MUST_USE;

/* For a blob whose values follow: zeros, and the same errors. */
crema_status cr_fill_later(const Caffe__FillerParameter *filler, crema_context *context,
                           crema_blob *blob) CREMA_MUST_USE;

#endif
