/* Element types, shapes, arena and clock. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#include "check.h"
#include "comma_locale.h"
#include "core/arena.h"
#include "core/c_locale.h"
#include "core/clock.h"
#include "core/fail.h"
#include "core/rng.h"
#include "crema/types.h"

TEST(s4_01_sizes_and_names) {
  const struct {
    crema_dtype type;
    int value;
    size_t size;
    const char *name;
  } row[] = {{CREMA_F64, 0, 8, "double"}, {CREMA_F32, 1, 4, "float"}, {CREMA_F16, 2, 2, "float16"},
             {CREMA_I32, 3, 4, "int"},    {CREMA_U32, 4, 4, "uint"},  {CREMA_BOOL, 5, 1, "bool"}};
  for (size_t i = 0; i < sizeof row / sizeof row[0]; ++i) {
    assert_int_equal(row[i].type, row[i].value);
    assert_int_equal(crema_dtype_size(row[i].type), row[i].size);
    assert_string_equal(crema_dtype_name(row[i].type), row[i].name);
  }
  assert_int_equal(crema_dtype_size((crema_dtype)77), 0);
  assert_string_equal(crema_dtype_name((crema_dtype)77), "?");
}

static crema_shape shape_of(int axes, int64_t a, int64_t b, int64_t c) {
  return (crema_shape){.axes = axes, .dim = {a, b, c}};
}

TEST(s0_25_shape_limits) {
  crema_shape s = shape_of(0, 0, 0, 0);
  ok(crema_shape_check(&s));
  assert_int_equal(crema_shape_count(&s, 0, 0), 1);
  s = shape_of(3, 2, 0, 5);
  ok(crema_shape_check(&s));
  s = shape_of(2, 2, -1, 0);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  s = shape_of(3, INT64_MAX / 8, 1, 1);
  ok(crema_shape_check(&s));
  s = shape_of(3, INT64_MAX / 8, 2, 1);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  s = shape_of(3, INT64_MAX, INT64_MAX, 0);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  s.axes = CREMA_MAX_AXES + 1;
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  s.axes = -1;
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
}

/* Random shapes against arithmetic of 128 bits. Extents of 0 make the count 0, but the product of
 * the others must fit, too: layers take products over some of the axes. */
TEST(s0_25_random_shapes) {
  static const int64_t extent[] = {
      0,         1,  2,        3, 7, 1000, 65536, INT32_MAX, (int64_t)1 << 40, INT64_MAX / 8,
      INT64_MAX, -1, INT64_MIN};
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  int refused = 0, accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    crema_shape s = {.axes = (int)cr_mt19937_below(&rng, CREMA_MAX_AXES + 3) - 1};
    bool fits = s.axes >= 0 && s.axes <= CREMA_MAX_AXES, zero = false;
    unsigned __int128 product = 1;
    for (int a = 0; a < s.axes && a < CREMA_MAX_AXES; ++a) {
      /* Mostly small ones, so that many axes fit. */
      uint32_t pick = cr_mt19937_below(&rng, 40);
      s.dim[a] = extent[pick < 13 && s.axes < 8 ? pick : 1 + pick % 2];
      fits = fits && s.dim[a] >= 0;
      zero = zero || s.dim[a] == 0;
      if (fits && s.dim[a] > 0) product *= (unsigned __int128)s.dim[a];
      fits = fits && product <= INT64_MAX / 8;
    }
    assert_int_equal(crema_shape_check(&s), fits ? CREMA_OK : CREMA_E_SHAPE);
    if (fits) assert_true(crema_shape_count(&s, 0, s.axes) == (zero ? 0 : (int64_t)product));
    *(fits ? &accepted : &refused) += 1;
  }
  assert_true(refused > 10000 && accepted > 10000);
}

TEST(shapes_as_text) {
  char text[64];
  crema_shape s = shape_of(3, 2, 3, 4);
  assert_string_equal(crema_shape_text(&s, text, sizeof text), "2 3 4 (24)");
  s.axes = 0;
  assert_string_equal(crema_shape_text(&s, text, sizeof text), "(1)");
  /* A number of elements that does not fit is left out, and nothing wraps around. */
  s = shape_of(3, INT64_MAX, INT64_MAX, 4);
  assert_string_equal(crema_shape_text(&s, text, sizeof text),
                      "9223372036854775807 9223372036854775807 4");
  s.dim[2] = 0;
  assert_string_equal(crema_shape_text(&s, text, sizeof text),
                      "9223372036854775807 9223372036854775807 0 (0)");
  s = shape_of(3, 2, 3, 4);
  /* A short buffer is filled as far as it goes and stays terminated. */
  for (size_t size = 1; size < 11; ++size) {
    memset(text, 'x', sizeof text);
    crema_shape_text(&s, text, size);
    assert_true(strlen(text) < size);
  }
}

TEST(axes_from_the_end) {
  crema_shape s = shape_of(3, 2, 3, 4);
  int axis = 99;
  ok(crema_shape_axis(&s, -1, &axis));
  assert_int_equal(axis, 2);
  ok(crema_shape_axis(&s, 0, &axis));
  assert_int_equal(axis, 0);
  assert_int_equal(crema_shape_axis(&s, 3, &axis), CREMA_E_RANGE);
  assert_int_equal(crema_shape_axis(&s, -4, &axis), CREMA_E_RANGE);
}

TEST(arena_blocks) {
  cr_arena arena = {0};
  void *block[100];
  for (size_t i = 0; i < 100; ++i) {
    size_t size = i * 37 % 30000;
    ok(cr_arena_alloc(&arena, size, &block[i]));
    assert_int_equal((uintptr_t)block[i] % 16, 0);
    for (size_t k = 0; k < size; ++k) assert_int_equal(((unsigned char *)block[i])[k], 0);
    memset(block[i], (int)i, size);
  }
  for (size_t i = 0; i < 100; ++i) {
    for (size_t k = 0; k < i * 37 % 30000; ++k) {
      assert_int_equal(((unsigned char *)block[i])[k], i);
    }
  }
  char *text = NULL;
  ok(cr_arena_text(&arena, "conv1", &text));
  assert_string_equal(text, "conv1");
  void *none = NULL;
  assert_int_equal(cr_arena_alloc(&arena, SIZE_MAX - 5, &none), CREMA_E_NO_MEMORY);
  cr_arena_free(&arena);
  assert_null(arena.chunk);
}

TEST(clock_goes_on) {
  double start = cr_clock_seconds();
  cr_clock_sleep(0.005);
  cr_clock_sleep(-1);
  double passed = cr_clock_seconds() - start;
  assert_true(passed >= 0.005 && passed < 5);
}

TEST(error_text_grows_outwards_and_is_cut) {
  crema_status status = cr_fail(CREMA_E_SHAPE, "expected %d", 3);
  status = cr_fail_in(status, "layer '%s'", "conv1");
  assert_int_equal(status, CREMA_E_SHAPE);
  assert_string_equal(crema_error_text(), "layer 'conv1': expected 3");
  for (int i = 0; i < 500; ++i) cr_fail_in(status, "outer text number %d", i);
  assert_true(strlen(crema_error_text()) < 4096);
  assert_memory_equal(crema_error_text(), "outer text number 499: outer", 28);
  cr_fail_text(CREMA_E_IO, "");
  cr_fail_in(CREMA_E_IO, "file");
  assert_string_equal(crema_error_text(), "file: input/output error");
}

TEST(shapes_are_compared) {
  const crema_shape a = shape_of(3, 2, 3, 4), b = shape_of(2, 2, 3, 4), c = shape_of(3, 2, 3, 5);
  const crema_shape d = shape_of(2, 2, 3, 9), e = shape_of(3, 1, 3, 4);
  assert_true(crema_shape_equal(&a, &a));
  assert_false(crema_shape_equal(&a, &b));
  assert_false(crema_shape_equal(&a, &c));
  assert_false(crema_shape_equal(&a, &e));
  /* Extents after the last axis do not count. */
  assert_true(crema_shape_equal(&b, &d));
  assert_false(crema_shape_equal(&a, NULL));
  assert_false(crema_shape_equal(NULL, &a));
  assert_false(crema_shape_equal(NULL, NULL));
}

TEST(axes_are_counted) {
  const crema_shape s = shape_of(3, 2, 3, 4);
  static const int64_t count[4][4] = {{1, 2, 6, 24}, {1, 1, 3, 12}, {1, 1, 1, 4}, {1, 1, 1, 1}};
  for (int from = 0; from < 4; ++from) {
    for (int to = 0; to < 4; ++to) {
      assert_int_equal(crema_shape_count(&s, from, to), count[from][to]);
    }
  }
  assert_int_equal(crema_shape_count(NULL, 0, 1), 0);
}

/* The error tells what is refused. */
TEST(bad_shapes_are_named) {
  crema_shape s = shape_of(-1, 0, 0, 0);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  assert_string_equal(crema_error_text(), "a shape has 0 to 32 axes, this one has -1");
  s = shape_of(3, 5, -7, 2);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  assert_string_equal(crema_error_text(), "axis 1 of a shape has the negative extent -7");
  s = shape_of(3, INT64_MAX, 1, 2);
  assert_int_equal(crema_shape_check(&s), CREMA_E_SHAPE);
  assert_string_equal(crema_error_text(),
                      "the shape 9223372036854775807 1 2 has too many elements");
  assert_int_equal(crema_shape_check(NULL), CREMA_E_ARGUMENT);
  assert_string_equal(crema_error_text(), "crema_shape_check: shape is NULL");
  s = shape_of(2, 5, 7, 0);
  int axis = 0;
  assert_int_equal(crema_shape_axis(&s, 2, &axis), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "axis 2 is outside of a shape with 2 axes");
  ok(crema_shape_axis(&s, -2, &axis));
  assert_int_equal(axis, 0);
  assert_int_equal(crema_shape_axis(&s, 0, NULL), CREMA_E_ARGUMENT);
  assert_int_equal(crema_shape_axis(NULL, 0, &axis), CREMA_E_ARGUMENT);
}

/* All axes there can be; what does not fit is left out from the end. */
TEST(long_shapes_as_text) {
  static const char whole[] = "1 2 3 (6)";
  char text[256];
  crema_shape s = {.axes = CREMA_MAX_AXES};
  for (int i = 0; i < CREMA_MAX_AXES; ++i) s.dim[i] = 1 + i % 2;
  crema_shape_text(&s, text, sizeof text);
  assert_int_equal(strlen(text), 2 * CREMA_MAX_AXES + strlen("(65536)"));
  assert_string_equal(text + 2 * CREMA_MAX_AXES, "(65536)");
  /* Axes that there cannot be are never read: behind these lies a zero. */
  crema_shape two[2] = {s};
  two[0].axes = CREMA_MAX_AXES + 5;
  crema_shape_text(two, text, sizeof text);
  assert_string_equal(text + 2 * CREMA_MAX_AXES, "(65536)");
  assert_null(crema_shape_text(&s, NULL, 10));
  text[0] = 'x';
  assert_ptr_equal(crema_shape_text(&s, text, 0), text);
  assert_int_equal(text[0], 'x');
  assert_string_equal(crema_shape_text(NULL, text, sizeof text), "");
  s = shape_of(3, 1, 2, 3);
  for (size_t size = 1; size <= sizeof whole; ++size) {
    memset(text, 'x', sizeof text);
    crema_shape_text(&s, text, size);
    assert_memory_equal(text, whole, size - 1);
    assert_int_equal(text[size - 1], '\0');
    assert_int_equal(text[size], 'x');
  }
}

static void do_nothing(int number) {
  (void)number;
}

/* Sleeping lasts, whatever interrupts it. */
TEST(signals_end_no_sleep) {
  const struct itimerval often = {{0, 2000}, {0, 2000}}, never = {{0, 0}, {0, 0}};
  struct sigaction action = {0}, before;
  action.sa_handler = do_nothing;
  assert_int_equal(sigaction(SIGALRM, &action, &before), 0);
  assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
  double start = cr_clock_seconds();
  cr_clock_sleep(0.03);
  double passed = cr_clock_seconds() - start;
  assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
  assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
  assert_true(passed >= 0.03);
  /* The clock counts seconds as the system's does. */
  struct timespec now;
  double early = cr_clock_seconds();
  clock_gettime(CLOCK_MONOTONIC, &now);
  double late = cr_clock_seconds(), there = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
  assert_true(early <= there + 1e-6 && there <= late + 1e-6);
}

/* The locale of the thread and not of the process, until its end. */
TEST(numbers_have_points) {
  char text[16];
  bool commas = comma_locale_begin();
  cr_c_locale locale;
  locale_t before = uselocale((locale_t)0);
  ok(cr_c_locale_begin(&locale));
  assert_true(uselocale((locale_t)0) != before);
  snprintf(text, sizeof text, "%.1f", 0.5);
  assert_string_equal(text, "0.5");
  cr_c_locale_end(&locale);
  assert_true(uselocale((locale_t)0) == before);
  snprintf(text, sizeof text, "%.1f", 0.5);
  assert_string_equal(text, commas ? "0,5" : "0.5");
  setlocale(LC_ALL, "C");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
