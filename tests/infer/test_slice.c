/* Slice layers of compiled models whose tops lie in the bottom: that they do, that values are the
 * plain net's, and that they are where blobs are asked for and shapes change. */
#include "infer/pair.h"
#include "infer/session.h"

#define SLICE(name, from, a, b) \
  "layer { name: '" name "' type: 'Slice' bottom: '" from "' top: '" a "' top: '" b "' "
#define HALVES(name, from, a, b) SLICE(name, from, a, b) "}"
#define RELU(name, of) "layer { name: '" name "' type: 'ReLU' bottom: '" of "' top: '" of "' }"

/* One half goes on to a Concat, the other one to convolutions. */
static const char shuffle[] =
    DATA(16) CONV("x", "data", "x", 32, 3, 1) RELU("rx", "x") HALVES("s", "x", "a", "b")
        CONV("c", "b", "c", 16, 1, 0) RELU("rc", "c") CONV("d", "c", "d", 16, 3, 1)
    "layer { name: 'ad' type: 'Concat' bottom: 'a' bottom: 'd' top: 'ad' }"
    "layer { name: 'y' type: 'ShuffleChannel' bottom: 'ad' top: 'y' "
    "shuffle_channel_param { group: 2 } }" HALVES("t", "y", "e", "f") CONV("g", "f", "g", 16, 1, 0)
    "layer { name: 'z' type: 'Concat' bottom: 'e' bottom: 'g' top: 'z' }"
    CONV("o", "z", "o", 8, 1, 0);

/* Parts of a part. */
static const char nested[] =
    DATA(16) CONV("x", "data", "x", 64, 3, 1) HALVES("s", "x", "a", "b")
        HALVES("t", "b", "c", "d") CONV("e", "a", "e", 16, 3, 1) CONV("f", "c", "f", 16, 3, 1)
    "layer { name: 'y' type: 'Eltwise' bottom: 'f' bottom: 'd' top: 'y' "
    "eltwise_param { operation: MAX } }"
    "layer { name: 'z' type: 'Eltwise' bottom: 'y' bottom: 'e' top: 'z' }";

/* Parts of a part that has another shape by then: samples and channels lie elsewhere. */
#define RESHAPE(name, from, to, dims)                                     \
  "layer { name: '" name "' type: 'Reshape' bottom: '" from "' top: '" to \
  "' reshape_param { shape { " dims " } } }"

#define POWER(name, from)                                                 \
  "layer { name: '" name "' type: 'Power' bottom: '" from "' top: '" name \
  "' power_param { scale: 2 } }"

static const char reshaped[] =
    DATA(16) SLICE("s", "data", "a", "b") "slice_param { slice_point: 4 } }" RESHAPE(
        "r", "a", "c", "dim: 0 dim: 8 dim: 9 dim: 2")
        SLICE("t", "c", "d", "e") "slice_param { slice_point: 6 } }" POWER("f", "b") POWER("g", "d")
            POWER("h", "e");

/* A part in another shape, read by a convolution of single positions. */
static const char reshaped_points[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 1 dim: 3 dim: 8 "
    "dim: 8 "
    "} } }" CONV("x", "data", "x", 64, 3, 1) HALVES("s", "x", "a", "b")
        RESHAPE("r", "a", "c", "dim: 0 dim: 64 dim: 8 dim: 4") CONV("p", "c", "p", 64, 1, 0)
            POWER("q", "b");

/* A top is overwritten when nobody needs the bottom any more. */
static const char overwritten[] = DATA(16) CONV("x", "data", "x", 32, 3, 1)
    HALVES("s", "x", "a", "b") RELU("ra", "a") CONV("c", "a", "c", 8, 3, 1)
        CONV("d", "b", "d", 8, 3,
             1) "layer { name: 'y' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 'y' }";

/* A top is overwritten, and the bottom is read later. */
static const char read_later[] = DATA(16) CONV("x", "data", "x", 32, 3, 1) HALVES(
    "s", "x", "a", "b") RELU("ra", "a") CONV("c", "a", "c", 8, 1, 0) CONV("d", "b", "d", 8, 1, 0)
    CONV("e", "x", "e", 8, 1,
         0) "layer { name: 'y' type: 'Eltwise' bottom: 'c' bottom: 'd' bottom: 'e' top: 'y' }";

/* The bottom is overwritten, under another name, and the tops are read later. */
static const char written_later[] = DATA(16) CONV("x", "data", "x", 32, 3, 1)
    HALVES("s", "x", "a", "b") "layer { name: 'f' type: 'Flatten' bottom: 'x' top: 'f' }" RELU(
        "rf", "f") CONV("c", "a", "c", 8, 1, 0) CONV("d", "b", "d", 8, 1, 0)
    "layer { name: 'y' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 'y' }"
    "layer { name: 'z' type: 'Reduction' bottom: 'f' top: 'z' reduction_param { axis: 1 } }";

/* Samples of an input and of what was made of them; those of a Concat. */
static const char samples[] =
    "layer { name: 'data' type: 'Input' top: 'data' input_param { shape { dim: 4 dim: 8 dim: 5 "
    "dim: 5 } } }" SLICE("s", "data", "a", "b") "slice_param { axis: 0 } }" CONV("c", "a", "c", 8, 3, 1)
        CONV("d", "b", "d", 8, 3, 1)
    "layer { name: 'y' type: 'Eltwise' bottom: 'c' bottom: 'd' top: 'y' }"
    "layer { name: 'r' type: 'ReLU' bottom: 'y' top: 'y' }" SLICE("t", "y", "e", "f")
    "slice_param { axis: 0 } }" CONV("g", "e", "g", 8, 3, 1)
    "layer { name: 'z' type: 'Concat' bottom: 'g' bottom: 'f' top: 'z' concat_param { axis: 0 } }"
    CONV("o", "z", "o", 8, 1, 0);

/* An input stays as it was given. */
static const char overwritten_input[] = DATA(16) HALVES("s", "data", "a", "b")
    RELU("ra", "a") "layer { name: 'y' type: 'Eltwise' bottom: 'a' bottom: 'b' top: 'y' }";

/* In a pass: how many tops of Slice layers lie in the bottom when the layer has run. */
typedef struct counts {
  int in_place, tops, there;
} counts;

static crema_status count_tops(void *user, crema_net *net, int index) {
  counts *c = user;
  const cr_net_layer *layer = &net->layer[index];
  if (!layer->layer->parts_in_place || strcmp(layer->layer->kind->type, "Slice") != 0) {
    return CREMA_OK;
  }
  ++c->in_place;
  for (int j = 0; j < layer->layer->tops; ++j) {
    cr_format home;
    const cr_tensor *data = layer->top[j]->data;
    ++c->tops;
    c->there += cr_tensor_alias_can_read(data, layer->bottom[0]->data) &&
                cr_tensor_alias_format(data, &home) && cr_format_equal(cr_tensor_head(data), home);
  }
  return CREMA_OK;
}

/* Of a pass that is not the first one. */
static counts count_pass(crema_session *session) {
  counts c = {0};
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session),
                         &(crema_net_hooks){.after_forward = count_tops, .user = &c}));
  ok(crema_session_run(session));
  ok(crema_net_set_hooks(cr_session_net(session), NULL));
  return c;
}

/* Opens the net, whose `slices` Slice layers have two tops each and copy none of them. */
static void open_in_place(pair *p, const char *text, int slices) {
  open_pair(text, p);
  check_equal(p);
  const counts c = count_pass(p->session);
  assert_int_equal(c.in_place, slices);
  assert_int_equal(c.tops, 2 * slices);
  assert_int_equal(c.there, c.tops);
}

TEST(halves_are_read_where_they_lie) {
  pair p;
  open_in_place(&p, shuffle, 2);
  check_batches(&p);
  close_pair(&p);
}

TEST(parts_of_parts_are_read_in_the_outermost) {
  pair p;
  open_in_place(&p, nested, 2);
  check_batches(&p);
  close_pair(&p);
}

/* Whichever layers still lie in place then. */
TEST(parts_of_another_shape_are_read_where_they_lie) {
  static const char *const texts[] = {reshaped, reshaped_points};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; ++i) {
    pair p;
    open_pair(texts[i], &p);
    check_equal(&p);
    check_batches(&p);
    close_pair(&p);
  }
}

TEST(tops_may_be_overwritten) {
  pair p;
  open_in_place(&p, overwritten, 1);
  check_batches(&p);
  close_pair(&p);
}

TEST(samples_are_read_where_they_lie) {
  pair p;
  open_in_place(&p, samples, 2);
  set_batch(&p, 8);
  check_equal(&p);
  set_batch(&p, 12);
  check_equal(&p);
  const counts c = count_pass(p.session);
  assert_int_equal(c.there, 4);
  close_pair(&p);
}

TEST(what_is_overwritten_is_copied) {
  static const char *const texts[] = {read_later, written_later, overwritten_input};
  for (int t = 0; t < 3; ++t) {
    pair p;
    open_pair(texts[t], &p);
    check_equal(&p);
    assert_int_equal(count_pass(p.session).in_place, 0);
    check_batches(&p);
    close_pair(&p);
  }
}

/* Blobs that are asked for are not let go of with the bottom. */
TEST(asked_parts_are_kept) {
  static const char *const texts[] = {shuffle, nested, overwritten, read_later, written_later};
  for (int t = 0; t < 5; ++t) {
    pair p;
    open_pair(texts[t], &p);
    check_equal(&p);
    check_blobs(&p);
    check_batches(&p);
    close_pair(&p);
  }
}

/* Where the processor computes with such numbers, and in floats elsewhere. */
TEST(halves_of_short_numbers_are_read_where_they_lie) {
  crema_model_options options;
  pair p;
  open_pair(shuffle, &p);
  crema_session_destroy(p.session);
  crema_model_destroy(p.model);
  crema_model_options_init(&options);
  options.precision = CREMA_PRECISION_BF16;
  ok(crema_model_load(path_of("net"), path_of("weights.caffemodel"), &options, &p.model));
  ok(crema_session_create(p.model, NULL, &p.session));
  assert_true(output_difference(p.net, p.session) <= 0.02);
  const counts c = count_pass(p.session);
  assert_int_equal(c.in_place, 2);
  assert_int_equal(c.there, 4);
  const crema_net *net = cr_session_net(p.session);
  const int slice = cr_net_find_layer(net, "s");
  const crema_dtype type = strstr(crema_model_explain(p.model), "bf16: Convolution 'x'") != NULL
                               ? CREMA_BF16
                               : CREMA_F32;
  assert_int_equal(cr_tensor_type(net->layer[slice].top[0]->data), type);
  for (int64_t batch = 2; batch <= 3; ++batch) {
    set_batch(&p, batch);
    assert_true(output_difference(p.net, p.session) <= 0.02);
  }
  close_pair(&p);
}

TEST(the_pass_can_be_left_out) {
  pair p;
  open_in_place(&p, nested, 2);
  assert_non_null(
      strstr(crema_model_explain(p.model), "slice: tops of Slice 't' are read in its bottom\n"));
  leave_out(&p, "slice");
  check_equal(&p);
  assert_int_equal(count_pass(p.session).in_place, 0);
  close_pair(&p);
}

int main(void) {
  return run_all_tests(make_folder, remove_folder);
}
