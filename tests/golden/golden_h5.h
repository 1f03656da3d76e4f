/* Reading arrays and attributes of the golden HDF5 files. */
#ifndef CR_TESTS_GOLDEN_H5_H
#define CR_TESTS_GOLDEN_H5_H

#include <hdf5.h>
#include <stdbool.h>
#include <stddef.h>

#include "crema/blob.h"

typedef struct golden_array {
  crema_shape shape; /* no axes: a scalar */
  size_t count;
  float *value;
} golden_array;

/* Opens a file read-only; negative when it is not there. Close with H5Fclose. */
hid_t golden_h5_open(const char *dir, const char *file);

/* Reads the dataset at `path` ("/inputs/data"); false when it is not there. */
bool golden_h5_read(hid_t file, const char *path, golden_array *out);
void golden_array_free(golden_array *array);

double golden_h5_number(hid_t file, const char *attribute, double otherwise);
void golden_h5_text(hid_t file, const char *attribute, char *text, size_t size);

/* Calls `visit` with the names of all datasets below `group`, relative to it ("conv1/0"), until it
 * returns false. False when a visit did. An absent group is empty. */
typedef bool (*golden_visit)(void *user, const char *name);
bool golden_h5_each(hid_t file, const char *group, golden_visit visit, void *user);

/* max |a - r| / max |r| (divisor 1 when all r are 0); infinite when a value is not a number. */
double golden_error(const float *reference, const float *computed, size_t count);

/* Compares data (or diff) of a blob with an array: shape and values. On mismatch `why` says
 * "<what>: ..." */
bool golden_compare_blob(const golden_array *reference, crema_blob *blob, bool diff,
                         double tolerance, const char *what, char *why, size_t why_size);

/* Copies an array into a blob's data or diff; false with `why` when counts differ. */
bool golden_set_blob(const golden_array *array, crema_blob *blob, bool diff, const char *what,
                     char *why, size_t why_size);

#endif
