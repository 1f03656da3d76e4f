/* The exchange around a ring: every rank gets the sum.
 *
 * A span is divided into one share per rank. First each share travels once around the ring,
 * starting at the rank of its number, and accumulates the terms of all ranks. Then each complete
 * share travels around a second time and replaces the values of the ranks. Each link carries 2 (N -
 * 1) / N of the span's bytes (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
 * clusters of workstations", 2009). The order of the terms depends only on the share, so the bits
 * are the same on all ranks and in all runs. */
#include "parallel/group.h"

/* In values; full vectors for all types. */
enum { SHARE_ALIGNMENT = 64 };

typedef struct reduce_call {
  cr_group_end *end;
  crema_context *context;
  crema_context *carrier; /* where copies are queued */
  const cr_exchange_span *span;
  cr_tag tag;
  cr_link *next, *before; /* to the next rank, and from the preceding rank */
  crema_devptr place;     /* the address of the next rank's span */
} reduce_call;

/* Share number `number`, any integer, modulo the number of ranks. */
static cr_run share_of(int64_t count, int ranks, int number) {
  const int64_t even = (count + ranks - 1) / ranks;
  const int64_t size = (even + SHARE_ALIGNMENT - 1) / SHARE_ALIGNMENT * SHARE_ALIGNMENT;
  const int64_t first = ((number % ranks) + ranks) % ranks * size;
  const int64_t begin = first < count ? first : count;
  return (cr_run){begin, count - begin < size ? count - begin : size};
}

static cr_run share_piece(const reduce_call *c, int number, int64_t index) {
  const cr_run share = share_of(c->span->count, c->end->base.ranks, number);
  return cr_run_piece(share, &c->end->pieces, c->span->type, index);
}

static crema_devptr at_place(const reduce_call *c, cr_run piece) {
  return (crema_devptr){c->place.address + (size_t)piece.begin * crema_dtype_size(c->span->type)};
}

static crema_status to_carrier(const reduce_call *c) {
  return c->carrier == c->context ? CREMA_OK : cr_group_to_carrier(c->end, c->context);
}

static crema_status from_carrier(const reduce_call *c) {
  return c->carrier == c->context ? CREMA_OK : cr_group_from_carrier(c->end, c->context);
}

/* Both ends of a link number a call's pieces alike. */
static cr_tag tag_of(const reduce_call *c, int step, int64_t index) {
  cr_tag tag = c->tag;
  tag.piece = (int64_t)step << 32 | index;
  return tag;
}

static crema_status reduce_prepare(cr_exchange *base, const cr_exchange_span *span, int spans) {
  cr_group_end *end = cr_group_end_of(base);
  size_t most_bytes = 0;
  for (int i = 0; i < spans; ++i) {
    const size_t bytes = cr_run_bytes(share_of(span[i].count, base->ranks, 0), span[i].type);
    if (bytes > most_bytes) most_bytes = bytes;
  }
  end->pieces = cr_piece_cut_for(most_bytes);
  CR_TRY(cr_group_begin_prepare(end, span, spans));
  for (int i = 0; i < spans && base->ranks > 1; ++i) {
    for (int k = 0; k < base->ranks; ++k) {
      const cr_run share = share_of(span[i].count, base->ranks, k);
      CR_TRY(cr_group_need_additions(end, span[i].type, share));
    }
  }
  /* With slots for less than a share, all ranks could wait for each other, each with a piece to
   * send. Twice that number lets a rank run ahead. */
  return cr_group_end_prepare(end, 2 * end->pieces.most);
}

static crema_status send_piece(const reduce_call *c, int step, int share, int64_t index) {
  const cr_run piece = share_piece(c, share, index);
  return cr_link_send(c->next, c->carrier, tag_of(c, step, index),
                      cr_exchange_span_at(c->span, piece.begin),
                      cr_run_bytes(piece, c->span->type));
}

static crema_status add_piece(const reduce_call *c, int step, int share, int64_t index) {
  const cr_run piece = share_piece(c, share, index);
  cr_link_slot *slot = NULL;
  CR_TRY(cr_link_receive(c->before, c->context, tag_of(c, step, index),
                         cr_run_bytes(piece, c->span->type), &slot));
  return cr_group_add(c->end, c->context, c->before, slot, c->span, piece);
}

/* In step s a rank receives its predecessor's share number rank - s - 1. */
static crema_status gather_terms(const reduce_call *c) {
  const int rank = c->end->base.rank, steps = c->end->base.ranks - 1;
  CR_TRY(to_carrier(c));
  for (int64_t i = 0; share_piece(c, rank, i).count > 0; ++i) CR_TRY(send_piece(c, 0, rank, i));
  for (int s = 0; s < steps; ++s) {
    const int share = rank - s - 1;
    for (int64_t i = 0; share_piece(c, share, i).count > 0; ++i) {
      CR_TRY(add_piece(c, s, share, i));
      CR_TRY(to_carrier(c));
      if (s + 1 < steps) CR_TRY(send_piece(c, s + 1, share, i));
    }
  }
  return CREMA_OK;
}

static crema_status put_piece(const reduce_call *c, int step, int share, int64_t index) {
  const cr_run piece = share_piece(c, share, index);
  return cr_link_put(c->next, c->carrier, tag_of(c, step, index), at_place(c, piece),
                     cr_exchange_span_at(c->span, piece.begin), cr_run_bytes(piece, c->span->type));
}

static crema_status accept_piece(const reduce_call *c, int step, int share, int64_t index) {
  const cr_run piece = share_piece(c, share, index);
  return cr_link_accept(c->before, c->carrier, tag_of(c, step, index),
                        cr_exchange_span_at(c->span, piece.begin),
                        cr_run_bytes(piece, c->span->type));
}

/* Whether `rank` receives sums: all shares but its own, which may be the only non-empty one. */
static bool receives_sums(const reduce_call *c, int rank) {
  const int ranks = c->end->base.ranks;
  return (rank + 1) % ranks != 0 || share_of(c->span->count, ranks, 1).count > 0;
}

static crema_status spread_sums(const reduce_call *c) {
  const int rank = c->end->base.rank, steps = c->end->base.ranks - 1;
  for (int64_t i = 0; share_piece(c, rank + 1, i).count > 0; ++i) {
    CR_TRY(put_piece(c, steps, rank + 1, i));
  }
  for (int s = 0; s < steps; ++s) {
    const int share = rank - s;
    for (int64_t i = 0; share_piece(c, share, i).count > 0; ++i) {
      CR_TRY(accept_piece(c, steps + s, share, i));
      if (s + 1 < steps) CR_TRY(put_piece(c, steps + s + 1, share, i));
    }
  }
  return CREMA_OK;
}

static crema_status sum_round(reduce_call *c) {
  const int rank = c->end->base.rank;
  CR_TRY(gather_terms(c));
  /* Sent values may be overwritten once the carrier has sent them. */
  if (receives_sums(c, rank)) {
    CR_TRY(cr_link_offer(c->before, c->carrier, c->tag, c->span->memory));
  }
  if (receives_sums(c, rank + 1)) {
    CR_TRY(cr_link_take_offer(c->next, c->carrier, c->tag, &c->place));
  }
  CR_TRY(spread_sums(c));
  return from_carrier(c);
}

/* Piece by piece from rank 0 to the last, each to the next. */
static crema_status pass_on(reduce_call *c) {
  const cr_exchange *base = &c->end->base;
  const bool receives = base->rank > 0, sends = base->rank + 1 < base->ranks;
  const cr_run all = {0, c->span->count};
  if (receives) CR_TRY(cr_link_offer(c->before, c->context, c->tag, c->span->memory));
  CR_TRY(to_carrier(c));
  if (sends) CR_TRY(cr_link_take_offer(c->next, c->carrier, c->tag, &c->place));
  for (int64_t i = 0;; ++i) {
    const cr_run piece = cr_run_piece(all, &c->end->pieces, c->span->type, i);
    const crema_devptr at = cr_exchange_span_at(c->span, piece.begin);
    const size_t bytes = cr_run_bytes(piece, c->span->type);
    const cr_tag tag = tag_of(c, 0, i);
    if (piece.count == 0) break;
    if (receives) CR_TRY(cr_link_accept(c->before, c->carrier, tag, at, bytes));
    if (sends) CR_TRY(cr_link_put(c->next, c->carrier, tag, at_place(c, piece), at, bytes));
  }
  return from_carrier(c);
}

static crema_status reduce_run(cr_exchange *base, crema_context *context, int span, bool sum) {
  cr_group_end *end = cr_group_end_of(base);
  cr_link *link = end->group->link;
  reduce_call c = {.end = end,
                   .context = context,
                   .carrier = end->carrier,
                   .span = &end->span[span],
                   .next = &link[base->rank],
                   .before = &link[(base->rank + base->ranks - 1) % base->ranks]};
  /* With one piece per share no copy can overlap an addition: a second stream only costs time. */
  if (sum && share_piece(&c, 0, 1).count == 0) c.carrier = context;
  CR_TRY(cr_group_begin_call(end, span, sum, &c.tag));
  if (base->ranks == 1 || c.span->count == 0) return CREMA_OK;
  return sum ? sum_round(&c) : pass_on(&c);
}

static const cr_exchange_class reduce_class = {.way = CREMA_EXCHANGE_REDUCE,
                                               .root_only = false,
                                               .prepare = reduce_prepare,
                                               .run = reduce_run,
                                               .finish = cr_group_finish,
                                               .fail = cr_group_fail,
                                               .destroy = cr_group_destroy_end};

crema_status cr_exchange_create_reduce(crema_device *const *device, int ranks, cr_exchange **end) {
  cr_group *group = NULL;
  CR_TRY(cr_group_create(device, ranks, &reduce_class, ranks, end, &group));
  for (int i = 0; i < ranks && ranks > 1; ++i) {
    const int next = (i + 1) % ranks;
    group->link[i] = (cr_link){
        .from = i, .to = next, .source = device[i], .target = device[next], .inbox = true};
  }
  if (ranks == 1) group->links = 0;
  return CREMA_OK;
}
