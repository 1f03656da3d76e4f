/* LMDB's environments for reading, one per file.
 *
 * LMDB must not have one file open twice in a process: closing one environment drops the locks of
 * the other, and opening a third one then recreates the lock file while the other still uses it (a
 * reader that begins at this moment sees an empty database). So all who read a file share one
 * environment. A process that was forked makes its own. */
#ifndef CR_DATA_LMDB_ENV_H
#define CR_DATA_LMDB_ENV_H

#include <lmdb.h>
#include <stddef.h>

#include "crema/status.h"

/* The environment of the database at `path`, opened for reading with `flags` unless it is open
 * already. `data_path` is its data file. Returns 0 or LMDB's error code. Close with
 * cr_lmdb_env_release. */
int cr_lmdb_env_open(const char *path, const char *data_path, unsigned flags, MDB_env **out);

/* Ends one use; the last one closes the environment. */
void cr_lmdb_env_release(MDB_env *env);

/* LMDB reads the meta pages and the lock file through maps: if either file has become shorter, its
 * next call would end the process. CREMA_E_IO when that is so. Not for environments that were
 * opened elsewhere. */
crema_status cr_lmdb_env_check(MDB_env *env) CREMA_MUST_USE;

/* Ends a transaction for reading. Where the lock file was truncated, it is left as it is. */
void cr_lmdb_env_end_read(MDB_env *env, MDB_txn *txn);

#endif
