/* Blobs: arrays of values, each with a gradient of the same shape.
 *
 * A blob owns two tensors: data (the values) and diff (their gradient). Each has its own element
 * type.
 *
 * The host accessors return pointers to densely packed values in row-major order (NCHW for images).
 * The values are float32 or of the type that the caller asks for. An accessor copies or converts
 * only if the newest values are on a device, in another type or in another memory format.
 *
 * A converted copy stays alongside its source. Reading in turns in two types therefore converts
 * only once. A write makes all other copies stale.
 *
 * A pointer stays valid until the blob is reshaped or freed, or its values are next computed or
 * accessed in another type. One thread uses a blob at a time. */
#ifndef CREMA_BLOB_H
#define CREMA_BLOB_H

#include "crema/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An array of values and its gradient. */
typedef struct crema_blob crema_blob;

/* Creates a blob of float32 values, which are all zero at the first access. Free with
 * crema_blob_destroy. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY. */
CREMA_API crema_status crema_blob_create(const crema_shape *shape, crema_blob **out) CREMA_MUST_USE;

/* Creates a blob whose data has element type `data_type` and whose diff has `diff_type`. All values
 * are zero at the first access. Free with crema_blob_destroy. Errors: CREMA_E_SHAPE,
 * CREMA_E_NO_MEMORY, CREMA_E_TYPE for an unknown element type. */
CREMA_API crema_status crema_blob_create_typed(const crema_shape *shape, crema_dtype data_type,
                                               crema_dtype diff_type,
                                               crema_blob **out) CREMA_MUST_USE;

/* Frees a blob. Accepts NULL. */
CREMA_API void crema_blob_destroy(crema_blob *blob);

/* If `typed` is true, host access in an element type other than the blob's own fails with
 * CREMA_E_TYPE instead of converting. This includes the float32 accessors. Use it to find the code
 * that causes conversions. */
CREMA_API void crema_blob_set_typed(crema_blob *blob, bool typed);

/* The current shape, owned by the blob, and the number of values in it. */
CREMA_API const crema_shape *crema_blob_shape(const crema_blob *blob);
CREMA_API int64_t crema_blob_count(const crema_blob *blob);

/* Changes the shape. The blob keeps its memory if that is large enough, and its values if the count
 * does not grow.
 *
 * Blobs of a net can share values, for example if several layers read one top. Reshaping one of
 * them to another count gives it its own memory and leaves the rest unchanged. The next pass of the
 * net gives all of them the new shape.
 *
 * Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. The blob is unchanged after an error.
 */
CREMA_API crema_status crema_blob_reshape(crema_blob *blob,
                                          const crema_shape *shape) CREMA_MUST_USE;

/* Host access to data and diff as float32, for reading or (mutable) for reading and writing. *out
 * stays owned by the blob. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_TYPE (see
 * crema_blob_set_typed). */
CREMA_API crema_status crema_blob_cpu_data(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) CREMA_MUST_USE;

/* Host access to data and diff as values of `type`: double, float, int32_t and so on. float16 and
 * bfloat16 values are uint16_t bit patterns.
 *
 * Conversion to a float type rounds to nearest even. Conversion to an integer type also rounds to
 * nearest even, clamps to the type's range and maps NaN to 0. Conversion to bool maps 0 to 0 and
 * any other value to 1.
 *
 * After mutable access in another type, the newest values are in that type and have its precision.
 * They are converted when something needs them in the blob's own type.
 *
 * *out stays owned by the blob. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_TYPE for an
 * unknown element type or as crema_blob_set_typed says. */
CREMA_API crema_status crema_blob_data_as(crema_blob *blob, crema_dtype type,
                                          const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_diff_as(crema_blob *blob, crema_dtype type,
                                          const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_data_as(crema_blob *blob, crema_dtype type,
                                                  void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_diff_as(crema_blob *blob, crema_dtype type,
                                                  void **out) CREMA_MUST_USE;

/* The number of conversions of data and diff between element types so far. */
CREMA_API uint64_t crema_blob_conversions(const crema_blob *blob);

/* The largest absolute value of float data or diff. 0 for a blob without values, NaN if any value
 * is NaN. Errors: CREMA_E_TYPE for integers, CREMA_E_STATE if the net's memory plan has given the
 * blob's memory to another blob, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_blob_amax_data(crema_blob *blob, double *out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_amax_diff(crema_blob *blob, double *out) CREMA_MUST_USE;

/* Describes a blob as text, for debugging. The text has the shape and, for data and diff:
 *
 * - the number and the type of the values
 * - each copy held: its type, layout and place, whether it is valid, which was written last
 * - the first 20 values
 * - the positions of the first 20 values that are infinite or NaN
 *
 * Reads the values on the host. Writes at most `size` bytes to `text`, including the terminating
 * zero. CREMA_BLOB_TEXT bytes are enough. Errors: CREMA_E_STATE if the net's memory plan has given
 * the blob's memory to another blob, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
enum { CREMA_BLOB_TEXT = 8192 };
CREMA_API crema_status crema_blob_text(crema_blob *blob, char *text, size_t size) CREMA_MUST_USE;

/* Uses the caller's memory `data`, of crema_blob_count float32 values, as the blob's data. It stays
 * the caller's. It must live until the blob is destroyed, reshaped to another count or given other
 * memory.
 *
 * A reshape to fewer values copies them to the blob's own memory. Caffe keeps using the caller's
 * memory in this case. If the blob was larger earlier, its diff is freed and reads as zeros.
 * Errors: CREMA_E_ARGUMENT, CREMA_E_TYPE. */
CREMA_API crema_status crema_blob_set_cpu_data(crema_blob *blob, float *data) CREMA_MUST_USE;

/* As crema_blob_set_cpu_data, with memory of `device`. `data` is its address in kernels of that
 * device. Errors: CREMA_E_ARGUMENT, CREMA_E_TYPE, CREMA_E_NO_DEVICE without a device. */
CREMA_API crema_status crema_blob_set_gpu_data(crema_blob *blob, crema_device *device,
                                               crema_devptr data) CREMA_MUST_USE;

/* Arithmetic for a training step without a solver, done where the newest values are:
 *
 * - update computes data = data - diff, with the diff converted to the data's type.
 * - scale multiplies the values by `factor`.
 * - copy copies the values of `source`, converted to the blob's element type. Both blobs must have
 *   the same count.
 *
 * Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_TYPE for an update or scaling
 * of integers. CREMA_E_STATE for an update of data that was neither written nor read after the blob
 * was created or grew. */
CREMA_API crema_status crema_blob_update(crema_blob *blob) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_data(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_diff(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_data(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_diff(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;

/* Swaps shape, data and diff of blobs `a` and `b`, which must have the same element types. Nothing
 * is copied. Pointers to values stay valid and belong to the other blob afterwards. Use it for
 * double buffering: fill your own blob while the net computes, then swap it with the net's input.
 *
 * Errors leave both blobs unchanged. CREMA_E_TYPE: the element types differ. CREMA_E_STATE, for
 * either blob:
 *
 * - Other blobs share its values. The input blob of a net does if several layers read it.
 * - A view of its values is held.
 * - A net or a solver has made its memory part of a larger block. */
CREMA_API crema_status crema_blob_swap(crema_blob *a, crema_blob *b) CREMA_MUST_USE;

/* A float32 view of a blob's data or diff in host memory, at an address that does not change. */
typedef struct crema_view crema_view;

/* Creates a view of the data or of the diff, for programs that keep arrays, such as bindings of
 * other languages. Free with crema_view_release.
 *
 * The memory stays valid and in place until the view is released, even after the blob is destroyed.
 * All views of the same values share one memory.
 *
 * - From the blob to the view: the view has the newest values after each pass, load and update of
 *   the blob's net or solver.
 * - From the view to the blob: a write takes effect at the next pass, save, view or function that
 *   changes the blob, and at the release.
 * - A view that was not written never replaces the blob's values.
 *
 * Growing a blob, or shrinking one that shares its values, detaches its views. They keep their last
 * values. Hold no view of weights that nets share while several threads run these nets.
 *
 * Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_TYPE (see crema_blob_set_typed). */
CREMA_API crema_status crema_blob_view_data(crema_blob *blob, crema_view **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_view_diff(crema_blob *blob, crema_view **out) CREMA_MUST_USE;

/* The view's memory, owned by the view, and the number of values in it. */
CREMA_API float *crema_view_values(crema_view *view);
CREMA_API int64_t crema_view_count(const crema_view *view);

/* Frees a view. Any thread may call it at any time. Accepts NULL. */
CREMA_API void crema_view_release(crema_view *view);

/* Bytes of memory that a blob's values use now, on the host and on devices that have their own
 * memory. Blobs that share values each report the same bytes. */
typedef struct crema_blob_memory {
  size_t data_host, data_device; /* of data */
  size_t diff_host, diff_device; /* of diff */
} crema_blob_memory;

/* Counts a blob's memory. */
CREMA_API crema_blob_memory crema_blob_memory_read(const crema_blob *blob);

/* The element types of data and diff. */
CREMA_API crema_dtype crema_blob_data_type(const crema_blob *blob);
CREMA_API crema_dtype crema_blob_diff_type(const crema_blob *blob);

#ifdef __cplusplus
}
#endif
#endif
