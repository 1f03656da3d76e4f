/* Solver state as a message. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "layers/common/input_class.h"
#include "proto/field.h"
#include "solver/solver.h"

enum { GENERATOR_WORDS = 625 }; /* 624 words of state, then the index of the next */

static crema_status fail_message(void) {
  return cr_fail_memory(0, "a solver state");
}

static crema_status input_to_proto(cr_layer *layer, ProtobufCBinaryData *out) {
  cr_buffer bytes = {0};
  crema_status status = layer->kind->input->save(layer, &bytes);
  if (status == CREMA_OK) status = CR_STATE_ALLOCATE(out->data, bytes.size + 1);
  if (status == CREMA_OK) {
    if (bytes.size > 0) memcpy(out->data, bytes.data, bytes.size);
    out->len = bytes.size;
  }
  cr_buffer_free(&bytes);
  return status;
}

static crema_status layer_to_proto(cr_layer *layer, Caffe__CremaState__Layer **out) {
  Caffe__CremaState__Layer *message;
  CR_TRY(CR_STATE_ALLOCATE(message, 1));
  caffe__crema_state__layer__init(message);
  *out = message;
  message->name = cr_proto_strdup(layer->name);
  if (message->name == NULL) return fail_message();
  message->has_key = message->has_pass = true;
  message->key = layer->key;
  message->pass = layer->pass;
  const cr_input_class *input = layer->kind->input;
  if (input == NULL || input->save == NULL) return CREMA_OK;
  CR_TRY(input_to_proto(layer, &message->state));
  message->has_state = true;
  return CREMA_OK;
}

/* Net `index` of a replica: 0 is its train net, then its test nets follow. */
static crema_net *net_of(const crema_solver *solver, int replica, int index) {
  if (index == 0) return solver->replica[replica].net;
  return solver->test_net[(ptrdiff_t)replica * solver->test_nets + index - 1];
}

static int replicas_with_net(const crema_solver *solver, int index) {
  return index == 0 || cr_solver_shares_test(solver, index - 1) ? solver->replicas : 1;
}

/* Omits the other replicas' states if no damaged record was skipped: each replica is then one
 * sample ahead of the previous one, and the first state serves all. */
static void drop_equal(const cr_input_class *input, Caffe__CremaState__Layer *message) {
  const ProtobufCBinaryData *first = &message->state;
  const uint64_t progress = input->progress((const char *)first->data, first->len);
  for (size_t i = 0; i < message->n_state_of_others; ++i) {
    const ProtobufCBinaryData *other = &message->state_of_others[i];
    if (input->progress((const char *)other->data, other->len) != progress + i + 1) return;
  }
  cr_field_clear(&message->base, protobuf_c_message_descriptor_get_field_by_name(
                                     message->base.descriptor, "state_of_others"));
}

/* The state of layer `at` on all replicas but the first. */
static crema_status others_to_proto(const crema_solver *solver, int index, int at,
                                    Caffe__CremaState__Layer *message) {
  const int replicas = replicas_with_net(solver, index);
  const cr_input_class *input = net_of(solver, 0, index)->layer[at].layer->kind->input;
  if (input == NULL || input->progress == NULL || replicas == 1) return CREMA_OK;
  CR_TRY(CR_STATE_ALLOCATE(message->state_of_others, (size_t)replicas));
  memset(message->state_of_others, 0, (size_t)replicas * sizeof *message->state_of_others);
  for (int i = 1; i < replicas; ++i) {
    cr_layer *layer = net_of(solver, i, index)->layer[at].layer;
    CR_TRY(input_to_proto(layer, &message->state_of_others[message->n_state_of_others++]));
  }
  drop_equal(input, message);
  return CREMA_OK;
}

static crema_status net_to_proto(const crema_solver *solver, int index,
                                 Caffe__CremaState__Net **out) {
  const crema_net *net = net_of(solver, 0, index);
  Caffe__CremaState__Net *message;
  CR_TRY(CR_STATE_ALLOCATE(message, 1));
  caffe__crema_state__net__init(message);
  *out = message;
  CR_TRY(CR_STATE_ALLOCATE(message->layer, (size_t)net->layers + 1));
  for (int i = 0; i < net->layers; ++i) {
    message->layer[i] = NULL;
    crema_status status = layer_to_proto(net->layer[i].layer, &message->layer[i]);
    if (message->layer[i] != NULL) ++message->n_layer;
    if (status != CREMA_OK) return status;
    CR_TRY(others_to_proto(solver, index, i, message->layer[i]));
  }
  return CREMA_OK;
}

static crema_status window_to_proto(const cr_loss_window *window, Caffe__CremaState *message) {
  CR_TRY(CR_STATE_ALLOCATE(message->loss, (size_t)window->count + 1));
  memcpy(message->loss, window->loss, (size_t)window->count * sizeof *message->loss);
  message->n_loss = (size_t)window->count;
  message->has_next_loss = true;
  message->next_loss = window->next;
  return CREMA_OK;
}

static void early_stop_to_proto(const crema_solver *solver, Caffe__CremaState *message) {
  const cr_early_stop *stop = &solver->early_stop;
  if (stop->tested_iteration < 0) return;
  message->has_tested_iteration = message->has_tests_since_best = true;
  message->tested_iteration = stop->tested_iteration;
  message->tests_since_best = stop->tests;
  message->has_best = message->has_best_iteration = stop->has_best;
  message->best = stop->best;
  message->best_iteration = stop->best_iteration;
}

/* The updates' state besides the history. */
static crema_status update_to_proto(crema_solver *solver, Caffe__CremaState *message) {
  const double *correlation = cr_updater_correlation(solver->updater);
  const size_t params = (size_t)solver->net->learnables;
  if (solver->net->param->global_grad_scale_adaptive) {
    message->has_grad_scale = message->has_grad_scale_limit = true;
    message->has_updates = message->has_skipped = true;
    message->grad_scale = solver->net->grad_scale;
    message->grad_scale_limit = solver->scaling.limit;
    message->updates = solver->scaling.updates;
    message->skipped = solver->scaling.skipped;
  }
  if (correlation == NULL) return CREMA_OK;
  CR_TRY(CR_STATE_ALLOCATE(message->correlation, params + 1));
  memcpy(message->correlation, correlation, params * sizeof *correlation);
  message->n_correlation = params;
  return CREMA_OK;
}

/* The part of a state that Caffe does not know. */
static crema_status extra_to_proto(crema_solver *solver, Caffe__CremaState **out) {
  crema_status status = CREMA_OK;
  Caffe__CremaState *message;
  CR_TRY(CR_STATE_ALLOCATE(message, 1));
  caffe__crema_state__init(message);
  message->has_seed = true;
  message->seed = solver->seed;
  const cr_mt19937 *rng = &solver->context->rng;
  CR_TRY_GOTO(CR_STATE_ALLOCATE(message->generator, GENERATOR_WORDS), fail);
  memcpy(message->generator, rng->state, sizeof rng->state);
  message->generator[GENERATOR_WORDS - 1] = (uint32_t)rng->next;
  message->n_generator = GENERATOR_WORDS;
  CR_TRY_GOTO(window_to_proto(&solver->window, message), fail);
  CR_TRY_GOTO(update_to_proto(solver, message), fail);
  early_stop_to_proto(solver, message);
  CR_TRY_GOTO(CR_STATE_ALLOCATE(message->net, (size_t)solver->test_nets + 1), fail);
  for (int i = 0; i <= solver->test_nets; ++i) {
    message->net[i] = NULL;
    status = net_to_proto(solver, i, &message->net[i]);
    if (message->net[i] != NULL) ++message->n_net;
    if (status != CREMA_OK) goto fail;
  }
  *out = message;
  return CREMA_OK;
fail:
  cr_message_free(&message->base);
  return status;
}

static bool is_half(const crema_blob *blob) {
  return crema_dtype_size(crema_blob_data_type(blob)) < crema_dtype_size(CREMA_F32);
}

/* 16-bit weights are trained in full precision, which a model in their own type does not hold. */
static bool model_rounds_weights(const crema_solver *solver) {
  bool rounds = false;
  if (cr_snapshot_is_hdf5(solver) || solver->param->store_blobs_in_old_format) return false;
  for (int i = 0; i < solver->net->learnables; ++i) {
    rounds = rounds || is_half(solver->net->learnable[i]);
  }
  return rounds;
}

/* `blob` NULL: an empty entry. */
static crema_status blob_to_proto(crema_blob *blob, Caffe__BlobProto **out) {
  if (blob != NULL) return cr_blob_to_proto(blob, CR_SAVE_OLD_FORMAT, out);
  CR_TRY(CR_STATE_ALLOCATE(*out, 1));
  caffe__blob_proto__init(*out);
  return CREMA_OK;
}

static crema_status weights_to_proto(const crema_solver *solver, Caffe__CremaState *message) {
  const crema_net *net = solver->net;
  if (!model_rounds_weights(solver)) return CREMA_OK;
  CR_TRY(CR_STATE_ALLOCATE(message->weights, (size_t)net->learnables));
  for (int i = 0; i < net->learnables; ++i) {
    crema_blob *blob = is_half(net->learnable[i]) ? net->learnable[i] : NULL;
    CR_TRY(blob_to_proto(blob, &message->weights[i]));
    ++message->n_weights;
  }
  return CREMA_OK;
}

/* Averages of 16-bit weights are also in full precision. */
static crema_status average_to_proto(const crema_solver *solver, Caffe__CremaState *message) {
  const cr_average *average = solver->replica[0].average;
  const int params = solver->net->learnables;
  if (average == NULL) return CREMA_OK;
  CR_TRY(CR_STATE_ALLOCATE(message->average, (size_t)params + 1));
  for (int i = 0; i < params; ++i) {
    CR_TRY(blob_to_proto(cr_average_of(average, i), &message->average[i]));
    ++message->n_average;
  }
  return CREMA_OK;
}

static void free_blobs(Caffe__BlobProto **blob, size_t *count) {
  for (size_t i = 0; i < *count; ++i) cr_blob_proto_free(blob[i]);
  *count = 0;
}

void cr_state_proto_free(Caffe__SolverState *message) {
  if (message == NULL) return;
  Caffe__CremaState *extra = message->crema_state;
  if (extra != NULL) free_blobs(extra->weights, &extra->n_weights);
  if (extra != NULL) free_blobs(extra->average, &extra->n_average);
  free_blobs(message->history, &message->n_history);
  cr_message_free(&message->base);
}

crema_status cr_state_to_proto(crema_solver *solver, const char *learned_net,
                               const cr_model_sum *sum, Caffe__SolverState **out) {
  crema_status status = CREMA_OK;
  int histories = cr_updater_history_count(solver->updater);
  ProtobufCMessage *held = NULL;
  Caffe__SolverState *message;
  CR_TRY(CR_STATE_ALLOCATE(message, 1));
  caffe__solver_state__init(message);
  message->has_iter = message->has_current_step = true;
  message->iter = (int32_t)solver->iteration;
  message->current_step = solver->rate.step;
  if (solver->param->n_plateau_winsize > 0) {
    message->has_minimum_loss = message->has_iter_last_event = true;
    message->minimum_loss = solver->rate.minimum_loss;
    message->iter_last_event = (int32_t)solver->rate.last_event;
  }
  message->learned_net = cr_proto_strdup(learned_net);
  if (message->learned_net == NULL) CR_TRY_GOTO(fail_message(), fail);
  CR_TRY_GOTO(CR_STATE_ALLOCATE(message->history, (size_t)histories + 1), fail);
  bool old_format = solver->param->store_blobs_in_old_format || cr_snapshot_is_hdf5(solver);
  for (int i = 0; i < histories; ++i) {
    CR_TRY_GOTO(cr_blob_to_proto(cr_updater_history(solver->updater, i),
                                 old_format ? CR_SAVE_OLD_FORMAT : 0, &message->history[i]),
                fail);
    ++message->n_history;
  }
  if (solver->held != NULL) {
    CR_TRY_GOTO(cr_message_copy(&solver->held->base, &held), fail);
    message->crema_state = (Caffe__CremaState *)held;
  } else {
    CR_TRY_GOTO(extra_to_proto(solver, &message->crema_state), fail);
  }
  CR_TRY_GOTO(weights_to_proto(solver, message->crema_state), fail);
  CR_TRY_GOTO(average_to_proto(solver, message->crema_state), fail);
  message->crema_state->has_model_size = message->crema_state->has_model_crc32 = true;
  message->crema_state->model_size = sum->size;
  message->crema_state->model_crc32 = sum->crc32;
  *out = message;
  return CREMA_OK;
fail:
  cr_state_proto_free(message);
  return status;
}

static bool has_name(const Caffe__CremaState__Layer *layer, const char *name) {
  return layer->name != NULL && strcmp(layer->name, name) == 0;
}

/* The index of the saved layer of that name, tried at index `at` first; -1: there is none. */
static int64_t find_layer(const Caffe__CremaState__Net *net, int at, const char *name) {
  if ((size_t)at < net->n_layer && has_name(net->layer[at], name)) return at;
  for (size_t i = 0; i < net->n_layer; ++i) {
    if (has_name(net->layer[i], name)) return (int64_t)i;
  }
  return -1;
}

/* The history has no names: it belongs to the parameters in the order of their layers. */
static crema_status check_order(const crema_net *net, const Caffe__CremaState__Net *saved) {
  int64_t last = -1;
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    int64_t index = layer->params > 0 ? find_layer(saved, i, layer->name) : -1;
    if (index >= 0 && index < last) {
      return cr_fail(CREMA_E_SHAPE,
                     "layers '%s' and '%s' are in another order than in the state, and the history "
                     "is in the order of the layers",
                     saved->layer[last]->name, layer->name);
    }
    if (index >= 0) last = index;
  }
  return CREMA_OK;
}

/* An entry without a shape: the model holds the values exactly. */
static bool is_empty(const Caffe__BlobProto *blob) {
  return blob->shape == NULL && blob->n_data == 0;
}

/* `what` and `index` name the blob in messages. */
static crema_status check_blob(const Caffe__BlobProto *blob, const crema_shape *shape,
                               const char *what, int index) {
  crema_shape found;
  char text[2][128];
  crema_status status = cr_blob_proto_check(blob, &found);
  if (status != CREMA_OK) return cr_fail_in(status, "%s %d", what, index);
  if (cr_blob_proto_fits(blob, shape)) return CREMA_OK;
  return cr_fail(CREMA_E_SHAPE, "%s %d: the net needs shape %s, the state has %s", what, index,
                 crema_shape_text(shape, text[0], sizeof text[0]),
                 crema_shape_text(&found, text[1], sizeof text[1]));
}

static crema_status check_history(crema_solver *solver, const Caffe__SolverState *state) {
  int wanted = cr_updater_history_count(solver->updater);
  if (state->n_history != (size_t)wanted) {
    return cr_fail(CREMA_E_SHAPE,
                   "the state has %zu history blobs, but %s on net '%s' (%d learnable parameters) "
                   "needs %d",
                   state->n_history, cr_updater_type(solver->updater), crema_net_name(solver->net),
                   solver->net->learnables, wanted);
  }
  for (int i = 0; i < wanted; ++i) {
    const crema_shape *shape = crema_blob_shape(cr_updater_history(solver->updater, i));
    CR_TRY(check_blob(state->history[i], shape, "history blob", i));
  }
  return CREMA_OK;
}

/* The blobs of all parameters, or none at all. */
static crema_status check_blobs(const crema_net *net, Caffe__BlobProto *const *blob, size_t count,
                                const char *what) {
  char name[64];
  if (count == 0) return CREMA_OK;
  if (count != (size_t)net->learnables) {
    return cr_fail(CREMA_E_SHAPE, "the state has the %s of %zu parameters, but net '%s' has %d",
                   what, count, crema_net_name(net), net->learnables);
  }
  (void)snprintf(name, sizeof name, "%s of parameter", what);
  for (int i = 0; i < net->learnables; ++i) {
    if (is_empty(blob[i])) continue;
    CR_TRY(check_blob(blob[i], crema_blob_shape(net->learnable[i]), name, i));
  }
  return CREMA_OK;
}

static crema_status weights_from_proto(const crema_net *net, const Caffe__CremaState *extra) {
  for (size_t i = 0; extra != NULL && i < extra->n_weights; ++i) {
    if (is_empty(extra->weights[i])) continue;
    crema_status status = cr_blob_from_proto(net->learnable[i], extra->weights[i], false);
    if (status != CREMA_OK) return cr_fail_in(status, "full precision of parameter %zu", i);
  }
  return CREMA_OK;
}

/* An average that the state lacks begins with the weight. */
static crema_status average_from_proto(const cr_replica *replica, const Caffe__CremaState *extra) {
  cr_average *average = replica->average;
  if (average == NULL) return CREMA_OK;
  CR_TRY(cr_average_start(average));
  if (extra == NULL || extra->n_average == 0) return CREMA_OK;
  for (int i = 0; i < replica->net->learnables; ++i) {
    crema_blob *blob = cr_average_of(average, i);
    if (blob == NULL || is_empty(extra->average[i])) continue;
    crema_status status = cr_blob_from_proto(blob, extra->average[i], false);
    if (status != CREMA_OK) return cr_fail_in(status, "average of parameter %d", i);
  }
  cr_average_set_begun(average);
  return CREMA_OK;
}

static crema_status check_early_stop(const Caffe__CremaState *extra) {
  if (extra->tested_iteration >= 0 && extra->tests_since_best >= 0 && extra->best_iteration >= 0 &&
      !isnan(extra->best)) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_CORRUPT,
                 "a best value of %g at iteration %lld, %d tests before iteration %lld is not "
                 "possible",
                 extra->best, (long long)extra->best_iteration, extra->tests_since_best,
                 (long long)extra->tested_iteration);
}

static void early_stop_from_proto(crema_solver *solver, const Caffe__CremaState *message) {
  cr_early_stop *stop = &solver->early_stop;
  cr_early_stop_forget(solver);
  if (message == NULL || !message->has_tested_iteration) return;
  stop->tested_iteration = message->tested_iteration;
  stop->tests = message->tests_since_best;
  stop->has_best = message->has_best;
  stop->best = message->best;
  stop->best_iteration = message->best_iteration;
}

static bool is_factor(double value) {
  return value > 0 && isfinite(value);
}

static crema_status check_update(const crema_solver *solver, const Caffe__CremaState *extra) {
  if ((extra->has_grad_scale && !is_factor(extra->grad_scale)) ||
      (extra->has_grad_scale_limit && !is_factor(extra->grad_scale_limit))) {
    return cr_fail(CREMA_E_CORRUPT, "a factor of %g, at most %g, for all gradients is not possible",
                   extra->grad_scale, extra->grad_scale_limit);
  }
  if (extra->updates < 0 || extra->skipped < 0) {
    return cr_fail(CREMA_E_CORRUPT, "%lld updates and %lld that were skipped are not possible",
                   (long long)extra->updates, (long long)extra->skipped);
  }
  if (extra->n_correlation > 0 && extra->n_correlation != (size_t)solver->net->learnables) {
    return cr_fail(CREMA_E_SHAPE,
                   "the state has correlations of %zu parameters, but net '%s' has %d",
                   extra->n_correlation, crema_net_name(solver->net), solver->net->learnables);
  }
  for (size_t i = 0; i < extra->n_correlation; ++i) {
    /* Rounding can give slightly more than 1. */
    if (fabs(extra->correlation[i]) < 1.01) continue;
    return cr_fail(CREMA_E_CORRUPT, "a correlation of %g is not possible", extra->correlation[i]);
  }
  return CREMA_OK;
}

crema_status cr_state_check(crema_solver *solver, const Caffe__SolverState *state) {
  const Caffe__CremaState *extra = state->crema_state;
  if (!state->has_iter) {
    return cr_fail(CREMA_E_CORRUPT, "not a solver state: it has no iteration");
  }
  if (state->iter < 0 || state->current_step < 0) {
    return cr_fail(CREMA_E_CORRUPT, "iteration %d and step %d are not possible", state->iter,
                   state->current_step);
  }
  if (extra == NULL) return check_history(solver, state);
  if (extra->n_generator != GENERATOR_WORDS ||
      extra->generator[GENERATOR_WORDS - 1] >= GENERATOR_WORDS) {
    return cr_fail(CREMA_E_CORRUPT,
                   "the state of the random generator, %zu words, does not make sense",
                   extra->n_generator);
  }
  CR_TRY(check_update(solver, extra));
  CR_TRY(check_early_stop(extra));
  CR_TRY(check_history(solver, state));
  CR_TRY(check_blobs(solver->net, extra->weights, extra->n_weights, "full precision"));
  CR_TRY(check_blobs(solver->net, extra->average, extra->n_average, "average"));
  return extra->n_net > 0 ? check_order(solver->net, extra->net[0]) : CREMA_OK;
}

/* The state for a layer: its own if the number of solvers is the same. Otherwise the state of the
 * solver with the least progress, so that no record is skipped. */
static const ProtobufCBinaryData *state_for(const cr_layer *layer,
                                            const Caffe__CremaState__Layer *from) {
  const cr_input_class *input = layer->kind->input;
  const size_t others = from->n_state_of_others, rank = (size_t)layer->solver.rank;
  if (others + 1 == (size_t)layer->solver.solvers) {
    return rank == 0 ? &from->state : &from->state_of_others[rank - 1];
  }
  const ProtobufCBinaryData *least = &from->state;
  for (size_t i = 0; i < others && input->progress != NULL; ++i) {
    const ProtobufCBinaryData *other = &from->state_of_others[i];
    if (input->progress((const char *)other->data, other->len) <
        input->progress((const char *)least->data, least->len)) {
      least = other;
    }
  }
  return least;
}

static crema_status net_from_proto(crema_net *net, const Caffe__CremaState__Net *message) {
  for (int i = 0; i < net->layers; ++i) {
    cr_layer *layer = net->layer[i].layer;
    int64_t index = find_layer(message, i, layer->name);
    if (index < 0) continue;
    const Caffe__CremaState__Layer *from = message->layer[index];
    const int rank = layer->solver.rank;
    /* The state has the key of rank 0; layers that draw masks have a key for each rank. */
    if (from->has_key) layer->key = from->key;
    if (from->has_key && rank > 0 && layer->kind->input == NULL) {
      layer->key = cr_mix_key(from->key, (uint64_t)rank);
    }
    if (from->has_pass) layer->pass = from->pass;
    const cr_input_class *input = layer->kind->input;
    if (!from->has_state || input == NULL || input->restore == NULL) continue;
    const ProtobufCBinaryData *state = state_for(layer, from);
    crema_status status = input->restore(layer, (const char *)state->data, state->len);
    if (status != CREMA_OK) return cr_layer_in(layer, status);
  }
  return CREMA_OK;
}

static void correlation_from_proto(const cr_replica *replica, const Caffe__CremaState *message) {
  const size_t params = (size_t)replica->net->learnables;
  double *correlation = replica->updater != NULL ? cr_updater_correlation(replica->updater) : NULL;
  for (size_t i = 0; correlation != NULL && i < params; ++i) {
    correlation[i] =
        message != NULL && message->n_correlation == params ? message->correlation[i] : 0;
  }
}

/* Values that the state lacks start afresh. `message` may be NULL. */
static void update_from_proto(crema_solver *solver, const Caffe__CremaState *message) {
  cr_grad_scale_start(solver);
  if (message != NULL && message->has_grad_scale && message->has_grad_scale_limit &&
      solver->net->param->global_grad_scale_adaptive) {
    cr_net_set_grad_scale(solver->net, message->grad_scale);
    solver->scaling = (cr_scaling){.limit = message->grad_scale_limit,
                                   .updates = message->updates,
                                   .skipped = message->skipped};
  }
  for (int i = 0; i < solver->replicas; ++i) correlation_from_proto(&solver->replica[i], message);
}

/* Replaces the losses. Starts a new mean if average_loss has changed. `message` may be NULL. */
static void window_from_proto(cr_loss_window *window, const Caffe__CremaState *message) {
  const size_t size = (size_t)window->size;
  window->count = window->next = 0;
  if (message == NULL || message->n_loss > size || message->next_loss < 0) return;
  const size_t next = (size_t)message->next_loss;
  if (message->n_loss == size ? next >= size : next != message->n_loss) return;
  if (message->n_loss > 0) memcpy(window->loss, message->loss, message->n_loss * sizeof(double));
  window->count = (int)message->n_loss;
  window->next = message->next_loss;
}

static crema_status extra_from_proto(crema_solver *solver, const Caffe__CremaState *message) {
  cr_mt19937 *rng = &solver->context->rng;
  memcpy(rng->state, message->generator, sizeof rng->state);
  rng->next = (int)message->generator[GENERATOR_WORDS - 1];
  solver->seed = message->seed;
  window_from_proto(&solver->window, message);
  update_from_proto(solver, message);
  early_stop_from_proto(solver, message);
  for (int replica = 0; replica < solver->replicas; ++replica) {
    for (int i = 0; (size_t)i < message->n_net && i <= solver->test_nets; ++i) {
      if (replica >= replicas_with_net(solver, i)) continue;
      CR_TRY(net_from_proto(net_of(solver, replica, i), message->net[i]));
    }
  }
  return CREMA_OK;
}

static crema_status history_from_proto(const cr_replica *replica, const Caffe__SolverState *state) {
  for (size_t i = 0; replica->updater != NULL && i < state->n_history; ++i) {
    crema_blob *blob = cr_updater_history(replica->updater, (int)i);
    crema_status status = cr_blob_from_proto(blob, state->history[i], false);
    if (status == CREMA_OK) status = cr_tensor_settle(blob->data, replica->context);
    if (status != CREMA_OK) return cr_fail_in(status, "history blob %zu", i);
  }
  return CREMA_OK;
}

crema_status cr_state_from_proto(crema_solver *solver, const Caffe__SolverState *state) {
  for (int i = 0; i < solver->replicas; ++i) {
    CR_TRY(history_from_proto(&solver->replica[i], state));
  }
  CR_TRY(weights_from_proto(solver->net, state->crema_state));
  for (int i = 0; i < solver->replicas; ++i) {
    CR_TRY(average_from_proto(&solver->replica[i], state->crema_state));
  }
  solver->iteration = state->iter;
  solver->rate = (cr_rate_state){.step = state->current_step,
                                 .minimum_loss = state->minimum_loss,
                                 .last_event = state->iter_last_event};
  solver->snapshot_iteration = -1;
  solver->unsaved = CREMA_OK;
  cr_state_release(solver);
  if (state->crema_state == NULL) {
    window_from_proto(&solver->window, NULL);
    update_from_proto(solver, NULL);
    early_stop_from_proto(solver, NULL);
    cr_log_warning(
        "The state has no reader positions and no random state. Data is read from this solver's "
        "position, which is the start unless it has trained. Results differ from a run without a "
        "stop");
    return CREMA_OK;
  }
  return extra_from_proto(solver, state->crema_state);
}

crema_status cr_state_hold(crema_solver *solver) {
  return solver->held != NULL ? CREMA_OK : extra_to_proto(solver, &solver->held);
}

void cr_state_release(crema_solver *solver) {
  cr_message_free((ProtobufCMessage *)solver->held);
  solver->held = NULL;
}

crema_status cr_state_rewind(crema_solver *solver) {
  if (solver->held == NULL) return CREMA_OK;
  CR_TRY(extra_from_proto(solver, solver->held));
  cr_state_release(solver);
  return CREMA_OK;
}
