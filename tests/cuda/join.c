/* One of several processes that a program has started, and that train together.
 *
 *   join id FILE                                       makes an id
 *   join train SOLVER ID RANK COUNT STEPS [PATIENCE]   trains on GPU number RANK
 *   join cpu SOLVER ID RANK COUNT STEPS                the same on the CPU
 *   join alone SOLVER ID RANK COUNT STEPS              trains without joining the others
 *
 * STEPS are numbers of iterations, separated by commas, or "solve". Fails when the fake driver was
 * asked for memory beside a collective. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "crema/crema.h"

static void log_line(void *user, crema_log_level level, const char *file, int line,
                     const char *message) {
  (void)user, (void)level, (void)file, (void)line;
  fprintf(stderr, "%s\n", message);
  (void)fflush(stderr);
}

static crema_status make_id(const char *path) {
  crema_group_id id;
  CR_TRY(crema_group_make_id(&id));
  FILE *file = fopen(path, "wb");
  if (file == NULL) return cr_fail(CREMA_E_IO, "%s", path);
  const size_t written = fwrite(id.bytes, sizeof id.bytes, 1, file);
  return fclose(file) == 0 && written == 1 ? CREMA_OK : cr_fail(CREMA_E_IO, "%s", path);
}

static crema_status read_id(const char *path, crema_group_id *id) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) return cr_fail(CREMA_E_IO, "%s", path);
  const size_t count = fread(id->bytes, sizeof id->bytes, 1, file);
  return fclose(file) == 0 && count == 1 ? CREMA_OK : cr_fail(CREMA_E_IO, "%s", path);
}

static crema_status train(crema_solver *solver, const char *steps) {
  if (strcmp(steps, "solve") == 0) return crema_solver_solve(solver);
  for (const char *at = steps; at != NULL; at = strchr(at, ',')) {
    if (*at == ',') ++at;
    CR_TRY(crema_solver_step(solver, atol(at)));
  }
  return CREMA_OK;
}

/* Between the start of a collective of NCCL's and its being queued nobody allocates. */
static crema_status check_collectives(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void *symbol = driver != NULL ? dlsym(driver, "fake_touched_beside_collectives") : NULL;
  int (*touched)(void) = NULL;
  if (symbol == NULL) return CREMA_OK;
  memcpy(&touched, &symbol, sizeof symbol);
  const int times = touched();
  if (times == 0) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "memory was asked for %d times beside a collective", times);
}

static crema_status run(int count, char **text) {
  const char *what = text[0];
  crema_solver_options options;
  crema_group_id id;
  crema_solver *solver = NULL;
  crema_solver_options_init(&options);
  if (strcmp(what, "id") == 0) return make_id(text[1]);
  options.process_rank = atoi(text[3]);
  options.process_count = atoi(text[4]);
  const bool cpu = strcmp(what, "cpu") == 0;
  CR_TRY(crema_device_get(cpu ? CREMA_DEVICE_CPU : CREMA_DEVICE_CUDA,
                          cpu ? 0 : options.process_rank, &options.device));
  CR_TRY(read_id(text[2], &id));
  CR_TRY(crema_solver_load(text[1], &options, &solver));
  crema_status status = CREMA_OK;
  if (strcmp(what, "alone") != 0) {
    status = crema_solver_join(solver, &id, count > 6 ? atof(text[6]) : 0);
  }
  if (status == CREMA_OK) status = train(solver, text[5]);
  if (status == CREMA_OK) status = check_collectives();
  cr_error *error = status != CREMA_OK ? cr_error_keep() : NULL;
  crema_solver_destroy(solver);
  if (status != CREMA_OK) (void)cr_error_again(status, error);
  free(error);
  return status;
}

int main(int count, char **text) {
  if (count < 3) return 2;
  crema_log_set(log_line, NULL, CREMA_LOG_INFO);
  const crema_status status = run(count - 1, text + 1);
  if (status == CREMA_OK) return 0;
  fprintf(stderr, "crema: error: %s\n", crema_error_text());
  return 1;
}
