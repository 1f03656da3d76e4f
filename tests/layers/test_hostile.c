/* Every layer with random parameters on random shapes: each call succeeds or returns an error with
 * a text; nothing crashes. Run under sanitizers, this is where overflows and overruns would show.
 */
#include <time.h>

#include "layers/common/input_class.h"
#include "layers/layer_table.h"

/* The field of LayerParameter that holds a type's parameters. */
static const struct {
  const char *type, *field;
} fields[] = {
    {"Accuracy", "accuracy_param"},
    {"ArgMax", "argmax_param"},
    {"BatchNorm", "batch_norm_param"},
    {"Bias", "bias_param"},
    {"CenterLoss", "center_loss_param"},
    {"Clip", "clip_param"},
    {"Concat", "concat_param"},
    {"ContrastiveLoss", "contrastive_loss_param"},
    {"Convolution", "convolution_param"},
    {"Crop", "crop_param"},
    {"Deconvolution", "convolution_param"},
    {"Dropout", "dropout_param"},
    {"DummyData", "dummy_data_param"},
    {"ELU", "elu_param"},
    {"GELU", "gelu_param"},
    {"Eltwise", "eltwise_param"},
    {"Embed", "embed_param"},
    {"EvalDetection", "eval_detection_param"},
    {"Exp", "exp_param"},
    {"Flatten", "flatten_param"},
    {"FocalLoss", "focal_loss_param"},
    {"HingeLoss", "hinge_loss_param"},
    {"Im2col", "convolution_param"},
    {"InfogainLoss", "loss_param"},
    {"InnerProduct", "inner_product_param"},
    {"Input", "input_param"},
    {"LRN", "lrn_param"},
    {"LSTM", "recurrent_param"},
    {"RNN", "recurrent_param"},
    {"Log", "log_param"},
    {"MVN", "mvn_param"},
    {"PReLU", "prelu_param"},
    {"Parameter", "parameter_param"},
    {"Permute", "permute_param"},
    {"Pooling", "pooling_param"},
    {"Power", "power_param"},
    {"ReLU", "relu_param"},
    {"Reduction", "reduction_param"},
    {"RegionLoss", "region_loss_param"},
    {"Reshape", "reshape_param"},
    {"SPP", "spp_param"},
    {"Scale", "scale_param"},
    {"SigmoidCrossEntropyLoss", "loss_param"},
    {"Slice", "slice_param"},
    {"Softmax", "softmax_param"},
    {"SoftmaxWithLoss", "loss_param"},
    {"Swish", "swish_param"},
    {"Threshold", "threshold_param"},
    {"Tile", "tile_param"},
    {"ConvolutionDepthwise", "convolution_param"},
    {"DepthwiseConvolution", "convolution_param"},
    {"DenseCRF", "dense_crf_param"},
    {"DeformablePSROIPooling", "deformable_psroi_pooling_param"},
    {"MultiStageMeanfield", "multi_stage_meanfield_param"},
    {"DetectionEvaluate", "detection_evaluate_param"},
    {"DetectNetTransformation", "detectnet_groundtruth_param"},
    {"DetectionOutput", "detection_output_param"},
    {"Interp", "interp_param"},
    {"MultiBoxLoss", "multibox_loss_param"},
    {"PriorBox", "prior_box_param"},
    {"BoxAnnotatorOHEM", "box_annotator_ohem_param"},
    {"Proposal", "proposal_param"},
    {"AnchorTarget", "anchor_target_param"},
    {"ProposalTarget", "proposal_target_param"},
    {"SegAccuracy", "seg_accuracy_param"},
    {"SmoothL1LossOHEM", "loss_param"},
    {"SoftmaxWithLossOHEM", "loss_param"},
    {"MnActivation", "mn_activation_param"},
    {"Normalize", "norm_param"},
    {"PSROIPooling", "psroi_pooling_param"},
    {"ROIAlign", "roi_align_param"},
    {"ROIPooling", "roi_pooling_param"},
    {"Reorg", "reorg_param"},
    {"SeLuDropout", "dropout_param"},
    {"ShuffleChannel", "shuffle_channel_param"},
    {"SmoothL1Loss", "smooth_l1_loss_param"},
    {"SpatialDropout", "spatial_dropout_param"},
    {"Upsample", "upsample_param"},
    {"CTCGreedyDecoder", "ctc_decoder_param"},
    {"CTCGreedyDecoder", "ctc_param"},
    {"CTCLoss", "ctc_loss_param"},
    {"CTCLoss", "ctc_param"},
    {"LabelsequenceAccuracy", "labelsequence_accuracy_param"},
    {"DeformableConvolution", "deformable_convolution_param"},
    {"MarginInnerProduct", "margin_inner_product_param"},
    {"TripletLoss", "triplet_loss_param"},
    {"WeightedSoftmaxWithLoss", "softmax_param"},
    {"WeightedSoftmaxWithLoss", "weighted_softmax_param"},
    {"Transpose", "transpose_param"},
    {"ContinuationIndicator", "continuation_indicator_param"},
    {"GradientScaler", "gradient_scaler_param"},
    {"GroupNorm", "group_norm_param"},
    {"Unpooling", "unpooling_param"},
    {"Reverse", "reverse_param"},
    {"Flip", "flip_param"},
    {"Noise", "noise_param"},
    {"Local", "local_param"},
    {"LocalConvolution", "local_convolution_param"},
    {"LocalConvolution", "local_conv_param"},
    {"SpatialTransformer", "st_param"},
    {"FlowWarp", "flow_warp_param"},
    {"Resample", "resample_param"},
    {"Correlation", "correlation_param"},
    {"Correlation1D", "correlation_param"},
};

static uint32_t random_state;

static uint32_t below(uint32_t bound) {
  return rig_random(&random_state) % bound;
}

typedef struct text_buffer {
  char text[4096];
  size_t used;
} text_buffer;

static void append(text_buffer *out, const char *fmt, ...) CREMA_PRINTF(2, 3);

static void append(text_buffer *out, const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(out->text + out->used, sizeof out->text - out->used, fmt, args);
  va_end(args);
  assert_true(n >= 0 && out->used + (size_t)n < sizeof out->text);
  out->used += (size_t)n;
}

/* Sizes of memory stay small: a refusal for want of memory says nothing about the layer. */
static bool is_size(const char *name) {
  static const char *const sizes[] = {
      "num_output", "input_dim", "tiles",    "dim", "num",   "channels", "height", "width",
      "top_k",      "kernel_h",  "kernel_w", "pad", "pad_h", "pad_w",    "sparse", "kernel_size"};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    if (strcmp(name, sizes[i]) == 0) return true;
  }
  return false;
}

static long long random_integer(bool is_signed, const char *name) {
  static const long long far[] = {2147483647, 2147483646, 65536, 1000, 33, 8};
  uint32_t kind = below(16);
  if (kind == 0 && !is_size(name)) return far[below(6)];
  if (kind == 1 && !is_size(name) && is_signed) return -2147483647LL - below(2);
  if (kind < 4 && is_signed) return -(long long)below(4);
  return kind < 12 ? 1 + below(3) : below(6);
}

static void append_message(text_buffer *out, const ProtobufCMessageDescriptor *type, int depth);

/* The field's name in the schema: the compiler adds an underscore to names that C needs itself. */
static void append_name(text_buffer *out, const ProtobufCFieldDescriptor *field) {
  size_t length = strlen(field->name);
  if (length > 0 && field->name[length - 1] == '_') --length;
  append(out, "%.*s", (int)length, field->name);
}

static void append_value(text_buffer *out, const ProtobufCFieldDescriptor *field, int depth) {
  static const char *const reals[] = {"0", "1", "-1", "0.5", "2", "1e30", "-1e-30", "inf", "nan"};
  static const char *const strings[] = {"constant", "xavier", "bilinear", "gaussian", "none", ""};
  append_name(out, field);
  switch (field->type) {
    case PROTOBUF_C_TYPE_BOOL: append(out, ": %s ", below(2) ? "true" : "false"); break;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_DOUBLE: append(out, ": %s ", reals[below(9)]); break;
    case PROTOBUF_C_TYPE_STRING: append(out, ": '%s' ", strings[below(6)]); break;
    case PROTOBUF_C_TYPE_ENUM: {
      const ProtobufCEnumDescriptor *values = field->descriptor;
      append(out, ": %s ", values->values[below(values->n_values)].name);
      break;
    }
    case PROTOBUF_C_TYPE_MESSAGE:
      append(out, " { ");
      if (depth < 3) append_message(out, field->descriptor, depth + 1);
      append(out, "} ");
      break;
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_UINT64: append(out, ": %lld ", random_integer(false, field->name)); break;
    default: append(out, ": %lld ", random_integer(true, field->name)); break;
  }
}

/* A random choice of the message's fields; lists have up to three entries. */
static void append_message(text_buffer *out, const ProtobufCMessageDescriptor *type, int depth) {
  for (unsigned i = 0; i < type->n_fields; ++i) {
    const ProtobufCFieldDescriptor *field = &type->fields[i];
    uint32_t count = below(2);
    if (field->label == PROTOBUF_C_LABEL_REQUIRED) count = 1;
    if (field->label == PROTOBUF_C_LABEL_REPEATED && count > 0) count += below(3);
    for (uint32_t k = 0; k < count; ++k) append_value(out, field, depth);
  }
}

static const ProtobufCMessageDescriptor *message_of(const char *type, const char **name) {
  const ProtobufCMessageDescriptor *layer = &caffe__layer_parameter__descriptor;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    if (strcmp(fields[i].type, type) != 0) continue;
    *name = fields[i].field;
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(layer, *name);
    assert_non_null(field);
    return field->descriptor;
  }
  return NULL;
}

/* Shapes of `count` bottoms: mostly alike, sometimes not. */
static void random_shapes(text_buffer *out, int count) {
  uint32_t axes = below(6), extent[6];
  for (uint32_t a = 0; a < 6; ++a) extent[a] = below(12) ? 1 + below(5) : 0;
  for (int i = 0; i < count; ++i) {
    if (i > 0) append(out, "|");
    if (below(4) == 0) axes = below(6);
    if (axes == 0) append(out, "-");
    for (uint32_t a = 0; a < axes; ++a) {
      append(out, "%u ", below(8) ? extent[a] : 1 + below(4));
    }
  }
}

static void expect_text(crema_status status, const rig *r, const char *body) {
  if (status == CREMA_OK) return;
  if (status != CREMA_E_INTERNAL && *crema_error_text() != '\0') return;
  print_error("%s { %s }: %s, '%s'\n", r->layer->kind->type, body, crema_status_name(status),
              crema_error_text());
  fail();
}

static bool tops_are_small(const rig *r) {
  for (int i = 0; i < r->tops; ++i) {
    if (crema_blob_count(r->top[i]) > 1 << 20) return false;
  }
  return true;
}

static void run(rig *r, const char *body) {
  crema_status status = rig_setup(r);
  expect_text(status, r, body);
  if (status != CREMA_OK || !tops_are_small(r)) return;
  for (int i = 0; i < r->bottoms; ++i) {
    float *value = rig_data(r->bottom[i]);
    for (int64_t k = 0; k < crema_blob_count(r->bottom[i]); ++k) {
      value[k] = (float)below(4) - (below(6) == 0 ? 1.5f : 0);
    }
  }
  status = rig_forward(r);
  expect_text(status, r, body);
  if (status != CREMA_OK || r->layer->kind->backward == NULL) return;
  if (!r->layer->needs_backward) return;
  for (int i = 0; i < r->tops; ++i) {
    float *diff = rig_diff(r->top[i]);
    for (int64_t k = 0; k < crema_blob_count(r->top[i]); ++k) diff[k] = 1;
  }
  expect_text(rig_backward(r), r, body);
}

static int between(int low, int high) {
  if (high == CR_ANY || high > low + 2) high = low + 2;
  return low + (int)below((uint32_t)(high - low + 1));
}

static bool one_layer(const char *type) {
  const cr_layer_class *kind = NULL;
  const char *name = NULL;
  const ProtobufCMessageDescriptor *message = message_of(type, &name);
  text_buffer body = {.used = 0}, shapes = {.used = 0};
  rig r;
  ok(cr_layer_class_find(type, &kind));
  if (message != NULL) {
    append(&body, "%s { ", name);
    append_message(&body, message, 0);
    append(&body, "}");
  }
  int bottoms = between(kind->bottoms.min, kind->bottoms.max);
  int tops = kind->graph.equal_bottoms_tops ? bottoms : between(kind->tops.min, kind->tops.max);
  random_shapes(&shapes, bottoms);
  Caffe__Phase phase = below(2) ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST;
  rig_make(&r, type, body.text, phase, bottoms > 0 ? shapes.text : NULL, tops);
  r.layer->needs_backward = true;
  if (bottoms > 0 && tops > 0 && below(4) == 0) rig_set_in_place(&r);
  run(&r, body.text);
  bool worked = tops == 0 || crema_blob_count(r.top[0]) > 0;
  rig_free(&r);
  return worked;
}

TEST(test_random_layers) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  const char *given = getenv("CREMA_TEST_SEED");
  uint32_t seed = given ? (uint32_t)strtoul(given, NULL, 10) : (uint32_t)time(NULL);
  int worked = 0;
  print_message("seed %u (set CREMA_TEST_SEED to repeat)\n", seed);
  random_state = seed * 2654435761u | 1u;
  for (size_t i = 0; i < count; ++i) {
    const cr_layer_class *kind = NULL;
    ok(cr_layer_class_find(names[i], &kind));
    if (kind->input != NULL && kind->input->save != NULL)
      continue; /* they read files; src/data has its own tests */
    for (int k = 0; k < 150; ++k) worked += one_layer(names[i]);
  }
  /* The test would prove nothing if all were refused. */
  assert_true(worked > 500);
}

/* Axis `axis` of bottom `first`, or of all from there on, has no positions. */
static bool one_empty(const layer_row *row, int first, bool all, int axis) {
  bool emptied = false;
  rig r;
  rig_make(&r, row->type, row->body, row->phase, row->shapes, row->tops);
  r.layer->needs_backward = !has_flag(row, 'N');
  for (int i = first; i < r.bottoms && (all || i == first); ++i) {
    crema_shape shape = r.bottom[i]->shape;
    if (axis >= shape.axes) continue;
    shape.dim[axis] = 0;
    ok(crema_blob_reshape(r.bottom[i], &shape));
    emptied = true;
  }
  if (emptied) run(&r, row->body);
  rig_free(&r);
  return emptied;
}

TEST(test_empty_axes) {
  int count = 0;
  random_state = 2463534242u;
  for (size_t i = 0; i < ROWS; ++i) {
    if (has_flag(&rows[i], 'S') || rows[i].shapes == NULL) continue;
    for (int first = 0; first < (int)strlen(rows[i].values); ++first) {
      for (int axis = 0; axis < 5; ++axis) {
        count += one_empty(&rows[i], first, false, axis);
        count += one_empty(&rows[i], first, true, axis);
      }
    }
  }
  assert_true(count > 1000);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
