/* The tree of devices: which pairs are made for which links, and which tree pairs make. */
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "core/rng.h"
#include "parallel/tree.h"

enum { MOST = 16 };

/* Boards and reach of up to 16 devices. */
typedef struct topology {
  int board[MOST];
  bool reach[MOST][MOST];
} topology;

static cr_tree_way way_between(const void *user, int a, int b) {
  const topology *t = user;
  if (t->board[a] == t->board[b]) return CR_TREE_BOARD;
  return t->reach[a][b] ? CR_TREE_DIRECT : CR_TREE_BY_HOST;
}

/* Devices on boards of `board` that reach each other within islands of `island`. */
static topology islands(int board, int island) {
  topology t;
  for (int a = 0; a < MOST; ++a) {
    t.board[a] = a / board;
    for (int b = 0; b < MOST; ++b) t.reach[a][b] = a != b && a / island == b / island;
  }
  return t;
}

static void pairs_text(const topology *t, int count, const int *name, char *text, size_t size) {
  cr_tree_pair pair[MOST];
  ok(cr_tree_pair_up(count, way_between, t, pair));
  size_t used = 0;
  for (int i = 0; i < count; ++i) {
    int parent = pair[i].parent, child = pair[i].child;
    if (name != NULL && parent >= 0) parent = name[parent];
    if (name != NULL) child = name[child];
    used += (size_t)snprintf(text + used, size - used, "%s%d:%d", i > 0 ? "," : "", parent, child);
  }
}

/* The trees that Caffe makes (S3-08). */
TEST(s3_03_s3_04_s3_05_s3_06_s3_08_golden_trees) {
  static const char eight[] = "-1:0,0:1,2:3,4:5,6:7,0:2,4:6,0:4";
  static const char sixteen[] =
      "-1:0,0:1,2:3,4:5,6:7,8:9,10:11,12:13,14:15,0:2,4:6,8:10,12:14,0:4,8:12,0:8";
  static const int given[] = {2, 0, 1, 3};
  const struct {
    int count, board, island;
    const int *name;
    const char *pairs;
  } rows[] = {
      {1, 1, 16, NULL, "-1:0"},
      {2, 1, 16, NULL, "-1:0,0:1"},
      {3, 1, 16, NULL, "-1:0,0:1,0:2"},
      {4, 1, 16, NULL, "-1:0,0:1,2:3,0:2"},
      {5, 1, 16, NULL, "-1:0,0:1,2:3,0:2,0:4"},
      {8, 1, 16, NULL, eight},
      {8, 1, 4, NULL, eight},
      {8, 2, 4, NULL, eight},
      {4, 1, 16, given, "-1:2,2:0,1:3,2:1"},
      /* Without direct access neighbours are paired; an odd one waits for the next pass (S3-06). */
      {2, 1, 1, NULL, "-1:0,0:1"},
      {3, 1, 1, NULL, "-1:0,0:1,0:2"},
      {5, 1, 1, NULL, "-1:0,0:1,2:3,0:2,0:4"},
      {6, 1, 1, NULL, "-1:0,0:1,2:3,4:5,0:2,0:4"},
      {7, 1, 1, NULL, "-1:0,0:1,2:3,4:5,0:2,4:6,0:4"},
      /* A device that reaches nobody is left to the neighbours. */
      {5, 1, 4, NULL, "-1:0,0:1,2:3,0:2,0:4"},
      /* Boards of three: all three are paired before any other board is looked at. */
      {6, 3, 16, NULL, "-1:0,0:1,3:4,0:2,3:5,0:3"},
      {9, 1, 16, NULL, "-1:0,0:1,2:3,4:5,6:7,0:2,4:6,0:4,0:8"},
      {11, 1, 1, NULL, "-1:0,0:1,2:3,4:5,6:7,8:9,0:2,4:6,8:10,0:4,0:8"},
      {12, 3, 6, NULL, "-1:0,0:1,3:4,6:7,9:10,0:2,3:5,6:8,9:11,0:3,6:9,0:6"},
      {13, 1, 5, NULL, "-1:0,0:1,2:3,5:6,7:8,10:11,0:2,5:7,10:12,0:4,5:9,0:5,0:10"},
      {15, 2, 4, NULL, "-1:0,0:1,2:3,4:5,6:7,8:9,10:11,12:13,0:2,4:6,8:10,12:14,0:4,8:12,0:8"},
      {16, 1, 16, NULL, sixteen},
      {16, 1, 4, NULL, sixteen},
      {16, 2, 8, NULL, sixteen},
      {16, 4, 8, NULL, sixteen},
      {16, 1, 1, NULL, sixteen},
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    const topology t = islands(rows[i].board, rows[i].island);
    char text[256];
    pairs_text(&t, rows[i].count, rows[i].name, text, sizeof text);
    assert_string_equal(text, rows[i].pairs);
  }
}

/* Reach has a direction: a parent must reach its child. */
TEST(s3_05_reach_has_a_direction) {
  topology t = islands(1, 1);
  t.reach[0][2] = true;
  t.reach[2][1] = true; /* of no use: 1 comes before 2 */
  char text[64];
  pairs_text(&t, 3, NULL, text, sizeof text);
  assert_string_equal(text, "-1:0,0:2,0:1");
}

static int log2_up(int count) {
  int result = 0;
  while (1 << result < count) ++result;
  return result;
}

static topology random_topology(cr_mt19937 *rng) {
  topology t;
  const uint32_t boards = 1 + cr_mt19937_below(rng, MOST), share = cr_mt19937_below(rng, 5);
  for (int a = 0; a < MOST; ++a) {
    t.board[a] = (int)cr_mt19937_below(rng, boards);
    for (int b = 0; b < MOST; ++b) t.reach[a][b] = a != b && cr_mt19937_below(rng, 4) < share;
  }
  return t;
}

static void check_tree(const cr_tree_pair *pair, int count) {
  bool is_child[MOST] = {false};
  cr_tree_node node[MOST];
  assert_int_equal(pair[0].parent, -1);
  assert_int_equal(pair[0].child, 0);
  for (int i = 0; i < count; ++i) {
    assert_in_range(pair[i].child, 0, count - 1);
    assert_true(pair[i].parent != pair[i].child);
    assert_false(is_child[pair[i].child]);
    is_child[pair[i].child] = true;
  }
  ok(cr_tree_build(pair, count, node));
  for (int i = 0; i < count; ++i) {
    int depth = 0;
    for (int at = i; node[at].parent >= 0; at = node[at].parent) ++depth;
    assert_in_range(depth, 0, 3 * log2_up(count)); /* in each of three phases log2 */
  }
}

/* S3-07. */
TEST(s3_07_random_topologies_give_trees) {
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 12);
  for (int round = 0; round < 2000; ++round) {
    const int count = 1 + (int)cr_mt19937_below(&rng, MOST);
    const topology t = random_topology(&rng);
    cr_tree_pair pair[MOST];
    ok(cr_tree_pair_up(count, way_between, &t, pair));
    check_tree(pair, count);
  }
}

/* In any order pairs make the same tree; only the order of children is that of the pairs. */
TEST(s3_09_pairs_in_any_order_give_one_tree) {
  const topology t = islands(2, 4);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, 3);
  cr_tree_pair pair[MOST];
  cr_tree_node sorted[MOST], node[MOST];
  ok(cr_tree_pair_up(MOST, way_between, &t, pair));
  ok(cr_tree_build(pair, MOST, sorted));
  assert_int_equal(sorted[0].children, 4);
  assert_int_equal(sorted[0].child[0], 1);
  assert_int_equal(sorted[0].child[1], 2);
  for (int round = 0; round < 200; ++round) {
    for (int i = MOST - 1; i > 0; --i) {
      const int j = (int)cr_mt19937_below(&rng, (uint32_t)(i + 1));
      const cr_tree_pair other = pair[i];
      pair[i] = pair[j];
      pair[j] = other;
    }
    ok(cr_tree_build(pair, MOST, node));
    for (int i = 0; i < MOST; ++i) {
      assert_int_equal(node[i].parent, sorted[i].parent);
      assert_int_equal(node[i].children, sorted[i].children);
      for (int c = 0; c < node[i].children; ++c) {
        assert_int_equal(node[node[i].child[c]].parent, i);
      }
    }
  }
}

TEST(s3_09_what_is_no_tree_is_refused) {
  cr_tree_node node[MOST];
  const cr_tree_pair circle[] = {{-1, 0}, {2, 1}, {1, 2}, {0, 3}};
  assert_fails(cr_tree_build(circle, 4, node), CREMA_E_ARGUMENT, "device 1 cannot be reached");
  const cr_tree_pair rootless[] = {{1, 0}, {0, 1}};
  assert_fails(cr_tree_build(rootless, 2, node), CREMA_E_ARGUMENT, "device 0 cannot be reached");
  const cr_tree_pair two[] = {{-1, 0}, {-1, 1}};
  assert_fails(cr_tree_build(two, 2, node), CREMA_E_ARGUMENT, "device 1 is a second root");
  const cr_tree_pair twice[] = {{-1, 0}, {0, 1}, {0, 1}};
  assert_fails(cr_tree_build(twice, 3, node), CREMA_E_ARGUMENT, "device 2 cannot be reached");
  const cr_tree_pair beyond[] = {{-1, 0}, {0, 2}};
  assert_fails(cr_tree_build(beyond, 2, node), CREMA_E_ARGUMENT, "pair 0:2 of a tree of 2");
  const cr_tree_pair below[] = {{-1, 0}, {-2, 1}};
  assert_fails(cr_tree_build(below, 2, node), CREMA_E_ARGUMENT, "pair -2:1");
  cr_tree_pair star[18] = {{-1, 0}};
  cr_tree_node many[18];
  for (int i = 1; i < 18; ++i) star[i] = (cr_tree_pair){0, i};
  assert_fails(cr_tree_build(star, 18, many), CREMA_E_ARGUMENT, "more than 16 children");
  ok(cr_tree_build(star, 17, many));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(s3_03_s3_04_s3_05_s3_06_s3_08_golden_trees),
                                     cmocka_unit_test(s3_05_reach_has_a_direction),
                                     cmocka_unit_test(s3_07_random_topologies_give_trees),
                                     cmocka_unit_test(s3_09_pairs_in_any_order_give_one_tree),
                                     cmocka_unit_test(s3_09_what_is_no_tree_is_refused)};
  return run_each_of(tests, NULL, NULL);
}
