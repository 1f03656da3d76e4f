#include "layers/common/layer_ctc_beam.h"

#include <math.h>
#include <string.h>

/* A prefix: the labels from the root to a node. A node has one child per label, so equal prefixes
 * are one node. */
typedef struct node {
  int64_t parent, child, sibling; /* -1: none */
  int64_t label;                  /* -1: the root */
} node;

/* A prefix with the sums over its paths that end in a blank, and in its last label. */
typedef struct kept {
  int64_t node;
  int64_t label; /* -1: the prefix `node` itself, else its child with this label */
  double blank, last, both;
} kept;

typedef struct search {
  const cr_ctc_beam *beam;
  node *node;
  kept *now, *next; /* the kept prefixes, the best first */
  int64_t *stamp;   /* of each class: 1 + the prefix whose child with it is kept as well */
  int64_t nodes, count, next_count;
} search;

size_t cr_ctc_beam_bytes(const cr_ctc_beam *beam, int64_t steps) {
  const size_t width = (size_t)beam->width;
  return ((size_t)steps * width + 1) * sizeof(node) + (2 * width + 2) * sizeof(kept) +
         (size_t)beam->classes * sizeof(int64_t);
}

static double log_add(double a, double b) {
  const double most = a > b ? a : b, least = a > b ? b : a;
  return least == -INFINITY ? most : most + log1p(exp(least - most));
}

/* Keeps `e` if it is among the best. */
static void offer(search *s, const kept *e) {
  int64_t at = s->next_count;
  if (!(e->both > -INFINITY)) return;
  if (at == s->beam->width) {
    if (!(e->both > s->next[at - 1].both)) return;
    --at;
  } else {
    ++s->next_count;
  }
  for (; at > 0 && e->both > s->next[at - 1].both; --at) s->next[at] = s->next[at - 1];
  s->next[at] = *e;
}

/* The sum over the paths of prefix `e` after which label `c` begins anew. */
static double before(const search *s, const kept *e, int64_t c) {
  return s->beam->merge && s->node[e->node].label == c ? e->blank : e->both;
}

/* The same prefix after another step: a blank, its last label, or its parent's extension. */
static void stay(search *s, const kept *e, const double *log_p) {
  const node *self = &s->node[e->node];
  kept same = {.node = e->node, .label = -1, .last = -INFINITY};
  same.blank = e->both + log_p[s->beam->blank];
  if (self->label >= 0) {
    if (s->beam->merge) same.last = e->last + log_p[self->label];
    for (int64_t k = 0; k < s->count; ++k) {
      if (s->now[k].node != self->parent) continue;
      same.last = log_add(same.last, before(s, &s->now[k], self->label) + log_p[self->label]);
    }
  }
  same.both = log_add(same.blank, same.last);
  offer(s, &same);
}

static void extend(search *s, int64_t index, const double *log_p) {
  const kept *e = &s->now[index];
  for (int64_t k = 0; k < s->count; ++k) {
    const node *other = &s->node[s->now[k].node];
    if (other->parent == e->node) s->stamp[other->label] = index + 1;
  }
  for (int64_t c = 0; c < s->beam->classes; ++c) {
    if (c == s->beam->blank || s->stamp[c] == index + 1) continue;
    const double sum = before(s, e, c) + log_p[c];
    const kept longer = {.node = e->node, .label = c, .blank = -INFINITY, .last = sum, .both = sum};
    offer(s, &longer);
  }
}

static int64_t child_of(search *s, int64_t parent, int64_t label) {
  for (int64_t k = s->node[parent].child; k >= 0; k = s->node[k].sibling) {
    if (s->node[k].label == label) return k;
  }
  s->node[s->nodes] =
      (node){.parent = parent, .child = -1, .sibling = s->node[parent].child, .label = label};
  s->node[parent].child = s->nodes;
  return s->nodes++;
}

static void step(search *s, const double *log_p) {
  s->next_count = 0;
  memset(s->stamp, 0, (size_t)s->beam->classes * sizeof *s->stamp);
  for (int64_t k = 0; k < s->count; ++k) stay(s, &s->now[k], log_p);
  for (int64_t k = 0; k < s->count; ++k) extend(s, k, log_p);
  for (int64_t k = 0; k < s->next_count; ++k) {
    kept *e = &s->next[k];
    if (e->label >= 0) e->node = child_of(s, e->node, e->label);
  }
  kept *old = s->now;
  s->now = s->next;
  s->next = old;
  s->count = s->next_count;
}

int64_t cr_ctc_beam_search(const cr_ctc_beam *beam, const double *log_p, int64_t steps,
                           void *memory, int32_t *to, double *log_sum) {
  search s = {.beam = beam, .node = memory, .nodes = 1, .count = 1};
  int64_t length = 0;
  s.now = (kept *)(void *)(s.node + steps * beam->width + 1);
  s.next = s.now + beam->width + 1;
  s.stamp = (int64_t *)(void *)(s.next + beam->width + 1);
  s.node[0] = (node){.parent = -1, .child = -1, .sibling = -1, .label = -1};
  s.now[0] = (kept){.node = 0, .label = -1, .blank = 0, .last = -INFINITY, .both = 0};
  for (int64_t t = 0; t < steps && s.count > 0; ++t) step(&s, log_p + t * beam->classes);
  *log_sum = s.count > 0 ? s.now[0].both : -INFINITY;
  if (s.count == 0) return 0;
  for (int64_t k = s.now[0].node; k > 0; k = s.node[k].parent) ++length;
  int64_t at = length;
  for (int64_t k = s.now[0].node; k > 0; k = s.node[k].parent) to[--at] = (int32_t)s.node[k].label;
  return length;
}
