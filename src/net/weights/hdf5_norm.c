/* Layers that are one in an HDF5 model and two in the net. The upgrade of nets divides a BatchNorm
 * of the NVIDIA dialect or of Intel Caffe, and PSPNet's BN, into a BatchNorm and a Scale. Their
 * data sets go through the same upgrade, as layers of a binary model do. */
#include "net/weights/weights.h"

#include <string.h>

#include "core/fail.h"
#include "net/common/fail.h"
#include "proto/field.h"
#include "proto/proto.h"

enum { MOST_SETS = 5 };

/* The Scale that the upgrade of the net made from `norm`; *out is NULL if there is none. */
static crema_status find_scale(const crema_net *net, const cr_layer *norm, cr_buffer *path,
                               const cr_layer **out) {
  *out = NULL;
  if (!norm->kind->graph.statistics || norm->name[0] == '\0') return CREMA_OK;
  cr_buffer_clear(path);
  CR_TRY(cr_buffer_print(path, "%s%s", norm->name, CR_UPGRADED_SCALE));
  const int scale = cr_net_find_layer(net, path->data);
  if (scale >= 0) *out = net->layer[scale].layer;
  return CREMA_OK;
}

static crema_status make_blob(const cr_hdf5_info *set, Caffe__BlobProto **out) {
  crema_shape shape;
  if (set->class != CR_HDF5_FLOAT && set->class != CR_HDF5_INTEGER) {
    return cr_fail(CREMA_E_TYPE, "its values are not numbers");
  }
  CR_TRY(cr_hdf5_shape(set, &shape));
  CR_TRY(cr_hdf5_check_claim(set));
  CR_TRY(cr_message_new(&caffe__blob_proto__descriptor, out));
  CR_TRY(cr_shape_to_proto(&shape, &(*out)->shape));
  CR_TRY(cr_message_reserve(&(*out)->base, "data", (size_t)set->count));
  (*out)->n_data = (size_t)set->count;
  return CREMA_OK;
}

static crema_status read_blob(cr_hdf5_reader *file, const char *path, const cr_hdf5_info *set,
                              Caffe__LayerParameter *to) {
  Caffe__BlobProto **blob = &to->blobs[to->n_blobs];
  *blob = NULL;
  crema_status status = make_blob(set, blob);
  if (*blob != NULL) ++to->n_blobs;
  if (status == CREMA_OK && set->count > 0) {
    status = cr_hdf5_read(file, path, CR_HDF5_F32, (*blob)->data, set->count * sizeof(float));
  }
  return cr_fail_in(status, "%s", path);
}

/* Sets the type of the file's layer. Its momentum is taken from the net, as the file does not say
 * it. */
static crema_status set_type(const cr_layer *norm, bool bn, Caffe__LayerParameter *to) {
  const Caffe__BatchNormParameter *given = norm->param->batch_norm_param;
  to->name = cr_proto_strdup(norm->name);
  to->type = cr_proto_strdup(bn ? "BN" : norm->kind->type);
  if (to->name == NULL || to->type == NULL) return cr_fail_memory(1, "a layer's name");
  CR_TRY(cr_message_reserve(&to->base, "blobs", MOST_SETS));
  if (!bn || given == NULL) return CREMA_OK;
  CR_TRY(cr_message_inner(&to->base, "bn_param", &to->bn_param));
  to->bn_param->has_momentum = 1;
  to->bn_param->momentum = given->moving_average_fraction;
  return CREMA_OK;
}

static crema_status read_norm(const cr_layer *norm, const cr_layer *scale, cr_hdf5_reader *file,
                              cr_buffer *path, Caffe__NetParameter *to) {
  cr_hdf5_info set[MOST_SETS];
  ProtobufCMessage *layer = NULL;
  int sets = 0;
  for (; sets < MOST_SETS; ++sets) {
    cr_buffer_clear(path);
    CR_TRY(cr_buffer_print(path, "/data/%s/%d", norm->name, sets));
    CR_TRY(cr_hdf5_look(file, path->data, &set[sets]));
    if (set[sets].kind != CR_HDF5_SET) break;
  }
  if (sets < MOST_SETS - 1) return CREMA_OK;
  CR_TRY(cr_message_new(&caffe__layer_parameter__descriptor, &layer));
  to->layer[to->n_layer++] = (Caffe__LayerParameter *)layer;
  /* Intel Caffe's four have no shift. */
  CR_TRY(set_type(norm, sets < MOST_SETS && scale->params == 2, to->layer[to->n_layer - 1]));
  for (int i = 0; i < sets; ++i) {
    cr_buffer_clear(path);
    CR_TRY(cr_buffer_print(path, "/data/%s/%d", norm->name, i));
    CR_TRY(read_blob(file, path->data, &set[i], to->layer[to->n_layer - 1]));
  }
  return CREMA_OK;
}

crema_status cr_net_read_hdf5_norms(const crema_net *net, cr_hdf5_reader *file,
                                    Caffe__NetParameter **out) {
  ProtobufCMessage *message = NULL;
  cr_buffer path = {0};
  crema_status status = CREMA_OK;
  CR_TRY(cr_message_new(&caffe__net_parameter__descriptor, &message));
  Caffe__NetParameter *norms = (Caffe__NetParameter *)message;
  norms->layer = cr_proto_alloc(((size_t)net->layers + 1) * sizeof *norms->layer);
  if (norms->layer == NULL) {
    status = cr_fail_memory((size_t)net->layers * sizeof *norms->layer, "layers of a file");
  }
  for (int i = 0; i < net->layers && status == CREMA_OK; ++i) {
    const cr_layer *norm = net->layer[i].layer, *scale = NULL;
    if (cr_net_find_layer(net, norm->name) != i) continue;
    CR_TRY_GOTO(find_scale(net, norm, &path, &scale), out);
    if (scale != NULL) CR_TRY_GOTO(read_norm(norm, scale, file, &path, norms), out);
  }
  if (status == CREMA_OK) status = cr_net_param_upgrade(norms, "an HDF5 model", NULL);
out:
  cr_buffer_free(&path);
  if (status == CREMA_OK) *out = norms;
  else cr_message_free(message);
  return status;
}

const Caffe__LayerParameter *cr_net_find_hdf5_norm(const Caffe__NetParameter *norms,
                                                   const char *name) {
  for (size_t i = 0; i < norms->n_layer; ++i) {
    if (strcmp(cr_net_text(norms->layer[i]->name), name) == 0) return norms->layer[i];
  }
  return NULL;
}
