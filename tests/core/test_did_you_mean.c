/* Suggestions for mistyped names. */
#include <string.h>

#include "check.h"
#include "core/did_you_mean.h"

typedef struct question {
  const char *word, *answer; /* NULL: nothing is near enough */
} question;

static void check(const question *table, size_t count, const char *const *names, size_t known) {
  for (size_t i = 0; i < count; ++i) {
    const char *found = cr_did_you_mean(table[i].word, names, known);
    if (table[i].answer == NULL) {
      if (found != NULL) fail_msg("%s: suggests %s", table[i].word, found);
    } else if (found == NULL || strcmp(found, table[i].answer) != 0) {
      fail_msg("%s: suggests %s", table[i].word, found == NULL ? "nothing" : found);
    }
  }
}

TEST(test_one_slip_is_found) {
  static const char *const names[] = {"Convolution", "Pooling", "InnerProduct", "Input", "LRN"};
  static const question table[] = {
      {"Convolutoin", "Convolution"},  /* two letters exchanged */
      {"Convoluton", "Convolution"},   /* one left out */
      {"Convoluttion", "Convolution"}, /* one too many */
      {"onvolution", "Convolution"},   /* the first missing */
      {"Convolutio", "Convolution"},   /* the last missing */
      {"Konvolution", "Convolution"},  /* another first letter */
      {"Kumvolution", "Convolution"},  /* the first three wrong, of eleven */
      {"convolution", "Convolution"},  /* case counts half */
      {"POOLING", "Pooling"},          /* three costs of a half each, in seven letters */
      {"Inptu", "Input"},
      {"lrn", "LRN"},
      {"Softmax", NULL},
      {"", NULL},
      {"Xyzzy", NULL},
  };
  check(table, sizeof table / sizeof *table, names, sizeof names / sizeof *names);
}

/* The nearest one wins, and of equals the first. */
TEST(test_the_nearest_wins) {
  static const char *const names[] = {"abcdef", "abcdxy", "abcdxf"};
  static const question table[] = {
      {"abcdxz", "abcdxy"}, {"abcdef", "abcdef"}, {"abcdzf", "abcdef"}, {"abcdxF", "abcdxf"}};
  check(table, sizeof table / sizeof *table, names, sizeof names / sizeof *names);
}

/* A letter too many or too few costs what another letter does. */
TEST(test_a_letter_more_or_less) {
  static const char *const names[] = {"abcdef", "abcdezf", "uvwxyz", "uvwqz"};
  static const question table[] = {{"abcdeqf", "abcdef"}, {"uvwyz", "uvwxyz"}};
  check(table, sizeof table / sizeof *table, names, sizeof names / sizeof *names);
}

/* What endings behind underscores share says nothing. */
TEST(test_shared_endings_do_not_count) {
  static const char *const names[] = {"lrn_param", "batch_size"};
  static const question table[] = {{"xyz_param", NULL},
                                   {"lrm_param", "lrn_param"},
                                   {"batchsize", "batch_size"},
                                   {"crop_size", NULL}};
  check(table, sizeof table / sizeof *table, names, sizeof names / sizeof *names);
}

/* Names of up to 64 letters are known. */
TEST(test_long_names) {
  enum { LONG = 64 };
  char word[LONG + 2], name[LONG + 2], longer[LONG + 2];
  for (int i = 0; i < LONG + 1; ++i) word[i] = name[i] = longer[i] = (char)('a' + i % 26);
  word[LONG] = name[LONG] = longer[LONG + 1] = '\0';
  word[7] = 'Q';
  const char *const names[] = {name}, *const longer_names[] = {longer};
  assert_ptr_equal(cr_did_you_mean(word, names, 1), name);
  assert_null(cr_did_you_mean(word, longer_names, 1));
  assert_null(cr_did_you_mean(longer, names, 1));
}

int main(void) {
  return run_all_tests(NULL, NULL);
}
