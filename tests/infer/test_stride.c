/* Convolutions of compiled models that take over the stride of pointwise ones behind them: that
 * they do where it saves products, that values are the plain net's for any extents, and that blobs
 * are whole where they are asked for. */
#include "infer/pair.h"

#define LAYER(name, type, bottom, top) \
  "layer { name: '" name "' type: '" type "' bottom: '" bottom "' top: '" top "' }"
#define SUM(name, a, b, top) \
  "layer { name: '" name "' type: 'Eltwise' bottom: '" a "' bottom: '" b "' top: '" top "' }"
#define POINTWISE(name, from, to, high, wide)                                                \
  "layer { name: '" name "' type: 'Convolution' bottom: '" from "' top: '" to                \
  "' convolution_param { num_output: 16 kernel_size: 1 stride_h: " #high " stride_w: " #wide \
  " weight_filler { type: 'gaussian' std: 0.1 } bias_filler { type: 'gaussian' std: 1 } } }"

/* A block with a shortcut, and the two convolutions that begin the next one. */
#define BLOCK                                                                               \
  DATA(16)                                                                                  \
  CONV("first", "data", "x", 16, 3, 1)                                                      \
  LAYER("rx", "ReLU", "x", "x")                                                             \
  CONV("a", "x", "a", 16, 1, 0) LAYER("ra", "ReLU", "a", "a") CONV("b", "a", "b", 16, 3, 1) \
      LAYER("rb", "ReLU", "b", "b") CONV("c", "b", "c", 16, 1, 0) SUM("sum", "x", "c", "y") \
          LAYER("ry", "ReLU", "y", "y")
static const char transition[] =
    BLOCK POINTWISE("left", "y", "left", 2, 2) POINTWISE("right", "y", "right", 2, 2)
        LAYER("rr", "ReLU", "right", "right") SUM("end", "left", "right", "end");

/* Of other strides, one of them alone. */
static const char uneven[] = BLOCK POINTWISE("left", "y", "left", 3, 1);

/* Read in two ways. */
static const char mixed[] =
    BLOCK POINTWISE("left", "y", "left", 2, 2) POINTWISE("right", "y", "right", 2, 1);

/* No convolution before it. */
static const char pooled[] =
    DATA(16) "layer { name: 'p' type: 'Pooling' bottom: 'data' top: 'p' pooling_param { "
             "kernel_size: 2 } }" POINTWISE("left", "p", "left", 2, 2);

static bool tells(const pair *p, const char *what) {
  return strstr(crema_model_explain(p->model), what) != NULL;
}

static void set_extents(pair *p, int64_t high, int64_t wide) {
  uint64_t random = (uint64_t)(high * 8 + wide);
  const crema_shape shape = cr_shape_4(2, 16, high, wide);
  ok(crema_blob_reshape(crema_net_input(p->net, 0), &shape));
  draw_inputs(p->net, &random);
  ok(crema_net_forward(p->net, NULL));
}

static void check_extents(pair *p) {
  for (int64_t high = 1; high <= 7; ++high) {
    set_extents(p, high, 8 - high);
    check_equal(p);
  }
}

TEST(a_stride_goes_to_the_convolution_that_can_save_by_it) {
  pair p;
  open_pair(transition, &p);
  assert_true(tells(&p, "stride: Convolution 'b' computes one of 4 positions"));
  assert_false(tells(&p, "stride: Convolution 'a'"));
  assert_true(tells(&p, "is copied for Eltwise 'sum'\n"));
  assert_true(tells(&p, "fuse: Eltwise 'sum' into Convolution 'c', in the memory of the addend"));
  check_equal(&p);
  check_extents(&p);
  check_batches(&p);
  check_blobs(&p);
  check_extents(&p);
  close_pair(&p);
}

TEST(strides_may_be_uneven) {
  pair p;
  open_pair(uneven, &p);
  assert_true(tells(&p, "stride: Convolution 'b' computes one of 3 positions"));
  check_extents(&p);
  check_blobs(&p);
  close_pair(&p);
}

TEST(what_is_read_in_two_ways_stays) {
  static const char *const texts[] = {mixed, pooled};
  for (int t = 0; t < 2; ++t) {
    pair p;
    open_pair(texts[t], &p);
    assert_false(tells(&p, "stride: "));
    check_equal(&p);
    close_pair(&p);
  }
}

/* Kept from the start. */
TEST(blobs_that_are_kept_are_whole) {
  pair p;
  crema_blob *want = NULL, *found = NULL;
  open_pair(transition, &p);
  ok(crema_net_blob(p.net, "y", &want));
  ok(crema_session_blob(p.session, "y", &found));
  check_extents(&p);
  assert_true(difference(want, found) <= 1e-5);
  close_pair(&p);
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_pair(transition, &p);
  leave_out(&p, "stride");
  assert_true(tells(&p, "stride: switched off\n"));
  assert_false(tells(&p, "positions"));
  check_extents(&p);
  close_pair(&p);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
