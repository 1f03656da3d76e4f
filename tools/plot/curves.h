/* The curves of training runs. */
#ifndef CREMA_TOOLS_PLOT_CURVES_H
#define CREMA_TOOLS_PLOT_CURVES_H

#include <stdbool.h>
#include <stddef.h>

#include "core/arena.h"
#include "crema/status.h"

/* A curve: values over iterations. */
typedef struct plot_curve {
  const char *panel; /* curves with the same panel are drawn together */
  const char *name;  /* in the legend; "" if the panel's name says it all */
  bool points;       /* few values: marks in addition to the line */
  double *x, *y;     /* `count` of each; y may be NaN or infinite */
  size_t count, room;
} plot_curve;

typedef struct plot_run {
  const char *name; /* of the file or folder */
  plot_curve **curve;
  size_t curves, room;
} plot_run;

/* Reads a run: a folder that `crema train -record` wrote, its metrics.jsonl, or a log of Caffe or
 * crema. After a resume, values of iterations that were computed twice are the later ones. All
 * memory is the arena's. Errors name the path: CREMA_E_NOT_FOUND, CREMA_E_IO, CREMA_E_PARSE for a
 * file without any value of a training. */
crema_status plot_run_read(const char *path, cr_arena *arena, plot_run *out) CREMA_MUST_USE;

#endif
