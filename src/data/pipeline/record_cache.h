/* The records of a database in memory: copies of keys and values, or of only the keys if values can
 * be read at offsets in the file (cr_db_has_offsets). */
#ifndef CR_DATA_RECORD_CACHE_H
#define CR_DATA_RECORD_CACHE_H

#include <stdbool.h>

#include "data/db/db.h"

typedef struct cr_record_cache cr_record_cache;

/* A record in the cache. */
typedef struct cr_cached_record {
  cr_db_bytes key, value; /* the value's data is NULL if it is in the file, at `offset` */
  uint64_t offset;
} cr_cached_record;

/* Makes an empty cache. `has_offsets`: values stay in the file. `limit`: bytes of the cache; 0: up
 * to the size of the remaining memory (core/mem_available.h). Free with cr_record_cache_destroy.
 * Errors: CREMA_E_NO_MEMORY. */
crema_status cr_record_cache_create(bool has_offsets, uint64_t limit,
                                    cr_record_cache **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_record_cache_destroy(cr_record_cache *cache);

/* Appends a record. Returns false and adds nothing if memory would run short. */
bool cr_record_cache_add(cr_record_cache *cache, cr_db_bytes key, cr_db_bytes value,
                         uint64_t offset);

/* Record `index` in the order of adding; it must exist. Valid until the cache is destroyed. */
cr_cached_record cr_record_cache_get(const cr_record_cache *cache, uint64_t index);

uint64_t cr_record_cache_count(const cr_record_cache *cache);
/* The size in bytes. */
uint64_t cr_record_cache_bytes(const cr_record_cache *cache);

#endif
