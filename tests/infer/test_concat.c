/* Concat layers of compiled models whose bottoms lie in the top: that they do, that values are the
 * plain net's, and that they are where blobs are asked for and shapes change. */
#include "infer/pair.h"
#include "infer/session.h"

/* Two branches; one more value that the second Concat shares with the first, which it therefore
 * copies. */
static const char branches[] =
    DATA(16) CONV("a", "data", "a", 16, 1, 0) CONV("b", "data", "b", 32, 3, 1)
    "layer { name: 'rb' type: 'ReLU' bottom: 'b' top: 'b' }"
    "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' }"
    CONV("c", "ab", "c", 16, 3, 1) CONV("d", "ab", "d", 16, 1, 0)
    "layer { name: 'cd' type: 'Concat' bottom: 'c' bottom: 'd' top: 'cd' }"
    "layer { name: 'r' type: 'ReLU' bottom: 'cd' top: 'cd' }"
    "layer { name: 'cda' type: 'Concat' bottom: 'cd' bottom: 'c' top: 'cda' }"
    CONV("e", "cda", "e", 8, 1, 0);

/* A Concat that is a part of another one in another shape. */
static const char reshaped[] =
    DATA(16) CONV("a", "data", "a", 8, 1, 0) CONV("b", "data", "b", 8, 1, 0)
    "layer { name: 'c' type: 'Pooling' bottom: 'data' top: 'c' pooling_param { pool: AVE kernel_size: "
    "3 stride: 1 pad: 1 } }"
    "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' }"
    "layer { name: 'r' type: 'Reshape' bottom: 'ab' top: 'r' reshape_param { shape { dim: 0 dim: 32 "
    "dim: 6 dim: 3 } } }"
    "layer { name: 'q' type: 'Reshape' bottom: 'c' top: 'q' reshape_param { shape { dim: 0 dim: 32 "
    "dim: 6 dim: 3 } } }"
    "layer { name: 'y' type: 'Concat' bottom: 'q' bottom: 'r' top: 'y' }";

/* Each Concat is a part of the next one and read besides. */
static const char dense[] =
    DATA(3) CONV("x0", "data", "x0", 16, 3, 1)
    "layer { name: 's1' type: 'Scale' bottom: 'x0' top: 's1' scale_param { bias_term: true "
    "filler { type: 'gaussian' std: 1 } bias_filler { type: 'gaussian' std: 1 } } }"
    "layer { name: 'r1' type: 'ReLU' bottom: 's1' top: 's1' }" CONV("y1", "s1", "y1", 16, 3, 1)
    "layer { name: 'x1' type: 'Concat' bottom: 'x0' bottom: 'y1' top: 'x1' }"
    "layer { name: 's2' type: 'Scale' bottom: 'x1' top: 's2' scale_param { bias_term: true "
    "filler { type: 'gaussian' std: 1 } bias_filler { type: 'gaussian' std: 1 } } }"
    "layer { name: 'r2' type: 'ReLU' bottom: 's2' top: 's2' }" CONV("y2", "s2", "y2", 16, 3, 1)
    "layer { name: 'x2' type: 'Concat' bottom: 'x1' bottom: 'y2' top: 'x2' }"
    "layer { name: 'p' type: 'Pooling' bottom: 'x2' top: 'p' pooling_param { pool: AVE "
    "kernel_size: 2 stride: 2 } }" CONV("y3", "x2", "y3", 16, 3, 1)
    "layer { name: 'x3' type: 'Concat' bottom: 'x2' bottom: 'y3' top: 'x3' }"
    "layer { name: 'r3' type: 'ReLU' bottom: 'x3' top: 'x3' }" CONV("z", "x3", "z", 8, 1, 0);

/* A bottom is read again when the top has been overwritten. */
static const char late[] =
    DATA(16) CONV("a", "data", "a", 16, 3, 1) CONV("b", "data", "b", 16, 3, 1)
    "layer { name: 'ab' type: 'Concat' bottom: 'a' bottom: 'b' top: 'ab' }"
    "layer { name: 'r' type: 'ReLU' bottom: 'ab' top: 'ab' }" CONV("c", "ab", "c", 16, 3, 1)
    CONV("d", "a", "d", 16, 3, 1)
    "layer { name: 's' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 's' }";

/* In a pass: how many bottoms of Concat layers lay where they belong before the layer ran. */
typedef struct counts {
  int in_place, bottoms, there;
} counts;

static crema_status count_bottoms(void *user, crema_net *net, int index) {
  counts *c = user;
  const cr_net_layer *layer = &net->layer[index];
  if (!layer->layer->parts_in_place) return CREMA_OK;
  ++c->in_place;
  for (int j = 0; j < layer->layer->bottoms; ++j) {
    cr_format home;
    cr_tensor *data = layer->bottom[j]->data;
    const bool found = cr_tensor_alias_format(data, &home);
    ++c->bottoms;
    c->there += found && cr_format_equal(cr_tensor_head(data), home);
  }
  return CREMA_OK;
}

/* Of a pass that is not the first one. */
static counts count_pass(crema_session *session) {
  counts c = {0};
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session),
                         &(crema_net_hooks){.before_forward = count_bottoms, .user = &c}));
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session), NULL));
  return c;
}

/* Whichever bottoms still lie in the top then. */
TEST(parts_of_another_shape_lie_where_they_belong) {
  pair p;
  open_pair(reshaped, &p);
  check_equal(&p);
  check_batches(&p);
  close_pair(&p);
}

/* The processor's orders are limited in main to blocks, in which convolutions write parts. */
TEST(convolutions_write_their_part) {
  pair p;
  open_pair(branches, &p);
  check_equal(&p);
  const counts c = count_pass(p.session);
  /* 'c' is in 'cda', of which 'cd' has another reader: 'cd' copies or 'cda' does. */
  assert_true(c.in_place >= 1 && c.bottoms >= 2);
  assert_int_equal(c.there, c.bottoms);
  check_batches(&p);
  close_pair(&p);
}

TEST(a_concat_lies_in_the_next_one) {
  pair p;
  open_pair(dense, &p);
  check_equal(&p);
  const counts c = count_pass(p.session);
  assert_int_equal(c.in_place, 3);
  assert_int_equal(c.bottoms, 6);
  assert_int_equal(c.there, 6);
  check_batches(&p);
  close_pair(&p);
}

TEST(what_is_read_later_is_copied) {
  pair p;
  open_pair(late, &p);
  check_equal(&p);
  assert_int_equal(count_pass(p.session).in_place, 0);
  check_batches(&p);
  close_pair(&p);
}

/* Blobs that are asked for are not let go of with the top that they would lie in. */
TEST(asked_parts_are_kept) {
  static const char *const texts[] = {branches, dense};
  for (int t = 0; t < 2; ++t) {
    pair p;
    open_pair(texts[t], &p);
    check_equal(&p);
    check_blobs(&p);
    check_batches(&p);
    close_pair(&p);
  }
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_pair(dense, &p);
  assert_non_null(strstr(crema_model_explain(p.model),
                         "concat: bottoms of Concat 'x1' are written into its top\n"));
  leave_out(&p, "concat");
  check_equal(&p);
  assert_int_equal(count_pass(p.session).in_place, 0);
  close_pair(&p);
}

int main(void) {
  if (setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1) != 0 || setenv("DNNL_MAX_CPU_ISA", "AVX2", 1) != 0) {
    return 1;
  }
  return run_all_tests(make_folder, remove_folder);
}
