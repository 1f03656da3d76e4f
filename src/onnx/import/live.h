/* The nodes that an import takes. */
#ifndef CR_ONNX_IMPORT_LIVE_H
#define CR_ONNX_IMPORT_LIVE_H

#include "onnx/import/graph.h"

/* Lists the nodes of the graph in import->node, and replaces the last node of each known pattern by
 * one node with the inputs of the pattern. */
crema_status cr_import_find_patterns(cr_import *import) CREMA_MUST_USE;

/* Replaces the nodes on which no output of the graph depends by NULL. import->used gets the names
 * of the values that nodes or the graph read. */
crema_status cr_import_drop_dead(cr_import *import) CREMA_MUST_USE;

#endif
