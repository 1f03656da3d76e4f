/* What a layer costs beside the memory traffic that nothing can save it: for each row below, the
 * time of its forward and of its backward pass over the time that copying from memory to memory
 * takes for as many bytes as the pass must read and write (its bottoms, tops and their gradients
 * once). For passes that do more than 20 operations on an element (an exponential takes 32) also
 * what share of the processor's peak of multiply-adds, measured here, these operations reach; they
 * are slow where that is below 40 % (LSTM and convolutions of single channels: 25 %) and they take
 * more than three times the copying. Weights are not among the bytes. Layers without a row share
 * their memory (Flatten, Reshape), bring samples into the net (bench/input), or compute once for a
 * shape (PriorBox). Then layers that choose or judge boxes, at sizes of published nets, in
 * milliseconds. Usage: layers [-t THREADS] [-processor] [TYPE...]; with -processor processor time
 * takes the place of time, which is right for one thread only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "chain/measure.h"
#include "chain/peak.h"
#include "core/fail.h"
#include "crema/crema.h"
#include "device/memory/host_memory.h"
#include "layers/registry.h"

enum { MOST = 5 }; /* blobs of a layer on one side */

typedef struct row {
  const char *type, *body;
  const char *shapes; /* one per bottom, separated by '|' */
  const char *values; /* a letter per bottom, see `fill` */
  int tops;
  int operations[2]; /* on an element of bottom 0, forward and backward; 0: at most 20 */
} row;

/* Operations of the functions in src/device/cpu/kernels/vector_math.h. */
enum {
  EXP = 30,
  EXP_BELOW_0 = 23,
  EXP_TERM = 18,
  EXPM1 = 24,
  LOG = 44,
  LOG_OF_SUM = 34,
  LOG1P = 19,
  LOG1P_FAR = 31,
  SIGMOID = EXP_BELOW_0 + 5,
  SOFTPLUS = EXP_BELOW_0 + LOG1P + 4,
  TANH = EXPM1 + 5,
  DEPTHWISE = 2 * 3 * 3, /* a convolution's, of windows of 3 x 3 */
  DEPTHWISE_5 = 2 * 5 * 5,
  ENLARGE = 2 * 4 * 4, /* of each plane by itself, twofold */
  /* A convolution's: on an element of the bottom, 2 for each weight that it meets. */
  CONV_3 = 2 * 64 * 3 * 3,
  CONV_7 = 2 * 64 * 7 * 7 / 4,
  UPSAMPLE_2 = 2 * 64 * 2 * 2,
  UPSAMPLE_16 = 2 * 21 * 16 * 16,
  UPSAMPLE_64 = 2 * 21 * 64 * 64,
  INNER = 2 * 4096,
  /* Recurrent layers have as many inputs as units. On an input: the products of 4 gates with input
   * and state, then the gates; the product of the units with input, state and output, and two
   * tangents. */
  LSTM = 2 * 4 * (256 + 256) + 3 * SIGMOID + 2 * TANH + 6,
  LSTM_BACK = 2 * 2 * 4 * (256 + 256) + 20,
  RNN = 2 * 3 * 256 + 2 * TANH,
  RNN_BACK = 2 * 2 * 3 * 256 + 6,
  /* Across channels: 5 squares and their sum, root of root, product and quotient. Backward the
   * same, and the sum of 5 ratios. */
  ACROSS = 5 * 2 + 7,
  ACROSS_BACK = ACROSS + 5 + 9,
  /* On a number of a location, a fourth of a box: the loss of a row of 21 scores (their maximum,
   * differences, powers and sum) and the overlaps with three objects. Mining is not counted. */
  OVERLAP = 16,
  MULTIBOX = (21 * (EXP_TERM + 3) + LOG_OF_SUM + 2 + 3 * OVERLAP) / 4,
  /* 10 iterations: values to and from 3 and 6 corners of lattices, the sums of both times their
   * weights added to the scores, softmax. Making the lattices and blurring them is not counted, as
   * their size depends on the picture. */
  CRF = 10 * (2 * 2 * (3 + 6) + 2 * 2 + EXP_BELOW_0 + 4)
};

#define BIASES                                                                                   \
  "biases: 1.3 biases: 1.7 biases: 3.2 biases: 4 biases: 5 biases: 8.1 biases: 9.5 biases: 4.8 " \
  "biases: 11.2 biases: 10"

static const row rows[] = {
    {"AbsVal", "", "32 64 56 56", "n", 1, {0}},
    {"ArgMax", "argmax_param { axis: 1 }", "4096 1024", "n", 1, {0}},
    {"Accuracy", "", "4096 1024|4096", "nl", 1, {0}},
    {"Axpy", "", "32 64|32 64 56 56|32 64 56 56", "nnn", 1, {0}},
    {"BNLL", "", "32 64 56 56", "n", 1, {SOFTPLUS, SIGMOID + 1}},
    {"BatchNorm", "", "32 64 56 56", "n", 1, {0}},
    {"BatchReindex", "", "32 64 56 56|32", "ni", 1, {0}},
    {"Bias", "", "32 64 56 56", "n", 1, {0}},
    {"Clip", "clip_param { min: -0.5 max: 0.5 }", "32 64 56 56", "n", 1, {0}},
    {"Concat", "", "32 64 56 56|32 64 56 56", "nn", 1, {0}},
    {"ContrastiveLoss", "", "4096 1024|4096 1024|4096", "nnl", 1, {0}},
    {"Convolution",
     "convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: \"xavier\" } "
     "}",
     "8 64 56 56",
     "n",
     1,
     {CONV_3, 2 * CONV_3}},
    {"Convolution",
     "convolution_param { num_output: 64 kernel_size: 7 pad: 3 stride: 2 weight_filler { type: "
     "\"xavier\" } }",
     "8 3 224 224",
     "f",
     1,
     {CONV_7, CONV_7}},
    {"ConvolutionDepthwise",
     "convolution_param { num_output: 64 kernel_size: 3 pad: 1 weight_filler { type: \"xavier\" } "
     "}",
     "32 64 56 56",
     "n",
     1,
     {DEPTHWISE + 1, 2 * DEPTHWISE + 1}},
    {"ConvolutionDepthwise",
     "convolution_param { num_output: 64 kernel_size: 3 pad: 1 stride: 2 weight_filler { type: "
     "\"xavier\" } }",
     "32 64 56 56",
     "n",
     1,
     {DEPTHWISE / 4, DEPTHWISE / 2}},
    {"ConvolutionDepthwise",
     "convolution_param { num_output: 64 kernel_size: 5 pad: 2 weight_filler { type: \"xavier\" } "
     "}",
     "32 64 56 56",
     "n",
     1,
     {DEPTHWISE_5 + 1, 2 * DEPTHWISE_5 + 1}},
    {"Crop", "crop_param { offset: 4 }", "32 64 56 56|32 64 48 48", "nn", 1, {0}},
    {"Deconvolution",
     "convolution_param { num_output: 64 kernel_size: 2 stride: 2 weight_filler { type: "
     "\"xavier\" } }",
     "2 128 128 128",
     "n",
     1,
     {UPSAMPLE_2, 2 * UPSAMPLE_2}},
    {"Deconvolution",
     "convolution_param { num_output: 21 kernel_size: 16 stride: 8 bias_term: false "
     "weight_filler { type: \"xavier\" } }",
     "2 21 64 64",
     "n",
     1,
     {UPSAMPLE_16, 2 * UPSAMPLE_16}},
    {"Deconvolution",
     "convolution_param { num_output: 21 kernel_size: 64 stride: 32 bias_term: false "
     "weight_filler { type: \"xavier\" } }",
     "1 21 16 16",
     "n",
     1,
     {UPSAMPLE_64, 2 * UPSAMPLE_64}},
    {"Deconvolution",
     "convolution_param { num_output: 64 group: 64 kernel_size: 4 stride: 2 pad: 1 bias_term: "
     "false "
     "weight_filler { type: \"bilinear\" } }",
     "8 64 56 56",
     "n",
     1,
     {ENLARGE, 2 * ENLARGE}},
    {"DenseCRF",
     "dense_crf_param { max_iter: 10 pos_w: 3 pos_xy_std: 3 bi_w: 4 bi_xy_std: 50 bi_rgb_std: 5 }",
     "1 21 321 321|1 2|1 3 321 321",
     "nsk",
     1,
     {CRF}},
    {"Dropout", "", "32 64 56 56", "n", 1, {31}},
    {"ELU", "", "32 64 56 56", "n", 1, {EXPM1 + 4}},
    {"GELU", "", "32 64 56 56", "n", 1, {0}},
    {"Eltwise", "", "32 64 56 56|32 64 56 56", "nn", 1, {0}},
    {"Eltwise", "eltwise_param { operation: PROD }", "32 64 56 56|32 64 56 56", "nn", 1, {0}},
    {"Eltwise", "eltwise_param { operation: MAX }", "32 64 56 56|32 64 56 56", "nn", 1, {0}},
    {"Embed",
     "embed_param { num_output: 512 input_dim: 10000 weight_filler { type: \"xavier\" } }",
     "8192",
     "l",
     1,
     {0}},
    {"EuclideanLoss", "", "4096 1024|4096 1024", "nn", 1, {0}},
    {"Exp", "", "32 64 56 56", "n", 1, {EXP + 3}},
    {"Filter", "", "4096 1024|4096", "nl", 1, {0}},
    {"HingeLoss", "", "4096 1024|4096", "nl", 1, {0}},
    {"Im2col", "convolution_param { kernel_size: 3 pad: 1 }", "4 64 56 56", "n", 1, {0}},
    {"InfogainLoss", "", "65536 100|65536|1 1 100 100", "nlp", 1, {EXP_TERM + 7, EXP_BELOW_0 + 7}},
    {"InnerProduct",
     "inner_product_param { num_output: 4096 weight_filler { type: \"xavier\" } }",
     "128 4096",
     "n",
     1,
     {INNER, 2 * INNER}},
    {"Interp", "interp_param { height: 112 width: 112 }", "8 64 56 56", "n", 1, {0}},
    {"L1Loss", "", "4096 1024|4096 1024", "nn", 1, {0}},
    {"LRN", "", "32 64 56 56", "n", 1, {ACROSS, ACROSS_BACK}},
    {"LRN", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }", "32 64 56 56", "n", 1, {0}},
    {"LSTM",
     "recurrent_param { num_output: 256 weight_filler { type: \"xavier\" } }",
     "64 32 256|64 32",
     "nc",
     1,
     {LSTM, LSTM_BACK}},
    {"LSTMUnit", "", "1 4096 256|1 4096 1024|1 4096", "nnl", 2, {0}},
    {"Log", "", "32 64 56 56", "p", 1, {LOG + 3}},
    {"MVN", "", "32 64 56 56", "n", 1, {0}},
    {"MultiBoxLoss",
     "multibox_loss_param { num_classes: 21 code_type: CENTER_SIZE mining_type: MAX_NEGATIVE }",
     "32 34928|32 183372|1 2 34928|1 1 96 8",
     "nnbt",
     1,
     {MULTIBOX}},
    {"MultinomialLogisticLoss", "", "4096 1024|4096", "pl", 1, {0}},
    {"Normalize", "norm_param { across_spatial: false }", "32 64 56 56", "n", 1, {0}},
    {"PReLU", "", "32 64 56 56", "n", 1, {0}},
    {"PSROIPooling",
     "psroi_pooling_param { spatial_scale: 0.0625 output_dim: 21 group_size: 7 }",
     "1 1029 38 63|300 5",
     "nr",
     1,
     {0}},
    {"Permute",
     "permute_param { order: 0 order: 2 order: 3 order: 1 }",
     "32 64 56 56",
     "n",
     1,
     {0}},
    {"Pooling", "pooling_param { kernel_size: 2 stride: 2 }", "32 64 56 56", "n", 1, {0}},
    {"Pooling", "pooling_param { pool: AVE kernel_size: 2 stride: 2 }", "32 64 56 56", "n", 1, {0}},
    {"Pooling", "pooling_param { kernel_size: 3 stride: 2 }", "32 64 56 56", "n", 1, {0}},
    {"Pooling", "pooling_param { pool: AVE kernel_size: 3 stride: 2 }", "32 64 56 56", "n", 1, {0}},
    {"Power", "power_param { power: 2 scale: 0.5 shift: 2 }", "32 64 56 56", "n", 1, {0}},
    {"RNN",
     "recurrent_param { num_output: 256 weight_filler { type: \"xavier\" } }",
     "64 32 256|64 32",
     "nc",
     1,
     {RNN, RNN_BACK}},
    {"ROIAlign",
     "roi_align_param { pooled_h: 14 pooled_w: 14 spatial_scale: 0.0625 sampling_ratio: 2 }",
     "1 1024 38 63|128 5",
     "nr",
     1,
     {0}},
    {"ROIPooling",
     "roi_pooling_param { pooled_h: 14 pooled_w: 14 spatial_scale: 0.0625 }",
     "1 1024 38 63|128 5",
     "nr",
     1,
     {0}},
    {"ReLU", "", "32 64 56 56", "n", 1, {0}},
    {"ReLU6", "", "32 64 56 56", "n", 1, {0}},
    {"Reduction", "reduction_param { axis: 1 }", "4096 1024", "n", 1, {0}},
    {"RegionLoss",
     "region_loss_param { side: 13 num_class: 20 num: 5 " BIASES " }",
     "32 125 13 13|1 1 160 8",
     "nt",
     1,
     {0}},
    {"Reorg", "reorg_param { stride: 2 }", "32 64 56 56", "n", 1, {0}},
    {"SPP", "spp_param { pyramid_height: 3 }", "32 64 56 56", "n", 1, {0}},
    {"Scale", "scale_param { bias_term: true }", "32 64 56 56", "n", 1, {0}},
    {"SeLu", "", "32 64 56 56", "n", 1, {EXPM1 + 4}},
    {"SeLuDropout", "", "32 64 56 56", "n", 1, {0}},
    {"SegAccuracy", "", "8 21 224 224|8 1 224 224", "nl", 1, {0}},
    {"ShuffleChannel", "shuffle_channel_param { group: 4 }", "32 64 56 56", "n", 1, {0}},
    {"Sigmoid", "", "32 64 56 56", "n", 1, {SIGMOID}},
    {"SigmoidCrossEntropyLoss",
     "",
     "4096 1024|4096 1024",
     "nl",
     1,
     {EXP_BELOW_0 + 8 + LOG1P_FAR / 4, SIGMOID + 5}},
    {"Slice", "", "32 64 56 56", "n", 2, {0}},
    {"SmoothL1Loss", "", "4096 1024|4096 1024", "nn", 1, {0}},
    {"SmoothL1LossOHEM", "", "4096 1024|4096 1024", "nn", 1, {0}},
    {"Softmax", "", "4096 1024", "n", 1, {EXP_BELOW_0 + 5}},
    {"Softmax", "", "87320 21", "n", 1, {EXP_BELOW_0 + 5}},
    {"Softmax", "", "8 21 224 224", "n", 1, {EXP_BELOW_0 + 5}},
    {"SoftmaxWithLoss", "", "4096 1024|4096", "nl", 1, {EXP_TERM + 3, EXP_BELOW_0 + 5}},
    {"SoftmaxWithLossOHEM", "", "4096 1024|4096", "nl", 1, {EXP_TERM + 3, EXP_BELOW_0 + 5}},
    {"SpatialDropout", "", "32 64 56 56", "n", 1, {0}},
    {"Split", "", "32 64 56 56", "n", 2, {0}},
    {"Swish", "", "32 64 56 56", "n", 1, {SIGMOID + 2, SIGMOID + 7}},
    {"TanH", "", "32 64 56 56", "n", 1, {EXPM1 + 5}},
    {"Threshold", "", "32 64 56 56", "n", 1, {0}},
    {"Tile", "tile_param { tiles: 4 }", "32 16 56 56", "n", 1, {0}},
    {"Upsample", "upsample_param { scale: 2 }", "32 16 56 56", "n", 1, {0}},
};

/* ---- a layer by itself ---- */

typedef struct subject {
  Caffe__LayerParameter *param;
  crema_context *context;
  cr_layer *layer;
  crema_blob *bottom[MOST], *top[MOST];
  int bottoms, tops;
  bool down[MOST];
} subject;

static void check(crema_status status, const char *what) {
  if (status == CREMA_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, crema_status_message(status), crema_error_text());
  exit(1);
}

static uint32_t next_random(void) {
  static uint32_t state = 2463534242u;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

static float unit_random(void) {
  return (float)(next_random() % 65536 + 1) / 65537;
}

enum { PICTURE_WIDTH = 1008, PICTURE_HEIGHT = 608 };

/* Left, top, right and bottom of a box, a tenth to a half of the picture wide and high. */
static void put_box(float *to, float width, float height) {
  const float w = width * (0.1f + 0.4f * unit_random());
  const float h = height * (0.1f + 0.4f * unit_random());
  to[0] = (width - w) * unit_random();
  to[1] = (height - h) * unit_random();
  to[2] = to[0] + w;
  to[3] = to[1] + h;
}

/* The boxes of SSD300 (Liu et al., 2016), 8,732, as its PriorBox layers make them. */
#define PRIORS(cells, sizes, ratios)                                                      \
  {                                                                                       \
    .type = "PriorBox", .shapes = "1 1 " cells "|1 3 300 300", .values = "ff", .tops = 1, \
    .body = "prior_box_param { " sizes " " ratios                                         \
            " variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 }"                  \
  }
#define RATIO "aspect_ratio: 2"
#define RATIOS RATIO " aspect_ratio: 3"
static const row ssd_maps[] = {PRIORS("38 38", "min_size: 30 max_size: 60", RATIO),
                               PRIORS("19 19", "min_size: 60 max_size: 111", RATIOS),
                               PRIORS("10 10", "min_size: 111 max_size: 162", RATIOS),
                               PRIORS("5 5", "min_size: 162 max_size: 213", RATIOS),
                               PRIORS("3 3", "min_size: 213 max_size: 264", RATIO),
                               PRIORS("1 1", "min_size: 264 max_size: 315", RATIO)};

static int64_t make_priors(const row *map, float *box, float *variance, int64_t most);

/* Boxes and their variances: those of SSD300, again from the first one on where there are more. */
static void fill_priors(float *value, int64_t priors) {
  const int64_t maps = sizeof ssd_maps / sizeof *ssd_maps, count = 4 * priors;
  for (int64_t at = 0, m = 0; at < count; m = (m + 1) % maps) {
    at += make_priors(&ssd_maps[m], value + at, value + count + at, count - at);
  }
}

/* Rows of numbers, one for each box: see `fill`. Of images, the boxes of one follow those of
 * another. */
static void fill_boxes(float *value, char kind, int64_t boxes, int64_t images) {
  for (int64_t i = 0; i < boxes; ++i) {
    const float image = (float)(i * images / boxes), label = (float)(1 + next_random() % 20);
    if (kind == 'r') {
      value[5 * i] = image;
      put_box(value + 5 * i + 1, PICTURE_WIDTH, PICTURE_HEIGHT);
    } else if (kind == 'o') {
      put_box(value + 5 * i, PICTURE_WIDTH, PICTURE_HEIGHT);
      value[5 * i + 4] = label;
    } else if (kind == 'd') {
      memcpy(value + 7 * i, (const float[]){image, label, unit_random()}, 3 * sizeof *value);
      put_box(value + 7 * i + 3, 1, 1);
    } else {
      memcpy(value + 8 * i, (const float[]){image, label, 0}, 3 * sizeof *value);
      put_box(value + 8 * i + 3, 1, 1);
      value[8 * i + 7] = 0;
    }
  }
}

/* A picture of flat patches of 40 x 40 pixels and a little noise. */
static void fill_picture(float *value, const crema_shape *shape) {
  const int64_t height = shape->dim[2], width = shape->dim[3];
  for (int64_t i = 0; i < shape->dim[0] * shape->dim[1] * height * width; ++i) {
    const int64_t patch = i / width / 40 * 131 + i % width / 40;
    value[i] = (float)(patch * 2654435761u >> 7 & 255u) + 4 * unit_random();
  }
}

enum { MAP_STRIDE = 16 };

/* Height and width of a map of `shape` times `stride`, and the scale unless it is 0. */
static void put_extents(float *value, const crema_shape *shape, float stride, float scale) {
  value[0] = stride * (float)shape->dim[2];
  value[1] = stride * (float)shape->dim[3];
  if (scale > 0) value[2] = scale;
}

/* By the letter: n in (-1, 1), f the same, a net's input that needs no gradient, p in (0, 1), l
 * labels 0 to 2, i indices of samples of bottom 0, c sequences that go on from the second step on,
 * b prior boxes, r regions, o objects of a picture, t objects of a batch, d detections, z and s a
 * picture's extents (of which bottom 0 is a map, with its scale, and of bottom 0), k a picture. */
static void fill(crema_blob *const *bottom, int at, char kind) {
  const crema_shape *shape = &bottom[at]->shape, *first = &bottom[0]->shape;
  const int64_t count = crema_blob_count(bottom[at]);
  float *value = NULL;
  check(crema_blob_mutable_cpu_data(bottom[at], &value), "values");
  switch (kind) {
    case 'b': fill_priors(value, count / 8); return;
    case 'k': fill_picture(value, shape); return;
    case 'z': put_extents(value, first, MAP_STRIDE, 1); return;
    case 's': put_extents(value, first, 1, 0); return;
    case 'r':
    case 'o':
    case 't':
    case 'd':
      fill_boxes(value, kind, shape->dim[shape->axes - 2], first->dim[0] < 64 ? first->dim[0] : 1);
      return;
    default: break;
  }
  for (int64_t i = 0; i < count; ++i) {
    switch (kind) {
      case 'l': value[i] = (float)(next_random() % 3); break;
      case 'i': value[i] = (float)(next_random() % (uint32_t)first->dim[0]); break;
      case 'c': value[i] = i >= shape->dim[1]; break;
      case 'p': value[i] = unit_random(); break;
      default: value[i] = 2 * unit_random() - 1; break;
    }
  }
}

static crema_blob *make_blob(const crema_shape *shape) {
  crema_blob *blob = NULL;
  check(crema_blob_create(shape, &blob), "a blob");
  return blob;
}

static const char *read_shape(const char *text, crema_shape *shape) {
  memset(shape, 0, sizeof *shape);
  while (*text != '\0' && *text != '|') {
    char *end = NULL;
    shape->dim[shape->axes++] = strtoll(text, &end, 10);
    text = end;
  }
  return *text == '|' ? text + 1 : text;
}

static void make_subject(subject *s, const row *r, Caffe__Phase phase) {
  char text[2048];
  const char *shapes = r->shapes;
  ProtobufCMessage *message = NULL;
  memset(s, 0, sizeof *s);
  int used = snprintf(text, sizeof text, "name: \"layer\" type: \"%s\" %s", r->type, r->body);
  while (*shapes != '\0') {
    crema_shape shape;
    shapes = read_shape(shapes, &shape);
    s->bottom[s->bottoms] = make_blob(&shape);
    used += snprintf(text + used, sizeof text - (size_t)used, " bottom: \"b%d\"", s->bottoms++);
  }
  for (; s->tops < r->tops; ++s->tops) {
    const crema_shape none = {0};
    s->top[s->tops] = make_blob(&none);
    used += snprintf(text + used, sizeof text - (size_t)used, " top: \"t%d\"", s->tops);
  }
  check(cr_text_parse(&caffe__layer_parameter__descriptor, text, strlen(text), r->type,
                      CR_UNKNOWN_ERROR, &message),
        r->type);
  s->param = (Caffe__LayerParameter *)message;
  check(crema_context_create(cr_cpu_device(), 1701, &s->context), "a context");
  check(cr_layer_create(s->param, phase, s->context, 7, NULL, &s->layer), r->type);
  const cr_layer_class *kind = s->layer->kind;
  for (int i = 0; i < s->bottoms; ++i) s->down[i] = !(kind->no_gradient_bottoms >> i & 1u);
  for (int i = 0; i < s->bottoms; ++i)
    s->down[i] = s->down[i] && strchr("np", r->values[i]) != NULL;
  check(kind->setup(s->layer, s->bottom, s->top), r->type);
  check(kind->reshape(s->layer, s->bottom, s->top), r->type);
  for (int i = 0; i < s->bottoms; ++i) fill(s->bottom, i, r->values[i]);
}

static void free_subject(subject *s) {
  cr_layer_destroy(s->layer);
  for (int i = 0; i < s->tops; ++i) crema_blob_destroy(s->top[i]);
  for (int i = 0; i < s->bottoms; ++i) crema_blob_destroy(s->bottom[i]);
  crema_context_destroy(s->context);
  cr_message_free((ProtobufCMessage *)s->param);
}

static void run_forward(void *state) {
  subject *s = state;
  check(s->layer->kind->forward(s->layer, s->context, s->bottom, s->top), "forward");
}

static void run_backward(void *state) {
  subject *s = state;
  check(s->layer->kind->backward(s->layer, s->context, s->top, s->down, s->bottom), "backward");
}

/* Writes at most `most` numbers of each, and returns how many. */
static int64_t make_priors(const row *map, float *box, float *variance, int64_t most) {
  subject s;
  const float *made = NULL;
  make_subject(&s, map, CAFFE__PHASE__TEST);
  run_forward(&s);
  check(crema_blob_cpu_data(s.top[0], &made), "prior boxes");
  const int64_t count = crema_blob_count(s.top[0]) / 2, some = count < most ? count : most;
  memcpy(box, made, (size_t)some * sizeof *box);
  memcpy(variance, made + count, (size_t)some * sizeof *variance);
  free_subject(&s);
  return some;
}

/* ---- copying ---- */

/* Copies go round memory several times as large as the caches, so that their speed is the memory's
 * however few the bytes. */
typedef struct copying {
  char *ring;
  size_t size, at;
  size_t bytes; /* read, and as many written */
} copying;

static void run_copy(void *state) {
  copying *c = state;
  if (c->at + 2 * c->bytes > c->size) c->at = 0;
  const char *src = c->ring + c->at;
  char *dst = c->ring + c->at + c->bytes;
#pragma omp parallel for schedule(static)
  for (int part = 0; part < 64; ++part) {
    const size_t begin = c->bytes / 64 * (size_t)part;
    memcpy(dst + begin, src + begin, c->bytes / 64);
  }
  c->at += 2 * c->bytes;
}

static void make_copying(copying *c) {
  const long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  const size_t least = (size_t)256 << 20, most = (size_t)4 << 30;
  c->size = cache > 0 ? 3 * (size_t)cache : least;
  c->size = c->size < least ? least : c->size > most ? most : c->size;
  c->at = 0;
  check(cr_host_alloc(c->size, (void **)&c->ring), "memory");
  memset(c->ring, 1, c->size);
}

/* Bytes that are read and written. */
static double copied_per_second(copying *memory) {
  memory->bytes = (size_t)16 << 20;
  contestant one[1] = {{"copy", run_copy, memory, 0.0}};
  measure(one, 1, 3, 9, 40, 0.4, NULL);
  return 2 * (double)memory->bytes / one[0].seconds;
}

/* ---- passes ---- */

static size_t bytes_of(const crema_blob *blob) {
  return (size_t)crema_blob_count(blob) * sizeof(float);
}

/* Gradients both ways, and the values that backward says that it reads. */
static size_t backward_bytes(const subject *s) {
  const cr_layer_class *kind = s->layer->kind;
  size_t bytes = 0;
  for (int i = 0; i < s->bottoms; ++i) {
    if (s->down[i]) bytes += bytes_of(s->bottom[i]);
    if (kind->uses_bottom != NULL && kind->uses_bottom(s->layer, i)) {
      bytes += bytes_of(s->bottom[i]);
    }
  }
  for (int i = 0; i < s->tops; ++i) {
    bytes += bytes_of(s->top[i]);
    if (kind->uses_tops != NULL && kind->uses_tops(s->layer, false) != CR_VALUES_NONE) {
      bytes += bytes_of(s->top[i]);
    }
  }
  return bytes;
}

static double ratio_of(void (*run)(void *), subject *s, size_t bytes, copying *memory,
                       double *seconds) {
  double ratio = 0;
  memory->bytes = bytes / 2 / 64 * 64;
  contestant two[2] = {{"layer", run, s, 0.0}, {"copy", run_copy, memory, 0.0}};
  measure(two, 2, 2, 5, 40, 0.4, &ratio);
  *seconds = two[0].seconds;
  return ratio;
}

/* Of the peak. */
static double wanted_share(const char *type) {
  return strcmp(type, "ConvolutionDepthwise") == 0 || strcmp(type, "LSTM") == 0 ? 0.25 : 0.4;
}

static void compare(const row *r, int threads, double peak, copying *memory, int *slow) {
  subject s;
  double seconds[2] = {0, 0}, ratio[2] = {0, 0};
  size_t bytes = 0;
  const double wanted = wanted_share(r->type);
  bool too_slow = false;
  make_subject(&s, r, CAFFE__PHASE__TRAIN);
  for (int i = 0; i < s.bottoms; ++i) bytes += bytes_of(s.bottom[i]);
  for (int i = 0; i < s.tops; ++i) bytes += bytes_of(s.top[i]);
  ratio[0] = ratio_of(run_forward, &s, bytes, memory, &seconds[0]);
  if (s.layer->kind->backward != NULL && strcmp(r->type, "Threshold") != 0) {
    for (int i = 0; i < s.tops; ++i) {
      float *diff = NULL;
      check(crema_blob_mutable_cpu_diff(s.top[i], &diff), "gradient");
      for (int64_t k = 0; k < crema_blob_count(s.top[i]); ++k) diff[k] = 0.5f;
    }
    ratio[1] = ratio_of(run_backward, &s, backward_bytes(&s), memory, &seconds[1]);
  }
  printf("%-24s %7d", r->type, threads);
  for (int pass = 0; pass < 2; ++pass) {
    const double operations = (double)r->operations[pass] * (double)crema_blob_count(s.bottom[0]);
    const double share = peak > 0 && seconds[pass] > 0 ? operations / seconds[pass] / peak : 0;
    printf(" %9.2f %7.2f", seconds[pass] * 1e3, ratio[pass]);
    if (operations > 0) printf(" %4.0f %%", share * 100);
    else printf("%7s", "");
    const bool worked = r->operations[pass] > 20 && share >= wanted;
    too_slow = too_slow || (ratio[pass] > 3 && !worked);
  }
  *slow += too_slow;
  printf("%s\n", too_slow ? "  slow" : "");
  fflush(stdout);
  free_subject(&s);
}

/* ---- detectors ---- */

/* Layers that choose or judge boxes, which compare and sort them: how long that takes depends on
 * how many there are, not on the few bytes that they are. */
typedef struct detector {
  const char *boxes;
  double most; /* milliseconds */
  Caffe__Phase phase;
  row of;
} detector;

static const detector detectors[] = {
    {"21,546 anchors",
     5,
     CAFFE__PHASE__TRAIN,
     {"AnchorTarget",
      "anchor_target_param { ratio: 0.5 ratio: 1 ratio: 2 scale: 8 scale: 16 scale: 32 }",
      "1 18 38 63|8 5|1 3",
      "noz",
      4,
      {0}}},
    {"2,000 regions",
     5,
     CAFFE__PHASE__TRAIN,
     {"BoxAnnotatorOHEM",
      "box_annotator_ohem_param { roi_per_img: 128 }",
      "2000 5|2000|2000|2000 8",
      "rplp",
      2,
      {0}}},
    {"3,200 boxes of an image",
     5,
     CAFFE__PHASE__TEST,
     {"DetectionEvaluate",
      "detection_evaluate_param { num_classes: 21 background_label_id: 0 }",
      "1 1 3200 7|1 1 96 8",
      "dt",
      1,
      {0}}},
    {"8,732 boxes, 21 classes, all likely",
     5,
     CAFFE__PHASE__TEST,
     {"DetectionOutput",
      "detection_output_param { num_classes: 21 code_type: CENTER_SIZE keep_top_k: 200 "
      "confidence_threshold: 0.01 nms_param { nms_threshold: 0.45 top_k: 400 } }",
      "1 34928|1 183372|1 2 34928",
      "npb",
      1,
      {0}}},
    {"13,520 boxes of 16 images",
     5,
     CAFFE__PHASE__TEST,
     {"EvalDetection",
      "eval_detection_param { side: 13 num_class: 20 num_object: 5 nms: 0.45 " BIASES " }",
      "16 125 13 13|1 1 80 8",
      "nt",
      1,
      {0}}},
    {"12,150 boxes",
     10,
     CAFFE__PHASE__TEST,
     {"Proposal", "", "1 18 30 45|1 36 30 45|1 3", "pnz", 1, {0}}},
    {"2,000 regions",
     5,
     CAFFE__PHASE__TRAIN,
     {"ProposalTarget",
      "proposal_target_param { num_classes: 21 batch_size: 128 }",
      "2000 5|8 5",
      "ro",
      5,
      {0}}},
};

static void measure_detector(const detector *d, int *slow) {
  char name[64];
  subject s;
  make_subject(&s, &d->of, d->phase);
  contestant one[1] = {{"layer", run_forward, &s, 0.0}};
  measure(one, 1, 3, 9, 200, 1.0, NULL);
  const double found = one[0].seconds * 1e3;
  snprintf(name, sizeof name, "%s, %s", d->of.type, d->boxes);
  printf("%-52s %7.2f ms (at most %.0f)%s\n", name, found, d->most,
         found > d->most ? "  slow" : "");
  *slow += found > d->most;
  free_subject(&s);
}

int main(int argc, char **argv) {
  int threads[2], counts = wanted_threads(argc, argv, threads), slow = 0;
  copying memory;
  if (is_given("-processor", argc, argv)) use_processor_time();
  make_copying(&memory);
  printf("%-24s %7s %9s %7s %6s %9s %7s %6s (over copying, at most 3; of the FMA peak)\n", "layer",
         "threads", "forward", "ratio", "peak", "backward", "ratio", "peak");
  for (int t = 0; t < counts; ++t) {
    const int used = use_threads(threads[t]);
    const double peak = measure_peak(used);
    printf("%d threads: %.0f Gflop/s of multiply-adds, copying %.0f GB/s read and written\n", used,
           peak / 1e9, copied_per_second(&memory) / 1e9);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
      if (is_wanted(rows[i].type, argc, argv)) compare(&rows[i], used, peak, &memory, &slow);
    }
  }
  for (size_t i = 0; i < sizeof detectors / sizeof detectors[0]; ++i) {
    if (is_wanted(detectors[i].of.type, argc, argv)) measure_detector(&detectors[i], &slow);
  }
  printf("%d above their limits\n", slow);
  cr_host_free(memory.ring);
  return 0;
}
