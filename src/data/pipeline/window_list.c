#include "data/pipeline/window_list.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/c_locale.h"
#include "core/fail.h"
#include "core/file.h"

/* Words between blanks and line ends. */
typedef struct scanner {
  const char *path;
  char *at;
  size_t line;
  bool line_ended; /* the last word was at the end of its line */
} scanner;

/* NULL at the end of the text. The word's end is overwritten by a NUL. */
static char *next_word(scanner *s) {
  if (s->line_ended) ++s->line;
  s->line_ended = false;
  while (*s->at != '\0' && strchr(" \t\r\n", *s->at) != NULL) {
    if (*s->at++ == '\n') ++s->line;
  }
  if (*s->at == '\0') return NULL;
  char *word = s->at;
  s->at += strcspn(s->at, " \t\r\n");
  if (*s->at != '\0') {
    s->line_ended = *s->at == '\n';
    *s->at++ = '\0';
  }
  return word;
}

static crema_status fail_word(const scanner *s, const char *wanted, const char *found) {
  return cr_fail(CREMA_E_PARSE, "%s:%zu: expected %s, found \"%s\"", s->path, s->line, wanted,
                 found == NULL ? "the end of the file" : found);
}

static crema_status read_int(scanner *s, const char *what, int low, int *out) {
  char *end = NULL;
  char *word = next_word(s);
  errno = 0;
  long value = word == NULL ? 0 : strtol(word, &end, 10);
  if (word == NULL || *end != '\0' || errno != 0 || value < low || value > INT_MAX) {
    return fail_word(s, what, word);
  }
  *out = (int)value;
  return CREMA_OK;
}

static crema_status read_window(scanner *s, cr_window_list *list, size_t image) {
  cr_listed_window window = {.image = image};
  CR_TRY(read_int(s, "the class of a window", INT_MIN, &window.label));
  window.line = s->line;
  char *end = NULL;
  char *word = next_word(s);
  if (word != NULL) window.overlap = strtof(word, &end);
  if (word == NULL || *end != '\0' || !isfinite(window.overlap)) {
    return fail_word(s, "the overlap of a window", word);
  }
  CR_TRY(read_int(s, "x1 of a window", INT_MIN, &window.x1));
  CR_TRY(read_int(s, "y1 of a window", INT_MIN, &window.y1));
  CR_TRY(read_int(s, "x2 of a window", INT_MIN, &window.x2));
  CR_TRY(read_int(s, "y2 of a window", INT_MIN, &window.y2));
  return cr_buffer_append(&list->windows, &window, sizeof window);
}

/* After the "#". */
static crema_status read_image(scanner *s, cr_window_list *list) {
  cr_window_image image = {0};
  int number = 0, windows = 0;
  CR_TRY(read_int(s, "the number of an image", 0, &number));
  image.name = next_word(s);
  if (image.name == NULL) return fail_word(s, "the name of an image", NULL);
  CR_TRY(read_int(s, "the channels of an image", 1, &image.channels));
  CR_TRY(read_int(s, "the height of an image", 1, &image.height));
  CR_TRY(read_int(s, "the width of an image", 1, &image.width));
  CR_TRY(read_int(s, "the number of windows", 0, &windows));
  size_t index = cr_window_list_images(list);
  CR_TRY(cr_buffer_append(&list->images, &image, sizeof image));
  for (int i = 0; i < windows; ++i) CR_TRY(read_window(s, list, index));
  return CREMA_OK;
}

static crema_status read_list(cr_window_list *list) {
  CR_TRY(cr_file_read(list->path, &list->text));
  CR_TRY(cr_buffer_make_text(&list->text, list->path));
  if (list->text.size == 0) return cr_fail(CREMA_E_PARSE, "%s: the file is empty", list->path);
  scanner s = {.path = list->path, .at = list->text.data, .line = 1};
  for (char *word = next_word(&s); word != NULL; word = next_word(&s)) {
    if (strcmp(word, "#") != 0) return fail_word(&s, "\"#\" before an image", word);
    CR_TRY(read_image(&s, list));
  }
  if (cr_window_list_windows(list) > 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s: the file has no windows", list->path);
}

crema_status cr_window_list_read(const char *path, cr_window_list *out) {
  *out = (cr_window_list){.path = strdup(path)};
  if (out->path == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  cr_c_locale locale;
  crema_status status = cr_c_locale_begin(&locale);
  if (status == CREMA_OK) {
    status = read_list(out);
    cr_c_locale_end(&locale);
  }
  if (status != CREMA_OK) cr_window_list_free(out);
  return status;
}

size_t cr_window_list_images(const cr_window_list *list) {
  return list->images.size / sizeof(cr_window_image);
}

size_t cr_window_list_windows(const cr_window_list *list) {
  return list->windows.size / sizeof(cr_listed_window);
}

const cr_window_image *cr_window_list_image(const cr_window_list *list, size_t i) {
  return (const cr_window_image *)(const void *)list->images.data + i;
}

const cr_listed_window *cr_window_list_window(const cr_window_list *list, size_t i) {
  return (const cr_listed_window *)(const void *)list->windows.data + i;
}

void cr_window_list_free(cr_window_list *list) {
  cr_buffer_free(&list->windows);
  cr_buffer_free(&list->images);
  cr_buffer_free(&list->text);
  free(list->path);
  *list = (cr_window_list){0};
}
