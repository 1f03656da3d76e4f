/* ONNX into the net. */
#ifndef CR_ONNX_IMPORT_IMPORT_H
#define CR_ONNX_IMPORT_IMPORT_H

#include "onnx/format/model_file.h"

/* Reads the ONNX file `path` as a net whose layers have their parameters (blobs). The caller frees
 * *out with cr_message_free. A first dimension without a number is a batch of 1. Errors:
 * CREMA_E_UNSUPPORTED, whose text lists every node that cannot be imported with its reason; as
 * cr_onnx_model_open. */
crema_status cr_onnx_import(const char *path, Caffe__NetParameter **out) CREMA_MUST_USE;

/* The same. *restored gets the names of the layers that were made from metadata and not from their
 * nodes, separated by ", "; the caller frees it, also after a failure. */
crema_status cr_onnx_import_listing(const char *path, Caffe__NetParameter **out,
                                    cr_buffer *restored) CREMA_MUST_USE;

#endif
