/* A net: layers in order, the blobs between them, the parameters they learn. */
#ifndef CR_NET_NET_H
#define CR_NET_NET_H

#include "net/common/net_struct.h"

/* Reads a net from a text file, or from the text at `text`, and upgrades it. `source` (may be NULL)
 * names the text in messages. With `warn_unknown`, unknown fields are skipped with a warning. The
 * caller frees *out with cr_message_free. Errors: CREMA_E_PARSE; CREMA_E_UNKNOWN_NAME for an
 * unknown field in a layer of an unknown type; as cr_net_param_upgrade. */
crema_status cr_net_param_load(const char *path, bool warn_unknown,
                               Caffe__NetParameter **out) CREMA_MUST_USE;
crema_status cr_net_param_parse(const char *text, size_t size, const char *source,
                                bool warn_unknown, Caffe__NetParameter **out) CREMA_MUST_USE;

/* Turns the failure to parse a layer of an unknown type, whose fields are also unknown, into
 * CREMA_E_UNKNOWN_NAME with the nearest type. Other failures and CREMA_OK stay. Returns the status.
 */
crema_status cr_net_blame_type(crema_status code);

/* A layer of a compiled model, besides its message. */
typedef struct cr_net_frozen_layer {
  int params;
  crema_blob **blob; /* the parameters; the net's layer shares their values */
  cr_posts posts;    /* functions after the layer's own; an addition is of the last bottom */
  /* A Concat whose bottoms are written into its top, or a Slice whose tops alias its bottom. */
  bool parts_in_place;
  bool winograd; /* it may save products by Winograd's method */
  bool once;     /* the tops depend only on shapes: it runs when some have changed */
  bool retyped;  /* the tops are of type `tops` instead of the layer's own type */
  crema_dtype tops;
  const cr_layer_int8 *int8; /* it computes with integers; must live as long as the net */
} cr_net_frozen_layer;

/* For cr_net_create; zero for an ordinary net on its own context. */
typedef struct cr_net_build_options {
  crema_context *context; /* NULL: the net makes its own on options->device */
  /* The file, or a name for the text in messages; relative paths start from it. May be NULL. */
  const char *path;
  /* One of several solvers that train a net together. In phase TRAIN data layers produce that
   * solver's share of the samples, and random layers draw numbers that differ between solvers.
   * options->seed is the same for all solvers. A net of phase TEST has no part in this, unless
   * solver->tests is set. NULL: one solver. The net takes its own references to the group. */
  const cr_solver_rank *solver;
  /* One per layer, which have been filtered and split and share no parameters by name: the net only
   * runs forward passes in phase TEST. The array may be freed afterwards. NULL: an ordinary net. */
  const cr_net_frozen_layer *frozen;
  /* The caller only looks at the net, or gives it all parameters at once, by cr_net_load_files or
   * cr_net_load_bytes with CR_MISSING_REFUSED. Until then they are 0; the net draws none. */
  bool awaits_params;
} cr_net_build_options;

/* Builds from a parsed and upgraded message, which it owns afterwards, even on failure. The stages
 * that hold are the message's own and those in `options`; phase and level come from `options`.
 * Errors, besides errors of building: CREMA_E_RANGE for a rank that does not exist. */
crema_status cr_net_create(Caffe__NetParameter *param, const crema_net_options *options,
                           const cr_net_build_options *build, crema_net **out) CREMA_MUST_USE;

/* Bytes of a net's memory, in all element types and memory formats that are held; memory that the
 * caller or a data layer gave is not counted. */
typedef struct cr_net_memory {
  crema_blob_memory tops;        /* values that layers make, each value once */
  crema_blob_memory shared_tops; /* tops in place, views and copies, once more for each of them */
  crema_blob_memory bottoms;     /* values that layers read, each value once: a part of the tops */
  crema_blob_memory params;      /* each value once */
  crema_blob_memory shared_params; /* once more for each further layer that has them */
  /* Transient values, if any: the peak, the current amount, and the host memory held for them. */
  size_t planned, planned_now, planned_held;
} cr_net_memory;
crema_status cr_net_memory_read(const crema_net *net, cr_net_memory *out) CREMA_MUST_USE;

/* Divides the batch_size of all layers that read data among `replicas`, rounded up; with `warn`,
 * warns about layers whose batch_size is no multiple. */
void cr_net_divide_batch(Caffe__NetParameter *param, int replicas, bool warn);

/* The element type that a field of a file names. Errors: CREMA_E_UNSUPPORTED for a type that is no
 * floating one, with the field's name. */
crema_status cr_net_dtype(const char *field, Caffe__Type type, crema_dtype *out) CREMA_MUST_USE;

/* Makes `net`'s parameters share the values (not the diffs) of `donor`'s layers of the same name
 * (test nets). Layers that only `net` has also share if a parameter's name ties them to a layer
 * that both have. Layers that only the donor has are logged. Errors: CREMA_E_SHAPE with both
 * shapes, CREMA_E_TYPE with both types, CREMA_E_ARGUMENT when the numbers of parameters differ. */
crema_status cr_net_share_params(crema_net *net, crema_net *donor) CREMA_MUST_USE;

/* Layers `first` to `last`, both included; backward runs them from last to first.
 * *loss (may be NULL) gets the weighted sum of the losses of these layers.
 * Errors: CREMA_E_RANGE, and errors of the layers, which name the layer. */
crema_status cr_net_forward_range(crema_net *net, int first, int last, double *loss) CREMA_MUST_USE;
crema_status cr_net_backward_range(crema_net *net, int first, int last) CREMA_MUST_USE;

/* Runs all layers forward, as crema_net_forward does, and leaves the loss to cr_net_loss_read: a
 * device computes it while the host submits the backward pass. */
crema_status cr_net_forward_submit(crema_net *net) CREMA_MUST_USE;

/* Whether passes of a net with the option `graphs` are captured; at first they are. */
void cr_net_use_graphs(crema_net *net, bool on);

/* The loss of the last cr_net_forward_submit. Waits for that pass, but not for later work. Errors:
 * errors of the pass that only show when the device has done its work. */
crema_status cr_net_loss_read(crema_net *net, double *loss) CREMA_MUST_USE;

/* Called during a backward pass. */
typedef struct cr_net_watcher {
  /* The backward passes of the layers from `layer` on are submitted: the gradients of parameters
   * that no earlier layer uses are complete. A failure ends the pass. */
  crema_status (*layer_done)(void *user, int layer);
  /* Whether layer_done does anything at the layer. NULL: it may at each, which prevents graphs of
   * the backward pass (net/graphs.h). */
  bool (*acts_at)(const void *user, int layer);
  void *user;
} cr_net_watcher;

/* crema_net_backward, which calls a watcher after each layer at which it acts, or after each layer,
 * from the last to the first. */
crema_status cr_net_backward_watched(crema_net *net, const cr_net_watcher *watcher) CREMA_MUST_USE;

/* Changes net->grad_scale; from the next forward pass on. */
void cr_net_set_grad_scale(crema_net *net, double scale);

/* Finds the first layer, in the order of running, that holds a NaN or an infinity in its parameters
 * or tops. If *found, *layer_name and *blob_name (a top's name, or "param 0" and so on) name it.
 * The names are owned by the net or static; either of the two may be NULL. */
crema_status cr_net_find_nonfinite(crema_net *net, bool *found, const char **layer_name,
                                   const char **blob_name) CREMA_MUST_USE;

/* Reads all parameters on the host. Errors: CREMA_E_NUMERIC, naming the first layer and parameter
 * that hold a value which is not a finite number. */
crema_status cr_net_check_weights(const crema_net *net) CREMA_MUST_USE;

/* With debug_info: logs the mean absolute value and step of each parameter. To be called by a
 * solver when the diffs hold the steps. A no-op without debug_info. */
crema_status cr_net_debug_update(crema_net *net) CREMA_MUST_USE;

#endif
