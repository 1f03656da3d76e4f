#include "solver/solver.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/clock.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "solver/fields.h"

void crema_solver_options_init(crema_solver_options *options) {
  if (options == NULL) return;
  *options = (crema_solver_options){0};
}

/* Swaps the types of two messages: a message frees its type, but not a static default. */
static crema_status set_type(Caffe__SolverParameter *param, const char *type) {
  Caffe__SolverParameter *other = cr_proto_alloc(sizeof *other);
  if (other == NULL) return cr_fail_memory(sizeof *other, "a solver's type");
  caffe__solver_parameter__init(other);
  char *copy = cr_proto_strdup(type), *before = param->type;
  if (copy != NULL) {
    param->type = copy;
    other->type = before;
  }
  cr_message_free(&other->base);
  return copy != NULL ? CREMA_OK : cr_fail_memory(strlen(type) + 1, "a solver's type");
}

static crema_status read_param(crema_solver *solver) {
  ProtobufCMessage *message = NULL;
  cr_unknown_fields unknown =
      solver->options.warn_unknown_fields ? CR_UNKNOWN_WARN : CR_UNKNOWN_ERROR;
  CR_TRY(cr_net_blame_type(
      cr_message_read_text(&caffe__solver_parameter__descriptor, solver->path, unknown, &message)));
  solver->param = (Caffe__SolverParameter *)message;
  CR_TRY(cr_solver_param_upgrade(solver->param, solver->path));
  if (solver->options.type == NULL) return CREMA_OK;
  return set_type(solver->param, solver->options.type);
}

/* The solver file's path without its extension. */
static crema_status strip_extension(const char *path, char **out) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  size_t size = strlen(path);
  if (dot != NULL && dot > path && (slash == NULL || dot > slash + 1)) size = (size_t)(dot - path);
  *out = strndup(path, size);
  return *out != NULL ? CREMA_OK : cr_fail_memory(size + 1, "a path");
}

/* Looks for the folder of the prefix from the working directory, then from the solver file's. */
static crema_status resolve_prefix(const crema_solver *solver, const char *prefix, char **out) {
  const char *slash = strrchr(prefix, '/');
  cr_buffer text = {0};
  char *folder = NULL, *resolved = NULL;
  crema_status status = CREMA_OK;
  if (slash == NULL || slash == prefix) {
    *out = strdup(prefix);
    return *out != NULL ? CREMA_OK : cr_fail_memory(strlen(prefix) + 1, "a path");
  }
  folder = strndup(prefix, (size_t)(slash - prefix));
  if (folder == NULL) return cr_fail_memory((size_t)(slash - prefix) + 1, "a path");
  CR_TRY_GOTO(cr_file_resolve(solver->path, folder, &resolved), out);
  CR_TRY_GOTO(cr_buffer_print(&text, "%s%s", resolved, slash), out);
  *out = cr_buffer_take(&text);
out:
  cr_buffer_free(&text);
  free(resolved);
  free(folder);
  return status;
}

/* The default is the solver file's path without extension; a folder gets its last part added. */
static crema_status set_prefix(crema_solver *solver) {
  const char *prefix = solver->param->snapshot_prefix;
  const bool is_given = prefix != NULL && prefix[0] != '\0';
  struct stat info;
  char *stem = NULL;
  crema_status status = CREMA_OK;
  cr_buffer text = {0};
  if (is_given && (stat(prefix, &info) != 0 || !S_ISDIR(info.st_mode))) {
    return resolve_prefix(solver, prefix, &solver->snapshot_prefix);
  }
  CR_TRY_GOTO(strip_extension(solver->path, &stem), out);
  if (!is_given) {
    solver->snapshot_prefix = stem;
    return CREMA_OK;
  }
  const char *slash = strrchr(stem, '/');
  size_t size = strlen(prefix);
  CR_TRY_GOTO(cr_buffer_print(&text, "%s%s%s", prefix, prefix[size - 1] == '/' ? "" : "/",
                              slash == NULL ? stem : slash + 1),
              out);
  cr_log_info("snapshot_prefix is a folder; snapshots start with %s", text.data);
  solver->snapshot_prefix = cr_buffer_take(&text);
out:
  cr_buffer_free(&text);
  free(stem);
  return status;
}

/* The samples of one forward pass: the first extent of the first top of a source layer. */
static int64_t count_batch(const crema_net *net) {
  for (int i = 0; i < net->layers; ++i) {
    if (net->layer[i].layer->bottoms > 0 || net->layer[i].layer->tops == 0) continue;
    const crema_shape *shape = crema_blob_shape(net->layer[i].top[0]);
    return shape->axes > 0 ? shape->dim[0] : 1;
  }
  return 0;
}

/* Caffe trains with a base_lr of 0 when it is missing, which changes nothing. A solver that only
 * tests needs none. */
static crema_status check_base_lr(const crema_solver *solver) {
  const Caffe__SolverParameter *param = solver->param;
  if (param->base_lr < 0) {
    cr_log_warning("%s: base_lr is negative (%g): training increases the loss", solver->path,
                   (double)param->base_lr);
  }
  if (param->has_richness) {
    cr_log_warning("%s: richness has no effect: convolutions choose their memory themselves",
                   solver->path);
  }
  if (param->has_base_lr || solver->schedule.policy == CR_RATE_MULTIFIXED) return CREMA_OK;
  if (param->max_iter > 0 && !param->disabled_update) {
    return cr_fail(CREMA_E_PARSE,
                   "base_lr is missing; give the learning rate, as in base_lr: 0.01");
  }
  cr_log_warning("%s: base_lr is missing; it is 0", solver->path);
  return CREMA_OK;
}

static crema_status check_param(crema_solver *solver) {
  crema_status status = cr_fields_check(solver->param);
  if (status == CREMA_OK) status = cr_schedule_read(solver->param, &solver->schedule);
  if (status == CREMA_OK) status = check_base_lr(solver);
  if (status == CREMA_OK) {
    status = cr_loss_window_init(&solver->window, solver->param->average_loss);
  }
  return cr_field_locate(status, solver->path);
}

static crema_status build(crema_solver *solver) {
  CR_TRY(read_param(solver));
  CR_TRY(check_param(solver));
  CR_TRY(set_prefix(solver));
  CR_TRY(cr_solver_make_replicas(solver));
  cr_grad_scale_start(solver);
  CR_TRY(cr_solver_build_test_nets(solver));
  CR_TRY(cr_solver_restart_averages(solver));
  if (!solver->options.no_weights) CR_TRY(crema_solver_load_weights(solver, NULL));
  CR_TRY(cr_field_locate(cr_early_stop_prepare(solver), solver->path));
  solver->batch_samples = count_batch(solver->net) * solver->ranks;
  return cr_field_locate(cr_epochs_check(solver), solver->path);
}

crema_status crema_solver_load(const char *path, const crema_solver_options *options,
                               crema_solver **out) {
  CR_REQUIRE(path);
  CR_REQUIRE(out);
  crema_status status = CREMA_OK;
  crema_solver *solver = calloc(1, sizeof *solver);
  *out = NULL;
  if (solver == NULL) return cr_fail_memory(sizeof *solver, "a solver");
  if (options != NULL) solver->options = *options;
  solver->rate.minimum_loss = 1e38f;
  solver->snapshot_iteration = -1;
  solver->path = strdup(path);
  if (solver->path == NULL) CR_TRY_GOTO(cr_fail_memory(strlen(path) + 1, "a path"), fail);
  CR_TRY_GOTO(build(solver), fail);
  /* Only building needs these. */
  solver->options.stages = NULL;
  solver->options.type = NULL;
  solver->options.stage_count = 0;
  solver->options.devices = NULL;
  solver->options.device_count = 0;
  *out = solver;
  return CREMA_OK;
fail : { /* destroying nets stops threads, whose failures must not replace this one */
  cr_error *error = cr_error_keep();
  (void)cr_solver_tell(solver, status);
  crema_solver_destroy(solver);
  cr_error_again(status, error);
  free(error);
  return status;
}
}

void crema_solver_destroy(crema_solver *solver) {
  if (solver == NULL) return;
  cr_solver_free_replicas(solver);
  cr_state_release(solver);
  free(solver->unsaved_error);
  free(solver->window.loss);
  free(solver->snapshot_prefix);
  cr_message_free((ProtobufCMessage *)solver->param);
  free(solver->path);
  free(solver);
}

int64_t crema_solver_iteration(const crema_solver *solver) {
  return solver == NULL ? 0 : solver->iteration;
}

crema_net *crema_solver_net(crema_solver *solver) {
  return solver == NULL ? NULL : solver->net;
}

int crema_solver_test_net_count(const crema_solver *solver) {
  return solver == NULL ? 0 : solver->test_nets;
}

crema_net *crema_solver_test_net(crema_solver *solver, int index) {
  if (solver == NULL || index < 0 || index >= solver->test_nets) return NULL;
  return solver->test_net[index];
}
