#include "layers/detection/result_files.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"

typedef enum format { VOC, COCO, ILSVRC, FORMATS } format;

static const char *const format_names[FORMATS] = {"VOC", "COCO", "ILSVRC"};

static format format_of(const cr_result_files *f) {
  int i = 0;
  while (i < FORMATS && strcmp(format_names[i], f->param->output_format) != 0) ++i;
  return (format)i;
}

static bool is_given(const char *text) {
  return text != NULL && text[0] != '\0';
}

/* The name of a class; NULL: it has none. */
static const char *name_of(const cr_result_files *f, int64_t label) {
  for (size_t i = 0; i < f->names->n_item; ++i) {
    const Caffe__LabelMapItem *item = f->names->item[i];
    if (item->has_label && item->label == label && is_given(item->name)) return item->name;
  }
  return NULL;
}

static crema_status check_names(const cr_layer *layer, const cr_result_files *f) {
  for (int64_t c = 0; c < f->classes; ++c) {
    const char *name = name_of(f, c);
    if (c == f->background) continue;
    if (name == NULL) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s has no name for class %lld",
                           f->param->label_map_file, (long long)c);
    }
    if (strchr(name, '/') != NULL) {
      return cr_layer_fail(layer, CREMA_E_ARGUMENT, "%s names class %lld \"%s\": no name of a file",
                           f->param->label_map_file, (long long)c, name);
    }
  }
  return CREMA_OK;
}

static bool is_input(const cr_layer *layer, const char *name) {
  char *path = NULL;
  const bool found = cr_file_resolve_input(layer->source_dir_file, name, &path) == CREMA_OK &&
                     cr_file_exists(path);
  free(path);
  return found;
}

/* Whether the paths are of the machine of the net's author: neither the label map nor the folder
 * above output_directory exists. Who uses such a net wants its boxes, not the author's files. */
static bool is_foreign(const cr_layer *layer, const Caffe__SaveOutputParameter *param) {
  const char *slash = strrchr(param->output_directory, '/');
  char *parent = NULL;
  if (slash == NULL || slash == param->output_directory || is_input(layer, param->label_map_file)) {
    return false;
  }
  parent = strndup(param->output_directory, (size_t)(slash - param->output_directory));
  const bool foreign = parent != NULL && !cr_file_exists(parent);
  free(parent);
  return foreign;
}

static crema_status read_files(const cr_layer *layer, cr_result_files *f) {
  ProtobufCMessage *names = NULL;
  char *path = NULL;
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, f->param->label_map_file, &path));
  crema_status status =
      cr_message_read_text(&caffe__label_map__descriptor, path, CR_UNKNOWN_ERROR, &names);
  free(path);
  f->names = (Caffe__LabelMap *)names;
  CR_TRY(status);
  CR_TRY(cr_file_resolve_input(layer->source_dir_file, f->param->name_size_file, &path));
  status = cr_test_images_read(path, f->param->num_test_image, &f->sizes);
  free(path);
  return status;
}

crema_status cr_result_files_open(const cr_layer *layer, const Caffe__SaveOutputParameter *param,
                                  int64_t classes, int64_t background, cr_result_files *out) {
  if (param == NULL || !is_given(param->output_directory)) return CREMA_OK;
  if (!is_given(param->label_map_file) || !is_given(param->name_size_file) ||
      !is_given(param->output_format)) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "save_output_param needs output_format, label_map_file and name_size_file "
                         "in addition to output_directory");
  }
  out->param = param;
  out->classes = classes;
  out->background = background;
  if (format_of(out) == FORMATS) {
    return cr_layer_fail(layer, CREMA_E_ARGUMENT,
                         "save_output_param: output_format is \"%s\", must be VOC, COCO or ILSVRC",
                         param->output_format);
  }
  if (is_foreign(layer, param)) {
    cr_log_warning(
        "layer '%s': neither label_map_file %s nor the folder of output_directory %s exists: "
        "the results are not written",
        layer->name, param->label_map_file, param->output_directory);
    out->param = NULL;
    return CREMA_OK;
  }
  out->texts = format_of(out) == VOC ? classes : 1;
  CR_TRY(cr_layer_in(layer, CR_NEW(out->text, out->texts, "results")));
  CR_TRY(cr_layer_in(layer, read_files(layer, out)));
  return check_names(layer, out);
}

void cr_result_files_free(cr_result_files *files) {
  for (int64_t i = 0; files->text != NULL && i < files->texts; ++i) cr_buffer_free(&files->text[i]);
  free(files->text);
  cr_message_free((ProtobufCMessage *)files->names);
  cr_test_images_free(&files->sizes);
  *files = (cr_result_files){0};
}

/* Pixels to a hundredth. */
static double rounded(float pixels) {
  return round((double)pixels * 100) / 100;
}

/* A number stays a number in JSON; anything else is a string of it. */
static crema_status print_json(cr_buffer *out, const char *text) {
  const size_t digits = strspn(text, "0123456789");
  const bool number = digits > 0 && text[digits] == '\0' && (text[0] != '0' || digits == 1);
  if (number) return cr_buffer_print(out, "%s", text);
  CR_TRY(cr_buffer_append(out, "\"", 1));
  for (; *text != '\0'; ++text) {
    const bool control = (unsigned char)*text < 0x20;
    if (control) CR_TRY(cr_buffer_print(out, "\\u%04x", (unsigned)*text));
    else if (*text == '"' || *text == '\\') CR_TRY(cr_buffer_print(out, "\\%c", *text));
    else CR_TRY(cr_buffer_append(out, text, 1));
  }
  return cr_buffer_append(out, "\"", 1);
}

static crema_status print_row(cr_result_files *f, const char *image, const float *row, cr_box box) {
  const int64_t label = (int64_t)row[1];
  const double x = rounded(box.xmin), y = rounded(box.ymin), score = (double)row[2];
  const double width = rounded(box.xmax - box.xmin), height = rounded(box.ymax - box.ymin);
  cr_buffer *out = &f->text[format_of(f) == VOC ? label : 0];
  if (format_of(f) == VOC) {
    return cr_buffer_print(out, "%s %.7g %.7g %.7g %.7g %.7g\n", image, score, x, y, x + width,
                           y + height);
  }
  if (format_of(f) == ILSVRC) {
    return cr_buffer_print(out, "%s %lld %.7g %.7g %.7g %.7g %.7g\n", image, (long long)label,
                           score, x, y, x + width, y + height);
  }
  CR_TRY(cr_buffer_print(out, "%s{\"image_id\":", out->size > 0 ? ",\n" : ""));
  CR_TRY(print_json(out, image));
  CR_TRY(cr_buffer_print(out, ",\"category_id\":"));
  CR_TRY(print_json(out, name_of(f, label)));
  return cr_buffer_print(out, ",\"bbox\":[%.7g,%.7g,%.7g,%.7g],\"score\":%.7g}", x, y, width,
                         height, score);
}

/* Creates a folder and its parents. */
static crema_status make_folder(const char *path) {
  char *copy = strdup(path);
  crema_status status = CREMA_OK;
  if (copy == NULL) return cr_fail_memory(strlen(path) + 1, "a path");
  for (size_t i = 1; status == CREMA_OK && i <= strlen(path); ++i) {
    if (path[i] != '/' && path[i] != '\0') continue;
    copy[i] = '\0';
    if (mkdir(copy, 0777) != 0 && errno != EEXIST) {
      status = cr_fail(CREMA_E_IO, "%s: cannot make the folder: %s", copy, strerror(errno));
    }
    copy[i] = path[i];
  }
  free(copy);
  return status;
}

static crema_status write_text(const cr_result_files *f, const char *name, const char *suffix,
                               const cr_buffer *text) {
  cr_buffer path = {0};
  const char *prefix = f->param->output_name_prefix ? f->param->output_name_prefix : "";
  crema_status status =
      cr_buffer_print(&path, "%s/%s%s%s", f->param->output_directory, prefix, name, suffix);
  if (status == CREMA_OK) status = cr_file_write(path.data, text->data, text->size);
  cr_buffer_free(&path);
  return status;
}

static crema_status write_coco(const cr_result_files *f) {
  cr_buffer whole = {0};
  crema_status status = cr_buffer_print(&whole, "[");
  if (status == CREMA_OK) status = cr_buffer_append(&whole, f->text[0].data, f->text[0].size);
  if (status == CREMA_OK) status = cr_buffer_print(&whole, "]\n");
  if (status == CREMA_OK) status = write_text(f, "", ".json", &whole);
  cr_buffer_free(&whole);
  return status;
}

static crema_status write_files(cr_result_files *f) {
  CR_TRY(make_folder(f->param->output_directory));
  if (format_of(f) == COCO) CR_TRY(write_coco(f));
  if (format_of(f) == ILSVRC) CR_TRY(write_text(f, "", ".txt", &f->text[0]));
  for (int64_t c = 0; format_of(f) == VOC && c < f->classes; ++c) {
    if (c != f->background) CR_TRY(write_text(f, name_of(f, c), ".txt", &f->text[c]));
  }
  for (int64_t i = 0; i < f->texts; ++i) cr_buffer_clear(&f->text[i]);
  f->image = 0;
  return CREMA_OK;
}

crema_status cr_result_files_add(cr_result_files *files, const float *row, int64_t rows,
                                 int64_t images) {
  if (files->param == NULL) return CREMA_OK;
  for (int64_t i = 0; i < images; ++i) {
    const cr_test_image *at = &files->sizes.at[files->image];
    for (int64_t k = 0; k < rows; ++k) {
      const float *one = row + 7 * k;
      if ((int64_t)one[0] != i || one[1] < 0) continue;
      const cr_box box = cr_box_in_pixels(files->param->resize_param, at->height, at->width,
                                          (cr_box){one[3], one[4], one[5], one[6]});
      CR_TRY(print_row(files, at->name, one, box));
    }
    if (++files->image == files->sizes.count) CR_TRY(write_files(files));
  }
  return CREMA_OK;
}
