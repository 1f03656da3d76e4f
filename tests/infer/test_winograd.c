/* Convolutions of compiled models that save products by Winograd's method: that values are the
 * plain net's to 1e-5, with what is computed besides, for extents and batches on both sides of
 * where the method is used, and which layers may use it. */
#include "infer/pair.h"

#define LAYER(name, type, bottom, top) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' }"
#define SUM(name, a, b, top) \
  "layer { name: '" name "' type: 'Eltwise' bottom: '" a "' bottom: '" b "' top: '" top "' }"

/* Alone, with a ReLU, with a sum and a ReLU, with a function that no such kernel applies. */
static const char net_text[] =
    DATA(32)
    CONV("a", "data", "a", 32, 3, 1) LAYER("ra", "ReLU", "a", "a") CONV("b", "a", "b", 32, 3, 1)
    CONV("c", "b", "c", 32, 3, 1) SUM("sum", "a", "c", "s") LAYER("rs", "ReLU", "s", "s")
    CONV("d", "s", "d", 16, 3, 0)
    "layer { name: 'clip' type: 'Clip' bottom: 'd' top: 'd' clip_param { min: -3 max: 6 } }"
    CONV("odd", "c", "odd", 12, 3, 1) CONV("five", "c", "five", 16, 5, 2)
    CONV("thin", "d", "thin", 32, 3, 1);

static bool tells(const pair *p, const char *what) {
  return strstr(crema_model_explain(p->model), what) != NULL;
}

static void check_extents(pair *p, int64_t batch, int64_t high, int64_t wide) {
  uint64_t random = (uint64_t)(high * 64 + wide);
  const crema_shape shape = cr_shape_4(batch, 32, high, wide);
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
  check_equal(p);
}

TEST(values_are_the_plain_nets) {
  pair p;
  open_pair(net_text, &p);
  check_extents(&p, 1, 31, 29);
  check_extents(&p, 1, 9, 7);
  check_extents(&p, 8, 14, 13);
  check_extents(&p, 1, 56, 17);
  close_pair(&p);
}

/* Weights in one model, for kernels of both kinds. */
TEST(blobs_that_are_asked_for_are_right) {
  pair p;
  open_pair(net_text, &p);
  check_extents(&p, 1, 30, 30);
  check_blobs(&p);
  check_extents(&p, 1, 6, 6);
  check_blobs(&p);
  close_pair(&p);
}

TEST(layers_that_may_use_it) {
  static const char *const named[] = {"'a'", "'b'", "'c'", "'d'"};
  pair p;
  char line[64];
  open_pair(net_text, &p);
  for (size_t i = 0; i < sizeof named / sizeof named[0]; ++i) {
    snprintf(line, sizeof line, "winograd: Convolution %s\n", named[i]);
    assert_true(tells(&p, line));
  }
  assert_false(tells(&p, "winograd: Convolution 'odd'"));
  assert_false(tells(&p, "winograd: Convolution 'five'"));
  assert_false(tells(&p, "winograd: Convolution 'thin'"));
  leave_out(&p, "winograd");
  assert_true(tells(&p, "winograd: switched off\n"));
  check_extents(&p, 1, 31, 29);
  close_pair(&p);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
