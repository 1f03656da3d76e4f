/* The caller gets the session's own blobs, which share the values of the net's blobs. The net is
 * rebuilt when the caller requests a blob that the passes dropped. */
#include "infer/session.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "infer/batch_split.h"

typedef struct session_blob {
  struct session_blob *next;
  crema_blob *blob;
  bool input;
  char name[];
} session_blob;

struct crema_session {
  crema_model *model;
  cr_program *program;
  crema_context *context;
  crema_net *net;
  session_blob *blobs;
  bool whole;             /* the caller requested an inner blob: batches are not split */
  cr_batch_split *pieces; /* NULL: no batch was computed in pieces so far */
};

void crema_session_options_init(crema_session_options *options) {
  if (options == NULL) return;
  *options = (crema_session_options){0};
}

crema_net *cr_session_net(crema_session *session) {
  return session->net;
}

static session_blob *find_blob(const crema_session *session, const char *name) {
  session_blob *b = session->blobs;
  while (b != NULL && strcmp(b->name, name) != 0) b = b->next;
  return b;
}

/* Lets the session's blob have values and shape of the net's. */
static crema_status follow_net(const crema_session *session, session_blob *b) {
  crema_blob *blob = NULL;
  CR_TRY(crema_net_blob(session->net, b->name, &blob));
  CR_TRY(crema_blob_reshape(b->blob, &blob->shape));
  if (cr_tensor_shares_with(b->blob->data, blob->data)) return CREMA_OK;
  return cr_blob_share_data(b->blob, blob);
}

static crema_status add_blob(crema_session *session, const char *name, bool input,
                             session_blob **out) {
  const size_t size = strlen(name) + 1;
  crema_blob *blob = NULL;
  CR_TRY(crema_net_blob(session->net, name, &blob));
  session_blob *b = calloc(1, sizeof *b + size);
  if (b == NULL) return cr_fail_memory(sizeof *b + size, "a session's blob");
  memcpy(b->name, name, size);
  b->input = input;
  crema_status status =
      cr_blob_create_typed(&blob->shape, cr_tensor_type(blob->data), CREMA_F32, &b->blob);
  if (status == CREMA_OK) status = follow_net(session, b);
  if (status != CREMA_OK) {
    crema_blob_destroy(b->blob);
    free(b);
    return status;
  }
  b->next = session->blobs;
  session->blobs = b;
  *out = b;
  return CREMA_OK;
}

/* The caller may have reshaped inputs, and the net may be a new one. */
static crema_status set_inputs(const crema_session *session) {
  for (const session_blob *b = session->blobs; b != NULL; b = b->next) {
    crema_blob *blob = NULL;
    if (!b->input) continue;
    CR_TRY(crema_net_blob(session->net, b->name, &blob));
    CR_TRY(crema_blob_reshape(blob, &b->blob->shape));
    if (cr_tensor_shares_with(b->blob->data, blob->data)) continue;
    CR_TRY(cr_blob_share_data(blob, b->blob));
  }
  return CREMA_OK;
}

/* Builds a net of the model's newest program; the session keeps its own when that fails. */
static crema_status build_net(crema_session *session) {
  cr_program *program = cr_model_take_program(session->model);
  crema_net *net = NULL;
  crema_status status = cr_model_build(session->model, program, session->context, &net);
  /* The net plans the memory of blobs except for requested blobs. */
  for (session_blob *b = session->blobs; b != NULL && status == CREMA_OK; b = b->next) {
    crema_blob *blob = NULL;
    status = crema_net_blob(net, b->name, &blob);
  }
  if (status != CREMA_OK) {
    crema_net_destroy(net);
    cr_model_drop_program(session->model, program);
    return status;
  }
  cr_batch_split_destroy(session->pieces);
  session->pieces = NULL;
  crema_net_destroy(session->net);
  if (session->program != NULL) cr_model_drop_program(session->model, session->program);
  session->net = net;
  session->program = program;
  return CREMA_OK;
}

static crema_status add_inputs_and_outputs(crema_session *session) {
  session_blob *b = NULL;
  for (int i = 0; i < crema_net_input_count(session->net); ++i) {
    CR_TRY(add_blob(session, crema_net_input_name(session->net, i), true, &b));
  }
  for (int i = 0; i < crema_net_output_count(session->net); ++i) {
    const char *name = crema_net_output_name(session->net, i);
    if (find_blob(session, name) == NULL) CR_TRY(add_blob(session, name, false, &b));
  }
  return CREMA_OK;
}

crema_status crema_session_create(crema_model *model, const crema_session_options *options,
                                  crema_session **out) {
  CR_REQUIRE(model);
  CR_REQUIRE(out);
  crema_session_options standard;
  crema_session_options_init(&standard);
  if (options == NULL) options = &standard;
  if (options->threads < 0) {
    return cr_fail(CREMA_E_RANGE, "a session cannot have %d threads", options->threads);
  }
  crema_session *session = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(CR_NEW(session, 1, "a session"));
  session->model = model;
  cr_model_retain(model);
  crema_device *device = options->device == NULL ? cr_cpu_device() : options->device;
  CR_TRY_GOTO(cr_model_use_device(model, device), fail);
  CR_TRY_GOTO(crema_context_create(device, (uint64_t)model->options.seed, &session->context), fail);
  cr_context_set_threads(session->context, options->threads);
  cr_context_set_math(session->context, options->math);
  cr_context_set_plans(session->context, model->plans);
  CR_TRY_GOTO(build_net(session), fail);
  CR_TRY_GOTO(add_inputs_and_outputs(session), fail);
  *out = session;
  return CREMA_OK;
fail:
  crema_session_destroy(session);
  return status;
}

void crema_session_destroy(crema_session *session) {
  if (session == NULL) return;
  for (session_blob *b = session->blobs, *next = NULL; b != NULL; b = next) {
    next = b->next;
    crema_blob_destroy(b->blob);
    free(b);
  }
  cr_batch_split_destroy(session->pieces);
  crema_net_destroy(session->net);
  if (session->program != NULL) cr_model_drop_program(session->model, session->program);
  crema_context_destroy(session->context);
  cr_model_release(session->model);
  free(session);
}

crema_status crema_session_blob(crema_session *session, const char *name, crema_blob **out) {
  CR_REQUIRE(session);
  CR_REQUIRE(name);
  CR_REQUIRE(out);
  session_blob *b = find_blob(session, name);
  if (b == NULL) CR_TRY(cr_model_keep(session->model, name));
  if (b == NULL && !cr_program_has(session->program, name)) CR_TRY(build_net(session));
  if (b == NULL) {
    session->whole = true;
    CR_TRY(add_blob(session, name, false, &b));
  }
  *out = b->blob;
  return CREMA_OK;
}

static crema_status follow_outputs(const crema_session *session) {
  for (session_blob *b = session->blobs; b != NULL; b = b->next) {
    if (!b->input) CR_TRY(follow_net(session, b));
  }
  return CREMA_OK;
}

/* The number of samples to compute at a time; 0: all of them. */
static int64_t choose_piece(crema_session *session, int *threads, int64_t *samples) {
  const cr_backend *backend = session->context->device->backend;
  *samples = -1;
  if (session->whole || backend->scheduler == NULL) return 0;
  for (int i = 0; i < crema_session_input_count(session); ++i) {
    const crema_shape *shape = crema_blob_shape(crema_session_input(session, i));
    if (shape->axes < 1 || (*samples >= 0 && shape->dim[0] != *samples)) return 0;
    *samples = shape->dim[0];
  }
  *threads = cr_scheduler_threads(session->context);
  return cr_batch_split_choose(&session->program->batch, *samples, *threads);
}

/* The session's net has the shapes; the nets of workers compute. */
static crema_status run_pieces(crema_session *session, int threads, int64_t samples,
                               int64_t piece) {
  const int inputs = crema_session_input_count(session);
  const int outputs = crema_session_output_count(session);
  crema_blob **blob = NULL;
  crema_status status = CREMA_OK;
  CR_TRY(crema_net_reshape(session->net));
  CR_TRY(follow_outputs(session));
  CR_TRY(CR_NEW(blob, inputs + outputs + 1, "a session's blobs"));
  for (int i = 0; i < inputs; ++i) blob[i] = crema_session_input(session, i);
  for (int i = 0; i < outputs; ++i) blob[inputs + i] = crema_session_output(session, i);
  if (session->pieces == NULL) {
    CR_TRY_GOTO(cr_batch_split_create(session->model, session->program, session->context->device,
                                      &session->pieces),
                out);
  }
  status = cr_batch_split_run(session->pieces, threads, samples, piece, blob, blob + inputs);
out:
  free((void *)blob);
  return status;
}

crema_status crema_session_run(crema_session *session) {
  CR_REQUIRE(session);
  int threads = 1;
  int64_t samples = 0;
  CR_TRY(set_inputs(session));
  const int64_t piece = choose_piece(session, &threads, &samples);
  if (piece > 0) return run_pieces(session, threads, samples, piece);
  CR_TRY(crema_net_forward(session->net, NULL));
  return follow_outputs(session);
}

int crema_session_input_count(const crema_session *session) {
  return session == NULL ? 0 : crema_net_input_count(session->net);
}

const char *crema_session_input_name(const crema_session *session, int index) {
  return session == NULL ? NULL : crema_net_input_name(session->net, index);
}

int crema_session_output_count(const crema_session *session) {
  return session == NULL ? 0 : crema_net_output_count(session->net);
}

const char *crema_session_output_name(const crema_session *session, int index) {
  return session == NULL ? NULL : crema_net_output_name(session->net, index);
}

static crema_blob *blob_named(const crema_session *session, const char *name) {
  return name == NULL ? NULL : find_blob(session, name)->blob;
}

crema_blob *crema_session_input(crema_session *session, int index) {
  return session == NULL ? NULL : blob_named(session, crema_session_input_name(session, index));
}

crema_blob *crema_session_output(crema_session *session, int index) {
  return session == NULL ? NULL : blob_named(session, crema_session_output_name(session, index));
}

static size_t sum_of(const crema_blob_memory *memory) {
  return memory->data_host + memory->data_device + memory->diff_host + memory->diff_device;
}

crema_status crema_session_memory_read(const crema_session *session, crema_session_memory *out) {
  CR_REQUIRE(session);
  CR_REQUIRE(out);
  cr_net_memory memory;
  CR_TRY(cr_net_memory_read(session->net, &memory));
  *out = (crema_session_memory){.weights = sum_of(&memory.params),
                                .activations = sum_of(&memory.tops)};
  return session->pieces == NULL ? CREMA_OK
                                 : cr_batch_split_memory(session->pieces, &out->activations);
}
