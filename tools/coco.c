#include "coco.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "json.h"

enum { NO_TEXT = 0 }; /* the first text is empty */

const char *coco_text(const coco *c, size_t at) {
  return c->texts.data + at;
}

bool coco_is_json(const cr_buffer *text) {
  return text->size > 0 && text->data[strspn(text->data, " \t\r\n")] == '{';
}

/* ---- values -------------------------------------------------------------- */

static crema_status read_text(coco *c, json *j, size_t *out) {
  CR_TRY(json_text(j, &c->text));
  *out = c->texts.size;
  return cr_buffer_append(&c->texts, c->text.data, c->text.size + 1);
}

typedef struct bbox_values {
  double value[4];
  int count;
} bbox_values;

static crema_status read_side(void *user, json *j, const char *key) {
  (void)key;
  bbox_values *s = user;
  double extra;
  return json_number(j, s->count < 4 ? &s->value[s->count++] : &extra);
}

/* true, false or a number. */
static crema_status read_flag(coco *c, json *j, bool *out) {
  CR_TRY(json_text(j, &c->text));
  *out = *out || strcmp(c->text.data, "true") == 0 || strtod(c->text.data, NULL) != 0;
  return CREMA_OK;
}

/* ---- objects ------------------------------------------------------------- */

/* The object whose members a function reads. */
typedef struct member_of {
  coco *c;
  void *object;
} member_of;

static crema_status read_image_member(void *user, json *j, const char *key) {
  member_of *m = user;
  coco_image *image = m->object;
  if (strcmp(key, "id") == 0) return read_text(m->c, j, &image->id);
  if (strcmp(key, "file_name") == 0) return read_text(m->c, j, &image->name);
  if (strcmp(key, "width") == 0) return json_number(j, &image->width);
  if (strcmp(key, "height") == 0) return json_number(j, &image->height);
  return json_skip(j);
}

static crema_status read_category_member(void *user, json *j, const char *key) {
  member_of *m = user;
  coco_category *category = m->object;
  if (strcmp(key, "id") == 0) return read_text(m->c, j, &category->id);
  if (strcmp(key, "name") == 0) return read_text(m->c, j, &category->name);
  return json_skip(j);
}

static crema_status read_box_member(void *user, json *j, const char *key) {
  member_of *m = user;
  coco_box *one = m->object;
  if (strcmp(key, "image_id") == 0) return read_text(m->c, j, &one->image_id);
  if (strcmp(key, "category_id") == 0) return read_text(m->c, j, &one->category_id);
  if (strcmp(key, "iscrowd") == 0 || strcmp(key, "ignore") == 0) {
    return read_flag(m->c, j, &one->crowd);
  }
  if (strcmp(key, "bbox") != 0) return json_skip(j);
  bbox_values s = {.count = 0};
  CR_TRY(json_each(j, '[', read_side, &s));
  memcpy(one->side, s.value, sizeof one->side);
  if (s.count == 4) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s:%zu: a bbox has four numbers: left, top, width, height",
                 j->path, j->line);
}

static crema_status read_image(void *user, json *j, const char *key) {
  (void)key;
  coco *c = user;
  coco_image image = {.id = NO_TEXT};
  CR_TRY(json_each(j, '{', read_image_member, &(member_of){c, &image}));
  return cr_buffer_append(&c->images, &image, sizeof image);
}

static crema_status read_category(void *user, json *j, const char *key) {
  (void)key;
  coco *c = user;
  coco_category category = {.id = NO_TEXT};
  CR_TRY(json_each(j, '{', read_category_member, &(member_of){c, &category}));
  return cr_buffer_append(&c->categories, &category, sizeof category);
}

static crema_status read_box(void *user, json *j, const char *key) {
  (void)key;
  coco *c = user;
  coco_box found = {.line = j->line, .order = c->boxes.size};
  CR_TRY(json_each(j, '{', read_box_member, &(member_of){c, &found}));
  return cr_buffer_append(&c->boxes, &found, sizeof found);
}

static crema_status read_member(void *user, json *j, const char *key) {
  coco *c = user;
  if (strcmp(key, "images") == 0) return json_each(j, '[', read_image, user);
  if (strcmp(key, "image") == 0) return read_image(user, j, key);
  if (strcmp(key, "categories") == 0) return json_each(j, '[', read_category, user);
  if (strcmp(key, "annotations") == 0 || strcmp(key, "annotation") == 0) {
    c->annotated = true;
    return json_each(j, '[', read_box, user);
  }
  return json_skip(j);
}

static crema_status parse(const char *path, const cr_buffer *text, coco *out) {
  json j = {.at = text->data, .end = text->data + text->size, .path = path, .line = 1};
  out->path = path;
  CR_TRY(cr_buffer_append(&out->texts, "", 1));
  CR_TRY(json_each(&j, '{', read_member, out));
  return json_end(&j);
}

void coco_free(coco *c) {
  cr_buffer_free(&c->text);
  cr_buffer_free(&c->boxes);
  cr_buffer_free(&c->categories);
  cr_buffer_free(&c->images);
  cr_buffer_free(&c->texts);
}

/* ---- labels -------------------------------------------------------------- */

static coco_category *categories(const coco *c, size_t *count) {
  *count = c->categories.size / sizeof(coco_category);
  return (coco_category *)(void *)c->categories.data;
}

static coco_box *boxes(const coco *c, size_t *count) {
  *count = c->boxes.size / sizeof(coco_box);
  return (coco_box *)(void *)c->boxes.data;
}

/* Of a category that the file does not describe: its id is the name in the map, or the label. */
static crema_status label_of_id(const label_map *labels, const char *id, int *out) {
  char *end = NULL;
  if (labels->message != NULL) return label_map_find(labels, id, out);
  const long label = strtol(id, &end, 10);
  if (end == id || *end != '\0' || label < 1 || label >= INT_MAX) {
    return cr_fail(CREMA_E_PARSE,
                   "category_id is \"%.60s\", but without a label map it has to be a label from 1 "
                   "on",
                   id);
  }
  *out = (int)label;
  return CREMA_OK;
}

static crema_status choose_labels(coco *c, const label_map *labels) {
  size_t count;
  coco_category *category = categories(c, &count);
  for (size_t i = 0; i < count; ++i) {
    const double id = strtod(coco_text(c, category[i].id), NULL);
    category[i].label = 1;
    if (labels->message != NULL) {
      if (label_map_find(labels, coco_text(c, category[i].name), &category[i].label) == CREMA_OK) {
        continue;
      }
      CR_TRY(label_map_find(labels, coco_text(c, category[i].id), &category[i].label));
      continue;
    }
    for (size_t k = 0; k < count; ++k) {
      const double other = strtod(coco_text(c, category[k].id), NULL);
      category[i].label += other < id || (other == id && k < i);
    }
  }
  return CREMA_OK;
}

static crema_status find_label(const coco *c, const label_map *labels, const coco_box *one,
                               int *out) {
  size_t count;
  const coco_category *category = categories(c, &count);
  const char *id = coco_text(c, one->category_id);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(coco_text(c, category[i].id), id) != 0) continue;
    *out = category[i].label;
    return CREMA_OK;
  }
  if (count > 0) return cr_fail(CREMA_E_PARSE, "no category has the id \"%.60s\"", id);
  return label_of_id(labels, id, out);
}

/* ---- images -------------------------------------------------------------- */

size_t coco_image_count(const coco *c) {
  return c->images.size / sizeof(coco_image);
}

const coco_image *coco_image_at(const coco *c, size_t i) {
  return (const coco_image *)(const void *)c->images.data + i;
}

typedef struct image_key {
  const char *id;
  size_t image;
} image_key;

static int compare_ids(const void *a, const void *b) {
  return strcmp(((const image_key *)a)->id, ((const image_key *)b)->id);
}

static int compare_boxes(const void *a, const void *b) {
  const coco_box *x = a, *y = b;
  if (x->image != y->image) return x->image < y->image ? -1 : 1;
  return x->order < y->order ? -1 : x->order > y->order;
}

static crema_status find_images(const coco *c, const image_key *keys, size_t images) {
  size_t count;
  coco_box *one = boxes(c, &count);
  for (size_t i = 0; i < count; ++i) {
    const image_key wanted = {coco_text(c, one[i].image_id), 0};
    const image_key *found =
        images == 0 ? NULL : bsearch(&wanted, keys, images, sizeof *keys, compare_ids);
    if (found == NULL) {
      return cr_fail(CREMA_E_PARSE, "%s:%zu: no image has the id \"%.60s\"", c->path, one[i].line,
                     wanted.id);
    }
    one[i].image = found->image;
  }
  return CREMA_OK;
}

/* Sorts the boxes by image. */
static crema_status sort_boxes(coco *c) {
  const size_t images = coco_image_count(c);
  coco_image *image = (coco_image *)(void *)c->images.data;
  image_key *keys = NULL;
  size_t count;
  coco_box *one = boxes(c, &count);
  CR_TRY(CR_NEW(keys, images + 1, "images"));
  for (size_t i = 0; i < images; ++i) keys[i] = (image_key){coco_text(c, image[i].id), i};
  qsort(keys, images, sizeof *keys, compare_ids);
  crema_status status = find_images(c, keys, images);
  free(keys);
  if (status != CREMA_OK || count == 0) return status;
  qsort(one, count, sizeof *one, compare_boxes);
  for (size_t i = count; i-- > 0;) {
    image[one[i].image].first = i;
    ++image[one[i].image].count;
  }
  return CREMA_OK;
}

crema_status coco_read(const char *path, cr_buffer *text, const label_map *labels, coco *out) {
  *out = (coco){.path = path};
  CR_TRY(cr_buffer_make_text(text, path));
  CR_TRY(parse(path, text, out));
  for (size_t i = 0; i < coco_image_count(out); ++i) {
    if (coco_image_at(out, i)->name != NO_TEXT) continue;
    return cr_fail(CREMA_E_PARSE, "%s: image %zu has no file_name", path, i + 1);
  }
  crema_status status = choose_labels(out, labels);
  return status == CREMA_OK ? sort_boxes(out) : cr_fail_in(status, "%s", path);
}

/* ---- lists --------------------------------------------------------------- */

static crema_status list_box(const coco *c, const coco_box *b, const coco_image *image,
                             box_list *list) {
  found_box found = {
      .difficult = b->crowd,
      .side = {b->side[0], b->side[1], b->side[0] + b->side[2], b->side[1] + b->side[3]},
      .line = b->line};
  if (image != NULL) {
    found.width = image->width;
    found.height = image->height;
  }
  CR_TRY(find_label(c, list->labels, b, &found.label));
  return box_list_add(list, &found);
}

static crema_status list_boxes(const coco *c, size_t first, size_t count, const coco_image *image,
                               box_list *list) {
  size_t all;
  const coco_box *one = boxes(c, &all);
  list->skip_empty = true;
  for (size_t i = first; i < first + count; ++i) {
    crema_status status = list_box(c, &one[i], image, list);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", c->path, one[i].line);
  }
  return CREMA_OK;
}

crema_status coco_list_boxes(const coco *c, size_t i, box_list *list) {
  const coco_image *image = coco_image_at(c, i);
  cr_buffer_clear(&list->boxes);
  return list_boxes(c, image->first, image->count, image, list);
}

crema_status box_list_read_json(box_list *list, const cr_buffer *text) {
  coco one = {.path = list->path};
  size_t count;
  crema_status status = parse(list->path, text, &one);
  if (status == CREMA_OK && !one.annotated) {
    status = cr_fail(CREMA_E_PARSE, "%s: expected the member \"annotation\", as in files of COCO",
                     list->path);
  }
  if (status == CREMA_OK) {
    status = choose_labels(&one, list->labels);
    if (status != CREMA_OK) status = cr_fail_in(status, "%s", list->path);
  }
  boxes(&one, &count);
  const coco_image *image = coco_image_count(&one) > 0 ? coco_image_at(&one, 0) : NULL;
  if (status == CREMA_OK) status = list_boxes(&one, 0, count, image, list);
  coco_free(&one);
  return status;
}
