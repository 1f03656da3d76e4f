/* The records of a database in memory: copies of keys and values; of a database that can read a
 * value at its offset in the file (cr_db_has_offsets), copies of the keys only. */
#ifndef CR_DATA_RECORD_CACHE_H
#define CR_DATA_RECORD_CACHE_H

#include <stdbool.h>

#include "data/db/db.h"

typedef struct cr_record_cache cr_record_cache;

/* A record in the cache. */
typedef struct cr_cached_record {
  cr_db_bytes key, value; /* the value's data is NULL when it is in the file, at `offset` */
  uint64_t offset;
} cr_cached_record;

/* Makes an empty cache. `has_offsets`: values stay in the file, at their offsets. `limit`: bytes
 * that the cache may take; 0: as long as it is not larger than what the machine has left
 * (core/mem_available.h). Free with cr_record_cache_destroy. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_record_cache_create(bool has_offsets, uint64_t limit,
                                    cr_record_cache **out) CREMA_MUST_USE;
/* Accepts NULL. */
void cr_record_cache_destroy(cr_record_cache *cache);

/* Appends a record. False, and nothing is added, when memory would run short. */
bool cr_record_cache_add(cr_record_cache *cache, cr_db_bytes key, cr_db_bytes value,
                         uint64_t offset);

/* Record `index`, counted from 0 in the order of adding; it must exist. Valid until the cache is
 * destroyed. */
cr_cached_record cr_record_cache_get(const cr_record_cache *cache, uint64_t index);

uint64_t cr_record_cache_count(const cr_record_cache *cache);
/* Bytes that the cache takes. */
uint64_t cr_record_cache_bytes(const cr_record_cache *cache);

#endif
