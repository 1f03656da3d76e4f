/* Weights in HDF5 files: /data/<layer>/<i> and /diff/<layer>/<i>, doubles or 32-bit floats of the
 * blob's shape. A layer's name may hold slashes; it is then a path of groups, which may lead
 * through the group of another layer. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/hdf5_file.h"
#include "core/hdf5_reader.h"
#include "core/io.h"
#include "core/log.h"
#include "device/device.h"
#include "device/memory/host_memory.h"
#include "net/common/fail.h"
#include "net/weights/weights.h"

bool cr_net_is_named_hdf5(const char *path) {
  size_t length = strlen(path);
  return length >= 3 && strcmp(path + length - 3, ".h5") == 0;
}

/* The signature is at byte 0, 512, 1024, 2048 ..., because other data may precede it. It is checked
 * here because the HDF5 library is loaded only for files that have it. */
bool cr_net_is_hdf5(const char *path) {
  static const char signature[8] = "\211HDF\r\n\032\n";
  char found[sizeof signature];
  struct stat info;
  bool is_hdf5 = false;
  if (stat(path, &info) != 0 || !S_ISREG(info.st_mode)) return false;
  int fd = cr_io_open(path, O_RDONLY | O_NONBLOCK, 0);
  if (fd < 0) return false;
  for (off_t at = 0; !is_hdf5 && at < info.st_size; at = at == 0 ? 512 : 2 * at) {
    is_hdf5 = cr_io_read_at(fd, found, sizeof found, at) == (ssize_t)sizeof found &&
              memcmp(found, signature, sizeof found) == 0;
  }
  cr_io_close(fd);
  return is_hdf5;
}

/* "<group>/<layer>" or "<group>/<layer>/<index>" */
static crema_status object_path(const char *group, const char *layer, int index, cr_buffer *out) {
  cr_buffer_clear(out);
  CR_TRY(cr_buffer_print(out, "%s/%s", group, layer));
  return index < 0 ? CREMA_OK : cr_buffer_print(out, "/%d", index);
}

static bool write_values(hid_t file, hid_t links, const char *path, const crema_shape *shape,
                         hid_t type, const void *values) {
  hsize_t dim[CREMA_MAX_AXES];
  for (int i = 0; i < shape->axes; ++i) dim[i] = (hsize_t)shape->dim[i];
  hid_t space = shape->axes == 0 ? cr_h5()->Screate(H5S_SCALAR)
                                 : cr_h5()->Screate_simple(shape->axes, dim, NULL);
  hid_t set = cr_hdf5_dataset(file, path, type, space, links);
  bool good = set >= 0;
  if (good && crema_shape_count(shape, 0, shape->axes) > 0) {
    good = cr_h5()->Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) >= 0;
  }
  if (set >= 0) good = cr_h5()->Dclose(set) >= 0 && good;
  if (space >= 0) cr_h5()->Sclose(space);
  return good;
}

/* The values of a tensor in the form of the file, and their type: 16-bit floats are widened. */
static crema_status read_tensor(cr_tensor *tensor, hid_t *type, const void **values) {
  bool doubles = cr_tensor_type(tensor) == CREMA_F64;
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(tensor, cr_host_context(),
                        (cr_format){doubles ? CREMA_F64 : CREMA_F32, NULL}, &data));
  *type = doubles ? cr_h5()->T_NATIVE_DOUBLE : cr_h5()->T_NATIVE_FLOAT;
  *values = (const void *)data.address;
  return CREMA_OK;
}

/* One bit for each parameter of the layer that a file holds under the layer's name. */
static uint64_t saved_params(const crema_net *net, int index, bool with_diffs) {
  const cr_net_layer *layer = &net->layer[index];
  uint64_t saved = 0;
  for (int p = 0; p < layer->layer->params; ++p) {
    bool own = net->net_param[layer->first_param + p].owner < 0;
    if (own || with_diffs) saved |= UINT64_C(1) << (p < 63 ? p : 63);
  }
  return saved;
}

static crema_status fail_no_path(const crema_net *net, int index) {
  char line[CR_NET_LINE_TEXT];
  const cr_layer *self = net->layer[index].layer;
  cr_net_line_text(net, (size_t)index, line);
  if (self->name[0] != '\0') {
    return cr_fail(CREMA_E_ARGUMENT,
                   "layer '%.200s' (%s)%s: HDF5 models hold layers under their names as paths, in "
                   "which no part may be empty or a dot",
                   self->name, self->kind->type, line);
  }
  return cr_fail(CREMA_E_ARGUMENT,
                 "layer %d (%s)%s has no name; HDF5 models identify layers by their names", index,
                 self->kind->type, line);
}

/* `index`: the first layer of the name that has parameters. */
static crema_status fail_same_name(const crema_net *net, int index, int other) {
  char line[2][CR_NET_LINE_TEXT];
  return cr_fail(CREMA_E_EXISTS,
                 "two layers are named '%.200s': %s%s, %s%s; HDF5 models identify layers by "
                 "their names",
                 net->layer[index].layer->name, net->layer[index].layer->kind->type,
                 cr_net_line_text(net, (size_t)index, line[0]), net->layer[other].layer->kind->type,
                 cr_net_line_text(net, (size_t)other, line[1]));
}

/* Whether a name is the only path of its group: HDF5 skips empty parts of a path, and parts that
 * are a dot. */
static bool is_path(const char *name) {
  const char *part = name;
  for (;;) {
    const size_t length = strcspn(part, "/");
    if (length == 0 || (length == 1 && part[0] == '.')) return false;
    if (part[length] == '\0') return true;
    part += length + 1;
  }
}

/* No layer may have the name of a data set of layer `index`. */
static crema_status check_inside(const crema_net *net, int index, uint64_t saved, cr_buffer *path) {
  const cr_layer *self = net->layer[index].layer;
  char line[2][CR_NET_LINE_TEXT];
  for (int p = 0; p < self->params; ++p) {
    if ((saved >> (p < 63 ? p : 63) & 1) == 0) continue;
    cr_buffer_clear(path);
    CR_TRY(cr_buffer_print(path, "%s/%d", self->name, p));
    const int other = cr_net_find_layer(net, path->data);
    if (other < 0) continue;
    return cr_fail(CREMA_E_EXISTS,
                   "layer '%.200s' (%s)%s has the name that HDF5 models give to parameter %d of "
                   "layer '%.200s' (%s)%s",
                   path->data, net->layer[other].layer->kind->type,
                   cr_net_line_text(net, (size_t)other, line[0]), p, self->name, self->kind->type,
                   cr_net_line_text(net, (size_t)index, line[1]));
  }
  return CREMA_OK;
}

static crema_status check_names(const crema_net *net, bool with_diffs, cr_buffer *path) {
  for (int i = 0; i < net->layers; ++i) {
    const char *name = net->layer[i].layer->name;
    if (!is_path(name) && net->layer[i].layer->params > 0) return fail_no_path(net, i);
    /* Each name is handled once, with all layers that have it. */
    if (cr_net_find_layer(net, name) != i) continue;
    uint64_t all = 0;
    int first = i;
    for (int k = i; k >= 0; k = net->layer[k].next_same) {
      uint64_t saved = saved_params(net, k, with_diffs);
      if ((all & saved) != 0) return fail_same_name(net, first, k);
      if (all == 0) first = k;
      all |= saved;
      CR_TRY(check_inside(net, k, saved, path));
    }
  }
  return CREMA_OK;
}

crema_status cr_net_check_hdf5(const crema_net *net, bool with_diffs) {
  cr_buffer path = {0};
  const crema_status status = check_names(net, with_diffs, &path);
  cr_buffer_free(&path);
  return status;
}

static crema_status save_group(hid_t file, hid_t links, const char *path) {
  if (cr_h5()->Lexists(file, path, H5P_DEFAULT) > 0) return CREMA_OK;
  hid_t group = cr_h5()->Gcreate2(file, path, links, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0) return cr_fail(CREMA_E_IO, "cannot write group %s", path);
  cr_h5()->Gclose(group);
  return CREMA_OK;
}

/* One half of the file: data of owners, or diffs of all. */
static crema_status save_layer(const crema_net *net, int index, bool diffs, hid_t file, hid_t links,
                               cr_buffer *path) {
  const char *group = diffs ? "/diff" : "/data";
  const cr_net_layer *layer = &net->layer[index];
  const cr_layer *self = layer->layer;
  if (!is_path(self->name)) return CREMA_OK; /* without parameters */
  CR_TRY(object_path(group, self->name, -1, path));
  CR_TRY(save_group(file, links, path->data));
  for (int p = 0; p < self->params; ++p) {
    if (!diffs && net->net_param[layer->first_param + p].owner >= 0) continue;
    crema_blob *blob = self->blob[p];
    const void *values = NULL;
    hid_t type;
    CR_TRY(read_tensor(diffs ? blob->diff : blob->data, &type, &values));
    CR_TRY(object_path(group, self->name, p, path));
    if (!write_values(file, links, path->data, &blob->shape, type, values)) {
      return cr_fail(CREMA_E_IO, "cannot write data set %s", path->data);
    }
  }
  return CREMA_OK;
}

static crema_status save_all(const crema_net *net, hid_t file, bool with_diffs) {
  cr_buffer path = {0};
  crema_status status = CREMA_OK;
  hid_t links = cr_h5()->Pcreate(cr_h5()->P_LINK_CREATE);
  if (links < 0 || cr_h5()->Pset_create_intermediate_group(links, 1) < 0) {
    status = cr_fail(CREMA_E_IO, "cannot prepare HDF5 links");
    goto out;
  }
  CR_TRY_GOTO(cr_net_check_hdf5(net, with_diffs), out);
  CR_TRY_GOTO(save_group(file, links, "/data"), out);
  if (with_diffs) CR_TRY_GOTO(save_group(file, links, "/diff"), out);
  for (int i = 0; i < net->layers; ++i) {
    CR_TRY_GOTO(save_layer(net, i, false, file, links, &path), out);
    if (with_diffs) CR_TRY_GOTO(save_layer(net, i, true, file, links, &path), out);
  }
out:
  if (links >= 0) cr_h5()->Pclose(links);
  cr_buffer_free(&path);
  return status;
}

crema_status cr_net_write_hdf5(const crema_net *net, cr_file_draft *draft, bool with_diffs) {
  hid_t file;
  CR_TRY(cr_fail_in(cr_hdf5_load(), "%s", draft->path));
  cr_hdf5_hush before = cr_hdf5_hush_begin();
  crema_status status = cr_hdf5_create(&file);
  if (status == CREMA_OK) {
    crema_status content = cr_fail_in(save_all(net, file, with_diffs), "%s", draft->path);
    status = cr_hdf5_finish(file, draft, content);
  }
  cr_hdf5_hush_end(before);
  return status;
}

static crema_status check_set(const cr_hdf5_info *set, const crema_blob *blob) {
  crema_shape shape;
  char text[2][256];
  if (set->class != CR_HDF5_FLOAT && set->class != CR_HDF5_INTEGER) {
    return cr_fail(CREMA_E_TYPE, "its values are not numbers");
  }
  CR_TRY(cr_hdf5_shape(set, &shape));
  if (crema_shape_equal(&shape, &blob->shape)) return cr_hdf5_check_claim(set);
  return cr_fail(CREMA_E_SHAPE, "the file's shape is %s, the net's is %s",
                 crema_shape_text(&shape, text[0], sizeof text[0]),
                 crema_shape_text(&blob->shape, text[1], sizeof text[1]));
}

static crema_status read_set(cr_hdf5_reader *file, const char *path, crema_blob *blob) {
  bool doubles = cr_tensor_type(blob->data) == CREMA_F64;
  crema_dtype type = doubles ? CREMA_F64 : CREMA_F32;
  crema_devptr memory = {0};
  uint64_t bytes = (uint64_t)crema_blob_count(blob) * crema_dtype_size(type);
  if (bytes == 0) return CREMA_OK;
  CR_TRY(cr_tensor_write(blob->data, cr_host_context(), (cr_format){type, NULL}, &memory));
  return cr_hdf5_read(file, path, doubles ? CR_HDF5_F64 : CR_HDF5_F32, (void *)memory.address,
                      bytes);
}

/* Whether packed values can be unpacked shows only when they are. */
static crema_status try_set(cr_hdf5_reader *file, const char *path, const cr_hdf5_info *set) {
  const uint64_t bytes = set->count * sizeof(float);
  void *values = NULL;
  if (set->unit == 0 || bytes == 0) return CREMA_OK;
  CR_TRY(cr_host_alloc(bytes, &values));
  const crema_status status = cr_hdf5_read(file, path, CR_HDF5_F32, values, bytes);
  cr_host_free(values);
  return status;
}

/* Checks (or, in the second round, copies) one parameter. A sharer may be missing. */
static crema_status load_param(const crema_net *net, int entry, bool copy, cr_hdf5_reader *file,
                               cr_buffer *path, cr_net_loading *loading) {
  const cr_net_param *param = &net->net_param[entry];
  const cr_layer *layer = net->layer[param->layer].layer;
  cr_hdf5_info set;
  CR_TRY(object_path("/data", layer->name, param->index, path));
  CR_TRY(cr_hdf5_look(file, path->data, &set));
  if (set.kind == CR_HDF5_NOTHING) {
    if (param->owner >= 0) return CREMA_OK;
    return cr_fail(CREMA_E_ARGUMENT,
                   "incompatible number of blobs for layer '%s' (%s): the file has no %s",
                   layer->name, layer->kind->type, path->data);
  }
  if (set.kind != CR_HDF5_SET) return cr_fail(CREMA_E_CORRUPT, "%s is not a data set", path->data);
  /* Checked a second time in the second round, because the file may have changed in between. */
  crema_status status = check_set(&set, layer->blob[param->index]);
  if (status == CREMA_OK) {
    status = copy ? read_set(file, path->data, layer->blob[param->index])
                  : try_set(file, path->data, &set);
  }
  if (status == CREMA_OK) cr_net_note_given(loading, entry);
  return cr_fail_in(status, "%s (layer '%s', parameter %d)", path->data, layer->name, param->index);
}

/* Whether there is such an object at `path`. */
static crema_status has(cr_hdf5_reader *file, const char *path, cr_hdf5_kind kind, bool *out) {
  cr_hdf5_info info;
  *out = false;
  CR_TRY(cr_hdf5_look(file, path, &info));
  if (info.kind == CR_HDF5_OTHER) return cr_fail(CREMA_E_CORRUPT, "%s cannot be opened", path);
  *out = info.kind == kind;
  return CREMA_OK;
}

/* Whether the file has parameters of the layer or, for a layer without parameters, has the layer. A
 * group without data sets may only lead to layers inside. */
static crema_status has_layer(const cr_layer *layer, cr_hdf5_reader *file, cr_buffer *path,
                              bool *out) {
  CR_TRY(object_path("/data", layer->name, -1, path));
  CR_TRY(has(file, path->data, CR_HDF5_GROUP, out));
  if (!*out) return CREMA_OK;
  *out = layer->params == 0;
  for (int p = 0; p < layer->params && !*out; ++p) {
    CR_TRY(object_path("/data", layer->name, p, path));
    CR_TRY(has(file, path->data, CR_HDF5_SET, out));
  }
  return CREMA_OK;
}

/* The file may not have more parameters of a layer than the net. */
static crema_status check_surplus(const cr_layer *layer, cr_hdf5_reader *file, cr_buffer *path) {
  bool surplus;
  CR_TRY(object_path("/data", layer->name, layer->params, path));
  CR_TRY(has(file, path->data, CR_HDF5_SET, &surplus));
  if (!surplus) return CREMA_OK;
  return cr_fail(CREMA_E_ARGUMENT,
                 "incompatible number of blobs for layer '%s' (%s): the file has %s, the net has "
                 "%d parameters",
                 layer->name, layer->kind->type, path->data, layer->params);
}

/* A layer that the upgrade made from a layer of the file. */
static crema_status load_norm(const crema_net *net, int index, bool copy,
                              const Caffe__LayerParameter *norm, cr_net_loading *loading) {
  const cr_net_layer *layer = &net->layer[index];
  for (int p = 0; p < layer->layer->params; ++p) {
    cr_net_note_given(loading, layer->first_param + p);
  }
  return copy ? cr_net_copy_stored_layer(layer->layer, norm, NULL)
              : cr_net_check_stored_layer(layer->layer, norm);
}

/* `norms`: layers of the file that were upgraded. */
static crema_status load_layers(const crema_net *net, bool copy, cr_hdf5_reader *file,
                                const Caffe__NetParameter *norms, cr_net_loading *loading) {
  cr_buffer path = {0};
  int matched = 0;
  crema_status status = CREMA_OK;
  for (int i = 0; i < net->layers; ++i) {
    const cr_net_layer *layer = &net->layer[i];
    bool saved;
    /* If several layers have one name, the first gets the values. */
    if (layer->layer->name[0] == '\0' || cr_net_find_layer(net, layer->layer->name) != i) continue;
    const Caffe__LayerParameter *norm = cr_net_find_hdf5_norm(norms, layer->layer->name);
    if (norm != NULL) {
      CR_TRY_GOTO(load_norm(net, i, copy, norm, loading), out);
      ++matched;
      continue;
    }
    CR_TRY_GOTO(has_layer(layer->layer, file, &path, &saved), out);
    if (!saved) continue;
    if (!copy) status = check_surplus(layer->layer, file, &path);
    for (int p = 0; p < layer->layer->params && status == CREMA_OK; ++p) {
      status = load_param(net, layer->first_param + p, copy, file, &path, loading);
    }
    CR_TRY_GOTO(cr_net_blame_layer(layer->layer, status), out);
    matched += layer->layer->params > 0;
  }
  status = cr_net_check_matched(net, matched, loading);
out:
  cr_buffer_free(&path);
  return status;
}

/* Links may form cycles, so depth and number need limits that are independent of the file. */
enum { MOST_DEPTH = 16 };

/* The state of a walk through /data. */
typedef struct spare_walk {
  cr_hdf5_reader *file;
  cr_net_loading *loading;
  cr_buffer path; /* of the group that is walked */
  int depth, links;
} spare_walk;

/* A group that has a data set "0" belongs to a layer. Layers whose names have slashes are in nested
 * groups. */
static crema_status visit_group(spare_walk *walk) {
  static const char root[] = "/data/";
  cr_buffer names = {0};
  size_t before = walk->path.size;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(cr_hdf5_list(walk->file, walk->path.data, &names), out);
  bool has_first = false;
  for (size_t at = 0; at < names.size; at += strlen(names.data + at) + 1) {
    const char *name = names.data + at;
    has_first = has_first || strcmp(name, "d0") == 0 || strcmp(name, "g0") == 0;
  }
  if (has_first && before >= sizeof root) {
    const char *layer = walk->path.data + sizeof root - 1;
    if (cr_net_find_layer(walk->loading->net, layer) < 0) {
      CR_TRY_GOTO(cr_net_note_spare(walk->loading, layer), out);
    }
  }
  if (walk->depth == MOST_DEPTH) goto out;
  for (size_t at = 0; at < names.size; at += strlen(names.data + at) + 1) {
    if (++walk->links > CR_HDF5_MOST_LINKS) break;
    if (names.data[at] != 'g') continue;
    CR_TRY_GOTO(cr_buffer_print(&walk->path, "/%s", names.data + at + 1), out);
    walk->depth += 1;
    CR_TRY_GOTO(visit_group(walk), out);
    walk->depth -= 1;
    walk->path.size = before;
    walk->path.data[before] = '\0';
  }
out:
  cr_buffer_free(&names);
  return status;
}

/* Fails for a file without /data and names its kind if an object shows it. */
static crema_status fail_foreign(cr_hdf5_reader *file) {
  static const struct {
    const char *path;
    cr_hdf5_kind kind;
    const char *text;
  } foreign[] = {{"/learned_net", CR_HDF5_SET, "a solver state"},
                 {"/iter", CR_HDF5_SET, "a solver state"},
                 {"/model_weights", CR_HDF5_GROUP, "a Keras model"},
                 {"/top_level_model_weights", CR_HDF5_GROUP, "Keras weights"},
                 {"/_layer_checkpoint_dependencies", CR_HDF5_GROUP, "Keras weights"},
                 {"/data", CR_HDF5_SET, "data of an HDF5Data layer"}};
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; ++i) {
    bool found;
    CR_TRY(has(file, foreign[i].path, foreign[i].kind, &found));
    if (!found) continue;
    return cr_fail(CREMA_E_CORRUPT, "has no group /data: it looks like %s, not like weights",
                   foreign[i].text);
  }
  return cr_fail(CREMA_E_CORRUPT, "has no group /data: not a model");
}

static crema_status load_file(crema_net *net, cr_hdf5_reader *file, cr_net_loading *loading) {
  bool is_model;
  CR_TRY(has(file, "/data", CR_HDF5_GROUP, &is_model));
  if (!is_model) return fail_foreign(file);
  spare_walk walk = {.file = file, .loading = loading};
  crema_status status = cr_buffer_print(&walk.path, "/data");
  if (status == CREMA_OK) status = visit_group(&walk);
  cr_buffer_free(&walk.path);
  CR_TRY(status);
  Caffe__NetParameter *norms = NULL;
  CR_TRY(cr_net_read_hdf5_norms(net, file, &norms));
  status = load_layers(net, false, file, norms, loading);
  if (status == CREMA_OK) status = load_layers(net, true, file, norms, loading);
  cr_message_free(&norms->base);
  return status;
}

crema_status cr_net_load_hdf5(crema_net *net, const char *path, cr_net_loading *loading) {
  cr_hdf5_reader *file = NULL;
  CR_TRY(cr_hdf5_reader_open(path, &file));
  crema_status status = cr_fail_in(load_file(net, file, loading), "%s", path);
  cr_hdf5_reader_close(file);
  return status;
}
