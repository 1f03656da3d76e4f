/* Writing HDF5 files; everything here requires that cr_hdf5_load has succeeded. A file is built in
 * memory and written in one go: the HDF5 library cannot recover from a full disk and crashes when
 * it is closed afterwards. */
#ifndef CR_CORE_HDF5_FILE_H
#define CR_CORE_HDF5_FILE_H

#include "core/file.h"
#include "core/hdf5_api.h"

/* All calls of the HDF5 library are made between a begin and its end, by one thread at a time: some
 * builds of it have no lock. Meanwhile the library prints no errors; this struct holds the previous
 * setting. */
typedef struct cr_hdf5_hush {
  H5E_auto2_t function;
  void *data;
} cr_hdf5_hush;

cr_hdf5_hush cr_hdf5_hush_begin(void);
void cr_hdf5_hush_end(cr_hdf5_hush before);

/* Makes an empty file in memory. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_hdf5_create(hid_t *out) CREMA_MUST_USE;

/* H5Dcreate2 without the time of day in the file, so that the
 * same values make the same bytes. Below 0: failed. */
hid_t cr_hdf5_dataset(hid_t where, const char *name, hid_t type, hid_t space, hid_t links);

/* Closes a file of cr_hdf5_create and, if `content` is CREMA_OK, writes it to `draft`; otherwise
 * passes `content` on. Errors: CREMA_E_IO, CREMA_E_NO_MEMORY, which name the draft's path. */
crema_status cr_hdf5_finish(hid_t file, cr_file_draft *draft, crema_status content) CREMA_MUST_USE;

#endif
