/* The files that a training writes for those who watch it: a record, TensorBoard's events, a
 * timeline. */
#ifndef CREMA_TOOLS_TRAIN_RECORDS_H
#define CREMA_TOOLS_TRAIN_RECORDS_H

#include "crema/solver.h"
#include "record/event_file.h"
#include "record/record.h"

/* Zero-initialise, then set the paths; "": no such file. */
typedef struct cli_train_records {
  const char *record, *tensorboard, *trace;
  int64_t trace_iterations;  /* of a timeline, after which it ends */
  int64_t traced;            /* iterations so far */
  cr_run_record *run_record; /* NULL: none */
  cr_event_file *event_file; /* NULL: none */
} cli_train_records;

/* Before the solver is made: begins the timeline, in a file of its rank for each process. */
crema_status cli_train_trace_begin(cli_train_records *records) CREMA_MUST_USE;

/* Opens the other files. `solver_path` is the solver file. */
crema_status cli_train_records_open(cli_train_records *records, crema_solver *solver,
                                    const char *solver_path) CREMA_MUST_USE;

/* Whether events of the solver are wanted, and adds one. */
bool cli_train_records_events(const cli_train_records *records);
void cli_train_records_add(cli_train_records *records, const crema_solver_event *event);

/* After each iteration. */
void cli_train_records_progress(cli_train_records *records);

/* Completes all files; `status` and the thread's error text are the result of the training. */
void cli_train_records_close(cli_train_records *records, const crema_solver *solver,
                             crema_status status);

#endif
