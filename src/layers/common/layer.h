/* The type and the state of a layer.
 *
 * A layer file defines one cr_layer_class: parameters, shapes, and the ops of the forward and the
 * backward pass. layers/registry.h finds a class by its type. Layers compute through ops only; host
 * access (cr_tensor_host_read and so on) is for control values and input layers. */
#ifndef CR_LAYERS_LAYER_H
#define CR_LAYERS_LAYER_H

#include "data/pipeline/input_group.h"
#include "layers/common/layer_parts.h"
#include "memory/blob.h"
#include "ops/op.h"
#include "proto/proto.h"

typedef struct cr_input_class cr_input_class;
typedef struct cr_layer_int8 cr_layer_int8;
typedef struct cr_layer_maker cr_layer_maker;
typedef struct cr_layer_op cr_layer_op;
typedef struct cr_layer_owned cr_layer_owned;
typedef struct cr_layer_pair_table cr_layer_pair_table;
typedef struct cr_layer_share cr_layer_share;

/* Which of the solvers that train a net together this net belongs to: each gets its share of the
 * samples, sample k going to solver k mod `solvers`. */
typedef struct cr_solver_rank {
  int rank, solvers; /* 0 <= rank < solvers; 0 of 1 for a single solver */
  /* Shared by the solvers of one process. NULL: this is the only solver of its process. */
  cr_input_group *group;
  /* The net of rank 0, whose shareable layers also work for the other solvers of this process; only
   * used while a net is made. NULL: each net has its own. */
  const struct crema_net *root;
  bool tests; /* a TEST net also gets its share of the samples; else it gets all samples */
} cr_solver_rank;

enum { CR_ANY = -1, CR_OMITTED_DIFFS = 32 };

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

/* Functions of a class: for setup and reshape, for forward, for backward. */
typedef crema_status cr_layer_shape_fn(cr_layer *layer, crema_blob *const *bottom,
                                       crema_blob *const *top) CREMA_MUST_USE;
typedef crema_status cr_layer_forward_fn(cr_layer *layer, crema_context *context,
                                         crema_blob *const *bottom,
                                         crema_blob *const *top) CREMA_MUST_USE;
typedef crema_status cr_layer_backward_fn(cr_layer *layer, crema_context *context,
                                          crema_blob *const *top, const bool *propagate_down,
                                          crema_blob *const *bottom) CREMA_MUST_USE;

/* A type of layer. The author of a layer sets the first group of members, and of the rest only
 * those that apply. */
typedef struct cr_layer_class {
  const char *type;  /* as in the prototxt */
  size_t state_size; /* bytes of cr_layer.state, zero-initialised */
  cr_layer_count bottoms, tops;
  /* Reads parameters, creates layer->param blobs (filled). Called once, bottoms shaped. */
  cr_layer_shape_fn *setup;
  /* Shapes the tops (and internal tensors) from the bottoms' shapes; makes the ops when shapes
   * changed. Called after setup and before a forward pass whose bottoms changed shape. */
  cr_layer_shape_fn *reshape;
  cr_layer_forward_fn *forward;
  /* Computes diffs of bottoms i with propagate_down[i] (overwritten) and of parameters p with
   * layer->param_propagate_down[p] (accumulated). NULL: no backward pass; an error only if a
   * gradient is required. */
  cr_layer_backward_fn *backward;
  /* Frees the resources in the state, except ops, tensors and memory of layer_op.h. May be NULL. */
  void (*destroy)(cr_layer *layer);

  bool in_place; /* top 0 may be bottom 0 */
  bool loss;     /* the first top has loss weight 1 by default */
  /* Bottoms that may receive no gradient (labels): bit i for bottom i. force_backward omits them.
   */
  unsigned no_gradient_bottoms;
  /* Which of the values that forward gave the tops backward uses (of a loss: all tops but the
   * first). NULL: none. */
  cr_value_use (*uses_tops)(const cr_layer *layer, bool in_place);
  /* Whether backward reads the values of that bottom, which is not a label and not overwritten by
   * this layer. NULL: it does not. */
  bool (*uses_bottom)(const cr_layer *layer, int bottom);
  /* For a layer of one op forward and one backward (layer_pair.h): its table; else NULL. */
  const cr_layer_pair_table *pair;
  /* For a layer that brings samples into the net (input_class.h), else NULL. */
  const cr_input_class *input;

  /* Properties for src/net and src/infer, described in layer_parts.h. */
  cr_layer_graph_part graph;
  cr_layer_memory_part memory;
  cr_layer_fusion_part fusion;
  cr_layer_int8_part int8;
} cr_layer_class;

struct cr_layer {
  const cr_layer_class *kind;
  const Caffe__LayerParameter *param; /* owned by the net; outlives the layer */
  const char *name;
  Caffe__Phase phase;
  crema_context *context;      /* of the net: fillers, allocation at setup */
  const char *source_dir_file; /* path of the net's file, to resolve relative paths; may be NULL */
  cr_layer_types types;        /* CR_LAYER_FLOATS unless src/net sets others before setup */
  uint64_t key;  /* mixes the seed and the layer's name; for counter-based random streams */
  uint64_t pass; /* counts forward passes in TRAIN, and in TEST if the layer draws there */
  /* Forward computes the values of the last pass again: `pass` has its value of then, and running
   * statistics include it already. */
  bool replays;
  int64_t take; /* for input.short_batches: tops have only these first samples of a batch; 0: all */
  cr_solver_rank solver; /* for layers that produce samples; holds a reference to the group */
  int bottoms, tops;
  int params;
  crema_blob **blob; /* the layer's parameters, owned by the layer, `params` of them */
  /* If not NULL: parameter i shares the values of given[i] instead of being filled. Set before
   * setup; `givens` blobs, which must live until then. */
  crema_blob *const *given;
  int givens;
  bool awaits_params; /* the parameters get values later: setup draws none */
  bool *param_propagate_down;
  int reusable_bottom; /* for memory.adds_bottom: this bottom is free after forward; -1: none */
  /* For memory.adds_bottom: bit j is set if backward omits the gradient of bottom j, because the
   * layer that made that bottom reads the gradient of top 0 instead (diff_source). */
  unsigned omitted_diffs;
  /* For memory.reads_diff_source: backward reads the gradient of top 0 from it. NULL: from top 0.
   */
  cr_tensor *diff_source;
  /* For memory.makes_input_again: makes this layer's input. NULL: the layer keeps a copy. */
  const cr_layer_maker *maker;
  float *loss_weight; /* one per top */
  void *state;
  cr_layer_op *ops;      /* a list of the ops that the layer made; freed with the layer */
  cr_layer_owned *owned; /* a list of its tensors and memory; freed with the layer */
  cr_layer_share *share; /* with other solvers; NULL: not shared */
  /* False: the net never runs this layer's backward pass, so forward may skip work for it (masks,
   * copies of overwritten inputs). Initially true; src/net may clear it before the first forward
   * pass. */
  bool needs_backward;
  /* For fusion.fuses_posts and fuses_functions: work of the following layers that this layer does.
   * Set before the first reshape. A layer with one top can add one more bottom, shaped like the
   * top; it is the last bottom, and the first top may be that bottom. */
  cr_posts posts;
  /* For fusion.fuses_scale: the following layer in place, with scales_channels, whose forward and
   * backward work this layer does. NULL: none. A reshape must follow a change. */
  const cr_layer *scaled_by;
  /* For a ReLU in place after a convolution: the convolution, if the ReLU's backward pass also
   * computes the gradient of its bias. NULL: none. A reshape must follow a change. */
  const cr_layer *bias_of;
  /* For that convolution: the ReLU. For fusion.rectifies: the ReLU in place after this layer, or
   * after its Scale, whose work this layer does. Its slope is 0. NULL: none. A reshape must follow
   * a change. */
  const cr_layer *rectifier;
  bool winograd; /* a convolution may use Winograd's method; set before the first reshape */
  /* For a Concat: the bottoms' values are stored side by side in the top's memory
   * (cr_tensor_alias_set). For a Slice: the tops' values are stored in the bottom's memory. The net
   * changes it between passes. */
  bool parts_in_place;
  /* For int8.takes_int8: describes the integers (layers/common/layer_int8.h) with which the layer
   * computes; its weights are integers. For averages_integers: its bottom has integers. NULL: all
   * are floats. Set before setup; must outlive the layer. */
  const cr_layer_int8 *int8;
};

/* The number of bottoms without the one that `posts` adds. */
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
  return maker->layer->kind->memory.make_again(maker->layer, context, maker->bottom, maker->top,
                                               out);
}

/* The type of a layer's arithmetic, statistics, sums and losses: F64 if one of its types is F64,
 * else F32. */
static inline crema_dtype cr_layer_arithmetic(const cr_layer *layer) {
  const cr_layer_types *t = &layer->types;
  bool wide = t->forward == CREMA_F64 || t->backward == CREMA_F64 || t->forward_math == CREMA_F64 ||
              t->backward_math == CREMA_F64;
  return wide ? CREMA_F64 : CREMA_F32;
}

/* Whether something depends on the values of its parameters. */
static inline bool cr_layer_reads_params(const cr_layer *layer) {
  return layer->kind->graph.reads_params == NULL || layer->kind->graph.reads_params(layer->param);
}

/* The layer's name; "" when it has none. */
static inline const char *cr_layer_name(const Caffe__LayerParameter *param) {
  return param->name ? param->name : "";
}

/* Makes and frees a layer of a class (cr_layer_create in layers/registry.h finds the class).
 * `param` must outlive it. layer->tops counts the tops that `param` names; the caller (src/net)
 * adds automatic tops and checks the number of bottoms and tops. The array layer->loss_weight has
 * max(tops named, class->tops.min, 1) entries. A weight that `param` lacks is 1 for the first top
 * of a loss, else 0. `net_path` (may be NULL) must outlive the layer. cr_layer_destroy accepts
 * NULL. */
crema_status cr_layer_create_as(const cr_layer_class *kind, const Caffe__LayerParameter *param,
                                Caffe__Phase phase, crema_context *context, uint64_t seed,
                                const char *net_path, cr_layer **out) CREMA_MUST_USE;
void cr_layer_destroy(cr_layer *layer);

/* Says which solver the layer belongs to; to be called once, before setup. By default, and with
 * `solver` NULL, it is number 0 of 1, without a group. A layer that draws masks gets a key of the
 * solver's own; one that brings samples keeps its key, as its random numbers depend on the sample's
 * number. */
void cr_layer_set_solver(cr_layer *layer, const cr_solver_rank *solver);

/* Sets the layer up as its class says. `root` is a layer of the same name in the net of rank 0
 * whose class can be shared, or NULL. With it, the layer works on the state of `root` and its tops
 * get the same shapes. Errors: as the class and cr_layer_share_join. */
crema_status cr_layer_setup(cr_layer *layer, const cr_layer *root, crema_blob *const *bottom,
                            crema_blob *const *top) CREMA_MUST_USE;

/* The class's forward pass. When the layer is shared, one solver at a time. */
crema_status cr_layer_forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                              crema_blob *const *top) CREMA_MUST_USE;

/* Fails when a top is one of the bottoms, unless it is the first of both and the class works in
 * place. Called before setup. Errors: CREMA_E_ARGUMENT. */
crema_status cr_layer_check_in_place(const cr_layer *layer, crema_blob *const *bottom,
                                     crema_blob *const *top) CREMA_MUST_USE;

/* For layer files: */

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
