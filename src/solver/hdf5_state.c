/* Solver state as an HDF5 file, in Caffe's layout:
 *   /iter, /current_step   int, one value each
 *   /iter_last_event, /minimum_loss   int and float, of the plateau policy alone
 *   /learned_net           string: name of the model file
 *   /history/<i>           float, one data set a history blob
 * and one that Caffe does not look for:
 *   /crema_state           bytes: a CremaState message in wire format */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/hdf5_file.h"
#include "solver/solver.h"

enum { NAME_LIMIT = 1 << 20 }; /* bytes of a file name that we are willing to read */

/* ---- writing ------------------------------------------------------------- */

/* axes 0: a scalar. */
static bool write_dataset(hid_t where, const char *name, hid_t file_type, hid_t memory_type,
                          int axes, const hsize_t *dim, const void *values) {
  hid_t space = axes == 0 ? cr_h5()->Screate(H5S_SCALAR) : cr_h5()->Screate_simple(axes, dim, NULL);
  hid_t set = cr_hdf5_dataset(where, name, file_type, space, H5P_DEFAULT);
  bool good = space >= 0 && set >= 0 &&
              cr_h5()->Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  if (set >= 0) good = cr_h5()->Dclose(set) >= 0 && good;
  if (space >= 0) cr_h5()->Sclose(space);
  return good;
}

static bool write_int(hid_t file, const char *name, int value) {
  const hsize_t one = 1;
  return write_dataset(file, name, cr_h5()->T_STD_I32LE, cr_h5()->T_NATIVE_INT, 1, &one, &value);
}

static bool write_plateau(hid_t file, const Caffe__SolverState *state) {
  const hsize_t one = 1;
  if (!state->has_minimum_loss) return true;
  return write_int(file, "iter_last_event", state->iter_last_event) &&
         write_dataset(file, "minimum_loss", cr_h5()->T_IEEE_F32LE, cr_h5()->T_NATIVE_FLOAT, 1,
                       &one, &state->minimum_loss);
}

static bool write_text(hid_t file, const char *name, const char *text) {
  hid_t type = cr_h5()->Tcopy(cr_h5()->T_C_S1);
  bool good = type >= 0 && cr_h5()->Tset_size(type, strlen(text) + 1) >= 0 &&
              write_dataset(file, name, type, type, 0, NULL, text);
  if (type >= 0) cr_h5()->Tclose(type);
  return good;
}

static bool write_history(hid_t file, const Caffe__SolverState *state) {
  hid_t group = cr_h5()->Gcreate2(file, "history", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  bool good = group >= 0;
  for (size_t i = 0; good && i < state->n_history; ++i) {
    const Caffe__BlobProto *blob = state->history[i];
    hsize_t dim[CREMA_MAX_AXES];
    crema_shape shape;
    char name[32];
    snprintf(name, sizeof name, "%zu", i);
    good = cr_blob_proto_shape(blob, &shape) == CREMA_OK;
    for (int a = 0; good && a < shape.axes; ++a) dim[a] = (hsize_t)shape.dim[a];
    good = good && write_dataset(group, name, cr_h5()->T_IEEE_F32LE, cr_h5()->T_NATIVE_FLOAT,
                                 shape.axes, dim, blob->data);
  }
  if (group >= 0) cr_h5()->Gclose(group);
  return good;
}

static bool write_extra(hid_t file, const cr_buffer *bytes) {
  const hsize_t size = bytes->size;
  return write_dataset(file, "crema_state", cr_h5()->T_STD_U8LE, cr_h5()->T_NATIVE_UINT8, 1, &size,
                       bytes->data);
}

crema_status cr_state_write_hdf5(const Caffe__SolverState *state, cr_file_draft *draft) {
  cr_buffer extra = {0};
  hid_t file;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", draft->path));
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  crema_status status = cr_wire_print(&state->crema_state->base, &extra);
  if (status == CREMA_OK) status = cr_hdf5_create(&file);
  if (status == CREMA_OK) {
    bool good = write_int(file, "iter", state->iter) &&
                write_text(file, "learned_net", state->learned_net) &&
                write_int(file, "current_step", state->current_step) &&
                write_plateau(file, state) && write_history(file, state) &&
                write_extra(file, &extra);
    if (!good)
      status = cr_fail(CREMA_E_NO_MEMORY, "%s: cannot build the solver state", draft->path);
    status = cr_hdf5_finish(file, draft, status);
  }
  cr_hdf5_hush_end(before);
  cr_buffer_free(&extra);
  return status;
}

/* ---- reading ------------------------------------------------------------- */

static crema_status fail_dataset(const char *name) {
  return cr_fail(CREMA_E_CORRUPT, "data set /%s is missing or damaged", name);
}

/* The extents and the number of values of an open data set. */
static bool dataset_extents(hid_t set, int *axes, hsize_t *dim, hssize_t *count) {
  hid_t space = cr_h5()->Dget_space(set);
  bool good = space >= 0;
  *axes = good ? cr_h5()->Sget_simple_extent_ndims(space) : -1;
  good = *axes >= 0 && *axes <= CREMA_MAX_AXES &&
         cr_h5()->Sget_simple_extent_dims(space, dim, NULL) == *axes;
  *count = good ? cr_h5()->Sget_simple_extent_npoints(space) : -1;
  if (space >= 0) cr_h5()->Sclose(space);
  return good && *count >= 0;
}

static bool dataset_class_is(hid_t set, H5T_class_t wanted) {
  hid_t type = cr_h5()->Dget_type(set);
  bool good = type >= 0 && cr_h5()->Tget_class(type) == wanted;
  if (type >= 0) cr_h5()->Tclose(type);
  return good;
}

/* One number, of this class in the file and of this type in memory. */
static crema_status read_number(hid_t file, const char *name, H5T_class_t class, hid_t type,
                                void *out) {
  hsize_t dim[CREMA_MAX_AXES];
  hssize_t count;
  int axes;
  hid_t set = cr_h5()->Dopen2(file, name, H5P_DEFAULT);
  bool good = set >= 0 && dataset_extents(set, &axes, dim, &count) && count == 1 &&
              dataset_class_is(set, class) && cr_hdf5_check_claim(set) == CREMA_OK &&
              cr_h5()->Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, out) >= 0;
  if (set >= 0) cr_h5()->Dclose(set);
  return good ? CREMA_OK : fail_dataset(name);
}

static crema_status read_int(hid_t file, const char *name, int32_t *out) {
  int value = 0;
  CR_TRY(read_number(file, name, H5T_INTEGER, cr_h5()->T_NATIVE_INT, &value));
  *out = value;
  return CREMA_OK;
}

static crema_status read_plateau(hid_t file, Caffe__SolverState *state) {
  if (cr_h5()->Lexists(file, "minimum_loss", H5P_DEFAULT) <= 0) return CREMA_OK;
  CR_TRY(read_int(file, "iter_last_event", &state->iter_last_event));
  CR_TRY(
      read_number(file, "minimum_loss", H5T_FLOAT, cr_h5()->T_NATIVE_FLOAT, &state->minimum_loss));
  state->has_iter_last_event = state->has_minimum_loss = true;
  return CREMA_OK;
}

/* A scalar string of fixed length. */
static crema_status read_text(hid_t file, const char *name, char **out) {
  hid_t set = cr_h5()->Dopen2(file, name, H5P_DEFAULT);
  hid_t type = set < 0 ? -1 : cr_h5()->Dget_type(set);
  hsize_t dim[CREMA_MAX_AXES];
  hssize_t count = 0;
  int axes;
  bool good = type >= 0 && cr_h5()->Tget_class(type) == H5T_STRING &&
              cr_h5()->Tis_variable_str(type) == 0 && dataset_extents(set, &axes, dim, &count) &&
              count == 1 && cr_hdf5_check_claim(set) == CREMA_OK;
  size_t size = good ? cr_h5()->Tget_size(type) : 0;
  if (good && size <= NAME_LIMIT) {
    *out = cr_proto_alloc(size + 1);
    if (*out != NULL) {
      memset(*out, 0, size + 1);
      good = cr_h5()->Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) >= 0;
    }
  } else {
    good = false;
  }
  if (type >= 0) cr_h5()->Tclose(type);
  if (set >= 0) cr_h5()->Dclose(set);
  if (good && *out == NULL) return cr_fail_memory(size + 1, "a file name");
  return good ? CREMA_OK : fail_dataset(name);
}

/* BlobProto with shape and data from /history/<i>. */
static crema_status read_blob(hid_t group, size_t index, Caffe__BlobProto **out) {
  char name[32];
  hsize_t dim[CREMA_MAX_AXES];
  hssize_t count = 0;
  int axes = 0;
  crema_status status = CREMA_OK;
  snprintf(name, sizeof name, "%zu", index);
  Caffe__BlobProto *blob = cr_proto_alloc(sizeof *blob);
  if (blob == NULL) return cr_fail_memory(sizeof *blob, "history");
  caffe__blob_proto__init(blob);
  *out = blob;
  hid_t set = cr_h5()->Dopen2(group, name, H5P_DEFAULT);
  if (set < 0 || !dataset_class_is(set, H5T_FLOAT) || !dataset_extents(set, &axes, dim, &count)) {
    status = fail_dataset(name);
    goto out;
  }
  status = cr_hdf5_check_claim(set);
  if (status != CREMA_OK) {
    status = cr_fail_in(status, "data set /%s", name);
    goto out;
  }
  blob->shape = cr_proto_alloc(sizeof *blob->shape);
  if (blob->shape == NULL) goto memory;
  caffe__blob_shape__init(blob->shape);
  blob->shape->dim = cr_proto_alloc(((size_t)axes + 1) * sizeof *blob->shape->dim);
  blob->data = cr_proto_alloc(((size_t)count + 1) * sizeof *blob->data);
  if (blob->shape->dim == NULL || blob->data == NULL) goto memory;
  for (int a = 0; a < axes; ++a) blob->shape->dim[a] = (int64_t)dim[a];
  blob->shape->n_dim = (size_t)axes;
  blob->n_data = (size_t)count;
  if (cr_h5()->Dread(set, cr_h5()->T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, blob->data) < 0) {
    status = fail_dataset(name);
  }
  goto out;
memory:
  status = cr_fail_memory((size_t)count * sizeof(float), "history");
out:
  if (set >= 0) cr_h5()->Dclose(set);
  return cr_fail_in(status, "/history");
}

static crema_status read_history(hid_t file, Caffe__SolverState *state) {
  H5G_info_t info;
  crema_status status = CREMA_OK;
  hid_t group = cr_h5()->Gopen2(file, "history", H5P_DEFAULT);
  /* No link takes less than a byte. */
  if (group < 0 || cr_h5()->Gget_info(group, &info) < 0 || info.nlinks > cr_hdf5_file_size(group)) {
    status = fail_dataset("history");
    goto out;
  }
  state->history = cr_proto_alloc(((size_t)info.nlinks + 1) * sizeof *state->history);
  if (state->history == NULL) {
    status = cr_fail_memory((size_t)info.nlinks * sizeof *state->history, "history");
    goto out;
  }
  for (size_t i = 0; i < (size_t)info.nlinks; ++i) {
    state->history[i] = NULL;
    status = read_blob(group, i, &state->history[i]);
    if (state->history[i] != NULL) ++state->n_history;
    if (status != CREMA_OK) goto out;
  }
out:
  if (group >= 0) cr_h5()->Gclose(group);
  return status;
}

static crema_status read_extra(hid_t file, const char *path, Caffe__SolverState *state) {
  hsize_t dim[CREMA_MAX_AXES];
  hssize_t count = 0;
  int axes;
  uint8_t *bytes = NULL;
  ProtobufCMessage *message = NULL;
  crema_status status = CREMA_OK;
  if (cr_h5()->Lexists(file, "crema_state", H5P_DEFAULT) <= 0) return CREMA_OK;
  hid_t set = cr_h5()->Dopen2(file, "crema_state", H5P_DEFAULT);
  if (set < 0 || !dataset_class_is(set, H5T_INTEGER) || !dataset_extents(set, &axes, dim, &count)) {
    status = fail_dataset("crema_state");
    goto out;
  }
  status = cr_hdf5_check_claim(set);
  if (status != CREMA_OK) {
    status = cr_fail_in(status, "data set /crema_state");
    goto out;
  }
  bytes = malloc((size_t)count + 1);
  if (bytes == NULL) {
    status = cr_fail_memory((size_t)count + 1, "a solver state");
    goto out;
  }
  if (cr_h5()->Dread(set, cr_h5()->T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes) < 0) {
    status = fail_dataset("crema_state");
    goto out;
  }
  CR_TRY_GOTO(cr_wire_parse(&caffe__crema_state__descriptor, bytes, (size_t)count, path, &message),
              out);
  state->crema_state = (Caffe__CremaState *)message;
out:
  free(bytes);
  if (set >= 0) cr_h5()->Dclose(set);
  return status;
}

static crema_status read_all(hid_t file, const char *path, Caffe__SolverState *state) {
  CR_TRY(read_int(file, "iter", &state->iter));
  state->has_iter = true;
  /* Files of early versions have no name and no step. */
  if (cr_h5()->Lexists(file, "learned_net", H5P_DEFAULT) > 0) {
    CR_TRY(read_text(file, "learned_net", &state->learned_net));
  }
  if (cr_h5()->Lexists(file, "current_step", H5P_DEFAULT) > 0) {
    CR_TRY(read_int(file, "current_step", &state->current_step));
    state->has_current_step = true;
  }
  CR_TRY(read_plateau(file, state));
  CR_TRY(read_history(file, state));
  return read_extra(file, path, state);
}

crema_status cr_state_read_hdf5(const char *path, Caffe__SolverState **out) {
  hid_t file;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", path));
  Caffe__SolverState *state = cr_proto_alloc(sizeof *state);
  if (state == NULL) return cr_fail_memory(sizeof *state, "a solver state");
  caffe__solver_state__init(state);
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  crema_status status = cr_hdf5_open_read(path, &file);
  if (status == CREMA_OK) {
    status = cr_fail_in(read_all(file, path, state), "%s", path);
    cr_h5()->Fclose(file);
  }
  cr_hdf5_hush_end(before);
  if (status != CREMA_OK) {
    cr_message_free(&state->base);
    return status;
  }
  *out = state;
  return CREMA_OK;
}
