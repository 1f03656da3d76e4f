/* Folders in $TMPDIR or /tmp for files that are removed with the object that uses them. */
#ifndef CR_DATA_SCRATCH_FOLDER_H
#define CR_DATA_SCRATCH_FOLDER_H

#include "crema/status.h"

typedef struct cr_temporary_folder {
  char *path; /* NULL: none */
  int lock;   /* descriptor that tells other runs that it is in use; -1: none */
} cr_temporary_folder;

/* Makes an empty folder, after removing those that killed runs of the same user left behind.
 * Errors: CREMA_E_IO, CREMA_E_NO_MEMORY. */
crema_status cr_temporary_folder_make(cr_temporary_folder *out) CREMA_MUST_USE;

/* Removes it with the files in it, which nobody uses any more, and zeroes the struct. Accepts one
 * that was not made. */
void cr_temporary_folder_remove(cr_temporary_folder *folder);

#endif
