/* Nets: loading, running, reading and writing weights. */
#ifndef CREMA_NET_H
#define CREMA_NET_H

#include "crema/blob.h"
#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network with its blobs and weights, ready to run. */
typedef struct crema_net crema_net;

/* What a net is built for: some layers are in one phase only, or work otherwise (Dropout). */
typedef enum crema_phase {
  CREMA_TRAIN = 0, /* to learn */
  CREMA_TEST = 1   /* to be scored or used */
} crema_phase;

/* How a net is built. Start from crema_net_options_init. */
typedef struct crema_net_options {
  crema_phase phase; /* with level and stages, what the rules of layers are checked against */
  int level;         /* see min_level and max_level of include and exclude */
  const char *const *stages; /* names; not kept */
  size_t stage_count;        /* how many */
  crema_device *device;      /* NULL: the CPU */
  int64_t seed;              /* below 0: differs from run to run */
  bool warn_unknown_fields;  /* unknown fields in text are warned of instead of refused */
  bool skip_corrupt;         /* records that cannot be decoded are warned of and passed over */
  bool force_backward;       /* as the net's own field */
  /* In a pass, the memory of values that are not needed any more is used for others. Inputs,
   * outputs and blobs that crema_net_blob was asked for before the pass are kept; reading the
   * values of others fails with CREMA_E_STATE. All results are the same. A net of phase TEST has no
   * backward pass then. */
  bool plan_memory;
  /* A net of phase TRAIN plans its memory and, beside that, drops most values that its backward
   * pass needs and computes them again there, with the same results: a third more time or so for
   * less memory. No effect on others. */
  bool recompute;
} crema_net_options;

/* phase TEST, level 0, no stages, CPU, seed -1. */
CREMA_API void crema_net_options_init(crema_net_options *options);

/* Builds a net from the text file `path`, of any dialect (or from `size` bytes of text; `source`
 * names them in messages). Relative paths inside are tried from the working directory, then from
 * the file's folder. `options` may be NULL. Free with crema_net_destroy. Errors name file, line,
 * layer and blob. */
CREMA_API crema_status crema_net_load(const char *path, const crema_net_options *options,
                                      crema_net **out) CREMA_MUST_USE;
CREMA_API crema_status crema_net_parse(const char *text, size_t size, const char *source,
                                       const crema_net_options *options,
                                       crema_net **out) CREMA_MUST_USE;
CREMA_API void crema_net_destroy(crema_net *net);

/* How weights are loaded. Start from crema_weights_options_init. */
typedef struct crema_weights_options {
  /* Layers with parameters that the file has none for keep the values they have, with a warning
   * that names them: for fine-tuning, or for weights that lie in several files. Otherwise they are
   * an error: the net would run untrained. */
  bool allow_missing;
} crema_weights_options;

/* allow_missing false. */
CREMA_API void crema_weights_options_init(crema_weights_options *options);

/* Takes weights from the .caffemodel `path` (binary or HDF5) into the layers of the same name. A
 * layer that shares its parameters by name has them when one of the sharers has; layers that only
 * the file has are passed over (and logged). `options` may be NULL. Nothing is changed on failure.
 * Large weights of a binary file are read when they are first used, and in a net of phase TEST once
 * more when they are used for the second time, from which on they are kept: a program that runs a
 * net once needs no memory for them. Another file may take its name at once, but writing into it
 * before then makes that use fail with CREMA_E_CORRUPT.
 * Errors: CREMA_E_NOT_FOUND for no file, a file with nothing for the net, or layers that are
 * missing in it (the first of them named, with what may have been meant), CREMA_E_SHAPE with both
 * shapes, CREMA_E_ARGUMENT for another number of parameters, CREMA_E_CORRUPT. A file of the binary
 * format that is cut between two layers looks whole; the missing layers are all that shows it. */
CREMA_API crema_status crema_net_load_weights_with(
    crema_net *net, const char *path, const crema_weights_options *options) CREMA_MUST_USE;

/* The same from `size` bytes of a binary .caffemodel in memory, which are not needed afterwards;
 * `source` (may be NULL) names them in messages. Errors are the same. */
CREMA_API crema_status
crema_net_load_weights_memory(crema_net *net, const void *bytes, size_t size, const char *source,
                              const crema_weights_options *options) CREMA_MUST_USE;

/* The same from `path`, with allow_missing set for a net of phase TRAIN and not set for one of
 * phase TEST. Errors are the same. */
CREMA_API crema_status crema_net_load_weights(crema_net *net, const char *path) CREMA_MUST_USE;

/* How weights are written. Start from crema_save_options_init. */
typedef struct crema_save_options {
  bool diffs; /* the gradients, too */
  /* In wire format, weights of type FLOAT are written as Caffe's own repeated float, and those of
   * other types as bytes with their type, as NVIDIA's Caffe does. Set, all of them are written in
   * Caffe's own fields, which every program reads: doubles as repeated double, weights of 16 bits
   * as repeated float with the full precision that training keeps of them. HDF5 files hold the
   * same numbers either way, doubles or floats. */
  bool old_format;
  bool hdf5; /* as HDF5 whatever the file's name is */
} crema_save_options;

/* All false. */
CREMA_API void crema_save_options_init(crema_save_options *options);

/* Writes the weights to `path`: HDF5 when the name ends in .h5, wire format otherwise. The old file
 * stays whole when anything fails. `options` may be NULL. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY; for
 * HDF5 also CREMA_E_ARGUMENT for layers with parameters whose names are no paths, and CREMA_E_EXISTS
 * for names that would take the same place in the file. */
CREMA_API crema_status crema_net_save_weights_with(
    crema_net *net, const char *path, const crema_save_options *options) CREMA_MUST_USE;

/* The same to `path` without options. Errors are the same. */
CREMA_API crema_status crema_net_save_weights(crema_net *net, const char *path) CREMA_MUST_USE;

/* The same to memory, in wire format: *out gets *size bytes: free with crema_free.
 * `options` may be NULL. Errors: CREMA_E_NO_MEMORY, CREMA_E_UNSUPPORTED for HDF5. */
CREMA_API crema_status crema_net_save_weights_memory(crema_net *net,
                                                     const crema_save_options *options, void **out,
                                                     size_t *size) CREMA_MUST_USE;

/* Gives the parameters of `net` the same memory as those of the layers of the same name in `donor`,
 * without copying: what changes one net's weights changes the other's. The gradients stay apart.
 * Either net may be destroyed first. A solver's net can be the donor only: for `net` its update
 * would not find the weights any more. Errors: CREMA_E_SHAPE, CREMA_E_TYPE, CREMA_E_ARGUMENT when
 * the numbers of parameters of a layer differ or both are one net. */
CREMA_API crema_status crema_net_share_weights(crema_net *net, crema_net *donor) CREMA_MUST_USE;

/* Runs all layers forward. *loss (may be NULL) gets the weighted sum of the losses. Errors name the
 * layer: CREMA_E_SHAPE when new shapes of inputs do not fit, those of data (CREMA_E_CORRUPT,
 * CREMA_E_RANGE, CREMA_E_IO), CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_net_forward(crema_net *net, double *loss) CREMA_MUST_USE;
/* Runs all layers that need it backward; parameter diffs are added to. Errors as above. */
CREMA_API crema_status crema_net_backward(crema_net *net) CREMA_MUST_USE;

/* The same for layers `first` to `last`, both included, in the order of crema_net_layer_name;
 * backward runs from `last` to `first`. *loss (may be NULL) gets the losses of these layers. Each
 * layer then does its own work, where whole passes let a convolution compute the ReLU behind it, and
 * a BatchNorm the Scale: blobs hold what Caffe's would, and last bits differ. Errors as above, and
 * CREMA_E_RANGE. */
CREMA_API crema_status crema_net_forward_range(crema_net *net, int first, int last,
                                               double *loss) CREMA_MUST_USE;
CREMA_API crema_status crema_net_backward_range(crema_net *net, int first, int last) CREMA_MUST_USE;

/* Called in a pass, with the number of a layer. A status other than CREMA_OK ends the pass and is
 * what it returns. The function may look at and change the net's blobs; it must not run the net. */
typedef crema_status crema_net_hook_fn(void *user, crema_net *net, int layer);

/* What is called before and after each layer; each may be NULL. */
typedef struct crema_net_hooks {
  crema_net_hook_fn *before_forward;  /* in forward passes */
  crema_net_hook_fn *after_forward;   /* likewise */
  crema_net_hook_fn *before_backward; /* in backward passes, for every layer */
  crema_net_hook_fn *after_backward;  /* likewise */
  void *user;                         /* handed to them */
} crema_net_hooks;

/* Sets the hooks, which are copied; NULL: none. Each layer does its own work from now on, as above.
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_net_set_hooks(crema_net *net,
                                           const crema_net_hooks *hooks) CREMA_MUST_USE;

/* How often values were converted from one element type to another so far: those of all blobs and
 * parameters, each once however many share them. A net of one type converts nothing. */
CREMA_API uint64_t crema_net_conversions(const crema_net *net);
/* Sets the diffs of all parameters to zero. */
CREMA_API void crema_net_clear_param_diffs(crema_net *net);

/* Propagates the input blobs' new shapes through all layers. forward does it by itself when
 * a blob's shape changed. Errors name the layer: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_reshape(crema_net *net) CREMA_MUST_USE;

/* Inputs (tops of Input layers) and outputs (blobs that no layer consumes, alphabetical); blobs and
 * names stay owned by the net. An index out of range gives NULL, here and below. */
CREMA_API int crema_net_input_count(const crema_net *net);
CREMA_API crema_blob *crema_net_input(crema_net *net, int index);
CREMA_API const char *crema_net_input_name(const crema_net *net, int index);
CREMA_API int crema_net_output_count(const crema_net *net);
CREMA_API crema_blob *crema_net_output(crema_net *net, int index);
CREMA_API const char *crema_net_output_name(const crema_net *net, int index);

/* A blob by its name. Errors: CREMA_E_UNKNOWN_NAME with the nearest name. Blobs stay
 * owned by the net. Names by `index`, in the order in which layers make the blobs. */
CREMA_API crema_status crema_net_blob(crema_net *net, const char *name,
                                      crema_blob **out) CREMA_MUST_USE;
CREMA_API int crema_net_blob_count(const crema_net *net);
CREMA_API const char *crema_net_blob_name(const crema_net *net, int index);
CREMA_API crema_blob *crema_net_blob_at(crema_net *net, int index);
/* With what weight blob `index` is part of the loss; 0: it is not. */
CREMA_API float crema_net_blob_loss_weight(const crema_net *net, int index);

/* Layers in the order of running, with splits inserted, by the index `layer`, and their parameters,
 * by `index`. All that is returned stays owned by the net. */
CREMA_API const char *crema_net_name(const crema_net *net);
CREMA_API int crema_net_layer_count(const crema_net *net);
CREMA_API const char *crema_net_layer_name(const crema_net *net, int layer);
CREMA_API const char *crema_net_layer_type(const crema_net *net, int layer);
CREMA_API int crema_net_layer_param_count(const crema_net *net, int layer);
CREMA_API crema_blob *crema_net_layer_param(crema_net *net, int layer, int index);

/* The blobs that a layer reads and makes, as indices of crema_net_blob_at; -1 for an index out of
 * range. */
CREMA_API int crema_net_layer_bottom_count(const crema_net *net, int layer);
CREMA_API int crema_net_layer_bottom(const crema_net *net, int layer, int index);
CREMA_API int crema_net_layer_top_count(const crema_net *net, int layer);
CREMA_API int crema_net_layer_top(const crema_net *net, int layer, int index);

/* The layer's description as text, in text format. Free with crema_free.
 * Errors: CREMA_E_RANGE for no such layer, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_layer_text(const crema_net *net, int layer,
                                            char **out) CREMA_MUST_USE;

/* The net as text, in text format, from which the same net is built for the same phase: layers that
 * its rules left out are not in it, splits are, and neither are weights, nor options beside the
 * level and the stages. Free with crema_free. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_net_text(const crema_net *net, char **out) CREMA_MUST_USE;

/* What the net was built for. */
CREMA_API crema_phase crema_net_phase(const crema_net *net);

#ifdef __cplusplus
}
#endif
#endif
