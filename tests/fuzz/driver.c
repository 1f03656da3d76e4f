/* A short run of a fuzz target without libFuzzer: every seed file as it is, then random mutations
 * of them. driver RUNS SEED PATH...; SEED 0 takes the one in CREMA_TEST_SEED, or else one from the clock. The seed is printed, so
 * that a crash can be repeated. Coverage-guided runs: the fuzz preset. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "core/buffer.h"
#include "core/file.h"
#include "core/rng.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SEED_MAX_BYTES = 1 << 18, GROWTH = 64 };

typedef struct corpus {
  cr_buffer *input;
  size_t count;
} corpus;

static void add_file(corpus *c, const char *path) {
  cr_buffer bytes = {0};
  if (cr_file_read(path, &bytes) != CREMA_OK || bytes.size > SEED_MAX_BYTES) {
    cr_buffer_free(&bytes);
    return;
  }
  cr_buffer *grown = realloc(c->input, (c->count + 1) * sizeof *grown);
  if (grown == NULL) {
    cr_buffer_free(&bytes);
    return;
  }
  c->input = grown;
  c->input[c->count++] = bytes;
}

static void add_path(corpus *c, const char *path) {
  struct stat info;
  if (stat(path, &info) != 0) return;
  if (!S_ISDIR(info.st_mode)) {
    add_file(c, path);
    return;
  }
  struct dirent **entry = NULL;
  int entries = scandir(path, &entry, NULL, alphasort);
  for (int i = 0; i < entries; ++i) {
    char below[4096];
    snprintf(below, sizeof below, "%s/%s", path, entry[i]->d_name);
    if (entry[i]->d_name[0] != '.') add_path(c, below);
    free(entry[i]);
  }
  free(entry);
}

/* Changes a few bytes, cuts, repeats or splices, in place; returns the new size. */
static size_t mutate(uint8_t *data, size_t size, size_t capacity, const corpus *c,
                     cr_mt19937 *rng) {
  uint32_t steps = 1 + cr_mt19937_below(rng, 8);
  for (uint32_t i = 0; i < steps && size > 0; ++i) {
    size_t at = cr_mt19937_below(rng, (uint32_t)size);
    size_t run = 1 + cr_mt19937_below(rng, GROWTH);
    const cr_buffer *other = &c->input[cr_mt19937_below(rng, (uint32_t)c->count)];
    switch (cr_mt19937_below(rng, 6)) {
      case 0: data[at] ^= (uint8_t)(1u << cr_mt19937_below(rng, 8)); break;
      case 1: data[at] = (uint8_t)cr_mt19937_next(rng); break;
      case 2: data[at] = (uint8_t)(cr_mt19937_below(rng, 2) ? 0xff : 0); break;
      case 3: size = at; break;
      case 4:
        if (run > size - at) run = size - at;
        memmove(data + at, data + at + run, size - at - run);
        size -= run;
        break;
      default:
        if (run > other->size) run = other->size;
        if (run == 0 || size + run > capacity) break;
        memmove(data + at + run, data + at, size - at);
        memcpy(data + at, other->data + cr_mt19937_below(rng, (uint32_t)(other->size - run + 1)),
               run);
        size += run;
        break;
    }
  }
  return size;
}

/* The target gets a block of exactly the right size, so that a sanitizer sees each overrun. */
static void run_one(const uint8_t *data, size_t size) {
  uint8_t *copy = malloc(size > 0 ? size : 1);
  if (copy == NULL) return;
  memcpy(copy, data, size);
  LLVMFuzzerTestOneInput(copy, size);
  free(copy);
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "usage: %s RUNS SEED PATH...\n", argv[0]);
    return 2;
  }
  long runs = strtol(argv[1], NULL, 10);
  uint32_t seed = (uint32_t)strtoul(argv[2], NULL, 10);
  const char *fixed = getenv("CREMA_TEST_SEED");
  if (seed == 0 && fixed != NULL) seed = (uint32_t)strtoul(fixed, NULL, 10);
  if (seed == 0) seed = (uint32_t)time(NULL);
  corpus c = {0};
  for (int i = 3; i < argc; ++i) add_path(&c, argv[i]);
  if (c.count == 0) {
    fprintf(stderr, "%s: no seed files\n", argv[0]);
    return 2;
  }
  printf("seed %u, %zu files\n", seed, c.count);
  fflush(stdout);
  cr_mt19937 rng;
  cr_mt19937_seed(&rng, seed);
  size_t capacity = SEED_MAX_BYTES + 8 * GROWTH;
  uint8_t *data = malloc(capacity);
  if (data == NULL) return 2;
  for (size_t i = 0; i < c.count; ++i) run_one((const uint8_t *)c.input[i].data, c.input[i].size);
  for (long i = 0; i < runs; ++i) {
    const cr_buffer *from = &c.input[cr_mt19937_below(&rng, (uint32_t)c.count)];
    if (from->size > 0) memcpy(data, from->data, from->size);
    run_one(data, mutate(data, from->size, capacity, &c, &rng));
  }
  printf("%ld mutations done\n", runs);
  free(data);
  for (size_t i = 0; i < c.count; ++i) cr_buffer_free(&c.input[i]);
  free(c.input);
  return 0;
}
