/* Transformations outside transform_param: a warning in today's format, an upgrade in the second.
 */
#include "core/buffer.h"
#include "data/image/image.h"
#include "folder.h"
#include "log_lines.h"
#include "net_case.h"

/* Builds a net of one layer over a list with one image. */
static void check(const char *start, const char *fields, int warnings,
                  const char *const *expected) {
  char text[1024];
  log_lines lines;
  snprintf(text, sizeof text,
           "%s name: 'd' top: 'x' top: 'l' image_data_param { source: '%s' %s } }", start,
           path_of("list"), fields);
  listen_to(&lines, CREMA_LOG_WARNING);
  crema_net *net = build(text, CREMA_TEST);
  stop_listening();
  assert_int_equal(lines.count, warnings);
  for (int i = 0; i < warnings; ++i) assert_non_null(strstr(lines.text, expected[i]));
  crema_net_destroy(net);
}

TEST(fields_without_effect_are_named) {
  static const char now[] = "layer { type: 'ImageData'", then[] = "layers { type: IMAGE_DATA";
  static const char *const expected[] = {
      "crop_size of image_data_param has no effect; it belongs into transform_param",
      "mirror of image_data_param", "scale of image_data_param"};
  cr_image image = {0};
  cr_buffer png = {0};
  ok(cr_image_reserve(&image, 6, 5, 3));
  memset(image.pixels, 1, 90);
  ok(cr_image_encode(&image, "png", &png));
  ok(cr_file_write(path_of("a.png"), png.data, png.size));
  write_text("list", "a.png 0\n");
  check(now, "", 0, NULL);
  check(now, "crop_size: 4", 1, expected);
  check(now, "crop_size: 4 mirror: true scale: 0.5", 3, expected);
  check(then, "crop_size: 4 mirror: true scale: 0.5", 0, NULL);
  remove(path_of("list"));
  remove(path_of("a.png"));
  cr_buffer_free(&png);
  cr_image_free(&image);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
