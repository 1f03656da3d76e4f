/* Rows of values against the formula, one value at a time: every alignment, narrow and wide rows,
 * past the caches and not, with a word on either side that must stay as it is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "core/rng.h"
#include "data/augment/transform_rows.h"

enum { MAX_WIDTH = 300, MAX_HEIGHT = 12, SLACK = 40 };

typedef struct scene {
  uint8_t bytes[3 * (MAX_WIDTH + SLACK) * MAX_HEIGHT];
  float reals[3 * (MAX_WIDTH + SLACK) * MAX_HEIGHT];
  float means[(MAX_WIDTH + SLACK) * MAX_HEIGHT];
} scene;

static scene *make_scene(cr_mt19937 *rng) {
  scene *s = malloc(sizeof *s);
  assert_non_null(s);
  for (size_t i = 0; i < sizeof s->bytes; ++i) {
    s->bytes[i] = (uint8_t)cr_mt19937_below(rng, 256);
    s->reals[i] = (float)cr_mt19937_below(rng, 1000) / 7;
  }
  for (size_t i = 0; i < sizeof s->means / sizeof *s->means; ++i) {
    s->means[i] = (float)cr_mt19937_below(rng, 100000) / 391;
  }
  return s;
}

static float expected(const cr_rows *rows, bool bytes, int y, int x) {
  int place = rows->mirror ? rows->width - 1 - x : x;
  size_t at = (size_t)y * rows->pitch + (size_t)(place * rows->stride + rows->channel);
  float value = bytes ? (float)((const uint8_t *)rows->in)[at] : ((const float *)rows->in)[at];
  float mean = rows->mean;
  if (rows->mean_row != NULL) mean = rows->mean_row[(size_t)y * rows->mean_pitch + (size_t)place];
  return (value - mean) * rows->scale;
}

typedef void (*rows_fn)(const cr_rows *rows, cr_row_target *target);

/* Writes the rows at `shift` floats after the beginning of a line, `first` of them by a call of
 * their own, and compares. */
static void check_rows(const cr_rows *rows, rows_fn write, int shift, bool stream, int first) {
  bool bytes = write != cr_rows_f32;
  size_t count = (size_t)rows->width * (size_t)rows->height;
  size_t room = (count + 4 * CR_ROW_LINE) / CR_ROW_LINE * CR_ROW_LINE;
  float *memory = aligned_alloc(64, room * sizeof *memory);
  assert_non_null(memory);
  for (size_t i = 0; i < room; ++i) memory[i] = -12345;
  float *out = memory + CR_ROW_LINE + shift;
  cr_row_target target;
  cr_row_begin(&target, out, stream);
  assert_int_equal(target.stream, stream && cr_row_can_stream());
  for (int y = 0; y < rows->height;) {
    cr_rows part = *rows;
    size_t skip = (size_t)y * rows->pitch;
    part.in = bytes ? (const void *)((const uint8_t *)rows->in + skip)
                    : (const void *)((const float *)rows->in + skip);
    if (rows->mean_row != NULL) part.mean_row += (size_t)y * rows->mean_pitch;
    part.height = y == 0 && first > 0 ? first : rows->height - y;
    write(&part, &target);
    y += part.height;
  }
  cr_row_end(&target);
  for (int y = 0; y < rows->height; ++y) {
    for (int x = 0; x < rows->width; ++x) {
      float found = out[y * rows->width + x], want = expected(rows, bytes, y, x);
      if (memcmp(&found, &want, sizeof want) == 0) continue;
      fail_msg("%d x %d, stride %d, channel %d, mirror %d, shift %d: (%d, %d) is %g, not %g",
               rows->height, rows->width, rows->stride, rows->channel, rows->mirror, shift, y, x,
               (double)found, (double)want);
    }
  }
  for (size_t i = 0; i < room; ++i) {
    if (memory + i >= out && memory + i < out + count) continue;
    if (memory[i] != -12345) fail_msg("a value %td positions from the first", memory + i - out);
  }
  free(memory);
}

static cr_rows random_rows(const scene *s, cr_mt19937 *rng, bool bytes) {
  static const int strides[] = {1, 3, 3, 1, 4, 2};
  cr_rows rows = {.in = bytes ? (const void *)s->bytes : (const void *)s->reals};
  rows.stride = strides[cr_mt19937_below(rng, 6)];
  int limit = 3 * MAX_WIDTH / rows.stride;
  if (limit > MAX_WIDTH) limit = MAX_WIDTH;
  rows.width = 1 + (int)cr_mt19937_below(rng, cr_mt19937_below(rng, 2) == 0 ? 40 : (uint32_t)limit);
  rows.height = 1 + (int)cr_mt19937_below(rng, MAX_HEIGHT);
  rows.channel = (int)cr_mt19937_below(rng, (uint32_t)rows.stride);
  rows.pitch = (size_t)(rows.width * rows.stride) + cr_mt19937_below(rng, SLACK);
  rows.mean_pitch = (size_t)rows.width + cr_mt19937_below(rng, SLACK);
  if (cr_mt19937_below(rng, 2) == 0) rows.mean_row = s->means;
  rows.mean = 117.25f;
  rows.scale = cr_mt19937_below(rng, 2) == 0 ? 1 : 0.017f;
  rows.mirror = cr_mt19937_below(rng, 2) == 0;
  return rows;
}

TEST(test_rows_are_as_the_formula_says) {
  cr_mt19937 rng;
  const char *given = getenv("CREMA_TEST_SEED");
  uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL);
  print_message("seed %u (CREMA_TEST_SEED repeats it)\n", seed);
  cr_mt19937_seed(&rng, seed);
  scene *s = make_scene(&rng);
  for (int trial = 0; trial < 4000; ++trial) {
    static const rows_fn writers[] = {cr_rows_u8, cr_rows_u8, cr_rows_f32, cr_rows_u8_ref};
    rows_fn write = writers[cr_mt19937_below(&rng, 4)];
    cr_rows rows = random_rows(s, &rng, write != cr_rows_f32);
    check_rows(&rows, write, trial % CR_ROW_LINE, trial / 3 % 2 == 0,
               (int)cr_mt19937_below(&rng, (uint32_t)rows.height));
  }
  free(s);
}

/* The last bytes of the pixels are read, not those after them. */
TEST(test_nothing_is_read_behind_the_pixels) {
  for (int width = 1; width < 70; ++width) {
    for (int kind = 0; kind < 4; ++kind) {
      cr_rows rows = {.width = width,
                      .height = 3,
                      .stride = kind < 2 ? 3 : 1,
                      .channel = kind < 2 ? 2 : 0,
                      .pitch = (size_t)width * (kind < 2 ? 3 : 1),
                      .scale = 1,
                      .mirror = kind % 2 == 1};
      /* Exactly as large: address sanitizers and valgrind watch the ends. */
      size_t size = 3 * rows.pitch;
      uint8_t *bytes = malloc(size);
      assert_non_null(bytes);
      for (size_t i = 0; i < size; ++i) bytes[i] = (uint8_t)(i * 31);
      rows.in = bytes;
      check_rows(&rows, cr_rows_u8, width % CR_ROW_LINE, true, 0);
      check_rows(&rows, cr_rows_u8, width % CR_ROW_LINE, false, 0);
      free(bytes);
    }
  }
}

/* Rows of another kind can follow; what waited for a full line is not lost. */
TEST(test_kinds_of_rows_mix) {
  enum { W = 21 };
  uint8_t bytes[W];
  float reals[W], out[3 * W];
  for (int i = 0; i < W; ++i) {
    bytes[i] = (uint8_t)(3 * i);
    reals[i] = (float)i / 3;
  }
  cr_rows rows = {.in = bytes, .width = W, .height = 1, .stride = 1, .pitch = W, .scale = 2};
  cr_row_target target;
  cr_row_begin(&target, out, true);
  cr_rows_u8(&rows, &target);
  rows.in = reals;
  cr_rows_f32(&rows, &target);
  rows.in = bytes;
  cr_rows_u8(&rows, &target);
  cr_row_end(&target);
  for (int i = 0; i < W; ++i) {
    assert_true(out[i] == 6 * (float)i && out[2 * W + i] == 6 * (float)i);
    assert_true(out[W + i] == (float)i / 3 * 2);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
