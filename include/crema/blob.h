/* Blobs: arrays of values, each with a gradient of the same shape.
 *
 * A blob owns two tensors, data and diff. The host accessors return pointers to
 * plain, densely packed float32 values in row-major order (NCHW for images) and
 * copy or convert only when the newest values are elsewhere or in another memory format. A
 * pointer stays valid until the blob is reshaped, freed, or its values are next
 * computed or accessed in another format. One thread uses a blob at a time. */
#ifndef CREMA_BLOB_H
#define CREMA_BLOB_H

#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of values and its gradient. */
typedef struct crema_blob crema_blob;

/* Makes a blob of float32 values, all zero on first access. Free with crema_blob_destroy. Errors:
 * CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_blob_create(const crema_shape *shape, crema_blob **out) CREMA_MUST_USE;
CREMA_API void crema_blob_destroy(crema_blob *blob);

/* The current shape. Owned by the blob. */
CREMA_API const crema_shape *crema_blob_shape(const crema_blob *blob);
CREMA_API int64_t crema_blob_count(const crema_blob *blob);

/* Changes the shape. Memory is kept when it is large enough; values are kept only while the
 * count does not grow. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY, CREMA_E_DEVICE; the blob is then
 * as before. */
CREMA_API crema_status crema_blob_reshape(crema_blob *blob,
                                          const crema_shape *shape) CREMA_MUST_USE;

/* Host access to data and diff: to read, or (mutable) to read and change.
 * *out stays owned by the blob. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_blob_cpu_data(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) CREMA_MUST_USE;

/* Makes the caller's memory of crema_blob_count float32 values the blob's data; it stays the
 * caller's and must live until the blob is destroyed, reshaped or given other memory. When the blob
 * was larger before, the diff's memory is let go and the diff reads as zeros. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_TYPE. */
CREMA_API crema_status crema_blob_set_cpu_data(crema_blob *blob, float *data) CREMA_MUST_USE;

/* The same with memory of `device` at `data`, as its kernels reach it. Errors: also
 * CREMA_E_NO_DEVICE without a device. */
CREMA_API crema_status crema_blob_set_gpu_data(crema_blob *blob, crema_device *device,
                                               crema_devptr data) CREMA_MUST_USE;

/* What a step of training without a solver needs, done where the newest values are. update takes
 * the diff from the data (data = data - diff); scale multiplies with `factor`; copy takes over the
 * values of `source`, which has the same count and element type. Errors: CREMA_E_SHAPE,
 * CREMA_E_TYPE (also for integers), CREMA_E_STATE for the update of data that was never set,
 * CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_blob_update(crema_blob *blob) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_data(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_diff(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_data(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_diff(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;

/* Bytes of memory that the values take now: on the host, and on devices with memory of their
 * own. Blobs that share values report the same bytes each. */
typedef struct crema_blob_memory {
  size_t data_host, data_device; /* of data */
  size_t diff_host, diff_device; /* of diff */
} crema_blob_memory;
CREMA_API crema_blob_memory crema_blob_memory_read(const crema_blob *blob);

/* The element types of data and diff. */
CREMA_API crema_dtype crema_blob_data_type(const crema_blob *blob);
CREMA_API crema_dtype crema_blob_diff_type(const crema_blob *blob);

#ifdef __cplusplus
}
#endif
#endif
