#include "exchange_flags.h"

#include "cli.h"

bool cli_read_exchange(const cli_exchange_flags *flags, crema_solver_options *out) {
  static const char *const exchange[] = {[CREMA_EXCHANGE_AUTO] = "auto",
                                         [CREMA_EXCHANGE_TREE] = "tree",
                                         [CREMA_EXCHANGE_REDUCE] = "reduce",
                                         [CREMA_EXCHANGE_NCCL] = "nccl",
                                         [CREMA_EXCHANGE_MPI] = "mpi"};
  static const char *const batch_mode[] = {"per_device", "total"};
  static const char *const order[] = {"fixed", "arrival"};
  const int found[] = {cli_find_word("-exchange", flags->exchange, exchange, 5),
                       cli_find_word("-batch_mode", flags->batch_mode, batch_mode, 2),
                       cli_find_word("-order", flags->order, order, 2)};
  if (found[0] < 0 || found[1] < 0 || found[2] < 0) return false;
  out->exchange = (crema_exchange)found[0];
  out->total_batch = found[1] == 1;
  out->any_order = found[2] == 1;
  return true;
}
