/* Compiled models: nets that only run forward, optimised for speed and shared between threads.
 *
 * A model is a TEST net and its weights after optimisation passes. The passes remove work that the
 * outputs do not need and fuse layers. A model is read-only.
 *
 * A session runs a model. Any number of sessions can run one model, each in its own thread and with
 * its own batch size. All sessions share one copy of the weights. The results of a session do not
 * depend on other threads. Unless a lower precision is chosen, they differ from the net's own
 * results by at most 1e-5 of the largest value.
 *
 *   crema_model *model = NULL;
 *   crema_session *session = NULL;
 *   crema_preprocessing *images = NULL;
 *
 *   crema_model_load("deploy.prototxt", "net.caffemodel", NULL, &model);
 *   crema_session_create(model, NULL, &session);
 *   crema_model_preprocessing(model, 0, &images);
 *   crema_preprocessing_load(images, "cat.jpg", crema_session_input(session, 0), 0);
 *   crema_session_run(session);
 *   ... read crema_session_output(session, 0) ...
 *
 * Threads: several threads may create sessions of a model at once. One thread at a time uses a
 * session and its blobs. */
#ifndef CREMA_MODEL_H
#define CREMA_MODEL_H

#include "crema/blob.h"
#include "crema/device.h"
#include "crema/preprocessing.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A compiled net with its weights. */
typedef struct crema_model crema_model;
/* The blobs of one run of a model. */
typedef struct crema_session crema_session;

/* The arithmetic of a model. Inputs, outputs and kept blobs are FLOAT for every precision. */
typedef enum crema_precision {
  CREMA_PRECISION_F32,  /* float32 */
  CREMA_PRECISION_BF16, /* bfloat16, on CPUs that have instructions for it */
  CREMA_PRECISION_INT8  /* int8, with scales from a table or the net's quantization_param */
} crema_precision;

/* How to compile a model. Initialise with crema_model_options_init. Strings and lists need not
 * outlive the call. */
typedef struct crema_model_options {
  int level;                 /* with stages: selects layers by their rules; see crema/net.h */
  const char *const *stages; /* names of the stages */
  size_t stage_count;        /* number of stages */
  const char *const *keep; /* names of blobs to keep readable, in addition to inputs and outputs */
  size_t keep_count;       /* number of names in `keep` */
  const char *const *without; /* names of passes to skip; docs/deploy.md lists them */
  size_t without_count;       /* number of names in `without` */
  crema_precision precision;  /* docs/deploy.md describes the effect on accuracy */
  const char *table;  /* for CREMA_PRECISION_INT8: a file from crema calibrate or ncnn; or NULL */
  int64_t seed;       /* of weights that no file contains; negative: a different one each time */
  bool allow_missing; /* layers without weights in the files keep their initial values */
  bool warn_unknown_fields; /* unknown fields in text are a warning, not an error */
  bool skip_corrupt;        /* skip records that cannot be decoded, with a warning */
} crema_model_options;

/* Sets the defaults: level 0, empty lists, CREMA_PRECISION_F32, no table, seed -1, all else false.
 */
CREMA_API void crema_model_options_init(crema_model_options *options);

/* Compiles the net in the text file `net`, with the weights of the .caffemodel files `weights`.
 * Several files are separated by commas. NULL: the initial weights of the fillers. `options` may be
 * NULL. Free with crema_model_destroy.
 *
 * The files must not change while the model exists. They are read a second time if a session
 * requests a blob that the passes removed.
 *
 * Errors: as crema_net_load and crema_net_load_weights_with, and
 *
 * - CREMA_E_UNKNOWN_NAME: an unknown name in `keep` or `without`.
 * - CREMA_E_ARGUMENT: CREMA_PRECISION_INT8, but neither a table nor the net has scales.
 * - CREMA_E_PARSE: a syntax error in the table. */
CREMA_API crema_status crema_model_load(const char *net, const char *weights,
                                        const crema_model_options *options,
                                        crema_model **out) CREMA_MUST_USE;

/* As crema_model_load, from memory. `net` is the text of a net, of `net_size` bytes. `weights` is
 * the content of a binary .caffemodel, of `weights_size` bytes. NULL: the initial weights of the
 * fillers. The text may be freed after the call. The weights must stay valid and unchanged while
 * the model exists. `options` may be NULL. Free with crema_model_destroy. Errors: as
 * crema_model_load. */
CREMA_API crema_status crema_model_load_memory(const char *net, size_t net_size,
                                               const void *weights, size_t weights_size,
                                               const crema_model_options *options,
                                               crema_model **out) CREMA_MUST_USE;

/* Frees the model. The weights stay until its last session is destroyed. Accepts NULL. */
CREMA_API void crema_model_destroy(crema_model *model);

/* A report of the passes' changes, as lines of text. Owned by the model. */
CREMA_API const char *crema_model_explain(const crema_model *model);

/* The preprocessing of images for input `index`: the same as of the plain net
 * (crema_preprocessing_create). It stays owned by the model, for all sessions, and lives as
 * long as the model and its sessions. Errors: as crema_preprocessing_create. */
CREMA_API crema_status crema_model_preprocessing(crema_model *model, int index,
                                                 crema_preprocessing **out) CREMA_MUST_USE;

/* How a session runs. Initialise with crema_session_options_init. */
typedef struct crema_session_options {
  crema_device *device; /* must be the same for all sessions of a model; NULL: the CPU */
  int threads;          /* maximum number of host threads; 0: all available threads */
  crema_math math;      /* exactness of products and sums on a GPU */
} crema_session_options;

/* Sets the defaults: the CPU, with all threads. */
CREMA_API void crema_session_options_init(crema_session_options *options);

/* Creates a session of `model`. `options` may be NULL. Free with crema_session_destroy, either
 * earlier or later than the model. Errors: as building a net (crema_net_load), CREMA_E_STATE for a
 * device other than the device of the model's first session, CREMA_E_RANGE for negative threads. */
CREMA_API crema_status crema_session_create(crema_model *model,
                                            const crema_session_options *options,
                                            crema_session **out) CREMA_MUST_USE;

/* Frees a session. Accepts NULL. */
CREMA_API void crema_session_destroy(crema_session *session);

/* Inputs and outputs by `index`, with their names. Inputs are the tops of Input layers; reshape
 * them (crema_blob_reshape) as needed before a run. Outputs are the blobs that no layer of the net
 * consumes, in alphabetical order. Blobs and names stay owned by the session. NULL for an index out
 * of range. */
CREMA_API int crema_session_input_count(const crema_session *session);
CREMA_API crema_blob *crema_session_input(crema_session *session, int index);
CREMA_API const char *crema_session_input_name(const crema_session *session, int index);
CREMA_API int crema_session_output_count(const crema_session *session);
CREMA_API crema_blob *crema_session_output(crema_session *session, int index);
CREMA_API const char *crema_session_output_name(const crema_session *session, int index);

/* The blob of the net named `name`. *out stays owned by the session. If the passes removed the
 * blob, this recompiles the model so that it keeps the blob. The blob has its values after the next
 * run. Errors: CREMA_E_UNKNOWN_NAME, which names the nearest name, and as crema_model_load. */
CREMA_API crema_status crema_session_blob(crema_session *session, const char *name,
                                          crema_blob **out) CREMA_MUST_USE;

/* Computes all outputs from the inputs. Errors: as crema_net_forward. */
CREMA_API crema_status crema_session_run(crema_session *session) CREMA_MUST_USE;

/* Current memory use in bytes, host and device together. */
typedef struct crema_session_memory {
  size_t weights;     /* shared by all sessions; most are loaded at the second run */
  size_t activations; /* used by this session only */
} crema_session_memory;

/* Writes a session's memory use to *out. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_session_memory_read(const crema_session *session,
                                                 crema_session_memory *out) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
