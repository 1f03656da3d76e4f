/* MatWrite: writes each bottom to a file of MATLAB, as DeepLab's test nets do.
 *
 * Formula: none: every `period`-th forward pass writes bottom i to the file PREFIX NAME "_blob_" i
 * ".mat". NAME is line k of `source` for pass k, without its last `strip` letters. If there is no
 * `source`, it is "iter_" k. Passes count from 0.
 * Shapes: any number of bottoms -> no top. The array "data" has the axes of the bottom in reverse
 * order: MATLAB's data(w, h, c, n) is row h and column w of channel c of image n. A bottom of fewer
 * than 4 axes gets axes of extent 1 at its end. Doubles and integers are written as double, all
 * else as single.
 * Fields: mat_write_param.
 * Caffe: has no such layer; DeepLab's Caffe has it. There only the first word of a line counts, as
 * here; lines without a word are skipped here.
 * Example, x 2 3 4 4:
 *   layer { name: "out" type: "MatWrite" bottom: "x" mat_write_param { prefix: "features_" } }
 *
 * A file is level 5 of the format, not compressed, in the byte order of the machine. It is replaced
 * as a whole. Solvers that share the layer number their passes together. */
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"
#include "layers/common/layer_noop.h"

typedef struct mat_write_state {
  Caffe__MatWriteParameter param;
  cr_buffer text; /* of the list, cut into names */
  char **name;
  size_t names;
  int64_t pass;
} mat_write_state;

/* Type numbers of the format: of elements, and of arrays. */
enum {
  MAT_INT8 = 1,
  MAT_INT32 = 5,
  MAT_UINT32 = 6,
  MAT_SINGLE = 7,
  MAT_DOUBLE = 9,
  MAT_ARRAY = 14
};
enum { MAT_CLASS_DOUBLE = 6, MAT_CLASS_SINGLE = 7 };

static bool has_source(const mat_write_state *s) {
  return s->param.source != NULL && s->param.source[0] != '\0';
}

/* Keeps the first word of a line, without its last letters. */
static crema_status add_name(const cr_layer *layer, mat_write_state *s, const char *path,
                             char *line, size_t number) {
  const size_t strip = (size_t)s->param.strip;
  line += strspn(line, " \t\r");
  const size_t length = strcspn(line, " \t\r");
  if (length == 0) return CREMA_OK;
  if (length <= strip) {
    return cr_layer_fail(layer, CREMA_E_PARSE, "%s:%zu: strip: %zu leaves nothing of \"%.*s\"",
                         path, number, strip, (int)length, line);
  }
  line[length - strip] = '\0';
  s->name[s->names++] = line;
  return CREMA_OK;
}

static crema_status read_names(const cr_layer *layer, mat_write_state *s, const char *path) {
  size_t lines = 1;
  CR_TRY(cr_file_read(path, &s->text));
  CR_TRY(cr_buffer_make_text(&s->text, path));
  for (size_t i = 0; i < s->text.size; ++i) lines += s->text.data[i] == '\n';
  CR_TRY(CR_NEW(s->name, lines, "names of files"));
  char *line = s->text.data;
  for (size_t number = 1; line != NULL; ++number) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    CR_TRY(add_name(layer, s, path, line, number));
    line = next;
  }
  if (s->names > 0) return CREMA_OK;
  return cr_layer_fail(layer, CREMA_E_PARSE, "%s has no names", path);
}

static crema_status setup(cr_layer *layer, crema_blob *const *bottom, crema_blob *const *top) {
  mat_write_state *s = layer->state;
  (void)bottom, (void)top;
  caffe__mat_write_parameter__init(&s->param);
  if (layer->param->mat_write_param != NULL) s->param = *layer->param->mat_write_param;
  if (s->param.period < 1) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "period is %d, must be at least 1", s->param.period);
  }
  if (s->param.strip < 0) {
    return cr_layer_fail(layer, CREMA_E_RANGE, "strip is %d, must be at least 0", s->param.strip);
  }
  if (!has_source(s)) return CREMA_OK;
  char *path = NULL;
  CR_TRY(cr_layer_in(layer, cr_file_resolve_input(layer->source_dir_file, s->param.source, &path)));
  const crema_status status = read_names(layer, s, path);
  free(path);
  return cr_layer_in(layer, status);
}

static crema_status append_tag(cr_buffer *out, uint32_t type, size_t bytes) {
  const uint32_t tag[2] = {type, (uint32_t)bytes};
  return cr_buffer_append(out, tag, sizeof tag);
}

/* An element, with zeros up to a multiple of 8 bytes. */
static crema_status append_element(cr_buffer *out, uint32_t type, const void *values,
                                   size_t bytes) {
  static const char zeros[8];
  CR_TRY(append_tag(out, type, bytes));
  CR_TRY(cr_buffer_append(out, values, bytes));
  return cr_buffer_append(out, zeros, (8 - bytes % 8) % 8);
}

static crema_status append_header(cr_buffer *out) {
  char header[124];
  const uint16_t version[2] = {0x0100, 'M' << 8 | 'I'};
  memset(header, ' ', 116);
  memset(header + 116, 0, 8);
  static const char text[] = "MATLAB 5.0 MAT-file, written by crema";
  memcpy(header, text, sizeof text - 1);
  CR_TRY(cr_buffer_append(out, header, sizeof header));
  return cr_buffer_append(out, version, sizeof version);
}

/* Appends the values as an array named "data". */
static crema_status append_array(cr_buffer *out, const crema_shape *shape, bool wide,
                                 const void *values, size_t bytes) {
  const uint32_t flags[2] = {wide ? MAT_CLASS_DOUBLE : MAT_CLASS_SINGLE, 0};
  const int axes = shape->axes < 4 ? 4 : shape->axes;
  int32_t dim[CREMA_MAX_AXES + 4];
  for (int i = 0; i < axes; ++i) {
    dim[axes - 1 - i] = i < shape->axes ? (int32_t)shape->dim[i] : 1;
  }
  CR_TRY(append_tag(out, MAT_ARRAY, 0));
  const size_t begin = out->size;
  CR_TRY(append_element(out, MAT_UINT32, flags, sizeof flags));
  CR_TRY(append_element(out, MAT_INT32, dim, (size_t)axes * sizeof *dim));
  CR_TRY(append_element(out, MAT_INT8, "data", 4));
  CR_TRY(append_element(out, wide ? MAT_DOUBLE : MAT_SINGLE, values, bytes));
  const uint32_t size = (uint32_t)(out->size - begin);
  memcpy(out->data + begin - sizeof size, &size, sizeof size);
  return CREMA_OK;
}

static crema_status write_file(const cr_layer *layer, crema_blob *blob, const char *path) {
  const crema_dtype given = crema_blob_data_type(blob);
  const bool wide = given == CREMA_F64 || given == CREMA_I32 || given == CREMA_U32;
  const crema_dtype type = wide ? CREMA_F64 : CREMA_F32;
  const size_t bytes = (size_t)crema_blob_count(blob) * crema_dtype_size(type);
  if (bytes > UINT32_MAX - 1024) {
    return cr_layer_fail(layer, CREMA_E_RANGE,
                         "%s: an array of %zu bytes is too large for the format", path, bytes);
  }
  const void *values = NULL;
  cr_buffer content = {0};
  crema_status status = CREMA_OK;
  CR_TRY(crema_blob_data_as(blob, type, &values));
  CR_TRY_GOTO(append_header(&content), done);
  CR_TRY_GOTO(append_array(&content, crema_blob_shape(blob), wide, values, bytes), done);
  status = cr_file_write(path, content.data, content.size);
done:
  cr_buffer_free(&content);
  return status;
}

static crema_status print_path(const cr_layer *layer, int blob, cr_buffer *path) {
  const mat_write_state *s = layer->state;
  if (s->param.prefix != NULL) CR_TRY(cr_buffer_print(path, "%s", s->param.prefix));
  if (has_source(s)) {
    if ((uint64_t)s->pass >= s->names) {
      return cr_layer_fail(layer, CREMA_E_RANGE, "%s has %zu names, pass %lld needs one more",
                           s->param.source, s->names, (long long)s->pass);
    }
    CR_TRY(cr_buffer_print(path, "%s", s->name[s->pass]));
  } else {
    CR_TRY(cr_buffer_print(path, "iter_%lld", (long long)s->pass));
  }
  return cr_buffer_print(path, "_blob_%d.mat", blob);
}

static crema_status forward(cr_layer *layer, crema_context *context, crema_blob *const *bottom,
                            crema_blob *const *top) {
  mat_write_state *s = layer->state;
  (void)context, (void)top;
  for (int i = 0; i < layer->bottoms && s->pass % s->param.period == 0; ++i) {
    cr_buffer path = {0};
    crema_status status = print_path(layer, i, &path);
    if (status == CREMA_OK) status = cr_layer_in(layer, write_file(layer, bottom[i], path.data));
    cr_buffer_free(&path);
    CR_TRY(status);
  }
  ++s->pass;
  return CREMA_OK;
}

static void destroy(cr_layer *layer) {
  mat_write_state *s = layer->state;
  free(s->name);
  cr_buffer_free(&s->text);
}

const cr_layer_class cr_layer_mat_write = {
    .type = "MatWrite",
    .state_size = sizeof(mat_write_state),
    .bottoms = {1, CR_ANY},
    .tops = {0, 0},
    .graph.integer_bottoms = CR_ALL_BOTTOMS,
    .graph.shareable = true,
    .setup = setup,
    .reshape = cr_layer_noop,
    .forward = forward,
    .backward = cr_layer_noop_backward,
    .destroy = destroy,
};
