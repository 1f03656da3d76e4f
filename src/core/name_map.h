/* Names to numbers. */
#ifndef CR_CORE_NAME_MAP_H
#define CR_CORE_NAME_MAP_H

#include <stddef.h>

#include "crema/status.h"

/* A hash table with open addressing. Zero-initialise ({0}) to start. Keys are not copied: they
 * must outlive the map. */
typedef struct cr_name_map {
  struct cr_name_slot {
    const char *name; /* NULL: free */
    int value;
  } * slot;
  size_t capacity; /* 0 or a power of two, at least twice `size` */
  size_t size;
} cr_name_map;

/* Sets or replaces the number of `name`. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_name_map_set(cr_name_map *map, const char *name, int value) CREMA_MUST_USE;

/* The number of `name`; -1 when it has none. */
int cr_name_map_get(const cr_name_map *map, const char *name);

/* The name that `word` is probably a misspelling of; NULL when none is near. */
const char *cr_name_map_nearest(const cr_name_map *map, const char *word);

/* Frees the memory and zeroes the struct. */
void cr_name_map_free(cr_name_map *map);

#endif
