#include "memory/blob.h"

#include <stdlib.h>

#include "core/fail.h"
#include "device/device.h"
#include "memory/math.h"

crema_status cr_blob_create_typed(const crema_shape *shape, crema_dtype data_type,
                                  crema_dtype diff_type, crema_blob **out) {
  CR_TRY(crema_shape_check(shape));
  crema_blob *blob = calloc(1, sizeof *blob);
  if (blob == NULL) return cr_fail_memory(sizeof *blob, "a blob");
  crema_status status;
  int64_t count = crema_shape_count(shape, 0, shape->axes);
  blob->shape = *shape;
  CR_TRY_GOTO(cr_tensor_create(data_type, count, &blob->data), fail);
  CR_TRY_GOTO(cr_tensor_create(diff_type, count, &blob->diff), fail);
  *out = blob;
  return CREMA_OK;
fail:
  crema_blob_destroy(blob);
  return status;
}

crema_status crema_blob_create(const crema_shape *shape, crema_blob **out) {
  CR_REQUIRE(shape);
  CR_REQUIRE(out);
  return cr_blob_create_typed(shape, CREMA_F32, CREMA_F32, out);
}

void crema_blob_destroy(crema_blob *blob) {
  if (blob == NULL) return;
  cr_tensor_destroy(blob->diff);
  cr_tensor_destroy(blob->data);
  free(blob);
}

const crema_shape *crema_blob_shape(const crema_blob *blob) {
  if (blob == NULL) return NULL;
  return &blob->shape;
}

int64_t crema_blob_count(const crema_blob *blob) {
  if (blob == NULL) return 0;
  return crema_shape_count(&blob->shape, 0, blob->shape.axes);
}

crema_status crema_blob_reshape(crema_blob *blob, const crema_shape *shape) {
  CR_REQUIRE(blob);
  CR_REQUIRE(shape);
  CR_TRY(crema_shape_check(shape));
  int64_t count = crema_shape_count(shape, 0, shape->axes);
  /* Both or neither. */
  CR_TRY(cr_tensor_prepare_resize(blob->diff, count));
  CR_TRY(cr_tensor_resize(blob->data, count));
  CR_TRY(cr_tensor_resize(blob->diff, count));
  blob->shape = *shape;
  return CREMA_OK;
}

static crema_status host_floats(cr_tensor *tensor, bool change, crema_devptr *out) {
  crema_context *context = cr_host_context();
  return change ? cr_tensor_update(tensor, context, CR_PLAIN_F32, out)
                : cr_tensor_read(tensor, context, CR_PLAIN_F32, out);
}

crema_status crema_blob_cpu_data(crema_blob *blob, const float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->data, false, &data));
  *out = (const float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->diff, false, &data));
  *out = (const float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->data, true, &data));
  *out = (float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->diff, true, &data));
  *out = (float *)data.address;
  return CREMA_OK;
}

static crema_status adopt(crema_blob *blob, crema_device *device, crema_devptr data,
                          const char *call) {
  if (data.address == 0) return cr_fail(CREMA_E_ARGUMENT, "%s: no memory given", call);
  if (cr_tensor_type(blob->data) != CREMA_F32) {
    return cr_fail(CREMA_E_TYPE, "%s: the blob holds values of type %s", call,
                   crema_dtype_name(cr_tensor_type(blob->data)));
  }
  /* Memory left from a larger shape goes, that of the diff too, so that both sides of the blob
   * keep one size. */
  cr_tensor_shrink_to_fit(blob->diff);
  cr_tensor_shrink_to_fit(blob->data);
  return cr_tensor_adopt(blob->data, device, data);
}

crema_status crema_blob_set_cpu_data(crema_blob *blob, float *data) {
  CR_REQUIRE(blob);
  CR_REQUIRE(data);
  return adopt(blob, cr_cpu_device(), (crema_devptr){(uintptr_t)data}, "set_cpu_data");
}

crema_status crema_blob_set_gpu_data(crema_blob *blob, crema_device *device, crema_devptr data) {
  CR_REQUIRE(blob);
  if (device == NULL) return cr_fail(CREMA_E_NO_DEVICE, "set_gpu_data: no device given");
  return adopt(blob, device, data, "set_gpu_data");
}

crema_status cr_blob_share_data(crema_blob *blob, crema_blob *donor) {
  return cr_tensor_share(blob->data, donor->data);
}

crema_status cr_blob_share_diff(crema_blob *blob, crema_blob *donor) {
  return cr_tensor_share(blob->diff, donor->diff);
}

crema_blob_memory crema_blob_memory_read(const crema_blob *blob) {
  if (blob == NULL) return (crema_blob_memory){0};
  cr_tensor_memory data = cr_tensor_memory_of(blob->data), diff = cr_tensor_memory_of(blob->diff);
  return (crema_blob_memory){.data_host = data.host,
                             .data_device = data.device,
                             .diff_host = diff.host,
                             .diff_device = diff.device};
}

crema_dtype crema_blob_data_type(const crema_blob *blob) {
  if (blob == NULL) return (crema_dtype)0;
  return cr_tensor_type(blob->data);
}

crema_dtype crema_blob_diff_type(const crema_blob *blob) {
  if (blob == NULL) return (crema_dtype)0;
  return cr_tensor_type(blob->diff);
}

/* ---- sums ---- */

crema_status cr_blob_asum_data(crema_blob *blob, double *out) {
  return cr_tensor_asum(blob->data, out);
}

crema_status cr_blob_asum_diff(crema_blob *blob, double *out) {
  return cr_tensor_asum(blob->diff, out);
}

crema_status cr_blob_sumsq_data(crema_blob *blob, double *out) {
  return cr_tensor_sumsq(blob->data, out);
}

crema_status cr_blob_sumsq_diff(crema_blob *blob, double *out) {
  return cr_tensor_sumsq(blob->diff, out);
}

/* ---- arithmetic and copies ---- */

crema_status crema_blob_update(crema_blob *blob) {
  CR_REQUIRE(blob);
  return cr_tensor_subtract(blob->data, blob->diff);
}

crema_status crema_blob_scale_data(crema_blob *blob, float factor) {
  CR_REQUIRE(blob);
  return cr_tensor_scale(blob->data, factor);
}

crema_status crema_blob_scale_diff(crema_blob *blob, float factor) {
  CR_REQUIRE(blob);
  return cr_tensor_scale(blob->diff, factor);
}

/* On the device that has the newest values. */
static crema_status copy_values(cr_tensor *tensor, cr_tensor *source) {
  crema_context *context = NULL;
  CR_TRY(cr_thread_context(cr_tensor_head_device(source), 0, &context));
  CR_TRY(cr_tensor_copy(tensor, source, context));
  return crema_context_finish(context);
}

crema_status crema_blob_copy_data(crema_blob *blob, crema_blob *source) {
  CR_REQUIRE(blob);
  CR_REQUIRE(source);
  return copy_values(blob->data, source->data);
}

crema_status crema_blob_copy_diff(crema_blob *blob, crema_blob *source) {
  CR_REQUIRE(blob);
  CR_REQUIRE(source);
  return copy_values(blob->diff, source->diff);
}

/* ---- shapes ---- */

crema_shape cr_shape(int axes, const int64_t *dim) {
  crema_shape shape = {.axes = axes};
  for (int i = 0; i < axes && i < CREMA_MAX_AXES; ++i) shape.dim[i] = dim[i];
  return shape;
}

crema_shape cr_shape_1(int64_t a) {
  return cr_shape(1, (const int64_t[]){a});
}

crema_shape cr_shape_2(int64_t a, int64_t b) {
  return cr_shape(2, (const int64_t[]){a, b});
}

crema_shape cr_shape_3(int64_t a, int64_t b, int64_t c) {
  return cr_shape(3, (const int64_t[]){a, b, c});
}

crema_shape cr_shape_4(int64_t a, int64_t b, int64_t c, int64_t d) {
  return cr_shape(4, (const int64_t[]){a, b, c, d});
}
