/* Finds the newest complete snapshot of a training. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "solver/solver.h"

typedef struct found_state {
  long long iteration;
  char *path;
} found_state;

typedef struct found_states {
  found_state *state;
  size_t count, capacity;
} found_states;

/* The iteration in a name "<prefix>_iter_<iteration>[_<score>].solverstate[.h5]"; -1 for other
 * names. */
static long long iteration_of(const char *name, const char *prefix) {
  static const char mark[] = "_iter_", ending[] = ".solverstate";
  const size_t size = strlen(prefix);
  char *end = NULL;
  if (strncmp(name, prefix, size) != 0 || strncmp(name + size, mark, sizeof mark - 1) != 0) {
    return -1;
  }
  const char *digits = name + size + sizeof mark - 1;
  if (digits[0] < '0' || digits[0] > '9') return -1;
  errno = 0;
  const long long iteration = strtoll(digits, &end, 10);
  if (errno != 0 || (*end != '_' && *end != '.')) return -1;
  const char *kind = strstr(end, ending);
  if (kind == NULL || (*end == '.' && kind != end)) return -1;
  kind += sizeof ending - 1;
  return kind[0] == '\0' || strcmp(kind, ".h5") == 0 ? iteration : -1;
}

static crema_status add_state(found_states *found, const char *folder, const char *name,
                              long long iteration) {
  cr_buffer path = {0};
  if (found->count == found->capacity) {
    const size_t capacity = 2 * found->capacity + 8;
    found_state *grown = realloc(found->state, capacity * sizeof *grown);
    if (grown == NULL) return cr_fail_memory(capacity * sizeof *grown, "a list of snapshots");
    found->state = grown;
    found->capacity = capacity;
  }
  CR_TRY(cr_buffer_print(&path, "%s%s", folder, name));
  found->state[found->count++] =
      (found_state){.iteration = iteration, .path = cr_buffer_take(&path)};
  return CREMA_OK;
}

/* Newest first; within one iteration, names without a score first. */
static int by_age(const void *a, const void *b) {
  const found_state *x = a, *y = b;
  if (x->iteration != y->iteration) return x->iteration > y->iteration ? -1 : 1;
  return strcmp(x->path, y->path);
}

/* A folder that cannot be read has no snapshots. */
static crema_status list_states(const char *prefix, found_states *found) {
  const char *slash = strrchr(prefix, '/'), *base = slash == NULL ? prefix : slash + 1;
  char *folder = strndup(prefix, (size_t)(base - prefix));
  crema_status status = CREMA_OK;
  if (folder == NULL) return cr_fail_memory(strlen(prefix) + 1, "a path");
  DIR *dir = opendir(folder[0] != '\0' ? folder : ".");
  const struct dirent *entry;
  while (dir != NULL && status == CREMA_OK && (entry = readdir(dir)) != NULL) {
    const long long iteration = iteration_of(entry->d_name, base);
    if (iteration >= 0) status = add_state(found, folder, entry->d_name, iteration);
  }
  if (dir != NULL) closedir(dir);
  free(folder);
  if (found->count > 0) qsort(found->state, found->count, sizeof *found->state, by_age);
  return status;
}

/* Fails unless the state fits the net and its model exists. */
static crema_status check_state(crema_solver *solver, const char *path) {
  Caffe__SolverState *state = NULL;
  char *model = NULL;
  CR_TRY(cr_state_read(path, &state));
  crema_status status = cr_state_check(solver, state);
  if (status == CREMA_OK) status = cr_model_find(path, state, &model);
  free(model);
  cr_message_free((ProtobufCMessage *)state);
  return status;
}

/* *out is to be freed; NULL: no snapshot is complete. */
static crema_status find_latest(crema_solver *solver, char **out) {
  found_states found = {0};
  crema_status status = list_states(solver->snapshot_prefix, &found);
  *out = NULL;
  for (size_t i = 0; i < found.count && status == CREMA_OK && *out == NULL; ++i) {
    status = check_state(solver, found.state[i].path);
    if (status == CREMA_OK) {
      *out = found.state[i].path;
      found.state[i].path = NULL;
    } else if (status != CREMA_E_NO_MEMORY) {
      cr_log_warning("%s: cannot resume from this snapshot: %s", found.state[i].path,
                     crema_error_text());
      status = CREMA_OK;
    }
  }
  for (size_t i = 0; i < found.count; ++i) free(found.state[i].path);
  free(found.state);
  return status;
}

/* Gives all processes the path that the first has found. */
static crema_status share_path(crema_solver *solver, char **path) {
  uint64_t size = *path != NULL ? strlen(*path) + 1 : 0;
  CR_TRY(cr_world_broadcast(solver->world, &size, sizeof size));
  if (size == 0) return CREMA_OK;
  if (*path == NULL) CR_TRY(CR_NEW(*path, size, "a path"));
  return cr_world_broadcast(solver->world, *path, (size_t)size);
}

crema_status crema_solver_restore_latest(crema_solver *solver, bool *found) {
  CR_REQUIRE(solver);
  char *path = NULL;
  crema_status status = CREMA_OK;
  if (cr_solver_leads(solver)) status = find_latest(solver, &path);
  if (status == CREMA_OK) status = share_path(solver, &path);
  if (status != CREMA_OK) (void)cr_solver_tell(solver, status);
  else if (path != NULL) status = crema_solver_restore(solver, path);
  else cr_log_info("There is no snapshot %s_iter_... yet", solver->snapshot_prefix);
  if (found != NULL) *found = status == CREMA_OK && path != NULL;
  free(path);
  return status;
}
