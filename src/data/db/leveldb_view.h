/* Views of LevelDB databases, which leave them unchanged.
 *
 * LevelDB has no read-only mode: opening a database replays its log into a new table, writes a new
 * manifest and takes an exclusive lock. A view is a temporary folder with symlinks to the
 * database's files, which LevelDB opens and writes to instead. Several readers can thus read a
 * database, also in a read-only folder. A shared lock keeps writers of other processes away while
 * the view exists. */
#ifndef CR_DATA_LEVELDB_VIEW_H
#define CR_DATA_LEVELDB_VIEW_H

#include "data/db/temporary_folder.h"

typedef struct cr_leveldb_view {
  cr_temporary_folder folder;
  int lock; /* descriptor that holds the shared lock; -1: none */
} cr_leveldb_view;

/* Checks that CURRENT and its manifest exist and makes the view of the tables that end in a sound
 * footer. Close it with cr_leveldb_view_close. Errors name the path: CREMA_E_NOT_FOUND,
 * CREMA_E_CORRUPT, CREMA_E_STATE (locked by a writer), CREMA_E_IO. */
crema_status cr_leveldb_view_open(const char *path, cr_leveldb_view *out) CREMA_MUST_USE;

/* Removes the temporary folder, whose database must be closed, and releases the lock. Accepts a
 * view that failed to open. */
void cr_leveldb_view_close(cr_leveldb_view *view);

/* The same checks, and that all tables are sound, before opening a database for writing. */
crema_status cr_leveldb_check(const char *path) CREMA_MUST_USE;

#endif
