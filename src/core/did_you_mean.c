#include "core/did_you_mean.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 64 };

/* Costs are doubled so that a difference in case can count half. */
static size_t substitution(char a, char b) {
  if (a == b) return 0;
  return tolower((unsigned char)a) == tolower((unsigned char)b) ? 1 : 2;
}

static size_t least(size_t a, size_t b, size_t c) {
  size_t m = a < b ? a : b;
  return m < c ? m : c;
}

/* Levenshtein distance over two rows, in halves. */
static size_t distance(const char *a, const char *b) {
  size_t n = strlen(b);
  size_t row[NAME_MAX_LENGTH + 1];
  for (size_t j = 0; j <= n; ++j) row[j] = 2 * j;
  for (size_t i = 1; a[i - 1] != '\0'; ++i) {
    size_t diagonal = row[0];
    row[0] = 2 * i;
    for (size_t j = 1; j <= n; ++j) {
      size_t above = row[j];
      row[j] = least(above + 2, row[j - 1] + 2, diagonal + substitution(a[i - 1], b[j - 1]));
      diagonal = above;
    }
  }
  return row[n];
}

/* The length of `word` without the endings after underscores that `name` has as well: that
 * "bn_param" and "lrn_param" end alike says nothing about whether one is a misspelling of the
 * other. */
static size_t own_length(const char *word, const char *name) {
  size_t own = strlen(word), i = own, j = strlen(name);
  while (i > 0 && j > 0 && word[i - 1] == name[j - 1]) {
    --i;
    --j;
    if (word[i] == '_') own = i;
  }
  if (j == 0 && i > 0 && word[i - 1] == '_') own = i - 1;
  return own;
}

const char *cr_did_you_mean(const char *word, const char *const *names, size_t count) {
  size_t length = strlen(word);
  if (length == 0 || length > NAME_MAX_LENGTH) return NULL;
  const char *best = NULL;
  size_t best_cost = SIZE_MAX;
  for (size_t i = 0; i < count; ++i) {
    if (strlen(names[i]) > NAME_MAX_LENGTH) continue;
    size_t cost = distance(word, names[i]);
    /* A third of the word's own part may be wrong. */
    if (cost < best_cost && cost <= 2 * (own_length(word, names[i]) / 3 + 1)) {
      best_cost = cost;
      best = names[i];
    }
  }
  return best;
}
