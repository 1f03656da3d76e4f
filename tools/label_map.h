/* Label maps: text files of the message LabelMap, which number the classes of a data set. */
#ifndef CREMA_TOOLS_LABEL_MAP_H
#define CREMA_TOOLS_LABEL_MAP_H

#include <stdbool.h>

#include "proto/proto.h"

typedef struct label_map {
  const char *path;
  Caffe__LabelMap *message; /* NULL: there is none */
} label_map;

/* `path` must live as long as *out; free with label_map_free. With `unique`, a name or a label that
 * appears twice is an error. Errors: as cr_message_read_text; CREMA_E_PARSE. */
crema_status label_map_read(const char *path, bool unique, label_map *out) CREMA_MUST_USE;
void label_map_free(label_map *map);

/* The label of a class by its name or its display_name; the last item of a name counts. Errors:
 * CREMA_E_UNKNOWN_NAME. */
crema_status label_map_find(const label_map *map, const char *name, int *label) CREMA_MUST_USE;

#endif
