#include "core/list.h"

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

crema_status cr_list_split(const char *text, cr_list *out) {
  for (const char *at = text; *at != '\0';) {
    const size_t size = strcspn(at, ",");
    if (size > 0) CR_TRY(cr_list_add(out, at, size));
    at += size + (at[size] == ',');
  }
  return CREMA_OK;
}

void cr_list_free(cr_list *list) {
  for (size_t i = 0; i < list->count; ++i) free(list->item[i]);
  free((void *)list->item);
  *list = (cr_list){0};
}
