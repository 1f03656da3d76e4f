/* Layers by name. */
#include "net/common/net_struct.h"

int cr_net_find_layer(const crema_net *net, const char *name) {
  return cr_name_map_get(&net->layer_index, name);
}

void cr_net_match_start(const crema_net *net, int *cursor) {
  for (int i = 0; i < net->layers; ++i) cursor[i] = i;
}

int cr_net_match(const crema_net *net, const char *name, int *cursor) {
  int first = cr_net_find_layer(net, name);
  if (first < 0 || cursor[first] < 0) return -1;
  int found = cursor[first];
  cursor[first] = net->layer[found].next_same;
  return found;
}
