#include "core/did_you_mean.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum { NAME_MAX_LENGTH = 64 };

/* Levenshtein distance over two rows, in halves: a difference in case counts half. */
static size_t distance(const char *a, const char *b) {
  size_t n = strlen(b);
  size_t row[NAME_MAX_LENGTH + 1];
  for (size_t j = 0; j <= n; ++j) row[j] = 2 * j;
  for (size_t i = 1; a[i - 1] != '\0'; ++i) {
    size_t diagonal = row[0];
    row[0] = 2 * i;
    for (size_t j = 1; j <= n; ++j) {
      const unsigned char x = (unsigned char)a[i - 1], y = (unsigned char)b[j - 1];
      const size_t change = x == y ? 0 : tolower(x) == tolower(y) ? 1 : 2;
      const size_t above = row[j], shorter = (above < row[j - 1] ? above : row[j - 1]) + 2;
      row[j] = diagonal + change < shorter ? diagonal + change : shorter;
      diagonal = above;
    }
  }
  return row[n];
}

/* The length of `word` without its endings after underscores that `name` shares: "bn_param" is no
 * misspelling of "lrn_param". */
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
