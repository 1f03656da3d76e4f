/* Blobs: arrays of values, each with a gradient of the same shape.
 *
 * A blob owns two tensors, data and diff, each with an element type of its own. The host accessors
 * return pointers to plain, densely packed values in row-major order (NCHW for images), of float32
 * or of the type that is asked for, and copy or convert only when the newest values are elsewhere
 * or in another memory format: what a read converts is kept beside what it came from, so that
 * reading in turns in two types converts once; a write makes all but what it wrote stale. A
 * pointer stays valid until the blob is reshaped, freed, or its values are next computed or
 * accessed in another format. One thread uses a blob at a time. */
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

/* The same with the element types `data_type` and `diff_type`. Free with crema_blob_destroy.
 * Errors: also CREMA_E_TYPE for what is no element type. */
CREMA_API crema_status crema_blob_create_typed(const crema_shape *shape, crema_dtype data_type,
                                               crema_dtype diff_type,
                                               crema_blob **out) CREMA_MUST_USE;
CREMA_API void crema_blob_destroy(crema_blob *blob);

/* With `typed`, host access to the blob in another element type than its own fails with
 * CREMA_E_TYPE from now on, instead of converting; float32 access to a blob of other values fails,
 * too. For finding out who converts. */
CREMA_API void crema_blob_set_typed(crema_blob *blob, bool typed);

/* The current shape. Owned by the blob. */
CREMA_API const crema_shape *crema_blob_shape(const crema_blob *blob);
CREMA_API int64_t crema_blob_count(const crema_blob *blob);

/* Changes the shape. Memory is kept when it is large enough; values are kept only while the
 * count does not grow. Other blobs that share the values, as a net's do where several layers read
 * one, keep theirs: with another count the blob has memory of its own, until the net follows the
 * shape in its next pass. Errors: CREMA_E_SHAPE, CREMA_E_NO_MEMORY, CREMA_E_DEVICE; the blob is
 * then as before. */
CREMA_API crema_status crema_blob_reshape(crema_blob *blob,
                                          const crema_shape *shape) CREMA_MUST_USE;

/* Host access to data and diff as float32: to read, or (mutable) to read and change. *out stays
 * owned by the blob. Errors: CREMA_E_NO_MEMORY, CREMA_E_DEVICE, CREMA_E_TYPE (see
 * crema_blob_set_typed). */
CREMA_API crema_status crema_blob_cpu_data(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_cpu_diff(crema_blob *blob, const float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_data(crema_blob *blob, float **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_cpu_diff(crema_blob *blob, float **out) CREMA_MUST_USE;

/* The same as values of `type`: double, float, int32_t and so on, float16 and bfloat16 as the bits
 * of uint16_t. Floats are rounded to nearest even; integers too, and limited to their range, with 0
 * for NaN; a bool is 1 for all but 0. Changing what is accessed in another type than the blob's own
 * leaves the blob's values in that type, with its precision, until something needs them in another.
 * *out stays owned by the blob. Errors: also CREMA_E_TYPE for what is no element type. */
CREMA_API crema_status crema_blob_data_as(crema_blob *blob, crema_dtype type,
                                          const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_diff_as(crema_blob *blob, crema_dtype type,
                                          const void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_data_as(crema_blob *blob, crema_dtype type,
                                                  void **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_mutable_diff_as(crema_blob *blob, crema_dtype type,
                                                  void **out) CREMA_MUST_USE;

/* How often data and diff were converted from one element type to another so far. */
CREMA_API uint64_t crema_blob_conversions(const crema_blob *blob);

/* The largest absolute value, where the values are floats; 0 without values, NaN when one is NaN.
 * Errors: CREMA_E_TYPE for integers, CREMA_E_STATE where the net's plan has given the memory to
 * another blob, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_blob_amax_data(crema_blob *blob, double *out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_amax_diff(crema_blob *blob, double *out) CREMA_MUST_USE;

/* For looking at a blob: shape, and for data and diff the number of values, their type, what is
 * held (each type and layout, where, whether it is valid, which was written last), the first 20
 * values and the positions of the first 20 that are infinite or not a number. Reads the values on
 * the host. At most `size` bytes go to `text`, the closing zero included; CREMA_BLOB_TEXT are
 * enough. Errors: CREMA_E_STATE where the net's plan has given the memory to another blob,
 * CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
enum { CREMA_BLOB_TEXT = 8192 };
CREMA_API crema_status crema_blob_text(crema_blob *blob, char *text, size_t size) CREMA_MUST_USE;

/* Makes the caller's memory of crema_blob_count float32 values the blob's data; it stays the
 * caller's and must live until the blob is destroyed, reshaped to another count or given other
 * memory. A reshape to fewer values takes a copy, where Caffe goes on using the memory. When the
 * blob was larger before, the diff's memory is let go and the diff reads as zeros. Errors:
 * CREMA_E_ARGUMENT, CREMA_E_TYPE. */
CREMA_API crema_status crema_blob_set_cpu_data(crema_blob *blob, float *data) CREMA_MUST_USE;

/* The same with memory of `device` at `data`, as its kernels reach it. Errors: also
 * CREMA_E_NO_DEVICE without a device. */
CREMA_API crema_status crema_blob_set_gpu_data(crema_blob *blob, crema_device *device,
                                               crema_devptr data) CREMA_MUST_USE;

/* What a step of training without a solver needs, done where the newest values are. update takes
 * the diff, converted to the data's type, from the data (data = data - diff); scale multiplies with
 * `factor`; copy takes over the values of `source`, which has the same count, converted to the
 * blob's element type. Errors: CREMA_E_SHAPE, CREMA_E_TYPE for an update or scaling of integers,
 * CREMA_E_STATE for the update of data that was neither set, to zero or otherwise, nor read since
 * the blob was made or grew, CREMA_E_NO_MEMORY, CREMA_E_DEVICE. */
CREMA_API crema_status crema_blob_update(crema_blob *blob) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_data(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_scale_diff(crema_blob *blob, float factor) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_data(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_copy_diff(crema_blob *blob, crema_blob *source) CREMA_MUST_USE;

/* Exchanges shape, data and diff of two blobs of the same element types; nothing is copied, and
 * pointers to values stay valid, with the other blob. For callers that fill one blob while another
 * is computed with: a blob of their own and a net's input. Errors: CREMA_E_TYPE for blobs of other
 * types; CREMA_E_STATE where other blobs share the values (those of an input that several layers
 * read), a view of them is held, or a net or solver has made their memory a part of its own.
 * Nothing is changed then. */
CREMA_API crema_status crema_blob_swap(crema_blob *a, crema_blob *b) CREMA_MUST_USE;

/* Host memory in which a blob's data or diff can be seen as float32 for longer than until the next
 * access. */
typedef struct crema_view crema_view;

/* Views of the data and of the diff, for programs that keep what they get (arrays of other
 * languages). The memory stays where it is, also when the blob is destroyed, until the view is
 * released; every view of the same values has the same memory. As long as the view is held, it has
 * the newest values after each pass, load and update of the net or solver that the blob belongs to,
 * and what is written to it counts from the next pass, saving, further view, or function that
 * changes the blob; what was written before the release counts, too. Where nothing was written to
 * it, it never replaces what the blob got otherwise. A blob that is given a shape with more values,
 * or with fewer while others share its values, lets go of its views: they keep the values that they
 * have. While nets that share weights run in
 * several threads, nobody may hold a view of the weights. Free with crema_view_release.
 * Errors: as crema_blob_cpu_data. */
CREMA_API crema_status crema_blob_view_data(crema_blob *blob, crema_view **out) CREMA_MUST_USE;
CREMA_API crema_status crema_blob_view_diff(crema_blob *blob, crema_view **out) CREMA_MUST_USE;

/* The memory, which the view owns, and how many values there is room for. */
CREMA_API float *crema_view_values(crema_view *view);
CREMA_API int64_t crema_view_count(const crema_view *view);

/* Any thread may release a view, at any time. Accepts NULL. */
CREMA_API void crema_view_release(crema_view *view);

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
