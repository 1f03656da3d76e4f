/* Error texts, one per thread, and the log. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/fail.h"
#include "core/log.h"

enum { MOST = 2047 /* characters of an error text */, LOG_MOST = 4095 };

TEST(statuses_have_names) {
#define CHECK(name, value, text)                               \
  assert_int_equal(CREMA_##name, value);                       \
  assert_string_equal(crema_status_name(CREMA_##name), #name); \
  assert_string_equal(crema_status_message(CREMA_##name), text);
  CREMA_STATUS_MAP(CHECK)
#undef CHECK
  assert_string_equal(crema_status_name((crema_status)777), "?");
  assert_string_equal(crema_status_message((crema_status)777), "unknown status");
}

TEST(texts_are_set) {
  assert_int_equal(cr_fail(CREMA_E_RANGE, "%d of %s", 3, "four"), CREMA_E_RANGE);
  assert_string_equal(crema_error_text(), "3 of four");
  /* The old text may be part of the new one. */
  assert_int_equal(cr_fail(CREMA_E_IO, "again: %s", crema_error_text()), CREMA_E_IO);
  assert_string_equal(crema_error_text(), "again: 3 of four");
  assert_int_equal(cr_fail_text(CREMA_E_SHAPE, "100 %d"), CREMA_E_SHAPE);
  assert_string_equal(crema_error_text(), "100 %d");
  assert_int_equal(cr_fail_memory(123, "a thing"), CREMA_E_NO_MEMORY);
  assert_string_equal(crema_error_text(), "cannot allocate 123 bytes for a thing");
  assert_int_equal(cr_fail_errno(ENOENT, "%s", "file"), CREMA_E_IO);
  assert_string_equal(crema_error_text(), "file: No such file or directory");
  cr_fail_errno(123456, "x");
  assert_error_has("123456");
}

TEST(locations_are_prepended) {
  cr_fail(CREMA_E_RANGE, "cause");
  assert_int_equal(cr_fail_in(CREMA_E_IO, "in %s", "here"), CREMA_E_IO);
  assert_string_equal(crema_error_text(), "in here: cause");
  ok(cr_fail_in(CREMA_OK, "elsewhere"));
  assert_string_equal(crema_error_text(), "in here: cause");
  /* Without a text, what the code means. */
  cr_fail_text(CREMA_OK, "");
  assert_int_equal(cr_fail_in(CREMA_E_NO_MEMORY, "there"), CREMA_E_NO_MEMORY);
  assert_string_equal(crema_error_text() + strlen("there: "),
                      crema_status_message(CREMA_E_NO_MEMORY));
}

static void check_where(const char *text, const char *layer, const char *blob, const char *file,
                        size_t line) {
  assert_string_equal(crema_error_text(), text);
  assert_string_equal(crema_error_layer(), layer);
  assert_string_equal(crema_error_blob(), blob);
  assert_string_equal(crema_error_file(), file);
  assert_int_equal(crema_error_line(), line);
}

TEST(failures_know_where_they_are) {
  const cr_where layer = {.layer = "conv1", .type = "Convolution"};
  assert_int_equal(cr_fail_at(CREMA_E_PARSE, &(cr_where){.file = "a", .line = 3, .column = 9}, "x"),
                   CREMA_E_PARSE);
  check_where("a:3:9: x", "", "", "a", 3);
  cr_fail_at(CREMA_E_SHAPE, &(cr_where){.layer = "conv1", .blob = "data"}, "%d axes", 2);
  check_where("layer 'conv1': 2 axes", "conv1", "data", "", 0);
  /* The inner layer and the inner blob stay. */
  assert_int_equal(cr_fail_where(CREMA_E_SHAPE, &(cr_where){.layer = "all", .blob = "top"}),
                   CREMA_E_SHAPE);
  check_where("layer 'conv1': 2 axes", "conv1", "data", "", 0);
  cr_fail_where(CREMA_E_SHAPE, &(cr_where){.file = "net", .line = 7});
  cr_fail_in(CREMA_E_SHAPE, "iteration %d", 4);
  cr_fail_in(CREMA_E_SHAPE, "solver");
  check_where("solver: iteration 4: net:7: layer 'conv1': 2 axes", "conv1", "data", "net", 7);
  /* Success changes nothing, and the next failure starts anew. */
  ok(cr_fail_where(CREMA_OK, &(cr_where){.layer = "other", .file = "else", .field = "type"}));
  assert_string_equal(cr_error_field(), "");
  check_where("solver: iteration 4: net:7: layer 'conv1': 2 axes", "conv1", "data", "net", 7);
  cr_fail(CREMA_E_IO, "else");
  check_where("else", "", "", "", 0);
  /* A file inside of a layer inside of a file. */
  cr_fail_at(CREMA_E_PARSE, &(cr_where){.file = "labels", .line = 2}, "y");
  cr_fail_where(CREMA_E_PARSE, &layer);
  cr_fail_where(CREMA_E_PARSE, &(cr_where){.file = "net"});
  check_where("net: layer 'conv1' (Convolution): labels:2: y", "conv1", "", "net", 0);
  /* Text about the layer that was added before the file was known stays after the file. */
  cr_fail_at(CREMA_E_PARSE, &layer, "z");
  cr_fail_in(CREMA_E_PARSE, "setup");
  cr_fail_where(CREMA_E_PARSE, &(cr_where){.file = "net", .line = 1});
  check_where("net:1: setup: layer 'conv1' (Convolution): z", "conv1", "", "net", 1);
  /* Texts that name it themselves; a layer without a name. */
  cr_fail_at(CREMA_E_NUMERIC, &(cr_where){.layer = "a", .blob = "b", .told = true},
             "nan in b of a");
  cr_fail_in(CREMA_E_NUMERIC, "iteration 3");
  check_where("iteration 3: nan in b of a", "a", "b", "", 0);
  cr_fail_at(CREMA_E_RANGE, &(cr_where){.layer = "", .type = "ReLU"}, "w");
  check_where("layer '' (ReLU): w", "", "", "", 0);
  assert_true(cr_error_in_layer());
  assert_string_equal(cr_error_type(), "ReLU");
  assert_int_equal(cr_fail_instead(CREMA_E_UNKNOWN_NAME, "v"), CREMA_E_UNKNOWN_NAME);
  check_where("layer '' (ReLU): v", "", "", "", 0);
  cr_fail(CREMA_E_RANGE, "u");
  assert_false(cr_error_in_layer());
  assert_string_equal(cr_error_type(), "");
}

TEST(failures_are_kept) {
  const cr_where where = {.layer = "conv1", .blob = "data", .file = "net", .line = 5};
  cr_fail_at(CREMA_E_RANGE, &where, "x");
  cr_error *error = cr_error_keep();
  assert_non_null(error);
  cr_fail(CREMA_E_IO, "else");
  assert_int_equal(cr_error_again(CREMA_E_RANGE, error), CREMA_E_RANGE);
  check_where("net:5: layer 'conv1': x", "conv1", "data", "net", 5);
  free(error);
  assert_int_equal(cr_error_again(CREMA_E_IO, NULL), CREMA_E_IO);
  check_where("input/output error", "", "", "", 0);
}

/* What does not fit is cut off at the end, wherever that falls. */
TEST(long_texts_are_cut) {
  static char text[3 * MOST], wanted[3 * MOST];
  memset(text, 'x', sizeof text - 1);
  cr_fail(CREMA_E_IO, "%s", text);
  assert_int_equal(strlen(crema_error_text()), MOST);
  for (size_t size = MOST - 8; size <= MOST + 3; ++size) {
    cr_fail_text(CREMA_E_IO, "cause");
    assert_int_equal(cr_fail_in(CREMA_E_IO, "%.*s", (int)size, text), CREMA_E_IO);
    snprintf(wanted, sizeof wanted, "%.*s: cause", (int)size, text);
    wanted[MOST] = '\0';
    assert_string_equal(crema_error_text(), wanted);
  }
  /* Nor do names and files that are too long spoil the rest. */
  cr_fail_at(CREMA_E_IO, &(cr_where){.layer = text, .type = text, .blob = text, .file = text}, "x");
  cr_fail_in(CREMA_E_IO, "%s", text);
  assert_int_equal(strlen(crema_error_text()), MOST);
  assert_int_equal(strlen(crema_error_layer()), 200);
  assert_int_equal(strlen(crema_error_blob()), 200);
  assert_int_equal(strlen(crema_error_file()), MOST);
  cr_fail_text(CREMA_E_IO, "");
}

static void *fail_elsewhere(void *unused) {
  (void)unused;
  cr_fail(CREMA_E_IO, "elsewhere");
  return NULL;
}

TEST(threads_have_texts_of_their_own) {
  pthread_t thread;
  cr_fail(CREMA_E_IO, "here");
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_string_equal(crema_error_text(), "here");
}

/* ---- log ---- */

typedef struct heard {
  int count, line;
  crema_log_level level;
  char file[64], text[2 * LOG_MOST];
} heard;

static void hear(void *user, crema_log_level level, const char *file, int line, const char *text) {
  heard *last = user;
  ++last->count;
  last->level = level;
  last->line = line;
  snprintf(last->file, sizeof last->file, "%s", file);
  snprintf(last->text, sizeof last->text, "%s", text);
}

TEST(listeners_hear_their_levels) {
  static heard last, other;
  /* No sink is set yet. */
  assert_false(cr_log_enabled(CREMA_LOG_ERROR));
  cr_log_error("unheard");
  crema_log_set(hear, &last, CREMA_LOG_WARNING);
  assert_false(cr_log_enabled(CREMA_LOG_INFO));
  assert_true(cr_log_enabled(CREMA_LOG_WARNING));
  assert_true(cr_log_enabled(CREMA_LOG_ERROR));
  cr_log_info("too little");
  assert_int_equal(last.count, 0);
  cr_log_at(CREMA_LOG_WARNING, "a/b/file.c", 12, "%s %d", "text", 5);
  assert_int_equal(last.count, 1);
  assert_int_equal(last.level, CREMA_LOG_WARNING);
  assert_string_equal(last.file, "file.c");
  assert_int_equal(last.line, 12);
  assert_string_equal(last.text, "text 5");
  cr_log_at(CREMA_LOG_ERROR, "bare.c", 3, "x");
  assert_string_equal(last.file, "bare.c");
  assert_int_equal(last.level, CREMA_LOG_ERROR);
  crema_log_set(hear, &other, CREMA_LOG_DEBUG);
  cr_log_debug("to the other");
  assert_int_equal(last.count, 2);
  assert_string_equal(other.text, "to the other");
  assert_string_equal(other.file, "test_fail.c");
  crema_log_set(NULL, NULL, CREMA_LOG_DEBUG);
  assert_false(cr_log_enabled(CREMA_LOG_ERROR));
  cr_log_error("unheard");
  assert_int_equal(other.count, 1);
}

TEST(long_lines_are_cut) {
  static heard last;
  static char text[2 * LOG_MOST];
  memset(text, 'y', sizeof text - 1);
  crema_log_set(hear, &last, CREMA_LOG_INFO);
  cr_log_info("%s", text);
  crema_log_set(NULL, NULL, CREMA_LOG_INFO);
  assert_int_equal(strlen(last.text), LOG_MOST);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
