/* Lists as text: names with commas between them. */
#ifndef CR_CORE_LIST_H
#define CR_CORE_LIST_H

#include <stddef.h>

#include "crema/status.h"

typedef struct cr_list {
  char **item;
  size_t count;
} cr_list;

/* Adds the entries of `text` that are not empty, without the blanks around them. Zero-initialise
 * it, and free it for any result. */
crema_status cr_list_split(const char *text, cr_list *out) CREMA_MUST_USE;
/* Adds a copy of `item`. */
crema_status cr_list_add(cr_list *list, const char *item, size_t size) CREMA_MUST_USE;
void cr_list_free(cr_list *list);

#endif
