/* Layer types of a program's own.
 *
 * A program registers a type: its name in the prototxt and functions that are called for every
 * layer of that type, in the thread that builds or runs the net. They get at the layer's blobs, its
 * parameters and the fields of its description with the functions below, and return CREMA_OK or a
 * failure, which ends what the net was doing; crema_layer_fail makes one with a text. Values are
 * read and written on the host with the functions of crema/blob.h. */
#ifndef CREMA_LAYER_H
#define CREMA_LAYER_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A layer of a registered type, as its functions see it. */
typedef struct crema_layer crema_layer;

/* One of the functions of a layer type. */
typedef crema_status crema_layer_fn(crema_layer *layer);

/* In min_bottoms and so on: any number. */
enum { CREMA_ANY = -1 };

/* What a layer type is. Start from zeros. */
typedef struct crema_layer_type {
  const char *type;             /* the name, such as "MyLoss"; copied */
  int min_bottoms, max_bottoms; /* how many blobs it reads; a maximum of CREMA_ANY: no bound */
  int min_tops, max_tops;       /* how many it makes */
  bool loss; /* its first top is part of the loss unless loss_weight says otherwise */
  /* Called once, when the bottoms have their shapes: reads fields, adds parameters. May be NULL. */
  crema_layer_fn *setup;
  /* Gives the tops their shapes (crema_blob_reshape): after setup and before each forward pass. */
  crema_layer_fn *reshape;
  /* Fills the tops from the bottoms. */
  crema_layer_fn *forward;
  /* Fills the diffs of those bottoms that crema_layer_propagate_down tells of, from those of the
   * tops, and adds to the diffs of those parameters that crema_layer_param_learns tells of. NULL:
   * the layer has no gradient. */
  crema_layer_fn *backward;
  /* Called when the layer goes, also after a setup that failed. May be NULL. */
  void (*destroy)(crema_layer *layer);
  void *user; /* see crema_layer_user; must stay valid */
  /* Of type "Python": whether the module that a layer names can be imported. Where it cannot, a
   * layer that crema has itself (docs/migrating.md names them) is crema's own. NULL: it can. */
  bool (*has_module)(void *user, const char *module);
} crema_layer_type;

/* Makes the type known to all nets of the process that are built from now on. There is no way back.
 * Errors: CREMA_E_EXISTS for a name that is taken, CREMA_E_ARGUMENT without a name or without
 * reshape and forward, CREMA_E_RANGE for a minimum above its maximum. */
CREMA_API crema_status crema_layer_register(const crema_layer_type *type) CREMA_MUST_USE;

/* Shared objects. One that has layer types defines
 *
 *   crema_status CREMA_PLUGIN(void) { return crema_layer_register(&my_type); }
 *
 * and need not be linked with libcrema: it finds the functions in the program that opens it. */
#define CREMA_PLUGIN crema_plugin_1
#if defined(__GNUC__) || defined(__clang__)
__attribute__((visibility("default")))
#endif
crema_status
CREMA_PLUGIN(void);

/* Opens the shared object `path`, once in a process, and registers its types. A layer in a prototxt
 * does the same: "type: 'Plugin' plugin_param { library: 'my.so' type: 'MyLoss' }", where `type`
 * may be left out when the object has one. The path is tried from the working directory, for a
 * layer also from the folder of the net's file; no other folders are searched. An object's code may
 * do whatever the program may. Errors: CREMA_E_NOT_FOUND, CREMA_E_UNSUPPORTED for a file that
 * cannot be opened or has no types for this version, those of registering. */
CREMA_API crema_status crema_layer_load(const char *path) CREMA_MUST_USE;

/* The types that nets can have, in alphabetical order of crema's own, then those registered, in
 * their order. NULL for an index out of range. Static storage. */
CREMA_API int crema_layer_type_count(void);
CREMA_API const char *crema_layer_type_name(int index);

/* What a layer's functions can ask: its name, the phase it was made for, type->user,
 * which stays the caller's. The name is owned by the layer. */
CREMA_API const char *crema_layer_name(const crema_layer *layer);
CREMA_API crema_phase crema_layer_phase(const crema_layer *layer);
CREMA_API void *crema_layer_user(const crema_layer *layer);

/* The layer's own object `state`, NULL at first: for `setup` to make and `destroy` to free. It
 * stays the caller's. */
CREMA_API void *crema_layer_state(const crema_layer *layer);
CREMA_API void crema_layer_set_state(crema_layer *layer, void *state);

/* The state of a net's layer of a registered type, by the index `layer`; NULL for a layer of one of
 * crema's own types and for an index out of range. It stays the caller's. */
CREMA_API void *crema_net_layer_state(const crema_net *net, int layer);

/* Its bottoms and tops; owned by the net. None in `destroy`. NULL for an index out of range. */
CREMA_API int crema_layer_bottom_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_bottom(crema_layer *layer, int index);
CREMA_API int crema_layer_top_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_top(crema_layer *layer, int index);

/* In `backward`: whether bottom `index` wants a gradient. */
CREMA_API bool crema_layer_propagate_down(const crema_layer *layer, int index);

/* Its parameters by `index`, owned by the layer. */
CREMA_API int crema_layer_param_count(const crema_layer *layer);
CREMA_API crema_blob *crema_layer_param(crema_layer *layer, int index);

/* In `backward`: whether parameter `index` learns. */
CREMA_API bool crema_layer_param_learns(const crema_layer *layer, int index);

/* In `setup`: adds a parameter, filled as `filler` says, a text such as "type: 'xavier'" (NULL:
 * with zeros). *out (may be NULL) is owned by the layer. Errors: CREMA_E_STATE later than in setup,
 * CREMA_E_PARSE, CREMA_E_UNKNOWN_NAME for a filler, CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_layer_add_param(crema_layer *layer, const crema_shape *shape,
                                             const char *filler, crema_blob **out) CREMA_MUST_USE;

/* The field `path` of the layer's description as text, such as "python_param.param_str" or "name":
 * a string as it is, a number in digits, a message in its text form, several values with spaces
 * between; the default where it is not given. The empty path gives the whole description. Free with
 * crema_free. Errors: CREMA_E_UNKNOWN_NAME for a field that the schema lacks, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_layer_field(const crema_layer *layer, const char *path,
                                         char **out) CREMA_MUST_USE;

/* Returns `code` and makes `text` its error text, with the layer's name. */
CREMA_API crema_status crema_layer_fail(const crema_layer *layer, crema_status code,
                                        const char *text) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
