/* Solver state as an HDF5 file, in Caffe's layout:
 *
 *     /iter, /current_step              int, one value each
 *     /iter_last_event, /minimum_loss   int and float, only with the plateau policy
 *     /learned_net                      string: name of the model file
 *     /history/<i>                      float or double, one data set per history blob
 *
 * One data set is ignored by Caffe:
 *
 *     /crema_state                      bytes: a CremaState message in wire format */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/hdf5_file.h"
#include "core/hdf5_reader.h"
#include "solver/solver.h"

enum { NAME_LIMIT = 1 << 20 }; /* bytes of the longest file name that is read */

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
    bool doubles = blob->n_double_data > 0;
    good =
        good && write_dataset(group, name, doubles ? cr_h5()->T_IEEE_F64LE : cr_h5()->T_IEEE_F32LE,
                              doubles ? cr_h5()->T_NATIVE_DOUBLE : cr_h5()->T_NATIVE_FLOAT,
                              shape.axes, dim, doubles ? (void *)blob->double_data : blob->data);
  }
  if (group >= 0) cr_h5()->Gclose(group);
  return good;
}

static bool write_all(hid_t file, const Caffe__SolverState *state, const cr_buffer *extra) {
  const hsize_t one = 1, size = extra->size;
  bool good = write_int(file, "iter", state->iter) &&
              write_text(file, "learned_net", state->learned_net) &&
              write_int(file, "current_step", state->current_step);
  if (good && state->has_minimum_loss) {
    good = write_int(file, "iter_last_event", state->iter_last_event) &&
           write_dataset(file, "minimum_loss", cr_h5()->T_IEEE_F32LE, cr_h5()->T_NATIVE_FLOAT, 1,
                         &one, &state->minimum_loss);
  }
  return good && write_history(file, state) &&
         write_dataset(file, "crema_state", cr_h5()->T_STD_U8LE, cr_h5()->T_NATIVE_UINT8, 1, &size,
                       extra->data);
}

crema_status cr_state_write_hdf5(const Caffe__SolverState *state, cr_file_draft *draft) {
  cr_buffer extra = {0};
  hid_t file;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", draft->path));
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  crema_status status = cr_wire_print(&state->crema_state->base, &extra);
  if (status == CREMA_OK) status = cr_hdf5_create(&file);
  if (status == CREMA_OK) {
    if (!write_all(file, state, &extra)) {
      status = cr_fail(CREMA_E_NO_MEMORY, "%s: cannot build the solver state", draft->path);
    }
    status = cr_hdf5_finish(file, draft, status);
  }
  cr_hdf5_hush_end(before);
  cr_buffer_free(&extra);
  return status;
}

static crema_status fail_dataset(const char *name) {
  return cr_fail(CREMA_E_CORRUPT, "data set /%s is missing or damaged", name);
}

/* Finds a data set of values of this class that is safe to read. */
static crema_status find_set(cr_hdf5_reader *file, const char *name, cr_hdf5_class class,
                             cr_hdf5_info *out) {
  CR_TRY(cr_hdf5_look(file, name, out));
  if (out->kind != CR_HDF5_SET || out->class != class || out->shape.axes < 0) {
    return fail_dataset(name);
  }
  return cr_fail_in(cr_hdf5_check_claim(out), "data set /%s", name);
}

static crema_status is_there(cr_hdf5_reader *file, const char *name, bool *out) {
  cr_hdf5_info info;
  *out = false;
  CR_TRY(cr_hdf5_look(file, name, &info));
  *out = info.kind != CR_HDF5_NOTHING;
  return CREMA_OK;
}

/* Values of a data set, `bytes` bytes in memory. */
static crema_status read_values(cr_hdf5_reader *file, const char *name, cr_hdf5_type type,
                                void *out, uint64_t bytes) {
  return cr_fail_in(cr_hdf5_read(file, name, type, out, bytes), "data set /%s", name);
}

static crema_status read_int(cr_hdf5_reader *file, const char *name, int32_t *out) {
  cr_hdf5_info set;
  CR_TRY(find_set(file, name, CR_HDF5_INTEGER, &set));
  if (set.count != 1) return fail_dataset(name);
  return read_values(file, name, CR_HDF5_I32, out, sizeof *out);
}

static crema_status read_plateau(cr_hdf5_reader *file, Caffe__SolverState *state) {
  cr_hdf5_info set;
  bool found;
  CR_TRY(is_there(file, "minimum_loss", &found));
  if (!found) return CREMA_OK;
  CR_TRY(read_int(file, "iter_last_event", &state->iter_last_event));
  CR_TRY(find_set(file, "minimum_loss", CR_HDF5_FLOAT, &set));
  if (set.count != 1) return fail_dataset("minimum_loss");
  CR_TRY(read_values(file, "minimum_loss", CR_HDF5_F32, &state->minimum_loss,
                     sizeof state->minimum_loss));
  state->has_iter_last_event = state->has_minimum_loss = true;
  return CREMA_OK;
}

/* A scalar string of fixed length. */
static crema_status read_text(cr_hdf5_reader *file, const char *name, char **out) {
  cr_hdf5_info set;
  CR_TRY(find_set(file, name, CR_HDF5_STRING, &set));
  if (set.count != 1 || set.size > NAME_LIMIT) return fail_dataset(name);
  CR_TRY(CR_STATE_ALLOCATE(*out, set.size + 1));
  memset(*out, 0, set.size + 1);
  return read_values(file, name, CR_HDF5_TEXT, *out, set.size);
}

/* Values of more than 4 bytes are doubles. */
static crema_status read_history_values(cr_hdf5_reader *file, const char *name,
                                        const cr_hdf5_info *set, Caffe__BlobProto *blob) {
  size_t count = (size_t)set->count;
  bool doubles = set->size > sizeof(float);
  if (doubles) {
    CR_TRY(CR_STATE_ALLOCATE(blob->double_data, count + 1));
    blob->n_double_data = count;
    return read_values(file, name, CR_HDF5_F64, blob->double_data, count * sizeof(double));
  }
  CR_TRY(CR_STATE_ALLOCATE(blob->data, count + 1));
  blob->n_data = count;
  return read_values(file, name, CR_HDF5_F32, blob->data, count * sizeof(float));
}

/* BlobProto with shape and data from /history/<i>. */
static crema_status read_blob(cr_hdf5_reader *file, size_t index, Caffe__BlobProto **out) {
  char name[32];
  cr_hdf5_info set;
  snprintf(name, sizeof name, "history/%zu", index);
  Caffe__BlobProto *blob;
  CR_TRY(CR_STATE_ALLOCATE(blob, 1));
  caffe__blob_proto__init(blob);
  *out = blob;
  CR_TRY(find_set(file, name, CR_HDF5_FLOAT, &set));
  size_t axes = (size_t)set.shape.axes;
  CR_TRY(CR_STATE_ALLOCATE(blob->shape, 1));
  caffe__blob_shape__init(blob->shape);
  CR_TRY(CR_STATE_ALLOCATE(blob->shape->dim, axes + 1));
  memcpy(blob->shape->dim, set.shape.dim, axes * sizeof *blob->shape->dim);
  blob->shape->n_dim = axes;
  return read_history_values(file, name, &set, blob);
}

static crema_status read_history(cr_hdf5_reader *file, Caffe__SolverState *state) {
  cr_hdf5_info group;
  CR_TRY(cr_hdf5_look(file, "history", &group));
  if (group.kind != CR_HDF5_GROUP) return fail_dataset("history");
  size_t blobs = (size_t)group.links;
  CR_TRY(CR_STATE_ALLOCATE(state->history, blobs + 1));
  for (size_t i = 0; i < blobs; ++i) {
    state->history[i] = NULL;
    crema_status status = read_blob(file, i, &state->history[i]);
    if (state->history[i] != NULL) ++state->n_history;
    CR_TRY(status);
  }
  return CREMA_OK;
}

static crema_status read_extra(cr_hdf5_reader *file, const char *path, Caffe__SolverState *state) {
  static const char name[] = "crema_state";
  cr_hdf5_info set;
  ProtobufCMessage *message = NULL;
  bool found;
  CR_TRY(is_there(file, name, &found));
  if (!found) return CREMA_OK;
  CR_TRY(find_set(file, name, CR_HDF5_INTEGER, &set));
  uint8_t *bytes = malloc((size_t)set.count + 1);
  if (bytes == NULL) return cr_fail_memory((size_t)set.count + 1, "a solver state");
  crema_status status = read_values(file, name, CR_HDF5_U8, bytes, set.count);
  if (status == CREMA_OK) {
    status =
        cr_wire_parse(&caffe__crema_state__descriptor, bytes, (size_t)set.count, path, &message);
  }
  free(bytes);
  state->crema_state = (Caffe__CremaState *)message;
  return status;
}

static crema_status read_all(cr_hdf5_reader *file, const char *path, Caffe__SolverState *state) {
  bool found;
  CR_TRY(read_int(file, "iter", &state->iter));
  state->has_iter = true;
  /* Files of early versions have no name and no step. */
  CR_TRY(is_there(file, "learned_net", &found));
  if (found) CR_TRY(read_text(file, "learned_net", &state->learned_net));
  CR_TRY(is_there(file, "current_step", &found));
  if (found) {
    CR_TRY(read_int(file, "current_step", &state->current_step));
    state->has_current_step = true;
  }
  CR_TRY(read_plateau(file, state));
  CR_TRY(read_history(file, state));
  return read_extra(file, path, state);
}

crema_status cr_state_read_hdf5(const char *path, Caffe__SolverState **out) {
  cr_hdf5_reader *file = NULL;
  Caffe__SolverState *state;
  CR_TRY(CR_STATE_ALLOCATE(state, 1));
  caffe__solver_state__init(state);
  crema_status status = cr_hdf5_reader_open(path, &file);
  if (status == CREMA_OK) status = cr_fail_in(read_all(file, path, state), "%s", path);
  cr_hdf5_reader_close(file);
  if (status != CREMA_OK) {
    cr_message_free(&state->base);
    return status;
  }
  *out = state;
  return CREMA_OK;
}
