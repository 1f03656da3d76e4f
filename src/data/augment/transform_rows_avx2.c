/* Rows of bytes with AVX2, sixteen values at a time, optionally streamed past the caches in whole
 * cache lines. A line that two rows share would first be read from memory, which costs more than
 * all other lines together. So the last values of a row wait for the next row. */
#include "data/augment/transform_rows.h"
#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))
/* Inlined into each caller, whose arguments are constants in the loop. */
#define INLINE __attribute__((target("avx2"), always_inline)) static inline

enum { STEP = CR_ROW_LINE };

/* The kind of rows, a compile-time constant at each call. */
typedef struct row_kind {
  bool three; /* interleaved channels */
  bool means; /* one per value, from a mean image */
  bool mirror;
} row_kind;

typedef struct row_reader {
  const uint8_t *in;
  const float *mean_row;
  int width;
  __m128i pick[3]; /* for each value a byte of three loads of 16; 0x80 and above: none */
  __m256 mean, scale;
} row_reader;

/* Value i of sixteen is byte i (of three channels, 3 * i + channel) of the load, with `mirror` the
 * byte of value 15 - i. Bytes outside a load of 16 get negative numbers. */
INLINE void make_picks(row_reader *reader, row_kind kind, int channel) {
  __m128i number = _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  if (kind.mirror) number = _mm_sub_epi8(_mm_set1_epi8(STEP - 1), number);
  if (kind.three) number = _mm_add_epi8(number, _mm_add_epi8(number, number));
  number = _mm_add_epi8(number, _mm_set1_epi8((char)channel));
  for (int k = 0; k < 3; ++k) {
    reader->pick[k] = _mm_or_si128(number, _mm_cmpgt_epi8(number, _mm_set1_epi8(STEP - 1)));
    number = _mm_sub_epi8(number, _mm_set1_epi8(STEP));
  }
}

/* Bytes x to x + 15 of the result. */
INLINE __m128i read_bytes(const row_reader *r, int x, row_kind kind) {
  int first = kind.mirror ? r->width - STEP - x : x;
  if (!kind.three && !kind.mirror) return _mm_loadu_si128((const __m128i *)(r->in + x));
  if (!kind.three) {
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(r->in + first)), r->pick[0]);
  }
  const __m128i *in = (const __m128i *)(r->in + 3 * first);
  __m128i a = _mm_shuffle_epi8(_mm_loadu_si128(in), r->pick[0]);
  __m128i b = _mm_shuffle_epi8(_mm_loadu_si128(in + 1), r->pick[1]);
  __m128i c = _mm_shuffle_epi8(_mm_loadu_si128(in + 2), r->pick[2]);
  return _mm_or_si128(_mm_or_si128(a, b), c);
}

/* Means of values x to x + 7. */
INLINE __m256 read_means(const row_reader *r, int x, row_kind kind) {
  if (!kind.means) return r->mean;
  if (!kind.mirror) return _mm256_loadu_ps(r->mean_row + x);
  return _mm256_permutevar8x32_ps(_mm256_loadu_ps(r->mean_row + r->width - 8 - x),
                                  _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
}

/* Values x to x + 15 of the result. */
INLINE void read_values(const row_reader *r, int x, row_kind kind, __m256 value[2]) {
  __m128i bytes = read_bytes(r, x, kind);
  __m256 low = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  __m256 high = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_unpackhi_epi64(bytes, bytes)));
  value[0] = _mm256_mul_ps(_mm256_sub_ps(low, read_means(r, x, kind)), r->scale);
  value[1] = _mm256_mul_ps(_mm256_sub_ps(high, read_means(r, x + 8, kind)), r->scale);
}

INLINE void store(float *to, const __m256 value[2]) {
  _mm256_storeu_ps(to, value[0]);
  _mm256_storeu_ps(to + 8, value[1]);
}

/* The last sixteen values may overlap earlier values. */
INLINE void store_row(const row_reader *r, float *out, row_kind kind) {
  __m256 value[2];
  for (int x = 0; x + STEP <= r->width; x += STEP) {
    read_values(r, x, kind, value);
    store(out + x, value);
  }
  if (r->width % STEP == 0) return;
  read_values(r, r->width - STEP, kind, value);
  store(out + r->width - STEP, value);
}

/* Streams the full line, without values of another channel. */
INLINE void send_line(cr_row_target *target) {
  const float *line = target->line + CR_ROW_LINE;
  if (target->foreign == 0) {
    _mm256_stream_ps(target->at, _mm256_load_ps(line));
    _mm256_stream_ps(target->at + 8, _mm256_load_ps(line + 8));
  } else {
    for (int i = target->foreign; i < CR_ROW_LINE; ++i) target->at[i] = line[i];
    target->foreign = 0;
  }
  target->at += CR_ROW_LINE;
}

INLINE void stream_row(const row_reader *r, cr_row_target *target, row_kind kind) {
  float *line = target->line + CR_ROW_LINE;
  __m256 value[2];
  int x = 0;
  if (target->held > 0) {
    read_values(r, 0, kind, value);
    store(line + target->held, value);
    send_line(target);
    x = CR_ROW_LINE - target->held;
  }
  float *at = target->at;
  for (; x + STEP <= r->width; x += STEP, at += STEP) {
    read_values(r, x, kind, value);
    _mm256_stream_ps(at, value[0]);
    _mm256_stream_ps(at + 8, value[1]);
  }
  target->at = at;
  target->held = r->width - x;
  if (target->held == 0) return;
  /* Values before `line` were streamed and are discarded. */
  read_values(r, r->width - STEP, kind, value);
  store(line + target->held - STEP, value);
}

/* Prefetches a row. Processors prefetch only forwards and within a page of memory. */
INLINE void prefetch_row(const uint8_t *row, int bytes) {
  for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 3);
  __builtin_prefetch(row + bytes - 1, 0, 3);
}

INLINE void write_rows(const cr_rows *rows, cr_row_target *target, row_kind kind) {
  enum { AHEAD = 8 };
  row_reader reader = {.in = rows->in,
                       .mean_row = rows->mean_row,
                       .width = rows->width,
                       .mean = _mm256_set1_ps(rows->mean),
                       .scale = _mm256_set1_ps(rows->scale)};
  make_picks(&reader, kind, rows->channel);
  for (int y = 0; y < rows->height; ++y) {
    if (y + AHEAD < rows->height) {
      prefetch_row(reader.in + AHEAD * rows->pitch, rows->width * rows->stride);
    }
    if (target->stream) {
      stream_row(&reader, target, kind);
    } else {
      store_row(&reader, target->at, kind);
      target->at += rows->width;
    }
    reader.in += rows->pitch;
    if (kind.means) reader.mean_row += rows->mean_pitch;
  }
}

/* Separate code for each kind of rows. */
AVX2 static void write_any(const cr_rows *rows, cr_row_target *target) {
  enum { THREE = 4, MEANS = 2, MIRROR = 1 };
  bool three = rows->stride == 3, means = rows->mean_row != NULL;
  switch ((three ? THREE : 0) + (means ? MEANS : 0) + (rows->mirror ? MIRROR : 0)) {
    case 0: write_rows(rows, target, (row_kind){false, false, false}); break;
    case MIRROR: write_rows(rows, target, (row_kind){false, false, true}); break;
    case MEANS: write_rows(rows, target, (row_kind){false, true, false}); break;
    case MEANS + MIRROR: write_rows(rows, target, (row_kind){false, true, true}); break;
    case THREE: write_rows(rows, target, (row_kind){true, false, false}); break;
    case THREE + MIRROR: write_rows(rows, target, (row_kind){true, false, true}); break;
    case THREE + MEANS: write_rows(rows, target, (row_kind){true, true, false}); break;
    default: write_rows(rows, target, (row_kind){true, true, true}); break;
  }
}

bool cr_row_can_stream(void) {
  return __builtin_cpu_supports("avx2");
}

bool cr_rows_u8_vector(const cr_rows *rows, cr_row_target *target) {
  if (rows->width < STEP || (rows->stride != 1 && rows->stride != 3)) return false;
  if (!__builtin_cpu_supports("avx2")) return false;
  write_any(rows, target);
  return true;
}

void cr_row_drain(void) {
  _mm_sfence();
}
#else
bool cr_row_can_stream(void) {
  return false;
}

bool cr_rows_u8_vector(const cr_rows *rows, cr_row_target *target) {
  (void)rows, (void)target;
  return false;
}

void cr_row_drain(void) {}
#endif
