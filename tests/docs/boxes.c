/* boxes FOLDER: makes FOLDER/boxes_lmdb, a database of four images with a box each, and
 * FOLDER/yolo_lmdb and FOLDER/pose_lmdb, which no command can make. */
#include <stdio.h>
#include <stdlib.h>

#include "data/fixture.h"
#include "data/pose_record.h"
#include "proto/proto.h"

enum { SIDE = 40 };

static void check(crema_status status) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "boxes: %s\n", crema_error_text());
  exit(1);
}

/* Gray with a white square, which is object 1. */
static void put_record(int index, cr_buffer *value) {
  cr_buffer text = {0};
  ProtobufCMessage *message = NULL;
  check(cr_buffer_print(&text, "datum { channels: 3 height: %d width: %d data: \"", SIDE, SIDE));
  for (int i = 0; i < 3 * SIDE * SIDE; ++i) {
    int y = i / SIDE % SIDE, x = i % SIDE, from = 5 * index;
    bool inside = x >= from && x < from + 16 && y >= from && y < from + 16;
    check(cr_buffer_print(&text, inside ? "\\377" : "\\100"));
  }
  double from = 5.0 * index / SIDE, to = (5.0 * index + 16) / SIDE;
  check(cr_buffer_print(&text,
                        "\" } type: BBOX annotation_group { group_label: 1 annotation { bbox { "
                        "xmin: %f ymin: %f xmax: %f ymax: %f } } }",
                        from, from, to, to));
  check(cr_text_parse(&caffe__annotated_datum__descriptor, text.data, text.size, "boxes",
                      CR_UNKNOWN_ERROR, &message));
  check(cr_wire_print(message, value));
  cr_message_free(message);
  cr_buffer_free(&text);
}

/* For BoxData: an encoded image, and six numbers for its object. */
static void put_yolo(int index, cr_buffer *value) {
  static const float numbers[6] = {1, 0, 0.5f, 0.5f, 0.25f, 0.25f};
  cr_image image = {0};
  (void)index;
  fixture_image(&image, SIDE, SIDE, 3);
  fixture_encoded(&image, 0, 0, 0, value);
  for (int i = 0; i < 6; ++i) {
    check(cr_buffer_append(value, "\x35", 1)); /* float_data */
    check(cr_buffer_append(value, &numbers[i], sizeof numbers[i]));
  }
  cr_image_free(&image);
}

/* For CPMData: a person among others. */
static void put_pose(int index, cr_buffer *value) {
  pose_write(&(pose_record){.channels = 4,
                            .height = 32,
                            .width = 64,
                            .joints = 16,
                            .others = index % 2,
                            .scale = 1,
                            .x = 32,
                            .y = 16},
             value);
}

int main(int argc, char **argv) {
  fixture folder;
  if (argc != 2) return 2;
  snprintf(folder.path, sizeof folder.path, "%s", argv[1]);
  fixture_db(&folder, "boxes_lmdb", 4, put_record);
  fixture_db(&folder, "yolo_lmdb", 4, put_yolo);
  fixture_db(&folder, "pose_lmdb", 4, put_pose);
  return 0;
}
