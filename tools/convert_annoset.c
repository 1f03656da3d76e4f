/* crema convert_annoset: image files and the boxes of the objects in them to a database of
 * AnnotatedDatum. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "box_list.h"
#include "cli.h"
#include "coco.h"
#include "core/fail.h"
#include "core/file.h"
#include "core/log.h"
#include "db_writer.h"
#include "image_record.h"
#include "proto/proto.h"

typedef struct annoset_options {
  bool shuffle, check_label, normalised_boxes;
  const char *backend, *anno_type, *label_type, *label_map_file;
  int64_t seed;
} annoset_options;

/* An image, and the file of its boxes or its number in the file of COCO. */
typedef struct annoset_entry {
  const char *image, *boxes; /* NULL: in the file of COCO */
  size_t line, number;
} annoset_entry;

typedef struct annoset_converter {
  const annoset_options *options;
  box_format format;
  image_recorder recorder;
  label_map labels;
  box_list list;
  coco coco;
  cr_buffer text, entries, path, boxes, key, record; /* entries: of type annoset_entry */
  bool has_boxes;
  db_writer writer;
} annoset_converter;

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
  const size_t count = c->list.boxes.size / sizeof(box);
  groups g = {0};
  Caffe__AnnotatedDatum record = CAFFE__ANNOTATED_DATUM__INIT;
  crema_status status = CREMA_OK;
  CR_TRY_GOTO(CR_NEW(g.group, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.groups, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.annotation, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.annotations, count + 1, "boxes"), out);
  CR_TRY_GOTO(CR_NEW(g.bbox, count + 1, "boxes"), out);
  fill_groups(&g, (const box *)(const void *)c->list.boxes.data, count);
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

/* ---- one image ------------------------------------------------------------ */

/* Boxes in pixels hardly all end within the first one. */
static void check_unit(annoset_converter *c, const char *image) {
  const bool has_boxes = c->list.boxes.size > 0;
  const bool suspicious = has_boxes && !c->list.pixels && !c->has_boxes;
  c->has_boxes = c->has_boxes || has_boxes;
  if (!suspicious || c->options->normalised_boxes || c->format == BOX_YOLO) return;
  cr_log_warning("%s: all boxes of the image '%s' lie between 0 and 1, but should be in pixels",
                 c->list.path, image);
}

static crema_status read_boxes(annoset_converter *c, const annoset_entry *entry) {
  c->list.width = c->recorder.width;
  c->list.height = c->recorder.height;
  if (entry->boxes == NULL) {
    c->list.path = c->coco.path;
    return coco_list_boxes(&c->coco, entry->number, &c->list);
  }
  CR_TRY(db_writer_path(c->recorder.root, entry->boxes, &c->path));
  cr_buffer_clear(&c->boxes);
  CR_TRY(cr_file_read(c->path.data, &c->boxes));
  c->list.path = c->path.data;
  return box_list_read(&c->list, c->format, &c->boxes);
}

static crema_status convert_one(annoset_converter *c, size_t number, const annoset_entry *entry) {
  cr_datum image;
  const cr_image *values = NULL;
  Caffe__Datum datum = CAFFE__DATUM__INIT;
  CR_TRY(image_record_make(&c->recorder, entry->image, &image, &values));
  CR_TRY(read_boxes(c, entry));
  check_unit(c, entry->image);
  datum.has_channels = datum.has_height = datum.has_width = datum.has_encoded = true;
  datum.channels = values->channels;
  datum.height = values->height;
  datum.width = values->width;
  datum.encoded = image.encoded;
  datum.has_data = true;
  datum.data = (ProtobufCBinaryData){.len = image.size, .data = (uint8_t *)image.data};
  CR_TRY(print_record(c, &datum));
  CR_TRY(db_writer_key(number, entry->image, &c->key));
  return db_writer_put_value(&c->writer, c->key.data, c->record.data, c->record.size);
}

/* ---- all of them --------------------------------------------------------- */

static crema_status add_line(annoset_converter *c, size_t number, char *line) {
  char *rest = NULL;
  const char *image = strtok_r(line, " \t", &rest);
  const char *boxes = strtok_r(NULL, " \t", &rest);
  if (image == NULL) return CREMA_OK;
  if (boxes == NULL || strtok_r(NULL, " \t", &rest) != NULL) {
    return cr_fail(CREMA_E_PARSE, "expected the names of an image and of a file with its boxes");
  }
  const annoset_entry entry = {.image = image, .boxes = boxes, .line = number};
  return cr_buffer_append(&c->entries, &entry, sizeof entry);
}

static crema_status list_lines(annoset_converter *c, const char *list) {
  char *at = c->text.data;
  size_t number = 1;
  for (char *line; (line = box_next_line(&at)) != NULL; ++number) {
    crema_status status = add_line(c, number, line);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", list, number);
  }
  return CREMA_OK;
}

static crema_status list_coco(annoset_converter *c, const char *list) {
  CR_TRY(coco_read(list, &c->text, &c->labels, &c->coco));
  cr_buffer_free(&c->text); /* large, and copied in part */
  for (size_t i = 0; i < coco_image_count(&c->coco); ++i) {
    const annoset_entry entry = {.image = coco_text(&c->coco, coco_image_at(&c->coco, i)->name),
                                 .number = i};
    CR_TRY(cr_buffer_append(&c->entries, &entry, sizeof entry));
  }
  return CREMA_OK;
}

static crema_status convert_entries(annoset_converter *c, const char *list) {
  const annoset_entry *entry = (const annoset_entry *)(const void *)c->entries.data;
  const size_t count = c->entries.size / sizeof *entry;
  for (size_t i = 0; i < count; ++i) {
    crema_status status = convert_one(c, i, &entry[i]);
    if (status != CREMA_OK && entry[i].line > 0) {
      return cr_fail_in(status, "%s:%zu", list, entry[i].line);
    }
    CR_TRY(status);
  }
  if (!c->has_boxes || c->list.pixels || c->options->normalised_boxes || c->format == BOX_YOLO) {
    return CREMA_OK;
  }
  return cr_fail(CREMA_E_RANGE,
                 "%s: the boxes of all images lie between 0 and 1; if they are parts of the image, "
                 "give -normalised_boxes",
                 list);
}

static crema_status choose_format(annoset_converter *c) {
  static const char *const names[] = {"txt", "yolo", "xml", "json"};
  const char *given = c->options->label_type;
  if (strcmp(c->options->anno_type, "detection") != 0) {
    return cr_fail(CREMA_E_ARGUMENT, "-anno_type %s: expected detection%s", c->options->anno_type,
                   strcmp(c->options->anno_type, "classification") == 0
                       ? "; `crema convert_imageset` converts images with labels"
                       : "");
  }
  for (int i = 0; i < 4; ++i) {
    if (strcmp(given, names[i]) != 0) continue;
    c->format = (box_format)i;
    if (c->format != BOX_XML || c->options->label_map_file[0] != '\0') return CREMA_OK;
    return cr_fail(CREMA_E_ARGUMENT,
                   "files of VOC name their classes: give -label_map_file (`crema "
                   "create_label_map` writes one)");
  }
  return cr_fail(CREMA_E_ARGUMENT, "-label_type %s: expected txt, yolo, xml or json", given);
}

static crema_status prepare(annoset_converter *c, const char *list) {
  const annoset_options *o = c->options;
  CR_TRY(choose_format(c));
  CR_TRY(image_record_check(c->recorder.options));
  if (o->label_map_file[0] != '\0') {
    CR_TRY(label_map_read(o->label_map_file, o->check_label, &c->labels));
  }
  CR_TRY(cr_file_read(list, &c->text));
  CR_TRY(cr_buffer_make_text(&c->text, list));
  const bool whole = c->format == BOX_JSON && coco_is_json(&c->text);
  CR_TRY(whole ? list_coco(c, list) : list_lines(c, list));
  const size_t count = c->entries.size / sizeof(annoset_entry);
  if (count == 0) return cr_fail(CREMA_E_PARSE, "%s names no image", list);
  if (o->shuffle) {
    cr_log_info("Shuffling data");
    image_record_shuffle(c->entries.data, count, sizeof(annoset_entry), o->seed);
  }
  cr_log_info("A total of %zu images.", count);
  return CREMA_OK;
}

static crema_status convert(annoset_converter *c, const char *list, const char *db) {
  c->list.labels = &c->labels;
  c->list.normalised = c->options->normalised_boxes;
  CR_TRY(prepare(c, list));
  crema_status status = db_writer_begin(&c->writer, c->options->backend, db);
  if (status == CREMA_OK) status = convert_entries(c, list);
  return db_writer_end(&c->writer, status);
}

static void free_converter(annoset_converter *c) {
  cr_buffer_free(&c->record);
  cr_buffer_free(&c->key);
  cr_buffer_free(&c->boxes);
  cr_buffer_free(&c->path);
  cr_buffer_free(&c->entries);
  cr_buffer_free(&c->text);
  coco_free(&c->coco);
  cr_buffer_free(&c->list.boxes);
  label_map_free(&c->labels);
  image_recorder_free(&c->recorder);
}

static const char help_text[] =
    "Makes a database for the layer AnnotatedData. Each line of LIST has two names, relative to\n"
    "ROOT: of an image, and of a file with its boxes. The format of these files is -label_type:\n"
    "  txt   a line LABEL LEFT TOP RIGHT BOTTOM [1 for a difficult object] for each box, in "
    "pixels\n"
    "  yolo  a line CLASS CENTRE_X CENTRE_Y WIDTH HEIGHT; parts of the image; label is CLASS + 1\n"
    "  xml   PASCAL VOC\n"
    "  json  COCO; LIST may also be the file of a whole data set, which names its images\n"
    "Labels are numbers from 1 on (0 is the background). -label_map_file gives the numbers of "
    "names,\n"
    "in txt and yolo it has no effect. Without it, the categories of COCO get 1, 2, ... in the "
    "order\n"
    "of their ids.\n"
    "\n"
    "Records are in the order of LIST and hold the image's file as it is, unless an option asks "
    "for\n"
    "another size, colour or type. Boxes are cut at the borders of the image; a box that is all\n"
    "outside is skipped, with a warning. If the boxes of all images lie between 0 and 1, they are\n"
    "hardly in pixels, and the command fails without -normalised_boxes.\n"
    "\n"
    "Examples:\n"
    "  crema convert_annoset photos/ train.txt train_lmdb\n"
    "  crema convert_annoset -label_type xml -label_map_file labelmap_voc.prototxt \\\n"
    "    VOCdevkit/ trainval.txt voc_lmdb\n"
    "  crema convert_annoset -label_type json train2017/ instances_train2017.json coco_lmdb\n";

int crema_cmd_convert_annoset(int argc, char **argv) {
  annoset_options o = {.backend = "lmdb",
                       .anno_type = "detection",
                       .label_type = "txt",
                       .label_map_file = "",
                       .seed = -1};
  image_record_options image = {.encode_type = "", .encoded = true, .keep_file = true};
  const cli_flag flags[] = {
      {"backend", CLI_WORD, &o.backend, "kind of database: lmdb, leveldb"},
      {"anno_type", CLI_WORD, &o.anno_type, "accepted; detection is the only type"},
      {"label_type", CLI_WORD, &o.label_type, "format of the boxes: txt, yolo, xml, json"},
      {"label_map_file", CLI_FILE, &o.label_map_file, "the labels of class names"},
      {"check_label", CLI_BOOL, &o.check_label, "fail when the map has a name or label twice"},
      {"normalised_boxes", CLI_BOOL, &o.normalised_boxes, "boxes are parts of the image"},
      {"shuffle", CLI_BOOL, &o.shuffle, "shuffle the list"},
      {"seed", CLI_INT, &o.seed, "seed of -shuffle; below 0: another order each time"},
      {"gray", CLI_BOOL, &image.gray, "store one channel"},
      {"min_dim", CLI_INT, &image.min_dim, "enlarge a shorter side below this; 0: none"},
      {"max_dim", CLI_INT, &image.max_dim, "reduce a longer side above this; 0: none"},
      {"resize_width", CLI_INT, &image.resize_width, "width to resize to; 0: none"},
      {"resize_height", CLI_INT, &image.resize_height, "height to resize to; 0: none"},
      {"exact_resize", CLI_BOOL, &image.exact_resize, "decode large JPEGs whole, as Caffe does"},
      {"check_size", CLI_BOOL, &image.check_size, "fail when images have different sizes"},
      {"encoded", CLI_BOOL, &image.encoded, "store image files instead of pixels"},
      {"encode_type", CLI_WORD, &image.encode_type, "jpg or png; by default the file's"},
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
  if (!db_writer_check_kind("-backend", o.backend, false)) return 1;
  if (image.encode_type[0] != '\0') image.encoded = true;
  annoset_converter c = {.options = &o, .recorder = {.options = &image, .root = argv[1]}};
  crema_status status = convert(&c, argv[2], argv[3]);
  free_converter(&c);
  return status == CREMA_OK ? 0 : cli_fail();
}
