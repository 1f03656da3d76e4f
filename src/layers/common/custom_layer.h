/* Layers whose types a program registered (crema/layer.h). */
#ifndef CR_LAYERS_CUSTOM_LAYER_H
#define CR_LAYERS_CUSTOM_LAYER_H

#include "crema/layer.h"
#include "layers/common/layer.h"

/* The class of a registered type; NULL: there is none of that name. */
const cr_layer_class *cr_custom_layer_find(const char *type);

/* Has `start` provide the type "Python" when a net first needs it. It registers the type, or fails.
 */
void cr_custom_layer_on_python(crema_status (*start)(void));

/* The class of layers of type "Python", from the function above if it is not registered; *out is
 * NULL without either. Errors: of that function. */
crema_status cr_custom_layer_find_python(const cr_layer_class **out) CREMA_MUST_USE;

/* Whether a type "Python" is registered, not by cr_custom_layer_on_python, and has the module. */
bool cr_custom_layer_has_module(const char *module);

/* The name of registered type `index`, in the order of registration; NULL beyond the last. */
const char *cr_custom_layer_name(int index);

/* Opens the shared object `path`, unless it is open already. Sets *out (may be NULL) to its type
 * called `type`, or to its only type if `type` is NULL or empty. `net_path` (may be NULL) is the
 * file that names it. Errors: as crema_layer_load; CREMA_E_UNKNOWN_NAME for a type that it lacks.
 */
crema_status cr_custom_layer_load(const char *path, const char *net_path, const char *type,
                                  const cr_layer_class **out) CREMA_MUST_USE;

/* The state that the functions of the layer's type gave it; NULL for a type of the library's. */
void *cr_custom_layer_state(const cr_layer *layer);

/* Registers a type whose name no layer of the library has. Errors: see crema_layer_register. */
crema_status cr_custom_layer_add(const crema_layer_type *type) CREMA_MUST_USE;

#endif
