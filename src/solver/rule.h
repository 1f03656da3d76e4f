/* The update rule and settings of a solver file. */
#ifndef CR_SOLVER_RULE_H
#define CR_SOLVER_RULE_H

#include "device/backend/op_desc.h"
#include "solver/rate.h"

/* How the rate of one parameter depends on norms (local_rate.h). */
typedef enum cr_local_kind {
  CR_LOCAL_NONE,
  CR_LOCAL_LARC,
  CR_LOCAL_LARS,
  CR_LOCAL_LAMB
} cr_local_kind;

typedef struct cr_rule_row {
  const char *type; /* in solver files */
  cr_update_rule rule;
  int histories;    /* blobs per parameter */
  bool no_momentum; /* the rule does not use it */
  bool averages;    /* the first history is a mean of gradients, as larc_turbo needs it */
  bool apart;       /* weights always decay apart from the gradient */
  cr_local_kind local;
} cr_rule_row;

typedef struct cr_rule_settings {
  const cr_rule_row *row;
  cr_local_kind local;
  bool l1, decoupled; /* regularization_type; neither: L2 */
  bool keep_step;     /* leave the step in the diff, for snapshots with diffs and debug_info */
  float momentum2, rms_decay, delta, clip;
  int iter_size;
  crema_dtype history_type; /* of solver_data_type */
} cr_rule_settings;

/* Errors: see cr_updater_create. */
crema_status cr_rule_read(const Caffe__SolverParameter *param, const cr_schedule *schedule,
                          cr_rule_settings *out) CREMA_MUST_USE;

#endif
