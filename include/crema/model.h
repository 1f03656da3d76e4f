/* Compiled models: nets that only run forward, made fast for it and shared between threads.
 *
 * A model is a net of phase TEST with its weights after passes that leave out what its outputs do
 * not need, and give the work of several layers to one. It is read-only, and any number of sessions
 * run it, each in a thread of its own and with batches of its own size, with weights that exist
 * once. What a session computes is within 1e-5 of the largest value of what the net itself
 * computes, unless a shorter precision is asked for, and does not depend on what other threads do.
 *
 *   crema_model *model = NULL;
 *   crema_session *session = NULL;
 *   crema_model_load("deploy.prototxt", "net.caffemodel", NULL, &model);
 *   crema_session_create(model, NULL, &session);
 *   ... fill crema_session_input(session, 0) ...
 *   crema_session_run(session);
 *   ... read crema_session_output(session, 0) ...
 *
 * Threads: any of them may create sessions of a model, at once, too; a session and its blobs are
 * used by one thread at a time. */
#ifndef CREMA_MODEL_H
#define CREMA_MODEL_H

#include "crema/blob.h"
#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A net and its weights, ready for sessions. */
typedef struct crema_model crema_model;
/* The blobs of one user of a model. */
typedef struct crema_session crema_session;

/* What a model computes in; inputs, outputs and kept blobs are in FLOAT all the same. */
typedef enum crema_precision {
  CREMA_PRECISION_F32,  /* float */
  CREMA_PRECISION_BF16, /* bfloat16, on processors that have instructions for it */
  CREMA_PRECISION_INT8  /* integers of 8 bits, as a table or the net's quantization_param says */
} crema_precision;

/* How a model is made. Start from crema_model_options_init. Names and lists are not kept. */
typedef struct crema_model_options {
  int level; /* with stages, what the rules of layers are checked against; see crema/net.h */
  const char *const *stages;  /* names */
  size_t stage_count;         /* how many */
  const char *const *keep;    /* blobs that will be read, besides inputs and outputs */
  size_t keep_count;          /* how many */
  const char *const *without; /* passes to leave out; docs/deploy.md lists them */
  size_t without_count;       /* how many */
  crema_precision precision;  /* see docs/deploy.md for what is lost */
  const char *table;  /* for CREMA_PRECISION_INT8: a file of crema calibrate or ncnn; may be NULL */
  int64_t seed;       /* of weights that no file gives; below 0: another one each time */
  bool allow_missing; /* layers without weights keep their initial values */
  bool warn_unknown_fields; /* unknown fields in text are warned of instead of refused */
  bool skip_corrupt;        /* records that cannot be decoded are warned of and passed over */
} crema_model_options;

/* Level 0, empty lists, CREMA_PRECISION_F32, no table, seed -1, the rest false. */
CREMA_API void crema_model_options_init(crema_model_options *options);

/* Makes a model of the net in the text file `net` and of the .caffemodel files `weights`, separated
 * by commas (NULL: weights as the fillers make them). `options` may be NULL. Free with
 * crema_model_destroy. The files must stay as they are as long as the model lives: they are read
 * again when a session asks for a blob that the passes have left out. Errors: those of
 * crema_net_load and crema_net_load_weights_with; CREMA_E_UNKNOWN_NAME for a name of keep or
 * without; CREMA_E_ARGUMENT for CREMA_PRECISION_INT8 where neither a table nor the net has scales;
 * CREMA_E_PARSE for a table. */
CREMA_API crema_status crema_model_load(const char *net, const char *weights,
                                        const crema_model_options *options,
                                        crema_model **out) CREMA_MUST_USE;

/* The same from memory: the text of a net, of `net_size` bytes, and the content of a .caffemodel in
 * wire format, of `weights_size` bytes (`weights` NULL: as the fillers make them). The text is not
 * needed afterwards; the weights must stay as they are as long as the model lives. `options` may be
 * NULL. Free with crema_model_destroy. Errors are the same. */
CREMA_API crema_status crema_model_load_memory(const char *net, size_t net_size,
                                               const void *weights, size_t weights_size,
                                               const crema_model_options *options,
                                               crema_model **out) CREMA_MUST_USE;

/* Frees the model. The weights live until the last of its sessions is destroyed, too. */
CREMA_API void crema_model_destroy(crema_model *model);

/* What the passes did, in lines of text. Owned by the model. */
CREMA_API const char *crema_model_explain(const crema_model *model);

/* How a session runs. Start from crema_session_options_init. */
typedef struct crema_session_options {
  crema_device *device; /* the same for all sessions of a model; NULL: the CPU */
  int threads;          /* of the host that compute, at most; 0: as many as there are */
} crema_session_options;

/* The CPU, with all threads. */
CREMA_API void crema_session_options_init(crema_session_options *options);

/* Makes a session. `options` may be NULL. Free with crema_session_destroy, before or after the
 * model. Errors: those of building a net; CREMA_E_STATE for another device than that of the model's
 * first session, CREMA_E_RANGE for threads below 0. */
CREMA_API crema_status crema_session_create(crema_model *model,
                                            const crema_session_options *options,
                                            crema_session **out) CREMA_MUST_USE;
CREMA_API void crema_session_destroy(crema_session *session);

/* Inputs (tops of Input layers) and outputs (blobs that no layer of the net consumes,
 * alphabetical); blobs and names stay owned by the session; an index out of range gives NULL.
 * Inputs may be given other shapes (crema_blob_reshape) before each run. */
CREMA_API int crema_session_input_count(const crema_session *session);
CREMA_API crema_blob *crema_session_input(crema_session *session, int index);
CREMA_API const char *crema_session_input_name(const crema_session *session, int index);
CREMA_API int crema_session_output_count(const crema_session *session);
CREMA_API crema_blob *crema_session_output(crema_session *session, int index);
CREMA_API const char *crema_session_output_name(const crema_session *session, int index);

/* A blob of the net by its name; *out stays owned by the session. One that the passes have left out
 * is kept from now on, for which the model is compiled again: it has its values after the next run.
 * Errors: CREMA_E_UNKNOWN_NAME with the nearest name; those of crema_model_load. */
CREMA_API crema_status crema_session_blob(crema_session *session, const char *name,
                                          crema_blob **out) CREMA_MUST_USE;

/* Computes all outputs from the inputs. Errors are those of crema_net_forward. */
CREMA_API crema_status crema_session_run(crema_session *session) CREMA_MUST_USE;

/* Bytes on host and device together, as they are now. */
typedef struct crema_session_memory {
  size_t weights; /* shared with the model's other sessions; most are kept from the second run */
  size_t activations; /* the session's own */
} crema_session_memory;

/* Counts a session's memory. Errors: CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_session_memory_read(const crema_session *session,
                                                 crema_session_memory *out) CREMA_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
