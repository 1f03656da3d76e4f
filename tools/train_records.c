#include "train_records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"
#include "core/timeline.h"
#include "solver/solver.h"

/* The number of this process among those that mpirun or srun started; 0 for a single process. */
static int process_rank(void) {
  static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; ++i) {
    const char *text = getenv(variables[i]);
    if (text != NULL && text[0] >= '0' && text[0] <= '9') return (int)strtol(text, NULL, 10);
  }
  return 0;
}

crema_status cli_train_trace_begin(cli_train_records *records) {
  const int rank = process_rank();
  cr_buffer path = {0};
  if (records->trace[0] == '\0') return CREMA_OK;
  crema_status status = rank == 0 ? cr_buffer_print(&path, "%s", records->trace)
                                  : cr_buffer_print(&path, "%s.%d", records->trace, rank);
  if (status == CREMA_OK) status = cr_timeline_begin(path.data, rank);
  cr_buffer_free(&path);
  return status;
}

crema_status cli_train_records_open(cli_train_records *records, crema_solver *solver,
                                    const char *solver_path) {
  const cr_run_start start = {.solver_path = solver_path, .device = solver->device};
  crema_status status = CREMA_OK;
  if (!cr_solver_leads(solver)) return CREMA_OK;
  if (records->record[0] != '\0') {
    status = cr_run_record_open(records->record, solver, &start, &records->run_record);
  }
  if (status == CREMA_OK && records->tensorboard[0] != '\0') {
    status = cr_event_file_open(records->tensorboard, solver, &records->event_file);
  }
  return status;
}

bool cli_train_records_events(const cli_train_records *records) {
  return records->record[0] != '\0' || records->tensorboard[0] != '\0';
}

void cli_train_records_add(cli_train_records *records, const crema_solver_event *event) {
  if (records->run_record != NULL) cr_run_record_event(records->run_record, event);
  if (records->event_file != NULL) cr_event_file_add(records->event_file, event);
}

static void end_trace(void) {
  if (cr_timeline_end() != CREMA_OK) cr_log_warning("%s", crema_error_text());
}

void cli_train_records_progress(cli_train_records *records) {
  if (++records->traced == records->trace_iterations) end_trace();
}

void cli_train_records_close(cli_train_records *records, const crema_solver *solver,
                             crema_status status) {
  const bool stopped = solver != NULL && solver->stop_requested;
  const char *result = status != CREMA_OK ? "failed" : stopped ? "stopped" : "finished";
  cr_error *error = status == CREMA_OK ? NULL : cr_error_keep();
  cr_run_record_close(records->run_record, result, status == CREMA_OK ? NULL : crema_error_text());
  cr_event_file_close(records->event_file);
  end_trace();
  if (status != CREMA_OK) cr_error_again(status, error);
  free(error);
}
