/* The tree of devices along which `tree` exchanges: who copies weights to whom, and who sums whose
 * gradients. */
#ifndef CR_PARALLEL_TREE_H
#define CR_PARALLEL_TREE_H

#include "crema/device.h"

/* How a device gets to the memory of another, the best way first. */
typedef enum cr_tree_way { CR_TREE_BOARD, CR_TREE_DIRECT, CR_TREE_BY_HOST } cr_tree_way;

/* The best way from device a to device b, given by their indices in the list of devices. */
typedef cr_tree_way cr_tree_way_between(const void *user, int a, int b);

/* One edge: indices into the list of devices. */
typedef struct cr_tree_pair {
  int parent, child; /* parent -1: the root, device 0 of the list */
} cr_tree_pair;

/* Pairs `count` devices (count >= 1) into pair[0 .. count - 1], the root's first: devices of one
 * board, then devices that reach each other, then the rest (S3-03 to S3-06). Errors:
 * CREMA_E_NO_MEMORY, CREMA_E_ARGUMENT for no devices. */
crema_status cr_tree_pair_up(int count, cr_tree_way_between *way, const void *user,
                             cr_tree_pair *pair) CREMA_MUST_USE;

/* The pairs of these devices; way[i] (may be NULL) is the way of pair i. Errors: as
 * cr_tree_pair_up. */
crema_status cr_tree_pair_devices(crema_device *const *device, int count, cr_tree_pair *pair,
                                  cr_tree_way *way) CREMA_MUST_USE;

/* A node's place in the tree; children are in the order of attachment. */
typedef struct cr_tree_node {
  int parent; /* -1: the root */
  int children;
  int child[16];
} cr_tree_node;

/* Builds node[0 .. count - 1] from pairs in any order (S3-09). Errors: CREMA_E_ARGUMENT for pairs
 * that do not make one tree: the text names the first device that cannot be reached. */
crema_status cr_tree_build(const cr_tree_pair *pair, int count, cr_tree_node *node) CREMA_MUST_USE;

#endif
