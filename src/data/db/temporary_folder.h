/* Temporary folders in $TMPDIR or /tmp, removed with the objects that use them. */
#ifndef CR_DATA_SCRATCH_FOLDER_H
#define CR_DATA_SCRATCH_FOLDER_H

#include "crema/status.h"

typedef struct cr_temporary_folder {
  char *path; /* NULL: none */
  int lock;   /* descriptor that marks the folder as used; -1: none */
} cr_temporary_folder;

/* Makes an empty folder, and removes folders that killed runs of the same user left. Errors:
 * CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_temporary_folder_make(cr_temporary_folder *out) CREMA_MUST_USE;

/* Removes the folder with its files, which must be unused, and zeroes the struct. Accepts a folder
 * that was not made. */
void cr_temporary_folder_remove(cr_temporary_folder *folder);

#endif
