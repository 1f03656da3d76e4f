#include "core/name_map.h"

#include <stdlib.h>
#include <string.h>

#include "core/did_you_mean.h"
#include "core/fail.h"
#include "core/rng.h"

/* The slot of `name`, or the free slot for it. */
static struct cr_name_slot *find(const cr_name_map *map, const char *name) {
  size_t mask = map->capacity - 1;
  size_t at = (size_t)cr_hash_text(name) & mask;
  while (map->slot[at].name != NULL && strcmp(map->slot[at].name, name) != 0) at = (at + 1) & mask;
  return &map->slot[at];
}

static crema_status grow(cr_name_map *map) {
  cr_name_map larger = {.capacity = map->capacity == 0 ? 32 : map->capacity * 2, .size = map->size};
  CR_TRY(CR_NEW(larger.slot, larger.capacity, "a table of names"));
  for (size_t i = 0; i < map->capacity; ++i) {
    if (map->slot[i].name != NULL) *find(&larger, map->slot[i].name) = map->slot[i];
  }
  free(map->slot);
  *map = larger;
  return CREMA_OK;
}

crema_status cr_name_map_set(cr_name_map *map, const char *name, int value) {
  if (map->size * 2 >= map->capacity) CR_TRY(grow(map));
  struct cr_name_slot *slot = find(map, name);
  if (slot->name == NULL) {
    slot->name = name;
    map->size += 1;
  }
  slot->value = value;
  return CREMA_OK;
}

int cr_name_map_get(const cr_name_map *map, const char *name) {
  if (map->capacity == 0) return -1;
  const struct cr_name_slot *slot = find(map, name);
  return slot->name == NULL ? -1 : slot->value;
}

const char *cr_name_map_nearest(const cr_name_map *map, const char *word) {
  const char **names = calloc(map->size == 0 ? 1 : map->size, sizeof *names);
  if (names == NULL) return NULL;
  size_t count = 0;
  for (size_t i = 0; i < map->capacity; ++i) {
    if (map->slot[i].name != NULL) names[count++] = map->slot[i].name;
  }
  const char *nearest = cr_did_you_mean(word, names, count);
  free((void *)names);
  return nearest;
}

void cr_name_map_free(cr_name_map *map) {
  free(map->slot);
  memset(map, 0, sizeof *map);
}
