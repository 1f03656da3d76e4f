/* The passes of a graph. Each can be switched off. */
#ifndef CR_INFER_PASSES_H
#define CR_INFER_PASSES_H

#include "infer/graph.h"

typedef crema_status cr_pass_run(cr_graph *graph) CREMA_MUST_USE;

/* A pass changes nothing unless it is certain that the results stay the same. */
typedef struct cr_pass {
  const char *name, *what; /* a word, and a description for help and explanations */
  cr_pass_run *run;
} cr_pass;

/* All passes in the order in which they run. */
extern const cr_pass cr_passes[];
extern const size_t cr_pass_count;

/* Runs all passes except `without`. Errors: CREMA_E_UNKNOWN_NAME for an unknown name. */
crema_status cr_passes_run(cr_graph *graph, const char *const *without,
                           size_t count) CREMA_MUST_USE;

/* The axis of a Concat or Slice, under its name of today or in older files. */
int64_t cr_pass_axis(const cr_graph_layer *layer);

/* Whether a convolution has windows of one element and no padding. */
bool cr_pass_is_pointwise(const cr_graph_layer *layer);

/* Whether the layer writes its values anew in each pass. */
bool cr_pass_makes_anew(const cr_graph *graph, int layer);

/* Whether no layer after `layer` reads the value or another value in its memory, and no caller
 * requests it. */
bool cr_pass_reads_before(const cr_graph *graph, int value, int layer);

/* One file each. */
cr_pass_run cr_pass_train, cr_pass_constants, cr_pass_dead, cr_pass_fold, cr_pass_stride,
    cr_pass_fuse, cr_pass_bf16, cr_pass_int8, cr_pass_winograd, cr_pass_parts, cr_pass_slice,
    cr_pass_concat, cr_pass_batch;

#endif
