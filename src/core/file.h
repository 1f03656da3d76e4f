/* Whole files: reading, and writing that survives a kill at any moment. */
#ifndef CR_CORE_FILE_H
#define CR_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "core/buffer.h"

/* Appends the whole file (any size) to `out`. Errors name the path:
 * CREMA_E_NOT_FOUND when it is not there, CREMA_E_IO otherwise. */
crema_status cr_file_read(const char *path, cr_buffer *out) CREMA_MUST_USE;

/* Writes `size` bytes to "<path>.tmp.<pid>", flushes it to the disk and renames it to
 * `path`; the old file stays whole when anything fails, and the temporary file
 * is removed. A device or pipe at `path` is written to in place. */
crema_status cr_file_write(const char *path, const void *bytes, size_t size) CREMA_MUST_USE;

/* For writers that need a path themselves (HDF5): the name to write to, to be freed
 * by the caller, then flush + rename, or removal when `ok` is false. */
crema_status cr_file_replace_begin(const char *path, char **temporary) CREMA_MUST_USE;
crema_status cr_file_replace_end(const char *path, const char *temporary, bool ok) CREMA_MUST_USE;

bool cr_file_exists(const char *path);

/* Resolves `path` against the directory of `base_file` when it is relative and
 * does not exist from the working directory. Result is to be freed. */
crema_status cr_file_resolve(const char *base_file, const char *path, char **out) CREMA_MUST_USE;

#endif
