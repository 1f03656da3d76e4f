/* Layers that the metadata of a file describes, so that they need not be made from their nodes. */
#ifndef CR_ONNX_IMPORT_METADATA_H
#define CR_ONNX_IMPORT_METADATA_H

#include "onnx/import/graph.h"

/* Reads the metadata and keeps the layers whose nodes are in the file unchanged. Others are
 * ignored, with a warning. */
crema_status cr_import_read_groups(cr_import *import) CREMA_MUST_USE;

/* If such a layer begins at node `index`, adds it; *taken is the number of its nodes, else 0. */
crema_status cr_import_take_group(cr_import *import, size_t index, size_t *taken) CREMA_MUST_USE;

void cr_import_free_groups(cr_import *import);

#endif
