/* Files of PASCAL VOC: <annotation> with <size> and an <object> for each box. */
#include <expat.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "box_list.h"
#include "core/fail.h"

/* Elements are known by their path, such as "annotation/object/bndbox/xmin". */
typedef struct voc_reader {
  box_list *list;
  XML_Parser parser;
  cr_buffer path, text, name; /* `name`: of the object */
  found_box box;
  bool has_side[4], has_name;
  double width, height;
  crema_status status; /* of the first failure, which ends the parsing */
} voc_reader;

static void check(voc_reader *r, crema_status status) {
  if (status == CREMA_OK || r->status != CREMA_OK) return;
  r->status = cr_fail_in(status, "%s:%lu", r->list->path,
                         (unsigned long)XML_GetCurrentLineNumber(r->parser));
  XML_StopParser(r->parser, XML_FALSE);
}

static bool is_at(const voc_reader *r, const char *path) {
  return strcmp(r->path.data, path) == 0;
}

static void XMLCALL start_element(void *user, const XML_Char *name, const XML_Char **attributes) {
  voc_reader *r = user;
  (void)attributes;
  if (r->status != CREMA_OK) return;
  if (r->path.size == 0 && strcmp(name, "annotation") != 0) {
    check(r, cr_fail(CREMA_E_PARSE,
                     "expected <annotation>, as in files of PASCAL VOC, found <%.60s>", name));
  }
  cr_buffer_clear(&r->text);
  check(r, cr_buffer_print(&r->path, "%s%s", r->path.size == 0 ? "" : "/", name));
  if (r->status != CREMA_OK || !is_at(r, "annotation/object")) return;
  r->box = (found_box){.line = XML_GetCurrentLineNumber(r->parser)};
  memset(r->has_side, 0, sizeof r->has_side);
  r->has_name = false;
}

static void XMLCALL add_text(void *user, const XML_Char *text, int size) {
  voc_reader *r = user;
  if (r->status == CREMA_OK) check(r, cr_buffer_append(&r->text, text, (size_t)size));
}

static const char *trimmed(cr_buffer *text) {
  if (text->size == 0) return "";
  while (text->size > 0 && strchr(" \t\r\n", text->data[text->size - 1]) != NULL) {
    text->data[--text->size] = '\0';
  }
  return text->data + strspn(text->data, " \t\r\n");
}

static crema_status read_number(voc_reader *r, double *out) {
  const char *text = trimmed(&r->text);
  char *end = NULL;
  *out = strtod(text, &end);
  if (end != text && *end == '\0') return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s: expected a number, found \"%.60s\"", r->path.data, text);
}

static crema_status end_object(voc_reader *r) {
  static const char *const sides[] = {"xmin", "ymin", "xmax", "ymax"};
  for (int i = 0; i < 4; ++i) {
    if (!r->has_side[i]) return cr_fail(CREMA_E_PARSE, "the object's box has no %s", sides[i]);
  }
  if (!r->has_name) return cr_fail(CREMA_E_PARSE, "the object has no name");
  CR_TRY(label_map_find(r->list->labels, r->name.data, &r->box.label));
  r->box.width = r->width;
  r->box.height = r->height;
  return box_list_add(r->list, &r->box);
}

static crema_status end_known(voc_reader *r) {
  static const char *const sides[] = {
      "annotation/object/bndbox/xmin", "annotation/object/bndbox/ymin",
      "annotation/object/bndbox/xmax", "annotation/object/bndbox/ymax"};
  if (is_at(r, "annotation/size/width")) return read_number(r, &r->width);
  if (is_at(r, "annotation/size/height")) return read_number(r, &r->height);
  if (is_at(r, "annotation/object/difficult")) {
    r->box.difficult = strcmp(trimmed(&r->text), "1") == 0;
  }
  if (is_at(r, "annotation/object/name")) {
    r->has_name = true;
    cr_buffer_clear(&r->name);
    CR_TRY(cr_buffer_print(&r->name, "%s", trimmed(&r->text)));
  }
  for (int i = 0; i < 4; ++i) {
    if (!is_at(r, sides[i])) continue;
    r->has_side[i] = true;
    return read_number(r, &r->box.side[i]);
  }
  return is_at(r, "annotation/object") ? end_object(r) : CREMA_OK;
}

static void XMLCALL end_element(void *user, const XML_Char *name) {
  voc_reader *r = user;
  if (r->status != CREMA_OK) return;
  check(r, end_known(r));
  const size_t size = strlen(name);
  r->path.size -= r->path.size > size ? size + 1 : size;
  r->path.data[r->path.size] = '\0';
  cr_buffer_clear(&r->text);
}

static crema_status parse(voc_reader *r, const cr_buffer *text) {
  if (text->size > INT_MAX) return cr_fail(CREMA_E_RANGE, "%s is too large", r->list->path);
  const enum XML_Status parsed = XML_Parse(r->parser, text->data, (int)text->size, XML_TRUE);
  if (r->status != CREMA_OK || parsed == XML_STATUS_OK) return r->status;
  return cr_fail(CREMA_E_PARSE, "%s:%lu: XML: %s", r->list->path,
                 (unsigned long)XML_GetCurrentLineNumber(r->parser),
                 XML_ErrorString(XML_GetErrorCode(r->parser)));
}

crema_status box_list_read_xml(box_list *list, const cr_buffer *text) {
  voc_reader r = {.list = list, .parser = XML_ParserCreate(NULL)};
  if (r.parser == NULL) return cr_fail_memory(1, "a reader of XML");
  list->skip_empty = true;
  XML_SetUserData(r.parser, &r);
  XML_SetElementHandler(r.parser, start_element, end_element);
  XML_SetCharacterDataHandler(r.parser, add_text);
  crema_status status = parse(&r, text);
  XML_ParserFree(r.parser);
  cr_buffer_free(&r.name);
  cr_buffer_free(&r.text);
  cr_buffer_free(&r.path);
  return status;
}
