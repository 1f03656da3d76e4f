/* Runs golden cases: golden [-q] [-errors] [-gpu N] [-math fast] [-type TYPE] [-pending FILE] DIR...
 * Every directory below that holds a case is run; a line a case and a closing count. Exit status 0
 * when nothing failed. -errors: also the largest error of each case, as a fraction of the largest
 * value. Without -pending the list of the source tree counts, where that is at hand. */
#include "golden.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/fail.h"
#include "device/device.h"
#include "device/registry.h"
#include "layers/registry.h"

typedef struct tally {
  bool quiet, errors;
  char **pending; /* layer types, or type/case, still to come */
  size_t pendings;
  int passed, failed, waiting;
  uint64_t ops_on_cpu; /* that a device left to it */
} tally;

int golden_from_status(crema_status status, const char *what, char *why, size_t why_size) {
  if (status == CREMA_OK) return GOLDEN_PASS;
  const char *text = crema_error_text();
  const char *at = strstr(text, "unknown layer type '");
  const char *end = at == NULL ? NULL : strchr(at + 20, '\'');
  if (status == CREMA_E_UNKNOWN_NAME && end != NULL) {
    snprintf(why, why_size, "%.*s", (int)(end - at - 20), at + 20);
    return GOLDEN_PENDING;
  }
  snprintf(why, why_size, "%s: %s", what, text);
  return GOLDEN_FAIL;
}

static bool has(const char *dir, const char *file) {
  char path[4096];
  struct stat info;
  snprintf(path, sizeof path, "%s/%s", dir, file);
  return stat(path, &info) == 0;
}

/* Whether a file of the directory starts with `prefix`. */
static bool has_prefix(const char *dir, const char *prefix) {
  bool found = false;
  DIR *d = opendir(dir);
  if (d == NULL) return false;
  for (struct dirent *e = readdir(d); e != NULL && !found; e = readdir(d)) {
    found = strncmp(e->d_name, prefix, strlen(prefix)) == 0;
  }
  closedir(d);
  return found;
}

typedef int (*case_runner)(const char *dir, char *why, size_t why_size);

/* A case's kind shows in the files it has. */
static case_runner find_runner(const char *dir) {
  const char *slash = strrchr(dir, '/');
  const char *name = slash == NULL ? dir : slash + 1;
  if (has(dir, "transform_param.prototxt")) return golden_run_transform_case;
  if (has(dir, "deploy.prototxt") && has(dir, "reference.h5")) return golden_run_model_case;
  if (has(dir, "solver.prototxt")) return golden_run_solver_case;
  if (has(dir, "type.txt") || has(dir, "status.txt")) return golden_run_proto_case;
  if (has(dir, "weights.caffemodel")) return golden_run_proto_case;
  if (!has(dir, "net.prototxt")) return NULL;
  if (has(dir, "case.h5")) return golden_run_layer_case;
  if (has_prefix(dir, "expected_") || strncmp(name, "reject_", 7) == 0) return golden_run_net_case;
  return NULL;
}

/* The last two components of a path. */
static const char *case_name(const char *dir) {
  const char *name = dir;
  int slashes = 0;
  for (const char *p = dir + strlen(dir); p > dir; --p) {
    if (*p == '/' && ++slashes == 2) {
      name = p + 1;
      break;
    }
  }
  return name;
}

static bool is_listed(const tally *t, const char *word) {
  for (size_t i = 0; i < t->pendings; ++i) {
    if (strcmp(t->pending[i], word) == 0) return true;
  }
  return false;
}

/* Whether the pending list covers the case by its own name or by its folder's (the type). */
static bool case_is_listed(const tally *t, const char *name) {
  char type[256];
  snprintf(type, sizeof type, "%s", name);
  type[strcspn(type, "/")] = '\0';
  return is_listed(t, name) || is_listed(t, type);
}

static crema_device *device; /* NULL: the CPU */

static uint64_t ops_on_cpu(void) {
  return device == NULL ? 0 : cr_device_fallbacks(device);
}

static void run_one(tally *t, case_runner runner, const char *dir) {
  char why[1024] = "";
  const char *name = case_name(dir);
  const uint64_t before = ops_on_cpu();
  golden_largest_error = 0;
  int result = runner(dir, why, sizeof why);
  if (t->errors) printf("error %s %.3g\n", name, golden_largest_error);
  t->ops_on_cpu += ops_on_cpu() - before;
  bool listed = case_is_listed(t, name);
  if (result == GOLDEN_PASS && listed) {
    snprintf(why, sizeof why, "passes, but the list of pending layers names it");
    result = GOLDEN_FAIL;
  } else if (result == GOLDEN_PENDING && !is_listed(t, why) && !listed) {
    char type[256];
    snprintf(type, sizeof type, "%.*s", (int)sizeof type - 1, why);
    snprintf(why, sizeof why, "layer type '%.200s' is unknown and not on the pending list", type);
    result = GOLDEN_FAIL;
  } else if (result == GOLDEN_FAIL && is_listed(t, name)) {
    result = GOLDEN_PENDING;
  }
  t->passed += result == GOLDEN_PASS;
  t->failed += result == GOLDEN_FAIL;
  t->waiting += result == GOLDEN_PENDING;
  if (result == GOLDEN_FAIL) printf("FAIL     %s: %s\n", name, why);
  else if (!t->quiet && result == GOLDEN_PENDING) printf("pending  %s: %s\n", name, why);
  else if (!t->quiet) printf("pass     %s\n", name);
  fflush(stdout);
}

static int is_visible(const struct dirent *entry) {
  return entry->d_name[0] != '.';
}

static void walk(tally *t, const char *dir) {
  case_runner runner = find_runner(dir);
  if (runner != NULL) {
    run_one(t, runner, dir);
    return;
  }
  struct dirent **entry = NULL;
  int entries = scandir(dir, &entry, is_visible, alphasort), folders = 0;
  for (int i = 0; i < entries; ++i) {
    char path[4096];
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", dir, entry[i]->d_name);
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
      walk(t, path);
      ++folders;
    }
    free(entry[i]);
  }
  free(entry);
  if (folders > 0) return;
  printf("FAIL     %s: no kind of case has these files\n", case_name(dir));
  ++t->failed;
}

/* One word a line; '#' starts a comment. */
static bool read_pending(tally *t, const char *path) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return false;
  char line[256];
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "# \t\r\n")] = '\0';
    if (line[0] == '\0') continue;
    char **grown = realloc(t->pending, (t->pendings + 1) * sizeof *grown);
    if (grown == NULL) break;
    t->pending = grown;
    t->pending[t->pendings] = strdup(line);
    ++t->pendings;
  }
  fclose(file);
  return true;
}

/* A type that crema has must not stand on the list. */
static void check_pending(tally *t) {
  for (size_t i = 0; i < t->pendings; ++i) {
    const cr_layer_class *found = NULL;
    if (cr_layer_class_find(t->pending[i], &found) != CREMA_OK) continue;
    printf("FAIL     pending list: layer type '%s' is there\n", t->pending[i]);
    ++t->failed;
  }
}

enum { SKIPPED = 77 };

crema_device *golden_device(void) {
  return device;
}

/* A GPU by its number, or "sim" for a simulated device (see CREMA_SIM). */
static bool choose_device(const char *text) {
  const bool simulated = strcmp(text, "sim") == 0;
  char *end = NULL;
  const long index = simulated ? 0 : strtol(text, &end, 10);
  if (!simulated && (end == text || *end != '\0' || index < 0 || index > 1000)) {
    fprintf(stderr, "golden: -gpu takes a number, not \"%s\"\n", text);
    return false;
  }
  const crema_device_type type = simulated ? CREMA_DEVICE_SIM : cr_registry_gpu_type();
  if (crema_device_get(type, (int)index, &device) == CREMA_OK) return true;
  fprintf(stderr, "golden: %s\n", crema_error_text());
  return false;
}

static crema_math chosen_math = CREMA_MATH_DEFAULT;

crema_math golden_math(void) {
  return chosen_math;
}

static bool choose_math(const char *name) {
  const bool fast = strcmp(name, "fast") == 0;
  if (fast) chosen_math = CREMA_MATH_FAST;
  else fprintf(stderr, "golden: -math takes fast, not \"%s\"\n", name);
  return fast;
}

static crema_dtype chosen_type = CREMA_F32;

crema_dtype golden_type(void) {
  return chosen_type;
}

/* An element type by its name in the prototxt. */
static bool choose_type(const char *name) {
  static const struct {
    const char *name;
    crema_dtype type;
  } types[] = {{"DOUBLE", CREMA_F64},
               {"FLOAT", CREMA_F32},
               {"FLOAT16", CREMA_F16},
               {"BFLOAT16", CREMA_BF16}};
  for (size_t i = 0; i < sizeof types / sizeof *types; ++i) {
    if (strcmp(types[i].name, name) != 0) continue;
    chosen_type = types[i].type;
    return true;
  }
  fprintf(stderr, "golden: -type takes DOUBLE, FLOAT, FLOAT16 or BFLOAT16, not \"%s\"\n", name);
  return false;
}

int main(int argc, char **argv) {
  tally t = {0};
  int first = 1;
  const char *pending = access(GOLDEN_PENDING_LIST, R_OK) == 0 ? GOLDEN_PENDING_LIST : NULL;
  while (first < argc && argv[first][0] == '-') {
    if (strcmp(argv[first], "-q") == 0) {
      t.quiet = true;
    } else if (strcmp(argv[first], "-errors") == 0) {
      t.errors = true;
    } else if (strcmp(argv[first], "-pending") == 0 && first + 1 < argc) {
      pending = argv[++first];
    } else if (strcmp(argv[first], "-gpu") == 0 && first + 1 < argc) {
      if (!choose_device(argv[++first])) return SKIPPED;
    } else if (strcmp(argv[first], "-math") == 0 && first + 1 < argc) {
      if (!choose_math(argv[++first])) return 2;
    } else if (strcmp(argv[first], "-type") == 0 && first + 1 < argc) {
      if (!choose_type(argv[++first])) return 2;
    } else {
      fprintf(stderr,
              "usage: golden [-q] [-errors] [-gpu N] [-math fast] [-type TYPE] [-pending FILE] "
              "DIR...\n");
      return 2;
    }
    ++first;
  }
  if (pending != NULL && !read_pending(&t, pending)) {
    fprintf(stderr, "golden: cannot read %s\n", pending);
    return 2;
  }
  check_pending(&t);
  for (int i = first; i < argc; ++i) {
    size_t length = strlen(argv[i]);
    while (length > 1 && argv[i][length - 1] == '/') argv[i][--length] = '\0';
    walk(&t, argv[i]);
  }
  if (t.passed + t.failed + t.waiting == 0) {
    printf("no golden case found\n");
    ++t.failed;
  }
  for (size_t i = 0; i < t.pendings; ++i) free(t.pending[i]);
  free(t.pending);
  if (device != NULL) {
    printf("%llu ops ran on the CPU\n", (unsigned long long)t.ops_on_cpu);
  }
  printf("%d passed, %d failed, %d skipped\n", t.passed, t.failed, t.waiting);
  return t.failed == 0 ? 0 : 1;
}
