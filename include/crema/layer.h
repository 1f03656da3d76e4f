/* Custom layer types.
 *
 * A program registers a type: its name in prototxt files, and functions that crema calls for each
 * layer of that type. The thread that builds or runs the net calls them. They access the layer's
 * blobs, parameters and description with the functions below. Values are read and written on the
 * host with the functions of crema/blob.h.
 *
 * The functions return CREMA_OK or a failure, which ends the net's operation. crema_layer_fail
 * creates a failure with a text. */
#ifndef CREMA_LAYER_H
#define CREMA_LAYER_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer of a registered type, passed to its functions. */
typedef struct crema_layer crema_layer;

/* One of the functions of a layer type. */
typedef crema_status crema_layer_fn(crema_layer *layer);

/* As max_bottoms or max_tops: no maximum. */
enum { CREMA_ANY = -1 };

/* A layer type. Initialise all members to zero. */
typedef struct crema_layer_type {
  const char *type;             /* the name, such as "MyLoss"; copied */
  int min_bottoms, max_bottoms; /* number of blobs it reads; max_bottoms can be CREMA_ANY */
  int min_tops, max_tops;       /* number of blobs it writes; max_tops can be CREMA_ANY */
  bool loss;                    /* the default loss_weight of the first top is 1 */
  /* Called once, after the bottoms got their shapes. Reads fields and adds parameters. May be NULL.
   */
  crema_layer_fn *setup;
  /* Sets the shapes of the tops (crema_blob_reshape). Called after setup and before each forward
   * pass. */
  crema_layer_fn *reshape;
  /* Computes the tops from the bottoms. */
  crema_layer_fn *forward;
  /* Computes gradients from the diffs of the tops. It writes the diff of each bottom that wants one
   * (crema_layer_propagate_down). It adds to the diff of each parameter that learns
   * (crema_layer_param_learns). NULL: the layer has no gradient. */
  crema_layer_fn *backward;
  /* Called when the layer is destroyed, even after a failed setup. May be NULL. */
  void (*destroy)(crema_layer *layer);
  void *user; /* see crema_layer_user; must outlive all layers of the type */
  /* Only for type "Python": whether the module that a layer names can be imported. If it cannot be,
   * crema uses its own layer for that module, if it has one. NULL: always true. */
  bool (*has_module)(void *user, const char *module);
} crema_layer_type;

/* Registers `type` for all nets that the process builds afterwards. A type cannot be unregistered.
 * Errors: CREMA_E_EXISTS for a name in use, CREMA_E_ARGUMENT without a name, reshape or forward,
 * CREMA_E_RANGE for a minimum above its maximum. */
CREMA_API crema_status crema_layer_register(const crema_layer_type *type) CREMA_MUST_USE;

/* Shared objects. A shared object with layer types defines
 *
 *   crema_status CREMA_PLUGIN(void) { return crema_layer_register(&my_type); }
 *
 * It need not be linked with libcrema: it uses the functions of the program that opens it. */
#define CREMA_PLUGIN crema_plugin_1
#if defined(__GNUC__) || defined(__clang__)
__attribute__((visibility("default")))
#endif
crema_status
CREMA_PLUGIN(void);

/* Opens the shared object `path`, once per process, and registers its types. A layer in a prototxt
 * file can do the same:
 *
 *   type: 'Plugin' plugin_param { library: 'my.so' type: 'MyLoss' }
 *
 * A prototxt may omit plugin_param's type if the object has only one. A relative path is tried from
 * the working directory and, for a layer, from the folder of the net's file. No other folders are
 * searched. The object's code runs with all rights of the program. Errors: CREMA_E_NOT_FOUND,
 * CREMA_E_UNSUPPORTED for a file that cannot be opened or has no types for this version of crema,
 * and the errors of crema_layer_register. */
CREMA_API crema_status crema_layer_load(const char *path) CREMA_MUST_USE;

/* The number of known layer types and their names by `index`. Crema's own types come first, in
 * alphabetical order, then the registered types in the order of their registration. NULL for an
 * index out of range. Static storage. */
CREMA_API int crema_layer_type_count(void);
CREMA_API const char *crema_layer_type_name(int index);

/* The layer's name (owned by the layer), its phase, and the `user` pointer of its type, which stays
 * the caller's. */
CREMA_API const char *crema_layer_name(const crema_layer *layer);
CREMA_API crema_phase crema_layer_phase(const crema_layer *layer);
CREMA_API void *crema_layer_user(const crema_layer *layer);

/* A pointer for the layer's own use, NULL at first. `setup` sets it to an object `state` that it
 * creates and `destroy` frees. The object stays the caller's. */
CREMA_API void *crema_layer_state(const crema_layer *layer);
CREMA_API void crema_layer_set_state(crema_layer *layer, void *state);

/* The state pointer of layer number `layer` of a net. NULL for a layer of crema's own types and for
 * an index out of range. The object stays the caller's. */
CREMA_API void *crema_net_layer_state(const crema_net *net, int layer);

/* The layer's bottoms and tops by `index`, owned by the net. There are none in `destroy`. NULL for
 * an index out of range. */
CREMA_API int crema_layer_bottom_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_bottom(crema_layer *layer, int index);
CREMA_API int crema_layer_top_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_top(crema_layer *layer, int index);

/* For `backward`: whether bottom `index` needs a gradient. */
CREMA_API bool crema_layer_propagate_down(const crema_layer *layer, int index);

/* The layer's parameters by `index`, owned by the layer. NULL for an index out of range. */
CREMA_API int crema_layer_param_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_param(crema_layer *layer, int index);

/* For `backward`: whether parameter `index` learns. */
CREMA_API bool crema_layer_param_learns(const crema_layer *layer, int index);

/* For `setup`: adds a parameter of the given shape. `filler` is the text of a filler, such as
 * "type: 'xavier'"; NULL fills it with zeros. *out (may be NULL) is owned by the layer. Errors:
 * CREMA_E_STATE outside of setup, CREMA_E_PARSE, CREMA_E_UNKNOWN_NAME for an unknown filler,
 * CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_layer_add_param(crema_layer *layer, const crema_shape *shape,
                                             const char *filler, crema_blob **out) CREMA_MUST_USE;

/* The value of a field of the layer's description as text. `path` is the field's path, such as
 * "python_param.param_str" or "name"; an empty path gives the whole description. A field that is
 * not set gives its default.
 *
 * A string is returned unquoted, a number in digits, a message in text format. Several values are
 * separated by spaces. Free with crema_free. Errors: CREMA_E_UNKNOWN_NAME for an unknown
 * field, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_layer_field(const crema_layer *layer, const char *path,
                                         char **out) CREMA_MUST_USE;

/* Reports a failure of the layer: sets the error text to the layer's name and `text`, and returns
 * the error `code`. */
CREMA_API crema_status crema_layer_fail(const crema_layer *layer, crema_status code,
                                        const char *text) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
