/* Mean images as files hold them: which extents are read, from which fields, and what is refused.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/buffer.h"
#include "data/augment/mean.h"
#include "folder.h"
#include "proto/proto.h"
#include "refused_text.h"

static const char file[] = "mean";

/* Writes the BlobProto in text format `text` to the file and reads the mean image. */
static crema_status read_text(const char *text, cr_mean *out) {
  ProtobufCMessage *message = NULL;
  ok(cr_text_parse(&caffe__blob_proto__descriptor, text, strlen(text), "test", CR_UNKNOWN_ERROR,
                   &message));
  ok(cr_message_write_binary(message, path_of(file)));
  cr_message_free(message);
  return cr_mean_read(path_of(file), out);
}

#define SIX "data: 1 data: 2 data: 3 data: 4 data: 5 data: 6"

TEST(extents) {
  static const struct {
    const char *text;
    int channels, height, width;
  } cases[] = {
      {"num: 1 channels: 1 height: 2 width: 3 " SIX, 1, 2, 3},
      {"channels: 3 height: 2 width: 1 " SIX, 3, 2, 1},
      {"shape { dim: 1 dim: 1 dim: 2 dim: 3 } " SIX, 1, 2, 3},
      {"shape { dim: 3 dim: 1 dim: 2 } " SIX, 3, 1, 2},
      {"shape { dim: 2 dim: 3 } " SIX, 1, 2, 3},
      {"shape { dim: 6 } " SIX, 1, 1, 6},
      /* The shape counts where both are given. */
      {"num: 1 channels: 6 height: 1 width: 1 shape { dim: 2 dim: 3 } " SIX, 1, 2, 3},
      {"channels: 1 height: 3 width: 2 double_data: [1, 2, 3, 4, 5, 6]", 1, 3, 2},
      {"shape { dim: 6 } double_data: [9, 9] " SIX, 1, 1, 6},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_mean mean = {0};
    if (read_text(cases[i].text, &mean) != CREMA_OK) {
      fail_msg("%s: %s", cases[i].text, crema_error_text());
    }
    assert_int_equal(mean.channels, cases[i].channels);
    assert_int_equal(mean.height, cases[i].height);
    assert_int_equal(mean.width, cases[i].width);
    for (int k = 0; k < 6; ++k) assert_true(mean.values[k] == (float)(k + 1));
    cr_mean_free(&mean);
    assert_null(mean.values);
    assert_int_equal(mean.channels, 0);
  }
}

TEST(refusals) {
  static const refused_text cases[] = {
      {"shape { dim: 1 dim: 1 dim: 1 dim: 1 dim: 2 dim: 3 } " SIX, CREMA_E_SHAPE, "6 axes"},
      {"shape { dim: 2 dim: 1 dim: 1 dim: 3 } " SIX, CREMA_E_SHAPE, "shape 2 1 1 3"},
      {"num: 2 channels: 1 height: 1 width: 3 " SIX, CREMA_E_SHAPE, "shape 2 1 1 3"},
      {"num: 0 channels: 1 height: 2 width: 3 " SIX, CREMA_E_SHAPE, "shape 0 1 2 3"},
      {"channels: 0 height: 2 width: 3 " SIX, CREMA_E_SHAPE, "shape 1 0 2 3"},
      {"channels: 1 height: 0 width: 3 " SIX, CREMA_E_SHAPE, "shape 1 1 0 3"},
      {"channels: 1 height: 2 width: 0 " SIX, CREMA_E_SHAPE, "shape 1 1 2 0"},
      {"shape { dim: 2147483648 dim: 1 dim: 1 } " SIX, CREMA_E_SHAPE, "2147483648 1 1"},
      {"shape { dim: 1 dim: 2147483648 dim: 1 } " SIX, CREMA_E_SHAPE, "1 2147483648 1"},
      {"shape { dim: 1 dim: 1 dim: 2147483648 } " SIX, CREMA_E_SHAPE, "1 1 2147483648"},
      {"shape { dim: 2147483647 dim: 1 dim: 1 } " SIX, CREMA_E_CORRUPT, "2147483647 x 1 x 1"},
      {"shape { dim: 1 dim: 2147483647 dim: 1 } " SIX, CREMA_E_CORRUPT, "1 x 2147483647 x 1"},
      {"shape { dim: 1 dim: 1 dim: 2147483647 } " SIX, CREMA_E_CORRUPT, "1 x 1 x 2147483647"},
      {"shape { dim: 2147483647 dim: 2147483647 dim: 4 } " SIX, CREMA_E_CORRUPT, "holds 6 values"},
      {"channels: 1 height: 2 width: 2 " SIX, CREMA_E_CORRUPT, "1 x 2 x 2 holds 6 values"},
      {"channels: 2 height: 1 width: 5 " SIX, CREMA_E_CORRUPT, "2 x 1 x 5 holds 6 values"},
      {"channels: 1 height: 1 width: 7 " SIX, CREMA_E_CORRUPT, "1 x 1 x 7 holds 6 values"},
      {"channels: 2 height: 2 width: 2 " SIX, CREMA_E_CORRUPT, "2 x 2 x 2 holds 6 values"},
      {"channels: 1 height: 2 width: 3", CREMA_E_CORRUPT, "1 x 2 x 3 holds 0 values"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    cr_mean mean = {.channels = 7};
    assert_refused(&cases[i], read_text(cases[i].text, &mean));
    assert_error_has(path_of(file));
    assert_null(mean.values);
    assert_int_equal(mean.channels, 0);
  }
}

/* What is written says its extents in the fields that old programs read. */
TEST(written_file) {
  float values[6] = {1, 2, 3, 4, 5, 6.5f};
  const cr_mean mean = {3, 2, 1, values};
  ProtobufCMessage *message = NULL;
  cr_buffer text = {0};
  ok(cr_mean_write(path_of(file), &mean));
  ok(cr_message_read_binary(&caffe__blob_proto__descriptor, path_of(file), &message));
  ok(cr_text_print(message, &text));
  ok(cr_buffer_append(&text, "", 1));
  assert_non_null(strstr(text.data, "num: 1\nchannels: 3\nheight: 2\nwidth: 1\n"));
  assert_non_null(strstr(text.data, "data: 6.5"));
  assert_null(strstr(text.data, "shape"));
  cr_buffer_free(&text);
  cr_message_free(message);
}

static int remove_file(void **state) {
  unlink(path_of(file));
  return remove_folder(state);
}

int main(void) {
  return run_all_tests(make_folder, remove_file);
}
