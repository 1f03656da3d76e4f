#include "core/hdf5_content.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file_kind.h"

_Static_assert(CREMA_MAX_AXES == H5S_MAX_RANK, "axes of a data set");

crema_status cr_hdf5_content_open(const char *path, bool in_child, hid_t *out) {
  hid_t access = H5P_DEFAULT;
  *out = -1;
  if (in_child) {
    /* With the usual driver, HDF5 would identify this file with a file that the host has open. It
     * would then read through the host's descriptor, which the child has closed. */
    access = cr_h5()->Pcreate(cr_h5()->P_FILE_ACCESS);
    if (access < 0 || cr_h5()->Pset_fapl_stdio(access) < 0) {
      return cr_fail(CREMA_E_NO_MEMORY, "%s: cannot open", path);
    }
  }
  *out = cr_h5()->Fopen(path, cr_h5()->F_ACC_RDONLY, access);
  if (in_child) cr_h5()->Pclose(access);
  if (*out >= 0) return CREMA_OK;
  const char *kind = cr_file_kind_at(path);
  if (kind != NULL) {
    return cr_fail(CREMA_E_CORRUPT, "%s: the file looks like %s; expected an HDF5 file", path,
                   kind);
  }
  return cr_fail(CREMA_E_CORRUPT,
                 "%s: not an HDF5 file, or truncated or corrupt, or still being written", path);
}

static cr_hdf5_class class_of(hid_t type) {
  switch (cr_h5()->Tget_class(type)) {
    case H5T_INTEGER: return CR_HDF5_INTEGER;
    case H5T_FLOAT: return CR_HDF5_FLOAT;
    case H5T_STRING:
      return cr_h5()->Tis_variable_str(type) == 0 ? CR_HDF5_STRING : CR_HDF5_NO_NUMBER;
    default: return CR_HDF5_NO_NUMBER;
  }
}

static uint64_t file_size(hid_t object) {
  hsize_t size = 0;
  hid_t file = cr_h5()->Iget_file_id(object);
  if (file < 0) return 0;
  if (cr_h5()->Fget_filesize(file, &size) < 0) size = 0;
  cr_h5()->Fclose(file);
  return size;
}

/* The extents of a chunk. Returns their number; 0 for a data set without chunks. */
static int chunk_of(hid_t set, hsize_t dim[H5S_MAX_RANK]) {
  int axes = 0;
  hid_t how = cr_h5()->Dget_create_plist(set);
  if (how < 0) return 0;
  if (cr_h5()->Pget_layout(how) == H5D_CHUNKED) axes = cr_h5()->Pget_chunk(how, H5S_MAX_RANK, dim);
  cr_h5()->Pclose(how);
  return axes < 0 ? 0 : axes < H5S_MAX_RANK ? axes : H5S_MAX_RANK;
}

static void look_at_set(hid_t set, cr_hdf5_info *out) {
  hsize_t dim[H5S_MAX_RANK], chunk[H5S_MAX_RANK];
  hid_t type = cr_h5()->Dget_type(set), space = cr_h5()->Dget_space(set);
  hssize_t count = space < 0 ? -1 : cr_h5()->Sget_simple_extent_npoints(space);
  out->kind = CR_HDF5_SET;
  out->class = type < 0 ? CR_HDF5_NO_NUMBER : class_of(type);
  out->size = type < 0 ? 0 : cr_h5()->Tget_size(type);
  out->count = count < 0 ? 0 : (uint64_t)count;
  out->shape.axes = -1;
  if (count >= 0 && out->size > 0) {
    out->shape.axes = cr_h5()->Sget_simple_extent_dims(space, dim, NULL);
  }
  for (int i = 0; i < out->shape.axes; ++i) {
    out->shape.dim[i] = dim[i] > INT64_MAX ? INT64_MAX : (int64_t)dim[i];
  }
  int axes = chunk_of(set, chunk);
  out->unit = axes > 0;
  for (int i = 0; i < axes; ++i) out->unit = cr_hdf5_product(out->unit, chunk[i]);
  uint64_t whole = file_size(set);
  out->stored = cr_h5()->Dget_storage_size(set);
  if (out->stored > whole) out->stored = whole;
  if (space >= 0) cr_h5()->Sclose(space);
  if (type >= 0) cr_h5()->Tclose(type);
}

static bool look_at_group(hid_t group, cr_hdf5_info *out) {
  H5G_info_t info;
  /* A link takes at least one byte. */
  if (cr_h5()->Gget_info(group, &info) < 0 || info.nlinks > file_size(group)) return false;
  out->kind = CR_HDF5_GROUP;
  out->links = info.nlinks;
  return true;
}

crema_status cr_hdf5_content_look(hid_t file, const char *path, cr_hdf5_info *out) {
  *out = (cr_hdf5_info){0};
  /* Negative if a part of the path other than the last is missing. */
  if (cr_h5()->Lexists(file, path, H5P_DEFAULT) <= 0) return CREMA_OK;
  out->kind = CR_HDF5_OTHER;
  hid_t set = cr_h5()->Dopen2(file, path, H5P_DEFAULT);
  if (set >= 0) {
    look_at_set(set, out);
    cr_h5()->Dclose(set);
    return CREMA_OK;
  }
  hid_t group = cr_h5()->Gopen2(file, path, H5P_DEFAULT);
  if (group < 0) return CREMA_OK;
  if (!look_at_group(group, out)) out->kind = CR_HDF5_OTHER;
  cr_h5()->Gclose(group);
  return CREMA_OK;
}

typedef struct listing {
  cr_buffer *out;
  size_t links;
  crema_status status;
} listing;

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
  listing *list = user;
  if (++list->links > CR_HDF5_MOST_LINKS || list->out->size > CR_HDF5_MOST_NAMES) return 1;
  if (info->type != H5L_TYPE_HARD) return 0;
  hid_t inner = cr_h5()->Gopen2(group, name, H5P_DEFAULT);
  if (inner >= 0) cr_h5()->Gclose(inner);
  list->status = cr_buffer_print(list->out, "%c%s", inner >= 0 ? 'g' : 'd', name);
  if (list->status == CREMA_OK) list->status = cr_buffer_append(list->out, "", 1);
  return list->status == CREMA_OK ? 0 : 1;
}

crema_status cr_hdf5_content_list(hid_t file, const char *path, cr_buffer *out) {
  listing list = {.out = out};
  cr_h5()->Literate_by_name(file, path, H5_INDEX_NAME, H5_ITER_INC, NULL, visit_link, &list,
                            H5P_DEFAULT);
  return list.status;
}

/* A data set that is read by ranges of its first axis. */
typedef struct reading {
  hid_t set, space, type;
  hsize_t dim[H5S_MAX_RANK];
  int axes;
  uint64_t row, rows; /* bytes of a row in memory; rows that are read at a time */
} reading;

static const char unreadable[] =
    "its values cannot be read; they are damaged, or packed by a filter that is not installed "
    "(gzip is)";

static crema_status begin(reading *r, hid_t file, const char *path, cr_hdf5_type type,
                          uint64_t bytes) {
  enum { PIECE = 4 << 20 };
  hsize_t chunk[H5S_MAX_RANK] = {0}; /* stays for a set without chunks */
  r->set = cr_h5()->Dopen2(file, path, H5P_DEFAULT);
  if (r->set < 0) return cr_fail(CREMA_E_CORRUPT, "not a data set");
  r->space = cr_h5()->Dget_space(r->set);
  switch (type) {
    case CR_HDF5_F32: r->type = cr_h5()->Tcopy(cr_h5()->T_NATIVE_FLOAT); break;
    case CR_HDF5_F64: r->type = cr_h5()->Tcopy(cr_h5()->T_NATIVE_DOUBLE); break;
    case CR_HDF5_I32: r->type = cr_h5()->Tcopy(cr_h5()->T_NATIVE_INT); break;
    case CR_HDF5_U8: r->type = cr_h5()->Tcopy(cr_h5()->T_NATIVE_UINT8); break;
    default: r->type = cr_h5()->Dget_type(r->set);
  }
  hssize_t count = r->space < 0 ? -1 : cr_h5()->Sget_simple_extent_npoints(r->space);
  r->axes = count < 0 ? -1 : cr_h5()->Sget_simple_extent_dims(r->space, r->dim, NULL);
  size_t size = r->type < 0 ? 0 : cr_h5()->Tget_size(r->type);
  if (r->axes < 0 || size == 0 || cr_hdf5_product((uint64_t)count, size) != bytes) {
    return cr_fail(CREMA_E_CORRUPT, "its extents cannot be read");
  }
  r->rows = r->axes == 0 ? 1 : r->dim[0];
  r->row = r->rows == 0 ? 0 : bytes / r->rows;
  if (r->row == 0 || r->rows * r->row <= PIECE) return CREMA_OK;
  r->rows = r->row > PIECE ? 1 : PIECE / r->row;
  /* So that no chunk is unpacked twice. */
  (void)chunk_of(r->set, chunk);
  if (chunk[0] > 0 && chunk[0] <= r->dim[0]) {
    r->rows = (r->rows + chunk[0] - 1) / chunk[0] * chunk[0];
  }
  if (r->rows > r->dim[0]) r->rows = r->dim[0];
  return CREMA_OK;
}

/* Reads `rows` rows, starting with row `first`. */
static bool read_rows(reading *r, uint64_t first, uint64_t rows, void *out) {
  hsize_t start[H5S_MAX_RANK] = {first}, dim[H5S_MAX_RANK];
  if (r->axes == 0 || rows == r->dim[0]) {
    return cr_h5()->Dread(r->set, r->type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
  }
  memcpy(dim, r->dim, sizeof dim);
  dim[0] = rows;
  hid_t memory = cr_h5()->Screate_simple(r->axes, dim, NULL);
  if (memory < 0) return false;
  bool good = cr_h5()->Sselect_hyperslab(r->space, H5S_SELECT_SET, start, NULL, dim, NULL) >= 0 &&
              cr_h5()->Dread(r->set, r->type, memory, r->space, H5P_DEFAULT, out) >= 0;
  cr_h5()->Sclose(memory);
  return good;
}

static crema_status read_all(reading *r, cr_hdf5_take *take, void *user) {
  uint64_t all = r->axes == 0 ? 1 : r->dim[0];
  crema_status status = CREMA_OK;
  if (r->row == 0) return CREMA_OK;
  char *piece = malloc(r->rows * r->row);
  if (piece == NULL) return cr_fail_memory(r->rows * r->row, "a data set");
  for (uint64_t first = 0; status == CREMA_OK && first < all; first += r->rows) {
    uint64_t rows = all - first < r->rows ? all - first : r->rows;
    status = read_rows(r, first, rows, piece) ? take(user, piece, rows * r->row)
                                              : cr_fail(CREMA_E_CORRUPT, "%s", unreadable);
  }
  free(piece);
  return status;
}

crema_status cr_hdf5_content_read(hid_t file, const char *path, cr_hdf5_type type, uint64_t bytes,
                                  cr_hdf5_take *take, void *user) {
  reading r = {.set = -1, .space = -1, .type = -1};
  crema_status status = begin(&r, file, path, type, bytes);
  if (status == CREMA_OK) status = read_all(&r, take, user);
  if (r.type >= 0) cr_h5()->Tclose(r.type);
  if (r.space >= 0) cr_h5()->Sclose(r.space);
  if (r.set >= 0) cr_h5()->Dclose(r.set);
  return status;
}
