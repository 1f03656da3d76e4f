#include "layers/detection/geometry/image_sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/fail.h"
#include "core/file.h"

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the last word of a line as a side of an image, and cuts it off. */
static bool take_side(char *line, int *out) {
  size_t end = strlen(line);
  while (end > 0 && is_blank(line[end - 1])) --end;
  line[end] = '\0';
  size_t begin = end;
  while (begin > 0 && !is_blank(line[begin - 1])) --begin;
  char *rest = NULL;
  errno = 0;
  const long side = strtol(line + begin, &rest, 10);
  if (begin == end || *rest != '\0' || errno != 0 || side < 1 || side > 1 << 24) return false;
  line[begin] = '\0';
  *out = (int)side;
  return true;
}

static crema_status parse_line(cr_test_images *sizes, const char *path, char *line, size_t number) {
  cr_test_image *one = &sizes->at[sizes->count];
  size_t end = strlen(line);
  while (end > 0 && is_blank(line[end - 1])) --end;
  if (end == 0) return CREMA_OK;
  const bool known = take_side(line, &one->width) && take_side(line, &one->height);
  end = strlen(line);
  while (end > 0 && is_blank(line[end - 1])) --end;
  if (!known || end == 0) {
    return cr_fail(CREMA_E_PARSE, "%s:%zu: expected a name, a height and a width", path, number);
  }
  line[end] = '\0';
  one->name = line;
  ++sizes->count;
  return CREMA_OK;
}

crema_status cr_test_images_read(const char *path, size_t most, cr_test_images *out) {
  size_t lines = 1;
  CR_TRY(cr_file_read(path, &out->text));
  CR_TRY(cr_buffer_make_text(&out->text, path));
  for (size_t i = 0; i < out->text.size; ++i) lines += out->text.data[i] == '\n';
  CR_TRY(CR_NEW(out->at, lines, "sizes of images"));
  char *line = out->text.data;
  for (size_t number = 1; line != NULL && (most == 0 || out->count < most); ++number) {
    char *next = strchr(line, '\n');
    if (next != NULL) *next++ = '\0';
    CR_TRY(parse_line(out, path, line, number));
    line = next;
  }
  if (out->count > 0 && out->count >= most) return CREMA_OK;
  return cr_fail(CREMA_E_PARSE, "%s has sizes of %zu images, %zu are needed", path, out->count,
                 most > 0 ? most : 1);
}

void cr_test_images_free(cr_test_images *sizes) {
  free(sizes->at);
  cr_buffer_free(&sizes->text);
  *sizes = (cr_test_images){0};
}

static cr_box scale(cr_box box, float height, float width) {
  return (cr_box){box.xmin * width, box.ymin * height, box.xmax * width, box.ymax * height};
}

cr_box cr_box_in_pixels(const Caffe__ResizeParameter *resize, int height, int width, cr_box box) {
  const bool scaled = resize != NULL && resize->height_scale > 0 && resize->width_scale > 0 &&
                      resize->resize_mode == CAFFE__RESIZE_PARAMETER__RESIZE_MODE__FIT_SMALL_SIZE;
  if (scaled) {
    box = scale(box, (float)resize->height_scale, (float)resize->width_scale);
    const cr_box shares = scale(box, 1 / (float)height, 1 / (float)width);
    return scale(cr_box_clip(shares), (float)height, (float)width);
  }
  if (resize != NULL && resize->height > 0 && resize->width > 0) {
    /* The image's rectangle in the net's input. */
    const cr_box window = cr_box_resize(resize, height, width, (cr_box){0, 0, 1, 1});
    if (!cr_box_project(window, &box)) box = (cr_box){0, 0, 0, 0};
  }
  return scale(cr_box_clip(box), (float)height, (float)width);
}
