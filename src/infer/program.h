/* A net after the passes, with its weights. Sessions build their nets from it. */
#ifndef CR_INFER_PROGRAM_H
#define CR_INFER_PROGRAM_H

#include "infer/graph.h"

/* Read-only after creation, except for the formats of the weights' tensors. */
typedef struct cr_program {
  int references; /* of the model and its sessions; under the model's lock */
  Caffe__NetParameter *param;
  cr_net_frozen_layer *frozen; /* one per layer of `param` */
  size_t layers;               /* that `frozen` has room for */
  cr_batch_cost batch;
} cr_program;

/* Names the remaining values and makes a program of the layers, which it owns afterwards. A top
 * that no layer reads and that is no output gets a Silence layer, so that the net's outputs stay
 * the same. */
crema_status cr_program_make(cr_graph *graph, cr_program **out) CREMA_MUST_USE;
void cr_program_destroy(cr_program *program);

/* Builds a net on `context`, which it does not own. `path` names the net's file. */
crema_status cr_program_build(const cr_program *program, const crema_net_options *options,
                              const char *path, crema_context *context,
                              crema_net **out) CREMA_MUST_USE;

/* Whether the program's nets have the blob, with the values that it has at the end of a pass. */
bool cr_program_has(const cr_program *program, const char *blob);

#endif
