/* The steps of building a net; private to this folder. */
#ifndef CR_NET_BUILD_H
#define CR_NET_BUILD_H

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

/* What is needed only while the graph is built. */
typedef struct cr_net_build {
  crema_net *net;
  cr_arena arena;                     /* for the arrays below and other temporary memory */
  const cr_solver_rank *solver;       /* may be NULL */
  const cr_net_frozen_layer *frozen;  /* one per layer; NULL: an ordinary net */
  bool awaits_params;                 /* weights follow */
  const cr_layer_class **kind;        /* one per layer */
  int *fused_into;                    /* one per layer: the layer that does its work, -1: itself */
  int blob_capacity;                  /* room in net->blob, net->blob_name and the two below */
  bool *available;                    /* one per blob: no layer has consumed it yet */
  bool *blob_need_backward;           /* one per blob */
  int param_capacity;                 /* room in net->net_param and the learnables' arrays */
  bool *has_lr_mult, *has_decay_mult; /* one per learnable: the prototxt gave the factor */
  cr_name_map param_index;            /* ParamSpec names to entries of net->net_param */
} cr_net_build;

/* A failure in a layer, or with one of its blobs. */
crema_status cr_net_fail_layer(const Caffe__LayerParameter *param, crema_status code,
                               const char *fmt, ...) CREMA_PRINTF(3, 4);
crema_status cr_net_fail_blob(const Caffe__LayerParameter *param, const char *blob,
                              crema_status code, const char *fmt, ...) CREMA_PRINTF(4, 5);

/* Adds the layer to a failure that is passed on, unless it names one already. */
crema_status cr_net_fail_in_layer(const Caffe__LayerParameter *param, crema_status code);

/* Has crema_error_layer name the layer of a failure whose text names it already. */
crema_status cr_net_blame_layer(const cr_layer *layer, crema_status code);

/* Adds the layer to a failure in a pass, and for crema_error_file and crema_error_line where the
 * net's file has it, unless a file is to blame already. */
crema_status cr_net_fail_in_pass(const crema_net *net, int index, crema_status code);

/* The line on which layer `index` of net->param begins; 0 when that is not known. Changes nothing
 * but the thread's error text. */
size_t cr_net_layer_line(const crema_net *net, size_t index);

/* " (line 12)" for a layer whose line is known, "" otherwise; returns `text`. */
enum { CR_NET_LINE_TEXT = 32 };
const char *cr_net_line_text(const crema_net *net, size_t index, char text[CR_NET_LINE_TEXT]);

/* A text field that may be missing. */
const char *cr_net_text(const char *text);

/* Layers that their rules left out, kept for messages. */
typedef struct cr_net_left_out {
  Caffe__LayerParameter **layer;
  char (*rule)[64]; /* of each layer, the rule that decided: "include rule (phase: TRAIN)" */
  size_t count;
} cr_net_left_out;

/* Moves the layers of net->param whose include/exclude rules do not fit the state to `left_out`, to
 * be freed with cr_net_left_out_free whatever the result. Errors: CREMA_E_ARGUMENT for a layer with
 * rules of both kinds. */
crema_status cr_net_filter(crema_net *net, const cr_net_state *state,
                           cr_net_left_out *left_out) CREMA_MUST_USE;
void cr_net_left_out_free(cr_net_left_out *left_out);

/* Gives each blob at most one consumer: behind a top with more than one (a loss weight counts
 * as one) comes a Split layer `<blob>_<layer>_<top>_split` with a copy for each, and the
 * loss weight moves to the first copy. Errors: CREMA_E_UNKNOWN_NAME for a bottom that no earlier
 * layer makes (with the layer of `left_out` that does, or the nearest name), CREMA_E_ARGUMENT for
 * in-place work on a blob that others read too. */
crema_status cr_net_insert_splits(crema_net *net, const cr_net_left_out *left_out) CREMA_MUST_USE;

/* An array of `count` elements of `width` bytes, all zero, that lives as long as the arena:
 * *(void **)out is set. */
crema_status cr_net_allocate(cr_arena *arena, void *out, size_t count, size_t width) CREMA_MUST_USE;

/* Fills fused_into: an in-place ReLU that directly follows a convolution is computed by the
 * convolution. As without fusion, the blob holds the ReLU's result, which is all that the ReLU's
 * gradient needs, so the backward pass stays as it is. */
crema_status cr_net_plan_fusion(cr_net_build *build) CREMA_MUST_USE;

/* Lets `norm` do the work of `scale`, which is in place behind it, if it can: a BatchNorm that of a
 * Scale. What the blob holds after a pass is the same. */
crema_status cr_net_fuse_scale(crema_net *net, cr_net_layer *norm,
                               cr_net_layer *scale) CREMA_MUST_USE;

/* Lets every layer do its own work again; values stay the same, but for the rounding of scales. */
crema_status cr_net_undo_fusion(crema_net *net) CREMA_MUST_USE;

/* Adds layer `index`'s parameters to the net's: ownership, sharing by name, factors.
 * Errors: CREMA_E_SHAPE (both shapes), CREMA_E_TYPE (both types), CREMA_E_ARGUMENT for different
 * factors. */
crema_status cr_net_append_params(cr_net_build *build, int index) CREMA_MUST_USE;

/* Lets sharing parameters share data and diff with their owners. */
crema_status cr_net_tie_params(crema_net *net) CREMA_MUST_USE;

/* Clears need_backward where no loss depends on a layer or nothing below it learns, then applies
 * force_backward. Warns of losses that nothing learns from because other layers read their blob. */
crema_status cr_net_prune_backward(cr_net_build *build, bool force_backward) CREMA_MUST_USE;

/* Lets bottoms of sums without coefficients share the gradient of the top, so that backward copies
 * none, where the net plans its memory or its eltwise_mem_sharing asks for it, and no layer in
 * place writes to that gradient before all have read it. Called when it is known which layers run
 * backward. */
crema_status cr_net_share_sums(crema_net *net) CREMA_MUST_USE;

/* Warns where a layer in place overwrites values that a later layer reads under another name, or
 * that a gradient is computed from. Called when it is known which layers run backward. */
crema_status cr_net_warn_of_overwriting(const crema_net *net) CREMA_MUST_USE;

/* Warns of fields of loss_param that a loss does not read, and of a loss that takes a softmax of
 * probabilities. */
void cr_net_warn_of_losses(const crema_net *net);

/* Warns of Crop layers without an offset where another one than 0 shows the same pixels as bottom
 * 1, and tells it. */
crema_status cr_net_warn_of_crops(const crema_net *net) CREMA_MUST_USE;

/* debug_info lines of one layer, in Caffe's wording. */
crema_status cr_net_debug_forward(crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_debug_backward(crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_debug_all_params(crema_net *net) CREMA_MUST_USE;

/* The first notes that the file being loaded has values for an entry of net->net_param, the second
 * that it has them for a layer that the net lacks. */
void cr_net_note_given(cr_net_loading *loading, int entry);
crema_status cr_net_note_spare(cr_net_loading *loading, const char *name) CREMA_MUST_USE;

/* After the last file: refuses layers without weights if the caller wants that. Errors:
 * CREMA_E_NOT_FOUND, naming the first of them, and what may have been meant. */
crema_status cr_net_check_complete(const cr_net_loading *loading) CREMA_MUST_USE;

/* Whether the message has the layer's parameters, in their shapes; and copying them. `stored` as
 * for cr_blob_from_stored. Errors: CREMA_E_ARGUMENT, CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_net_check_stored_layer(const cr_layer *layer,
                                       const Caffe__LayerParameter *source) CREMA_MUST_USE;
crema_status cr_net_copy_stored_layer(const cr_layer *layer, const Caffe__LayerParameter *source,
                                      const cr_net_stored *stored) CREMA_MUST_USE;

/* Whether the file is there and has the signature of an HDF5 file. */
bool cr_net_is_hdf5(const char *path);

/* The layer's types as the file gives them: its own fields, else the net's defaults; mathematics
 * follow types where nothing is said of them. Its own forward_type may be an integer where the
 * class has integer_tops. Errors: CREMA_E_UNSUPPORTED for other types without fractions. */
crema_status cr_net_layer_types(const Caffe__NetParameter *net, const Caffe__LayerParameter *layer,
                                const cr_layer_class *kind, cr_layer_types *out) CREMA_MUST_USE;

/* Errors: CREMA_E_UNSUPPORTED for a bottom of integers that the layer cannot read. */
crema_status cr_net_check_bottom_types(const cr_net_build *build, int index) CREMA_MUST_USE;

/* The types of a top's data and diff: those of the layer, but full precision for losses, indices
 * and labels. */
void cr_net_top_types(const cr_net_build *build, int index, int top, crema_dtype *data,
                      crema_dtype *diff);

/* Half-precision values that a layer's kernels took or gave in full precision are brought back to
 * their own type, and the others forgotten, when the layer was the last of a pass to use them
 * (net/lifetimes.h knows). cr_net_plan_settling finds out, once the graph stands, whether the net
 * has such values; the others do it after a layer's pass. */
void cr_net_plan_settling(crema_net *net);
crema_status cr_net_settle_params(const crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_settle_forward(const crema_net *net, int index) CREMA_MUST_USE;
crema_status cr_net_settle_backward(const crema_net *net, int index) CREMA_MUST_USE;

/* For a net of a compiled model: makes its list of commands, where all that its layers do is known
 * by the ops that they run. */
crema_status cr_net_make_commands(crema_net *net) CREMA_MUST_USE;

/* A whole forward pass without loss, hooks and logging, from the list; *ran false: it has to be run
 * layer by layer, between cr_net_begin_commands and cr_net_end_commands, which record it. */
crema_status cr_net_run_commands(crema_net *net, bool *ran) CREMA_MUST_USE;
void cr_net_begin_commands(crema_net *net);
void cr_net_end_commands(crema_net *net, bool done);

/* Other passes may change what ops and tensors hold. */
void cr_net_forget_commands(crema_net *net);

/* Places the bottoms of Concat layers that allow it (cr_net_frozen_layer.parts_in_place) in the
 * memory of the top, and the tops of Slice layers in that of the bottom. To be called between
 * passes; does nothing unless net->parts_moved. */
crema_status cr_net_place_parts(crema_net *net) CREMA_MUST_USE;

/* Remembers the shapes with which a layer was last reshaped. */
void cr_net_note_shapes(cr_net_layer *layer);

/* Who or what a net is built for, besides its options. */
typedef struct cr_net_for {
  const cr_solver_rank *solver;      /* may be NULL; goes to the layers */
  const cr_net_frozen_layer *frozen; /* `layers` of them; NULL: an ordinary net */
  size_t layers;
  bool awaits_params; /* all parameters get their values afterwards */
} cr_net_for;

/* Builds the graph of net->param (already filtered and split) into net. */
crema_status cr_net_build_graph(crema_net *net, const cr_net_for *whom,
                                bool force_backward) CREMA_MUST_USE;

#endif
