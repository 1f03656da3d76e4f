#include "blob_dump.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/hdf5_file.h"
#include "core/log.h"
#include "memory/blob.h"

/* A file that is being filled. */
typedef struct dump {
  hid_t file, links;
  cr_buffer path;
  bool diffs;
} dump;

crema_status cli_dump_begin(crema_net *net, const char *folder) {
  if (folder[0] == '\0') return CREMA_OK;
  for (int i = 0; i < crema_net_blob_count(net); ++i) {
    crema_blob *blob;
    const char *name = crema_net_blob_name(net, i);
    if (strcmp(name, "(automatic)") != 0) CR_TRY(crema_net_blob(net, name, &blob));
  }
  return CREMA_OK;
}

/* Doubles and bytes are written as they are, all else as floats. */
static crema_dtype file_type(crema_dtype type, hid_t *out) {
  *out = cr_h5()->T_NATIVE_FLOAT;
  if (type == CREMA_F64) *out = cr_h5()->T_NATIVE_DOUBLE;
  else if (type == CREMA_U8) *out = cr_h5()->T_NATIVE_UINT8;
  else return CREMA_F32;
  return type;
}

/* Writes a tensor to the path so far, followed by "/<part>". */
static crema_status write_tensor(dump *d, const crema_shape *shape, cr_tensor *tensor,
                                 const char *part) {
  hsize_t dim[CREMA_MAX_AXES];
  hid_t type;
  crema_devptr values = {0};
  const size_t size = d->path.size;
  const crema_dtype as = file_type(cr_tensor_type(tensor), &type);
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), (cr_format){as, NULL}, &values));
  CR_TRY(cr_buffer_print(&d->path, "/%s", part));
  for (int i = 0; i < shape->axes; ++i) dim[i] = (hsize_t)shape->dim[i];
  const hid_t space = shape->axes == 0 ? cr_h5()->Screate(H5S_SCALAR)
                                       : cr_h5()->Screate_simple(shape->axes, dim, NULL);
  const hid_t set = cr_hdf5_dataset(d->file, d->path.data, type, space, d->links);
  bool good = set >= 0;
  if (good && crema_shape_count(shape, 0, shape->axes) > 0) {
    good = cr_h5()->Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                           (const void *)values.address) >= 0;
  }
  if (set >= 0) good = cr_h5()->Dclose(set) >= 0 && good;
  if (space >= 0) cr_h5()->Sclose(space);
  if (!good) {
    return cr_fail(CREMA_E_IO,
                   "cannot write data set %s; its name is taken by another data set or group",
                   d->path.data);
  }
  d->path.size = size;
  d->path.data[size] = '\0';
  return CREMA_OK;
}

/* The path is of the blob. */
static crema_status write_blob(dump *d, const crema_blob *blob) {
  CR_TRY(cr_fail_in(write_tensor(d, &blob->shape, blob->data, "data"), "%s", d->path.data));
  if (!d->diffs || cr_tensor_is_new(blob->diff)) return CREMA_OK;
  return cr_fail_in(write_tensor(d, &blob->shape, blob->diff, "diff"), "%s", d->path.data);
}

static crema_status write_all(const crema_net *net, dump *d) {
  for (int i = 0; i < net->blobs; ++i) {
    if (strcmp(net->blob_name[i], "(automatic)") == 0) continue;
    cr_buffer_clear(&d->path);
    CR_TRY(cr_buffer_print(&d->path, "/blobs/%s", net->blob_name[i]));
    CR_TRY(write_blob(d, net->blob[i]));
  }
  for (int i = 0; i < net->layers; ++i) {
    const cr_layer *layer = net->layer[i].layer;
    for (int p = 0; p < layer->params; ++p) {
      cr_buffer_clear(&d->path);
      CR_TRY(cr_buffer_print(&d->path, "/params/%s/%d", layer->name, p));
      CR_TRY(write_blob(d, layer->blob[p]));
    }
  }
  return CREMA_OK;
}

/* Between the begin and the end of calls of HDF5. */
static crema_status build(const crema_net *net, cr_file_draft *draft, bool diffs) {
  dump d = {.diffs = diffs, .links = -1};
  CR_TRY(cr_hdf5_create(&d.file));
  d.links = cr_h5()->Pcreate(cr_h5()->P_LINK_CREATE);
  crema_status status = CREMA_OK;
  if (d.links < 0 || cr_h5()->Pset_create_intermediate_group(d.links, 1) < 0) {
    status = cr_fail(CREMA_E_IO, "cannot prepare HDF5 links");
  }
  if (status == CREMA_OK) status = write_all(net, &d);
  if (d.links >= 0) cr_h5()->Pclose(d.links);
  cr_buffer_free(&d.path);
  return cr_hdf5_finish(d.file, draft, cr_fail_in(status, "%s", draft->path));
}

crema_status cli_dump_write(crema_net *net, const char *folder, bool diffs) {
  cr_buffer path = {0};
  cr_file_draft draft;
  crema_status status = CREMA_OK;
  if (folder[0] == '\0') return CREMA_OK;
  if (mkdir(folder, 0777) != 0 && errno != EEXIST) {
    return cr_fail_errno(errno, "%s: cannot make the folder", folder);
  }
  CR_TRY(cr_buffer_print(&path, "%s/blobs.h5", folder));
  CR_TRY_GOTO(cr_fail_in(cr_hdf5_load(), "%s", path.data), out);
  CR_TRY_GOTO(crema_context_finish(net->context), out);
  CR_TRY_GOTO(cr_file_draft_begin(path.data, &draft), out);
  const cr_hdf5_hush before = cr_hdf5_hush_begin();
  status = build(net, &draft, diffs);
  cr_hdf5_hush_end(before);
  status = cr_file_draft_end(&draft, status);
  if (status == CREMA_OK) cr_log_info("Wrote %d blobs to %s", net->blobs, path.data);
out:
  cr_buffer_free(&path);
  return status;
}
