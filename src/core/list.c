#include "core/list.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

crema_status cr_list_add(cr_list *list, const char *item, size_t size) {
  char **grown = realloc((void *)list->item, (list->count + 1) * sizeof *grown);
  if (grown == NULL) return cr_fail_memory((list->count + 1) * sizeof *grown, "a list");
  list->item = grown;
  grown[list->count] = strndup(item, size);
  if (grown[list->count] == NULL) return cr_fail_memory(size + 1, "a list");
  list->count += 1;
  return CREMA_OK;
}

static bool is_blank(char c) {
  return c != '\0' && strchr(" \t\n\v\f\r", c) != NULL;
}

crema_status cr_list_split(const char *text, cr_list *out) {
  for (const char *at = text; *at != '\0';) {
    const char *end = at + strcspn(at, ","), *next = end + (*end == ',');
    while (at < end && is_blank(*at)) ++at;
    while (at < end && is_blank(end[-1])) --end;
    if (at < end) CR_TRY(cr_list_add(out, at, (size_t)(end - at)));
    at = next;
  }
  return CREMA_OK;
}

void cr_list_free(cr_list *list) {
  for (size_t i = 0; i < list->count; ++i) free(list->item[i]);
  free((void *)list->item);
  *list = (cr_list){0};
}
