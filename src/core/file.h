/* Whole files: reading within limits, and writing that survives a kill at any moment. */
#ifndef CR_CORE_FILE_H
#define CR_CORE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "core/buffer.h"

/* Reading: */

/* Default limits for files that are read whole (cr_file_limit): text, lists and images; models and
 * states; devices, which may never end. */
#define CR_FILE_USUAL (UINT64_C(1) << 30)
#define CR_FILE_MODEL (UINT64_C(1) << 36)
#define CR_FILE_DEVICE (UINT64_C(1) << 26)

/* The limit that CREMA_MAX_FILE sets (bytes, or a number followed by K, M, G or T), else `usual`.
 * Errors: CREMA_E_ARGUMENT when that is no size. */
crema_status cr_file_limit(uint64_t usual, uint64_t *out) CREMA_MUST_USE;

/* Fails with CREMA_E_RANGE because a file is above its limit. `more`: it has more than `bytes`
 * bytes. */
crema_status cr_file_fail_size(const char *path, uint64_t bytes, bool more, uint64_t limit);

/* Appends the whole file, of at most CR_FILE_USUAL bytes, to `out`. Waits for the data of a pipe or
 * a terminal, with a warning when that takes long. Errors name the path: CREMA_E_NOT_FOUND,
 * CREMA_E_RANGE for a file that is too large, CREMA_E_NO_MEMORY, CREMA_E_IO. */
crema_status cr_file_read(const char *path, cr_buffer *out) CREMA_MUST_USE;
/* The same with the limit `usual`. */
crema_status cr_file_read_up_to(const char *path, uint64_t usual, cr_buffer *out) CREMA_MUST_USE;

/* Writing: */

/* Writes `size` bytes as a draft (below) of the file at `path`. */
crema_status cr_file_write(const char *path, const void *bytes, size_t size) CREMA_MUST_USE;

/* A file that is being written. The new content goes to a temporary file in the same folder, which
 * is renamed to `path` once it is complete and on the disk. Until then, and after a failure, the
 * old file stays as it is. The new file gets its permissions. A link at `path` is followed. A
 * device or pipe is written in place.
 *
 * The temporary file is "<path>.tmp.<pid>.<six random letters>", with a shortened path if the name
 * were too long. An existing file of that name is neither followed nor overwritten. */
typedef struct cr_file_draft {
  const char *path;
  char *target, *temporary; /* NULL: in place */
  int fd;
  char *buffer;
  size_t used;
} cr_file_draft;

/* `path` must live until cr_file_draft_end. Removes drafts of it that killed processes have left.
 * Errors name the path: CREMA_E_IO, CREMA_E_NOT_FOUND, CREMA_E_NO_MEMORY. */
crema_status cr_file_draft_begin(const char *path, cr_file_draft *out) CREMA_MUST_USE;

/* Errors: CREMA_E_IO. */
crema_status cr_file_draft_write(cr_file_draft *draft, const void *bytes,
                                 size_t size) CREMA_MUST_USE;

/* Flushes to the disk, so that the file at `temporary` is complete. Errors: CREMA_E_IO. */
crema_status cr_file_draft_flush(cr_file_draft *draft) CREMA_MUST_USE;

/* Ends a draft that was begun: replaces the file when `content` is CREMA_OK, otherwise removes the
 * temporary file and passes `content` on. Errors: CREMA_E_IO, which leaves no file. */
crema_status cr_file_draft_end(cr_file_draft *draft, crema_status content) CREMA_MUST_USE;

/* Checks that a draft of `path` can be created, before long work that will write to `path`. An
 * existing file is not touched. Errors: as cr_file_draft_begin. */
crema_status cr_file_draft_check(const char *path) CREMA_MUST_USE;

/* A new file or folder that another library writes by name: next to `target`, named like a draft,
 * until it is complete. */
typedef struct cr_file_location {
  char *path; /* where to write */
  char *target;
  bool folder;
  int lock; /* on the folder; -1 */
} cr_file_location;

/* Makes an empty file or folder at out->path. Removes drafts of it that killed processes have left.
 * Errors name the target: CREMA_E_EXISTS if the path exists, CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_file_location_begin(const char *target, bool folder,
                                    cr_file_location *out) CREMA_MUST_USE;

/* When `content` is CREMA_OK, flushes it and renames it to the target; otherwise removes it and
 * passes `content` on. Errors: CREMA_E_EXISTS, CREMA_E_IO, which leave no file. */
crema_status cr_file_location_end(cr_file_location *location, crema_status content) CREMA_MUST_USE;

/* Removes drafts of dead processes: files and folders that are named as above and whose path begins
 * with `prefix`. */
void cr_file_sweep(const char *prefix);

/* Removes the files in an open folder, but not the folders in it. False when it cannot be read. */
bool cr_file_empty_folder(int folder);

/* Inspecting files and folders: */

/* Whether there is anything at `path`: a file, a folder, a device. */
bool cr_file_exists(const char *path);

/* Whether `folder` has a regular file of that name, which *info then describes. Allocates nothing,
 * so it cannot fail for lack of memory. */
bool cr_file_is_in(const char *folder, const char *name, struct stat *info);

/* Resolves `path` against the folder of `base_file` if it is relative and does not exist relative
 * to the working directory. The caller frees the result. */
crema_status cr_file_resolve(const char *base_file, const char *path, char **out) CREMA_MUST_USE;
/* As above, for an input file. If it is missing, a warning names the folder above `base_file` that
 * has it. */
crema_status cr_file_resolve_input(const char *base_file, const char *path,
                                   char **out) CREMA_MUST_USE;

#endif
