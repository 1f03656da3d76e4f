/* Looking at a LevelDB database without changing it.
 *
 * LevelDB has no read-only mode: opening a database replays its log into a new table, writes a new
 * manifest and takes an exclusive lock. A view is a temporary folder with links to the database's
 * files; LevelDB opens that folder and leaves its own files there. So a database in a read-only
 * folder can be read, by several readers at once. A shared lock on the database keeps writers of
 * other processes away as long as the view lives. */
#ifndef CR_DATA_LEVELDB_VIEW_H
#define CR_DATA_LEVELDB_VIEW_H

#include "data/db/temporary_folder.h"

typedef struct cr_leveldb_view {
  cr_temporary_folder folder;
  int lock; /* descriptor that holds the shared lock; -1: none */
} cr_leveldb_view;

/* Checks what can be checked from outside (CURRENT and the manifest that it names exist) and makes
 * the view of the tables that end in a sound footer. Close with cr_leveldb_view_close. Errors name
 * the path: CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_STATE (locked by a writer), CREMA_E_IO. */
crema_status cr_leveldb_view_open(const char *path, cr_leveldb_view *out) CREMA_MUST_USE;

/* Removes the temporary folder and releases the lock. The database in it must be closed. Accepts a
 * view that failed to open. */
void cr_leveldb_view_close(cr_leveldb_view *view);

/* For a database that exists and is about to be opened for writing: the same checks, and that all
 * tables are sound. */
crema_status cr_leveldb_check(const char *path) CREMA_MUST_USE;

#endif
