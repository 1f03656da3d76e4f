/* HDF5Output: writes blobs to an HDF5 file.
 *
 * Formula: none: the first bottom is written to the data set "data", the second to "label". Each
 * forward pass adds its samples.
 * Shapes: data (N, ...), label (N, ...) -> no top. Bottoms of fewer than 4 axes are written with
 * axes of extent 1 at the end, as Caffe does; doubles and integers as doubles, all else as floats.
 * Fields: hdf5_output_param.
 * Caffe: every forward pass adds its samples; Caffe stops at the second.
 * Example, x 2 3 4 4, label 2:
 *   layer { name: "out" type: "HDF5Output" bottom: "x" bottom: "label"
 *     hdf5_output_param { file_name: "samples.h5" } }
 *
 * The file is made anew when the net is. Solvers that share the layer write to one file, in the
 * order of their passes. */
#include "core/fail.h"
#include "core/log.h"
#include "data/pipeline/hdf5_set.h"
#include "layers/common/layer_noop.h"
#include "layers/data/adapters/input_base.h"

typedef struct hdf5_output_state {
  cr_hdf5_writer *writer;
} hdf5_output_state;

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  hdf5_output_state *s = layer->state;
  const Caffe__HDF5OutputParameter *param = layer->param->hdf5_output_param;
  (void)bottom, (void)top;
  if (param == NULL || param->file_name == NULL || param->file_name[0] == '\0') {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT, "hdf5_output_param with a file_name is required");
  }
  return cr_layer_in(layer, cr_hdf5_writer_open(param->file_name, &s->writer));
}

static crema_status reshape(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  const crema_shape *data = crema_blob_shape(bottom[0]), *label = crema_blob_shape(bottom[1]);
  char text[2][256];
  (void)top;
  if (data->axes > 0 && label->axes > 0 && data->dim[0] == label->dim[0]) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_SHAPE,
                       "both bottoms must have as many samples; shapes are %s and %s",
                       crema_shape_text(data, text[0], sizeof text[0]),
                       crema_shape_text(label, text[1], sizeof text[1]));
}

/* Doubles for values that floats cannot represent. */
static crema_dtype written_type(const crema_blob *blob) {
  crema_dtype type = crema_blob_data_type(blob);
  bool wide = type == CREMA_F64 || type == CREMA_I32 || type == CREMA_U32;
  return wide ? CREMA_F64 : CREMA_F32;
}

static size_t written_bytes(const crema_blob *blob) {
  return (size_t)crema_blob_count(blob) * crema_dtype_size(written_type(blob));
}

static crema_status append(hdf5_output_state *s, const char *name, crema_blob *blob) {
  crema_shape shape = *crema_blob_shape(blob);
  crema_dtype type = written_type(blob);
  const void *values = NULL;
  while (shape.axes < 4) shape.dim[shape.axes++] = 1;
  CR_TRY(crema_blob_data_as(blob, type, &values));
  return cr_hdf5_writer_append(s->writer, name, &shape, type, values);
}

/* Writes all of a pass or nothing. */
static crema_status write_pass(hdf5_output_state *s, crema_blob *const *bottom) {
  size_t bytes = written_bytes(bottom[0]) + written_bytes(bottom[1]);
  CR_TRY(cr_hdf5_writer_reserve(s->writer, bytes));
  CR_TRY(append(s, "data", bottom[0]));
  CR_TRY(append(s, "label", bottom[1]));
  CR_TRY(cr_hdf5_writer_flush(s->writer));
  cr_log_info("Successfully saved %lld rows", (long long)crema_blob_shape(bottom[0])->dim[0]);
  return CREMA_OK;
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  (void)context, (void)top;
  return cr_layer_in(layer, write_pass(layer->state, bottom));
}

static void destroy(cr_layer *layer) {
  hdf5_output_state *s = layer->state;
  cr_hdf5_writer_close(s->writer);
}

const cr_layer_class cr_layer_hdf5_output = {
    .type = "HDF5Output",
    .state_size = sizeof(hdf5_output_state),
    .bottoms = {2, 2},
    .tops = {0, 0},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .graph.shareable = true,
    .setup = setup,
    .reshape = reshape,
    .forward = forward,
    .backward = cr_layer_noop_backward,
    .destroy = destroy,
};
