/* A net: layers in order, the blobs between them, the parameters they learn. */
#ifndef CR_NET_NET_H
#define CR_NET_NET_H

#include "net/common/net_struct.h"

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

#endif
