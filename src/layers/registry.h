/* All layers (layers.inc), found by their type. */
#ifndef CR_LAYERS_REGISTRY_H
#define CR_LAYERS_REGISTRY_H

#include "layers/common/layer.h"

/* Finds the class for a type name. Errors: CREMA_E_UNKNOWN_NAME with the nearest name or
 * some known types. */
crema_status cr_layer_class_find(const char *type, const cr_layer_class **out) CREMA_MUST_USE;

/* The class for a layer's description: by its type, or for type "Plugin" from the shared object
 * that it names. `net_path` (may be NULL) is the net's file. Errors: also as crema_layer_load. */
crema_status cr_layer_class_of(const Caffe__LayerParameter *param, const char *net_path,
                               const cr_layer_class **out) CREMA_MUST_USE;

/* Whether a net can have layers of this type; Python and Plugin included. */
bool cr_layer_type_is_known(const char *type);

/* The text for a type that is not known, with the fork that defines it, the nearest name or some
 * known types. */
enum { CR_LAYER_TYPE_TEXT = 512 };
void cr_layer_describe_unknown(const char *type, char text[CR_LAYER_TYPE_TEXT]);

/* A layer type of a fork of Caffe that crema does not have. */
typedef struct cr_fork_type {
  const char *type, *fork;
  const char *nearest; /* the type of crema that does about the same, or NULL */
} cr_fork_type;

/* All of them (fork_types.inc), sorted; *count of them. Static storage. */
const cr_fork_type *cr_layer_fork_types(size_t *count);

/* All classes, such as cr_layer_split, whose layers the net inserts if several layers read one
 * blob. */
#define CR_LAYER(name, type) extern const cr_layer_class cr_layer_##name;
#include "layers/layers.inc"
#undef CR_LAYER

/* All class names, in alphabetical order; *count of them. Static storage. */
const char *const *cr_layer_class_names(size_t *count);

/* Creates a layer of the class param->type; see cr_layer_create_as. Errors: as cr_layer_class_find,
 * with the layer's name. */
crema_status cr_layer_create(const Caffe__LayerParameter *param, Caffe__Phase phase,
                             crema_context *context, uint64_t seed, const char *net_path,
                             cr_layer **out) CREMA_MUST_USE;

#endif
