/* Matrix products c = op(a) op(b), and convolutions as such products whose second factor is read from the images
 * (implicit GEMM). KIND says which: 0 a product, 1 forward, 2 the gradient of the input, 3 of the weights. A work-group computes a tile of TM x TN values of c, a work-item GM rows apart WM
 * x WN of them. Tiles of TK terms of both factors are in local memory. Sums are in float32, in the order of the
 * terms, by fused multiply-adds where the device is faster with them.
 *
 * On a CPU a work-group is one work-item. It adds to BLOCK x 32 sums at a time, which are vectors in registers. */
#pragma OPENCL FP_CONTRACT ON
#define ROWS (TM / WM)
#define COLUMNS (TN / WN)
#define LANES (ROWS * COLUMNS)
#define BLOCK 8 /* rows of sums that a CPU keeps in registers */

/* The same on the host (opencl_product.h). */
typedef struct cr_product {
  long m, n, k;
  int a_transposed, b_transposed, add, type;
  /* Convolution: the maps of one group, the planes of an image, and the window over two axes. */
  int group_in, group_out, all_in, all_out;
  int in[2], out[2], window[2], stride[2], pad[2], dilation[2];
  cr_divisor by_window, by_window_row, by_in, by_in_row, by_out, by_out_row, by_stride[2];
} cr_product;

typedef struct cr_factors {
  cr_hd_values a, b, c, bias;
} cr_factors;

static inline int cr_planes(const int *extent) { return extent[0] * extent[1]; }

/* The input at the tap `tap` of channel and tap in the window of position `at`. */
static inline float cr_input_at(const cr_product *s, cr_hd_values src, int group, long channel_tap, long image_position) {
  const cr_quotient tap = cr_divide_by(channel_tap, s->by_window), at = cr_divide_by(image_position, s->by_out);
  const cr_quotient t = cr_divide_by(tap.rest, s->by_window_row), p = cr_divide_by(at.rest, s->by_out_row);
  const int y = (int)p.whole * s->stride[0] - s->pad[0] + (int)t.whole * s->dilation[0];
  const int x = (int)p.rest * s->stride[1] - s->pad[1] + (int)t.rest * s->dilation[1];
  if (y < 0 || x < 0 || y >= s->in[0] || x >= s->in[1]) return 0;
  const long plane = at.whole * s->all_in + group * s->group_in + tap.whole;
  return cr_get(src, (plane * s->in[0] + y) * s->in[1] + x);
}

/* The gradient of the output whose window has input position `at` at tap `tap`; 0: there is none. */
static inline float cr_gradient_at(const cr_product *s, cr_hd_values dy, int group, long channel_tap, long image_position) {
  const cr_quotient tap = cr_divide_by(channel_tap, s->by_window), at = cr_divide_by(image_position, s->by_in);
  const cr_quotient t = cr_divide_by(tap.rest, s->by_window_row), p = cr_divide_by(at.rest, s->by_in_row);
  const int y = (int)p.whole + s->pad[0] - (int)t.whole * s->dilation[0];
  const int x = (int)p.rest + s->pad[1] - (int)t.rest * s->dilation[1];
  if (y < 0 || x < 0) return 0;
  const cr_quotient oy = cr_divide_by(y, s->by_stride[0]), ox = cr_divide_by(x, s->by_stride[1]);
  if (oy.rest != 0 || ox.rest != 0 || oy.whole >= s->out[0] || ox.whole >= s->out[1]) return 0;
  const long plane = at.whole * s->all_out + group * s->group_out + tap.whole;
  return cr_get(dy, (plane * s->out[0] + oy.whole) * s->out[1] + ox.whole);
}

/* The value of one image, of channel `channel` of the group. */
static inline long cr_image_at(cr_divisor by_positions, int all, int first, long channel, long image_position) {
  const cr_quotient at = cr_divide_by(image_position, by_positions);
  return (at.whole * all + first + channel) * by_positions.by + at.rest;
}

static inline float cr_left(const cr_product *s, cr_hd_values a, int group, long i, long p) {
#if KIND == 0
  return cr_get(a, s->a_transposed ? p * s->m + i : i * s->k + p);
#elif KIND == 1
  return cr_get(a, (group * s->m + i) * s->k + p);
#elif KIND == 2
  const cr_quotient tap = cr_divide_by(p, s->by_window);
  return cr_get(a, ((group * s->group_out + tap.whole) * s->m + i) * s->by_window.by + tap.rest);
#else
  return cr_get(a, cr_image_at(s->by_out, s->all_out, group * s->group_out, i, p));
#endif
}

static inline float cr_right(const cr_product *s, cr_hd_values b, int group, long p, long j) {
#if KIND == 0
  return cr_get(b, s->b_transposed ? j * s->k + p : p * s->n + j);
#elif KIND == 1
  return cr_input_at(s, b, group, p, j);
#elif KIND == 2
  return cr_gradient_at(s, b, group, p, j);
#else
  return cr_input_at(s, b, group, j, p);
#endif
}

static inline long cr_result_at(const cr_product *s, int group, long i, long j) {
#if KIND == 0
  return i * s->n + j;
#elif KIND == 1
  return cr_image_at(s->by_out, s->all_out, group * s->group_out, i, j);
#elif KIND == 2
  return cr_image_at(s->by_in, s->all_in, group * s->group_in, i, j);
#else
  return (group * s->m + i) * s->n + j;
#endif
}

static inline cr_hd_values cr_matrix(__global char *buffer, long at, int type) {
  cr_hd_values values;
  values.at = buffer == 0 ? 0 : buffer + at;
  values.type = type;
  return values;
}

/* Neighbouring work-items read neighbouring values of the factors, along the terms if `by_term`. */
static inline int2 cr_tile_at(int e, int width, bool by_term) {
  return by_term ? (int2)(e / TK, e % TK) : (int2)(e % width, e / width);
}

#if LANES == 1
/* Adds the products of TK terms to a block of the sums, TN in a row. */
static inline void cr_add_block(const __local float *left, const __local float *right, float *sum) {
  float16 part[BLOCK][2];
  for (int r = 0; r < BLOCK; ++r)
    for (int x = 0; x < 2; ++x) part[r][x] = vload16(x, sum + r * TN);
  for (int q = 0; q < TK; ++q) {
    const float16 first = vload16(0, right + q * TN), second = vload16(1, right + q * TN);
    for (int r = 0; r < BLOCK; ++r) {
      const float l = left[q * (TM + 1) + r];
      part[r][0] += l * first;
      part[r][1] += l * second;
    }
  }
  for (int r = 0; r < BLOCK; ++r)
    for (int x = 0; x < 2; ++x) vstore16(part[r][x], x, sum + r * TN);
}
#endif

__kernel __attribute__((reqd_work_group_size(COLUMNS, ROWS, 1))) void run(
    const cr_product s, __global char *a_buffer, long a_at, __global char *b_buffer, long b_at, __global char *c_buffer,
    long c_at, __global char *bias_buffer, long bias_at) {
  __local float left[TK][TM + 1], right[TK][TN];
  const cr_hd_values a = cr_matrix(a_buffer, a_at, s.type), b = cr_matrix(b_buffer, b_at, s.type);
  const cr_hd_values c = cr_matrix(c_buffer, c_at, s.type), bias = cr_matrix(bias_buffer, bias_at, s.type);
  const int group = get_group_id(2), own_row = get_local_id(1), own_column = get_local_id(0);
  const int lane = own_row * COLUMNS + own_column;
  const long first_row = get_group_id(1) * TM, first_column = get_group_id(0) * TN;
#if KIND == 0
  const bool left_by_term = !s.a_transposed, right_by_term = s.b_transposed;
#else
  const bool left_by_term = true, right_by_term = KIND == 3;
#endif
  float sum[WM * WN];
  for (int e = 0; e < WM * WN; ++e) sum[e] = 0;
  for (long first = 0; first < s.k; first += TK) {
    for (int e = lane; e < TK * TM; e += LANES) {
      const int2 at = cr_tile_at(e, TM, left_by_term);
      const long i = first_row + at.x, p = first + at.y;
      left[at.y][at.x] = i < s.m && p < s.k ? cr_left(&s, a, group, i, p) : 0;
    }
    for (int e = lane; e < TK * TN; e += LANES) {
      const int2 at = cr_tile_at(e, TN, right_by_term);
      const long j = first_column + at.x, p = first + at.y;
      right[at.y][at.x] = j < s.n && p < s.k ? cr_right(&s, b, group, p, j) : 0;
    }
    barrier(CLK_LOCAL_MEM_FENCE);
#if LANES == 1
    for (int r = 0; r < TM && first_row + r < s.m; r += BLOCK)
      for (int x = 0; x < TN && first_column + x < s.n; x += 32) cr_add_block(&left[0][r], &right[0][x], sum + r * TN + x);
#else
    for (int q = 0; q < TK; ++q) {
      float factor[WN];
      for (int x = 0; x < WN; ++x) factor[x] = right[q][own_column + x * COLUMNS];
      for (int r = 0; r < WM; ++r) {
        const float l = left[q][own_row * WM + r];
        for (int x = 0; x < WN; ++x) sum[r * WN + x] += l * factor[x];
      }
    }
#endif
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  for (int r = 0; r < WM; ++r) {
    for (int x = 0; x < WN; ++x) {
      const long i = first_row + own_row * WM + r, j = first_column + own_column + x * COLUMNS;
      if (i >= s.m || j >= s.n) continue;
      const long at = cr_result_at(&s, group, i, j);
      float value = sum[r * WN + x];
      if (s.add) value += cr_get(c, at);
#if KIND == 1
      if (bias.at != 0) value += cr_get(bias, group * s.m + i);
#else
      if (bias.at != 0) value += cr_get(bias, j);
#endif
      cr_put(c, at, value);
    }
  }
}
