#include "label_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"

static crema_status check_unique(const label_map *map) {
  const Caffe__LabelMap *m = map->message;
  for (size_t i = 0; i < m->n_item; ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (strcmp(m->item[i]->name, m->item[k]->name) == 0) {
        return cr_fail(CREMA_E_PARSE, "%s: the name \"%s\" appears twice", map->path,
                       m->item[i]->name);
      }
      if (m->item[i]->label == m->item[k]->label) {
        return cr_fail(CREMA_E_PARSE, "%s: the label %d appears twice", map->path,
                       m->item[i]->label);
      }
    }
  }
  return CREMA_OK;
}

static crema_status check_items(const label_map *map) {
  for (size_t i = 0; i < map->message->n_item; ++i) {
    const Caffe__LabelMapItem *item = map->message->item[i];
    if (item->name == NULL || !item->has_label) {
      return cr_fail(CREMA_E_PARSE, "%s: item %zu has no name or no label", map->path, i + 1);
    }
  }
  return CREMA_OK;
}

crema_status label_map_read(const char *path, bool unique, label_map *out) {
  ProtobufCMessage *message = NULL;
  *out = (label_map){.path = path};
  CR_TRY(cr_message_read_text(&caffe__label_map__descriptor, path, CR_UNKNOWN_ERROR, &message));
  out->message = (Caffe__LabelMap *)message;
  CR_TRY(check_items(out));
  return unique ? check_unique(out) : CREMA_OK;
}

void label_map_free(label_map *map) {
  if (map->message != NULL) cr_message_free(&map->message->base);
  map->message = NULL;
}

static crema_status fail_unknown(const label_map *map, const char *name) {
  const char **names = NULL;
  const size_t count = map->message->n_item;
  CR_TRY(CR_NEW(names, count + 1, "names"));
  for (size_t i = 0; i < count; ++i) names[i] = map->message->item[i]->name;
  const char *nearest = cr_did_you_mean(name, names, count);
  crema_status status = cr_fail(CREMA_E_UNKNOWN_NAME, "%s has no class \"%.60s\"%s%s%s", map->path,
                                name, nearest == NULL ? "" : "; did you mean \"",
                                nearest == NULL ? "" : nearest, nearest == NULL ? "" : "\"?");
  free((void *)names);
  return status;
}

crema_status label_map_find(const label_map *map, const char *name, int *label) {
  for (int shown = 0; shown < 2; ++shown) {
    for (size_t i = map->message->n_item; i-- > 0;) {
      const Caffe__LabelMapItem *item = map->message->item[i];
      const char *text = shown ? item->display_name : item->name;
      if (text == NULL || strcmp(text, name) != 0) continue;
      *label = item->label;
      return CREMA_OK;
    }
  }
  return fail_unknown(map, name);
}
