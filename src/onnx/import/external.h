/* Numbers in files next to the model. */
#ifndef CR_ONNX_IMPORT_EXTERNAL_H
#define CR_ONNX_IMPORT_EXTERNAL_H

#include "onnx/import/graph.h"

/* Reads the `size` bytes of a tensor whose data_location is EXTERNAL. They live as long as the
 * import, aligned for any type. The file must be in the folder of the model or below it, and the
 * path must not contain "..", symlinks or a root. Errors name the tensor and the file:
 * CREMA_E_CORRUPT, CREMA_E_NO_MEMORY. */
crema_status cr_import_read_external(cr_import *import, const Onnx__TensorProto *tensor,
                                     size_t size, void **out) CREMA_MUST_USE;

#endif
