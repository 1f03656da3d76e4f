/* crema convert_annoset: image files and the boxes of the objects in them to a database of
 * AnnotatedDatum. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "data/image/image.h"
#include "db_writer.h"
#include "proto/proto.h"

/* A line of a file with boxes. */
typedef struct box {
  int label;
  bool difficult;
  float side[4]; /* left, top, right, bottom, as parts of the image */
} box;

typedef struct annoset_converter {
  const char *root;
  cr_buffer list, path, file, boxes, key, record; /* boxes: of type box */
  cr_image image;
  db_writer writer;
} annoset_converter;

static crema_status read_file(annoset_converter *c, const char *name, cr_buffer *out) {
  cr_buffer_clear(out);
  CR_TRY(db_writer_path(c->root, name, &c->path));
  return cr_file_read(c->path.data, out);
}

/* Cuts the next line off *at; NULL: there is none. */
static char *next_line(char **at) {
  char *line = *at;
  if (line == NULL || *line == '\0') return NULL;
  char *end = strpbrk(line, "\r\n");
  *at = end == NULL ? NULL : end + 1;
  if (end != NULL) *end = '\0';
  return line;
}

/* ---- boxes --------------------------------------------------------------- */

static float part_of(double value, int size) {
  const double part = value / size;
  return (float)(part < 0 ? 0 : part > 1 ? 1 : part);
}

/* The numbers of a line, with blanks between them; -1 for anything else, or more than `most`. */
static int read_numbers(const char *line, double *out, int most) {
  int count = 0;
  for (const char *at = line + strspn(line, " \t"); *at != '\0'; ++count) {
    char *end = NULL;
    if (count == most) return -1;
    out[count] = strtod(at, &end);
    if (end == at || strchr(" \t", *end) == NULL) return -1;
    at = end + strspn(end, " \t");
  }
  return count;
}

static bool is_label(double value) {
  return value >= INT32_MIN && value <= INT32_MAX && value == floor(value);
}

/* *inside: some of the box is in the image. */
static crema_status read_box(const annoset_converter *c, const char *line, box *out, bool *inside) {
  double number[6] = {0};
  const double *const side = number + 1;
  const int width = c->image.width, height = c->image.height;
  if (read_numbers(line, number, 6) < 5 || !is_label(number[0])) {
    return cr_fail(CREMA_E_PARSE,
                   "expected a label and the box's left, top, right and bottom in pixels, perhaps "
                   "a 1 for a difficult object; found \"%.60s\"",
                   line);
  }
  out->label = (int)number[0];
  for (int i = 0; i < 4; ++i) {
    const int size = i % 2 == 0 ? width : height;
    if (!(side[i] >= -size && side[i] <= 2.0 * size)) {
      return cr_fail(CREMA_E_RANGE, "the box is far outside of an image of %d x %d pixels", width,
                     height);
    }
    out->side[i] = part_of(side[i], size);
  }
  if (out->label < 1 || !(side[0] < side[2] && side[1] < side[3])) {
    return cr_fail(CREMA_E_RANGE,
                   "a label is 1 or more (0 is the background), and a box's left and top are less "
                   "than its right and bottom; found \"%.60s\"",
                   line);
  }
  out->difficult = number[5] != 0;
  *inside = side[0] < width && side[1] < height && side[2] > 0 && side[3] > 0;
  return CREMA_OK;
}

static crema_status read_boxes(annoset_converter *c, const char *name, cr_buffer *text) {
  CR_TRY(read_file(c, name, text));
  CR_TRY(cr_buffer_make_text(text, c->path.data));
  cr_buffer_clear(&c->boxes);
  char *at = text->data;
  int number = 1;
  for (char *line; (line = next_line(&at)) != NULL; ++number) {
    box one;
    bool inside = false;
    if (line[strspn(line, " \t")] == '\0') continue;
    crema_status status = read_box(c, line, &one, &inside);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%d", c->path.data, number);
    if (!inside) {
      cr_log_warning("%s:%d: the box is outside of the image; skipped", c->path.data, number);
      continue;
    }
    CR_TRY(cr_buffer_append(&c->boxes, &one, sizeof one));
  }
  return CREMA_OK;
}

/* ---- one record ---------------------------------------------------------- */

/* The messages of one record's boxes; all of them point into these arrays. */
typedef struct groups {
  Caffe__AnnotationGroup *group, **groups;
  Caffe__Annotation *annotation, **annotations;
  Caffe__NormalizedBBox *bbox;
  size_t count;
} groups;

static void add_box(groups *g, size_t at, size_t group, const box *from) {
  Caffe__NormalizedBBox *bbox = &g->bbox[at];
  Caffe__Annotation *annotation = &g->annotation[at];
  Caffe__AnnotationGroup *to = &g->group[group];
  caffe__normalized_bbox__init(bbox);
  caffe__annotation__init(annotation);
  bbox->has_xmin = bbox->has_ymin = bbox->has_xmax = bbox->has_ymax = bbox->has_difficult = true;
  bbox->xmin = from->side[0];
  bbox->ymin = from->side[1];
  bbox->xmax = from->side[2];
  bbox->ymax = from->side[3];
  bbox->difficult = from->difficult;
  annotation->bbox = bbox;
  annotation->has_instance_id = true;
  annotation->instance_id = (int32_t)to->n_annotation;
  g->annotations[at] = annotation;
  if (to->n_annotation++ == 0) to->annotation = &g->annotations[at];
}

/* A group for each label, in the order in which labels come. */
static void fill_groups(groups *g, const box *boxes, size_t count) {
  size_t put = 0;
  for (size_t i = 0; i < count; ++i) {
    bool seen = false;
    for (size_t k = 0; k < i; ++k) seen = seen || boxes[k].label == boxes[i].label;
    if (seen) continue;
    Caffe__AnnotationGroup *group = &g->group[g->count];
    caffe__annotation_group__init(group);
    group->has_group_label = true;
    group->group_label = boxes[i].label;
    for (size_t k = i; k < count; ++k) {
      if (boxes[k].label == boxes[i].label) add_box(g, put++, g->count, &boxes[k]);
    }
    g->groups[g->count++] = group;
  }
}

static crema_status print_record(annoset_converter *c, Caffe__Datum *datum) {
  const size_t count = c->boxes.size / sizeof(box);
  groups g = {0};
  Caffe__AnnotatedDatum record = CAFFE__ANNOTATED_DATUM__INIT;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(g.group, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.groups, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.annotation, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.annotations, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.bbox, count + 1, "boxes"), out);
  fill_groups(&g, (const box *)(const void *)c->boxes.data, count);
  record.datum = datum;
  record.has_type = true;
  record.type = CAFFE__ANNOTATED_DATUM__ANNOTATION_TYPE__BBOX;
  record.n_annotation_group = g.count;
  record.annotation_group = g.groups;
  cr_buffer_clear(&c->record);
  status = cr_wire_print(&record.base, &c->record);
out:
  free(g.bbox);
  free((void *)g.annotations);
  free(g.annotation);
  free((void *)g.groups);
  free(g.group);
  return status;
}

/* The record keeps the image's file as it is. */
static crema_status convert_one(annoset_converter *c, size_t number, const char *image,
                                const char *boxes) {
  cr_buffer text = {0};
  Caffe__Datum datum = CAFFE__DATUM__INIT;
  CR_TRY(read_file(c, image, &c->file));
  crema_status status =
      cr_image_decode((const uint8_t *)c->file.data, c->file.size, CR_IMAGE_COLOR, &c->image);
  if (status != CREMA_OK) return cr_fail_in(status, "%s", c->path.data);
  status = read_boxes(c, boxes, &text);
  cr_buffer_free(&text);
  if (status != CREMA_OK) return status;
  datum.has_channels = datum.has_height = datum.has_width = datum.has_encoded = true;
  datum.channels = c->image.channels;
  datum.height = c->image.height;
  datum.width = c->image.width;
  datum.encoded = datum.has_data = true;
  datum.data = (ProtobufCBinaryData){.len = c->file.size, .data = (uint8_t *)c->file.data};
  CR_TRY(print_record(c, &datum));
  CR_TRY(db_writer_key(number, image, &c->key));
  return db_writer_put_value(&c->writer, c->key.data, c->record.data, c->record.size);
}

/* ---- all of them --------------------------------------------------------- */

static crema_status convert_line(annoset_converter *c, size_t number, char *line) {
  char *rest = NULL;
  const char *image = strtok_r(line, " \t", &rest);
  const char *boxes = strtok_r(NULL, " \t", &rest);
  if (boxes == NULL || strtok_r(NULL, " \t", &rest) != NULL) {
    return cr_fail(CREMA_E_PARSE, "expected the names of an image and of a file with its boxes");
  }
  return convert_one(c, number, image, boxes);
}

static crema_status convert_lines(annoset_converter *c, const char *list) {
  char *at = c->list.data;
  size_t line_number = 1, count = 0;
  for (char *line; (line = next_line(&at)) != NULL; ++line_number) {
    if (line[strspn(line, " \t")] == '\0') continue;
    crema_status status = convert_line(c, count++, line);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", list, line_number);
  }
  return count > 0 ? CREMA_OK : cr_fail(CREMA_E_PARSE, "%s names no image", list);
}

static crema_status convert(annoset_converter *c, const char *list, const char *backend,
                            const char *db) {
  CR_TRY(cr_file_read(list, &c->list));
  CR_TRY(cr_buffer_make_text(&c->list, list));
  crema_status status = db_writer_begin(&c->writer, backend, db);
  if (status == CREMA_OK) status = convert_lines(c, list);
  return db_writer_end(&c->writer, status);
}

static void free_converter(annoset_converter *c) {
  cr_image_free(&c->image);
  cr_buffer_free(&c->record);
  cr_buffer_free(&c->key);
  cr_buffer_free(&c->boxes);
  cr_buffer_free(&c->file);
  cr_buffer_free(&c->path);
  cr_buffer_free(&c->list);
}

static const char help_text[] =
    "Makes a database for the layer AnnotatedData. Each line of LIST has two names, relative to\n"
    "ROOT: of an image, JPEG or PNG, and of a text file with a line for each object in it,\n"
    "  LABEL LEFT TOP RIGHT BOTTOM [1 for a difficult object]\n"
    "where labels are numbers from 1 on (0 is the background) and the box is in pixels. Records\n"
    "are in the order of LIST (shuf LIST changes it) and hold the image's file as it is.\n"
    "Boxes are cut at the borders of the image; a box that is all outside is skipped, with a\n"
    "warning.\n"
    "\n"
    "Example:\n"
    "  crema convert_annoset photos/ train.txt train_lmdb\n";

int crema_cmd_convert_annoset(int argc, char **argv) {
  const char *backend = "lmdb";
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &backend, "kind of database: lmdb, leveldb"},
  };
  const cli_spec spec = {.command = "convert_annoset",
                         .arguments = "ROOT LIST DB",
                         .min_arguments = 3,
                         .max_arguments = 3,
                         .help = help_text,
                         .flags = flags,
                         .flag_count = sizeof flags / sizeof *flags};
  int exit_code;
  if (!cli_parse(&spec, &argc, argv, &exit_code)) return exit_code;
  if (!db_writer_check_kind("-backend", backend, false)) return 1;
  annoset_converter c = {.root = argv[1]};
  crema_status status = convert(&c, argv[2], backend, argv[3]);
  free_converter(&c);
  return status == CREMA_OK ? 0 : cli_fail();
}
