/* Crop layers without an offset: which one older files mean (FCN of 2015, HED). */
#include "log_lines.h"
#include "net_case.h"

#define LAYER(type, name, bottom, fields) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" name "' " fields " }\n"
#define CONV(name, bottom, fields) \
  LAYER("Convolution", name, bottom, "convolution_param { num_output: 1 " fields " }")
#define CROP(bottom, like, fields)                                                              \
  "layer { name: 'cut' type: 'Crop' bottom: '" bottom "' bottom: '" like "' top: 'cut' " fields \
  " }\n"
#define DATA INPUT("data", DIM4(1, 1, 32, 32))

/* As FCN-8s: a border of 100, three poolings, a 7 x 7, and two ways back up. */
#define FCN                                                                                      \
  INPUT("data", DIM4(1, 1, 64, 64))                                                              \
  CONV("conv", "data", "kernel_size: 3 pad: 100") LAYER("ReLU", "relu", "conv", "") LAYER(       \
      "Pooling", "pool1", "relu", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }")        \
      LAYER("Pooling", "pool2", "pool1", "pooling_param { pool: MAX kernel_size: 2 stride: 2 }") \
          CONV("fc", "pool2", "kernel_size: 7")                                                  \
              LAYER("Deconvolution", "up2", "fc",                                                \
                    "convolution_param { num_output: 1 kernel_size: 4 stride: 2 }")

static void check(const char *text, const char *expected) {
  log_lines lines;
  listen_to(&lines, CREMA_LOG_WARNING);
  crema_net *net = build(text, CREMA_TEST);
  stop_listening();
  assert_int_equal(lines.count, expected == NULL ? 0 : 1);
  if (expected != NULL && strstr(lines.text, expected) == NULL) {
    print_error("'%s' is missing in: %s\n", expected, lines.text);
    fail();
  }
  crema_net_destroy(net);
}

/* A window of 3 with a border of 5 has its middle 4 before the pixel. */
TEST(borders_are_cut_off) {
  check(DATA CONV("c", "data", "kernel_size: 3 pad: 5") CROP("c", "data", ""), "offset: 4 }");
  check(DATA CONV("c", "data", "kernel_size: 3 pad: 5") CROP("c", "data", "crop_param { axis: 2 }"),
        "layer 'cut' (Crop)");
  check(DATA CONV("c", "data", "kernel_h: 3 kernel_w: 5 pad_h: 5 pad_w: 9") CROP("c", "data", ""),
        "offset: 4 offset: 7 }");
  check(DATA CONV("c", "data", "kernel_size: 3 dilation: 2 pad: 5") CROP("c", "data", ""),
        "offset: 3 }");
}

/* Both are what caffe.coord_map in Python finds. */
TEST(windows_are_followed_up_and_down) {
  check(FCN CROP("pool1", "up2", ""), "offset: 5 }");
  check(FCN LAYER("Deconvolution", "up", "up2",
                  "convolution_param { num_output: 1 kernel_size: 4 stride: 2 }")
            CROP("up", "data", ""),
        "offset: 90 }");
}

TEST(what_is_said_or_unknown_is_not_warned_of) {
  check(DATA CONV("c", "data", "kernel_size: 3 pad: 5")
            CROP("c", "data", "crop_param { offset: 0 }"),
        NULL);
  /* Without an offset the same pixels. */
  check(DATA CONV("c", "data", "kernel_size: 3 pad: 1") CROP("data", "c", ""), NULL);
  /* Half a pixel. */
  check(DATA CONV("c", "data", "kernel_size: 2 pad: 5") CROP("c", "data", ""), NULL);
  /* Other strides, and layers without a place for their values. */
  check(DATA CONV("c", "data", "kernel_size: 1 stride: 2") CROP("data", "c", ""), NULL);
  check(DATA LAYER("Reshape", "r", "data",
                   "reshape_param { shape { dim: 1 dim: 1 dim: 16 dim: 64 } }")
            CONV("c", "r", "kernel_size: 3 pad: 25") CROP("c", "data", ""),
        NULL);
  check(DATA INPUT("other", DIM4(1, 1, 16, 16)) CROP("data", "other", ""), NULL);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
