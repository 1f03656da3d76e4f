#include "data/pipeline/window_crop.h"

#include <math.h>

#include "core/fail.h"

/* One direction: the window covers pixels `first` to `last` of the image's `size`. */
typedef struct span {
  int first, last, size;
  int before, after; /* pixels outside the image, later in pixels of the square */
  int out;           /* pixels of the square */
} span;

/* The nearest pixel. With much context a window's edge may exceed an int, far outside the image. */
static int nearest_pixel(float value) {
  const float most = 0x1p29F;
  return (int)roundf(fminf(fmaxf(value, -most), most));
}

/* Grows the span about its centre, in whole pixels, as R-CNN does. */
static void grow(span *s, float half, float context) {
  float centre = (float)s->first + (float)(s->last - s->first + 1) / 2.0f;
  s->first = nearest_pixel(centre - half * context);
  s->last = nearest_pixel(centre + half * context);
}

/* Cuts off the part outside the image, but keeps its share of the square. */
static bool clip(span *s, int crop_size) {
  float scale = (float)crop_size / (float)(s->last - s->first + 1);
  s->before = s->first < 0 ? -s->first : 0;
  s->after = s->last >= s->size ? s->last - s->size + 1 : 0;
  s->first += s->before;
  s->last -= s->after;
  if (s->first > s->last) return false;
  s->out = (int)roundf((float)(s->last - s->first + 1) * scale);
  s->before = (int)roundf((float)s->before * scale);
  s->after = (int)roundf((float)s->after * scale);
  return true;
}

/* Rounding may have made the image's part too long. */
static int fit(int out, int pad, int crop_size) {
  if (pad + out > crop_size) out = crop_size - pad;
  return out < 0 ? 0 : out;
}

static crema_status plan_context(span *x, span *y, const cr_window_crop_options *options,
                                 bool mirror, cr_window_crop *out) {
  int crop = options->crop_size;
  float context = (float)crop / (float)(crop - 2 * options->context_pad);
  float half_x = (float)(x->last - x->first + 1) / 2.0f;
  float half_y = (float)(y->last - y->first + 1) / 2.0f;
  if (options->square) half_x = half_y = fmaxf(half_x, half_y);
  grow(x, half_x, context);
  grow(y, half_y, context);
  bool inside = clip(x, crop);
  inside = clip(y, crop) && inside;
  if (!inside) return CREMA_OK;
  out->pad_y = y->before;
  out->pad_x = mirror ? x->after : x->before;
  out->out_height = fit(y->out, out->pad_y, crop);
  out->out_width = fit(x->out, out->pad_x, crop);
  return CREMA_OK;
}

crema_status cr_window_crop_plan(const cr_listed_window *window, int image_height, int image_width,
                                 const cr_window_crop_options *options, bool mirror,
                                 cr_window_crop *out) {
  enum { FAR = 1 << 24 };
  span x = {.first = window->x1, .last = window->x2, .size = image_width};
  span y = {.first = window->y1, .last = window->y2, .size = image_height};
  bool sound = x.first <= x.last && y.first <= y.last && x.first > -FAR && y.first > -FAR &&
               x.last < FAR && y.last < FAR;
  bool context = options->context_pad > 0 || options->square;
  bool inside = x.first >= 0 && y.first >= 0 && x.last < x.size && y.last < y.size;
  *out = (cr_window_crop){0};
  if (!sound || (!context && !inside)) {
    return cr_fail(CREMA_E_RANGE, "window %d %d %d %d of an image of %d x %d pixels", window->x1,
                   window->y1, window->x2, window->y2, image_height, image_width);
  }
  if (context) {
    CR_TRY(plan_context(&x, &y, options, mirror, out));
  } else {
    out->out_height = out->out_width = options->crop_size;
  }
  out->x = x.first;
  out->y = y.first;
  out->width = x.last - x.first + 1;
  out->height = y.last - y.first + 1;
  return CREMA_OK;
}
