/* The steps of building a net's graph; private to this folder. */
#ifndef CR_NET_GRAPH_H
#define CR_NET_GRAPH_H

#include "net/common/fail.h"
#include "net/net.h"

/* The state that layers' rules are checked against: `own` are the stages of the net's own state
 * (may be NULL), `stages` those that the caller adds. */
typedef struct cr_net_state {
  crema_phase phase;
  int level;
  const char *const *stages;
  size_t stage_count;
  const Caffe__NetState *own;
} cr_net_state;

/* State that exists only while the graph is built. */
typedef struct cr_net_build {
  crema_net *net;
  cr_arena arena; /* for the arrays below and other temporary memory */
  const cr_net_build_options *options;
  const cr_layer_class **kind;        /* one per layer */
  int *fused_into;                    /* one per layer: the layer that does its work, -1: itself */
  int blob_capacity;                  /* capacity of net->blob, net->blob_name and the two below */
  bool *available;                    /* one per blob: no layer has consumed it yet */
  bool *blob_need_backward;           /* one per blob */
  int param_capacity;                 /* capacity of net->net_param and the learnables' arrays */
  bool *has_lr_mult, *has_decay_mult; /* one per learnable: the prototxt gave the factor */
  cr_name_map param_index;            /* ParamSpec names to entries of net->net_param */
} cr_net_build;

/* Layers that their rules exclude, kept for messages. */
typedef struct cr_net_left_out {
  Caffe__LayerParameter **layer;
  char (*rule)[64]; /* of each layer, the rule that decided: "include rule (phase: TRAIN)" */
  size_t count;
} cr_net_left_out;

/* Moves the layers of net->param whose include/exclude rules do not fit the state to `left_out`.
 * Free it with cr_net_left_out_free, also after a failure. Errors: CREMA_E_ARGUMENT for a layer
 * with rules of both kinds. */
crema_status cr_net_filter(crema_net *net, const cr_net_state *state,
                           cr_net_left_out *left_out) CREMA_MUST_USE;
void cr_net_left_out_free(cr_net_left_out *left_out);

/* Gives each blob at most one consumer. A top with several consumers (a loss weight counts as one)
 * is followed by a Split layer `<blob>_<layer>_<top>_split`. It has a copy for each consumer; the
 * loss weight moves to the first copy. Errors: CREMA_E_UNKNOWN_NAME for a bottom that no earlier
 * layer makes, CREMA_E_ARGUMENT for in-place work on a blob that other layers read too. The first
 * names the layer of `left_out` that makes the bottom, or the nearest name. */
crema_status cr_net_insert_splits(crema_net *net, const cr_net_left_out *left_out) CREMA_MUST_USE;

/* Fills fused_into: a convolution computes the in-place ReLU that directly follows it. The blob
 * holds the ReLU's result, as without fusion. The ReLU's gradient needs nothing else, so the
 * backward pass stays as it is. */
crema_status cr_net_plan_fusion(cr_net_build *build) CREMA_MUST_USE;

/* On a device with its own memory: layer `relu`, a ReLU fused into layer `index`, also computes the
 * gradient of the bias if that layer is a convolution. To be called before the ReLU's reshape. */
void cr_net_fuse_bias(const crema_net *net, int index, int relu);

/* Finds the layers in place whose input the layer before them can make again (cr_layer.maker): a
 * Scale after a BatchNorm. The BatchNorm may then do the work of the Scale, too, and of a ReLU in
 * place after it. To be called when it is known which layers run backward. */
crema_status cr_net_find_makers(crema_net *net) CREMA_MUST_USE;

/* Lets every layer do its own work again. Values stay the same, except for the rounding of scales.
 */
crema_status cr_net_undo_fusion(crema_net *net) CREMA_MUST_USE;

/* Adds layer `index`'s parameters to the net's: ownership, sharing by name, factors.
 * Errors: CREMA_E_SHAPE (both shapes), CREMA_E_TYPE (both types), CREMA_E_ARGUMENT for different
 * factors. */
crema_status cr_net_append_params(cr_net_build *build, int index) CREMA_MUST_USE;

/* Lets sharing parameters share data and diff with their owners. */
crema_status cr_net_tie_params(crema_net *net) CREMA_MUST_USE;

/* Clears need_backward of layers on which no loss depends or below which nothing learns, then
 * applies force_backward. */
crema_status cr_net_prune_backward(cr_net_build *build, bool force_backward) CREMA_MUST_USE;

/* Lets a BatchNorm in place before a sum read the gradient of the sum's top (cr_layer.diff_source),
 * which the backward pass then does not copy. To be called when it is known which layers run
 * backward, and which work other layers do. */
void cr_net_read_sums(crema_net *net);

/* Lets bottoms of sums without coefficients share the gradient of the top, so that the backward
 * pass copies none. It applies if the net plans its memory or sets eltwise_mem_sharing, and no
 * in-place layer writes to that gradient before all layers have read it. To be called when it is
 * known which layers run backward, and after blobs were resized. */
crema_status cr_net_share_sums(crema_net *net) CREMA_MUST_USE;

/* The layer's types as the file gives them: its own fields, else the net's defaults. Mathematics
 * follow types if the file does not give them. The layer's own forward_type may be an integer if
 * the class has integer_tops. Errors: CREMA_E_UNSUPPORTED for other integer types. */
crema_status cr_net_layer_types(const Caffe__NetParameter *net, const Caffe__LayerParameter *layer,
                                const cr_layer_class *kind, cr_layer_types *out) CREMA_MUST_USE;

/* Errors: CREMA_E_UNSUPPORTED for a bottom of integers that the layer cannot read. */
crema_status cr_net_check_bottom_types(const cr_net_build *build, int index) CREMA_MUST_USE;

/* The types of a top's data and diff: the layer's types, but full precision for losses, indices and
 * labels. */
void cr_net_top_types(const cr_net_build *build, int index, int top, crema_dtype *data,
                      crema_dtype *diff);

/* Builds the graph of net->param (already filtered and split) into net. */
crema_status cr_net_build_graph(crema_net *net, const cr_net_build_options *options,
                                bool force_backward) CREMA_MUST_USE;

/* Names the values of the net's blobs and parameters for CREMA_VERBOSE, if it is set. */
void cr_net_label_values(const crema_net *net);

#endif
