/* Groups of nodes that compute a layer, and the metadata that describes the layer.
 *
 * The key of an entry is "crema.layer.<name of the layer>". Its value has these lines:
 *
 * - "nodes 12 8f2c6e1d5a3b4790 warp/Floor": the number of nodes, their hash, and the first output
 * of the first node.
 * - "input N 3 4 4": the shape of a bottom. Each bottom has a line.
 * - "output N 3 4 4": the shape of a top.
 * - "parameter 12 3 lstm/weights": the shape and the initializer of a parameter.
 * - "layer": the layer in text format follows. Its bottoms and tops are names of values, and it has
 *   no parameters.
 *
 * N is a symbolic batch. A "?" is a size that depends on the data; it is 1 before the first run. */
#ifndef CR_ONNX_FORMAT_GROUP_H
#define CR_ONNX_FORMAT_GROUP_H

#include "core/name_map.h"
#include "onnx/format/model_file.h"

#define CR_ONNX_GROUP_KEY "crema.layer."

enum { CR_ONNX_HASH_TEXT = 17 };

/* Whether metadata may describe layers of this type. */
bool cr_onnx_is_restored(const char *type);

/* Sets `text` to a hash of `count` nodes: operators, values, attributes, and the numbers of the
 * initializers that they read. `constants` has the names of these initializers, with their places
 * in `initializer`. */
crema_status cr_onnx_hash_nodes(Onnx__NodeProto *const *node, size_t count,
                                const cr_name_map *constants, Onnx__TensorProto *const *initializer,
                                char text[CR_ONNX_HASH_TEXT]) CREMA_MUST_USE;

#endif
