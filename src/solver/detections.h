/* Scores of test nets that end in DetectionEvaluate: the mean average precision. */
#ifndef CR_SOLVER_DETECTIONS_H
#define CR_SOLVER_DETECTIONS_H

#include "core/buffer.h"
#include "crema/net.h"
#include "parallel/world.h"
#include "proto/proto.h"

/* Results of DetectionEvaluate over batches. Zero-initialise; free with cr_detections_free. */
typedef struct cr_detections {
  cr_buffer row; /* five doubles each: an object count or a detection */
} cr_detections;

/* Whether eval_type is "detection". */
bool cr_detections_wanted(const Caffe__SolverParameter *param);

/* Errors: CREMA_E_UNKNOWN_NAME for an unknown eval_type or ap_version. */
crema_status cr_detections_check(const Caffe__SolverParameter *param) CREMA_MUST_USE;
crema_status cr_detections_check_version(const char *ap_version) CREMA_MUST_USE;

/* Adds an output of the net's last pass. Errors: CREMA_E_SHAPE unless it may be an output of
 * DetectionEvaluate. */
crema_status cr_detections_add_output(cr_detections *to, crema_net *net, int output) CREMA_MUST_USE;

/* Adds all outputs. */
crema_status cr_detections_add(cr_detections *to, crema_net *net) CREMA_MUST_USE;

crema_status cr_detections_append(cr_detections *to, const cr_detections *from) CREMA_MUST_USE;

/* Gives each process the results of all. */
crema_status cr_detections_gather(cr_detections *of, cr_world *world) CREMA_MUST_USE;

/* Computes the mean average precision of each output; *score is the first. With `logs` it logs them
 * and, with show_per_class_result, the average precision of each class. Sorts the rows. Errors:
 * CREMA_E_NO_MEMORY. */
crema_status cr_detections_report(cr_detections *of, const Caffe__SolverParameter *param,
                                  crema_net *net, bool logs, double *score) CREMA_MUST_USE;

void cr_detections_free(cr_detections *of);

#endif
