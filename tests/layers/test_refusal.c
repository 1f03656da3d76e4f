/* Parameters and shapes that layers refuse: the status, and that the message names the layer and
 * what is wrong. */
#include "layers/layer_rig.h"

typedef struct refusal {
  const char *type, *body, *shapes;
  int tops;
  crema_status status;
  const char *text;
} refusal;

static const refusal refusals[] = {
#define REFUSED(type, body, shapes, tops, status, text) \
  {type, body, shapes, tops, CREMA_##status, text},
#include "layers/refusals.inc"
#undef REFUSED
};

TEST(test_refusals) {
  int wrong = 0;
  for (size_t i = 0; i < sizeof refusals / sizeof refusals[0]; ++i) {
    const refusal *c = &refusals[i];
    rig r;
    rig_make(&r, c->type, c->body, CAFFE__PHASE__TRAIN, c->shapes, c->tops);
    crema_status status = rig_setup(&r);
    const char *text = status == CREMA_OK ? "" : crema_error_text();
    if (status != c->status || strstr(text, c->text) == NULL ||
        strstr(text, "layer 'op'") == NULL || strstr(text, c->type) == NULL) {
      print_error("%s { %s } on %s: %s, '%s'; expected %s, '%s'\n", c->type, c->body,
                  c->shapes ? c->shapes : "nothing", crema_status_name(status), text,
                  crema_status_name(c->status), c->text);
      ++wrong;
    }
    rig_free(&r);
  }
  assert_int_equal(wrong, 0);
}

/* Layers that several machines share are refused, those of one are not. */
TEST(test_several_machines) {
  for (uint32_t nodes = 1; nodes <= 2; ++nodes) {
    Caffe__MultinodeLayerParameter multinode = CAFFE__MULTINODE_LAYER_PARAMETER__INIT;
    Caffe__LayerParameter param = CAFFE__LAYER_PARAMETER__INIT;
    cr_layer *layer = NULL;
    multinode.num_nodes = nodes;
    multinode.has_num_nodes = true;
    param.multinode = &multinode;
    param.type = (char *)"ReLU";
    const crema_status status =
        cr_layer_create(&param, CAFFE__PHASE__TEST, cr_host_context(), 1, NULL, &layer);
    assert_int_equal(status, nodes == 1 ? CREMA_OK : CREMA_E_UNSUPPORTED);
    if (nodes > 1) assert_error_has("num_nodes is 2");
    cr_layer_destroy(layer);
  }
}

/* A change of shape between passes is checked as well, and the layer still works after it. */
TEST(test_reshape_after_setup) {
  const crema_shape other = {4, {2, 5, 4, 4}}, same = {4, {2, 3, 4, 4}};
  rig r;
  rig_make(&r, "Convolution", "convolution_param { num_output: 2 kernel_size: 3 }",
           CAFFE__PHASE__TRAIN, "2 3 4 4", 1);
  ok(rig_setup(&r));
  ok(crema_blob_reshape(r.bottom[0], &other));
  assert_fails(r.layer->kind->reshape(r.layer, r.bottom, r.top), CREMA_E_SHAPE, "3 channels");
  assert_error_has("2 5 4 4");
  ok(crema_blob_reshape(r.bottom[0], &same));
  ok(r.layer->kind->reshape(r.layer, r.bottom, r.top));
  ok(rig_forward(&r));
  rig_free(&r);
}

/* A top that is a bottom is refused, but for the first of both of a class that works in place. */
TEST(test_in_place) {
  size_t count = 0;
  const char *const *names = cr_layer_class_names(&count);
  for (size_t i = 0; i < count; ++i) {
    rig r;
    rig_make(&r, names[i], "", CAFFE__PHASE__TEST, "2 3|2 3", 2);
    ok(cr_layer_check_in_place(r.layer, r.bottom, r.top));
    crema_blob *own = r.top[0];
    r.top[0] = r.bottom[0];
    crema_status status = cr_layer_check_in_place(r.layer, r.bottom, r.top);
    assert_int_equal(status, r.layer->kind->in_place ? CREMA_OK : CREMA_E_ARGUMENT);
    r.top[0] = r.bottom[1];
    assert_fails(cr_layer_check_in_place(r.layer, r.bottom, r.top), CREMA_E_ARGUMENT,
                 "top 0 is the same blob as bottom 1");
    r.top[0] = own;
    rig_free(&r);
  }
}

TEST(test_labels_out_of_range) {
  static const char *const types[] = {"SoftmaxWithLoss", "Accuracy"};
  static const float bad[] = {-1, 3, 1e30f, NAN};
  for (int t = 0; t < 2; ++t) {
    for (int i = 0; i < 4; ++i) {
      rig r;
      rig_make(&r, types[t], "", CAFFE__PHASE__TRAIN, "2 3|2", 1);
      ok(rig_setup(&r));
      rig_data(r.bottom[1])[1] = bad[i];
      assert_int_equal(rig_forward(&r), CREMA_E_RANGE);
      rig_free(&r);
    }
  }
}

TEST(test_labels_have_no_gradient) {
  rig r;
  rig_make(&r, "SoftmaxWithLoss", "", CAFFE__PHASE__TRAIN, "2 3|2", 1);
  ok(rig_setup(&r));
  ok(rig_forward(&r));
  assert_false(r.propagate_down[1]);
  r.propagate_down[1] = true;
  assert_fails(rig_backward(&r), CREMA_E_UNSUPPORTED,
               "one propagate_down per bottom, false for bottom 1");
  rig_free(&r);
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
