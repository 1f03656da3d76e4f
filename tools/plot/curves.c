#include "curves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../json.h"
#include "core/c_locale.h"
#include "core/fail.h"
#include "core/file.h"

typedef struct curve_reader {
  cr_arena *arena;
  plot_run *run;
  double iteration; /* of the line that is read */
} curve_reader;

/* ---- curves ------------------------------------------------------------------ */

static crema_status grow(cr_arena *arena, void *list, size_t count, size_t *room, size_t width) {
  void *grown, *old = *(void **)list;
  if (count < *room) return CREMA_OK;
  const size_t larger = *room == 0 ? 64 : 2 * *room;
  CR_TRY(cr_arena_alloc(arena, larger * width, &grown));
  if (count > 0) memcpy(grown, old, count * width);
  *(void **)list = grown;
  *room = larger;
  return CREMA_OK;
}

static crema_status find_curve(curve_reader *r, const char *panel, const char *name,
                               plot_curve **out) {
  plot_run *run = r->run;
  void *curve;
  char *copy;
  for (size_t i = 0; i < run->curves; ++i) {
    *out = run->curve[i];
    if (strcmp((*out)->panel, panel) == 0 && strcmp((*out)->name, name) == 0) return CREMA_OK;
  }
  CR_TRY(grow(r->arena, &run->curve, run->curves, &run->room, sizeof *run->curve));
  CR_TRY(cr_arena_alloc(r->arena, sizeof **out, &curve));
  *out = run->curve[run->curves++] = curve;
  CR_TRY(cr_arena_text(r->arena, panel, &copy));
  (*out)->panel = copy;
  CR_TRY(cr_arena_text(r->arena, name, &copy));
  (*out)->name = copy;
  return CREMA_OK;
}

/* Values at and after the iteration belong to work that was lost before a resume. */
static void forget_from(plot_run *run, double iteration, bool inclusive) {
  for (size_t i = 0; i < run->curves; ++i) {
    plot_curve *curve = run->curve[i];
    while (curve->count > 0 && (curve->x[curve->count - 1] > iteration ||
                                (inclusive && curve->x[curve->count - 1] == iteration))) {
      --curve->count;
    }
  }
}

static crema_status add_value(curve_reader *r, const char *panel, const char *name, bool points,
                              double value) {
  plot_curve *curve;
  size_t room;
  CR_TRY(find_curve(r, panel, name, &curve));
  curve->points = points;
  if (curve->count > 0 && curve->x[curve->count - 1] == r->iteration) --curve->count;
  room = curve->room;
  CR_TRY(grow(r->arena, &curve->x, curve->count, &room, sizeof *curve->x));
  CR_TRY(grow(r->arena, &curve->y, curve->count, &curve->room, sizeof *curve->y));
  curve->x[curve->count] = r->iteration;
  curve->y[curve->count++] = value;
  return CREMA_OK;
}

/* Losses share a panel; any other output has its own. */
static crema_status add_output(curve_reader *r, const char *kind, const char *output,
                               double value) {
  char name[256];
  const bool loss = strstr(output, "loss") != NULL;
  const bool test = strncmp(kind, "test", 4) == 0;
  if (loss && !test) return CREMA_OK; /* the mean loss is drawn */
  snprintf(name, sizeof name, loss && strcmp(output, "loss") != 0 ? "%s %s" : "%s", kind, output);
  return add_value(r, loss ? "loss" : output, name, test, value);
}

/* ---- records ------------------------------------------------------------------- */

/* A line of metrics.jsonl. The event precedes all other members. */
typedef struct record_line {
  curve_reader *reader;
  char event[16];
  char kind[32]; /* of its outputs: "train", "test", "test 1" */
} record_line;

/* A number; NaN for null. */
static crema_status read_number(json *j, double *out) {
  *out = NAN;
  return json_peek(j) == 'n' ? json_skip(j) : json_number(j, out);
}

/* Of several values of an output, the first is drawn. */
typedef struct first_value {
  double value;
  bool has;
} first_value;

static crema_status visit_element(void *user, json *j, const char *key) {
  first_value *first = user;
  double value;
  (void)key;
  CR_TRY(read_number(j, &value));
  if (!first->has) *first = (first_value){value, true};
  return CREMA_OK;
}

static crema_status visit_output(void *user, json *j, const char *key) {
  record_line *line = user;
  char name[200];
  first_value first = {NAN, false};
  snprintf(name, sizeof name, "%s", key);
  if (json_peek(j) == '[') CR_TRY(json_each(j, '[', visit_element, &first));
  else CR_TRY(read_number(j, &first.value));
  return add_output(line->reader, line->kind, name, first.value);
}

static crema_status read_event(record_line *line, json *j) {
  cr_buffer text = {0};
  crema_status status = json_text(j, &text);
  if (status == CREMA_OK) {
    snprintf(line->event, sizeof line->event, "%s", text.data);
    snprintf(line->kind, sizeof line->kind, "%s", text.data);
  }
  cr_buffer_free(&text);
  return status;
}

static crema_status visit_member(void *user, json *j, const char *key) {
  record_line *line = user;
  curve_reader *r = line->reader;
  double value;
  if (strcmp(key, "event") == 0) return read_event(line, j);
  if (strcmp(key, "outputs") == 0) return json_each(j, '{', visit_output, line);
  const bool number = strchr("-0123456789n", json_peek(j)) != NULL;
  if (!number) return json_skip(j);
  CR_TRY(read_number(j, &value));
  if (strcmp(key, "iteration") == 0) {
    r->iteration = value;
    if (strcmp(line->event, "start") == 0) forget_from(r->run, value, false);
  } else if (strcmp(key, "net") == 0 && value > 0) {
    snprintf(line->kind, sizeof line->kind, "test %d", (int)value);
  } else if (strcmp(key, "loss") == 0) {
    return add_value(r, "loss", "train", false, value);
  } else if (strcmp(key, "rate") == 0) {
    return add_value(r, "learning rate", "", false, value);
  } else if (strcmp(key, "samples_per_second") == 0 && value > 0) {
    return add_value(r, "samples per second", "", false, value);
  }
  return CREMA_OK;
}

/* The last line may be unfinished. */
static crema_status read_record(curve_reader *r, const char *path, char *text, size_t size) {
  char *end = text + size;
  size_t number = 1;
  for (char *line = text; line < end; ++number) {
    char *next = memchr(line, '\n', (size_t)(end - line));
    if (next == NULL) return CREMA_OK;
    *next = '\0';
    record_line fields = {.reader = r};
    json j = {.at = line, .end = next, .path = path, .line = number};
    crema_status status = json_each(&j, '{', visit_member, &fields);
    if (status != CREMA_OK && status != CREMA_E_PARSE) return status;
    line = next + 1;
  }
  return CREMA_OK;
}

/* ---- logs ------------------------------------------------------------------------- */

/* The number after `key` in a line; false if there is none. */
static bool number_after(const char *line, const char *key, double *out) {
  const char *at = strstr(line, key);
  char *end;
  if (at == NULL) return false;
  *out = strtod(at + strlen(key), &end);
  return end != at + strlen(key);
}

/* "    Test net output #0: accuracy = 0.9"; `kind` is "train", "test" or "test 1". */
static crema_status read_output(curve_reader *r, const char *line, const char *kind) {
  char name[200];
  double value;
  const char *colon = strstr(line, ": "), *equal = colon == NULL ? NULL : strstr(colon, " = ");
  if (equal == NULL || !number_after(equal, " = ", &value)) return CREMA_OK;
  snprintf(name, sizeof name, "%.*s", (int)(equal - colon - 2), colon + 2);
  return add_output(r, kind, name, value);
}

static crema_status read_log_line(curve_reader *r, const char *line, char kind[32]) {
  double value, speed;
  const char *output = strstr(line, "net output #");
  if (output != NULL) {
    const bool test = strstr(line, "Test net output") != NULL;
    return read_output(r, output, test ? kind : "train");
  }
  const char *iteration = strstr(line, "Iteration ");
  if (iteration == NULL || !number_after(iteration, "Iteration ", &value)) return CREMA_OK;
  if (value < r->iteration) forget_from(r->run, value, true);
  r->iteration = value;
  if (number_after(iteration, "Testing net (#", &value)) {
    if (value > 0) snprintf(kind, 32, "test %d", (int)value);
    else snprintf(kind, 32, "test");
  } else if (number_after(iteration, ", loss = ", &value)) {
    CR_TRY(add_value(r, "loss", "train", false, value));
    if (!number_after(iteration, " (", &speed) || strstr(iteration, "iter/s") == NULL) {
      return CREMA_OK;
    }
    if (speed > 0) return add_value(r, "iterations per second", "", false, speed);
  } else if (number_after(iteration, ", lr = ", &value)) {
    return add_value(r, "learning rate", "", false, value);
  }
  return CREMA_OK;
}

static crema_status read_log(curve_reader *r, char *text, size_t size) {
  char *end = text + size, kind[32] = "test";
  for (char *line = text; line < end;) {
    char *next = memchr(line, '\n', (size_t)(end - line));
    if (next == NULL) next = end;
    *next = '\0';
    CR_TRY(read_log_line(r, line, kind));
    line = next + 1;
  }
  return CREMA_OK;
}

/* ---- runs --------------------------------------------------------------------------- */

static crema_status read_text(curve_reader *r, const char *path, cr_buffer *text) {
  CR_TRY(cr_file_read(path, text));
  if (text->size == 0) return CREMA_OK;
  if (text->data[0] == '{') return read_record(r, path, text->data, text->size);
  return read_log(r, text->data, text->size);
}

static crema_status read_run(curve_reader *r, const char *path, cr_buffer *text, cr_buffer *file) {
  struct stat info;
  const bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  CR_TRY(cr_buffer_print(file, folder ? "%s/metrics.jsonl" : "%s", path));
  CR_TRY(read_text(r, file->data, text));
  if (r->run->curves > 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s: neither a record of crema train nor a log of a training",
                 file->data);
}

crema_status plot_run_read(const char *path, cr_arena *arena, plot_run *out) {
  curve_reader r = {.arena = arena, .run = out};
  cr_buffer text = {0}, file = {0};
  cr_c_locale locale;
  *out = (plot_run){.name = path};
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = read_run(&r, path, &text, &file);
  cr_c_locale_end(&locale);
  cr_buffer_free(&text);
  cr_buffer_free(&file);
  return status;
}
