#include "data/augment/preprocessing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/buffer.h"
#include "core/fail.h"
#include "core/file.h"
#include "data/augment/image_blob.h"
#include "data/augment/preprocessing_fields.h"

struct crema_preprocessing {
  crema_image_options options; /* with the values below */
  float *mean_value;
  char *mean_file;
  char *layer; /* to blame for the mean file; NULL: the options are not the net's */
  char *type;
  char *net_path;
  char *guess; /* NULL: none */
  char *labels_path;
  pthread_mutex_t lock; /* for the content of the two files, which are read when needed */
  cr_mean mean;         /* values NULL: not read */
  bool has_labels;
  cr_buffer labels; /* the text, with a zero byte after each line */
  const char **label;
  size_t label_count;
};

/* ---- setting up ---------------------------------------------------------- */

static crema_status copy_text(const char *text, char **out) {
  *out = text == NULL ? NULL : strdup(text);
  if (*out != NULL || text == NULL) return CREMA_OK;
  return cr_fail_memory(strlen(text) + 1, "a preprocessing");
}

/* Copies the options; the old ones stay on failure. */
static crema_status set_options(crema_preprocessing *p, const crema_image_options *options) {
  float *values = NULL;
  char *file = NULL;
  CR_TRY(cr_image_options_check(options));
  const bool has_file = options->mean_file != NULL && options->mean_file[0] != '\0';
  CR_TRY(copy_text(has_file ? options->mean_file : NULL, &file));
  if (options->mean_count > 0) {
    const size_t size = (size_t)options->mean_count * sizeof *values;
    values = malloc(size);
    if (values == NULL) {
      free(file);
      return cr_fail_memory(size, "a preprocessing");
    }
    memcpy(values, options->mean, size);
  }
  free(p->mean_value);
  free(p->mean_file);
  cr_mean_free(&p->mean);
  p->options = *options;
  p->options.mean = p->mean_value = values;
  p->options.mean_file = p->mean_file = file;
  return CREMA_OK;
}

/* The file labels.txt or labels in the folder of the net's file; *out NULL: there is none. */
static crema_status find_labels(const char *net_path, char **out) {
  static const char *const names[] = {"labels.txt", "labels"};
  if (net_path == NULL || !cr_file_exists(net_path)) return CREMA_OK;
  const char *slash = strrchr(net_path, '/');
  const int folder = slash == NULL ? 0 : (int)(slash + 1 - net_path);
  for (size_t i = 0; i < 2 && *out == NULL; ++i) {
    cr_buffer path = {0};
    CR_TRY(cr_buffer_print(&path, "%.*s%s", folder, net_path, names[i]));
    if (cr_file_exists(path.data)) *out = cr_buffer_take(&path);
    cr_buffer_free(&path);
  }
  return CREMA_OK;
}

static crema_status make_guess(const cr_preprocessed_input *input, char **out) {
  cr_buffer text = {0};
  const bool gray = input->shape.axes == 4 && input->shape.dim[1] == 1;
  CR_TRY(cr_buffer_print(&text,
                         "the Input layer '%s' has no transform_param, so the values are a guess: "
                         "pixels from 0 to 255%s, resized to the input's size",
                         input->layer, gray ? "" : " in the order blue, green, red"));
  *out = cr_buffer_take(&text);
  return CREMA_OK;
}

static crema_status fill(crema_preprocessing *p, const cr_preprocessed_input *input) {
  crema_image_options options;
  char *file = NULL;
  CR_TRY(cr_preprocessing_read(input, &options));
  if (options.mean_file != NULL && options.mean_file[0] != '\0') {
    CR_TRY(cr_file_resolve(input->net_path, options.mean_file, &file));
    options.mean_file = file;
  }
  crema_status status = set_options(p, &options);
  free(file);
  if (status == CREMA_OK) status = copy_text(input->net_path, &p->net_path);
  if (status == CREMA_OK) status = copy_text(input->layer, &p->layer);
  if (status == CREMA_OK) status = copy_text(input->type, &p->type);
  if (status == CREMA_OK && input->param == NULL) status = make_guess(input, &p->guess);
  return status == CREMA_OK ? find_labels(input->net_path, &p->labels_path) : status;
}

crema_status cr_preprocessing_make(const cr_preprocessed_input *input, crema_preprocessing **out) {
  crema_preprocessing *p = NULL;
  CR_TRY(CR_NEW(p, 1, "a preprocessing"));
  pthread_mutex_init(&p->lock, NULL);
  const crema_status status = cr_fail_in(fill(p, input), "transform_param");
  if (status == CREMA_OK) *out = p;
  else crema_preprocessing_destroy(p);
  return status;
}

static void drop_labels(crema_preprocessing *p) {
  free((void *)p->label);
  p->label = NULL;
  p->label_count = 0;
  p->has_labels = false;
  cr_buffer_free(&p->labels);
}

void crema_preprocessing_destroy(crema_preprocessing *preprocessing) {
  crema_preprocessing *p = preprocessing;
  if (p == NULL) return;
  drop_labels(p);
  cr_mean_free(&p->mean);
  pthread_mutex_destroy(&p->lock);
  free(p->labels_path);
  free(p->guess);
  free(p->layer);
  free(p->type);
  free(p->net_path);
  free(p->mean_file);
  free(p->mean_value);
  free(p);
}

const char *crema_preprocessing_guess(const crema_preprocessing *preprocessing) {
  return preprocessing == NULL ? NULL : preprocessing->guess;
}

const crema_image_options *crema_preprocessing_options(const crema_preprocessing *preprocessing) {
  return preprocessing == NULL ? NULL : &preprocessing->options;
}

crema_status crema_preprocessing_set_options(crema_preprocessing *preprocessing,
                                             const crema_image_options *options) {
  CR_REQUIRE(preprocessing);
  CR_REQUIRE(options);
  crema_preprocessing *p = preprocessing;
  const bool same_file = p->mean_file != NULL && options->mean_file != NULL &&
                         strcmp(p->mean_file, options->mean_file) == 0;
  CR_TRY(set_options(p, options));
  free(p->guess);
  p->guess = NULL;
  if (same_file) return CREMA_OK;
  free(p->layer);
  p->layer = NULL;
  return CREMA_OK;
}

/* ---- labels -------------------------------------------------------------- */

crema_status crema_preprocessing_set_labels(crema_preprocessing *preprocessing, const char *path) {
  CR_REQUIRE(preprocessing);
  char *copy = NULL;
  CR_TRY(copy_text(path, &copy));
  free(preprocessing->labels_path);
  preprocessing->labels_path = copy;
  drop_labels(preprocessing);
  return CREMA_OK;
}

/* Splits the text at the ends of its lines. */
static crema_status split_labels(crema_preprocessing *p) {
  size_t lines = 1;
  for (size_t i = 0; i < p->labels.size; ++i) lines += p->labels.data[i] == '\n';
  CR_TRY(CR_NEW(p->label, lines, "the labels"));
  for (char *line = p->labels.data; line != NULL && *line != '\0';) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    line[strcspn(line, "\r")] = '\0';
    p->label[p->label_count++] = line;
    line = next;
  }
  p->has_labels = true;
  return CREMA_OK;
}

/* With the lock. */
static crema_status read_labels(crema_preprocessing *p) {
  if (p->has_labels || p->labels_path == NULL) return CREMA_OK;
  drop_labels(p);
  CR_TRY(cr_fail_in(cr_file_read(p->labels_path, &p->labels), "labels"));
  CR_TRY(cr_fail_in(cr_buffer_make_text(&p->labels, p->labels_path), "labels"));
  return split_labels(p);
}

crema_status crema_preprocessing_labels(crema_preprocessing *preprocessing, int64_t classes,
                                        const char *const **names, size_t *count) {
  CR_REQUIRE(preprocessing);
  CR_REQUIRE(names);
  CR_REQUIRE(count);
  crema_preprocessing *p = preprocessing;
  pthread_mutex_lock(&p->lock);
  const crema_status status = read_labels(p);
  pthread_mutex_unlock(&p->lock);
  CR_TRY(status);
  if (classes > 0 && p->labels_path != NULL && (int64_t)p->label_count != classes) {
    return cr_fail(CREMA_E_SHAPE, "%s: names %zu classes, but the net has %lld", p->labels_path,
                   p->label_count, (long long)classes);
  }
  *names = p->label;
  *count = p->label_count;
  return CREMA_OK;
}

/* ---- images -------------------------------------------------------------- */

/* With the lock. Warns if a missing file is in a folder above the net. */
static crema_status read_mean(crema_preprocessing *p) {
  char *path = NULL;
  if (p->mean_file == NULL || p->mean.values != NULL) return CREMA_OK;
  CR_TRY(cr_file_resolve_input(p->net_path, p->mean_file, &path));
  const crema_status status = cr_mean_read(path, &p->mean);
  free(path);
  if (p->layer == NULL) return cr_fail_in(status, "mean_file");
  const cr_where where = {.layer = p->layer, .type = p->type, .file = p->net_path};
  return cr_fail_where(cr_fail_in(status, "transform_param: mean_file"), &where);
}

static crema_status put(crema_preprocessing *p, const cr_image_source *source, crema_blob *blob,
                        int64_t item) {
  pthread_mutex_lock(&p->lock);
  const crema_status status = read_mean(p);
  pthread_mutex_unlock(&p->lock);
  CR_TRY(status);
  return cr_image_to_blob(source, &p->options, p->mean_file == NULL ? NULL : &p->mean, blob, item);
}

crema_status crema_preprocessing_load(crema_preprocessing *preprocessing, const char *path,
                                      crema_blob *blob, int64_t item) {
  CR_REQUIRE(preprocessing);
  CR_REQUIRE(path);
  CR_REQUIRE(blob);
  const cr_image_source source = {.path = path};
  return put(preprocessing, &source, blob, item);
}

crema_status crema_preprocessing_decode(crema_preprocessing *preprocessing, const void *bytes,
                                        size_t size, crema_blob *blob, int64_t item) {
  CR_REQUIRE(preprocessing);
  CR_REQUIRE(bytes);
  CR_REQUIRE(blob);
  const cr_image_source source = {.bytes = bytes, .size = size};
  return put(preprocessing, &source, blob, item);
}

crema_status crema_preprocessing_convert(crema_preprocessing *preprocessing,
                                         const crema_pixels *pixels, crema_blob *blob,
                                         int64_t item) {
  CR_REQUIRE(preprocessing);
  CR_REQUIRE(pixels);
  CR_REQUIRE(blob);
  const cr_image_source source = {.pixels = pixels};
  return put(preprocessing, &source, blob, item);
}
