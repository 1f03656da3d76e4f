/* VideoData with a script in place of ffmpeg. */
#include <stdlib.h>
#include <sys/stat.h>

#include "check.h"
#include "fixture.h"
#include "layers/common/input_class.h"
#include "net/net_values.h"

/* Five frames of 3 x 4 pixels: red 16 + frame, green 32, blue 48. */
static const char frames[] =
    "#!/bin/sh\n"
    "echo \"$@\" >> \"$0.log\"\n"
    "for i in 0 1 2 3 4; do\n"
    "  printf 'P6\\n4 3\\n255\\n'\n"
    "  for k in 1 2 3 4 5 6 7 8 9 10 11 12; do printf \"\\\\02$i\\\\040\\\\060\"; done\n"
    "done\n";

/* Makes the script that is run, and a file that stands for a video. */
static void make_ffmpeg(const fixture *f, const char *script) {
  fixture_text(f, "ffmpeg", script);
  assert_int_equal(chmod(fixture_path(f, "ffmpeg"), 0755), 0);
  assert_int_equal(setenv("CREMA_FFMPEG", fixture_path(f, "ffmpeg"), 1), 0);
  fixture_text(f, "street.mp4", "a video");
}

static crema_status make_net_of(const fixture *f, const cr_solver_rank *solver, const char *param,
                                const char *rest, crema_net **out) {
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  return parse_net(&options, solver, out,
                   "layer { name: 'in' type: 'VideoData' top: 'data' top: 'label' "
                   "video_data_param { video_type: VIDEO video_file: '%s' %s } "
                   "data_param { batch_size: 2 } %s }",
                   fixture_path(f, "street.mp4"), param, rest);
}

static crema_status make_net(const fixture *f, const char *param, const char *rest,
                             crema_net **out) {
  return make_net_of(f, NULL, param, rest, out);
}

/* The red of the first pixel of an item, which tells the frame. */
static int frame_of(crema_net *net, int item) {
  const float *data = values(net, "data") + item * 36;
  assert_true(data[0] == 48 && data[12] == 32);
  for (int k = 0; k < 12; ++k) assert_true(data[24 + k] == data[24]);
  return (int)data[24] - 16;
}

FIXTURE_TEST(frames_come_in_their_order) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_ffmpeg(f, frames);
  for (int skip = 0; skip < 3; ++skip) {
    char param[40];
    snprintf(param, sizeof param, "skip_frames: %d", skip);
    ok(make_net(f, param, "", &net));
    const crema_shape *shape = crema_blob_shape(blob_of(net, "data"));
    assert_true(shape->dim[0] == 2 && shape->dim[1] == 3 && shape->dim[2] == 3 &&
                shape->dim[3] == 4);
    for (int k = 0; k < 12; ++k) {
      if (k % 2 == 0) ok(crema_net_forward(net, NULL));
      assert_int_equal(frame_of(net, k % 2),
                       k * (skip + 1) % 5); /* it begins anew behind frame 4 */
      assert_true(values(net, "label")[k % 2] == 0);
    }
    crema_net_destroy(net);
  }
}

FIXTURE_TEST(frames_are_transformed) {
  const fixture *f = *state;
  crema_net *net = NULL;
  make_ffmpeg(f, frames);
  ok(make_net(f, "", "transform_param { crop_size: 2 mean_value: 8 scale: 0.5 }", &net));
  ok(crema_net_forward(net, NULL));
  assert_int_equal(crema_blob_count(blob_of(net, "data")), 2 * 3 * 2 * 2);
  assert_true(values(net, "data")[0] == 20 && values(net, "data")[4] == 12);
  crema_net_destroy(net);
}

/* The name is passed on as that of a file, whatever it looks like. */
FIXTURE_TEST(ffmpeg_gets_the_file) {
  const fixture *f = *state;
  cr_buffer log = {0}, wanted = {0};
  crema_net *net = NULL;
  make_ffmpeg(f, frames);
  ok(make_net(f, "", "", &net));
  crema_net_destroy(net);
  ok(cr_file_read(fixture_path(f, "ffmpeg.log"), &log));
  ok(cr_buffer_print(&wanted,
                     "-i file:%s -fps_mode passthrough -pix_fmt rgb24 -f image2pipe -c:v ppm -\n",
                     fixture_path(f, "street.mp4")));
  assert_non_null(strstr(log.data, wanted.data));
  cr_buffer_free(&wanted);
  cr_buffer_free(&log);
}

/* Before version 5.1 there was no -fps_mode, after 8 there is no -vsync: an ffmpeg that refuses the
 * one is given the other. */
FIXTURE_TEST(an_older_ffmpeg_keeps_all_frames_too) {
  const fixture *f = *state;
  cr_buffer script = {0};
  crema_net *net = NULL;
  ok(cr_buffer_print(&script,
                     "#!/bin/sh\n"
                     "case \"$*\" in *-fps_mode*) exit 1;; *'-vsync passthrough '*) ;; *) exit 1;; "
                     "esac\n%s",
                     frames));
  make_ffmpeg(f, script.data);
  ok(make_net(f, "", "", &net));
  for (int k = 0; k < 12; ++k) {
    if (k % 2 == 0) ok(crema_net_forward(net, NULL));
    assert_int_equal(frame_of(net, k % 2), k % 5);
  }
  crema_net_destroy(net);
  cr_buffer_free(&script);
}

/* Solvers that share the layer: frame k goes to solver k mod 3, also after a position was restored;
 * and one of three that are in different processes takes its own. */
static void check_solvers(crema_net *const net[3], int sharers, int rank, int first) {
  for (int step = first; step < first + 4; ++step) {
    for (int i = 0; i < sharers; ++i) {
      ok(crema_net_forward(net[i], NULL));
      for (int k = 0; k < 2; ++k) {
        const int sample = (2 * step + k) * 3 + (sharers > 1 ? i : rank);
        assert_int_equal(frame_of(net[i], k), 2 * sample % 5);
      }
    }
  }
}

FIXTURE_TEST(solvers_take_turns_in_the_frames) {
  const fixture *f = *state;
  crema_net *net[3] = {NULL};
  cr_input_group *group = NULL;
  cr_buffer text = {0};
  make_ffmpeg(f, frames);
  ok(cr_input_group_create(&group));
  for (int i = 0; i < 3; ++i) {
    const cr_solver_rank solver = {
        .rank = i, .solvers = 3, .group = group, .root = net[0], .tests = true};
    ok(make_net_of(f, &solver, "skip_frames: 1", "", &net[i]));
  }
  check_solvers(net, 3, 0, 0);
  cr_layer *layer = layer_of(net[0], "in");
  ok(layer->kind->input->save(layer, &text));
  check_solvers(net, 3, 0, 4);
  for (int i = 0; i < 3; ++i) {
    ok(layer->kind->input->restore(layer_of(net[i], "in"), text.data, text.size));
  }
  check_solvers(net, 3, 0, 4);
  for (int i = 0; i < 3; ++i) crema_net_destroy(net[i]);
  const cr_solver_rank alone = {.rank = 1, .solvers = 3, .tests = true};
  ok(make_net_of(f, &alone, "skip_frames: 1", "", &net[0]));
  check_solvers(net, 1, 1, 0);
  crema_net_destroy(net[0]);
  cr_input_group_release(group);
  cr_buffer_free(&text);
}

FIXTURE_TEST(a_camera_that_ends_is_an_error) {
  const fixture *f = *state;
  const crema_net_options options = net_options(CREMA_TEST, 3, NULL);
  crema_net *net = NULL;
  crema_status status = CREMA_OK;
  make_ffmpeg(f, frames);
  ok(parse_net(&options, NULL, &net,
               "layer { name: 'in' type: 'VideoData' top: 'data' video_data_param { device_id: 3 } "
               "data_param { batch_size: 2 } }"));
  for (int k = 0; k < 3 && status == CREMA_OK; ++k) status = crema_net_forward(net, NULL);
  assert_fails(status, CREMA_E_IO, "/dev/video3: ");
  assert_non_null(strstr(crema_error_text(), "gave no further frame"));
  crema_net_destroy(net);
}

static void refuse(const fixture *f, const char *script, crema_status wanted, const char *text) {
  crema_net *net = NULL;
  make_ffmpeg(f, script);
  assert_fails(make_net(f, "", "", &net), wanted, text);
}

FIXTURE_TEST(what_is_no_frame_is_an_error) {
  const fixture *f = *state;
  refuse(f, "#!/bin/sh\n", CREMA_E_IO, "/street.mp4: ");
  assert_null(strstr(crema_error_text(), "file:"));
  assert_non_null(strstr(crema_error_text(), "gave no frame"));
  refuse(f, "#!/bin/sh\nprintf 'P6\\n4 3\\n255\\nxyz'\n", CREMA_E_CORRUPT, "within a frame");
  refuse(f, "#!/bin/sh\nprintf 'P5\\n4 3\\n255\\nxyz'\n", CREMA_E_CORRUPT,
         "something other than frames");
  refuse(f, "#!/bin/sh\nprintf 'P6\\n99999 3\\n255\\nxyz'\n", CREMA_E_RANGE, "99999");
  refuse(f, "#!/bin/sh\nprintf 'P6\\n99999999999 3\\n255\\nxyz'\n", CREMA_E_CORRUPT,
         "something other than frames");
  refuse(f, "#!/bin/sh\nprintf 'P6\\n0 3\\n255\\n'\n", CREMA_E_CORRUPT,
         "something other than frames");
  refuse(f, "#!/bin/sh\nprintf 'P6\\n4 -3\\n255\\n'\n", CREMA_E_CORRUPT,
         "something other than frames");
}

FIXTURE_TEST(without_ffmpeg_the_error_says_so) {
  const fixture *f = *state;
  crema_net *net = NULL;
  char path[4000];
  make_ffmpeg(f, frames);
  snprintf(path, sizeof path, "%s", getenv("PATH"));
  setenv("CREMA_FFMPEG", fixture_path(f, "no_such_program"), 1);
  assert_fails(make_net(f, "", "", &net), CREMA_E_NOT_FOUND, "no_such_program");
  unsetenv("CREMA_FFMPEG");
  setenv("PATH", "/nowhere:", 1);
  assert_fails(make_net(f, "", "", &net), CREMA_E_NOT_FOUND, "ffmpeg, which is not on the PATH");
  setenv("PATH", f->path, 1); /* with a script that needs no program */
  ok(make_net(f, "", "", &net));
  crema_net_destroy(net);
  setenv("PATH", path, 1);
  assert_int_equal(remove(fixture_path(f, "street.mp4")), 0);
  assert_fails(make_net(f, "", "", &net), CREMA_E_NOT_FOUND, "no such video");
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
