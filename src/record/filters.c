#include "record/filters.h"

#include <math.h>
#include <string.h>

#include "core/fail.h"

enum { MOST_FILTERS = 256, SCALE = 4, GAP = 2 };

bool cr_filters_can_draw(const cr_layer *layer) {
  if (layer->params == 0) return false;
  const crema_shape *shape = &layer->blob[0]->shape;
  return shape->axes == 4 && (shape->dim[1] == 1 || shape->dim[1] == 3) && shape->dim[2] > 1 &&
         shape->dim[3] > 1 && shape->dim[2] <= 64 && shape->dim[3] <= 64;
}

/* The filters in rows and columns. */
typedef struct filter_grid {
  int filters, columns, channels, height, width; /* of one filter, in weights */
} filter_grid;

static void draw_filter(const filter_grid *grid, const float *weights, int index, cr_image *out) {
  const int top = index / grid->columns * (grid->height * SCALE + GAP);
  const int left = index % grid->columns * (grid->width * SCALE + GAP);
  const int area = grid->height * grid->width;
  const float *filter = weights + (size_t)index * (size_t)(area * grid->channels);
  float least = filter[0], most = filter[0];
  for (int i = 1; i < area * grid->channels; ++i) {
    least = fminf(least, filter[i]);
    most = fmaxf(most, filter[i]);
  }
  const float factor = most > least ? 255 / (most - least) : 0;
  for (int y = 0; y < grid->height * SCALE; ++y) {
    for (int x = 0; x < grid->width * SCALE; ++x) {
      uint8_t *pixel = out->pixels + ((size_t)(top + y) * (size_t)out->width + (size_t)(left + x)) *
                                         (size_t)grid->channels;
      const int at = y / SCALE * grid->width + x / SCALE;
      for (int c = 0; c < grid->channels; ++c) {
        const float value = (filter[c * area + at] - least) * factor;
        pixel[c] = (uint8_t)(isfinite(value) ? value : 0);
      }
    }
  }
}

crema_status cr_filters_draw(const cr_layer *layer, cr_image *out) {
  const crema_shape *shape = &layer->blob[0]->shape;
  const float *weights;
  filter_grid grid = {
      .channels = (int)shape->dim[1], .height = (int)shape->dim[2], .width = (int)shape->dim[3]};
  grid.filters = shape->dim[0] < MOST_FILTERS ? (int)shape->dim[0] : MOST_FILTERS;
  grid.columns = (int)ceil(sqrt(grid.filters));
  const int rows = (grid.filters + grid.columns - 1) / grid.columns;
  CR_TRY(crema_blob_cpu_data(layer->blob[0], &weights));
  CR_TRY(cr_image_reserve(out, rows * (grid.height * SCALE + GAP) - GAP,
                          grid.columns * (grid.width * SCALE + GAP) - GAP, grid.channels));
  memset(out->pixels, 255, (size_t)out->height * (size_t)out->width * (size_t)grid.channels);
  for (int i = 0; i < grid.filters; ++i) draw_filter(&grid, weights, i, out);
  return CREMA_OK;
}
