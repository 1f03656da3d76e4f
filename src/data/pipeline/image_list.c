#include "data/pipeline/image_list.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"

static crema_status parse_line(cr_image_list *list, char *line, size_t number) {
  size_t length = strlen(line);
  while (length > 0 && strchr(" \t\r", line[length - 1]) != NULL) line[--length] = '\0';
  if (length == 0) return CREMA_OK;
  char *gap = line + length;
  while (gap > line && *gap != ' ' && *gap != '\t') --gap;
  /* Several blanks may separate the columns. */
  char *name_end = gap;
  while (name_end > line && (name_end[-1] == ' ' || name_end[-1] == '\t')) --name_end;
  char *end = gap;
  errno = 0;
  long label = name_end == line ? 0 : strtol(gap + 1, &end, 10);
  if (name_end == line || *end != '\0' || errno != 0 || label < INT_MIN || label > INT_MAX) {
    return cr_fail(CREMA_E_PARSE, "%s:%zu: expected a file name and an integer label, found \"%s\"",
                   list->path, number, line);
  }
  *name_end = '\0';
  list->entry[list->count++] = (cr_list_entry){line, (int)label, number};
  return CREMA_OK;
}

static crema_status read_lines(cr_image_list *list) {
  CR_TRY(cr_file_read(list->path, &list->text));
  CR_TRY(cr_buffer_make_text(&list->text, list->path));
  size_t lines = 1;
  for (size_t i = 0; i < list->text.size; ++i) lines += list->text.data[i] == '\n';
  CR_TRY(CR_NEW(list->entry, lines, "the list"));
  char *line = list->text.data;
  for (size_t number = 1; line != NULL; ++number) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    CR_TRY(parse_line(list, line, number));
    line = next;
  }
  if (list->count == 0) return cr_fail(CREMA_E_PARSE, "%s: the list is empty", list->path);
  return CREMA_OK;
}

crema_status cr_image_list_read(const char *path, cr_image_list *out) {
  *out = (cr_image_list){.path = strdup(path)};
  if (out->path == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  crema_status status = read_lines(out);
  if (status != CREMA_OK) cr_image_list_free(out);
  return status;
}

void cr_image_list_free(cr_image_list *list) {
  free(list->entry);
  cr_buffer_free(&list->text);
  free(list->path);
  *list = (cr_image_list){0};
}
