/* Whole files: reading, and writing that survives a kill at any moment. */
#ifndef CR_CORE_FILE_H
#define CR_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>

#include "core/buffer.h"

/* Appends the whole file (any size) to `out`. Errors name the path:
 * CREMA_E_NOT_FOUND when it is not there, CREMA_E_IO otherwise. */
crema_status cr_file_read(const char *path, cr_buffer *out) CREMA_MUST_USE;

/* Writes `size` bytes as a draft (below) of the file at `path`. */
crema_status cr_file_write(const char *path, const void *bytes, size_t size) CREMA_MUST_USE;

/* A file that is being written: the new content goes to "<path>.tmp.<pid>", which takes the name
 * of `path` when it is complete and on the disk; until then, and when anything fails, the old file
 * stays as it was. Its permissions go on. A link at `path` is followed. A device or pipe is written
 * to in place. */
typedef struct cr_file_draft {
  FILE *file; /* what to write to */
  const char *path;
  char *target, *temporary; /* NULL: in place */
} cr_file_draft;

/* `path` must live until the end. Errors name it: CREMA_E_IO, CREMA_E_NOT_FOUND. */
crema_status cr_file_draft_begin(const char *path, cr_file_draft *out) CREMA_MUST_USE;

/* Ends a draft that was begun: replaces the file when `content` is CREMA_OK, otherwise removes the
 * temporary file and passes `content` on. Errors: CREMA_E_IO; nothing is then left behind. */
crema_status cr_file_draft_end(cr_file_draft *draft, crema_status content) CREMA_MUST_USE;

/* Removes drafts that processes which no longer run have left: files whose path begins with
 * `prefix` and ends in ".tmp.<pid>". Never one that somebody still writes. */
void cr_file_sweep(const char *prefix);

/* Whether there is anything at `path`: a file, a folder, a device. */
bool cr_file_exists(const char *path);

/* Whether `folder` has a regular file of that name, which *info then describes. Needs no memory, so
 * that the answer does not depend on whether there is any. */
bool cr_file_is_in(const char *folder, const char *name, struct stat *info);

/* Resolves `path` against the directory of `base_file` when it is relative and
 * does not exist from the working directory. Result is to be freed. */
crema_status cr_file_resolve(const char *base_file, const char *path, char **out) CREMA_MUST_USE;
/* The same for a file that is to be read: a warning tells from which folder above that of
 * `base_file` it would be found, where it is not found otherwise. */
crema_status cr_file_resolve_input(const char *base_file, const char *path,
                                   char **out) CREMA_MUST_USE;

#endif
