/* The ends of the net. */
#ifndef CR_ONNX_IMPORT_OUTPUTS_H
#define CR_ONNX_IMPORT_OUTPUTS_H

#include "onnx/import/graph.h"

/* Gives each output of the graph a blob of its name that is an output of the net, and adds Silence
 * layers for the blobs that nothing reads. */
crema_status cr_import_make_outputs(cr_import *import) CREMA_MUST_USE;

#endif
