#include "exchange_flags.h"

#include <string.h>

#include "cli.h"

/* The index of `text` among the words, or -1 with the error printed. */
static int find_word(const char *flag, const char *text, const char *const *word, int words,
                     const char *expected) {
  for (int i = 0; i < words; ++i) {
    if (strcmp(text, word[i]) == 0) return i;
  }
  cli_error("-%s: expected %s, found \"%s\"", flag, expected, text);
  return -1;
}

bool cli_read_exchange(const cli_exchange_flags *flags, crema_solver_options *out) {
  static const char *const exchange[] = {[CREMA_EXCHANGE_AUTO] = "auto",
                                         [CREMA_EXCHANGE_TREE] = "tree",
                                         [CREMA_EXCHANGE_REDUCE] = "reduce",
                                         [CREMA_EXCHANGE_NCCL] = "nccl",
                                         [CREMA_EXCHANGE_MPI] = "mpi"};
  static const char *const batch_mode[] = {"per_device", "total"};
  static const char *const order[] = {"fixed", "arrival"};
  const int found[] = {
      find_word("exchange", flags->exchange, exchange, 5, "auto, tree, reduce, nccl or mpi"),
      find_word("batch_mode", flags->batch_mode, batch_mode, 2, "per_device or total"),
      find_word("order", flags->order, order, 2, "fixed or arrival")};
  if (found[0] < 0 || found[1] < 0 || found[2] < 0) return false;
  out->exchange = (crema_exchange)found[0];
  out->total_batch = found[1] == 1;
  out->any_order = found[2] == 1;
  return true;
}
