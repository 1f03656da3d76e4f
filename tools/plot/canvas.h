/* An SVG or PNG file to draw to. Lengths are in pixels from the left and from the top. */
#ifndef CREMA_TOOLS_PLOT_CANVAS_H
#define CREMA_TOOLS_PLOT_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

#include "crema/status.h"

typedef struct plot_canvas plot_canvas;

/* Red, green and blue, 8 bits each: 0xRRGGBB. */
typedef unsigned canvas_color;

typedef enum canvas_align { CANVAS_LEFT, CANVAS_CENTER, CANVAS_RIGHT } canvas_align;

/* A white canvas for a file whose name ends in .svg or .png. Errors: CREMA_E_ARGUMENT for another
 * ending, CREMA_E_UNSUPPORTED if cairo is not installed, CREMA_E_NO_MEMORY. */
crema_status canvas_open(const char *path, double width, double height,
                         plot_canvas **out) CREMA_MUST_USE;

/* Writes the file and frees the canvas. With `content` not CREMA_OK, only frees it and returns
 * `content`. Accepts NULL. Errors: CREMA_E_IO. */
crema_status canvas_close(plot_canvas *c, crema_status content) CREMA_MUST_USE;

void canvas_line(plot_canvas *c, canvas_color color, double width, double x0, double y0, double x1,
                 double y1);
/* A line through `count` points; a point with a NaN interrupts it. */
void canvas_curve(plot_canvas *c, canvas_color color, double width, const double *x,
                  const double *y, size_t count);
void canvas_dot(plot_canvas *c, canvas_color color, double radius, double x, double y);
/* Text whose baseline begins, ends or has its centre at x, y. */
void canvas_text(plot_canvas *c, canvas_color color, double size, double x, double y,
                 canvas_align align, const char *text);
double canvas_text_width(plot_canvas *c, double size, const char *text);
/* Later drawing stays inside the rectangle, until canvas_unclip. */
void canvas_clip(plot_canvas *c, double x, double y, double width, double height);
void canvas_unclip(plot_canvas *c);

#endif
