#define _GNU_SOURCE /* fallocate */

#include "data/pipeline/hdf5_set.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/hdf5_file.h"
#include "core/io.h"
#include "core/log.h"
#include "core/system.h"

static crema_status look_at(cr_hdf5_reader *file, const char *name, crema_shape *out) {
  cr_hdf5_info info;
  CR_TRY(cr_hdf5_look(file, name, &info));
  if (info.kind == CR_HDF5_NOTHING) {
    return cr_fail(CREMA_E_NOT_FOUND, "the file has no such data set");
  }
  if (info.kind != CR_HDF5_SET) return cr_fail(CREMA_E_CORRUPT, "not a data set");
  if (info.class != CR_HDF5_FLOAT && info.class != CR_HDF5_INTEGER) {
    return cr_fail(CREMA_E_TYPE, "its values are not numbers");
  }
  CR_TRY(cr_hdf5_shape(&info, out));
  if (out->axes < 1) {
    return cr_fail(CREMA_E_SHAPE, "it has no axes, the first of 1 to %d must count samples",
                   CREMA_MAX_AXES);
  }
  return cr_hdf5_check_claim(&info);
}

crema_status cr_hdf5_set_probe(cr_hdf5_reader *file, const char *name, crema_shape *out) {
  return cr_fail_in(look_at(file, name, out), "data set '%s'", name);
}

crema_status cr_hdf5_set_read(cr_hdf5_reader *file, const char *name, const crema_shape *shape,
                              crema_dtype type, void *out) {
  crema_shape found;
  char text[2][256];
  CR_TRY(cr_hdf5_set_probe(file, name, &found));
  if (!crema_shape_equal(&found, shape)) {
    return cr_fail(CREMA_E_SHAPE, "data set '%s': shape is %s, was %s before", name,
                   crema_shape_text(&found, text[0], sizeof text[0]),
                   crema_shape_text(shape, text[1], sizeof text[1]));
  }
  uint64_t bytes = (uint64_t)crema_shape_count(shape, 0, shape->axes) * crema_dtype_size(type);
  cr_hdf5_type as = type == CREMA_F64 ? CR_HDF5_F64 : CR_HDF5_F32;
  return cr_fail_in(cr_hdf5_read(file, name, as, out, bytes), "data set '%s'", name);
}

struct cr_hdf5_writer {
  char *path;
  bool is_new;
  cr_file_location location; /* of a new file */
  hid_t file;
  uint64_t pending; /* bytes that may not have reached the file yet */
};

/* The path that is written to until the file is complete. */
static const char *written_at(const cr_hdf5_writer *writer) {
  return writer->is_new ? writer->location.path : writer->path;
}

static crema_status open_writer(const char *path, bool is_new, cr_hdf5_writer **out) {
  *out = NULL;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", path));
  cr_hdf5_writer *writer = calloc(1, sizeof *writer);
  if (writer == NULL) return cr_fail_memory(sizeof *writer, "an HDF5 file");
  crema_status status = CREMA_OK;
  writer->file = -1;
  writer->path = strdup(path);
  if (writer->path == NULL) CR_TRY_GOTO(cr_fail_memory(strlen(path) + 1, "a path"), fail);
  if (is_new) CR_TRY_GOTO(cr_file_location_begin(path, false, &writer->location), fail);
  writer->is_new = is_new;
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  errno = 0;
  writer->file =
      cr_h5()->Fcreate(written_at(writer), cr_h5()->F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  int error = errno;
  cr_hdf5_hush_end(before);
  if (writer->file < 0) {
    error = error == 0 ? EIO : error;
    CR_TRY_GOTO(cr_fail_errno(error, "%s: cannot make the HDF5 file", path), fail);
  }
  *out = writer;
  return CREMA_OK;
fail:
  cr_hdf5_writer_close(writer);
  return status;
}

crema_status cr_hdf5_writer_open(const char *path, cr_hdf5_writer **out) {
  return open_writer(path, false, out);
}

crema_status cr_hdf5_writer_open_new(const char *path, cr_hdf5_writer **out) {
  return open_writer(path, true, out);
}

/* Whether the file may grow by that many bytes; sets errno. Allocates disk blocks now, without
 * changing the size. */
static bool may_grow(int fd, uint64_t bytes) {
  struct stat info;
  struct rlimit limit;
  if (fstat(fd, &info) != 0 || getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  if (limit.rlim_cur != RLIM_INFINITY && (uint64_t)info.st_size + bytes > limit.rlim_cur) {
    errno = EFBIG;
    return false;
  }
  int failed;
  do failed = fallocate(fd, FALLOC_FL_KEEP_SIZE, info.st_size, (off_t)bytes);
  while (failed != 0 && errno == EINTR);
  if (failed == 0) return true;
  return errno == EOPNOTSUPP || errno == ENOSYS;
}

crema_status cr_hdf5_writer_reserve(cr_hdf5_writer *writer, size_t bytes) {
  enum { MARGIN = 1 << 20 };
  crema_status status = CREMA_OK;
  int fd = cr_io_open(written_at(writer), O_WRONLY, 0);
  if (fd < 0) return cr_fail_errno(errno, "%s: cannot write", writer->path);
  if (!may_grow(fd, writer->pending + bytes + MARGIN)) {
    status = cr_fail_errno(errno, "%s: cannot write", writer->path);
  } else {
    writer->pending += bytes;
  }
  cr_io_close(fd);
  return status;
}

static hid_t native(crema_dtype type) {
  return type == CREMA_F64 ? cr_h5()->T_NATIVE_DOUBLE : cr_h5()->T_NATIVE_FLOAT;
}

static hid_t make_set(hid_t file, const char *name, const crema_shape *shape, crema_dtype type,
                      hsize_t *dim) {
  enum { CHUNK_BYTES = 1 << 20 };
  hsize_t most[CREMA_MAX_AXES], chunk[CREMA_MAX_AXES];
  size_t sample = (size_t)crema_shape_count(shape, 1, shape->axes) * crema_dtype_size(type);
  for (int i = 0; i < shape->axes; ++i) most[i] = chunk[i] = dim[i];
  most[0] = H5S_UNLIMITED;
  if (sample > 0 && chunk[0] > CHUNK_BYTES / sample) chunk[0] = CHUNK_BYTES / sample;
  if (chunk[0] < 1) chunk[0] = 1;
  dim[0] = 0;
  hid_t space = cr_h5()->Screate_simple(shape->axes, dim, most);
  hid_t how = cr_h5()->Pcreate(cr_h5()->P_DATASET_CREATE);
  hid_t links = cr_h5()->Pcreate(cr_h5()->P_LINK_CREATE);
  hid_t set = -1;
  /* A slash in the name makes a group. No time is stored, so that equal runs write equal files. */
  if (space >= 0 && how >= 0 && links >= 0 &&
      cr_h5()->Pset_create_intermediate_group(links, 1) >= 0 &&
      cr_h5()->Pset_obj_track_times(how, 0) >= 0 &&
      cr_h5()->Pset_chunk(how, shape->axes, chunk) >= 0) {
    set = cr_h5()->Dcreate2(file, name, native(type), space, links, how, H5P_DEFAULT);
  }
  if (links >= 0) cr_h5()->Pclose(links);
  if (how >= 0) cr_h5()->Pclose(how);
  if (space >= 0) cr_h5()->Sclose(space);
  return set;
}

/* Writes `dim` samples after the first `start[0]`. */
static bool write_rows(hid_t set, int axes, const hsize_t *start, const hsize_t *dim,
                       crema_dtype type, const void *values) {
  hsize_t total[CREMA_MAX_AXES];
  memcpy(total, dim, (size_t)axes * sizeof *dim);
  total[0] += start[0];
  if (cr_h5()->Dset_extent(set, total) < 0) return false;
  hid_t memory = cr_h5()->Screate_simple(axes, dim, NULL), space = cr_h5()->Dget_space(set);
  bool good = memory >= 0 && space >= 0 &&
              cr_h5()->Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, dim, NULL) >= 0 &&
              cr_h5()->Dwrite(set, native(type), memory, space, H5P_DEFAULT, values) >= 0;
  if (space >= 0) cr_h5()->Sclose(space);
  if (memory >= 0) cr_h5()->Sclose(memory);
  return good;
}

/* The shape of the data set. */
static bool written_shape(hid_t set, crema_shape *out) {
  hsize_t dim[H5S_MAX_RANK];
  hid_t space = cr_h5()->Dget_space(set);
  out->axes = space < 0 ? -1 : cr_h5()->Sget_simple_extent_dims(space, dim, NULL);
  for (int i = 0; i < out->axes; ++i) out->dim[i] = (int64_t)dim[i];
  if (space >= 0) cr_h5()->Sclose(space);
  return out->axes > 0;
}

static crema_status append_to(hid_t set, const crema_shape *shape, crema_dtype type,
                              const void *values) {
  crema_shape before = {0};
  char text[2][256];
  hsize_t start[CREMA_MAX_AXES] = {0}, dim[CREMA_MAX_AXES];
  if (!written_shape(set, &before)) return cr_fail(CREMA_E_IO, "cannot write");
  bool fits = before.axes == shape->axes;
  for (int i = 1; fits && i < shape->axes; ++i) fits = before.dim[i] == shape->dim[i];
  if (!fits) {
    return cr_fail(CREMA_E_SHAPE, "cannot add samples of shape %s to samples of shape %s",
                   crema_shape_text(shape, text[0], sizeof text[0]),
                   crema_shape_text(&before, text[1], sizeof text[1]));
  }
  for (int i = 0; i < shape->axes; ++i) dim[i] = (hsize_t)shape->dim[i];
  start[0] = (hsize_t)before.dim[0];
  if (write_rows(set, shape->axes, start, dim, type, values)) return CREMA_OK;
  return cr_fail(CREMA_E_IO, "cannot write");
}

crema_status cr_hdf5_writer_append(cr_hdf5_writer *writer, const char *name,
                                   const crema_shape *shape, crema_dtype type, const void *values) {
  hsize_t dim[CREMA_MAX_AXES];
  if (shape->axes < 1 || crema_shape_count(shape, 0, shape->axes) == 0) {
    return cr_fail(CREMA_E_SHAPE, "%s: data set '%s': nothing to write", writer->path, name);
  }
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  crema_status status = CREMA_OK;
  hid_t set = -1;
  if (cr_h5()->Lexists(writer->file, name, H5P_DEFAULT) > 0) {
    set = cr_h5()->Dopen2(writer->file, name, H5P_DEFAULT);
  } else {
    for (int i = 0; i < shape->axes; ++i) dim[i] = (hsize_t)shape->dim[i];
    set = make_set(writer->file, name, shape, type, dim);
  }
  status = set < 0 ? cr_fail(CREMA_E_IO, "cannot write") : append_to(set, shape, type, values);
  /* Closing may write the values, so it can fail. */
  if (set >= 0 && cr_h5()->Dclose(set) < 0 && status == CREMA_OK) {
    status = cr_fail(CREMA_E_IO, "cannot write");
  }
  cr_hdf5_hush_end(before);
  return cr_fail_in(status, "%s: data set '%s'", writer->path, name);
}

crema_status cr_hdf5_writer_flush(cr_hdf5_writer *writer) {
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  bool good = cr_h5()->Fflush(writer->file, H5F_SCOPE_GLOBAL) >= 0;
  cr_hdf5_hush_end(before);
  if (!good) return cr_fail(CREMA_E_IO, "%s: cannot write", writer->path);
  writer->pending = 0;
  return CREMA_OK;
}

crema_status cr_hdf5_writer_finish(cr_hdf5_writer *writer, crema_status content) {
  crema_status status = content;
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  bool closed = writer->file < 0 || cr_h5()->Fclose(writer->file) >= 0;
  cr_hdf5_hush_end(before);
  if (!closed && status == CREMA_OK) {
    status = cr_fail(CREMA_E_IO, "%s: cannot close the HDF5 file", writer->path);
  }
  if (writer->is_new) status = cr_file_location_end(&writer->location, status);
  free(writer->path);
  free(writer);
  return status;
}

void cr_hdf5_writer_close(cr_hdf5_writer *writer) {
  if (writer == NULL) return;
  crema_status content = writer->is_new ? CREMA_E_CLOSED : CREMA_OK;
  crema_status status = cr_hdf5_writer_finish(writer, content);
  if (status != content) cr_log_error("%s", crema_error_text());
}
