/* Data sets of HDF5 files: named arrays of numbers whose first axis counts samples. */
#ifndef CR_DATA_HDF5_SET_H
#define CR_DATA_HDF5_SET_H

#include "core/hdf5_reader.h"

/* Shape of data set `name`; at least one axis. Errors name the data set, not the file:
 * CREMA_E_NOT_FOUND, CREMA_E_CORRUPT, CREMA_E_TYPE (not numbers), CREMA_E_SHAPE, CREMA_E_RANGE
 * (cr_hdf5_check_claim). */
crema_status cr_hdf5_set_probe(cr_hdf5_reader *file, const char *name,
                               crema_shape *out) CREMA_MUST_USE;

/* Reads a complete data set, which must have `shape`, as values of `type`, CREMA_F32 or CREMA_F64.
 * Errors: as above. */
crema_status cr_hdf5_set_read(cr_hdf5_reader *file, const char *name, const crema_shape *shape,
                              crema_dtype type, void *out) CREMA_MUST_USE;

/* A file to which each pass adds samples. */
typedef struct cr_hdf5_writer cr_hdf5_writer;

/* Makes or replaces the file and keeps it open. Close it with cr_hdf5_writer_close. */
crema_status cr_hdf5_writer_open(const char *path, cr_hdf5_writer **out) CREMA_MUST_USE;

/* The same for a file that must not exist and appears, complete, with cr_hdf5_writer_finish.
 * Errors: CREMA_E_EXISTS, CREMA_E_IO. */
crema_status cr_hdf5_writer_open_new(const char *path, cr_hdf5_writer **out) CREMA_MUST_USE;

/* Reserves disk space for `bytes` bytes of further values: the HDF5 library does not survive a full
 * disk. Errors: CREMA_E_IO. */
crema_status cr_hdf5_writer_reserve(cr_hdf5_writer *writer, size_t bytes) CREMA_MUST_USE;

/* Adds the samples of `values`, for which space was reserved, to the data set `name`. The first
 * call for a name makes the set, of `type`, CREMA_F32 or CREMA_F64; later calls must agree in all
 * axes but the first. Errors: CREMA_E_SHAPE, CREMA_E_IO. */
crema_status cr_hdf5_writer_append(cr_hdf5_writer *writer, const char *name,
                                   const crema_shape *shape, crema_dtype type,
                                   const void *values) CREMA_MUST_USE;

/* Flushes the written values to the file. */
crema_status cr_hdf5_writer_flush(cr_hdf5_writer *writer) CREMA_MUST_USE;

/* Closes a new file. If `content` is CREMA_OK it takes its name, otherwise it is removed and
 * `content` returned. Errors: CREMA_E_EXISTS, CREMA_E_IO. */
crema_status cr_hdf5_writer_finish(cr_hdf5_writer *writer, crema_status content) CREMA_MUST_USE;

/* Accepts NULL. A new file is removed. */
void cr_hdf5_writer_close(cr_hdf5_writer *writer);

#endif
