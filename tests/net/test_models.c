/* The models that scripts/write_models.py writes: each builds, has its inputs and outputs and as
 * many parameters as its paper or the published weights. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "core/file.h"
#include "net/net.h"

static const struct {
  const char *name;
  int64_t size, learned; /* of the input; parameters without BatchNorm's statistics */
} models[] = {
    {"squeezenet_v1.1", 227, 1235496}, {"resnet50", 224, 25557032},
    {"resnet152", 224, 60192808},      {"mobilenet_v1", 224, 4231976},
    {"mobilenet_v2", 224, 3504872},    {"densenet121", 224, 7978856},
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

/* The text of a train_val.prototxt with inputs in place of its two Data layers. */
static void put_inputs(const cr_buffer *text, int64_t size, cr_buffer *out) {
  const char *rest = strstr(text->data, "name: \"conv1\" type");
  assert_non_null(rest);
  ok(cr_buffer_print(out,
                     "layer { name: 'data' type: 'Input' top: 'data' top: 'label' input_param { "
                     "shape { dim: 1 dim: 3 dim: %lld dim: %lld } shape { dim: 1 } } } layer { ",
                     (long long)size, (long long)size));
  ok(cr_buffer_append(out, rest, strlen(rest)));
}

/* The largest is built by the same rules as ResNet-50, and random values for it take long. */
TEST(test_train_nets_learn_the_same) {
  for (int i = 0; i < MODELS; ++i) {
    char path[512];
    cr_buffer file = {0}, text = {0};
    crema_net *net = NULL;
    crema_net_options options;
    crema_net_options_init(&options);
    options.phase = CREMA_TRAIN;
    options.seed = 1;
    if (strcmp(models[i].name, "resnet152") == 0) continue;
    snprintf(path, sizeof path, CREMA_SOURCE_DIR "/models/%s/train_val.prototxt", models[i].name);
    ok(cr_file_read(path, &file));
    put_inputs(&file, models[i].size, &text);
    ok(crema_net_parse(text.data, text.size, path, &options, &net));
    assert_int_equal(count_learned(net), models[i].learned);
    assert_string_equal(crema_net_output_name(net, 0), "loss");
    crema_net_destroy(net);
    cr_buffer_free(&file);
    cr_buffer_free(&text);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
