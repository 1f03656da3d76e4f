/* Pairs of devices that copy to each other: the pairing of Caffe (BVLC, P2PSync), without its read
 * past the end of an odd list. */
#include "parallel/tree.h"

#include <stdlib.h>
#include <string.h>

#include "core/fail.h"

enum { MOST_CHILDREN = sizeof((cr_tree_node *)0)->child / sizeof(int) };

/* The devices that have no parent yet, and the pairs made so far. */
typedef struct pairing {
  cr_tree_way_between *way;
  const void *user;
  int *left;
  int lefts;
  cr_tree_pair *pair;
  int pairs;
} pairing;

/* Each remaining device takes the first later device within `worst`, at most one per pass. */
static void pass(pairing *p, cr_tree_way worst) {
  for (int i = 0; i < p->lefts; ++i) {
    int j = i + 1;
    while (j < p->lefts && p->way(p->user, p->left[i], p->left[j]) > worst) ++j;
    if (j == p->lefts) continue;
    p->pair[p->pairs++] = (cr_tree_pair){.parent = p->left[i], .child = p->left[j]};
    --p->lefts;
    memmove(&p->left[j], &p->left[j + 1], (size_t)(p->lefts - j) * sizeof p->left[0]);
  }
}

static crema_status no_devices(int count) {
  return cr_fail(CREMA_E_ARGUMENT, "a tree of %d devices", count);
}

crema_status cr_tree_pair_up(int count, cr_tree_way_between *way, const void *user,
                             cr_tree_pair *pair) {
  pairing p = {.way = way, .user = user, .lefts = count, .pair = pair};
  if (count < 1) return no_devices(count);
  CR_TRY(CR_NEW(p.left, count, "a tree of devices"));
  for (int i = 0; i < count; ++i) p.left[i] = i;
  pair[p.pairs++] = (cr_tree_pair){.parent = -1, .child = 0};
  for (cr_tree_way worst = CR_TREE_BOARD; worst <= CR_TREE_BY_HOST; ++worst) {
    /* As many passes as halve the list down to one device. */
    int passes = 0;
    while (1 << passes < p.lefts) ++passes;
    for (int i = 0; i < passes; ++i) pass(&p, worst);
  }
  free(p.left);
  return CREMA_OK;
}

static bool is_device(int index, int count) {
  return index >= 0 && index < count;
}

static crema_status add_node(const cr_tree_pair *pair, cr_tree_node *node, bool *made) {
  cr_tree_node *parent = pair->parent >= 0 ? &node[pair->parent] : NULL;
  if (parent != NULL && parent->children == MOST_CHILDREN) {
    return cr_fail(CREMA_E_ARGUMENT, "device %d of the tree has more than %d children",
                   pair->parent, (int)MOST_CHILDREN);
  }
  node[pair->child] = (cr_tree_node){.parent = pair->parent};
  if (parent != NULL) parent->child[parent->children++] = pair->child;
  made[pair->child] = true;
  return CREMA_OK;
}

static crema_status check_pairs(const cr_tree_pair *pair, int count) {
  for (int i = 0; i < count; ++i) {
    if (is_device(pair[i].child, count) &&
        (pair[i].parent == -1 || is_device(pair[i].parent, count))) {
      continue;
    }
    return cr_fail(CREMA_E_ARGUMENT, "pair %d:%d of a tree of %d devices", pair[i].parent,
                   pair[i].child, count);
  }
  return CREMA_OK;
}

/* Adds the nodes whose parents exist, in one pass through the pairs. A pair without a parent adds
 * the root, once. */
static crema_status add_nodes(const cr_tree_pair *pair, int count, cr_tree_node *node, bool *made,
                              int *roots) {
  for (int i = 0; i < count; ++i) {
    const bool first = pair[i].parent == -1;
    if (made[pair[i].child] || (!first && !made[pair[i].parent])) continue;
    if (first && ++*roots > 1) {
      return cr_fail(CREMA_E_ARGUMENT, "device %d is a second root of the tree", pair[i].child);
    }
    CR_TRY(add_node(&pair[i], node, made));
  }
  return CREMA_OK;
}

static crema_status build(const cr_tree_pair *pair, int count, cr_tree_node *node, bool *made) {
  int roots = 0;
  for (int pass = 0; pass < count; ++pass) CR_TRY(add_nodes(pair, count, node, made, &roots));
  for (int i = 0; i < count; ++i) {
    if (made[i]) continue;
    return cr_fail(CREMA_E_ARGUMENT, "device %d cannot be reached from the root of the tree", i);
  }
  return CREMA_OK;
}

crema_status cr_tree_build(const cr_tree_pair *pair, int count, cr_tree_node *node) {
  if (count < 1) return no_devices(count);
  CR_TRY(check_pairs(pair, count));
  bool *made = NULL;
  CR_TRY(CR_NEW(made, count, "a tree of devices"));
  crema_status status = build(pair, count, node, made);
  free(made);
  return status;
}
