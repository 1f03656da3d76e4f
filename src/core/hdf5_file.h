/* HDF5 files as a whole; all of this after cr_hdf5_load has succeeded. A file to be written is
 * built in memory and written in one go: the HDF5 library cannot recover from a disk that is full,
 * and crashes when it is closed then. */
#ifndef CR_CORE_HDF5_FILE_H
#define CR_CORE_HDF5_FILE_H

#include "core/file.h"
#include "core/hdf5_api.h"

/* The HDF5 library prints its errors unless told otherwise; this holds what it was told before. */
typedef struct cr_hdf5_hush {
  H5E_auto2_t function;
  void *data;
} cr_hdf5_hush;

cr_hdf5_hush cr_hdf5_hush_begin(void);
void cr_hdf5_hush_end(cr_hdf5_hush before);

/* Opens a file for reading; close with Fclose. Errors name the path: CREMA_E_NOT_FOUND,
 * CREMA_E_CORRUPT, CREMA_E_IO (a folder, a pipe). */
crema_status cr_hdf5_open_read(const char *path, hid_t *out) CREMA_MUST_USE;

/* Whether what the data set claims to hold can be: a few bytes of file may announce any amount of
 * memory. To be asked before memory is taken for its values. Allowed are 64 MiB, or what the bytes
 * that the file stores of it can be unpacked to, or what CREMA_MAX_FILE says (cr_file_limit).
 * Errors: CREMA_E_RANGE. */
crema_status cr_hdf5_check_claim(hid_t set) CREMA_MUST_USE;

/* Bytes of the file that an open object belongs to. */
uint64_t cr_hdf5_file_size(hid_t object);

/* Makes an empty file in memory. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_hdf5_create(hid_t *out) CREMA_MUST_USE;

/* H5Dcreate2 without the time of day in the file, so that the
 * same values make the same bytes. Below 0: failed. */
hid_t cr_hdf5_dataset(hid_t where, const char *name, hid_t type, hid_t space, hid_t links);

/* Closes a file of cr_hdf5_create and, if `content` is CREMA_OK, writes it to `draft`; otherwise
 * passes `content` on. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY, which name the draft's path. */
crema_status cr_hdf5_finish(hid_t file, cr_file_draft *draft, crema_status content) CREMA_MUST_USE;

#endif
