/* The report of a training on a terminal: a banner, a progress line and a summary. In a pipe or a
 * file there are only the lines of the log, which log parsers match. */
#ifndef CREMA_TOOLS_TRAIN_REPORT_H
#define CREMA_TOOLS_TRAIN_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "crema/solver.h"

/* Zero-initialise. */
typedef struct cli_train_report {
  int64_t stop_at;      /* iterations of this run after which to stop; 0: no such limit */
  int64_t done;         /* iterations of this run */
  double start;         /* when the run began */
  double shown;         /* seconds of training when the progress line was last drawn */
  crema_solver *solver; /* NULL: before the run */
  /* The best score of the first test net in this run. */
  bool has_best;
  double best;
  int64_t best_iteration;
} cli_train_report;

/* Before the first iteration. `path` is the solver file. */
void cli_train_report_begin(cli_train_report *report, crema_solver *solver, const char *path);

/* After each iteration. */
void cli_train_report_progress(cli_train_report *report, const crema_solver_progress *progress);

/* After the last iteration and its test. */
void cli_train_report_end(cli_train_report *report);

#endif
