/* LMDB's environments. All readers of a file in a process share one.
 *
 * LMDB must not have one file open twice in a process: closing one environment drops the locks of
 * the second. Opening a third recreates the lock file that the second uses, and a reader that
 * begins then sees an empty database. A forked process makes its own environments. */
#ifndef CR_DATA_LMDB_ENV_H
#define CR_DATA_LMDB_ENV_H

#include <lmdb.h>
#include <stddef.h>

#include "crema/status.h"

/* A new environment, which is not shared; map_size 0: LMDB's default. Returns 0 or LMDB's error
 * code. */
int cr_lmdb_env_new(const char *path, unsigned flags, size_t map_size, MDB_env **out);

/* The shared environment of the database at `path`, opened for reading with `flags` unless it is
 * open. `data_path` is its data file. Returns 0 or LMDB's error code. Release it with
 * cr_lmdb_env_release. */
int cr_lmdb_env_open(const char *path, const char *data_path, unsigned flags, MDB_env **out);

/* Ends one use; ending the last use closes the environment. */
void cr_lmdb_env_release(MDB_env *env);

/* CREMA_E_IO if the meta pages or the lock file were truncated: LMDB reads them through maps, and
 * its next call would end the process. Only for shared environments, as the next function. */
crema_status cr_lmdb_env_check(MDB_env *env) CREMA_MUST_USE;

/* Ends a transaction for reading, or abandons it if the lock file was truncated. */
void cr_lmdb_env_end_read(MDB_env *env, MDB_txn *txn);

#endif
