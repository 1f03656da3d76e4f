/* A net out to ONNX. */
#ifndef CR_ONNX_EXPORT_EXPORT_H
#define CR_ONNX_EXPORT_EXPORT_H

#include "net/net.h"

enum { CR_ONNX_OPSET_FIRST = 11, CR_ONNX_OPSET = 13, CR_ONNX_OPSET_LAST = 21 };

/* Writes `net`, of phase TEST, with its shapes and weights to `path`. `any_batch`: dimension 0 of
 * the inputs is symbolic. Errors: CREMA_E_UNSUPPORTED, whose text lists every layer that ONNX
 * cannot express; CREMA_E_RANGE for the operator set; CREMA_E_STATE for a net of phase TRAIN;
 * CREMA_E_IO. */
crema_status cr_onnx_export(crema_net *net, int opset, bool any_batch,
                            const char *path) CREMA_MUST_USE;

#endif
