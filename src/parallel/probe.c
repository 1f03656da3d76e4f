#include "parallel/probe.h"

#include <math.h>
#include <stdlib.h>

#include "core/clock.h"
#include "core/fail.h"
#include "device/memory/device_memory.h"
#include "parallel/link.h"

/* Each link transfers one piece, or the number of pieces that an exchange has in flight. The
 * fastest round counts, because other work of the machine slows down the rest. */
enum { ROUNDS = 5, PIECES = 8, SMALL = 4 << 10, PIECE = 1 << 20 };

/* The first round, which also touches memory for the first time, does not count. */
static void keep_fastest(int round, const double *now, double *seconds) {
  for (int i = 0; i < 2; ++i) {
    if (round <= 1 || now[i] < seconds[i]) seconds[i] = now[i];
  }
}

/* One link with its sender and receiver. */
typedef struct route {
  cr_link link;
  crema_context *sender, *receiver;
  crema_devptr source;
} route;

static crema_status open_route(route *r, const cr_probe_way *way) {
  r->link = (cr_link){.to = 1, .source = way->from, .target = way->to, .inbox = true};
  CR_TRY(crema_context_create(way->from, 0, &r->sender));
  CR_TRY(crema_context_create(way->to, 0, &r->receiver));
  CR_TRY(cr_device_alloc(way->from, PIECE, &r->source));
  CR_TRY(way->from->backend->zero(r->sender, r->source, PIECE));
  CR_TRY(crema_context_finish(r->sender));
  return cr_link_open(&r->link, PIECES, PIECE);
}

/* Sends `pieces` pieces over each route. No call waits for another thread: a link has slots for all
 * pieces. */
static crema_status time_pieces(route *r, int routes, int pieces, size_t bytes, double *seconds) {
  const double start = cr_clock_seconds();
  for (int p = 0; p < pieces; ++p) {
    const cr_tag tag = {.call = 1, .piece = p};
    for (int i = 0; i < routes; ++i) {
      CR_TRY(cr_link_send(&r[i].link, r[i].sender, tag, r[i].source, bytes));
    }
  }
  for (int p = 0; p < pieces; ++p) {
    const cr_tag tag = {.call = 1, .piece = p};
    for (int i = 0; i < routes; ++i) {
      cr_link_slot *slot = NULL;
      CR_TRY(cr_link_receive(&r[i].link, r[i].receiver, tag, bytes, &slot));
      CR_TRY(cr_link_release(&r[i].link, r[i].receiver, slot));
    }
  }
  for (int i = 0; i < routes; ++i) CR_TRY(crema_context_finish(r[i].receiver));
  *seconds = cr_clock_seconds() - start;
  return CREMA_OK;
}

static crema_status probe_routes(route *r, const cr_probe_way *way, int ways, cr_speed *out) {
  const double bytes[] = {SMALL, (double)PIECES * PIECE};
  double seconds[2] = {0}, now[2];
  for (int i = 0; i < ways; ++i) CR_TRY(open_route(&r[i], &way[i]));
  for (int round = 0; round < ROUNDS; ++round) {
    CR_TRY(time_pieces(r, ways, 1, SMALL, &now[0]));
    CR_TRY(time_pieces(r, ways, PIECES, PIECE, &now[1]));
    keep_fastest(round, now, seconds);
  }
  *out = cr_cost_fit(1, 1, bytes, seconds);
  return CREMA_OK;
}

crema_status cr_probe_links(const cr_probe_way *way, int ways, cr_speed *out) {
  route *r = NULL;
  CR_TRY(CR_NEW(r, ways, "measuring links"));
  crema_status status = probe_routes(r, way, ways, out);
  for (int i = 0; i < ways && r[i].link.source != NULL; ++i) {
    cr_link_close(&r[i].link);
    cr_device_free(r[i].link.source, r[i].source);
    crema_context_destroy(r[i].receiver);
    crema_context_destroy(r[i].sender);
  }
  free(r);
  return status;
}

static crema_status probe_sums(cr_world *world, cr_exchange *end, crema_context *context,
                               crema_devptr memory, cr_speed *out) {
  const double bytes[] = {SMALL, (double)PIECES * PIECE};
  cr_exchange_span span[2];
  double seconds[2] = {0}, now[2];
  int64_t slowest[2]; /* of all processes, in nanoseconds, as they agree on integers */
  for (int i = 0; i < 2; ++i) {
    span[i] = (cr_exchange_span){memory, (int64_t)bytes[i] / (int64_t)sizeof(float), CREMA_F32};
  }
  CR_TRY(end->device->backend->zero(context, memory, (size_t)bytes[1]));
  CR_TRY(cr_exchange_prepare(end, span, 2));
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < 2; ++i) {
      const double start = cr_clock_seconds();
      CR_TRY(cr_exchange_sum(end, context, i));
      CR_TRY(crema_context_finish(context));
      now[i] = cr_clock_seconds() - start;
    }
    keep_fastest(round, now, seconds);
  }
  for (int i = 0; i < 2; ++i) slowest[i] = llround(seconds[i] * 1e9);
  CR_TRY(cr_world_agree(world, NULL, 0, slowest, 2));
  for (int i = 0; i < 2; ++i) seconds[i] = (double)slowest[i] * 1e-9;
  *out = cr_cost_fit(2.0 * (end->ranks - 1), 1.0 / end->ranks, bytes, seconds);
  return CREMA_OK;
}

crema_status cr_probe_processes(cr_world *world, crema_context *context, cr_speed *out) {
  crema_device *device = context->device;
  cr_exchange *end = NULL;
  crema_devptr memory = {0};
  CR_TRY(cr_exchange_create_mpi(world, device, &end));
  crema_status status = cr_device_alloc(device, (size_t)PIECES * PIECE, &memory);
  if (status == CREMA_OK) {
    status = probe_sums(world, end, context, memory, out);
    /* After a failure work may be queued that uses the memory. */
    const crema_status finished = crema_context_finish(context);
    if (status == CREMA_OK) status = finished;
  }
  cr_device_free(device, memory);
  cr_exchange_destroy(end);
  return status;
}
