/* The race checker: vector clocks over streams and the host (Mattern, "Virtual time and global
 * states of distributed systems", 1989). Two uses of a range, one of them a write, need an order:
 * the same stream, an event between the streams, or the host having waited in between. */
#include <stdio.h>
#include <string.h>

#include "device/sim/sim_world.h"

static bool overlap(const sim_access *a, uintptr_t low, uintptr_t high) {
  return a->low < high && low < a->high;
}

/* Drops accesses that the host knows to be complete, because later work is ordered after them. */
static void drop_done(sim_world *w) {
  size_t kept = 0;
  for (size_t i = 0; i < w->accesses; ++i) {
    const sim_access *a = &w->access[i];
    if (w->host.done[a->stream] < a->number) w->access[kept++] = *a;
  }
  w->accesses = kept;
}

void cr_sim_report_race(const char *what, uintptr_t address) {
  sim_world *w = &cr_sim_world;
  ++w->races;
  snprintf(w->race_text, sizeof w->race_text, "%s at %#zx", what, (size_t)address);
}

void cr_sim_note_access(sim_stream *stream, uintptr_t low, size_t bytes, bool write, bool host) {
  sim_world *w = &cr_sim_world;
  if (!w->options.check_races || bytes == 0 || stream->index >= SIM_CLOCKS) return;
  drop_done(w);
  for (size_t i = 0; i < w->accesses; ++i) {
    const sim_access *a = &w->access[i];
    if (a->host != host || !overlap(a, low, low + bytes) || !(write || a->write)) continue;
    if (a->stream == stream->index || stream->clock.done[a->stream] >= a->number) continue;
    cr_sim_report_race(write ? "a write meets an unordered use by another stream"
                             : "a read meets an unordered write by another stream",
                       low > a->low ? low : a->low);
  }
  if (w->accesses == SIM_ACCESSES) {
    memmove(&w->access[0], &w->access[1], (SIM_ACCESSES - 1) * sizeof w->access[0]);
    --w->accesses;
  }
  uint64_t number = stream->first + atomic_load(&stream->count);
  w->access[w->accesses++] = (sim_access){.low = low,
                                          .high = low + bytes,
                                          .stream = stream->index,
                                          .number = number,
                                          .write = write,
                                          .host = host};
}

uint64_t cr_sim_checksum(const void *memory, size_t bytes) {
  /* Multiply and add, eight bytes at a time: any single change changes the sum. */
  const unsigned char *p = memory;
  uint64_t sum = bytes;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    sum = sum * 0x9e3779b97f4a7c15u + word;
  }
  for (; bytes > 0; --bytes) sum = sum * 0x9e3779b97f4a7c15u + *p++;
  return sum;
}

bool cr_sim_is_written(uintptr_t low, size_t bytes) {
  sim_world *w = &cr_sim_world;
  drop_done(w);
  for (size_t i = 0; i < w->accesses; ++i) {
    const sim_access *a = &w->access[i];
    if (a->host && a->write && overlap(a, low, low + bytes)) return true;
  }
  return false;
}

/* A use by the host, or a release when `what` says so. With the lock held. */
static void check_host(uintptr_t low, size_t bytes, bool change, bool host, const char *what) {
  sim_world *w = &cr_sim_world;
  if (!w->options.check_races || bytes == 0) return;
  drop_done(w);
  for (size_t i = 0; i < w->accesses; ++i) {
    const sim_access *a = &w->access[i];
    if (a->host == host && overlap(a, low, low + bytes) && (change || a->write)) {
      cr_sim_report_race(what, low > a->low ? low : a->low);
      return;
    }
  }
}

void cr_sim_host_access(const void *memory, size_t bytes, bool change) {
  if (!cr_sim_world.options.check_races) return;
  sim_lock();
  check_host((uintptr_t)memory, bytes, change, true,
             change ? "the host changes memory that a copy in flight uses"
                    : "the host reads memory that a copy in flight writes");
  sim_unlock();
}

void cr_sim_note_release(uintptr_t low, size_t bytes, bool host) {
  check_host(low, bytes, true, host, "memory is released while queued work uses it");
}

size_t cr_sim_races(char *text, size_t size) {
  sim_lock();
  size_t races = cr_sim_world.races;
  if (text != NULL) snprintf(text, size, "%s", cr_sim_world.race_text);
  sim_unlock();
  return races;
}
