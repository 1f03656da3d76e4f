/* The four parts of cr_layer_class: graph, memory, fusion and int8.
 *
 * The author of a simple layer needs none of them. A member that is not set (0, false, NULL) is
 * always right; a compiled net or a training pass may then be slower. */
#ifndef CR_LAYERS_LAYER_PARTS_H
#define CR_LAYERS_LAYER_PARTS_H

#include "memory/blob.h"
#include "ops/op.h"
#include "proto/proto.h"

typedef struct cr_layer cr_layer;

/* In cr_layer_graph_part.integer_bottoms: the last bottom, and all bottoms. */
#define CR_LAST_BOTTOM (1u << 31)
#define CR_ALL_BOTTOMS (CR_LAST_BOTTOM | (CR_LAST_BOTTOM - 1))

/* Which values of a blob a pass uses or keeps. Each level includes those before it. */
typedef enum cr_value_use {
  CR_VALUES_NONE,
  CR_VALUES_SIGNS,    /* only whether each is above 0 */
  CR_VALUES_LEARNING, /* values whose gradient is not 0 */
  CR_VALUES_ALL
} cr_value_use;

/* What tops share with the bottom of their layer, or with its parameter if there is no bottom. */
typedef enum cr_layer_sharing {
  CR_SHARES_NOTHING,
  CR_SHARES_DATA,
  CR_SHARES_BLOB,  /* data and diff */
  CR_SHARES_IF_ONE /* CR_SHARES_BLOB with one bottom and one top, else none */
} cr_layer_sharing;

/* The bottoms' values from which one value of a top is computed. */
typedef enum cr_layer_reach {
  CR_REACHES_ANY,     /* any value of any bottom */
  CR_REACHES_SAMPLE,  /* values with the same index of axis 0 */
  CR_REACHES_POSITION /* values of the same sample with the same indices of axes 2 and on */
} cr_layer_reach;

/* Layers with weights as parameter 0 and perhaps a bias as parameter 1, one value per output. */
typedef enum cr_layer_product {
  CR_PRODUCT_NONE,
  CR_PRODUCT_CONV, /* a convolution or its transpose; the state is a cr_layer_conv */
  CR_PRODUCT_INNER /* an inner product, described by inner_product_param */
} cr_layer_product;

/* Read by src/net and src/infer when they build a net: blobs, types, warnings, pruning. */
typedef struct cr_layer_graph_part {
  bool equal_bottoms_tops;  /* the same number of tops and bottoms */
  bool auto_tops;           /* missing tops up to max(tops.min, 1) become blobs without a name */
  bool reads_loss_param;    /* a loss that honours loss_param */
  bool takes_softmax;       /* softmaxes bottom 0, which some versions of Caffe do not */
  bool probabilities;       /* its tops are probabilities */
  bool shareable;           /* several solvers can work on one (layers/common/layer_share.h) */
  bool statistics;          /* its parameters are statistics of its bottoms and are not learned */
  bool ignores_values;      /* its tops follow from its bottoms' shapes only */
  bool wide_tops;           /* its tops are sums or indices that half precision cannot hold */
  bool integer_tops;        /* its tops may be integers if forward_type says so */
  bool crops;               /* its top is a part of bottom 0, chosen by crop_param and bottom 1 */
  bool ends_gradient;       /* its tops and bottoms have no gradient (it makes loss targets) */
  unsigned integer_bottoms; /* bottoms that may be integers: bit i for bottom i, CR_LAST_BOTTOM */
  /* The window over two spatial axes from which each value of the tops is computed. NULL: there is
   * none. A layer with a `product` has its window in its cr_layer_conv instead. */
  const cr_window *(*window)(const cr_layer *layer);
  /* Whether the result depends on the values of the parameters; else a file of weights may lack
   * them. NULL: it does. */
  bool (*reads_params)(const Caffe__LayerParameter *param);
  /* For tops that are means over samples: sets weight[k] to the number of samples that value k of
   * top `top` is the mean of in the last pass. NULL: the batch's. */
  crema_status (*weigh)(const cr_layer *layer, crema_blob *const *bottom, int top, double *weight);
} cr_layer_graph_part;

/* Read by src/net when it plans memory and when it records the commands of a pass. */
typedef struct cr_layer_memory_part {
  cr_layer_sharing shares;
  bool reshapes_always; /* its forward pass may change the shapes of its tops each time */
  bool keeps_state;     /* the values of its tops may depend on earlier passes */
  /* In phase TEST, forward runs only ops on tensors of bottoms, tops and parameters, and the same
   * ops each time. */
  bool runs_ops;
  /* The work of a pass depends on its number, apart from the counter of random numbers. */
  bool varies;
  /* In place, it needs no copy of its input if the layer before it can make that again. */
  bool makes_input_again;
  /* In place, it can read the gradient of top 0 from another tensor (cr_layer.diff_source). */
  bool reads_diff_source;
  /* Whether the values of that top persist to the next pass: a parameter, values of the caller, or
   * values filled once. NULL: it does not. */
  bool (*persistent)(const cr_layer *layer, int top);
  /* Which of its bottom's values a pass in place preserves. src/net warns about a layer in place
   * that preserves less than an earlier layer uses. NULL: nothing. */
  cr_value_use (*preserves)(const cr_layer *layer);
  /* Whether forward adds that bottom to top 0 unchanged, so that its gradient is the gradient of
   * top 0. The net may let both gradients share their values; backward then does not touch them. It
   * may also put top 0 in the memory of a bottom (cr_layer.reusable_bottom). NULL: no. */
  bool (*adds_bottom)(const cr_layer *layer, int bottom);
  /* Computes top 0 again, to the bit, from the values that the layer keeps for its backward pass.
   * NULL, or can_make_again returns false: it cannot. */
  crema_status (*make_again)(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                             crema_blob *const *top, cr_tensor *out);
  bool (*can_make_again)(const cr_layer *layer);
} cr_layer_memory_part;

/* Read by src/net and by the passes of src/infer that fuse, fold and split layers. */
typedef struct cr_layer_fusion_part {
  bool fuses_posts;     /* its op can apply post operations (cr_layer.posts) */
  bool fuses_functions; /* the same for functions only, in a compiled net */
  bool fuses_scale;     /* it can do the work of a Scale in place after it (scaled_by) */
  /* Whether its forward op can do the work of a ReLU in place after it, and after its Scale; with
   * fuses_scale, backward, too (rectifier). NULL: it cannot. */
  bool (*rectifies)(const cr_layer *layer);
  cr_layer_product product; /* how its weights multiply its bottoms */
  /* For a layer of one element-wise function: that function, in arithmetic of F64 or F32, for a
   * layer with fuses_posts to apply. False: setup rejects the parameters. */
  bool (*post)(const Caffe__LayerParameter *param, crema_dtype arithmetic, cr_post *out);
  /* Whether it multiplies each channel by parameter 0 and adds parameter 1 if there is one. NULL:
   * it does not. */
  bool (*scales_channels)(const cr_layer *layer);
  /* Whether in phase TEST the layer's top has its bottom's values. NULL: no. */
  bool (*noop_in_test)(const Caffe__LayerParameter *param);
  /* In phase TEST, with these parameters and this number of bottoms. NULL: CR_REACHES_ANY. */
  cr_layer_reach (*reach)(const Caffe__LayerParameter *param, int bottoms);
} cr_layer_fusion_part;

/* Read by the passes of src/infer that compute with INT8 and BF16 values. */
typedef struct cr_layer_int8_part {
  bool takes_bf16;      /* its kernels read and write BF16 values directly */
  bool takes_int8;      /* it can compute with integers (cr_layer.int8) */
  bool rounds_tops;     /* it turns floats and parameters into integers if its tops are integers */
  bool scales_integers; /* a Scale for integers: it multiplies their unit by parameter 0 */
  bool keeps_positive;  /* if no bottom has a value below 0, no top has one */
  /* Whether its tops' values are values of its bottoms, or averages that are no finer: it then
   * works on integers of any scale as on floats. `top`: the shape of top 0. NULL: no. */
  bool (*carries_integers)(const cr_layer *layer, const crema_shape *top);
  /* Whether it can turn integers with the scale in cr_layer.int8 into floats. NULL: no. */
  bool (*averages_integers)(const cr_layer *layer, const crema_shape *top);
  /* For a class with rounds_tops: changes the parameters so that the tops' values become `factor`
   * (above 0) times as large; the caller scales the blobs. False: it cannot, so the layer makes no
   * integers. NULL: scaling the blobs is enough. */
  bool (*rescale)(Caffe__LayerParameter *param, float factor);
} cr_layer_int8_part;

#endif
