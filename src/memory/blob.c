#include "memory/blob.h"

#include <math.h>
#include <stdlib.h>

#include "core/fail.h"

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
  return cr_blob_create_typed(shape, CREMA_F32, CREMA_F32, out);
}

void crema_blob_destroy(crema_blob *blob) {
  if (blob == NULL) return;
  cr_tensor_destroy(blob->diff);
  cr_tensor_destroy(blob->data);
  free(blob);
}

const crema_shape *crema_blob_shape(const crema_blob *blob) {
  return &blob->shape;
}

int64_t crema_blob_count(const crema_blob *blob) {
  return crema_shape_count(&blob->shape, 0, blob->shape.axes);
}

crema_status crema_blob_reshape(crema_blob *blob, const crema_shape *shape) {
  CR_TRY(crema_shape_check(shape));
  int64_t count = crema_shape_count(shape, 0, shape->axes);
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
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->data, false, &data));
  *out = (const float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) {
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->diff, false, &data));
  *out = (const float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) {
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->data, true, &data));
  *out = (float *)data.address;
  return CREMA_OK;
}

crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) {
  crema_devptr data = {0};
  CR_TRY(host_floats(blob->diff, true, &data));
  *out = (float *)data.address;
  return CREMA_OK;
}

crema_status cr_blob_share_data(crema_blob *blob, crema_blob *donor) {
  return cr_tensor_share(blob->data, donor->data);
}

crema_status cr_blob_share_diff(crema_blob *blob, crema_blob *donor) {
  return cr_tensor_share(blob->diff, donor->diff);
}

crema_blob_memory crema_blob_memory_read(const crema_blob *blob) {
  cr_tensor_memory data = cr_tensor_memory_of(blob->data), diff = cr_tensor_memory_of(blob->diff);
  return (crema_blob_memory){.data_host = data.host,
                             .data_device = data.device,
                             .diff_host = diff.host,
                             .diff_device = diff.device};
}

crema_dtype crema_blob_data_type(const crema_blob *blob) {
  return cr_tensor_type(blob->data);
}

crema_dtype crema_blob_diff_type(const crema_blob *blob) {
  return cr_tensor_type(blob->diff);
}

/* ---- sums ---- */

/* Eight partial sums hide the latency of the adder; the order is the same in every run. */
enum { LANES = 8 };

static double sum_of(const float *value, int64_t count, bool squared) {
  double lane[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    for (int l = 0; l < LANES; l++) {
      double x = value[i + l];
      lane[l] += squared ? x * x : fabs(x);
    }
  }
  for (int l = 0; i < count; i++, l++) {
    double x = value[i];
    lane[l] += squared ? x * x : fabs(x);
  }
  return ((lane[0] + lane[1]) + (lane[2] + lane[3])) + ((lane[4] + lane[5]) + (lane[6] + lane[7]));
}

static double sum_of_doubles(const double *value, int64_t count, bool squared) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) sum += squared ? value[i] * value[i] : fabs(value[i]);
  return sum;
}

static crema_status sum_tensor(cr_tensor *tensor, bool squared, double *out) {
  crema_dtype type = cr_tensor_type(tensor);
  if (type != CREMA_F32 && type != CREMA_F64 && type != CREMA_F16 && type != CREMA_BF16) {
    return cr_fail(CREMA_E_TYPE, "no sum over values of type %s", crema_dtype_name(type));
  }
  if (cr_tensor_is_zero(tensor)) {
    *out = 0;
    return CREMA_OK;
  }
  int64_t count = cr_tensor_count(tensor);
  cr_form form = {type == CREMA_F64 ? CREMA_F64 : CREMA_F32, NULL};
  crema_devptr data = {0};
  CR_TRY(cr_tensor_read(tensor, cr_host_context(), form, &data));
  *out = type == CREMA_F64 ? sum_of_doubles((const double *)data.address, count, squared)
                           : sum_of((const float *)data.address, count, squared);
  return CREMA_OK;
}

crema_status cr_blob_asum_data(crema_blob *blob, double *out) {
  return sum_tensor(blob->data, false, out);
}

crema_status cr_blob_asum_diff(crema_blob *blob, double *out) {
  return sum_tensor(blob->diff, false, out);
}

crema_status cr_blob_sumsq_data(crema_blob *blob, double *out) {
  return sum_tensor(blob->data, true, out);
}

crema_status cr_blob_sumsq_diff(crema_blob *blob, double *out) {
  return sum_tensor(blob->diff, true, out);
}

/* ---- shapes ---- */

crema_shape cr_shape(int axes, const int64_t *dim) {
  crema_shape shape = {.axes = axes};
  for (int i = 0; i < axes && i < CREMA_MAX_AXES; i++) shape.dim[i] = dim[i];
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
