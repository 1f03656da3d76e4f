/* Each model learns: two steps of its train net, with an eighth of its channels, from small
 * pictures. */
#include <math.h>

#include "net/models.h"
#include "solver_case.h"

#define PICTURE(side) "dim: 2 dim: 3 dim: " #side " dim: " #side
static const struct {
  const char *name, *data, *label;
  const char *last; /* the layer whose weights are looked at besides the first's; NULL: the last */
} models[] = {
    {"alexnet", PICTURE(67), "dim: 2", NULL},
    {"c3d", "dim: 2 dim: 3 dim: 16 dim: 32 dim: 32", "dim: 2", NULL},
    {"caffenet", PICTURE(67), "dim: 2", NULL},
    {"densenet121", PICTURE(64), "dim: 2", NULL},
    {"fcn8s", "dim: 1 dim: 3 dim: 24 dim: 20", "dim: 1 dim: 1 dim: 24 dim: 20", NULL},
    {"mobilenet_v1", PICTURE(64), "dim: 2", NULL},
    {"mobilenet_v2", PICTURE(64), "dim: 2", NULL},
    {"resnet18", PICTURE(64), "dim: 2", NULL},
    {"resnet50", PICTURE(64), "dim: 2", NULL},
    {"squeezenet_v1.0", PICTURE(67), "dim: 2", NULL},
    {"squeezenet_v1.1", PICTURE(67), "dim: 2", NULL},
    {"ssd300_mobilenet", PICTURE(300), "dim: 1 dim: 1 dim: 2 dim: 8", "conv6/sep_mbox_loc"},
    {"unet", "dim: 1 dim: 1 dim: 188 dim: 188", "dim: 1 dim: 1 dim: 188 dim: 188", NULL},
    {"vgg16", PICTURE(64), "dim: 2", NULL},
};
enum { MODELS = sizeof models / sizeof *models };

/* A picture of waves, and for a label class 1, or an object of class 1 in each picture. */
static void feed(crema_net *net) {
  static const float objects[] = {0, 1, 0, 0.1f, 0.1f, 0.5f, 0.6f, 0,
                                  1, 1, 0, 0.3f, 0.2f, 0.9f, 0.9f, 0};
  float *data, *label;
  crema_blob *labels = crema_net_input(net, 1);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  ok(crema_blob_mutable_cpu_data(labels, &label));
  for (int64_t i = 0; i < crema_blob_count(crema_net_input(net, 0)); ++i) {
    data[i] = sinf((float)i * 0.37f) + sinf((float)i * 0.011f);
  }
  const bool boxes = crema_blob_shape(labels)->dim[crema_blob_shape(labels)->axes - 1] == 8;
  for (int64_t i = 0; i < crema_blob_count(labels); ++i) label[i] = boxes ? objects[i] : 1;
}

/* The weights of the layer of that name; without one, those of the first or the last layer. */
static crema_blob *weights_of(crema_net *net, const char *name, bool last) {
  crema_blob *found = NULL;
  for (int i = 0; i < crema_net_layer_count(net) && (last || found == NULL); ++i) {
    const char *type = crema_net_layer_type(net, i);
    if (strcmp(type, "Convolution") != 0 && strcmp(type, "InnerProduct") != 0) continue;
    if (name != NULL && strcmp(crema_net_layer_name(net, i), name) != 0) continue;
    found = crema_net_layer_param(net, i, 0);
  }
  assert_non_null(found);
  return found;
}

static double sum_of(crema_blob *blob) {
  const float *value;
  double sum = 0;
  ok(crema_blob_cpu_data(blob, &value));
  for (int64_t i = 0; i < crema_blob_count(blob); ++i)
    sum += (double)value[i] * (double)(i % 7 + 1);
  return sum;
}

static void learn(int index) {
  solver_case c;
  cr_buffer text = {0};
  double loss = 0, before[2];
  case_begin(&c);
  put_train_net(models[index].name, models[index].data, models[index].label, true, &text);
  case_load(&c, text.data,
            "base_lr: 0.01 lr_policy: 'fixed' max_iter: 2 test_initialization: false "
            "snapshot_after_train: false");
  crema_net *net = crema_solver_net(c.solver);
  feed(net);
  crema_blob *looked_at[] = {weights_of(net, NULL, false),
                             weights_of(net, models[index].last, true)};
  for (int last = 0; last < 2; ++last) before[last] = sum_of(looked_at[last]);
  ok(crema_net_forward(net, &loss));
  if (!(loss > 0 && loss < 1000)) fail_msg("%s: a loss of %g", models[index].name, loss);
  ok(crema_solver_step(c.solver, 2));
  for (int last = 0; last < 2; ++last) {
    const double after = sum_of(looked_at[last]);
    if (!isfinite(after) || after == before[last]) {
      fail_msg("%s: the %s weights go from %g to %g", models[index].name,
               last == 0 ? "first" : "last", before[last], after);
    }
  }
  cr_buffer_free(&text);
  case_end(&c);
}

TEST(test_each_model_learns) {
  for (int i = 0; i < MODELS; ++i) learn(i);
}

/* Faster R-CNN finds regions in a picture of 128 x 96 pixels and looks at them. */
TEST(test_faster_rcnn_runs) {
  cr_buffer file = {0}, text = {0};
  crema_net *net = NULL;
  const crema_shape picture = {.axes = 4, .dim = {1, 3, 96, 128}};
  float *data, *info;
  const float *score;
  crema_blob *found;
  crema_net_options options;
  crema_net_options_init(&options);
  options.seed = 1;
  ok(cr_file_read(CREMA_SOURCE_DIR "/models/faster_rcnn_resnet50/deploy.prototxt", &file));
  put_narrow(file.data, &text);
  ok(crema_net_parse(text.data, text.size, "narrow", &options, &net));
  ok(crema_blob_reshape(crema_net_input(net, 0), &picture));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &info));
  for (int i = 0; i < 3 * 96 * 128; ++i) data[i] = sinf((float)i * 0.37f);
  info[0] = 96;
  info[1] = 128;
  info[2] = 1;
  ok(crema_net_forward(net, NULL));
  ok(crema_net_blob(net, "cls_prob", &found));
  assert_true(crema_blob_shape(found)->dim[0] > 1);
  assert_int_equal(crema_blob_shape(found)->dim[1], 21);
  ok(crema_blob_cpu_data(found, &score));
  for (int i = 0; i < 21; ++i) assert_float_equal(score[i], 1.0 / 21, 1e-5); /* weights of 0 */
  crema_net_destroy(net);
  cr_buffer_free(&file);
  cr_buffer_free(&text);
}

/* Its train net learns, proposals and regions alike, from an object and the background around it.
 */
TEST(test_faster_rcnn_learns) {
  static const char *const layers[] = {"conv1", "rpn_conv/3x3", "rpn_bbox_pred", "bbox_pred"};
  static const float object[] = {60, 40, 189, 169, 7}, size[] = {224, 256, 1};
  solver_case c;
  cr_buffer file = {0}, text = {0};
  float *data;
  double before[4];
  case_begin(&c);
  ok(cr_file_read(CREMA_SOURCE_DIR "/models/faster_rcnn_resnet50/train_val.prototxt", &file));
  ok(cr_buffer_print(&text,
                     "layer { name: 'data' type: 'Input' top: 'data' top: 'im_info' top: "
                     "'gt_boxes' input_param { shape { dim: 1 dim: 3 dim: 224 dim: 256 } "
                     "shape { dim: 1 dim: 3 } shape { dim: 1 dim: 5 } } }\n"));
  for (char *at = file.data; (at = strstr(at, "stats: true")) != NULL;)
    memcpy(at, "stats:false", 11);
  put_narrow(behind_data(file.data), &text);
  case_load(&c, text.data,
            "base_lr: 0.01 lr_policy: 'fixed' max_iter: 2 test_initialization: false "
            "snapshot_after_train: false");
  crema_net *net = crema_solver_net(c.solver);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 0), &data));
  for (int i = 0; i < 3 * 224 * 256; ++i) data[i] = sinf((float)i * 0.37f);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 1), &data));
  memcpy(data, size, sizeof size);
  ok(crema_blob_mutable_cpu_data(crema_net_input(net, 2), &data));
  memcpy(data, object, sizeof object);
  for (int i = 0; i < 4; ++i) before[i] = sum_of(weights_of(net, layers[i], true));
  ok(crema_solver_step(c.solver, 2));
  for (int i = 0; i < 4; ++i) {
    const double after = sum_of(weights_of(net, layers[i], true));
    if (!isfinite(after) || after == before[i]) {
      fail_msg("the weights of %s go from %g to %g", layers[i], before[i], after);
    }
  }
  cr_buffer_free(&file);
  cr_buffer_free(&text);
  case_end(&c);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
