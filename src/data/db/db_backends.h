/* The database back ends that db.c lists, one file each. */
#ifndef CR_DATA_DB_BACKENDS_H
#define CR_DATA_DB_BACKENDS_H

#include "data/db/db.h"

/* Lightning memory-mapped database: db_lmdb.c. */
extern const cr_db_backend cr_db_lmdb;
/* LevelDB: db_leveldb.c, leveldb_view.c. */
extern const cr_db_backend cr_db_leveldb;

#endif
