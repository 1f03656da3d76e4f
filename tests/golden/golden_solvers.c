/* Solver cases: 25 iterations on given inputs; weights, losses, rates and history compared.
 * Cases with a snapshot are run a second time from it. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/fail.h"
#include "golden.h"
#include "golden_h5.h"
#include "solver/solver.h"

typedef struct solver_case {
  hid_t file;
  crema_solver *solver;
  double tol_param, tol_loss;
  golden_array loss, lr;
  bool failed;
  char *why;
  size_t why_size;
  const char *group; /* of the visit in progress */
  crema_net *net;
} solver_case;

static void fail_case(solver_case *c, const char *text) {
  if (!c->failed) snprintf(c->why, c->why_size, "%s", text);
  c->failed = true;
}

/* "<layer>/<i>" to the parameter blob; NULL when the net has none. */
static crema_blob *find_param(crema_net *net, const char *name) {
  const char *slash = strrchr(name, '/');
  int index = 0;
  if (slash == NULL || sscanf(slash + 1, "%d", &index) != 1) return NULL;
  for (int l = 0; l < crema_net_layer_count(net); ++l) {
    const char *layer = crema_net_layer_name(net, l);
    if (strlen(layer) != (size_t)(slash - name)) continue;
    if (strncmp(layer, name, (size_t)(slash - name)) != 0) continue;
    if (index < 0 || index >= crema_net_layer_param_count(net, l)) return NULL;
    return crema_net_layer_param(net, l, index);
  }
  return NULL;
}

typedef enum visit_kind { SET_PARAM, COMPARE_PARAM, SET_INPUT } visit_kind;

typedef struct visit_state {
  solver_case *c;
  visit_kind kind;
} visit_state;

static bool visit_array(void *user, const char *name) {
  const visit_state *v = user;
  solver_case *c = v->c;
  char path[512], what[600];
  golden_array array = {0};
  crema_blob *blob = NULL;
  snprintf(path, sizeof path, "%s/%s", c->group, name);
  snprintf(what, sizeof what, "%s", path);
  if (!golden_h5_read(c->file, path, &array)) {
    fail_case(c, "case.h5 cannot be read");
    return false;
  }
  if (v->kind == SET_INPUT) {
    if (crema_net_blob(c->net, name, &blob) != CREMA_OK) blob = NULL;
  } else {
    blob = find_param(c->net, name);
  }
  bool good = false;
  if (blob == NULL) {
    snprintf(what, sizeof what, "%s: the net has no such blob", path);
    fail_case(c, what);
  } else if (v->kind == COMPARE_PARAM) {
    good = golden_compare_blob(&array, blob, false, c->tol_param, what, c->why, c->why_size);
  } else {
    good = golden_set_blob(&array, blob, false, what, c->why, c->why_size);
  }
  golden_array_free(&array);
  if (!good) c->failed = true;
  return good;
}

static bool visit(solver_case *c, visit_kind kind, const char *group) {
  visit_state state = {c, kind};
  c->group = group;
  if (golden_h5_each(c->file, group, visit_array, &state)) return true;
  fail_case(c, "case.h5 cannot be read");
  return false;
}

/* crema_solver_options.feed */
static crema_status feed(void *user, crema_net *net, int64_t pass) {
  solver_case *c = user;
  char group[64];
  snprintf(group, sizeof group, "/inputs/%lld", (long long)pass);
  c->net = net;
  if (!visit(c, SET_INPUT, group)) return cr_fail(CREMA_E_ARGUMENT, "%s", c->why);
  return CREMA_OK;
}

static void check_number(solver_case *c, const golden_array *reference, int64_t at, double value,
                         double scale, const char *what) {
  char text[256];
  if (at < 0 || (size_t)at >= reference->count) {
    snprintf(text, sizeof text, "%s: no reference for iteration %lld", what, (long long)at);
    fail_case(c, text);
    return;
  }
  double wanted = (double)reference->value[at];
  double error = fabs(value - wanted) / scale;
  if (error <= c->tol_loss) return;
  snprintf(text, sizeof text, "%s of iteration %lld: expected %.9g, found %.9g (error %.3g > %.3g)",
           what, (long long)at, wanted, value, error, c->tol_loss);
  fail_case(c, text);
}

static double largest(const golden_array *array) {
  double most = 0;
  for (size_t i = 0; i < array->count; ++i) most = fmax(most, fabs((double)array->value[i]));
  return most > 0 ? most : 1;
}

/* crema_solver_options.progress */
static void after_iteration(void *user, const crema_solver_progress *progress) {
  solver_case *c = user;
  int64_t done = progress->iteration;
  check_number(c, &c->loss, done - 1, progress->loss, largest(&c->loss), "loss");
  check_number(c, &c->lr, done - 1, progress->rate, largest(&c->lr), "learning rate");
  char group[64];
  if (done != 1 && done != 5 && done != 25) return;
  snprintf(group, sizeof group, "/params/iter_%lld", (long long)done);
  c->net = crema_solver_net(c->solver);
  visit(c, COMPARE_PARAM, group);
}

static bool compare_history(solver_case *c, double tolerance) {
  int count = cr_updater_history_count(c->solver->updater);
  for (int i = 0;; ++i) {
    char path[64];
    golden_array array = {0};
    snprintf(path, sizeof path, "/history/%d", i);
    if (!golden_h5_read(c->file, path, &array)) {
      if (i == count) return true;
      snprintf(c->why, c->why_size, "%d history blobs, the reference has %d", count, i);
      return false;
    }
    bool good = i < count && golden_compare_blob(&array, cr_updater_history(c->solver->updater, i),
                                                 false, tolerance, path, c->why, c->why_size);
    golden_array_free(&array);
    if (!good) return false;
  }
}

/* Runs to iteration 25, from the snapshot if one is named. */
static int run_once(solver_case *c, const char *dir, const char *snapshot, double tol_history) {
  char path[4096];
  int result = GOLDEN_FAIL;
  crema_solver_options options;
  crema_solver_options_init(&options);
  options.device = golden_device();
  options.math = golden_math();
  options.feed = feed;
  options.progress = after_iteration;
  options.user = c;
  snprintf(path, sizeof path, "%s/solver.prototxt", dir);
  crema_status status = crema_solver_load(path, &options, &c->solver);
  if (status != CREMA_OK) {
    return golden_from_status(status, "solver", c->why, c->why_size);
  }
  c->net = crema_solver_net(c->solver);
  if (snapshot == NULL) {
    if (!visit(c, SET_PARAM, "/params/init")) goto out;
  } else {
    snprintf(path, sizeof path, "%s/%s", dir, snapshot);
    status = crema_solver_restore(c->solver, path);
    if (status != CREMA_OK) {
      result = golden_from_status(status, "restore", c->why, c->why_size);
      goto out;
    }
  }
  status = crema_solver_step(c->solver, 25 - crema_solver_iteration(c->solver));
  if (status != CREMA_OK) {
    golden_from_status(status, "training", c->why, c->why_size);
    goto out;
  }
  if (c->failed || !compare_history(c, tol_history)) goto out;
  result = GOLDEN_PASS;
out:
  crema_solver_destroy(c->solver);
  c->solver = NULL;
  return result;
}

static bool has_file(const char *dir, const char *name) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  FILE *file = fopen(path, "rb");
  if (file != NULL) fclose(file);
  return file != NULL;
}

int golden_run_solver_case(const char *dir, char *why, size_t why_size) {
  solver_case c = {.why = why, .why_size = why_size};
  int result = GOLDEN_FAIL;
  c.file = golden_h5_open(dir, "case.h5");
  if (c.file < 0) {
    snprintf(why, why_size, "case.h5 cannot be opened");
    return GOLDEN_FAIL;
  }
  c.tol_param = golden_h5_number(c.file, "tol_param", 1e-5);
  c.tol_loss = golden_h5_number(c.file, "tol_loss", 1e-5);
  double tol_history = golden_h5_number(c.file, "tol_history", 1e-5);
  if (!golden_h5_read(c.file, "/loss", &c.loss) || !golden_h5_read(c.file, "/lr", &c.lr)) {
    snprintf(why, why_size, "case.h5 has no losses or rates");
    goto out;
  }
  result = run_once(&c, dir, NULL, tol_history);
  if (result == GOLDEN_PASS && golden_h5_number(c.file, "has_snapshot", 0) != 0) {
    const char *h5 = "snap_iter_10.solverstate.h5", *binary = "snap_iter_10.solverstate";
    result = run_once(&c, dir, has_file(dir, h5) ? h5 : binary, tol_history);
  }
out:
  golden_array_free(&c.loss);
  golden_array_free(&c.lr);
  H5Fclose(c.file);
  return result;
}
