/* ONNX: nets out to files of the Open Neural Network Exchange, and files in as nets.
 *
 * crema_net_load, crema_model_load and all commands that take a net read .onnx files directly. The
 * weights are in the file. docs/onnx.md lists the layers and operators. */
#ifndef CREMA_ONNX_H
#define CREMA_ONNX_H

#include "crema/net.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How to write a file. Initialise with crema_onnx_options_init. */
typedef struct crema_onnx_options {
  int opset;      /* version of the operators, 11 to 21; newer runtimes read older versions */
  bool any_batch; /* the first dimension of each input is symbolic ("batch"), not the net's */
} crema_onnx_options;

/* Sets the defaults: operator set 13, the batch size of the net. */
CREMA_API void crema_onnx_options_init(crema_onnx_options *options);

/* Writes `net`, which must be of phase TEST, with its current shapes and weights to the ONNX file
 * `path`. Inputs and outputs keep the names of their blobs. Layers of training disappear: data
 * layers become inputs, a SoftmaxWithLoss becomes a Softmax, other losses and Accuracy leave their
 * first bottom as an output. `options` may be NULL. A failure leaves an existing file intact.
 *
 * Errors:
 *
 * - CREMA_E_UNSUPPORTED: ONNX cannot express some layers. The text lists all of them, each with the
 *   reason and the nearest layer that can be exported.
 * - CREMA_E_RANGE: the operator set.
 * - CREMA_E_STATE: the net is of phase TRAIN.
 * - CREMA_E_IO, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_onnx_export(crema_net *net, const crema_onnx_options *options,
                                         const char *path) CREMA_MUST_USE;

/* Converts the ONNX file `path` to a net in text format at `net_path` and its weights at
 * `weights_path`. Blobs have the names of the file's values. A symbolic first dimension of an input
 * becomes a batch of 1.
 *
 * Errors:
 *
 * - CREMA_E_UNSUPPORTED: no layer of crema computes some nodes. The text lists all of them, each
 *   with its operator and the reason.
 * - CREMA_E_CORRUPT: the file is damaged, or its graph is not valid.
 * - CREMA_E_NOT_FOUND, CREMA_E_IO, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_onnx_import(const char *path, const char *net_path,
                                         const char *weights_path) CREMA_MUST_USE;

/* The result of a comparison: for the output with the largest difference, relative to the largest
 * absolute value of that output in `net`. */
typedef struct crema_onnx_comparison {
  double difference;
  char output[256]; /* the name of that output; "" if all are equal */
  /* Layers of the file that its metadata describe, separated by ", ": their nodes did not take part
   * in the comparison. A list that is too long ends in "...". */
  char restored[1024];
} crema_onnx_comparison;

/* Reads the ONNX file `path` as a net and runs it and `net` on the same random inputs. *out gets
 * the largest difference of the outputs that both have. Errors: CREMA_E_UNKNOWN_NAME if they have
 * no output in common or an input is missing, CREMA_E_SHAPE, and as crema_onnx_import and
 * crema_net_forward. */
CREMA_API crema_status crema_onnx_compare(crema_net *net, const char *path,
                                          crema_onnx_comparison *out) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
