#include "chart.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "canvas.h"
#include "core/fail.h"

/* In pixels. */
enum { WIDTH = 520, HEIGHT = 320, LEFT = 66, RIGHT = 16, TOP = 34, BOTTOM = 44, LEGEND = 16 };
enum { MOST_PANELS = 24, MOST_TICKS = 12 };

static const canvas_color ink = 0x24292F, pale = 0xE4E7EB, gray = 0x6E7781;

/* Distinct also for colour-blind readers (Okabe and Ito, "Color universal design", 2008). */
static const canvas_color colors[] = {0x0072B2, 0xD55E00, 0x009E73, 0xCC79A7,
                                      0xE69F00, 0x56B4E9, 0x000000, 0xA0A000};
enum { COLORS = sizeof colors / sizeof *colors };

/* A curve that is drawn in a panel. */
typedef struct plot_line {
  const plot_run *run;
  const plot_curve *curve;
  canvas_color color;
} plot_line;

typedef struct panel {
  const char *name;
  plot_line *line;
  size_t lines;
  bool logarithmic;
  double x0, x1, y0, y1; /* the ranges of the axes; of a logarithmic axis, log10 of the values */
  double left, top;      /* of the panel on the plot_canvas */
} panel;

typedef struct chart {
  panel panel[MOST_PANELS];
  size_t panels;
  const chart_options *options;
  bool several; /* runs */
} chart;

/* ---- panels --------------------------------------------------------------------- */

static panel *find_panel(chart *c, const char *name) {
  for (size_t i = 0; i < c->panels; ++i) {
    if (strcmp(c->panel[i].name, name) == 0) return &c->panel[i];
  }
  if (c->panels == MOST_PANELS) return NULL;
  panel *added = &c->panel[c->panels++];
  *added = (panel){.name = name};
  added->logarithmic =
      c->options->logarithmic && (strcmp(name, "loss") == 0 || strcmp(name, "learning rate") == 0);
  return added;
}

/* Curves beyond the last panel are not drawn. */
static crema_status sort_curves(chart *c, const plot_run *run, size_t runs) {
  for (size_t r = 0; r < runs; ++r) {
    for (size_t i = 0; i < run[r].curves; ++i) {
      panel *place = find_panel(c, run[r].curve[i]->panel);
      if (place == NULL) continue;
      plot_line *grown = realloc(place->line, (place->lines + 1) * sizeof *grown);
      if (grown == NULL) return cr_fail_memory((place->lines + 1) * sizeof *grown, "curves");
      place->line = grown;
      place->line[place->lines] =
          (plot_line){&run[r], run[r].curve[i], colors[place->lines % COLORS]};
      ++place->lines;
    }
  }
  return CREMA_OK;
}

static double scaled(const panel *p, double value) {
  return p->logarithmic ? (value > 0 ? log10(value) : NAN) : value;
}

static void find_ranges(panel *p) {
  p->x0 = p->y0 = INFINITY;
  p->x1 = p->y1 = -INFINITY;
  for (size_t l = 0; l < p->lines; ++l) {
    const plot_curve *curve = p->line[l].curve;
    for (size_t i = 0; i < curve->count; ++i) {
      const double y = scaled(p, curve->y[i]);
      if (!isfinite(y)) continue;
      p->x0 = fmin(p->x0, curve->x[i]);
      p->x1 = fmax(p->x1, curve->x[i]);
      p->y0 = fmin(p->y0, y);
      p->y1 = fmax(p->y1, y);
    }
  }
  if (p->x0 > p->x1) p->x0 = p->y0 = 0, p->x1 = p->y1 = 1; /* no finite value */
  if (p->x0 == p->x1) p->x1 += 1;
  const double room = p->y1 > p->y0 ? 0.05 * (p->y1 - p->y0) : fabs(p->y0) * 0.1 + 1e-9;
  const bool positive = p->y0 >= 0 && !p->logarithmic;
  p->y0 -= room;
  p->y1 += room;
  if (positive && p->y0 < 0) p->y0 = 0;
}

/* ---- axes -------------------------------------------------------------------------- */

static double x_of(const panel *p, double x) {
  return p->left + LEFT + (x - p->x0) / (p->x1 - p->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const panel *p, double y) {
  return p->top + HEIGHT - BOTTOM - (y - p->y0) / (p->y1 - p->y0) * (HEIGHT - TOP - BOTTOM);
}

/* 1, 2 or 5 times a power of ten, so that at most `most` steps fit into the range. */
static double nice_step(double range, int most) {
  const double raw = range / most, power = pow(10, floor(log10(raw)));
  const double factor = raw / power;
  return power * (factor <= 1 ? 1 : factor <= 2 ? 2 : factor <= 5 ? 5 : 10);
}

static int find_ticks(double from, double to, int most, bool whole, double out[MOST_TICKS]) {
  double step = nice_step(to - from, most);
  int count = 0;
  if (whole && step < 1) step = 1;
  for (double at = ceil(from / step - 1e-9) * step; at <= to + step * 1e-9; at += step) {
    if (count == MOST_TICKS) break;
    out[count++] = fabs(at) < step * 1e-9 ? 0 : at;
  }
  return count;
}

/* Of a logarithmic axis: powers of ten and, if these are few, also twice and five times powers. */
static int find_log_ticks(double from, double to, double out[MOST_TICKS]) {
  static const double parts[] = {0, 0.30103, 0.69897}; /* log10 of 1, 2 and 5 */
  const int used = to - from < 3 ? 3 : 1;
  int count = 0;
  for (double power = floor(from); power <= to; power += to - from > MOST_TICKS ? 4 : 1) {
    for (int i = 0; i < used; ++i) {
      const double at = power + parts[i];
      if (at >= from && at <= to && count < MOST_TICKS) out[count++] = at;
    }
  }
  return count;
}

static void draw_axes(plot_canvas *to, const panel *p) {
  double tick[MOST_TICKS];
  char text[32];
  const double bottom = p->top + HEIGHT - BOTTOM, left = p->left + LEFT;
  int count = p->logarithmic ? find_log_ticks(p->y0, p->y1, tick)
                             : find_ticks(p->y0, p->y1, 6, false, tick);
  for (int i = 0; i < count; ++i) {
    const double y = y_of(p, tick[i]);
    snprintf(text, sizeof text, "%.4g", p->logarithmic ? pow(10, tick[i]) : tick[i]);
    canvas_line(to, pale, 1, left, y, p->left + WIDTH - RIGHT, y);
    canvas_text(to, gray, 11, left - 6, y + 4, CANVAS_RIGHT, text);
  }
  count = find_ticks(p->x0, p->x1, 6, true, tick);
  for (int i = 0; i < count; ++i) {
    const double x = x_of(p, tick[i]);
    snprintf(text, sizeof text, "%.10g", tick[i]);
    canvas_line(to, gray, 1, x, bottom, x, bottom + 4);
    canvas_text(to, gray, 11, x, bottom + 17, CANVAS_CENTER, text);
  }
  canvas_line(to, gray, 1, left, bottom, p->left + WIDTH - RIGHT, bottom);
  canvas_text(to, gray, 11, p->left + WIDTH - RIGHT, bottom + 34, CANVAS_RIGHT, "iteration");
  canvas_text(to, ink, 14, left, p->top + 20, CANVAS_LEFT, p->name);
}

/* ---- curves -------------------------------------------------------------------------- */

/* An exponential mean that starts at the first value. */
static void smooth(double *y, size_t count, double weight) {
  double mean = NAN;
  for (size_t i = 0; i < count; ++i) {
    if (!isfinite(y[i])) continue;
    mean = isfinite(mean) ? weight * mean + (1 - weight) * y[i] : y[i];
    y[i] = mean;
  }
}

static crema_status draw_curve(plot_canvas *to, const panel *p, const plot_line *l,
                               double smoothing) {
  const size_t count = l->curve->count;
  double *x = NULL;
  CR_TRY(CR_NEW(x, 2 * count + 1, "a curve"));
  double *y = x + count;
  for (size_t i = 0; i < count; ++i) {
    x[i] = x_of(p, l->curve->x[i]);
    y[i] = y_of(p, scaled(p, l->curve->y[i]));
  }
  if (smoothing > 0 && !l->curve->points) smooth(y, count, smoothing);
  canvas_curve(to, l->color, 1.6, x, y, count);
  for (size_t i = 0; i < count && (l->curve->points || count == 1); ++i) {
    if (isfinite(y[i])) canvas_dot(to, l->color, 2.6, x[i], y[i]);
  }
  free(x);
  return CREMA_OK;
}

/* At the right of the title, in as many rows as are needed. */
static void draw_legend(plot_canvas *to, const chart *c, const panel *p) {
  const double left = p->left + LEFT + canvas_text_width(to, 14, p->name) + 24;
  const double right = p->left + WIDTH - RIGHT;
  double x = left, y = p->top + 20;
  if (p->lines == 1 && !c->several) return;
  for (size_t i = 0; i < p->lines; ++i) {
    const plot_line *l = &p->line[i];
    char text[160];
    const bool named = l->curve->name[0] != '\0';
    snprintf(text, sizeof text, "%.80s%s%.70s", c->several ? l->run->name : "",
             c->several && named ? ": " : "", l->curve->name);
    const double width = canvas_text_width(to, 11, text) + 17;
    if (x > left && x + width > right) {
      x = left;
      y += LEGEND;
    }
    canvas_line(to, l->color, 3, x, y - 4, x + 12, y - 4);
    canvas_text(to, ink, 11, x + 17, y, CANVAS_LEFT, text);
    x += width + 12;
  }
}

static crema_status draw_panel(plot_canvas *to, const chart *c, panel *p) {
  crema_status status = CREMA_OK;
  find_ranges(p);
  draw_axes(to, p);
  canvas_clip(to, p->left + LEFT - 3, p->top + TOP - 3, WIDTH - LEFT - RIGHT + 6,
              HEIGHT - TOP - BOTTOM + 6);
  for (size_t i = 0; i < p->lines && status == CREMA_OK; ++i) {
    status = draw_curve(to, p, &p->line[i], c->options->smoothing);
  }
  canvas_unclip(to);
  draw_legend(to, c, p);
  return status;
}

crema_status chart_draw(const plot_run *run, size_t runs, const chart_options *options,
                        const char *path) {
  chart c = {.options = options, .several = runs > 1};
  plot_canvas *out = NULL;
  crema_status status = sort_curves(&c, run, runs);
  const size_t columns = c.panels > 1 ? 2 : 1, rows = (c.panels + columns - 1) / columns;
  if (status == CREMA_OK) {
    status = canvas_open(path, (double)columns * WIDTH, (double)rows * HEIGHT, &out);
  }
  for (size_t i = 0; i < c.panels && status == CREMA_OK; ++i) {
    c.panel[i].left = (double)(i % columns) * WIDTH;
    c.panel[i].top = (double)(i / columns) * HEIGHT;
    status = draw_panel(out, &c, &c.panel[i]);
  }
  status = canvas_close(out, status);
  for (size_t i = 0; i < c.panels; ++i) free(c.panel[i].line);
  return status;
}
