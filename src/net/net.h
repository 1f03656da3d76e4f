/* A net: layers in order, the blobs between them, the parameters they learn. */
#ifndef CR_NET_NET_H
#define CR_NET_NET_H

#include "core/arena.h"
#include "core/file.h"
#include "crema/net.h"
#include "layers/common/layer.h"
#include "net/name_map.h"
#include "net/stored.h"

/* One entry per parameter blob of a layer (owners and sharers). */
typedef struct cr_net_param {
  int layer, index; /* the layer, and which of its parameters */
  const char *name; /* ParamSpec name; "" when it has none; owned by net->param */
  int owner;        /* entry that owns the values; -1: this one does */
  int learnable;    /* index among the learnable parameters */
} cr_net_param;

/* Whether nothing later in a pass touches the values. */
typedef struct cr_net_end {
  bool forward, backward;
  bool dropped; /* in forward; the backward pass computes them again */
} cr_net_end;

/* What a net that plans its memory lets go of after a layer's passes. */
typedef struct cr_net_past {
  cr_tensor **forward, **backward;
  int forward_count, backward_count;
} cr_net_past;

typedef struct cr_net_layer {
  cr_layer *layer;
  crema_blob **bottom, **top;
  int *bottom_id, *top_id; /* indices into net->blob */
  bool *propagate_down;    /* one per bottom */
  bool need_backward;
  bool inline_params;          /* the net's own text gives the parameters' values */
  bool fused;                  /* another layer computes its forward pass */
  struct cr_net_layer *scaled; /* the layer that does its work, backward, too; NULL: itself */
  bool parts_in_place;         /* see cr_net_frozen_layer */
  bool once;                   /* the same */
  uint64_t ran;                /* 1 + net->shapes when it last did; 0: it has not run */
  bool has_loss;               /* a top has a loss weight other than 0 */
  bool loss_seeded;            /* the diffs of those tops hold the loss weights */
  int first_param;             /* its first entry in net->net_param; layer->params of them */
  int next_same;               /* the next layer of the same name; -1: none */
  cr_net_end *ends;   /* of the data of bottoms, then tops; NULL where the net does not ask */
  cr_net_past past;   /* empty unless the net plans its memory */
  cr_blob_seen *seen; /* at the last reshape: bottoms, then tops */
} cr_net_layer;

/* Where the text of a net stands: for messages, and for relative paths inside it. */
typedef struct cr_net_origin {
  const char *path; /* the file, or what names the text in messages */
  const char *text; /* the text, of `size` bytes; NULL: it is in the file */
  size_t size;
  const char
      *field;    /* the field of the text that is the net, such as "net_param"; NULL: all of it */
  size_t number; /* of several such fields, which */
} cr_net_origin;

/* A blob that others than the net can reach, and what it was like. */
typedef struct cr_net_shown {
  const crema_blob *blob;
  cr_blob_seen seen;
} cr_net_shown;

/* The loss of a pass on its way to the host (net/loss.h). */
typedef struct cr_net_loss cr_net_loss;

struct crema_net {
  cr_arena arena; /* what is made once and lives as long as the net: names, most of the arrays */
  char *name;
  char *path;                 /* file it came from, or NULL */
  cr_net_origin origin;       /* of `path`; `text` while it is built; `field` is a constant */
  Caffe__NetParameter *param; /* filtered, with splits inserted */
  crema_phase phase;
  crema_context *context;
  bool owns_context;
  uint64_t seed;
  int layers;
  cr_net_layer *layer;
  int blobs;
  crema_blob **blob;
  char **blob_name;        /* "(automatic)" for tops that the prototxt does not name */
  cr_name_map blob_index;  /* without the automatic ones */
  cr_name_map layer_index; /* the first layer of each name */
  int inputs, outputs;
  int *input, *output;  /* blob indices */
  float *output_weight; /* loss weight of each output; 0: not a loss */
  int params;
  cr_net_param *net_param;
  int learnables;
  crema_blob **learnable; /* owners only, in order */
  float *lr_mult, *decay_mult;
  bool settles;           /* some values are held in half precision */
  bool plans;             /* lets go of values after their last use (net/lifetimes.h) */
  cr_tensor_spare *brief; /* for parameters that are trained (memory/tensor_brief.h); NULL: none */
  bool *kept;             /* one per blob: it was asked for */
  bool recomputes;        /* drops what can be computed again (net/segments.h) */
  int *segment;        /* one per layer: the first layer of its segment; NULL without recomputes */
  bool segmented;      /* they are chosen */
  uint64_t shapes;     /* how often a layer was found to have new ones */
  uint64_t planned;    /* `shapes` when lifetimes were planned */
  bool parts_moved;    /* shapes or what is kept have changed since cr_net_place_parts */
  int replayed;        /* of the segment that was computed again last, its first layer */
  bool replays;        /* a segment is being computed again */
  double replay_time;  /* seconds that segments took so far; on a device, to submit them */
  cr_tensor **passing; /* all that is let go of, for the layers' lists */
  double grad_scale;   /* all gradients are multiplied with it, and a solver divides them by it */
  int fusions;         /* layers whose work others do */
  bool debug_info;     /* log in every pass; may be changed between passes */
  cr_net_loss *loss;
  cr_commands *commands;    /* of a whole forward pass (memory/commands.h); NULL: none is made */
  uint64_t recorded_shapes; /* 1 + `shapes` when the list was recorded; 0: it was not */
  cr_net_shown *shown;      /* when it was; room for all blobs */
  int shown_count;
  crema_net_hooks hooks;
  size_t at; /* while it is built: the layer of `param` that is being built */
};

/* Builds from a parsed and upgraded message, which is taken over (also on failure).
 * `context` may be NULL: the net makes its own on options->device. The stages that hold are the
 * message's own and those of `options`; phase and level are those of `options`. `origin` may be
 * NULL. */
crema_status cr_net_create(Caffe__NetParameter *param, const crema_net_options *options,
                           crema_context *context, const cr_net_origin *origin,
                           crema_net **out) CREMA_MUST_USE;

/* The same for one of several solvers that train a net together. In phase TRAIN its data layers
 * produce that solver's share of the samples, and its random layers draw other numbers than those
 * of the other solvers; options->seed is the same for all of them. A net of phase TEST is alone,
 * unless solver->tests says otherwise. NULL: one solver. The net takes references of its own to the
 * group. Errors, besides those of building: CREMA_E_RANGE for a rank that does not exist. */
crema_status cr_net_create_for(Caffe__NetParameter *param, const crema_net_options *options,
                               const cr_solver_rank *solver, crema_context *context,
                               const cr_net_origin *origin, crema_net **out) CREMA_MUST_USE;

/* The same for a net that gets all its parameters at once, by cr_net_load_files or
 * cr_net_load_bytes with CR_MISSING_REFUSED, or is only looked at: until then they are 0, and
 * nothing is drawn for them. Its context is its own. */
crema_status cr_net_create_awaiting(Caffe__NetParameter *param, const crema_net_options *options,
                                    const cr_net_origin *origin, crema_net **out) CREMA_MUST_USE;

/* What a layer of a compiled model has from the model. */
typedef struct cr_net_frozen_layer {
  int params;
  crema_blob **blob;   /* the parameters; the net's layer shares their values */
  cr_posts posts;      /* an addition is of the last bottom */
  bool parts_in_place; /* see cr_graph_layer */
  bool winograd;       /* see cr_layer */
  bool once;           /* the tops depend on shapes alone: it runs when some have changed */
  bool retyped;        /* the tops are of type `tops`, not of the layer's own one */
  crema_dtype tops;
  const cr_layer_int8 *int8; /* see cr_layer; must live as long as the net */
} cr_net_frozen_layer;

/* The same for a net whose layers have been filtered and split, and have no parameters that are
 * shared by name: builds it for forward passes in phase TEST. `frozen` has one entry per layer;
 * nothing of it is needed afterwards. */
crema_status cr_net_create_frozen(Caffe__NetParameter *param, const crema_net_options *options,
                                  crema_context *context, const cr_net_origin *origin,
                                  const cr_net_frozen_layer *frozen,
                                  crema_net **out) CREMA_MUST_USE;

/* Finds the blobs whose values a layer in place overwrites before another one reads them under
 * another name, so that the order of the layers matters: found[i] is set for each blob. */
crema_status cr_net_find_overwritten(const crema_net *net, bool *found) CREMA_MUST_USE;

/* To be called before the net computes or its values are read, and when it has computed: see
 * crema_view. No-ops where there are no views. */
crema_status cr_net_take_views(crema_net *net) CREMA_MUST_USE;
crema_status cr_net_show_views(crema_net *net) CREMA_MUST_USE;

/* Calls one of the net's hooks, if it is set. */
crema_status cr_net_call_hook(crema_net *net, crema_net_hook_fn *hook, int layer) CREMA_MUST_USE;

/* Bytes of a net's memory, in all element types and memory formats that are held; memory that the
 * caller or a data layer gave is not counted. */
typedef struct cr_net_memory {
  crema_blob_memory tops;          /* what layers make, each value once */
  crema_blob_memory shared_tops;   /* tops in place, views and copies, once more for each of them */
  crema_blob_memory bottoms;       /* what layers read, each value once: a part of the tops */
  crema_blob_memory params;        /* each value once */
  crema_blob_memory shared_params; /* once more for each further layer that has them */
  /* Values that live for a part of a pass, where there are such: the most at once, those now, and
   * the host memory that is held for them. */
  size_t planned, planned_now, planned_held;
} cr_net_memory;
crema_status cr_net_memory_read(const crema_net *net, cr_net_memory *out) CREMA_MUST_USE;

/* Divides the batch_size of all layers that read data among `replicas`, rounded up; `told`: with a
 * warning where that is not even. */
void cr_net_divide_batch(Caffe__NetParameter *param, int replicas, bool told);

/* The element type that a field of a file names. Errors: CREMA_E_UNSUPPORTED for a type that is no
 * floating one, with the field's name. */
crema_status cr_net_dtype(const char *field, Caffe__Type type, crema_dtype *out) CREMA_MUST_USE;

/* The first layer of that name; -1 when there is none. */
int cr_net_find_layer(const crema_net *net, const char *name);

/* Pairs the layers of another net with this one's by name, in the order of calls: returns the first
 * layer of that name that was not returned yet, or -1. `cursor` has net->layers entries, all set by
 * cr_net_match_start. */
void cr_net_match_start(const crema_net *net, int *cursor);
int cr_net_match(const crema_net *net, const char *name, int *cursor);

/* Makes `net`'s parameters share the values (not the diffs) of `donor`'s layers of the same name
 * (test nets). Layers that only `net` has take part where a parameter's name ties them to a layer
 * that both have; those that only the donor has are logged. Errors: CREMA_E_SHAPE with both shapes,
 * CREMA_E_TYPE with both types, CREMA_E_ARGUMENT when the numbers of parameters differ. */
crema_status cr_net_share_params(crema_net *net, crema_net *donor) CREMA_MUST_USE;

/* Layers `first` to `last`, both included; backward runs them from last to first.
 * *loss (may be NULL) gets the weighted sum of the losses of these layers.
 * Errors: CREMA_E_RANGE, and those of the layers, with the layer named. */
crema_status cr_net_forward_range(crema_net *net, int first, int last, double *loss) CREMA_MUST_USE;
crema_status cr_net_backward_range(crema_net *net, int first, int last) CREMA_MUST_USE;

/* Runs all layers forward, as crema_net_forward does, and leaves the loss to cr_net_loss_read: a
 * device computes it while the host submits the backward pass. */
crema_status cr_net_forward_submit(crema_net *net) CREMA_MUST_USE;

/* The loss of the last cr_net_forward_submit: waits for that pass, but not for what was submitted
 * after it. Errors: those of the pass that show when the device has done its work. */
crema_status cr_net_loss_read(crema_net *net, double *loss) CREMA_MUST_USE;

/* Told during a backward pass. */
typedef struct cr_net_watcher {
  /* The backward passes of the layers from `layer` on are submitted: the gradients of parameters
   * that no earlier layer uses are complete. A failure ends the pass. */
  crema_status (*layer_done)(void *user, int layer);
  void *user;
} cr_net_watcher;

/* crema_net_backward, with somebody who is told of each layer, from the last to the first. */
crema_status cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher) CREMA_MUST_USE;

/* Changes net->grad_scale; from the next forward pass on. */
void cr_net_set_grad_scale(crema_net *net, double scale);

/* Finds the first layer, in the order of running, that holds a value which is not a finite
 * number, in its parameters or its tops. *found says whether there is one; then *layer_name and
 * *blob_name (a top's name, or "param 0" and so on) name it. The names are owned by the net
 * or static; either of the two may be NULL. */
crema_status cr_net_find_nonfinite(crema_net *net, bool *found, const char **layer_name,
                                   const char **blob_name) CREMA_MUST_USE;

/* Reads all parameters on the host. Errors: CREMA_E_NUMERIC, naming the first layer and parameter
 * that hold a value which is not a finite number. */
crema_status cr_net_check_weights(const crema_net *net) CREMA_MUST_USE;

/* With debug_info: logs the mean absolute value and step of each parameter. To be called by a
 * solver when the diffs hold the steps. A no-op without debug_info. */
crema_status cr_net_debug_update(crema_net *net) CREMA_MUST_USE;

/* What to do about layers whose parameters are in no file of weights: fail, warn of each, or
 * nothing; in the last case a file need not have anything for the net. */
typedef enum cr_net_missing {
  CR_MISSING_REFUSED,
  CR_MISSING_WARNED,
  CR_MISSING_IGNORED
} cr_net_missing;

/* What is known of the files of weights while they are loaded one after another. */
typedef struct cr_net_loading {
  const crema_net *net;
  cr_net_missing missing;
  size_t files; /* begun so far */
  bool last;    /* no other file follows the one being loaded */
  bool *given;  /* one per learnable parameter: a file has values for it */
  char **spare; /* layers that the files have parameters for and the net does not have */
  size_t spares;
} cr_net_loading;

/* Loads files of weights, each over the ones before. Layers whose parameters are shared count as
 * given when the owner's are, and the other way round. After a failure the net has the values of
 * the files before. Does not warn of layers that `other` (may be NULL) has as well. */
crema_status cr_net_load_files(crema_net *net, const char *const *path, size_t count,
                               cr_net_missing missing, const crema_net *other) CREMA_MUST_USE;

/* How values are written, as a sum: with the diffs; in Caffe's own fields; as HDF5 whatever the
 * file's name (see crema_save_options). 0: none of them. */
enum { CR_SAVE_DIFFS = 1, CR_SAVE_OLD_FORMAT = 2, CR_SAVE_HDF5 = 4 };

/* The sum that options (may be NULL) stand for. */
unsigned cr_net_save_flags(const crema_save_options *options);

/* Weights as a message; `save` is a sum as above. The values are not copied: the message is valid
 * until a parameter changes, and is freed with cr_net_proto_free, which accepts NULL. */
crema_status cr_net_to_proto(crema_net *net, unsigned save,
                             Caffe__NetParameter **out) CREMA_MUST_USE;
void cr_net_proto_free(Caffe__NetParameter *message);

/* Weights from a file. All shapes are checked before anything changes; `loading` (may be NULL)
 * learns what was given. */
crema_status cr_net_from_stored(crema_net *net, const cr_net_stored *stored,
                                cr_net_loading *loading) CREMA_MUST_USE;

/* Weights from `size` bytes of a file in wire format, which are not needed afterwards; `source`
 * (may be NULL) names them in messages. */
crema_status cr_net_load_bytes(crema_net *net, const void *bytes, size_t size, const char *source,
                               cr_net_missing missing) CREMA_MUST_USE;

/* Fails with CREMA_E_NOT_FOUND when the net has parameters and `matched`, the number of its layers
 * that a file of weights has values for, is 0: the net would run untrained. Otherwise as
 * cr_net_check_complete. */
crema_status cr_net_check_matched(const crema_net *net, int matched,
                                  const cr_net_loading *loading) CREMA_MUST_USE;

/* crema_net_save_weights_with; `save` is a sum of CR_SAVE_DIFFS and so on. */
crema_status cr_net_save(crema_net *net, const char *path, unsigned save) CREMA_MUST_USE;
/* The same into a draft that the caller begins and ends. */
crema_status cr_net_write(crema_net *net, cr_file_draft *draft, unsigned save) CREMA_MUST_USE;

/* Whether the name asks for HDF5: it ends in ".h5". */
bool cr_net_is_named_hdf5(const char *path);

/* Weights in HDF5: /data/<layer>/<i> and, with diffs, /diff/<layer>/<i>, doubles or (halves too)
 * floats. Parameters that share another's values have no data set under /data. Loading checks all
 * shapes before it changes anything. */
crema_status cr_net_write_hdf5(const crema_net *net, cr_file_draft *draft,
                               bool with_diffs) CREMA_MUST_USE;
crema_status cr_net_load_hdf5(crema_net *net, const char *path,
                              cr_net_loading *loading) CREMA_MUST_USE;

/* Whether the names of the layers allow an HDF5 model: each layer with parameters needs a name of
 * its own. Errors: CREMA_E_ARGUMENT for a missing name, CREMA_E_EXISTS for a name that two layers
 * have. */
crema_status cr_net_check_hdf5(const crema_net *net, bool with_diffs) CREMA_MUST_USE;

/* One blob as BlobProto, whose values stay the blob's: valid until they change, and to be freed
 * with cr_blob_proto_free, which accepts NULL. `save` is a sum of CR_SAVE_DIFFS and so on. */
crema_status cr_blob_to_proto(crema_blob *blob, unsigned save,
                              Caffe__BlobProto **out) CREMA_MUST_USE;
void cr_blob_proto_free(Caffe__BlobProto *proto);

/* A blob from a BlobProto; any dialect's fields. The blob keeps its own type: values of that type
 * and doubles are stored as they are, those of a blob of 16 bits with the precision of floats
 * (cr_tensor_settle rounds them). `reshape` false: the shapes must agree (cr_blob_proto_fits).
 * Errors: CREMA_E_SHAPE, CREMA_E_CORRUPT when the number of values is not that of the shape,
 * CREMA_E_TYPE for a blob of integers and values of another type. */
crema_status cr_blob_from_proto(crema_blob *blob, const Caffe__BlobProto *proto,
                                bool reshape) CREMA_MUST_USE;
/* The same without `reshape` for values that may still be in the file of `stored` (NULL: they are
 * not). Values of the blob's own type are then read when they are wanted. */
crema_status cr_blob_from_stored(crema_blob *blob, const Caffe__BlobProto *proto,
                                 const cr_net_stored *stored) CREMA_MUST_USE;

/* Shape of a BlobProto, legacy num/channels/height/width included. Errors: CREMA_E_SHAPE. */
crema_status cr_blob_proto_shape(const Caffe__BlobProto *proto, crema_shape *out) CREMA_MUST_USE;

/* Checks that the proto holds as many values as its shape, which goes to *shape, asks for.
 * Errors: CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_blob_proto_check(const Caffe__BlobProto *proto, crema_shape *shape) CREMA_MUST_USE;

/* Whether a blob of `shape` can take the proto's values: equal shapes, or, for a legacy 4-D
 * proto, equal after ones are put in front of `shape`. */
bool cr_blob_proto_fits(const Caffe__BlobProto *proto, const crema_shape *shape);

#endif
