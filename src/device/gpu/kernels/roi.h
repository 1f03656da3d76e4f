/* Pooling of regions of interest. Numbers that depend only on the region and one axis, such as the
 * sides of its parts, are found once and put into tables that all channels read. Gradients are
 * gathered: a thread per position of the map visits the regions in order and adds the gradients of
 * the regions that cover it. */
#ifndef CR_GPU_KERNELS_ROI_H
#define CR_GPU_KERNELS_ROI_H

#include "device/gpu/kernels/values.h"

/* Half open: rows or columns of the map, or of parts. */
typedef struct cr_roi_range {
  int32_t begin, end;
} cr_roi_range;

/* The part of the map that a region reads, or more. Rows are counted through all images, so that a
 * box also identifies its image. */
typedef struct cr_roi_box {
  cr_roi_range y, x;
} cr_roi_box;

/* A row or column of the map with its weight in a part's mean. */
typedef struct cr_roi_tap {
  int32_t at;
  float weight;
} cr_roi_tap;

typedef enum cr_roi_kind { CR_ROI_LARGEST, CR_ROI_MEANS, CR_ROI_ALIGN } cr_roi_kind;

enum {
  CR_ROI_CHANNELS = 4,       /* of a thread that gathers a gradient */
  CR_ROI_TOGETHER = 4,       /* regions that it looks at at once */
  CR_ROI_SAMPLES_MOST = 4096 /* of a part along one axis */
};

/* The map (images, channels, height, width), the result (regions, results, rows, columns). Sides:
 * rows of parts, then columns of parts. Positions: rows of the map, then its columns. */
typedef struct cr_roi_args {
  cr_hd_values src, dy, out;
  const CR_GLOBAL float *rois; /* (regions, 5) */
  cr_f64 scale;
  int32_t kind, ratio;
  int64_t regions, results;
  int32_t images, channels, height, width, rows, columns;
  cr_divisor by_plane, by_width;   /* of a map */
  cr_divisor by_cells, by_columns; /* of a result */
  cr_divisor by_results, by_channels, by_blocks;
  cr_divisor by_sides, by_positions; /* one more than there are */
  /* The tables. Those that an op does not need are NULL. */
  CR_GLOBAL int32_t *image;  /* of each region, -1: of none */
  CR_GLOBAL cr_roi_box *box; /* of each region */
  CR_GLOBAL cr_roi_range
      *side; /* the range of each part in the map, at region * region_step + side * side_step */
  int64_t region_step, side_step;
  CR_GLOBAL cr_roi_range
      *owner; /* (regions, positions): the rows or columns of parts that have a position */
  CR_GLOBAL int32_t *index;  /* of the largest value in its plane, -1: none; as dy */
  CR_GLOBAL cr_roi_tap *tap; /* (regions, sides, taps_most) */
  CR_GLOBAL int32_t *taps;   /* (regions, sides): their number */
  int32_t taps_most;
  CR_GLOBAL float *weight; /* per region (rows, height), then (columns, width) */
  CR_GLOBAL cr_gpu_fault *fault;
} cr_roi_args;

/* Regions: */

/* A product that is rounded separately. Otherwise a device would add to it before rounding, and
 * sides of parts would differ from the CPU's. */
CR_HD cr_wide cr_roi_product(cr_wide a, cr_wide b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}

CR_HD bool cr_roi_has(cr_roi_range range, int64_t at) {
  return at >= range.begin && at < range.end;
}

/* NaN becomes 0. */
CR_HD int32_t cr_roi_cut_to(cr_wide x, int32_t most) {
  return x > 0 ? (x < most ? (int32_t)x : most) : 0;
}

/* The positions of samples along one axis of a region: `count` in each part. */
typedef struct cr_roi_grid {
  cr_wide begin, size; /* of the region, and of a part */
  cr_wide wanted;      /* values in each part */
  int32_t count;       /* the same, and 0 if that is too many */
} cr_roi_grid;

CR_HD cr_roi_grid cr_roi_grid_of(const cr_roi_args *a, int64_t region, bool across) {
  const CR_GLOBAL float *roi = a->rois + 5 * region;
  const int32_t parts = across ? a->columns : a->rows;
  const cr_wide begin = cr_roi_product((cr_wide)roi[across ? 1 : 2], cr_f64_value(a->scale));
  const cr_wide length =
      cr_roi_product((cr_wide)roi[across ? 3 : 4], cr_f64_value(a->scale)) - begin;
  cr_roi_grid g;
  g.begin = begin;
  g.size = (length < 1 ? 1 : length) / (cr_wide)(parts > 0 ? parts : 1);
  g.wanted = a->ratio > 0 ? (cr_wide)a->ratio : ceil(g.size);
  g.count = g.wanted <= CR_ROI_SAMPLES_MOST ? (int32_t)g.wanted : 0;
  return g;
}

/* The image of a region; -1, reported, when there is none or its sides are no numbers to compute
 * with. */
CR_HD int32_t cr_roi_image_of(const cr_roi_args *a, int64_t region) {
  const CR_GLOBAL float *roi = a->rois + 5 * region;
  if (!(roi[0] >= 0 && (cr_wide)roi[0] < (cr_wide)a->images)) {
    cr_report(a->fault, CR_GPU_FAULT_REGION, roi[0], region, a->regions, a->images);
    return -1;
  }
  for (int i = 1; i < 5; ++i) {
    if (fabsf(roi[i]) <= 1e9f) continue;
    cr_report(a->fault, CR_GPU_FAULT_SIDE, roi[i], region, a->regions, a->images);
    return -1;
  }
  for (int i = 0; a->kind == CR_ROI_ALIGN && i < 2; ++i) {
    const cr_roi_grid g = cr_roi_grid_of(a, region, i == 1);
    if (g.count > 0) continue;
    cr_report(a->fault, CR_GPU_FAULT_SAMPLES, (float)g.wanted, region, a->regions, a->images);
    return -1;
  }
  return (int32_t)roi[0];
}

/* Sides of parts: */

/* The side of a region from `low` to `high`, inclusive (Girshick, 2015). */
CR_HD cr_roi_range cr_roi_largest_side(const cr_roi_args *a, float low, float high, int32_t parts,
                                       int32_t part, int32_t extent) {
  const cr_wide begin = round(cr_roi_product((cr_wide)low, cr_f64_value(a->scale)));
  const cr_wide end = round(cr_roi_product((cr_wide)high, cr_f64_value(a->scale)));
  const cr_wide length = end - begin + 1 < 1 ? 1 : end - begin + 1;
  /* In single precision, as the definition has it: parts of, say, 7 / 7 rows depend on it. */
  const float size = (float)length / (float)parts;
  cr_roi_range range;
  range.begin = cr_roi_cut_to(floor((cr_wide)((float)part * size)) + begin, extent);
  range.end = cr_roi_cut_to(ceil((cr_wide)((float)(part + 1) * size)) + begin, extent);
  return range;
}

/* The same for parts with separate channels (Dai et al., 2016). */
CR_HD cr_roi_range cr_roi_means_side(const cr_roi_args *a, float low, float high, int32_t parts,
                                     int32_t part, int32_t extent) {
  const cr_wide begin = cr_roi_product(round((cr_wide)low), cr_f64_value(a->scale));
  const cr_wide end = cr_roi_product(round((cr_wide)high) + 1, cr_f64_value(a->scale));
  const cr_wide length = end - begin < 0.1 ? 0.1 : end - begin, size = length / (cr_wide)parts;
  cr_roi_range range;
  range.begin = cr_roi_cut_to(floor(cr_roi_product((cr_wide)part, size) + begin), extent);
  range.end = cr_roi_cut_to(ceil(cr_roi_product((cr_wide)(part + 1), size) + begin), extent);
  return range;
}

CR_HD cr_roi_range cr_roi_side_of(const cr_roi_args *a, int64_t region, bool across, int32_t part) {
  const CR_GLOBAL float *roi = a->rois + 5 * region;
  const float low = roi[across ? 1 : 2], high = roi[across ? 3 : 4];
  const int32_t parts = across ? a->columns : a->rows, extent = across ? a->width : a->height;
  return a->kind == CR_ROI_LARGEST ? cr_roi_largest_side(a, low, high, parts, part, extent)
                                   : cr_roi_means_side(a, low, high, parts, part, extent);
}

/* Element i of (regions, 1 + sides): the region's image, then its sides. */
CR_HD void cr_roi_sides_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_quotient at = cr_divide_by(i, a->by_sides);
  const int64_t r = at.whole, side = at.rest - 1;
  if (side < 0) {
    a->image[r] = cr_roi_image_of(a, r);
  } else {
    const bool across = side >= a->rows;
    a->side[r * a->region_step + side * a->side_step] =
        cr_roi_side_of(a, r, across, (int32_t)(across ? side - a->rows : side));
  }
}

CR_HD cr_roi_range cr_roi_rows_of(const cr_roi_args *a, int64_t region, int64_t row) {
  return a->side[region * a->region_step + row * a->side_step];
}

CR_HD cr_roi_range cr_roi_columns_of(const cr_roi_args *a, int64_t region, int64_t column) {
  return a->side[region * a->region_step + (a->rows + column) * a->side_step];
}

/* Results: */

/* The index of a value in the result. */
typedef struct cr_roi_cell {
  int64_t region, result;
  int64_t part, row, column;
} cr_roi_cell;

CR_HD cr_roi_cell cr_roi_cell_of(const cr_roi_args *a, int64_t i) {
  const cr_quotient plane = cr_divide_by(i, a->by_cells),
                    at = cr_divide_by(plane.whole, a->by_results),
                    part = cr_divide_by(plane.rest, a->by_columns);
  cr_roi_cell cell;
  cell.region = at.whole;
  cell.result = at.rest;
  cell.part = plane.rest;
  cell.row = part.whole;
  cell.column = part.rest;
  return cell;
}

CR_HD cr_hd_values cr_roi_plane(const cr_roi_args *a, int64_t image, int64_t channel) {
  return cr_hd_values_from(a->src, (image * a->channels + channel) * a->by_plane.by);
}

/* The largest value of each part: */

typedef struct cr_roi_largest_value {
  float value;
  int32_t index; /* in its plane; -1: the part is empty */
} cr_roi_largest_value;

/* The first of equal ones. NaN is skipped, but as a part's first value it is the result. */
CR_HD cr_roi_largest_value cr_roi_largest_in(const cr_roi_args *a, int64_t i) {
  const cr_roi_cell cell = cr_roi_cell_of(a, i);
  const int32_t image = a->image[cell.region];
  cr_roi_largest_value best = {0, -1};
  if (image < 0) return best;
  const cr_roi_range rows = cr_roi_rows_of(a, cell.region, cell.row),
                     columns = cr_roi_columns_of(a, cell.region, cell.column);
  const cr_hd_values plane = cr_roi_plane(a, image, cell.result);
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      const int32_t at = y * a->width + x;
      const float value = cr_get(plane, at);
      if (best.index >= 0 && !(value > best.value)) continue;
      best.value = value;
      best.index = at;
    }
  }
  return best;
}

CR_HD float cr_roi_pool_fwd_device(const void *args, int64_t i) {
  return cr_roi_largest_in((const cr_roi_args *)args, i).value;
}

/* Means of parts with separate channels: */

CR_HD float cr_psroi_pool_fwd_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_roi_cell cell = cr_roi_cell_of(a, i);
  const int32_t image = a->image[cell.region];
  if (image < 0) return 0;
  const cr_roi_range rows = cr_roi_rows_of(a, cell.region, cell.row),
                     columns = cr_roi_columns_of(a, cell.region, cell.column);
  if (rows.begin >= rows.end || columns.begin >= columns.end) return 0;
  const cr_hd_values plane = cr_roi_plane(a, image, cell.result * a->by_cells.by + cell.part);
  cr_wide sum = 0;
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      sum += (cr_wide)cr_get(plane, y * a->width + x);
    }
  }
  const int64_t area = (int64_t)(rows.end - rows.begin) * (columns.end - columns.begin);
  return (float)(sum / (cr_wide)area);
}

/* Means of interpolated values: */

/* A sample is between two neighbours. */
typedef struct cr_roi_between {
  int32_t low, high;
  cr_wide weight; /* of the higher one */
  bool inside;
} cr_roi_between;

/* The position of sample `sample` of part `part`. */
CR_HD cr_roi_between cr_roi_between_of(const cr_roi_grid *g, int32_t part, int32_t sample,
                                       int32_t extent) {
  cr_wide at = g->begin +
               cr_roi_product(g->size, (cr_wide)part + ((cr_wide)sample + 0.5) / (cr_wide)g->count);
  cr_roi_between b = {0, 0, 0, false};
  if (extent == 0 || !(at >= -1 && at <= (cr_wide)extent)) return b;
  b.inside = true;
  if (at <= 0) at = 0;
  b.low = (int32_t)at;
  b.high = b.low + 1;
  if (b.low >= extent - 1) {
    b.low = b.high = extent - 1;
    at = (cr_wide)b.low;
  }
  b.weight = at - (cr_wide)b.low;
  return b;
}

/* The taps of a part during the loop over its samples. A value's neighbours are no lower than its
 * predecessor's: only the last two taps so far can match. */
typedef struct cr_roi_taps {
  CR_GLOBAL cr_roi_tap *to;
  cr_wide count; /* of values */
  int32_t written, at[2];
  cr_wide sum[2]; /* of the last two: the older one, then the newer one; at -1: none */
} cr_roi_taps;

CR_HD void cr_roi_write_tap(cr_roi_taps *t, int k) {
  if (t->at[k] < 0) return;
  t->to[t->written].at = t->at[k];
  t->to[t->written].weight = (float)(t->sum[k] / t->count);
  ++t->written;
}

CR_HD void cr_roi_add_tap(cr_roi_taps *t, int32_t at, cr_wide weight) {
  if (at == t->at[1]) {
    t->sum[1] += weight;
  } else if (at == t->at[0]) {
    t->sum[0] += weight;
  } else {
    cr_roi_write_tap(t, 0);
    t->at[0] = t->at[1];
    t->sum[0] = t->sum[1];
    t->at[1] = at;
    t->sum[1] = weight;
  }
}

/* Element i of (regions, 1 + sides): the region's image, then the taps of its sides, in rising
 * order. */
CR_HD void cr_roi_taps_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_quotient at = cr_divide_by(i, a->by_sides);
  const int64_t r = at.whole, side = at.rest - 1, slot = r * (a->by_sides.by - 1) + side;
  if (side < 0) {
    a->image[r] = cr_roi_image_of(a, r);
    return;
  }
  const bool across = side >= a->rows;
  const int32_t part = (int32_t)(across ? side - a->rows : side);
  const cr_roi_grid g = cr_roi_grid_of(a, r, across);
  cr_roi_taps t = {a->tap + slot * a->taps_most, (cr_wide)g.count, 0, {-1, -1}, {0, 0}};
  for (int32_t k = 0; k < g.count; ++k) {
    const cr_roi_between b = cr_roi_between_of(&g, part, k, across ? a->width : a->height);
    if (!b.inside) continue;
    cr_roi_add_tap(&t, b.low, 1 - b.weight);
    cr_roi_add_tap(&t, b.high, b.weight);
  }
  cr_roi_write_tap(&t, 0);
  cr_roi_write_tap(&t, 1);
  a->taps[slot] = t.written;
}

/* A part's samples form a grid, so its mean is a sum over rows of sums over columns. */
CR_HD float cr_roi_align_fwd_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_roi_cell cell = cr_roi_cell_of(a, i);
  const int32_t image = a->image[cell.region];
  if (image < 0) return 0;
  const int64_t first = cell.region * (a->by_sides.by - 1);
  const int64_t row = first + cell.row, column = first + a->rows + cell.column;
  const CR_GLOBAL cr_roi_tap *y = a->tap + row * a->taps_most, *x = a->tap + column * a->taps_most;
  const int32_t rows = a->taps[row], columns = a->taps[column];
  const cr_hd_values plane = cr_roi_plane(a, image, cell.result);
  float sum = 0;
  for (int32_t k = 0; k < rows; ++k) {
    float of_row = 0;
    for (int32_t l = 0; l < columns; ++l) {
      of_row += x[l].weight * cr_get(plane, y[k].at * a->width + x[l].at);
    }
    sum += y[k].weight * of_row;
  }
  return sum;
}

/* Gradients: which parts have a position: */

/* All rows belong to one image. */
CR_HD cr_roi_box cr_roi_box_of(const cr_roi_args *a, int32_t image, cr_roi_range y,
                               cr_roi_range x) {
  cr_roi_box box = {{0, 0}, {0, 0}};
  if (image < 0) return box;
  box.y.begin = image * a->height + y.begin;
  box.y.end = image * a->height + y.end;
  box.x = x;
  return box;
}

CR_HD int64_t cr_roi_owner_at(const cr_roi_args *a, int64_t region, int64_t position) {
  return region * (a->by_positions.by - 1) + position;
}

/* Element i of (regions, 1 + positions): the region's box, then of each position the parts whose
 * sides have it; these follow each other. */
CR_HD void cr_roi_owners_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_quotient where = cr_divide_by(i, a->by_positions);
  const int64_t r = where.whole, position = where.rest - 1;
  if (position < 0) {
    cr_roi_range y = {0, 0}, x = {0, 0};
    if (a->rows > 0 && a->columns > 0) {
      y.begin = cr_roi_rows_of(a, r, 0).begin;
      y.end = cr_roi_rows_of(a, r, a->rows - 1).end;
      x.begin = cr_roi_columns_of(a, r, 0).begin;
      x.end = cr_roi_columns_of(a, r, a->columns - 1).end;
    }
    a->box[r] = cr_roi_box_of(a, a->image[r], y, x);
    return;
  }
  const bool across = position >= a->height;
  const int64_t at = across ? position - a->height : position;
  const int32_t parts = across ? a->columns : a->rows;
  cr_roi_range owner = {0, 0};
  for (int32_t k = 0; k < parts; ++k) {
    const cr_roi_range side = across ? cr_roi_columns_of(a, r, k) : cr_roi_rows_of(a, r, k);
    if (!cr_roi_has(side, at)) continue;
    if (owner.end == 0) owner.begin = k;
    owner.end = k + 1;
  }
  a->owner[cr_roi_owner_at(a, r, position)] = owner;
}

/* No position outside has a value of the region as its neighbour. */
CR_HD cr_roi_range cr_roi_grid_reach(const cr_roi_grid *g, int32_t parts, int32_t extent) {
  const cr_wide end = g->begin + cr_roi_product(g->size, (cr_wide)parts);
  cr_roi_range reach;
  reach.begin = cr_roi_cut_to(floor(g->begin), extent > 0 ? extent - 1 : 0);
  reach.end = cr_roi_cut_to(floor(end) + 2, extent);
  return reach;
}

/* The weight of position `at` in part `part`. */
CR_HD float cr_roi_weight_of(const cr_roi_grid *g, int32_t part, int32_t at, int32_t extent) {
  const cr_wide begin = g->begin + cr_roi_product(g->size, (cr_wide)part);
  if (begin > (cr_wide)at + 2 || begin + g->size < (cr_wide)at - 2) return 0;
  cr_wide sum = 0;
  for (int32_t k = 0; k < g->count; ++k) {
    const cr_roi_between b = cr_roi_between_of(g, part, k, extent);
    if (!b.inside) continue;
    if (b.low == at) sum += 1 - b.weight;
    if (b.high == at) sum += b.weight;
  }
  return g->count > 0 ? (float)(sum / (cr_wide)g->count) : 0;
}

/* The start of the weights of region `region`, for rows or for columns. */
CR_HD CR_GLOBAL float *cr_roi_weights_at(const cr_roi_args *a, int64_t region, bool across) {
  const int64_t of_rows = (int64_t)a->rows * a->height;
  const int64_t of_columns = (int64_t)a->columns * a->width;
  return a->weight + region * (of_rows + of_columns) + (across ? of_rows : 0);
}

/* Element i of (regions, 1 + positions): the region's box, then for each position its weights and
 * the parts in which it has a weight. */
CR_HD void cr_roi_weights_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_quotient where = cr_divide_by(i, a->by_positions);
  const int64_t r = where.whole, position = where.rest - 1;
  const bool across = position >= a->height;
  const cr_roi_grid g = cr_roi_grid_of(a, r, across);
  if (position < 0) {
    const cr_roi_grid x = cr_roi_grid_of(a, r, true);
    a->box[r] = cr_roi_box_of(a, cr_roi_image_of(a, r), cr_roi_grid_reach(&g, a->rows, a->height),
                              cr_roi_grid_reach(&x, a->columns, a->width));
    return;
  }
  const int32_t at = (int32_t)(across ? position - a->height : position);
  const int32_t parts = across ? a->columns : a->rows, extent = across ? a->width : a->height;
  CR_GLOBAL float *to = cr_roi_weights_at(a, r, across) + at;
  cr_roi_range owner = {0, 0};
  for (int32_t k = 0; k < parts; ++k) {
    const float weight = cr_roi_weight_of(&g, k, at, extent);
    to[(int64_t)k * extent] = weight;
    if (!(weight > 0)) continue;
    if (owner.end == 0) owner.begin = k;
    owner.end = k + 1;
  }
  a->owner[cr_roi_owner_at(a, r, position)] = owner;
}

/* Gradients: gathering: */

/* A position of the map in the channels of a thread. */
typedef struct cr_roi_spot {
  int64_t y, x, at;               /* in its plane */
  int32_t row;                    /* counted through all images */
  int64_t plane;                  /* of the first channel */
  int64_t value[CR_ROI_CHANNELS]; /* the start of the channels in a region's values */
  int32_t channels;               /* that there are; further ones repeat the last */
} cr_roi_spot;

/* Element i of (images, blocks of channels, height, width). */
CR_HD cr_roi_spot cr_roi_spot_of(const cr_roi_args *a, int64_t i) {
  const cr_quotient plane = cr_divide_by(i, a->by_plane),
                    block = cr_divide_by(plane.whole, a->by_blocks),
                    at = cr_divide_by(plane.rest, a->by_width);
  const int64_t first = block.rest * CR_ROI_CHANNELS, left = a->channels - first;
  cr_roi_spot spot;
  spot.y = at.whole;
  spot.x = at.rest;
  spot.at = plane.rest;
  spot.row = (int32_t)(block.whole * a->height + at.whole);
  spot.plane = block.whole * a->channels + first;
  spot.channels = left < CR_ROI_CHANNELS ? (int32_t)left : (int32_t)CR_ROI_CHANNELS;
  for (int k = 0; k < CR_ROI_CHANNELS; ++k) {
    spot.value[k] = (first + (k < spot.channels ? k : spot.channels - 1)) * a->by_cells.by;
  }
  return spot;
}

/* Which of the regions from `first` on, CR_ROI_TOGETHER of them, have the row: bit k for region
 * first + k. Nearly all regions do not, so their boxes are read first. */
CR_HD uint32_t cr_roi_with_row(const cr_roi_args *a, int64_t first, int32_t row) {
  uint32_t found = 0;
  CR_UNROLL
  for (int k = 0; k < CR_ROI_TOGETHER; ++k) {
    const bool is_there = first + k < a->regions;
    const cr_roi_range y = a->box[is_there ? first + k : first].y;
    found |= (uint32_t)(is_there && cr_roi_has(y, row)) << k;
  }
  return found;
}

CR_HD void cr_roi_put_sums(const cr_roi_args *a, const cr_roi_spot *spot, const float *sum) {
  for (int k = 0; k < CR_ROI_CHANNELS; ++k) {
    if (k >= spot->channels) return;
    cr_put(a->out, (spot->plane + k) * a->by_plane.by + spot->at, sum[k]);
  }
}

/* Element i of dy. */
CR_HD void cr_roi_pool_index_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  a->index[i] = cr_roi_largest_in(a, i).index;
}

/* What region r sends back to the spot. */
CR_HD void cr_roi_add_largest(const cr_roi_args *a, const cr_roi_spot *spot, int64_t r,
                              float *sum) {
  const cr_roi_range rows = a->owner[cr_roi_owner_at(a, r, spot->y)],
                     columns = a->owner[cr_roi_owner_at(a, r, a->height + spot->x)];
  CR_NO_UNROLL
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    CR_NO_UNROLL
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      const int64_t from = r * a->results * a->by_cells.by + (int64_t)y * a->columns + x;
      for (int k = 0; k < CR_ROI_CHANNELS; ++k) {
        const int64_t at = from + spot->value[k];
        if (a->index[at] == spot->at) sum[k] += cr_get(a->dy, at);
      }
    }
  }
}

CR_HD void cr_roi_add_aligned(const cr_roi_args *a, const cr_roi_spot *spot, int64_t r,
                              float *sum) {
  const cr_roi_range rows = a->owner[cr_roi_owner_at(a, r, spot->y)],
                     columns = a->owner[cr_roi_owner_at(a, r, a->height + spot->x)];
  const CR_GLOBAL float *of_row = cr_roi_weights_at(a, r, false) + spot->y;
  const CR_GLOBAL float *of_column = cr_roi_weights_at(a, r, true) + spot->x;
  CR_NO_UNROLL
  for (int32_t y = rows.begin; y < rows.end; ++y) {
    const float row = of_row[(int64_t)y * a->height];
    CR_NO_UNROLL
    for (int32_t x = columns.begin; x < columns.end; ++x) {
      const float weight = row * of_column[(int64_t)x * a->width];
      const int64_t from = r * a->results * a->by_cells.by + (int64_t)y * a->columns + x;
      for (int k = 0; k < CR_ROI_CHANNELS; ++k) {
        sum[k] += weight * cr_get(a->dy, from + spot->value[k]);
      }
    }
  }
}

/* Element i of (images, blocks of channels, height, width). */
CR_HD void cr_roi_gather(const cr_roi_args *a, int64_t i, bool aligned) {
  const cr_roi_spot spot = cr_roi_spot_of(a, i);
  float sum[CR_ROI_CHANNELS] = {0, 0, 0, 0};
  for (int64_t first = 0; first < a->regions; first += CR_ROI_TOGETHER) {
    const uint32_t found = cr_roi_with_row(a, first, spot.row);
    for (int k = 0; found >> k != 0; ++k) {
      if ((found >> k & 1) == 0 || !cr_roi_has(a->box[first + k].x, spot.x)) continue;
      if (aligned) cr_roi_add_aligned(a, &spot, first + k, sum);
      else cr_roi_add_largest(a, &spot, first + k, sum);
    }
  }
  cr_roi_put_sums(a, &spot, sum);
}

CR_HD void cr_roi_pool_bwd_device(const void *args, int64_t i) {
  cr_roi_gather((const cr_roi_args *)args, i, false);
}

CR_HD void cr_roi_align_bwd_device(const void *args, int64_t i) {
  cr_roi_gather((const cr_roi_args *)args, i, true);
}

/* A plane belongs to one part of one result. */
CR_HD float cr_psroi_pool_bwd_device(const void *args, int64_t i) {
  const cr_roi_args *a = (const cr_roi_args *)args;
  const cr_quotient plane = cr_divide_by(i, a->by_plane),
                    channel = cr_divide_by(plane.whole, a->by_channels),
                    result = cr_divide_by(channel.rest, a->by_cells),
                    part = cr_divide_by(result.rest, a->by_columns),
                    at = cr_divide_by(plane.rest, a->by_width);
  float sum = 0;
  CR_UNROLL
  for (int64_t r = 0; r < a->regions; ++r) {
    const cr_roi_range rows = cr_roi_rows_of(a, r, part.whole);
    if (a->image[r] != channel.whole || !cr_roi_has(rows, at.whole)) continue;
    const cr_roi_range columns = cr_roi_columns_of(a, r, part.rest);
    if (!cr_roi_has(columns, at.rest)) continue;
    const int64_t area = (int64_t)(rows.end - rows.begin) * (columns.end - columns.begin);
    sum +=
        cr_get(a->dy, (r * a->results + result.whole) * a->by_cells.by + result.rest) / (float)area;
  }
  return sum;
}

#endif
