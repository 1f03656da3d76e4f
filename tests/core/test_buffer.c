/* Growing byte buffers. */
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "check.h"
#include "core/buffer.h"
#include "core/large_requests.h"

/* The NUL after the bytes exists as soon as there is room, even before anything is appended. */
TEST(room_grows) {
  cr_buffer buffer = {0};
  ok(cr_buffer_reserve(&buffer, 0));
  assert_non_null(buffer.data);
  assert_string_equal(buffer.data, "");
  assert_int_equal(buffer.capacity, 64);
  const char *data = buffer.data;
  ok(cr_buffer_reserve(&buffer, 64));
  assert_int_equal(buffer.capacity, 64);
  assert_ptr_equal(buffer.data, data);
  /* The buffer grows by half, so that appending bytes one by one copies each only a few times. */
  ok(cr_buffer_reserve(&buffer, 65));
  assert_int_equal(buffer.capacity, 96);
  ok(cr_buffer_reserve(&buffer, 97));
  assert_int_equal(buffer.capacity, 144);
  memset(buffer.data, 'x', buffer.capacity + 1);
  assert_int_equal(buffer.size, 0);
  ok(cr_buffer_reserve(&buffer, 10));
  assert_int_equal(buffer.capacity, 144);
  cr_buffer_free(&buffer);
  assert_null(buffer.data);
  assert_int_equal(buffer.capacity, 0);
}

TEST(bytes_are_appended) {
  cr_buffer buffer = {0};
  ok(cr_buffer_append(&buffer, NULL, 0));
  assert_string_equal(buffer.data, "");
  for (int i = 0; i < 1000; ++i) {
    const char piece[3] = {(char)i, (char)(i * 3), (char)(i * 7)};
    ok(cr_buffer_append(&buffer, piece, (size_t)(i % 4)));
    assert_int_equal(buffer.data[buffer.size], 0);
    if (i % 4 == 3) assert_memory_equal(buffer.data + buffer.size - 3, piece, 3);
  }
  assert_int_equal(buffer.size, 1500);
  assert_int_equal(buffer.data[0], 1);
  cr_buffer_clear(&buffer);
  assert_int_equal(buffer.size, 0);
  assert_string_equal(buffer.data, "");
  assert_true(buffer.capacity >= 1500);
  cr_buffer_free(&buffer);
  cr_buffer_clear(&buffer);
  assert_null(buffer.data);
}

TEST(text_is_printed) {
  cr_buffer buffer = {0};
  ok(cr_buffer_print(&buffer, "%d and %s", 12, "more"));
  assert_string_equal(buffer.data, "12 and more");
  assert_int_equal(buffer.size, 11);
  /* Up to the last byte of the room, and beyond it. */
  ok(cr_buffer_print(&buffer, "%*s", 64 - 11, "|"));
  assert_int_equal(buffer.size, 64);
  assert_int_equal(buffer.capacity, 64);
  assert_int_equal(buffer.data[63], '|');
  ok(cr_buffer_print(&buffer, "%0500d", 7));
  assert_int_equal(buffer.size, 564);
  assert_int_equal(strlen(buffer.data), 564);
  ok(cr_buffer_print(&buffer, "%s", ""));
  assert_int_equal(buffer.size, 564);
  /* A wide character that the C locale cannot write. */
  assert_fails(cr_buffer_print(&buffer, "%lc", (wint_t)0x20ac), CREMA_E_ARGUMENT,
               "cannot format \"%lc\"");
  assert_int_equal(buffer.size, 564);
  cr_buffer_free(&buffer);
}

TEST(bytes_are_handed_over) {
  cr_buffer buffer = {0};
  assert_null(cr_buffer_take(&buffer));
  ok(cr_buffer_append(&buffer, "abc", 3));
  char *taken = cr_buffer_take(&buffer);
  assert_string_equal(taken, "abc");
  assert_null(buffer.data);
  assert_int_equal(buffer.size + buffer.capacity, 0);
  free(taken);
}

TEST(marks_are_no_text) {
  static const struct {
    const char *bytes, *text;
  } cases[] = {{"\xEF\xBB\xBF", ""},
               {"\xEF\xBB\xBF\n", "\n"},
               {"\xEF\xBB\xBF\xEF\xBB\xBF", "\xEF\xBB\xBF"},
               {"\xEF\xBB", "\xEF\xBB"},
               {"a\xEF\xBB\xBF", "a\xEF\xBB\xBF"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_buffer buffer = {0};
    ok(cr_buffer_append(&buffer, cases[i].bytes, strlen(cases[i].bytes)));
    ok(cr_buffer_make_text(&buffer, "f"));
    assert_string_equal(buffer.data, cases[i].text);
    assert_int_equal(buffer.size, strlen(cases[i].text));
    cr_buffer_free(&buffer);
  }
}

TEST(zero_bytes_are_no_text) {
  cr_buffer buffer = {0};
  ok(cr_buffer_make_text(&buffer, "f"));
  ok(cr_buffer_append(&buffer, "one\ntwo\n", 8));
  ok(cr_buffer_make_text(&buffer, "f"));
  ok(cr_buffer_append(&buffer, "th\0ree\n\0", 8));
  assert_fails(cr_buffer_make_text(&buffer, "f"), CREMA_E_PARSE, "f:3: a zero byte");
  cr_buffer_clear(&buffer);
  ok(cr_buffer_append(&buffer, "\0\n", 2));
  assert_fails(cr_buffer_make_text(&buffer, "g"), CREMA_E_PARSE, "g:1: a zero byte");
  cr_buffer_free(&buffer);
}

TEST(too_much_is_refused) {
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 1, SIZE_MAX / 2, SIZE_MAX / 4 + 1};
  cr_buffer buffer = {0};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    assert_fails(cr_buffer_reserve(&buffer, sizes[i]), CREMA_E_NO_MEMORY, "a buffer");
    assert_null(buffer.data);
  }
  ok(cr_buffer_append(&buffer, "abc", 3));
  /* The sum of both sizes would be small. */
  assert_int_equal(cr_buffer_append(&buffer, "x", SIZE_MAX - 2), CREMA_E_NO_MEMORY);
  assert_int_equal(cr_buffer_append(&buffer, "x", SIZE_MAX - 3), CREMA_E_NO_MEMORY);
  assert_string_equal(buffer.data, "abc");
  cr_buffer_free(&buffer);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
