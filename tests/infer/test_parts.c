/* Compiled models without a Concat that convolutions or pooling read: that values are the plain
 * net's to 1e-5, for extents and batches of all kinds, which Concats go, and that those stay of
 * which that would cost more, or whose blob somebody asks for. */
#include "infer/pair.h"

#define CONCAT(name, a, b, top) \
  "layer { name: '" name "' type: 'Concat' bottom: '" a "' bottom: '" b "' top: '" top "' }"
#define POOL(name, from, to, param)                                       \
  "layer { name: '" name "' type: 'Pooling' bottom: '" from "' top: '" to \
  "' pooling_param { " param " } }"
#define RELU(name, blob) \
  "layer { name: '" name "' type: 'ReLU' bottom: '" blob "' top: '" blob "' }"
#define LARGE                                                                                   \
  "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 8 dim: 48 " \
  "dim: 48 } } }"
#define TWO(a, b) CONV(a, "data", a, 48, 1, 0) RELU("r" a, a) CONV(b, "data", b, 24, 3, 1)

static bool tells(const pair *p, const char *what) {
  return strstr(crema_model_explain(p->model), what) != NULL;
}

static void check_extents(pair *p, int64_t batch, int64_t high, int64_t wide) {
  uint64_t random = (uint64_t)(high * 64 + wide);
  const crema_shape shape = cr_shape_4(batch, 8, high, wide);
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
  check_equal(p);
}

static void check_all(pair *p) {
  check_extents(p, 1, 48, 48);
  check_extents(p, 3, 17, 9);
  check_extents(p, 16, 40, 33);
  check_extents(p, 1, 2, 3);
}

/* With a bias, a ReLU and a stride, and with what the convolution adds besides. */
TEST(products_of_the_bottoms_are_added) {
  pair p;
  open_pair(LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 12, 1, 0)
                RELU("rc", "c") TWO("d", "e") CONCAT("more", "d", "e", "de")
                    "layer { name: 'f' type: 'Convolution' bottom: 'de' top: 'f' "
                    "convolution_param { num_output: 18 kernel_size: 1 stride: 2 bias_term: false "
                    "weight_filler { type: 'gaussian' std: 0.1 } } }",
            &p);
  assert_true(tells(&p,
                    "parts: Convolution 'c' adds up its results for the bottoms of Concat "
                    "'side'\n"));
  assert_true(tells(&p, "parts: Convolution 'f' adds up"));
  check_all(&p);
  check_blobs(&p);
  check_all(&p);
  close_pair(&p);
}

TEST(bottoms_are_pooled) {
  pair p;
  open_pair(LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab")
                POOL("pool", "ab", "p", "pool: MAX kernel_size: 3 stride: 2") TWO("d", "e")
                    CONCAT("more", "d", "e", "de")
                        POOL("mean", "de", "m", "pool: AVE global_pooling: true")
                            CONV("c", "m", "c", 4, 1, 0),
            &p);
  assert_true(tells(&p, "parts: Pooling 'pool' pools the bottoms of Concat 'side'\n"));
  assert_true(tells(&p, "parts: Pooling 'mean' pools the bottoms of Concat 'more'\n"));
  check_all(&p);
  check_blobs(&p);
  close_pair(&p);
}

/* Large still when it has been pooled. */
TEST(products_of_what_is_pooled_are_added) {
  pair p;
  open_pair(
      "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 8 dim: "
      "96 dim: 96 } } }" TWO("a", "b") CONCAT("side", "a", "b", "ab") POOL(
          "pool", "ab", "p", "pool: MAX kernel_size: 2 stride: 2") CONV("c", "p", "c", 12, 1, 0),
      &p);
  assert_true(tells(&p, "parts: Pooling 'pool' pools the bottoms of Concat 'side'\n"));
  assert_true(tells(&p,
                    "parts: Convolution 'c' adds up its results for the bottoms of Concat "
                    "'side'\n"));
  check_all(&p);
  check_blobs(&p);
  close_pair(&p);
}

/* Windows of 3 x 3, groups, many outputs, pooling that leaves all positions; two readers; three
 * bottoms; a bottom twice, whose memory is somebody else's as well; few values. */
TEST(others_stay) {
  static const char *const nets[] = {
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 12, 3, 1),
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab")
          "layer { name: 'c' type: 'Convolution' bottom: 'ab' top: 'c' convolution_param { "
          "num_output: 12 kernel_size: 1 group: 6 weight_filler { type: 'gaussian' std: 0.1 } } }",
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 19, 1, 0),
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab")
          POOL("c", "ab", "c", "pool: MAX kernel_size: 3 stride: 1 pad: 1"),
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 12, 1, 0)
          CONV("d", "ab", "d", 12, 1, 0),
      LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab")
          CONCAT("again", "ab", "data", "abd") CONV("c", "abd", "c", 12, 1, 0),
      LARGE CONV("a", "data", "a", 40, 1, 0) CONCAT("side", "a", "a", "aa")
          CONV("c", "aa", "c", 12, 1, 0),
      DATA(8) TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 12, 1, 0)};
  for (size_t i = 0; i < sizeof nets / sizeof nets[0]; ++i) {
    pair p;
    open_pair(nets[i], &p);
    if (tells(&p, "parts: ")) fail_msg("net %zu: %s", i, crema_model_explain(p.model));
    check_all(&p);
    close_pair(&p);
  }
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_pair(LARGE TWO("a", "b") CONCAT("side", "a", "b", "ab") CONV("c", "ab", "c", 12, 1, 0), &p);
  leave_out(&p, "parts");
  assert_true(tells(&p, "parts: switched off\n"));
  check_all(&p);
  close_pair(&p);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
