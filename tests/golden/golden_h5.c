#include "golden_h5.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "golden.h"

hid_t golden_h5_open(const char *dir, const char *file) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, file);
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  return H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
}

/* H5Lexists looks at the last component only, so every prefix is asked for. */
static bool link_exists(hid_t file, const char *path) {
  char prefix[512];
  size_t length = strlen(path);
  if (length >= sizeof prefix) return false;
  for (size_t i = 1; i <= length; ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    memcpy(prefix, path, i);
    prefix[i] = '\0';
    if (H5Lexists(file, prefix, H5P_DEFAULT) <= 0) return false;
  }
  return true;
}

bool golden_h5_read(hid_t file, const char *path, golden_array *out) {
  *out = (golden_array){0};
  if (!link_exists(file, path)) return false;
  hid_t data = H5Dopen2(file, path, H5P_DEFAULT);
  if (data < 0) return false;
  hid_t space = H5Dget_space(data);
  hsize_t dim[CREMA_MAX_AXES];
  out->shape.axes = H5Sget_simple_extent_ndims(space);
  H5Sget_simple_extent_dims(space, dim, NULL);
  for (int i = 0; i < out->shape.axes; ++i) out->shape.dim[i] = (int64_t)dim[i];
  out->count = (size_t)H5Sget_simple_extent_npoints(space);
  out->value = malloc((out->count + 1) * sizeof *out->value);
  bool ok = out->value != NULL &&
            H5Dread(data, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, out->value) >= 0;
  H5Sclose(space);
  H5Dclose(data);
  if (!ok) golden_array_free(out);
  return ok;
}

void golden_array_free(golden_array *array) {
  free(array->value);
  *array = (golden_array){0};
}

double golden_h5_number(hid_t file, const char *attribute, double otherwise) {
  double value = otherwise;
  if (H5Aexists(file, attribute) > 0) {
    hid_t a = H5Aopen(file, attribute, H5P_DEFAULT);
    H5Aread(a, H5T_NATIVE_DOUBLE, &value);
    H5Aclose(a);
  }
  return value;
}

void golden_h5_text(hid_t file, const char *attribute, char *text, size_t size) {
  text[0] = '\0';
  if (H5Aexists(file, attribute) <= 0) return;
  hid_t a = H5Aopen(file, attribute, H5P_DEFAULT);
  hid_t type = H5Aget_type(a);
  size_t length = H5Tget_size(type);
  char *value = calloc(length + 1, 1);
  if (value != NULL && H5Aread(a, type, value) >= 0) snprintf(text, size, "%s", value);
  free(value);
  H5Tclose(type);
  H5Aclose(a);
}

typedef struct visit_state {
  golden_visit visit;
  void *user;
  bool ok;
} visit_state;

static herr_t visit_link(hid_t group, const char *name, const H5L_info_t *info, void *user) {
  visit_state *state = user;
  (void)info;
  hid_t object = H5Oopen(group, name, H5P_DEFAULT);
  H5I_type_t type = H5Iget_type(object);
  H5Oclose(object);
  if (type != H5I_DATASET) return 0;
  state->ok = state->visit(state->user, name);
  return state->ok ? 0 : 1;
}

bool golden_h5_each(hid_t file, const char *group, golden_visit visit, void *user) {
  if (!link_exists(file, group)) return true;
  hid_t g = H5Gopen2(file, group, H5P_DEFAULT);
  if (g < 0) return true;
  visit_state state = {visit, user, true};
  H5Lvisit(g, H5_INDEX_NAME, H5_ITER_INC, visit_link, &state);
  H5Gclose(g);
  return state.ok;
}

double golden_largest_error;

double golden_error(const float *reference, const float *computed, size_t count) {
  double scale = 0.0, worst = 0.0;
  for (size_t i = 0; i < count; ++i) scale = fmax(scale, fabs((double)reference[i]));
  if (scale == 0.0) scale = 1.0;
  for (size_t i = 0; i < count; ++i) {
    if (isnan(reference[i]) != isnan(computed[i])) return INFINITY;
    if (reference[i] == computed[i] || isnan(reference[i])) continue;
    worst = fmax(worst, fabs((double)computed[i] - (double)reference[i]));
  }
  golden_largest_error = fmax(golden_largest_error, worst / scale);
  return worst / scale;
}

bool golden_compare_blob(const golden_array *reference, crema_blob *blob, bool diff,
                         double tolerance, const char *what, char *why, size_t why_size) {
  const crema_shape *shape = crema_blob_shape(blob);
  if (!crema_shape_equal(shape, &reference->shape)) {
    char got[256], want[256];
    snprintf(why, why_size, "%s: shape is %s, should be %s", what,
             crema_shape_text(shape, got, sizeof got),
             crema_shape_text(&reference->shape, want, sizeof want));
    return false;
  }
  const float *value = NULL;
  crema_status status =
      diff ? crema_blob_cpu_diff(blob, &value) : crema_blob_cpu_data(blob, &value);
  if (status != CREMA_OK) {
    snprintf(why, why_size, "%s: %s", what, crema_error_text());
    return false;
  }
  double error = golden_error(reference->value, value, reference->count);
  if (error <= tolerance) return true;
  size_t at = 0;
  for (size_t i = 0; i < reference->count; ++i) {
    double here = fabs((double)value[i] - (double)reference->value[i]);
    if (!(here <= fabs((double)value[at] - (double)reference->value[at]))) at = i;
  }
  snprintf(why, why_size, "%s: error %.3g > %.3g; element %zu is %.9g, should be %.9g", what, error,
           tolerance, at, (double)value[at], (double)reference->value[at]);
  return false;
}

bool golden_set_blob(const golden_array *array, crema_blob *blob, bool diff, const char *what,
                     char *why, size_t why_size) {
  if ((int64_t)array->count != crema_blob_count(blob)) {
    snprintf(why, why_size, "%s: %zu values given, the blob has %" PRId64, what, array->count,
             crema_blob_count(blob));
    return false;
  }
  float *value = NULL;
  crema_status status =
      diff ? crema_blob_mutable_cpu_diff(blob, &value) : crema_blob_mutable_cpu_data(blob, &value);
  if (status != CREMA_OK) {
    snprintf(why, why_size, "%s: %s", what, crema_error_text());
    return false;
  }
  if (array->count > 0) memcpy(value, array->value, array->count * sizeof *value);
  return true;
}
