/* Passes of a net that its device has captured in graphs (memory/capture.h).
 *
 * The layers up to the last that brings samples in run as they do without graphs. The work of all
 * later layers is captured in two graphs, one for forward and one for backward. A pass that no
 * graph can hold runs layer by layer, and the log says once why. */
#ifndef CR_NET_GRAPHS_H
#define CR_NET_GRAPHS_H

#include "net/net.h"

typedef enum cr_net_direction { CR_FORWARD, CR_BACKWARD, CR_DIRECTIONS } cr_net_direction;

/* For a net whose graph of layers is complete. Errors: CREMA_E_NO_MEMORY. */
crema_status cr_net_graphs_make(crema_net *net) CREMA_MUST_USE;
void cr_net_graphs_free(crema_net *net);

/* Whether a whole pass goes to the functions below. False: it runs as without graphs. */
bool cr_net_graphs_wanted(crema_net *net, cr_net_direction direction);

/* The first layer whose forward work is captured. */
int cr_net_graphs_first(const crema_net *net);

/* Runs a graph instead of the layers that are captured, if one fits (*ran). Otherwise the caller
 * runs these layers and then calls cr_net_graphs_end, also if they fail (`done` false). */
crema_status cr_net_graphs_run(crema_net *net, cr_net_direction direction,
                               bool *ran) CREMA_MUST_USE;
crema_status cr_net_graphs_end(crema_net *net, cr_net_direction direction,
                               bool done) CREMA_MUST_USE;

#endif
