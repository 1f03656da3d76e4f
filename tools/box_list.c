#include "box_list.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/log.h"

char *box_next_line(char **at) {
  char *line = *at;
  if (line == NULL || *line == '\0') return NULL;
  char *end = strpbrk(line, "\r\n");
  *at = end == NULL ? NULL : end + 1;
  if (end != NULL) *end = '\0';
  return line;
}

/* ---- one box ------------------------------------------------------------- */

static crema_status check_order(const found_box *b) {
  const double *side = b->side;
  if (b->label < 1) {
    const bool parts = side[0] >= 0 && side[1] >= 0 && side[2] <= 1 && side[3] <= 1;
    return cr_fail(CREMA_E_RANGE, "a label is 1 or more (0 is the background); found %d%s",
                   b->label, parts ? "; are these files of YOLO (-label_type yolo)?" : "");
  }
  if (side[0] < side[2] && side[1] < side[3]) return CREMA_OK;
  return cr_fail(CREMA_E_RANGE,
                 "a box's left and top are less than its right and bottom; found %g %g %g %g",
                 side[0], side[1], side[2], side[3]);
}

crema_status box_list_add(box_list *list, const found_box *found) {
  box out = {.label = found->label, .difficult = found->difficult};
  const double width = list->normalised ? 1 : found->width > 0 ? found->width : list->width;
  const double height = list->normalised ? 1 : found->height > 0 ? found->height : list->height;
  bool outside = false;
  for (int i = 0; i < 4; ++i) {
    const double part = found->side[i] / (i % 2 == 0 ? width : height);
    if (!(part >= -1 && part <= 2)) {
      return cr_fail(CREMA_E_RANGE, "the box is far outside of an image of %g x %g%s", width,
                     height, list->normalised ? "" : " pixels");
    }
    out.side[i] = (float)(part < 0 ? 0 : part > 1 ? 1 : part);
    outside = outside || (i < 2 ? part >= 1 : part <= 0);
  }
  const double *side = found->side;
  const bool empty = side[0] == side[2] || side[1] == side[3];
  if (!(empty && list->skip_empty)) CR_TRY(check_order(found));
  list->pixels = list->pixels || found->side[2] > 1 || found->side[3] > 1;
  if (!outside && !empty) return cr_buffer_append(&list->boxes, &out, sizeof out);
  cr_log_warning("%s:%zu: the box %s; skipped", list->path, found->line,
                 empty ? "has no area" : "is outside of the image");
  return CREMA_OK;
}

/* ---- text ---------------------------------------------------------------- */

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
  return value >= INT32_MIN && value < INT32_MAX && value == floor(value);
}

static crema_status read_text_box(const box_list *list, const char *line, found_box *out) {
  double number[6] = {0};
  if (read_numbers(line, number, 6) < 5 || !is_label(number[0])) {
    return cr_fail(CREMA_E_PARSE,
                   "expected a label and the box's left, top, right and bottom in %s, perhaps "
                   "a 1 for a difficult object; found \"%.60s\"",
                   list->normalised ? "parts of the image" : "pixels", line);
  }
  out->label = (int)number[0];
  memcpy(out->side, number + 1, sizeof out->side);
  out->difficult = number[5] != 0;
  return CREMA_OK;
}

/* The box in parts of the image, which is its own unit. */
static crema_status read_yolo_box(const char *line, found_box *out) {
  double number[5] = {0};
  if (read_numbers(line, number, 5) != 5 || !is_label(number[0])) {
    return cr_fail(CREMA_E_PARSE,
                   "expected a class from 0 on, the x and y of the box's centre, its width and its "
                   "height, as parts of the image; found \"%.60s\"",
                   line);
  }
  if (number[0] < 0) {
    return cr_fail(CREMA_E_RANGE, "a class of YOLO is 0 or more; found %.0f", number[0]);
  }
  for (int i = 1; i < 5; ++i) {
    if (number[i] >= -1 && number[i] <= 2) continue;
    return cr_fail(CREMA_E_RANGE,
                   "the x and y of the box's centre, its width and its height are parts of the "
                   "image, between 0 and 1; found \"%.60s\"",
                   line);
  }
  out->label = (int)number[0] + 1;
  out->width = out->height = 1;
  for (int i = 0; i < 2; ++i) {
    out->side[i] = number[1 + i] - number[3 + i] / 2;
    out->side[i + 2] = number[1 + i] + number[3 + i] / 2;
  }
  return CREMA_OK;
}

static crema_status read_lines(box_list *list, box_format format, char *at) {
  size_t number = 1;
  list->skip_empty = format == BOX_YOLO;
  for (char *line; (line = box_next_line(&at)) != NULL; ++number) {
    found_box one = {.line = number};
    if (line[strspn(line, " \t")] == '\0') continue;
    crema_status status =
        format == BOX_YOLO ? read_yolo_box(line, &one) : read_text_box(list, line, &one);
    if (status == CREMA_OK) status = box_list_add(list, &one);
    if (status != CREMA_OK) return cr_fail_in(status, "%s:%zu", list->path, number);
  }
  return CREMA_OK;
}

crema_status box_list_read(box_list *list, box_format format, cr_buffer *text) {
  cr_buffer_clear(&list->boxes);
  if (format == BOX_XML) return box_list_read_xml(list, text);
  CR_TRY(cr_buffer_make_text(text, list->path));
  if (format == BOX_JSON) return box_list_read_json(list, text);
  return read_lines(list, format, text->data);
}
