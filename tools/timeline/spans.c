#include "spans.h"

#include <string.h>

#include "../json.h"
#include "core/c_locale.h"
#include "core/fail.h"
#include "core/file.h"

typedef struct span_reader {
  cr_arena *arena;
  span_list *list;
  cr_buffer text; /* scratchpad */
} span_reader;

/* An event of the file. */
typedef struct event {
  span_reader *reader;
  bool complete; /* it is a span */
  trace_span span;
  double duration;
} event;

static span_kind kind_of(const char *category) {
  static const struct {
    const char *category;
    span_kind kind;
  } kinds[] = {{"op", SPAN_COMPUTE},         {"kernel", SPAN_COMPUTE}, {"update", SPAN_COMPUTE},
               {"wait", SPAN_WAIT},          {"copy", SPAN_COPY},      {"convert", SPAN_CONVERT},
               {"exchange", SPAN_EXCHANGE},  {"data", SPAN_DATA},      {"layer", SPAN_LAYER},
               {"iteration", SPAN_ITERATION}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    if (strcmp(kinds[i].category, category) == 0) return kinds[i].kind;
  }
  return SPAN_OTHER;
}

static crema_status read_text(span_reader *r, json *j, const char **out) {
  char *copy;
  CR_TRY(json_text(j, &r->text));
  CR_TRY(cr_arena_text(r->arena, r->text.data, &copy));
  *out = copy;
  return CREMA_OK;
}

static crema_status visit_detail(void *user, json *j, const char *key) {
  event *e = user;
  if (strcmp(key, "layer") == 0) return read_text(e->reader, j, &e->span.layer);
  if (strcmp(key, "blob") == 0) return read_text(e->reader, j, &e->span.blob);
  if (strcmp(key, "bytes") == 0) return json_number(j, &e->span.bytes);
  return json_skip(j);
}

static crema_status visit_member(void *user, json *j, const char *key) {
  event *e = user;
  const char *text;
  if (strcmp(key, "ph") == 0) {
    CR_TRY(read_text(e->reader, j, &text));
    e->complete = strcmp(text, "X") == 0;
    return CREMA_OK;
  }
  if (strcmp(key, "cat") == 0) {
    CR_TRY(read_text(e->reader, j, &text));
    e->span.kind = kind_of(text);
    return CREMA_OK;
  }
  if (strcmp(key, "name") == 0) return read_text(e->reader, j, &e->span.name);
  if (strcmp(key, "ts") == 0) return json_number(j, &e->span.begin);
  if (strcmp(key, "dur") == 0) return json_number(j, &e->duration);
  if (strcmp(key, "args") == 0) return json_each(j, '{', visit_detail, e);
  return json_skip(j);
}

static crema_status add_span(span_reader *r, const trace_span *added) {
  span_list *list = r->list;
  if (list->count == list->room) {
    void *grown;
    const size_t room = list->room == 0 ? 1024 : 2 * list->room;
    CR_TRY(cr_arena_alloc(r->arena, room * sizeof *list->span, &grown));
    if (list->count > 0) memcpy(grown, list->span, list->count * sizeof *list->span);
    list->span = grown;
    list->room = room;
  }
  list->span[list->count++] = *added;
  return CREMA_OK;
}

/* Events are one per line, and the last line may be cut. */
static crema_status read_line(span_reader *r, json *j) {
  event e = {.reader = r, .span = {.kind = SPAN_OTHER, .name = "", .layer = "", .blob = ""}};
  crema_status status = json_each(j, '{', visit_member, &e);
  if (status == CREMA_E_PARSE) return CREMA_OK;
  e.span.end = e.span.begin + e.duration;
  return status == CREMA_OK && e.complete ? add_span(r, &e.span) : status;
}

static crema_status read_lines(span_reader *r, const char *path, cr_buffer *text) {
  char *end = text->data + text->size;
  size_t number = 1;
  for (char *line = text->data; line < end; ++number) {
    char *next = memchr(line, '\n', (size_t)(end - line));
    if (next == NULL) next = end;
    *next = '\0';
    json j = {.at = line, .end = next, .path = path, .line = number};
    if (line[0] == '{') CR_TRY(read_line(r, &j));
    line = next + 1;
  }
  if (r->list->count > 0) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s: no timeline of crema train -trace", path);
}

crema_status spans_read(const char *path, cr_arena *arena, span_list *out) {
  span_reader r = {.arena = arena, .list = out};
  cr_buffer text = {0};
  cr_c_locale locale;
  *out = (span_list){0};
  CR_TRY(cr_c_locale_begin(&locale));
  crema_status status = cr_file_read_up_to(path, CR_FILE_MODEL, &text);
  if (status == CREMA_OK && text.size > 0) status = read_lines(&r, path, &text);
  else if (status == CREMA_OK) status = cr_fail(CREMA_E_PARSE, "%s: the file is empty", path);
  cr_c_locale_end(&locale);
  cr_buffer_free(&r.text);
  cr_buffer_free(&text);
  return status;
}
