/* layers/<Type>/<case>: forward and backward of one layer or a small net. A case with
 * expected_output.h5 writes output.h5, in a temporary folder. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/file.h"
#include "crema/net.h"
#include "golden.h"
#include "golden_h5.h"

typedef struct layer_case {
  hid_t file;
  crema_net *net;
  char *why;
  size_t why_size;
  const char *group; /* the group being visited */
  bool diff;
  double tolerance;
  int compared; /* arrays so far */
} layer_case;

static bool fail_status(layer_case *c, const char *what) {
  snprintf(c->why, c->why_size, "%s: %s", what, crema_error_text());
  return false;
}

static bool read_visited(layer_case *c, const char *name, golden_array *out, char *path,
                         size_t size) {
  snprintf(path, size, "%s/%s", c->group, name);
  if (golden_h5_read(c->file, path, out)) return true;
  snprintf(c->why, c->why_size, "%s: cannot read", path);
  return false;
}

/* The parameter blob that "layer/index" names; NULL when there is none. */
static crema_blob *find_param(crema_net *net, const char *name) {
  const char *slash = strrchr(name, '/');
  if (slash == NULL) return NULL;
  size_t length = (size_t)(slash - name);
  int index = atoi(slash + 1);
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    const char *layer = crema_net_layer_name(net, i);
    if (strlen(layer) == length && memcmp(layer, name, length) == 0 &&
        index < crema_net_layer_param_count(net, i)) {
      return crema_net_layer_param(net, i, index);
    }
  }
  return NULL;
}

static bool find_target(layer_case *c, const char *name, bool param, const char *path,
                        crema_blob **out) {
  if (param) *out = find_param(c->net, name);
  else if (crema_net_blob(c->net, name, out) != CREMA_OK) *out = NULL;
  if (*out != NULL) return true;
  snprintf(c->why, c->why_size, "%s: the net has no such %s", path, param ? "parameter" : "blob");
  return false;
}

static bool set_one(layer_case *c, const char *name, bool param) {
  char path[512];
  golden_array array;
  crema_blob *blob = NULL;
  if (!read_visited(c, name, &array, path, sizeof path)) return false;
  bool ok = find_target(c, name, param, path, &blob);
  if (ok && !param && !c->diff && !crema_shape_equal(crema_blob_shape(blob), &array.shape)) {
    if (crema_blob_reshape(blob, &array.shape) != CREMA_OK) ok = fail_status(c, path);
  }
  ok = ok && golden_set_blob(&array, blob, c->diff, path, c->why, c->why_size);
  golden_array_free(&array);
  return ok;
}

static bool compare_one(layer_case *c, const char *name, bool param) {
  char path[512];
  golden_array array;
  crema_blob *blob = NULL;
  if (!read_visited(c, name, &array, path, sizeof path)) return false;
  ++c->compared;
  bool ok = find_target(c, name, param, path, &blob) &&
            golden_compare_blob(&array, blob, c->diff, c->tolerance, path, c->why, c->why_size);
  golden_array_free(&array);
  return ok;
}

static bool set_blob(void *user, const char *name) {
  return set_one(user, name, false);
}
static bool set_param(void *user, const char *name) {
  return set_one(user, name, true);
}
static bool compare_blob(void *user, const char *name) {
  return compare_one(user, name, false);
}
static bool compare_param(void *user, const char *name) {
  return compare_one(user, name, true);
}

static bool each(layer_case *c, const char *group, bool diff, double tolerance,
                 golden_visit visit) {
  c->group = group;
  c->diff = diff;
  c->tolerance = tolerance;
  return golden_h5_each(c->file, group, visit, c);
}

static bool run_forward(layer_case *c, double tolerance) {
  int passes = (int)golden_h5_number(c->file, "forward_passes", 1);
  double loss = 0.0;
  for (int pass = 0; pass < passes; ++pass) {
    if (!each(c, "/inputs", false, 0.0, set_blob)) return false;
    if (crema_net_forward(c->net, &loss) != CREMA_OK) return fail_status(c, "forward");
    char group[64];
    snprintf(group, sizeof group, "/pass_outputs/%d", pass);
    if (!each(c, group, false, tolerance, compare_blob)) return false;
  }
  if (golden_h5_number(c->file, "has_loss", 0) != 0) {
    float want = (float)golden_h5_number(c->file, "loss", 0.0), got = (float)loss;
    double error = golden_error(&want, &got, 1);
    if (!(error <= tolerance)) {
      snprintf(c->why, c->why_size, "loss is %.9g, should be %.9g", (double)got, (double)want);
      return false;
    }
  }
  return each(c, "/outputs", false, tolerance, compare_blob) &&
         each(c, "/blobs", false, tolerance, compare_blob) &&
         each(c, "/params_after", false, tolerance, compare_param);
}

static bool run_backward(layer_case *c, double tolerance) {
  const int before = c->compared;
  crema_net_clear_param_diffs(c->net);
  if (!each(c, "/top_diffs", true, 0.0, set_blob)) return false;
  if (crema_net_backward(c->net) != CREMA_OK) return fail_status(c, "backward");
  /* A layer without parameters lacks one of the groups, but no case lacks both. */
  if (!each(c, "/input_grads", true, tolerance, compare_blob) ||
      !each(c, "/param_grads", true, tolerance, compare_param)) {
    return false;
  }
  if (c->compared == before) snprintf(c->why, c->why_size, "has a backward pass but no gradient");
  return c->compared > before;
}

static bool run_case(layer_case *c, const char *dir) {
  double tol_out = golden_type_tolerance(dir, golden_h5_number(c->file, "tol_out", 1e-5));
  double tol_grad = golden_type_tolerance(dir, golden_h5_number(c->file, "tol_grad", 1e-5));
  if (golden_h5_number(c->file, "reshaped", 0) != 0 &&
      crema_net_forward(c->net, NULL) != CREMA_OK) {
    return fail_status(c, "forward at the first shape");
  }
  if (!each(c, "/params", false, 0.0, set_param)) return false;
  if (!run_forward(c, tol_out)) return false;
  return golden_h5_number(c->file, "has_backward", 0) == 0 || run_backward(c, tol_grad);
}

/* ---- what a net writes --------------------------------------------------- */

typedef struct output_case {
  hid_t expected, written;
  double tolerance;
  char *why;
  size_t why_size;
  int sets;
} output_case;

static bool compare_set(void *user, const char *name) {
  output_case *c = user;
  golden_array want, got;
  char path[512];
  snprintf(path, sizeof path, "/%s", name);
  ++c->sets;
  if (!golden_h5_read(c->expected, path, &want)) {
    snprintf(c->why, c->why_size, "%s: cannot read what is expected", path);
    return false;
  }
  bool ok = golden_h5_read(c->written, path, &got);
  if (!ok) snprintf(c->why, c->why_size, "%s: not written", path);
  if (ok) {
    ok = crema_shape_equal(&want.shape, &got.shape) &&
         golden_error(want.value, got.value, want.count) <= c->tolerance;
    char shape[2][256];
    if (!ok) {
      snprintf(c->why, c->why_size, "%s: differs; shape is %s, should be %s", path,
               crema_shape_text(&got.shape, shape[0], sizeof shape[0]),
               crema_shape_text(&want.shape, shape[1], sizeof shape[1]));
    }
    golden_array_free(&got);
  }
  golden_array_free(&want);
  return ok;
}

static int compare_output(const char *dir, const char *scratchpad, char *why, size_t why_size) {
  output_case c = {.tolerance = 0, .why = why, .why_size = why_size};
  c.expected = golden_h5_open(dir, "expected_output.h5");
  c.written = golden_h5_open(scratchpad, "output.h5");
  bool ok = c.expected >= 0 && c.written >= 0;
  if (!ok) snprintf(why, why_size, "output.h5 was not written");
  ok = ok && golden_h5_each(c.expected, "/", compare_set, &c);
  if (ok && c.sets == 0) {
    snprintf(why, why_size, "nothing is expected");
    ok = false;
  }
  if (c.written >= 0) H5Fclose(c.written);
  if (c.expected >= 0) H5Fclose(c.expected);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}

static int run_layer(const char *dir, char *why, size_t why_size);

/* The net's paths are relative to the working directory, so that is a temporary folder meanwhile.
 */
static int run_writing_layer(const char *dir, char *why, size_t why_size) {
  char back[PATH_MAX], from[PATH_MAX], scratchpad[] = "/tmp/crema-golden-XXXXXX";
  if (getcwd(back, sizeof back) == NULL || realpath(dir, from) == NULL ||
      mkdtemp(scratchpad) == NULL || chdir(scratchpad) != 0) {
    snprintf(why, why_size, "no temporary folder");
    return GOLDEN_FAIL;
  }
  int result = run_layer(from, why, why_size);
  if (result == GOLDEN_PASS) result = compare_output(from, scratchpad, why, why_size);
  unlink("output.h5");
  if (chdir(back) != 0) result = GOLDEN_FAIL;
  rmdir(scratchpad);
  return result;
}

int golden_run_layer_case(const char *dir, char *why, size_t why_size) {
  char path[4096];
  snprintf(path, sizeof path, "%s/expected_output.h5", dir);
  bool writes = access(path, F_OK) == 0;
  return writes ? run_writing_layer(dir, why, why_size) : run_layer(dir, why, why_size);
}

/* The net with golden_type() in front of what its file says. */
static crema_status load_typed(const char *path, const crema_net_options *options,
                               crema_net **out) {
  static const char *const names[] = {[CREMA_F64] = "DOUBLE",
                                      [CREMA_F32] = "FLOAT",
                                      [CREMA_F16] = "FLOAT16",
                                      [CREMA_BF16] = "BFLOAT16"};
  const char *name = names[golden_type()];
  cr_buffer file = {0}, text = {0};
  crema_status status = cr_file_read(path, &file);
  if (status == CREMA_OK) {
    status = cr_buffer_print(&text, "default_forward_type: %s default_backward_type: %s\n%.*s",
                             name, name, (int)file.size, file.data);
  }
  if (status == CREMA_OK) status = crema_net_parse(text.data, text.size, path, options, out);
  cr_buffer_free(&text);
  cr_buffer_free(&file);
  return status;
}

static int run_layer(const char *dir, char *why, size_t why_size) {
  layer_case c = {.why = why, .why_size = why_size};
  char path[4096], phase[16];
  c.file = golden_h5_open(dir, "case.h5");
  if (c.file < 0) {
    snprintf(why, why_size, "cannot open case.h5");
    return GOLDEN_FAIL;
  }
  golden_h5_text(c.file, "phase", phase, sizeof phase);
  crema_net_options options;
  crema_net_options_init(&options);
  options.phase = strcmp(phase, "TRAIN") == 0 ? CREMA_TRAIN : CREMA_TEST;
  options.seed = 1;
  options.device = golden_device();
  options.math = golden_math();
  snprintf(path, sizeof path, "%s/net.prototxt", dir);
  int result = golden_from_status(load_typed(path, &options, &c.net), "load", why, why_size);
  if (result == GOLDEN_PASS) result = run_case(&c, dir) ? GOLDEN_PASS : GOLDEN_FAIL;
  crema_net_destroy(c.net);
  H5Fclose(c.file);
  return result;
}
