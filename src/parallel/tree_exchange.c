/* The exchange along a tree of devices (S3-13 to S3-22): weights are copied down it, gradients are
 * summed up it. */
#include <stdlib.h>

#include "core/fail.h"
#include "parallel/group.h"
#include "parallel/tree.h"

/* A rank's place in the tree. */
typedef struct tree_place {
  cr_tree_node node;
  /* In the order of arrival (CR_EXCHANGE_ARRIVAL; otherwise NULL and unused): the links of children
   * that have handed something over, and, for each child, how often it did that for a later call
   * than the one that the rank was in. */
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

/* ---- making it ---- */

typedef struct device_list {
  crema_device *const *device;
} device_list;

static bool same_board(const void *user, int a, int b) {
  const device_list *list = user;
  const cr_backend *backend = list->device[a]->backend;
  return backend->same_board != NULL && backend->same_board(list->device[a], list->device[b]);
}

static bool reaches(const void *user, int a, int b) {
  const device_list *list = user;
  return crema_device_reaches(list->device[a], list->device[b]);
}

static cr_tree_way way_between(const device_list *list, int parent, int child) {
  if (parent < 0) return CR_TREE_BY_HOST;
  if (!reaches(list, parent, child)) return CR_TREE_BY_HOST;
  return same_board(list, parent, child) ? CR_TREE_BOARD : CR_TREE_DIRECT;
}

crema_status cr_tree_pair_devices(crema_device *const *device, int count, cr_tree_pair *pair,
                                  cr_tree_way *way) {
  const device_list list = {device};
  const cr_tree_links links = {.same_board = same_board, .reaches = reaches, .user = &list};
  CR_TRY(cr_tree_pair_up(count, &links, pair));
  for (int i = 0; i < count && way != NULL; ++i) {
    way[i] = way_between(&list, pair[i].parent, pair[i].child);
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

/* ---- preparing ---- */

static size_t most_bytes(const cr_exchange_span *span, int spans) {
  size_t most = 0;
  for (int i = 0; i < spans; ++i) {
    if (cr_exchange_span_bytes(&span[i]) > most) most = cr_exchange_span_bytes(&span[i]);
  }
  return most;
}

/* The queue that says in which order the children's pieces come. */
static crema_status make_arrivals(cr_group_end *end) {
  tree_place *p = place_of(end);
  if (tree_of(end)->order == CR_EXCHANGE_FIXED || p->node.children == 0) return CREMA_OK;
  /* No child can be further ahead than it has slots. */
  CR_TRY(cr_queue_create((size_t)(p->node.children * end->pieces.most), &p->arrivals));
  for (int i = 0; i < p->node.children; ++i) up(end->group, p->node.child[i])->bell = p->arrivals;
  return CREMA_OK;
}

static crema_status tree_prepare(cr_exchange *base, const cr_exchange_span *span, int spans) {
  cr_group_end *end = cr_group_end_of(base);
  end->pieces = cr_piece_cut_for(most_bytes(span, spans));
  CR_TRY(cr_group_begin_prepare(end, span, spans));
  for (int i = 0; i < spans && place_of(end)->node.children > 0; ++i) {
    CR_TRY(cr_group_need_additions(end, span[i].type, (cr_run){0, span[i].count}));
  }
  CR_TRY(make_arrivals(end));
  return cr_group_end_prepare(end, end->pieces.most);
}

/* ---- down: weights ---- */

/* What a broadcast or a sum knows of itself. */
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

static size_t bytes_of(const tree_call *c, cr_run piece) {
  return (size_t)piece.count * crema_dtype_size(c->span->type);
}

static cr_tag tag_of(const tree_call *c, int64_t index) {
  cr_tag tag = c->tag;
  tag.piece = index;
  return tag;
}

static crema_status accept_piece(const tree_call *c, int64_t index) {
  const cr_run piece = piece_of(c, index);
  if (c->node->parent < 0) return CREMA_OK;
  return cr_link_accept(down(c->end->group, c->end->base.rank), c->end->carrier, tag_of(c, index),
                        cr_exchange_span_at(c->span, piece.begin), bytes_of(c, piece));
}

/* Copies to child number `child` all that this rank has, or else receives it piece by piece and
 * passes each on at once. */
static crema_status copy_down(const tree_call *c, int child, bool receives) {
  cr_link *link = child >= 0 ? down(c->end->group, c->node->child[child]) : NULL;
  crema_devptr offered = {0};
  if (link != NULL) CR_TRY(cr_link_take_offer(link, c->end->carrier, c->tag, &offered));
  for (int64_t i = 0;; ++i) {
    const cr_run piece = piece_of(c, i);
    if (piece.count == 0) return CREMA_OK;
    if (receives) CR_TRY(accept_piece(c, i));
    if (link == NULL) continue;
    const crema_devptr dst = {offered.address +
                              (size_t)piece.begin * crema_dtype_size(c->span->type)};
    CR_TRY(cr_link_put(link, c->end->carrier, tag_of(c, i), dst,
                       cr_exchange_span_at(c->span, piece.begin), bytes_of(c, piece)));
  }
}

static crema_status begin_call(cr_exchange *base, crema_context *context, int span, bool sum,
                               tree_call *out) {
  cr_group_end *end = cr_group_end_of(base);
  *out = (tree_call){
      .end = end, .context = context, .span = &end->span[span], .node = &place_of(end)->node};
  return cr_group_begin_call(end, span, sum, &out->tag);
}

static crema_status tree_broadcast(cr_exchange *base, crema_context *context, int span) {
  tree_call c;
  CR_TRY(begin_call(base, context, span, false, &c));
  if (base->ranks == 1 || c.span->count == 0) return CREMA_OK;
  if (c.node->parent >= 0) {
    CR_TRY(cr_link_offer(down(c.end->group, base->rank), context, c.tag, c.span->memory));
  }
  CR_TRY(cr_group_to_carrier(c.end, context));
  /* The last child first: it has the most descendants. */
  CR_TRY(copy_down(&c, c.node->children - 1, true));
  for (int i = c.node->children - 2; i >= 0; --i) CR_TRY(copy_down(&c, i, false));
  return cr_group_from_carrier(c.end, context);
}

/* ---- up: gradients ---- */

static crema_status add_piece(const tree_call *c, int child, int64_t index) {
  cr_link *link = up(c->end->group, c->node->child[child]);
  const cr_run piece = piece_of(c, index);
  cr_link_slot *slot = NULL;
  CR_TRY(cr_link_receive(link, c->context, tag_of(c, index), bytes_of(c, piece), &slot));
  return cr_group_add(c->end, c->context, link, slot, c->span, piece);
}

/* To the parent, what all descendants have contributed to. */
static crema_status send_up(const tree_call *c, int64_t index) {
  const cr_run piece = piece_of(c, index);
  if (c->node->parent < 0) return CREMA_OK;
  /* Without children nothing happens between one piece and the next. */
  if (index == 0 || c->node->children > 0) CR_TRY(cr_group_to_carrier(c->end, c->context));
  return cr_link_send(up(c->end->group, c->end->base.rank), c->end->carrier, tag_of(c, index),
                      cr_exchange_span_at(c->span, piece.begin), bytes_of(c, piece));
}

static crema_status sum_in_order(const tree_call *c) {
  for (int64_t i = 0; piece_of(c, i).count > 0; ++i) {
    for (int k = 0; k < c->node->children; ++k) CR_TRY(add_piece(c, k, i));
    CR_TRY(send_up(c, i));
  }
  return CREMA_OK;
}

/* The child that is the next to hand over one of the pieces of this call, of which `arrived` have
 * come already. */
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

static int64_t least(const int64_t *value, int count) {
  int64_t result = value[0];
  for (int i = 1; i < count; ++i) result = value[i] < result ? value[i] : result;
  return result;
}

static crema_status sum_by_arrival(const tree_call *c) {
  int64_t arrived[sizeof c->node->child / sizeof(int)] = {0}, pieces = 0, sent = 0;
  while (piece_of(c, pieces).count > 0) ++pieces;
  while (sent < pieces) {
    int child = 0;
    CR_TRY(next_arrival(c, arrived, pieces, &child));
    CR_TRY(add_piece(c, child, arrived[child]++));
    for (; sent < least(arrived, c->node->children); ++sent) CR_TRY(send_up(c, sent));
  }
  return CREMA_OK;
}

static crema_status tree_sum(cr_exchange *base, crema_context *context, int span) {
  tree_call c;
  CR_TRY(begin_call(base, context, span, true, &c));
  if (base->ranks == 1 || c.span->count == 0) return CREMA_OK;
  CR_TRY(place_of(c.end)->arrivals != NULL ? sum_by_arrival(&c) : sum_in_order(&c));
  return c.node->parent < 0 ? CREMA_OK : cr_group_from_carrier(c.end, context);
}

/* ---- the class ---- */

static const cr_exchange_class tree_class = {.way = CREMA_EXCHANGE_TREE,
                                             .root_only = true,
                                             .prepare = tree_prepare,
                                             .broadcast = tree_broadcast,
                                             .sum = tree_sum,
                                             .finish = cr_group_finish,
                                             .fail = cr_group_fail,
                                             .destroy = cr_group_destroy_end};

crema_status cr_exchange_create_tree(crema_device *const *device, int ranks,
                                     cr_exchange_order order, cr_exchange **end) {
  cr_group *group = NULL;
  CR_TRY(cr_group_create(device, ranks, &tree_class, 2 * (ranks - 1), end, &group));
  crema_status status = set_up(group, device, order);
  if (status != CREMA_OK) cr_group_give_up(end, ranks);
  return status;
}
