/* The models that scripts/write_models.py and scripts/write_dense_models.py write: each builds, has
 * its inputs and outputs and as many parameters as its paper or the published weights. */
#include "models.h"
#include "net/net.h"

static const struct {
  const char *name;
  int64_t size, learned; /* of the input; parameters without BatchNorm's statistics */
} models[] = {
    {"squeezenet_v1.0", 227, 1248424}, {"squeezenet_v1.1", 227, 1235496},
    {"resnet50", 224, 25557032},       {"resnet152", 224, 60192808},
    {"mobilenet_v1", 224, 4231976},    {"mobilenet_v2", 224, 3504872},
    {"densenet121", 224, 7978856},     {"caffenet", 227, 60965224},
    {"vgg16", 224, 138357544},         {"resnet18", 224, 11689512},
};
enum { MODELS = sizeof models / sizeof models[0] };

static int64_t count_learned(crema_net *net) {
  int64_t count = 0;
  for (int i = 0; i < crema_net_layer_count(net); ++i) {
    if (strcmp(crema_net_layer_type(net, i), "BatchNorm") == 0) continue;
    for (int p = 0; p < crema_net_layer_param_count(net, i); ++p) {
      count += crema_blob_count(crema_net_layer_param(net, i, p));
    }
  }
  return count;
}

TEST(test_deploy_nets_have_the_published_size) {
  for (int i = 0; i < MODELS; ++i) {
    char path[512];
    crema_net *net = NULL;
    snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/deploy.prototxt", models[i].name);
    ok(crema_net_load(path, NULL, &net));
    assert_int_equal(crema_net_input_count(net), 1);
    assert_int_equal(crema_blob_shape(crema_net_input(net, 0))->dim[3], models[i].size);
    assert_string_equal(crema_net_output_name(net, 0), "prob");
    assert_int_equal(crema_blob_count(crema_net_output(net, 0)), 1000);
    if (count_learned(net) != models[i].learned) {
      fail_msg("%s: %lld parameters", models[i].name, (long long)count_learned(net));
    }
    crema_net_destroy(net);
  }
}

/* Random values take long: some nets of the same rules stand for the largest. */
TEST(test_train_nets_learn_the_same) {
  for (int i = 0; i < MODELS; ++i) {
    char data[128];
    cr_buffer text = {0};
    crema_net *net = NULL;
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = CREMA_TRAIN;
    options.seed = 1;
    if (models[i].learned > 30000000) continue;
    snprintf(data, sizeof data, "dim: 1 dim: 3 dim: %lld dim: %lld", (long long)models[i].size,
             (long long)models[i].size);
    put_train_net(models[i].name, data, "dim: 1", false, &text);
    ok(crema_net_parse(text.data, text.size, models[i].name, &options, &net));
    assert_int_equal(count_learned(net), models[i].learned);
    assert_string_equal(crema_net_output_name(net, 0), "loss");
    crema_net_destroy(net);
    cr_buffer_free(&text);
  }
}

/* Models that say where things are. SSD's paper gives no number; with the 91 classes of MobileNet's
 * it would be 6819839, that paper's 6.8 million. FCN-8s: the 134 million of its paper. Faster
 * R-CNN: ResNet-50's 23508032 without its end, and 4961951 of the regions' and the last layers. */
static const struct {
  const char *name, *output;
  int64_t learned, shape[4]; /* of the output, the first axis left out; 0: not checked */
} dense[] = {
    {"ssd300_mobilenet", "detection_out", 5796089, {0}},
    {"faster_rcnn_resnet50", "bbox_pred", 28469983, {84}},
    {"fcn8s", "prob", 134489759, {21, 500, 500}},
    {"unet", "prob", 31030658, {2, 388, 388}},
};

TEST(test_dense_nets_have_the_published_size) {
  for (size_t i = 0; i < sizeof dense / sizeof *dense; ++i) {
    char path[512];
    crema_net *net = NULL;
    snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/deploy.prototxt", dense[i].name);
    ok(crema_net_load(path, NULL, &net));
    if (count_learned(net) != dense[i].learned) {
      fail_msg("%s: %lld parameters", dense[i].name, (long long)count_learned(net));
    }
    assert_string_equal(crema_net_output_name(net, 0), dense[i].output);
    const crema_shape *shape = crema_blob_shape(crema_net_output(net, 0));
    for (int k = 0; k < 4 && dense[i].shape[k] > 0; ++k) {
      assert_int_equal(shape->dim[k + 1], dense[i].shape[k]);
    }
    crema_net_destroy(net);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
