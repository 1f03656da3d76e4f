/* Stored ONNX files, by torch.onnx and by hand, with inputs and outputs of ONNX Runtime: the import
 * gives the same outputs, or says why it cannot. make_cases.py writes them. */
#include <dirent.h>
#include <math.h>

#include "check.h"
#include "core/file.h"
#include "crema/onnx.h"

#define CASES CREMA_BINARY_DIR "/onnx_cases"

enum { NAME = 64, PATH = 600 };

static int faults;

/* Each fault is printed, and fails the test at its end. */
#define FAULT(...) (print_error(__VA_ARGS__), print_error("\n"), ++faults)

/* The numbers of a block of case.txt; the caller frees them. */
static float *read_numbers(FILE *file, crema_shape *shape) {
  int64_t count = 1;
  long long extent;
  shape->axes = 0;
  while (fscanf(file, "%*[ ]%lld", &extent) == 1) {
    shape->dim[shape->axes++] = extent;
    count *= extent;
  }
  float *values = malloc((size_t)count * sizeof *values);
  assert_non_null(values);
  for (int64_t i = 0; i < count; ++i) assert_int_equal(fscanf(file, "%f", &values[i]), 1);
  return values;
}

static void set_input(crema_net *net, const char *name, FILE *file) {
  crema_shape shape = {0};
  crema_blob *blob;
  float *values = read_numbers(file, &shape), *to;
  ok(crema_net_blob(net, name, &blob));
  assert_true(crema_shape_equal(crema_blob_shape(blob), &shape));
  ok(crema_blob_mutable_cpu_data(blob, &to));
  memcpy(to, values, (size_t)crema_blob_count(blob) * sizeof *to);
  free(values);
}

/* Within 1e-5 of the largest value. */
static void check_output(crema_net *net, const char *test, const char *name, FILE *file) {
  crema_shape shape = {0};
  crema_blob *blob;
  const float *found;
  double largest = 0, difference = 0;
  float *values = read_numbers(file, &shape);
  ok(crema_net_blob(net, name, &blob));
  ok(crema_blob_cpu_data(blob, &found));
  const bool same = crema_shape_equal(crema_blob_shape(blob), &shape);
  const int64_t count = same ? crema_shape_count(&shape, 0, shape.axes) : 0;
  if (!same) FAULT("%s: output '%s' has another shape", test, name);
  for (int64_t i = 0; i < count; ++i) {
    largest = fmax(largest, fabs((double)values[i]));
    difference = fmax(difference, fabs((double)values[i] - (double)found[i]));
    if (isnan(found[i])) difference = INFINITY;
  }
  free(values);
  if (difference > 1e-5 * largest) {
    FAULT("%s: output '%s' differs by %g of its largest value", test, name, difference / largest);
  }
}

/* "\n" in the text stands for the end of a line. */
static void check_rejection(const char *test, const char *error, char *text) {
  for (char *at; (at = strstr(text, "\\n")) != NULL;) {
    *at = '\n';
    memmove(at + 1, at + 2, strlen(at + 2) + 1);
  }
  if (strstr(error, text) == NULL) {
    FAULT("%s: \"%s\" is not in \"%s\"", test, text, error);
  }
}

static void check_case(const char *test) {
  char path[PATH], kind[NAME], name[NAME], text[PATH];
  crema_net *net = NULL;
  snprintf(path, sizeof path, CASES "/%s/model.onnx", test);
  const crema_status status = crema_net_load(path, NULL, &net);
  char error[4096];
  snprintf(error, sizeof error, "%s", crema_error_text());
  snprintf(path, sizeof path, CASES "/%s/case.txt", test);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  bool ran = false;
  while (fscanf(file, "%63s", kind) == 1) {
    if (strcmp(kind, "rejected") == 0) {
      if (status != CREMA_E_UNSUPPORTED) FAULT("%s: no rejection: %s", test, error);
      assert_int_equal(fscanf(file, "%*[ ]%599[^\n]", text), 1);
      check_rejection(test, error, text);
      continue;
    }
    if (status != CREMA_OK) {
      FAULT("%s: %s", test, error);
      break;
    }
    assert_int_equal(fscanf(file, "%63s", name), 1);
    if (strcmp(kind, "input") == 0) {
      set_input(net, name, file);
      continue;
    }
    if (!ran) ok(crema_net_forward(net, NULL));
    ran = true;
    check_output(net, test, name, file);
  }
  fclose(file);
  crema_net_destroy(net);
}

TEST(stored_files) {
  int count = 0;
  DIR *folder = opendir(CASES);
  assert_non_null(folder);
  for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    if (entry->d_name[0] == '.' || strcmp(entry->d_name, "stamp") == 0) continue;
    check_case(entry->d_name);
    ++count;
  }
  closedir(folder);
  assert_true(count > 30);
  assert_int_equal(faults, 0);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
