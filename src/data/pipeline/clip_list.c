#include "data/pipeline/clip_list.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

/* Cuts the number off the end of an entry's name. */
static crema_status split(const cr_image_list *list, cr_list_entry *entry, int *number) {
  char *gap = entry->name + strlen(entry->name), *end = gap;
  while (gap > entry->name && strchr(" \t", gap[-1]) == NULL) --gap;
  errno = 0;
  const long value = gap > entry->name ? strtol(gap, &end, 10) : 0;
  if (gap == entry->name || *end != '\0' || errno != 0 || value < 0 || value > INT_MAX) {
    return cr_fail(
        CREMA_E_PARSE,
        "%s:%zu: expected a folder or video, a frame number and a label, found \"%s %d\"",
        list->path, entry->line, entry->name, entry->label);
  }
  *number = (int)value;
  while (gap > entry->name && strchr(" \t", gap[-1]) != NULL) --gap;
  *gap = '\0';
  return CREMA_OK;
}

static crema_status split_all(cr_clip_list *list) {
  CR_TRY(CR_NEW(list->number, list->lines.count, "the list"));
  for (size_t i = 0; i < list->lines.count; ++i) {
    CR_TRY(split(&list->lines, &list->lines.entry[i], &list->number[i]));
  }
  return CREMA_OK;
}

crema_status cr_clip_list_read(const char *path, cr_clip_list *out) {
  *out = (cr_clip_list){0};
  CR_TRY(cr_image_list_read(path, &out->lines));
  crema_status status = split_all(out);
  if (status != CREMA_OK) cr_clip_list_free(out);
  return status;
}

void cr_clip_list_free(cr_clip_list *list) {
  free(list->number);
  cr_image_list_free(&list->lines);
  *list = (cr_clip_list){0};
}

/* What follows a percent sign at `at`; *next: after it. */
static crema_status print_field(const char *at, char axis, int64_t number, const char **next,
                                cr_buffer *out) {
  int digits = 0;
  const bool zeros = *at == '0';
  const char *letter = at;
  while (*letter >= '0' && *letter <= '9' && digits < 100) digits = 10 * digits + (*letter++ - '0');
  *next = letter + 1;
  if (*letter == 'd' && zeros) return cr_buffer_print(out, "%0*" PRId64, digits, number);
  if (*letter == 'd') return cr_buffer_print(out, "%*" PRId64, digits, number);
  if (letter == at && *letter == 'c') return cr_buffer_print(out, "%c", axis);
  if (letter == at && *letter == '%') return cr_buffer_print(out, "%%");
  return cr_fail(CREMA_E_ARGUMENT, "after %%, name_pattern can have d, c or %%; found \"%%%s\"",
                 at);
}

crema_status cr_clip_frame_name(const char *pattern, char axis, int64_t number, cr_buffer *out) {
  while (*pattern != '\0') {
    const size_t plain = strcspn(pattern, "%");
    CR_TRY(cr_buffer_print(out, "%.*s", (int)plain, pattern));
    pattern += plain;
    if (*pattern == '%') CR_TRY(print_field(pattern + 1, axis, number, &pattern, out));
  }
  return CREMA_OK;
}
