/* Convolution over two axes with strides of 8 and more, as one product of dense matrices by oneDNN.
 * It includes the deconvolution that enlarges a map of scores. In FLOAT.
 *
 * Gain over oneDNN 2.6, whose kernels are made for unit stride (Granite Rapids, bench/layers): 16 x
 * 16 with stride 8 2.1x forward and 2.8x backward, 64 x 64 with stride 32 3.7x and 2.6x. FCN-8s
 * uses it.
 *
 * The image, a convolution's input and a deconvolution's result, is divided into cells of stride x
 * stride elements: one for each position of the map, and some at the border. A window begins with a
 * cell and covers `taps` cells along each axis: kernel / stride, rounded up. The matrices are:
 *
 *     A (channels of the map x taps, cells): the factors of the windows; for each cell the
 *       positions of the map whose windows cover it, 0 outside the map
 *     B (channels of the map x taps, channels of the image x elements of a cell): the weights, 0
 *       beyond the kernel
 *     Z (cells, channels of the image x elements of a cell): the image
 *
 * A deconvolution is Z = A^T B. A convolution is A = B Z^T, followed by the sum over taps. The
 * gradient of the weights is B = A Z. Z keeps the rows of a cell contiguous, so that pieces of
 * `stride` values are copied between Z and the image. Some hundred cells and channels are computed
 * together and stay in the cache of a processor core. */
#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/extent.h"
#include "device/cpu/kernels/fast_rows.h"
#include "device/cpu/kernels/plan_state.h"
#include "device/cpu/kernels/window.h"
#include "device/cpu/onednn/gemm.h"
#include "device/cpu/threads/threads.h"

enum {
  TILE = 256,      /* cells of a product */
  TILE_LEAST = 16, /* the same if a cell has many elements */
  WIDTH = 512,     /* columns of Z, unless a channel has more */
  VALUES = 131072, /* of a tile of Z: half a megabyte; a convolution's products are narrower and use
                      twice the number */
  TAPS_MOST = 4,   /* along an axis */
  STRIDE_LEAST = 8,  /* oneDNN has fast code for shorter strides */
  MADE_OF_MOST = 64, /* channels of the map for each channel of the image */
  FEW = 16,          /* tasks; if there are fewer, sums are divided so that all threads have work */
  LINE = 16          /* floats; parts of the workspace are multiples of it */
};

/* Channels are the channels of one group. */
typedef struct cells {
  int64_t batch, groups, map_channels, channels;
  int64_t map[2], image[2], kernel[2], stride[2], pad[2], taps[2];
  int64_t first[2], count[2]; /* the first cell with an element in the image; number of cells */
  int64_t size;               /* elements of a cell */
  int64_t rows, columns;      /* of B */
  int64_t tile_rows, tile_columns, tiles[2]; /* cells of a tile; tiles along each axis */
  int64_t together, parts;                   /* channels of the image in a part; parts */
  int64_t shares;                            /* parts of a sum, for any number of threads */
  int64_t weights, sums, slot; /* in the workspace: B, A of a convolution, tiles of the threads */
  int64_t slots;               /* threads */
} cells;

/* Some rows of cells, or a piece of one row: consecutive cells. */
typedef struct tile {
  int64_t row, rows, column, columns, count;
} tile;

static tile tile_at(const cells *c, int64_t index) {
  const int64_t row = index / c->tiles[1] * c->tile_rows;
  const int64_t column = index % c->tiles[1] * c->tile_columns;
  tile t = {.row = row,
            .rows = cr_least(c->tile_rows, c->count[0] - row),
            .column = column,
            .columns = cr_least(c->tile_columns, c->count[1] - column)};
  t.count = t.rows * t.columns;
  return t;
}

/* to (columns of the tile) = row `y` of the map, shifted for tap `x` of each cell. */
static void pack_map_row(const cells *c, const tile *t, const float *plane, int64_t y, int64_t x,
                         float *to) {
  const int64_t at = c->first[1] + t->column - x; /* the map's column for the first cell */
  const bool inside = y >= 0 && y < c->map[0];
  for (int64_t i = 0; i < t->columns; ++i) {
    to[i] = inside && at + i >= 0 && at + i < c->map[1] ? plane[y * c->map[1] + at + i] : 0;
  }
}

/* map (map_channels, H, W), to (rows, cells of the tile). */
static void pack_map(const cells *c, const tile *t, const float *map, float *to) {
  for (int64_t k = 0; k < c->map_channels; ++k, map += c->map[0] * c->map[1]) {
    for (int64_t ty = 0; ty < c->taps[0]; ++ty) {
      for (int64_t tx = 0; tx < c->taps[1]; ++tx) {
        for (int64_t y = 0; y < t->rows; ++y, to += t->columns) {
          pack_map_row(c, t, map, c->first[0] + t->row + y - ty, tx, to);
        }
      }
    }
  }
}

CR_CLONES static void add_to(int64_t count, const float *from, float *to) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

/* plane (H,W) += for each position the sum over the cells of its window; from (taps, cells). */
static void add_taps(const cells *c, const float *from, float *plane) {
  const int64_t all = c->count[0] * c->count[1];
  for (int64_t ty = 0; ty < c->taps[0]; ++ty) {
    for (int64_t tx = 0; tx < c->taps[1]; ++tx, from += all) {
      const int64_t dy = ty - c->first[0], dx = tx - c->first[1];
      const int64_t begin = cr_most(0, -dx), end = cr_least(c->map[1], c->count[1] - dx);
      for (int64_t y = cr_most(0, -dy); y < cr_least(c->map[0], c->count[0] - dy); ++y) {
        if (begin < end) {
          add_to(end - begin, from + (y + dy) * c->count[1] + begin + dx,
                 plane + y * c->map[1] + begin);
        }
      }
    }
  }
}

typedef enum direction { PACK, UNPACK, UNPACK_ADD } direction;

/* weights (channels, K, K) of one channel of the map to b (taps, columns), or back. A row of a cell
 * has up to `stride` columns of the kernel. */
static void move_weights(const cells *c, direction to, float *weights, float *b) {
  const int64_t window = c->kernel[0] * c->kernel[1], taps = c->taps[0] * c->taps[1];
  if (to == PACK) memset(b, 0, (size_t)(taps * c->columns) * sizeof *b);
  for (int64_t t = 0; t < taps; ++t, b += c->columns) {
    const int64_t y = t / c->taps[1] * c->stride[0], x = t % c->taps[1] * c->stride[1];
    const int64_t rows = cr_least(c->stride[0], c->kernel[0] - y);
    const int64_t width = cr_least(c->stride[1], c->kernel[1] - x);
    for (int64_t k = 0; k < c->channels; ++k) {
      for (int64_t r = 0; r < rows; ++r) {
        float *packed = b + k * c->size + r * c->stride[1];
        float *plain = weights + k * window + (y + r) * c->kernel[1] + x;
        if (to == PACK) memcpy(packed, plain, (size_t)width * sizeof *b);
        else if (to == UNPACK) memcpy(plain, packed, (size_t)width * sizeof *b);
        else add_to(width, packed, plain);
      }
    }
  }
}

/* `count` pieces of `width` values, *_step apart. */
CR_INLINE void copy_pieces(int64_t count, int64_t width, const float *restrict from,
                           int64_t from_step, float *restrict to, int64_t to_step) {
  for (int64_t i = 0; i < count; ++i) {
    memcpy(to + i * to_step, from + i * from_step, (size_t)width * sizeof *to);
  }
}

CR_CLONES static void copy_row(int64_t count, int64_t width, const float *from, int64_t from_step,
                               float *to, int64_t to_step) {
  if (width == 8) copy_pieces(count, 8, from, from_step, to, to_step);
  else if (width == 16) copy_pieces(count, 16, from, from_step, to, to_step);
  else copy_pieces(count, width, from, from_step, to, to_step);
}

/* One row of each cell of a row of cells: values of the image's row (NULL: outside the image) to z,
 * `step` apart, or back. Cells inside the image are copied completely. */
static void move_cells(const cells *c, const tile *t, direction to, float *row, int64_t step,
                       float *z) {
  const int64_t width = c->stride[1];
  const int64_t at = (c->first[1] + t->column) * width - c->pad[1]; /* column of the first cell */
  const int64_t begin = at < 0 ? 1 : 0; /* only the first of all cells begins before the image */
  const int64_t end = cr_least(t->columns, (c->image[1] - at) / width);
  for (int64_t i = 0; i < t->columns; ++i) {
    if (row != NULL && i == begin && end > begin) {
      float *inside = row + at + i * width;
      if (to == PACK) {
        copy_row(end - begin, width, inside, width, z + i * step, step);
      } else {
        /* The next row of the image, for writing. */
        for (int64_t x = 0; x < (end - begin) * width; x += LINE) {
          __builtin_prefetch(inside + c->image[1] + x, 1);
        }
        copy_row(end - begin, width, z + i * step, step, inside, width);
      }
      i = end - 1;
      continue;
    }
    for (int64_t x = 0; x < width; ++x) {
      const int64_t column = at + i * width + x;
      const bool inside = row != NULL && column >= 0 && column < c->image[1];
      if (to == PACK) z[i * step + x] = inside ? row[column] : 0;
      else if (inside) row[column] = z[i * step + x];
    }
  }
}

/* planes (channels, H, W) to z (cells of the tile, channels x size), or back. */
static void move_image(const cells *c, const tile *t, direction to, int64_t channels, float *planes,
                       float *z) {
  const int64_t step = channels * c->size;
  for (int64_t k = 0; k < channels; ++k, planes += c->image[0] * c->image[1]) {
    for (int64_t y = 0; y < t->rows; ++y) {
      for (int64_t r = 0; r < c->stride[0]; ++r) {
        const int64_t row = (c->first[0] + t->row + y) * c->stride[0] + r - c->pad[0];
        move_cells(c, t, to, row >= 0 && row < c->image[0] ? planes + row * c->image[1] : NULL,
                   step, z + y * t->columns * step + k * c->size + r * c->stride[1]);
      }
    }
  }
}

/* By measurement, with AVX-512 and with AVX2. With few channels of the image and very many of the
 * map, oneDNN has little to unfold. */
static bool is_faster(cr_op_kind kind, const cells *c) {
  const int64_t taps = cr_most(c->taps[0], c->taps[1]);
  if (cr_least(c->stride[0], c->stride[1]) < STRIDE_LEAST || taps > TAPS_MOST) return false;
  if (c->kernel[0] < c->stride[0] || c->kernel[1] < c->stride[1]) return false;
  if (kind == CR_OP_CONV_FWD && taps == 1) return false;
  return c->groups > 1 || c->channels * MADE_OF_MOST >= c->map_channels;
}

/* The size of about equal pieces, at most `size`. */
static int64_t equal_pieces(int64_t count, int64_t size) {
  return cr_pieces(count, cr_pieces(count, cr_least(count, size)));
}

static void choose_tiles(cr_op_kind kind, cells *c) {
  const int64_t values = kind == CR_OP_CONV_FWD ? 2 * VALUES : VALUES;
  c->together = equal_pieces(c->channels, cr_most(1, WIDTH / c->size));
  c->parts = cr_pieces(c->channels, c->together);
  const int64_t count = cr_least(TILE, cr_most(TILE_LEAST, values / (c->together * c->size)));
  c->tile_columns = equal_pieces(c->count[1], count);
  c->tile_rows = equal_pieces(c->count[0], cr_most(1, count / c->count[1]));
  c->tiles[0] = cr_pieces(c->count[0], c->tile_rows);
  c->tiles[1] = cr_pieces(c->count[1], c->tile_columns);
}

static void fill_cells(const cr_plan *plan, const crema_shape *image, const crema_shape *map,
                       cells *c) {
  const cr_conv_params *p = &plan->desc->u.conv;
  c->batch = image->dim[0];
  c->groups = p->group;
  c->channels = image->dim[1] / p->group;
  c->map_channels = map->dim[1] / p->group;
  c->size = 1;
  c->rows = c->map_channels;
  for (int a = 0; a < 2; ++a) {
    c->image[a] = image->dim[a + 2];
    c->map[a] = map->dim[a + 2];
    c->kernel[a] = p->window.kernel[a];
    c->stride[a] = p->window.stride[a];
    c->pad[a] = p->window.pad[a];
    c->taps[a] = cr_pieces(c->kernel[a], c->stride[a]);
    c->first[a] = c->pad[a] / c->stride[a];
    c->count[a] = (c->image[a] - 1 + c->pad[a]) / c->stride[a] - c->first[a] + 1;
    c->size *= c->stride[a];
    c->rows *= c->taps[a];
  }
  c->columns = c->channels * c->size;
  choose_tiles(plan->desc->kind, c);
}

/* Adds `count` floats to the workspace; returns their start. */
static int64_t reserve(cr_plan *plan, int64_t count) {
  const int64_t at = (int64_t)(plan->workspace_bytes / sizeof(float));
  plan->workspace_bytes += (size_t)cr_whole(count, LINE) * sizeof(float);
  return at;
}

/* Floats of one share of a convolution's sums. */
static int64_t sums_of(const cells *c) {
  return c->batch * c->groups * c->rows * c->count[0] * c->count[1];
}

/* image, weights and map: the numbers of the arguments with these shapes. */
static crema_status plan_cells(cr_plan *plan, int image, int weights, int map) {
  const cr_op_arg *arg = plan->desc->arg;
  cells c = {0};
  cr_slide slide;
  CR_TRY(cr_slide_dense_conv(plan->desc, image, weights, map, &slide));
  fill_cells(plan, &arg[image].shape, &arg[map].shape, &c);
  if (!is_faster(plan->desc->kind, &c))
    return cr_fail(CREMA_E_UNSUPPORTED, "a window that oneDNN is fast for");
  const bool fwd = plan->desc->kind == CR_OP_CONV_FWD;
  const int64_t tiles = c.batch * c.tiles[0] * c.tiles[1];
  c.shares = 1;
  /* A convolution sums over the channels of the image, the gradient of weights over all tiles. */
  if (fwd) c.shares = cr_least(c.parts, cr_pieces(FEW, c.groups * tiles));
  if (plan->desc->kind == CR_OP_CONV_BWD_WEIGHTS) {
    c.shares = cr_least(tiles, cr_pieces(FEW, c.groups * c.parts));
  }
  c.weights = reserve(plan, (fwd ? 1 : c.shares) * c.groups * c.rows * c.columns);
  c.sums = reserve(plan, fwd ? c.shares * sums_of(&c) : 0);
  const int64_t cells_of_tile = c.tile_rows * c.tile_columns;
  c.slots = plan->threads > 0 ? plan->threads : cr_cpu_threads_of(plan->context);
  c.slot = reserve(plan, 0);
  for (int64_t i = 0; i < c.slots; ++i) {
    (void)reserve(plan, c.rows * cells_of_tile);
    (void)reserve(plan, cells_of_tile * c.together * c.size);
  }
  return cr_plan_keep(plan, &c, sizeof c);
}

static crema_status plan_fwd(cr_plan *plan) {
  if (plan->desc->arg[2].shape.axes >= 0 || cr_posts_count(cr_op_posts(plan->desc)) > 0) {
    return cr_fail(CREMA_E_UNSUPPORTED, "a bias or post operations");
  }
  if (plan->hint[0].layout != NULL) {
    return cr_fail(CREMA_E_UNSUPPORTED, "not held in plain order");
  }
  return plan_cells(plan, 0, 1, 3);
}

static crema_status plan_bwd_data(cr_plan *plan) {
  return plan_cells(plan, 2, 1, 0);
}

static crema_status plan_bwd_weights(cr_plan *plan) {
  if (plan->desc->arg[3].shape.axes >= 0) return cr_fail(CREMA_E_UNSUPPORTED, "a bias");
  return plan_cells(plan, 0, 2, 1);
}

/* The arguments and the workspace. */
typedef struct work {
  const cells *c;
  float *image, *map, *weights;
  float *packed, *sums; /* B; A of a convolution */
} work;

static work work_of(const cr_call *call, int image, int weights, int map) {
  const cells *c = call->plan->state;
  float *space = cr_f32(&call->workspace, 0);
  return (work){.c = c,
                .image = cr_f32(call->buffer, image),
                .map = cr_f32(call->buffer, map),
                .weights = cr_f32(call->buffer, weights),
                .packed = space + c->weights,
                .sums = space + c->sums};
}

/* A thread's own tiles of A and Z. */
typedef struct space {
  float *a, *z;
} space;

static space space_of(const cr_call *call, int64_t slot) {
  const cells *c = call->plan->state;
  const int64_t count = c->tile_rows * c->tile_columns;
  const int64_t a = cr_whole(c->rows * count, LINE);
  const int64_t z = cr_whole(count * c->together * c->size, LINE);
  float *at = cr_f32(&call->workspace, 0) + c->slot + slot * (a + z);
  return (space){at, at + a};
}

static float *map_of(const work *w, int64_t sample_and_group) {
  const cells *c = w->c;
  return w->map + sample_and_group * c->map_channels * c->map[0] * c->map[1];
}

static float *image_of(const work *w, int64_t sample_and_group, int64_t channel) {
  const cells *c = w->c;
  return w->image + (sample_and_group * c->channels + channel) * c->image[0] * c->image[1];
}

static void pack_weights(const work *w) {
  const cells *c = w->c;
  const int64_t window = c->kernel[0] * c->kernel[1], taps = c->taps[0] * c->taps[1];
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < c->groups * c->map_channels; ++k) {
    move_weights(c, PACK, w->weights + k * c->channels * window, w->packed + k * taps * c->columns);
  }
}

/* A tile of one part of the channels; parts come first in the order of tasks, then tiles. */
typedef struct task {
  int64_t image; /* sample and group */
  tile t;
  int64_t channel, channels; /* of the image */
} task;

static task task_at(const cells *c, int64_t index) {
  const int64_t tiles = c->tiles[0] * c->tiles[1];
  task k = {.channel = index % c->parts * c->together};
  k.channels = cr_least(c->together, c->channels - k.channel);
  k.t = tile_at(c, index / c->parts % tiles);
  k.image = index / c->parts / tiles;
  return k;
}

/* Z = A^T B. Consecutive tasks of one tile share A. */
static void enlarge_some(const work *w, const space *s, int64_t begin, int64_t end) {
  const cells *c = w->c;
  for (int64_t i = begin; i < end; ++i) {
    const task k = task_at(c, i);
    if (i == begin || k.channel == 0) pack_map(c, &k.t, map_of(w, k.image), s->a);
    cr_cpu_gemm_f32(&(cr_gemm_f32){
        .m = k.t.count,
        .n = k.channels * c->size,
        .k = c->rows,
        .a = s->a,
        .a_row = k.t.count,
        .a_transposed = true,
        .b = w->packed + k.image % c->groups * c->rows * c->columns + k.channel * c->size,
        .b_row = c->columns,
        .c = s->z,
        .c_row = k.channels * c->size});
    move_image(c, &k.t, UNPACK, k.channels, image_of(w, k.image, k.channel), s->z);
  }
}

/* A = B Z^T, the sum over a share of the channels of the image for one of its tiles. */
static void reduce(const work *w, const space *s, int64_t at, int64_t share) {
  const cells *c = w->c;
  const int64_t all = c->count[0] * c->count[1], first = c->parts * share / c->shares;
  for (int64_t part = first; part < c->parts * (share + 1) / c->shares; ++part) {
    const task k = task_at(c, at * c->parts + part);
    move_image(c, &k.t, PACK, k.channels, image_of(w, k.image, k.channel), s->z);
    cr_cpu_gemm_f32(&(cr_gemm_f32){
        .m = c->rows,
        .n = k.t.count,
        .k = k.channels * c->size,
        .a = w->packed + k.image % c->groups * c->rows * c->columns + k.channel * c->size,
        .a_row = c->columns,
        .b = s->z,
        .b_row = k.channels * c->size,
        .b_transposed = true,
        .c = w->sums + share * sums_of(c) + k.image * c->rows * all + k.t.row * c->count[1] +
             k.t.column,
        .c_row = all,
        .accumulate = part > first});
  }
}

static void reduce_some(const work *w, const space *s, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) reduce(w, s, i / w->c->shares, i % w->c->shares);
}

/* B = A Z, the sum over a share of all tiles for a part of the channels of a group. */
static void correlate(const work *w, const space *s, int64_t group, int64_t part, int64_t share) {
  const cells *c = w->c;
  const int64_t tiles = c->tiles[0] * c->tiles[1], all = c->batch * tiles;
  const int64_t first = all * share / c->shares;
  float *sums = w->packed + (share * c->groups + group) * c->rows * c->columns;
  for (int64_t j = first; j < all * (share + 1) / c->shares; ++j) {
    const int64_t image = j / tiles * c->groups + group;
    const task k = task_at(c, (image * tiles + j % tiles) * c->parts + part);
    pack_map(c, &k.t, map_of(w, image), s->a);
    move_image(c, &k.t, PACK, k.channels, image_of(w, image, k.channel), s->z);
    cr_cpu_gemm_f32(&(cr_gemm_f32){.m = c->rows,
                                   .n = k.channels * c->size,
                                   .k = k.t.count,
                                   .a = s->a,
                                   .a_row = k.t.count,
                                   .b = s->z,
                                   .b_row = k.channels * c->size,
                                   .c = sums + k.channel * c->size,
                                   .c_row = c->columns,
                                   .accumulate = j > first});
  }
}

static void correlate_some(const work *w, const space *s, int64_t begin, int64_t end) {
  const cells *c = w->c;
  for (int64_t i = begin; i < end; ++i) {
    const int64_t unit = i / c->shares;
    correlate(w, s, unit / c->parts, unit % c->parts, i % c->shares);
  }
}

/* Runs tasks 0 ... tasks - 1; each thread has consecutive ones. */
static void divide(const cr_call *call, const work *w, int64_t tasks,
                   void (*run)(const work *, const space *, int64_t, int64_t)) {
#pragma omp parallel for schedule(static)
  for (int64_t slot = 0; slot < w->c->slots; ++slot) {
    const space s = space_of(call, slot);
    run(w, &s, tasks * slot / w->c->slots, tasks * (slot + 1) / w->c->slots);
  }
}

/* src, weights, bias (absent), dst. */
static crema_status run_fwd(const cr_call *call) {
  const work w = work_of(call, 0, 1, 3);
  const cells *c = w.c;
  const int64_t images = c->batch * c->groups, plane = c->map[0] * c->map[1];
  const int64_t sums = c->taps[0] * c->taps[1] * c->count[0] * c->count[1];
  pack_weights(&w);
  divide(call, &w, images * c->tiles[0] * c->tiles[1] * c->shares, reduce_some);
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < images * c->map_channels; ++k) {
    memset(w.map + k * plane, 0, (size_t)plane * sizeof *w.map);
    for (int64_t i = 0; i < c->shares; ++i) {
      add_taps(c, w.sums + i * sums_of(c) + k * sums, w.map + k * plane);
    }
  }
  return CREMA_OK;
}

/* diff_dst, weights, diff_src. */
static crema_status run_bwd_data(const cr_call *call) {
  const work w = work_of(call, 2, 1, 0);
  pack_weights(&w);
  divide(call, &w, w.c->batch * w.c->groups * w.c->tiles[0] * w.c->tiles[1] * w.c->parts,
         enlarge_some);
  return CREMA_OK;
}

/* src, diff_dst, diff_weights, diff_bias (absent). */
static crema_status run_bwd_weights(const cr_call *call) {
  const work w = work_of(call, 0, 2, 1);
  const cells *c = w.c;
  const int64_t window = c->kernel[0] * c->kernel[1], taps = c->taps[0] * c->taps[1];
  divide(call, &w, c->groups * c->parts * c->shares, correlate_some);
#pragma omp parallel for schedule(static)
  for (int64_t k = 0; k < c->groups * c->map_channels; ++k) {
    for (int64_t i = 0; i < c->shares; ++i) {
      move_weights(c, call->accumulate[2] || i > 0 ? UNPACK_ADD : UNPACK,
                   w.weights + k * c->channels * window,
                   w.packed + (i * c->groups * c->map_channels + k) * taps * c->columns);
    }
  }
  return CREMA_OK;
}

CR_KERNEL(conv_fwd_cells, CONV_FWD, .library = true, .follows_hints = true, .plan = plan_fwd,
          .run = run_fwd, .destroy = cr_plan_release);

CR_KERNEL(conv_bwd_data_cells, CONV_BWD_DATA, .library = true, .plan = plan_bwd_data,
          .run = run_bwd_data, .destroy = cr_plan_release);

CR_KERNEL(conv_bwd_weights_cells, CONV_BWD_WEIGHTS, .library = true, .can_accumulate = true,
          .plan = plan_bwd_weights, .run = run_bwd_weights, .destroy = cr_plan_release);
