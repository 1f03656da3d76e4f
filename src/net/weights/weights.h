/* The values of a net's parameters as messages and in files: binary models of any dialect, HDF5. */
#ifndef CR_NET_WEIGHTS_WEIGHTS_H
#define CR_NET_WEIGHTS_WEIGHTS_H

#include "core/file.h"
#include "core/hdf5_reader.h"
#include "memory/tensor_source.h"
#include "net/common/net_struct.h"
#include "proto/proto.h"

/* Loading files (loading.c): */

/* The reaction to layers whose parameters are in no file of weights: fail, warn about each layer,
 * or nothing. In the last case a file need not have anything for the net. */
typedef enum cr_net_missing {
  CR_MISSING_REFUSED,
  CR_MISSING_WARNED,
  CR_MISSING_IGNORED
} cr_net_missing;

/* Loads files of weights, each over the files before it. Layers that share parameters count as
 * loaded if the owner is loaded, and vice versa. After a failure the net has the values of the
 * files before. Does not warn about layers that `other` (may be NULL) has as well. */
crema_status cr_net_load_files(crema_net *net, const char *const *path, size_t count,
                               cr_net_missing missing, const crema_net *other) CREMA_MUST_USE;

/* Weights from `size` bytes of a file in wire format, which the caller may free afterwards.
 * `source` (may be NULL) names them in messages. */
crema_status cr_net_load_bytes(crema_net *net, const void *bytes, size_t size, const char *source,
                               cr_net_missing missing) CREMA_MUST_USE;

/* Saving (save.c, hdf5_model.c): */

/* Flags for writing values: with the diffs; in Caffe's own fields; as HDF5 for any file name (see
 * crema_save_options). */
enum { CR_SAVE_DIFFS = 1, CR_SAVE_OLD_FORMAT = 2, CR_SAVE_HDF5 = 4 };

/* crema_net_save_weights_with; `save` is a sum of CR_SAVE_DIFFS and so on. */
crema_status cr_net_save(crema_net *net, const char *path, unsigned save) CREMA_MUST_USE;
/* The same into a draft that the caller begins and ends. */
crema_status cr_net_write(crema_net *net, cr_file_draft *draft, unsigned save) CREMA_MUST_USE;

/* Weights as a message; `save` is a sum as above. The values are not copied: the message is valid
 * until a parameter changes. Free it with cr_net_proto_free, which accepts NULL. */
crema_status cr_net_to_proto(crema_net *net, unsigned save,
                             Caffe__NetParameter **out) CREMA_MUST_USE;
void cr_net_proto_free(Caffe__NetParameter *message);

/* Whether the name selects HDF5: it ends in ".h5". */
bool cr_net_is_named_hdf5(const char *path);

/* Whether the names of the layers allow an HDF5 model: each layer with parameters needs its own
 * name. Errors: CREMA_E_ARGUMENT for a missing name, CREMA_E_EXISTS for a name that two layers
 * have. */
crema_status cr_net_check_hdf5(const crema_net *net, bool with_diffs) CREMA_MUST_USE;

/* Converting files (convert.c): */

/* The result of a conversion. Values that were not finite before count as values only. */
typedef struct cr_convert_report {
  uint64_t blobs, values;
  uint64_t kept;     /* blobs of integers, which stay as they are */
  uint64_t infinite; /* values beyond the range of the new type */
  uint64_t zero;     /* values other than 0 that became 0 */
  double worst;      /* largest relative error of the other values */
} cr_convert_report;

/* Reads the binary model `in`, of any dialect and format, and writes it to `out`. Rounds all values
 * of parameters (and their gradients) to `type`: F64, F32, F16 or BF16. With `old_format` they are
 * in fields that BVLC's Caffe reads, doubles or floats; see crema_save_options. All else in the
 * file is copied byte for byte; no net is built. Memory holds the file and, while it is written,
 * two copies of the result for one layer. `out` may be `in`. Errors name the file: CREMA_E_CORRUPT,
 * CREMA_E_NOT_FOUND for a file without parameters, CREMA_E_IO, and the errors of reading. */
crema_status cr_model_convert(const char *in, const char *out, crema_dtype type, bool old_format,
                              cr_convert_report *report) CREMA_MUST_USE;

/* Files in wire format while they are loaded (stored.c): */

typedef struct cr_net_stored {
  cr_stored_net net;
  cr_tensor_source *source; /* of the values that are in the file; NULL: none are */
} cr_net_stored;

/* As cr_stored_net_open. */
crema_status cr_net_stored_open(const char *path, size_t run, cr_net_stored *out) CREMA_MUST_USE;
/* For a net that is not trained, which may run no more than once: see memory/tensor_source.h. */
crema_status cr_net_stored_use_once(cr_net_stored *stored) CREMA_MUST_USE;
/* Tensors whose values are still in the file keep it open. */
void cr_net_stored_close(cr_net_stored *stored);

/* One blob (blob_proto.c): */

/* One blob as BlobProto, whose values stay the blob's: valid until they change. Free it with
 * cr_blob_proto_free, which accepts NULL. `save` is a sum of CR_SAVE_DIFFS and so on. */
crema_status cr_blob_to_proto(crema_blob *blob, unsigned save,
                              Caffe__BlobProto **out) CREMA_MUST_USE;
void cr_blob_proto_free(Caffe__BlobProto *proto);

/* A blob from a BlobProto; any dialect's fields. The blob keeps its own type. Values of that type
 * and doubles are stored as they are; a blob of 16 bits gets floats, which cr_tensor_settle rounds.
 * `reshape` false: the shapes must agree (cr_blob_proto_fits). Errors: CREMA_E_SHAPE,
 * CREMA_E_CORRUPT when the number of values does not fit the shape, CREMA_E_TYPE for a blob of
 * integers and values of another type. */
crema_status cr_blob_from_proto(crema_blob *blob, const Caffe__BlobProto *proto,
                                bool reshape) CREMA_MUST_USE;
/* The same without `reshape` for values that may still be in the file of `stored` (NULL: they are
 * not). Values of the blob's own type are then read at their first use. */
crema_status cr_blob_from_stored(crema_blob *blob, const Caffe__BlobProto *proto,
                                 const cr_net_stored *stored) CREMA_MUST_USE;

/* A new message of a shape in a message's field; the message owns it, also after a failure. */
crema_status cr_shape_to_proto(const crema_shape *shape, Caffe__BlobShape **slot) CREMA_MUST_USE;

/* Shape of a BlobProto, legacy num/channels/height/width included. Errors: CREMA_E_SHAPE. */
crema_status cr_blob_proto_shape(const Caffe__BlobProto *proto, crema_shape *out) CREMA_MUST_USE;

/* Checks that the proto has the number of values of its shape, and stores the shape in *shape.
 * Errors: CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_blob_proto_check(const Caffe__BlobProto *proto, crema_shape *shape) CREMA_MUST_USE;

/* Whether a blob of `shape` can take the proto's values: equal shapes, or, for a legacy 4-D
 * proto, equal after ones are put in front of `shape`. */
bool cr_blob_proto_fits(const Caffe__BlobProto *proto, const crema_shape *shape);

/* A message's data or diff, in any of its fields; owned by the message. `at` need not be aligned.
 */
typedef struct cr_blob_values {
  const void *at;
  crema_dtype type;
  size_t count; /* 0: none */
} cr_blob_values;

/* Finds both, checks their counts against the shape, and stores the shape in *shape. Errors:
 * CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_blob_values_find(const Caffe__BlobProto *proto, crema_shape *shape,
                                 cr_blob_values *data, cr_blob_values *diff) CREMA_MUST_USE;

/* Writes all values to `out` as elements of `type`, rounded to nearest even. */
crema_status cr_blob_values_copy(const cr_blob_values *values, crema_dtype type,
                                 void *out) CREMA_MUST_USE;

/* How values are written. */
typedef struct cr_blob_field {
  crema_dtype type;
  bool raw; /* as bytes with their type; otherwise as Caffe's repeated float or double */
} cr_blob_field;

/* The field for values of `type`. Floats are always in Caffe's own field; halves (widened to
 * floats) and doubles are in the old format. Errors: CREMA_E_TYPE for a type that no field holds.
 */
crema_status cr_blob_field_for(crema_dtype type, bool old_format,
                               cr_blob_field *out) CREMA_MUST_USE;

/* Makes `values`, `count` elements of field.type, the message's data or diff, without a copy. */
void cr_blob_field_set(Caffe__BlobProto *proto, bool diff, cr_blob_field field, void *values,
                       size_t count);

/* Shared by the files of this folder: */

/* State of loading files of weights one after another. */
typedef struct cr_net_loading {
  const crema_net *net;
  cr_net_missing missing;
  size_t files; /* begun so far */
  bool last;    /* no other file follows the one being loaded */
  bool *given;  /* one per learnable parameter: a file has values for it */
  char **spare; /* layers that the files have parameters for and the net does not have */
  size_t spares;
  size_t ignored; /* layers of the file being loaded that the net does not have */
} cr_net_loading;

/* Parameters whose values are in the net's own text need none from a file. End it also after a
 * failure. */
crema_status cr_net_loading_begin(cr_net_loading *loading) CREMA_MUST_USE;
void cr_net_loading_end(cr_net_loading *loading);

/* Warns about layers that no file has values for and that `other` (may be NULL) does not have. */
void cr_net_warn_of_missing(const cr_net_loading *loading, const crema_net *other);

/* The first notes that the file being loaded has values for an entry of net->net_param, the second
 * that it has values for a layer that the net lacks. */
void cr_net_note_given(cr_net_loading *loading, int entry);
crema_status cr_net_note_spare(cr_net_loading *loading, const char *name) CREMA_MUST_USE;

/* Logs how many layers of the file `source` the net does not have, with the names of some. For the
 * end of a file that was loaded; the count starts at 0 for the next file. */
crema_status cr_net_report_ignored(cr_net_loading *loading, const char *source) CREMA_MUST_USE;

/* Fails with CREMA_E_NOT_FOUND when the net has parameters and `matched`, the number of its layers
 * that a file of weights has values for, is 0: the net would run untrained. After the last file it
 * also rejects layers without weights, if loading->missing requests it. The text names the first
 * such layer and similar names in the file. */
crema_status cr_net_check_matched(const crema_net *net, int matched,
                                  const cr_net_loading *loading) CREMA_MUST_USE;

/* Weights from a file. All shapes are checked before anything changes. `loading` (may be NULL)
 * gets which parameters were given. */
crema_status cr_net_from_stored(crema_net *net, const cr_net_stored *stored,
                                cr_net_loading *loading) CREMA_MUST_USE;

/* Checks that the message has the layer's parameters, in their shapes; copies them. `stored` as
 * for cr_blob_from_stored. Errors: CREMA_E_ARGUMENT, CREMA_E_SHAPE, CREMA_E_CORRUPT. */
crema_status cr_net_check_stored_layer(const cr_layer *layer,
                                       const Caffe__LayerParameter *source) CREMA_MUST_USE;
crema_status cr_net_copy_stored_layer(const cr_layer *layer, const Caffe__LayerParameter *source,
                                      const cr_net_stored *stored) CREMA_MUST_USE;

/* Whether the file exists and has the signature of an HDF5 file. */
bool cr_net_is_hdf5(const char *path);

/* Weights in HDF5: /data/<layer>/<i> and, with diffs, /diff/<layer>/<i>, doubles or (halves too)
 * floats. Parameters that share another's values have no data set under /data. Loading checks all
 * shapes before it changes anything. */
crema_status cr_net_write_hdf5(const crema_net *net, cr_file_draft *draft,
                               bool with_diffs) CREMA_MUST_USE;
crema_status cr_net_load_hdf5(crema_net *net, const char *path,
                              cr_net_loading *loading) CREMA_MUST_USE;

/* *out: a net of the layers that the upgrade divides into two, with the values that the file has
 * for them (hdf5_norm.c). Free it with cr_message_free. Fails as the file does. */
crema_status cr_net_read_hdf5_norms(const crema_net *net, cr_hdf5_reader *file,
                                    Caffe__NetParameter **out) CREMA_MUST_USE;

/* The layer of that name in such a net; NULL: there is none. */
const Caffe__LayerParameter *cr_net_find_hdf5_norm(const Caffe__NetParameter *norms,
                                                   const char *name);

#endif
