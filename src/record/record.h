/* Records of training runs: a folder with run.json and metrics.jsonl (docs/records.md). */
#ifndef CR_RECORD_RECORD_H
#define CR_RECORD_RECORD_H

#include "crema/solver.h"

typedef struct cr_run_record cr_run_record;

/* The beginning of a run, for run.json. */
typedef struct cr_run_start {
  const char *solver_path;
  crema_device *device; /* NULL: the CPU */
} cr_run_start;

/* Opens the record in the folder `path`, which is made if it is missing. An existing record
 * continues: its run.json stays, and a line "start" marks the place. Errors name the path:
 * CREMA_E_IO; CREMA_E_EXISTS for a folder with other files and no record. */
crema_status cr_run_record_open(const char *path, crema_solver *solver, const cr_run_start *run,
                                cr_run_record **out) CREMA_MUST_USE;

/* Appends a line for the event. A failure is a warning, once; training continues. */
void cr_run_record_event(cr_run_record *record, const crema_solver_event *event);

/* Appends the last line, with the result "finished", "stopped" or "failed" and, for a failure, its
 * text (else NULL). Frees the record. Accepts NULL. */
void cr_run_record_close(cr_run_record *record, const char *result, const char *text);

#endif
