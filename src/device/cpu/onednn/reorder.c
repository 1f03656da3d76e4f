#include "device/cpu/onednn/reorder.h"

#include <string.h>

#include "core/cpu_dispatch.h"
#include "core/fail.h"
#include "device/cpu/kernels/ref.h"

/* The addresses of the values of one side. */
typedef struct where {
  cr_md_view view;
  dnnl_dims_t row_major; /* the strides of a side without a layout */
} where;

static crema_status locate(const crema_shape *shape, const cr_layout *layout, where *out) {
  *out = (where){0};
  if (layout != NULL) {
    cr_md_look(cr_dnnl_layout_md(layout), &out->view);
    if (out->view.blocked && out->view.ndims == shape->axes) return CREMA_OK;
    return cr_fail(CREMA_E_UNSUPPORTED, "a layout that only oneDNN can convert");
  }
  dnnl_dim_t step = 1;
  for (int axis = shape->axes - 1; axis >= 0; --axis) {
    out->row_major[axis] = step;
    step *= shape->dim[axis];
  }
  return CREMA_OK;
}

/* The number of the value at `index`, counted from the start of the memory. */
static int64_t position(const where *w, int axes, const int64_t *index) {
  const cr_md_view *v = &w->view;
  const dnnl_dim_t *strides = v->strides != NULL ? v->strides : w->row_major;
  int64_t outer[CREMA_MAX_AXES], at = v->offset, step = 1;
  memcpy(outer, index, (size_t)axes * sizeof *outer);
  for (int b = v->inner_blocks - 1; b >= 0; --b) {
    int64_t *along = &outer[v->block_axis[b]];
    at += *along % v->block[b] * step;
    *along /= v->block[b];
    step *= v->block[b];
  }
  for (int axis = 0; axis < axes; ++axis) at += outer[axis] * strides[axis];
  return at;
}

/* Moves row `row` of the values, counted over all axes but the last. */
static void move_row(const crema_shape *shape, size_t size, int64_t row, const where *to, char *dst,
                     const where *from, const char *src) {
  int64_t index[CREMA_MAX_AXES];
  int last = shape->axes - 1;
  for (int axis = last - 1; axis >= 0; --axis) {
    index[axis] = row % shape->dim[axis];
    row /= shape->dim[axis];
  }
  for (index[last] = 0; index[last] < shape->dim[last]; ++index[last]) {
    memcpy(dst + (size_t)position(to, shape->axes, index) * size,
           src + (size_t)position(from, shape->axes, index) * size, size);
  }
}

/* Values of 16 bits in blocks of channels or channels-last. */
typedef struct halves {
  int64_t batch, channels, inner;
  int64_t width; /* channels that are adjacent */
} halves;

/* The plane of one sample's `width` channels from `first` on: (inner, width) <-> (channels, inner).
 * The lines of one piece of positions stay in the L1 cache. */
static void move_plane(const halves *h, int64_t first, const uint16_t *src, uint16_t *dst,
                       bool to_plain) {
  enum { POSITIONS = 32 };
  const int64_t width = h->width;
  const int64_t channels = h->channels - first < width ? h->channels - first : width;
  for (int64_t at = 0; at < h->inner; at += POSITIONS) {
    const int64_t end = at + POSITIONS < h->inner ? at + POSITIONS : h->inner;
    if (to_plain) {
      for (int64_t c = 0; c < channels; ++c) {
        for (int64_t i = at; i < end; ++i) dst[c * h->inner + i] = src[i * width + c];
      }
      continue;
    }
    for (int64_t i = at; i < end; ++i) {
      for (int64_t c = 0; c < channels; ++c) dst[i * width + c] = src[c * h->inner + i];
      for (int64_t c = channels; c < width; ++c) dst[i * width + c] = 0;
    }
  }
}

/* Positions of one sample, all channels: between two formats with adjacent channels, in runs that
 * both formats have. */
static void move_runs(const halves *from, const halves *to, int64_t at, int64_t end,
                      const uint16_t *src, uint16_t *dst) {
  const int64_t channels = to->channels, inner = to->inner;
  for (int64_t first = 0; first < channels; first += to->width) {
    const int64_t last = first + to->width < channels ? first + to->width : channels;
    for (int64_t i = at; i < end; ++i) {
      uint16_t *row = dst + first * inner + i * to->width;
      for (int64_t c = first, run; c < last; c += run) {
        const int64_t within = c % from->width;
        run = from->width - within < last - c ? from->width - within : last - c;
        memcpy(row + (c - first), src + (c - within) * inner + i * from->width + within,
               (size_t)run * sizeof *row);
      }
      for (int64_t c = last; c < first + to->width; ++c) row[c - first] = 0;
    }
  }
}

static int64_t held_channels(const halves *h) {
  return (h->channels + h->width - 1) / h->width * h->width;
}

static void move_between(const halves *from, const halves *to, const uint16_t *src, uint16_t *dst) {
  enum { POSITIONS = 64 };
  const int64_t pieces = (to->inner + POSITIONS - 1) / POSITIONS;
  const int64_t read = held_channels(from) * from->inner, written = held_channels(to) * to->inner;
#pragma omp parallel for schedule(static) if (to->batch * written >= CR_REF_PARALLEL_MIN)
  for (int64_t piece = 0; piece < to->batch * pieces; ++piece) {
    const int64_t sample = piece / pieces, at = piece % pieces * POSITIONS;
    const int64_t end = at + POSITIONS < to->inner ? at + POSITIONS : to->inner;
    move_runs(from, to, at, end, src + sample * read, dst + sample * written);
  }
}

/* One side row-major. */
static void move_planes(const halves *h, const uint16_t *src, uint16_t *dst, bool to_plain) {
  const int64_t blocks = held_channels(h) / h->width;
#pragma omp parallel for schedule(static) if (h->batch * blocks * h->inner >= CR_REF_PARALLEL_MIN)
  for (int64_t plane = 0; plane < h->batch * blocks; ++plane) {
    const int64_t sample = plane / blocks, first = plane % blocks * h->width;
    const int64_t held = plane * h->width * h->inner;
    const int64_t row_major = (sample * h->channels + first) * h->inner;
    move_plane(h, first, src + (to_plain ? held : row_major), dst + (to_plain ? row_major : held),
               to_plain);
  }
}

/* False for a layout in which the channels are not adjacent. */
static bool describe(const crema_shape *shape, const cr_layout *layout, halves *out) {
  const cr_dnnl_order order = cr_dnnl_layout_order(layout);
  if (order.kind != CR_DNNL_BLOCKED && order.kind != CR_DNNL_LAST) return false;
  *out = (halves){.batch = shape->dim[0],
                  .channels = shape->dim[1],
                  .inner = crema_shape_count(shape, 2, shape->axes),
                  .width = order.kind == CR_DNNL_LAST ? shape->dim[1] : order.block};
  return true;
}

/* False for other formats. */
static bool move_halves(const crema_shape *shape, size_t size, cr_dnnl_side to, cr_dnnl_side from) {
  const uint16_t *src = (const uint16_t *)(const void *)from.memory;
  uint16_t *dst = (uint16_t *)(void *)to.memory;
  halves held, other;
  if (size != sizeof(uint16_t) || shape->axes < 3) return false;
  if (!describe(shape, to.layout != NULL ? to.layout : from.layout, &held)) return false;
  if (to.layout == NULL || from.layout == NULL) {
    move_planes(&held, src, dst, to.layout == NULL);
    return true;
  }
  if (!describe(shape, from.layout, &other)) return false;
  move_between(&other, &held, src, dst);
  return true;
}

bool cr_dnnl_move_view(const crema_shape *shape, size_t size, cr_dnnl_side to, cr_dnnl_side from) {
  const int64_t to_step = cr_dnnl_layout_step(to.layout);
  const int64_t from_step = cr_dnnl_layout_step(from.layout);
  const cr_layout *view = to_step > 0 ? to.layout : from.layout;
  if ((to_step > 0) == (from_step > 0)) return false;
  if ((to_step > 0 ? from.layout : to.layout) != view->packed) return false;
  const int64_t channels = shape->dim[1],
                rows = crema_shape_count(shape, 0, shape->axes) / channels;
  const size_t bytes = (size_t)channels * size;
  const size_t to_bytes = to_step > 0 ? (size_t)to_step * size : bytes;
  const size_t from_bytes = from_step > 0 ? (size_t)from_step * size : bytes;
#pragma omp parallel for schedule(static) if (rows * channels >= CR_REF_PARALLEL_MIN)
  for (int64_t row = 0; row < rows; ++row) {
    memcpy(to.memory + (size_t)row * to_bytes, from.memory + (size_t)row * from_bytes, bytes);
  }
  return true;
}

/* dst[3 i + c] = value i of plane c. */
CR_CLONES static void join_words(const uint32_t *restrict src, int64_t plane, int64_t count,
                                 uint32_t *restrict dst) {
  for (int64_t i = 0; i < count; ++i) {
    dst[3 * i] = src[i];
    dst[3 * i + 1] = src[plane + i];
    dst[3 * i + 2] = src[2 * plane + i];
  }
}

CR_CLONES static void join_bytes(const uint8_t *restrict src, int64_t plane, int64_t count,
                                 uint8_t *restrict dst) {
  for (int64_t i = 0; i < count; ++i) {
    dst[3 * i] = src[i];
    dst[3 * i + 1] = src[plane + i];
    dst[3 * i + 2] = src[2 * plane + i];
  }
}

bool cr_dnnl_move_pictures(const crema_shape *shape, size_t size, cr_dnnl_side to,
                           cr_dnnl_side from) {
  enum { PIECE = 4096 };
  if (from.layout != NULL || to.layout == NULL || to.layout->gaps || shape->axes < 3 ||
      shape->dim[1] != 3 || cr_dnnl_layout_order(to.layout).kind != CR_DNNL_LAST ||
      (size != sizeof(uint32_t) && size != sizeof(uint8_t))) {
    return false;
  }
  const int64_t plane = crema_shape_count(shape, 2, shape->axes);
  const int64_t pieces = (plane + PIECE - 1) / PIECE;
#pragma omp parallel for schedule(static) if (shape->dim[0] * plane >= CR_REF_PARALLEL_MIN)
  for (int64_t i = 0; i < shape->dim[0] * pieces; ++i) {
    const int64_t at = i % pieces * PIECE, count = plane - at < PIECE ? plane - at : PIECE;
    const size_t sample = (size_t)(i / pieces * 3 * plane) * size;
    const char *src = from.memory + sample + (size_t)at * size;
    char *dst = to.memory + sample + (size_t)(3 * at) * size;
    if (size == sizeof(uint8_t)) {
      join_bytes((const uint8_t *)src, plane, count, (uint8_t *)dst);
    } else {
      join_words((const uint32_t *)(const void *)src, plane, count, (uint32_t *)(void *)dst);
    }
  }
  return true;
}

crema_status cr_dnnl_move(const crema_shape *shape, size_t size, cr_dnnl_side to,
                          cr_dnnl_side from) {
  if (move_halves(shape, size, to, from)) return CREMA_OK;
  where dst, src;
  CR_TRY(locate(shape, to.layout, &dst));
  CR_TRY(locate(shape, from.layout, &src));
  if (shape->axes < 1) return cr_fail(CREMA_E_UNSUPPORTED, "a layout without axes");
  if (to.layout != NULL && !to.layout->gaps) memset(to.memory, 0, to.layout->bytes);
  int64_t rows = crema_shape_count(shape, 0, shape->axes - 1);
#pragma omp parallel for schedule(static) if (rows * shape->dim[shape->axes - 1] >= \
                                              CR_REF_PARALLEL_MIN)
  for (int64_t row = 0; row < rows; ++row) {
    move_row(shape, size, row, &dst, to.memory, &src, from.memory);
  }
  return CREMA_OK;
}
