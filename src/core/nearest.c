#include "core/nearest.h"

#include <ctype.h>
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

const char *cr_nearest(const char *word, const char *const *names, size_t count) {
  size_t length = strlen(word);
  if (length == 0 || length > NAME_MAX_LENGTH) return NULL;
  const char *best = NULL;
  size_t best_cost = 2 * (length / 3 + 1) + 1; /* a third of the word may be wrong */
  for (size_t i = 0; i < count; ++i) {
    if (strlen(names[i]) > NAME_MAX_LENGTH) continue;
    size_t cost = distance(word, names[i]);
    if (cost < best_cost) {
      best_cost = cost;
      best = names[i];
    }
  }
  return best;
}
