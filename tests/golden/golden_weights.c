/* proto/weights_*: parameter files in several formats, all with the same values. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "golden.h"
#include "golden_h5.h"
#include "net/net.h"
#include "net/weights/weights.h"

typedef struct weights_case {
  hid_t file;
  crema_net *net;
  const char *source; /* the parameter file at hand */
  char *why;
  size_t why_size;
} weights_case;

static bool fail(weights_case *c, const char *what) {
  char text[512];
  snprintf(text, sizeof text, "%s", crema_error_text());
  snprintf(c->why, c->why_size, "%s: %s: %s", c->source, what, text);
  return false;
}

static crema_blob *find_param(crema_net *net, const char *name) {
  char layer[256];
  const char *slash = strrchr(name, '/');
  if (slash == NULL || (size_t)(slash - name) >= sizeof layer) return NULL;
  snprintf(layer, sizeof layer, "%.*s", (int)(slash - name), name);
  return crema_net_layer_param(net, cr_net_find_layer(net, layer), atoi(slash + 1));
}

/* The blob that a data set of /params, /inputs or /outputs is about. */
static crema_blob *find_blob(weights_case *c, const char *group, const char *name) {
  crema_blob *blob = NULL;
  if (strcmp(group, "/params") == 0) return find_param(c->net, name);
  return crema_net_blob(c->net, name, &blob) == CREMA_OK ? blob : NULL;
}

static bool visit(weights_case *c, const char *group, const char *name, double tolerance,
                  bool set) {
  char path[512], what[600];
  golden_array array;
  snprintf(path, sizeof path, "%s/%s", group, name);
  snprintf(what, sizeof what, "%s: %s", c->source, path);
  crema_blob *blob = find_blob(c, group, name);
  if (blob == NULL || !golden_h5_read(c->file, path, &array)) return fail(c, path);
  bool ok = set ? golden_set_blob(&array, blob, false, what, c->why, c->why_size)
                : golden_compare_blob(&array, blob, false, tolerance, what, c->why, c->why_size);
  golden_array_free(&array);
  return ok;
}

static bool compare_param(void *user, const char *name) {
  return visit(user, "/params", name, 0.0, false);
}

/* The expected values, changed in place so that a loader that copies nothing is found out. */
static bool spoil_param(void *user, const char *name) {
  weights_case *c = user;
  crema_blob *blob = find_param(c->net, name);
  float *data = NULL;
  if (blob == NULL || crema_blob_mutable_cpu_data(blob, &data) != CREMA_OK) return fail(c, name);
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) data[i] = 1000.0f + (float)i;
  return true;
}

static bool set_input(void *user, const char *name) {
  return visit(user, "/inputs", name, 0.0, true);
}

static bool compare_output(void *user, const char *name) {
  weights_case *c = user;
  return visit(c, "/outputs", name, golden_h5_number(c->file, "tol_out", 1e-5), false);
}

static bool check_values(weights_case *c) {
  return golden_h5_each(c->file, "/params", compare_param, c);
}

/* A new net: a recurrent layer's first state is the last one of the pass before. */
static crema_status make_net(weights_case *c, const char *dir) {
  char path[4096];
  snprintf(path, sizeof path, "%s/net.prototxt", dir);
  crema_net_destroy(c->net);
  c->net = NULL;
  return crema_net_load(path, NULL, &c->net);
}

static bool check_file(weights_case *c, const char *dir) {
  char path[4096];
  if (make_net(c, dir) != CREMA_OK) return fail(c, "net.prototxt");
  snprintf(path, sizeof path, "%s/%s", dir, c->source);
  if (!golden_h5_each(c->file, "/params", spoil_param, c)) return false;
  if (crema_net_load_weights(c->net, path) != CREMA_OK) return fail(c, "loading");
  if (!check_values(c) || !golden_h5_each(c->file, "/inputs", set_input, c)) return false;
  if (crema_net_forward(c->net, NULL) != CREMA_OK) return fail(c, "forward");
  return golden_h5_each(c->file, "/outputs", compare_output, c);
}

/* Writes the net's parameters and reads them back into the same net, spoiled before. */
static bool check_round_trip(weights_case *c, const char *suffix, bool with_diffs) {
  char path[] = "/tmp/crema-golden-XXXXXX", file[64];
  int fd = mkstemp(path);
  if (fd < 0) return fail(c, "mkstemp");
  close(fd);
  unlink(path);
  snprintf(file, sizeof file, "%s%s", path, suffix);
  c->source = suffix;
  bool ok =
      (cr_net_save(c->net, file, with_diffs) == CREMA_OK || fail(c, "saving")) &&
      golden_h5_each(c->file, "/params", spoil_param, c) &&
      (crema_net_load_weights(c->net, file) == CREMA_OK || fail(c, "loading what was saved")) &&
      check_values(c);
  unlink(file);
  return ok;
}

static int is_weights(const struct dirent *entry) {
  return strncmp(entry->d_name, "weights", 7) == 0;
}

static bool check_all(weights_case *c, const char *dir) {
  struct dirent **entry = NULL;
  int entries = scandir(dir, &entry, is_weights, alphasort);
  bool ok = entries > 0;
  for (int i = 0; i < entries; ++i) {
    c->source = entry[i]->d_name;
    ok = ok && check_file(c, dir);
    free(entry[i]);
  }
  free(entry);
  c->source = "round trip";
  return ok && check_round_trip(c, ".caffemodel", false) &&
         check_round_trip(c, ".caffemodel", true) && check_round_trip(c, ".caffemodel.h5", false) &&
         check_round_trip(c, ".caffemodel.h5", true);
}

int golden_run_weights_case(const char *dir, char *why, size_t why_size) {
  weights_case c = {.why = why, .why_size = why_size};
  crema_status status = make_net(&c, dir);
  if (status != CREMA_OK) return golden_from_status(status, "net.prototxt", why, why_size);
  c.file = golden_h5_open(dir, "case.h5");
  bool ok = c.file >= 0;
  if (!ok) snprintf(why, why_size, "case.h5: cannot open");
  ok = ok && check_all(&c, dir);
  if (c.file >= 0) H5Fclose(c.file);
  crema_net_destroy(c.net);
  return ok ? GOLDEN_PASS : GOLDEN_FAIL;
}
