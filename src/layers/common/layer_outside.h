/* Layers whose types a program registered (crema/layer.h). */
#ifndef CR_LAYERS_LAYER_OUTSIDE_H
#define CR_LAYERS_LAYER_OUTSIDE_H

#include "crema/layer.h"
#include "layers/common/layer.h"

/* The class of a registered type; NULL: there is none of that name. */
const cr_layer_class *cr_layer_outside_find(const char *type);

/* The name of registered type `index`, in the order of registration; NULL beyond the last. */
const char *cr_layer_outside_name(int index);

/* Registers a type whose name no layer of the library has. Errors: see crema_layer_register. */
crema_status cr_layer_outside_add(const crema_layer_type *type) CREMA_MUST_USE;

#endif
