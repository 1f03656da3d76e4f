/* Whole nets against an independent implementation: opencv.inc has what OpenCV's importer of
 * Caffe's files makes of the nets below, of their weights and of their inputs, all of which are
 * computed here.
 * Where the two differ, by agreement: OpenCV orders detections by score alone, and its Proposal has
 * no min_size.
 *
 * Usage: test_net_opencv [write FOLDER]; the second form writes nets, weights and inputs for
 * tests/net/opencv_nets.py, which makes opencv.inc of them. */
#include <math.h>

#include "models.h"
#include "net/net.h"
#include "net/opencv.inc"

static const char fcn[] =
    "name: 'fcn' layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: "
    "3 "
    "dim: 29 dim: 37 } } }\n"
    "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' convolution_param { "
    "num_output: 8 kernel_size: 3 pad: 10 stride: 2 } }\n"
    "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }\n"
    "layer { name: 'p1' type: 'Pooling' bottom: 'c1' top: 'p1' pooling_param { kernel_size: 2 "
    "stride: 2 } }\n"
    "layer { name: 'c2' type: 'Convolution' bottom: 'p1' top: 'c2' convolution_param { num_output: "
    "5 "
    "kernel_size: 3 pad: 2 dilation: 2 } }\n"
    "layer { name: 'up2' type: 'Deconvolution' bottom: 'c2' top: 'up2' convolution_param { "
    "num_output: 5 group: 5 kernel_size: 4 stride: 2 bias_term: false } }\n"
    "layer { name: 's1' type: 'Convolution' bottom: 'c1' top: 's1' convolution_param { num_output: "
    "5 "
    "kernel_size: 1 } }\n"
    "layer { name: 'up2c' type: 'Crop' bottom: 'up2' bottom: 's1' top: 'up2c' crop_param { axis: 2 "
    "offset: 1 } }\n"
    "layer { name: 'sum' type: 'Eltwise' bottom: 's1' bottom: 'up2c' top: 'sum' }\n"
    "layer { name: 'up4' type: 'Deconvolution' bottom: 'sum' top: 'up4' convolution_param { "
    "num_output: 4 kernel_size: 6 stride: 2 pad: 1 } }\n"
    "layer { name: 'score' type: 'Crop' bottom: 'up4' bottom: 'data' top: 'score' crop_param { "
    "axis: "
    "2 offset: 7 } }\n";

/* A region proposal network, and regions pooled in two ways. OpenCV does not heed min_size. */
#define RCNN_HEAD                                                                                  \
  "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 96 "    \
  "dim: "                                                                                          \
  "128 } } }\n"                                                                                    \
  "layer { name: 'im_info' type: 'Input' top: 'im_info' input_param { shape { dim: 1 dim: 3 } } "  \
  "}\n"                                                                                            \
  "layer { name: 'c1' type: 'Convolution' bottom: 'data' top: 'c1' convolution_param { "           \
  "num_output: "                                                                                   \
  "8 kernel_size: 16 stride: 16 } }\n"                                                             \
  "layer { name: 'r1' type: 'ReLU' bottom: 'c1' top: 'c1' }\n"                                     \
  "layer { name: 'cls' type: 'Convolution' bottom: 'c1' top: 'cls' convolution_param { "           \
  "num_output: "                                                                                   \
  "18 kernel_size: 1 } }\n"                                                                        \
  "layer { name: 'box' type: 'Convolution' bottom: 'c1' top: 'box' convolution_param { "           \
  "num_output: "                                                                                   \
  "36 kernel_size: 1 } }\n"                                                                        \
  "layer { name: 'cls_2' type: 'Reshape' bottom: 'cls' top: 'cls_2' reshape_param { shape { dim: " \
  "0 "                                                                                             \
  "dim: 2 dim: -1 dim: 0 } } }\n"                                                                  \
  "layer { name: 'prob_2' type: 'Softmax' bottom: 'cls_2' top: 'prob_2' }\n"                       \
  "layer { name: 'prob' type: 'Reshape' bottom: 'prob_2' top: 'prob' reshape_param { shape { "     \
  "dim: "                                                                                          \
  "0 dim: 18 dim: -1 dim: 0 } } }\n"                                                               \
  "layer { name: 'rois' type: 'Proposal' bottom: 'prob' bottom: 'box' bottom: 'im_info' top: "     \
  "'rois' proposal_param { feat_stride: 16 base_size: 16 min_size: 0 ratio: 0.5 ratio: 1 ratio: "  \
  "2 scale: 1 scale: 2 scale: 4 pre_nms_topn: 200 post_nms_topn: 16 nms_thresh: 0.7 } }\n"

static const char rcnn[] =
    "name: 'rcnn' " RCNN_HEAD
    "layer { name: 'pool' type: 'ROIPooling' bottom: 'c1' bottom: 'rois' top: 'pool' "
    "roi_pooling_param { pooled_h: 3 pooled_w: 3 spatial_scale: 0.0625 } }\n"
    "layer { name: 'score' type: 'InnerProduct' bottom: 'pool' top: 'score' inner_product_param { "
    "num_output: 5 } }\n"
    "layer { name: 'parts' type: 'Convolution' bottom: 'c1' top: 'parts' convolution_param { "
    "num_output: 12 kernel_size: 1 } }\n"
    "layer { name: 'ps' type: 'PSROIPooling' bottom: 'parts' bottom: 'rois' top: 'ps' "
    "psroi_pooling_param { output_dim: 3 group_size: 2 spatial_scale: 0.0625 } }\n";

typedef struct whole_net {
  const char *name;
  const char *text;          /* NULL: models/NAME/deploy.prototxt */
  int64_t height, width;     /* of the input; 0: as it is */
  const char *blob;          /* what is compared */
  const float *wanted;       /* every step-th value */
  int64_t count, step, rows; /* of `wanted`; rows: so many values are a detection */
  double tolerance;          /* of the largest value */
} whole_net;

#define WANTED(array) array, sizeof(array) / sizeof *(array)

static const whole_net nets[] = {
    {"squeezenet_v1.1", NULL, 99, 99, "pool10", WANTED(cv_squeezenet), 10, 1, 1e-5},
    {"googlenet", NULL, 224, 224, "loss3/classifier", WANTED(cv_googlenet), 10, 1, 1e-5},
    {"resnet50", NULL, 96, 96, "fc1000", WANTED(cv_resnet50), 10, 1, 1e-5},
    {"ssd300_mobilenet", NULL, 0, 0, "detection_out", WANTED(cv_ssd), 1, 7, 1e-4},
    {"fcn", fcn, 0, 0, "score", WANTED(cv_fcn), 23, 1, 1e-5},
    {"rcnn", rcnn, 0, 0, "rois", WANTED(cv_rois), 1, 1, 1e-5},
    {"rcnn", rcnn, 0, 0, "score", WANTED(cv_rcnn), 1, 1, 1e-5},
    {"rcnn", rcnn, 0, 0, "ps", WANTED(cv_parts), 1, 1, 1e-5},
};
enum { NETS = sizeof nets / sizeof nets[0] };

/* Value i of stream `stream`, in [-1, 1): the same on all machines. */
static double value_of(uint32_t stream, int64_t i) {
  uint32_t x = (uint32_t)i * 2654435761U + stream * 40503U + 12345U;
  x ^= x >> 16;
  x *= 0x7feb352dU;
  x ^= x >> 15;
  x *= 0x846ca68bU;
  x ^= x >> 16;
  return (double)x / 2147483648.0 - 1;
}

/* Weights with which values keep their size from layer to layer. */
static void fill_param(const char *type, int index, uint32_t stream, crema_blob *blob) {
  const crema_shape *shape = crema_blob_shape(blob);
  const int64_t count = crema_blob_count(blob);
  double centre = 0, spread = 0.1;
  float *value;
  if (strcmp(type, "BatchNorm") == 0) {
    centre = index == 0 ? 0 : 1;
    spread = index == 2 ? 0 : 0.2;
  } else if (strcmp(type, "Scale") == 0) {
    centre = index == 0 ? 1 : 0;
    spread = 0.2;
  } else if (index == 0) {
    spread = sqrt(6.0 * (double)shape->dim[0] / (double)count);
  }
  ok(crema_blob_mutable_cpu_data(blob, &value));
  for (int64_t i = 0; i < count; ++i) value[i] = (float)(centre + spread * value_of(stream, i));
}

static void fill_weights(crema_net *net) {
  uint32_t stream = 1;
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    for (int p = 0; p < crema_net_layer_param_count(net, i); ++p) {
      fill_param(crema_net_layer_type(net, i), p, stream++, crema_net_layer_param(net, i, p));
    }
  }
}

/* Neighbouring pixels are alike, as in pictures. */
static void fill_inputs(crema_net *net) {
  float *value;
  crema_blob *data = crema_net_input(net, 0);
  ok(crema_blob_mutable_cpu_data(data, &value));
  const crema_shape *shape = crema_blob_shape(data);
  const int64_t width = shape->dim[3], plane = shape->dim[2] * width;
  for (int64_t i = 0; i < crema_blob_count(data); ++i) {
    const int64_t y = i % plane / width, x = i % width;
    value[i] = (float)(value_of(0, i / plane * 10000 + y / 8 * 100 + x / 8) +
                       0.25 * value_of(0, 1000000 + i));
  }
  if (crema_net_input_count(net) < 2) return;
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &value));
  value[0] = (float)shape->dim[2];
  value[1] = (float)width;
  value[2] = 1;
}

static crema_net *make_net(const whole_net *one) {
  char path[512];
  crema_net *net = NULL;
  snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/deploy.prototxt", one->name);
  if (one->text == NULL) ok(crema_net_load(path, NULL, &net));
  else ok(crema_net_parse(one->text, strlen(one->text), one->name, NULL, &net));
  if (one->height > 0) {
    const crema_shape shape = {4, {1, 3, one->height, one->width}};
    ok(crema_blob_reshape(crema_net_input(net, 0), &shape));
    ok(crema_net_reshape(net));
  }
  fill_weights(net);
  fill_inputs(net);
  return net;
}

/* Detections: OpenCV has them in the order of their scores, Caffe class by class. Each row has to
 * occur once. */
static void compare_rows(const whole_net *one, const float *found, int64_t count) {
  enum { ROWS = 256 };
  bool taken[ROWS] = {false};
  assert_true(count == one->count && count / one->rows <= ROWS);
  for (int64_t r = 0; r < count / one->rows; ++r) {
    bool matched = false;
    for (int64_t f = 0; f < count / one->rows && !matched; ++f) {
      matched = !taken[f];
      for (int64_t i = 0; i < one->rows && matched; ++i) {
        const double wanted = (double)one->wanted[r * one->rows + i];
        matched = fabs((double)found[f * one->rows + i] - wanted) <= one->tolerance;
      }
      if (matched) taken[f] = true;
    }
    if (!matched) fail_msg("%s: OpenCV's detection %lld is missing", one->name, (long long)r);
  }
}

static void compare(const whole_net *one, const float *found, int64_t count) {
  double largest = 0;
  int wrong = 0;
  assert_int_equal((count + one->step - 1) / one->step, one->count);
  for (int64_t i = 0; i < one->count; ++i) largest = fmax(largest, fabs((double)one->wanted[i]));
  for (int64_t i = 0; i < one->count; ++i) {
    const double difference = fabs((double)found[i * one->step] - (double)one->wanted[i]);
    if (difference <= one->tolerance * largest) continue;
    if (wrong++ < 5) {
      print_error("%s, %s: value %lld is %g, OpenCV's is %g\n", one->name, one->blob,
                  (long long)(i * one->step), (double)found[i * one->step], (double)one->wanted[i]);
    }
  }
  assert_int_equal(wrong, 0);
}

TEST(whole_nets_are_as_opencv_has_them) {
  for (int i = 0; i < NETS; ++i) {
    const float *found;
    crema_blob *blob = NULL;
    crema_net *net = make_net(&nets[i]);
    ok(crema_net_blob(net, nets[i].blob, &blob));
    ok(crema_net_forward(net, NULL));
    ok(crema_blob_cpu_data(blob, &found));
    if (nets[i].rows > 1) compare_rows(&nets[i], found, crema_blob_count(blob));
    else compare(&nets[i], found, crema_blob_count(blob));
    crema_net_destroy(net);
  }
}

static void write_text(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(fputs(text, file) >= 0);
  assert_int_equal(fclose(file), 0);
}

static void write_blob(FILE *file, const char *name, crema_blob *blob) {
  const float *value;
  const crema_shape *shape = crema_blob_shape(blob);
  ok(crema_blob_cpu_data(blob, &value));
  fprintf(file, "%s", name);
  for (int a = 0; a < shape->axes; ++a) fprintf(file, " %lld", (long long)shape->dim[a]);
  fputc('\n', file);
  for (int64_t i = 0; i < crema_blob_count(blob); ++i) fprintf(file, "%.9g\n", (double)value[i]);
}

/* FOLDER/NAME.caffemodel, .prototxt for nets without a file, and .txt: inputs. */
static void write_all(const char *folder) {
  for (int i = 0; i < NETS; ++i) {
    char path[1024];
    crema_net *net = make_net(&nets[i]);
    snprintf(path, sizeof path, "%s/%s.caffemodel", folder, nets[i].name);
    ok(crema_net_save_weights(net, path));
    snprintf(path, sizeof path, "%s/%s.prototxt", folder, nets[i].name);
    if (nets[i].text != NULL) write_text(path, nets[i].text);
    snprintf(path, sizeof path, "%s/%s.txt", folder, nets[i].name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int k = 0; k < crema_net_input_count(net); ++k) {
      write_blob(file, crema_net_input_name(net, k), crema_net_input(net, k));
    }
    assert_int_equal(fclose(file), 0);
    crema_net_destroy(net);
  }
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "write") == 0) {
    write_all(argv[2]);
    return 0;
  }
  return run_all_tests(NULL, NULL);
}
