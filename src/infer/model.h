/* What sessions need of a model. */
#ifndef CR_INFER_MODEL_H
#define CR_INFER_MODEL_H

#include <pthread.h>

#include "core/fail.h"
#include "core/list.h"
#include "crema/model.h"
#include "infer/program.h"
#include "ops/plan_cache.h"

/* A file as it was when the model was loaded. */
typedef struct cr_model_stamp {
  int64_t size, seconds, nanoseconds; /* the last two: when it was changed */
} cr_model_stamp;

/* The preprocessing of an input, or the failure to make it. */
typedef struct cr_model_images {
  crema_preprocessing *preprocessing;
  crema_status status;
  cr_error *error;
} cr_model_images;

struct crema_model {
  pthread_mutex_t lock; /* for all that changes */
  int references;       /* the caller's, and one per session */
  Caffe__NetParameter *source;
  char *path; /* of the net; for relative paths in it */
  cr_list weights;
  cr_model_stamp *stamp; /* one per file of weights */
  const void *bytes;     /* weights in memory of the caller's; NULL: in files, or none */
  size_t size;
  cr_list stages, without, keep;
  crema_precision precision;
  cr_scales scales;
  crema_net_options options; /* of the net as it is; `stages` are those above */
  bool allow_missing;
  crema_device *device; /* of all sessions; NULL: there was none yet */
  cr_program *program;  /* which has all of `keep` */
  cr_plan_cache *plans; /* of the ops of all sessions */
  cr_buffer text;       /* the lines of the passes the first time */
  int inputs;
  cr_model_images *images; /* one per input */
};

/* Adds or drops a reference to the model; dropping the last reference frees it. */
void cr_model_retain(crema_model *model);
void cr_model_release(crema_model *model);

/* To be called for each session's device. Errors: CREMA_E_STATE if earlier sessions have another
 * device: threads cannot read weights on two devices. */
crema_status cr_model_use_device(crema_model *model, crema_device *device) CREMA_MUST_USE;

/* The newest program, with one reference more, to be given back with cr_model_drop_program. */
cr_program *cr_model_take_program(crema_model *model);
void cr_model_drop_program(crema_model *model, cr_program *program);

/* Makes sure that the newest program has the blob, and compiles again if need be. Errors:
 * CREMA_E_UNKNOWN_NAME, CREMA_E_STATE when a file has changed. */
crema_status cr_model_keep(crema_model *model, const char *blob) CREMA_MUST_USE;

/* cr_program_build, one at a time. */
crema_status cr_model_build(crema_model *model, const cr_program *program, crema_context *context,
                            crema_net **out) CREMA_MUST_USE;

#endif
