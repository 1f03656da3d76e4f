/* A chart of the curves of some runs: a panel for each quantity. */
#ifndef CREMA_TOOLS_PLOT_CHART_H
#define CREMA_TOOLS_PLOT_CHART_H

#include "curves.h"

typedef struct chart_options {
  bool logarithmic; /* the axis of losses and rates */
  double smoothing; /* of training curves, at least 0 and below 1: the weight of earlier values */
} chart_options;

/* Draws to the file `path`, SVG or PNG by its ending. Errors: see canvas_open and canvas_close. */
crema_status chart_draw(const plot_run *run, size_t runs, const chart_options *options,
                        const char *path) CREMA_MUST_USE;

#endif
