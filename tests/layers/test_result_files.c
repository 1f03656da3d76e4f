/* Files of results of DetectionOutput, and sizes of pictures of DetectionEvaluate. */
#include "folder.h"
#include "layers/layer_rig.h"
#include "log_lines.h"

enum { PRIORS = 2 };

static const char names[] =
    "item { name: 'none' label: 0 } item { name: 'cat' label: 1 } item { name: '17' label: 2 }\n";

static void assert_file(const char *name, const char *wanted) {
  cr_buffer text = {0};
  ok(cr_file_read(path_of(name), &text));
  assert_string_equal(text.data, wanted);
  cr_buffer_free(&text);
}

/* Empties the folder. */
static void clean(void) {
  char command[PATH_SIZE];
  snprintf(command, sizeof command, "rm -r %s/*", folder);
  assert_int_equal(system(command), 0);
}

/* Two boxes of each of `pictures` pictures, found as class 1 with 0.75 and class 2 with 0.5. */
static void make_output(rig *r, const char *format, const char *rest, int pictures) {
  char text[1500], shapes[100];
  snprintf(text, sizeof text,
           "detection_output_param { num_classes: 3 code_type: CORNER confidence_threshold: 0.3 "
           "save_output_param { output_directory: '%s/out/deep' output_name_prefix: 'det_' "
           "output_format: '%s' label_map_file: '%s/map' name_size_file: '%s/sizes' %s } }",
           folder, format, folder, folder, rest);
  snprintf(shapes, sizeof shapes, "%d %d|%d %d|1 2 %d", pictures, 4 * PRIORS, pictures, 3 * PRIORS,
           4 * PRIORS);
  rig_make(r, "DetectionOutput", text, CAFFE__PHASE__TEST, shapes, 1);
  static const float box[8] = {0.25f, 0.25f, 0.5f, 0.75f, -0.5f, 0, 0.5f, 1.5f};
  static const float score[6] = {0, 0.75f, 0, 0, 0, 0.5f};
  memset(rig_data(r->bottom[0]), 0, (size_t)pictures * sizeof box);
  for (int i = 0; i < pictures; ++i) memcpy(rig_data(r->bottom[1]) + 6 * i, score, sizeof score);
  memcpy(rig_data(r->bottom[2]), box, sizeof box);
}

static void make_inputs(void) {
  write_text("map", names);
  write_text("sizes", "a b 100 200\n\n12 50 80 \nlast 10 10\n");
}

TEST(voc_has_a_file_for_each_class) {
  rig r;
  make_inputs();
  make_output(&r, "VOC", "", 1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  ok(rig_forward(&r));
  assert_false(cr_file_exists(path_of("out"))); /* a picture is missing */
  ok(rig_forward(&r));
  for (int set = 0; set < 2; ++set) {
    assert_file("out/deep/det_cat.txt",
                "a b 0.75 50 25 100 75\n12 0.75 20 12.5 40 37.5\nlast 0.75 2.5 2.5 5 7.5\n");
    assert_file("out/deep/det_17.txt",
                "a b 0.5 0 0 100 100\n12 0.5 0 0 40 50\nlast 0.5 0 0 5 10\n");
    for (int i = 0; i < 3; ++i) ok(rig_forward(&r)); /* another set replaces the files */
  }
  assert_false(cr_file_exists(path_of("out/deep/det_none.txt")));
  rig_free(&r);
  clean();
}

/* A published net has the paths of its author. */
TEST(paths_of_another_machine_are_a_warning) {
  static log_lines lines;
  rig r;
  char text[1000];
  for (int exists = 0; exists < 2; ++exists) { /* the folder above output_directory */
    if (exists == 1) write_text("far", "");
    snprintf(text, sizeof text,
             "detection_output_param { num_classes: 3 save_output_param { output_directory: "
             "'%s/far/out' output_format: 'VOC' label_map_file: '%s/no_map' name_size_file: "
             "'%s/no_sizes' } }",
             folder, folder, folder);
    rig_make(&r, "DetectionOutput", text, CAFFE__PHASE__TEST, "1 8|1 6|1 2 8", 1);
    listen_to(&lines, CREMA_LOG_WARNING);
    if (exists == 0) {
      ok(rig_setup(&r));
      ok(rig_forward(&r));
      assert_non_null(strstr(lines.text, "/no_map"));
      assert_non_null(strstr(lines.text, "the results are not written"));
    } else {
      assert_int_equal(rig_setup(&r), CREMA_E_NOT_FOUND);
    }
    stop_listening();
    rig_free(&r);
  }
  clean();
}

TEST(coco_and_ilsvrc_have_one_file) {
  rig r;
  make_inputs();
  make_output(&r, "COCO", "num_test_image: 2", 2);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_file(
      "out/deep/det_.json",
      "[{\"image_id\":\"a b\",\"category_id\":\"cat\",\"bbox\":[50,25,50,50],\"score\":0.75},\n"
      "{\"image_id\":\"a b\",\"category_id\":17,\"bbox\":[0,0,100,100],\"score\":0.5},\n"
      "{\"image_id\":12,\"category_id\":\"cat\",\"bbox\":[20,12.5,20,25],\"score\":0.75},\n"
      "{\"image_id\":12,\"category_id\":17,\"bbox\":[0,0,40,50],\"score\":0.5}]\n");
  rig_free(&r);
  make_output(&r, "ILSVRC", "num_test_image: 1", 1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_file("out/deep/det_.txt", "a b 1 0.75 50 25 100 75\na b 2 0.5 0 0 100 100\n");
  rig_free(&r);
  clean();
}

/* A picture of 100 x 200 filled the middle half of a square, and boxes in it lie so. */
TEST(resizing_is_undone) {
  rig r;
  make_inputs();
  make_output(&r, "ILSVRC",
              "num_test_image: 1 resize_param { resize_mode: FIT_LARGE_SIZE_AND_PAD height: 300 "
              "width: 300 }",
              1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_file("out/deep/det_.txt", "a b 1 0.75 50 0 100 100\na b 2 0.5 0 0 100 100\n");
  rig_free(&r);
  make_output(&r, "ILSVRC",
              "num_test_image: 1 resize_param { resize_mode: FIT_SMALL_SIZE height: 300 "
              "width: 300 height_scale: 80 width_scale: 300 }",
              1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_file("out/deep/det_.txt", "a b 1 0.75 75 20 150 60\na b 2 0.5 0 0 150 100\n");
  rig_free(&r);
  clean();
}

static void refuse(const char *rest, crema_status wanted, const char *text) {
  rig r;
  make_output(&r, "VOC", rest, 1);
  assert_int_equal(rig_setup(&r), wanted);
  assert_error_has(text);
  rig_free(&r);
}

TEST(damaged_lists_are_refused) {
  make_inputs();
  refuse("num_test_image: 4", CREMA_E_PARSE, "3 images, 4 are needed");
  write_text("sizes", "a 10 20\nb 10\n");
  refuse("", CREMA_E_PARSE, "sizes:2: expected a name, a height and a width");
  write_text("sizes", "a 10 0\n");
  refuse("", CREMA_E_PARSE, "sizes:1:");
  write_text("sizes", "\n");
  refuse("", CREMA_E_PARSE, "0 images, 1 are needed");
  write_text("sizes", "a 10 20\n");
  write_text("map", "item { name: 'cat' label: 1 }\n");
  refuse("", CREMA_E_ARGUMENT, "no name for class 2");
  write_text("map", "item { name: '../x' label: 1 }\n");
  refuse("", CREMA_E_ARGUMENT, "no name of a file");
  clean();
}

/* A folder that cannot be made. */
TEST(failures_to_write_are_reported) {
  rig r;
  make_inputs();
  write_text("out", "a file");
  make_output(&r, "VOC", "num_test_image: 1", 1);
  ok(rig_setup(&r));
  assert_int_equal(rig_forward(&r), CREMA_E_IO);
  assert_error_has("out/deep");
  rig_free(&r);
  clean();
}

/* Overlaps in pixels include the last one: boxes of 3 x 1 and 1 x 1 pixels overlap by a third more
 * than none. */
TEST(boxes_are_compared_in_pixels) {
  static const double wanted[2] = {1, 0};
  for (int pixels = 0; pixels < 2; ++pixels) {
    char text[900];
    rig r;
    write_text("sizes", "a 100 100\nb 10 10\n");
    snprintf(text, sizeof text,
             "detection_evaluate_param { num_classes: 2 overlap_threshold: 0.6 name_size_file: "
             "'%s%s' }",
             pixels == 0 ? folder : "", pixels == 0 ? "/sizes" : "");
    rig_make(&r, "DetectionEvaluate", text, CAFFE__PHASE__TEST, "1 1 1 7|1 1 1 8", 1);
    ok(rig_setup(&r));
    static const float found[7] = {0, 1, 0.9f, 0, 0, 0.1f, 0.2f};
    static const float object[8] = {0, 1, 0, 0, 0, 0.1f, 0.1f, 0};
    memcpy(rig_data(r.bottom[0]), found, sizeof found);
    memcpy(rig_data(r.bottom[1]), object, sizeof object);
    /* In shares 0.5; in picture a 11 x 11 of 11 x 21 pixels, 0.52; in picture b 2 of 3, 0.67. */
    ok(rig_forward(&r));
    assert_true(rig_data(r.top[0])[5 + 3] == 0);
    ok(rig_forward(&r));
    assert_true(rig_data(r.top[0])[5 + 3] == (float)wanted[pixels]);
    ok(rig_forward(&r)); /* picture a again */
    assert_true(rig_data(r.top[0])[5 + 3] == 0);
    rig_free(&r);
    clean();
  }
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
