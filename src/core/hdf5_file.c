#include "core/hdf5_file.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

#include "core/fail.h"

enum { GROW_BYTES = 1 << 22 };

cr_hdf5_hush cr_hdf5_hush_begin(void) {
  cr_hdf5_hush before = {0};
  cr_h5()->Eget_auto2(H5E_DEFAULT, &before.function, &before.data);
  cr_h5()->Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return before;
}

void cr_hdf5_hush_end(cr_hdf5_hush before) {
  cr_h5()->Eset_auto2(H5E_DEFAULT, before.function, before.data);
}

crema_status cr_hdf5_open_read(const char *path, hid_t *out) {
  struct stat info;
  *out = -1;
  if (stat(path, &info) != 0) {
    if (errno == ENOENT) return cr_fail(CREMA_E_NOT_FOUND, "%s: no such file or directory", path);
    return cr_fail_errno(errno, "%s: cannot open", path);
  }
  if (!S_ISREG(info.st_mode)) {
    return cr_fail(CREMA_E_IO, "%s: a %s; HDF5 needs a regular file", path,
                   S_ISDIR(info.st_mode) ? "folder" : "pipe or device");
  }
  *out = cr_h5()->Fopen(path, cr_h5()->F_ACC_RDONLY, H5P_DEFAULT);
  if (*out >= 0) return CREMA_OK;
  return cr_fail(CREMA_E_CORRUPT, "%s: not an HDF5 file, or truncated or corrupt", path);
}

uint64_t cr_hdf5_file_size(hid_t object) {
  hsize_t size = 0;
  hid_t file = cr_h5()->Iget_file_id(object);
  if (file < 0) return 0;
  if (cr_h5()->Fget_filesize(file, &size) < 0) size = 0;
  cr_h5()->Fclose(file);
  return size;
}

static uint64_t multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

/* Elements of a chunk, which is unpacked as a whole; 0 without chunks. */
static uint64_t chunk_of(hid_t set) {
  hsize_t dim[H5S_MAX_RANK];
  uint64_t count = 0;
  hid_t how = cr_h5()->Dget_create_plist(set);
  if (how < 0) return 0;
  if (cr_h5()->Pget_layout(how) == H5D_CHUNKED) {
    int axes = cr_h5()->Pget_chunk(how, H5S_MAX_RANK, dim);
    count = 1;
    for (int i = 0; i < axes && i < H5S_MAX_RANK; ++i) count = multiply(count, dim[i]);
  }
  cr_h5()->Pclose(how);
  return count;
}

crema_status cr_hdf5_check_claim(hid_t set) {
  enum { MOST_PACKED = 1100 /* gzip cannot do more */, LITTLE = 64 << 20 };
  hid_t space = cr_h5()->Dget_space(set), type = cr_h5()->Dget_type(set);
  hssize_t values = space < 0 ? -1 : cr_h5()->Sget_simple_extent_npoints(space);
  size_t size = type < 0 ? 0 : cr_h5()->Tget_size(type);
  if (type >= 0) cr_h5()->Tclose(type);
  if (space >= 0) cr_h5()->Sclose(space);
  if (values < 0 || size == 0) return cr_fail(CREMA_E_CORRUPT, "its extents cannot be read");
  uint64_t count = chunk_of(set), limit = 0;
  if ((uint64_t)values > count) count = (uint64_t)values;
  /* In memory they may be wider than in the file. */
  uint64_t claimed = multiply(count, size > sizeof(float) ? size : sizeof(float));
  uint64_t stored = cr_h5()->Dget_storage_size(set), whole = cr_hdf5_file_size(set);
  if (stored > whole) stored = whole;
  uint64_t possible = multiply(stored, MOST_PACKED);
  if (possible < LITTLE) possible = LITTLE;
  CR_TRY(cr_file_limit(possible < CR_FILE_MODEL ? possible : CR_FILE_MODEL, &limit));
  if (claimed <= limit) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE,
                 "claims to hold %" PRIu64 " bytes, of which the file stores %" PRIu64
                 "; at most %" PRIu64
                 " are read of it (the environment's CREMA_MAX_FILE sets another limit)",
                 claimed, stored, limit);
}

crema_status cr_hdf5_create(hid_t *out) {
  hid_t access = cr_h5()->Pcreate(cr_h5()->P_FILE_ACCESS);
  *out = -1;
  /* The name means nothing to a file that stays in memory. */
  if (access >= 0 && cr_h5()->Pset_fapl_core(access, GROW_BYTES, 0) >= 0) {
    *out = cr_h5()->Fcreate("crema", cr_h5()->F_ACC_TRUNC, H5P_DEFAULT, access);
  }
  if (access >= 0) cr_h5()->Pclose(access);
  return *out >= 0 ? CREMA_OK : cr_fail(CREMA_E_NO_MEMORY, "cannot make an HDF5 file in memory");
}

hid_t cr_hdf5_dataset(hid_t where, const char *name, hid_t type, hid_t space, hid_t links) {
  hid_t how = cr_h5()->Pcreate(cr_h5()->P_DATASET_CREATE);
  if (how < 0) return how;
  hid_t set = -1;
  if (cr_h5()->Pset_obj_track_times(how, 0) >= 0) {
    set = cr_h5()->Dcreate2(where, name, type, space, links, how, H5P_DEFAULT);
  }
  cr_h5()->Pclose(how);
  return set;
}

crema_status cr_hdf5_finish(hid_t file, cr_file_draft *draft, crema_status content) {
  crema_status status = content;
  void *bytes = NULL;
  if (status == CREMA_OK) {
    ssize_t size = -1;
    if (cr_h5()->Fflush(file, H5F_SCOPE_GLOBAL) >= 0)
      size = cr_h5()->Fget_file_image(file, NULL, 0);
    if (size < 0 || cr_h5()->Fget_vfd_handle(file, H5P_DEFAULT, &bytes) < 0) {
      status = cr_fail(CREMA_E_NO_MEMORY, "%s: cannot build the HDF5 file", draft->path);
    } else {
      /* With the core driver the handle is the address of the pointer to the image. */
      status = cr_file_draft_write(draft, *(void **)bytes, (size_t)size);
    }
  }
  cr_h5()->Fclose(file);
  return status;
}
