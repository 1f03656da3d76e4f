/* The only file that uses cairo. The library is opened at run time, so that the command needs it
 * only to draw. */
#include "canvas.h"

#include <cairo-svg.h>
#include <cairo.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"

/* The functions that are used. */
#define FUNCTIONS(X)                                                                              \
  X(arc)                                                                                          \
  X(clip)                                                                                         \
  X(create)                                                                                       \
  X(destroy) X(fill) X(image_surface_create) X(line_to) X(move_to) X(paint) X(rectangle)          \
      X(restore) X(save) X(select_font_face) X(set_font_size) X(set_line_join) X(set_line_width)  \
          X(set_source_rgb) X(show_text) X(status) X(status_to_string) X(stroke)                  \
              X(surface_destroy) X(surface_finish) X(surface_status)                              \
                  X(surface_write_to_png_stream) X(svg_surface_create_for_stream) X(text_extents) \
                      X(new_path)

typedef struct cairo_table {
#define MEMBER(name) __typeof__(cairo_##name) *name;
  FUNCTIONS(MEMBER)
#undef MEMBER
} cairo_table;

struct plot_canvas {
  cairo_table cairo;
  cairo_surface_t *surface;
  cairo_t *context;
  bool png;
  const char *path;
  cr_buffer bytes; /* of the file */
};

static crema_status open_cairo(cairo_table *out) {
  void *library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "drawing needs cairo (Debian: libcairo2): %s", dlerror());
  }
#define FIND(name)                                                       \
  *(void **)&out->name = dlsym(library, "cairo_" #name);                 \
  if (out->name == NULL) {                                               \
    return cr_fail(CREMA_E_UNSUPPORTED, "cairo has no cairo_%s", #name); \
  }
  FUNCTIONS(FIND)
#undef FIND
  return CREMA_OK;
}

static cairo_status_t append(void *user, const unsigned char *bytes, unsigned size) {
  return cr_buffer_append(user, bytes, size) == CREMA_OK ? CAIRO_STATUS_SUCCESS
                                                         : CAIRO_STATUS_NO_MEMORY;
}

static void set_color(plot_canvas *c, canvas_color color) {
  c->cairo.set_source_rgb(c->context, (color >> 16 & 255) / 255.0, (color >> 8 & 255) / 255.0,
                          (color & 255) / 255.0);
}

static bool ends_in(const char *path, const char *end) {
  const size_t length = strlen(path), size = strlen(end);
  return length > size && strcmp(path + length - size, end) == 0;
}

static crema_status start(plot_canvas *c, double width, double height) {
  CR_TRY(open_cairo(&c->cairo));
  if (c->png) {
    c->surface = c->cairo.image_surface_create(CAIRO_FORMAT_RGB24, (int)width, (int)height);
  } else {
    c->surface = c->cairo.svg_surface_create_for_stream(append, &c->bytes, width, height);
  }
  c->context = c->cairo.create(c->surface);
  if (c->cairo.status(c->context) != CAIRO_STATUS_SUCCESS) {
    return cr_fail(CREMA_E_NO_MEMORY, "cairo: %s",
                   c->cairo.status_to_string(c->cairo.status(c->context)));
  }
  c->cairo.select_font_face(c->context, "DejaVu Sans", CAIRO_FONT_SLANT_NORMAL,
                            CAIRO_FONT_WEIGHT_NORMAL);
  c->cairo.set_line_join(c->context, CAIRO_LINE_JOIN_ROUND);
  set_color(c, 0xFFFFFF);
  c->cairo.paint(c->context);
  return CREMA_OK;
}

crema_status canvas_open(const char *path, double width, double height, plot_canvas **out) {
  plot_canvas *c = NULL;
  *out = NULL;
  if (!ends_in(path, ".svg") && !ends_in(path, ".png")) {
    return cr_fail(CREMA_E_ARGUMENT, "%s: the name must end in .svg, .png or .csv", path);
  }
  CR_TRY(CR_NEW(c, 1, "a canvas"));
  c->path = path;
  c->png = ends_in(path, ".png");
  crema_status status = start(c, width, height);
  if (status == CREMA_OK) *out = c;
  else status = canvas_close(c, status);
  return status;
}

static crema_status finish(plot_canvas *c) {
  cairo_status_t status = c->cairo.status(c->context);
  if (status == CAIRO_STATUS_SUCCESS && c->png) {
    status = c->cairo.surface_write_to_png_stream(c->surface, append, &c->bytes);
  }
  c->cairo.surface_finish(c->surface);
  if (status == CAIRO_STATUS_SUCCESS) status = c->cairo.surface_status(c->surface);
  if (status != CAIRO_STATUS_SUCCESS) {
    return cr_fail(CREMA_E_IO, "%s: cairo: %s", c->path, c->cairo.status_to_string(status));
  }
  return cr_file_write(c->path, c->bytes.data, c->bytes.size);
}

crema_status canvas_close(plot_canvas *c, crema_status content) {
  if (c == NULL) return content;
  if (content == CREMA_OK) content = finish(c);
  if (c->context != NULL) c->cairo.destroy(c->context);
  if (c->surface != NULL) c->cairo.surface_destroy(c->surface);
  cr_buffer_free(&c->bytes);
  free(c);
  return content;
}

void canvas_line(plot_canvas *c, canvas_color color, double width, double x0, double y0, double x1,
                 double y1) {
  const double x[] = {x0, x1}, y[] = {y0, y1};
  canvas_curve(c, color, width, x, y, 2);
}

void canvas_curve(plot_canvas *c, canvas_color color, double width, const double *x,
                  const double *y, size_t count) {
  bool drawing = false;
  set_color(c, color);
  c->cairo.set_line_width(c->context, width);
  c->cairo.new_path(c->context);
  for (size_t i = 0; i < count; ++i) {
    const bool good = isfinite(x[i]) && isfinite(y[i]);
    if (good && drawing) c->cairo.line_to(c->context, x[i], y[i]);
    else if (good) c->cairo.move_to(c->context, x[i], y[i]);
    drawing = good;
  }
  c->cairo.stroke(c->context);
}

void canvas_dot(plot_canvas *c, canvas_color color, double radius, double x, double y) {
  set_color(c, color);
  c->cairo.new_path(c->context);
  c->cairo.arc(c->context, x, y, radius, 0, 6.283185307179586);
  c->cairo.fill(c->context);
}

double canvas_text_width(plot_canvas *c, double size, const char *text) {
  cairo_text_extents_t extents;
  c->cairo.set_font_size(c->context, size);
  c->cairo.text_extents(c->context, text, &extents);
  return extents.x_advance;
}

void canvas_text(plot_canvas *c, canvas_color color, double size, double x, double y,
                 canvas_align align, const char *text) {
  const double width = canvas_text_width(c, size, text);
  if (align == CANVAS_CENTER) x -= width / 2;
  if (align == CANVAS_RIGHT) x -= width;
  set_color(c, color);
  c->cairo.move_to(c->context, x, y);
  c->cairo.show_text(c->context, text);
}

void canvas_clip(plot_canvas *c, double x, double y, double width, double height) {
  c->cairo.save(c->context);
  c->cairo.rectangle(c->context, x, y, width, height);
  c->cairo.clip(c->context);
}

void canvas_unclip(plot_canvas *c) {
  c->cairo.restore(c->context);
}
