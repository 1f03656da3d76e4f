/* The exchange along a tree of devices (S3-13 to S3-22): weights are copied down it, gradients are
 * summed up it. */
#include <stdlib.h>

#include "core/fail.h"
#include "parallel/group.h"
#include "parallel/tree.h"

/* A rank's place in the tree. */
typedef struct tree_place {
  cr_tree_node node;
  /* For CR_EXCHANGE_ARRIVAL, else NULL and unused: the children's links in the order in which they
   * deliver pieces, and the number of pieces that each child has delivered for later calls. */
  cr_queue *arrivals;
  int64_t early[sizeof((cr_tree_node *)0)->child / sizeof(int)];
} tree_place;

typedef struct tree {
  cr_exchange_order order;
  tree_place *place;
} tree;

/* The links of a rank to and from its parent. */
static cr_link *up(const cr_group *group, int rank) {
  return &group->link[2 * (rank - 1)];
}

static cr_link *down(const cr_group *group, int rank) {
  return &group->link[2 * (rank - 1) + 1];
}

static const tree *tree_of(const cr_group_end *end) {
  return end->group->class_data;
}

static tree_place *place_of(const cr_group_end *end) {
  return &tree_of(end)->place[end->base.rank];
}

static cr_tree_way way_between(const void *user, int a, int b) {
  crema_device *const *device = user;
  const cr_backend *backend = device[a]->backend;
  if (backend->same_board != NULL && backend->same_board(device[a], device[b])) {
    return CR_TREE_BOARD;
  }
  return crema_device_reaches(device[a], device[b]) ? CR_TREE_DIRECT : CR_TREE_BY_HOST;
}

crema_status cr_tree_pair_devices(crema_device *const *device, int count, cr_tree_pair *pair,
                                  cr_tree_way *way) {
  CR_TRY(cr_tree_pair_up(count, way_between, device, pair));
  for (int i = 0; i < count && way != NULL; ++i) {
    const int parent = pair[i].parent, child = pair[i].child;
    const bool reaches = parent >= 0 && crema_device_reaches(device[parent], device[child]);
    way[i] = reaches ? way_between(device, parent, child) : CR_TREE_BY_HOST;
  }
  return CREMA_OK;
}

static crema_status make_places(crema_device *const *device, int ranks, tree_place *places) {
  cr_tree_pair *pair = NULL;
  cr_tree_node *node = NULL;
  crema_status status;
  CR_TRY_GOTO(CR_NEW(pair, ranks, "a tree of devices"), done);
  CR_TRY_GOTO(CR_NEW(node, ranks, "a tree of devices"), done);
  CR_TRY_GOTO(cr_tree_pair_devices(device, ranks, pair, NULL), done);
  CR_TRY_GOTO(cr_tree_build(pair, ranks, node), done);
  for (int i = 0; i < ranks; ++i) places[i].node = node[i];
done:
  free(node);
  free(pair);
  return status;
}

static void free_tree(cr_group *group) {
  tree *t = group->class_data;
  if (t == NULL) return;
  for (int i = 0; t->place != NULL && i < group->ranks; ++i) {
    cr_queue_destroy(t->place[i].arrivals);
  }
  free(t->place);
  free(t);
}

static void set_links(cr_group *group, crema_device *const *device, const tree *t) {
  for (int i = 1; i < group->ranks; ++i) {
    const int parent = t->place[i].node.parent;
    *up(group, i) = (cr_link){
        .from = i, .to = parent, .source = device[i], .target = device[parent], .inbox = true};
    *down(group, i) =
        (cr_link){.from = parent, .to = i, .source = device[parent], .target = device[i]};
  }
}

static crema_status set_up(cr_group *group, crema_device *const *device, cr_exchange_order order) {
  tree *t = NULL;
  CR_TRY(CR_NEW(t, 1, "an exchange"));
  t->order = order;
  group->class_data = t;
  group->free_class = free_tree;
  if (group->ranks < 1) return cr_fail(CREMA_E_INTERNAL, "a tree without ranks");
  CR_TRY(CR_NEW(t->place, group->ranks, "an exchange"));
  CR_TRY(make_places(device, group->ranks, t->place));
  set_links(group, device, t);
  return CREMA_OK;
}

/* The queue that lists the children's pieces in the order of their arrival. */
static crema_status make_arrivals(cr_group_end *end) {
  tree_place *p = place_of(end);
  if (tree_of(end)->order == CR_EXCHANGE_FIXED || p->node.children == 0) return CREMA_OK;
  /* A child is ahead by at most its number of slots. */
  CR_TRY(cr_queue_create((size_t)(p->node.children * end->pieces.most), &p->arrivals));
  for (int i = 0; i < p->node.children; ++i) up(end->group, p->node.child[i])->bell = p->arrivals;
  return CREMA_OK;
}

static crema_status tree_prepare(cr_exchange *base, const cr_exchange_span *span, int spans) {
  cr_group_end *end = cr_group_end_of(base);
  size_t most_bytes = 0;
  for (int i = 0; i < spans; ++i) {
    const size_t bytes = (size_t)span[i].count * crema_dtype_size(span[i].type);
    if (bytes > most_bytes) most_bytes = bytes;
  }
  end->pieces = cr_piece_cut_for(most_bytes);
  CR_TRY(cr_group_begin_prepare(end, span, spans));
  for (int i = 0; i < spans && place_of(end)->node.children > 0; ++i) {
    CR_TRY(cr_group_need_additions(end, span[i].type, (cr_run){0, span[i].count}));
  }
  CR_TRY(make_arrivals(end));
  return cr_group_end_prepare(end, end->pieces.most);
}

/* One broadcast or sum. */
typedef struct tree_call {
  cr_group_end *end;
  crema_context *context;
  const cr_exchange_span *span;
  cr_tag tag;
  const cr_tree_node *node;
} tree_call;

static cr_run piece_of(const tree_call *c, int64_t index) {
  return cr_run_piece((cr_run){0, c->span->count}, &c->end->pieces, c->span->type, index);
}

static cr_tag tag_of(const tree_call *c, int64_t index) {
  cr_tag tag = c->tag;
  tag.piece = index;
  return tag;
}

/* Copies all of the span to child number `child`; with `receives`, first receives each piece. */
static crema_status copy_down(const tree_call *c, int child, bool receives) {
  cr_group_end *end = c->end;
  cr_link *link = child >= 0 ? down(end->group, c->node->child[child]) : NULL;
  crema_devptr offered = {0};
  if (link != NULL) CR_TRY(cr_link_take_offer(link, end->carrier, c->tag, &offered));
  for (int64_t i = 0;; ++i) {
    const cr_run piece = piece_of(c, i);
    const size_t bytes = cr_run_bytes(piece, c->span->type);
    const crema_devptr at = cr_exchange_span_at(c->span, piece.begin);
    if (piece.count == 0) return CREMA_OK;
    if (receives && c->node->parent >= 0) {
      CR_TRY(
          cr_link_accept(down(end->group, end->base.rank), end->carrier, tag_of(c, i), at, bytes));
    }
    if (link == NULL) continue;
    const crema_devptr dst = {offered.address + (at.address - c->span->memory.address)};
    CR_TRY(cr_link_put(link, end->carrier, tag_of(c, i), dst, at, bytes));
  }
}

static crema_status broadcast_down(const tree_call *c) {
  cr_group_end *end = c->end;
  if (c->node->parent >= 0) {
    CR_TRY(cr_link_offer(down(end->group, end->base.rank), c->context, c->tag, c->span->memory));
  }
  CR_TRY(cr_group_to_carrier(end, c->context));
  /* The last child first: it has the most descendants. */
  CR_TRY(copy_down(c, c->node->children - 1, true));
  for (int i = c->node->children - 2; i >= 0; --i) CR_TRY(copy_down(c, i, false));
  return cr_group_from_carrier(end, c->context);
}

static crema_status add_piece(const tree_call *c, int child, int64_t index) {
  cr_link *link = up(c->end->group, c->node->child[child]);
  const cr_run piece = piece_of(c, index);
  cr_link_slot *slot = NULL;
  CR_TRY(cr_link_receive(link, c->context, tag_of(c, index), cr_run_bytes(piece, c->span->type),
                         &slot));
  return cr_group_add(c->end, c->context, link, slot, c->span, piece);
}

/* Sends the sum of this rank and all its descendants to the parent. */
static crema_status send_up(const tree_call *c, int64_t index) {
  const cr_run piece = piece_of(c, index);
  if (c->node->parent < 0) return CREMA_OK;
  /* Without children nothing happens between one piece and the next. */
  if (index == 0 || c->node->children > 0) CR_TRY(cr_group_to_carrier(c->end, c->context));
  return cr_link_send(up(c->end->group, c->end->base.rank), c->end->carrier, tag_of(c, index),
                      cr_exchange_span_at(c->span, piece.begin),
                      cr_run_bytes(piece, c->span->type));
}

/* The child that delivers the next of the call's pieces; arrived[k] pieces of child k have arrived.
 */
static crema_status next_arrival(const tree_call *c, const int64_t *arrived, int64_t pieces,
                                 int *out) {
  tree_place *p = place_of(c->end);
  for (int k = 0; k < p->node.children; ++k) {
    if (p->early[k] == 0 || arrived[k] == pieces) continue;
    --p->early[k];
    *out = k;
    return CREMA_OK;
  }
  for (;;) {
    void *link = NULL;
    int k = 0;
    CR_TRY(cr_queue_pop(p->arrivals, "an exchange waits for the ranks below it", &link));
    while (up(c->end->group, p->node.child[k]) != link) ++k;
    *out = k;
    if (arrived[k] < pieces) return CREMA_OK;
    ++p->early[k];
  }
}

static crema_status sum_by_arrival(const tree_call *c) {
  int64_t arrived[sizeof c->node->child / sizeof(int)] = {0}, pieces = 0, sent = 0;
  while (piece_of(c, pieces).count > 0) ++pieces;
  while (sent < pieces) {
    int child = 0;
    CR_TRY(next_arrival(c, arrived, pieces, &child));
    CR_TRY(add_piece(c, child, arrived[child]++));
    int64_t complete = arrived[0];
    for (int k = 1; k < c->node->children; ++k) {
      complete = arrived[k] < complete ? arrived[k] : complete;
    }
    for (; sent < complete; ++sent) CR_TRY(send_up(c, sent));
  }
  return CREMA_OK;
}

static crema_status sum_up(const tree_call *c) {
  if (place_of(c->end)->arrivals != NULL) {
    CR_TRY(sum_by_arrival(c));
  } else {
    for (int64_t i = 0; piece_of(c, i).count > 0; ++i) {
      for (int k = 0; k < c->node->children; ++k) CR_TRY(add_piece(c, k, i));
      CR_TRY(send_up(c, i));
    }
  }
  return c->node->parent < 0 ? CREMA_OK : cr_group_from_carrier(c->end, c->context);
}

static crema_status tree_run(cr_exchange *base, crema_context *context, int span, bool sum) {
  cr_group_end *end = cr_group_end_of(base);
  tree_call c = {
      .end = end, .context = context, .span = &end->span[span], .node = &place_of(end)->node};
  CR_TRY(cr_group_begin_call(end, span, sum, &c.tag));
  if (base->ranks == 1 || c.span->count == 0) return CREMA_OK;
  return sum ? sum_up(&c) : broadcast_down(&c);
}

static const cr_exchange_class tree_class = {.way = CREMA_EXCHANGE_TREE,
                                             .root_only = true,
                                             .prepare = tree_prepare,
                                             .run = tree_run,
                                             .finish = cr_group_finish,
                                             .fail = cr_group_fail,
                                             .destroy = cr_group_destroy_end};

crema_status cr_exchange_create_tree(crema_device *const *device, int ranks,
                                     cr_exchange_order order, cr_exchange **end) {
  cr_group *group = NULL;
  CR_TRY(cr_group_create(device, ranks, &tree_class, 2 * (ranks - 1), end, &group));
  crema_status status = set_up(group, device, order);
  if (status != CREMA_OK) cr_group_drop(end, ranks);
  return status;
}
