/* Joins processes that a program has started. */
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "device/registry.h"
#include "solver/solver.h"

/* Seconds. */
static const double USUAL_PATIENCE = 600;

static crema_status find_library(const cr_collectives **out) {
  const cr_backend *backend = NULL;
  CR_TRY(cr_backend_load(CREMA_DEVICE_CUDA, &backend));
  *out = backend->collectives;
  if (*out != NULL) return (*out)->find();
  return cr_fail(CREMA_E_UNSUPPORTED, "there is no NCCL for %s devices", backend->name);
}

crema_status crema_group_find(void) {
  const cr_collectives *library = NULL;
  return find_library(&library);
}

crema_status crema_group_make_id(crema_group_id *out) {
  CR_REQUIRE(out);
  const cr_collectives *library = NULL;
  cr_group_id id;
  CR_TRY(find_library(&library));
  CR_TRY(library->make_id(&id));
  memcpy(out->bytes, id.bytes, sizeof out->bytes);
  return CREMA_OK;
}

static crema_status check(const crema_solver *solver, double patience) {
  if (solver->world != NULL) {
    return cr_fail(CREMA_E_STATE, "the solver has joined other processes already");
  }
  /* Also rejects NaN. */
  if (!(patience >= 0)) return cr_fail(CREMA_E_RANGE, "a patience of %g s", patience);
  return cr_fail_in(cr_exchange_find_nccl(solver->device),
                    "processes that a program has started cannot train together here (several "
                    "devices of one process, or processes of mpirun, can)");
}

static crema_status join(crema_solver *solver, const crema_group_id *given, double patience) {
  cr_exchange *end = NULL;
  cr_group_id id;
  memcpy(id.bytes, given->bytes, sizeof id.bytes);
  const cr_nccl_world_options options = {.id = &id,
                                         .rank = solver->rank,
                                         .size = solver->ranks,
                                         .device = solver->device,
                                         .patience = patience > 0 ? patience : USUAL_PATIENCE};
  CR_TRY(cr_world_join_nccl(&options, &solver->world));
  cr_solver_greet(solver);
  CR_TRY(cr_exchange_create_nccl_processes(solver->world, solver->device, &end));
  cr_log_info("Exchange: nccl, between %d processes", solver->ranks);
  return cr_replica_join(&solver->replica[0], end, cr_solver_buckets(solver));
}

crema_status crema_solver_join(crema_solver *solver, const crema_group_id *id, double patience) {
  CR_REQUIRE(solver);
  CR_REQUIRE(id);
  CR_TRY(check(solver, patience));
  if (solver->options.process_count < 2) return CREMA_OK;
  return cr_solver_tell(solver, join(solver, id, patience));
}

crema_status crema_solver_broadcast(crema_solver *solver) {
  CR_REQUIRE(solver);
  crema_status status = cr_solver_level(solver);
  if (status == CREMA_OK) status = cr_solver_finish(solver);
  return cr_solver_tell(solver, status);
}

crema_status cr_solver_check_others(crema_solver *solver, int64_t end) {
  if (solver->ranks > cr_solver_partners(solver) && !solver->warned_alone) {
    cr_log_warning(
        "Rank %d of %d trains by itself, on its share of the data: it has not joined its "
        "group",
        solver->rank, solver->ranks);
    solver->warned_alone = true;
  }
  int64_t most[] = {solver->iteration, -solver->iteration, end, -end};
  CR_TRY(cr_world_agree(solver->world, NULL, 0, most, 4));
  if (most[0] == -most[1] && most[2] == -most[3]) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "ranks disagree: this one runs iterations %lld to %lld",
                 (long long)solver->iteration, (long long)end);
}
