/* Nets: building, running, loading weights and saving them. */
#ifndef CREMA_NET_H
#define CREMA_NET_H

#include "crema/blob.h"
#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A neural network with its blobs and weights. */
typedef struct crema_net crema_net;

/* The purpose of a net. Some layers exist in one phase only, or behave differently (Dropout). */
typedef enum crema_phase {
  CREMA_TRAIN = 0, /* training */
  CREMA_TEST = 1   /* testing or inference */
} crema_phase;

/* How to build a net. Initialise with crema_net_options_init. */
typedef struct crema_net_options {
  crema_phase phase;         /* with level and stages: selects layers by include and exclude */
  int level;                 /* compared with min_level and max_level of include and exclude */
  const char *const *stages; /* names of the stages; need not outlive the call */
  size_t stage_count;        /* number of stages */
  crema_device *device;      /* NULL: the CPU */
  crema_math math;           /* exactness of products and sums on a GPU */
  int64_t seed;              /* negative: a different seed in each run */
  bool warn_unknown_fields;  /* unknown fields in text are a warning, not an error */
  bool skip_corrupt;         /* skip records that cannot be decoded, with a warning */
  bool force_backward;       /* as the field of that name of the net */
  /* Reuse the memory of a blob for other blobs after its last use in a pass. Results do not change.
   * Inputs, outputs and blobs that crema_net_blob returned earlier than the pass keep their values.
   * Reading other values fails with CREMA_E_STATE. A TEST net cannot run backward then. */
  bool plan_memory;
  /* For a TRAIN net: plan memory, free most activations after the forward pass, and recompute them
   * in the backward pass. It uses less memory and about a third more time. Results do not change.
   * It has no effect on a TEST net. */
  bool recompute;
  /* Let a CUDA device capture whole passes in graphs and run these later, with fewer calls of the
   * host. Results do not change. Passes that no graph can hold run as without; the log says why.
   * It has no effect on other devices. */
  bool graphs;
} crema_net_options;

/* Sets the defaults: phase TEST, level 0, no stages, the CPU, CREMA_MATH_DEFAULT, seed -1, all
 * else false. */
CREMA_API void crema_net_options_init(crema_net_options *options);

/* Builds a net from the text file `path`, or from `size` bytes of `text`. Any Caffe dialect is
 * accepted. `source` names the text in messages. Relative paths in the net are tried from the
 * working directory, then from the file's folder. `options` may be NULL. Free with
 * crema_net_destroy. Errors name file, line, layer and blob. */
CREMA_API crema_status crema_net_load(const char *path, const crema_net_options *options,
                                      crema_net **out) CREMA_MUST_USE;
CREMA_API crema_status crema_net_parse(const char *text, size_t size, const char *source,
                                       const crema_net_options *options,
                                       crema_net **out) CREMA_MUST_USE;

/* Frees a net. Accepts NULL. */
CREMA_API void crema_net_destroy(crema_net *net);

/* How to load weights. Initialise with crema_weights_options_init. */
typedef struct crema_weights_options {
  /* Layers whose parameters are not in the file keep their values, and a warning names them. Set it
   * for fine-tuning, or if the weights are in several files. Otherwise such layers are an error,
   * because the net would run untrained. */
  bool allow_missing;
} crema_weights_options;

/* Sets the default: allow_missing false. */
CREMA_API void crema_weights_options_init(crema_weights_options *options);

/* Loads weights from the .caffemodel `path` (binary or HDF5) into the layers of the same names.
 *
 * - Layers that share parameters by name need them for only one of the layers.
 * - Layers that are only in the file are skipped and logged.
 *
 * `options` may be NULL. An error leaves the net unchanged.
 *
 * Large weights of a binary file are read at their first use. A TEST net reads them from the file
 * for the first two runs and keeps them in memory from the second run on. A program that runs a net
 * once therefore needs no memory for them. The file may be replaced by renaming. If it is
 * overwritten in place during this time, the next use fails with CREMA_E_CORRUPT.
 *
 * Errors:
 *
 * - CREMA_E_NOT_FOUND: there is no such file, the file has no weights for the net, or a layer is
 *   missing in it. The text names the first missing layer and a similar name.
 * - CREMA_E_SHAPE: a shape differs. The text has both shapes.
 * - CREMA_E_ARGUMENT: the number of parameters differs.
 * - CREMA_E_CORRUPT: the file is damaged. A binary file that is truncated between two layers looks
 *   complete, and only the missing layers are reported. */
CREMA_API crema_status crema_net_load_weights_with(
    crema_net *net, const char *path, const crema_weights_options *options) CREMA_MUST_USE;

/* As crema_net_load_weights_with, from `size` bytes of a binary .caffemodel in memory. `bytes` may
 * be freed after the call. `source` (may be NULL) names them in messages. Errors are the same. */
CREMA_API crema_status
crema_net_load_weights_memory(crema_net *net, const void *bytes, size_t size, const char *source,
                              const crema_weights_options *options) CREMA_MUST_USE;

/* As crema_net_load_weights_with, from `path`, with allow_missing true for a TRAIN net and false
 * for a TEST net. Errors are the same. */
CREMA_API crema_status crema_net_load_weights(crema_net *net, const char *path) CREMA_MUST_USE;

/* How to save weights. Initialise with crema_save_options_init. */
typedef struct crema_save_options {
  bool diffs; /* save the gradients in addition */
  /* Binary files only. False: FLOAT weights are written as Caffe's repeated float, and other types
   * as bytes with their type, as NVIDIA's Caffe does. True: all weights are written in Caffe's own
   * fields, which every program reads. Doubles become repeated double. 16-bit weights become
   * repeated float, with the full precision of their training copies. HDF5 files have the same
   * numbers (float or double) for both values. */
  bool old_format;
  bool hdf5; /* write HDF5 for any file name */
} crema_save_options;

/* Sets all options to false. */
CREMA_API void crema_save_options_init(crema_save_options *options);

/* Saves the weights to `path`: as HDF5 if the name ends in .h5, else in binary format. A failure
 * leaves an existing file intact. `options` may be NULL. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY. For
 * HDF5 also CREMA_E_ARGUMENT if a layer's name is not a valid HDF5 path, and CREMA_E_EXISTS if two
 * names map to the same path. */
CREMA_API crema_status crema_net_save_weights_with(
    crema_net *net, const char *path, const crema_save_options *options) CREMA_MUST_USE;

/* As crema_net_save_weights_with to `path`, with the default options. Errors are the same. */
CREMA_API crema_status crema_net_save_weights(crema_net *net, const char *path) CREMA_MUST_USE;

/* Saves the weights to memory in binary format: sets *out to a block of *size bytes. Free with
 * crema_free. `options` may be NULL. Errors: CREMA_E_NO_MEMORY, CREMA_E_UNSUPPORTED for HDF5. */
CREMA_API crema_status crema_net_save_weights_memory(crema_net *net,
                                                     const crema_save_options *options, void **out,
                                                     size_t *size) CREMA_MUST_USE;

/* Makes the layers of `net` use the parameters of the layers of the same names in `donor`. Nothing
 * is copied: a change to one net's weights changes the weights of both. Gradients stay separate.
 * The nets can be destroyed in any order. A solver's net can only be the donor, because the
 * solver's update would not find replaced weights. Errors: CREMA_E_SHAPE, CREMA_E_TYPE,
 * CREMA_E_ARGUMENT if the numbers of parameters of a layer differ or if `net` and `donor` are the
 * same net. */
CREMA_API crema_status crema_net_share_weights(crema_net *net, crema_net *donor) CREMA_MUST_USE;

/* Runs all layers forward. *loss (may be NULL) gets the weighted sum of the losses. Errors name the
 * layer:
 *
 * - CREMA_E_SHAPE: the new shape of an input does not fit a layer.
 * - CREMA_E_CORRUPT, CREMA_E_RANGE, CREMA_E_IO: a failure to read data.
 * - CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_net_forward(crema_net *net, double *loss) CREMA_MUST_USE;

/* Runs backward all layers that need it. Adds gradients to the diffs of the parameters. Errors as
 * crema_net_forward. */
CREMA_API crema_status crema_net_backward(crema_net *net) CREMA_MUST_USE;

/* Runs the layers `first` to `last` (inclusive), in the order of crema_net_layer_name, or backward
 * from `last` to `first`. *loss (may be NULL) gets the losses of these layers.
 *
 * These functions do not fuse layers: each blob has the values that Caffe computes for it. A full
 * pass can fuse a ReLU into the preceding convolution and a Scale into the BatchNorm, so its last
 * bits can differ. Errors: as crema_net_forward, and CREMA_E_RANGE. */
CREMA_API crema_status crema_net_forward_range(crema_net *net, int first, int last,
                                               double *loss) CREMA_MUST_USE;
CREMA_API crema_status crema_net_backward_range(crema_net *net, int first, int last) CREMA_MUST_USE;

/* Called during a pass with the number of a layer. It may read and change the net's blobs but must
 * not run the net. A result other than CREMA_OK ends the pass, which returns it. */
typedef crema_status crema_net_hook_fn(void *user, crema_net *net, int layer);

/* Functions called before and after each layer. Each may be NULL. */
typedef struct crema_net_hooks {
  crema_net_hook_fn *before_forward;  /* in forward passes */
  crema_net_hook_fn *after_forward;   /* in forward passes */
  crema_net_hook_fn *before_backward; /* in backward passes, for every layer */
  crema_net_hook_fn *after_backward;  /* in backward passes, for every layer */
  void *user;                         /* passed to the functions */
} crema_net_hooks;

/* Sets the hooks of a net to a copy of `hooks`; NULL: none. With hooks set, layers are not fused
 * (see crema_net_forward_range). Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_net_set_hooks(crema_net *net,
                                           const crema_net_hooks *hooks) CREMA_MUST_USE;

/* The number of conversions between element types so far, over all blobs and parameters. Shared
 * values count once. A net with one element type converts nothing. */
CREMA_API uint64_t crema_net_conversions(const crema_net *net);

/* Sets the diffs of all parameters to zero. */
CREMA_API void crema_net_clear_param_diffs(crema_net *net);

/* Propagates the shapes of the input blobs through all layers. A forward pass does this itself if
 * an input's shape changed. Errors name the layer: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_reshape(crema_net *net) CREMA_MUST_USE;

/* Inputs and outputs by `index`, with their names. Inputs are the tops of Input layers. Outputs are
 * the blobs that no layer consumes, in alphabetical order. Blobs and names stay owned by the net.
 * NULL for an index out of range, here and below. */
CREMA_API int crema_net_input_count(const crema_net *net);
CREMA_API crema_blob *crema_net_input(crema_net *net, int index);
CREMA_API const char *crema_net_input_name(const crema_net *net, int index);
CREMA_API int crema_net_output_count(const crema_net *net);
CREMA_API crema_blob *crema_net_output(crema_net *net, int index);
CREMA_API const char *crema_net_output_name(const crema_net *net, int index);

/* Blobs by `name`, or by `index` in the order in which layers create them. Blobs and names stay
 * owned by the net. Errors: CREMA_E_UNKNOWN_NAME, which names the nearest name. */
CREMA_API crema_status crema_net_blob(crema_net *net, const char *name,
                                      crema_blob **out) CREMA_MUST_USE;
CREMA_API int crema_net_blob_count(const crema_net *net);
CREMA_API const char *crema_net_blob_name(const crema_net *net, int index);
CREMA_API crema_blob *crema_net_blob_at(crema_net *net, int index);

/* The weight of blob `index` in the loss; 0 if it is not part of the loss. */
CREMA_API float crema_net_blob_loss_weight(const crema_net *net, int index);

/* The net's name, its layers and their parameters. `layer` counts layers in the order of execution,
 * including inserted Split layers; `index` counts a layer's parameters. All results stay owned by
 * the net. */
CREMA_API const char *crema_net_name(const crema_net *net);
CREMA_API int crema_net_layer_count(const crema_net *net);
CREMA_API const char *crema_net_layer_name(const crema_net *net, int layer);
CREMA_API const char *crema_net_layer_type(const crema_net *net, int layer);
CREMA_API int crema_net_layer_param_count(const crema_net *net, int layer);
CREMA_API crema_blob *crema_net_layer_param(crema_net *net, int layer, int index);

/* The bottoms and tops of a layer by `index`, each as an index for crema_net_blob_at. -1 for an
 * index or `layer` out of range. */
CREMA_API int crema_net_layer_bottom_count(const crema_net *net, int layer);
CREMA_API int crema_net_layer_bottom(const crema_net *net, int layer, int index);
CREMA_API int crema_net_layer_top_count(const crema_net *net, int layer);
CREMA_API int crema_net_layer_top(const crema_net *net, int layer, int index);

/* The description of layer number `layer` in text format. Free with crema_free. Errors:
 * CREMA_E_RANGE for an unknown layer, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_layer_text(const crema_net *net, int layer,
                                            char **out) CREMA_MUST_USE;

/* The net in text format. Building a net from it for the same phase gives the same net. The text
 * includes inserted Split layers, level and stages. It excludes the layers that the rules removed,
 * the weights, and all other options. Free with crema_free. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_text(const crema_net *net, char **out) CREMA_MUST_USE;

/* The phase that the net was built for. */
CREMA_API crema_phase crema_net_phase(const crema_net *net);

#ifdef __cplusplus
}
#endif
#endif
