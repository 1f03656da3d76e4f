/* The content of an open HDF5 file: the library's calls under core/hdf5_reader.h, made in the
 * process that has the file open. */
#ifndef CR_CORE_HDF5_CONTENT_H
#define CR_CORE_HDF5_CONTENT_H

#include "core/buffer.h"
#include "core/hdf5_api.h"
#include "core/hdf5_reader.h"

/* The product of numbers from a file; the largest value of the type if it overflows. */
static inline uint64_t cr_hdf5_product(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

/* Takes the next `size` bytes of a data set. */
typedef crema_status cr_hdf5_take(void *user, const void *bytes, size_t size);

/* Opens a file for reading; close with Fclose. Errors: CREMA_E_CORRUPT. */
crema_status cr_hdf5_content_open(const char *path, bool in_child, hid_t *out) CREMA_MUST_USE;

crema_status cr_hdf5_content_look(hid_t file, const char *path, cr_hdf5_info *out) CREMA_MUST_USE;

/* Appends "g<name>\0" for each group in a group and "d<name>\0" for each other object. */
crema_status cr_hdf5_content_list(hid_t file, const char *path, cr_buffer *out) CREMA_MUST_USE;

/* Passes on the values of a data set, `bytes` bytes in total, piece by piece. Only one piece is in
 * memory at a time. */
crema_status cr_hdf5_content_read(hid_t file, const char *path, cr_hdf5_type type, uint64_t bytes,
                                  cr_hdf5_take *take, void *user) CREMA_MUST_USE;

#endif
