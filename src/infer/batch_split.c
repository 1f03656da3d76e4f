#include "infer/batch_split.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/thread.h"

typedef struct split_worker {
  crema_context *context;
  crema_net *net;
  struct cr_batch_split *pieces;
  cr_thread *thread;
} split_worker;

/* A run. */
typedef struct split_job {
  int64_t samples, piece;
  _Atomic int64_t next;     /* the first sample that no worker has taken */
  crema_blob *const *input; /* whole */
  const float **from;       /* their values */
  float **to;               /* the values of the outputs */
} split_job;

struct cr_batch_split {
  crema_model *model;
  const cr_program *program;
  crema_device *device;
  int workers;
  split_worker *worker;
  split_job job;
};

/* PIECE: bytes that a layer reads and writes for a piece. LEAST: the bytes of all values of a batch
 * from which splitting pays for starting threads and for the additional ops. Measured with nets of
 * 5 to 100 MB of weights on processors with 1 MB of second-level cache each. */
static const double PIECE = 10e6, LEAST = 8e6;

int64_t cr_batch_split_choose(const cr_batch_cost *batch, int64_t samples, int threads) {
  if (!batch->apart || samples < 2 || threads < 1) return 0;
  if (batch->values * (double)samples < LEAST || batch->largest <= 0) return 0;
  const double fit = PIECE / batch->largest;
  /* Each piece reads all weights. */
  const double share = batch->weights / batch->values;
  const double wanted = fit > share ? fit : share;
  for (int64_t piece = 1; 2 * piece <= samples; ++piece) {
    const int64_t pieces = samples / piece, rounds = (pieces + threads - 1) / threads;
    if (piece * pieces != samples || (double)piece + 0.5 < wanted) continue;
    if (rounds * threads * piece * 10 <= samples * 11) return piece;
  }
  return 0;
}

crema_status cr_batch_split_create(crema_model *model, const cr_program *program,
                                   crema_device *device, cr_batch_split **out) {
  CR_TRY(CR_NEW(*out, 1, "the pieces of a batch"));
  (*out)->model = model;
  (*out)->program = program;
  (*out)->device = device;
  return CREMA_OK;
}

static void close_worker(split_worker *w) {
  crema_net_destroy(w->net);
  crema_context_destroy(w->context);
  *w = (split_worker){0};
}

static void drop_workers(cr_batch_split *pieces) {
  for (int i = pieces->workers - 1; i >= 0; --i) close_worker(&pieces->worker[i]);
  free(pieces->worker);
  pieces->worker = NULL;
  pieces->workers = 0;
}

void cr_batch_split_destroy(cr_batch_split *pieces) {
  if (pieces == NULL) return;
  drop_workers(pieces);
  free((void *)pieces->job.from);
  free((void *)pieces->job.to);
  free(pieces);
}

static crema_status set_workers(cr_batch_split *pieces, int count) {
  if (pieces->workers == count) return CREMA_OK;
  drop_workers(pieces);
  CR_TRY(CR_NEW(pieces->worker, count, "the pieces of a batch"));
  for (pieces->workers = 0; pieces->workers < count; ++pieces->workers) {
    split_worker *w = &pieces->worker[pieces->workers];
    w->pieces = pieces;
    crema_status status =
        crema_context_create(pieces->device, (uint64_t)pieces->model->options.seed, &w->context);
    if (status == CREMA_OK) {
      cr_context_set_threads(w->context, 1);
      cr_context_set_plans(w->context, pieces->model->plans);
      status = cr_model_build(pieces->model, pieces->program, w->context, &w->net);
    }
    if (status == CREMA_OK) continue;
    close_worker(w);
    drop_workers(pieces);
    return status;
  }
  return CREMA_OK;
}

static int64_t values_of_sample(const crema_blob *blob) {
  return crema_shape_count(&blob->shape, 1, blob->shape.axes);
}

static crema_status give_inputs(const split_worker *w, int64_t first) {
  const split_job *j = &w->pieces->job;
  for (int i = 0; i < crema_net_input_count(w->net); ++i) {
    crema_blob *input = crema_net_input(w->net, i);
    crema_shape shape = j->input[i]->shape;
    const int64_t values = values_of_sample(j->input[i]);
    float *to = NULL;
    shape.dim[0] = j->piece;
    if (!crema_shape_equal(&shape, &input->shape)) CR_TRY(crema_blob_reshape(input, &shape));
    CR_TRY(cr_tensor_host_write_floats(input->data, &to));
    memcpy(to, j->from[i] + first * values, (size_t)(j->piece * values) * sizeof *to);
  }
  return CREMA_OK;
}

static crema_status take_outputs(const split_worker *w, int64_t first) {
  const split_job *j = &w->pieces->job;
  for (int i = 0; i < crema_net_output_count(w->net); ++i) {
    crema_blob *output = crema_net_output(w->net, i);
    const int64_t values = values_of_sample(output);
    const float *from = NULL;
    CR_TRY(crema_blob_cpu_data(output, &from));
    memcpy(j->to[i] + first * values, from, (size_t)(j->piece * values) * sizeof *from);
  }
  return CREMA_OK;
}

/* Computes pieces until none is left, or a worker has failed. */
static crema_status work(void *user) {
  const split_worker *w = user;
  split_job *j = &w->pieces->job;
  for (;;) {
    const int64_t first = atomic_fetch_add(&j->next, j->piece);
    if (first >= j->samples) return CREMA_OK;
    crema_status status = give_inputs(w, first);
    if (status == CREMA_OK) status = crema_net_forward(w->net, NULL);
    if (status == CREMA_OK) status = take_outputs(w, first);
    if (status == CREMA_OK) continue;
    atomic_store(&j->next, j->samples);
    return status;
  }
}

/* The calling thread does the work of threads that cannot be started. */
static crema_status run_workers(cr_batch_split *pieces) {
  for (int i = 1; i < pieces->workers; ++i) {
    split_worker *w = &pieces->worker[i];
    if (cr_thread_start(&w->thread, "crema-piece", work, w) != CREMA_OK) break;
  }
  crema_status status = work(&pieces->worker[0]);
  for (int i = 1; i < pieces->workers; ++i) {
    crema_status ended = cr_thread_join(&pieces->worker[i].thread);
    if (status == CREMA_OK) status = ended;
  }
  return status;
}

static crema_status find_values(cr_batch_split *pieces, crema_blob *const *input,
                                crema_blob *const *output) {
  split_job *j = &pieces->job;
  const crema_net *net = pieces->worker[0].net;
  const int inputs = crema_net_input_count(net), outputs = crema_net_output_count(net);
  if (j->from == NULL) CR_TRY(CR_NEW(j->from, inputs + 1, "the pieces of a batch"));
  if (j->to == NULL) CR_TRY(CR_NEW(j->to, outputs + 1, "the pieces of a batch"));
  for (int i = 0; i < inputs; ++i) CR_TRY(crema_blob_cpu_data(input[i], &j->from[i]));
  for (int i = 0; i < outputs; ++i) {
    CR_TRY(cr_tensor_host_write_floats(output[i]->data, &j->to[i]));
  }
  return CREMA_OK;
}

crema_status cr_batch_split_run(cr_batch_split *pieces, int threads, int64_t samples, int64_t piece,
                                crema_blob *const *input, crema_blob *const *output) {
  split_job *j = &pieces->job;
  CR_TRY(set_workers(pieces, threads));
  CR_TRY(find_values(pieces, input, output));
  j->samples = samples;
  j->piece = piece;
  j->input = input;
  atomic_store(&j->next, 0);
  return run_workers(pieces);
}

crema_status cr_batch_split_memory(const cr_batch_split *pieces, size_t *activations) {
  for (int i = 0; i < pieces->workers; ++i) {
    cr_net_memory memory;
    CR_TRY(cr_net_memory_read(pieces->worker[i].net, &memory));
    *activations += memory.tops.data_host + memory.tops.data_device;
  }
  return CREMA_OK;
}
