#include "core/fail.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 2048, NAME_MAX_BYTES = 201, TYPE_MAX = 101 };

/* A failure. crema_error_text composes its text: "<context>: <file>:<line>:<column>: layer
 * '<layer>' (<type>): <text>". */
struct cr_error {
  char text[TEXT_MAX];
  char context[TEXT_MAX]; /* added after the file or the layer */
  char layer[NAME_MAX_BYTES], type[TYPE_MAX];
  char blob[NAME_MAX_BYTES], field[TYPE_MAX];
  char file[TEXT_MAX];
  size_t line, column;
  bool has_layer, has_file;
  bool layer_told, file_told; /* `text` names it already */
};

static _Thread_local cr_error current;

/* The text that crema_error_text last returned in this thread. */
static _Thread_local char composed[TEXT_MAX];

/* Appends `more`, truncated to the space at `end`, with a NUL; returns the new end. */
static size_t append_text(char text[TEXT_MAX], size_t end, const char *more) {
  size_t size = strlen(more);
  if (size > TEXT_MAX - 1 - end) size = TEXT_MAX - 1 - end;
  memcpy(text + end, more, size);
  text[end + size] = '\0';
  return end + size;
}

static size_t append_number(char text[TEXT_MAX], size_t end, size_t number) {
  char digits[24];
  if (number == 0) return end;
  snprintf(digits, sizeof digits, ":%zu", number);
  return append_text(text, end, digits);
}

static bool shows_layer(const cr_error *error) {
  return error->has_layer && !error->layer_told;
}

static bool shows_file(const cr_error *error) {
  return error->has_file && !error->file_told;
}

static void compose(const cr_error *error, char out[TEXT_MAX]) {
  char layer[NAME_MAX_BYTES + TYPE_MAX + 16];
  size_t end = 0;
  out[0] = '\0';
  if (error->context[0] != '\0') {
    end = append_text(out, end, error->context);
    end = append_text(out, end, ": ");
  }
  if (shows_file(error)) {
    end = append_text(out, end, error->file);
    end = append_number(out, end, error->line);
    end = append_number(out, end, error->column);
    end = append_text(out, end, ": ");
  }
  if (shows_layer(error)) {
    bool typed = error->type[0] != '\0';
    snprintf(layer, sizeof layer, "layer '%s'%s%s%s: ", error->layer, typed ? " (" : "",
             error->type, typed ? ")" : "");
    end = append_text(out, end, layer);
  }
  append_text(out, end, error->text);
}

/* Moves the composed message into the text, so that more can be put in front of it. */
static void fold(cr_error *error) {
  char whole[TEXT_MAX];
  compose(error, whole);
  memcpy(error->text, whole, sizeof whole);
  error->context[0] = '\0';
  error->layer_told = error->file_told = true; /* if they are known at all */
}

static void copy_name(char *to, size_t size, const char *from) {
  snprintf(to, size, "%s", from == NULL ? "" : from);
}

crema_status cr_fail_text(crema_status code, const char *text) {
  char copy[TEXT_MAX]; /* `text` may be the old one */
  copy_name(copy, sizeof copy, text);
  current = (cr_error){0};
  memcpy(current.text, copy, sizeof copy);
  return code;
}

crema_status cr_fail_at_list(crema_status code, const cr_where *where, const char *fmt,
                             va_list args) {
  /* The arguments may point into the old text, so format aside first. */
  char text[TEXT_MAX];
  vsnprintf(text, sizeof text, fmt, args);
  cr_fail_text(code, text);
  return cr_fail_where(code, where);
}

crema_status cr_fail(crema_status code, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  cr_fail_at_list(code, &(cr_where){0}, fmt, args);
  va_end(args);
  return code;
}

crema_status cr_fail_at(crema_status code, const cr_where *where, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  cr_fail_at_list(code, where, fmt, args);
  va_end(args);
  return code;
}

crema_status cr_fail_in(crema_status code, const char *fmt, ...) {
  if (code == CREMA_OK) return code;
  char text[TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  cr_error *error = &current;
  if (error->text[0] == '\0') copy_name(error->text, TEXT_MAX, crema_status_message(code));
  char *to = shows_layer(error) || shows_file(error) ? error->context : error->text;
  char whole[TEXT_MAX];
  size_t end = append_text(whole, 0, text);
  if (to[0] != '\0') end = append_text(whole, end, ": ");
  append_text(whole, end, to);
  memcpy(to, whole, sizeof whole);
  return code;
}

static void set_file(cr_error *error, const cr_where *where) {
  if (shows_file(error) || error->context[0] != '\0') fold(error);
  copy_name(error->file, sizeof error->file, where->file);
  error->line = where->line;
  error->column = where->column;
  error->has_file = true;
  error->file_told = where->told;
}

crema_status cr_fail_more(crema_status code, const char *fmt, ...) {
  if (code == CREMA_OK) return code;
  char text[TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  append_text(current.text, strlen(current.text), text);
  return code;
}

crema_status cr_fail_where(crema_status code, const cr_where *where) {
  cr_error *error = &current;
  if (code == CREMA_OK) return code;
  if (where->layer != NULL && !error->has_layer) {
    if (shows_file(error)) fold(error);
    copy_name(error->layer, sizeof error->layer, where->layer);
    copy_name(error->type, sizeof error->type, where->type);
    error->has_layer = true;
    error->layer_told = where->told;
  }
  if (where->blob != NULL && error->blob[0] == '\0') {
    copy_name(error->blob, sizeof error->blob, where->blob);
  }
  if (where->field != NULL) copy_name(error->field, sizeof error->field, where->field);
  if (where->file != NULL) set_file(error, where);
  return code;
}

crema_status cr_fail_instead(crema_status code, const char *text) {
  copy_name(current.text, sizeof current.text, text);
  return code;
}

bool cr_error_in_layer(void) {
  return current.has_layer;
}

const char *cr_error_type(void) {
  return current.type;
}

const char *cr_error_field(void) {
  return current.field;
}

crema_status cr_fail_errno(int err, const char *fmt, ...) {
  char text[TEXT_MAX];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  char reason[128];
  /* POSIX strerror_r: returns 0 and fills the buffer. */
  if (strerror_r(err, reason, sizeof reason) != 0) snprintf(reason, sizeof reason, "error %d", err);
  return cr_fail(CREMA_E_IO, "%s: %s", text, reason);
}

crema_status cr_fail_memory(size_t bytes, const char *what) {
  return cr_fail(CREMA_E_NO_MEMORY, "cannot allocate %zu bytes for %s", bytes, what);
}

cr_error *cr_error_keep(void) {
  cr_error *copy = malloc(sizeof *copy);
  if (copy != NULL) *copy = current;
  return copy;
}

cr_error *cr_error_of_text(const char *text) {
  cr_error *error = calloc(1, sizeof *error);
  if (error != NULL) copy_name(error->text, sizeof error->text, text);
  return error;
}

crema_status cr_error_again(crema_status code, const cr_error *error) {
  if (error == NULL) return cr_fail_text(code, crema_status_message(code));
  current = *error;
  return code;
}

crema_status crema_error_set(crema_status code, const char *text) {
  CR_REQUIRE(text);
  return code == CREMA_OK ? CREMA_OK : cr_fail_text(code, text);
}

const char *crema_error_text(void) {
  compose(&current, composed);
  return composed;
}

const char *crema_error_layer(void) {
  return current.layer;
}

const char *crema_error_blob(void) {
  return current.blob;
}

const char *crema_error_file(void) {
  return current.file;
}

size_t crema_error_line(void) {
  return current.line;
}

void crema_free(void *memory) {
  free(memory);
}

const char *crema_status_name(crema_status status) {
  switch (status) {
#define CR_NAME(name, value, text) \
  case CREMA_##name: return #name;
    CREMA_STATUS_MAP(CR_NAME)
#undef CR_NAME
  }
  return "?";
}

const char *crema_status_message(crema_status status) {
  switch (status) {
#define CR_MESSAGE(name, value, text) \
  case CREMA_##name: return text;
    CREMA_STATUS_MAP(CR_MESSAGE)
#undef CR_MESSAGE
  }
  return "unknown status";
}
