#include "infer/scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/c_locale.h"
#include "core/fail.h"
#include "core/file.h"

/* The numbers after the name. */
static crema_status read_values(char *text, const char *path, size_t number, cr_scales_line *line) {
  for (char *word = strtok_r(NULL, " \t\r", &text); word != NULL;
       word = strtok_r(NULL, " \t\r", &text)) {
    char *end = NULL;
    const float value = strtof(word, &end);
    if (*end != '\0' || !isfinite(value)) {
      return cr_fail(CREMA_E_PARSE, "%s, line %zu: '%.40s' is not a number", path, number, word);
    }
    float *grown = realloc(line->value, (line->count + 1) * sizeof *grown);
    if (grown == NULL) return cr_fail_memory((line->count + 1) * sizeof *grown, "a table");
    line->value = grown;
    line->value[line->count++] = value;
  }
  return CREMA_OK;
}

static crema_status read_line(char *text, const char *path, size_t number, cr_scales *out) {
  char *rest = NULL;
  const char *name = strtok_r(text, " \t\r", &rest);
  if (name == NULL || name[0] == '#') return CREMA_OK;
  cr_scales_line *grown = realloc(out->line, (out->count + 1) * sizeof *grown);
  if (grown == NULL) return cr_fail_memory((out->count + 1) * sizeof *grown, "a table");
  out->line = grown;
  cr_scales_line *line = &out->line[out->count++];
  *line = (cr_scales_line){.name = strdup(name)};
  if (line->name == NULL) return cr_fail_memory(strlen(name) + 1, "a table");
  return read_values(rest, path, number, line);
}

/* With the C locale. */
static crema_status read_lines(char *text, const char *path, cr_scales *out) {
  size_t number = 1;
  for (char *line = text; line != NULL && *line != '\0'; ++number) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    CR_TRY(read_line(line, path, number, out));
    line = next;
  }
  return CREMA_OK;
}

crema_status cr_scales_read(const char *path, cr_scales *out) {
  cr_buffer text = {0};
  cr_c_locale locale;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_file_read(path, &text), out);
  CR_TRY_GOTO(cr_buffer_make_text(&text, path), out);
  CR_TRY_GOTO(cr_c_locale_begin(&locale), out);
  status = read_lines(text.data, path, out);
  cr_c_locale_end(&locale);
out:
  cr_buffer_free(&text);
  return status;
}

void cr_scales_free(cr_scales *scales) {
  for (size_t i = 0; i < scales->count; ++i) {
    free(scales->line[i].name);
    free(scales->line[i].value);
  }
  free(scales->line);
  *scales = (cr_scales){0};
}

const cr_scales_line *cr_scales_find(const cr_scales *scales, const char *name,
                                     const char *suffix) {
  const size_t length = strlen(name);
  for (size_t i = 0; i < scales->count; ++i) {
    const cr_scales_line *line = &scales->line[i];
    if (strncmp(line->name, name, length) == 0 && strcmp(line->name + length, suffix) == 0) {
      return line;
    }
  }
  return NULL;
}
