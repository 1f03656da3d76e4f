/* The registry, and making and freeing layers. */
#include "layers/layer_rig.h"

/* So every type is there once. */
TEST(s2_16_names_are_sorted) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  assert_true(count > 20);
  for (size_t i = 1; i < count; ++i) assert_true(strcmp(names[i - 1], names[i]) < 0);
}

TEST(s2_16_every_name_finds_its_class) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  for (size_t i = 0; i < count; ++i) {
    const cr_layer_class *kind = NULL;
    ok(cr_layer_class_find(names[i], &kind));
    assert_string_equal(kind->type, names[i]);
    assert_non_null(kind->setup);
    assert_non_null(kind->reshape);
    assert_non_null(kind->forward);
    assert_true(kind->tops.max == CR_ANY || kind->tops.max >= kind->tops.min);
    assert_true(kind->bottoms.max == CR_ANY || kind->bottoms.max >= kind->bottoms.min);
  }
}

TEST(s2_16_unknown_types_are_told_the_known_ones) {
  const cr_layer_class *kind = NULL;
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  assert_fails(cr_layer_class_find("Convolutoin", &kind), CREMA_E_UNKNOWN_NAME,
               "unknown layer type 'Convolutoin'");
  assert_error_has("did you mean 'Convolution'?");
  assert_null(strstr(crema_error_text(), "known types"));
  assert_fails(cr_layer_class_find("", &kind), CREMA_E_UNKNOWN_NAME, "the layer has no type");
  assert_fails(cr_layer_class_find("@@@@@@@@@@", &kind), CREMA_E_UNKNOWN_NAME, "known types: ");
  assert_null(strstr(crema_error_text(), "did you mean"));
  for (size_t i = 0; i < 3 && i < count; ++i) assert_error_has(names[i]);
  assert_error_has("`crema layers` lists them");
  assert_fails(cr_layer_class_find("Python", &kind), CREMA_E_UNSUPPORTED,
               "layers of type 'Python'");
}

TEST(types_of_forks_are_told_their_fork) {
  const cr_layer_class *kind = NULL;
  size_t count = 0;
  const cr_fork_type *known = cr_layer_fork_types(&count);
  assert_in_range(count, 1, 1000);
  for (size_t i = 0; i < count; ++i) {
    assert_true(i == 0 || strcmp(known[i - 1].type, known[i].type) < 0);
    assert_false(cr_layer_type_is_known(known[i].type));
    assert_true(known[i].nearest == NULL || cr_layer_type_is_known(known[i].nearest));
    assert_fails(cr_layer_class_find(known[i].type, &kind), CREMA_E_UNKNOWN_NAME, known[i].fork);
    assert_error_has(known[i].type);
    assert_error_has("crema_layer_register, can add it");
  }
  assert_fails(cr_layer_class_find("ScaleRoute", &kind), CREMA_E_UNKNOWN_NAME,
               "unknown layer type 'ScaleRoute', of Cascade R-CNN; a layer of type");
  assert_null(strstr(crema_error_text(), "nearest"));
  assert_fails(cr_layer_class_find("OPData", &kind), CREMA_E_UNKNOWN_NAME,
               "crema's nearest type is 'CPMData', with other fields and weights; a layer");
}

TEST(test_unknown_type_names_the_layer) {
  Caffe__LayerParameter param = CAFFE__LAYER_PARAMETER__INIT;
  char type[] = "Relu", name[] = "activation";
  cr_layer *layer = NULL;
  param.type = type;
  param.name = name;
  assert_int_equal(cr_layer_create(&param, CAFFE__PHASE__TRAIN, NULL, 0, NULL, &layer),
                   CREMA_E_UNKNOWN_NAME);
  assert_null(layer);
  assert_error_has("layer 'activation'");
  assert_error_has("'ReLU'");
}

TEST(test_destroy_accepts_null_and_unused_layers) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  cr_layer_destroy(NULL);
  /* A layer that was never set up is freed as well. */
  for (size_t i = 0; i < count; ++i) {
    rig r;
    rig_make(&r, names[i], "", CAFFE__PHASE__TEST, "1", 1);
    assert_string_equal(r.layer->kind->type, names[i]);
    rig_free(&r);
  }
}

TEST(test_loss_weights) {
  rig r;
  rig_make(&r, "SoftmaxWithLoss", "", CAFFE__PHASE__TRAIN, "2 3|2", 2);
  assert_true(r.layer->loss_weight[0] == 1 && r.layer->loss_weight[1] == 0);
  rig_free(&r);
  rig_make(&r, "SoftmaxWithLoss", "loss_weight: 0.5 loss_weight: 2", CAFFE__PHASE__TRAIN, "2 3|2",
           2);
  assert_true(r.layer->loss_weight[0] == 0.5f && r.layer->loss_weight[1] == 2);
  rig_free(&r);
  rig_make(&r, "ReLU", "", CAFFE__PHASE__TRAIN, "2 3", 1);
  assert_true(r.layer->loss_weight[0] == 0);
  rig_free(&r);
}

TEST(test_keys_differ_by_name_and_seed) {
  Caffe__LayerParameter param = CAFFE__LAYER_PARAMETER__INIT;
  char type[] = "ReLU", a[] = "a", b[] = "b";
  cr_layer *layer[3] = {0};
  param.type = type;
  param.name = a;
  ok(cr_layer_create(&param, CAFFE__PHASE__TRAIN, NULL, 1, NULL, &layer[0]));
  ok(cr_layer_create(&param, CAFFE__PHASE__TRAIN, NULL, 2, NULL, &layer[1]));
  param.name = b;
  ok(cr_layer_create(&param, CAFFE__PHASE__TRAIN, NULL, 1, NULL, &layer[2]));
  assert_true(layer[0]->key != layer[1]->key);
  assert_true(layer[0]->key != layer[2]->key);
  for (int i = 0; i < 3; ++i) cr_layer_destroy(layer[i]);
}

/* Caffe's Clip hands on the gradient of a value that is min or max, ReLU6 of Caffe's forks none of
 * a value that is 0 or 6. */
TEST(gradients_at_bounds) {
  static const struct {
    const char *type, *body;
    double x[5], wanted[5];
  } rows[] = {{"Clip", "clip_param { min: -0.5 max: 2 }", {-1, -0.5, 1, 2, 3}, {0, 7, 7, 7, 0}},
              {"ReLU6", "", {-1, 0, 1, 6, 7}, {0, 0, 7, 0, 0}}};
  for (int k = 0; k < 4; ++k) {
    rig r;
    rig_make_of(&r, k < 2 ? CREMA_F32 : CREMA_F64, rows[k % 2].type, rows[k % 2].body,
                CAFFE__PHASE__TRAIN, "5", 1);
    ok(rig_setup(&r));
    for (int i = 0; i < 5; ++i) rig_set(rig_data_of(r.bottom[0]), i, rows[k % 2].x[i]);
    for (int i = 0; i < 5; ++i) rig_set(rig_diff_of(r.top[0]), i, 7);
    ok(rig_forward(&r));
    ok(rig_backward(&r));
    for (int i = 0; i < 5; ++i) {
      assert_true(rig_get(rig_diff_of(r.bottom[0]), i) == rows[k % 2].wanted[i]);
    }
    rig_free(&r);
  }
}

/* As the forks of DeepLab and PSPNet choose when too much is said. */
TEST(interp_takes_its_extents_from) {
  static const struct {
    const char *what, *body, *shapes;
    int64_t height, width;
  } cases[] = {
      {"one factor", "interp_param { zoom_factor: 2 height: 2 width: 3 }", "1 1 5 9", 9, 17},
      {"the other", "interp_param { shrink_factor: 2 height: 2 width: 4 }", "1 1 5 9", 3, 5},
      {"both", "interp_param { shrink_factor: 2 zoom_factor: 3 height: 2 }", "1 1 5 9", 7, 13},
      {"extents", "interp_param { shrink_factor: 2 zoom_factor: 3 height: 2 width: 4 }", "1 1 5 9",
       2, 4},
      {"a second bottom", "interp_param { zoom_factor: 2 height: 2 width: 4 }", "1 1 5 9|1 1 6 8",
       6, 8},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    rig r;
    rig_make(&r, "Interp", cases[i].body, CAFFE__PHASE__TEST, cases[i].shapes, 1);
    ok(rig_setup(&r));
    if (r.top[0]->shape.dim[2] != cases[i].height || r.top[0]->shape.dim[3] != cases[i].width) {
      fail_msg("%s: %lld by %lld", cases[i].what, (long long)r.top[0]->shape.dim[2],
               (long long)r.top[0]->shape.dim[3]);
    }
    rig_free(&r);
  }
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
