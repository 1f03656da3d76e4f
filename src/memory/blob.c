#include "memory/blob.h"

#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "device/device.h"
#include "memory/math.h"
#include "memory/tensor_text.h"
#include "memory/view.h"

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

crema_status crema_blob_create_typed(const crema_shape *shape, crema_dtype data_type,
                                     crema_dtype diff_type, crema_blob **out) {
  CR_REQUIRE(shape);
  CR_REQUIRE(out);
  return cr_blob_create_typed(shape, data_type, diff_type, out);
}

void crema_blob_set_typed(crema_blob *blob, bool typed) {
  if (blob != NULL) blob->typed = typed;
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

/* Both or neither. */
static crema_status resize(crema_blob *blob, int64_t count) {
  if (count == crema_blob_count(blob)) return CREMA_OK;
  CR_TRY(cr_tensor_take_written(blob->data));
  CR_TRY(cr_tensor_take_written(blob->diff));
  CR_TRY(cr_tensor_prepare_resize(blob->diff, count));
  CR_TRY(cr_tensor_resize(blob->data, count));
  CR_TRY(cr_tensor_resize(blob->diff, count));
  ++blob->changes;
  return CREMA_OK;
}

crema_status crema_blob_reshape(crema_blob *blob, const crema_shape *shape) {
  CR_REQUIRE(blob);
  CR_REQUIRE(shape);
  CR_TRY(crema_shape_check(shape));
  CR_TRY(resize(blob, crema_shape_count(shape, 0, shape->axes)));
  blob->shape = *shape;
  return CREMA_OK;
}

cr_blob_seen cr_blob_look(const crema_blob *blob) {
  return (cr_blob_seen){blob->shape, blob->changes};
}

bool cr_blob_is_as_seen(const crema_blob *blob, const cr_blob_seen *seen) {
  return blob->changes == seen->changes && crema_shape_equal(&blob->shape, &seen->shape);
}

/* `out` points to a pointer to values. */
static crema_status host_values(const crema_blob *blob, bool diff, bool change, crema_dtype type,
                                void *out) {
  cr_tensor *tensor = diff ? blob->diff : blob->data;
  crema_dtype own = cr_tensor_type(tensor);
  crema_devptr values = {0};
  if (crema_dtype_size(type) == 0 || (blob->typed && type != own)) {
    return cr_fail(CREMA_E_TYPE, "the %s has type %s and cannot be accessed as %s",
                   diff ? "diff" : "data", crema_dtype_name(own), crema_dtype_name(type));
  }
  cr_format format = {type, NULL};
  if (change) CR_TRY(cr_tensor_take_written(tensor)); /* or it would count as newer later */
  CR_TRY(change ? cr_tensor_update(tensor, cr_host_context(), format, &values)
                : cr_tensor_read(tensor, cr_host_context(), format, &values));
  memcpy(out, &(void *){(void *)values.address}, sizeof(void *));
  return CREMA_OK;
}

crema_status crema_blob_cpu_data(crema_blob *blob, const float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, false, false, CREMA_F32, out);
}

crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, true, false, CREMA_F32, out);
}

crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, false, true, CREMA_F32, out);
}

crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, true, true, CREMA_F32, out);
}

crema_status crema_blob_data_as(crema_blob *blob, crema_dtype type, const void **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, false, false, type, out);
}

crema_status crema_blob_diff_as(crema_blob *blob, crema_dtype type, const void **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, true, false, type, out);
}

crema_status crema_blob_mutable_data_as(crema_blob *blob, crema_dtype type, void **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, false, true, type, out);
}

crema_status crema_blob_mutable_diff_as(crema_blob *blob, crema_dtype type, void **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return host_values(blob, true, true, type, out);
}

static crema_status check_swap(const cr_tensor *a, const cr_tensor *b) {
  if (cr_tensor_type(a) != cr_tensor_type(b)) {
    return cr_fail(CREMA_E_TYPE, "values of types %s and %s cannot be exchanged",
                   crema_dtype_name(cr_tensor_type(a)), crema_dtype_name(cr_tensor_type(b)));
  }
  if (cr_tensor_can_swap(a) && cr_tensor_can_swap(b)) return CREMA_OK;
  return cr_fail(CREMA_E_STATE, "values that others share or hold cannot be exchanged");
}

crema_status crema_blob_swap(crema_blob *a, crema_blob *b) {
  CR_REQUIRE(a);
  CR_REQUIRE(b);
  cr_tensor *const tensor[] = {a->data, a->diff, b->data, b->diff};
  if (a == b) return CREMA_OK;
  for (int i = 0; i < 4; ++i) CR_TRY(cr_tensor_take_written(tensor[i]));
  CR_TRY(check_swap(a->data, b->data));
  CR_TRY(check_swap(a->diff, b->diff));
  const crema_shape shape = a->shape;
  a->shape = b->shape;
  b->shape = shape;
  cr_tensor_swap(a->data, b->data);
  cr_tensor_swap(a->diff, b->diff);
  return CREMA_OK;
}

static crema_status adopt(crema_blob *blob, crema_device *device, crema_devptr data,
                          const char *call) {
  if (data.address == 0) return cr_fail(CREMA_E_ARGUMENT, "%s: no memory given", call);
  if (cr_tensor_type(blob->data) != CREMA_F32) {
    return cr_fail(CREMA_E_TYPE, "%s: the blob holds values of type %s", call,
                   crema_dtype_name(cr_tensor_type(blob->data)));
  }
  /* Data and diff both drop the memory of a larger shape, so that they keep one size. */
  CR_TRY(cr_tensor_take_written(blob->data));
  cr_tensor_shrink_to_fit(blob->diff);
  cr_tensor_shrink_to_fit(blob->data);
  CR_TRY(cr_tensor_adopt(blob->data, device, CREMA_F32, data, NULL));
  return cr_tensor_show_newest(blob->data);
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

crema_status crema_blob_view_data(crema_blob *blob, crema_view **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return cr_tensor_show(blob->data, out);
}

crema_status crema_blob_view_diff(crema_blob *blob, crema_view **out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return cr_tensor_show(blob->diff, out);
}

crema_status cr_blob_share_data(crema_blob *blob, crema_blob *donor) {
  const bool same = cr_tensor_shares_with(blob->data, donor->data);
  CR_TRY(cr_tensor_share(blob->data, donor->data));
  if (!same) ++blob->changes;
  return CREMA_OK;
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

uint64_t crema_blob_conversions(const crema_blob *blob) {
  if (blob == NULL) return 0;
  uint64_t data = cr_tensor_conversions(blob->data);
  bool same = cr_tensor_shares_with(blob->data, blob->diff);
  return same ? data : data + cr_tensor_conversions(blob->diff);
}

static crema_status print_state(crema_blob *blob, cr_buffer *out) {
  char shape[256];
  CR_TRY(cr_buffer_print(out, "blob %s%s\n", crema_shape_text(&blob->shape, shape, sizeof shape),
                         blob->typed ? ", typed" : ""));
  CR_TRY(cr_buffer_print(out, "data: "));
  CR_TRY(cr_tensor_print(blob->data, out));
  CR_TRY(cr_buffer_print(out, "diff: "));
  return cr_tensor_print(blob->diff, out);
}

crema_status crema_blob_text(crema_blob *blob, char *text, size_t size) {
  CR_REQUIRE(blob);
  CR_REQUIRE(text);
  cr_buffer out = {0};
  crema_status status = print_state(blob, &out);
  if (status == CREMA_OK && size > 0) {
    size_t bytes = out.size < size - 1 ? out.size : size - 1;
    memcpy(text, out.data, bytes);
    text[bytes] = '\0';
  }
  cr_buffer_free(&out);
  return status;
}

crema_status crema_blob_amax_data(crema_blob *blob, double *out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return cr_tensor_amax(blob->data, out);
}

crema_status crema_blob_amax_diff(crema_blob *blob, double *out) {
  CR_REQUIRE(blob);
  CR_REQUIRE(out);
  return cr_tensor_amax(blob->diff, out);
}

/* Arithmetic and copies.
 *
 * These functions use values written through views, and the views show the results. */

crema_status crema_blob_update(crema_blob *blob) {
  CR_REQUIRE(blob);
  CR_TRY(cr_tensor_take_written(blob->data));
  CR_TRY(cr_tensor_take_written(blob->diff));
  CR_TRY(cr_tensor_subtract(blob->data, blob->diff));
  return cr_tensor_show_newest(blob->data);
}

static crema_status scale_values(cr_tensor *tensor, float factor) {
  CR_TRY(cr_tensor_take_written(tensor));
  CR_TRY(cr_tensor_scale(tensor, factor));
  return cr_tensor_show_newest(tensor);
}

crema_status crema_blob_scale_data(crema_blob *blob, float factor) {
  CR_REQUIRE(blob);
  return scale_values(blob->data, factor);
}

crema_status crema_blob_scale_diff(crema_blob *blob, float factor) {
  CR_REQUIRE(blob);
  return scale_values(blob->diff, factor);
}

/* On the device that has the newest values. */
static crema_status copy_values(cr_tensor *tensor, cr_tensor *source) {
  crema_context *context = NULL;
  CR_TRY(cr_tensor_take_written(tensor)); /* or it would count as newer later */
  CR_TRY(cr_tensor_take_written(source));
  CR_TRY(cr_thread_context(cr_tensor_head_device(source), 0, &context));
  CR_TRY(cr_tensor_copy(tensor, source, context));
  CR_TRY(crema_context_finish(context));
  return cr_tensor_show_newest(tensor);
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
